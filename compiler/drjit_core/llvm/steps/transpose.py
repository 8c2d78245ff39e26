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
from ..lines import function_text
from ..texts import TypeText
from .blocks import in_blocks
from .shuffles import transpose_registers
from .tasks import batches, divided, entry, first_lanes, lines, loaded, numbered, tile

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


def _strip(t: TypeText, size: int, square: int, streamed: int) -> str:
    """Copies rows, as many as a square has, by whole squares."""
    signature = "internal void @strip(ptr %from, i64 %from_column, ptr %to, i64 %to_row, i64 %columns) noinline"
    lines = ["entry:", f"%step = mul i64 %from_column, {square}"]
    for i in range(square):
        lines += [f"%g{i} = mul i64 %from_column, {i}", f"%r{i}_o = mul i64 %to_row, {i}",
                  f"%r{i} = getelementptr i8, ptr %to, i64 %r{i}_o"]
    lines += ["br label %loop", "loop:", "%c = phi i64 [ 0, %entry ], [ %c_next, %loop ]",
              "%f = phi ptr [ %from, %entry ], [ %f_next, %loop ]"]
    for i in range(square):
        lines += [f"%f{i} = getelementptr i8, ptr %f, i64 %g{i}", f"%l{i} = load {t}, ptr %f{i}, align {size}"]
    turned, found = transpose_registers(t, size, [f"%l{i}" for i in range(square)], "%t")
    lines += turned
    align = f"{size * square}, !nontemporal !0" if streamed == STREAMED else str(size)
    for i, value in enumerate(found):
        lines += [f"%d{i} = getelementptr {t.element}, ptr %r{i}, i64 %c",
                  f"store {t} {value}, ptr %d{i}, align {align}"]
    lines += [f"%c_next = add i64 %c, {square}", "%f_next = getelementptr i8, ptr %f, i64 %step",
              "%more = icmp ult i64 %c_next, %columns", "br i1 %more, label %loop, label %done", "done:", "ret void"]
    return function_text(signature, lines)


def _edge(t: TypeText, size: int, square: int) -> str:
    """Copies no more rows than a square has, whose last square may have fewer columns."""
    signature = ("internal void @edge(ptr %from, i64 %from_column, ptr %to, i64 %to_row, i64 %rows, i64 %columns) "
                 "noinline")
    lines = ["entry:", f"%step = mul i64 %from_column, {square}",
             first_lanes(square, "%row_mask", "%rows"), "br label %loop", "loop:",
             "%c = phi i64 [ 0, %entry ], [ %c_next, %done ]",
             "%f = phi ptr [ %from, %entry ], [ %f_next, %done ]", "%left = sub i64 %columns, %c"]
    for i in range(square):  # columns that do not exist are the first one again, under a mask that is false
        lines += [f"%e{i} = icmp sgt i64 %left, {i}", f"%q{i} = select i1 %e{i}, i64 {i}, i64 0",
                  f"%g{i} = mul i64 %from_column, %q{i}", f"%f{i} = getelementptr i8, ptr %f, i64 %g{i}",
                  f"%k{i} = select i1 %e{i}, {t.mask} %row_mask, {t.mask} zeroinitializer",
                  f"%l{i} = call {t} @llvm.masked.load.{t.suffix}.p0(ptr %f{i}, i32 {size}, {t.mask} %k{i}, {t} "
                  "zeroinitializer)"]
    turned, found = transpose_registers(t, size, [f"%l{i}" for i in range(square)], "%t")
    lines += [*turned, first_lanes(square, "%column_mask", "%left"), "br label %store_0"]
    for i, value in enumerate(found):
        lines += [f"store_{i}:", f"%d{i}_o = mul i64 %to_row, {i}", f"%d{i}_r = getelementptr i8, ptr %to, i64 %d{i}_o",
                  f"%d{i} = getelementptr {t.element}, ptr %d{i}_r, i64 %c",
                  f"call void @llvm.masked.store.{t.suffix}.p0({t} {value}, ptr %d{i}, i32 {size}, {t.mask} "
                  "%column_mask)"]
        if i + 1 < square:
            lines += [f"%more{i} = icmp ugt i64 %rows, {i + 1}", f"br i1 %more{i}, label %store_{i + 1}, label %done"]
        else:
            lines.append("br label %done")
    lines += ["done:", f"%c_next = add i64 %c, {square}", "%f_next = getelementptr i8, ptr %f, i64 %step",
              "%more = icmp slt i64 %c_next, %columns", "br i1 %more, label %loop, label %end", "end:", "ret void"]
    return function_text(signature, lines)


