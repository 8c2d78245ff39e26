"""Copies of arrays whose elements are neighbours along another axis than in the source, by squares of registers.

The result has a batch of matrices, each of rows whose elements are neighbours; in the source, neighbours are those of
the columns.  A task is a tile of a matrix.  It is copied a strip of rows at a time: as many packets as they have
elements are read, transposed in registers, and written.  Results that are larger than the cache are written past it.

Elements are integers of their size, since nothing is computed.  Parameters are 64-bit words, see :data:`_WORDS`;
distances are in bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

from ...codegen.steps import Call, Pass, Text
from ...types import TYPES, UINT8, UINT16, UINT32, UINT64
from .. import jit
from ..texts import TypeText
from ..writer import Writer
from .blocks import in_blocks
from .shuffles import transpose_registers
from .tasks import Words, located_in_batch, numbered, tile, write_task, write_tasks

__all__ = ["passes", "plan", "square_of", "transpose_text"]

_WORDS = numbered("source", "target", "rows", "columns", "source_column", "target_row", "tile_rows", "tile_columns",
                  "row_tiles", "column_tiles", "unit", "rank")
#: How packets of the result are written: as they come; aligned, and past the cache; or, if rows are unaligned, from
#: memory of the thread in which rows are put together, by whole lines, past the cache.
PLAIN, STREAMED, STAGED = range(3)
#: Columns of a tile whose rows are put together.
_STAGED_COLUMNS = 256
_INTEGERS = {1: UINT8, 2: UINT16, 4: UINT32, 8: UINT64}
#: Bytes of a line of the cache, which are read at once or twice.
_LINE = 64


def square_of(size: int, lanes: int) -> int:
    """Rows and columns of a square in registers, for elements of some size."""
    return min(16, 4 * lanes // size)


class _Squares:
    """Squares of elements of some size, and how functions write them."""

    def __init__(self, size: int, lanes: int, streamed: int) -> None:
        self.writer = Writer()
        self.size, self.square, self.streamed = size, square_of(size, lanes), streamed
        self.packet = TypeText(TYPES[_INTEGERS[size]], self.square)

    def turned(self, rows: list[str]) -> list[str]:
        """Packets that have been transposed."""
        return transpose_registers(self.writer, self.packet, self.size, rows)

    def write_strip(self) -> None:
        """A function that copies rows, as many as a square has, by whole squares."""
        w, t, size, square = self.writer, self.packet, self.size, self.square
        w.function("internal void @strip(ptr %from, i64 %from_column, ptr %to, i64 %to_row, i64 %columns)",
                   "noinline #0")
        step = w.mul("%from_column", square)
        distances, rows = [], []
        for i in range(square):
            distances.append(w.mul("%from_column", i))
            rows.append(w.beyond("%to", w.mul("%to_row", i)))
        streamed = self.streamed == STREAMED

        def copy(column: str, values: list[str]) -> list[str]:
            found = self.turned([w.load(t, w.beyond(values[0], distance), size) for distance in distances])
            for row, value in zip(rows, found, strict=True):
                w.store(t, value, w.at(t.element, row, column), size * square if streamed else size, streamed)
            return [w.beyond(values[0], step)]

        w.repeat("0", "%columns", square, [("ptr", "%from")], copy)
        w.end()

    def write_edge(self) -> None:
        """A function that copies no more rows than a square has, whose last square may have fewer columns."""
        w, t, size, square = self.writer, self.packet, self.size, self.square
        w.function("internal void @edge(ptr %from, i64 %from_column, ptr %to, i64 %to_row, i64 %rows, i64 %columns)",
                   "noinline #0")
        step, known = w.mul("%from_column", square), w.first_lanes(square, "%rows")

        def copy(column: str, values: list[str]) -> list[str]:
            left, read = w.sub("%columns", column), []
            for i in range(square):  # columns that do not exist are the first one again, under a mask that is false
                exists = w(f"icmp sgt i64 {left}, {i}")
                at = w.beyond(values[0], w.mul("%from_column", w.either(exists, "i64", i, 0)))
                mask = w.either(exists, t.mask, known, "zeroinitializer")
                read.append(w.masked_load(t, at, size, mask))
            found = self.turned(read)
            mask, done = w.first_lanes(square, left), w.label()
            for i, value in enumerate(found):
                if i:
                    w.only_if(w(f"icmp ugt i64 %rows, {i}"), done)
                w.masked_store(t, value, w.at(t.element, w.beyond("%to", w.mul("%to_row", i)), column), size, mask)
            w.go(done)
            w.open(done)
            return [w.beyond(values[0], step)]

        w.repeat("0", "%columns", square, [("ptr", "%from")], copy)
        w.end()

    def write_deliver(self) -> None:
        """A function that copies rows that have been put together; what fills lines is written past the cache."""
        w, size = self.writer, self.size
        lanes = _LINE // size
        t = TypeText(TYPES[_INTEGERS[size]], lanes)
        w.function("internal void @deliver(ptr %from, ptr %to, i64 %to_row, i64 %rows, i64 %columns)", "noinline #0")

        def row(number: str, _: list[str]) -> None:
            source = w.beyond("%from", w.mul(number, _STAGED_COLUMNS * size))
            target = w.beyond("%to", w.mul(number, "%to_row"))
            before = w.and_(w.sub(0, w(f"ptrtoint ptr {target} to i64")), _LINE - 1)

            def part(place: str, count: str) -> None:
                mask = w.first_lanes(lanes, count)
                value = w.masked_load(t, w.at(t.element, source, place), size, mask)
                w.masked_store(t, value, w.at(t.element, target, place), size, mask)

            def line(column: str, _: list[str]) -> None:
                value = w.load(t, w.at(t.element, source, column), size)
                w.store(t, value, w.at(t.element, target, column), _LINE, streamed=True)

            head = w.minimum(w.udiv(before, size), "%columns")
            part("0", head)
            stop = w.add(head, w.and_(w.sub("%columns", head), -lanes))
            w.loop(head, stop, lanes, [], line)
            part(stop, w.sub("%columns", stop))

        w.repeat("0", "%rows", 1, [], row)
        w.end()

    def write_task(self, words: Words) -> None:
        """What a task does: a strip of rows after the other."""
        w, size, square, staged = self.writer, self.size, self.square, self.streamed == STAGED
        memory = w(f"alloca [{square * _STAGED_COLUMNS * size} x i8], align 64") if staged else ""
        source_column, target_row = words["source_column"], words["target_row"]
        rest, across = w.divided("%task", words["column_tiles"])
        batch, down = w.divided(rest, words["row_tiles"])
        rows = tile(w, down, words["tile_rows"], words["rows"])
        columns = tile(w, across, words["tile_columns"], words["columns"])
        before, after = located_in_batch(w, words, batch)
        source = w.beyond(words["source"], w.add(w.add(w.mul(columns.begin, source_column),
                                                       w.mul(rows.begin, size)), before))
        target = w.beyond(words["target"], w.add(w.add(w.mul(rows.begin, target_row),
                                                       w.mul(columns.begin, size)), after))
        whole = w.and_(columns.length, -square)
        over = w.sub(columns.length, whole)
        some_whole, some_over = w(f"icmp ne i64 {whole}, 0"), w(f"icmp ne i64 {over}, 0")
        over_from, over_to = w.mul(whole, source_column), w.mul(whole, size)
        to_row = f"i64 {_STAGED_COLUMNS * size if staged else target_row}"

        def strip(number: str, _: list[str]) -> None:
            left = w.sub(rows.length, number)
            begin = w.beyond(source, w.mul(number, size))
            final = w.beyond(target, w.mul(number, target_row))
            to = memory or final

            def edge(at: str, to: str, rows: object, columns: str) -> None:
                w.run("edge", f"ptr {at}", f"i64 {source_column}", f"ptr {to}", to_row, f"i64 {rows}", f"i64 {columns}")

            def full() -> None:
                w.branch(some_whole, lambda: w.run("strip", f"ptr {begin}", f"i64 {source_column}", f"ptr {to}", to_row,
                                                   f"i64 {whole}"))
                w.branch(some_over, lambda: edge(w.beyond(begin, over_from), w.beyond(to, over_to), square, over))

            w.branch(w(f"icmp uge i64 {left}, {square}"), full, lambda: edge(begin, to, left, columns.length))
            if staged:
                w.run("deliver", f"ptr {to}", f"ptr {final}", f"i64 {target_row}", f"i64 {w.minimum(left, square)}",
                      f"i64 {columns.length}")

        w.repeat("0", rows.length, square, [], strip)


def transpose_text(size: int, lanes: int, streamed: int) -> str:
    """The module for elements of some size; ``streamed`` says how the result is written."""
    squares = _Squares(size, lanes, streamed)
    squares.write_strip()
    squares.write_edge()
    if streamed == STAGED:
        squares.write_deliver()
    w = squares.writer
    write_task(w, _WORDS, ("source", "target"), squares.write_task)
    write_tasks(w, _WORDS["unit"], "call void @llvm.x86.sse.sfence()" if streamed and jit.is_x86() else "")
    return w.text()


# --- what the host decides -------------------------------------------------------------------------------------------


class Copy(NamedTuple):
    """A copy: extents, and distances in elements."""

    rows: int
    columns: int
    source_column: int
    target_row: int
    batch: tuple[tuple[int, int, int], ...]  # extent, distance in the source, distance in the result
    base: int = 0  # of the source


class Plan(NamedTuple):
    """How a copy is worked off."""

    words: tuple[int, ...]
    tasks: int
    unit: int  # what the work of a task is counted in: squares
    block: int  # tasks
    streamed: int


#: Bytes that a task should copy at least, and tasks there should be.
_LEAST, _TASKS = 1 << 15, 16


def plan(size: int, lanes: int, copy: Copy, source: int = 0, target: int = 0, cache_bytes: int = 8 << 20) -> Plan:
    """How a copy of elements of some size is worked off."""
    square = square_of(size, lanes)
    line = max(square, _LINE // size)
    count = math.prod(extent for extent, _, _ in copy.batch)
    total = copy.rows * copy.columns * count * size
    aligned = all(step % square == 0 for step in (copy.target_row, *(step for _, _, step in copy.batch)))
    large = 2 * total > cache_bytes
    streamed = PLAIN if not large else STREAMED if aligned else STAGED if copy.columns >= 4 * line else PLAIN
    # A tile reads some lines next to each other, and writes some.
    tile_rows, tile_columns = (16 * line, 4 * line) if large else (4 * line, 4 * line)
    if streamed == STAGED:
        tile_rows, tile_columns = 4 * line, _STAGED_COLUMNS
    tile_rows, tile_columns = min(tile_rows, copy.rows), min(tile_columns, copy.columns)

    def tasks() -> int:
        return count * -(-copy.rows // tile_rows) * -(-copy.columns // tile_columns)

    while tasks() < _TASKS and tile_rows * tile_columns * size > 2 * _LEAST:
        if tile_columns > 4 * line:
            tile_columns = -(-tile_columns // 2 // square) * square
        elif tile_rows > line:
            tile_rows = -(-tile_rows // 2 // square) * square
        else:
            break
    row_tiles, column_tiles = -(-copy.rows // tile_rows), -(-copy.columns // tile_columns)
    unit = -(-tile_rows // square) * -(-tile_columns // square)
    words = (source + copy.base * size, target, copy.rows, copy.columns, copy.source_column * size,
             copy.target_row * size, tile_rows, tile_columns, row_tiles, column_tiles, unit, len(copy.batch),
             *itertools.chain.from_iterable((extent, a * size, b * size) for extent, a, b in copy.batch))
    block = max(1, min(-(-tasks() // _TASKS), (_LEAST << 2) // (tile_rows * tile_columns * size)))
    return Plan(words, tasks(), unit, block, streamed)


def passes(call: Call) -> Iterable[Pass]:
    """The launch of a transposed copy."""
    rows, columns, source_column, target_row, base, *batch = (int(option) for option in call.step.options)
    (source,), target = call.operands, call.results[0]
    size, lanes = TYPES[source.type].size, jit.lanes()
    dimensions = tuple(zip(batch[::3], batch[1::3], batch[2::3], strict=True))
    copy = Copy(rows, columns, source_column, target_row, dimensions, base)
    found = plan(size, lanes, copy, source.address, target.address, call.target.streaming_bytes)
    text = Text("transpose", (size, lanes, found.streamed), transpose_text, 20 * square_of(size, lanes))
    yield in_blocks(text, found.words, found.tasks * found.unit, found.block * found.unit)
