"""Signals: differences and integrals, convolutions, interpolation, padding, windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import drjit.array_api as xp

from ._public import Array, array_of, axes_of, axis_of, documented, floating, is_number, public

__all__ = ["WINDOWS", "convolve", "correlate", "diff", "ediff1d", "gradient", "interp", "kaiser", "pad", "trapezoid",
           "trapz", "unwrap"]


# --- differences and integrals ---------------------------------------------------------------------------------------


def _part(axis: int, *limits: int | None) -> tuple[slice, ...]:
    """A key that selects a range of one axis."""
    return (slice(None),) * axis + (slice(*limits),)


@public
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """Differences of neighbouring elements along an axis, ``n`` times; ``prepend`` and ``append`` are put before and
    behind first. Lazy; differentiable."""
    array = array_of(a)
    if n < 0:
        raise ValueError(f"'n' must not be negative, found {n}.")
    if not n:
        return array
    place = axis_of(axis, array.ndim)

    def end(value: Any) -> Any:
        if value is None:
            return None
        found = array_of(value)
        shape = (*array.shape[:place], 1, *array.shape[place + 1:])
        return xp.broadcast_to(found, shape) if not found.ndim else found

    return xp.diff(array, n=n, axis=place, prepend=end(prepend), append=end(append))


@public
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    """Differences of neighbouring elements in their order, with numbers before and behind. Lazy; differentiable."""
    array = array_of(ary).ravel()
    parts = [xp.diff(array) if array.size else array]
    parts = ([] if to_begin is None else [array_of(to_begin).ravel()]) + parts
    parts = parts + ([] if to_end is None else [array_of(to_end).ravel()])
    return xp.concat(parts).astype(array.dtype) if len(parts) > 1 else parts[0]


@public
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Derivatives by central differences along axes, a tuple of arrays for several ones, one-sided at both ends, of
    first or second order. ``varargs``: a distance for all axes, or for each of them a distance or the coordinates.
    Lazy; differentiable. Raises a ``ValueError`` for axes of too few elements."""
    array = floating(f)
    places = axes_of(tuple(axis) if isinstance(axis, list) else axis, array.ndim)
    spacings = list(varargs) or [1.0]
    if len(spacings) == 1:
        spacings = spacings * len(places)
    if len(spacings) != len(places):
        raise TypeError(f"there must be one distance, or one for each of {len(places)} axes, found {len(spacings)}.")
    if edge_order not in (1, 2):
        raise ValueError(f"'edge_order' must be 1 or 2, found {edge_order}.")
    found = [_slope(array, place, spacing, edge_order) for place, spacing in zip(places, spacings, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _slope(array: Array, axis: int, spacing: Any, order: int) -> Array:
    size = array.shape[axis]
    if size < order + 1:
        raise ValueError(f"axis {axis} must have at least {order + 1} elements, found {size}.")
    given = spacing if is_number(spacing) else array_of(spacing)

    def at(*limits: int | None) -> Array:
        return array[_part(axis, *limits)]

    if isinstance(given, Array) and given.ndim:
        if given.ndim != 1 or given.size != size:
            raise ValueError(f"coordinates must be {size} in a vector for axis {axis}, found the shape {given.shape}.")
        steps = xp.diff(floating(given)).reshape(tuple([-1 if k == axis else 1 for k in range(array.ndim)]))
        left, right = steps[_part(axis, None, -1)], steps[_part(axis, 1, None)]
        inner = (left ** 2 * at(2, None) + (right ** 2 - left ** 2) * at(1, -1) - right ** 2 * at(None, -2)) / \
            (left * right * (left + right))
        first, last = steps[_part(axis, 0, 1)], steps[_part(axis, -1, None)]
        if order == 2:
            second, before = steps[_part(axis, 1, 2)], steps[_part(axis, -2, -1)]
            begin = -(2 * first + second) / (first * (first + second)) * at(0, 1) + \
                (first + second) / (first * second) * at(1, 2) - first / (second * (first + second)) * at(2, 3)
            end = last / (before * (before + last)) * at(-3, -2) - (last + before) / (before * last) * at(-2, -1) + \
                (2 * last + before) / (last * (before + last)) * at(-1, None)
    else:
        first = last = given
        inner = (at(2, None) - at(None, -2)) / (2.0 * given)
        if order == 2:
            begin = (-1.5 * at(0, 1) + 2.0 * at(1, 2) - 0.5 * at(2, 3)) / given
            end = (1.5 * at(-1, None) - 2.0 * at(-2, -1) + 0.5 * at(-3, -2)) / given
    if order == 1:
        begin, end = (at(1, 2) - at(0, 1)) / first, (at(-1, None) - at(-2, -1)) / last
    return xp.concat([begin, inner, end], axis=axis).astype(array.dtype)


@public
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by the trapezoidal rule, at coordinates ``x`` or distances ``dx``. Lazy;
    differentiable."""
    array = array_of(y)
    place = axis_of(axis, array.ndim)
    upper, lower = array[_part(place, 1, None)], array[_part(place, None, -1)]
    steps = dx if is_number(dx) else array_of(dx)
    if x is not None:
        points = array_of(x)
        steps = xp.diff(points, axis=-1 if points.ndim == 1 else place)
        if points.ndim == 1:
            steps = steps.reshape(tuple([-1 if k == place else 1 for k in range(array.ndim)]))
    return xp.sum(steps * (upper + lower) / 2.0, axis=place)


trapz = trapezoid


@public
def unwrap(p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Array:
    """Angles along an axis, changed by multiples of the period so that neighbours differ by half of it at most. Lazy;
    differentiable."""
    array = array_of(p)
    place = axis_of(axis, array.ndim)
    whole = array.dtype.kind in "iu" and isinstance(period, int)
    array = array if whole else floating(array)
    steps = xp.diff(array, axis=place)
    half = period // 2 if whole else period / 2
    low = -half
    turned = (steps - low) % period + low
    if not whole or period % 2 == 0:
        turned = xp.where((turned == low) & (steps > 0), half, turned)
    change = turned - steps
    limit = half if discont is None else discont
    change = xp.where(xp.abs(steps) < limit, 0, change)
    return xp.concat([array[_part(place, 0, 1)], array[_part(place, 1, None)] + change.cumsum(place)], axis=place)


# --- convolutions ----------------------------------------------------------------------------------------------------


def _vector(value: Any, name: str) -> Array:
    array = array_of(value)
    array = array.reshape(1) if not array.ndim else array
    if array.ndim != 1:
        raise ValueError(f"'{name}' must have one dimension, found the shape {array.shape}.")
    if not array.size:
        raise ValueError(f"'{name}' must have an element at least.")
    return array


#: Vectors of as many elements are summed up one by one, in one expression; for more there is a sum over an axis.
_FEW = 32


def _convolved(a: Array, v: Array, mode: str) -> Array:
    """The convolution of a vector with a shorter one: out[n] is the sum of a[n - k] v[k]."""
    size, count = a.size, v.size
    lengths = {"full": (0, size + count - 1), "same": ((count - 1) // 2, size), "valid": (count - 1, size - count + 1)}
    if mode not in lengths:
        raise ValueError(f"'mode' must be 'full', 'same' or 'valid', found {mode!r}.")
    start, length = lengths[mode]
    dtype = xp.result_type(a, v)
    a, v = a.astype(dtype), v.astype(dtype)
    position = xp.arange(length) + start
    if count <= _FEW:
        found = xp.zeros((length,), dtype=dtype)
        for k in range(count):
            found = found + _read(a, position - k) * v[k]
        return found
    taps = xp.arange(count)
    products = _read(a, position[:, None] - taps[None, :]) * v[None, :]
    return products.any(axis=1) if dtype == "bool" else xp.sum(products, axis=1, dtype=dtype)


def _read(array: Array, index: Array) -> Array:
    """Elements at positions, 0 before the first and behind the last one."""
    inside = (index >= 0) & (index < array.size)
    return xp.where(inside, array[xp.where(inside, index, 0)], xp.zeros((), dtype=array.dtype))


@public
def convolve(a: Any, v: Any, mode: str = "full") -> Array:
    """The convolution of two vectors: all of it, ``'same'`` (as many as the longer one) or ``'valid'`` (where both
    overlap completely). Lazy; differentiable."""
    first, second = _vector(a, "a"), _vector(v, "v")
    if second.size > first.size:
        first, second = second, first
    return _convolved(first, second, mode)


@public
def correlate(a: Any, v: Any, mode: str = "valid") -> Array:
    """The correlation of two vectors, the sums of products of ``a`` with the conjugate of ``v``, which is moved along
    it. Lazy; differentiable."""
    first, second = _vector(a, "a"), xp.flip(xp.conj(_numeric(_vector(v, "v"))))
    if second.size <= first.size:
        return _convolved(first, second, mode)
    if mode != "same":
        return _convolved(second, first, mode)
    size, count = second.size, first.size  # as many as the longer one, in the order of the shorter
    full = _convolved(second, first, "full")
    start = count // 2
    return full[start:start + size]


def _numeric(array: Array) -> Array:
    return array.astype(xp.int64) if array.dtype.kind == "b" else array


@public
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None) -> Array:
    """The function that is linear between points with the ascending coordinates ``xp`` and the values ``fp``; before
    and behind them ``left`` and ``right``, by default the first and last value. ``period`` is that of coordinates,
    which may be in any order then. Lazy; differentiable by values and positions."""
    return _interpolated(floating(x), floating(xp), floating(fp), left, right, period)


def _interpolated(x: Array, points: Array, values: Array, left: Any, right: Any, period: float | None) -> Array:
    if points.ndim != 1 or points.shape != values.shape:
        raise ValueError(f"'xp' and 'fp' must be vectors of one size, found the shapes {points.shape} and "
                         f"{values.shape}.")
    if not points.size:
        raise ValueError("'xp' must have an element at least.")
    if period is not None:
        if period == 0:
            raise ValueError("'period' must not be 0.")
        period = abs(period)
        x, points = x % period, points % period
        order = xp.argsort(points)
        points, values = xp.take(points, order), xp.take(values, order)
        points = xp.concat([points[-1:] - period, points, points[:1] + period])
        values = xp.concat([values[-1:], values, values[:1]])
    below = xp.clip(xp.searchsorted(points, x, side="right") - 1, 0, max(points.size - 2, 0))
    above = xp.minimum(below + 1, points.size - 1)
    x0, x1, y0, y1 = points[below], points[above], values[below], values[above]
    width = x1 - x0
    slope = (y1 - y0) / xp.where(width == 0, 1.0, width)
    found = slope * (x - x0) + y0
    found = xp.where(x == x1, y1, found)
    found = xp.where(x < points[0], values[0] if left is None else left, found)
    found = xp.where(x > points[-1], values[-1] if right is None else right, found)
    return xp.where(xp.isnan(x), x, found)


# --- padding ---------------------------------------------------------------------------------------------------------

#: Ways to pad whose elements are elements of the array: where, NumPy says of positions.
_OF_POSITIONS = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS: dict[str, str] = {"maximum": "max", "minimum": "min", "mean": "mean", "median": "median"}


def _pairs(value: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Two values for each axis, of one for all, one pair for all, or a pair for each."""
    if isinstance(value, dict):
        return [_pairs(value.get(axis, value.get(axis - ndim, 0)), 1)[0] for axis in range(ndim)]
    found = np.broadcast_to(np.asarray(value), (ndim, 2)).tolist()
    return [tuple(pair) for pair in found]


@public
def pad(array: Any, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any) -> Array:
    """An array with elements before and behind each axis. ``pad_width`` is their number: one, a pair, or a pair for
    each axis. ``mode`` says what they are, by NumPy's names: ``'constant'`` (with ``constant_values``), ``'edge'``,
    ``'reflect'``, ``'symmetric'`` (both with ``reflect_type``), ``'wrap'``, ``'linear_ramp'`` (to ``end_values``),
    ``'maximum'``, ``'mean'``, ``'median'``, ``'minimum'`` (of ``stat_length`` elements) or ``'empty'``. Lazy;
    differentiable."""
    found = array_of(array)
    widths = _pairs(pad_width, found.ndim)
    if not any(width for pair in widths for width in pair):
        return found.copy()
    if any(width < 0 for pair in widths for width in pair):
        raise ValueError(f"'pad_width' must not be negative, found {pad_width!r}.")
    if callable(mode):
        raise NotImplementedError("functions as 'mode' are not there yet.")
    odd = kwargs.get("reflect_type") == "odd"
    if mode in _OF_POSITIONS and not odd:
        for axis, pair in enumerate(widths):
            if any(pair):
                source = np.pad(np.arange(found.shape[axis]), pair, mode)  # type: ignore[call-overload]
                found = xp.take(found, xp.asarray(source), axis=axis)
        return found
    options = {name: _pairs(kwargs.get(name, default), found.ndim) for name, default in
               (("constant_values", 0), ("end_values", 0), ("stat_length", None))}
    for axis, (before, behind) in enumerate(widths):
        if before or behind:
            limits = {name: pairs[axis] for name, pairs in options.items()}
            found = xp.concat([_end(found, axis, before, 0, mode, limits), found,
                               _end(found, axis, behind, 1, mode, limits)], axis=axis)
    return found


def _end(array: Array, axis: int, count: int, side: int, mode: str, limits: dict[str, tuple[Any, Any]]) -> Array:
    """What is put before (``side`` 0) or behind (1) an axis."""
    shape = (*array.shape[:axis], count, *array.shape[axis + 1:])
    if mode in ("constant", "empty"):
        value = limits["constant_values"][side] if mode == "constant" else 0
        return xp.zeros(shape, dtype=array.dtype) if not value else xp.full(shape, value).astype(array.dtype)
    edge = array[_part(axis, 0, 1)] if side == 0 else array[_part(axis, -1, None)]
    if mode == "linear_ramp":
        end = float(limits["end_values"][side])
        position = xp.arange(count).astype(xp.float64).reshape(tuple([-1 if k == axis else 1
                                                                      for k in range(array.ndim)]))
        share = position / max(count, 1) if side == 0 else (position + 1) / max(count, 1)
        found = end + (edge - end) * share if side == 0 else edge + (end - edge) * share
        return (found if array.dtype.kind in "fc" else xp.floor(found)).astype(array.dtype)
    if mode in _STATISTICS:
        length = limits["stat_length"][side]
        size = array.shape[axis] if length is None else min(int(length), array.shape[axis])
        part = array[_part(axis, 0, size)] if side == 0 else array[_part(axis, array.shape[axis] - size, None)]
        found = _middle(part, axis) if mode == "median" else getattr(part, _STATISTICS[mode])(axis, keepdims=True)
        found = found if array.dtype.kind in "fc" else xp.round(found)
        return xp.broadcast_to(found.astype(array.dtype), shape)
    if mode in ("reflect", "symmetric"):
        raise NotImplementedError("reflect_type='odd' is not there yet.")
    raise ValueError(f"'mode' must be one of 'constant', 'empty', 'linear_ramp', "
                     f"{', '.join(map(repr, (*_OF_POSITIONS, *_STATISTICS)))}, found {mode!r}.")


def _middle(array: Array, axis: int) -> Array:
    ordered, size = xp.sort(array, axis=axis), array.shape[axis]
    low, high = (ordered[_part(axis, k, k + 1)] for k in ((size - 1) // 2, size // 2))
    return (low + high) / 2


# --- windows ---------------------------------------------------------------------------------------------------------


def _cosines(*weights: float) -> Callable[[Array], Array]:
    """A sum of cosines of multiples of an angle that is 0 in the middle."""
    def window(x: Array) -> Array:
        found = xp.full(x.shape, weights[0])
        for k, weight in enumerate(weights[1:], 1):
            found = found + weight * xp.cos(x * (k * math.pi))
        return found

    return window


#: Windows by what they are at positions from -1 to 1, and what is said of them.
_WINDOWS: dict[str, tuple[Callable[[Array], Array], str]] = {
    "bartlett": (lambda x: 1 - xp.abs(x), "The triangle that is 0 at both ends"),
    "blackman": (_cosines(0.42, 0.5, 0.08), "The window of Blackman, a sum of three cosines"),
    "hamming": (_cosines(0.54, 0.46), "The window of Hamming, a raised cosine that is 0.08 at both ends"),
    "hanning": (_cosines(0.5, 0.5), "The window of Hann, a raised cosine that is 0 at both ends"),
}


def _places(M: int) -> Array:
    return (xp.arange(max(M, 0)) * 2.0 + (1 - M)) / max(M - 1, 1)


def _window(name: str) -> Any:
    formula, text = _WINDOWS[name]

    def function(M: int) -> Array:
        return formula(_places(M)) if M != 1 else xp.ones((1,))

    return documented(function, name, f"{text}, of ``M`` numbers. Lazy.")


WINDOWS = {name: _window(name) for name in _WINDOWS}


@public
def kaiser(M: int, beta: float) -> Array:
    """The window of Kaiser, of ``M`` numbers; the larger ``beta``, the narrower it is. Lazy."""
    if M == 1:
        return xp.ones((1,))
    x = _places(M)
    return xp.special.i0(beta * xp.sqrt(xp.clip(1 - x * x, 0.0, None))) / xp.special.i0(xp.asarray(float(beta)))
