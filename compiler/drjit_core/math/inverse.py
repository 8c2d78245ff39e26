"""Inverse trigonometric functions.

Arcsine and arccosine approximate ``asin(s)`` for ``0 <= s <= 1/2`` by an odd polynomial.  Beyond, they use ``asin(a) =
pi/2 - 2 asin(s)`` with ``s = sqrt((1 - a) / 2)`` (W. J. Cody and W. Waite, *Software Manual for the Elementary
Functions*, 1980, chapter 10), where ``pi/2`` is a sum of two numbers, and, in double precision, so is ``s``.

The arctangent is an odd polynomial in a ratio t between -1/2 and 1/2: ``atan(y / x)`` is ``atan(t)`` with ``t = y / x``
below 1/2, ``pi/4 + atan(t)`` with ``t = (y - x) / (y + x)`` below 2, and ``pi/2 + atan(t)`` with ``t = -x / y`` beyond
(Cody and Waite, chapter 11).  Numerator and denominator are selected, so that there is one division.  For ``atan2``,
where that takes more selections (and care that no sum overflows), a longer polynomial in a ratio up to 1 is faster.

Largest errors in units of the last place of the exact result: ``asin`` 2.0 (float64: 1.0), ``acos`` 1.3,
``atan`` 1.7 and ``atan2`` 2.7.
"""

from __future__ import annotations

from typing import NamedTuple

from ..control.rare import rarely
from ..ir.node import Node
from ..ir.trace import bitcast, cast, ops
from ..types import FLOAT32, FLOAT64, INT32, INT64
from .exponential import FORMATS as EXPONENTIAL
from .exponential import unusual
from .polynomial import constant, elementary, elementary_binary, estrin, flip_sign, with_sign_of

__all__ = ["acos", "asin", "atan", "atan2"]


class _Format(NamedTuple):
    """Constants of one precision."""

    integer: int  # signed integer type of the same size
    pi: float
    pi_half: float
    pi_error: float  # what is missing from pi and pi_half, relative to them
    asin: tuple[float, ...]  # (asin(s) - s) / s**3 in s**2
    atan: tuple[float, ...]  # (atan(t) - t) / t**3 in t**2 for |t| <= 1/2
    atan2: tuple[float, ...]  # the same for |t| <= 1


_FORMATS = {
    FLOAT32: _Format(
        integer=INT32, pi=3.1415927410125732,
        pi_half=1.5707963705062866, pi_error=-2.782753437848454e-08,
        # relative error 2^-27.62
        asin=(0.16666752099990845, 0.074953094124794, 0.04546914994716644, 0.024184778332710266, 0.042158305644989014),
        # relative error 2^-27.46
        atan=(-0.3333323299884796, 0.19994167983531952, -0.14174212515354156, 0.10155827552080154,
              -0.0512516088783741),
        # relative error 2^-25.39
        atan2=(-0.33333152532577515, 0.19993767142295837, -0.14211007952690125, 0.1066582128405571,
               -0.0755128487944603, 0.043186742812395096, -0.01633954420685768, 0.002909525530412793)),
    FLOAT64: _Format(
        integer=INT64, pi=3.141592653589793, pi_half=1.5707963267948966,
        pi_error=3.8981718325193755e-17,
        # relative error 2^-55.9
        asin=(0.16666666666665408, 0.07500000000337148, 0.044642856828225795, 0.030381959140766624,
              0.022371757963023067, 0.017359706127223394, 0.013885220821012558, 0.012169318518501757,
              0.006527458939662417, 0.019529837506780865, -0.01622697737016593, 0.031914314252480876),
        # relative error 2^-57.48
        atan=(-0.3333333333333298, 0.19999999999903106, -0.14285714276385267, 0.1111111065959525,
              -0.09090896243379779, 0.0769207388633589, -0.06663810297827749, 0.05858296403023723,
              -0.05121993045322533, 0.04186464213673833, -0.02743423910113493, 0.010116306723357862),
        # relative error 2^-54.21
        atan2=(-0.3333333333333186, 0.199999999997552, -0.14285714271342267, 0.11111110678912588,
               -0.09090901237614842, 0.07692212950875191, -0.06665860495629414, 0.05877308407220598,
               -0.0523923530055618, 0.04673955948116614, -0.040926516390412754, 0.03406802891890787,
               -0.025827067392101725, 0.016978289597050587, -0.009184735450960867, 0.0038560628014649772,
               -0.001164101638308673, 0.00022302866255164363, -2.0259174799058915e-05)),
}


