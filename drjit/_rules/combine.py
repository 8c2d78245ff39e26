"""The operations on two nodes that reductions repeat, and inner products."""

from __future__ import annotations

from collections.abc import Callable

from drjit_core import TYPES, Node, ReduceOp, cast, ops, reduce

from .._base.types import FLOAT16, FLOAT32

__all__ = ["COMBINE", "ignoring_nan", "inner_product"]


def ignoring_nan(compare: Callable[[Node, Node], Node], trace: Callable[[Node, Node], Node],
                  ) -> Callable[[Node, Node], Node]:
    """Minimum or maximum of two nodes that, unlike ``dr.minimum``, prefers numbers to NaN."""
    def combine(a: Node, b: Node) -> Node:
        if TYPES[a.type].kind != "f":
            return trace(a, b)
        return ops.select(getattr(ops, "or")(compare(a, b), ops.neq(b, b)), a, b)  # type: ignore[no-any-return]

    return combine


#: The operation on two nodes that a reduction repeats.
COMBINE: dict[ReduceOp, Callable[[Node, Node], Node]] = {
    ReduceOp.Add: ops.add, ReduceOp.Mul: ops.mul, ReduceOp.And: getattr(ops, "and"), ReduceOp.Or: getattr(ops, "or"),
    ReduceOp.Min: ignoring_nan(ops.le, ops.minimum), ReduceOp.Max: ignoring_nan(ops.ge, ops.maximum),
}


def inner_product(a: Node, b: Node) -> Node:
    """The sum of the products of the elements of two nodes; half precision is computed in single precision."""
    if a.type != FLOAT16:
        return reduce(ops.mul(a, b), ReduceOp.Add.value)
    return cast(reduce(ops.mul(cast(a, FLOAT32), cast(b, FLOAT32)), ReduceOp.Add.value), FLOAT16)
