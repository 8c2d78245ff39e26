"""The launches of products: which of the texts, how the batch is seen, and what adds up partial sums."""

from __future__ import annotations

from collections.abc import Iterable

from ...codegen.steps import Call, Pass, Text
from ...types import TYPES
from .. import jit
from .product import WORDS, Matrices, Plan, accumulator, plan_product, product_text
from .vector import columns_text, combine_text, plan_vector, rows_text

__all__ = ["matrices_of", "passes"]

#: Cost of a multiply-add of packets, relative to the addition of one element.
_COST = 25
#: Multiply-adds of packets that a block should have, and elements of a block of what adds up partial sums.
_BLOCK, _SUMS = 1 << 14, 1 << 13


def passes(call: Call) -> Iterable[Pass]:
    """The launches of a product."""
    (a, b), c = call.operands, call.results[0]
    m, a_base, b_base = matrices_of(call.step.options)
    lanes, size = jit.lanes(), TYPES[a.type].size
    first, second = a.address + a_base * size, b.address + b_base * size
    if m.rows == 1 and m.columns > 1:  # the transposed product
        m = m._replace(rows=m.columns, columns=1, a=m.b[::-1], b=m.a[::-1], a_batch=m.b_batch, b_batch=m.a_batch)
        first, second = second, first
    plan: Plan
    if m.columns == 1 and 1 in m.a:
        plan = plan_vector(a.type, lanes, m)
        text = Text("product of rows", (a.type, lanes), rows_text, _COST) if m.a[1] == 1 else \
            Text("product of columns", (a.type, lanes), columns_text, _COST)
    else:
        plan = plan_product(a.type, lanes, m)
        text = Text("product", (a.type, lanes), product_text, _COST)
    words, target = list(plan.words), c.address
    if plan.parts > 1:
        target = call.scratch(plan.parts * c.size * TYPES[accumulator(a.type)].size)
    for name, value in (("a", first), ("b", second), ("c", target),
                        ("scratch", call.scratch(plan.scratch * call.threads))):
        words[WORDS[name]] = value
    tasks = max(1, min(plan.tasks, _BLOCK // plan.unit))
    yield Pass(text, tuple(words), plan.tasks * plan.unit, tasks * plan.unit)
    if plan.parts > 1:
        text = Text("sums of partial products", (a.type, lanes), combine_text, 8)
        yield Pass(text, (target, c.address, plan.parts, c.size), c.size, _SUMS)


def matrices_of(options: tuple[int | str, ...]) -> tuple[Matrices, int, int]:
    """The operands of a product as its step tells them, with fewer dimensions of the batch; where the operands begin."""
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
