"""Whether two traces of a function are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.dual import primal, vertex_of
from ..ir.node import Node
from ..ir.region import CONTROL, is_apart
from ..ir.vertex import HUB, LEAF, Vertex
from ..ops.table import EVALUATED, PACK, PHI

__all__ = ["are_same"]


def are_same(nodes: Sequence[Node], others: Sequence[Node], stands: Sequence[tuple[Node, Node]],
             have_same: Callable[[Node, Node], bool]) -> bool:
    """Whether some nodes are computed as others are, with their derivatives, given nodes of the first trace and what
    stands for them in the second one, and a function that compares what is in memory."""
    todo: list[tuple[Node | None, Node | None]] = list(zip(nodes, others, strict=True))
    if not _have_same_derivatives(todo, stands):
        return False
    known, seen = {primal(node).id: primal(stand) for node, stand in stands}, set[tuple[int, int]]()
    while todo:
        one, other = todo.pop()
        if one is None or other is None:
            if one is not other:
                return False
            continue
        one, other = primal(one), primal(other)
        if one is other or known.get(one.id) is other or (one.id, other.id) in seen:
            continue
        seen.add((one.id, other.id))
        if one.id in known and is_apart(one) or (one.kind, one.type, one.attr) != (other.kind, other.type, other.attr):
            return False
        if one.size != other.size and (one.size != 1 or not one.scope or not other.scope):
            return False  # but what stands for variables may be wider by now
        if one.kind in CONTROL:
            if not _have_same_regions(one.payload, other.payload, known, todo):
                return False
        elif one.kind == EVALUATED:
            if not have_same(one, other):
                return False
        elif one.kind == PHI:
            if one.attr >= 0:  # masks are of one region
                return False
        elif one.kind != PACK and one.payload != other.payload:
            return False
        todo += ((one.d0, other.d0), (one.d1, other.d1), (one.d2, other.d2), (one.d3, other.d3))
    return True


def _have_same_derivatives(todo: list[tuple[Node | None, Node | None]], stands: Sequence[tuple[Node, Node]]) -> bool:
    """Whether the derivatives of pairs of nodes may be recorded alike: what must be the same for that is to be
    compared, too. Those of constructs, of which only these know, are taken for others."""
    known = {vertex.id: vertex_of(stand) for node, stand in stands if (vertex := vertex_of(node)) is not None}
    pairs: list[tuple[Vertex | None, Vertex | None]] = [
        (vertex_of(one), vertex_of(other)) for one, other in todo if one is not None and other is not None]
    seen = set[tuple[int, int]]()
    while pairs:
        one, other = pairs.pop()
        if one is other or one is not None and known.get(one.id, one) is other:
            continue
        if one is None or other is None or one.rule is not other.rule or one.rule in (LEAF, HUB) or \
                one.info != other.info:
            return False
        if (one.id, other.id) not in seen:
            seen.add((one.id, other.id))
            pairs += ((one.a, other.a), (one.b, other.b), (one.c, other.c))
            todo += ((one.x, other.x), (one.y, other.y), (one.z, other.z), (one.r, other.r))
    return True


def _have_same_regions(one: Any, other: Any, known: dict[int, Node],
                       todo: list[tuple[Node | None, Node | None]]) -> bool:
    """Whether constructs may be the same: what must be for that is to be compared."""
    if len(one.regions) != len(other.regions) or len(one.initial) != len(other.initial):
        return False
    todo += zip(one.initial, other.initial, strict=True)
    for region, another in zip(one.regions, other.regions, strict=True):
        if [len(part) for part in region.results] != [len(part) for part in another.results] or \
                len(region.formals) != len(another.formals):
            return False
        known |= {formal.id: stand for formal, stand in zip(
            (*region.formals, *region.masks), (*another.formals, *another.masks), strict=True)}
        for part, results in zip(region.results, another.results, strict=True):
            todo += zip(part, results, strict=True)
    return True
