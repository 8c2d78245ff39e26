"""Reductions and cumulative sums and products. All are lazy, and differentiable but for ``all`` and ``any``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import drjit as dr
from drjit.detail import reshaped

from . import _dtypes as dtypes
from ._creation import converted_to
from ._data import Storage, constant, copy_of, wrap
from ._dtypes import DType, DTypeLike
from ._elementwise import bitwise_and, divide, equal, isnan, multiply, not_equal, sqrt, subtract
from ._evaluation import eager
from ._indexing import take_along_axis, where
from ._manipulation import concat, each, permute_dims, reshape
from ._operands import converted, normalized_axes, normalized_axis, require_array, require_kind
from ._operators import at_once
from ._small import found_by, reduced

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum", "var"]

_NAMESPACE = "drjit.array_api"
Axis = int | tuple[int, ...] | None


def kept_shape(array: Storage, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape of a reduction over some axes."""
    shape = array.shape
    if not keepdims and len(axes) == len(shape):
        return ()
    return tuple([1 if axis in axes else size for axis, size in enumerate(shape) if keepdims or axis not in axes])


def _reduced(array: Storage, axes: tuple[int, ...], keepdims: bool, reduce: Any) -> Any:
    """What a reduction of tensors over axes makes of the only part."""
    return _formed(_over(reduce, array._parts[0], axes), kept_shape(array, axes, keepdims))


def _over(reduce: Any, part: Any, axes: tuple[int, ...]) -> Any:
    """A reduction of a tensor over axes; over all of them without options, which is the shorter way."""
    if not axes:
        return part
    return reduce(part) if len(axes) == len(part.shape) else reduce(part, axis=axes)


def _formed(part: Any, shape: tuple[int, ...]) -> Any:
    return part if part.shape == shape else reshaped(part, shape)


def accumulator(dtype: DType) -> DType:
    """The data type of the sum of many elements: small integers are added as integers of the default size."""
    if dtype.kind == "i" or dtype.kind == "b":
        return dtypes.DEFAULT_INT
    return dtypes.uint64 if dtype.kind == "u" else dtype


