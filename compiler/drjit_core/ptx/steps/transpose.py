"""Copies with axes in another order: tiles of 32 elements along both axes, which lie in shared memory meanwhile, so
that neighbouring threads read neighbours, and write neighbours."""

from __future__ import annotations

from collections.abc import Iterable

from ...codegen.steps import Call, Pass, Text
from ...types import TYPES
from .writer import WARP, Grid, Writer, in_registers, require_counted

__all__ = ["passes"]

#: Elements of a tile along each axis, and threads along the other one.
_TILE, _ROWS = WARP, 8


def _transpose(architecture: int, type_: int, dimensions: int) -> str:
    """Words: source, target, rows, columns, tiles along them, distances of columns in the source and of rows in the
    target (elements); of each of the other axes, the last one first, extent and distances."""
    w = Writer(architecture, _TILE * _ROWS)
    memory, size = in_registers(type_), TYPES[type_].size
    place = max(size, 4)  # a row of a tile has one more, so that columns of it are in different banks
    shared = w.shared("tile", _TILE * (_TILE + 1) * place)
    rows, columns, row_tiles, column_tiles = (w.parameter(k, "u32") for k in (2, 3, 4, 5))

    def divided(number: str, by: str) -> tuple[str, str]:
        quotient = w.r("div.u32", number, by)
        return quotient, w.r("sub.u32", number, w.r("mul.lo.u32", quotient, by))
    rest, column_tile = divided(w.block, column_tiles)
    rest, row_tile = divided(rest, row_tiles)
    source, target = w.rd("mov.b64", 0), w.rd("mov.b64", 0)
    for k in range(dimensions):
        rest, index = divided(rest, w.parameter(8 + 3 * k, "u32"))
        wide = w.wide(index)
        source = w.rd("mad.lo.u64", wide, w.parameter(9 + 3 * k), source)
        target = w.rd("mad.lo.u64", wide, w.parameter(10 + 3 * k), target)
    x, y = w.lane(), w.r("shr.u32", w.tid, 5)
    first_row, first_column = (w.r("mul.lo.u32", tile, _TILE) for tile in (row_tile, column_tile))
    row = w.r("add.u32", first_row, x)
    row_there = w.p("setp.lt.u32", row, rows)
    for k in range(0, _TILE, _ROWS):
        within = w.r("add.u32", y, k)
        column = w.r("add.u32", first_column, within)
        there = w.both(row_there, w.p("setp.lt.u32", column, columns))
        at = w.rd("add.u64", w.rd("mad.lo.u64", w.wide(column), w.parameter(6), source), w.wide(row))
        value = w.load(memory, w.at(w.parameter(0), at, size), there, w.zero(memory))
        w.store(memory, w.at(shared, w.r("mad.lo.u32", within, _TILE + 1, x), place), value, space="shared")
    w.barrier()
    column = w.r("add.u32", first_column, x)
    column_there = w.p("setp.lt.u32", column, columns)
    for k in range(0, _TILE, _ROWS):
        within = w.r("add.u32", y, k)
        row = w.r("add.u32", first_row, within)
        there = w.both(column_there, w.p("setp.lt.u32", row, rows))
        value = w.load(memory, w.at(shared, w.r("mad.lo.u32", x, _TILE + 1, within), place), space="shared")
        at = w.rd("add.u64", w.rd("mad.lo.u64", w.wide(row), w.parameter(7), target), w.wide(column))
        w.store(memory, w.at(w.parameter(1), at, size), value, there)
    return w.text(8 + 3 * dimensions)


def passes(call: Call) -> Iterable[Pass]:
    """Those of a step."""
    (source,), result = call.operands, call.results[0]
    rows, columns, source_column, target_row, base, *rest = (int(option) for option in call.step.options)
    axes = [rest[k:k + 3] for k in range(0, len(rest), 3)]
    require_counted("transpose", rows, columns, *[extent for extent, _, _ in axes])
    row_tiles, column_tiles = -(-rows // _TILE), -(-columns // _TILE)
    blocks = row_tiles * column_tiles
    for extent, _, _ in axes:
        blocks *= extent
    words = [word for axis in reversed(axes) for word in axis]
    yield Pass(Text("transpose", (call.target.features, source.type, len(axes)), _transpose, 2),
               (source.address + base * TYPES[source.type].size, result.address, rows, columns, row_tiles, column_tiles,
                source_column, target_row, *words), Grid(result.size, blocks, _TILE * _ROWS))
