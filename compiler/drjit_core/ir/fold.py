"""Constant folding: operations whose operands are all literals are computed while tracing."""

from __future__ import annotations

import math

from ..ops.table import Op
from ..types import TYPES
from .build import BAKED_VALUES, literal
from .expansion import context
from .node import BAKED, SHAPE, Node

__all__ = ["attribute", "binary", "ternary", "unary"]


def attribute(*operands: Node) -> int | None:
    """Class of a literal computed from others: baked from baked ones, a shape from any shape, else by its value.

    Those that are baked for their value alone (0, 1, -1) make no others baked, but in expansions: a counter that starts
    at zero would otherwise be another program in each iteration.
    """
    if any(node.attr == SHAPE for node in operands):
        return SHAPE
    if any(node.attr != BAKED for node in operands):
        return None
    return None if context.branches == "both" and all(node.payload in BAKED_VALUES for node in operands) else BAKED


def unary(op: Op, a: Node, type_: int) -> Node:
    """The literal that an operation of one literal yields."""
    assert op.fold is not None
    value = op.fold(a.payload, TYPES[a.type]) if op.typed else op.fold(a.payload)
    return literal(type_, value, a.size, attribute(a))


def binary(op: Op, a: Node, b: Node, type_: int, size: int) -> Node:
    """The literal that an operation of two literals yields."""
    assert op.fold is not None
    try:
        value = op.fold(a.payload, b.payload, TYPES[b.type]) if op.typed else op.fold(a.payload, b.payload)
    except OverflowError:  # a double-precision product or sum of finite numbers
        value = math.inf
    return literal(type_, value, size, attribute(a, b))


def ternary(op: Op, a: Node, b: Node, c: Node, type_: int, size: int) -> Node:
    """The literal that an operation of three literals yields."""
    assert op.fold is not None
    arguments = (a.payload, b.payload, c.payload)
    value = op.fold(*arguments, TYPES[c.type]) if op.typed else op.fold(*arguments)
    return literal(type_, value, size, attribute(a, b, c))
