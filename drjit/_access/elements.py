"""Element access: ``a[i]``, ``a[1:3]``, ``a[mask] = value`` and their like.

Reading or writing one element of a flat array evaluates it. Keys that are slices or integer arrays become gathers and
scatters; a mask key selects where a value is written.
"""

from __future__ import annotations

from typing import Any

from drjit_core import (
    SHAPE,
    Node,
    ReduceMode,
    ReduceOp,
    counter,
    gather,
    invalid,
    literal,
    ops,
    read_element,
    scatter,
    schedule,
    write_element,
)

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.nodes import index_node
from .._base.types import BOOL, UINT32, UINT64, reshape
from .._base.values import plain_integer, plain_scalar
from .._promotion.promote import coerce, refuse_floats, wrap
from .scalars import gather_scalars, scatter_scalars

__all__ = ["flat_get", "flat_set", "index_node", "nested_get", "nested_set", "store"]


def _position(array: Any, key: Any, size: int, method: str) -> int:
    """An integer key as a position that exists."""
    position = key + size if key < 0 else key
    if not 0 <= position < size:
        raise IndexError(f"{array._name}.{method}(): entry {key} is out of bounds (the array is of size {size}).")
    return position  # type: ignore[no-any-return]


def _invalid_key(array: Any, key: Any, method: str, hint: str = "") -> TypeError:
    return TypeError(f"{array._name}.{method}(): invalid key of type '{describe(key)}' specified{hint}.")


def _slice_index(key: slice, size: int) -> Node:
    """The positions of a slice as unsigned integers."""
    start, stop, step = key.indices(size)
    count = len(range(start, stop, step))
    scalar = UINT32 if size <= 1 << 32 else UINT64
    node = counter(count, scalar)
    if count and step != 1:
        node = ops.mul(node, literal(scalar, step, 1, SHAPE, tag=4))
    if count and start:
        node = ops.add(node, literal(scalar, start, 1, SHAPE, tag=5))
    return node


def _read(source: Node, index: Node) -> Node:
    return gather(source, index, _TRUE) if index.size else invalid(source.type)


def store(array: Any, nodes: list[Node]) -> None:
    """Give an array the nodes that hold the results of scatters, and see to it that those run."""
    schedule(nodes)
    array._replace(nodes)


_TRUE = literal(BOOL, True)
_IDENTITY, _AUTO = ReduceOp.Identity.value, ReduceMode.Auto.value


# --- flat arrays -----------------------------------------------------------------------------------------------------


def flat_get(array: Any, key: Any) -> Any:
    """``array[key]`` of a flat array."""
    node = array._n
    position = key if key.__class__ is int else plain_integer(key)
    if position is not None:
        return read_element(node, _position(array, position, node.size, "__getitem__"))
    if key.__class__ is slice:
        if key == slice(None):
            return type(array)(array)
        return wrap(type(array), [_read(node, _slice_index(key, node.size))])
    if isinstance(key, ArrayBase) and not key._depth and key._kind in "iu":
        return wrap(type(array), [_read(node, index_node(key._nodes()[0], node.size))])
    if key.__class__ is tuple and len(key) <= 1:
        return flat_get(array, key[0]) if key else type(array)(array)
    if key.__class__ is tuple:
        raise IndexError(f"{array._name}.__getitem__(): too many indices (the array has one dimension, found "
                         f"{len(key)} indices).")
    hint = "; to select by a mask, see drjit.select()" if isinstance(key, ArrayBase) and key._kind == "b" else ""
    raise _invalid_key(array, key, "__getitem__", hint)


def flat_set(array: Any, key: Any, value: Any) -> None:
    """``array[key] = value`` of a flat array."""
    function = f"{array._name}.__setitem__"
    position = key if key.__class__ is int else plain_integer(key)
    if position is not None:
        position = _position(array, position, array._n.size, "__setitem__")
        element = _element(array, value, function)
        # Written like this because a further holder of the node, such as a local variable, would cost a copy.
        array._n = write_element(array._n, position, element)
        if array._o is not None:
            array._replace([array._n])
        return
    if key.__class__ is tuple and len(key) == 1:
        flat_set(array, key[0], value)
        return
    node = array._n
    is_array = isinstance(key, ArrayBase) and not key._depth
    if not (is_array and key._kind in "biu" or key.__class__ is slice):
        raise _invalid_key(array, key, "__setitem__")
    refuse_floats(array, value, function)
    new = coerce(type(array), value, function)[0]
    try:
        if is_array and key._kind == "b":
            array._replace([ops.select(key._n, new, node)])
            return
        index = index_node(key._n, node.size) if is_array else _slice_index(key, node.size)
        if new.size not in (1, index.size):
            raise SizeError(f"{function}(): cannot assign {new.size} values to {index.size} elements.")
        if not index.size:
            return
        store(array, [scatter(node, new, index, _TRUE, _IDENTITY, _AUTO)])
    except CORE_ERRORS as error:
        raise translate(error, function) from error


def _element(array: Any, value: Any, function: str) -> Any:
    """A Python number that may become an element of an array."""
    scalar = plain_scalar(value)
    kind = array._kind
    fits = scalar is not None and (
        kind == "f" or kind == "b" and scalar.__class__ is bool
        or kind in "iu" and scalar.__class__ is not float and array._low <= scalar <= array._high)
    if not fits:
        shown = f"the value {value!r} of type '{describe(value)}'" if scalar is not None else \
            f"a value of type '{describe(value)}'"
        raise TypeError(f"{function}(): could not initialize element with {shown}.")
    return float(scalar) if kind == "f" else scalar


