"""LLVM text of products of matrices and vectors, which read each element of the matrix once: memory decides.

There is one function for matrices whose rows lie in memory (sums of products along them), and one for those whose
columns do (a row of sums, to which columns are added, eight at a time).  Products of a vector and a matrix are those of
the transposed matrix.  Parameters are :data:`.matrices.WORDS`, the vector is the right operand.

Rounding: a lane adds up at most 512 products by fused multiply-adds, or sums of eight, before lanes and parts are
added.
"""

from __future__ import annotations

import math

from .matrices import DIRECT, WORDS, Matrices, Plan, words_of
from .product import POINTERS, Product, located
from .tasks import Words, up, write_task, write_tasks

__all__ = ["columns_text", "combine_text", "plan_vector", "rows_text"]

#: Rows that are read at the same time, and registers of each.
_GROUPS = ((4, 2), (1, 8))
#: Columns that are read at the same time.
_COLUMNS = 8


def rows_text(type_: int, lanes: int) -> str:
    """The module of products of matrices whose rows lie in memory."""
    x = Product(type_, lanes)
    for group in _GROUPS:
        _write_rows(x, *group)
    _write_gather(x)
    write_task(x.writer, WORDS, POINTERS, lambda words: _write_rows_task(x, words))
    write_tasks(x.writer, WORDS["unit"])
    return x.writer.text()


def _write_rows(x: Product, rows: int, registers: int) -> None:
    """Sums of products of ``rows`` rows with the vector; where there are fewer, the last one is computed repeatedly."""
    w, t, step = x.writer, str(x.wide), x.width * registers
    w.function(f"internal void @rows_{rows}(ptr %a, i64 %a_row, ptr %x, i64 %depth, ptr %c, i64 %c_row, i64 %rows, "
               "i1 %wider)", "noinline #0")
    a = x.rows_of(rows, "%a_row", "%a")
    whole = w.and_("%depth", -step)

    def loads(place: str, registers: int, mask: str = "") -> list[list[str]]:
        found = []
        for base in ("%x", *a):
            at = w.at(x.narrow.element, base, place)
            found.append([x.widen(x.load(w.beyond(at, j * x.width * x.narrow_size), mask, x.narrow))
                          for j in range(registers)])
        return found

    def add(place: str, sums: list[str]) -> list[str]:
        vector, *values = loads(place, registers)
        return [x.multiply_add(values[i][j], vector[j], sums[i * registers + j])
                for i in range(rows) for j in range(registers)]

    def add_last(place: str, sums: list[str]) -> list[str]:
        (vector,), *values = loads(place, 1, x.below(w.sub("%depth", place)))
        return [x.multiply_add(values[i][0], vector, sums[i]) for i in range(rows)]

    found = w.loop("0", whole, step, [(t, "zeroinitializer")] * (rows * registers), add)
    sums = []
    for i in range(rows):
        level = found[i * registers:(i + 1) * registers]
        while len(level) > 1:
            level = [x.add(*level[j:j + 2]) for j in range(0, len(level), 2)]
        sums.append(level[0])
    totals = [_total(x, sum_) for sum_ in w.loop(whole, "%depth", x.width, [(t, sum_) for sum_ in sums], add_last)]
    done = w.label()
    for i, total in enumerate(totals):
        if i:
            w.only_if(w(f"icmp ugt i64 %rows, {i}"), done)
        _store_total(x, total, w.beyond("%c", w.mul("%c_row", i)))
    w.go(done)
    w.open(done)
    w.end()


def _total(x: Product, value: str) -> str:
    """The sum of the lanes of a packet, by halves."""
    w, distance = x.writer, x.width // 2
    while distance:
        value = x.add(value, w.shuffle(x.wide, value, "poison", [(k + distance) % x.width for k in range(x.width)]))
        distance //= 2
    return w(f"extractelement {x.wide} {value}, i64 0")


def _store_total(x: Product, value: str, address: str) -> None:
    """Store a sum as such, or as an element of the result."""
    w = x.writer

    def store_wide() -> None:
        w.store(x.wide.element, value, address, x.size)

    if x.converts:
        w.branch("%wider", store_wide, lambda: w.store(x.narrow.element, x.narrowed(value, scalar=True), address,
                                                       x.narrow_size))
    else:
        store_wide()


def _write_gather(x: Product) -> None:
    """Copies the elements of a vector that are apart."""
    w, s, size = x.writer, x.narrow.element, x.narrow_size
    w.function("internal void @gather(ptr %from, i64 %step, ptr %to, i64 %count)", "noinline #0")
    w.repeat("0", "%count", 1, [], lambda i, _: w.store(
        s, w.load(s, w.beyond("%from", w.mul(i, "%step")), size), w.at(s, "%to", i), size))
    w.end()


