"""Functions that rearrange elements: views of arrays, which are lazy and differentiable."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import drjit as dr
from drjit.detail import permuted, reshaped
from drjit.interop import contiguous_strides

from . import _dtypes as dtypes
from ._data import (
    Storage,
    copy_of,
    evaluated,
    expanded,
    own,
    part_of,
    reshaped_now,
    reversed_axes,
    view_by,
    view_of,
    viewed,
    wrap,
)
from ._dtypes import ON_GPU
from ._operands import (
    common_shape,
    describe,
    normalized_axes,
    normalized_axis,
    operands,
    require_array,
    require_arrays,
    require_kind,
    shape_of,
)
from ._small import found_by, joined, rolled

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis",
           "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "tile", "transpose", "unstack"]

_NAMESPACE = "drjit.array_api"


def each(array: Storage, function: Any) -> Array:
    """An array of the same type, of what a function makes of each part."""
    return wrap(array._dtype, *[function(part) for part in array._parts])


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """The array with axes of size one, and new ones in front, repeated so that it has a shape. Lazy; differentiable."""
    function = f"{_NAMESPACE}.broadcast_to"
    array, sizes = require_array(function, "x", x), shape_of(function, shape)
    try:
        fits = np.broadcast_shapes(array.shape, sizes) == sizes
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{function}(): an array of the shape {array.shape} cannot be broadcast to {sizes}.")
    if array.shape == sizes:
        return copy_of(array)
    known = found_by(lambda value: np.broadcast_to(value, sizes), array)
    return each(array, lambda part: expanded(part, sizes)) if known is None else cast("Array", known)


def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """Arrays broadcast to their common shape. Lazy; differentiable."""
    function = f"{_NAMESPACE}.broadcast_arrays"
    found = require_arrays(function, arrays, [f"arrays[{k}]" for k in range(len(arrays))])
    shape = common_shape(function, found) if found else ()
    return tuple([broadcast_to(array, shape) for array in found])


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of some shapes are broadcast to; a ``ValueError`` if there is none."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{_NAMESPACE}.broadcast_shapes(): the shapes {' and '.join(map(str, shapes))} cannot be "
                         "broadcast to a common one.") from None


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """The elements in their order with another shape, of which one size may be -1. Lazy; differentiable."""
    function = f"{_NAMESPACE}.reshape"
    array = require_array(function, "x", x)
    now = None if copy else reshaped_now(array, shape, _Shaped)
    if now is not None:
        return now
    sizes = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    if sizes.count(-1) > 1:
        raise ValueError(f"{function}(): 'shape' must have one size of -1 at most, found {shape!r}.")
    known = shape_of(function, [size for size in sizes if size != -1])
    if -1 in sizes:
        rest = math.prod(known)
        sizes[sizes.index(-1)] = array.size // rest if rest else 0
    wanted = shape_of(function, sizes)
    if math.prod(wanted) != array.size:
        raise ValueError(f"{function}(): an array of the shape {array.shape} has {array.size} elements, which do not "
                         f"fill the shape {shape!r}.")
    load = _Shaped(array.shape, wanted)
    if array._view is None and not copy:
        return view_by(array, load, "reshape", wanted)
    offset, old = array.place
    strides = _strides_of(wanted, array.shape, old)
    if strides is None and copy is False:
        raise ValueError(f"{function}(): a view of the shape {array.shape} whose elements do not follow each other "
                         f"cannot get the shape {shape!r} without a copy.")
    return each(array, lambda part: own(load(part)) if copy else load(part)) if copy or strides is None else \
        view_of(array, load, offset, strides)


class _Shaped:
    """What gives tensors of a shape another one."""

    __slots__ = ("old", "shape")

    def __init__(self, old: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.old, self.shape = old, shape

    def __call__(self, part: Any) -> Any:
        return reshaped(part, self.shape)

    def placed(self, offset: int, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """Where the elements lie, given where those of the array do, which follow each other."""
        found = _strides_of(self.shape, self.old, strides)
        assert found is not None
        return offset, found


def _strides_of(wanted: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides that a view of some shape and strides has when it gets another shape; ``None`` if there are none.

    Axes of both shapes are taken together until there are as many elements: those of the view must follow each other.
    """
    if not math.prod(shape):
        return contiguous_strides(wanted)
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    found: list[int] = []
    here = 0  # the axis of the view that comes next
    group: list[int] = []  # axes of the new shape that are waiting for their strides
    for size in wanted:
        group.append(size)
        count, have, first = math.prod(group), 1, here
        while have < count and here < len(old):
            have *= old[here][0]
            here += 1
        if have != count:
            here = first
            continue
        run = old[first:here]
        if any(a[1] != b[0] * b[1] for a, b in itertools.pairwise(run)):
            return None
        unit = run[-1][1] if run else 0
        found += [unit * stride for stride in contiguous_strides(tuple(group))]
        group = []
    return tuple(found)


