"""What a block of a kernel leaves of its reductions, to be combined with what others leave: words of 8 bytes.

Each reduction has a word; behind these, on lines of their own, come the *rooms* of those that are matrices, in which
they are added up from the beginning. How long a line is, and how rooms are padded, the target says.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.node import Node
from ..ir.region import all_operands
from ..ops.products import OUTER
from ..types import FLOAT64
from .target import Rooms

__all__ = ["Room", "rooms_of", "words_of"]


class Room:
    """The room of a matrix: a line in which additions are counted; sums of double precision, and of single precision
    those since the last were *flushed*, added to them."""

    def __init__(self, outer: Node, first: int, layout: Rooms) -> None:
        self.rows = outer.attr
        self.columns = len(all_operands(outer)) - 1 - outer.attr
        self.width = _padded(self.columns, layout.columns)
        self.flushed = outer.type != FLOAT64
        self.first = first  # word
        elements = self.rows * self.width
        self.sums = 8 * layout.line  # bytes from the beginning
        self.recent = self.sums + (8 * elements if self.flushed else 0)
        self.words = layout.line + elements + (elements // 2 if self.flushed else 0)


def rooms_of(values: Sequence[Node], layout: Rooms | None) -> dict[int, Room]:
    """The rooms of a kernel's reductions, given what is reduced, by their numbers."""
    rooms: dict[int, Room] = {}
    for number, value in enumerate(values):
        if value.kind == OUTER:
            assert layout is not None
            last = rooms[max(rooms)] if rooms else None
            first = _padded(len(values), layout.line) if last is None else last.first + last.words
            rooms[number] = Room(value, first, layout)
    return rooms


def words_of(reduced: Sequence[Node], layout: Rooms | None) -> int:
    """How many words a block of a kernel with some reductions leaves."""
    rooms = [*rooms_of(reduced, layout).values()]
    return rooms[-1].first + rooms[-1].words if rooms else len(reduced)


def _padded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
