"""Constant folding: operations whose operands are all literals are computed while tracing, and remembered a while."""

from __future__ import annotations

import math
from typing import Any

from ..context import current
from ..ops import semantics
from ..ops.table import CAST, OPS
from ..types import TYPES
from .build import BAKED_VALUES, held_literals, literal
from .node import BAKED, SHAPE, Node
from .number import number, recent_literals

__all__ = ["attribute", "fold1", "fold2", "fold3", "fold_cast", "kept_literals"]

#: Results by the kind of the operation, the serial numbers of up to three operands, and whether these are those of an
#: expansion (see :func:`attribute`): those that were computed since the table was last emptied.
_results: dict[tuple[int, int, int, int, bool], Node] = {}
_MOST_RESULTS = 4096


def attribute(a: Node, b: Node | None = None, c: Node | None = None) -> int | None:
    """Class of a literal computed from others: baked from baked ones, a shape from any shape, else by its value.

    Those that are baked for their value alone (0, 1, -1) make no others baked, but in expansions: a counter that starts
    at zero would otherwise be another program in each iteration.
    """
    baked, plain = True, True
    for node in (a, b, c):
        if node is not None:
            if node.attr == SHAPE:
                return SHAPE
            baked = baked and node.attr == BAKED
            plain = plain and node.payload in BAKED_VALUES
    return BAKED if baked and not (plain and current().branches == "both") else None


def fold1(kind: int, a: Node, type_: int) -> Node:
    """The literal that an operation of one literal yields."""
    key = kind, a.id, 0, 0, current().branches == "both"
    node = _results.get(key)
    if node is not None:
        return node
    op = OPS[kind]
    assert op.fold is not None
    value = op.fold(a.payload, TYPES[a.type]) if op.typed else op.fold(a.payload)
    return _remembered(key, type_, value, a.size, attribute(a))


def fold2(kind: int, a: Node, b: Node, type_: int, size: int) -> Node:
    """The literal that an operation of two literals yields."""
    key = kind, a.id, b.id, 0, current().branches == "both"
    node = _results.get(key)
    if node is not None:
        return node
    op = OPS[kind]
    assert op.fold is not None
    try:
        value = op.fold(a.payload, b.payload, TYPES[b.type]) if op.typed else op.fold(a.payload, b.payload)
    except OverflowError:  # a double-precision product or sum of finite numbers
        value = math.inf
    return _remembered(key, type_, value, size, attribute(a, b))


def fold3(kind: int, a: Node, b: Node, c: Node, type_: int, size: int) -> Node:
    """The literal that an operation of three literals yields."""
    key = kind, a.id, b.id, c.id, current().branches == "both"
    node = _results.get(key)
    if node is not None:
        return node
    op = OPS[kind]
    assert op.fold is not None
    arguments = (a.payload, b.payload, c.payload)
    value = op.fold(*arguments, TYPES[c.type]) if op.typed else op.fold(*arguments)
    return _remembered(key, type_, value, size, attribute(a, b, c))


def fold_cast(a: Node, type_: int) -> Node:
    """The literal that conversion of a literal to another type yields."""
    key = CAST, a.id, type_, 0, current().branches == "both"
    node = _results.get(key)
    if node is not None:
        return node
    return _remembered(key, type_, semantics.cast(a.payload, TYPES[a.type], TYPES[type_]), a.size, attribute(a))


def _remembered(key: tuple[int, int, int, int, bool], type_: int, value: Any, size: int, attr: int | None) -> Node:
    node = number(type_, value) if size == 1 and attr is None else None
    if node is None:
        node = literal(type_, value, size, attr)
    if len(_results) >= _MOST_RESULTS:
        _results.clear()
    _results[key] = node
    return node


def kept_literals() -> int:
    """How many literals the compiler holds, so that they are there when they are asked for again."""
    return len({node.id for node in (*held_literals(), *recent_literals(), *_results.values())})
