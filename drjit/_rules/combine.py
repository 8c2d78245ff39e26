"""The operations on two nodes that reductions repeat, and inner products."""

from __future__ import annotations

from collections.abc import Callable

import drjit_core as core
from drjit_core import Node, ReduceOp, cast, ops, reduce

__all__ = ["COMBINE", "inner_product"]


#: The operation on two nodes that a reduction repeats.
COMBINE: dict[ReduceOp, Callable[[Node, Node], Node]] = {
    reduction.op: core.COMBINE[number] for number, reduction in core.REDUCTIONS.items()}


def inner_product(a: Node, b: Node) -> Node:
    """The sum of the products of the elements of two nodes; half precision is computed in single precision."""
    wide = core.COMPUTES_IN[a.type]
    if wide == a.type:
        return reduce(ops.mul(a, b), ReduceOp.Add.value)
    return cast(reduce(ops.mul(cast(a, wide), cast(b, wide)), ReduceOp.Add.value), a.type)
