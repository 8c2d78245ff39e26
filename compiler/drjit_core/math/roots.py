"""The cube root, and the length of a vector of two components.

The cube root of ``m * 2**e`` is that of ``m * 2**(e mod 3)`` times ``2**(e div 3)``.  A polynomial approximates
``r = m**(-1/3)``, a step of higher order (A. S. Householder, 1970) with ``h = 1 - m r**3`` refines it, and the last
correction of ``y = m r**2`` is computed from the remainder ``m - y**3``, in double precision with the rounding error of
``y**2``: nearly all results are correctly rounded there (largest error 0.51 units of the last place, in float32 0.74).

The length is the root of the sum of squares, after scaling with a power of two, which is exact: largest error 1.0.
"""

from __future__ import annotations

import math

from ..control.rare import rarely
from ..ir.node import Node
from ..ir.trace import bitcast, ops
from ..types import FLOAT32, FLOAT64
from .exponential import FORMATS as EXPONENTIAL
from .exponential import split, split_any, unusual
from .polynomial import clamp, constant, elementary, elementary_binary, horner, with_sign_of

__all__ = ["cbrt", "hypot"]


#: m**(-1/3) on sqrt(1/2) <= m <= sqrt(2)
_INVERSE_ROOT = {
    # relative error 2^-11.95
    FLOAT32: (1.7307099103927612, -1.2857327461242676, 0.7133415937423706, -0.15854012966156006),
    # relative error 2^-14.7
    FLOAT64: (1.8745195462451745, -1.8618327432995474, 1.5613078941128524, -0.7023878182098992, 0.12836970489432958),
}
#: (1 - h)**(-1/3) = 1 + h / 3 + 2 / 9 h**2 + 14 / 81 h**3 …
_STEP = {FLOAT32: (1 / 3, 2 / 9), FLOAT64: (1 / 3, 2 / 9, 14 / 81)}


@elementary
def cbrt(a: Node) -> Node:
    """Cube root, of negative numbers too."""
    f, x = EXPONENTIAL[a.type], ops.abs(a)

    def others(x: Node) -> list[Node]:
        ordinary = ops.and_(ops.gt(x, constant(x.type, 0)), ops.lt(x, constant(x.type, math.inf)))
        return [ops.select(ordinary, _cbrt_of_parts(*split_any(x, f)), x)]

    (root,) = rarely("cbrt", unusual(x, f), [_cbrt_of_parts(*split(x, f))], [x], others)
    return with_sign_of(root, a)


def _cbrt_of_parts(exponent: Node, m: Node) -> Node:
    """The cube root of a positive number in terms of its exponent and mantissa."""
    f, type_ = EXPONENTIAL[m.type], m.type
    # n = exponent / 3, rounded, as a float and in the low bits of a word
    magic = constant(type_, 1.5 * 2.0 ** f.mantissa + f.bias)
    shifted = ops.fma(exponent, constant(type_, 1 / 3), magic)
    n = ops.sub(shifted, magic)
    rest = ops.fma(n, constant(type_, -3), exponent)  # -1, 0 or 1
    zero = constant(type_, 0)
    up, down = ops.gt(rest, zero), ops.lt(rest, zero)

    def chosen(above: float, middle: float, below: float) -> Node:
        value = ops.select(down, constant(type_, below), constant(type_, middle))
        return ops.select(up, constant(type_, above), value)  # type: ignore[no-any-return]

    third = 2.0 ** (1 / 3)
    r = ops.mul(horner(m, _INVERSE_ROOT[type_]), chosen(1 / third, 1.0, third))
    m = ops.mul(m, chosen(2.0, 1.0, 0.5))
    h = ops.fma(ops.mul(m, r), ops.neg(ops.mul(r, r)), constant(type_, 1))
    r = ops.fma(ops.mul(r, h), horner(h, _STEP[type_]), r)
    square = ops.mul(r, r)
    y = ops.mul(m, square)
    y2 = ops.mul(y, y)
    remainder = ops.fma(ops.neg(y2), y, m)
    if type_ == FLOAT64:
        remainder = ops.sub(remainder, ops.mul(ops.fma(y, y, ops.neg(y2)), y))
    y = ops.fma(ops.mul(remainder, square), constant(type_, 1 / 3), y)
    power = bitcast(ops.shl(bitcast(shifted, f.word), constant(f.word, f.mantissa)), type_)
    return ops.mul(y, power)  # type: ignore[no-any-return]


@elementary_binary
def hypot(a: Node, b: Node) -> Node:
    """``sqrt(a**2 + b**2)`` without overflow and underflow on the way; infinite if either is, even beside NaN."""
    f, type_ = EXPONENTIAL[a.type], a.type
    x, y = ops.abs(a), ops.abs(b)
    larger = ops.gt(x, y)
    high, low = ops.select(larger, x, y), ops.select(larger, y, x)
    # the power of two below, such that it and its reciprocal are normal numbers
    bits = bitcast(clamp(high, 2.0 ** (2 - f.bias), 2.0 ** (f.bias - 2)), f.word)
    bits = ops.and_(bits, constant(f.word, (2 * f.bias + 1) << f.mantissa))
    inverse = bitcast(ops.sub(constant(f.word, (2 * f.bias) << f.mantissa), bits), type_)
    high, low = ops.mul(high, inverse), ops.mul(low, inverse)
    length = ops.mul(ops.sqrt(ops.fma(high, high, ops.mul(low, low))), bitcast(bits, type_))
    infinity = constant(type_, math.inf)
    return ops.select(ops.or_(ops.eq(x, infinity), ops.eq(y, infinity)), infinity, length)  # type: ignore[no-any-return]
