"""Functions that rearrange elements, join arrays, and split them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import drjit.array_api as xp

from ._public import Array, Axis, array_of, axes_of, axis_of, bounds_of_nonzero, decided, into, of_type, on_host, public

__all__ = ["append", "array_split", "astype", "atleast_1d", "atleast_2d", "atleast_3d", "block", "broadcast_arrays",
           "broadcast_shapes", "broadcast_to", "column_stack", "concat", "concatenate", "delete", "dsplit", "dstack",
           "expand_dims", "flip", "fliplr", "flipud", "hsplit", "hstack", "insert", "matrix_transpose",
           "may_share_memory", "moveaxis",
           "ndim", "permute_dims", "reshape", "resize", "roll", "rollaxis", "rot90", "row_stack", "shape",
           "shares_memory",
           "size", "split", "stack", "tile", "transpose", "trim_zeros", "unstack", "vsplit", "vstack"]

Arrays = Sequence[Any]


@public
def shape(a: Any) -> tuple[int, ...]:
    """Sizes of the axes."""
    return array_of(a).shape


@public
def ndim(a: Any) -> int:
    """The number of axes."""
    return array_of(a).ndim


@public
def size(a: Any, axis: int | None = None) -> int:
    """The number of elements, or of entries of an axis."""
    array = array_of(a)
    return array.size if axis is None else array.shape[axis_of(axis, array.ndim)]


@public
def shares_memory(a: Any, b: Any, /, max_work: int | None = None) -> bool:
    """Whether what is written to one array is read from the other: whether they are an array and a view of it, or two
    views, that have elements in common."""
    if not isinstance(a, Array) or not isinstance(b, Array):
        return bool(np.shares_memory(a, b)) if not isinstance(a, Array) and not isinstance(b, Array) else False
    return xp.share_memory(a, b)


may_share_memory = shares_memory


@public
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Array:
    """The elements as another data type, on a ``device`` if one is said. Lazy; differentiable between floating point
    types."""
    found = array_of(x).astype(dtype, copy=copy)
    return found if device is None else found.to_device(device)


@public
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    """The elements in their order with another shape, of which one size may be -1. A view if possible; lazy;
    differentiable. Raises a ``ValueError`` if the number of elements differs."""
    return array_of(a).reshape(shape, order=order, copy=copy)


@public
def transpose(a: Any, axes: Sequence[int] | None = None) -> Array:
    """The array with its axes in another order, by default the reverse one. A view; lazy; differentiable."""
    return xp.transpose(array_of(a), axes)


permute_dims = transpose


@public
def matrix_transpose(x: Any, /) -> Array:
    """The array with its last two axes exchanged. A view; lazy; differentiable."""
    return xp.matrix_transpose(array_of(x))


@public
def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    """The array with some axes moved to other places. A view; lazy; differentiable."""
    return xp.moveaxis(array_of(a), source, destination)


@public
def rollaxis(a: Any, axis: int, start: int = 0) -> Array:
    """The array with an axis moved before another one. A view; lazy; differentiable."""
    array = array_of(a)
    place = axis_of(axis, array.ndim)
    before = start + array.ndim if start < 0 else start
    return xp.moveaxis(array, place, before - (place < before))


@public
def expand_dims(a: Any, axis: int | Sequence[int]) -> Array:
    """The array with new axes of size one at some places of the result. A view; lazy; differentiable."""
    return xp.expand_dims(array_of(a), axis=axis if isinstance(axis, int) else tuple(axis))


@public
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Array:
    """The array with axes of size one, and new ones in front, repeated so that it has a shape. Lazy; differentiable."""
    return xp.broadcast_to(array_of(array), tuple(shape) if hasattr(shape, "__iter__") else (shape,))


@public
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Array, ...]:
    """Arrays broadcast to their common shape. Lazy; differentiable."""
    return xp.broadcast_arrays(*map(array_of, args))


@public
def broadcast_shapes(*args: Any) -> tuple[int, ...]:
    """The shape that arrays of some shapes are broadcast to; raises a ``ValueError`` if there is none."""
    return xp.broadcast_shapes(*[tuple(entry) if hasattr(entry, "__iter__") else (entry,) for entry in args])


def _atleast(value: Any, count: int) -> Array:
    array = array_of(value)
    if array.ndim >= count:
        return array
    if count == 3 and array.ndim:
        return array.reshape((1, -1, 1)) if array.ndim == 1 else array.reshape((*array.shape, 1))
    return array.reshape((1,) * (count - array.ndim) + array.shape)


@public
def atleast_1d(*arys: Any) -> Any:
    """The array, or a tuple of several ones, with one axis at least. Views; lazy; differentiable."""
    return _atleast(arys[0], 1) if len(arys) == 1 else tuple([_atleast(entry, 1) for entry in arys])


@public
def atleast_2d(*arys: Any) -> Any:
    """The array, or a tuple of several ones, with two axes at least; vectors become rows. Views; lazy;
    differentiable."""
    return _atleast(arys[0], 2) if len(arys) == 1 else tuple([_atleast(entry, 2) for entry in arys])


@public
def atleast_3d(*arys: Any) -> Any:
    """The array, or a tuple of several ones, with three axes at least. Views; lazy; differentiable."""
    return _atleast(arys[0], 3) if len(arys) == 1 else tuple([_atleast(entry, 3) for entry in arys])


# --- order of elements -----------------------------------------------------------------------------------------------


@public
def flip(m: Any, axis: Axis = None) -> Array:
    """The elements in reverse order along some axes, or all. A view; lazy; differentiable."""
    return xp.flip(array_of(m), axis=axis)


@public
def fliplr(m: Any) -> Array:
    """The entries of the second axis in reverse order. A view; lazy; differentiable."""
    return xp.flip(array_of(m), axis=1)


@public
def flipud(m: Any) -> Array:
    """The entries of the first axis in reverse order. A view; lazy; differentiable."""
    return xp.flip(array_of(m), axis=0)


@public
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """The array turned by ``k`` quarters from the first of two axes towards the second. A view; lazy; differentiable.
    """
    array = array_of(m)
    first, second = axes_of(tuple(axes), array.ndim)
    if first == second:
        raise ValueError(f"'axes' must be two different ones, found {axes}.")
    turns = k % 4
    if turns == 0:
        return array[...]
    if turns == 2:
        return xp.flip(array, axis=(first, second))
    if turns == 1:
        return xp.flip(array, axis=second).swapaxes(first, second)
    return xp.flip(array.swapaxes(first, second), axis=second)


@public
def roll(a: Any, shift: Any, axis: Axis = None) -> Array:
    """The elements moved along axes; those that leave at the end enter at the beginning. Of all elements in their order
    without ``axis``. Lazy; differentiable."""
    return xp.roll(array_of(a), tuple(shift) if isinstance(shift, list) else shift,
                   axis=tuple(axis) if isinstance(axis, list) else axis)


@public
def tile(A: Any, reps: Any) -> Array:
    """The array repeated along each axis, as often as ``reps`` says. Lazy; differentiable."""
    return xp.tile(array_of(A), tuple(reps) if hasattr(reps, "__iter__") else (reps,))


@public
def resize(a: Any, new_shape: Any) -> Array:
    """An array of a shape that the elements of another one fill in their order, again and again. Lazy; differentiable.
    """
    array = array_of(a).ravel()
    wanted = tuple(new_shape) if hasattr(new_shape, "__iter__") else (new_shape,)
    count = math.prod(wanted)
    if not array.size:
        return xp.zeros(wanted, dtype=array.dtype)
    copies = -(-count // array.size)
    return xp.reshape(xp.tile(array, (copies,))[:count], wanted, copy=True)


@public
def trim_zeros(filt: Any, trim: str = "fb") -> Any:
    """The vector without the zeros at its front and back, or at one of them; of a list a list. Evaluates."""
    if isinstance(filt, (list, tuple)):
        first, end = bounds_of_nonzero(on_host(array_of(filt)))
        return filt[first if "f" in trim.lower() or first == end else 0:
                    end if "b" in trim.lower() or first == end else None]
    array = array_of(filt)
    first, end = decided(bounds_of_nonzero, array)
    if first == end:
        return array[:0]
    return array[first if "f" in trim.lower() else 0:end if "b" in trim.lower() else None]


# --- joining ---------------------------------------------------------------------------------------------------------


def _list(arrays: Any) -> list[Array]:
    if isinstance(arrays, Iterator):
        raise TypeError("arrays must be in a sequence, found an iterator.")
    found = [array_of(entry) for entry in arrays]
    if not found:
        raise ValueError("needs at least one array.")
    return found


@public
def concatenate(arrays: Arrays, /, axis: int | None = 0, out: Array | None = None, *, dtype: Any = None,
                casting: str = "same_kind") -> Array:
    """Arrays one after the other along an axis; all elements of all without one. Those of a ``dtype`` that is given
    become it as the rule ``casting`` allows. Lazy; differentiable. Raises a ``ValueError`` if sizes of other axes
    differ, and a ``TypeError`` if the rule forbids it."""
    found = _cast(_list(arrays), dtype, casting)
    if axis is not None and any(not entry.ndim for entry in found):
        raise ValueError("arrays without dimensions cannot be concatenated; use stack().")
    return into(out, xp.concat(found, axis=axis))


concat = concatenate


def _cast(arrays: list[Array], dtype: Any, casting: str) -> list[Array]:
    """Arrays as a data type, unless it is ``None``, that a rule of NumPy's lets them become."""
    if dtype is None:
        return arrays
    wanted = of_type(dtype)
    for array in arrays:
        if not np.can_cast(array.dtype, wanted.numpy, casting):  # type: ignore[arg-type]
            raise TypeError(f"{array.dtype} cannot become {wanted} by the casting rule {casting!r}.")
    return [array.astype(wanted) for array in arrays]


