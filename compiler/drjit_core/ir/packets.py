"""Rows of an array: positions ``index * n + k``, where ``n`` and ``k`` are part of the program.

Such are the components of a nested array that lie side by side in a flat one. Reads may also go beyond the end of such
a row, or begin anywhere: at ``index`` and ``index + 1``.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ops.table import KIND, LITERAL
from .node import BAKED, Node

__all__ = ["LONGEST_ROW", "Place", "are_in_rows", "place_among_neighbours", "place_in_row"]

#: Rows of more elements are read and written element by element.
LONGEST_ROW = 64
_ADD, _MUL = KIND["add"], KIND["mul"]


class Place(NamedTuple):
    """A position in a row: ``first + offset``, where ``first`` is the row's number times its length."""

    first: Node
    length: int
    offset: int


def place_in_row(index: Node) -> Place | None:
    """What an index is in terms of rows, if it says so."""
    offset, first = 0, index
    if index.kind == _ADD:
        found = _with_literal(index)
        if found is None:
            return None
        first, offset = found
    if first.kind != _MUL:
        return None
    found = _with_literal(first)
    if found is None or not 0 <= offset < found[1]:
        return None
    return Place(first, found[1], offset)


def place_among_neighbours(index: Node) -> Place:
    """What an index is in terms of what it is computed from: a row of a length that is 0 if none is known, and an
    offset, which may lie beyond the end."""
    offset, first = 0, index
    if index.kind == _ADD:
        found = _with_literal(index)
        if found is not None and 0 <= found[1] <= LONGEST_ROW:
            first, offset = found
    row = _with_literal(first) if first.kind == _MUL else None
    return Place(first, row[1] if row is not None and 0 < row[1] <= LONGEST_ROW else 0, offset)


def _with_literal(node: Node) -> tuple[Node, int] | None:
    """The operand of a sum or a product besides one that is part of the program."""
    for literal, other in ((node.d1, node.d0), (node.d0, node.d1)):
        if literal is not None and other is not None and literal.kind == LITERAL and literal.attr == BAKED:
            return other, int(literal.payload)
    return None


def are_in_rows(one: Node, other: Node) -> bool:
    """Whether two indices are positions in the same row for each element: in different places of it, or in one."""
    if one is other:
        return True
    place, second = place_in_row(one), place_in_row(other)
    return place is not None and second is not None and place.first is second.first and place.length == second.length
