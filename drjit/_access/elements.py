"""Item access: ``a[i]``, ``a[1:3]``, ``a[mask] = value`` and their like, of flat, nested, scalar arrays and tensors.

One element of a flat array is read and written by the host, which evaluates the array. Slices and integer arrays become
gathers and scatters; a mask selects where a value is written. The axes of components, which come first in the key of a
nested array, are no memory: their keys choose components when the program is traced.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

from drjit_core import (
    Node,
    ReduceMode,
    ReduceOp,
    cast,
    gather,
    literal,
    ops,
    read_element,
    scatter,
    size_for_program,
)

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, BoundsError, SizeError, describe, translate
from .._base.nodes import broadcast, exact_size
from .._base.types import lookup, reshape
from .._base.values import is_ndarray, plain_scalar
from .._promotion.promote import coerce, wrap
from .basic import part_of
from .extents import are_extents, sliced
from .keys import (
    bounded,
    host_positions,
    is_array_key,
    is_mask,
    key_integer,
    positions_of_array,
    require_assignable,
    require_same_backend,
    slice_positions,
)
from .lanes import TRUE, WATCHES, by_each_lane, lane_mask, note_read, widest_mask, with_lanes
from .scalars import scatter_scalars
from .single import store_element
from .slicing import expand, is_identity, parse_slice, positions, read, read_slice, require_lanes, write_mask
from .store import store, store_written

__all__ = ["assign_component", "flat_get", "flat_set", "nested_get", "nested_set", "tensor_get", "tensor_set"]

_IDENTITY, _AUTO = ReduceOp.Identity.value, ReduceMode.Auto.value
_ALL = slice(None)
_and = ops.and_
Shape = tuple[int, ...]


def _invalid_key(array: Any, key: Any, method: str, hint: str = "") -> TypeError:
    return TypeError(f"{array._name}.{method}(): invalid key of type '{describe(key)}' specified{hint}.")


def _is_truth_value(key: Any) -> bool:
    return key.__class__ is bool or type(key).__module__ == "numpy" and getattr(key, "ndim", 1) == 0 \
        and key.dtype.kind == "b"


# --- selections: slices and integer arrays of what lies in one node in C order ----------------------------------------


def _read_selection(function: str, node: Node, shape: Shape, key: Any) -> tuple[Node, Shape]:
    access, result = parse_slice(function, shape, key)
    try:
        return read(node, access), result
    except CORE_ERRORS as error:
        raise translate(error, function) from None


def _write_selection(function: str, array: Any, shape: Shape, key: Any, value: Any) -> None:
    part = part_of(shape, key)
    access, selected = parse_slice(function, shape, key) if part is None else (part.access, part.shape)
    new, found = _value(function, type(array), value)
    kept = _fitting(found, selected)
    if kept is None and array._depth < 0 and len(found) == 1 and new.size == math.prod(selected) and \
            (not isinstance(value, ArrayBase) or _is_flat(value)):  # in C order
        kept = selected
    if kept is None:
        if array._depth or max(len(found), len(selected)) > 1:
            raise SizeError(f"{function}(): cannot assign a value of the shape {found} to elements of the shape "
                            f"{selected}.")
        raise SizeError(f"{function}(): cannot assign {new.size} values to {math.prod(selected)} elements.")
    size = size_for_program(array._n)
    if not access.shape_size:
        return
    try:
        mask = write_mask(access, selected, new, kept)
        expanded = expand(new, kept, selected)
        if is_identity(access, size):
            store(array, [broadcast(expanded, size) if mask is TRUE else ops.select(mask, expanded, array._n)])
        else:
            require_lanes(function, access, new, kept)
            store_written(array, [scatter(array._n, expanded, positions(access, size), mask, _IDENTITY, _AUTO)])
    except CORE_ERRORS as error:
        raise translate(error, function) from None


def _is_flat(array: ArrayBase) -> bool:
    """Whether an array is what a tensor of its backend is made of."""
    return not array._depth or array._record.shape == (-1,)


def _value(function: str, cls: Any, value: Any) -> tuple[Node, Shape]:
    """What is assigned: its node and its shape."""
    if isinstance(value, ArrayBase):
        if cls._depth < 0 and value._depth and _is_flat(value):
            value = cls(value)
        if value._depth > 0 and (value._dynamic or value._depth > 1 or cls._depth < 0):
            raise ArgumentError(f"{function}(): incompatible arguments: {value._name} cannot be assigned to elements "
                                f"of {cls._name}; convert it first.")
        if value._depth < 0:
            return cast(value._nodes()[0], cls._type), value.shape
        node = coerce(cls._leaf, value, function)[0]
        return node, (node.size,)
    if plain_scalar(value) is not None:
        return coerce(cls._leaf, value, function)[0], ()
    kind = cls if cls._depth < 0 else lookup(cls._record._replace(kind="tensor"))
    try:
        tensor: Any = kind(value)  # type: ignore[misc]
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"{function}(): could not convert an argument of type '{describe(value)}' to {cls._name}: "
                            f"{error}") from None
    return tensor._n, tensor._s


def _fitting(found: Shape, selected: Shape) -> Shape | None:
    """The shape of a value without superfluous leading axes, or ``None`` if it cannot be broadcast to a selection."""
    while len(found) > len(selected) and found[0] == 1:
        found = found[1:]
    first = len(selected) - len(found)
    if first < 0:
        return None
    for axis, size in enumerate(found):
        if size not in (1, selected[first + axis]):
            return None
    return found


def _blend(mask: Node, new: Node, old: Node, widen: bool = True) -> Node:
    """Select by the mask of a key, in the lanes that take part; one element becomes as many as there are lanes."""
    width = max(mask.size, new.size, old.size)
    lanes = lane_mask(width) if width > 1 or not widen else widest_mask()
    return ops.select(mask if lanes is None else _and(mask, lanes), new, old)  # type: ignore[no-any-return]


def _only_entry(key: Any) -> Any:
    """A key, taken out of a tuple of one entry."""
    return key[0] if key.__class__ is tuple and len(key) == 1 else key


# --- flat arrays -----------------------------------------------------------------------------------------------------


def flat_get(array: Any, key: Any) -> Any:
    """``array[key]`` of a flat array."""
    node = array._n
    if WATCHES:
        note_read(node)
    if isinstance(key, ArrayBase) and not key._depth and key._kind in "iu" and key._where == array._where:
        index = positions_of_array(array, key._nodes()[0], node.size)
        if node.size and index.size:
            try:
                mask = with_lanes(TRUE, index.size) if index.size > 1 else by_each_lane(TRUE, node)
                return wrap(type(array), [gather(node, index, mask)])
            except CORE_ERRORS as error:
                raise translate(error, f"{array._name}.__getitem__") from None
    position = key if key.__class__ is int else key_integer(key)
    if position is not None:
        size = exact_size(node)
        if 0 <= position < size:
            return read_element(node, position)
        if size == 1:  # which goes with any other size
            return read_element(node, 0)
        return read_element(node, bounded(f"{array._name}.__getitem__", position, size))
    if key.__class__ is slice:
        if are_extents(node):
            with contextlib.suppress(AttributeError, TypeError):
                found = sliced(node, key)
                if found is not None:
                    return wrap(type(array), [found])
        try:
            positions_ = range(*key.indices(exact_size(node)))
        except (TypeError, ValueError):
            positions_ = slice_positions(f"{array._name}.__getitem__", key, node.size)  # raises, in words
        count, start, step = len(positions_), positions_.start, positions_.step
        if count == node.size and step > 0:
            return type(array)(array)
        return wrap(type(array), [read_slice(node, start, count, step)])
    function = f"{array._name}.__getitem__"
    require_same_backend(array, key, function)
    if key.__class__ is tuple and len(key) == 1:
        return flat_get(array, key[0])
    if is_mask(key):
        _flat_mask(function, array, key)
        return type(array)(array)
    if not (key.__class__ in (slice, tuple) or is_array_key(key) or key is None or key is ...):
        raise _invalid_key(array, key, "__getitem__")
    found, shape = _read_selection(function, node, (exact_size(node),), key)
    if len(shape) == 1:
        return wrap(type(array), [found])
    return read_element(found, 0) if not shape else _tensor(array, found, shape)


def _tensor(array: Any, node: Node, shape: Shape) -> Any:
    """A tensor of an array's elements."""
    cls: Any = lookup(array._record._replace(kind="tensor", shape=()))
    result = wrap(cls, [node])
    result._s = shape
    return result


