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
from .region import Loop, is_version, operands, origin_of

__all__ = ["VerificationError", "verify"]


class VerificationError(AssertionError):
    """An invariant of the graph does not hold."""


def verify(roots: Iterable[Node]) -> int:
    """Check everything that the roots need; returns the number of nodes seen."""
    seen: set[int] = set()
    stack: list[Node] = list(roots)
    for root in stack:
        _require(not root.scope, root, f"depends on region {root.scope}")
    while stack:
        node = stack.pop()
        if node.id in seen:
            continue
        seen.add(node.id)
        _check(node)
        used = list(operands(node))
        stack += used
        if node.kind == LOOP:
            _check_region(node, node.payload)
            stack += node.payload.region.formals
            stack += node.payload.region.masks
            stack += node.payload.region.nodes
        elif node.kind != PHI:
            depth = max((operand.scope for operand in used), default=0)
            _require(node.scope == depth, node, f"belongs to region {node.scope}, its operands to {depth}")
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
    elif kind in (INVALID, UNDEFINED, COUNTER, LITERAL, EVALUATED, PHI):
        _require(not values, node, "a leaf has no operands")
        if kind == LITERAL:
            _require(node.attr in (PARAMETER, BAKED, SHAPE), node, "unknown class of literal")
        elif kind == EVALUATED:
            _require(node.payload.nbytes >= node.size * TYPES[node.type].size, node, "its buffer is too small")
        elif kind == COUNTER:
            _require(node.type in (UINT32, UINT64), node, "a counter is a 32 or 64-bit unsigned integer")
    elif kind == GATHER:
        _require(len(values) in (3, 4) and values[0].type == node.type, node, "source, index and mask are needed")
        _require(len(values) == 3 or values[3].type == BOOL, node, "the mask of its region is no mask")
        _check_access(node, values[1], values[2])
        _check_sizes(node, values[1:3])
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
        formal = values[0].payload.region.formals[node.attr]
        _require(node.type == formal.type and node.payload == formal.payload, node, "differs from its variable")
        _require(node.size == (formal.size if formal.payload else values[0].size), node, "has another size")
    elif kind == LOOP:
        _require(len(values) <= 1, node, "only the mask of its region is an operand")
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
    region = loop.region
    _require(len(loop.initial) == len(region.formals) == len(loop.finals), node, "inconsistent numbers of variables")
    _require(len(region.parts) == len(region.results) == len(region.masks) == 2, node, "a loop has two parts")
    _require(loop.condition.type == BOOL, node, "its condition is no mask")
    _require(node.d0 is None or node.d0.type == BOOL, node, "its operand is no mask")
    for mask in region.masks:
        _require(mask.kind == PHI and mask.scope == region.id and mask.type == BOOL, mask, "is no mask of its region")
    outside = {value.id for value in (*region.captures, *region.sources)}
    for value in (*region.captures, *region.sources, *loop.initial):
        _require(value.scope < region.id and value.scope <= node.scope, value,
                 f"is used by region {region.id}, and belongs to region {value.scope}")
    for before, phi, after in zip(loop.initial, region.formals, loop.finals, strict=True):
        _require(before.type == phi.type == after.type, node, f"variable {phi!r} changes its type")
        _require(phi.kind == PHI and phi.scope == region.id, node, f"{phi!r} is no variable of this loop")
        if phi.payload:
            _require(before.size == phi.size == after.size, node, f"memory {phi!r} changes its size")
            _require(is_version(after) and after.scope == region.id and origin_of(after, region.id) is phi, node,
                     f"{after!r} is no version of {phi!r}")
            _require(after is not phi, node, f"memory {phi!r} is not written to")
        else:
            _require(max(before.size, after.size) <= node.size, node, f"variable {phi!r} is wider than the loop")
            _require(not (after.scope == region.id and is_version(after)), node, f"value {phi!r} becomes memory")
    defined = {phi.id for phi in (*region.formals, *region.masks)} | outside
    replaced: set[int] = set()
    for inner in region.nodes:
        _require(inner.scope == region.id, inner, f"is listed by region {region.id} without depending on it")
        for operand in operands(inner):
            _require(operand.id in defined, inner, f"uses {operand!r} before it is there")
        for version in _versions_read(inner):
            _require(version.id not in replaced, inner, f"reads {version!r} after it was replaced")
        _require(inner.kind != SCATTER or _width_of(inner) <= node.size, inner, "writes more elements than the loop has")
        read = {version.id for version in _versions_read(inner)}
        for version in _versions_written(inner):
            _require(version.id not in read, inner, f"reads {version!r}, and replaces it")
            _require(version.scope == region.id and is_version(version), inner, f"writes to {version!r}, no memory of "
                     f"region {region.id}")
            _require(version.id not in replaced, inner, f"replaces {version!r} a second time")
            replaced.add(version.id)
        defined.add(inner.id)
    for value in (loop.condition, *loop.finals):
        _require(value.id in defined, node, f"{value!r} is neither computed in the region nor captured")
    for inner in region.parts[0]:
        _require(inner.kind != SCATTER and not (inner.kind == LOOP and inner.payload.region.writes), inner,
                 "is an effect in a condition")


def _width_of(scatter: Node) -> int:
    """Number of elements that are written."""
    return max(operand.size for operand in (scatter.d1, scatter.d2, scatter.d3) if operand is not None)


def _versions_read(node: Node) -> Iterable[Node]:
    if node.kind == GATHER:
        assert node.d0 is not None
        return (node.d0,)
    if node.kind == LOOP:
        sources: tuple[Node, ...] = node.payload.region.sources
        return sources
    return ()


def _versions_written(node: Node) -> Iterable[Node]:
    if node.kind == SCATTER:
        assert node.d0 is not None
        return (node.d0,)
    return tuple(node.payload.memory()) if node.kind == LOOP else ()
