"""What stands in brackets: the kinds of keys, and integer arrays as positions.

The same key means the same on flat arrays, on the last axis of nested ones, on tensors, and on scalar arrays. Integers
and slices are those of Python. *Integer arrays* are Dr.Jit arrays, NumPy arrays, ranges and (nested) lists; negative
entries count from the end. Entries that the host knows are checked; those of Dr.Jit arrays are not, except for a single
literal (and in debug mode). *Masks* are Dr.Jit arrays, NumPy arrays and lists of booleans, and stand alone in the
brackets: reading returns all elements, writing selects.
"""

from __future__ import annotations

import array
from typing import Any

import drjit_core as core
from drjit_core import KIND, SHAPE, JitFlag, Node, cast, flag, import_copy, literal, ops

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, BoundsError, describe
from .._base.nodes import index_node, index_type, values, without_widening
from .._base.types import INT32, INT64, SCALAR, UINT64
from .._base.values import is_ndarray, plain_integer, plain_scalar

__all__ = ["bounded", "check_literal", "flatten", "host_positions", "is_array_key", "is_foreign", "is_mask",
           "key_integer", "positions_node", "positions_of_array", "require_assignable", "require_same_backend",
           "slice_positions"]

_LITERAL = KIND["literal"]
#: Tag of the literal with the size that is added to negative positions, see drjit_core.literal.
_SIZE = 15


def key_integer(key: Any) -> int | None:
    """The integer that a key is, or ``None``: of Python or NumPy (arrays without a dimension included), no ``bool``."""
    if is_ndarray(key) and not key.ndim and key.dtype.kind in "iu":
        return int(key)
    return plain_integer(key)


def is_foreign(value: ArrayBase, of: ArrayBase | type[ArrayBase]) -> bool:
    """Whether an array is of another backend than one, or those of a type (literals, which go with all, included)."""
    return value._where != of._where and value._record.backend is not SCALAR


def require_same_backend(array: ArrayBase | type[ArrayBase], key: Any, function: str) -> None:
    """Raise if a key or value is an array, or has one, of another backend than the array that it is for. Those of the
    scalar backend go with all."""
    for entry in key if key.__class__ is tuple else (key,):
        if isinstance(entry, ArrayBase) and is_foreign(entry, array) and array._record.backend is not SCALAR:
            raise TypeError(f"{function}(): an array of type '{describe(entry)}' does not go with {array._name}: they "
                            "are of different backends; convert it first (with .numpy(), for instance).")


def is_array_key(key: Any) -> bool:
    """Whether a key is an array of some sort, rather than an integer or a slice."""
    return isinstance(key, (ArrayBase, list, range)) or is_ndarray(key) and key.ndim > 0


def is_mask(key: Any) -> bool:
    """Whether a key selects by truth values."""
    if isinstance(key, ArrayBase):
        return key._kind == "b"
    if isinstance(key, list):
        return bool(key) and all(entry.__class__ is bool or isinstance(entry, list) and is_mask(entry) for entry in key)
    return is_ndarray(key) and key.ndim > 0 and key.dtype.kind == "b"


def bounded(function: str, position: int, size: int) -> int:
    """An integer key as a position that exists."""
    found = position + size if position < 0 else position
    if not 0 <= found < size:
        raise BoundsError(f"{function}(): entry {position} is out of bounds (the array is of size {size}).")
    return found


def slice_positions(function: str, key: slice, size: int, axis: int = 0) -> range:
    """The positions that a slice names."""
    try:
        return range(*key.indices(size))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{function}(): invalid slice {key!r} for axis {axis}: {error}.") from None


def check_literal(function: str, index: Node, mask: Node, size: int) -> None:
    """Raise if all of an access goes to one position that does not exist.

    Debug mode checks all indices, of which it reports what is wrong without an exception: this one as well.
    """
    if index.kind == _LITERAL and not 0 <= index.payload < size and index.size and \
            mask.kind == _LITERAL and mask.payload and not flag(JitFlag.Debug):
        raise BoundsError(f"{function}(): index {int(index.payload)} is out of bounds (the array is of size {size}).")


def flatten(function: str, values: Any, into: list[Any]) -> tuple[int, ...]:
    """Collect the elements of nested lists and tuples; returns their shape."""
    if not isinstance(values, (list, tuple, range)):
        into.append(values)
        return ()
    shapes = {flatten(function, value, into) for value in values}
    if len(shapes) > 1:
        raise ArgumentError(f"{function}(): the nested sequence is ragged: its entries have the shapes "
                            f"{' and '.join(map(str, sorted(shapes)))}.")
    return (len(values), *(shapes.pop() if shapes else ()))


def _axis(axis: int, size: int) -> str:
    return f"axis {axis} with size {size}"


def host_positions(function: str, key: Any, size: int, axis: int = 0) -> tuple[list[int], tuple[int, ...]]:
    """The positions along an axis that a list, a range, a NumPy array or a scalar array names, and their shape."""
    if is_ndarray(key):
        _require_integers(function, key, axis)
        found, shape = key.reshape(-1).tolist(), key.shape
    elif isinstance(key, ArrayBase):
        found, shape = [value for node in key._nodes() for value in values(node)], key.shape
    else:
        flat: list[Any] = []
        shape = flatten(function, key, flat)
        found = [entry if entry.__class__ is int else plain_integer(entry) for entry in flat]
        if None in found:
            culprit = flat[found.index(None)]
            raise ArgumentError(f"{function}(): entry for axis {axis} holds an element of the unsupported type "
                            f"'{describe(culprit)}' (expected integers).")
    for entry in found:
        if not -size <= entry < size:
            raise BoundsError(f"{function}(): index {entry} is out of bounds for {_axis(axis, size)}.")
    return [entry + size if entry < 0 else entry for entry in found], shape


