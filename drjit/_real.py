"""Arithmetic of real components, for the functions of complex numbers, quaternions and matrices.

Those functions are written over nodes, one per component, and for any precision; this module has what they need beyond
the rows of the op table: constants, the sign bit, scaling that keeps squares in range, and functions of reals that are
accurate where the plain combination of others cancels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import BAKED, Node, cast, literal, ops

from ._types import FLOAT16, FLOAT32, FLOAT64, UINT32, UINT64

__all__ = ["asinh", "atan2", "both", "constant", "copysign", "either", "finite", "flip", "in_single", "infinite",
           "log1p_factor", "norm", "scaled", "sincosh"]

both, either = getattr(ops, "and"), getattr(ops, "or")


class _Range(NamedTuple):
    """Where squares of a precision stay in range: outside, values are multiplied by even powers of two."""

    word: int  # unsigned type of the same size
    sign: int  # its sign bit
    large: float  # above: times ``down``
    down: float
    small: float  # below: times ``up``
    up: float
    steep: float  # hyperbolic functions of more than this are computed of ``steep / 2`` less


_RANGES = {
    FLOAT32: _Range(UINT32, 1 << 31, 2.0**62, 2.0**-66, 2.0**-50, 2.0**100, 80.0),
    FLOAT64: _Range(UINT64, 1 << 63, 2.0**510, 2.0**-600, 2.0**-450, 2.0**700, 700.0),
}


def constant(like: Node, value: float) -> Node:
    """A constant of the precision of a node, part of the program."""
    return literal(like.type, value, 1, BAKED)


def in_single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compute a function of component lists in single precision where they are of half precision."""

    @functools.wraps(function)
    def compute(*args: Any) -> Any:
        if isinstance(args[0], Sequence) and args[0][0].type == FLOAT16:
            result = function(*([cast(n, FLOAT32) for n in arg] if isinstance(arg, Sequence) else arg for arg in args))
            return _to_half(result)
        return function(*args)

    return compute


def _to_half(result: Any) -> Any:
    if isinstance(result, Node):
        return cast(result, FLOAT16)
    return type(result)(map(_to_half, result))


# --- signs and classes -----------------------------------------------------------------------------------------------


def copysign(magnitude: Node, sign: Node) -> Node:
    """``magnitude``, which is not negative, with the sign of ``sign``, that of zero included."""
    bit = both(core.bitcast(sign, _RANGES[sign.type].word), literal(_RANGES[sign.type].word, _RANGES[sign.type].sign))
    return core.bitcast(either(core.bitcast(magnitude, _RANGES[sign.type].word), bit), magnitude.type)


def flip(value: Node, sign: Node) -> Node:
    """``value``, negated where ``sign`` has its sign bit set."""
    word = _RANGES[sign.type].word
    bit = both(core.bitcast(sign, word), literal(word, _RANGES[sign.type].sign))
    return core.bitcast(ops.xor(core.bitcast(value, word), bit), value.type)


def infinite(value: Node) -> Node:
    """The mask of infinities."""
    return ops.eq(ops.abs(value), constant(value, float("inf")))  # type: ignore[no-any-return]


def finite(value: Node) -> Node:
    """The mask of finite values."""
    return ops.lt(ops.abs(value), constant(value, float("inf")))  # type: ignore[no-any-return]


# --- norms -----------------------------------------------------------------------------------------------------------


class Scaled(NamedTuple):
    """Components times a power of two that keeps their squares in range."""

    components: list[Node]
    large: Node  # mask: multiplied by ``down``
    small: Node  # mask: multiplied by ``up``
    limits: _Range

    def choose(self, down: float, up: float, one: float = 1.0) -> Node:
        """A constant for each of the three cases."""
        like = self.components[0]
        return ops.select(self.large, constant(like, down),  # type: ignore[no-any-return]
                          ops.select(self.small, constant(like, up), constant(like, one)))

    def unscale(self) -> Node:
        """What undoes the scaling."""
        return self.choose(1 / self.limits.down, 1 / self.limits.up)

    def square(self) -> Node:
        """Sum of the squares of the scaled components."""
        first, *rest = self.components
        result = ops.mul(first, first)
        for node in rest:
            result = ops.fma(node, node, result)
        return result  # type: ignore[no-any-return]


def scaled(components: Sequence[Node]) -> Scaled:
    """Components brought to where their squares neither overflow nor underflow; NaN and infinity stay."""
    limits = _RANGES[components[0].type]
    largest = functools.reduce(ops.maximum, map(ops.abs, components))
    large = ops.gt(largest, constant(largest, limits.large))
    small = ops.lt(largest, constant(largest, limits.small))
    factor = ops.select(large, constant(largest, limits.down),
                        ops.select(small, constant(largest, limits.up), constant(largest, 1)))
    return Scaled([ops.mul(node, factor) for node in components], large, small, limits)


def norm(components: Sequence[Node]) -> Node:
    """Euclidean norm without intermediate overflow or underflow; infinite if a component is, even beside NaN."""
    if len(components) == 1:
        return ops.abs(components[0])  # type: ignore[no-any-return]
    values = scaled(components)
    result = ops.mul(ops.sqrt(values.square()), values.unscale())
    unbounded = functools.reduce(either, map(infinite, components))
    return ops.select(unbounded, constant(result, float("inf")), result)  # type: ignore[no-any-return]