def _deliver(size: int) -> str:
    """Copies rows that have been put together; what fills lines is written past the cache."""
    lanes = _LINE // size
    t = TypeText(TYPES[_INTEGERS[size]], lanes)

    def part(name: str, place: str, count: str) -> str:
        known, zero = f"%{name}_mask", "zeroinitializer"
        return f"""{first_lanes(lanes, known, count)}
  %{name}_from = getelementptr {t.element}, ptr %from_r, i64 {place}
  %{name}_to = getelementptr {t.element}, ptr %to_r, i64 {place}
  %{name} = call {t} @llvm.masked.load.{t.suffix}.p0(ptr %{name}_from, i32 {size}, {t.mask} {known}, {t} {zero})
  call void @llvm.masked.store.{t.suffix}.p0({t} %{name}, ptr %{name}_to, i32 {size}, {t.mask} {known})"""

    return f"""
define internal void @deliver(ptr %from, ptr %to, i64 %to_row, i64 %rows, i64 %columns) noinline {{
entry:
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r_next, %row_end ]
  %from_o = mul i64 %r, {_STAGED_COLUMNS * size}
  %from_r = getelementptr i8, ptr %from, i64 %from_o
  %to_o = mul i64 %r, %to_row
  %to_r = getelementptr i8, ptr %to, i64 %to_o
  %address = ptrtoint ptr %to_r to i64
  %negated = sub i64 0, %address
  %before = and i64 %negated, {_LINE - 1}
  %before_e = udiv i64 %before, {size}
  %head = call i64 @llvm.umin.i64(i64 %before_e, i64 %columns)
{part("first", "0", "%head")}
  %rest = sub i64 %columns, %head
  %whole = and i64 %rest, {-lanes}
  %stop = add i64 %head, %whole
  %some = icmp ne i64 %whole, 0
  br i1 %some, label %line, label %last
line:
  %c = phi i64 [ %head, %row ], [ %c_next, %line ]
  %line_from = getelementptr {t.element}, ptr %from_r, i64 %c
  %line_to = getelementptr {t.element}, ptr %to_r, i64 %c
  %value = load {t}, ptr %line_from, align {size}
  store {t} %value, ptr %line_to, align {_LINE}, !nontemporal !0
  %c_next = add i64 %c, {lanes}
  %more = icmp ult i64 %c_next, %stop
  br i1 %more, label %line, label %last
last:
  %left = sub i64 %columns, %stop
{part("final", "%stop", "%left")}
  br label %row_end
row_end:
  %r_next = add i64 %r, 1
  %rows_left = icmp ult i64 %r_next, %rows
  br i1 %rows_left, label %row, label %done
done:
  ret void
}}"""


