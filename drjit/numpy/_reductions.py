"""Reductions that arrays have no method for: those that leave out NaN, medians and quantiles, averages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import drjit.array_api as xp

from ._public import Array, Axis, array_of, axes_of, by_method, floating, into, is_number, on_host, public

__all__ = ["METHODS", "average", "clip", "count_nonzero", "cumulative_prod", "cumulative_sum", "median", "nan_to_num",
           "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin",
           "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar", "percentile", "put", "quantile"]

#: Functions that are methods of arrays.
METHODS = by_method([
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "cumprod", "cumsum", "diagonal",
    "max", "mean", "min", "nonzero", "prod", "ptp", "ravel", "repeat", "round", "searchsorted", "squeeze",
    "std", "sum", "swapaxes", "take", "trace", "var"])
METHODS |= {"amax": METHODS["max"], "amin": METHODS["min"], "around": METHODS["round"]}


@public
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Array | None = None, *, min: Any = None,
         max: Any = None) -> Array:
    """Elements no less than ``a_min`` and no greater than ``a_max``, which the standard calls ``min`` and ``max``.
    Lazy; differentiable."""
    if (a_min is not None or a_max is not None) and (min is not None or max is not None):
        raise ValueError("limits must be given as 'a_min' and 'a_max', or as 'min' and 'max'.")
    return array_of(a).clip(a_min if min is None else min, a_max if max is None else max, out)


@public
def put(a: Array, ind: Any, v: Any, mode: str = "raise") -> None:
    """Set elements at positions among all of them in their order to values, which are repeated. Lazy; as the method."""
    if not isinstance(a, Array):
        raise TypeError(f"'a' must be an array of this module, found {type(a).__name__}.")
    a.put(ind, v, mode)


@public
def count_nonzero(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """How many elements over axes are not zero. Lazy."""
    return xp.count_nonzero(array_of(a), axis=axis, keepdims=keepdims)


@public
def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Array | None = None,
                   include_initial: bool = False) -> Array:
    """The sums of the elements up to each one along an axis; ``include_initial`` begins with 0. Lazy; differentiable.
    """
    return into(out, xp.cumulative_sum(array_of(x), axis=axis, dtype=dtype, include_initial=include_initial))


@public
def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Array | None = None,
                    include_initial: bool = False) -> Array:
    """The products of the elements up to each one along an axis; ``include_initial`` begins with 1. Lazy;
    differentiable."""
    return into(out, xp.cumulative_prod(array_of(x), axis=axis, dtype=dtype, include_initial=include_initial))


def _weights(weights: Any, array: Array, axis: Axis) -> Array:
    """Weights of the elements of an array, which may be given for some axes: with as many axes as the array."""
    given = array_of(weights)
    if given.shape == array.shape:
        return given
    if axis is None:
        raise TypeError(f"'axis' must be given for weights of the shape {given.shape}, which is not that of 'a', "
                        f"{array.shape}.")
    places = axes_of(axis, array.ndim)
    if given.shape != tuple([array.shape[place] for place in places]):
        raise ValueError(f"weights of the shape {given.shape} do not go with the axes {places} of the shape "
                         f"{array.shape}.")
    order = np.argsort(places)
    return given.transpose(*order).reshape(tuple([n if k in places else 1 for k, n in enumerate(array.shape)]))


@public
def average(a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The mean over axes, weighted by ``weights`` of the same shape, or of that of the axis; with ``returned`` also the
    sum of the weights. Lazy; differentiable."""
    array = array_of(a)
    if weights is None:
        found = array.mean(axis, keepdims=keepdims)
        count = array.size if axis is None else math.prod([array.shape[k] for k in axes_of(axis, array.ndim)])
        return (found, xp.full_like(found, float(count))) if returned else found
    given = _weights(weights, array, axis)
    total = xp.sum(xp.broadcast_to(given, array.shape), axis=axis, keepdims=keepdims)
    products = array * given
    found = xp.sum(products, axis=axis, keepdims=keepdims, dtype=None if products.dtype.kind in "fc" else xp.float64)
    if xp.has_value(total) and not on_host(total).all():
        raise ZeroDivisionError("drjit.numpy.average(): the sum of the weights is 0.")
    found = found / total
    return (found, xp.astype(total, found.dtype)) if returned else found


# --- without NaN -----------------------------------------------------------------------------------------------------


def _without_nan(value: Any, neutral: float) -> tuple[Array, Array]:
    """An array with a neutral element in place of NaN, and which elements are none."""
    array = array_of(value)
    there = ~xp.isnan(array)
    return (xp.where(there, array, neutral), there) if array.dtype.kind in "fc" else (array, there)


