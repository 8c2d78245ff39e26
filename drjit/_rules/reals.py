"""Arithmetic of real components, for the functions of complex numbers, quaternions and matrices.

Those functions are written over nodes, one per component, and for any precision; this module has what they need beyond
the rows of the op table: constants, the sign bit, scaling that keeps squares in range, and functions of reals that are
accurate where the plain combination of others cancels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import BAKED, COMPUTES_IN, KIND, RULES, Node, attached, cast, literal, ops, primal

from .._base.types import FLOAT32, FLOAT64, UINT32, UINT64

__all__ = ["both", "constant", "copysign", "either", "finite", "flip", "in_single", "infinite", "largest",
           "length", "log1p_factor", "norm", "scaled", "sincosh", "with_derivative_of"]

_DUAL, _LENGTH = KIND["dual"], RULES["length"]
both, either = ops.and_, ops.or_


class _Range(NamedTuple):
    """Where squares of a precision stay in range: outside, values are multiplied by even powers of two."""

    word: int  # unsigned type of the same size
    sign: int  # its sign bit
    large: float  # above: times ``down``
    down: float
    small: float  # below: times ``up``
    up: float
    most: float  # this and its inverse are normal numbers, and so are their inverses
    steep: float  # hyperbolic functions of more than this are computed of ``steep / 2`` less


_RANGES = {
    FLOAT32: _Range(UINT32, 1 << 31, 2.0**62, 2.0**-66, 2.0**-50, 2.0**100, 2.0**126, 80.0),
    FLOAT64: _Range(UINT64, 1 << 63, 2.0**510, 2.0**-600, 2.0**-450, 2.0**700, 2.0**1022, 700.0),
}


def constant(like: Node, value: float) -> Node:
    """A constant of the precision of a node, part of the program."""
    return literal(like.type, value, 1, BAKED)


def in_single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compute a function of component lists in single precision where they are of half precision."""

    @functools.wraps(function)
    def compute(*args: Any) -> Any:
        if isinstance(args[0], Sequence):
            type_ = args[0][0].type
            wide = COMPUTES_IN[type_]
            if wide != type_:
                return _rounded(type_, function(*([cast(n, wide) for n in arg] if isinstance(arg, Sequence) else arg
                                                  for arg in args)))
        return function(*args)

    return compute


def _rounded(type_: int, result: Any) -> Any:
    if isinstance(result, Node):
        return cast(result, type_)
    return type(result)(_rounded(type_, part) for part in result)


# --- signs and classes -----------------------------------------------------------------------------------------------


def copysign(magnitude: Node, sign: Node) -> Node:
    """``magnitude``, which is not negative, with the sign of ``sign``, that of zero included."""
    assert magnitude.kind != _DUAL  # functions made of this have derivatives as a whole
    bit = both(core.bitcast(sign, _RANGES[sign.type].word), literal(_RANGES[sign.type].word, _RANGES[sign.type].sign))
    return core.bitcast(either(core.bitcast(magnitude, _RANGES[sign.type].word), bit), magnitude.type)


def flip(value: Node, sign: Node) -> Node:
    """``value``, negated where ``sign`` has its sign bit set."""
    assert value.kind != _DUAL  # likewise
    word = _RANGES[sign.type].word
    bit = both(core.bitcast(sign, word), literal(word, _RANGES[sign.type].sign))
    return core.bitcast(ops.xor(core.bitcast(value, word), bit), value.type)


def with_derivative_of(node: Node, value: Node) -> Node:
    """A value with the derivative of something that is equal but for special cases."""
    return attached(RULES["add"], value, node) if node.kind == _DUAL else value


def infinite(value: Node) -> Node:
    """The mask of infinities."""
    return ops.eq(ops.abs(value), constant(value, math.inf))  # type: ignore[no-any-return]


def finite(value: Node) -> Node:
    """The mask of finite values."""
    return ops.lt(ops.abs(value), constant(value, math.inf))  # type: ignore[no-any-return]


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


def largest(values: Sequence[Node]) -> Node:
    """The largest of some absolute values, or what is next to it that has an inverse, as a constant."""
    found = functools.reduce(ops.maximum, map(ops.abs, map(primal, values)))
    most = _RANGES[found.type].most
    below = ops.minimum(found, constant(found, most))
    return ops.maximum(below, constant(found, 1 / most))  # type: ignore[no-any-return]


def length(square: Node) -> Node:
    """The square root of a sum of squares, whose derivative is 0 where all of them are."""
    root: Node = ops.sqrt(primal(square))
    return root if square.kind != _DUAL else attached(_LENGTH, root, square)


def norm(components: Sequence[Node]) -> Node:
    """Euclidean norm without intermediate overflow or underflow; infinite if a component is, even beside NaN."""
    if len(components) == 1:
        return ops.abs(components[0])  # type: ignore[no-any-return]
    if len(components) == 2:
        return core.hypot(*components)
    first = [primal(node) for node in components]
    values = scaled(first)
    found = ops.mul(length(values.square()), values.unscale())
    unbounded = functools.reduce(either, map(infinite, first))
    found = ops.select(unbounded, constant(found, math.inf), found)
    if not any(node.kind == _DUAL for node in components):
        return found  # type: ignore[no-any-return]
    # derivatives go through squares of numbers about one: those of large and small ones would be out of range
    unit = largest(first)
    parts = [ops.div(node, unit) for node in components]
    square = ops.mul(parts[0], parts[0])
    for part in parts[1:]:
        square = ops.fma(part, part, square)
    return with_derivative_of(ops.select(unbounded, constant(unit, 0), ops.mul(length(square), unit)), found)


# --- functions of reals ----------------------------------------------------------------------------------------------


def log1p_factor(u: Node) -> tuple[Node, Node]:
    """``(w, c)`` such that ``log(1 + u) = log(w) * c`` without loss for small ``u``.

    ``w = fl(1 + u)`` and ``c = u / (w - 1)`` corrects for the rounding (Kahan; Theorem 4 of D. Goldberg, *What every
    computer scientist should know about floating-point arithmetic*, 1991). Where w is 1 the logarithm is ``u``, which
    is for the caller to see to.
    """
    one = constant(u, 1)
    w = ops.add(one, u)
    return w, ops.div(u, ops.sub(w, one))


def sincosh(x: Node) -> tuple[Node, Node, Node]:
    """``(s, c, f)`` with ``sinh x = s f`` and ``cosh x = c f``, where s and c do not overflow: ``f`` is 1 or large."""
    limits = _RANGES[x.type]
    a = ops.abs(x)
    steep = both(ops.gt(a, constant(x, limits.steep)), finite(x))
    half, one = limits.steep / 2, constant(x, 1)
    a = ops.select(steep, ops.sub(a, constant(x, half)), a)
    factor = ops.select(steep, constant(x, math.exp(half)), one)
    s, c = core.sincosh(a)
    return copysign(s, x), c, factor
