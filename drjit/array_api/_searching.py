"""Searching, sorting and sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

import drjit as dr
from drjit.detail import computes_now

from . import _dtypes as dtypes
from ._creation import asarray
from ._data import Storage, constant, wrap
from ._devices import CPU
from ._elementwise import bitwise_and, bitwise_invert, equal, less, negative, not_equal, subtract
from ._host import imported, on_host
from ._indexing import get, nonzero, take, take_along_axis, where
from ._manipulation import concat, each, reshape
from ._operands import (
    converted,
    normalized_axes,
    normalized_axis,
    number_of,
    operands,
    require_array,
)
from ._small import found_by
from ._sorting import order_of, sorted_values
from ._statistics import any as any_of
from ._statistics import kept_shape, place_of_extremum
from ._statistics import sum as total

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["UniqueAllResult", "UniqueCountsResult", "UniqueInverseResult", "argmax", "argmin", "argsort",
           "count_nonzero", "isin", "nonzero", "searchsorted", "sort", "unique_all", "unique_counts", "unique_inverse",
           "unique_values", "where"]

_NAMESPACE = "drjit.array_api"


class UniqueAllResult(NamedTuple):
    """What :func:`unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """What :func:`unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """What :func:`unique_inverse` returns."""

    values: Array
    inverse_indices: Array


# --- searching -------------------------------------------------------------------------------------------------------


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position of the first largest element along an axis, or among all elements; of the first NaN if there is one.
    Lazy."""
    return _position("argmax", x, axis, keepdims, dr.argmax)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position of the first smallest element along an axis, or among all elements; of the first NaN if there is
    one. Lazy."""
    return _position("argmin", x, axis, keepdims, dr.argmin)


def _position(name: str, x: Any, axis: int | None, keepdims: bool, search: Any) -> Array:
    function = f"{_NAMESPACE}.{name}"
    array = require_array(function, "x", x)
    array = converted(array, dtypes.uint8) if array._dtype.kind == "b" else array
    if axis is None:
        shape = (1,) * array.ndim if keepdims else ()
        found = _position(name, reshape(array, (-1,)), 0, False, search)
        return reshape(found, shape)
    place = normalized_axis(function, axis, array.ndim)
    if not array.shape[place]:
        raise ValueError(f"{function}(): there is no element along axis {place} of an array of the shape "
                         f"{array.shape}.")
    shape = kept_shape(array, (place,), keepdims)
    if not array.size:
        return constant(dtypes.int64, 0, shape, array.device)
    known = found_by(lambda value: getattr(value, name)(place, keepdims=keepdims), array, dtype=dtypes.int64)
    if known is not None:
        return cast("Array", known)
    if array._dtype.kind == "c":
        return reshape(place_of_extremum(name[3:], array, place), shape)
    part = array._parts[0]
    found = search(part, axis=place)
    if array._dtype.kind == "f":
        missing = dr.isnan(part)
        first = dr.argmax(_counted(missing), axis=place)
        found = dr.select(dr.any(missing, axis=place), first, found)
    return wrap(dtypes.int64, dtypes.int64.beside(part)(type(found)(found.array, shape=shape)))


def _counted(mask: Any) -> Any:
    """A tensor of truth values as numbers, which have an order."""
    number = dtypes.uint8.beside(mask)
    return dr.select(mask, number(1), number(0))