def expand_dims(x: Array, /, axis: int | tuple[int, ...] = 0) -> Array:
    """The array with new axes of size one at some places of the result. Lazy; differentiable."""
    function = f"{_NAMESPACE}.expand_dims"
    array = require_array(function, "x", x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    places = normalized_axes(function, axis, array.ndim + count)
    old = iter(range(array.ndim))
    return viewed(array, permuted(array.shape, tuple([None if place in places else next(old)
                                                      for place in range(array.ndim + count)])))


def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """The array without some axes, which must be of size one. Lazy; differentiable."""
    function = f"{_NAMESPACE}.squeeze"
    array = require_array(function, "x", x)
    places = normalized_axes(function, axis, array.ndim)
    for place in places:
        if array.shape[place] != 1:
            raise ValueError(f"{function}(): axis {place} has the size {array.shape[place]}; only axes of size one can "
                             "be removed.")
    return viewed(array, permuted(array.shape, tuple([place for place in range(array.ndim) if place not in places])))


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """The array with its axes in another order. Lazy; differentiable."""
    function = f"{_NAMESPACE}.permute_dims"
    array = require_array(function, "x", x)
    order = normalized_axes(function, tuple(axes), array.ndim, "axes")
    if len(order) != array.ndim:
        raise ValueError(f"{function}(): 'axes' must name all {array.ndim} axes, found {axes!r}.")
    return view_by(array, permuted(array.shape, order), "transpose", order)


def transpose(x: Array, /, axes: Sequence[int] | None = None) -> Array:
    """The array with its axes in another order, by default the reverse one: ``permute_dims`` by NumPy's name, which the
    standard lacks. Lazy; differentiable."""
    array = require_array(f"{_NAMESPACE}.transpose", "x", x)
    if axes is not None:
        return permute_dims(array, tuple(axes))
    now = reversed_axes(array)
    if now is not None:
        return now
    order = tuple(range(array.ndim))[::-1]
    return view_by(array, permuted(array.shape, order), "transpose", order)


def moveaxis(x: Array, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Array:
    """The array with some axes moved to other places. Lazy; differentiable."""
    function = f"{_NAMESPACE}.moveaxis"
    array = require_array(function, "x", x)
    sources = normalized_axes(function, source, array.ndim, "source")
    places = normalized_axes(function, destination, array.ndim, "destination")
    if len(sources) != len(places):
        raise ValueError(f"{function}(): 'source' and 'destination' must have as many axes, found {source!r} and "
                         f"{destination!r}.")
    order = [axis for axis in range(array.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return permute_dims(array, tuple(order))


def flip(x: Array, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """The elements in reverse order along some axes, or all. Lazy; differentiable."""
    function = f"{_NAMESPACE}.flip"
    array = require_array(function, "x", x)
    axes = normalized_axes(function, axis, array.ndim)
    if not array.ndim:
        return copy_of(array)
    part = part_of(array, tuple([slice(None, None, -1 if place in axes else None) for place in range(array.ndim)]))
    assert part is not None
    return part


def roll(x: Array, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Array:
    """The elements moved along axes, those that leave at the end enter at the beginning; of all elements in their order
    without ``axis``. Lazy; differentiable."""
    function = f"{_NAMESPACE}.roll"
    array = require_array(function, "x", x)
    if axis is None:
        if isinstance(shift, tuple):
            raise ValueError(f"{function}(): 'shift' is a tuple, and there is no 'axis'.")
        small = rolled(array, _integer(function, "shift", shift), None)
        if small is not None:
            return small  # type: ignore[no-any-return]
        return reshape(roll(reshape(array, (-1,)), shift, axis=0), array.shape)
    places = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(places)
    if len(shifts) != len(places):
        raise ValueError(f"{function}(): 'shift' and 'axis' must have as many entries, found {shift!r} and {axis!r}.")
    total = [0] * array.ndim
    for place, by in zip(places, shifts, strict=True):
        total[normalized_axis(function, place, array.ndim)] += _integer(function, "shift", by)
    groups = _groups(array.shape, total)
    if not array.size or not any(by for _, by in groups):
        return copy_of(array)
    found = array
    for place, by in enumerate(total):
        small = rolled(found, by, place) if by else None
        if small is not None:
            found = small
    if found is not array:
        return found
    positions = _rolled(groups, array.device)
    return each(array, lambda part: type(part)(dr.gather(type(part.array), part.array, positions), shape=array.shape))


def _groups(shape: tuple[int, ...], shifts: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes and shifts of axes, where those that are not moved are one with the axis before them."""
    groups: list[tuple[int, int]] = []
    for size, shift in zip(shape, shifts, strict=True):
        by = shift % size if size else 0
        if by or not groups:
            groups.append((size, by))
        else:
            before, moved = groups.pop()
            groups.append((before * size, moved * size))
    return groups


def _rolled(groups: list[tuple[int, int]], device: str) -> Any:
    """Where each element of an array of some axes that are moved comes from, as flat positions."""
    shape = [size for size, _ in groups]
    number = (dtypes.uint32 if math.prod(shape) < 1 << 31 else dtypes.uint64).on(device)
    positions = number(0)
    for axis, (size, by) in enumerate(groups):
        along = number(dr.arange(dr.array_t(number), size), shape=(size,) + (1,) * (len(groups) - axis - 1))
        if by:
            along = along + (size - by)
            along = dr.select(along >= size, along - size, along)
        positions = positions + along * math.prod(shape[axis + 1:])
    return positions.array


def _integer(function: str, name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{function}(): '{name}' must be an int or a tuple of ints, found {describe(value)}.") from None


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """Arrays one after the other along an axis; all elements of all without one. Lazy; differentiable.

    Data types are promoted; sizes of the other axes must be equal.
    """
    function = f"{_NAMESPACE}.concat"
    found = _sequence(function, arrays)
    small = joined(found, axis) if type(axis) is int and _are_alike(found, axis) else None
    if small is not None:
        return small  # type: ignore[no-any-return]
    if axis is None:
        found, axis = [reshape(array, (-1,)) for array in found], 0
    place = normalized_axis(function, axis, found[0].ndim)
    for array in found:
        if array.ndim != found[0].ndim or any(a != b for k, (a, b) in enumerate(
                zip(array.shape, found[0].shape, strict=False)) if k != place):
            raise ValueError(f"{function}(): the shapes {found[0].shape} and {array.shape} differ besides axis "
                             f"{place}.")
    dtype = found[0]._dtype
    if len(found) == 1:
        return copy_of(found[0])
    rows = [entry for entry in found if entry.size] or found[:1]
    if len(rows) == 1:
        return reshape(rows[0], _joined_shape(found, place), copy=True)
    return wrap(dtype, *[dr.concat(list(parts), axis=place)
                         for parts in zip(*[array._parts for array in rows], strict=True)])


def _are_alike(arrays: Sequence[Storage], axis: int) -> bool:
    """Whether arrays, of which there are several, have the same sizes besides an axis counted from the front, and
    elements."""
    shape = arrays[0].shape
    rest = shape[:axis], shape[axis + 1:]
    return 0 <= axis < len(shape) and len(arrays) > 1 and \
        [(own[:axis], own[axis + 1:]) for array in arrays if all(own := array.shape)] == [rest] * len(arrays)


def _joined_shape(arrays: Sequence[Storage], place: int) -> tuple[int, ...]:
    shape = list(arrays[0].shape)
    shape[place] = sum([array.shape[place] for array in arrays])
    return tuple(shape)


def _sequence(function: str, arrays: Any) -> list[Array]:
    """Arrays of one data type, at least one."""
    if not isinstance(arrays, (tuple, list)):
        raise TypeError(f"{function}(): 'arrays' must be a tuple or a list of arrays, found {describe(arrays)}.")
    if not arrays:
        raise ValueError(f"{function}(): 'arrays' is empty.")
    dtype = getattr(arrays[0], "_dtype", None)
    if dtype is not None and not ON_GPU and not [array for array in arrays if not isinstance(array, Storage) or
                                                 array._dtype is not dtype]:
        return list(arrays)
    names = [f"arrays[{k}]" for k in range(len(arrays))]
    return operands(function, require_arrays(function, arrays, names), names, broadcast=False)


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Arrays of one shape along a new axis. Lazy; differentiable."""
    function = f"{_NAMESPACE}.stack"
    found = _sequence(function, arrays)
    place = normalized_axis(function, axis, found[0].ndim + 1)
    for array in found:
        if array.shape != found[0].shape:
            raise ValueError(f"{function}(): arrays must have one shape, found {found[0].shape} and {array.shape}.")
    if all(array._dtype is found[0]._dtype for array in found):
        known = found_by(lambda *values: np.stack(values, place), *found)
        if known is not None:
            return cast("Array", known)
    return concat([expand_dims(array, place) for array in found], axis=place)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The arrays along an axis, without it. Lazy; differentiable."""
    function = f"{_NAMESPACE}.unstack"
    array = require_array(function, "x", x)
    place = normalized_axis(function, axis, array.ndim)
    offset, strides = array.place
    rest = strides[:place] + strides[place + 1:]
    return tuple([view_of(array, operator.itemgetter((*(slice(None),) * place, k)), offset + k * strides[place], rest)
                  for k in range(array.shape[place])])


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """The array repeated as a whole along its axes; missing ones are added in front. Lazy; differentiable."""
    function = f"{_NAMESPACE}.tile"
    array, counts = require_array(function, "x", x), shape_of(function, repetitions, "repetitions")
    rank = max(array.ndim, len(counts))
    shape = (1,) * (rank - array.ndim) + array.shape
    counts = (1,) * (rank - len(counts)) + counts
    wide = tuple([size for pair in zip(counts, shape, strict=True) for size in pair])
    spread = reshape(array, tuple([size for pair in zip((1,) * rank, shape, strict=True) for size in pair]))
    return reshape(broadcast_to(spread, wide), tuple([a * b for a, b in zip(counts, shape, strict=True)]))


def repeat(x: Array, repeats: int | Array, /, *, axis: int | None = None) -> Array:
    """Each element repeated along an axis; of all elements in their order without one. Lazy; differentiable.

    ``repeats`` is a number, or an array of one for each entry of the axis, which is evaluated.
    """
    function = f"{_NAMESPACE}.repeat"
    array = require_array(function, "x", x)
    if axis is None:
        array, axis = reshape(array, (-1,)), 0
    place = normalized_axis(function, axis, array.ndim)
    size = array.shape[place]
    if isinstance(repeats, Storage):
        require_kind(function, "repeats", repeats, "iu")
        counts = np.asarray(evaluated(repeats)[0]).reshape(-1)
        if counts.size not in (1, size):
            raise ValueError(f"{function}(): 'repeats' has {counts.size} entries for an axis of size {size}.")
        index = np.repeat(np.arange(size), counts if counts.size == size else int(counts[0]))
        return taken(array, index, None, place)
    count = operator.index(repeats)
    if count < 0:
        raise ValueError(f"{function}(): 'repeats' must not be negative, found {count}.")
    before, after = array.shape[:place], array.shape[place + 1:]
    spread = reshape(array, (*before, size, 1, *after))
    return reshape(broadcast_to(spread, (*before, size, count, *after)), (*before, size * count, *after))


def taken(array: Storage, index: Any, inside: Any, place: int) -> Array:
    """The entries of an axis at positions, which are a NumPy array or a tensor of integers of one axis, and those of
    them that there are (``None`` for all); zero for others."""
    shape = array.shape
    before, after = math.prod(shape[:place]), math.prod(shape[place + 1:])
    count = len(index)
    wanted = (*shape[:place], count, *shape[place + 1:])
    if not math.prod(wanted):
        return each(array, lambda part: dr.zeros(type(part), wanted))

    def take(part: Any) -> Any:
        positions = dr.int64_array_t(dr.tensor_t(type(part)))
        rows = positions(dr.arange(dr.array_t(positions), before), shape=(before, 1, 1)) * shape[place]
        columns = positions(dr.arange(dr.array_t(positions), after), shape=(1, 1, after))
        entries = dr.reshape(positions(index), (1, count, 1))
        flat = (rows + entries) * after + columns
        active = True if inside is None else expanded(dr.reshape(inside, (1, count, 1)), flat.shape).array
        return type(part)(dr.gather(type(part.array), part.array, dr.uint64_array_t(type(part.array))(flat.array),
                                    active), shape=wanted)

    return each(array, take)
