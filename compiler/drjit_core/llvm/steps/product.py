"""LLVM text of products of matrices: one function that works off tiles of the result, for any shape and any strides.

A *task* is a tile of one product of the batch, over a part of the sum.  It goes through its part of the sum in blocks
of ``DEPTH`` elements; for each it copies its rows of the left matrix (elements of the sum next to each other, a
constant distance apart), then, two registers of columns at a time, a *panel* of the right one, and computes tiles of
registers from both.  Copies are left out where an operand can be read as it lies and is too small to be worth one.

Rounding: each element of the result is the sum, in order, of sums over ``DEPTH`` products that were accumulated in
order by fused multiply-adds, and so follows from the shape alone.  Half precision is multiplied and summed in single
precision and rounded once; integers of 8 and 16 bits are computed in 32 bits, which is exact modulo their range.

Parameters are 64-bit words, see :data:`.matrices.WORDS`; distances are in bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from ...types import TYPES
from ..texts import TypeText, bitcast, cast
from ..writer import Writer
from .matrices import DEPTH, DIRECT, GENERAL, ROWS_FIRST, TRANSPOSED, WORDS, accumulator, register_tile
from .shuffles import transpose_registers
from .tasks import Tile, Words, located_in_batch, tile, write_task, write_tasks

__all__ = ["POINTERS", "Located", "Product", "located", "product_text"]

#: Words that are addresses.
POINTERS = ("a", "b", "c", "scratch")
#: A copy gets rows of so many columns (packets are filled up with zeros) from where columns are ``across`` apart, rows
#: ``along``.
_COPY = "(ptr %from, i64 %along, i64 %across, ptr %to, i64 %to_row, i64 %rows, i64 %columns)"


class Product:
    """What the functions of a module have in common."""

    def __init__(self, type_: int, lanes: int) -> None:
        self.writer = Writer()
        self.rows, self.registers, self.width = register_tile(type_, lanes)
        #: Registers in the rows of the tiles that there are: the last panel may be narrower.
        self.variants = [self.registers, *(count for count in (2, 1) if count < self.registers)]
        self.masked = lanes == 16  # masks of stores cost nothing
        self.wide = TypeText(TYPES[accumulator(type_)], self.width)
        self.narrow = TypeText(TYPES[type_], self.width)
        self.size, self.narrow_size = TYPES[accumulator(type_)].size, TYPES[type_].size
        self.converts = self.wide != self.narrow

    def below(self, limit: str) -> str:
        """A mask of the lanes whose number is below an ``i64``."""
        return self.writer.first_lanes(self.width, limit)

    def multiply_add(self, a: str, b: str, c: str) -> str:
        """Sums with products, of which those of floating-point numbers are rounded once."""
        w, t = self.writer, self.wide
        if t.info.kind == "f":
            return w.call(str(t), f"llvm.fma.{t.suffix}", f"{t} {a}", f"{t} {b}", f"{t} {c}")
        return w(f"add {t} {w(f'mul {t} {a}, {b}')}, {c}")

    def add(self, a: str, b: str) -> str:
        """Sums."""
        return self.writer(f"{'fadd' if self.wide.info.kind == 'f' else 'add'} {self.wide} {a}, {b}")

    def widen(self, value: str, *, scalar: bool = False) -> str:
        """A packet, or a number, of an operand's type in the type of the sums."""
        s, t = (TypeText(text.info, 0 if scalar else self.width) for text in (self.narrow, self.wide))
        return self.writer.named(lambda name: (cast if self.converts else bitcast)(name, value, s, t))

    def narrowed(self, value: str, *, scalar: bool = False) -> str:
        """The reverse."""
        s, t = (TypeText(text.info, 0 if scalar else self.width) for text in (self.wide, self.narrow))
        return self.writer.cast(value, s, t)

    def load(self, address: str, mask: str = "", t: TypeText | None = None) -> str:
        """A packet from memory, zeros where a mask is not set."""
        t = t or self.wide
        align = TYPES[t.info.type].size
        return self.writer.masked_load(t, address, align, mask) if mask else self.writer.load(t, address, align)

    def store(self, value: str, address: str, mask: str = "", t: TypeText | None = None) -> None:
        """A packet to memory, where a mask is set."""
        t = t or self.wide
        align = TYPES[t.info.type].size
        if mask:
            self.writer.masked_store(t, value, address, align, mask)
        else:
            self.writer.store(t, value, address, align)

    def rows_of(self, count: int, row: str, base: str) -> list[str]:
        """Addresses of some rows; where there are fewer (``%rows``), the last one several times."""
        w, last = self.writer, self.writer.sub("%rows", 1)
        return [w.beyond(base, w.mul(w.minimum(i, last), row)) for i in range(count)]


