"""Memory that loops and branches of a kernel update and do not look at: their updates may go to tables of each thread,
and sums of products wait for the end of the kernel.

Scatter-reductions of kernels say themselves what becomes of their memory. In regions, memory is a formal, of which
all that is done to it has to be known, within further regions as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..ir.node import Node
from ..ir.region import CONTROL, OWN, Region, memory_of, origin_of
from ..ops.reductions import REDUCTIONS
from ..ops.table import CALL, EVALUATED, FETCH, RESULT, SCATTER

__all__ = ["updated_in_regions"]


def updated_in_regions(order: Iterable[Node], outputs: Sequence[Node]) -> list[tuple[Node, Node, list[Node]]]:
    """Versions among the outputs of a kernel that loops and branches make of evaluated memory by one operator, if
    nothing else in it has to do with that; the memory; and the updates."""
    versions = [node for node in outputs if node.kind == RESULT and node.payload and node.payload != OWN]
    if not versions:
        return []
    uses = Counter[int]()
    for node in order:
        uses.update(memory.id for memory in memory_of(node))
        if node.kind in CONTROL:
            uses.update(memory.id for memory in (*node.payload.memory(), *node.payload.sources()))
    uses.update(node.d0.id for node in outputs if node.kind == SCATTER and node.d0 is not None)
    found = []
    for version in versions:
        assert version.d0 is not None
        memory = version.d0.payload.origin(version.attr)
        if memory.kind != EVALUATED or uses[memory.id] != 1 or uses[version.id]:
            continue
        updates = _updates_of(version.d0, memory)
        if updates and len({update.attr for update in updates}) == 1 and updates[0].attr in REDUCTIONS:
            found.append((version, memory, updates))
    return found


def _updates_of(control: Node, memory: Node) -> list[Node] | None:
    """The writes to some memory that a loop or branch is given; ``None`` if it does more to it."""
    if control.kind == CALL:
        return None
    found: list[Node] = []
    for region in control.payload.regions:
        for initial, formal in zip(control.payload.initial, region.formals, strict=True):
            if initial is memory:
                updates = _updates_in(region, formal)
                if updates is None:
                    return None
                found += updates
    return found


def _updates_in(region: Region, formal: Node) -> list[Node] | None:
    """The writes to what a formal of a region stands for; ``None`` if the region does more to it."""
    found: list[Node] = []

    def is_it(memory: Node) -> bool:
        return origin_of(memory, region.id) is formal

    for node in (*region.accesses, *region.inner):
        if node.kind in CONTROL:
            if any(map(is_it, node.payload.sources())):
                return None
            for memory in {each.id: each for each in node.payload.memory() if is_it(each)}.values():
                updates = _updates_of(node, memory)
                if updates is None:
                    return None
                found += updates
        elif any(map(is_it, memory_of(node))):
            if node.kind != SCATTER:
                return None
            found.append(node)
    written = {node.id for node in found}
    return None if any(node.kind == FETCH and node.d0 is not None and node.d0.id in written
                       for node in region.nodes) else found
