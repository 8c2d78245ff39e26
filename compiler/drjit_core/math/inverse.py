"""Inverse trigonometric functions.

Arcsine and arccosine approximate ``asin(s)`` for ``0 <= s <= 1/2`` by an odd polynomial.  Beyond, they use ``asin(a) =
pi/2 - 2 asin(s)`` with ``s = sqrt((1 - a) / 2)`` (W. J. Cody and W. Waite, *Software Manual for the Elementary
Functions*, 1980, chapter 10), where ``pi/2`` is a sum of two numbers, and, in double precision, so is ``s``.

The arctangent is that of a ratio ``0 <= p / q <= 1``.  Above ``tan(pi/8)`` it becomes ``pi/4 + atan((p - q) / (p +
q))`` (as in chapter 11 there), so that one division and an odd polynomial on ``|t| <= tan(pi/8)`` serve all arguments:
``p`` and ``q`` are smaller and larger operand of ``atan2``, and ``a`` and 1 for ``atan(a)``.

Largest errors in units of the last place of the exact result: ``asin`` 1.5 (float32) and 1.0 (float64), ``acos`` 1.3,
``atan`` and ``atan2`` 2.8.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..ir.node import Node
from ..ir.trace import cast, ops
from ..types import FLOAT32, FLOAT64
from .polynomial import constant, elementary, elementary_binary, estrin, with_sign_of

__all__ = ["acos", "asin", "atan", "atan2"]

_or = getattr(ops, "or")


class _Format(NamedTuple):
    """Constants of one precision."""

    pi_half: tuple[float, float]  # sums to pi/2
    pi: float
    pi_quarter: float
    tiny: float  # the smallest normal number
    asin: tuple[float, ...]  # (asin(s) - s) / s**3 in s**2
    atan: tuple[float, ...]  # (atan(t) - t) / t**3 in t**2


_FORMATS = {
    FLOAT32: _Format(
        pi_half=(1.5707963705062866, -4.371138828673793e-08), pi=3.1415927410125732, pi_quarter=0.7853981852531433,
        tiny=2.0 ** -126,
        # relative error 2^-27.62
        asin=(0.16666752099990845, 0.074953094124794, 0.04546914994716644, 0.024184778332710266, 0.042158305644989014),
        # relative error 2^-25.53
        atan=(-0.3333294987678528, 0.1997772753238678, -0.1387779861688614, 0.08053956180810928)),
    FLOAT64: _Format(
        pi_half=(1.5707963267948966, 6.123233995736766e-17), pi=3.141592653589793, pi_quarter=0.7853981633974483,
        tiny=2.0 ** -1022,
        # relative error 2^-55.9
        asin=(0.16666666666665408, 0.07500000000337148, 0.044642856828225795, 0.030381959140766624,
              0.022371757963023067, 0.017359706127223394, 0.013885220821012558, 0.012169318518501757,
              0.006527458939662417, 0.019529837506780865, -0.01622697737016593, 0.031914314252480876),
        # relative error 2^-54.65
        atan=(-0.33333333333330145, 0.1999999999908751, -0.14285714195133584, 0.1111110664810868,
              -0.09090782280559477, 0.07690066394633682, -0.06641104315837644, 0.05692449359579486,
              -0.04358833221980603, 0.021256604209484886)),
}
_TAN_EIGHTH = math.tan(math.pi / 8)


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
    minus_two, (high, low) = constant(type_, -2), (constant(type_, part) for part in f.pi_half)
    beyond = ops.fma(s, minus_two, high)
    rounding = ops.fma(s, minus_two, ops.sub(high, beyond))
    beyond = ops.add(beyond, ops.add(ops.fma(tail, minus_two, low), rounding))
    return with_sign_of(ops.select(large, beyond, ops.add(s, tail)), a)


@elementary
def acos(a: Node) -> Node:
    """Arccosine; NaN beyond 1."""
    f, type_ = _FORMATS[a.type], a.type
    large, s, tail = _reduced(a)
    high, low = (constant(type_, part) for part in f.pi_half)
    # small: pi/2 - asin(a); large: 2 asin(s), or pi - 2 asin(s) as twice pi/2 - asin(s)
    negative = ops.lt(a, constant(type_, 0))
    s, tail = ops.select(large, s, with_sign_of(s, a)), ops.select(large, tail, with_sign_of(tail, a))
    complement = ops.add(ops.sub(high, s), ops.sub(low, tail))
    value = ops.select(_or(negative, ops.inv(large)), complement, ops.add(s, tail))
    return ops.mul(value, ops.select(large, constant(type_, 2), constant(type_, 1)))  # type: ignore[no-any-return]


def _atan_of_ratio(p: Node, q: Node) -> Node:
    """``atan(p / q)`` for ``0 <= p <= q``; NaN for ``0 / 0``."""
    f, type_ = _FORMATS[p.type], p.type
    large = ops.gt(p, ops.mul(q, constant(type_, _TAN_EIGHTH)))
    t = ops.div(ops.select(large, ops.sub(p, q), p), ops.select(large, ops.add(p, q), q))
    z = ops.mul(t, t)
    value = ops.fma(ops.mul(t, z), estrin(z, f.atan), t)
    return ops.add(value, ops.select(large, constant(type_, f.pi_quarter), constant(type_, 0)))  # type: ignore[no-any-return]


def _complement(angle: Node) -> Node:
    """``pi/2 - angle``."""
    high, low = (constant(angle.type, part) for part in _FORMATS[angle.type].pi_half)
    return ops.add(ops.sub(high, angle), low)  # type: ignore[no-any-return]


@elementary
def atan(a: Node) -> Node:
    """Arctangent."""
    type_, x, one = a.type, ops.abs(a), constant(a.type, 1)
    steep = ops.gt(x, one)
    # the largest numbers, and infinity, would overflow p + q
    limited = ops.select(ops.lt(constant(type_, 1e30), x), constant(type_, 1e30), x)
    angle = _atan_of_ratio(ops.select(steep, one, limited), ops.select(steep, limited, one))
    return with_sign_of(ops.select(steep, _complement(angle), angle), a)


@elementary_binary
def atan2(y: Node, x: Node) -> Node:
    """Angle of the point ``(x, y)``, between ``-pi`` and ``pi``, as C99 defines it for zeros and infinities."""
    f, type_ = _FORMATS[y.type], y.type
    zero, infinity = constant(type_, 0), constant(type_, math.inf)
    width, height = ops.abs(x), ops.abs(y)
    # infinities become the only numbers that matter
    infinite = _or(ops.eq(width, infinity), ops.eq(height, infinity))
    one = constant(type_, 1)

    def finite(value: Node) -> Node:
        return ops.select(infinite, ops.select(ops.eq(value, infinity), one, zero), value)  # type: ignore[no-any-return]

    steep = ops.gt(height, width)
    scale = ops.select(ops.gt(ops.maximum(height, width), one), constant(type_, 0.25), constant(type_, 4.0))
    p, q = ops.select(steep, width, height), ops.select(steep, height, width)
    p, q = ops.mul(finite(p), scale), ops.mul(finite(q), scale)
    angle = _atan_of_ratio(p, ops.select(ops.eq(q, zero), one, q))
    angle = ops.select(steep, _complement(angle), angle)
    left = with_sign_of(one, x)
    backwards = ops.add(ops.sub(constant(type_, f.pi), angle), constant(type_, 2 * f.pi_half[1]))
    value = with_sign_of(ops.select(ops.lt(left, zero), backwards, angle), y)
    return ops.select(_or(ops.neq(x, x), ops.neq(y, y)), ops.add(x, y), value)  # type: ignore[no-any-return]
