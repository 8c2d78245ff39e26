"""Hyperbolic functions and their inverses.

With ``|a| = n * log(2) + r``, both of ``sinh`` and ``cosh`` are sums of ``sinh(r)`` and ``cosh(r)`` with weights
``(2**n - 2**-n) / 2`` and ``(2**n + 2**-n) / 2`` (the addition theorem).  There is no division, and no cancellation
that would need another branch for small arguments: there ``n`` is 0.

``tanh`` is ``m / (m + 2)`` with ``m = exp(2 a) - 1 = 2**n * (exp(r) - 1) + (2**n - 1)``.

The inverse functions are logarithms of ``1 + y`` with a y that is accurate where it is small; the rounding error of
``1 + y`` is put back to first order.

Largest errors in units of the last place of the exact result: ``sinh`` 2.2, ``cosh`` 1.9, ``tanh`` 2.6, ``asinh`` 1.7,
``acosh`` 2.4, ``atanh`` 1.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..errors import UnsupportedType
from ..ir.dual import attached, primal
from ..ir.node import Node
from ..ir.trace import bitcast, cast, ops, square
from ..ops.derivatives import RULES
from ..ops.table import DUAL
from ..types import COMPUTES_IN, FLOAT32, FLOAT64, TYPES, is_float
from .exponential import FORMATS as EXPONENTIAL
from .exponential import log_of_mantissa, round_quotient, split
from .polynomial import constant, elementary, estrin, horner, with_sign_of
from .reciprocal import rcp

__all__ = ["acosh", "asinh", "atanh", "cosh", "sincosh", "sinh", "slope_of_tanh", "tanh"]


class _Format(NamedTuple):
    """Constants of one precision."""

    overflow: float  # beyond it sinh and cosh are infinite
    saturation: float  # beyond it tanh rounds to 1
    large: float  # beyond it a**2 + 1 rounds to a**2
    sinh: tuple[float, ...]  # (sinh(r) - r) / r**3 in r**2
    cosh: tuple[float, ...]  # (cosh(r) - 1) / r**2 in r**2


_FORMATS = {
    FLOAT32: _Format(
        overflow=89.5, saturation=10.0, large=2.0 ** 13,
        # relative error 2^-26.18
        sinh=(0.1666654348373413, 0.008366534486413002),
        # relative error 2^-33.24
        cosh=(0.5, 0.041666459292173386, 0.0013935426250100136)),
    FLOAT64: _Format(
        overflow=710.5, saturation=20.0, large=2.0 ** 28,
        # relative error 2^-61.69
        sinh=(0.16666666666666677, 0.008333333333321376, 0.00019841269886867194, 2.7557243376409242e-06,
              2.510935506534125e-08),
        # relative error 2^-70.0
        cosh=(0.5, 0.041666666666666685, 0.0013888888888873283, 2.4801587349202147e-05, 2.755725181960494e-07,
              2.092176996292863e-09)),
}


def _remainder(x: Node) -> tuple[Node, Node]:
    """``x - n * log(2)``, and a word that is ``n + 2 * bias``."""
    f = EXPONENTIAL[x.type]
    n, biased = round_quotient(x, f.log2_e[0], f, 2 * f.bias)
    r = x
    for part in f.log_2:
        r = ops.fma(n, constant(x.type, -part), r)
    return r, biased


def _power_of_two(exponent: Node, type_: int) -> Node:
    """``2**(e - bias)`` from a word e, modulo what does not fit into the exponent."""
    return bitcast(ops.shl(exponent, constant(exponent.type, EXPONENTIAL[type_].mantissa)), type_)


def _hyperbolic(a: Node) -> tuple[Node, Node]:
    """Hyperbolic sine (of the magnitude) and cosine.

    The weights are halved, and the parts of r doubled, since ``2**n / 2`` overflows before the results do.
    """
    f, e, type_ = _FORMATS[a.type], EXPONENTIAL[a.type], a.type
    magnitude = ops.abs(a)
    limit = constant(type_, f.overflow)
    x = ops.select(ops.lt(limit, magnitude), limit, magnitude)
    r, biased = _remainder(x)
    up = _power_of_two(ops.sub(biased, constant(e.word, e.bias + 2)), type_)
    down = _power_of_two(ops.sub(constant(e.word, 3 * e.bias - 2), biased), type_)
    # long before that exponent underflows it does not matter
    down = ops.select(ops.lt(x, constant(type_, 60)), down, constant(type_, 0))
    wide, narrow = ops.add(up, down), ops.sub(up, down)
    z, twice = ops.mul(r, r), ops.add(r, r)
    sine = ops.fma(ops.mul(twice, z), horner(z, f.sinh), twice)  # 2 sinh(r)
    cosine = ops.mul(ops.add(z, z), horner(z, f.cosh))  # 2 (cosh(r) - 1)
    two = constant(type_, 2)
    over, infinity = ops.gt(magnitude, limit), constant(type_, math.inf)
    sinh_value = ops.fma(narrow, two, ops.fma(narrow, cosine, ops.mul(wide, sine)))
    cosh_value = ops.fma(wide, two, ops.fma(wide, cosine, ops.mul(narrow, sine)))
    return ops.select(over, infinity, sinh_value), ops.select(over, infinity, cosh_value)


@elementary
def sinh(a: Node) -> Node:
    """Hyperbolic sine."""
    return with_sign_of(_hyperbolic(a)[0], a)


@elementary
def cosh(a: Node) -> Node:
    """Hyperbolic cosine."""
    return _hyperbolic(a)[1]


def sincosh(a: Node) -> tuple[Node, Node]:
    """Hyperbolic sine and cosine, which share most of their operations."""
    if not is_float(a.type):
        raise UnsupportedType("sincosh", TYPES[a.type].name)
    if COMPUTES_IN[a.type] != a.type:
        sine, cosine = sincosh(cast(a, COMPUTES_IN[a.type]))
        return cast(sine, a.type), cast(cosine, a.type)
    return sinh(a), cosh(a)


@elementary
def tanh(a: Node) -> Node:
    """Hyperbolic tangent."""
    f, e, type_ = _FORMATS[a.type], EXPONENTIAL[a.type], a.type
    magnitude, limit = ops.abs(a), constant(type_, f.saturation)
    x = ops.select(ops.lt(limit, magnitude), limit, magnitude)
    r, biased = _remainder(ops.add(x, x))
    z = ops.mul(r, r)
    q = ops.fma(z, estrin(r, e.exp, z), r)  # exp(r) - 1
    power = _power_of_two(ops.sub(biased, constant(e.word, e.bias)), type_)
    m = ops.fma(power, q, ops.sub(power, constant(type_, 1)))
    return with_sign_of(ops.div(m, ops.add(m, constant(type_, 2))), a)


def slope_of_tanh(a: Node) -> Node:
    """``1 / cosh(a)**2``, in which no digits cancel, as they do in ``1 - tanh(a)**2``.

    Its own derivative is a rule: that of the formula would multiply zeros by infinities far away from 0.
    """
    if a.kind == DUAL:
        return attached(RULES["slope_of_tanh"], slope_of_tanh(primal(a)), a)
    return square(rcp(cosh(a)))


# --- inverse functions -----------------------------------------------------------------------------------------------


def _one_plus(y: Node) -> tuple[Node, Node]:
    """``1 + y`` for ``y >= 0``, and its rounding error."""
    one = constant(y.type, 1)
    total = ops.add(one, y)
    return total, ops.sub(y, ops.sub(total, one))


def _log_of_sum(total: Node, rest: Node, huge: tuple[Node, Node] | None = None) -> Node:
    """``log(total + rest)`` for ``total >= 1`` and a tiny rest.

    Where the mask of ``huge`` is set, ``log(2 x)`` of the other node.  Infinity is up to the caller.
    """
    f, type_ = EXPONENTIAL[total.type], total.type
    carry = ops.div(rest, total)
    doubled: Node | None = None
    if huge is not None:
        mask, x = huge
        zero = constant(type_, 0)
        total, carry = ops.select(mask, x, total), ops.select(mask, zero, carry)
        doubled = ops.select(mask, constant(type_, 1), zero)
    e, m = split(total, f)
    e = e if doubled is None else ops.add(e, doubled)
    value = log_of_mantissa(m, f, ops.fma(e, constant(type_, f.log_2[1]), carry))
    return ops.fma(e, constant(type_, f.log_2[0]), value)  # type: ignore[no-any-return]


@elementary
def asinh(a: Node) -> Node:
    """Inverse hyperbolic sine ``log(a + sqrt(a**2 + 1))``; of ``1 + y``, ``y = a + a**2 / (1 + sqrt(a**2 + 1))``, for
    small a."""
    f, type_, x = _FORMATS[a.type], a.type, ops.abs(a)
    one, infinity = constant(type_, 1), constant(type_, math.inf)
    square = ops.mul(x, x)
    root = ops.sqrt(ops.fma(x, x, one))
    y = ops.add(x, ops.div(square, ops.add(one, root)))
    small, small_rest = _one_plus(y)
    total = ops.add(root, x)
    near = ops.lt(x, one)
    rest = ops.select(near, small_rest, ops.sub(x, ops.sub(total, root)))
    value = _log_of_sum(ops.select(near, small, total), rest, (ops.gt(x, constant(type_, f.large)), x))
    return with_sign_of(ops.select(ops.lt(x, infinity), value, x), a)


@elementary
def acosh(a: Node) -> Node:
    """Inverse hyperbolic cosine; NaN below 1."""
    f, type_ = _FORMATS[a.type], a.type
    one, infinity = constant(type_, 1), constant(type_, math.inf)
    b = ops.sub(a, one)
    y = ops.add(b, ops.sqrt(ops.mul(b, ops.add(a, one))))
    value = _log_of_sum(*_one_plus(y), (ops.gt(a, constant(type_, f.large)), a))
    value = ops.select(ops.lt(a, infinity), value, a)
    return ops.select(ops.lt(a, one), constant(type_, math.nan), value)  # type: ignore[no-any-return]


@elementary
def atanh(a: Node) -> Node:
    """Inverse hyperbolic tangent ``log((1 + a) / (1 - a)) / 2``; NaN beyond 1."""
    type_, x = a.type, ops.abs(a)
    one = constant(type_, 1)
    twice = ops.add(x, x)
    below = ops.sub(one, x)
    y = ops.div(twice, below)
    # what the roundings of 1 - a and of the quotient leave, over 1 - a, which is 1 / (1 + y / 2)
    left = ops.fma(y, ops.sub(x, ops.sub(one, below)), ops.fma(ops.neg(y), below, twice))
    left = ops.fma(left, ops.mul(y, constant(type_, 0.5)), left)
    total, rest = _one_plus(y)
    value = ops.mul(_log_of_sum(total, ops.add(rest, left)), constant(type_, 0.5))
    value = ops.select(ops.eq(x, one), constant(type_, math.inf), value)
    # "not below or equal": NaN stays NaN
    return with_sign_of(ops.select(ops.le(x, one), value, constant(type_, math.nan)), a)
