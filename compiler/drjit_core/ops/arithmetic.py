"""Rows of arithmetic: sums and products, roots, rounding, and the smaller of two numbers."""

from __future__ import annotations

import builtins
import operator

from ..types import FLOAT64, TYPES, UINT32
from . import semantics as meaning
from .op import Op, OpRows

__all__ = ["rows"]

rows = OpRows([
    Op("neg", 1, "iuf", operator.neg, "Negation."),
    Op("add", 2, "iuf", operator.add, "Sum.", commutative=True),
    Op("sub", 2, "iuf", operator.sub, "Difference."),
    Op("mul", 2, "iuf", operator.mul, "Product.", commutative=True),
    Op("div", 2, "f", meaning.divide, "Quotient.", cost=6),
    Op("div_precise", 2, "f", meaning.divide, "Quotient, correctly rounded.", cost=6),
    Op("floordiv", 2, "iu", meaning.integer_divide, "Integer quotient, rounded towards zero; zero for a zero divisor.",
       cost=12),
    Op("mod", 2, "iu", meaning.integer_modulo, "Remainder with the sign of the dividend; zero for a zero divisor.",
       cost=14),
])


@rows.elementwise("iuf", meaning.fused_multiply_add, typed=True)
def fma(arg0: float, arg1: float, arg2: float, /) -> float:
    """Fused multiply-add: ``arg0 * arg1 + arg2`` with a single rounding, elementwise.

    Integers are multiplied and added modulo ``2**bits`` of their type (Python's, exactly). Complex numbers, quaternions
    and matrices use their product. The product alone never overflows: ``fma(x, y, -inf)`` is ``-inf`` for finite
    numbers.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.fma(Float(1, 2), 3, 0.5)
    [3.5, 6.5]
    """
    if float not in (arg0.__class__, arg1.__class__, arg2.__class__):
        return arg0 * arg1 + arg2
    return meaning.fused_multiply_add(float(arg0), float(arg1), float(arg2), TYPES[FLOAT64])  # type: ignore[no-any-return]


@rows.elementwise("iu", meaning.multiply_high, typed=True, commutative=True, cost=4)
def mul_hi(arg0: int, arg1: int, /) -> int:
    """Upper half of the product of two integers, computed with twice their width.

    With :func:`drjit.mul_wide`, the whole product.

    >>> import drjit as dr
    >>> from drjit.llvm import UInt
    >>> dr.mul_hi(UInt(2**31, 5), 4)
    [2, 0]
    """
    return meaning.multiply_high(arg0, arg1, TYPES[UINT32])


@rows.elementwise("if", builtins.abs)
def abs(arg: float, /) -> float:
    """Absolute value.

    Unsigned numbers are their own. The smallest value of a signed type, which has no counterpart, stays as it is. Of
    complex numbers and quaternions it is the length, a real number.

    >>> import drjit as dr
    >>> from drjit.llvm import Complex2f, Int
    >>> dr.abs(Int(-3, 4))
    [3, 4]
    >>> dr.abs(Complex2f(3, 4))
    [5]
    """
    return builtins.abs(arg)


@rows.elementwise("f", meaning.square_root, cost=8, precise=8)
def sqrt(arg: float, /) -> float:
    """Square root, correctly rounded (on GPUs unless ``JitFlag.FastMath`` is set, see the page about them).

    NaN below zero (see :func:`drjit.safe_sqrt`); the root of -0 is -0, that of infinity is infinite.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.sqrt(Float(4, 2, -1))
    [2, 1.41421, nan]
    """
    return meaning.square_root(arg)


@rows.elementwise("iuf", meaning.minimum, commutative=True, cost=2)
def minimum(arg0: float, arg1: float, /) -> float:
    """Smaller of two values, elementwise.

    NaN if either is (:func:`drjit.fmin` prefers numbers), and -0 is smaller than +0. :func:`drjit.min` reduces one
    array instead.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.minimum(Float(1, 5), 3)
    [1, 3]
    """
    return meaning.minimum(arg0, arg1)  # type: ignore[no-any-return]


@rows.elementwise("iuf", meaning.maximum, commutative=True, cost=2)
def maximum(arg0: float, arg1: float, /) -> float:
    """Larger of two values, elementwise.

    NaN if either is (:func:`drjit.fmax` prefers numbers), and +0 is larger than -0. :func:`drjit.max` reduces one
    array instead.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.maximum(Float(1, 5), 3)
    [3, 5]
    """
    return meaning.maximum(arg0, arg1)  # type: ignore[no-any-return]


@rows.elementwise("f", meaning.ceil)
def ceil(arg: float, /) -> float:
    """Smallest integer that is not below, as a number of the same type.

    Infinities and NaN stay what they are; the sign of zero is kept.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.ceil(Float(1.5, -1.5))
    [2, -1]
    """
    return meaning.ceil(arg)


@rows.elementwise("f", meaning.floor)
def floor(arg: float, /) -> float:
    """Largest integer that is not above, as a number of the same type.

    Infinities and NaN stay what they are; the sign of zero is kept.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.floor(Float(1.5, -1.5))
    [1, -2]
    """
    return meaning.floor(arg)


@rows.elementwise("f", meaning.trunc)
def trunc(arg: float, /) -> float:
    """Integer part: rounds towards zero, to a number of the same type.

    Infinities and NaN stay what they are; the sign of zero is kept.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.trunc(Float(1.5, -1.5))
    [1, -1]
    """
    return meaning.trunc(arg)


@rows.elementwise("f", meaning.round_to_even)
def round(arg: float, /) -> float:
    """Nearest integer, as a number of the same type; halves go to the even one.

    Infinities and NaN stay what they are; the sign of zero is kept.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.round(Float(0.5, 1.5, 2.6))
    [0, 2, 3]
    """
    return meaning.round_to_even(arg)
