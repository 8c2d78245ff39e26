"""Inverse trigonometric functions.

Arcsine and arccosine approximate ``asin(s)`` for ``0 <= s <= 1/2`` by an odd polynomial.  Beyond, they use ``asin(a) =
pi/2 - 2 asin(s)`` with ``s = sqrt((1 - a) / 2)`` (W. J. Cody and W. Waite, *Software Manual for the Elementary
Functions*, 1980, chapter 10), where ``pi/2`` is a sum of two numbers, and, in double precision, so is ``s``.

The arctangent is an odd polynomial in a ratio between 0 and 1: of the smaller to the larger operand of ``atan2``, and
of ``a`` or ``1 / a``.  A reduction to a smaller interval costs as many operations as it saves terms.

Largest errors in units of the last place of the exact result: ``asin`` 1.2, ``acos`` 1.3, ``atan`` and ``atan2``
2.2.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir.node import Node
from ..ir.trace import bitcast, cast, ops
from ..types import FLOAT32, FLOAT64, INT32, INT64
from .polynomial import constant, elementary, elementary_binary, estrin, flip_sign, with_sign_of

__all__ = ["acos", "asin", "atan", "atan2"]


class _Format(NamedTuple):
    """Constants of one precision."""

    integer: int  # signed integer type of the same size
    pi: float
    pi_half: float
    pi_error: float  # what is missing from pi and pi_half, relative to them
    asin: tuple[float, ...]  # (asin(s) - s) / s**3 in s**2
    atan: tuple[float, ...]  # (atan(t) - t) / t**3 in t**2


_FORMATS = {
    FLOAT32: _Format(
        integer=INT32, pi=3.1415927410125732, pi_half=1.5707963705062866, pi_error=-2.782753437848454e-08,
        # relative error 2^-27.62
        asin=(0.16666752099990845, 0.074953094124794, 0.04546914994716644, 0.024184778332710266, 0.042158305644989014),
        # relative error 2^-28.44
        atan=(-0.33333298563957214, 0.1999852955341339, -0.14264015853405, 0.10950881242752075, -0.08399312943220139,
              0.05788160488009453, -0.031097302213311195, 0.010868893936276436, -0.0017828686395660043)),
    FLOAT64: _Format(
        integer=INT64, pi=3.141592653589793, pi_half=1.5707963267948966, pi_error=3.8981718325193755e-17,
        # relative error 2^-55.9
        asin=(0.16666666666665408, 0.07500000000337148, 0.044642856828225795, 0.030381959140766624,
              0.022371757963023067, 0.017359706127223394, 0.013885220821012558, 0.012169318518501757,
              0.006527458939662417, 0.019529837506780865, -0.01622697737016593, 0.031914314252480876),
        # relative error 2^-56.63
        atan=(-0.3333333333333307, 0.19999999999951748, -0.14285714282587983, 0.11111111007338594,
              -0.09090907007761954, 0.07692279890079402, -0.06666404469579897, 0.05880530519574299,
              -0.052535331343582715, 0.04722385586125679, -0.04219395711902713, 0.036647650224956065,
              -0.0299155041565912, 0.022002810141247824, -0.01392136286234801, 0.007214275637829491,
              -0.0028957653989578522, 0.0008357924731218345, -0.00015327519677477976, 1.3351899506616922e-05)),
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
    rounding = ops.fma(s, minus_two, ops.sub(high, beyond))
    beyond = ops.add(beyond, ops.add(ops.fma(tail, minus_two, low), rounding))
    return with_sign_of(ops.select(large, beyond, ops.add(s, tail)), a)


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


def _atan_of_ratio(t: Node) -> Node:
    """Arctangent of a number between 0 and 1."""
    z = ops.mul(t, t)
    return ops.fma(ops.mul(t, z), estrin(z, _FORMATS[t.type].atan), t)  # type: ignore[no-any-return]


@elementary
def atan(a: Node) -> Node:
    """Arctangent."""
    type_, x, one = a.type, ops.abs(a), constant(a.type, 1)
    steep = ops.gt(x, one)
    angle = _atan_of_ratio(ops.select(steep, ops.div(one, x), x))
    base = constant(type_, _FORMATS[type_].pi_half)
    return with_sign_of(ops.select(steep, _sum_with_base(base, ops.neg(angle)), angle), a)


@elementary_binary
def atan2(y: Node, x: Node) -> Node:
    """Angle of the point ``(x, y)``, between ``-pi`` and ``pi``, as C99 defines it for zeros and infinities."""
    f, type_ = _FORMATS[y.type], y.type
    zero, one = constant(type_, 0), constant(type_, 1)
    width, height = ops.abs(x), ops.abs(y)
    steep = ops.gt(height, width)
    p, q = ops.select(steep, width, height), ops.select(steep, height, width)
    # 0 / 0 shall be 0, and inf / inf be 1
    equal = ops.select(ops.gt(q, zero), one, zero)
    angle = _atan_of_ratio(ops.select(ops.eq(p, q), equal, ops.div(p, q)))
    left = ops.lt(bitcast(x, f.integer), constant(f.integer, 0))  # -0.0 included
    angle = ops.select(ops.xor(steep, left), ops.neg(angle), angle)
    base = ops.select(steep, constant(type_, f.pi_half), ops.select(left, constant(type_, f.pi), zero))
    return with_sign_of(_sum_with_base(base, angle), y)
