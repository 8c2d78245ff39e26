"""Tracing of steps (:mod:`drjit_core.ops.steps`)."""

from __future__ import annotations

from collections.abc import Sequence

from ..ops.steps import STEPS, Step
from ..ops.table import BOUND, INVALID, LITERAL, STEP
from .build import append
from .node import Node
from .symbolic import symbolic_error
from .trace import opaque

__all__ = ["step"]


def step(name: str, operands: Sequence[Node], results: Sequence[tuple[int, int]],
         options: tuple[int | str, ...] = (), extents: tuple[int, ...] = ()) -> tuple[Node, ...]:
    """The results of a step, of which the types and sizes are given.

    Operands must have elements, and be known outside of loops and branches: a step needs all of their elements.
    """
    row = STEPS[name]
    if len(operands) != row.operands or len(results) != row.results or extents.count(0) > 1:
        raise ValueError(f"step(): '{name}' takes {row.operands} operands and has {row.results} results, found "
                         f"{len(operands)} and {len(results)}, and extents {extents}")
    used: list[Node | None] = [None, None, None]
    for position, operand in enumerate(operands):
        if operand.scope:
            raise symbolic_error(operand, name, "it needs the values of all elements")
        if operand.kind == INVALID:
            raise ValueError(f"step(): operand {position} of '{name}' has no elements")
        used[position] = opaque(operand) if operand.kind == LITERAL or operand.kind == BOUND else operand
    payload = Step(name, options, extents)
    return tuple([append(STEP, type_, size, *used, attr=position, payload=payload)
                  for position, (type_, size) in enumerate(results)])
