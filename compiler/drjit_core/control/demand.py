"""What some values of a region need, whatever else happens there: nodes of it and of the regions in it."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping

from ..ir.node import Node
from ..ir.region import Control, Loop, is_local, operands
from ..ops.table import COUNTER, IS_WRITE, LITERAL, PHI, RESULT

__all__ = ["Demand", "dependents", "is_of_sizes"]


_id = operator.attrgetter("id")
_EMPTY: list[Node] = []


class Demand:
    """The nodes that some values of a region need.

    Writes are needed by what reads there, and loops, branches and calls by their results: what they do besides is not.
    ``finals`` are what variables become, by their ids, if the region is a loop's, and runs as often. What is computed
    outside of variables that stand for themselves, and change, by their ids in ``apart``, belongs to the region.
    """

    __slots__ = ("_formals", "_outside", "_scopes", "captures", "ids", "nodes", "writes")

    def __init__(self, scope: int, roots: Iterable[Node], finals: Mapping[int, Node],
                 apart: Collection[int] = ()) -> None:
        #: The ids of all nodes, formals among them, and of those in the regions within.
        self.ids: set[int] = set()
        #: Those of the region itself, in the order of tracing; and what is needed from outside.
        self.nodes: list[Node] = []
        self.captures: list[Node] = []
        #: Whether any of them writes to memory.
        self.writes = False
        #: The regions that are part of it, and what variables stand for, by their ids.
        self._scopes = {scope}
        self._formals: dict[int, list[Node]] = {number: [final] for number, final in finals.items()}
        roots = list(roots)
        self._outside: Collection[int] = dependents([*roots, *finals.values()], apart) if apart else ()
        self._note(scope, roots)
        self.nodes.sort(key=_id)
        self._formals.clear()  # what is not needed is not held

    def _note(self, scope: int, todo: list[Node]) -> None:
        """Note what some values need."""
        while todo:
            node = todo.pop()
            if node.id in self.ids:
                continue
            self.ids.add(node.id)
            todo += self._formals.get(node.id, _EMPTY)
            is_own = node.scope == scope or node.id in self._outside
            if not is_own and node.scope not in self._scopes:
                self.captures.append(node)
            elif node.kind != PHI:
                if is_own:
                    self.nodes.append(node)
                if IS_WRITE[node.kind] and not is_local(node):
                    self.writes = True
                todo += [operand for operand in (node.d0, node.d1, node.d2, node.d3) if operand is not None]
                if node.kind == RESULT and node.d0 is not None:
                    todo += self._result(node.d0.payload, node.attr)

    def _result(self, control: Control, position: int) -> list[Node]:
        """What a result of a loop, a branch or a call needs of its regions."""
        found = [region.results[-1][position] for region in control.regions]
        for region in control.regions:
            self._scopes.add(region.id)
            for number, formal in enumerate(region.formals):
                self._formals[formal.id] = [control.initial[number]]
                if isinstance(control, Loop):
                    self._formals[formal.id].append(control.finals[number])
        return [control.region.formals[position], control.condition] if isinstance(control, Loop) else found


def dependents(nodes: Iterable[Node], origins: Collection[int]) -> set[int]:
    """The ids of what is computed of origins, given their ids, of some nodes, and of what these are computed of."""
    seen: set[int] = set()
    found: list[Node] = []
    lowest, todo = min(origins), list(nodes)
    while todo:
        node = todo.pop()
        if node.id > lowest and node.id not in seen:
            seen.add(node.id)
            found.append(node)
            todo += operands(node)
    depends = set(origins)
    for node in sorted(found, key=_id):
        if not depends.isdisjoint([operand.id for operand in operands(node)]):
            depends.add(node.id)
    return depends.difference(origins)


def is_of_sizes(node: Node) -> bool:
    """Whether a value is computed of counters and literals alone: whoever knows a size may make it."""
    seen: set[int] = set()
    todo = [node]
    while todo:
        node = todo.pop()
        if node.id not in seen:
            seen.add(node.id)
            inner = operands(node)
            if not inner and node.kind not in (COUNTER, LITERAL):
                return False
            todo += inner
    return True
