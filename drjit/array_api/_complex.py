"""Elementwise functions of complex numbers, as formulas on pairs of tensors: real and imaginary parts.

Special values are those of C99, Annex G, which the standard lists. Formulas keep apart the sides of branch cuts by the
signs of zeros (W. Kahan, *Branch cuts for complex elementary functions*, 1987). All are straight code that selects, and
so fuse and are differentiable.
"""

from __future__ import annotations

import math
from typing import Any

import drjit as dr

__all__ = ["abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atanh", "conj", "cos", "cosh", "divide", "equal",
           "exp", "expm1", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10", "multiply", "negative",
           "not_equal", "pow", "reciprocal", "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh"]

Pair = tuple[Any, Any]


def _number(like: Any, value: float) -> Any:
    return dr.full(type(like), value, ())


def _with_sign(a: Any, b: Any) -> Any:
    """The magnitude of a with the sign of b, of zeros as well."""
    size = dr.abs(a)
    return dr.select((b < 0) | ((b == 0) & (1 / b < 0)), -size, size)


def _is_zero(z: Pair) -> Any:
    return (z[0] == 0) & (z[1] == 0)


def _choose(mask: Any, a: Pair, b: Pair) -> Pair:
    return dr.select(mask, a[0], b[0]), dr.select(mask, a[1], b[1])


# --- arithmetic ------------------------------------------------------------------------------------------------------


def add(a: Pair, b: Pair) -> Pair:
    """A + b."""
    return a[0] + b[0], a[1] + b[1]


def subtract(a: Pair, b: Pair) -> Pair:
    """A - b."""
    return a[0] - b[0], a[1] - b[1]


def negative(z: Pair) -> Pair:
    """-z."""
    return -z[0], -z[1]


def conj(z: Pair) -> Pair:
    """The complex conjugate."""
    return z[0], -z[1]