def product_text(type_: int, lanes: int) -> str:
    """The module of products of a scalar type, with packets of so many elements of 32 bits."""
    x = Product(type_, lanes)
    zeros = x.writer.constant(f"[{x.width * x.size} x i8] zeroinitializer", 64)
    for rows in (x.rows, x.rows // 2):
        for registers in x.variants:
            _write_tile(x, rows, registers, zeros)
    _write_copy(x)
    _write_copy_transposed(x)
    _write_copy_general(x)
    if x.converts:
        _write_finish(x)
    write_task(x.writer, WORDS, POINTERS, lambda words: _write_task(x, words))
    write_tasks(x.writer, WORDS["unit"])
    return x.writer.text()


def _write_tile(x: Product, rows: int, registers: int, zeros: str) -> None:
    """A tile of registers: adds the product of ``rows`` rows and ``registers`` registers of columns to the result.

    Where there are fewer rows than that, the last one is computed several times, and stored once.
    """
    w, t, size = x.writer, x.wide, x.size
    w.function(f"internal void @tile_{rows}_{registers}(ptr %a, i64 %a_row, i64 %a_apart, ptr %b, i64 %b_row, "
               "i64 %depth, ptr %c, i64 %c_row, i64 %rows, i64 %columns, i1 %first)", "noinline #0")
    a = x.rows_of(rows, "%a_row", "%a")
    for i in range(rows):  # what the sums are added to is needed last
        ahead = w.beyond("%c", w.mul("%c_row", i))
        for j in range(registers):
            w.run("llvm.prefetch.p0", f"ptr {w.beyond(ahead, j * x.width * size)}", "i32 1", "i32 3", "i32 1")

    def add(_: str, values: list[str]) -> list[str]:
        b_k, a_k, *sums = values
        b = [x.load(w.beyond(b_k, j * x.width * size)) for j in range(registers)]
        found = []
        for i in range(rows):
            value = w.splat(t, w.load(t.element, w.beyond(a[i], a_k), size))
            found += [x.multiply_add(value, b[j], sums[i * registers + j]) for j in range(registers)]
        return [w.beyond(b_k, "%b_row"), w.add(a_k, "%a_apart"), *found]

    _, _, *sums = w.repeat("0", "%depth", 1, [("ptr", "%b"), ("i64", "0"),
                                              *[(str(t), "zeroinitializer")] * (rows * registers)], add)

    def store(masks: list[str]) -> None:
        done = w.label()
        for i in range(rows):
            if i:
                w.only_if(w(f"icmp ugt i64 %rows, {i}"), done)
            row = w.beyond("%c", w.mul("%c_row", i))
            for j, mask in enumerate(masks):
                at = w.beyond(row, j * x.width * size)
                old = x.load(w.either("%first", "ptr", zeros, at), mask)
                x.store(x.add(old, sums[i * registers + j]), at, mask)
        w.go(done)
        w.open(done)

    def store_part() -> None:
        store([x.below(w.sub("%columns", j * x.width) if j else "%columns") for j in range(registers)])

    if x.masked:
        store_part()
    else:
        w.branch(w(f"icmp eq i64 %columns, {registers * x.width}"), lambda: store([""] * registers), store_part)
    w.end()


def _write_copy(x: Product) -> None:
    """Copies rows whose elements are neighbours."""
    w = x.writer
    w.function(f"internal void @copy_1{_COPY}", "noinline #0")

    def row(_: str, values: list[str]) -> list[str]:
        source, target = values

        def packet(column: str, _: list[str]) -> None:
            whole = w(f"icmp sle i64 {w.add(column, x.width)}, %columns")
            at = w.at(x.narrow.element, source, column)
            value, = w.branch(whole, lambda: [x.load(at, t=x.narrow)],
                              lambda: [x.load(at, x.below(w.sub("%columns", column)), x.narrow)], [str(x.narrow)])
            x.store(x.widen(value), w.at(x.wide.element, target, column))

        w.repeat("0", "%columns", x.width, [], packet)
        return [w.beyond(source, "%along"), w.beyond(target, "%to_row")]

    w.repeat("0", "%rows", 1, [("ptr", "%from"), ("ptr", "%to")], row)
    w.end()


def _write_copy_transposed(x: Product) -> None:
    """Copies columns whose elements are neighbours, by squares of registers, which are filled up with zeros."""
    w, n, t = x.writer, x.width, x.wide
    w.function(f"internal void @copy_2{_COPY}", "noinline #0")

    def rows(row: str, _: list[str]) -> None:
        some = x.below(w.sub("%rows", row))
        source, target = w.beyond("%from", w.mul(row, x.narrow_size)), w.beyond("%to", w.mul(row, "%to_row"))

        def square(column: str, _: list[str]) -> None:
            left, read = w.sub("%columns", column), []
            for i in range(n):  # columns that do not exist are the first one again, under a mask that is false
                exists = w(f"icmp sgt i64 {left}, {i}")
                at = w.beyond(source, w.mul(w.add(column, w.either(exists, "i64", i, 0)), "%across"))
                mask = w.either(exists, t.mask, some, "zeroinitializer")
                read.append(x.widen(x.load(at, mask, x.narrow)))
            to = w.beyond(target, w.mul(column, x.size))
            for i, value in enumerate(transpose_registers(w, t, x.size, read)):
                x.store(value, w.beyond(to, w.mul("%to_row", i)))

        w.repeat("0", "%columns", n, [], square)

    w.repeat("0", "%rows", n, [], rows)
    w.end()


def _write_copy_general(x: Product) -> None:
    """Copies one element after the other; packets are filled up with zeros."""
    w, s, t = x.writer, x.narrow.element, x.wide.element
    w.function(f"internal void @copy_3{_COPY}", "noinline #0")
    padded = w.and_(w.add("%columns", x.width - 1), -x.width)

    def row(_: str, values: list[str]) -> list[str]:
        source, target = values

        def element(column: str, values: list[str]) -> list[str]:
            value = x.widen(w.load(s, values[0], x.narrow_size), scalar=True)
            w.store(t, value, w.at(t, target, column), x.size)
            return [w.beyond(values[0], "%across")]

        w.repeat("0", "%columns", 1, [("ptr", source)], element)
        zero = "0.0" if x.wide.info.kind == "f" else "0"
        w.loop("%columns", padded, 1, [], lambda column, _: w.store(t, zero, w.at(t, target, column), x.size))
        return [w.beyond(source, "%along"), w.beyond(target, "%to_row")]

    w.repeat("0", "%rows", 1, [("ptr", "%from"), ("ptr", "%to")], row)
    w.end()


def _write_finish(x: Product) -> None:
    """Sums of a wider type become elements of the result."""
    w = x.writer
    w.function("internal void @finish(ptr %from, i64 %from_row, ptr %to, i64 %to_row, i64 %rows, i64 %columns)",
               "noinline #0")

    def row(number: str, _: list[str]) -> None:
        source, target = w.beyond("%from", w.mul(number, "%from_row")), w.beyond("%to", w.mul(number, "%to_row"))

        def packet(column: str, _: list[str]) -> None:
            mask = x.below(w.sub("%columns", column))
            at, to = w.at(x.wide.element, source, column), w.at(x.narrow.element, target, column)
            x.store(x.narrowed(x.load(at)), to, mask, x.narrow)

        w.repeat("0", "%columns", x.width, [], packet)

    w.repeat("0", "%rows", 1, [], row)
    w.end()


class Located(NamedTuple):
    """Where a task is."""

    rows: Tile
    columns: Tile
    depth: Tile  # of the sum
    a: str  # where operands begin
    b: str
    c: str  # where the result does
    wider: str  # whether elements of the result have the type of the sums
    c_size: str  # their bytes
    copy: str  # memory of its own


def located(x: Product, words: Words) -> Located:
    """Where a task is: its tile and part, and its matrices in the batch."""
    w = x.writer
    copy = w.beyond(words["scratch"], w.mul(w("zext i32 %worker to i64"), words["scratch_size"]))
    rest, part = w.divided("%task", words["parts"])
    rest, across = w.divided(rest, words["column_tiles"])
    batch, down = w.divided(rest, words["row_tiles"])
    rows = tile(w, down, words["tile_rows"], words["rows"])
    columns = tile(w, across, words["tile_columns"], words["columns"])
    depth = tile(w, part, words["part"], words["depth"])
    a_batch, b_batch = located_in_batch(w, words, batch)

    def at(name: str, in_batch: str, row: str, column: str) -> str:
        place = w.add(w.mul(row, words[f"{name}_row"]), w.mul(column, words[f"{name}_column"]))
        return w.beyond(w.beyond(words[name], in_batch), place)

    wider = w(f"icmp ne i64 {words['c_wide']}, 0")
    c_size = w.either(wider, "i64", x.size, x.narrow_size)
    in_batch = w.add(w.mul(batch, words["c_batch"]), w.mul(part, words["c_part"]))
    in_matrix = w.add(w.mul(rows.begin, words["c_row"]), w.mul(columns.begin, c_size))
    return Located(rows, columns, depth, at("a", a_batch, rows.begin, depth.begin),
                   at("b", b_batch, depth.begin, columns.begin), w.beyond(words["c"], w.add(in_batch, in_matrix)),
                   wider, c_size, copy)


def _write_task(x: Product, words: Words) -> None:
    w, here = x.writer, located(x, words)
    panel = x.registers * x.width
    panel_row, line = panel * x.size, DEPTH * x.size
    a_copy = w.beyond(here.copy, DEPTH * panel_row)
    a_row, a_column, b_row, b_column = (words[name] for name in ("a_row", "a_column", "b_row", "b_column"))
    sums, sums_row = here.c, words["c_row"]
    if x.converts:  # sums are kept behind the copies until they are complete
        padded = w.and_(w.add(words["tile_rows"], x.width - 1), -x.width)
        own = w.beyond(a_copy, w.mul(padded, line))
        own_row = w.mul(w.and_(w.add(words["tile_columns"], panel - 1), -panel), x.size)
        sums, sums_row = w.either(here.wider, "ptr", sums, own), w.either(here.wider, "i64", sums_row, own_row)

    def copy(way: int, *arguments: str) -> None:
        w.run(f"copy_{way}", *arguments)

    def block(k: str, values: list[str]) -> list[str]:
        a, b = values
        first = w(f"icmp eq i64 {k}, 0")
        depth = w.minimum(w.sub(here.depth.length, k), DEPTH)
        whole = (f"ptr {a}", f"i64 {a_row}", f"i64 {a_column}", f"ptr {a_copy}", f"i64 {line}",
                 f"i64 {here.rows.length}", f"i64 {depth}")
        w.switch(words["a_mode"], {DIRECT: lambda: None, ROWS_FIRST: lambda: copy(1, *whole),
                                   TRANSPOSED: lambda: copy(2, *whole)}, lambda: copy(3, *whole))
        lies = w(f"icmp eq i64 {words['a_mode']}, {DIRECT}")
        a_from = w.either(lies, "ptr", a, a_copy)
        a_along, a_apart = w.either(lies, "i64", a_row, line), w.either(lies, "i64", a_column, x.size)
        w.repeat("0", here.columns.length, panel, [],
                 lambda j, _: columns(b, j, first, depth, a_from, a_along, a_apart))
        return [w.beyond(a, w.mul(a_column, DEPTH)), w.beyond(b, w.mul(b_row, DEPTH))]

    def columns(b: str, j: str, first: str, depth: str, a_from: str, a_along: str, a_apart: str) -> None:
        count = w.minimum(w.sub(here.columns.length, j), panel)
        b = w.beyond(b, w.mul(j, b_column))
        # is there a tile of exactly these columns, so that nothing is read beyond them?
        exact = w(f"icmp eq i64 {count}, {x.variants[0] * x.width}")
        for registers in x.variants[1:]:
            exact = w(f"or i1 {exact}, {w(f'icmp eq i64 {count}, {registers * x.width}')}")
        direct = w(f"icmp eq i64 {words['b_mode']}, {DIRECT}")
        lies = w(f"and i1 {direct}, {exact}")
        part = (f"ptr {b}", f"i64 {b_row}", f"i64 {b_column}", f"ptr {here.copy}", f"i64 {panel_row}", f"i64 {depth}",
                f"i64 {count}")
        w.branch(lies, lambda: None, lambda: w.switch(
            words["b_mode"], {TRANSPOSED: lambda: copy(2, *part), GENERAL: lambda: copy(3, *part)},
            lambda: copy(1, *part)))
        b_from, b_along = w.either(lies, "ptr", b, here.copy), w.either(lies, "i64", b_row, panel_row)
        c = w.beyond(sums, w.mul(j, x.size))

        def tiles(i: str, values: list[str]) -> list[str]:
            a_i, c_i = values
            rows = w.minimum(w.sub(here.rows.length, i), x.rows)

            def call(height: int, variants: list[int]) -> None:
                """The narrowest tile that has so many columns as are left."""
                if len(variants) > 1:
                    w.branch(w(f"icmp ugt i64 {count}, {variants[1] * x.width}"),
                             lambda: call(height, variants[:1]), lambda: call(height, variants[1:]))
                    return
                w.run(f"tile_{height}_{variants[0]}", f"ptr {a_i}", f"i64 {a_along}", f"i64 {a_apart}",
                      f"ptr {b_from}", f"i64 {b_along}", f"i64 {depth}", f"ptr {c_i}", f"i64 {sums_row}", f"i64 {rows}",
                      f"i64 {count}", f"i1 {first}")

            w.branch(w(f"icmp ugt i64 {rows}, {x.rows // 2}"), lambda: call(x.rows, x.variants),
                     lambda: call(x.rows // 2, x.variants))
            return [w.beyond(a_i, w.mul(a_along, x.rows)), w.beyond(c_i, w.mul(sums_row, x.rows))]

        w.repeat("0", here.rows.length, x.rows, [("ptr", a_from), ("ptr", c)], tiles)

    w.repeat("0", here.depth.length, DEPTH, [("ptr", here.a), ("ptr", here.b)], block)
    if x.converts:
        w.branch(here.wider, lambda: None, lambda: w.run(
            "finish", f"ptr {sums}", f"i64 {sums_row}", f"ptr {here.c}", f"i64 {words['c_row']}",
            f"i64 {here.rows.length}", f"i64 {here.columns.length}"))