def _require_integers(function: str, key: Any, axis: int) -> None:
    if key.dtype.kind not in "iu":
        raise ArgumentError(f"{function}(): entry for axis {axis} is a NumPy array of the unsupported type "
                            f"'{key.dtype}' (expected integers).")


def positions_node(function: str, key: Any, size: int, axis: int = 0,
                   only: bool = True) -> tuple[Node, tuple[int, ...]]:
    """The positions along an axis, perhaps the ``only`` one, that an integer array names, as a node, and their shape.
    """
    scalar = index_type(size)
    if isinstance(key, ArrayBase) and key._dynamic:
        if key._kind == "b":
            raise ArgumentError(f"{function}(): masks must stand alone in the brackets, the entry for axis {axis} is a "
                                f"'{describe(key)}'.")
        if key._kind not in "iu" or key._depth > 0:
            raise ArgumentError(f"{function}(): entry for axis {axis} has the unsupported type '{describe(key)}' "
                                "(expected an integer array).")
        return positions_of_array(function, key._nodes()[0], size, axis, only), key.shape
    if isinstance(key, ArrayBase) and (key._kind not in "iu" or key._depth > 1 or key._special):
        raise ArgumentError(f"{function}(): entry for axis {axis} has the unsupported type '{describe(key)}' (expected "
                            "an integer array).")
    if is_ndarray(key) and key.size:
        return _of_ndarray(function, key, size, axis, scalar), key.shape
    found, shape = host_positions(function, key, size, axis)
    if len(found) == 1:
        return literal(scalar, found[0]), shape
    data = b"".join(entry.to_bytes(8, "little") for entry in found)
    return cast(import_copy(UINT64, data, 0), scalar), shape


def _of_ndarray(function: str, key: Any, size: int, axis: int, scalar: int) -> Node:
    import numpy

    _require_integers(function, key, axis)
    low, high = int(key.min()), int(key.max())
    if low < -size or high >= size:
        raise BoundsError(f"{function}(): index {low if low < -size else high} is out of bounds for "
                         f"{_axis(axis, size)}.")
    flat = key.reshape(-1)
    if low < 0:
        flat = numpy.where(flat < 0, flat.astype(numpy.int64) + size, flat)
    if flat.size == 1:
        return literal(scalar, int(flat[0]))
    return import_copy(scalar, numpy.ascontiguousarray(flat, dtype=core.TYPES[scalar].name), 0)


def positions_of_array(where: Any, key: Node, size: int, axis: int = 0, only: bool = True) -> Node:
    """The elements of a Dr.Jit array of integers as positions; ``where`` is an array, or a function for messages."""
    node = without_widening(key)
    if core.TYPES[node.type].kind == "i" and node.size:
        wide: int = INT64 if size >= 1 << 31 or node.type == INT64 else INT32
        node = cast(node, wide)
        node = ops.select(ops.lt(node, literal(wide, 0)),
                          ops.add(node, literal(wide, size, 1, SHAPE, tag=_SIZE)), node)
    node = index_node(node, size, not only)
    if node.kind == _LITERAL and node.size and not 0 <= node.payload < size:
        function = f"{where._name}.__getitem__" if isinstance(where, ArrayBase) else where
        raise BoundsError(f"{function}(): index {int(key.payload)} is out of bounds for {_axis(axis, size)}.")
    if axis and flag(JitFlag.Debug):  # as a position of the array it might exist
        inside = ops.lt(node, literal(node.type, size, 1, SHAPE, tag=_SIZE))
        node = ops.select(inside, node, literal(node.type, (1 << 32) - 1))
    return node


# --- values that are assigned ----------------------------------------------------------------------------------------


def _holds_floats(value: Any) -> bool:
    """Whether a value has elements with fractions, as far as its type tells."""
    if isinstance(value, ArrayBase):
        return value._kind == "f"
    if isinstance(value, (list, tuple)):
        return any(map(_holds_floats, value))
    if plain_scalar(value) is not None:
        return plain_scalar(value).__class__ is float
    if isinstance(value, memoryview):
        return value.format[-1] in "efd"
    if isinstance(value, array.array):
        return value.typecode in "fd"
    dtype: Any = getattr(value, "dtype", "")
    return "float" in str(dtype)


def require_assignable(target: ArrayBase | type[ArrayBase], value: Any, function: str) -> None:
    """Raise if an assignment of floating-point numbers would silently cut off the fractions, or mix backends."""
    require_same_backend(target, value, function)
    if target._kind != "f" and value.__class__ is not int and _holds_floats(value):
        shown = f"'{describe(value)}'"
        if isinstance(value, (list, tuple)):
            shown += " that holds floating-point numbers"
        elif not isinstance(value, ArrayBase) and hasattr(value, "dtype") and getattr(value, "ndim", False):
            shown += f" with elements of type '{value.dtype}'"
        raise ArgumentError(f"{function}(): cannot assign a value of type {shown} to elements of type "
                            f"{target._leaf._name}; convert it first.")