def multiply(a: Pair, b: Pair) -> Pair:
    """A * b."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def square(z: Pair) -> Pair:
    """Z * z."""
    return (z[0] - z[1]) * (z[0] + z[1]), 2 * z[0] * z[1]


def divide(a: Pair, b: Pair) -> Pair:
    """A / b, by the larger part of b (R. L. Smith, 1962), so that nothing overflows on the way."""
    wide = dr.abs(b[0]) >= dr.abs(b[1])
    large, small = dr.select(wide, b[0], b[1]), dr.select(wide, b[1], b[0])
    nonzero = large != 0
    ratio = dr.select(nonzero, small / dr.select(nonzero, large, 1), small)
    scale = large + small * ratio
    p, q = dr.select(wide, a[0], a[1]), dr.select(wide, a[1], a[0])
    real = (p + q * ratio) / scale
    imag = (q - p * ratio) / scale
    found = real, dr.select(wide, imag, -imag)
    # By zero, of infinities, and by infinities: each part on its own has the limit.
    zero = dr.isfinite(b[0]) & dr.isfinite(b[1]) & ~nonzero
    infinite = dr.isinf(b[0]) | dr.isinf(b[1])
    known = ~dr.isnan(a[0]) & ~dr.isnan(a[1])
    sign = _with_sign(_number(b[0], math.inf), b[0])
    found = _choose(zero & known, (a[0] * sign, a[1] * sign), found)
    ends = infinite & dr.isfinite(a[0]) & dr.isfinite(a[1])
    unit = tuple(_with_sign(dr.select(dr.isinf(x), _number(x, 1), _number(x, 0)), x) for x in b)
    found = _choose(ends, (0 * (a[0] * unit[0] + a[1] * unit[1]), 0 * (a[1] * unit[0] - a[0] * unit[1])), found)
    start = (dr.isinf(a[0]) | dr.isinf(a[1])) & dr.isfinite(b[0]) & dr.isfinite(b[1]) & nonzero
    unit = tuple(_with_sign(dr.select(dr.isinf(x), _number(x, 1), _number(x, 0)), x) for x in a)
    return _choose(start, (math.inf * (unit[0] * b[0] + unit[1] * b[1]),
                           math.inf * (unit[1] * b[0] - unit[0] * b[1])), found)


def reciprocal(z: Pair) -> Pair:
    """1 / z."""
    return divide((_number(z[0], 1), _number(z[0], 0)), z)


def abs(z: Pair) -> Any:
    """The magnitude, a real number."""
    return dr.hypot(z[0], z[1])


def sign(z: Pair) -> Pair:
    """Z / abs(z); 0 for 0, NaN if a part is NaN."""
    size = abs(z)
    zero = size == 0
    safe = dr.select(zero, 1, size)
    missing = dr.isnan(z[0]) | dr.isnan(z[1])
    found = tuple(dr.select(missing, math.nan, dr.select(zero, 0, x / safe)) for x in z)
    return found[0], found[1]


def equal(a: Pair, b: Pair) -> Any:
    """Whether both parts are equal."""
    return (a[0] == b[0]) & (a[1] == b[1])


def not_equal(a: Pair, b: Pair) -> Any:
    """Whether a part differs."""
    return (a[0] != b[0]) | (a[1] != b[1])


def isfinite(z: Pair) -> Any:
    """Whether both parts are finite."""
    return dr.isfinite(z[0]) & dr.isfinite(z[1])


def isinf(z: Pair) -> Any:
    """Whether a part is infinite."""
    return dr.isinf(z[0]) | dr.isinf(z[1])


def isnan(z: Pair) -> Any:
    """Whether a part is NaN, and none is infinite or the other may be."""
    return dr.isnan(z[0]) | dr.isnan(z[1])


# --- exponentials and logarithms -------------------------------------------------------------------------------------


def _polar(size: Any, angle: Any) -> Pair:
    """The number of a magnitude and an angle; where that is 0, the imaginary part is exact."""
    return size * dr.cos(angle), dr.select(angle == 0, angle, size * dr.sin(angle))


def exp(z: Pair) -> Pair:
    """E to the power of z."""
    x, y = z
    half = dr.exp(x * 0.5)  # twice, so that what overflows alone does not
    real, imag = _polar(half, y)
    found = real * half, dr.select(y == 0, y, imag * half)
    wild = ~dr.isfinite(y)
    found = _choose((x == -math.inf) & wild, (_number(x, 0), _number(x, 0)), found)
    found = _choose((x == math.inf) & wild, (_number(x, math.inf), _number(x, math.nan)), found)
    return _choose(dr.isnan(x) & (y == 0), (x, y), found)


def expm1(z: Pair) -> Pair:
    """exp(z) - 1, accurate for small z: expm1(x) cos(y) - 2 sin(y/2)^2."""
    x, y = z
    real, imag = exp(z)
    near = (dr.abs(x) < 1) & dr.isfinite(y)
    safe_x, safe_y = dr.select(near, x, 0), dr.select(near, y, 0)
    sine = dr.sin(safe_y * 0.5)
    short = _expm1(safe_x) * dr.cos(safe_y) - 2 * sine * sine + 0.0  # +0 for both zeros, which the standard wants
    return dr.select(near, short, real - 1), imag


def _expm1(x: Any) -> Any:
    """exp(x) - 1 for |x| < 1, by the hyperbolic sine, which is accurate for small x."""
    half = dr.exp(x * 0.5)
    return 2 * half * dr.sinh(x * 0.5)


def _log1p(x: Any) -> Any:
    """log(1 + x) by the inverse hyperbolic tangent, which is accurate for small x."""
    small = dr.abs(x) < 0.5
    safe = dr.select(small, x, 0)
    return dr.select(small, 2 * dr.atanh(safe / (2 + safe)), dr.log(1 + x))


def _log_abs(z: Pair) -> Any:
    """The logarithm of the magnitude, accurate where that is near 1 or beyond the range of numbers."""
    x, y = dr.abs(z[0]), dr.abs(z[1])
    large, small = dr.maximum(x, y), dr.minimum(x, y)
    near = (large > 0.5) & (large < 2)
    a, b = dr.select(near, large, 1), dr.select(near, small, 0)
    inside = 0.5 * _log1p((a - 1) * (a + 1) + b * b)
    ordinary = (large > 0) & dr.isfinite(large) & ~dr.isnan(small)
    top = dr.select(ordinary, large, 1)
    ratio = dr.select(ordinary, small, 0) / top
    found = dr.log(top) + 0.5 * _log1p(ratio * ratio)
    found = dr.select(near & ~dr.isnan(small), inside, found)
    size = dr.select(dr.isinf(x) | dr.isinf(y), math.inf, dr.select(dr.isnan(x) | dr.isnan(y), math.nan, -math.inf))
    return dr.select(ordinary, found, size)


def log(z: Pair) -> Pair:
    """The natural logarithm, whose imaginary part is the angle."""
    return _log_abs(z), dr.atan2(z[1], z[0])


def log1p(z: Pair) -> Pair:
    """log(1 + z), accurate for small z."""
    x, y = z
    size = dr.abs(x) + dr.abs(y)
    near = size < 0.5
    a, b = dr.select(near, x, 0), dr.select(near, y, 0)
    real, imag = log((1 + x, y))
    return dr.select(near, 0.5 * _log1p(a * (2 + a) + b * b), real), imag


def log2(z: Pair) -> Pair:
    """The logarithm to base 2."""
    real, imag = log(z)
    return real * (1 / math.log(2)), imag * (1 / math.log(2))


def log10(z: Pair) -> Pair:
    """The logarithm to base 10."""
    real, imag = log(z)
    return real * (1 / math.log(10)), imag * (1 / math.log(10))


def pow(a: Pair, b: Pair) -> Pair:
    """exp(b * log(a)); 1 where b is 0, and 0 where a is 0 and the real part of b is positive."""
    zero, none = _is_zero(a), _is_zero(b)
    safe = dr.select(zero, 1, a[0]), a[1]
    found = exp(multiply(b, log(safe)))
    found = _choose(zero & (b[0] > 0), (_number(a[0], 0), _number(a[0], 0)), found)
    found = _choose(zero & ~none & ~(b[0] > 0), (_number(a[0], math.nan), _number(a[0], math.nan)), found)
    return _choose(none, (_number(a[0], 1), _number(a[0], 0)), found)


def sqrt(z: Pair) -> Pair:
    """The square root whose real part is not negative."""
    x, y = z
    zero = _is_zero(z)
    ordinary = dr.isfinite(x) & dr.isfinite(y) & ~zero
    a, b = dr.select(ordinary, x, 1), dr.select(ordinary, y, 0)
    limit = 1e150 if dr.itemsize_v(x) == 8 else 1e18
    size = dr.maximum(dr.abs(dr.detach(a)), dr.abs(dr.detach(b)))
    scale = dr.select(size > limit, 0.0625, dr.select(size < 1 / limit, 2.0 ** 60, 1.0))
    back = dr.select(size > limit, 4.0, dr.select(size < 1 / limit, 2.0 ** -30, 1.0))
    a, b = a * scale, b * scale
    root = dr.sqrt((dr.abs(a) + dr.hypot(a, b)) * 0.5)
    other = dr.abs(b) / (2 * root)
    right = a >= 0
    found = dr.select(right, root, other) * back, _with_sign(dr.select(right, other, root) * back, y)
    found = _choose(zero, (_number(x, 0), y), found)
    found = _choose((x == math.inf) & ~dr.isinf(y), (x, dr.select(dr.isnan(y), y, _with_sign(_number(y, 0), y))), found)
    found = _choose((x == -math.inf) & ~dr.isinf(y), (dr.select(dr.isnan(y), y, _number(y, 0)),
                                                      _with_sign(_number(y, math.inf), y)), found)
    found = _choose((dr.isnan(x) & ~dr.isinf(y)) | (dr.isnan(y) & dr.isfinite(x)),
                    (_number(x, math.nan), _number(x, math.nan)), found)
    return _choose(dr.isinf(y), (_number(x, math.inf), y), found)


# --- hyperbolic and circular functions -------------------------------------------------------------------------------


def sinh(z: Pair) -> Pair:
    """The hyperbolic sine, sinh(x) cos(y) + i cosh(x) sin(y)."""
    x, y = z
    found = _large(z, True)
    inf = dr.isinf(x)
    found = _choose(inf & ~dr.isfinite(y), (x, _number(x, math.nan)), found)
    found = _choose(inf & (y == 0), (x, y), found)
    found = _choose((x == 0) & ~dr.isfinite(y), (x, _number(x, math.nan)), found)
    return _choose(dr.isnan(x) & (y == 0), (x, y), found)


def cosh(z: Pair) -> Pair:
    """The hyperbolic cosine, cosh(x) cos(y) + i sinh(x) sin(y)."""
    x, y = z
    found = _large(z, False)
    inf = dr.isinf(x)
    found = _choose(inf & ~dr.isfinite(y), (dr.abs(x), _number(x, math.nan)), found)
    zero = y * dr.select(x == 0, _with_sign(_number(x, 1), x), dr.sign(dr.select(dr.isnan(x), 1, x)))
    found = _choose(inf & (y == 0), (dr.abs(x), zero), found)
    found = _choose((x == 0) & ~dr.isfinite(y), (_number(x, math.nan), _number(x, 0)), found)
    return _choose(dr.isnan(x) & (y == 0), (x, y), found)


def _large(z: Pair, sine: bool) -> Pair:
    """sinh(z) or cosh(z) by exponentials of half of x where they would overflow."""
    x, y = z
    limit = 709.0 if dr.itemsize_v(x) == 8 else 88.0
    far = dr.abs(x) > limit
    a = dr.select(far, 0, x)
    s, c = dr.sinh(a), dr.cosh(a)
    cos, sin = dr.cos(y), dr.sin(y)
    half = dr.exp(dr.select(far, dr.abs(x) * 0.5, 0))
    big = _with_sign(_number(x, 0.5), x)
    first, second = (s, c) if sine else (c, s)
    one, other = (big, _number(x, 0.5)) if sine else (_number(x, 0.5), big)
    real = dr.select(far, half * one * cos * half, first * cos)
    imag = dr.select(far, dr.select(sin == 0, sin * other, half * other * sin * half), second * sin)
    return real, imag


def tanh(z: Pair) -> Pair:
    """The hyperbolic tangent (Kahan 1987)."""
    x, y = z
    far = dr.abs(x) > 20
    a = dr.select(far, 0, x)
    wild = ~dr.isfinite(y)
    b = dr.select(wild, 0, y)
    t, s, c = dr.tan(b), dr.sinh(a), dr.cosh(a)
    beta = 1 + t * t
    bottom = 1 + beta * s * s
    found = beta * c * s / bottom, t / bottom
    decay = dr.exp(-2 * dr.select(far, dr.abs(x), 20))
    one = _with_sign(_number(x, 1), x)
    sincos = dr.sin(b) * dr.cos(b)
    found = _choose(far, (one, 4 * sincos * decay), found)
    found = _choose(dr.isinf(x), (one, _with_sign(_number(y, 0), y)), found)
    found = _choose(wild & dr.isfinite(x), (dr.select(x == 0, x, math.nan), _number(x, math.nan)), found)
    return _choose(dr.isnan(x), (x, dr.select(y == 0, y, math.nan)), found)


def _turned(z: Pair) -> Pair:
    """I z."""
    return -z[1], z[0]


def _turned_back(z: Pair) -> Pair:
    """-i z."""
    return z[1], -z[0]


def sin(z: Pair) -> Pair:
    """The sine, -i sinh(i z)."""
    return _turned_back(sinh(_turned(z)))


def cos(z: Pair) -> Pair:
    """The cosine, cosh(i z)."""
    return cosh(_turned(z))


def tan(z: Pair) -> Pair:
    """The tangent, -i tanh(i z)."""
    return _turned_back(tanh(_turned(z)))


def _tame(z: Pair) -> tuple[Any, Pair]:
    """Where both parts are far from the ends of the range, and numbers with 0 elsewhere."""
    limit = 1e100 if dr.itemsize_v(z[0]) == 8 else 1e12
    mask = (dr.abs(z[0]) < limit) & (dr.abs(z[1]) < limit)
    return mask, (dr.select(mask, z[0], 0.5), dr.select(mask, z[1], 0.5))


def acos(z: Pair) -> Pair:
    """The inverse cosine (Kahan 1987); for large z pi/2 - asin(z), by the logarithm of 2 z."""
    x, y = z
    mask, (a, b) = _tame(z)
    low, high = sqrt((1 - a, -b)), sqrt((1 + a, b))
    found = 2 * dr.atan2(low[0], high[0]), dr.asinh(high[0] * low[1] - high[1] * low[0])
    far = dr.atan2(dr.abs(y), x), -_with_sign(_log_abs(z) + math.log(2), y)
    found = _choose(mask, found, far)
    found = _choose(dr.isnan(y) & dr.isinf(x), (_number(x, math.nan), -_number(x, math.inf)), found)
    found = _choose(dr.isnan(y) & (x == 0), (_number(x, math.pi / 2), y), found)
    found = _choose(dr.isnan(y) & dr.isfinite(x) & (x != 0), (y, y), found)
    return _choose(dr.isnan(x), (x, dr.select(dr.isinf(y), -y, math.nan)), found)


def asin(z: Pair) -> Pair:
    """The inverse sine, -i asinh(i z)."""
    return _turned_back(asinh(_turned(z)))


def asinh(z: Pair) -> Pair:
    """The inverse hyperbolic sine (Kahan 1987); for large z by the logarithm of 2 z."""
    x, y = z
    mask, (a, b) = _tame(z)
    up, down = sqrt((1 - b, a)), sqrt((1 + b, -a))
    found = dr.asinh(up[0] * -down[1] + up[1] * down[0]), dr.atan2(b, up[0] * down[0] - up[1] * down[1])
    angle = dr.atan2(y, dr.abs(x))
    found = _choose(mask, found, (_with_sign(_log_abs(z) + math.log(2), x), angle))
    found = _choose(dr.isnan(y), (dr.select(dr.isinf(x), x, math.nan), _number(y, math.nan)), found)
    return _choose(dr.isnan(x), (dr.select(dr.isinf(y), math.inf, math.nan), dr.select(y == 0, y, math.nan)), found)


def acosh(z: Pair) -> Pair:
    """The inverse hyperbolic cosine (Kahan 1987); for large z by the logarithm of 2 z."""
    x, y = z
    mask, (a, b) = _tame(z)
    low, high = sqrt((a - 1, b)), sqrt((a + 1, b))
    found = dr.asinh(low[0] * high[0] + low[1] * high[1]), 2 * dr.atan2(low[1], high[0])
    found = _choose(mask, found, (_log_abs(z) + math.log(2), dr.atan2(y, x)))
    found = _choose(dr.isnan(y), (dr.select(dr.isinf(x), math.inf, math.nan),
                                  dr.select(x == 0, _number(x, math.pi / 2), math.nan)), found)
    return _choose(dr.isnan(x), (dr.select(dr.isinf(y), math.inf, math.nan), _number(x, math.nan)), found)


def atan(z: Pair) -> Pair:
    """The inverse tangent, -i atanh(i z)."""
    return _turned_back(atanh(_turned(z)))


def atanh(z: Pair) -> Pair:
    """The inverse hyperbolic tangent: log1p(4 x / ((1 - x)^2 + y^2)) / 4 and half an angle."""
    x, y = z
    mask, (a, b) = _tame(z)
    size = dr.abs(a)
    distance = (1 - size) * (1 - size) + b * b
    pole = distance == 0
    real = 0.25 * _log1p(4 * size / dr.select(pole, 1, distance))
    side = (size == 1) & (b != 0)  # where the square of b may be 0
    height = dr.select(side, dr.abs(b), 1)
    real = dr.select(side, 0.25 * dr.log(4 + b * b) - 0.5 * dr.log(height), real)
    pole = pole & ~side
    angle = dr.atan2(dr.select(side, 2, 2 * b), dr.select(side, -b, (1 - size) * (1 + size) - b * b))
    found = _with_sign(dr.select(pole, math.inf, real), x), dr.select(pole, 0.5 * b, 0.5 * angle)
    found = found[0], dr.select(side & (b < 0), 0.5 * dr.atan2(_number(x, -2), b), found[1])
    infinite = dr.isinf(x) | dr.isinf(y)
    back = reciprocal((dr.select(mask, 1, x), dr.select(mask, 1, y)))
    far = _with_sign(dr.select(infinite, 0, dr.abs(back[0])), x), _with_sign(_number(y, math.pi / 2), y)
    found = _choose(mask, found, far)
    found = _choose(dr.isnan(y), (dr.select(dr.isinf(x) | (x == 0), _with_sign(_number(x, 0), x), math.nan),
                                  _number(y, math.nan)), found)
    return _choose(dr.isnan(x), (dr.select(dr.isinf(y), _with_sign(_number(x, 0), dr.select(dr.isnan(x), 1, x)),
                                           math.nan),
                                 dr.select(dr.isinf(y), _with_sign(_number(y, math.pi / 2), y), math.nan)), found)
