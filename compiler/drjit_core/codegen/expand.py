"""Expansion of rows such as ``sin`` into operations that the backends know, before a program becomes text.

Expansions are traced like everything else, so that value numbering finds what several of them have in common (the
argument reduction of a sine and a cosine).  They are traced of *stand-ins*, nodes that say no more of an operand than
its type: the text must follow from the program's key alone, and so from no value of a parameter, and from nothing that
else is known of a node.

Compiling an expansion takes long, each time that it occurs.  Rows that a program has many of stay in the order as they
are; a :class:`Call` says which function they are results of, whose body is their expansion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..ir.expansion import (
    COMPOSED,
    actuals_of,
    expanding,
    is_expanded,
    stands_for_updates,
    traced_by,
    updates_of,
)
from ..ir.node import BAKED, Node, new_id, new_node
from ..ir.region import values_of
from ..ops.table import COND, FIRST_EXPANDED, LITERAL, OPS, UNDEFINED
from ..types import TYPE_BITS, TYPES
from .program import Program

__all__ = ["Call", "Expanded", "stand_in"]


class Call(NamedTuple):
    """Rows that are computed by one call of a function.

    These are rows of the same operands and region (the sine and the cosine of a number), which share what their
    expansions have in common.
    """

    nodes: tuple[Node, ...]  # results, the first of which is where the call stands
    actuals: tuple[Node, ...]  # what each of them is computed of
    operands: tuple[Node, ...]  # without constants, which are part of the function
    function: tuple[Any, ...]  # what the function follows from: equal ones are one function
    native: frozenset[int]  # see :attr:`.target.Target.native`

    def body(self) -> tuple[list[Node], list[Node], Expanded]:
        """The function's formals, its results, and what computes these."""
        actuals = {d.id: stand_in(d.type, 1) for d in self.operands}
        results: list[Node] = []
        with expanding("branch"):
            for node in self.nodes:
                results.append(traced_by(node, self.native)(*(actuals.get(d.id, d) for d in self.actuals)))
            formals = list(actuals.values())
            return formals, results, Expanded.function(results, formals, self.native)


def _operands(node: Node, aliases: Mapping[int, Node]) -> list[Node]:
    """The values that a row is computed of; in place of a copy, what it is a copy of."""
    return [aliases.get(d.id, d) for d in actuals_of(node)[1]]


def _row(node: Node, operands: Sequence[Node]) -> tuple[Any, ...]:
    """What an expansion follows from: the kind, and the type or, as they are part of the program, value of operands."""
    return node.kind, *((d.type, str(d.payload)) if _is_constant(d) else d.type for d in operands)


def _is_constant(node: Node) -> bool:
    return node.kind == LITERAL and node.attr == BAKED


def _calls(order: Sequence[Node], aliases: Mapping[int, Node], inlined: int,
           native: frozenset[int]) -> dict[int, Call]:
    """The rows of a program that are calls, by the ids of nodes: those that there are more of."""
    expanded = [node for node in order
                if node.kind >= FIRST_EXPANDED and node.kind << TYPE_BITS | node.type not in native]
    if len(expanded) <= inlined:
        return {}
    rows = {node.id: _row(node, _operands(node, aliases)) for node in expanded}
    often = {row for row, count in Counter(rows.values()).items() if count > inlined}
    groups: dict[tuple[int, ...], list[Node]] = {}
    for node in expanded:
        if rows[node.id] in often:
            groups.setdefault((node.scope, *(d.id for d in _operands(node, aliases))), []).append(node)
    calls: dict[int, Call] = {}
    for nodes in groups.values():
        actuals = _operands(nodes[0], aliases)
        operands = [d for place, d in enumerate(actuals) if not _is_constant(d) and d not in actuals[:place]]
        call = Call(tuple(nodes), tuple(actuals), tuple(operands),
                    (actuals[0] is actuals[-1], *(rows[node.id] for node in nodes)), native)
        calls.update(dict.fromkeys((node.id for node in nodes), call))
    return calls


def stand_in(type_: int, size: int) -> Node:
    """A node of which nothing is known but its type and size."""
    node: Node = new_node(Node)
    node.kind, node.type, node.size, node.id = UNDEFINED, type_, size, new_id()
    node.d0 = node.d1 = node.d2 = node.d3 = node.payload = None
    node.attr = node.where = node.scope = 0
    return node


def _write_of(write: Node, target: Node | None, update: tuple[Node, Node, Node]) -> Node:
    """One of the updates that a write is: it makes no version that anybody else knows."""
    node: Node = new_node(Node)
    node.kind, node.type, node.size, node.id = write.kind, write.type, write.size, new_id()
    node.d0, (node.d1, node.d2, node.d3) = target, update
    node.attr, node.payload, node.where, node.scope = write.attr, write.payload, write.where, write.scope
    return node


