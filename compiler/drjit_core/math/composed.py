"""Functions that are a few operations, traced as these at once: no row of the graph stands for them.

Their meaning and documentation is in :mod:`drjit_core.ops.composed`.  Those of two results and the reciprocals are in
the modules of the functions that they belong to.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..errors import UnsupportedType
from ..ir.build import broadcast_size, literal, resize, sized_by
from ..ir.dual import attached, primal
from ..ir.node import BAKED, Node
from ..ir.trace import bitcast, gather, ops, square
from ..ops.derivatives import RULES
from ..ops.table import DUAL
from ..types import BOOL, TYPES, UINT16, UINT32, UINT64
from .inverse import acos, asin

__all__ = ["abs", "clamp", "clip", "copysign", "fmax", "fmin", "isfinite", "isinf", "isnan", "lerp", "log2i", "mulsign",
           "safe_acos", "safe_asin", "safe_sqrt", "scaled", "sign", "square"]

_WORDS = {2: UINT16, 4: UINT32, 8: UINT64}  # by the bytes of a floating-point number


def _kind_of_number(node: Node, name: str) -> str:
    """The type class of a node; raises for masks."""
    info = TYPES[node.type]
    if info.kind == "b":
        raise UnsupportedType(name, info.name)
    return info.kind


def _as_wide_as(a: Node, b: Node, name: str) -> Node:
    """The first of two nodes, repeated if the second one has more elements."""
    size = broadcast_size(name, a, b)
    resized = resize(a, size)
    if resized is not None:
        return sized_by(resized, a, b)
    return gather(a, sized_by(literal(UINT32, 0, size), b), literal(BOOL, True))


# --- signs -----------------------------------------------------------------------------------------------------------


def abs(a: Node) -> Node:
    """Absolute value of any number; unsigned ones are their own."""
    return a if TYPES[a.type].kind == "u" else ops.abs(a)


def sign(a: Node) -> Node:
    """1 where a number is not negative, else -1."""
    if _kind_of_number(a, "sign") == "u":
        return sized_by(literal(a.type, 1, a.size), a)
    return ops.select(ops.ge(a, literal(a.type, 0)), literal(a.type, 1), literal(a.type, -1))  # type: ignore[no-any-return]


def copysign(a: Node, b: Node) -> Node:
    """The magnitude of a number with the sign of another."""
    kind = _kind_of_number(a, "copysign")
    if kind == "u":
        return _as_wide_as(a, b, "copysign")
    if a.kind == DUAL or b.kind == DUAL:
        return attached(RULES["copysign"], copysign(primal(a), primal(b)), a, b)
    if kind == "i":
        magnitude = ops.abs(a)
        return ops.select(ops.ge(b, literal(b.type, 0)), magnitude, ops.neg(magnitude))  # type: ignore[no-any-return]
    word = _WORDS[TYPES[a.type].size]
    bit = literal(word, 1 << (TYPES[word].bits - 1), 1, BAKED)
    return bitcast(ops.or_(bitcast(ops.abs(a), word), ops.and_(bitcast(b, word), bit)), a.type)


def mulsign(a: Node, b: Node) -> Node:
    """A number, negated where another is negative."""
    if _kind_of_number(a, "mulsign") == "u":
        return _as_wide_as(a, b, "mulsign")
    return ops.select(ops.ge(b, literal(b.type, 0)), a, ops.neg(a))  # type: ignore[no-any-return]


# --- smaller and larger numbers --------------------------------------------------------------------------------------


def fmin(a: Node, b: Node) -> Node:
    """Smaller of two numbers, either of which is preferred to NaN."""
    if TYPES[a.type].kind != "f":
        return ops.minimum(a, b)  # type: ignore[no-any-return]
    return ops.select(ops.or_(ops.le(a, b), ops.neq(b, b)), a, b)  # type: ignore[no-any-return]


def fmax(a: Node, b: Node) -> Node:
    """Larger of two numbers, either of which is preferred to NaN."""
    if TYPES[a.type].kind != "f":
        return ops.maximum(a, b)  # type: ignore[no-any-return]
    return ops.select(ops.or_(ops.ge(a, b), ops.neq(b, b)), a, b)  # type: ignore[no-any-return]


def clip(value: Node, low: Node, high: Node) -> Node:
    """A number brought into an interval; the lower end counts if that is empty."""
    return ops.maximum(ops.minimum(value, high), low)  # type: ignore[no-any-return]


clamp = clip


def scaled(a: Node, factor: Node) -> Node:
    """The product with one number, which goes with an array without elements as well."""
    return ops.mul(a, factor) if a.size else a


def lerp(a: Node, b: Node, t: Node) -> Node:
    """``(1 - t) * a + t * b``."""
    return ops.fma(b, t, ops.fma(ops.neg(a), t, a))  # type: ignore[no-any-return]


# --- arguments that leave the domain by a rounding error --------------------------------------------------------------


def safe_sqrt(a: Node) -> Node:
    """The square root of a number or zero, whichever is larger."""
    if a.kind == DUAL:
        return attached(RULES["safe_sqrt"], safe_sqrt(primal(a)), a)
    return ops.sqrt(ops.maximum(a, literal(a.type, 0)) if a.size else a)  # type: ignore[no-any-return]


def safe_asin(a: Node) -> Node:
    """The arcsine of a number clipped to the domain."""
    return _in_domain("safe_asin", asin, a)


def safe_acos(a: Node) -> Node:
    """The arccosine of a number clipped to the domain."""
    return _in_domain("safe_acos", acos, a)


def _in_domain(name: str, function: Callable[[Node], Node], a: Node) -> Node:
    if a.kind == DUAL:
        return attached(RULES[name], _in_domain(name, function, primal(a)), a)
    return function(clip(a, literal(a.type, -1), literal(a.type, 1)) if a.size else a)


# --- bits, classes of numbers ----------------------------------------------------------------------------------------


def log2i(a: Node) -> Node:
    """Position of the highest one bit."""
    zeros = ops.lzcnt(a)
    return ops.sub(literal(a.type, TYPES[a.type].bits - 1), zeros) if a.size else zeros  # type: ignore[no-any-return]


def isnan(a: Node) -> Node:
    """Whether numbers are NaN."""
    if TYPES[a.type].kind != "f":
        return sized_by(literal(BOOL, False, a.size), a)
    return ops.neq(a, a)  # type: ignore[no-any-return]


def isinf(a: Node) -> Node:
    """Whether numbers are infinite."""
    if TYPES[a.type].kind != "f":
        return sized_by(literal(BOOL, False, a.size), a)
    return ops.eq(ops.abs(a), literal(a.type, math.inf) if a.size else a)  # type: ignore[no-any-return]


def isfinite(a: Node) -> Node:
    """Whether numbers are neither infinite nor NaN."""
    if TYPES[a.type].kind != "f":
        return sized_by(literal(BOOL, True, a.size), a)
    return ops.lt(ops.abs(a), literal(a.type, math.inf) if a.size else a)  # type: ignore[no-any-return]
