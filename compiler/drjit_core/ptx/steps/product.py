"""Products of matrices.

A block computes a square of the result: it reads 8 columns of the first operand and 8 rows of the second at a time, the
next ones while it computes with those in shared memory, and each thread has a square of the square in registers.  A
block, a warp or a thread computes an element of thin results.  Sums have the type in which elements are
computed, one product after the other.

Squares of half precision and bfloat16 are computed by warps as a whole, 16 rows, 8 columns and a depth of 16 at a time
(``mma``): sixteen products at once are added to a sum in single precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ...codegen.steps import Call, Pass, Text
from ...ops.table import KIND
from ...types import BFLOAT16, COMPUTES_IN, FLOAT16, FLOAT32, TYPE_BITS, TYPES, UINT32, ReduceOp
from .. import texts
from ..texts import TEXTS, T
from .writer import BLOCK, WARP, WARPS, Grid, Writer, require_counted

__all__ = ["passes"]

#: Elements along the depth that a block has at hand; of those that warps multiply, rows of which are so many longer, so
#: that what a warp reads at once is in different banks.
_DEPTH, _DEPTH_OF_WARPS, _APART = 8, 16, 8
#: Rows and columns that a warp multiplies at once; its warps along the rows of a square, and along its columns.
_ROWS_AT_ONCE, _COLUMNS_AT_ONCE, _ALONG = 16, 8, (4, 2)
#: The types that warps multiply, by the name that the instruction has for them, and the architecture that has it.
_OF_WARPS, _HAS_BOTH = {FLOAT16: "f16", BFLOAT16: "bf16"}, 80
#: Threads of a block along both axes of its square.
_SIDE = 16
#: Elements of thin results that occupy a device, and products that occupy a block.
_MANY, _DEEP = 1 << 14, 1 << 11
_ADD = ReduceOp.Add.value
#: Elements of a result that there have to be for the largest squares.
_LARGE = 1 << 20
#: Words before those of the batch.
_WORDS = ("a", "b", "result", "rows", "columns", "depth", "a_row", "a_column", "b_row", "b_column", "row_tiles",
          "column_tiles", "count")


class _Operands:
    """What kernels have in common: words, the place in the batch, products."""

    def __init__(self, w: Writer, type_: int, dimensions: int) -> None:
        self.w, self.type, self.kept, self.dimensions = w, type_, COMPUTES_IN[type_], dimensions
        self.size = TYPES[type_].size
        self.rows, self.columns, self.depth = (self.word(name, "u32") for name in ("rows", "columns", "depth"))

    def word(self, name: str, type_: str = "u64") -> str:
        """A word by its name."""
        return self.w.parameter(_WORDS.index(name), type_)

    def divided(self, number: str, by: str) -> tuple[str, str]:
        """Quotient and remainder."""
        quotient = self.w.r("div.u32", number, by)
        return quotient, self.w.r("sub.u32", number, self.w.r("mul.lo.u32", quotient, by))

    def matrices(self, number: str) -> tuple[str, str]:
        """The addresses of both operands in the batch."""
        w, a, b = self.w, self.w.rd("mov.b64", 0), self.w.rd("mov.b64", 0)
        for k in range(self.dimensions):
            at = len(_WORDS) + 3 * k
            number, index = self.divided(number, w.parameter(at, "u32"))
            wide = w.wide(index)
            a, b = (w.rd("mad.lo.u64", wide, w.parameter(at + j), place) for j, place in ((1, a), (2, b)))
        return w.at(self.word("a"), a, self.size), w.at(self.word("b"), b, self.size)

    def element(self, base: str, operand: str, row: str, column: str) -> str:
        """The address of an element."""
        w = self.w
        at = w.rd("mul.lo.u64", w.wide(row), self.word(f"{operand}_row"))
        return w.at(base, w.rd("mad.lo.u64", w.wide(column), self.word(f"{operand}_column"), at), self.size)

    def load(self, address: str, mask: str, raw: bool = False) -> str:
        """An element, as it is computed with, or as it is; zero where there is none."""
        w = self.w
        value = w.load(self.type, address, mask, w.zero(self.type))
        if raw or self.kept == self.type:
            return value
        result = w.new(self.kept)
        w.lines += texts.cast(w, result, value, T[self.type], T[self.kept])
        return result

    def store(self, address: str, value: str, mask: str) -> None:
        """A result."""
        w = self.w
        if self.kept != self.type:
            result = w.new(self.type)
            w.lines += texts.cast(w, result, value, T[self.kept], T[self.type])
            value = result
        w.store(self.type, address, value, mask)

    def add(self, total: str, a: str, b: str) -> None:
        """Add a product."""
        self.w.lines += TEXTS[KIND["fma"] << TYPE_BITS | self.kept](self.w, total, a, b, total, T[self.kept])

    def result(self, batch: str, row: str, column: str) -> str:
        """The address of an element of the result."""
        w = self.w
        rows = w.rd("mad.lo.u64", w.wide(batch), w.wide(self.rows), w.wide(row))
        return w.at(self.word("result"), w.rd("mad.lo.u64", rows, w.wide(self.columns), w.wide(column)), self.size)


class _Squares:
    """A block for each square of the result: what each thread reads, and where that goes in shared memory.

    ``along``: of both operands, whether neighbouring threads read neighbours along the depth.
    """

    def __init__(self, w: Writer, o: _Operands, tile: int, depth: int, along: tuple[int, int], kept: int,
                 pitch: int = 0) -> None:
        """Elements are of the type ``kept`` in shared memory, where neighbours along the result's axis lie side by
        side, or with a ``pitch``, from one of them to the next, those along the depth."""
        self.w, self.o, self.kept = w, o, kept
        rest, column_tile = o.divided(w.block, o.word("column_tiles", "u32"))
        self.batch, row_tile = o.divided(rest, o.word("row_tiles", "u32"))
        bases = o.matrices(self.batch)
        self.first = [w.r("mul.lo.u32", number, tile) for number in (row_tile, column_tile)]
        size = T[kept].word // 8
        self.shared = [w.shared(name, size * tile * (pitch or depth)) for name in ("a_tile", "b_tile")]
        self.offset, self.depth = w.r("mov.b32", 0), depth
        self.loads = []  # base, operand, places, whether there is one, in shared memory, register
        for operand, (base, by_depth) in enumerate(zip(bases, along, strict=True)):
            for k in range(tile * depth // BLOCK):
                number = w.r("add.u32", w.tid, k * BLOCK)
                inner = depth if by_depth else tile
                low, high = w.r("and.b32", number, inner - 1), w.r("shr.u32", number, inner.bit_length() - 1)
                place, deep = (high, low) if by_depth else (low, high)
                number = w.r("mad.lo.u32", *((place, pitch, deep) if pitch else (deep, tile, place)))
                target = w.at(self.shared[operand], number, size)
                place = w.r("add.u32", self.first[operand], place)
                there = w.p("setp.lt.u32", place, o.rows if operand == 0 else o.columns)
                self.loads.append((base, operand, place, deep, there, target, w.new(kept)))

    def read(self) -> None:
        """What is next along the depth, to registers."""
        w, o = self.w, self.o
        for base, operand, place, deep, there, _, register in self.loads:
            at = w.r("add.u32", self.offset, deep)
            mask = w.both(there, w.p("setp.lt.u32", at, o.depth))
            address = o.element(base, "a", place, at) if operand == 0 else o.element(base, "b", at, place)
            w.set(self.kept, register, o.load(address, mask, self.kept == o.type))

    def all_of(self, multiply: Callable[[], None]) -> None:
        """Go along the depth."""
        w = self.w
        self.read()
        with w.loop() as unless:
            unless(w.p("setp.lt.u32", self.offset, self.o.depth))
            for *_, target, register in self.loads:
                w.store(self.kept, target, register, space="shared")
            w.barrier()
            w.line(f"add.u32 {self.offset}, {self.offset}, {self.depth};")
            self.read()
            multiply()
            w.barrier()

    def store(self, row: str, columns: Iterable[tuple[str, str]]) -> None:
        """Elements of a row of the result, by their columns."""
        w, o = self.w, self.o
        row_there = w.p("setp.lt.u32", row, o.rows)
        for column, value in columns:
            there = w.both(row_there, w.p("setp.lt.u32", column, o.columns))
            o.store(o.result(self.batch, row, column), value, there)


def _tiles(architecture: int, type_: int, dimensions: int, each: int, a_along: int, b_along: int) -> str:
    """Each thread of a square has so many elements along both axes."""
    w = Writer(architecture)
    o = _Operands(w, type_, dimensions)
    tile, size = _SIDE * each, T[o.kept].word // 8
    squares = _Squares(w, o, tile, _DEPTH, (a_along, b_along), o.kept)
    x, y = w.r("and.b32", w.tid, _SIDE - 1), w.r("shr.u32", w.tid, _SIDE.bit_length() - 1)
    totals = [[w.zero(o.kept) for _ in range(each)] for _ in range(each)]
    left, right = w.at(squares.shared[0], y, size), w.at(squares.shared[1], x, size)

    def multiply() -> None:
        for k in range(_DEPTH):
            a, b = ([w.load(o.kept, base, space="shared", offset=size * (tile * k + _SIDE * i)) for i in range(each)]
                    for base in (left, right))
            for i in range(each):
                for j in range(each):
                    o.add(totals[i][j], a[i], b[j])
    squares.all_of(multiply)
    for i in range(each):
        columns = [w.r("add.u32", squares.first[1], w.r("add.u32", x, _SIDE * j)) for j in range(each)]
        row = w.r("add.u32", squares.first[0], w.r("add.u32", y, _SIDE * i))
        squares.store(row, zip(columns, totals[i], strict=True))
    return w.text(len(_WORDS) + 3 * dimensions)


def _by_warps(architecture: int, type_: int, dimensions: int, tile: int, a_along: int, b_along: int) -> str:
    """Each warp of a square has a part of its rows and columns. (Which elements a thread has of what a warp multiplies
    is told in the PTX manual, at ``mma.m16n8k16``.)"""
    w = Writer(architecture)
    o = _Operands(w, type_, dimensions)
    pitch = _DEPTH_OF_WARPS + _APART
    squares = _Squares(w, o, tile, _DEPTH_OF_WARPS, (a_along, b_along), type_, pitch)
    name, size = _OF_WARPS[type_], o.size
    lane, warp = w.lane(), w.r("shr.u32", w.tid, 5)
    group, pair = w.r("shr.u32", lane, 2), w.r("shl.b32", w.r("and.b32", lane, 3), 1)
    rows, columns = tile // _ALONG[0], tile // _ALONG[1]  # of a warp
    first_row = w.r("mad.lo.u32", w.r("shr.u32", warp, 1), rows, group)
    first_column = w.r("mul.lo.u32", w.r("and.b32", warp, 1), columns)
    left = w.at(squares.shared[0], w.r("mad.lo.u32", first_row, pitch, pair), size)
    right = w.at(squares.shared[1], w.r("mad.lo.u32", w.r("add.u32", first_column, group), pitch, pair), size)
    down, across = range(rows // _ROWS_AT_ONCE), range(columns // _COLUMNS_AT_ONCE)
    totals = [[[w.zero(FLOAT32) for _ in range(4)] for _ in across] for _ in down]

    def pairs(base: str, places: Iterable[tuple[int, int]]) -> str:
        """Neighbours along the depth, two in a register."""
        return ", ".join(w.load(UINT32, base, space="shared", offset=size * (pitch * row + deep))
                         for row, deep in places)

    def multiply() -> None:
        b = [pairs(right, [(_COLUMNS_AT_ONCE * j, 0), (_COLUMNS_AT_ONCE * j, 8)]) for j in across]
        for i in down:
            at = _ROWS_AT_ONCE * i
            a = pairs(left, [(at, 0), (at + 8, 0), (at, 8), (at + 8, 8)])
            for j in across:
                total = ", ".join(totals[i][j])
                w.line(f"mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32 {{{total}}}, {{{a}}}, {{{b[j]}}}, "
                       f"{{{total}}};")
    squares.all_of(multiply)
    row, column = w.r("add.u32", squares.first[0], first_row), w.r(
        "add.u32", w.r("add.u32", squares.first[1], first_column), pair)
    numbers = [[w.r("add.u32", column, _COLUMNS_AT_ONCE * j + k) for k in range(2)] for j in across]
    for i in down:
        for half in range(2):
            squares.store(w.r("add.u32", row, _ROWS_AT_ONCE * i + 8 * half), [
                (numbers[j][k], totals[i][j][2 * half + k]) for j in across for k in range(2)])
    return w.text(len(_WORDS) + 3 * dimensions)


def _elements(architecture: int, type_: int, dimensions: int, threads: int) -> str:
    """A thread, a warp, or a block for each element of the result."""
    w = Writer(architecture)
    o = _Operands(w, type_, dimensions)
    if threads == BLOCK:
        number, own = w.block, w.tid
    elif threads == WARP:
        number, own = w.r("mad.lo.u32", w.block, WARPS, w.r("shr.u32", w.tid, 5)), w.lane()
    else:
        number, own = w.r("mad.lo.u32", w.block, BLOCK, w.tid), w.zero(UINT32)
    with w.when(w.p("setp.lt.u32", number, o.word("count", "u32"))):
        rest, column = o.divided(number, o.columns)
        batch, row = o.divided(rest, o.rows)
        a, b = o.matrices(batch)
        a, b = o.element(a, "a", row, own), o.element(b, "b", own, column)
        steps = [w.rd("mul.lo.u64", o.word(name), threads * o.size) for name in ("a_column", "b_row")]
        total, place = w.zero(o.kept), w.copy(UINT32, own)
        wanted = w.p("setp.eq.u32", number, number)
        with w.loop() as unless:
            unless(w.p("setp.lt.u32", place, o.depth))
            o.add(total, o.load(a, wanted), o.load(b, wanted))
            for address, distance in zip((a, b), steps, strict=True):
                w.line(f"add.u64 {address}, {address}, {distance};")
            w.line(f"add.u32 {place}, {place}, {threads};")
        if threads > 1:
            total = w.total(_ADD, o.kept, total)
            wanted = w.p("setp.eq.u32", own, 0)
        if threads == BLOCK:
            shared = w.shared("totals", 8 * WARPS)
            with w.when(w.p("setp.eq.u32", w.lane(), 0)):
                w.store(o.kept, w.at(shared, w.r("shr.u32", w.tid, 5), 8), total, space="shared")
            w.barrier()
            total = w.load(o.kept, shared, space="shared")
            for k in range(1, WARPS):
                total = w.combine(_ADD, o.kept, total, w.load(o.kept, shared, space="shared", offset=8 * k))
        o.store(o.result(batch, row, column), total, wanted)
    return w.text(len(_WORDS) + 3 * dimensions)


def _threads(depth: int, count: int, along: bool) -> int:
    """How many threads compute an element of so many products: ``along`` are neighbours in memory."""
    if depth < WARP or count >= _MANY and not along:
        return 1
    return BLOCK if depth >= _DEEP and count < _MANY else WARP


def passes(call: Call) -> Iterable[Pass]:
    """Those of a step."""
    (first, second), result = call.operands, call.results[0]
    rows, columns, depth, a_base, b_base, a_row, a_column, b_row, b_column, *rest = map(int, call.step.options)
    architecture, type_, size = call.target.features, first.type, TYPES[first.type].size
    batch = math.prod(rest[::3])
    require_counted("matmul", rows, columns, depth, batch)
    words = {"a": first.address + a_base * size, "b": second.address + b_base * size, "result": result.address,
             "rows": rows, "columns": columns, "depth": depth, "a_row": a_row, "a_column": a_column, "b_row": b_row,
             "b_column": b_column, "row_tiles": 1, "column_tiles": 1, "count": batch * rows * columns}
    axes = [word for k in range(len(rest) - 3, -1, -3) for word in rest[k:k + 3]]
    arguments = (architecture, type_, len(rest) // 3)
    if min(rows, columns) >= _SIDE:
        large = batch * rows * columns > _LARGE and size < 8  # otherwise there are too few squares for a device
        by_warps = architecture >= _HAS_BOTH and type_ in _OF_WARPS
        each = 8 if large and min(rows, columns) >= 128 else 4 if min(rows, columns) >= 64 or by_warps else 2
        tile, along = _SIDE * each, (int(a_column == 1), int(b_row == 1))
        words["row_tiles"], words["column_tiles"] = -(-rows // tile), -(-columns // tile)
        text = Text("product by warps", (*arguments, tile, *along), _by_warps, depth) if by_warps else \
            Text("product", (*arguments, each, *along), _tiles, depth)
        yield Pass(text, (*words.values(), *axes),
                   Grid(result.size, batch * words["row_tiles"] * words["column_tiles"]))
        return
    require_counted("matmul", result.size)
    threads = _threads(depth, result.size, a_column <= 1 and b_row <= 1)
    yield Pass(Text("product of thin matrices", (*arguments, threads), _elements, depth),
               (*words.values(), *axes), Grid(result.size, -(-result.size // (BLOCK // threads))))
