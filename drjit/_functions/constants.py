"""Mathematical constants as Python numbers, and the limits of floating-point types."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import FLOAT16, FLOAT32, FLOAT64

__all__ = ["e", "epsilon", "four_pi", "inf", "inv_four_pi", "inv_log_two", "inv_pi", "inv_sqrt_pi", "inv_sqrt_two",
           "inv_sqrt_two_pi", "inv_two_pi", "largest", "log_two", "nan", "one_minus_epsilon", "pi", "recip_overflow",
           "smallest", "sqrt_four_pi", "sqrt_pi", "sqrt_two", "sqrt_two_pi", "two_pi"]

e, pi, inf, nan = math.e, math.pi, math.inf, math.nan
log_two = math.log(2)
inv_log_two = 1.4426950408889634
inv_pi = 0.3183098861837907
sqrt_pi = 1.7724538509055159
inv_sqrt_pi = 0.5641895835477563
two_pi = 2 * math.pi
inv_two_pi = inv_pi / 2
sqrt_two_pi = 2.5066282746310002
inv_sqrt_two_pi = 0.3989422804014327
four_pi = 4 * math.pi
inv_four_pi = inv_pi / 4
sqrt_four_pi = 2 * sqrt_pi
sqrt_two = 1.4142135623730951
inv_sqrt_two = 0.7071067811865476


class _Limits(NamedTuple):
    digits: int  # of the significand, in bits
    exponent: int  # the largest number is just below 2**exponent


_LIMITS = {FLOAT16: _Limits(11, 16), FLOAT32: _Limits(24, 128), FLOAT64: _Limits(53, 1024)}
_ARGUMENT = "``arg`` is an array or array type with floating-point elements, whose precision counts."


def _limits(arg: Any, function: str) -> _Limits:
    cls = arg if isinstance(arg, type) else type(arg)
    if not issubclass(cls, ArrayBase) or cls._type not in _LIMITS:
        raise TypeError(f"drjit.{function}(): 'arg' must be an array or array type with floating-point elements, found "
                        f"{describe(arg)}.")
    return _LIMITS[cls._type]


def epsilon(arg: Any, /) -> float:
    return 2.0 ** -_limits(arg, "epsilon").digits


def one_minus_epsilon(arg: Any, /) -> float:
    return 1.0 - 2.0 ** -_limits(arg, "one_minus_epsilon").digits


def recip_overflow(arg: Any, /) -> float:
    return 2.0 ** -_limits(arg, "recip_overflow").exponent


def smallest(arg: Any, /) -> float:
    return 2.0 ** (2 - _limits(arg, "smallest").exponent)


def largest(arg: Any, /) -> float:
    limits = _limits(arg, "largest")
    return math.ldexp(1.0 - 2.0 ** -limits.digits, limits.exponent)


epsilon.__doc__ = f"""Machine epsilon: the largest relative error of rounding to nearest. {_ARGUMENT}"""
one_minus_epsilon.__doc__ = f"""One minus the machine epsilon: the largest number below 1. {_ARGUMENT}"""
recip_overflow.__doc__ = f"""The largest number whose reciprocal overflows. {_ARGUMENT}"""
smallest.__doc__ = f"""The smallest positive normal number. {_ARGUMENT}"""
largest.__doc__ = f"""The largest finite number. {_ARGUMENT}"""