def _flat_mask(function: str, array: Any, key: Any) -> Node:
    """The node of a mask key."""
    if isinstance(key, ArrayBase) and (key._depth > 0 and key._dynamic or key._depth < 0 and len(key.shape) > 1):
        raise TypeError(f"{function}(): the mask of type '{describe(key)}' has more than one dimension.")
    mask = coerce(array._mask_type, key, function)[0]
    _require_length(function, mask.size, array._n.size)
    return mask


def _require_length(function: str, found: int, size: int) -> None:
    if found not in (1, size) and size != 1:
        raise SizeError(f"{function}(): operands have incompatible sizes! The mask has {found} elements, but the array "
                        f"has {size}.")


def flat_set(array: Any, key: Any, value: Any) -> None:
    """``array[key] = value`` of a flat array."""
    function = f"{array._name}.__setitem__"
    position = key if key.__class__ is int else key_integer(key)
    if position is not None:
        position = bounded(function, position, exact_size(array._n))
        store_element(array, position, _element(array, value, function))
        return
    require_assignable(array, value, function)
    key = _only_entry(key)
    require_same_backend(array, key, function)
    if is_mask(key):
        mask = _flat_mask(function, array, key)
        new = coerce(type(array), value, function)[0]
        try:
            widen = array._o is None or array._o[0]._depth > 0  # a tensor keeps its shape
            store(array, [_blend(mask, new, array._n, widen)])
        except CORE_ERRORS as error:
            raise translate(error, function) from None
        return
    if key_integer(key) is not None:
        flat_set(array, key, value)
        return
    if not (key.__class__ in (slice, tuple) or is_array_key(key) or key is None or key is ...) or _is_truth_value(key):
        raise _invalid_key(array, key, "__setitem__")
    _write_selection(function, array, (exact_size(array._n),), key, value)


