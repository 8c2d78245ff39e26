"""What only one side of a branch needs is computed there, if it is dear: packets that skip the side skip it as well.

A value from outside that a region uses is computed before the branch, for all elements, because others may use it too.
Whether they do is known when the graph is planned.  What is sunk becomes part of the region: its operands are further
arguments of the branch, and its reads take the mask of the elements that go there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..control.blend import is_movable
from ..control.rewrite import Rewriter
from ..ir.node import Node
from ..ir.region import CONTROL, Cond
from ..ops.table import BOUND, COND, GATHER, HAS_MEMORY, LITERAL, OPS

__all__ = ["sink"]

#: A side of a branch, by the id of the node and the number of the region.
_Side = tuple[int, int]


def sink(order: Sequence[Node], roots: Iterable[Node], cheap: int) -> set[int]:
    """Sink what unevaluated nodes, operands first, compute for branches among them, and so in their regions.

    What costs no more than ``cheap`` additions is left alone, and the roots stay where they are.  Returns the ids of
    the nodes that nothing needs any more.
    """
    branches = []
    for node in order:
        if node.kind in CONTROL:
            takes = False
            for region in node.payload.regions:
                takes = takes or any(map(_may_sink, region.captures))
                if region.inner:
                    sunk = sink(list(region.nodes), (result for part in region.results for result in part), cheap)
                    if sunk:
                        region.parts = tuple([each for each in part if each.id not in sunk] for part in region.parts)
            if takes and node.kind == COND and node.size > 1:
                branches.append(node)
    moved: set[int] = set()
    if branches:
        sides = _sides(order, roots, {branch.id: branch.size for branch in branches})
        for branch in branches:
            for number in range(2):
                nodes = [node for node in order if sides.get(node.id) == (branch.id, number)]
                if sum(OPS[node.kind].cost for node in nodes) > cheap:
                    _move(branch, number, nodes)
                    moved.update(node.id for node in nodes)
    return moved


def _may_sink(node: Node) -> bool:
    """Whether a node may be computed later than where it stands: a region's memory may be written to meanwhile."""
    if node.kind == GATHER:
        assert node.d0 is not None
        return not node.scope or node.d0.scope < node.scope
    return is_movable(node)


def _sides(order: Sequence[Node], roots: Iterable[Node], sizes: dict[int, int]) -> dict[int, _Side | None]:
    """The only side of the branches that needs each node; ``None`` if there is another use of it.

    ``sizes`` are those of the branches, by their ids.  What is computed once for all elements is no part of a side.
    """
    sides: dict[int, _Side | None] = {root.id: None for root in roots}

    def use(node: Node | None, side: _Side | None) -> None:
        if node is not None and sides.setdefault(node.id, side) != side:
            sides[node.id] = None

    for node in reversed(order):
        side = sides.get(node.id)
        if side is not None and not (_may_sink(node) and node.size == sizes[side[0]]):
            side = sides[node.id] = None
        use(node.d0, None if HAS_MEMORY[node.kind] else side)
        for operand in (node.d1, node.d2, node.d3):
            use(operand, side)
        if node.kind in CONTROL:
            for value in (*node.payload.initial, *node.payload.sources()):
                use(value, None)
            for number, region in enumerate(node.payload.regions):
                for capture in region.captures:
                    use(capture, (node.id, number) if node.id in sizes else None)
    return sides


def _move(branch: Node, side: int, nodes: Sequence[Node]) -> None:
    """Make nodes from outside, operands first, part of a side of a branch."""
    choice: Cond = branch.payload
    moved = {node.id for node in nodes}
    arguments: dict[int, Node] = {}
    for node in nodes:
        for operand in (node.d1, node.d2) if HAS_MEMORY[node.kind] else (node.d0, node.d1, node.d2):
            if operand is not None and operand.kind not in (LITERAL, BOUND) and operand.id not in moved:
                arguments[operand.id] = operand
    regions = [Rewriter({}).region(region, tuple(arguments.values()), nodes if number == side else ())
               for number, region in enumerate(choice.regions)]
    new = Cond(regions, (*choice.initial, *arguments.values()), choice.label, choice.count, choice.memory_of,
               choice.rare)
    new.outputs = choice.outputs
    branch.payload = new
