"""Special functions, which the standard does not have, and ``scipy.special`` looks for in namespaces.

All are lazy and elementwise, of real floating point numbers (integers become the default type; numbers of half
precision are computed in single precision), and differentiable. Values and derivatives are formulas on tensors; where
there is none for the derivative, it is that of what the value is composed of, which holds at all arguments then.
Outside of the domain of a function derivatives are NaN, or what their formula gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import drjit as dr

from . import _dtypes as dtypes
from ._data import wrap
from ._elementwise import _expit as _logistic
from ._elementwise import _log1p as _log_plus_one
from ._elementwise import documented
from ._operands import as_float, converted, operands

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["digamma", "entr", "erf", "erfc", "erfinv", "exp10", "exp2", "expit", "gammaln", "i0", "i0e", "i1", "i1e",
           "kl_div", "log_expit", "log_ndtr", "logit", "ndtr", "ndtri", "psi", "rel_entr", "xlog1py", "xlogy"]

_NAMESPACE = "drjit.array_api.special"


Formula = Callable[..., Any]


def _of_one(name: str, text: str, formula: Formula, derivative: Formula | None = None) -> Callable[[Array], Array]:
    """A function of one array."""
    full = f"{_NAMESPACE}.{name}"
    if derivative is not None:
        formula = dr.detail.differentiated(formula, derivative)

    def function(x: Array, /) -> Array:
        array = as_float(full, "x", x, "f")
        if array._dtype is dtypes.float16:
            return converted(wrap(dtypes.float32, formula(converted(array, dtypes.float32)._parts[0])), dtypes.float16)
        return wrap(array._dtype, formula(array._parts[0]))

    return documented(function, name, text, module=_NAMESPACE)  # type: ignore[no-any-return]


def _of_two(name: str, text: str, formula: Formula, by_x: Formula, by_y: Formula) -> Callable[[Any, Any], Array]:
    """A function of two arrays, or of an array and a number."""
    full = f"{_NAMESPACE}.{name}"
    formula = dr.detail.differentiated(formula, by_x, by_y)

    def function(x: Array | float, y: Array | float, /) -> Array:
        a, b = operands(full, (x, y), ("x", "y"), "iuf")
        a, b = (as_float(full, name, array, "f") for name, array in (("x", a), ("y", b)))
        half = a._dtype is dtypes.float16
        if half:
            a, b = converted(a, dtypes.float32), converted(b, dtypes.float32)
        found = wrap(a._dtype, formula(a._parts[0], b._parts[0]))
        return converted(found, dtypes.float16) if half else found

    return documented(function, name, text, module=_NAMESPACE)  # type: ignore[no-any-return]


# --- formulas --------------------------------------------------------------------------------------------------------

#: Where the asymptotic series of the digamma function begins, and B(2n) / 2n for n = 1, 2 … (DLMF 5.11.2).
_FAR = 10
_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _digamma(x: Any) -> Any:
    """The recurrence (DLMF 5.5.2) until the asymptotic series holds; the reflection (5.5.4) for x < 0."""
    left = x <= 0
    z = dr.select(left, 1 - x, x)
    total = dr.zeros(type(x), ())
    for _ in range(_FAR):
        near = z < _FAR
        total = total - dr.select(near, 1 / dr.select(near, z, 1), 0)
        z = dr.select(near, z + 1, z)
    square = 1 / (z * z)
    series = dr.zeros(type(x), ())
    for factor in reversed(_SERIES):
        series = (series + factor) * square
    total = dr.select(z == math.inf, math.inf, total + dr.log(z) - 0.5 / z - series)
    turn = x - dr.round(x)
    pole = left & (turn == 0)
    cotangent = math.pi / dr.tan(math.pi * dr.select(pole, 0.5, turn))
    reflected = dr.select(pole, dr.select(x == 0, -dr.copysign(dr.full(type(x), math.inf, ()), x), math.nan),
                          total - cotangent)
    return dr.select(x == -math.inf, math.nan, dr.select(left, reflected, total))


#: The Bernoulli numbers B(2n) for n = 1, 2 …
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _trigamma(x: Any) -> Any:
    """The derivative of the digamma function, by the derivatives of its formulas (DLMF 5.15); infinite at its poles."""
    left = x < 0.5
    z = dr.select(left, 1 - x, x)
    total = dr.zeros(type(x), ())
    for _ in range(_FAR):
        near = z < _FAR
        total = total + dr.select(near, dr.square(1 / dr.select(near, z, 1)), 0)
        z = dr.select(near, z + 1, z)
    inverse = 1 / z
    square = inverse * inverse
    series = dr.zeros(type(x), ())
    for factor in reversed(_BERNOULLI):
        series = (series + factor) * square
    total = total + inverse + 0.5 * square + series * inverse
    turn = x - dr.round(x)
    return dr.select(left, dr.square(math.pi / dr.sin(math.pi * turn)) - total, total)


def _series_of_tail(x: Any) -> Any:
    """The normal distribution's lower tail, divided by ``exp(-x * x / 2) / (-x sqrt(2 pi))`` (DLMF 7.12.1)."""
    square = 1 / (x * x)
    series = dr.ones(type(x), ())
    for n in (17, 15, 13, 11, 9, 7, 5, 3, 1):
        series = 1 - n * square * series
    return series


