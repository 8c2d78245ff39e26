"""Rows of an array: what is read or written at ``index * n + k`` for several ``k``, the same for all else.

The components of a nested array that lie side by side in memory are accesses of their own in the graph. Where their
positions are known to be neighbours (``n`` and ``k`` are part of the program), they become one access to a piece of a
row, of up to 16 bytes, for each element; which pieces there are follows from the program alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..ir.node import BAKED, Node
from ..ops.table import GATHER, KIND, LITERAL
from ..types import BOOL, TYPES

__all__ = ["MOST", "Piece", "Place", "pieces_of", "place_in_row"]

#: Rows of more elements are accessed element by element.
MOST = 64
#: Bytes of the longest piece.
_PIECE = 16
_ADD, _MUL = KIND["add"], KIND["mul"]


class Place(NamedTuple):
    """A position in a row: ``first + offset``, where ``first`` is the row's number times its length."""

    first: Node
    length: int
    offset: int


class Piece(NamedTuple):
    """Neighbours in a row that are accessed together: the offset of the first one, their number, and the accesses of
    those that are wanted, by offset."""

    start: int
    count: int
    accesses: dict[int, Node]


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
    if found is None or not 0 <= offset < found[1] <= MOST:
        return None
    return Place(first, found[1], offset)


def _with_literal(node: Node) -> tuple[Node, int] | None:
    """The operand of a sum or a product besides one that is part of the program."""
    for literal, other in ((node.d1, node.d0), (node.d0, node.d1)):
        if literal is not None and other is not None and literal.kind == LITERAL and literal.attr == BAKED:
            return other, int(literal.payload)
    return None


def pieces_of(nodes: Iterable[Node]) -> dict[int, Piece]:
    """The pieces that reads among some nodes are parts of, by the ids of the first read of each."""
    rows: dict[tuple[int, ...], tuple[int, dict[int, Node]]] = {}
    for node in nodes:
        if node.kind != GATHER or node.type == BOOL or TYPES[node.type].size < 4 or node.scope and node.d3 is None:
            continue
        assert node.d0 is not None and node.d1 is not None and node.d2 is not None
        place = place_in_row(node.d1)
        if place is not None:
            row = (node.d0.id, place.first.id, place.length, node.d2.id, 0 if node.d3 is None else node.d3.id)
            rows.setdefault(row, (place.length, {}))[1].setdefault(place.offset, node)
    pieces: dict[int, Piece] = {}
    for length, accesses in rows.values():
        size = TYPES[next(iter(accesses.values())).type].size
        for start, count in pieces_in(length, size):
            wanted = {offset: node for offset, node in accesses.items() if start <= offset < start + count}
            if len(wanted) > 1:
                pieces[next(iter(wanted.values())).id] = Piece(start, count, wanted)
    return pieces


def pieces_in(length: int, size: int) -> list[tuple[int, int]]:
    """First elements and lengths of the pieces of a row: powers of two, the longest ones first."""
    found, start, count = [], 0, _PIECE // size
    while start < length:
        while count > length - start:
            count //= 2
        found.append((start, count))
        start += count
    return found
