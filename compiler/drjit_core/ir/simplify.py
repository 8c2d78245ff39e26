"""Algebraic simplification while tracing.

Only rewrites that hold for every value of the operands, NaN, infinities and signed zeros included, unless
``JitFlag.FastMath`` is set, which adds what the reference says of it: ``a * 0`` is 0.  Notably ``x + 0`` is ``x`` for
integers, but for floats only with ``-0`` (``-0.0 + 0.0`` is ``0.0``).

A rule receives the namespace of operations and the operands, and returns a node or ``None``.  Rules look at baked
literals only: a literal that is a kernel parameter may have any value the next time the same program runs, and the
program must not depend on it (except where both operands are literals, which folding handles).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..flags import FAST_MATH, state
from ..ops.table import KIND, LITERAL
from ..types import BOOL, IS_FLOAT, TYPES
from .build import literal, resize
from .node import BAKED, Node

__all__ = ["KNOWS_EQUALS", "RULES_OF_ONE", "binary", "ternary", "unary"]

_NEG, _INV, _ABS, _SHR = KIND["neg"], KIND["inv"], KIND["abs"], KIND["shr"]

UnaryRule = Callable[[Any, Node], Node | None]
BinaryRule = Callable[[Any, Node, Node, int], Node | None]
TernaryRule = Callable[[Any, Node, Node, Node, int], Node | None]


def _constant(node: Node) -> Any:
    """The value of a baked literal, else ``None``."""
    return node.payload if node.kind == LITERAL and node.attr == BAKED else None


def _is_negative_zero(value: Any) -> bool:
    return value == 0 and math.copysign(1.0, value) < 0


def _all_ones(node: Node) -> bool:
    info = TYPES[node.type]
    return bool(_constant(node) == (True if info.kind == "b" else -1 if info.kind == "i" else info.maximum))


# --- one operand -----------------------------------------------------------------------------------------------------


def _involution(kind: int) -> UnaryRule:
    return lambda ops, a: a.d0 if a.kind == kind else None


def _idempotent(kind: int) -> UnaryRule:
    return lambda ops, a: a if a.kind == kind else None


def _abs(ops: Any, a: Node) -> Node | None:
    if a.kind == _ABS:
        return a
    if a.kind == _NEG:
        operand = a.d0  # none left if another thread has evaluated the node meanwhile
        return ops.abs(operand) if operand is not None else None
    return None


_UNARY: dict[int, UnaryRule] = {_NEG: _involution(_NEG), _INV: _involution(_INV), _ABS: _abs}
_UNARY.update((KIND[name], _idempotent(KIND[name])) for name in ("ceil", "floor", "trunc", "round"))
#: Kinds of one operand that have a rule.
RULES_OF_ONE = frozenset(_UNARY)


def unary(ops: Any, kind: int, a: Node) -> Node | None:
    """A simpler node for an operation of one operand, if there is one."""
    rule = _UNARY.get(kind)
    return rule(ops, a) if rule is not None else None


# --- two operands ----------------------------------------------------------------------------------------------------


def _add(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    for x, other in ((a, b), (b, a)):
        value = _constant(other)
        if value == 0 and (not IS_FLOAT[x.type] or _is_negative_zero(value)):
            return resize(x, size)
    return None


def _sub(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    value = _constant(b)
    if value == 0 and not (IS_FLOAT[a.type] and _is_negative_zero(value)):
        return resize(a, size)
    if not IS_FLOAT[a.type]:
        if a is b:
            return literal(a.type, 0, size)
        if _constant(a) == 0:
            return _full_size(ops.neg(b), size)
    return None


def _mul(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    for x, other in ((a, b), (b, a)):
        value = _constant(other)
        if value is None:
            continue
        if value == 1:
            return resize(x, size)
        if value == 0 and (not IS_FLOAT[x.type] or state.flags & FAST_MATH):
            return literal(x.type, 0, size)
        if value == -1:
            return _full_size(ops.neg(x), size)
    return None


def _div(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    value = _constant(b)
    if value == 1:
        return resize(a, size)
    return _full_size(ops.neg(a), size) if value == -1 else None


def _floordiv(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    return resize(a, size) if _constant(b) == 1 else None


def _mod(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    return literal(a.type, 0, size) if _constant(b) in (1, -1) else None


def _same(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    return a if a is b else None


def _and(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    if a is b:
        return a
    for x, other in ((a, b), (b, a)):
        if _constant(other) == 0:
            return literal(x.type, 0, size)
        if _all_ones(other):
            return resize(x, size)
    return None


def _or(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    if a is b:
        return a
    for x, other in ((a, b), (b, a)):
        if _constant(other) == 0:
            return resize(x, size)
        if _all_ones(other):
            return literal(x.type, other.payload, size, other.attr)
    return None


def _xor(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    if a is b:
        return literal(a.type, 0, size)
    for x, other in ((a, b), (b, a)):
        if _constant(other) == 0:
            return resize(x, size)
        if _all_ones(other):
            return _full_size(ops.inv(x), size)
    return None


def _shift(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    if _constant(b) == 0:
        return resize(a, size)
    return literal(a.type, 0, size) if _constant(a) == 0 else None


def _rotate(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    count = _constant(b)
    if count is not None and count % TYPES[a.type].bits == 0:
        return resize(a, size)
    return literal(a.type, a.payload, size, a.attr) if _constant(a) == 0 or _all_ones(a) else None


def _reflexive(value: bool) -> BinaryRule:
    """Comparison of a value with itself; NaN forbids it for floats."""
    def rule(ops: Any, a: Node, b: Node, size: int) -> Node | None:
        return literal(BOOL, value, size) if a is b and not IS_FLOAT[a.type] else None
    return rule


def _equal(ops: Any, a: Node, b: Node, size: int) -> Node | None:
    if a.type == BOOL:
        for x, other in ((a, b), (b, a)):
            value = _constant(other)
            if value is not None:
                return _full_size(x if value else ops.inv(x), size)
    return literal(BOOL, True, size) if a is b and not IS_FLOAT[a.type] else None


def _full_size(node: Node, size: int) -> Node | None:
    """The node if it has the full size of the result: a scalar that broadcasts cannot stand for the result."""
    return resize(node, size)


_BINARY: dict[int, BinaryRule] = {KIND[name]: rule for name, rule in {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "div_precise": _div, "floordiv": _floordiv, "mod": _mod,
    "minimum": _same, "maximum": _same, "and_": _and, "or_": _or, "xor": _xor, "shl": _shift, "shr": _shift,
    "rotr": _rotate,
    "eq": _equal, "neq": _reflexive(False), "lt": _reflexive(False), "gt": _reflexive(False),
    "le": _reflexive(True), "ge": _reflexive(True)}.items()}


#: Kinds that have a rule for two operands that are one node: the last two, of three.
KNOWS_EQUALS = frozenset(KIND[name] for name in (
    "sub", "minimum", "maximum", "and_", "or_", "xor", "eq", "neq", "lt", "gt", "le", "ge", "select"))


def binary(ops: Any, kind: int, a: Node, b: Node, size: int) -> Node | None:
    """A simpler node for an operation of two operands, if there is one."""
    if kind == _SHR:  # by far the most frequent one of a literal in generators of random numbers
        return _shift(ops, a, b, size)
    rule = _BINARY.get(kind)
    return rule(ops, a, b, size) if rule is not None else None


# --- three operands --------------------------------------------------------------------------------------------------


_SPECIAL = (0, 1)


def _fma(ops: Any, a: Node, b: Node, c: Node, size: int) -> Node | None:
    if a.payload not in _SPECIAL and b.payload not in _SPECIAL and c.payload not in _SPECIAL:
        return None  # by far the most frequent case: a coefficient of a polynomial
    for x, other in ((a, b), (b, a)):
        value = _constant(other)
        if value == 1:
            return _full_size(ops.add(x, c), size)
        if value == 0 and not IS_FLOAT[x.type]:
            return resize(c, size)
        if value == 0 and state.flags & FAST_MATH:
            return _full_size(ops.add(literal(x.type, 0), c), size)
    if _constant(c) == 0 and (not IS_FLOAT[a.type] or _is_negative_zero(c.payload)):
        return _full_size(ops.mul(a, b), size)
    return None


def _select(ops: Any, mask: Node, a: Node, b: Node, size: int) -> Node | None:
    if mask.kind == LITERAL:
        return resize(a if mask.payload else b, size)
    if a is b:
        return resize(a, size)
    if a.type == BOOL and a.kind == LITERAL and b.kind == LITERAL:
        if a.payload == b.payload:
            return literal(BOOL, a.payload, size)
        return _full_size(mask if a.payload else ops.inv(mask), size)
    return None


_TERNARY: dict[int, TernaryRule] = {KIND["fma"]: _fma, KIND["select"]: _select}


def ternary(ops: Any, kind: int, a: Node, b: Node, c: Node, size: int) -> Node | None:
    """A simpler node for an operation of three operands, if there is one."""
    rule = _TERNARY.get(kind)
    return rule(ops, a, b, c, size) if rule is not None else None