def _element(array: Any, value: Any, function: str) -> Any:
    """A Python number that may become an element of an array."""
    scalar = plain_scalar(value)
    kind = array._kind
    if kind == "f" and scalar is not None:
        return float(scalar)
    require_assignable(array, value, function)
    if scalar.__class__ is bool if kind == "b" else scalar is not None and array._low <= scalar <= array._high:
        return scalar
    shown = f"the value {value!r} of type '{describe(value)}'" if scalar is not None else \
        f"a value of type '{describe(value)}'"
    advice = f" To write an array, give its position as one too: x[{array._name.rpartition('.')[0]}.UInt(0)] = value." \
        if isinstance(value, ArrayBase) else ""
    raise TypeError(f"{function}(): could not initialize element with {shown}.{advice}")


# --- tensors ---------------------------------------------------------------------------------------------------------


def tensor_get(array: Any, key: Any) -> Any:
    """``array[key]`` of a tensor."""
    part = part_of(array._s, key)
    if part is not None:
        try:
            return part(array)
        except CORE_ERRORS as error:
            raise translate(error, f"{array._name}.__getitem__") from None
    function = f"{array._name}.__getitem__"
    require_same_backend(array, key, function)
    entry = _only_entry(key)
    if is_mask(entry):
        _tensor_mask(function, array, entry)
        return type(array)(array)
    found, shape = _read_selection(function, array._n, array._s, key)
    result = wrap(type(array), [found])
    result._s = shape
    return result