def _write_rows_task(x: Product, words: Words) -> None:
    w, here = x.writer, located(x, words)
    many, one = _GROUPS[0][0], _GROUPS[1][0]

    def gather() -> list[str]:
        w.run("gather", f"ptr {here.b}", f"i64 {words['b_row']}", f"ptr {here.copy}", f"i64 {here.depth.length}")
        return [here.copy]

    lies = w(f"icmp eq i64 {words['b_mode']}, {DIRECT}")
    vector, = w.branch(lies, lambda: [here.b], gather, ["ptr"])

    def group(i: str, _: list[str]) -> None:
        a, c = w.beyond(here.a, w.mul(i, words["a_row"])), w.beyond(here.c, w.mul(i, words["c_row"]))
        count = w.minimum(w.sub(here.rows.length, i), many)

        def run(rows: int, count: object) -> None:
            w.run(f"rows_{rows}", f"ptr {a}", f"i64 {words['a_row']}", f"ptr {vector}", f"i64 {here.depth.length}",
                  f"ptr {c}", f"i64 {words['c_row']}", f"i64 {count}", f"i1 {here.wider}")

        w.branch(w(f"icmp eq i64 {count}, 1"), lambda: run(one, 1), lambda: run(many, count))

    w.repeat("0", here.rows.length, many, [], group)


def columns_text(type_: int, lanes: int) -> str:
    """The module of products of matrices whose columns lie in memory."""
    x = Product(type_, lanes)
    _write_columns(x, _COLUMNS)
    _write_columns(x, 1)
    _write_deliver(x)
    write_task(x.writer, WORDS, POINTERS, lambda words: _write_columns_task(x, words))
    write_tasks(x.writer, WORDS["unit"])
    return x.writer.text()


def _write_columns(x: Product, columns: int) -> None:
    """Adds ``columns`` columns times their elements of the vector to a row of sums."""
    w, s, t, size = x.writer, x.narrow.element, x.wide, x.narrow_size
    w.function(f"internal void @columns_{columns}(ptr %a, i64 %a_column, ptr %x, i64 %x_step, ptr %sums, i64 %count)",
               "noinline #0")
    a, factors = [], []
    for k in range(columns):
        a.append(w.beyond("%a", w.mul("%a_column", k)))
        element = w.load(s, w.beyond("%x", w.mul("%x_step", k)), size)
        factors.append(w.splat(t, x.widen(element, scalar=True)))
    whole = w.and_("%count", -x.width)

    def add(place: str, mask: str) -> None:
        found = ""
        for base, factor in zip(a, factors, strict=True):
            value = x.widen(x.load(w.at(s, base, place), mask, x.narrow))
            found = x.multiply_add(value, factor, found) if found else \
                w(f"{'fmul' if t.info.kind == 'f' else 'mul'} {t} {value}, {factor}")
        at = w.at(t.element, "%sums", place)
        x.store(x.add(x.load(at), found), at)

    w.loop("0", whole, x.width, [], lambda place, _: add(place, ""))
    w.branch(w(f"icmp ult i64 {whole}, %count"), lambda: add(whole, x.below(w.sub("%count", whole))))
    w.end()


def _write_deliver(x: Product) -> None:
    """Sums become elements of the result."""
    w = x.writer
    w.function("internal void @deliver(ptr %from, ptr %to, i64 %count, i1 %wider)", "noinline #0")

    def packet(i: str, _: list[str]) -> None:
        mask = x.below(w.sub("%count", i))
        sums = x.load(w.at(x.wide.element, "%from", i))

        def store_wide() -> None:
            x.store(sums, w.at(x.wide.element, "%to", i), mask)

        if x.converts:
            w.branch("%wider", store_wide, lambda: x.store(x.narrowed(sums), w.at(x.narrow.element, "%to", i), mask,
                                                           x.narrow))
        else:
            store_wide()

    w.repeat("0", "%count", x.width, [], packet)
    w.end()


