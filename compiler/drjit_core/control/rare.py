"""Branches of expansions that few elements take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import ref

from ..flags import state
from ..ir.build import literal
from ..ir.node import BAKED, RARE, Node
from ..ir.numbering import numbered
from ..ops.table import LITERAL
from ..types import BOOL
from .loop import while_loop

__all__ = ["rarely"]


def rarely(name: str, mask: Node, values: Sequence[Node], branch: Callable[[], Sequence[Node]]) -> list[Node]:
    """``branch()`` where the mask is set, else the values.

    A loop that runs at most once: a packet in which no element has the mask set skips the branch, which therefore may
    cost much.  The name tells branches that are taken under the same mask apart; the same one is traced once.
    """
    if mask.kind == LITERAL:
        return list(branch() if mask.payload else values)
    keys = [(name, mask.id, value.id, state.mode) for value in values]
    known = [reference() for key in keys if (reference := numbered.get(key)) is not None]
    found = [node for node in known if node is not None]
    if len(found) == len(values):
        return found
    done = literal(BOOL, False, 1, BAKED)
    _, *results = while_loop([mask, *values], lambda variables: variables[0], lambda variables: [done, *branch()], name)
    loop = results[0].d0
    assert loop is not None
    loop.attr = RARE
    for key, node in zip(keys, results, strict=True):
        numbered[key] = ref(node)
    return results
