"""Histograms, counts, covariances, and the tests of equality."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import drjit.array_api as xp

from ._public import Array, array_of, decided, floating, into, is_number, on_host, public

__all__ = ["allclose", "angle", "array_equal", "array_equiv", "bincount", "corrcoef", "cov", "digitize", "histogram",
           "histogram2d", "histogram_bin_edges", "histogramdd", "imag", "isclose", "iscomplex", "iscomplexobj",
           "isneginf", "isposinf", "isreal", "isrealobj", "isscalar", "real", "real_if_close"]


# --- counts ----------------------------------------------------------------------------------------------------------


def _extremes(values: Any) -> tuple[int, int]:
    """The least and the largest of some integers."""
    return int(values.min()), int(values.max())


@public
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Array:
    """How often each integer from 0 on occurs in a vector, or the sum of the weights where it does. As many results as
    the largest one asks for, at least ``minlength``. Evaluates; differentiable by the weights.

    Raises a ``ValueError`` for negative integers.
    """
    values = array_of(x)
    if values.ndim != 1:
        raise ValueError(f"'x' must have one dimension, found the shape {values.shape}.")
    if values.dtype.kind not in "iub" and values.size:
        raise TypeError(f"'x' must hold integers, found {values.dtype}.")
    least, most = decided(_extremes, values) if values.size else (0, -1)
    if least < 0:
        raise ValueError("'x' must have no negative elements.")
    count = max(most + 1, minlength)
    given: Any = 1 if weights is None else array_of(weights).astype(xp.float64)
    start = xp.zeros((count,), dtype=xp.int64 if weights is None else xp.float64)
    return start.at[values.astype(xp.int64)].add(given) if values.size else start


def _directions(edges: Any) -> tuple[bool, bool]:
    """Whether some numbers are larger than those before them, and whether some are smaller."""
    steps = np.diff(edges)
    return bool(np.any(steps > 0)), bool(np.any(steps < 0))


@public
def digitize(x: Any, bins: Any, right: bool = False) -> Array:
    """For each element the number of the interval between edges, which are in order, where it lies: 0 before the first
    one. Intervals have their left edge, or the right one. Lazy; edges in arrays of Dr.Jit are evaluated, to see in
    which order they are."""
    edges = array_of(bins)
    if edges.ndim != 1:
        raise ValueError(f"'bins' must have one dimension, found the shape {edges.shape}.")
    known = isinstance(bins, np.ndarray) or isinstance(bins, (list, tuple)) and all(map(is_number, bins))
    rising, falling = _directions(np.asarray(bins)) if known else decided(_directions, edges)
    if rising and falling:
        raise ValueError("'bins' must be in ascending or descending order.")
    if falling:
        return edges.size - xp.searchsorted(xp.flip(edges), array_of(x), side="left" if right else "right")
    return xp.searchsorted(edges, array_of(x), side="left" if right else "right")


def _edges(a: Array, bins: Any, range_: Any, weights: Any = None) -> Array:
    """The edges of the bins of a histogram; lazy for a number of bins."""
    if isinstance(bins, str):
        if weights is not None:
            raise TypeError("the number of bins cannot be estimated for weighted elements.")
        return xp.asarray(np.histogram_bin_edges(on_host(a), bins, range_))
    if np.ndim(bins) == 1:
        edges = array_of(bins)
        if xp.has_value(edges) and _directions(on_host(edges))[1]:
            raise ValueError(f"'bins' must be in ascending order, found {bins!r}.")
        return edges
    if np.ndim(bins) or int(bins) < 1:
        raise ValueError(f"'bins' must be a positive int, a vector of edges or a name, found {bins!r}.")
    dtype = a.dtype if a.dtype.kind == "f" else xp.float64
    if range_ is not None:
        low, high = (float(end) for end in range_)
        if low > high or not math.isfinite(low) or not math.isfinite(high):
            raise ValueError(f"'range' must be two finite numbers in order, found {range_!r}.")
        ends = [xp.asarray(end, dtype=dtype) for end in ((low - 0.5, high + 0.5) if low == high else (low, high))]
    elif not a.size:
        ends = [xp.asarray(end, dtype=dtype) for end in (0.0, 1.0)]
    else:
        low_, high_ = a.min().astype(dtype), a.max().astype(dtype)
        if xp.has_value(low_) and not math.isfinite(float(low_) + float(high_)):
            raise ValueError(f"the elements are from {low_} to {high_}, which are no finite numbers; give a 'range'.")
        half = xp.where(low_ == high_, xp.asarray(0.5, dtype=dtype), xp.asarray(0.0, dtype=dtype))
        ends = [low_ - half, high_ + half]
    count = int(bins)
    position = xp.arange(count + 1).astype(xp.float64)
    found = ends[0] + (ends[1] - ends[0]) * position / count
    return xp.where(position == count, ends[1], found).astype(dtype)


def _bins(a: Array, edges: Array) -> Array:
    """The number of the bin of each element; that of bins for those that have none."""
    count = edges.size - 1
    found = xp.searchsorted(edges, a, side="right") - 1
    found = xp.where(a == edges[-1], count - 1, found)
    inside = (a >= edges[0]) & (a <= edges[-1])
    return xp.where(inside, found, count)


@public
def histogram(a: Any, bins: Any = 10, range: Any = None, density: bool | None = None,
              weights: Any = None) -> tuple[Array, Array]:
    """How many elements lie in each of some bins (or the sum of their weights, or with ``density`` what has the
    integral 1), and the edges of the bins. ``bins`` is their number in a ``range``, which is that of the elements by
    default, or a vector of edges, or the name of a method that estimates them, which evaluates. Otherwise lazy;
    differentiable by the weights.
    """
    values = array_of(a).ravel()
    edges = _edges(values, bins, range, weights)
    start = xp.zeros((edges.size - 1,), dtype=xp.int64 if weights is None else array_of(weights).dtype)
    given: Any = 1 if weights is None else array_of(weights).ravel()
    counts = start.at[_bins(values, edges)].add(given) if values.size else start
    if density:
        return counts / (counts.sum() * (edges[1:] - edges[:-1])), edges
    return counts, edges


@public
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The edges of the bins that :func:`histogram` uses. Lazy unless ``bins`` is a name."""
    return _edges(array_of(a).ravel(), bins, range, weights)


