"""Rows of an array: what is read or written at ``index * n + k`` for several ``k``, the same for all else.

The components of a nested array that lie side by side in memory are accesses of their own in the graph. Where their
positions are known to be neighbours (``n`` and ``k`` are part of the program), they become one access to a piece of a
row, for each element; which pieces there are follows from the program and the target alone. Reads at ``index + k`` are
such as well if there is one for each ``k`` from 0 on, or from the end of the row on: all that is read has been asked
for, or belongs to a row of which something has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..ir.node import Node
from ..ir.packets import LONGEST_ROW, place_among_neighbours, place_in_row
from ..ir.region import is_local
from ..ops.table import GATHER
from ..types import BOOL, TYPES, ReduceMode, ReduceOp
from .target import ATOMIC, Target

__all__ = ["Piece", "added_pieces", "pieces_of", "written_pieces"]


class Piece(NamedTuple):
    """Neighbours in a row that are accessed together."""

    row: int  # number of elements of the row
    start: int  # offset of the first one
    length: int
    accesses: dict[int, Node]  # of those that are wanted, by offset


def pieces_of(nodes: Iterable[Node], target: Target) -> dict[int, Piece]:
    """The pieces that reads among some nodes are parts of, by the ids of the first read of each."""
    rows: dict[tuple[int, ...], tuple[int, dict[int, Node]]] = {}
    for node in nodes:
        if node.kind != GATHER or node.type == BOOL or TYPES[node.type].size < 4 or node.scope and node.d3 is None:
            continue
        assert node.d0 is not None and node.d1 is not None and node.d2 is not None
        if not is_local(node.d0):
            place = place_among_neighbours(node.d1)
            row = (node.d0.id, place.first.id, node.d2.id, 0 if node.d3 is None else node.d3.id)
            rows.setdefault(row, (place.length, {}))[1].setdefault(place.offset, node)
    pieces: dict[int, Piece] = {}
    for known, accesses in rows.values():
        if len(accesses) < 2:
            continue
        length, size = known, TYPES[next(iter(accesses.values())).type].size
        while length in accesses:
            length += 1
        for start, count in target.pieces(length, size, True, known):
            wanted = {offset: node for offset, node in accesses.items() if start <= offset < start + count}
            if len(wanted) > 1:
                pieces[next(iter(wanted.values())).id] = Piece(length, start, count, wanted)
    return pieces


def added_pieces(writes: Sequence[Node], strategies: dict[int, int], pointers: dict[int, int],
                 target: Target) -> dict[int, Piece]:
    """The pieces that additions are parts of, where these need not be atomic, see :func:`written_pieces`; a row may
    begin anywhere, and neighbours may lie beyond its end."""
    rows: dict[tuple[int, ...], dict[int, Node]] = {}
    for node in writes:
        kind = TYPES[node.type].kind
        if node.attr != ReduceOp.Add.value or kind != "f" or TYPES[node.type].size < 4 or \
                strategies.get(node.id, ATOMIC) == ATOMIC:
            continue
        assert node.d2 is not None and node.d3 is not None
        place = place_among_neighbours(node.d2)
        row, number = (pointers[node.id], place.first.id, node.d3.id), 0
        while place.offset in rows.get((*row, number), ()):  # another addition to the same elements
            number += 1
        rows.setdefault((*row, number), {})[place.offset] = node
    pieces: dict[int, Piece] = {}
    for accesses in rows.values():
        length = 0
        while length in accesses:
            length += 1
        for start, count in target.pieces(length, TYPES[next(iter(accesses.values())).type].size, distance=0):
            if count > 1:
                written = {offset: accesses[offset] for offset in range(start, start + count)}
                pieces[max(node.id for node in written.values())] = Piece(length, start, count, written)
    return pieces


def written_pieces(writes: Sequence[Node], pointers: dict[int, int], target: Target) -> dict[int, Piece]:
    """The pieces that plain writes of a kernel are parts of, all elements of each, by the ids of the last writes.

    ``pointers`` tells what is written to, by the ids of the writes.
    """
    rows: dict[tuple[int, ...], tuple[int, dict[int, Node]]] = {}
    for node in writes:
        if node.attr != ReduceOp.Identity.value or node.payload == ReduceMode.Direct.value or node.type == BOOL or \
                TYPES[node.type].size < 4:
            continue
        assert node.d2 is not None and node.d3 is not None
        place = place_in_row(node.d2)
        if place is not None and place.length <= LONGEST_ROW:
            row = pointers[node.id], place.first.id, place.length, node.d3.id
            rows.setdefault(row, (place.length, {}))[1][place.offset] = node  # of several writes the last one stays
    pieces: dict[int, Piece] = {}
    for length, accesses in rows.values():
        for start, count in target.pieces(length, TYPES[next(iter(accesses.values())).type].size):
            offsets = range(start, start + count)
            if count > 1 and all(offset in accesses for offset in offsets):
                written = {offset: accesses[offset] for offset in offsets}
                pieces[max(node.id for node in written.values())] = Piece(length, start, count, written)
    return pieces
