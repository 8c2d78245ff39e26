"""What the host decides about products of matrices: how operands are read, tiles, parts of sums, parameters."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...types import INT32, TYPES, UINT32, TypeInfo
from .tasks import numbered, up

__all__ = ["DEPTH", "DIRECT", "GENERAL", "ROWS_FIRST", "TRANSPOSED", "WORDS", "Matrices", "Plan", "accumulator",
           "plan_product", "register_tile", "words_of"]

#: Elements of the sum in a block.
DEPTH = 256
#: How an operand is read: as it lies; copied, with its rows next to each other in memory; its columns; neither.
DIRECT, ROWS_FIRST, TRANSPOSED, GENERAL = range(4)
#: Words of parameters by name: where they are.  Behind them come, for each dimension of the batch, the extent and the
#: distances of both operands.
WORDS = numbered(
    "a", "b", "c", "scratch", "scratch_size", "rows", "columns", "depth", "a_row", "a_column", "b_row", "b_column",
    "c_row", "c_batch", "c_part", "tile_rows", "tile_columns", "part", "row_tiles", "column_tiles", "parts", "a_mode",
    "b_mode", "c_wide", "unit", "rank")


def accumulator(type_: int) -> int:
    """The scalar type that products of a type are computed in."""
    info: TypeInfo = TYPES[type_]
    if info.is_float or info.bits >= 32:
        return info.computes_in
    return INT32 if info.kind == "i" else UINT32


def register_tile(type_: int, lanes: int) -> tuple[int, int, int]:
    """What a tile that is computed in registers has: rows, registers in a row, elements in a register.

    AVX-512 and NEON have 32 registers, AVX2 has 16.
    """
    info: TypeInfo = TYPES[accumulator(type_)]
    return 6, 2 if lanes == 8 else 4, lanes * 4 // info.size


class Matrices(NamedTuple):
    """The operands of a batch of products: extents, and where elements are, in elements."""

    rows: int
    columns: int
    depth: int
    batch: tuple[int, ...]
    a: tuple[int, int]  # distances of rows and columns
    b: tuple[int, int]
    a_batch: tuple[int, ...]
    b_batch: tuple[int, ...]


class Plan(NamedTuple):
    """How a batch of products is worked off; it follows from shapes and strides alone."""

    words: list[int]  # the parameters, without addresses
    tasks: int
    parts: int  # of the sum; if there are several, they are stored one after the other, as sums, to be added up
    unit: int  # multiply-adds of packets in a task, which is what its work is counted in
    scratch: int  # bytes that each thread needs


#: Tiles of the result are halved until there are so many tasks, but no further than to so many multiply-adds each.
_TASKS, _LEAST = 16, 1 << 20
#: The largest tile.
_TILE = 256
#: Bytes that a block of the left matrix may extend over where its columns are read as they lie: more are many pages.
_NEAR = 1 << 19
#: The sum is cut into parts, of at least so many elements, where tiles alone do not make enough tasks.
_PART = 4 * DEPTH


def plan_product(type_: int, lanes: int, m: Matrices) -> Plan:
    """How products of a type are computed on a machine."""
    height, registers, width = register_tile(type_, lanes)
    panel = registers * width
    size, wide = TYPES[type_].size, TYPES[accumulator(type_)].size
    count, depth = math.prod(m.batch), max(m.depth, 1)
    row_tiles, column_tiles, parts = -(-m.rows // _TILE), -(-m.columns // _TILE), 1
    tile_rows, tile_columns, part = _share(m.rows, row_tiles, height), _share(m.columns, column_tiles, panel), depth
    while (row_tiles * column_tiles * parts * count < _TASKS
           and tile_rows * tile_columns * part > 2 * _LEAST):
        if tile_rows >= tile_columns and tile_rows > 4 * height:
            row_tiles *= 2
            tile_rows = _share(m.rows, row_tiles, height)
        elif tile_columns > panel:
            column_tiles *= 2
            tile_columns = _share(m.columns, column_tiles, panel)
        elif part > _PART:
            parts *= 2
            part = _share(depth, parts, DEPTH)
        else:
            break
    row_tiles, column_tiles = -(-m.rows // tile_rows), -(-m.columns // tile_columns)
    parts = -(-depth // part)
    converts = accumulator(type_) != type_ and size != wide
    a_mode = _mode(m.a[0], m.a[1])
    if a_mode == ROWS_FIRST and not converts and (tile_columns <= panel or m.rows * depth <= 1 << 14):
        a_mode = DIRECT
    if a_mode == TRANSPOSED and not converts and tile_columns <= 2 * panel and m.a[1] * size * DEPTH <= _NEAR:
        a_mode = DIRECT
    b_mode = _mode(m.b[0], m.b[1])
    if b_mode == ROWS_FIRST and not converts and (tile_rows <= 4 * height or m.columns * depth <= 1 << 13):
        b_mode = DIRECT
    padded_rows, padded_columns = up(tile_rows, width), up(tile_columns, panel)
    scratch = DEPTH * panel * wide + (a_mode != DIRECT) * padded_rows * DEPTH * wide
    if converts:
        scratch = DEPTH * (panel + padded_rows) * wide + padded_rows * padded_columns * wide
    out = wide if parts > 1 else size
    values = {
        "rows": m.rows, "columns": m.columns, "depth": m.depth, "a_row": m.a[0] * size, "a_column": m.a[1] * size,
        "b_row": m.b[0] * size, "b_column": m.b[1] * size, "c_row": m.columns * out,
        "c_batch": m.rows * m.columns * out, "c_part": count * m.rows * m.columns * out, "c_wide": int(parts > 1),
        "tile_rows": tile_rows,
        "tile_columns": tile_columns, "part": part, "row_tiles": row_tiles, "column_tiles": column_tiles,
        "parts": parts, "a_mode": a_mode, "b_mode": b_mode, "rank": len(m.batch), "scratch_size": up(scratch, 4096),
        "unit": max(1, min(tile_rows, m.rows) * min(tile_columns, m.columns) * part // width)}
    words = words_of(values, m, size)
    return Plan(words, row_tiles * column_tiles * parts * count, parts, values["unit"], values["scratch_size"])


def words_of(values: dict[str, int], m: Matrices, size: int) -> list[int]:
    """The parameters, but for addresses."""
    words = [values.get(name, 0) for name in WORDS]
    for extent, a, b in zip(m.batch, m.a_batch, m.b_batch, strict=True):
        words += [extent, a * size, b * size]
    return words


def _share(extent: int, shares: int, multiple: int) -> int:
    """The size of shares that an extent is divided into."""
    return up(-(-extent // shares), multiple)


def _mode(row: int, column: int) -> int:
    return ROWS_FIRST if column == 1 else TRANSPOSED if row == 1 else GENERAL
