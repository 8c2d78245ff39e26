"""The IR verifier: checks the invariants of a graph, regions included.

It costs as much as tracing and is off by default; the environment variable ``DRJIT_VERIFY=1`` runs it on everything
that is evaluated, and the tests call it directly.  A failure is a defect of this project, never of the user's program.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ops.table import (
    ACCESS,
    BRANCH,
    BRANCH_RESULT,
    COUNTER,
    EVALUATED,
    GATHER,
    INDEX,
    INVALID,
    LITERAL,
    LOOP,
    LOOP_RESULT,
    MASK,
    MEMORY,
    OPS,
    PHI,
    REDUCE,
    VALUE,
    Op,
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
    """Check one node: what its row says of operands, type and size, and what its kind means beyond that."""
    kind, row = node.kind, OPS[node.kind]
    values = [d for d in (node.d0, node.d1, node.d2, node.d3) if d is not None]
    _require(TYPES[node.type] is not None, node, "unknown type")
    _require(kind not in _OF_EXPANSIONS, node, "is no part of a graph")
    _require((node.size == 0) == (kind == INVALID), node, "size 0 is for invalid nodes, and they have no other")
    _require(len(values) == row.arity, node, f"has {len(values)} operands instead of {row.arity}")
    _check_types(node, row, values)
    _check_size(node, row, values)
    if kind == LITERAL:
        _require(node.attr in (PARAMETER, BAKED, SHAPE), node, "unknown class of literal")
    elif kind == EVALUATED:
        _require(node.payload.nbytes >= node.size * TYPES[node.type].size, node, "its buffer is too small")
    elif kind == COUNTER:
        _require(node.type in (UINT32, UINT64), node, "a counter is a 32 or 64-bit unsigned integer")
    elif kind == REDUCE:
        _require(node.attr != ReduceOp.Identity.value, node, "no reduction")
    elif kind == LOOP_RESULT:
        _require(node.type == values[0].payload.phis[node.attr].type, node, "differs from its variable in type")


#: What there is only where text is made of expansions, and what nothing traces yet.
_OF_EXPANSIONS = (BRANCH, BRANCH_RESULT, ACCESS)


def _check_types(node: Node, row: Op, values: list[Node]) -> None:
    """Check the operands by their roles, and the type of the result by that of the operands."""
    type_ = -1  # of the operands that are values or memory
    for operand, role in zip(values, row.roles, strict=True):
        info = TYPES[operand.type]
        if role in (VALUE, MEMORY):
            _require(type_ in (-1, operand.type), node, "operands of different types")
            type_ = operand.type
            _require(info.kind in row.accepts, node, f"is not defined for {info.name}")
        elif role == INDEX:
            _require(info.kind in "iu" and info.bits >= 32, node, "the index is no 32 or 64-bit integer")
        elif role == MASK:
            _require(operand.type == BOOL, node, "the mask is no mask")
        else:
            _require(operand.kind == LOOP, node, "its operand is no region")
    if row.result == "same":
        _require(node.type == type_, node, "has not the type of its operands")
    elif row.result == "mask":
        _require(node.type == BOOL, node, "its result is a mask")
    elif row.result == "bits":
        _require(TYPES[node.type].size == TYPES[type_].size, node, "differs from its operand in width")


def _check_size(node: Node, row: Op, values: list[Node]) -> None:
    """Check the number of elements by those of the operands."""
    if row.size == "own":
        return
    register = [operand for operand, role in zip(values, row.roles, strict=True) if role != MEMORY]
    width = max(operand.size for operand in register)
    _require(all(operand.size in (1, width) for operand in register), node, "operands of different sizes")
    if row.size == "operands":
        _require(node.size == width, node, "has not the size of its operands")
    elif row.size == "memory":
        _require(node.size == values[0].size, node, "a version has the size of its target")
    else:
        _require(node.size == 1, node, "has not one element")


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