def _start_of_tail(x: Any) -> float:
    return -20 if dr.itemsize_v(x) == 8 else -8


def _log_ndtr_of(x: Any) -> Any:
    start = _start_of_tail(x)
    tail, middle = x < start, (x >= start) & (x < -1)
    far = dr.select(tail, x, start)
    logarithm = -0.5 * far * far - dr.log(-far) - 0.5 * math.log(2 * math.pi) + dr.log(_series_of_tail(far))
    inner = dr.log(0.5 * dr.erfc(dr.select(middle, x, -1) * -math.sqrt(0.5)))
    upper = _log_plus_one(-0.5 * dr.erfc(dr.select(tail | middle, 0, x) * math.sqrt(0.5)))
    return dr.select(tail, logarithm, dr.select(middle, inner, upper))


def _by_log_ndtr(x: Any) -> Any:
    """The density by the distribution."""
    start = _start_of_tail(x)
    tail = x < start
    far, near = dr.select(tail, x, start), dr.select(tail, 0, x)
    return dr.select(tail, -far / _series_of_tail(far),
                     dr.exp(-0.5 * near * near - _log_ndtr(near)) * (1 / math.sqrt(2 * math.pi)))


_log_ndtr = dr.detail.differentiated(_log_ndtr_of, _by_log_ndtr)


def _ndtri(p: Any) -> Any:
    """In the middle by the inverse error function, elsewhere by Newton's method for the logarithm of the tail."""
    upper = p > 0.5
    tail = dr.select(upper, 1 - p, p)
    far = (tail < 0.1) & (tail > 0)
    wanted = dr.log(dr.select(far, tail, 0.05))
    x = -dr.sqrt(-2 * wanted)
    for _ in range(6):
        value = _log_ndtr(x)
        x = x - (value - wanted) * dr.exp(value + 0.5 * x * x + 0.5 * math.log(2 * math.pi))
    middle = math.sqrt(2) * dr.erfinv(2 * dr.select(far, 0.5, p) - 1)
    found = dr.select(far, dr.select(upper, -x, x), middle)
    found = dr.select(p == 0, -math.inf, dr.select(p == 1, math.inf, found))
    return dr.select((p < 0) | (p > 1) | dr.isnan(p), math.nan, found)


def _by_p(p: Any) -> Any:
    """The inverse of the density."""
    x = _quantile(p)
    return math.sqrt(2 * math.pi) * dr.exp(0.5 * x * x)


_quantile: Formula = dr.detail.differentiated(_ndtri, _by_p)