def sum(x: Array, /, *, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Array:
    """The sum over axes, all of them without ``axis``; 0 if there are no elements.

    Integers are summed as 64-bit ones if ``dtype`` does not say otherwise. Lazy; differentiable.
    """
    function = f"{_NAMESPACE}.sum"
    array = require_array(function, "x", x)
    axes = normalized_axes(function, axis, array.ndim)
    array = converted_to(function, array, dtype, accumulator(array._dtype))
    found = reduced(array, np.add.reduce, axes, keepdims, array._dtype)
    if found is not None:
        return cast("Array", found)
    shape = kept_shape(array, axes, keepdims)
    return each(array, lambda part: _formed(_over(dr.sum, part, axes), shape))


def prod(x: Array, /, *, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Array:
    """The product over axes, all of them without ``axis``; 1 if there are no elements. Data types as those of
    :func:`sum`. Lazy; differentiable."""
    function = f"{_NAMESPACE}.prod"
    array = require_array(function, "x", x)
    axes = normalized_axes(function, axis, array.ndim)
    array = converted_to(function, array, dtype, accumulator(array._dtype))
    if array._dtype.kind != "c":
        found = reduced(array, np.multiply.reduce, axes, keepdims, array._dtype)
        return wrap(array._dtype, _reduced(array, axes, keepdims, dr.prod)) if found is None else found
    shape = kept_shape(array, axes, keepdims)
    return reshape(_complex_product(array, axes), shape)


def _complex_product(array: Array, axes: tuple[int, ...]) -> Array:
    """Products of halves of the elements, until there is one."""
    found = array
    for axis in axes:
        before = (slice(None),) * axis
        if not found.shape[axis]:
            shape = (*found.shape[:axis], 1, *found.shape[axis + 1:])
            found = constant(found._dtype, 1, shape, array.device)
        while found.shape[axis] > 1:
            half = found.shape[axis] // 2
            parts = [each(found, lambda part, key=(*before, slice(start, start + half)): part[key])
                     for start in (0, half)]
            rest = each(found, lambda part, key=(*before, slice(2 * half, None)): part[key])
            found = multiply(*parts)
            if rest.shape[axis]:
                found = concat([found, rest], axis=axis)
    return found


def mean(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The mean over axes, all of them without ``axis``; NaN if there are no elements. Lazy; differentiable."""
    function = f"{_NAMESPACE}.mean"
    array = _floating(function, x)
    axes = normalized_axes(function, axis, array.ndim)
    count = math.prod([array.shape[axis] for axis in axes])
    if not count:
        return constant(array._dtype, math.nan, kept_shape(array, axes, keepdims), array.device)
    found = reduced(array, np.add.reduce, axes, keepdims, array._dtype)
    if found is not None:
        return divide(found, float(count))
    shape = kept_shape(array, axes, keepdims)
    return each(array, lambda part: _formed(_over(dr.mean, part, axes), shape))


def _floating(function: str, x: Any) -> Array:
    array = require_array(function, "x", x)
    if array._dtype.kind in "iub":
        return converted(array, dtypes.DEFAULT_FLOAT)
    return array


def var(x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The variance over axes: the sum of squared distances from the mean, divided by the number of elements less
    ``correction``. Lazy; differentiable."""
    return _variance("var", x, axis, correction, keepdims)


def std(x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The standard deviation over axes, the square root of :func:`var`. Lazy; differentiable."""
    return sqrt(_variance("std", x, axis, correction, keepdims))


def _variance(name: str, x: Any, axis: Axis, correction: float, keepdims: bool) -> Array:
    function = f"{_NAMESPACE}.{name}"
    array = _floating(function, x)
    axes = normalized_axes(function, axis, array.ndim)
    count = math.prod([array.shape[axis] for axis in axes])
    if not count:
        return constant(array._dtype.part, math.nan, kept_shape(array, axes, keepdims), array.device)
    distance = subtract(array, mean(array, axis=axes, keepdims=True))
    if array._dtype.kind == "f" and array.size <= eager():
        total = sum(multiply(distance, distance), axis=axes, keepdims=keepdims)
        return divide(total, float(count - correction)) if count > correction else divide(total, 0.0)
    squares = distance._parts[0] * distance._parts[0]
    for part in distance._parts[1:]:
        squares = squares + part * part
    total = sum(wrap(array._dtype.part, squares), axis=axes, keepdims=keepdims)
    return divide(total, float(count - correction)) if count > correction else \
        divide(total, constant(array._dtype.part, 0.0, (), array.device))


def max(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The largest element over axes, all of them without ``axis``; NaN if there is one. Lazy; differentiable."""
    return _extremum("max", x, axis, keepdims, dr.max)


def min(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The smallest element over axes, all of them without ``axis``; NaN if there is one. Lazy; differentiable."""
    return _extremum("min", x, axis, keepdims, dr.min)


def _extremum(name: str, x: Any, axis: Axis, keepdims: bool, reduce: Any) -> Array:
    function = f"{_NAMESPACE}.{name}"
    array = require_array(function, "x", x)
    if array._dtype.kind == "b":
        return converted(_extremum(name, converted(array, dtypes.uint8), axis, keepdims, reduce), dtypes.bool)
    axes = normalized_axes(function, axis, array.ndim)
    if not math.prod([array.shape[axis] for axis in axes]) and array.ndim:
        raise ValueError(f"{function}(): there is no element along the axes {axes} of an array of the shape "
                         f"{array.shape}.")
    if not array.size:
        return constant(array._dtype, 0, kept_shape(array, axes, keepdims), array.device)
    if not axes:
        return copy_of(array)
    known = reduced(array, np.maximum.reduce if name == "max" else np.minimum.reduce, axes, keepdims, array._dtype)
    if known is not None:
        return cast("Array", known)
    if array._dtype.kind == "c":
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        rows = reshape(permute_dims(array, (*kept, *axes)), (*[array.shape[axis] for axis in kept], -1))
        found = take_along_axis(rows, place_of_extremum(name, rows, rows.ndim - 1), axis=-1)
        return reshape(found, kept_shape(array, axes, keepdims))
    found = _reduced(array, axes, keepdims, reduce)
    if array._dtype.kind == "f":
        missing = _formed(_over(dr.any, dr.isnan(array._parts[0]), axes), found.shape)
        found = dr.select(missing, math.nan, found)
    return wrap(array._dtype, found)


def place_of_extremum(name: str, array: Array, axis: int) -> Array:
    """The position of the first extremum of complex numbers along an axis, which is kept; of the first NaN."""
    worst = -math.inf if name == "max" else math.inf
    extremum = max if name == "max" else min
    real, imaginary = [wrap(array._dtype.part, part) for part in array._parts]
    found = equal(real, extremum(real, axis=axis, keepdims=True))
    imaginary = where(found, imaginary, worst)
    found = bitwise_and(found, equal(imaginary, extremum(imaginary, axis=axis, keepdims=True)))
    missing = isnan(array)
    found = where(any(missing, axis=axis, keepdims=True), missing, found)
    number, mask = dtypes.uint8.on(array.device), found._parts[0]
    place = dr.argmax(dr.select(mask, number(1), number(0)), axis=axis)
    return wrap(dtypes.int64, _formed(dtypes.int64.on(array.device)(place), kept_shape(array, (axis,), True)))


def all(x: Array, /, *, axis: Axis = None, keepdims: bool = False, out: None = None) -> Array:
    """Whether all elements over axes are true, or other than 0; ``True`` if there are none. Lazy. (xarray passes
    ``out``, which must be ``None``.)"""
    _require_none("all", out)
    return _logical("all", x, axis, keepdims, dr.all, True)


def any(x: Array, /, *, axis: Axis = None, keepdims: bool = False, out: None = None) -> Array:
    """Whether an element over axes is true, or other than 0; ``False`` if there is none. Lazy. (xarray passes ``out``,
    which must be ``None``.)"""
    _require_none("any", out)
    return _logical("any", x, axis, keepdims, dr.any, False)


def _require_none(name: str, out: Any) -> None:
    if out is not None:
        raise TypeError(f"{_NAMESPACE}.{name}(): 'out' must be None, found {type(out).__qualname__}; the method "
                        "of arrays writes to it.")


def _logical(name: str, x: Any, axis: Axis, keepdims: bool, reduce: Any, empty: bool) -> Array:
    function = f"{_NAMESPACE}.{name}"
    array = converted(require_array(function, "x", x), dtypes.bool)
    axes = normalized_axes(function, axis, array.ndim)
    if not array.size:
        return constant(dtypes.bool, empty, kept_shape(array, axes, keepdims), array.device)
    host = np.logical_or.reduce if name == "any" else np.logical_and.reduce
    found = reduced(array, host, axes, keepdims, dtypes.bool)
    return wrap(dtypes.bool, _reduced(array, axes, keepdims, reduce)) if found is None else found


# --- cumulative ------------------------------------------------------------------------------------------------------


def cumulative_sum(x: Array, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                   include_initial: bool = False) -> Array:
    """The sums of the elements up to each one along an axis, which may be left out for one dimension.

    ``include_initial`` begins with 0. Data types as those of :func:`sum`. Lazy; differentiable.
    """
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial, dr.ReduceOp.Add, 0)


def cumulative_prod(x: Array, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                    include_initial: bool = False) -> Array:
    """The products of the elements up to each one along an axis, which may be left out for one dimension.

    ``include_initial`` begins with 1. Data types as those of :func:`sum`. Lazy; differentiable.
    """
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial, dr.ReduceOp.Mul, 1)


def _cumulative(name: str, x: Any, axis: int | None, dtype: Any, initial: bool, op: Any, first: int) -> Array:
    function = f"{_NAMESPACE}.{name}"
    array = require_array(function, "x", x)
    if not array.ndim:
        raise ValueError(f"{function}(): 'x' must have a dimension at least.")
    if axis is None:
        if array.ndim != 1:
            raise ValueError(f"{function}(): 'axis' must be given for an array of {array.ndim} dimensions.")
        axis = 0
    place = normalized_axis(function, axis, array.ndim)
    array = converted_to(function, array, dtype, accumulator(array._dtype))
    if array.size:
        if array._dtype.kind == "c" and op == dr.ReduceOp.Mul:
            array = _complex_products(array, place)
        else:
            host = np.add if op == dr.ReduceOp.Add else np.multiply
            known = found_by(lambda value: at_once(host.accumulate, value, place), array)
            array = each(array, lambda part: dr.prefix_reduce(op, part, axis=place, exclusive=False)) \
                if known is None else known
    if initial:
        shape = (*array.shape[:place], 1, *array.shape[place + 1:])
        array = concat([constant(array._dtype, first, shape, array.device), array], axis=place)
    return array


def _complex_products(array: Array, axis: int) -> Array:
    """Products with what is one, two, four … places before."""
    distance, size = 1, array.shape[axis]
    before = (slice(None),) * axis
    while distance < size:
        kept = each(array, lambda part, key=(*before, slice(0, distance)): part[key])
        upper = each(array, lambda part, key=(*before, slice(distance, None)): part[key])
        lower = each(array, lambda part, key=(*before, slice(0, size - distance)): part[key])
        array = concat([kept, multiply(upper, lower)], axis=axis)
        distance *= 2
    return array


def diff(x: Array, /, n: int = 1, *, axis: int = -1, prepend: Array | None = None,
         append: Array | None = None) -> Array:
    """Differences of neighbouring elements along an axis, ``n`` times. ``prepend`` and ``append`` are put before and
    behind first. Lazy; differentiable."""
    function = f"{_NAMESPACE}.diff"
    array = found = require_kind(function, "x", x, "biufc")
    place = normalized_axis(function, axis, array.ndim)
    ends = [(prepend, "prepend"), (append, "append")]
    given = [require_array(function, name, value) for value, name in ends if value is not None]
    if given:
        found = concat([*given[:prepend is not None], array, *given[prepend is not None:]], axis=place)
    if n < 0:
        raise ValueError(f"{function}(): 'n' must not be negative, found {n}.")
    before = (slice(None),) * place
    for _ in range(n):
        upper = each(found, lambda part: part[(*before, slice(1, None))])
        lower = each(found, lambda part, size=found.shape[place]: part[(*before, slice(0, size - 1 if size else 0))])
        found = subtract(upper, lower) if found._dtype.kind != "b" else not_equal(upper, lower)
    return copy_of(array) if found is array else found
