"""Functions that are traced as a few operations at once, by :mod:`drjit_core.math`: they have a row, but no node."""

from __future__ import annotations

import math

from ..types import FLOAT64, TYPES, UINT32
from . import semantics as meaning
from .op import OpRows

__all__ = ["rows"]

rows = OpRows()


# --- two results -----------------------------------------------------------------------------------------------------


@rows.composed("f", result="pair")
def sincos(arg: float, /) -> tuple[float, float]:
    """Sine and cosine of an angle in radians, which share most of their work.

    Returns both as a tuple. Accurate for arguments of any magnitude; NaN for infinite ones.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.sincos(Float(0, 1))
    ([0, 0.841471], [1, 0.540302])
    """
    return math.sin(arg), math.cos(arg)


@rows.composed("f", result="pair")
def sincosh(arg: float, /) -> tuple[float, float]:
    """Hyperbolic sine and cosine, which share most of their work.

    Returns both as a tuple.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.sincosh(Float(0, 1))
    ([0, 1.1752], [1, 1.54308])
    """
    return math.sinh(arg), math.cosh(arg)


# --- squares ---------------------------------------------------------------------------------------------------------


@rows.composed("iuf")
def square(arg: float, /) -> float:
    """The product of a value with itself; of complex numbers, quaternions and matrices as well.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.square(Float(1, 2, -3))
    [1, 4, 9]
    """
    return arg * arg


# --- the reciprocal --------------------------------------------------------------------------------------------------


@rows.composed("f")
def rcp(arg: float, /) -> float:
    """Reciprocal ``1 / arg``, correctly rounded; infinite at zero, with its sign.

    Of matrices, complex numbers and quaternions: the multiplicative inverse.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.rcp(Float(2, 0))
    [0.5, inf]
    """
    return meaning.divide(1.0, arg)


# --- signs -----------------------------------------------------------------------------------------------------------


@rows.composed("iuf")
def sign(arg: float, /) -> float:
    """1 where the argument is positive or zero, else -1 (for NaN too).

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.sign(Float(3, 0, -3))
    [1, 1, -1]
    """
    return 1 if arg >= 0 else -1


@rows.composed("iuf")
def copysign(arg0: float, arg1: float, /) -> float:
    """The magnitude of ``arg0`` with the sign of ``arg1``, that of zeros included.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.copysign(Float(1, -2), Float(-0.0, 3))
    [-1, 2]
    """
    return abs(arg0) if math.copysign(1, arg1) > 0 else -abs(arg0)


@rows.composed("iuf")
def mulsign(arg0: float, arg1: float, /) -> float:
    """``arg0`` times the sign of ``arg1``, which is 1 for zeros, -0 included (see :func:`drjit.sign`).

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.mulsign(Float(1, -2), Float(0, -3))
    [1, 2]
    """
    return arg0 if arg1 >= 0 else -arg0


# --- smaller and larger numbers --------------------------------------------------------------------------------------


@rows.composed("iuf")
def fmin(arg0: float, arg1: float, /) -> float:
    """Smaller of two values, elementwise; a number is preferred to NaN (see :func:`drjit.minimum`).

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.fmin(Float(1, dr.nan), 3)
    [1, 3]
    """
    return arg1 if arg0 != arg0 else arg0 if arg1 != arg1 else min(arg0, arg1)


@rows.composed("iuf")
def fmax(arg0: float, arg1: float, /) -> float:
    """Larger of two values, elementwise; a number is preferred to NaN (see :func:`drjit.maximum`).

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.fmax(Float(1, dr.nan), 3)
    [3, 3]
    """
    return arg1 if arg0 != arg0 else arg0 if arg1 != arg1 else max(arg0, arg1)


@rows.composed("iuf")
def clip(value: float, min: float, max: float) -> float:
    """``value`` brought into the interval from ``min`` to ``max``, elementwise: ``maximum(minimum(value, max), min)``.

    NaN stays NaN. If ``min`` is larger than ``max``, the result is ``min``.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.clip(Float(1, 2, 3), 1.5, 2.5)
    [1.5, 2, 2.5]
    >>> dr.clip(5, 3, 2)
    3
    """
    return meaning.maximum(meaning.minimum(value, max), min)  # type: ignore[no-any-return]