def tensor_set(array: Any, key: Any, value: Any) -> None:
    """``array[key] = value`` of a tensor."""
    function = f"{array._name}.__setitem__"
    require_assignable(array, value, function)
    require_same_backend(array, key, function)
    entry = _only_entry(key)
    if not is_mask(entry):
        _write_selection(function, array, array._s, key, value)
        return
    mask, mask_shape = _tensor_mask(function, array, entry)
    new, found = _value(function, type(array), value)
    kept = _fitting(found, array._s)
    if kept is None:
        raise SizeError(f"{function}(): cannot assign a value of the shape {found} to elements of the shape "
                        f"{array._s}.")
    if not array._n.size:
        return
    lanes = with_lanes(TRUE, new.size) if new.size != array._n.size else TRUE
    try:
        if lanes is not TRUE:
            mask = _and(expand(mask, mask_shape, array._s), expand(lanes, kept, array._s))
        elif mask.size != array._n.size:
            mask = expand(with_lanes(mask, mask.size), mask_shape, array._s)
        store(array, [_blend(mask, expand(new, kept, array._s), array._n, widen=False)])
    except CORE_ERRORS as error:
        raise translate(error, function) from None


def _tensor_mask(function: str, array: Any, key: Any) -> tuple[Node, Shape]:
    """The node and the shape of a mask that can be broadcast to a tensor."""
    mask, found = _value(function, array._mask_type, key)
    kept = _fitting(found, array._s)
    if kept is None:
        raise SizeError(f"{function}(): operands have incompatible shapes: a mask of the shape {found} cannot be "
                        f"broadcast to the tensor's shape {array._s}.")
    return mask, kept


# --- nested arrays ---------------------------------------------------------------------------------------------------


def _component_positions(array: Any, key: Any, function: str) -> Sequence[int] | None:
    """The components that a slice, or a list, a range or a NumPy array of integers chooses; else ``None``."""
    if key.__class__ is slice:
        return slice_positions(function, key, len(array))
    if isinstance(key, (list, range)) or is_ndarray(key):
        found, shape = host_positions(function, key, len(array))
        if len(shape) != 1:
            raise TypeError(f"{function}(): the integer array that chooses components must have one dimension, found "
                            f"the shape {shape}.")
        return found
    return None


def _nested_entries(array: Any, key: tuple[Any, ...], function: str) -> tuple[Any, ...]:
    """The entries of a key, with slices for an ellipsis."""
    number = next((k for k, entry in enumerate(key) if entry is ...), None)
    if number is None:
        return key
    if sum(entry is ... for entry in key) > 1:
        raise BoundsError(f"{function}(): multiple ellipses (...) are not allowed.")
    missing = array._depth + array._dynamic - (len(key) - 1)
    return (*key[:number], *(_ALL,) * missing, *key[number + 1:]) or (_ALL,)


def _require_dimensions(array: Any, key: tuple[Any, ...], function: str) -> None:
    count = array._depth + array._dynamic
    if len(key) > count:
        raise BoundsError(f"{function}(): too many indices (the array has {count} dimensions, found {len(key)} "
                         "indices).")


def _wants_index(array: Any, key: Any) -> bool:
    """Whether a key is an integer array that is no constant of the program."""
    return isinstance(key, ArrayBase) and key._kind in "iu"


