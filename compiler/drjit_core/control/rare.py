"""Branches of expansions that few elements take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from weakref import ref

from ..flags import state
from ..ir.build import append, broadcast_size
from ..ir.expansion import context
from ..ir.node import RARE, Node
from ..ir.numbering import numbered
from ..ir.trace import ops
from ..ops.table import LITERAL, LOOP, LOOP_RESULT, PHI
from ..types import BOOL

__all__ = ["Rare", "rarely"]

Branch = Callable[..., Sequence[Node]]


class Rare:
    """``values = branch(*arguments) if mask else values``: the payload of a ``LOOP`` node marked ``RARE``.

    A backend makes one function of all branches with the same name and types.
    """

    __slots__ = ("arguments", "branch", "initial", "name", "phis")

    def __init__(self, name: str, mask: Node, values: Sequence[Node], arguments: Sequence[Node], branch: Branch,
                 size: int) -> None:
        self.name = name
        self.initial = (mask, *values)
        self.arguments = tuple(arguments)
        self.branch = branch
        #: Stand for the results, as the variables of a loop do.
        self.phis = tuple(append(PHI, value.type, size, attr=i, number=False) for i, value in enumerate(values))

    def inputs(self) -> Iterator[Node]:
        """Every value that the branch or what follows it needs."""
        yield from self.initial
        yield from self.arguments


def rarely(name: str, mask: Node, values: Sequence[Node], arguments: Sequence[Node], branch: Branch) -> list[Node]:
    """``branch(*arguments)`` where the mask is set, else the values.

    A packet in which no element has the mask set skips the branch, which therefore may cost much.  Its result must
    follow from name, arguments and their types alone.  Where there is no text to be made, both sides are computed, or
    only the usual one (:data:`drjit_core.ir.expansion.context`).
    """
    if mask.kind == LITERAL:
        return list(branch(*arguments) if mask.payload else values)
    if context.branches == "usual":
        return list(values)
    if context.branches == "both":
        return [ops.select(mask, other, value) for other, value in zip(branch(*arguments), values, strict=True)]
    keys = [(name, mask.id, value.id, state.mode) for value in values]
    known = [reference() for key in keys if (reference := numbered.get(key)) is not None]
    found = [node for node in known if node is not None]
    if len(found) == len(values):
        return found
    size = broadcast_size(name, mask, *values, *arguments)
    rare = append(LOOP, BOOL, size, payload=Rare(name, mask, values, arguments, branch, size), attr=RARE, number=False)
    results = [append(LOOP_RESULT, value.type, size, rare, attr=i) for i, value in enumerate(values)]
    for key, node in zip(keys, results, strict=True):
        numbered[key] = ref(node)
    return results
