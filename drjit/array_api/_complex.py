"""Arithmetic of complex numbers on pairs of tensors, real and imaginary parts, and the functions of ``dr`` on these.

Special values are those of C99, Annex G, which the standard lists.
"""

from __future__ import annotations

import functools
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


# --- functions -------------------------------------------------------------------------------------------------------


def _of_dr(name: str) -> Any:
    return functools.partial(dr.detail.of_pairs, name)


exp, expm1, sqrt, pow = _of_dr("exp"), _of_dr("expm1"), _of_dr("sqrt"), _of_dr("power")
log, log1p, log2, log10 = _of_dr("log"), _of_dr("log1p"), _of_dr("log2"), _of_dr("log10")
sin, cos, tan, asin, acos, atan = map(_of_dr, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh, acosh, atanh = map(_of_dr, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
