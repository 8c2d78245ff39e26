"""The IR verifier: checks the invariants of a graph, regions included.

It costs as much as tracing and is off by default; the environment variable ``DRJIT_VERIFY=1`` runs it on everything
that is evaluated, and the tests call it directly.  A failure is a defect of this project, never of the user's program.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ops.table import (
    BITCAST,
    CAST,
    COUNTER,
    EVALUATED,
    FIRST_ELEMENTWISE,
    GATHER,
    INVALID,
    LITERAL,
    LOOP,
    LOOP_RESULT,
    OPAQUE,
    OPS,
    PHI,
    REDUCE,
    SCATTER,
    UNDEFINED,
)
from ..types import BOOL, TYPES, UINT32, UINT64, ReduceOp
from .node import BAKED, PARAMETER, SHAPE, Node
from .region import Loop, operands

__all__ = ["VerificationError", "verify"]


class VerificationError(AssertionError):
    """An invariant of the graph does not hold."""


def verify(roots: Iterable[Node]) -> int:
    """Check everything that the roots need; returns the number of nodes seen."""
    seen: set[int] = set()
    stack: list[tuple[Node, frozenset[int]]] = [(root, frozenset((0,))) for root in roots]
    while stack:
        node, visible = stack.pop()
        # what was traced in a region without depending on its variables may be used anywhere
        _require(node.kind != PHI or node.scope in visible, node,
                 f"is a variable of region {node.scope}, which does not enclose its use")
        if node.id in seen:
            continue
        seen.add(node.id)
        _check(node)
        stack.extend((operand, visible) for operand in operands(node))
        if node.kind == LOOP:
            _check_region(node, node.payload)
            inside = visible | {node.payload.id}
            stack.extend((inner, inside) for inner in (*node.payload.condition_order, *node.payload.order))
    return len(seen)


def _require(condition: bool, node: Node, what: str) -> None:
    if not condition:
        raise VerificationError(f"{node!r}: {what}")


def _check(node: Node) -> None:
    """Check one node: operands present, types and sizes that fit."""
    kind, values = node.kind, [d for d in (node.d0, node.d1, node.d2, node.d3) if d is not None]
    _require(TYPES[node.type] is not None, node, "unknown type")
    _require((node.size == 0) == (kind == INVALID), node, "size 0 is for invalid nodes, and they have no other")
    if kind >= FIRST_ELEMENTWISE:
        _check_elementwise(node, values)
    elif kind in (INVALID, UNDEFINED, COUNTER, LITERAL, EVALUATED, PHI, LOOP):
        _require(not values, node, "a leaf has no operands")
        if kind == LITERAL:
            _require(node.attr in (PARAMETER, BAKED, SHAPE), node, "unknown class of literal")
        elif kind == EVALUATED:
            _require(node.payload.nbytes >= node.size * TYPES[node.type].size, node, "its buffer is too small")
        elif kind == COUNTER:
            _require(node.type in (UINT32, UINT64), node, "a counter is a 32 or 64-bit unsigned integer")
    elif kind == GATHER:
        _require(len(values) == 3 and values[0].type == node.type, node, "source, index and mask are needed")
        _check_access(node, values[1], values[2])
        _check_sizes(node, values[1:])
    elif kind == SCATTER:
        _require(len(values) == 4, node, "target, value, index and mask are needed")
        _require(values[0].type == values[1].type == node.type, node, "target and value differ in type")
        _require(values[0].size == node.size, node, "a version has the size of its target")
        _check_access(node, values[2], values[3])
    elif kind == REDUCE:
        _require(len(values) == 1 and node.size == 1 and values[0].type == node.type, node, "reduces to one element")
        _require(node.attr != ReduceOp.Identity.value, node, "no reduction")
    elif kind in (CAST, BITCAST, OPAQUE):
        _require(len(values) == 1 and values[0].size == node.size, node, "one operand of the same size")
    elif kind == LOOP_RESULT:
        _require(len(values) == 1 and values[0].kind == LOOP, node, "its operand is a loop")
        _require(node.type == values[0].payload.phis[node.attr].type, node, "differs from its variable in type")
    else:
        _require(False, node, "unknown kind")


def _check_access(node: Node, index: Node, mask: Node) -> None:
    _require(TYPES[index.type].kind in "iu" and TYPES[index.type].bits >= 32, node,
             "the index is no 32 or 64-bit integer")
    _require(mask.type == BOOL, node, "the mask is no mask")


def _check_sizes(node: Node, values: list[Node]) -> None:
    _require(node.size == max(value.size for value in values), node, "has not the size of its operands")
    _require(all(value.size in (1, node.size) for value in values), node, "operands of different sizes")


def _check_elementwise(node: Node, values: list[Node]) -> None:
    row = OPS[node.kind]
    _require(len(values) == row.arity, node, f"has {len(values)} operands instead of {row.arity}")
    _check_sizes(node, values)
    last = values[-1]
    _require(TYPES[last.type].kind in row.accepts, node, f"is not defined for {TYPES[last.type].name}")
    _require(node.type == (BOOL if row.result == "mask" else last.type), node, "has the wrong type")
    first = 1 if row.name == "select" else 0
    _require(all(value.type == last.type for value in values[first:]), node, "operands of different types")
    _require(first == 0 or values[0].type == BOOL, node, "selects by something that is no mask")


def _check_region(node: Node, loop: Loop) -> None:
    """Check a region's interface, and that each of its nodes comes after what it uses."""
    _require(len(loop.initial) == len(loop.phis) == len(loop.results), node, "inconsistent numbers of variables")
    _require(loop.condition.type == BOOL, node, "its condition is no mask")
    for before, phi, after in zip(loop.initial, loop.phis, loop.results, strict=True):
        _require(before.type == phi.type == after.type, node, f"variable {phi!r} changes its type")
        _require(phi.kind == PHI and phi.scope == loop.id, node, f"{phi!r} is no variable of this loop")
        _require(max(before.size, after.size) <= node.size, node, f"variable {phi!r} is wider than the loop")
    defined = {phi.id for phi in loop.phis} | {value.id for value in loop.inputs()}
    for inner in [*loop.condition_order, *loop.order]:
        _require(inner.scope == loop.id, inner, f"is in the order of region {loop.id} without belonging to it")
        used = [inner.d1, inner.d2] if inner.kind == GATHER else operands(inner)
        outside = {source.id for source in loop.sources}
        for operand in used:
            _require(operand is None or operand.id in defined or operand.id in outside, inner,
                     "is used before it is there")
        defined.add(inner.id)
    for value in (loop.condition, *loop.results):
        _require(value.id in defined, node, f"{value!r} is neither computed in the region nor captured")