def _nan_reduction(name: str, neutral: float, text: str) -> Callable[..., Any]:
    def function(a: Any, axis: Axis = None, *args: Any, **options: Any) -> Array:
        found: Array = getattr(_without_nan(a, neutral)[0], name)(axis, *args, **options)
        return found

    function.__name__ = f"nan{name}"
    function.__doc__ = f"{text}, without NaN. Arguments are those of ``{name}``. Lazy; differentiable."
    return public(function)


nansum = _nan_reduction("sum", 0, "The sum over axes")
nanprod = _nan_reduction("prod", 1, "The product over axes")
nancumsum = _nan_reduction("cumsum", 0, "The sums of the elements up to each one")
nancumprod = _nan_reduction("cumprod", 1, "The products of the elements up to each one")


def _nan_extreme(name: str, neutral: float, text: str) -> Callable[..., Any]:
    def function(a: Any, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
                 where: Any = True) -> Array:
        filled, there = _without_nan(a, neutral)
        found = getattr(filled, name)(axis, keepdims=keepdims, initial=initial, where=where)
        if filled.dtype.kind != "f" or initial is not None:
            return into(out, found)
        return into(out, xp.where(there.any(axis, keepdims=keepdims, where=where), found, math.nan))

    function.__name__ = f"nan{name}"
    function.__doc__ = f"{text} over axes, without NaN; NaN where there is no other. Lazy; differentiable."
    return public(function)


nanmax = _nan_extreme("max", -math.inf, "The largest element")
nanmin = _nan_extreme("min", math.inf, "The smallest element")


@public
def nanargmax(a: Any, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False) -> Array:
    """The position of the first largest element, without NaN. Lazy. Raises a ``ValueError`` if elements are known of
    which there is none."""
    return _not_all_nan(a, -math.inf, axis).argmax(axis, out, keepdims)


@public
def nanargmin(a: Any, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False) -> Array:
    """The position of the first smallest element, without NaN. Lazy. Raises a ``ValueError`` if elements are known of
    which there is none."""
    return _not_all_nan(a, math.inf, axis).argmin(axis, out, keepdims)


def _not_all_nan(a: Any, neutral: float, axis: int | None) -> Array:
    """An array with a neutral element in place of NaN, which must not be all that there is along an axis."""
    filled, there = _without_nan(a, neutral)
    if filled.dtype.kind == "f" and xp.has_value(there) and not on_host(there).any(axis).all():
        raise ValueError("there are no elements but NaN.")
    return filled


@public
def nanmean(a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, *,
            where: Any = True) -> Array:
    """The mean over axes, without NaN; NaN where there is nothing else. Lazy; differentiable."""
    array = array_of(a) if dtype is None else array_of(a).astype(dtype)
    return array.mean(axis, None, out, keepdims, where=_there(array, where))


def _there(array: Array, where: Any) -> Any:
    """Which elements count: those of a mask that are not NaN."""
    there = ~xp.isnan(array)
    return there if where is True else there & array_of(where)


@public
def nanvar(a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0,
           keepdims: bool = False, *, where: Any = True, mean: Any = None,
           correction: float | None = None) -> Array:
    """The variance over axes, without NaN. Lazy; differentiable."""
    array = floating(a) if dtype is None else array_of(a).astype(dtype)
    free = ddof if correction is None else correction
    mask = _there(array, where)
    found = array.var(axis, None, None, free, keepdims, where=mask, mean=mean)
    enough = xp.broadcast_to(mask, array.shape).sum(axis, keepdims=keepdims) > free
    return into(out, xp.where(enough, found, math.nan))


@public
def nanstd(a: Any, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0,
           keepdims: bool = False, *, where: Any = True, mean: Any = None,
           correction: float | None = None) -> Array:
    """The standard deviation over axes, without NaN. Lazy; differentiable."""
    return into(out, xp.sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean,
                                    correction=correction)))


@public
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None,
               neginf: float | None = None) -> Array:
    """The elements with ``nan`` in place of NaN, and the largest numbers of the type, or ``posinf`` and ``neginf``, in
    place of infinite ones. Lazy; differentiable."""
    array = array_of(x)
    if array.dtype.kind not in "fc":
        return array.copy()
    if array.dtype.kind == "c":
        parts = [nan_to_num(part, True, nan, posinf, neginf) for part in (xp.real(array), xp.imag(array))]
        return parts[0] + parts[1] * 1j
    limits = xp.finfo(array.dtype)
    found = xp.where(xp.isnan(array), nan, array)
    found = xp.where(found == math.inf, limits.max if posinf is None else posinf, found)
    found = xp.where(found == -math.inf, limits.min if neginf is None else neginf, found)
    if not copy and isinstance(x, Array):
        x[...] = found
        return x
    return found


