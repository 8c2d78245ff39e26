"""Sine, cosine and tangent.

The argument is reduced to ``|x| = n * pi/2 + r`` with ``|r| <= pi/4`` by the method of Cody and Waite (*Software Manual
for the Elementary Functions*, 1980, chapter 8): ``pi/2`` is a sum of three numbers of the working precision, whose
multiples are subtracted one after the other with fused multiply-adds.  The first subtraction is exact (the result is a
multiple of the last place of ``pi/2`` and below 1), and each of the others rounds relative to what remains, so that
the result is accurate next to the zeros too.

The rounded quotient is found by adding a number so large that its last place is 1: ``n`` is then in the low bits of the
sum, where the quadrant is read, and ``sum - number`` is ``n`` as a float.

The sign of the operand is put back at the end.  That keeps ``sin(-0.0) = -0.0``, and makes the results exactly odd and
even.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir.node import Node
from ..ir.trace import bitcast, ops
from ..types import FLOAT32, FLOAT64, UINT32, UINT64
from .polynomial import constant, elementary, horner

__all__ = ["cos", "sin", "sincos", "tan"]


class _Format(NamedTuple):
    """Constants of one precision."""

    word: int  # unsigned integer type of the same size
    sign: int  # bit pattern of -0.0
    magic: float  # its last place is 1
    limit: float  # beyond it the reduction breaks down
    two_over_pi: float
    pi_half: tuple[float, float, float]  # sums to pi/2, each part rounded to nearest
    sine: tuple[float, ...]  # (sin(r) - r) / r**3 in r**2
    cosine: tuple[float, ...]  # (cos(r) - 1 + r**2 / 2) / r**4 in r**2


_FORMATS = {
    FLOAT32: _Format(
        word=UINT32, sign=1 << 31, magic=1.5 * 2.0 ** 23, limit=2.0 ** 22, two_over_pi=0.6366197466850281,
        pi_half=(1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        # |r| <= 1.0001 pi/4, relative errors 2^-27.91 and 2^-32.99
        sine=(-0.16666655242443085, 0.008332189172506332, -0.00019518285989761353),
        cosine=(0.04166664555668831, -0.0013887309469282627, 2.4432327336398885e-05)),
    FLOAT64: _Format(
        word=UINT64, sign=1 << 63, magic=1.5 * 2.0 ** 52, limit=2.0 ** 51, two_over_pi=0.6366197723675814,
        pi_half=(1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        # |r| <= 1.0001 pi/4, relative errors 2^-57.89 and 2^-63.93
        sine=(-0.1666666666666663, 0.00833333333332184, -0.00019841269829358563, 2.7557313538539526e-06,
              -2.5050734395067137e-08, 1.5895433719536196e-10),
        cosine=(0.041666666666666595, -0.0013888888888873338, 2.480158728899748e-05, -2.7557314215299584e-07,
                2.0875705115170208e-09, -1.1358732792490283e-11)),
}


class _Reduced(NamedTuple):
    """What sine and cosine share; value numbering finds it again when both are traced of one operand."""

    format: _Format
    quadrant: Node  # n, in the low bits of a word
    odd: Node  # whether n is odd: sine and cosine change places
    sine: Node  # sin(r)
    cosine: Node  # cos(r)


def _reduce(a: Node) -> _Reduced:
    f, type_ = _FORMATS[a.type], a.type
    x = ops.abs(a)
    # beyond the limit the angle is taken as 0; the difference keeps NaN and makes NaN of infinity
    x = ops.select(ops.lt(x, constant(type_, f.limit)), x, ops.sub(x, x))
    magic = constant(type_, f.magic)
    shifted = ops.fma(x, constant(type_, f.two_over_pi), magic)
    n, r = ops.sub(shifted, magic), x
    for part in f.pi_half:
        r = ops.fma(n, constant(type_, -part), r)
    z = ops.mul(r, r)
    sine = ops.fma(ops.mul(r, z), horner(z, f.sine), r)
    cosine = ops.fma(ops.mul(z, z), horner(z, f.cosine), ops.fma(z, constant(type_, -0.5), constant(type_, 1)))
    quadrant = bitcast(shifted, f.word)
    odd = ops.neq(getattr(ops, "and")(quadrant, constant(f.word, 1)), constant(f.word, 0))
    return _Reduced(f, quadrant, odd, sine, cosine)


def _flip(value: Node, quadrant: Node, sign_source: Node | None, f: _Format) -> Node:
    """Flip the sign in quadrants 2 and 3, and once more if ``sign_source`` is negative."""
    bits = ops.shl(quadrant, constant(f.word, 30 if f.word == UINT32 else 62))
    if sign_source is not None:
        bits = ops.xor(bits, bitcast(sign_source, f.word))
    bits = getattr(ops, "and")(bits, constant(f.word, f.sign))
    return bitcast(ops.xor(bitcast(value, f.word), bits), value.type)


def _sine(a: Node, reduced: _Reduced) -> Node:
    value = ops.select(reduced.odd, reduced.cosine, reduced.sine)
    return _flip(value, reduced.quadrant, a, reduced.format)


def _cosine(reduced: _Reduced) -> Node:
    value = ops.select(reduced.odd, reduced.sine, reduced.cosine)
    quadrant = ops.add(reduced.quadrant, constant(reduced.format.word, 1))
    return _flip(value, quadrant, None, reduced.format)


@elementary
def sin(a: Node) -> Node:
    """Sine of an angle in radians."""
    return _sine(a, _reduce(a))


@elementary
def cos(a: Node) -> Node:
    """Cosine of an angle in radians."""
    return _cosine(_reduce(a))


def sincos(a: Node) -> tuple[Node, Node]:
    """Sine and cosine of one angle, which share most of their operations."""
    return sin(a), cos(a)


@elementary
def tan(a: Node) -> Node:
    """Tangent of an angle in radians, the quotient of sine and cosine."""
    return ops.div(sin(a), cos(a))  # type: ignore[no-any-return]