def nested_get(array: Any, key: Any) -> Any:
    """``array[key]`` of a nested array."""
    position = key_integer(key)
    if position is not None:
        size = len(array)
        if size == 1 and array._size < 0:
            position = 0
        return array._component(bounded(f"{array._name}.__getitem__", position, size))
    function = f"{array._name}.__getitem__"
    require_same_backend(array, key, function)
    if key is None or key is ...:
        key = (key,)
    if key.__class__ is tuple:
        if not key:
            return type(array)(array)
        if any(entry is None for entry in key):
            cls: Any = lookup(array._record._replace(kind="tensor", shape=()))
            return tensor_get(cls(array), key)
        key = _nested_entries(array, key, function)
        _require_dimensions(array, key, function)
        if len(key) > 1:
            return _nested_get_tuple(array, key[0], key[1:] if len(key) > 2 else key[1], function)
        return nested_get(array, key[0])
    if is_mask(key):
        _nested_mask(function, array, key)
        return type(array)(array)
    if _is_scalar_vector(array) and _wants_index(array, key):
        found, _ = host_positions(function, _scalar_index(array, key, "__getitem__"), len(array))
        return wrap(reshape(type(array), (-1,)), [array._c[k] for k in found])
    positions_ = _component_positions(array, key, function)
    if positions_ is None:
        raise _component_key_error(array, key, "__getitem__")
    if key.__class__ is slice and len(positions_) == len(array) and positions_.step > 0:  # type: ignore[attr-defined]
        return type(array)(array)
    if not positions_ and array._depth == 1 and array._size >= 0:
        return wrap(reshape(type(array), (0,)), [])
    parts = [array._component(k) for k in positions_]
    if array._special and len(parts) == len(array) and isinstance(parts[0], ArrayBase):
        return wrap(type(array), [node for part in parts for node in part._nodes()])
    return _stack(array, parts)


def _is_scalar_vector(array: Any) -> bool:
    return not array._dynamic and array._depth == 1


def _scalar_index(array: Any, key: Any, method: str) -> Any:
    """An integer array that is the key of a scalar array, whose elements the host may read."""
    if key._dynamic and key._depth or key._special not in ("", "tensor"):
        raise _invalid_key(array, key, method)
    return key


def _component_key_error(array: Any, key: Any, method: str) -> TypeError:
    if isinstance(key, ArrayBase) and key._kind in "iu":
        return _invalid_key(array, key, method, "; components are chosen by integers, slices or lists of integers, "
                                                "index arrays go with the last axis, as in 'v[:, index]'")
    return _invalid_key(array, key, method)


def _nested_get_tuple(array: Any, first: Any, rest: Any, function: str) -> Any:
    positions_ = _component_positions(array, first, function)
    if positions_ is None:
        return nested_get(array, first)[rest]
    element = key_integer(rest) if array._depth == 1 and array._dynamic else None
    if element is not None:  # components of size 1 go with any other
        at = bounded(function, element, array._width(function))
        if WATCHES:
            for k in positions_:
                note_read(array._c[k])
        return array._leaf([read_element(array._c[k], at if array._c[k].size > 1 else 0) for k in positions_])
    return _stack(array, [array._component(k)[rest] for k in positions_])


def _stack(array: Any, parts: list[Any]) -> Any:
    """A nested array of components, the results of indexing each."""
    if not parts:
        return wrap(reshape(type(array), (-1,) * array._depth), [])
    if not isinstance(parts[0], ArrayBase):  # elements: what remains is one-dimensional
        if not array._dynamic:
            shape = (-1 if array._size < 0 else len(parts),)
            return wrap(reshape(type(array), shape), [literal(array._type, part) for part in parts])
        return array._leaf(parts)
    nodes = [node for part in parts for node in part._nodes()]
    found: tuple[int, ...] = (-1,) if array._size < 0 else (len(parts), *parts[0]._record.shape)
    return wrap(reshape(type(array), found), nodes)


def _nested_mask(function: str, array: Any, key: Any) -> list[Node]:
    """The nodes of a mask key, one for each component."""
    if not isinstance(key, ArrayBase) and array._dynamic and not (isinstance(key, list) and isinstance(key[0], list)) \
            and getattr(key, "ndim", 1) == 1:
        key = array._leaf._mask_type(key)  # of the lanes, as a flat Dr.Jit array is
    masks = coerce(array._mask_type, key, function)
    count = len(array._c)
    if len(masks) != count:
        if len(masks) != 1:
            raise ArgumentError(f"{function}(): incompatible arguments: the array has {count} components, the mask "
                                f"{len(masks)}.")
        masks = masks * count
    for mask, node in zip(masks, array._c, strict=True):
        _require_length(function, mask.size, node.size)
    return masks