# --- order statistics ------------------------------------------------------------------------------------------------


def _last(value: Any, axis: Axis) -> tuple[Array, tuple[int, ...]]:
    """A floating point array whose last axis is what is reduced, and the axes that it was made of."""
    array = floating(value)
    places = axes_of(axis, array.ndim)
    moved = xp.moveaxis(array, places, tuple(range(-len(places), 0))) if places else array
    return moved.reshape((*moved.shape[:moved.ndim - len(places)], -1)), places


def _kept(found: Array, places: tuple[int, ...], keepdims: bool, leading: int = 0) -> Array:
    """A result with the axes of size one that ``keepdims`` asks for, behind some others."""
    return xp.expand_dims(found, tuple([place + leading for place in sorted(places)])) if keepdims and places else found


@public
def median(a: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
           keepdims: bool = False) -> Array:
    """The element in the middle of the order over axes, or the mean of two; NaN if there is one. Lazy; differentiable.
    """
    array, places = _last(a, axis)
    size = array.shape[-1]
    if not size:
        return into(out, array.mean(-1, keepdims=False))
    ordered = xp.sort(array)
    found = ordered[..., size // 2] if size % 2 else (ordered[..., size // 2 - 1] + ordered[..., size // 2]) * 0.5
    last = ordered[..., -1]
    found = xp.where(xp.isnan(last), last, found)
    return into(out, _kept(found, places, keepdims))


@public
def nanmedian(a: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Array:
    """The element in the middle of the order over axes, or the mean of two, without NaN. Lazy; differentiable."""
    return into(out, _quantile(a, 0.5, axis, "linear", keepdims, skip=True))


#: alpha and beta of the positions n q + alpha + q (1 - alpha - beta) - 1 (Hyndman & Fan 1996).
_CONTINUOUS = {"linear": (1, 1), "interpolated_inverted_cdf": (0, 1), "hazen": (0.5, 0.5), "weibull": (0, 0),
               "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8)}
#: Those whose results are elements, of their type.
_CHOOSING = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")
_METHODS = (*_CONTINUOUS, "lower", "higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf",
            "closest_observation")


def _positions(q: Array, count: Any, method: str) -> tuple[Array, Array]:
    """Where a quantile lies among as many elements in order: the position below, and the share of the next one."""
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        place = q * count + alpha + q * (1 - alpha - beta) - 1
    elif method in ("lower", "higher", "nearest", "midpoint"):
        place = q * (count - 1)
        if method == "lower":
            place = xp.floor(place)
        elif method == "higher":
            place = xp.ceil(place)
        elif method == "nearest":
            place = xp.round(place)
        else:
            place = (xp.floor(place) + xp.ceil(place)) * 0.5
    else:
        place = q * count - 1
        if method == "closest_observation":
            place = _closest(q * count - 1.5)
        else:
            whole = xp.floor(place)
            exact = place == whole
            share = 0.0 if method == "inverted_cdf" else 0.5
            place = xp.where(exact, whole + share, whole + 1)
    place = xp.clip(place, 0.0, None)
    place = xp.minimum(place, xp.asarray(count, dtype=xp.float64) - 1)
    below = xp.floor(place)
    return below.astype(xp.int64), place - below


def _closest(place: Array) -> Array:
    whole = xp.floor(place)
    return xp.where((place == whole) & (whole % 2 == 1), whole, whole + 1)


@public
def quantile(a: Any, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Array:
    """The element below which a share ``q`` of the elements over axes lies, of an order that is interpolated as
    ``method`` says, by NumPy's names; NaN if there is one. The axes of ``q`` come first. With ``weights`` as those of
    ``average``, which ``method="inverted_cdf"`` knows alone, the first element up to which a share ``q`` of these lies.
    Lazy; differentiable.

    Raises a ``ValueError`` for shares that are not from 0 to 1, and weights that are negative or all zero, unless they
    are in an array of this module, of which NaN comes then.
    """
    return into(out, _quantile(_real(a), q, axis, method, keepdims, False, weights))


@public
def percentile(a: Any, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Array:
    """As :func:`quantile`, with ``q`` in per cent. Lazy; differentiable."""
    return into(out, _quantile(_real(a), _share(q), axis, method, keepdims, False, weights))


@public
def nanquantile(a: Any, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
                method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Array:
    """As :func:`quantile`, without NaN. Lazy; differentiable."""
    return into(out, _quantile(_real(a), q, axis, method, keepdims, True, weights))


@public
def nanpercentile(a: Any, q: Any, axis: Axis = None, out: Array | None = None, overwrite_input: bool = False,
                  method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Array:
    """As :func:`percentile`, without NaN. Lazy; differentiable."""
    return into(out, _quantile(_real(a), _share(q), axis, method, keepdims, True, weights))


def _real(a: Any) -> Array:
    """An array of real numbers, between which one can interpolate."""
    array = array_of(a)
    if array.dtype.kind == "c":
        raise TypeError(f"'a' must be an array of real numbers, found {array.dtype}.")
    return array


def _share(q: Any) -> Any:
    return q / 100 if isinstance(q, Array) or is_number(q) else np.asarray(q) / 100


def _weighted_positions(q: Array, weights: Array) -> Array:
    """How many elements in order have less than a share of the weights up to them, those without weight in front
    included. The axes of ``q`` come first, the last axis is that of the elements."""
    sums = xp.cumulative_sum(weights, axis=-1)
    parts = sums / sums[..., -1:]
    return ((parts < q[..., None]) | (parts == 0)).sum(-1)


def _quantile(a: Any, q: Any, axis: Axis, method: str, keepdims: bool, skip: bool, weights: Any = None) -> Array:
    if method not in _METHODS:
        raise ValueError(f"'method' must be one of {', '.join(map(repr, _METHODS))}, found {method!r}.")
    if weights is not None:
        if method != "inverted_cdf":
            raise ValueError(f"weights are for the method 'inverted_cdf' only, found {method!r}.")
        if not isinstance(weights, Array):
            values = np.asarray(weights, dtype=float)
            if not np.isfinite(values).all() or (values < 0).any() or not values.any():
                raise ValueError("'weights' must be finite, not negative, and not all zero.")
    if not isinstance(q, Array) and not np.all((np.asarray(q) >= 0) & (np.asarray(q) <= 1)):
        raise ValueError(f"quantiles must be from 0 to 1, found {q!r}.")
    shares = array_of(q).astype(xp.float64)
    array, places = _last(a, axis)
    if weights is None:
        ordered = xp.sort(array)
    else:
        order = xp.argsort(array, stable=True)
        ordered = xp.take_along_axis(array, order)
        given = xp.broadcast_to(_weights(weights, array_of(a), axis), array_of(a).shape)
        given = xp.take_along_axis(_last(given, axis)[0].astype(xp.float64), order)
    size = array.shape[-1]
    if not size:
        return xp.full((*shares.shape, *array.shape[:-1]), math.nan, dtype=array.dtype)
    behind = (1,) * (array.ndim - 1)
    q_ = shares.reshape((*shares.shape, *behind))
    missing = xp.isnan(ordered)
    share: Any
    if weights is not None:
        below, share = _weighted_positions(q_, xp.where(missing, 0.0, given) if skip else given), xp.zeros_like(q_)
        empty = missing.all(-1) if skip else missing[..., -1]
        limit: Any = size - 1
        below = xp.clip(below, 0, limit)
    elif skip:
        count = (~missing).sum(-1)
        below, share = _positions(q_, xp.maximum(count, 1).astype(xp.float64), method)
        empty = count == 0
        limit = xp.maximum(count, 1) - 1
    else:
        below, share = _positions(q_, float(size), method)
        empty = missing[..., -1]
        limit = size - 1
    below = xp.broadcast_to(below, (*shares.shape, *array.shape[:-1]))
    above = xp.minimum(below + 1, limit)
    low, high = (_taken(ordered, place, shares.ndim) for place in (below, above))
    share = share.astype(array.dtype)
    found = xp.where(share >= 0.5, high - (high - low) * (1 - share), low + (high - low) * share)
    found = xp.where((share == 0) | (low == high), low, found)
    found = _kept(xp.where(empty, math.nan, found), places, keepdims, shares.ndim)
    own = array_of(a).dtype
    return found.astype(own) if method in _CHOOSING and own.kind in "iu" else found


def _taken(ordered: Array, place: Array, leading: int) -> Array:
    """The elements of the last axis at positions, whose first axes are others than those of the array."""
    batch = ordered.shape[:-1]
    flat = place.reshape((-1, *batch))
    index = xp.moveaxis(flat, 0, -1)
    return xp.moveaxis(xp.take_along_axis(ordered, index, axis=-1), -1, 0).reshape(place.shape)
