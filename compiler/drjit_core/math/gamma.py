"""The logarithm of the gamma function.

* From 8 on, Stirling's series with a fitted tail.
* Below, the recurrence ``gamma(x + 1) = x gamma(x)`` moves the argument into ``[1.5, 2.5]``, where
  ``log(gamma(2 + t))`` is ``t`` times a polynomial; one logarithm, of the product of the factors, remains.  Arguments
  next to 1 go to ``2 + t`` as well: ``log(x)`` vanishes there as the other term does, but they do not cancel.
* From -1/2 down, the reflection ``gamma(x) gamma(-x) = -pi / (x sin(pi x))``; next to zero ``-log(x)``.

(These identities are chapter 5 of the *NIST Digital Library of Mathematical Functions*.)  Largest errors for positive
arguments are 5.4 units of the last place.  Next to the zeros between the negative integers, whose number is
infinite, the error is small against 1, not against the result.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..control.rare import rarely
from ..ir.node import Node
from ..ir.trace import cast, ops
from ..types import COMPUTES_IN, FLOAT32, FLOAT64
from .exponential import FORMATS as EXPONENTIAL
from .exponential import log, log_of_mantissa, split
from .polynomial import constant, elementary, estrin, horner
from .reciprocal import rcp
from .trigonometric import cot

__all__ = ["digamma", "lgamma"]


class _Format(NamedTuple):
    """Constants of one precision."""

    at_two: tuple[float, ...]  # log(gamma(2 + t)) / t on |t| <= 1/2
    stirling: tuple[float, ...]  # x times what Stirling's formula leaves, in 1 / x**2
    sine: tuple[float, ...]  # sin(pi f) / f in f**2


_FORMATS = {
    FLOAT32: _Format(
        # relative error 2^-24.33
        at_two=(0.42278432846069336, 0.32246702909469604, -0.06735222041606903, 0.020581601187586784,
                -0.007387427147477865, 0.0028790568467229605, -0.0011778419138863683, 0.0005698211607523263,
                -0.00026985176373273134),
        # relative error 2^-32.37
        stirling=(0.08333327621221542, -0.0027626510709524155),
        # relative error 2^-24.76
        sine=(3.1415927410125732, -5.167728900909424, 2.550652503967285, -0.6045209169387817, 0.10533436387777328,
              -0.04312915354967117)),
    FLOAT64: _Format(
        # relative error 2^-55.72
        at_two=(0.42278433509846713, 0.3224670334241133, -0.06735230105319576, 0.020580808427765957,
                -0.0073855510289251676, 0.0028905103318417583, -0.001192753901330291, 0.0005096694951114549,
                -0.0002231549722473189, 9.945794420073366e-05, -4.4923772059848314e-05, 2.0503543864891863e-05,
                -9.456078221321485e-06, 4.393521254321239e-06, -1.974828226618344e-06, 8.999009808378137e-07,
                -5.806103326336693e-07, 2.977064406454028e-07),
        # relative error 2^-61.73
        stirling=(0.0833333333333331, -0.0027777777773628125, 0.000793650577686033, -0.0005951898368150552,
                  0.0008364674830293575, -0.0016336236610988264),
        # relative error 2^-54.51
        sine=(3.141592653589793, -5.167712780049876, 2.5501640398653715, -0.5992645287253707, 0.08214587151109674,
              -0.0073702102566662675, 0.0004643339648016649, -1.102052662798761e-05, -3.570303800464429e-05,
              6.777352746968395e-05, -5.359018052410526e-05)),
}


def _log(x: Node) -> Node:
    """Logarithm of a positive, normal and finite number."""
    f = EXPONENTIAL[x.type]
    e, m = split(x, f)
    value = log_of_mantissa(m, f, ops.mul(e, constant(x.type, f.log_2[1])))
    return ops.fma(e, constant(x.type, f.log_2[0]), value)  # type: ignore[no-any-return]


def _without_reflection(a: Node) -> Node:
    """``log(abs(gamma(a)))`` where the argument is above -1/2, elsewhere that of its magnitude."""
    f, type_, x = _FORMATS[a.type], a.type, ops.abs(a)
    one = constant(type_, 1)
    large = ops.ge(x, constant(type_, 8))
    below_half, below = ops.lt(x, constant(type_, 0.5)), ops.lt(x, constant(type_, 1.5))
    # t = x - 2 + k and the product of the k factors between
    t = ops.sub(x, constant(type_, 2))
    product = one
    for _ in range(6):
        more = ops.ge(t, constant(type_, 0.5))
        following = ops.add(t, one)
        product = ops.select(more, ops.mul(product, following), product)
        t = ops.select(more, ops.sub(t, one), t)
    t = ops.select(below_half, a, ops.select(below, ops.sub(x, one), t))
    product = ops.select(below_half, ops.fma(x, a, x), ops.select(below, x, product))
    logarithm = _log(ops.select(large, x, product))
    small = ops.fma(t, estrin(t, f.at_two), ops.select(below, ops.neg(logarithm), logarithm))

    inverse = ops.div(one, x)
    tail = ops.fma(inverse, horner(ops.mul(inverse, inverse), f.stirling),
                   constant(type_, 0.5 * math.log(2 * math.pi) - 0.5))
    stirling = ops.fma(ops.sub(x, constant(type_, 0.5)), ops.sub(logarithm, one), tail)
    return ops.select(large, stirling, small)  # type: ignore[no-any-return]


@elementary
def lgamma(a: Node) -> Node:
    """Logarithm of the absolute value of the gamma function; infinite at zero and the negative integers."""
    f, type_ = _FORMATS[a.type], a.type
    value = _without_reflection(a)

    def elsewhere(a: Node, value: Node) -> list[Node]:
        x = ops.abs(a)
        infinity, zero = constant(type_, math.inf), constant(type_, 0)
        fraction = ops.sub(x, ops.round(x))
        sine = ops.mul(ops.abs(fraction), horner(ops.mul(fraction, fraction), f.sine))
        # near zero this is -log(x), also where x is so small that the quotient overflows
        tiny = ops.lt(x, constant(type_, 2.0 ** -60))
        scaled = ops.mul(x, constant(type_, 2.0 ** 60))
        ratio = ops.div(constant(type_, math.pi), ops.mul(x, sine))
        near = ops.sub(constant(type_, 60 * math.log(2)), _log(scaled))
        reflected = ops.select(tiny, near, ops.sub(_log(ratio), value))
        found = ops.select(ops.le(a, constant(type_, -0.5)), reflected, ops.select(tiny, near, value))
        pole = ops.and_(ops.le(a, zero), ops.eq(fraction, zero))
        infinite = ops.or_(ops.eq(x, infinity), pole)
        return [ops.select(infinite, infinity, found)]

    ordinary = ops.and_(ops.gt(a, constant(type_, 2.0 ** -60)), ops.lt(a, constant(type_, math.inf)))
    (result,) = rarely("lgamma", ops.inv(ordinary), [value], [a, value], elsewhere)
    return result


#: Of the asymptotic series of the digamma function: B(2n) / 2n for n = 1, 2 … (DLMF 5.11.2).
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_SHIFT = 8


def digamma(a: Node) -> Node:
    """The derivative of :func:`lgamma`: infinite at zero and the negative integers.

    The recurrence ``psi(x) = psi(x + 1) - 1/x`` leads to arguments above 8, where the asymptotic series holds; from
    below 1/2, reflection leads there (DLMF 5.5.2, 5.5.4, 5.11.2). Composed of operations that have derivatives.
    """
    if COMPUTES_IN[a.type] != a.type:
        return cast(digamma(cast(a, COMPUTES_IN[a.type])), a.type)
    type_ = a.type
    one = constant(type_, 1)
    reflected = ops.lt(a, constant(type_, 0.5))
    x = ops.select(reflected, ops.sub(one, a), a)
    total = constant(type_, 0)
    for k in range(_SHIFT):
        total = ops.add(total, rcp(ops.add(x, constant(type_, k))))
    shifted = ops.add(x, constant(type_, _SHIFT))
    inverse = rcp(shifted)
    square = ops.mul(inverse, inverse)
    value = ops.sub(log(shifted), ops.fma(square, horner(square, _BERNOULLI), ops.mul(inverse, constant(type_, 0.5))))
    value = ops.sub(value, total)
    pi = constant(type_, math.pi)
    fraction = ops.sub(a, ops.round(a))
    return ops.select(reflected, ops.sub(value, ops.mul(pi, cot(ops.mul(pi, fraction)))), value)  # type: ignore[no-any-return]
