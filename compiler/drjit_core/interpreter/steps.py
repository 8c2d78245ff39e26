"""What steps compute, on NumPy arrays: by the names of :data:`drjit_core.ops.steps.STEPS`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ops.reductions import REDUCTIONS
from ..ops.steps import Step
from ..types import COMPUTES_IN, ReduceOp
from .elementwise import Array, dtype_of, narrowed, type_of, widened

__all__ = ["MEANINGS"]

_OPERATORS: dict[int, Any] = {
    ReduceOp.Add.value: np.add, ReduceOp.Mul.value: np.multiply, ReduceOp.Min.value: np.fmin,
    ReduceOp.Max.value: np.fmax, ReduceOp.And.value: np.bitwise_and, ReduceOp.Or.value: np.bitwise_or}


def _scan(step: Step, source: Array) -> tuple[Array, ...]:
    """Running reductions along the middle extent: blocks of neighbours may end with a shorter one."""
    op, exclusive, reverse = (int(option) for option in step.options)
    _, length, inner = step.with_sizes(source.size)
    kind, reduction, function = type_of(source), REDUCTIONS[op], _OPERATORS[op]
    wide = dtype_of(COMPUTES_IN[kind])
    neutral = reduction.empty(kind) if exclusive else reduction.identity(kind)

    def scanned(rows: Array) -> Array:
        rows = widened(rows).astype(wide)
        first = np.full((rows.shape[0], 1, inner), neutral, wide)
        rows = np.concatenate([first, rows[:, ::-1] if reverse else rows], axis=1)
        found = function.accumulate(rows, axis=1, dtype=wide)
        found = found[:, :-1] if exclusive else found[:, 1:]
        return narrowed(found[:, ::-1] if reverse else found, kind).reshape(-1)

    whole = source.size // (length * inner) * length * inner
    with np.errstate(all="ignore"):
        parts = [scanned(part.reshape(-1, part.size // inner if short else length, inner))
                 for part, short in ((source[:whole], False), (source[whole:], True)) if part.size]
    result = np.concatenate(parts)
    return (result,)


def _extremum(step: Step, source: Array) -> tuple[Array, ...]:
    """Positions of the smallest or largest elements, the first ones, without NaN; 0 where there is nothing else."""
    outer, length, inner = step.with_sizes(source.size)
    rows = widened(source).reshape(outer, length, inner)
    numbers = rows == rows
    extreme = (np.fmax if step.options[0] else np.fmin).reduce(rows, axis=1, keepdims=True)
    return (np.argmax((rows == extreme) & numbers, axis=1).astype(np.uint32).reshape(-1),)


def _count(step: Step, mask: Array) -> tuple[Array, ...]:
    """How many set elements come before each chunk, and how many there are."""
    chunk = step.extents[0]
    counts = [int(mask[begin:begin + chunk].sum()) for begin in range(0, mask.size, chunk)]
    before = np.cumsum([0, *counts]).astype(np.uint64)
    return before[:-1], before[-1:]


def _compress(step: Step, mask: Array, before: Array) -> tuple[Array, ...]:
    """Positions of the set elements."""
    return (np.flatnonzero(mask).astype(np.uint32),)


def _strided(array: Array, base: int, extents: Sequence[int], strides: Sequence[int]) -> Array:
    return np.lib.stride_tricks.as_strided(array[base:], extents, [stride * array.itemsize for stride in strides])


def _matmul(step: Step, first: Array, second: Array) -> tuple[Array, ...]:
    """Products of matrices; those of single and half precision are computed in double."""
    options = [int(option) for option in step.options]
    rows, columns, depth, a_base, b_base, a_row, a_column, b_row, b_column, *rest = options
    extents, a_steps, b_steps = rest[::3], rest[1::3], rest[2::3]
    a = _strided(first, a_base, (*extents, rows, depth), (*a_steps, a_row, a_column))
    b = _strided(second, b_base, (*extents, depth, columns), (*b_steps, b_row, b_column))
    with np.errstate(all="ignore"):
        if a.dtype.kind not in "iu":
            product = np.matmul(widened(a).astype(np.float64), widened(b).astype(np.float64))
            return (narrowed(product, type_of(first)).reshape(-1),)
        return (np.matmul(a, b).reshape(-1),)


def _transpose(step: Step, source: Array) -> tuple[Array, ...]:
    """A copy with axes in another order."""
    rows, columns, source_column, target_row, base, *rest = (int(option) for option in step.options)
    extents = (*rest[::3], rows, columns)
    result = np.empty(math.prod(extents), source.dtype)
    _strided(result, 0, extents, (*rest[2::3], target_row, 1))[...] = _strided(
        source, base, extents, (*rest[1::3], 1, source_column))
    return (result,)


def _sort(step: Step, source: Array) -> tuple[Array, ...]:
    """Each row in order, or the positions of its elements in order; equal ones stay in theirs."""
    positions, descending = (int(option) for option in step.options)
    rows, length, _ = step.with_sizes(source.size)
    table = source.reshape(rows, length)
    keys = widened(table)
    if descending:  # stable: reversed twice
        order = length - 1 - np.argsort(keys[:, ::-1], axis=1, kind="stable")[:, ::-1]
    else:
        order = np.argsort(keys, axis=1, kind="stable")
    return ((order.astype(np.uint32) if positions else np.take_along_axis(table, order, axis=1)).reshape(-1),)


#: The results of each step, for its operands.
MEANINGS: dict[str, Callable[..., tuple[Array, ...]]] = {
    "scan": _scan, "extremum": _extremum, "count": _count, "compress": _compress, "sort": _sort,
    "matmul": _matmul, "transpose": _transpose,
}
