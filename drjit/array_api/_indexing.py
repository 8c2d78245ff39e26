"""Item access, ``take`` and ``take_along_axis``.

Keys of integers, slices, ``None`` and ``...`` are views. Arrays of integers read by index, with NumPy's rules for where
their axes go; they may be Python lists, NumPy arrays and arrays of this namespace. A Boolean array selects by its
positions, which are evaluated, unless a single value is assigned.

Positions beyond an axis raise an ``IndexError`` where Python knows them: integers, lists, NumPy arrays, small arrays
that have their elements. Those of others are not looked at, since that would evaluate them (``JitFlag.Debug`` does):
what is read there is zero, and what is written there is lost.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import drjit as dr
from drjit.detail import in_plain_code
from drjit.detail import part_of as chosen_by
from drjit.interop import contiguous_strides

from . import _dtypes as dtypes
from ._creation import array_from, asarray, common_type, holds_arrays
from ._data import (
    Storage,
    constant,
    copy_of,
    evaluated,
    expanded,
    hold,
    in_body,
    own_tensors,
    part_of,
    parts_of,
    put_elements,
    read_elements,
    require_writable,
    same,
    tensors_of,
    value_of,
    view_of,
    was_read,
    wrap,
    writing,
    written,
)
from ._dtypes import ON_GPU, promoted
from ._evaluation import eager
from ._manipulation import broadcast_to, each, reshape, taken
from ._operands import (
    converted,
    describe,
    literal,
    normalized_axis,
    on_one_device,
    operands,
    require_array,
    require_arrays,
    require_kind,
)
from ._operators import fits, selected
from ._small import chosen, found_by, place_of

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["combine", "get", "nonzero", "put", "take", "take_along_axis", "where", "write_into"]

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
        found.append(wrap(dtypes.int64, dtypes.int64.on(array.device)(flat // behind % size if len(flat) else flat)))
    return tuple(found)


def _set_positions(array: Storage) -> Any:
    """The positions of elements that are not zero, in C order, as a flat array; evaluates."""
    mask = evaluated(converted(array, dtypes.bool))[0]
    flat = dr.int64_array_t(dr.array_t(type(mask)))
    return flat(dr.compress(mask.array)) if array.size else flat([])


_MISSING: Any = type("_Missing", (), {"__repr__": lambda self: "<missing>"})()


def where(condition: Array, x1: Any = _MISSING, x2: Any = _MISSING, /) -> Array:
    """Elements of ``x1`` where the condition holds, those of ``x2`` elsewhere; both may be numbers. Lazy;
    differentiable. Without them, the positions where it holds, as ``nonzero`` has them."""
    found = selected(condition, x1, x2)
    if found is not None:
        return found  # type: ignore[no-any-return]
    function = f"{_NAMESPACE}.where"
    if x1 is _MISSING:
        return nonzero(condition)  # type: ignore[return-value]  # what the standard knows has three arguments
    if x2 is _MISSING:
        raise TypeError(f"{function}(): 'x2' is missing.")
    mask = require_kind(function, "condition", condition, "b")
    if not isinstance(x1, Storage) and not isinstance(x2, Storage):
        dtype = common_type(function, (x1, x2))
        known = found_by(lambda value: np.where(value, x1, x2), mask, dtype=dtype) if dtype.kind in "bif" else None
        if known is not None:
            return known  # type: ignore[no-any-return]
        a, b = (literal(function, dtype, value, mask.device) for value in (x1, x2))
    else:
        if ON_GPU:
            (mask, x1, x2), _ = on_one_device(function, (mask, x1, x2), ("condition", "x1", "x2"))
        a, b = operands(function, (x1, x2), ("x1", "x2"))
    try:
        shape = np.broadcast_shapes(mask.shape, a.shape, b.shape)
    except ValueError:
        raise ValueError(f"{function}(): the shapes {mask.shape}, {a.shape} and {b.shape} cannot be broadcast to a "
                         "common one.") from None
    return wrap(a._dtype, *[expanded(dr.select(mask._parts[0], yes, no), shape)
                            for yes, no in zip(a._parts, b._parts, strict=True)])


# --- keys ------------------------------------------------------------------------------------------------------------


def _entries(function: str, array: Storage, key: Any) -> list[Any]:
    """The entries of a key, one or more for each axis of the array, without ``...``; raises for those beyond it."""
    found: list[Any] = []
    for entry in key if isinstance(key, tuple) else (key,):
        if entry is None or entry is Ellipsis:
            found.append(entry)
        elif isinstance(entry, slice):
            found.append(_checked_slice(function, entry))
        elif isinstance(entry, (bool, np.bool_)):
            found.append(constant(dtypes.bool, bool(entry), (), array.device))
        elif isinstance(entry, (Storage, list, range, np.ndarray, dr.ArrayBase)):
            found.append(_index_array(function, list(entry) if isinstance(entry, range) else entry, array))
        else:
            try:
                found.append(operator.index(entry))
            except TypeError:
                raise IndexError(f"{function}(): keys are made of integers, slices, arrays, None and '...', found "
                                 f"{describe(entry)}.") from None
    dots = [place for place, entry in enumerate(found) if entry is Ellipsis]
    if len(dots) > 1:
        raise IndexError(f"{function}(): a key has one '...' at most.")
    used = sum([entry.ndim if _is_mask(entry) else 1 for entry in found if entry is not None and
                entry is not Ellipsis])
    if used > array.ndim:
        raise IndexError(f"{function}(): the key has {used} {'index' if used == 1 else 'indices'} for an array of "
                         f"{array.ndim} dimension{'s' * (array.ndim != 1)}.")
    place = dots[0] if dots else len(found)
    found = found[:place] + [slice(None)] * (array.ndim - used) + found[place + 1:]
    axis = 0
    for place, entry in enumerate(found):
        if entry is None:
            continue
        if _is_mask(entry):
            axis += entry.ndim
            continue
        if isinstance(entry, int):
            _require_inside(function, entry, array.shape[axis], axis)
        elif isinstance(entry, np.ndarray):
            _require_all_inside(function, entry, array.shape[axis], axis)
            found[place] = asarray(entry, device=array.device)
        axis += 1
    return found


def _is_mask(entry: Any) -> bool:
    return isinstance(entry, Storage) and entry._dtype.kind == "b"


def _checked_slice(function: str, entry: slice) -> slice:
    """A slice of integers."""
    try:
        parts = [None if part is None else operator.index(part) for part in (entry.start, entry.stop, entry.step)]
    except TypeError:
        raise IndexError(f"{function}(): slices are made of integers, found {entry!r}.") from None
    if parts[2] == 0:
        raise ValueError(f"{function}(): the step of a slice must not be 0.")
    return slice(*parts)


def _index_array(function: str, entry: Any, array: Storage) -> Any:
    """An array in a key of another one: integers on the host as a NumPy array, others as an array of this namespace."""
    if isinstance(entry, Storage):
        index: Any = on_one_device(function, (array, entry), ("self", "key"))[0][1] if ON_GPU else entry
    elif isinstance(entry, np.ndarray) and entry.dtype.kind in "iu":
        return entry
    else:
        if isinstance(entry, list) and not holds_arrays(entry):
            host = _numbers_of(entry)
            if host is not None:
                return host
        index = asarray(entry, device=array.device)
        if not index.size and index._dtype.kind == "f":  # []
            index = converted(index, dtypes.int64)
    if index._dtype.kind not in "biu":
        raise IndexError(f"{function}(): arrays in a key must be of integers or Booleans, found {index._dtype}.")
    return index


def _numbers_of(entries: list[Any]) -> np.ndarray[Any, Any] | None:
    """The integers in nested lists, if there is nothing else in them."""
    try:
        found = np.asarray(entries)
    except (ValueError, OverflowError):
        return None
    return found if found.dtype.kind in "iu" else found.astype(np.int64) if not found.size else None


def _require_inside(function: str, index: int, size: int, axis: int) -> None:
    if not -size <= index < size:
        raise IndexError(f"{function}(): index {index} is out of bounds for axis {axis} of size {size}.")


def _require_all_inside(function: str, positions: Any, size: int, axis: int) -> None:
    if positions.size:
        for extreme in (int(positions.min()), int(positions.max())):
            _require_inside(function, extreme, size, axis)


def _is_advanced(entries: list[Any]) -> bool:
    return any(isinstance(entry, Storage) for entry in entries)


def get(array: Storage, key: Any) -> Array:
    """``array[key]``."""
    found = part_of(array, key)
    if found is not None:
        return found
    now: Array | None = chosen(array, key)
    if now is None:
        now = _read_now(array, key)
    if now is not None:
        return now
    function = f"{_SELF}.__getitem__"
    entries = _entries(function, array, key)
    if not _is_advanced(entries):
        basic = tuple(entries)
        if len(basic) == sum([isinstance(entry, int) for entry in basic]) and basic and Ellipsis not in (
                key if isinstance(key, tuple) else ()):  # one element; with '...' it is a view
            return each(array, lambda part: part[basic])
        return view_of(array, (lambda part: part[basic]) if basic else same, *_placed_by(array, entries))
    return _selected(function, array, entries)


def _read_now(array: Storage, key: Any) -> Array | None:
    """What a key with arrays chooses of an array in memory, if these are few elements; ``None`` of others."""
    most = eager()
    place = _few_at(array.shape, key, most) if most else None
    try:
        return None if place is None else read_elements(array, place)
    except (IndexError, TypeError, ValueError):  # which are told in words
        return None


def _few_at(shape: tuple[int, ...], key: Any, most: int) -> Any:
    """A key as NumPy takes it, if it chooses at most so many elements of an array of a shape, but some; ``None`` for
    others, and for those that do not go with it."""
    chosen = chosen_by(shape, key)
    if chosen is not None:
        return key if 0 < math.prod(chosen.shape) <= most else None
    place = place_of(key, most)
    if place is None:
        return None
    try:
        return place if 0 < _count_at(shape, place if type(place) is tuple else (place,)) <= most else None
    except (TypeError, ValueError):  # told in words
        return None


def _count_at(shape: tuple[int, ...], entries: tuple[Any, ...]) -> int:
    """How many elements of an array of a shape integers, slices and NumPy arrays choose. Raises what NumPy raises."""
    used = sum([entry.ndim if isinstance(entry, np.ndarray) and entry.dtype.kind == "b" else 1
                for entry in entries if entry is not None and entry is not Ellipsis])
    sizes, count, axis = [], 1, 0
    for entry in entries:
        behind = axis + len(shape) - used if entry is Ellipsis else axis if entry is None else axis + 1
        if isinstance(entry, np.ndarray):
            if entry.dtype.kind == "b":
                behind = axis + entry.ndim
                sizes.append((int(np.count_nonzero(entry)),))
            else:
                sizes.append(entry.shape)
        elif isinstance(entry, slice) and axis < len(shape):
            count *= len(range(*entry.indices(shape[axis])))
        elif entry is Ellipsis:
            count *= math.prod(shape[axis:behind])
        axis = behind
    return count * math.prod(shape[axis:]) * math.prod(np.broadcast_shapes(*sizes))


def _selected(function: str, array: Storage, entries: list[Any]) -> Array:
    """What a key with arrays selects."""
    kept, arrays, axes, front = _split(function, array, entries)
    view = each(array, lambda part: part[kept]) if kept else each(array, same)
    if not axes:  # a mask without axes: a new axis of one entry, or none
        count = int(bool(arrays[0][0]))
        return each(view, lambda part: part[None][slice(0, count)])
    positions, inside, shape, rest = _flat_positions(function, view, arrays, axes)
    wanted = (*shape, *rest)
    flat = each(_moved(view, axes), lambda part: _gathered(part, positions, inside, wanted))
    return _placed(flat, len(shape), front)


def _placed_by(array: Storage, entries: Sequence[Any]) -> tuple[int, tuple[int, ...]]:
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


def _key_at(sizes: Sequence[int], offset: int, strides: Sequence[int], shape: Sequence[int]) -> tuple[Any, ...] | None:
    """The key of integers and slices that selects what lies at a place of an array of the given sizes, in the order of
    its axes and without those of size 1; ``None`` if there is none."""
    if 0 in shape:
        return None
    axes = [(stride, size) for stride, size in zip(strides, shape, strict=True) if size != 1]
    key: list[Any] = []
    for count, stride in zip(sizes, contiguous_strides(sizes), strict=True):
        start, offset = divmod(offset, stride)
        step, rest = divmod(axes[0][0], stride) if axes else (0, 0)
        last = start + step * (axes[0][1] - 1) if axes else 0
        if step and not rest and 0 <= last < count:
            end = last + (1 if step > 0 else -1)
            key.append(slice(start, None if end < 0 else end, step))
            del axes[0]
        else:
            key.append(start)
    return None if axes else tuple(key)


def _split(function: str, array: Storage, entries: list[Any]) -> \
        tuple[tuple[slice | None, ...], list[tuple[Array, bool]], list[int], int]:
    """A key with arrays: its other entries, the arrays of positions (and whether these may lie beyond the axis) and
    their axes in what the others select, and the place of their axes in the result. Integers count as arrays, as they
    do in NumPy. There are no axes if the only array is a mask without axes."""
    expanded_: list[Any] = []
    known: set[int] = set()
    for entry in entries:
        if _is_mask(entry) and entry.ndim:
            start = sum([other is not None for other in expanded_])
            sizes = array.shape[start:start + entry.ndim]
            if len(sizes) != entry.ndim or any(have not in (size, 0)
                                               for size, have in zip(sizes, entry.shape, strict=True)):
                raise IndexError(f"{function}(): a mask of the shape {entry.shape} does not go with the axes of the "
                                 f"sizes {sizes}.")
            known.update(range(len(expanded_), len(expanded_) + entry.ndim))
            expanded_ += nonzero(entry)
        else:
            expanded_.append(entry)
    kept: list[slice | None] = []
    arrays: list[Any] = []
    axes: list[int] = []
    places: list[int] = []
    axis = 0
    for place, entry in enumerate(expanded_):
        if _is_mask(entry):
            arrays.append((entry, False))
            places.append(place)
        elif isinstance(entry, (Storage, int)):
            axes.append(axis)
            places.append(place)
            arrays.append((entry, place not in known) if not isinstance(entry, int) else (constant(
                dtypes.int64, entry % array.shape[_axis(expanded_, place)], (), array.device), False))
            kept.append(slice(None))
            axis += 1
        else:
            kept.append(entry)
            axis += 1
    adjacent = places == list(range(places[0], places[0] + len(places)))
    front = places[0] if adjacent else 0
    if len(axes) != len(arrays) and len(arrays) != 1:
        raise IndexError(f"{function}(): a mask without axes cannot be combined with other arrays.")
    return tuple(kept), arrays, axes, front


def _axis(entries: list[Any], place: int) -> int:
    """The axis of an array that an entry of a key is for."""
    return sum([entry is not None and not _is_mask(entry) for entry in entries[:place]])


def _moved(view: Array, axes: list[int]) -> Array:
    """The array with the axes of positions in front."""
    order = (*axes, *[axis for axis in range(view.ndim) if axis not in axes])
    return view if order == tuple(range(view.ndim)) else each(view, lambda part: dr.transpose(part, order))


def _flat_positions(function: str, view: Array, arrays: list[tuple[Array, bool]], axes: list[int]) -> \
        tuple[Any, Any, tuple[int, ...], tuple[int, ...]]:
    """The positions in the array with those axes in front, which of them there are (``None`` for all), the shape of the
    arrays, and the shape of the rest."""
    shape = _common_shape(function, arrays)
    rest = tuple([size for axis, size in enumerate(view.shape) if axis not in axes])
    flat = inside = None
    for (index, unknown), axis in zip(arrays, axes, strict=True):
        size = view.shape[axis]
        if unknown:
            part, there = _in_range(function, index, size, axis)
            inside = there if inside is None else inside if there is None else inside & there
        else:
            part = converted(index, dtypes.int64)._parts[0]
        flat = part if flat is None else flat * size + part
    assert flat is not None
    count = math.prod(rest)
    positions = expanded(flat, shape)
    inside = None if inside is None else expanded(inside, shape)
    if count != 1:
        columns = type(flat)(dr.arange(dr.array_t(type(flat)), count), shape=(count,)) if count else flat
        positions = positions[..., None] * count + columns if count else positions
        inside = inside[..., None] | dr.zeros(type(inside), (count,)) if inside is not None and count else inside
    return positions, inside, shape, rest


def _common_shape(function: str, arrays: list[tuple[Array, bool]]) -> tuple[int, ...]:
    """The shape of the arrays of a key together."""
    try:
        return np.broadcast_shapes(*[index.shape for index, _ in arrays])
    except ValueError:
        raise IndexError(f"{function}(): the shapes of the arrays in the key, "
                         f"{' and '.join(str(index.shape) for index, _ in arrays)}, cannot be broadcast to a common "
                         "one.") from None


def _in_range(function: str, positions: Storage, size: int, axis: int) -> tuple[Any, Any]:
    """Positions counted from the front, and which of them are within the axis (``None`` for all); raises if some are
    known not to be."""
    if not size and positions.size:
        raise IndexError(f"{function}(): axis {axis} is empty.")
    most = eager()
    known = value_of(positions, most) if most else None
    index = converted(positions, dtypes.int64)._parts[0]
    if known is not None:
        _require_all_inside(function, known, size, axis)
        return dr.select(index < 0, index + size, index), None
    inside = (index >= -size) & (index < size)
    if positions.size and index.array.state is dr.VarState.Literal:
        _require_inside(function, index.array[0], size, axis)
    elif dr.flag(dr.JitFlag.Debug) and not in_body():
        wrong = dr.compress(~inside.array)
        if len(wrong):
            _require_inside(function, index.array[wrong[0]], size, axis)
    return dr.select(index < 0, index + size, index), inside


def _gathered(part: Any, positions: Any, inside: Any, shape: tuple[int, ...]) -> Any:
    if not math.prod(shape):
        return dr.zeros(type(part), shape)
    index = dr.uint64_array_t(dr.array_t(type(part)))(positions.array)
    return type(part)(dr.gather(type(part.array), part.array, index, True if inside is None else inside.array),
                      shape=shape)


def _placed(array: Array, count: int, front: int) -> Array:
    """The array with its first ``count`` axes moved behind ``front`` others."""
    if not front or not count:
        return array
    order = (*range(count, count + front), *range(count), *range(count + front, array.ndim))
    return each(array, lambda part: dr.transpose(part, order))


def _are_same(array: Storage, entries: list[Any], value: Any) -> bool:
    """Whether a value is a view of just what a key selects: ``x[key] += 1`` has written to it already."""
    view = value._view if isinstance(value, Storage) else None
    own = array._view
    if view is None or view.root is not (array if own is None else own.root) or _is_advanced(entries) or \
            view.part != (-1 if own is None else own.part):
        return False
    return value.shape == array._parts[0][tuple(entries)].shape and view.place == _placed_by(array, entries)


def _put_now(array: Storage, key: Any, value: Any, most: int) -> bool:
    """Write to the value of a small array, or to few elements in memory, if a key and what is assigned need no
    conversion."""
    target = value_of(array, most)
    dtype = array._dtype
    root = array if array._view is None else array._view.root
    if target is not None and (root._value is None or target is not root._value and target.base is not root._value):
        target = None
    source: Any
    if isinstance(value, (Storage, list, np.ndarray)):
        source = value_of(value, most) if isinstance(value, Storage) else \
            None if isinstance(value, list) and holds_arrays(value) else value
        if source is None:
            return False
        try:
            source = np.asarray(source)
        except ValueError:
            return False
        if source.dtype != dtype.numpy and not np.can_cast(source.dtype, dtype.numpy):
            return False
    elif fits(dtype, value) or dtype.kind == "c" and type(value) in (int, float, complex):
        source = value
    else:
        return False
    place = _few_at(array.shape, key, most) if target is None else \
        key if chosen_by(target.shape, key) is not None else place_of(key, most)
    if place is None:
        return False
    try:
        if target is None:
            return put_elements(array, place, source)
        target[place] = source
    except (IndexError, TypeError, ValueError):  # positions and shapes that do not go together are told in words
        return False
    written(root, True)
    return True


def put(array: Storage, key: Any, value: Any) -> None:
    """``array[key] = value``: lazy, and one kernel with other assignments. The array keeps its data type, which values
    become as those of NumPy do: fractions are cut off. Complex numbers are refused by arrays of others."""
    function = f"{_SELF}.__setitem__"
    most = eager()
    if most:
        require_writable(function, array)
        if _put_now(array, key, value, most):
            return
    entries = _entries(function, array, key)
    if _are_same(array, entries, value):
        return
    require_writable(function, array)
    if ON_GPU:
        value = on_one_device(function, (array, value), ("self", "value"))[0][1]
    basic = None if _is_advanced(entries) else tuple(entries)
    if basic is not None and fits(array._dtype, value):
        shape = _shape_of(array, basic)
        known = basic if array._view is None else _key_at(array._view.root.shape, *_placed_by(array, basic), shape)
        if known is not None:
            if math.prod(shape):
                _assign(array, lambda part, new: part.__setitem__(known, new), (value,))
            return
    source = array_from(function, value, array._dtype, device=array.device)
    if most and _put_now(array, key, source, most):
        return
    if basic is not None:
        target = _shape_of(array, basic)
        source = _fitting(function, source, target)
        if not math.prod(target):
            return
        if array._view is None:
            _assign(array, lambda part, new: part.__setitem__(basic, new), source._parts)
        elif target == array.shape and basic == (slice(None),) * array.ndim:
            replace(array, source)
        else:
            _write_at(array, *_placed_by(array, basic), source)
        return
    if _is_mask(entries[0]) and entries[0].ndim and not source.ndim and \
            all(isinstance(entry, slice) and entry == slice(None) for entry in entries[1:]):
        mask = entries[0]
        if array.shape[:mask.ndim] != mask.shape:
            raise IndexError(f"{function}(): a mask of the shape {mask.shape} does not go with an array of the shape "
                             f"{array.shape}.")
        chosen = reshape(mask, mask.shape + (1,) * (array.ndim - mask.ndim))
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
    """Assign to what a key selects, at its positions in the root."""
    shape, terms, inside = _targets(function, array, entries)
    source = _fitting(function, source, shape)
    if math.prod(shape):
        positions = expanded(functools.reduce(operator.add, terms), shape)
        _write(array, positions.array, source, True if inside is None else expanded(inside, shape).array)


def combine(function: str, array: Storage, key: Any, value: Storage, op: dr.ReduceOp) -> Array:
    """A copy of an array, where the elements that a key selects are combined with values: as often as it has them."""
    found = copy_of(array)
    if len(array._parts) == 2 and op != dr.ReduceOp.Add:
        raise NotImplementedError(f"{function}(): not there yet for complex numbers; use at[key].set().")
    if promoted(array._dtype, value._dtype).kind != array._dtype.kind:
        raise TypeError(f"{function}(): elements of {value._dtype} cannot be combined with an array of "
                        f"{array._dtype}; convert them with astype().")
    if ON_GPU:
        value = on_one_device(function, (array, value), ("self", "values"))[0][1]
    shape, terms, inside = _targets(function, found, _entries(function, found, key))
    source = _fitting(function, converted(value, array._dtype), shape)
    if math.prod(shape):
        positions = expanded(functools.reduce(operator.add, terms), shape).array
        index = dr.uint64_array_t(type(positions))(positions)
        active = True if inside is None else expanded(inside, shape).array
        _assign(found, lambda part, new: dr.scatter_reduce(op, part.array, new.array, index, active), source._parts)
    return found


def _targets(function: str, array: Storage, entries: list[Any]) -> tuple[tuple[int, ...], list[Any], Any]:
    """The shape of what a key selects, the terms of the positions in the root, and which of them there are (``None``
    for all)."""
    if not _is_advanced(entries):
        shape, inside = _shape_of(array, entries), None
        terms = _along(*_placed_by(array, entries), shape, array.device)
    else:
        kept, arrays, axes, front = _split(function, array, entries)
        offset, strides = _placed_by(array, kept)
        sizes = _shape_of(array, kept)
        if not axes:  # a mask without axes
            shape, inside = (int(bool(arrays[0][0])), *sizes), None
            terms = _along(offset, (0, *strides), shape, array.device)
        else:
            rest = [axis for axis in range(len(sizes)) if axis not in axes]
            common = _common_shape(function, arrays)
            shape = (*[sizes[axis] for axis in rest[:front]], *common, *[sizes[axis] for axis in rest[front:]])
            fixed = (*[strides[axis] for axis in rest[:front]], *[0] * len(common),
                     *[strides[axis] for axis in rest[front:]])
            behind = (1,) * (len(rest) - front)
            terms, inside = _along(offset, fixed, shape, array.device), None
            for (index, unknown), axis in zip(arrays, axes, strict=True):
                if unknown:
                    part, there = _in_range(function, index, sizes[axis], axis)
                    if there is not None:
                        there = dr.reshape(there, (*there.shape, *behind))
                        inside = there if inside is None else inside & there
                else:
                    part = converted(index, dtypes.int64)._parts[0]
                terms.append(dr.reshape(part, (*part.shape, *behind)) * strides[axis])
    return shape, terms, inside


def _shape_of(array: Storage, entries: Sequence[Any]) -> tuple[int, ...]:
    """The shape of what integers and slices select."""
    return tuple([1 if entry is None else len(range(*entry.indices(size)))
                  for entry, size in zip(entries, _sizes(array, entries), strict=True)
                  if entry is None or isinstance(entry, slice)])


def _sizes(array: Storage, entries: Sequence[Any]) -> list[int]:
    """The size of the axis that each entry of a key is for, 1 for new axes."""
    sizes = iter(array.shape)
    return [1 if entry is None else next(sizes) for entry in entries]


def _along(offset: int, strides: Sequence[int], shape: tuple[int, ...], device: str) -> list[Any]:
    """What positions are a sum of: those along each axis, and the first one. A stride of 0 is that of no axis."""
    number = dtypes.int64.on(device)
    terms = [number(offset)]
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        if stride and size > 1:
            along = number(dr.arange(dr.array_t(number), size), shape=(size,) + (1,) * (len(shape) - axis - 1))
            terms.append(along * stride)
    return terms


def _write_at(array: Storage, offset: int, strides: tuple[int, ...], source: Storage) -> None:
    """Set what lies at a place of the root of a view."""
    shape, view = source.shape, array._view
    assert view is not None
    key = _key_at(view.root.shape, offset, strides, shape)
    if key is None:
        positions = expanded(functools.reduce(operator.add, _along(offset, strides, shape, array.device)), shape)
        _write(array, positions.array, source)
        return
    kept = tuple([size for size in shape if size != 1])
    _assign(array, lambda part, new: part.__setitem__(key, new if kept == shape else dr.reshape(new, kept)),
            source._parts)


def _write(array: Storage, positions: Any, source: Storage, active: Any = True) -> None:
    """Set the elements of the root of an array at positions, a flat array."""
    index = dr.uint64_array_t(type(positions))(positions)
    _assign(array, lambda part, new: dr.scatter(part.array, new.array, index, active), source._parts)


def _assign(array: Storage, write: Callable[[Any, Any], None], new: Sequence[Any]) -> None:
    """Write to the tensors of an array, or of the root of a view."""
    view = array._view
    root = array if view is None else view.root
    with writing:
        if in_plain_code():  # inside of a construct, tensors are what it knows
            own_tensors(root)
        held = parts_of(root)
        written(root, False)
        for part, value in zip(held if view is None else tensors_of(view), new, strict=True):
            write(part, value)


def write_into(function: str, out: Array, found: Array) -> None:
    """Set an argument ``out`` to a result, which must be of its kind of elements, or a lesser one."""
    if not np.can_cast(found._dtype.numpy, out._dtype.numpy, "same_kind"):
        raise TypeError(f"{function}: 'out' is an array of {out._dtype}, which elements of {found._dtype} cannot be "
                        "written to; pass one of their kind.")
    put(out, ..., found)


def replace(array: Storage, source: Storage) -> None:
    """Set all elements of an array to those of another one of its type and shape."""
    view = array._view
    most = eager()
    if most and _put_now(array, ..., source, most):
        return
    if view is not None:
        if array.size == view.root.size and view.place == (0, contiguous_strides(array.shape)):  # all of it, in order
            _assign(array, lambda part, new: part.__setitem__(..., dr.reshape(new, part.shape)), source._parts)
        else:
            _write_at(array, *view.place, source)
        if in_plain_code():  # else it is the construct that knows what the root holds in the end
            hold(array, source._parts)
            was_read(array)
    elif in_body():
        _assign(array, lambda part, new: part.__setitem__(..., new), source._parts)
    else:
        hold(array, source._parts)
        array._writes += 1


# --- functions -------------------------------------------------------------------------------------------------------


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The entries of an axis at positions, which an array of one axis holds; negative ones count from the end. Lazy;
    differentiable. ``axis`` may be left out for arrays of one dimension."""
    function = f"{_NAMESPACE}.take"
    array, index = require_arrays(function, (x, indices), ("x", "indices"))
    require_kind(function, "indices", index, "iu")
    if axis is None:
        if array.ndim != 1:
            raise ValueError(f"{function}(): 'axis' must be given for an array of {array.ndim} dimensions.")
        axis = 0
    place = normalized_axis(function, axis, array.ndim)
    if index.ndim != 1:
        raise ValueError(f"{function}(): 'indices' must have one dimension, found the shape {index.shape}.")
    known = found_by(lambda value, positions: value.take(positions, place), array, index)
    if known is not None:
        return known  # type: ignore[no-any-return]
    return taken(array, *_in_range(function, index, array.shape[place], place), place)


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """For each position of ``indices``, the element of ``x`` at that entry of an axis, and the same place of the other
    axes, which are broadcast. Lazy; differentiable."""
    function = f"{_NAMESPACE}.take_along_axis"
    array, index = require_arrays(function, (x, indices), ("x", "indices"))
    require_kind(function, "indices", index, "iu")
    place = normalized_axis(function, axis, array.ndim)
    if index.ndim != array.ndim:
        raise ValueError(f"{function}(): 'indices' must have {array.ndim} dimensions as 'x', found {index.ndim}.")
    try:
        shape = np.broadcast_shapes(*[shape[:place] + (1,) + shape[place + 1:] for shape in (array.shape, index.shape)])
    except ValueError:
        raise ValueError(f"{function}(): the shapes {array.shape} of 'x' and {index.shape} of 'indices' cannot be "
                         f"broadcast to a common one besides axis {place}.") from None
    known = found_by(lambda value, positions: np.take_along_axis(value, positions, place), array, index)
    if known is not None:
        return known  # type: ignore[no-any-return]
    wide = broadcast_to(array, (*shape[:place], array.shape[place], *shape[place + 1:]))
    index = broadcast_to(index, (*shape[:place], index.shape[place], *shape[place + 1:]))
    number = dtypes.int64.on(array.device)
    key: list[tuple[Any, bool]] = []
    for axis_, size in enumerate(index.shape):
        if axis_ == place:
            key.append((index, True))
        else:
            along = number(dr.arange(dr.array_t(number), size), shape=tuple(
                [size if k == axis_ else 1 for k in range(index.ndim)]))
            key.append((wrap(dtypes.int64, along), False))
    positions, inside, found, _ = _flat_positions(function, wide, key, list(range(wide.ndim)))
    return each(wide, lambda part: _gathered(part, positions, inside, found))