@public
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None,
                weights: Any = None) -> tuple[Array, list[Array]]:
    """A histogram of points, the rows of a matrix (or a list of coordinates), and the edges along each axis. Lazy."""
    points = xp.stack([array_of(entry) for entry in sample], axis=1) if isinstance(sample, (list, tuple)) else \
        array_of(sample)
    points = points.reshape(-1, 1) if points.ndim == 1 else points
    count = points.shape[1]
    numbers = list(bins) if isinstance(bins, (list, tuple)) else [bins] * count
    if len(numbers) != count:
        raise ValueError(f"there must be bins for each of {count} axes, found {len(numbers)}.")
    ranges = [None] * count if range is None else list(range)
    columns = [points[:, k] for k in np.arange(count).tolist()]
    edges = [_edges(column, number, limits) for column, number, limits in zip(columns, numbers, ranges, strict=True)]
    shape = tuple([entry.size - 1 for entry in edges])
    flat, inside = xp.zeros((), dtype=xp.int64), xp.asarray(True)
    for column, entry, size in zip(columns, edges, shape, strict=True):
        number = _bins(column, entry)
        flat, inside = flat * size + number, inside & (number < size)
    given: Any = 1.0 if weights is None else array_of(weights).astype(xp.float64)
    total = math.prod(shape)
    counts = xp.zeros((total,)).at[xp.where(inside, flat, total)].add(given).reshape(shape)
    if density:
        volume = xp.asarray(1.0)
        for axis, entry in enumerate(edges):
            volume = volume * (entry[1:] - entry[:-1]).reshape(tuple([-1 if k == axis else 1 for k in _range(count)]))
        counts = counts / (counts.sum() * volume)
    return counts, edges


def _range(count: int) -> Sequence[int]:
    return tuple(np.arange(count).tolist())


@public
def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None,
                weights: Any = None) -> tuple[Array, Array, Array]:
    """A histogram of points in the plane, and the edges along both axes. Lazy."""
    several = isinstance(bins, (list, tuple)) and len(bins) == 2
    both = list(bins) if several else [bins, bins]
    counts, edges = histogramdd([x, y], both, range, density, weights)
    return counts, edges[0], edges[1]


# --- covariances -----------------------------------------------------------------------------------------------------


