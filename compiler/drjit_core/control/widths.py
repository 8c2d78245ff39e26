"""How wide a construct must be for what it writes."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.node import Node
from ..ir.region import CONTROL, Region
from ..ops.table import SCATTER

__all__ = ["written_widths"]


def written_widths(region: Region) -> Iterator[Node]:
    """What is written in a region, for each of its elements."""
    for node in region.nodes:
        if node.kind == SCATTER:
            assert node.d1 is not None and node.d2 is not None and node.d3 is not None
            yield from (node.d1, node.d2, node.d3)
        elif node.kind in CONTROL and node.payload.writes:
            yield node
