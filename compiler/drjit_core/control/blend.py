"""New values for some elements only, where the others keep what they had: what loops do that are evaluated."""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.target import limits
from ..ir import trace
from ..ir.node import Node
from ..ops.table import BITCAST, CAST, DUAL, FIRST_ELEMENTWISE, GATHER, OPS
from .choice import cond

__all__ = ["blend", "is_movable"]


def is_movable(node: Node) -> bool:
    """Whether a node may be computed where a branch needs it, instead of before it."""
    return node.kind >= FIRST_ELEMENTWISE or node.kind == CAST or node.kind == BITCAST or node.kind == GATHER


def blend(mask: Node, new: Sequence[Node], old: Sequence[Node]) -> list[Node]:
    """``select(mask, new, old)`` of several values.

    Where this is dear, it is a branch, so that packets in which no element has the mask set do not compute it.
    """
    found, numbers = list(new), limits(mask.where).tracing
    dear = [] if mask.size < numbers.blend_width or any(node.kind == DUAL for node in (*new, *old)) else [
        i for i, value in enumerate(new) if value.size == old[i].size == mask.size and _is_dear(value, numbers.blend)]
    if dear:
        results, _ = cond(mask, [old[i] for i in dear], lambda _: [new[i] for i in dear], list)
        for i, value in zip(dear, results, strict=True):
            found[i] = value
    for i, value in enumerate(new):
        if i not in dear:
            found[i] = trace.ops.select(mask, value, old[i])
    return found


def _is_dear(value: Node, limit: int) -> bool:
    """Whether it costs more than a limit to compute a value, as far as this could be left out."""
    cost, stack, seen = 0, [value], {value.id}
    while stack:
        node = stack.pop()
        if not is_movable(node):
            continue
        cost += OPS[node.kind].cost
        if cost > limit:
            return True
        for operand in (node.d0, node.d1, node.d2, node.d3):
            if operand is not None and operand.id not in seen:
                seen.add(operand.id)
                stack.append(operand)
    return False