@public
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
        aweights: Any = None, *, dtype: Any = None) -> Array:
    """The covariances of variables, which are the rows of a matrix, or its columns. ``fweights`` are how often each
    observation counts, ``aweights`` how much. Lazy; differentiable."""
    variables = [array_of(entry) for entry in (m, y) if entry is not None]
    kind = xp.result_type(*variables, xp.float64) if dtype is None else dtype
    array = variables[0].astype(kind)
    array = array.reshape(1, -1) if array.ndim < 2 else array
    array = array if rowvar or array.shape[0] == 1 else array.T
    if y is not None:
        other = variables[1].astype(kind)
        other = other.reshape(1, -1) if other.ndim < 2 else other if rowvar or other.shape[0] == 1 else other.T
        array = xp.concat([array, other], axis=0)
    free = (0 if bias else 1) if ddof is None else ddof
    weights: Array | None = None
    if fweights is not None:
        weights = array_of(fweights).astype(xp.float64)
    if aweights is not None:
        given = array_of(aweights).astype(xp.float64)
        weights = given if weights is None else weights * given
    if weights is None:
        mean, factor = array.mean(1, keepdims=True), xp.asarray(max(array.shape[1] - free, 0), dtype=array.real.dtype)
        distance = array - mean
        weighted = distance
    else:
        total = weights.sum()
        mean = (array * weights).sum(1, keepdims=True) / total
        factor = total - free if aweights is None else total - free * (weights * array_of(aweights)).sum() / total
        distance = array - mean
        weighted = distance * weights
    return (distance @ xp.conj(weighted).T / factor).squeeze()


@public
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Array:
    """The correlation coefficients of variables, which are the rows of a matrix, or its columns. Lazy; differentiable.
    """
    found = cov(x, y, rowvar, dtype=dtype)
    if not found.ndim:
        return found / found
    scale = xp.sqrt(xp.real(xp.linalg.diagonal(found)))
    found = found / scale[:, None] / scale[None, :]
    return xp.clip(found, -1.0, 1.0) if found.dtype.kind == "f" else found


# --- tests -----------------------------------------------------------------------------------------------------------


@public
def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """Whether elements differ by no more than ``atol + rtol * abs(b)``. Lazy."""
    first, second = floating(a), floating(b)
    near = xp.abs(first - second) <= atol + rtol * xp.abs(second)
    found = (near & xp.isfinite(second)) | (first == second)
    return found | (xp.isnan(first) & xp.isnan(second)) if equal_nan else found


@public
def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether :func:`isclose` holds for all elements. Evaluates."""
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


@public
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether arrays have the same shape and elements. Evaluates."""
    first, second = array_of(a1), array_of(a2)
    if first.shape != second.shape:
        return False
    same = first == second
    if equal_nan and first.dtype.kind in "fc" and second.dtype.kind in "fc":
        same = same | (xp.isnan(first) & xp.isnan(second))
    return bool(same.all())


@public
def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether arrays have the same elements when they are broadcast. Evaluates."""
    try:
        return bool((array_of(a1) == array_of(a2)).all())
    except ValueError:
        return False


@public
def isposinf(x: Any, out: Array | None = None) -> Array:
    """Whether elements are positive and infinite. Lazy."""
    return into(out, array_of(x) == math.inf)


@public
def isneginf(x: Any, out: Array | None = None) -> Array:
    """Whether elements are negative and infinite. Lazy."""
    return into(out, array_of(x) == -math.inf)


@public
def real(val: Any) -> Array:
    """The real part. Lazy; differentiable."""
    return array_of(val).real


@public
def imag(val: Any) -> Array:
    """The imaginary part. Lazy; differentiable."""
    return array_of(val).imag


@public
def angle(z: Any, deg: bool = False) -> Array:
    """The angle of complex numbers, in radians or degrees. Lazy; differentiable."""
    array = floating(z)
    found = xp.atan2(xp.imag(array), xp.real(array))
    return found * (180 / math.pi) if deg else found


@public
def real_if_close(a: Any, tol: float = 100) -> Array:
    """The real part if all imaginary ones are less than ``tol`` times the precision. Evaluates; differentiable."""
    array = array_of(a)
    if array.dtype.kind != "c":
        return array
    limit = tol * float(xp.finfo(array.dtype).eps) if tol > 1 else tol
    return xp.real(array) if bool((xp.abs(xp.imag(array)) < limit).all()) else array


@public
def isreal(x: Any) -> Array:
    """Whether imaginary parts are 0. Lazy."""
    array = array_of(x)
    return xp.imag(array) == 0 if array.dtype.kind == "c" else xp.ones(array.shape, dtype=xp.bool)


@public
def iscomplex(x: Any) -> Array:
    """Whether imaginary parts are not 0. Lazy."""
    return ~isreal(x)


@public
def isrealobj(x: Any) -> bool:
    """Whether the data type is no complex one."""
    return array_of(x).dtype.kind != "c"


@public
def iscomplexobj(x: Any) -> bool:
    """Whether the data type is a complex one."""
    return array_of(x).dtype.kind == "c"


@public
def isscalar(element: Any) -> bool:
    """Whether something is a number, no array."""
    return bool(np.isscalar(element))