@rows.composed("iuf")
def clamp(value: float, min: float, max: float, /) -> float:
    """Another name of :func:`drjit.clip`: ``value`` brought into the interval from ``min`` to ``max``.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.clamp(Float(1, 2, 3), 1.5, 2.5)
    [1.5, 2, 2.5]
    """
    return meaning.maximum(meaning.minimum(value, max), min)  # type: ignore[no-any-return]


@rows.composed("iuf")
def lerp(a: float, b: float, t: float) -> float:
    """Linear interpolation ``(1 - t) * a + t * b``, as two fused multiply-additions.

    Exactly ``a`` where ``t`` is 0; beyond 0 and 1, ``t`` extrapolates. Of complex numbers, quaternions and matrices
    too.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.lerp(Float(1), 3, Float(0, 0.5, 1))
    [1, 2, 3]
    """
    if float not in (a.__class__, b.__class__, t.__class__):
        return b * t + (a - a * t)
    a, b, t = float(a), float(b), float(t)
    rest = meaning.fused_multiply_add(-a, t, a, TYPES[FLOAT64])
    return meaning.fused_multiply_add(b, t, rest, TYPES[FLOAT64])  # type: ignore[no-any-return]


# --- arguments that leave the domain by a rounding error --------------------------------------------------------------


@rows.composed("f")
def safe_sqrt(arg: float, /) -> float:
    """Square root that takes negative arguments, as rounding errors leave them, for zero.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.safe_sqrt(Float(4, -1e-9))
    [2, 0]
    """
    return meaning.square_root(meaning.maximum(arg, 0.0))


@rows.composed("f")
def safe_asin(arg: float, /) -> float:
    """Arcsine in radians of the argument, clipped to the interval from -1 to 1.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.safe_asin(Float(0, 1.001))
    [0, 1.5708]
    """
    return math.asin(meaning.maximum(meaning.minimum(arg, 1.0), -1.0))


@rows.composed("f")
def safe_acos(arg: float, /) -> float:
    """Arccosine in radians of the argument, clipped to the interval from -1 to 1.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.safe_acos(Float(0, 1.001))
    [1.5708, 0]
    """
    return math.acos(meaning.maximum(meaning.minimum(arg, 1.0), -1.0))


# --- bits ------------------------------------------------------------------------------------------------------------


@rows.composed("iu")
def log2i(arg: int, /) -> int:
    """Logarithm to the base two, rounded down: the position of the highest one bit; -1 for zero.

    Of unsigned types, that -1 is the largest value.

    >>> import drjit as dr
    >>> from drjit.llvm import UInt
    >>> dr.log2i(UInt(1, 8, 9))
    [0, 3, 3]
    """
    return TYPES[UINT32].bits - 1 - meaning.leading_zeros(arg, TYPES[UINT32])


# --- classes of numbers ----------------------------------------------------------------------------------------------


@rows.composed("biuf", result="mask")
def isnan(arg: float, /) -> bool:
    """Whether values are NaN: a mask, or a ``bool`` for a Python number.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.isnan(Float(1, dr.nan))
    [False, True]
    """
    return arg != arg


@rows.composed("biuf", result="mask")
def isinf(arg: float, /) -> bool:
    """Whether values are infinite, of either sign: a mask, or a ``bool`` for a Python number.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.isinf(Float(1, -dr.inf))
    [False, True]
    """
    return arg in (math.inf, -math.inf)


@rows.composed("biuf", result="mask")
def isfinite(arg: float, /) -> bool:
    """Whether values are neither infinite nor NaN: a mask, or a ``bool`` for a Python number.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.isfinite(Float(1, dr.inf, dr.nan))
    [True, False, False]
    """
    return -math.inf < arg < math.inf
