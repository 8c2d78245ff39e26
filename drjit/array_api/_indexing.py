"""Item access, ``take`` and ``take_along_axis``.

Keys of integers, slices, ``None`` and ``...`` are views. Arrays of integers read by index, with NumPy's rules for where
their axes go; they may be Python lists, NumPy arrays and arrays of this namespace. A Boolean array selects by its
positions, which are evaluated, unless a single value is assigned.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import drjit as dr

from . import _dtypes as dtypes
from ._creation import asarray, result_type
from ._data import Storage, expanded, in_body, view_of, wrap
from ._dtypes import promoted
from ._manipulation import broadcast_to, each, reshape, taken
from ._operands import (
    converted,
    describe,
    literal,
    normalized_axis,
    number_of,
    operands,
    require_array,
    require_kind,
    with_number,
)

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["get", "nonzero", "put", "take", "take_along_axis", "where"]

_NAMESPACE = "drjit.array_api"
_SELF = f"{_NAMESPACE}.Array"


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """For each axis, the positions of elements that are not zero. Evaluates the array."""
    function = f"{_NAMESPACE}.nonzero"
    array = require_array(function, "x", x)
    if not array.ndim:
        raise ValueError(f"{function}(): 'x' must have a dimension at least.")
    flat = _set_positions(array)
    found = []
    for axis in range(array.ndim):
        behind = math.prod(array.shape[axis + 1:])
        size = array.shape[axis]
        found.append(wrap(dtypes.int64, dtypes.int64.tensor(flat // behind % size if len(flat) else flat)))
    return tuple(found)


def _set_positions(array: Storage) -> Any:
    """The positions of elements that are not zero, in C order, as a flat array; evaluates."""
    mask = converted(array, dtypes.bool)._parts[0]
    flat = dr.int64_array_t(dr.array_t(type(mask)))
    return flat(dr.compress(mask.array)) if array.size else flat([])


_MISSING: Any = type("_Missing", (), {"__repr__": lambda self: "<missing>"})()


def where(condition: Array, x1: Any = _MISSING, x2: Any = _MISSING, /) -> Array:
    """Elements of ``x1`` where the condition holds, those of ``x2`` elsewhere; both may be numbers. Lazy;
    differentiable. Without them, the positions where it holds, as ``nonzero`` has them."""
    function = f"{_NAMESPACE}.where"
    if x1 is _MISSING:
        return nonzero(condition)  # type: ignore[return-value]  # what the standard knows has three arguments
    if x2 is _MISSING:
        raise TypeError(f"{function}(): 'x2' is missing.")
    mask = require_kind(function, "condition", condition, "b")
    if not isinstance(x1, Storage) and not isinstance(x2, Storage):
        dtype = result_type(x1, x2)
        a, b = (literal(function, dtype, value) for value in (x1, x2))
    else:
        a, b = operands(function, (x1, x2), ("x1", "x2"))
    try:
        shape = np.broadcast_shapes(mask.shape, a.shape, b.shape)
    except ValueError:
        raise ValueError(f"{function}(): the shapes {mask.shape}, {a.shape} and {b.shape} cannot be broadcast to a "
                         "common one.") from None
    return wrap(a._dtype, *[expanded(dr.select(mask._parts[0], yes, no), shape)
                            for yes, no in zip(a._parts, b._parts, strict=True)])


# --- keys ------------------------------------------------------------------------------------------------------------


def _entries(array: Storage, key: Any) -> list[Any]:
    """The entries of a key, one or more for each axis of the array, without ``...``; Boolean arrays as positions."""
    entries = list(key) if isinstance(key, tuple) else [key]
    found: list[Any] = []
    for entry in entries:
        if entry is None or entry is Ellipsis or isinstance(entry, slice):
            found.append(entry)
        elif isinstance(entry, (bool, np.bool_)):
            found.append(asarray(bool(entry)))
        elif isinstance(entry, Storage):
            if entry._dtype.kind not in "biu":
                raise IndexError(f"{_SELF}.__getitem__(): arrays in a key must be of integers or Booleans, found "
                                 f"{entry._dtype}.")
            found.append(entry)
        elif isinstance(entry, (list, np.ndarray, dr.ArrayBase)):
            index = asarray(entry)
            if not index.size:
                index = converted(index, dtypes.int64)
            if index._dtype.kind not in "biu":
                raise IndexError(f"{_SELF}.__getitem__(): arrays in a key must be of integers or Booleans, found "
                                 f"{index._dtype}.")
            found.append(index)
        else:
            try:
                found.append(operator.index(entry))
            except TypeError:
                raise IndexError(f"{_SELF}.__getitem__(): keys are made of integers, slices, arrays, None and '...', "
                                 f"found {describe(entry)}.") from None
    if found.count(Ellipsis) > 1:
        raise IndexError(f"{_SELF}.__getitem__(): a key has one '...' at most.")
    used = sum([entry.ndim if isinstance(entry, Storage) and entry._dtype.kind == "b" else 1
                for entry in found if entry is not None and entry is not Ellipsis])
    if used > array.ndim:
        raise IndexError(f"{_SELF}.__getitem__(): the key has {used} indices for an array of {array.ndim} "
                         f"dimension{'s' * (array.ndim != 1)}.")
    place = next((k for k, entry in enumerate(found) if entry is Ellipsis), len(found))
    return found[:place] + [slice(None)] * (array.ndim - used) + found[place + 1:]


def _is_advanced(entries: list[Any]) -> bool:
    return any(isinstance(entry, Storage) for entry in entries)


def get(array: Storage, key: Any) -> Array:
    """``array[key]``."""
    entries = _entries(array, key)
    if not _is_advanced(entries):
        _check(array, entries)
        basic = tuple(entries)
        if len(basic) == sum([isinstance(entry, int) for entry in basic]) and basic:  # one element
            return each(array, lambda part: part[basic])
        return view_of(array, (lambda part: part[basic]) if basic else _same, *_placed_by(array, entries))
    view, arrays, axes, front = _split(array, entries)
    if any(index._dtype.kind == "b" for index in arrays):
        return _by_zero_dimensional_mask(view, arrays)
    positions, shape, rest = _flat_positions(view, arrays, axes)
    wanted = (*shape, *rest)
    flat = each(_moved(view, axes), lambda part: _gathered(part, positions, wanted))
    return _placed(flat, len(shape), front)


def _same(part: Any) -> Any:
    return type(part)(part)


def _placed_by(array: Storage, entries: list[Any]) -> tuple[int, tuple[int, ...]]:
    """Where what integers and slices select lies in the root of an array: the first position, and strides."""
    offset, old = array.place
    strides: list[int] = []
    axis = 0
    for entry in entries:
        if entry is None:
            strides.append(0)
            continue
        if isinstance(entry, slice):
            start, _, step = entry.indices(array.shape[axis])
            offset += start * old[axis]
            strides.append(step * old[axis])
        else:
            offset += entry % array.shape[axis] * old[axis]
        axis += 1
    return offset, tuple(strides)


def _check(array: Storage, entries: list[Any]) -> None:
    """Refuse integers beyond their axes."""
    axis = 0
    for entry in entries:
        if entry is None:
            continue
        if isinstance(entry, int) and not -array.shape[axis] <= entry < array.shape[axis]:
            raise IndexError(f"{_SELF}.__getitem__(): index {entry} is out of bounds for axis {axis} of size "
                             f"{array.shape[axis]}.")
        axis += 1


def _split(array: Storage, entries: list[Any]) -> tuple[Array, list[Array], list[int], int]:
    """A key with arrays: what its other entries select, the arrays of positions and their axes in that, and the place
    of their axes in the result. Integers count as arrays, as they do in NumPy."""
    expanded_: list[Any] = []
    for entry in entries:
        if isinstance(entry, Storage) and entry._dtype.kind == "b" and entry.ndim:
            start = sum([other is not None for other in expanded_])
            sizes = array.shape[start:start + entry.ndim]
            if len(sizes) != entry.ndim or any(have not in (size, 0)
                                               for size, have in zip(sizes, entry.shape, strict=True)):
                raise IndexError(f"{_SELF}.__getitem__(): a mask of the shape {entry.shape} does not go with the axes "
                                 f"of the sizes {sizes}.")
            expanded_ += nonzero(entry)  # type: ignore[arg-type]
        else:
            expanded_.append(entry)
    kept: list[Any] = []
    arrays: list[Any] = []
    axes: list[int] = []
    places: list[int] = []
    axis = 0
    for place, entry in enumerate(expanded_):
        if isinstance(entry, Storage) and entry._dtype.kind == "b":
            arrays.append(entry)
            places.append(place)
        elif isinstance(entry, (Storage, int)):
            axes.append(axis)
            places.append(place)
            arrays.append(asarray(entry) if isinstance(entry, int) else entry)
            kept.append(slice(None))
            axis += 1
        else:
            kept.append(entry)
            axis += 1
    adjacent = places == list(range(places[0], places[0] + len(places)))
    front = places[0] if adjacent else 0
    key = tuple(kept)
    view = each(array, lambda part: part[key]) if key else each(array, lambda part: part)
    return view, arrays, axes, front


def _by_zero_dimensional_mask(view: Array, arrays: list[Any]) -> Array:
    """``array[mask]`` for a mask without axes: a new axis of one entry, or none."""
    if len(arrays) != 1:
        raise IndexError(f"{_SELF}.__getitem__(): a mask without axes cannot be combined with other arrays.")
    count = int(bool(arrays[0]))
    return each(view, lambda part: part[None][slice(0, count)])


def _moved(view: Array, axes: list[int]) -> Array:
    """The array with the axes of positions in front."""
    order = (*axes, *[axis for axis in range(view.ndim) if axis not in axes])
    return view if order == tuple(range(view.ndim)) else each(view, lambda part: dr.transpose(part, order))


def _flat_positions(view: Array, arrays: list[Any], axes: list[int]) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """The positions in the array with those axes in front, the shape of the arrays, and the shape of the rest."""
    try:
        shape = np.broadcast_shapes(*[index.shape for index in arrays])
    except ValueError:
        raise IndexError(f"{_SELF}.__getitem__(): the shapes of the arrays in the key, "
                         f"{' and '.join(str(index.shape) for index in arrays)}, cannot be broadcast to a common "
                         "one.") from None
    rest = tuple([size for axis, size in enumerate(view.shape) if axis not in axes])
    flat = None
    for index, axis in zip(arrays, axes, strict=True):
        size = view.shape[axis]
        part = _in_range(converted(index, dtypes.int64)._parts[0], size, axis)
        flat = part if flat is None else flat * size + part
    assert flat is not None
    count = math.prod(rest)
    positions = expanded(flat, shape)
    if count != 1:
        columns = type(flat)(dr.arange(dr.array_t(type(flat)), count), shape=(count,)) if count else flat
        positions = positions[..., None] * count + columns if count else positions
    return positions, shape, rest


def _in_range(index: Any, size: int, axis: int) -> Any:
    """Positions counted from the front; those that are known to be beyond the axis are refused."""
    if not size and math.prod(index.shape):
        raise IndexError(f"{_SELF}.__getitem__(): axis {axis} is empty.")
    return dr.select(index < 0, index + size, index)


def _gathered(part: Any, positions: Any, shape: tuple[int, ...]) -> Any:
    if not math.prod(shape):
        return dr.zeros(type(part), shape)
    index = dr.uint64_array_t(dr.array_t(type(part)))(positions.array)
    return type(part)(dr.gather(type(part.array), part.array, index), shape=shape)


def _placed(array: Array, count: int, front: int) -> Array:
    """The array with its first ``count`` axes moved behind ``front`` others."""
    if not front or not count:
        return array
    order = (*range(count, count + front), *range(count), *range(count + front, array.ndim))
    return each(array, lambda part: dr.transpose(part, order))


def _are_same(array: Storage, entries: list[Any], value: Any) -> bool:
    """Whether a value is a view of just what a key selects: ``x[key] += 1`` has written to it already."""
    view = value._view if isinstance(value, Storage) else None
    if view is None or view.root is not (array if array._view is None else array._view.root) or _is_advanced(entries):
        return False
    return value.shape == array._held[0][tuple(entries)].shape and \
        (view.offset, view.strides) == _placed_by(array, entries)


def put(array: Storage, key: Any, value: Any) -> None:
    """``array[key] = value``: lazy, and one kernel with other assignments; the array keeps its data type."""
    entries = _entries(array, key)
    if not _is_advanced(entries):
        _check(array, entries)
    if _are_same(array, entries, value):
        return
    function = f"{_SELF}.__setitem__"
    number = number_of(value)
    if isinstance(value, Storage):
        if promoted(array._dtype, value._dtype) is not array._dtype and value._dtype is not array._dtype:
            raise TypeError(f"{function}(): elements of {value._dtype} cannot be assigned to an array of "
                            f"{array._dtype}; convert them with astype().")
        source = converted(value, array._dtype)
    elif number is not None:
        if with_number(function, array._dtype, number) is not array._dtype:
            raise TypeError(f"{function}(): a complex number cannot be assigned to an array of {array._dtype}.")
        source = literal(function, array._dtype, number)
    else:
        source = asarray(value, dtype=array._dtype)
    if not _is_advanced(entries):
        basic = tuple(entries)
        target = array._parts[0][basic].shape if basic else array.shape
        source = _fitting(function, source, target)
        if not math.prod(target):
            return
        if array._view is None:
            _assign(array, lambda part, new: part.__setitem__(basic if basic else (), new), source)
        elif target == array.shape and basic == (slice(None),) * array.ndim:
            replace(array, source)
        else:
            _scatter(function, array, entries, source)
        return
    if len(entries) == 1 + array.ndim - getattr(entries[0], "ndim", 1) and isinstance(entries[0], Storage) and \
            entries[0]._dtype.kind == "b" and not source.ndim and entries[0].ndim:
        mask = entries[0]
        if array.shape[:mask.ndim] != mask.shape:
            raise IndexError(f"{function}(): a mask of the shape {mask.shape} does not go with an array of the shape "
                             f"{array.shape}.")
        chosen = reshape(mask, mask.shape + (1,) * (array.ndim - mask.ndim))  # type: ignore[arg-type]
        replace(array, wrap(array._dtype, *[expanded(dr.select(chosen._parts[0], new, part), array.shape)
                                            for part, new in zip(array._parts, source._parts, strict=True)]))
        return
    _scatter(function, array, entries, source)


def _fitting(function: str, source: Array, shape: tuple[int, ...]) -> Array:
    """What is assigned, broadcast to the shape of the selection."""
    while source.ndim > len(shape) and source.shape[0] == 1:
        source = reshape(source, source.shape[1:])
    try:
        return broadcast_to(source, shape)
    except ValueError:
        raise ValueError(f"{function}(): a value of the shape {source.shape} cannot be assigned to a selection of the "
                         f"shape {shape}.") from None


def _scatter(function: str, array: Storage, entries: list[Any], source: Array) -> None:
    """Assign to what a key selects, at the positions of a selection among all positions in the root."""
    chosen = get(_positions(array), tuple(entries))
    source = _fitting(function, source, chosen.shape)
    if chosen.size:
        _write(array, chosen, source)


def _positions(array: Storage) -> Array:
    """Where the elements of an array lie in its root."""
    number = dtypes.int64.tensor
    view = array._view
    flat = dr.arange(dr.array_t(number), array.size) if view is None else view.positions(array.shape)
    return wrap(dtypes.int64, number(flat, shape=array.shape))


def _write(array: Storage, positions: Storage, source: Storage) -> None:
    """Set the elements of the root of an array at positions."""
    index = dr.uint64_array_t(dr.array_t(dtypes.int64.tensor))(positions._parts[0].array)
    _assign(array if array._view is None else array._view.root,
            lambda part, new: dr.scatter(part.array, new.array, index), source)


def _assign(root: Storage, write: Callable[[Any, Any], None], source: Storage) -> None:
    """Write to the tensors of an array that owns its elements."""
    new = source._parts
    if not in_body():  # other arrays may have the same tensors; inside of a body, these are what its scope knows
        before, root._held = root._held, ()
        root._held = tuple([type(part)(part) for part in before])
        del before
    root._writes += 1
    for part, value in zip(root._held, new, strict=True):
        write(part, value)


def replace(array: Storage, source: Storage) -> None:
    """Set all elements of an array to those of another one of its type and shape."""
    view = array._view
    if view is not None:
        _write(array, _positions(array), source)
        if not in_body():
            array._held, view.seen = source._parts, view.root._writes
    elif in_body():
        _assign(array, lambda part, new: part.__setitem__(..., new), source)
    else:
        array._held = source._parts
        array._writes += 1


# --- functions -------------------------------------------------------------------------------------------------------


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The entries of an axis at positions, which an array of one axis holds; negative ones count from the end. Lazy;
    differentiable. ``axis`` may be left out for arrays of one dimension."""
    function = f"{_NAMESPACE}.take"
    array, index = require_array(function, "x", x), require_kind(function, "indices", indices, "iu")
    if axis is None:
        if array.ndim != 1:
            raise ValueError(f"{function}(): 'axis' must be given for an array of {array.ndim} dimensions.")
        axis = 0
    place = normalized_axis(function, axis, array.ndim)
    if index.ndim != 1:
        raise ValueError(f"{function}(): 'indices' must have one dimension, found the shape {index.shape}.")
    part = _in_range(converted(index, dtypes.int64)._parts[0], array.shape[place], place)
    return taken(array, part, place)


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """For each position of ``indices``, the element of ``x`` at that entry of an axis, and the same place of the other
    axes, which are broadcast. Lazy; differentiable."""
    function = f"{_NAMESPACE}.take_along_axis"
    array, index = require_array(function, "x", x), require_kind(function, "indices", indices, "iu")
    place = normalized_axis(function, axis, array.ndim)
    if index.ndim != array.ndim:
        raise ValueError(f"{function}(): 'indices' must have {array.ndim} dimensions as 'x', found {index.ndim}.")
    others = [np.broadcast_shapes(*[shape[:place] + (1,) + shape[place + 1:] for shape in (array.shape, index.shape)])]
    shape = list(others[0])
    wide = broadcast_to(array, (*shape[:place], array.shape[place], *shape[place + 1:]))
    index = broadcast_to(index, (*shape[:place], index.shape[place], *shape[place + 1:]))
    number = dtypes.int64.tensor
    key: list[Any] = []
    for axis_, size in enumerate(index.shape):
        if axis_ == place:
            key.append(index)
        else:
            along = number(dr.arange(dr.array_t(number), size), shape=tuple(
                [size if k == axis_ else 1 for k in range(index.ndim)]))
            key.append(wrap(dtypes.int64, along))
    return get(wide, tuple(key))
