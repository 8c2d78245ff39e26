"""The order of keys, until there is a function that sorts: a stable merge sort of the library's own operations."""

from __future__ import annotations

import drjit_core as core
from drjit_core import Node, counter, literal

from .._base.types import BOOL, UINT32
from .arithmetic import ops, u32

__all__ = ["stable_order"]


def stable_order(keys: Node) -> Node:
    """Indices that sort keys, which have two elements or more. Evaluates the order.

    Runs of sorted elements are merged pairwise, all at once: an element's place is its place in its own run, and the
    number of elements of the other run that come before it, which a binary search finds.
    """
    size = keys.size
    order, width = counter(size), 1
    true = literal(BOOL, True)
    while width < size:
        core.evaluate([keys])
        keys, order = _merged(keys, order, size, width, true)
        core.evaluate([keys, order])
        width *= 2
    return order


def _merged(keys: Node, order: Node, size: int, width: int, true: Node) -> tuple[Node, Node]:
    """Keys and indices after neighbouring runs of some width have been merged."""
    position, last = counter(size), literal(UINT32, size, 1, core.SHAPE, tag=1)
    mask = literal(UINT32, width - 1, 1, core.SHAPE, tag=2)
    extent = literal(UINT32, width, 1, core.SHAPE, tag=3)
    own = ops.and_(position, ops.inv(mask))
    is_second = ops.neq(ops.and_(position, extent), u32(0))
    other = ops.xor(own, extent)
    start = ops.minimum(other, last)
    end = ops.minimum(ops.add(other, extent), last)

    def body(variables: list[Node]) -> list[Node]:
        low, high = variables
        middle = ops.add(low, ops.shr(ops.sub(high, low), u32(1)))
        found = core.gather(keys, middle, true, harmless=True)
        before = ops.or_(ops.lt(found, keys), ops.and_(is_second, ops.eq(found, keys)))
        return [ops.select(before, ops.add(middle, u32(1)), low), ops.select(before, high, middle)]

    low, _ = core.while_loop([start, end], lambda variables: ops.lt(variables[0], variables[1]), body, trips=32)
    target = ops.add(ops.add(ops.minimum(own, other), ops.and_(position, mask)), ops.sub(low, start))
    results = [core.scatter(core.undefined(node.type, size), node, target, true,
                            core.ReduceOp.Identity.value, core.ReduceMode.Auto.value)
               for node in (keys, order)]
    return results[0], results[1]