def _reduced(a: Node) -> tuple[Node, Node, Node]:
    """Whether ``|a| > 1/2``; the s whose arcsine is needed; and ``asin(s) - s``."""
    f, type_, x = _FORMATS[a.type], a.type, ops.abs(a)
    half = constant(type_, 0.5)
    large = ops.gt(x, half)
    z = ops.select(large, ops.fma(x, constant(type_, -0.5), half), ops.mul(x, x))
    s = ops.select(large, ops.sqrt(z), x)
    tail = ops.mul(ops.mul(s, z), estrin(z, f.asin))
    if type_ == FLOAT64:
        # the rounding error of the root, (z - s**2) / (2 s), of which a few bits are enough
        rough = ops.div(constant(FLOAT32, 0.5), cast(ops.maximum(s, constant(type_, 2.0 ** -60)), FLOAT32))
        error = ops.mul(ops.fma(ops.neg(s), s, z), cast(rough, type_))
        tail = ops.add(tail, ops.select(large, error, constant(type_, 0)))
    return large, s, tail


@elementary
def asin(a: Node) -> Node:
    """Arcsine; NaN beyond 1."""
    f, type_ = _FORMATS[a.type], a.type
    large, s, tail = _reduced(a)
    minus_two, high, low = (constant(type_, part) for part in (-2, f.pi_half, f.pi_half * f.pi_error))
    beyond = ops.fma(s, minus_two, high)
    rest = ops.fma(tail, minus_two, low)
    if type_ == FLOAT64:
        rest = ops.add(rest, ops.fma(s, minus_two, ops.sub(high, beyond)))  # the rounding error of the first term
    return with_sign_of(ops.select(large, ops.add(beyond, rest), ops.add(s, tail)), a)


@elementary
def acos(a: Node) -> Node:
    """Arccosine; NaN beyond 1."""
    f, type_ = _FORMATS[a.type], a.type
    large, s, tail = _reduced(a)
    # pi/2 - asin(a), or 2 asin(s), or pi - 2 asin(s): a base and a factor, whose sign is that of a or its opposite
    factor = flip_sign(ops.select(large, constant(type_, 2), constant(type_, -1)), a)
    ends = ops.select(ops.lt(a, constant(type_, 0)), constant(type_, f.pi), constant(type_, 0))
    base = ops.select(large, ends, constant(type_, f.pi_half))
    return _sum_with_base(base, ops.mul(factor, ops.add(s, tail)))


def _sum_with_base(base: Node, angle: Node) -> Node:
    """The sum of a multiple of ``pi/2``, given to working precision, and an angle."""
    f = _FORMATS[base.type]
    return ops.add(base, ops.fma(base, constant(base.type, f.pi_error), angle))  # type: ignore[no-any-return]


def _atan_of_ratio(t: Node, polynomial: tuple[float, ...]) -> Node:
    """Arctangent of a number of the polynomial's interval."""
    z = ops.mul(t, t)
    return ops.fma(ops.mul(t, z), estrin(z, polynomial), t)  # type: ignore[no-any-return]


@elementary
def atan(a: Node) -> Node:
    """Arctangent."""
    f, type_, x, one = _FORMATS[a.type], a.type, ops.abs(a), constant(a.type, 1)
    steep, flat = ops.gt(x, constant(type_, 2)), ops.lt(x, constant(type_, 0.5))
    numerator = ops.select(steep, constant(type_, -1), ops.select(flat, x, ops.sub(x, one)))
    denominator = ops.select(steep, x, ops.select(flat, one, ops.add(x, one)))
    base = ops.select(steep, constant(type_, f.pi_half), constant(type_, f.pi_half / 2))
    base = ops.select(flat, constant(type_, 0), base)
    return with_sign_of(_sum_with_base(base, _atan_of_ratio(ops.div(numerator, denominator), f.atan)), a)


@elementary_binary
def atan2(y: Node, x: Node) -> Node:
    """Angle of the point ``(x, y)``, between ``-pi`` and ``pi``, as C99 defines it for zeros and infinities."""
    f, type_ = _FORMATS[y.type], y.type
    width, height = ops.abs(x), ops.abs(y)
    steep = ops.gt(height, width)
    p, q = ops.select(steep, width, height), ops.select(steep, height, width)
    zero, t = constant(type_, 0), ops.div(p, q)

    def equal(p: Node, q: Node, t: Node) -> list[Node]:  # 0 / 0 shall be 0, and inf / inf be 1
        ratio = ops.select(ops.gt(q, zero), constant(type_, 1), zero)
        return [ops.select(ops.eq(p, q), ratio, t)]

    (t,) = rarely("atan2", unusual(q, EXPONENTIAL[type_]), [t], [p, q, t], equal)
    angle = _atan_of_ratio(t, f.atan2)
    left = ops.lt(bitcast(x, f.integer), constant(f.integer, 0))  # -0.0 included
    angle = ops.select(ops.xor(steep, left), ops.neg(angle), angle)
    base = ops.select(steep, constant(type_, f.pi_half), ops.select(left, constant(type_, f.pi), zero))
    return with_sign_of(ops.add(base, angle), y)