def count_nonzero(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """How many elements over axes are not zero. Lazy."""
    array = require_array(f"{_NAMESPACE}.count_nonzero", "x", x)
    normalized_axes(f"{_NAMESPACE}.count_nonzero", axis, array.ndim)
    return total(converted(array, dtypes.bool), axis=axis, keepdims=keepdims)


def searchsorted(x1: Array, x2: Any, /, *, side: str = "left", sorter: Array | None = None) -> Array:
    """For each element of ``x2`` the position in the sorted array ``x1`` where it belongs: before elements that are
    equal (``side='left'``) or behind them (``'right'``). ``sorter`` are the positions that sort ``x1``. Lazy."""
    function = f"{_NAMESPACE}.searchsorted"
    if side not in ("left", "right"):
        raise ValueError(f"{function}(): 'side' must be 'left' or 'right', found {side!r}.")
    row = require_array(function, "x1", x1)
    if row.ndim != 1:
        raise ValueError(f"{function}(): 'x1' must have one dimension, found the shape {row.shape}.")
    if sorter is not None:
        row = take(row, sorter)
    row, wanted = operands(function, (row, x2), ("x1", "x2"), broadcast=False)
    shape = wanted.shape
    if not row.size or not wanted.size:
        return constant(dtypes.int64, 0, shape, row.device)
    known = found_by(lambda table, values: table.searchsorted(values, side), row, wanted, dtype=dtypes.int64)
    if known is not None:
        return cast("Array", known)
    table, values = [tuple([part.array for part in array._parts]) for array in (row, wanted)]

    def before(position: Any) -> Any:
        inside = position < row.size  # the search also asks for the end of its range
        entry = tuple([dr.gather(type(part), part, dr.minimum(position, row.size - 1)) for part in table])
        return inside & (_precedes(entry, values) if side == "left" else ~_precedes(values, entry))

    found = dr.binary_search(0, row.size, before)
    flat = dtypes.int64.on(row.device)(found)
    return wrap(dtypes.int64, type(flat)(flat.array, shape=shape) if flat.array.__len__() == math.prod(shape) else
                dr.zeros(type(flat), shape) + flat)


def _precedes(a: tuple[Any, ...], b: tuple[Any, ...]) -> Any:
    """Whether numbers, given by their parts, come before others in order, NaN last."""
    if not dr.is_float_v(a[0]):
        return a[0] < b[0]
    if len(a) == 1:
        return (a[0] < b[0]) | dr.isnan(b[0]) & ~dr.isnan(a[0])
    x, y = [[dr.isnan(part) for part in number] for number in (a, b)]
    both = (x[0] == y[0]) & (x[1] == y[1])
    later = ~x[0] & y[0] | (x[0] == y[0]) & ~x[1] & y[1]
    return later | both & ((a[0] < b[0]) | ((a[0] == b[0]) | x[0]) & (a[1] < b[1]))


# --- sorting ---------------------------------------------------------------------------------------------------------


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions that sort the array along an axis; equal elements keep their order, NaN comes last.

    Evaluates, unless derivatives or a construct are traced, or a frozen function."""
    function = f"{_NAMESPACE}.argsort"
    array = require_array(function, "x", x)
    place = normalized_axis(function, axis, array.ndim)
    if not array.size:
        return constant(dtypes.int64, 0, array.shape, array.device)
    known = found_by(lambda value: order_of(value, place, descending), array, dtype=dtypes.int64)
    if known is None and _is_in_memory(array):
        known = imported(order_of(on_host(array), place, descending), CPU)
    if known is not None:
        return cast("Array", known)
    return wrap(dtypes.int64, dtypes.int64.on(array.device)(_order(array, place, descending)))


def _is_in_memory(array: Storage) -> bool:
    """Whether an array is on the CPU and may be read at once, so that the host orders it. (NumPy is slow with
    half-precision numbers.)"""
    return array._dtype is not dtypes.float16 and array.device == CPU and computes_now(*array._parts)


def _order(array: Storage, place: int, descending: bool) -> Any:
    """Stable positions; those of a descending order are those of numbers that count the other way."""
    part = array._parts[0]
    kind = array._dtype.kind
    if kind == "c":
        real, imaginary = [negative(key) if descending else key for key in
                           (wrap(array._dtype.part, part) for part in array._parts)]
        return ordered_by((imaginary, real, _missing(array)), place)._parts[0]
    if kind == "b":
        part = _counted(part)
    if kind == "f":  # zeros of both signs are equal, and so are NaN
        part = dr.select(part == 0, 0, dr.select(dr.isnan(part), math.nan, -part if descending else part))
    elif descending:
        part = ~part
    return dr.argsort(part, axis=place)


def ordered_by(keys: Sequence[Array], axis: int) -> Array:
    """The positions that sort by several keys along an axis, of which the last one counts most."""
    found = argsort(keys[0], axis=axis)
    for key in keys[1:]:
        found = take_along_axis(found, argsort(take_along_axis(key, found, axis=axis), axis=axis), axis=axis)
    return found


def _missing(array: Storage) -> Array:
    """How late complex numbers come that are NaN: by the imaginary part, the real one, or both."""
    number = dtypes.uint8.beside(array._parts[0])
    real, imaginary = [dr.select(dr.isnan(part), number(count), number(0)) for part, count in
                       zip(array._parts, (2, 1), strict=True)]
    return wrap(dtypes.uint8, real + imaginary)


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements in order along an axis, NaN last. Evaluates, unless derivatives or a construct are traced, or a
    frozen function; differentiable."""
    function = f"{_NAMESPACE}.sort"
    array = require_array(function, "x", x)
    place = normalized_axis(function, axis, array.ndim)
    if not array.size:
        return each(array, lambda part: part)
    known = found_by(lambda value: sorted_values(value, place, descending), array)
    if known is None and _is_in_memory(array):
        known = imported(sorted_values(on_host(array), place, descending), CPU)
    if known is not None:
        return cast("Array", known)
    return take_along_axis(array, argsort(array, axis=place, descending=descending), axis=place)


def partitioned(function: str, x: Array, kth: Any, axis: int, positions: bool) -> Array:
    """The elements along an axis, or the positions of such, with those of some numbers in the order where they are in
    it, smaller ones before and greater ones behind: NumPy's order of arrays in memory, else all in order."""
    place = normalized_axis(function, axis, x.ndim)
    numbers, size = np.asarray(kth), x.shape[place]
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"{function}(): 'kth' must be integers, found {kth!r}.")
    if numbers.size and not -size <= numbers.min() <= numbers.max() < size:
        raise ValueError(f"{function}(): 'kth' is {kth!r}, but axis {place} has the size {size}.")
    if x.size and _is_in_memory(x):
        return imported((np.argpartition if positions else np.partition)(on_host(x), numbers, place), CPU)
    return argsort(x, axis=place) if positions else sort(x, axis=place)