@public
def stack(arrays: Arrays, axis: int = 0, out: Array | None = None, *, dtype: Any = None,
          casting: str = "same_kind") -> Array:
    """Arrays of one shape along a new axis, with a ``dtype`` as of :func:`concatenate`. Lazy; differentiable."""
    return into(out, xp.stack(_cast(_list(arrays), dtype, casting), axis=axis))


@public
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The arrays along an axis, without it. Views; lazy; differentiable."""
    return xp.unstack(array_of(x), axis=axis)


@public
def vstack(tup: Arrays, *, dtype: Any = None, casting: str = "same_kind") -> Array:
    """Arrays below each other: along the first axis, vectors as rows. Lazy; differentiable."""
    return concatenate([_atleast(entry, 2) for entry in _list(tup)], 0, dtype=dtype, casting=casting)


row_stack = vstack


@public
def hstack(tup: Arrays, *, dtype: Any = None, casting: str = "same_kind") -> Array:
    """Arrays beside each other: along the second axis, vectors along their only one. Lazy; differentiable."""
    arrays = [_atleast(entry, 1) for entry in _list(tup)]
    return concatenate(arrays, 0 if arrays[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@public
def dstack(tup: Arrays) -> Array:
    """Arrays behind each other: along the third axis. Lazy; differentiable."""
    return concatenate([_atleast(entry, 3) for entry in _list(tup)], 2)


@public
def column_stack(tup: Arrays) -> Array:
    """Vectors as the columns of a matrix, beside matrices. Lazy; differentiable."""
    return concatenate([entry.reshape(-1, 1) if entry.ndim < 2 else entry for entry in _list(tup)], 1)


@public
def block(arrays: Any) -> Array:
    """An array of nested lists of blocks: the innermost lists along the last axis. Lazy; differentiable."""
    def depth(entry: Any) -> int:
        return 1 + max(map(depth, entry)) if isinstance(entry, list) else 0

    def joined(entry: Any, axis: int) -> Array:
        if not isinstance(entry, list):
            return _leading(array_of(entry), count)
        return xp.concat([joined(part, axis + 1) for part in entry], axis=axis)

    def dimensions(entry: Any) -> int:
        return max(map(dimensions, entry)) if isinstance(entry, list) else array_of(entry).ndim

    levels = depth(arrays)
    count = max(levels, dimensions(arrays))
    return joined(arrays, count - levels)


def _leading(array: Array, count: int) -> Array:
    return array.reshape((1,) * (count - array.ndim) + array.shape)


@public
def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    """An array with values behind it along an axis; of all elements without one. Lazy; differentiable."""
    return concatenate([array_of(arr), array_of(values)], axis)


@public
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Array:
    """An array with values before some positions of an axis; of all elements without one. Lazy but for positions, which
    are evaluated; differentiable."""
    array = array_of(arr).ravel() if axis is None else array_of(arr)
    place = axis_of(0 if axis is None else axis, array.ndim)
    size = array.shape[place]
    single = not isinstance(obj, slice) and np.ndim(obj) == 0
    index = np.arange(size)[obj] if isinstance(obj, slice) else np.atleast_1d(np.asarray(obj))
    if index.size and (index.min() < -size or index.max() > size):
        raise IndexError(f"position {index.max()} is out of bounds for axis {place} of size {size}.")
    index = np.where(index < 0, index + size, index)
    given = array_of(values).astype(array.dtype)
    if single and given.ndim == array.ndim and given.ndim:
        index = np.repeat(index, given.shape[place] if axis is not None else given.size)
    elif single and given.ndim and axis is not None:
        given = xp.expand_dims(given, place) if given.ndim < array.ndim else given
    elif single and given.ndim:
        index = np.repeat(index, given.size)
    before, behind = array.shape[:place], array.shape[place + 1:]
    given = xp.broadcast_to(given, (*before, index.size, *behind))
    order = np.argsort(index, kind="stable")
    target = np.empty(index.size, np.int64)
    target[order] = index[order] + np.arange(index.size)
    source = np.full(size + index.size, -1)
    source[target] = size + np.arange(index.size)
    source[source < 0] = np.arange(size)
    return xp.take(xp.concat([array, given], axis=place), xp.asarray(source), axis=place)


@public
def delete(arr: Any, obj: Any, axis: int | None = None) -> Array:
    """An array without some positions of an axis; of all elements without one. Lazy but for positions, which are
    evaluated; differentiable. Raises an ``IndexError`` for positions beyond the axis."""
    array = array_of(arr).ravel() if axis is None else array_of(arr)
    place = axis_of(0 if axis is None else axis, array.ndim)
    kept = np.delete(np.arange(array.shape[place]), obj if isinstance(obj, slice) else np.asarray(obj))
    return xp.take(array, xp.asarray(kept), axis=place)


# --- splitting -------------------------------------------------------------------------------------------------------


@public
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Parts of an array along an axis: as many as asked for, of sizes that differ by one at most, or between positions.
    Views; lazy; differentiable."""
    array = array_of(ary)
    place = axis_of(axis, array.ndim)
    length = array.shape[place]
    if hasattr(indices_or_sections, "__iter__"):
        ends = [int(entry) for entry in indices_or_sections]
    else:
        count = operator.index(indices_or_sections)
        if count <= 0:
            raise ValueError(f"the number of sections must be larger than 0, found {count}.")
        each, extra = divmod(length, count)
        ends = list(np.cumsum([each + (k < extra) for k in range(count)]).tolist())[:-1]
    before = (slice(None),) * place
    return [array[(*before, slice(start, stop))] for start, stop in zip([0, *ends], [*ends, length], strict=True)]


@public
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Parts of an array along an axis, of equal sizes, or between positions. Views; lazy; differentiable. Raises a
    ``ValueError`` where there is no equal division."""
    array = array_of(ary)
    if not hasattr(indices_or_sections, "__iter__"):
        length = array.shape[axis_of(axis, array.ndim)]
        if length % operator.index(indices_or_sections):
            raise ValueError(f"an axis of size {length} has no {indices_or_sections} equal parts; use array_split().")
    return array_split(array, indices_or_sections, axis)


@public
def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Parts of an array along its first axis. Views; lazy; differentiable."""
    return split(ary, indices_or_sections, 0)


@public
def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Parts of an array along its second axis, of a vector along its only one. Views; lazy; differentiable."""
    return split(ary, indices_or_sections, 1 if array_of(ary).ndim > 1 else 0)


@public
def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Parts of an array along its third axis. Views; lazy; differentiable."""
    return split(ary, indices_or_sections, 2)
