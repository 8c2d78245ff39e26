"""Who else holds a node: what copy-on-write asks.

Nodes are held in slots and tuples only (of arrays, operands, regions), so that CPython's reference counts tell.
"""

from __future__ import annotations

import sys
from typing import Any

from ..ops.table import EVALUATED, IS_NUMBERED

__all__ = ["held_elsewhere"]

#: Free-threaded builds do not count exactly: there everything counts as held.
_COUNTS_ARE_EXACT = getattr(sys, "_is_gil_enabled", lambda: True)()


def held_elsewhere(node: Any, known: int = 0) -> bool:
    """Whether anything holds a node but one slot and ``known`` others, and so may want what is in its memory now.

    Call it as ``held_elsewhere(holder.slot)``; a name for the node in between is one more holder that is known.  Where
    the answer is not certain, it is yes: a copy too many costs time only.
    """
    if IS_NUMBERED[node.kind]:
        return True  # another thread may come upon it by value numbering at any moment
    if not _COUNTS_ARE_EXACT or node.kind == EVALUATED and node.payload.read_only:
        return True
    return sys.getrefcount(node) - known > _UNHELD


def _measure_unheld() -> int:
    """What ``sys.getrefcount`` says in :func:`held_elsewhere` of an object that one slot holds."""
    class Slot:
        __slots__ = ("d0",)

    def count(node: Any, known: int = 0) -> int:
        return sys.getrefcount(node)

    slot = Slot()
    slot.d0 = object()  # type: ignore[attr-defined]
    return count(slot.d0)  # type: ignore[attr-defined]


_UNHELD = _measure_unheld()
