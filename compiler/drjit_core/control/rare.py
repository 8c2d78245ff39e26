"""Branches of expansions that few elements take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import ref

from ..flags import state
from ..ir.build import append, broadcast_size
from ..ir.expansion import context
from ..ir.node import Node
from ..ir.numbering import numbered
from ..ir.trace import ops
from ..ops.table import BRANCH, BRANCH_RESULT, LITERAL
from ..types import BOOL

__all__ = ["Rare", "rarely"]

Branch = Callable[..., Sequence[Node]]


class Rare:
    """``values = branch(*arguments) if mask else values``: the payload of a ``BRANCH`` node.

    A backend makes one function of all branches with the same name and types.  Such nodes are found in expansions only,
    not in the graph that the user's program makes.
    """

    __slots__ = ("arguments", "branch", "mask", "name", "values")

    def __init__(self, name: str, mask: Node, values: Sequence[Node], arguments: Sequence[Node],
                 branch: Branch) -> None:
        self.name = name
        self.mask = mask
        self.values = tuple(values)
        self.arguments = tuple(arguments)
        self.branch = branch

    def inputs(self) -> tuple[Node, ...]:
        """Every value that the branch or what follows it needs."""
        return self.mask, *self.values, *self.arguments


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
    rare = append(BRANCH, BOOL, size, payload=Rare(name, mask, values, arguments, branch))
    results = [append(BRANCH_RESULT, value.type, size, rare, attr=i) for i, value in enumerate(values)]
    for key, node in zip(keys, results, strict=True):
        numbered[key] = ref(node)
    return results