class Expanded:
    """The nodes of a program in the order of emission, with expansions in place of the rows that have one."""

    __slots__ = ("calls", "native", "order", "parts", "position", "scatters", "writes", "_stand_ins")

    def __init__(self, program: Program) -> None:
        self.order = program.order
        #: Node id -> place in the order.  An expanded node has the place of its expansion's result.
        self.position = program.position
        #: Id of an expanded node -> the nodes of its expansion, in order, that were not there before.
        self.parts: dict[int, list[Node]] = {}
        #: Rows that are calls.
        self.calls: dict[int, Call] = {}
        self._stand_ins: dict[tuple[int, int], Node] = {}
        self.native = program.target.native
        #: Of each write of several updates, by its id: a write for each of these. The writes of the kernel.
        self.writes: dict[int, list[Node]] = {}
        self.scatters = program.scatters
        nodes = [*program.order, *program.scatters]
        if any(map(is_expanded, nodes)) or any(map(stands_for_updates, nodes)):
            given = {node.id for node in program.extras}  # arguments of a function: computed by its caller
            self.order, self.position = [], {}
            self.calls = _calls([node for node in program.order if node.id not in given], program.aliases,
                                program.target.inlined, self.native)
            for node in program.order:
                if self.expands(node) and node.id not in self.calls and node.id not in given:
                    self._expand(node, *(self._stand_in(d, node.scope) for d in _operands(node, program.aliases)))
                elif stands_for_updates(node):
                    self._expand_write(node, program)
                    for write in self.writes[node.id]:
                        self._append(write)
                    self.parts[node.id] += self.writes[node.id]
                    self.position[node.id] = len(self.order) - 1
                elif node.id not in self.position:  # else a constant that an expansion has, too
                    self._append(node)
            for node in filter(stands_for_updates, program.scatters):
                self._expand_write(node, program)
            self.scatters = self.all_writes(program.scatters)
            for alias, original in program.aliases.items():
                self.position[alias] = self.position[original.id]

    @classmethod
    def function(cls, results: Sequence[Node], formals: Sequence[Node],
                 native: frozenset[int] = frozenset()) -> Expanded:
        """What computes some nodes from others."""
        self = cls.__new__(cls)
        self.order, self.position, self.parts, self.calls, self._stand_ins, self.native = [], {}, {}, {}, {}, native
        self.writes, self.scatters = {}, []
        for node in formals:
            self._append(node)
        for node in results:
            self._append_all(node)
        return self

    def expands(self, node: Node) -> bool:
        """Whether a row is replaced, or called: it has no text."""
        return is_expanded(node) and node.kind << TYPE_BITS | node.type not in self.native or node.id in self.writes

    def all_writes(self, writes: Iterable[Node]) -> list[Node]:
        """Some writes, and in place of those of several updates one for each of these."""
        return [each for write in writes for each in self.writes.get(write.id, (write,))]

    def _append(self, node: Node) -> None:
        self.position[node.id] = len(self.order)
        self.order.append(node)

    def _stand_in(self, operand: Node, region: int) -> Node:
        """What an expansion sees of an operand: a constant if it is part of the program, else only its type.

        Expansions share what they have in common within a region only: one may run while another does not.
        """
        if operand.kind == LITERAL and operand.attr == BAKED:
            return operand
        node = self._stand_ins.get((operand.id, region))
        if node is None:
            node = self._stand_ins[operand.id, region] = stand_in(operand.type, operand.size)
            self.position[node.id] = self.position[operand.id]
        return node

    def _expand(self, node: Node, *operands: Node) -> None:
        """Append the expansion of a node for some operands."""
        first = len(self.order)
        with expanding("branch"):
            result = traced_by(node, self.native)(*actuals_of(node)[0], *operands)
        if node.kind in COMPOSED and not (
                isinstance(result, Node) and result.type == node.type and result.size in (1, node.size)):
            found = f"{TYPES[result.type].name}[{result.size}]" if isinstance(result, Node) else type(result).__name__
            raise TypeError(f"the expansion of the row '{OPS[node.kind].name}' must return "
                            f"{TYPES[node.type].name}[{node.size}], found {found}")
        self._append_all(result)
        self.parts[node.id] = self.order[first:]
        self.position[node.id] = self.position[result.id]

    def _expand_write(self, write: Node, program: Program) -> None:
        """Append what a write of several updates writes; and make a write for each of them."""
        first, made, target = len(self.order), [], write.d0
        with expanding("branch"):
            updates = updates_of(write, lambda node: self._stand_in(program.aliases.get(node.id, node), write.scope))
        for update in updates:
            for node in update:
                self._append_all(node)
            target = _write_of(write, target, update)
            program.let_stand_for(target, write)
            made.append(target)
        self.parts[write.id], self.writes[write.id] = self.order[first:], made

    def _append_all(self, root: Node) -> None:
        """Append a part of an expansion, and before it what it needs."""
        position, stack = self.position, [root]
        while stack:
            node = stack[-1]
            if node.id in position:
                stack.pop()
                continue
            used = values_of(node)
            if node.kind == COND:  # whose regions are no part of this order
                used += node.payload.initial
            missing = [d for d in reversed(used) if d.id not in position]
            if missing:
                stack += missing
                continue
            stack.pop()
            if self.expands(node):  # an expansion in terms of another one
                self._expand(node, *used)
            else:
                self._append(node)