def _write_columns_task(x: Product, words: Words) -> None:
    w, here = x.writer, located(x, words)
    w.repeat("0", here.rows.length, x.width, [],
             lambda i, _: x.store("zeroinitializer", w.at(x.wide.element, here.copy, i)))

    def add(columns: int, k: str) -> None:
        w.run(f"columns_{columns}", f"ptr {w.beyond(here.a, w.mul(k, words['a_column']))}", f"i64 {words['a_column']}",
              f"ptr {w.beyond(here.b, w.mul(k, words['b_row']))}", f"i64 {words['b_row']}", f"ptr {here.copy}",
              f"i64 {here.rows.length}")

    whole = w.and_(here.depth.length, -_COLUMNS)
    w.loop("0", whole, _COLUMNS, [], lambda k, _: add(_COLUMNS, k))
    w.loop(whole, here.depth.length, 1, [], lambda k, _: add(1, k))
    w.run("deliver", f"ptr {here.copy}", f"ptr {here.c}", f"i64 {here.rows.length}", f"i1 {here.wider}")


def combine_text(type_: int, lanes: int) -> str:
    """Adds up the partial results of a product, in order: single precision in double.

    Parameters: addresses of the partial results and of the result; number of parts; elements of each.
    """
    x = Product(type_, lanes)
    w, t, s = x.writer, x.wide, x.narrow
    double = t.info.bits == 32 and t.info.kind == "f" and not x.converts
    sum_ = t.of("double") if double else str(t)
    plus = "fadd" if t.info.kind == "f" else "add"
    w.kernel()
    source, target = w.parameter(0, "ptr"), w.parameter(1, "ptr")
    parts, count = w.parameter(2), w.parameter(3)

    def packet(i: str, _: list[str]) -> None:
        mask = x.below(w.sub("%end", i))

        def part(number: str, sums: list[str]) -> list[str]:
            value = x.load(w.at(t.element, source, w.add(w.mul(number, count), i)), mask)
            return [w(f"{plus} {sum_} {sums[0]}, " + (w(f"fpext {t} {value} to {sum_}") if double else value))]

        total, = w.repeat("0", parts, 1, [(sum_, "zeroinitializer")], part)
        if double:
            total = w(f"fptrunc {sum_} {total} to {s}")
        elif x.converts:
            total = x.narrowed(total)
        elif s != t:
            total = w(f"bitcast {t} {total} to {s}")
        x.store(total, w.at(s.element, target, i), mask, s)

    w.loop("%begin", "%end", x.width, [], packet)
    w.end()
    return w.text()


# --- what the host decides -------------------------------------------------------------------------------------------

#: Tiles are halved, and the sum is cut into parts, until there are so many tasks, of at least so many bytes.
_TASKS, _LEAST = 16, 1 << 17
#: Elements of the sum that a task adds up: of one row, of several, of columns (of which so many bytes are a tile).
_ONE_ROW, _ROWS, _DEPTH, _TILE = 1 << 16, 1 << 14, 1 << 12, 1 << 13


def plan_vector(type_: int, lanes: int, m: Matrices) -> Plan:
    """How products with one column on the right are computed; rows or columns of the matrix lie in memory."""
    x = Product(type_, lanes)
    size, wide, count, depth = x.narrow_size, x.size, math.prod(m.batch), max(m.depth, 1)
    by_rows = m.a[1] == 1
    if by_rows:
        tile, part, multiple = min(m.rows, 256), min(depth, _ONE_ROW if m.rows == 1 else _ROWS), _GROUPS[0][0]
    else:
        tile, part, multiple = min(m.rows, _TILE // wide), min(depth, _DEPTH), 4 * x.width

    def tasks() -> int:
        return count * -(-m.rows // tile) * -(-depth // part)

    while tasks() < _TASKS and tile * part * size > 2 * _LEAST:
        if by_rows and tile > multiple:
            tile = up(tile // 2, multiple)
        elif part > 1 << 9:  # long pieces of columns are read faster than short ones
            part //= 2
        elif tile > multiple:
            tile = up(tile // 2, multiple)
        else:
            break
    parts = -(-depth // part)
    out = wide if parts > 1 else size
    contiguous = m.b[0] == 1 or depth == 1
    scratch = up(min(part, depth), x.width) * size if by_rows else up(tile, x.width) * wide
    values = {
        "rows": m.rows, "columns": 1, "depth": m.depth, "a_row": m.a[0] * size, "a_column": m.a[1] * size,
        "b_row": m.b[0] * size, "c_row": out, "c_batch": m.rows * out, "c_part": count * m.rows * out,
        "c_wide": int(parts > 1),
        "tile_rows": tile, "tile_columns": 1, "part": part, "row_tiles": -(-m.rows // tile), "column_tiles": 1,
        "parts": parts, "b_mode": int(not contiguous), "rank": len(m.batch), "scratch_size": up(scratch, 4096),
        "unit": max(1, tile * part // x.width)}
    return Plan(words_of(values, m, size), tasks(), parts, values["unit"], values["scratch_size"])