# --- functions of reals ----------------------------------------------------------------------------------------------


def log1p_factor(u: Node) -> tuple[Node, Node]:
    """``(w, c)`` such that ``log(1 + u) = log(w) * c`` without loss for small ``u``.

    ``w = fl(1 + u)`` and ``c = u / (w - 1)`` corrects for the rounding (Kahan; Theorem 4 of D. Goldberg, *What every
    computer scientist should know about floating-point arithmetic*, 1991). Where w is 1, log(w) is replaced: c is 0 and
    the caller adds ``u``; see :func:`log1p`.
    """
    one = constant(u, 1)
    w = ops.add(one, u)
    return w, ops.div(u, ops.sub(w, one))


def log1p(u: Node) -> Node:
    """``log(1 + u)``."""
    w, factor = log1p_factor(u)
    value = ops.select(infinite(u), u, ops.mul(core.log(w), factor))
    return ops.select(ops.eq(w, constant(u, 1)), u, value)  # type: ignore[no-any-return]


def asinh(t: Node) -> Node:
    """Inverse hyperbolic sine, ``log(t + sqrt(1 + t**2))``, of any real number."""
    if hasattr(core, "asinh"):
        return core.asinh(t)  # type: ignore[no-any-return]
    a, one = ops.abs(t), constant(t, 1)
    huge = ops.gt(a, constant(t, 2.0**30))
    b = ops.select(huge, one, a)
    square = ops.mul(b, b)
    small = log1p(ops.add(b, ops.div(square, ops.add(one, ops.sqrt(ops.add(one, square))))))
    large = ops.add(core.log(a), constant(t, 0.6931471805599453))
    return copysign(ops.select(huge, large, small), t)


def sincosh(x: Node) -> tuple[Node, Node, Node]:
    """``(s, c, f)`` with ``sinh x = s f`` and ``cosh x = c f``, where s and c do not overflow: ``f`` is 1 or large."""
    limits = _RANGES[x.type]
    a = ops.abs(x)
    steep = both(ops.gt(a, constant(x, limits.steep)), finite(x))
    half, one = limits.steep / 2, constant(x, 1)
    a = ops.select(steep, ops.sub(a, constant(x, half)), a)
    factor = ops.select(steep, constant(x, _exp(half)), one)
    if hasattr(core, "sincosh"):
        s, c = core.sincosh(a)
    else:
        e = core.exp(a)
        r = ops.div(one, e)
        c = ops.mul(constant(x, 0.5), ops.add(e, r))
        square = ops.mul(a, a)
        series = constant(x, 1 / 6227020800.0)
        for k in (39916800, 362880, 5040, 120, 6):
            series = ops.fma(series, square, constant(x, 1.0 / k))
        series = ops.fma(ops.mul(series, square), a, a)
        s = ops.select(ops.lt(a, one), series, ops.mul(constant(x, 0.5), ops.sub(e, r)))
    return copysign(s, x), c, factor


def _exp(value: float) -> float:
    import math

    return math.exp(value)


def atan2(y: Node, x: Node) -> Node:
    """Angle of the point ``(x, y)`` with the axis, from -pi to pi, with the signs of zeros as C99 has them."""
    if hasattr(core, "atan2"):
        return core.atan2(y, x)  # type: ignore[no-any-return]
    return _atan2(y, x)


def _atan2(y: Node, x: Node) -> Node:
    """The arctangent of Cephes in single precision, corrected by one step with sine and cosine."""
    one = constant(x, 1)
    unbounded = both(infinite(x), infinite(y))
    p, q = ops.abs(x), ops.abs(y)
    p, q = ops.select(unbounded, one, p), ops.select(unbounded, one, q)
    swap = ops.gt(q, p)
    low, high = ops.select(swap, p, q), ops.select(swap, q, p)
    t = ops.select(ops.eq(high, constant(x, 0)), high, ops.div(low, high))
    t = ops.select(ops.eq(high, constant(x, float("inf"))), constant(x, 0), t)
    upper = ops.gt(t, constant(x, 0.4142135623730950))
    r = ops.select(upper, ops.div(ops.sub(t, one), ops.add(t, one)), t)
    z = ops.mul(r, r)
    poly = constant(x, 8.05374449538e-2)
    for value in (-1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1):
        poly = ops.fma(poly, z, constant(x, value))
    angle = ops.add(ops.fma(ops.mul(poly, z), r, r),
                    ops.select(upper, constant(x, 0.7853981633974483), constant(x, 0)))
    s, c = core.sincos(angle)
    delta = ops.div(ops.fma(t, c, ops.neg(s)), ops.fma(t, s, c))
    angle = ops.add(angle, delta)
    angle = ops.select(ops.eq(t, ops.mul(t, constant(x, 0))), t, angle)
    angle = ops.select(swap, ops.sub(constant(x, 1.5707963267948966), angle), angle)
    negative = ops.lt(copysign(one, x), constant(x, 0))
    angle = ops.select(negative, ops.sub(constant(x, 3.141592653589793), angle), angle)
    return copysign(angle, y)