# --- nested arrays ---------------------------------------------------------------------------------------------------


def nested_get(array: Any, key: Any) -> Any:
    """``array[key]`` of a nested array."""
    position = plain_integer(key)
    if position is not None:
        return array._component(_position(array, position, len(array), "__getitem__"))
    if key.__class__ is tuple:
        if not key:
            return type(array)(array)
        first, rest = key[0], key[1:]
        if not rest:
            return nested_get(array, first)
        if not array._dynamic and len(key) > array._depth:
            raise IndexError(f"{array._name}.__getitem__(): too many indices (the array has {array._depth} dimensions, "
                             f"found {len(key)} indices).")
        if first.__class__ is slice:
            element = plain_integer(rest[0]) if len(rest) == 1 and array._depth == 1 and array._dynamic else None
            if element is not None:  # components of size 1 go with any other
                width = array._width(f"{array._name}.__getitem__")
                at = _position(array, element, width, "__getitem__")
                return array._leaf([read_element(node, at if node.size > 1 else 0)
                                    for node in array._c[first]])
            parts = [array._component(k)[rest if len(rest) > 1 else rest[0]] for k in range(*first.indices(len(array)))]
            return _stack(array, parts)
        return nested_get(array, first)[rest if len(rest) > 1 else rest[0]]
    if key.__class__ is slice:
        positions = range(*key.indices(len(array)))
        if len(positions) == len(array) and positions.step > 0:
            return type(array)(array)
        if not positions and array._depth == 1 and array._size >= 0:
            return wrap(reshape(type(array), (0,)), [])
        parts = [array._component(k) for k in positions]
        if array._special and len(parts) == len(array) and isinstance(parts[0], ArrayBase):
            return wrap(type(array), [node for part in parts for node in part._nodes()])
        return _stack(array, parts)
    if isinstance(key, ArrayBase) and not array._dynamic and array._depth == 1 and key._kind in "iu":
        return gather_scalars(reshape(type(array), (-1,)), array, key, True, f"{array._name}.__getitem__")
    raise _invalid_key(array, key, "__getitem__")


def _stack(array: Any, parts: list[Any]) -> Any:
    """A nested array of components, the results of indexing each."""
    if not parts:
        return wrap(reshape(type(array), (-1,) * array._depth), [])
    if not isinstance(parts[0], ArrayBase):  # elements: what remains is one-dimensional
        if not array._dynamic:
            shape = (-1,) if array._size < 0 else (len(parts),)
            return wrap(reshape(type(array), shape), [literal(array._type, part) for part in parts])
        return array._leaf(parts)
    nodes = [node for part in parts for node in part._nodes()]
    shape = (-1,) if array._size < 0 else (len(parts), *parts[0]._record.shape)
    return wrap(reshape(type(array), shape), nodes)


def nested_set(array: Any, key: Any, value: Any) -> None:
    """``array[key] = value`` of a nested array."""
    function = f"{array._name}.__setitem__"
    position = plain_integer(key)
    if position is not None:
        array._set_component(_position(array, position, len(array), "__setitem__"), value, function)
        return
    if key.__class__ is tuple and key:
        first, rest = key[0], key[1:]
        if not rest:
            nested_set(array, first, value)
            return
        positions = range(*first.indices(len(array))) if first.__class__ is slice else \
            [_position(array, _require_integer(array, first), len(array), "__setitem__")]
        work = type(array)(array)  # so that a failure half-way changes nothing
        for position in positions:
            work._component(position)[rest if len(rest) > 1 else rest[0]] = value
        array._assign(work)
        return
    if key.__class__ is slice:
        positions = range(*key.indices(len(array)))
        parts = list(value) if isinstance(value, (list, tuple)) or isinstance(value, ArrayBase) and \
            value._depth == array._depth else [value] * len(positions)
        if len(parts) != len(positions):
            raise SizeError(f"{function}(): cannot assign {len(parts)} values to {len(positions)} components.")
        work = type(array)(array)
        for position, part in zip(positions, parts, strict=True):
            work._set_component(position, part, function)
        array._assign(work)
        return
    if isinstance(key, ArrayBase) and key._kind == "b":
        refuse_floats(array, value, function)
        masks = coerce(type(array)._mask_type, key, function)
        values = coerce(type(array), value, function)
        count = len(array._c)
        masks, values = (nodes * count if len(nodes) == 1 else nodes for nodes in (masks, values))
        if len(masks) != count or len(values) != count:
            raise ArgumentError(f"{function}(): incompatible arguments: the array has {count} components, the mask "
                                f"{len(masks)}, the value {len(values)}.")
        try:
            array._replace(list(map(ops.select, masks, values, array._c)))
        except CORE_ERRORS as error:
            raise translate(error, function) from error
        return
    if isinstance(key, ArrayBase) and not array._dynamic and array._depth == 1 and key._kind in "iu":
        array._replace(scatter_scalars(ReduceOp.Identity, array, value, key, True, function))
        return
    raise _invalid_key(array, key, "__setitem__")


def _require_integer(array: Any, key: Any) -> int:
    position = plain_integer(key)
    if position is None:
        raise _invalid_key(array, key, "__setitem__")
    return position