# --- sets ------------------------------------------------------------------------------------------------------------


def _sorted_with_starts(array: Array) -> tuple[Array, Array, Array]:
    """The elements of an array of one axis in order, their positions, and whether each is the first of its value."""
    order = argsort(array)
    ordered = take(array, order)
    return ordered, order, _starts(ordered)


def _starts(ordered: Array) -> Array:
    """Whether each element is the first of its value."""
    size = ordered.size
    if not size:
        return constant(dtypes.bool, True, (0,), ordered.device)
    upper, lower = (each(ordered, lambda part, key=key: part[key]) for key in (slice(1, None), slice(0, size - 1)))
    return concat([constant(dtypes.bool, True, (1,), ordered.device), not_equal(upper, lower)], axis=0)


def unique_all(x: Array, /) -> UniqueAllResult:
    """The distinct elements in order, the position of the first of each, for each element the position of its value
    among them, and how often each occurs. NaN are distinct. Evaluates the array."""
    array = require_array(f"{_NAMESPACE}.unique_all", "x", x)
    ordered, order, first = _sorted_with_starts(reshape(array, (-1,)))
    starts = nonzero(first)[0]
    values = take(ordered, starts)
    size = array.size
    last = constant(dtypes.int64, size, (1 if size else 0,), array.device)
    ends = concat([get(starts, slice(1, None)), last], axis=0)
    rank = total_before(first)
    inverse = constant(dtypes.int64, 0, (size,), array.device)
    if size:
        inverse[order] = rank
    return UniqueAllResult(values, take(order, starts), reshape(inverse, array.shape), subtract(ends, starts))


def total_before(first: Array) -> Array:
    """For each element the number of those before it, and itself, that are set, less one."""
    number = dtypes.int64.on(first.device)
    ones = dr.select(first._parts[0], number(1), number(0))
    return wrap(dtypes.int64, dr.prefix_reduce(dr.ReduceOp.Add, ones, axis=0, exclusive=False) - 1 if first.size else
                ones)


def unique_counts(x: Array, /) -> UniqueCountsResult:
    """The distinct elements in order, and how often each occurs. Evaluates the array."""
    found = unique_all(require_array(f"{_NAMESPACE}.unique_counts", "x", x))
    return UniqueCountsResult(found.values, found.counts)


def unique_inverse(x: Array, /) -> UniqueInverseResult:
    """The distinct elements in order, and for each element the position of its value among them. Evaluates the array.
    """
    found = unique_all(require_array(f"{_NAMESPACE}.unique_inverse", "x", x))
    return UniqueInverseResult(found.values, found.inverse_indices)


def unique_values(x: Array, /) -> Array:
    """The distinct elements in order. Evaluates the array."""
    array = reshape(require_array(f"{_NAMESPACE}.unique_values", "x", x), (-1,))
    ordered = sort(array)
    return take(ordered, nonzero(_starts(ordered))[0])


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether each element of ``x1`` is one of ``x2``, which may be a sequence of numbers; whether it is none with
    ``invert``. Lazy."""
    function = f"{_NAMESPACE}.isin"
    if isinstance(x2, (list, tuple)):
        x2 = asarray(x2, device=x1.device if isinstance(x1, Storage) else None)
    a, b = operands(function, (x1, x2), ("x1", "x2"), broadcast=False)
    if not b.size:
        return constant(dtypes.bool, invert, a.shape, a.device)
    if number_of(x2) is not None or b.size == 1:
        found = equal(a, reshape(b, ()))
    elif a._dtype.kind in "cb":
        shape = a.shape + (1,) * b.ndim
        found = equal(reshape(a, shape), b)
        found = any_of(found, axis=tuple(range(a.ndim, found.ndim)))
    else:
        table = sort(reshape(b, (-1,)))
        place = searchsorted(table, a)
        inside = less(place, table.size)
        entry = reshape(take(table, reshape(where(inside, place, 0), (-1,))), a.shape)
        found = bitwise_and(inside, equal(entry, a))
    return bitwise_invert(found) if invert else found