#: Points of the trapezoidal rule for Bessel's integral (DLMF 10.32.1), which converges exponentially: with 14 in a
#: quarter of the period, the error is below 1e-19 for arguments below the limit.
_POINTS, _LIMIT = 14, 30.0
_COSINES = [math.cos(math.pi * (k + 0.5) / (2 * _POINTS)) for k in range(_POINTS)]


def _scaled_bessel(order: int, x: Any) -> Any:
    """exp(-|x|) I(x) of order 0 or 1: by the integral, or its asymptotic series (DLMF 10.40.1)."""
    negative = x < 0
    size = dr.abs(x)
    near = size <= _LIMIT
    z = dr.select(near, size, 0)
    total = dr.zeros(type(x), ())
    for cosine in _COSINES:
        if order:  # exp(-z) sinh(z c), without a difference of what is nearly equal
            half = z * cosine
            total = total + cosine * dr.exp(half - z) * dr.sinh(half) * dr.exp(-half)
        else:
            total = total + 0.5 * (dr.exp(z * (cosine - 1)) + dr.exp(-z * (cosine + 1)))
    total = total / _POINTS
    w = 1 / (8 * dr.select(near, _LIMIT, size))
    series = dr.ones(type(x), ())
    for n in range(24, 0, -1):
        series = 1 - (4 * order * order - (2 * n - 1) ** 2) * w / n * series
    found = dr.select(near, total, series * dr.rsqrt(2 * math.pi * dr.select(near, 1, size)))
    return dr.select(negative, -found, found) if order else found


def _sign(x: Any) -> Any:
    return dr.select(x == 0, 0, dr.copysign(dr.ones(type(x), ()), x))


def _slope(x: Any) -> Any:
    """exp(-|x|) times the derivative of I of order 1 (DLMF 10.29.2), which is 1/2 at 0."""
    zero = x == 0
    return dr.select(zero, 0.5, _i0e(x) - _i1e(x) / dr.select(zero, 1, x))


_i0e: Formula = dr.detail.differentiated(lambda x: _scaled_bessel(0, x), lambda x: _i1e(x) - _sign(x) * _i0e(x))
_i1e: Formula = dr.detail.differentiated(lambda x: _scaled_bessel(1, x), lambda x: _slope(x) - _sign(x) * _i1e(x))


def _grown(scaled: Any, x: Any) -> Any:
    """What has been scaled by exp(-|x|)."""
    return scaled * dr.exp(dr.abs(x))


_i0: Formula = dr.detail.differentiated(lambda x: _grown(_i0e(x), x), lambda x: _i1(x))
_i1: Formula = dr.detail.differentiated(lambda x: _grown(_i1e(x), x), lambda x: _grown(_slope(x), x))


def _log_expit(x: Any) -> Any:
    left = x < 0
    return dr.select(left, x, 0) - _log_plus_one(dr.exp(dr.select(left, x, -x)))


def _logit(x: Any) -> Any:
    """By the distance from one half where that is small."""
    away = 2 * (x - 0.5)
    near = dr.abs(away) < 0.4
    small = dr.select(near, away, 0)
    return dr.select(near, _log_plus_one(small) - _log_plus_one(-small),
                     dr.log(dr.select(near, 0.1, x)) - _log_plus_one(-dr.select(near, 0.1, x)))


def _times(x: Any, logarithm: Any, y: Any) -> Any:
    """A product that is 0 where x is, also beside infinity, but not beside NaN."""
    return dr.select((x == 0) & ~dr.isnan(y), 0, x * logarithm)


def _ratio(x: Any, y: Any) -> Any:
    """The ratio of two numbers, 0 if the first one is 0."""
    return dr.select(x == 0, 0 * y, x / y)


def _entr(x: Any) -> Any:
    return dr.select(x < 0, -math.inf, -_times(x, dr.log(x), x))


