"""Rows of the elementary functions, which are expanded in terms of others (:mod:`drjit_core.math`) when text is made.

The modules of that package state the methods and the errors; ``docs/accuracy.md`` has them measured.
"""

from __future__ import annotations

import math

from . import semantics as meaning
from .op import Op, OpRows

__all__ = ["rows"]

rows = OpRows()


# --- trigonometric ---------------------------------------------------------------------------------------------------


@rows.expanded(23, precise=36)
def sin(arg: float, /) -> float:
    """Sine of an angle in radians.

    Accurate for arguments of any magnitude; NaN for infinite ones. ``sin(-0.0)`` is ``-0.0``. Together with the cosine:
    :func:`drjit.sincos`.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.sin(Float(0, 1, 2))
    [0, 0.841471, 0.909297]
    """
    return math.sin(arg)


@rows.expanded(23, precise=36)
def cos(arg: float, /) -> float:
    """Cosine of an angle in radians.

    Accurate for arguments of any magnitude; NaN for infinite ones. Together with the sine: :func:`drjit.sincos`.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.cos(Float(0, 1, 2))
    [1, 0.540302, -0.416147]
    """
    return math.cos(arg)


@rows.expanded(27, precise=40)
def tan(arg: float, /) -> float:
    """Tangent of an angle in radians.

    Accurate for arguments of any magnitude; NaN for infinite ones.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.tan(Float(0, 1))
    [0, 1.55741]
    """
    return math.tan(arg)


@rows.expanded(27, precise=40)
def cot(arg: float, /) -> float:
    """Cotangent of an angle in radians, ``1 / tan(arg)``.

    Infinite at zero, with its sign; NaN for infinite arguments.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.cot(Float(0, 1))
    [inf, 0.642093]
    """
    raise NotImplementedError  # the expansion computes it


@rows.expanded(31)
def asin(arg: float, /) -> float:
    """Arcsine in radians, between -pi/2 and pi/2.

    NaN beyond -1 and 1 (see :func:`drjit.safe_asin`).

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.asin(Float(0, 1, 2))
    [0, 1.5708, nan]
    """
    return math.asin(arg)


@rows.expanded(31)
def acos(arg: float, /) -> float:
    """Arccosine in radians, between 0 and pi.

    NaN beyond -1 and 1 (see :func:`drjit.safe_acos`).

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.acos(Float(0, 1, 2))
    [1.5708, 0, nan]
    """
    return math.acos(arg)


@rows.expanded(27)
def atan(arg: float, /) -> float:
    """Arctangent in radians, between -pi/2 and pi/2, which it is for infinite arguments.

    The angle of a point in all four quadrants is :func:`drjit.atan2`.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.atan(Float(0, 1))
    [0, 0.785398]
    """
    return math.atan(arg)


@rows.expanded(37)
def atan2(arg0: float, arg1: float, /) -> float:
    """Angle of the point with ordinate ``arg0`` and abscissa ``arg1``, in radians between -pi and pi.

    Zeros and infinities are as in C99: ``atan2(0.0, -1.0)`` is pi, ``atan2(-0.0, -1.0)`` is -pi.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.atan2(Float(1, 1), Float(1, -1))
    [0.785398, 2.35619]
    """
    return math.atan2(arg0, arg1)


# --- exponentials, logarithms and powers -----------------------------------------------------------------------------


@rows.expanded(21, precise=21)
def exp(arg: float, /) -> float:
    """Exponential function, ``e ** arg``.

    Infinite beyond 88.7 in single precision, and beyond 709.8 in double precision.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.exp(Float(0, 1, 100))
    [1, 2.71828, inf]
    """
    return math.exp(arg)


@rows.expanded(20, precise=20)
def exp2(arg: float, /) -> float:
    """Two to the power of the argument; exact for integers.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.exp2(Float(-1, 0.5, 10))
    [0.5, 1.41421, 1024]
    """
    return math.exp2(arg)


@rows.expanded(21, precise=21)
def log(arg: float, /) -> float:
    """Natural logarithm.

    ``-inf`` at zero, NaN below.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.log(Float(1, 10, 0))
    [0, 2.30259, -inf]
    """
    return math.log(arg)


@rows.expanded(21, precise=21)
def log2(arg: float, /) -> float:
    """Logarithm to the base 2; exact for powers of two.

    ``-inf`` at zero, NaN below. Of integers, rounded down: :func:`drjit.log2i`.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.log2(Float(1, 10, 0.25))
    [0, 3.32193, -2]
    """
    return math.log2(arg)


