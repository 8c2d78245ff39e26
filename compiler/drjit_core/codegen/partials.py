"""What a block of a kernel leaves of its reductions, to be combined with what others leave: words of 8 bytes.

Each reduction has a word; behind these, on cache lines of their own, come the *rooms* of those that are matrices, in
which they are added up from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.node import Node
from ..ir.region import all_operands
from ..ops.products import OUTER
from ..types import FLOAT64

__all__ = ["Room", "rooms_of", "words_of"]

#: Words of a cache line.
_LINE = 8
#: Columns of a matrix are padded to a multiple of this, which registers hold a whole number of times.
_COLUMNS = 16


class Room:
    """The room of a matrix: a line in which additions are counted; sums of double precision, and of single precision
    those since the last were *flushed*, added to them."""

    def __init__(self, outer: Node, first: int) -> None:
        self.rows = outer.attr
        self.columns = len(all_operands(outer)) - 1 - outer.attr
        self.width = -(-self.columns // _COLUMNS) * _COLUMNS  # columns, padded
        self.flushed = outer.type != FLOAT64
        self.first = first  # word
        elements = self.rows * self.width
        self.sums = 8 * _LINE  # bytes from the beginning
        self.recent = self.sums + (8 * elements if self.flushed else 0)
        self.words = _LINE + elements + (elements // 2 if self.flushed else 0)


def rooms_of(values: Sequence[Node]) -> dict[int, Room]:
    """The rooms of a kernel's reductions, given what is reduced, by their numbers."""
    rooms: dict[int, Room] = {}
    first = _lines(len(values))
    for number, value in enumerate(values):
        if value.kind == OUTER:
            rooms[number] = Room(value, first)
            first += rooms[number].words
    return rooms


def words_of(values: Iterable[Node]) -> int:
    """How many words a block of a kernel with some reductions leaves."""
    reduced = [*values]
    rooms = [*rooms_of(reduced).values()]
    return rooms[-1].first + rooms[-1].words if rooms else len(reduced)


def _lines(words: int) -> int:
    return -(-words // _LINE) * _LINE
