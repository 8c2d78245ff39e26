"""The operations on two nodes that reductions repeat, and inner products."""

from __future__ import annotations

from collections.abc import Callable

from drjit_core import Node, ReduceOp, cast, fmax, fmin, ops, reduce

from .._base.types import FLOAT16, FLOAT32

__all__ = ["COMBINE", "inner_product"]


#: The operation on two nodes that a reduction repeats.
COMBINE: dict[ReduceOp, Callable[[Node, Node], Node]] = {
    ReduceOp.Add: ops.add, ReduceOp.Mul: ops.mul, ReduceOp.And: ops.and_, ReduceOp.Or: ops.or_,
    ReduceOp.Min: fmin, ReduceOp.Max: fmax,  # which prefer numbers to NaN
}


def inner_product(a: Node, b: Node) -> Node:
    """The sum of the products of the elements of two nodes; half precision is computed in single precision."""
    if a.type != FLOAT16:
        return reduce(ops.mul(a, b), ReduceOp.Add.value)
    return cast(reduce(ops.mul(cast(a, FLOAT32), cast(b, FLOAT32)), ReduceOp.Add.value), FLOAT16)
