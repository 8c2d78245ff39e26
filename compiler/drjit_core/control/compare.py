"""Whether two traces of a function are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.dual import primal
from ..ir.node import Node
from ..ir.region import CONTROL, is_apart
from ..ops.table import EVALUATED, PACK, PHI

__all__ = ["are_same"]


def are_same(nodes: Sequence[Node], others: Sequence[Node], stands: Mapping[int, Node],
             have_same: Callable[[Node, Node], bool]) -> bool:
    """Whether some nodes are computed as others are, given what stands for nodes of the first trace in the second one,
    and a function that compares what is in memory."""
    todo: list[tuple[Node | None, Node | None]] = list(zip(nodes, others, strict=True))
    known, seen = {number: primal(node) for number, node in stands.items()}, set[tuple[int, int]]()
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
        if one.id in known and is_apart(one) or (one.kind, one.type, one.size, one.attr) != (
                other.kind, other.type, other.size, other.attr):
            return False
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