def _rel_entr(x: Any, y: Any) -> Any:
    both = (x > 0) & (y > 0)
    found = dr.select(both, x * dr.log(dr.select(both, x, 1) / dr.select(both, y, 1)), math.inf)
    found = dr.select((x == 0) & (y >= 0), 0, found)
    return dr.select(dr.isnan(x) | dr.isnan(y), math.nan, found)


def _kl_div(x: Any, y: Any) -> Any:
    found = _rel_entr(x, y)
    return dr.select((x == 0) & (y >= 0), y, dr.select((x > 0) & (y > 0), found - x + y, found))


def _log_ratio(x: Any, y: Any) -> Any:
    """The logarithm of the ratio of two numbers that are not negative."""
    return dr.select((x < 0) | (y < 0), math.nan, dr.log(x / y))


# --- functions -------------------------------------------------------------------------------------------------------

erf = _of_one("erf", "The error function.", dr.erf)
erfc = _of_one("erfc", "The complementary error function, 1 - erf(x), accurate where it is small.", dr.erfc)
erfinv = _of_one("erfinv", "The inverse error function.", dr.erfinv)
gammaln = _of_one("gammaln", "The logarithm of the magnitude of the gamma function.", dr.lgamma)
digamma = _of_one("digamma", "The derivative of ``gammaln``; NaN at negative integers.", _digamma,
                  _trigamma)
psi = _of_one("psi", "The digamma function by its other name.", _digamma, _trigamma)
expit = _of_one("expit", "The logistic function, 1 / (1 + exp(-x)).", _logistic)
logit = _of_one("logit", "The inverse of ``expit``, log(x / (1 - x)).", _logit, lambda x: 1 / (x * (1 - x)))
log_expit = _of_one("log_expit", "The logarithm of ``expit``.", _log_expit, lambda x: _logistic(-x))
ndtr = _of_one("ndtr", "The standard normal distribution function.", lambda x: 0.5 * dr.erfc(-math.sqrt(0.5) * x))
ndtri = _of_one("ndtri", "The inverse of ``ndtr``: quantiles of the standard normal distribution.", _quantile)
log_ndtr = _of_one("log_ndtr", "The logarithm of ``ndtr``, accurate in the tails.", _log_ndtr)
i0 = _of_one("i0", "The modified Bessel function of order 0.", _i0)
i0e = _of_one("i0e", "exp(-abs(x)) times the modified Bessel function of order 0.", _i0e)
i1 = _of_one("i1", "The modified Bessel function of order 1.", _i1)
i1e = _of_one("i1e", "exp(-abs(x)) times the modified Bessel function of order 1.", _i1e)
exp2 = _of_one("exp2", "2 to the power of each element.", dr.exp2)
exp10 = _of_one("exp10", "10 to the power of each element.", lambda x: dr.power(type(x)(10), x))
entr = _of_one("entr", "-x log(x); 0 at 0, minus infinity below.", _entr, lambda x: -1 - dr.log(x))
xlogy = _of_two("xlogy", "x log(y); 0 for x = 0, whatever y is but NaN.", lambda x, y: _times(x, dr.log(y), y),
                lambda x, y: dr.log(y), _ratio)
xlog1py = _of_two("xlog1py", "x log(1 + y); 0 for x = 0, whatever y is but NaN.",
                  lambda x, y: _times(x, _log_plus_one(y), y), lambda x, y: _log_plus_one(y),
                  lambda x, y: _ratio(x, 1 + y))
rel_entr = _of_two("rel_entr", "x log(x / y), the relative entropy; 0 for x = 0, infinity where it is not defined.",
                   _rel_entr, lambda x, y: 1 + _log_ratio(x, y), lambda x, y: -_ratio(x, y))
kl_div = _of_two("kl_div", "x log(x / y) - x + y, as in the Kullback-Leibler divergence; infinity where it is not "
                 "defined.", _kl_div, _log_ratio, lambda x, y: 1 - _ratio(x, y))


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
