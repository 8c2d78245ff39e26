"""The launches of products: which of the texts, how the batch is seen, and what adds up partial sums."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from ...codegen.steps import Call, Pass, Text
from ...types import TYPES
from .. import jit
from .blocks import in_blocks
from .matrices import WORDS, Matrices, Plan, accumulator, plan_product
from .product import product_text
from .vector import columns_text, combine_text, plan_vector, rows_text

__all__ = ["matrices_of", "passes"]

#: Cost of a multiply-add of packets, relative to the addition of one element.
_COST = 25
#: Multiply-adds of packets that a block should have, and elements of a block of what adds up partial sums.
_BLOCK, _SUMS = 1 << 14, 1 << 13
_A, _B, _C, _SCRATCH = (WORDS[name] for name in ("a", "b", "c", "scratch"))


class _Launches(NamedTuple):
    """All that does not depend on addresses."""

    text: Text
    words: list[int]
    exchanged: bool  # whether the product is that of the transposed operands
    first: int  # where the operands begin, in bytes
    second: int
    width: int
    block: int
    parts: int
    partial_bytes: int
    scratch: int


@functools.lru_cache(maxsize=512)
def _planned(type_: int, options: tuple[int | str, ...], lanes: int, size: int) -> _Launches:
    m, first, second = matrices_of(options)
    exchanged = m.rows == 1 and m.columns > 1
    if exchanged:
        m = m._replace(rows=m.columns, columns=1, a=m.b[::-1], b=m.a[::-1], a_batch=m.b_batch, b_batch=m.a_batch)
        first, second = second, first
    plan: Plan
    if m.columns == 1 and 1 in m.a:
        plan = plan_vector(type_, lanes, m)
        text = Text("product of rows", (type_, lanes), rows_text, _COST) if m.a[1] == 1 else \
            Text("product of columns", (type_, lanes), columns_text, _COST)
    else:
        plan = plan_product(type_, lanes, m)
        text = Text("product", (type_, lanes), product_text, _COST)
    bytes_ = TYPES[type_].size
    tasks = max(1, min(plan.tasks, _BLOCK // plan.unit))
    return _Launches(text, plan.words, exchanged, first * bytes_, second * bytes_, plan.tasks * plan.unit,
                     tasks * plan.unit, plan.parts, plan.parts * size * TYPES[accumulator(type_)].size, plan.scratch)


def passes(call: Call) -> Iterable[Pass]:
    """The launches of a product."""
    (a, b), c = call.operands, call.results[0]
    found = _planned(a.type, call.step.options, jit.lanes(), c.size)
    if found.exchanged:
        a, b = b, a
    words, target = found.words.copy(), c.address
    if found.parts > 1:
        target = call.scratch(found.partial_bytes)
    words[_A], words[_B], words[_C] = a.address + found.first, b.address + found.second, target
    words[_SCRATCH] = call.scratch(found.scratch * call.target.threads)
    yield in_blocks(found.text, tuple(words), found.width, found.block)
    if found.parts > 1:
        text = Text("sums of partial products", (c.type, jit.lanes()), combine_text, 8)
        yield in_blocks(text, (target, c.address, found.parts, c.size), c.size, _SUMS)


def matrices_of(options: tuple[int | str, ...]) -> tuple[Matrices, int, int]:
    """The operands of a product as its step tells them, the batch in fewer dimensions; where they begin."""
    rows, columns, depth, a_base, b_base, a_row, a_column, b_row, b_column, *rest = (int(option) for option in options)
    batch: list[tuple[int, int, int]] = []
    for extent, a, b in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if extent == 1:
            continue
        if batch and batch[-1][1:] == (a * extent, b * extent):
            batch[-1] = (batch[-1][0] * extent, a, b)
        else:
            batch.append((extent, a, b))
    # What is multiplied by one and the same matrix is one matrix of more rows.
    if batch and batch[-1][2] == 0 and (rows == 1 or batch[-1][1] == rows * a_row):
        extent, stride, _ = batch.pop()
        a_row = stride if rows == 1 else a_row
        rows *= extent
    return Matrices(rows, columns, depth, tuple(extent for extent, _, _ in batch), (a_row, a_column),
                    (b_row, b_column), tuple(a for _, a, _ in batch), tuple(b for _, _, b in batch)), a_base, b_base
