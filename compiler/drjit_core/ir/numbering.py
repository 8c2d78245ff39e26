"""Value numbering: equal operations on equal operands are one node.

The table maps a tuple of plain ints to a weak reference.  Entries of dead nodes are swept out when the table has
doubled since the last sweep, which costs less per node than a death callback; a stale entry is harmless meanwhile,
because ids are never reused and a dead reference yields ``None``.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..ops.table import EVALUATED, FIRST_ELEMENTWISE
from .node import Node

__all__ = ["forget", "numbered", "sweep", "sweep_if_large"]

numbered: dict[tuple[Any, ...], weakref.ref[Node]] = {}
_limit = 8192


def forget(node: Node) -> None:
    """Remove the entry of a node that is about to be evaluated.

    From then on its operands may be overwritten by the host, and its own memory by a write that found no other holder:
    the same expression traced once more may have another value, and must not come upon the old node.
    """
    if node.kind == EVALUATED:
        return
    for mode in (0, -1):  # as traced usually, and with labels or log lines
        key = _key(node, mode)
        reference = numbered.get(key)
        if reference is not None and reference() is node:
            numbered.pop(key, None)
            return


def _key(node: Node, mode: int) -> tuple[Any, ...]:
    """The key under which tracing entered a node outside of regions."""
    kind, d0, d1, d2, d3 = node.kind, node.d0, node.d1, node.d2, node.d3
    if kind >= FIRST_ELEMENTWISE:
        assert d0 is not None
        if d1 is None:
            return kind, d0.id, mode
        return (kind, d0.id, d1.id, mode) if d2 is None else (kind, d0.id, d1.id, d2.id, mode)
    return (kind, node.type, node.size, d0.id if d0 is not None else 0, d1.id if d1 is not None else 0,
            d2.id if d2 is not None else 0, d3.id if d3 is not None else 0, node.attr, node.payload, mode)


def sweep() -> None:
    """Remove the entries of dead nodes."""
    global _limit
    for key, reference in numbered.copy().items():
        if reference() is None and numbered.get(key) is reference:
            numbered.pop(key, None)
    _limit = max(8192, 2 * len(numbered))


def sweep_if_large() -> None:
    """Sweep if the table has grown enough to pay for it."""
    if len(numbered) > _limit:
        sweep()