def nested_set(array: Any, key: Any, value: Any) -> None:
    """``array[key] = value`` of a nested array."""
    function = f"{array._name}.__setitem__"
    position = key_integer(key)
    if position is not None:
        assign_component(array, bounded(function, position, len(array)), value, function)
        return
    require_same_backend(array, key, function)
    if key is None or key.__class__ is tuple and any(entry is None for entry in key):
        raise TypeError(f"{function}(): new axes (None) are not supported in assignments to nested arrays.")
    if key is ... or key.__class__ is tuple and not key:
        key = _ALL
    if key.__class__ is tuple:
        key = _nested_entries(array, key, function)
        _require_dimensions(array, key, function)
        if len(key) > 1:
            _nested_set_tuple(array, key[0], key[1:] if len(key) > 2 else key[1], value, function)
        else:
            nested_set(array, key[0], value)
        return
    if is_mask(key):
        _nested_set_mask(array, key, value, function)
        return
    if _is_scalar_vector(array) and _wants_index(array, key):
        require_assignable(array, value, function)
        found, _ = host_positions(function, _scalar_index(array, key, "__setitem__"), len(array))
        store(array, scatter_scalars(ReduceOp.Identity, array, value, found, True, function))
        return
    positions_ = _component_positions(array, key, function)
    if positions_ is None:
        raise _component_key_error(array, key, "__setitem__")
    parts = list(value) if isinstance(value, (list, tuple)) or is_ndarray(value) and value.ndim or \
        isinstance(value, ArrayBase) and value._depth == array._depth else [value] * len(positions_)
    if len(parts) != len(positions_):
        raise SizeError(f"{function}(): cannot assign {len(parts)} values to {len(positions_)} components.")
    require_assignable(array, value, function)
    work = type(array)(array)  # so that a failure half-way changes nothing
    for position, part in zip(positions_, parts, strict=True):
        assign_component(work, position, part, function)
    store(array, work._c)


def _nested_set_tuple(array: Any, first: Any, rest: Any, value: Any, function: str) -> None:
    positions_ = _component_positions(array, first, function)
    if positions_ is None:
        position = key_integer(first)
        if position is None:
            raise _component_key_error(array, first, "__setitem__")
        position = bounded(function, position, len(array))
        if isinstance(array._value, type) and issubclass(array._value, ArrayBase):
            array._component(position)[rest] = value
            return
        raise BoundsError(f"{function}(): too many indices (the array has one dimension).")
    require_assignable(array, value, function)
    values = [value] * len(positions_)
    removed = key_integer(rest) is not None  # the axis that the key is for
    if value._depth == array._depth - removed if isinstance(value, ArrayBase) else removed and array._depth == 1 and (
            isinstance(value, (list, tuple)) or is_ndarray(value) and value.ndim == 1):
        if len(value) not in (1, len(positions_)):
            raise SizeError(f"{function}(): cannot assign {len(value)} values to {len(positions_)} components.")
        values = list(value) * (len(positions_) if len(value) == 1 else 1)
    before = array._nodes()  # held, so that no write changes them
    try:
        for position, part in zip(positions_, values, strict=True):
            array._component(position)[rest] = part
    except BaseException:
        store(array, before)
        raise


def _nested_set_mask(array: Any, key: Any, value: Any, function: str) -> None:
    require_assignable(array, value, function)
    masks = _nested_mask(function, array, key)
    values = coerce(type(array), value, function)
    count = len(array._c)
    if len(values) not in (1, count):
        raise ArgumentError(f"{function}(): incompatible arguments: the array has {count} components, the value "
                            f"{len(values)}.")
    values = values * (count if len(values) == 1 else 1)
    try:
        store(array, list(map(_blend, masks, values, array._c)))
    except CORE_ERRORS as error:
        raise translate(error, function) from None


def assign_component(array: Any, position: int, value: Any, function: str) -> None:
    """Replace the component of a nested array at a position that exists."""
    if array._kind != "f" or isinstance(value, ArrayBase):
        require_assignable(array, value, function)
    nodes = array._component_nodes(position, value, function)
    store(array, nodes, position * len(nodes))
