"""Tracing of steps (:mod:`drjit_core.ops.steps`)."""

from __future__ import annotations

from collections.abc import Sequence

from ..ops.steps import STEPS, Step
from ..ops.table import BOUND, DUAL, INVALID, LITERAL, STEP, VIEW
from ..types import ReduceOp
from .build import append
from .dual import derived, dual, primal, tracked, without
from .extents import Extent, number_of, sized
from .node import Node
from .symbolic import symbolic_error
from .trace import opaque

_SUM = ReduceOp.Add.value

__all__ = ["step", "step_again", "transposed", "transposed_source"]


def step(name: str, operands: Sequence[Node], results: Sequence[tuple[int, int | Extent]],
         options: tuple[int | str, ...] = (), extents: tuple[int, ...] = ()) -> tuple[Node, ...]:
    """The results of a step, of which the types and sizes are given.

    Operands must have elements, and be known outside of loops and branches: a step needs all of their elements.
    """
    row = STEPS[name]
    if len(operands) != row.operands or len(results) != row.results or extents.count(0) > 1:
        raise ValueError(f"step(): '{name}' takes {row.operands} operands and has {row.results} results, found "
                         f"{len(operands)} and {len(results)}, and extents {extents}")
    if any(operand.kind == DUAL for operand in operands):
        found = step(name, tuple([primal(operand) for operand in operands]), results, options, extents)
        keeps = _keeps(name, operands, options)
        return tuple([derived(name, result, operands, Step(name, options, extents), keeps) for result in found])
    used: list[Node | None] = [None, None, None]
    for position, operand in enumerate(operands):
        if operand.scope:
            raise symbolic_error(operand, name, "it needs the values of all elements")
        if operand.kind == INVALID:
            raise ValueError(f"step(): operand {position} of '{name}' has no elements")
        used[position] = opaque(operand) if operand.kind == LITERAL or operand.kind == BOUND else operand
    payload = Step(name, options, extents)
    made = [append(STEP, type_, number_of(size)[0], used[0], used[1], used[2], None, position, payload)
            for position, (type_, size) in enumerate(results)]
    return tuple([sized(size, node) if isinstance(size, Extent) else node
                  for node, (_, size) in zip(made, results, strict=True)])


def _keeps(name: str, operands: Sequence[Node], options: Sequence[int | str]) -> str:
    """What the derivatives of a step need, operands (x, y) and the result (r): of two factors, each one if there is a
    derivative by the other."""
    if name == "matmul":
        return "".join(other for other, operand in zip("yx", operands, strict=True) if tracked(operand) is not None)
    if name == "scan":
        return "" if options[0] == _SUM else "xr"
    return "x" if name == "sort" else ""


def step_again(payload: Step, first: Node, second: Node, type_: int, size: int) -> Node:
    """The only result of a step that :func:`step` has made before, of two operands that are no literals."""
    if first.kind == DUAL or second.kind == DUAL:
        found = step_again(payload, primal(first), primal(second), type_, size)
        keeps = _keeps(payload.name, (first, second), payload.options)
        return derived(payload.name, found, (first, second), payload, keeps)
    return append(STEP, type_, size, first, second, None, None, 0, payload)


def transposed(node: Node, shape: Sequence[int], axes: Sequence[int], fewest: int, shortest: int,
               longest: int) -> Node | None:
    """An array in C order with its axes in another order, as a step; ``None`` if reads by index do better, which are
    part of what takes them.

    That is so for symbolic arrays and literals, for fewer elements than the ``fewest``, for axes that are shorter than
    the ``shortest`` or longer than the ``longest``, and if neighbours stay neighbours.
    """
    if node.size < fewest or node.scope or primal(node).kind in (LITERAL, BOUND):
        return None
    strides, step_ = [0] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step_
        step_ *= shape[axis]
    merged: list[tuple[int, int]] = []  # extents and strides of the result's axes
    for axis in axes:
        extent, stride = shape[axis], strides[axis]
        if extent == 1:
            continue
        if merged and merged[-1][1] == stride * extent:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    columns, column = merged.pop()
    if column == 1 or columns < shortest:
        return None
    targets, target = [], columns
    for extent, _ in reversed(merged):
        targets.append(target)
        target *= extent
    targets.reverse()
    place = next(place for place, (_, stride) in enumerate(merged) if stride == 1)
    rows = merged[place][0]
    if rows < shortest or max(rows, columns) > longest:
        return None
    options = [rows, columns, column, targets[place], 0]
    for other, ((extent, stride), target) in enumerate(zip(merged, targets, strict=True)):
        if other != place:
            options += (extent, stride, target)
    return step("transpose", (node,), [(node.type, node.size)], tuple(options))[0]


def transposed_source(node: Node, batch: tuple[int, ...], matrix: tuple[int, int], sizes: tuple[int, ...]) -> tuple[
        Node, int, tuple[int, ...], tuple[int, int]] | None:
    """What a transposed copy of matrices, or one of a part of them, which has not been computed, is a copy of.

    ``batch`` and ``matrix`` are distances in the copy, of axes of the ``sizes``; returned are the source, where it
    begins, and the distances in there. ``None`` if the node is no such copy, or not of matrices with these rows.
    """
    if node.kind == DUAL:
        through = transposed_source(without(node), batch, matrix, sizes)
        source = node.payload.a if node.payload.rule.name in ("transpose", "view") else None
        return None if through is None or source is None else (dual(through[0], source), *through[1:])
    if node.kind == VIEW:
        return _viewed_source(node, batch, matrix, sizes)
    if node.kind != STEP or node.payload.name != "transpose" or node.d0 is None:
        return None
    rows, columns, source_column, target_row, base, *rest = node.payload.options
    if target_row != columns or sorted(matrix) != [1, columns] or len(rest) > 3:
        return None
    size = rows * columns
    if rest and rest[2] != size or any(distance % size for distance in batch):
        return None
    step_ = rest[1] if rest else 0
    found = (1, source_column) if matrix[1] == 1 else (source_column, 1)
    return node.d0, base, tuple([distance // size * step_ for distance in batch]), found


def _viewed_source(node: Node, batch: tuple[int, ...], matrix: tuple[int, int], sizes: tuple[int, ...]) -> tuple[
        Node, int, tuple[int, ...], tuple[int, int]] | None:
    """What :func:`transposed_source` returns of a view, if rows or columns lie one after the other in its source."""
    base, extents, strides = node.payload
    found: list[int] = []
    for distance, size in zip((*batch, *matrix), sizes, strict=True):
        if size == 1 or not distance:
            found.append(distance)
            continue
        axis, within = len(extents) - 1, 1  # the axis of the view in which the positions of this one are
        while distance >= within * extents[axis]:
            within *= extents[axis]
            axis -= 1
        step_, rest = divmod(distance, within)
        if rest or step_ * (size - 1) >= extents[axis] or strides[axis] < 0:
            return None
        found.append(step_ * strides[axis])
    rows, columns = found[-2:]
    if node.d0 is None or (rows != 1 or sizes[-2] == 1) and (columns != 1 or sizes[-1] == 1):
        return None
    return node.d0, base, tuple(found[:-2]), (rows, columns)