@rows.expanded(48)
def power(arg0: float, arg1: float, /) -> float:
    """``arg0 ** arg1``, elementwise.

    If ``arg1`` is an integral Python number, the result is a product (and its reciprocal, if ``arg1`` is negative),
    for integer arrays too; else it is ``exp2(arg1 * log2(arg0))``, computed with enough digits to be accurate, and NaN
    for negative ``arg0``, unless ``arg1`` is an integer.

    Takes arrays of floating-point numbers, complex numbers, quaternions, Python numbers and NumPy arrays; they
    broadcast, and the result has their promoted type. Nothing is evaluated.

    Raises a ``TypeError`` for what cannot be combined, and for integers with exponents that are negative or arrays.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.power(Float(1, 2, 3), 2)
    [1, 4, 9]
    >>> dr.power(2.0, Float(0.5, -1))
    [1.41421, 0.5]
    """
    return math.pow(arg0, arg1)


# --- hyperbolic ------------------------------------------------------------------------------------------------------


@rows.expanded(31)
def sinh(arg: float, /) -> float:
    """Hyperbolic sine. Together with the cosine: :func:`drjit.sincosh`.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.sinh(Float(0, 1))
    [0, 1.1752]
    """
    return math.sinh(arg)


@rows.expanded(29)
def cosh(arg: float, /) -> float:
    """Hyperbolic cosine. Together with the sine: :func:`drjit.sincosh`.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.cosh(Float(0, 1))
    [1, 1.54308]
    """
    return math.cosh(arg)


@rows.expanded(27, precise=27)
def tanh(arg: float, /) -> float:
    """Hyperbolic tangent, between -1 and 1.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.tanh(Float(0, 1, 100))
    [0, 0.761594, 1]
    """
    return math.tanh(arg)


@rows.expanded(69)
def asinh(arg: float, /) -> float:
    """Inverse hyperbolic sine.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.asinh(Float(0, 1))
    [0, 0.881374]
    """
    return math.asinh(arg)


@rows.expanded(51)
def acosh(arg: float, /) -> float:
    """Inverse hyperbolic cosine, not negative; NaN below 1.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.acosh(Float(1, 2, 0))
    [0, 1.31696, nan]
    """
    return math.acosh(arg)


@rows.expanded(54)
def atanh(arg: float, /) -> float:
    """Inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.atanh(Float(0, 0.5, 1))
    [0, 0.549306, inf]
    """
    return math.atanh(arg)


# --- error and gamma functions, roots --------------------------------------------------------------------------------


@rows.expanded(56)
def erf(arg: float, /) -> float:
    """Error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to the argument.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.erf(Float(0, 1))
    [0, 0.842701]
    """
    return math.erf(arg)


@rows.expanded(67)
def erfc(arg: float, /) -> float:
    """Complement of the error function, ``1 - erf(arg)`` without cancellation.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.erfc(Float(0, 1, 5))
    [1, 0.157299, 1.53746e-12]
    """
    return math.erfc(arg)


@rows.expanded(46)
def erfinv(arg: float, /) -> float:
    """Inverse of the error function; infinite at -1 and 1, NaN beyond.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.erfinv(Float(0, 0.5, 1))
    [0, 0.476936, inf]
    """
    raise NotImplementedError  # the expansion computes it


@rows.expanded(98)
def lgamma(arg: float, /) -> float:
    """Logarithm of the absolute value of the gamma function.

    Infinite at zero and the negative integers, where that function has its poles.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.lgamma(Float(1, 5, -1))
    [0, 3.17805, inf]
    """
    return math.lgamma(arg)


@rows.expanded(39)
def cbrt(arg: float, /) -> float:
    """Cube root, of negative numbers too.

    Infinities and NaN are their own roots; the sign of zero is kept.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.cbrt(Float(8, -27))
    [2, -3]
    """
    raise NotImplementedError  # the expansion, as its error is smaller than that of common C libraries


@rows.expanded(14, precise=14)
def rsqrt(arg: float, /) -> float:
    """Reciprocal square root ``1 / sqrt(arg)``; infinite at zero, NaN below.

    In single precision, it is within one unit of the last place, in less than half of the time of root and division; if
    ``JitFlag.FastMath`` is cleared, and in double precision, it is what these give.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.rsqrt(Float(4, 0))
    [0.5, inf]
    """
    return meaning.divide(1.0, meaning.square_root(arg))


@rows.expanded(34)
def hypot(a: float, b: float) -> float:
    """Length ``sqrt(a**2 + b**2)`` of a vector, whose squares neither overflow nor underflow.

    Infinite if either component is, even if the other is NaN.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.hypot(Float(3, 3e30), Float(4, 4e30))
    [5, 5e+30]
    """
    return math.hypot(a, b)


# --- what targets may have a text for, and others expand to the functions ---------------------------------------------

for _name in ("sin", "cos"):
    rows.append(Op(f"{_name}_reduced", 1, "f", None, "That of an angle between -pi and pi.", cost=8))
