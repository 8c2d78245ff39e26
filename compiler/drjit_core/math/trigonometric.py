"""Sine, cosine, tangent and cotangent.

The argument is reduced to ``|x| = n * pi/2 + r`` with ``|r| <= pi/4`` by the method of Cody and Waite (*Software Manual
for the Elementary Functions*, 1980, chapter 8): ``pi/2`` is a sum of three numbers of the working precision, whose
multiples are subtracted one after the other with fused multiply-adds.  The first subtraction is exact (the result is a
multiple of the last place of ``pi/2`` and below 1), and each of the others rounds relative to what remains, so that
the result is accurate next to the zeros too.

The rounded quotient is found by adding a number so large that its last place is 1: ``n`` is then in the low bits of the
sum, where the quadrant is read, and ``sum - number`` is ``n`` as a float.

The sign of the operand is put back at the end.  That keeps ``sin(-0.0) = -0.0``, and makes the results exactly odd and
even.

Range and errors
----------------
Largest errors of sine and cosine in units of the last place of the exact result (of tangent 2.6 where these have 1.6):

=====================================  ==================================
float32                                float64
=====================================  ==================================
1.6 for ``|a| < 10**6``                1.6 for ``|a| < 10**14``
5.3 for ``|a| < 2**22 = 4.2e6``        4 for ``|a| < 2**50 = 1.1e15``
1.6 beyond                             2 beyond
=====================================  ==================================

The errors grow towards the limit because the quotient does: a wrong choice among two neighbours leaves a remainder a
little above ``pi/4``.  Beyond, the reduction takes as many bits of ``2/pi`` as it needs, in a branch for the elements
that are so large.  Where ``JitFlag.FastMath`` is cleared, single precision is reduced in double precision first, with
an error of 1.6 throughout; sine then takes 40 % more time, and far more on GPUs whose double precision is slow.

Where it is set, targets that approximate the sine and cosine of angles between -pi and pi get those: the argument
less a multiple of 2 pi, found in the same way.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from ..control.rare import rarely
from ..flags import FAST_MATH, state
from ..ir.expansion import NATIVE
from ..ir.node import Node
from ..ir.trace import bitcast, cast, ops
from ..ops.semantics import bits_of
from ..ops.table import KIND
from ..types import FLOAT32, FLOAT64, INT64, TYPES, UINT32, UINT64
from .polynomial import constant, elementary, estrin, flip_sign, horner, in_single

__all__ = ["cos", "cot", "sin", "sincos", "tan"]

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
    tangent: tuple[float, ...]  # (tan(r) - r) / r**3 in r**2


_FORMATS = {
    FLOAT32: _Format(
        word=UINT32, sign=1 << 31, magic=1.5 * 2.0 ** 23, limit=2.0 ** 22, two_over_pi=0.6366197466850281,
        pi_half=(1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        # |r| <= 1.0001 pi/4, relative errors 2^-27.91, 2^-32.99 and 2^-25.74
        sine=(-0.16666655242443085, 0.008332189172506332, -0.00019518285989761353),
        cosine=(0.04166664555668831, -0.0013887309469282627, 2.4432327336398885e-05),
        tangent=(0.33333155512809753, 0.13338835537433624, 0.05340820178389549, 0.024441389366984367,
                 0.003101490903645754, 0.009396516717970371)),
    FLOAT64: _Format(
        word=UINT64, sign=1 << 63, magic=1.5 * 2.0 ** 52, limit=2.0 ** 50, two_over_pi=0.6366197723675814,
        pi_half=(1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        # |r| <= 1.0001 pi/4, relative errors 2^-57.89, 2^-63.93 and 2^-56.2
        sine=(-0.1666666666666663, 0.00833333333332184, -0.00019841269829358563, 2.7557313538539526e-06,
              -2.5050734395067137e-08, 1.5895433719536196e-10),
        cosine=(0.041666666666666595, -0.0013888888888873338, 2.480158728899748e-05, -2.7557314215299584e-07,
                2.0875705115170208e-09, -1.1358732792490283e-11),
        tangent=(0.33333333333332776, 0.1333333333341482, 0.05396825392657269, 0.021869489611312565,
                 0.008863219131188295, 0.0035922893824141904, 0.0014547560865789547, 0.0005950728108507424,
                 0.00022235561818597816, 0.00013657603870809225, -2.645809280372549e-05, 8.951901984707325e-05,
                 -4.491283215796422e-05, 2.0872042532359815e-05)),
}


def _subtract_multiples(x: Node, parts: tuple[float, ...]) -> tuple[Node, Node]:
    """The remainder of ``x >= 0`` after rounding ``x / (pi/2)``, and a word with that integer in its low bits."""
    f, type_ = _FORMATS[x.type], x.type
    magic = constant(type_, f.magic)
    shifted = ops.fma(x, constant(type_, f.two_over_pi), magic)
    n, r = ops.sub(shifted, magic), x
    for part in parts:
        r = ops.fma(n, constant(type_, -part), r)
    return r, bitcast(shifted, f.word)


#: Bits of 2/pi after 32 zeros, as words of 64 bits.
_TWO_OVER_PI = (
    0x00000000A2F9836E, 0x4E441529FC2757D1, 0xF534DDC0DB629599, 0x3C439041FE5163AB, 0xDEBBC561B7246E3A,
    0x424DD2E006492EEA, 0x09D1921CFE1DEB1C, 0xB129A73EE88235F5, 0x2EBB4484E99C7026, 0xB45F7E413991D639,
    0x835339F49C845F8B, 0xBDF9283B1FF897FF, 0xDE05980FEF2F118B, 0x5A0A6D1F6D367ECF, 0x27CB09B74F463F66,
    0x9E5FEA2D7527BAC7, 0xEBE5F17B3D0739F7, 0x8A5292EA6BFB5FB1, 0x1F8D5D0856033046,
)


def _reduce_large(x: Node) -> list[Node]:
    """The remainder of a double-precision number of at least ``2**22`` (NaN of infinity), and a word as above.

    M. Payne and R. Hanek (*Radian reduction for trigonometric functions*, 1983): of ``2/pi`` only those bits matter
    whose product with the mantissa is neither a multiple of 4 nor too small, 192 of them from a place that the exponent
    says.  The product is a number of quadrants with 126 bits after the point, in two words.
    """
    bits = bitcast(x, UINT64)
    place = ops.sub(ops.shr(bits, _word(52)), _word(1045))
    words = [_word(word) for word in _TWO_OVER_PI]
    for step in (8, 4, 2, 1):  # a bit of the place says which half of the words counts, until there are four
        chosen = ops.neq(ops.and_(place, _word(64 * step)), _word(0))
        words = [ops.select(chosen, words[i + step], words[i]) for i in range(step + 3)]
    shift = ops.and_(place, _word(63))
    back = ops.sub(_word(63), shift)
    window = [ops.or_(ops.shl(upper, shift), ops.shr(ops.shr(lower, _word(1)), back))
              for upper, lower in itertools.pairwise(words)]
    mantissa = ops.or_(ops.and_(bits, _word((1 << 52) - 1)), _word(1 << 52))
    rest = ops.mul(mantissa, window[1])
    low = ops.add(rest, ops.mul_hi(mantissa, window[2]))
    carry = ops.select(ops.lt(low, rest), _word(1), _word(0))
    high = ops.add(ops.add(ops.mul(mantissa, window[0]), ops.mul_hi(mantissa, window[1])), carry)
    quadrant = ops.shr(ops.add(high, _word(1 << 61)), _word(62))
    fraction = cast(bitcast(ops.sub(high, ops.shl(quadrant, _word(62))), INT64), FLOAT64)
    fraction = ops.fma(cast(low, FLOAT64), constant(FLOAT64, 2.0 ** -64), fraction)
    r = ops.mul(fraction, constant(FLOAT64, math.pi * 2.0 ** -63))
    return [ops.select(ops.lt(x, constant(FLOAT64, math.inf)), r, ops.sub(x, x)), quadrant]


def _word(value: int) -> Node:
    return constant(UINT64, value)


def _is_large(x: Node, limit: float) -> Node:
    """Whether a number that is not negative is at least as large as some limit, but finite: others are NaN anyway."""
    info, word = TYPES[x.type], _FORMATS[x.type].word
    least = bits_of(limit, info)
    beyond = ops.sub(bitcast(x, word), constant(word, least))
    return ops.lt(beyond, constant(word, bits_of(math.inf, info) - least))  # type: ignore[no-any-return]


def _reduce(a: Node) -> tuple[Node, Node, Node]:
    """The remainder r of ``|a|``, the multiple of pi/2 in the low bits of a word, and whether that is odd.

    Value numbering finds them again when several functions are traced of one operand.
    """
    f, x = _FORMATS[a.type], ops.abs(a)
    limit = f.limit
    if a.type == FLOAT32 and not state.flags & FAST_MATH:
        limit = _FORMATS[FLOAT64].limit
        wide, word = _subtract_multiples(cast(x, FLOAT64), _FORMATS[FLOAT64].pi_half[:2])
        r, quadrant = cast(wide, FLOAT32), cast(word, UINT32)
    else:
        r, quadrant = _subtract_multiples(x, f.pi_half)

    def large(x: Node) -> list[Node]:
        remainder, word = _reduce_large(cast(x, FLOAT64))
        return [cast(remainder, a.type), cast(word, f.word)]

    r, quadrant = rarely("reduction", _is_large(x, limit), [r, quadrant], [x], large)
    return r, quadrant, ops.neq(ops.and_(quadrant, constant(f.word, 1)), constant(f.word, 0))


def _sine(r: Node) -> Node:
    z = ops.mul(r, r)
    return ops.fma(ops.mul(r, z), horner(z, _FORMATS[r.type].sine), r)  # type: ignore[no-any-return]


def _cosine(r: Node) -> Node:
    z = ops.mul(r, r)
    start = ops.fma(z, constant(r.type, -0.5), constant(r.type, 1))
    return ops.fma(ops.mul(z, z), horner(z, _FORMATS[r.type].cosine), start)  # type: ignore[no-any-return]


def _flip(value: Node, bits: Node) -> Node:
    """The value with its sign flipped where the sign bit of a word is set."""
    f = _FORMATS[value.type]
    sign = ops.and_(bits, constant(f.word, f.sign))
    return bitcast(ops.xor(bitcast(value, f.word), sign), value.type)


def _upper_half(quadrant: Node) -> Node:
    """The sign bit set in quadrants 2 and 3 (modulo 4)."""
    return ops.shl(quadrant, constant(quadrant.type, TYPES[quadrant.type].bits - 2))  # type: ignore[no-any-return]


@elementary
def sin(a: Node) -> Node:
    """Sine of an angle in radians."""
    r, quadrant, odd = _reduce(a)
    sign = ops.xor(_upper_half(quadrant), bitcast(a, quadrant.type))
    return _flip(ops.select(odd, _cosine(r), _sine(r)), sign)


@elementary
def cos(a: Node) -> Node:
    """Cosine of an angle in radians."""
    r, quadrant, odd = _reduce(a)
    following = ops.add(quadrant, constant(quadrant.type, 1))
    return _flip(ops.select(odd, _sine(r), _cosine(r)), _upper_half(following))


def sincos(a: Node) -> tuple[Node, Node]:
    """Sine and cosine of one angle, which share most of their operations."""
    return sin(a), cos(a)


def _tangent(a: Node, *, inverse: bool) -> Node:
    """The tangent is ``tan(r)`` or ``-1 / tan(r)``; the cotangent has these the other way round."""
    r, quadrant, odd = _reduce(a)
    z = ops.mul(r, r)
    value = ops.fma(ops.mul(r, z), estrin(z, _FORMATS[a.type].tangent), r)
    if inverse:
        value = ops.select(odd, ops.neg(value), ops.div(constant(a.type, 1), value))
    else:
        value = ops.select(odd, ops.div(constant(a.type, -1), value), value)
    return _flip(value, bitcast(a, quadrant.type))


@elementary
def tan(a: Node) -> Node:
    """Tangent of an angle in radians."""
    return _tangent(a, inverse=False)


@elementary
def cot(a: Node) -> Node:
    """Cotangent of an angle in radians; infinite at zero."""
    return _tangent(a, inverse=True)


# --- for targets that know sines and cosines of small angles ----------------------------------------------------------


#: 2 pi, each part rounded towards zero: multiples of them that are zero have one sign, and leave -0 as it is.
_TURN = (6.283185005187988, 3.0199157663446385e-07, 2.156121011983106e-14)


def _angle(a: Node) -> Node:
    """The angle between -pi and pi that differs from a number by a multiple of 2 pi, of single precision."""
    f, type_ = _FORMATS[a.type], a.type
    magic = constant(type_, f.magic)
    n, r = ops.sub(ops.fma(a, constant(type_, f.two_over_pi / 4), magic), magic), a
    for part in _TURN:
        r = ops.fma(n, constant(type_, -part), r)

    def large(a: Node) -> list[Node]:
        remainder, quadrant = _reduce_large(cast(ops.abs(a), FLOAT64))
        turns = ops.sub(cast(ops.and_(ops.add(quadrant, _word(1)), _word(3)), FLOAT64), constant(FLOAT64, 1))
        angle = ops.fma(turns, constant(FLOAT64, math.pi / 2), remainder)
        return [flip_sign(cast(angle, type_), a)]

    return rarely("angle", _is_large(ops.abs(a), f.limit), [r], [a], large)[0]


@elementary
def sin_reduced(a: Node) -> Node:
    """Sine of an angle between -pi and pi."""
    return sin(a)


@elementary
def cos_reduced(a: Node) -> Node:
    """Cosine of an angle between -pi and pi."""
    return cos(a)


NATIVE[KIND["sin"]] = KIND["sin_reduced"], in_single(lambda a: sin_reduced(_angle(a)))
NATIVE[KIND["cos"]] = KIND["cos_reduced"], in_single(lambda a: cos_reduced(_angle(a)))
NATIVE[KIND["tan"]] = KIND["sin_reduced"], in_single(lambda a: ops.div(sin_reduced(_angle(a)), cos_reduced(_angle(a))))
