"""Mathematical constants as Python numbers, and the limits of floating-point types."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64

__all__ = ["e", "epsilon", "four_pi", "inf", "inv_four_pi", "inv_log_two", "inv_pi", "inv_sqrt_pi", "inv_sqrt_two",
           "inv_sqrt_two_pi", "inv_sqrt_four_pi", "inv_two_pi", "largest", "log_two", "nan", "one_minus_epsilon", "pi",
           "recip_overflow", "smallest", "sqrt_four_pi", "sqrt_pi", "sqrt_two", "sqrt_two_pi", "two_pi"]

#: Euler's number, the base of natural logarithms.
e = math.e
#: Circumference of a circle of diameter 1.
pi = math.pi
#: Positive infinity.
inf = math.inf
#: Not a number: what undefined operations return. It equals nothing, see :func:`isnan`.
nan = math.nan
#: Natural logarithm of 2.
log_two = math.log(2)
#: ``1 / log(2)``, the logarithm of e to the base 2.
inv_log_two = 1.4426950408889634
#: ``1 / pi``.
inv_pi = 0.3183098861837907
#: Square root of pi.
sqrt_pi = 1.7724538509055159
#: ``1 / sqrt(pi)``.
inv_sqrt_pi = 0.5641895835477563
#: ``2 * pi``, a full turn in radians.
two_pi = 2 * math.pi
#: ``1 / (2 * pi)``.
inv_two_pi = inv_pi / 2
#: Square root of ``2 * pi``.
sqrt_two_pi = 2.5066282746310002
#: ``1 / sqrt(2 * pi)``, the density of the standard normal distribution at zero.
inv_sqrt_two_pi = 0.3989422804014327
#: ``1 / sqrt(4 * pi)``, the first spherical harmonic.
inv_sqrt_four_pi = 0.28209479177387814
#: ``4 * pi``, the solid angle of the sphere.
four_pi = 4 * math.pi
#: ``1 / (4 * pi)``.
inv_four_pi = inv_pi / 4
#: Square root of ``4 * pi``.
sqrt_four_pi = 2 * sqrt_pi
#: Square root of 2.
sqrt_two = 1.4142135623730951
#: ``1 / sqrt(2)``.
inv_sqrt_two = 0.7071067811865476


class _Limits(NamedTuple):
    digits: int  # of the significand, in bits
    exponent: int  # the largest number is just below 2**exponent


_LIMITS = {BFLOAT16: _Limits(8, 128), FLOAT16: _Limits(11, 16), FLOAT32: _Limits(24, 128), FLOAT64: _Limits(53, 1024)}


def _limits(arg: Any, function: str) -> _Limits:
    cls = arg if isinstance(arg, type) else type(arg)
    if not issubclass(cls, ArrayBase) or cls._type not in _LIMITS:
        raise TypeError(f"drjit.{function}(): 'arg' must be an array or array type with floating-point elements, found "
                        f"{describe(arg)}.")
    return _LIMITS[cls._type]


def epsilon(arg: Any, /) -> float:
    """Machine epsilon: the largest relative error of rounding to nearest.

    ``arg`` is an array or array type of floating-point numbers, whose precision counts, else a ``TypeError`` is raised.
    Returns a ``float``. Evaluates nothing.

    >>> from drjit.llvm import Float, Float64
    >>> dr.epsilon(Float) == 2**-24, dr.epsilon(Float64) == 2**-53
    (True, True)
    """
    return 2.0 ** -_limits(arg, "epsilon").digits


def one_minus_epsilon(arg: Any, /) -> float:
    """One minus the machine epsilon: the largest number below 1. See :func:`epsilon` for the argument.

    >>> from drjit.llvm import Float
    >>> dr.one_minus_epsilon(Float)
    0.9999999403953552
    """
    return 1.0 - 2.0 ** -_limits(arg, "one_minus_epsilon").digits


def recip_overflow(arg: Any, /) -> float:
    """The largest number whose reciprocal overflows. See :func:`epsilon` for the argument.

    >>> from drjit.llvm import Float
    >>> dr.rcp(Float(dr.recip_overflow(Float)))
    [inf]
    """
    return 2.0 ** -_limits(arg, "recip_overflow").exponent


def smallest(arg: Any, /) -> float:
    """The smallest positive normal number. See :func:`epsilon` for the argument.

    >>> from drjit.llvm import Float
    >>> dr.smallest(Float)
    1.1754943508222875e-38
    """
    return 2.0 ** (2 - _limits(arg, "smallest").exponent)


def largest(arg: Any, /) -> float:
    """The largest finite number. See :func:`epsilon` for the argument.

    >>> from drjit.llvm import Float
    >>> dr.largest(Float)
    3.4028234663852886e+38
    """
    limits = _limits(arg, "largest")
    return math.ldexp(1.0 - 2.0 ** -limits.digits, limits.exponent)

