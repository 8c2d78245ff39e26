"""Local memory: entries that each element of a kernel has to itself, as long as the kernel computes it.

A ``LOCAL`` is such memory, of undefined contents; formals and results of loops that stand for it have the payload
:data:`.region.OWN`. Loops write to it, and loops of the same kernel read it by index, each element what it has written
itself. All elements that take part in a write name the same entry, the number of the loop's iteration; a write beyond
the last entry goes to the last, and writes leave the entries of elements that do not take part undefined. So writes
are plain stores, and reads hit the cache.

It is no effect of a loop to write to its own local memory: such loops may be computed again, and are no barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

from ..ops.table import RESULT
from .node import Node
from .region import Loop, Region

__all__ = ["Keeping", "take_over"]


class Keeping(Loop):
    """What another loop computes, and more: a kernel that would compute both computes this one."""

    __slots__ = ("extends",)

    def __init__(self, extends: Node, region: Region, initial: Sequence[Node]) -> None:
        loop: Loop = extends.payload
        super().__init__((region,), initial, loop.label, loop.trips)
        self.extends = extends


def take_over(loop: Node) -> list[Node]:
    """Let a loop compute the results of the one that it extends from now on; returns those that have no values yet."""
    before: Node = loop.payload.extends
    results = [result for reference in before.payload.outputs if (result := reference()) is not None
               and result.kind == RESULT and result.d0 is before]
    for result in results:
        result.d0 = loop
        loop.payload.outputs.append(ref(result))
    return results