def transpose_text(size: int, lanes: int, streamed: int, name: str = "kernel") -> str:
    """The module for elements of some size; ``streamed`` says how the result is written."""
    square = square_of(size, lanes)
    t = TypeText(TYPES[_INTEGERS[size]], square)
    staged, extra = streamed == STAGED, []
    if staged:
        line = TypeText(TYPES[_INTEGERS[size]], _LINE // size)
        extra = [_deliver(size)]
        if line != t:
            extra += [f"declare {line} @llvm.masked.load.{line.suffix}.p0(ptr, i32, {line.mask}, {line})",
                      f"declare void @llvm.masked.store.{line.suffix}.p0({line}, ptr, i32, {line.mask})"]
    memory = f"%memory = alloca [{square * _STAGED_COLUMNS * size} x i8], align 64" if staged else ""
    row = str(_STAGED_COLUMNS * size) if staged else "%target_row"
    deliver = ("%rows_of_strip = call i64 @llvm.umin.i64(i64 %r_rest, i64 " + str(square) + ")\n  call void @deliver("
               "ptr %memory, ptr %t_final, i64 %target_row, i64 %rows_of_strip, i64 %c_count)") if staged else ""
    where = lines(loaded(_WORDS, ("source", "target")), divided("%t1", "%c_i", "%task", "%column_tiles"),
                  divided("%batch", "%r_i", "%t1", "%row_tiles"), tile("r", "%r_i", "%tile_rows", "%rows"),
                  tile("c", "%c_i", "%tile_columns", "%columns"), batches(_WORDS, "s", "t"))
    fence = "call void @llvm.x86.sse.sfence()" if streamed and jit.is_x86() else ""
    return "\n".join(["declare i64 @llvm.umin.i64(i64, i64)",
                      f"declare {t} @llvm.masked.load.{t.suffix}.p0(ptr, i32, {t.mask}, {t})",
                      f"declare void @llvm.masked.store.{t.suffix}.p0({t}, ptr, i32, {t.mask})",
                      "declare void @llvm.x86.sse.sfence()" if fence else "", "!0 = !{i32 1}",
                      _strip(t, size, square, streamed), _edge(t, size, square), *extra, f"""
define internal void @task(ptr %parameters, i64 %task, i32 %worker) noinline {{
entry:
  {memory}
  {where}
located:
  %s_o0 = mul i64 %c_0, %source_column
  %s_o1 = mul i64 %r_0, {size}
  %s_o2 = add i64 %s_o0, %s_o1
  %s_o = add i64 %s_o2, %s_sum
  %source_0 = getelementptr i8, ptr %source, i64 %s_o
  %t_o0 = mul i64 %r_0, %target_row
  %t_o1 = mul i64 %c_0, {size}
  %t_o2 = add i64 %t_o0, %t_o1
  %t_o = add i64 %t_o2, %t_sum
  %target_0 = getelementptr i8, ptr %target, i64 %t_o
  %whole = and i64 %c_count, {-square}
  %over = sub i64 %c_count, %whole
  %some_whole = icmp ne i64 %whole, 0
  %some_over = icmp ne i64 %over, 0
  %over_from = mul i64 %whole, %source_column
  %over_to = mul i64 %whole, {size}
  br label %strip
strip:
  %r = phi i64 [ 0, %located ], [ %r_next, %strip_end ]
  %r_rest = sub i64 %r_count, %r
  %r_next = add i64 %r, {square}
  %s_r_o = mul i64 %r, {size}
  %s_r = getelementptr i8, ptr %source_0, i64 %s_r_o
  %t_r_o = mul i64 %r, %target_row
  %t_final = getelementptr i8, ptr %target_0, i64 %t_r_o
  %t_r = getelementptr i8, ptr {"%memory" if staged else "%t_final"}, i64 0
  %full = icmp uge i64 %r_rest, {square}
  br i1 %full, label %full_rows, label %few_rows
full_rows:
  br i1 %some_whole, label %squares, label %rest_of_rows
squares:
  call void @strip(ptr %s_r, i64 %source_column, ptr %t_r, i64 {row}, i64 %whole)
  br label %rest_of_rows
rest_of_rows:
  br i1 %some_over, label %columns_edge, label %strip_end
columns_edge:
  %s_over = getelementptr i8, ptr %s_r, i64 %over_from
  %t_over = getelementptr i8, ptr %t_r, i64 %over_to
  call void @edge(ptr %s_over, i64 %source_column, ptr %t_over, i64 {row}, i64 {square}, i64 %over)
  br label %strip_end
few_rows:
  call void @edge(ptr %s_r, i64 %source_column, ptr %t_r, i64 {row}, i64 %r_rest, i64 %c_count)
  br label %strip_end
strip_end:
  {deliver}
  %r_more = icmp ult i64 %r_next, %r_count
  br i1 %r_more, label %strip, label %done
done:
  ret void
}}""", entry(name, _WORDS, fence)])


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
