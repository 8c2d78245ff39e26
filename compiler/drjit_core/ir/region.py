"""Regions: parts of the graph with a control flow of their own.

A :class:`Loop` is the payload of a ``LOOP`` node.  Nodes traced inside carry its id in ``scope``; everything else that
they use comes from outside: values are *captured*, arrays that gathers read are *sources*.  The orders are topological,
so that keys and emission walk a region without searching.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..ops.table import GATHER, LOOP
from .node import Node

__all__ = ["Loop", "operands"]


class Loop:
    """``while condition(phis): phis = results(phis)``, per element, with the elements that are done masked out."""

    __slots__ = ("captures", "condition", "condition_order", "id", "initial", "label", "order", "phis", "results",
                 "sources")

    def __init__(self, id_: int, initial: tuple[Node, ...], phis: tuple[Node, ...], condition: Node,
                 results: tuple[Node, ...], label: str | None) -> None:
        self.id = id_
        self.initial = initial
        self.phis = phis
        self.condition = condition
        self.results = results
        self.label = label
        captures: dict[int, Node] = {}
        sources: dict[int, Node] = {}
        seen: set[int] = {phi.id for phi in phis}
        #: Nodes that the condition needs, and those that only the body needs, in topological order.
        self.condition_order = _order_region(id_, (condition,), seen, captures, sources)
        self.order = _order_region(id_, results, seen, captures, sources)
        #: Values from outside that the region uses, and arrays from outside that it reads by index.
        self.captures = tuple(captures.values())
        self.sources = tuple(sources.values())

    def inputs(self) -> Iterator[Node]:
        """Every value that must be computed before the loop: initial values and captures."""
        yield from self.initial
        yield from self.captures


def operands(node: Node) -> Iterator[Node]:
    """The nodes that a node uses, be it as values or as memory; for a loop also what its region uses."""
    if node.kind == LOOP:
        yield from node.payload.inputs()
        yield from node.payload.sources
        return
    for operand in (node.d0, node.d1, node.d2, node.d3):
        if operand is not None:
            yield operand


def _order_region(id_: int, outputs: Iterable[Node], seen: set[int], captures: dict[int, Node],
                  sources: dict[int, Node]) -> list[Node]:
    """Nodes of the region (those whose scope is its id) that the outputs need; what is outside is recorded."""
    order: list[Node] = []
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(tuple(outputs))]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
            continue
        if node.id in seen:
            continue
        if node.scope != id_:
            captures.setdefault(node.id, node)
            continue
        seen.add(node.id)
        stack.append((node, True))
        if node.kind == GATHER:
            assert node.d0 is not None and node.d1 is not None and node.d2 is not None
            sources.setdefault(node.d0.id, node.d0)
            stack += ((node.d1, False), (node.d2, False))
        elif node.kind == LOOP:
            sources.update((source.id, source) for source in node.payload.sources)
            stack.extend((value, False) for value in node.payload.inputs())
        else:
            stack.extend((operand, False) for operand in operands(node))
    return order
