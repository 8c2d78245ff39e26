"""Value numbering: equal operations on equal operands are one node.

The table maps a tuple of plain ints to a weak reference.  Entries of dead nodes are swept out when the table has
doubled since the last sweep, which costs less per node than a death callback; a stale entry is harmless meanwhile,
because ids are never reused and a dead reference yields ``None``.
"""

from __future__ import annotations

import weakref
from typing import Any

from .node import Node

__all__ = ["numbered", "sweep", "sweep_if_large"]

numbered: dict[tuple[Any, ...], weakref.ref[Node]] = {}
_limit = 8192


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
