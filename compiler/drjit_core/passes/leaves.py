"""Views of what is computed become computations of views, so that only memory is read in another layout.

Else the view would have to wait until its operand is in memory.  It pays as long as what is computed twice is cheap.
"""

from __future__ import annotations

from typing import Any

from ..ir.build import append, literal
from ..ir.node import Node, forget
from ..ops.table import ACCESS, BITCAST, CAST, EVALUATED, FIRST_ELEMENTWISE, LITERAL, OPS, UNDEFINED, VIEW

__all__ = ["move_views"]


def move_views(order: list[Node], most: int) -> bool:
    """Move the views among unevaluated nodes, operands first, to the leaves; whether there were any to be moved.

    Operands that cost more than so many additions, reading included, are stored once.
    """
    moved = False
    for node in order:
        if (node.kind == VIEW or node.kind == ACCESS) and _is_cheap(node.d0, most):
            _Mover(node).run()
            moved = True
    return moved


def _is_cheap(root: Any, most: int) -> bool:
    """Whether something is computed from memory alone, element by element, by few operations."""
    if root.kind <= UNDEFINED or root.kind == EVALUATED or root.size == 1:  # one element may be anything
        return False
    cost, stack, seen = 0, [root], set()
    while stack:
        node = stack.pop()
        if node.id in seen or node.size == 1:
            continue
        seen.add(node.id)
        kind = node.kind
        cost += OPS[kind].cost
        if cost > most or not (kind == EVALUATED or kind == LITERAL or kind >= FIRST_ELEMENTWISE or kind == CAST
                                or kind == BITCAST):
            return False
        if kind != EVALUATED:
            stack += [operand for operand in (node.d0, node.d1, node.d2) if operand is not None]
    return True


class _Mover:
    """Moves one view."""

    def __init__(self, view: Node) -> None:
        self.view, self.kind, self.payload = view, view.kind, view.payload
        self.done: dict[int, Node] = {}

    def run(self) -> None:
        """Make the view what its operand is, of views."""
        view, operand = self.view, self.view.d0
        assert operand is not None
        operands = [None if d is None else self.of(d) for d in (operand.d0, operand.d1, operand.d2)]
        forget(view)
        view.kind, view.attr, view.payload = operand.kind, operand.attr, operand.payload
        view.d0, view.d1, view.d2 = operands

    def of(self, node: Node) -> Node:
        """The view of an operand."""
        if node.size == 1:
            return node
        found = self.done.get(node.id)
        if found is None:
            if node.kind == EVALUATED:
                found = append(self.kind, node.type, self.view.size, node, payload=self.payload)
            elif node.kind == LITERAL:
                found = literal(node.type, node.payload, self.view.size, node.attr)
            else:
                d0, d1, d2 = (None if d is None else self.of(d) for d in (node.d0, node.d1, node.d2))
                found = append(node.kind, node.type, self.view.size, d0, d1, d2, attr=node.attr, payload=node.payload)
            self.done[node.id] = found
        return found
