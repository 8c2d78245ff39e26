"""What one call of the user's functions has left: nodes of a region, of which all later traces are made.

A loop, a branch or a call is traced again when something about its variables has turned out: how wide they are, that
some are memory or do not change, that arrays from outside are written to.  The user's functions are not called for
that, since whatever they do besides would happen again: the nodes are traced again, with other formals.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from ..ir.deferred import Memory, Statement, version_of
from ..ir.node import Node
from ..ir.region import needed_for, operands
from ..ir.symbolic import Tracing
from ..ops.table import BITCAST, CAST, COUNTER, FIRST_REGISTERED, GATHER, LITERAL, OPAQUE, PACK, SCATTER
from .inline import Values, trace_again

__all__ = ["Ambiguous", "Source", "count_holders", "depending", "times_held"]


#: Counts how many arrays of the program's hold each of some nodes, by their ids: a function that the array layer sets.
count_holders: list[Callable[[dict[int, int]], None]] = [lambda held: None]


_id = operator.attrgetter("id")
_NOTHING: dict[int, Any] = {}


class Ambiguous(Exception):
    """The nodes do not tell what another trace would be."""


class Source:
    """The nodes of a region, in parts with results of their own."""

    __slots__ = ("aliases", "apart", "before", "first", "formals", "id", "lent", "masks", "parts", "repeats", "results",
                 "statements", "width")

    def __init__(self, id_: int, formals: Sequence[Node], masks: Sequence[Node], lent: dict[Memory, Node],
                 statements: list[Statement], results: Sequence[Sequence[Node]], versions: Iterable[Node] = (),
                 width: int = 0, repeats: bool = True, apart: dict[int, bool] = _NOTHING) -> None:
        self.id = id_
        #: Whether it is run several times, so that what is read of arrays is what it has made of them before.
        self.repeats = repeats
        #: What stood for the variables: formals, constants, and arrays from outside that turned out to be variables.
        self.formals = list(formals)
        self.masks = list(masks)
        self.lent = lent
        self.statements = statements
        #: How many elements the values among the formals had; 0 if each had its own number.
        self.width = width
        self.results = [list(part) for part in results]
        roots = [*self.results[:-1], [*self.results[-1], *versions]]
        known = tuple([node for node in (*formals, *masks, *lent.values()) if node.scope == self.id])
        self.parts = needed_for(self.id, known, roots)
        #: Nodes made from here on are of this trace.
        self.first = min([node.id for node in known], default=masks[-1].id)
        #: What was computed outside in this trace, and must be traced again as well.
        self.before: list[Node] = []
        #: What stands for constants in memory, which have turned out to be variables, as well.
        self.aliases: dict[int, Node] = {}
        #: Of what stands for itself, told apart, by ids: whether that is a variable.
        self.apart = apart
        if apart:
            self.note_outside((), {})

    def values(self, region: Tracing, formals: Sequence[Node], masks: Sequence[Node]) -> Values:
        """What the trace into a region begins with."""
        values = Values({}, self.formals, formals)
        if not self.repeats:  # a value of an array that is written to is the one before
            values.memory = {node.id: formal for node, formal in zip(self.formals, formals, strict=True)
                             if node.scope != self.id and node is not formal}
            for number in values.memory:
                del values.known[number]
        values.add(self.masks, masks)
        for memory, formal in self.lent.items():
            values.known[formal.id] = version_of(memory, region)
        for alias, origin in self.aliases.items():
            values.known[alias] = values[origin]
        trace_again(self.before, values)
        return values

    def trace(self, part: int, values: Values) -> list[Node]:
        """Trace a part again; returns its results."""
        trace_again(self.parts[part], values)
        return [values[node] for node in self.results[part]]

    def note_origins(self, changes: Sequence[tuple[Node, Node]]) -> None:
        """Some arrays from outside have turned out to be variables, with what they are before and after: what was
        computed of them in this trace, outside of the region, is part of it."""
        if not changes:
            return
        origins = [before for before, _ in changes]
        for part in self.parts:
            for node in part:
                if node.kind == SCATTER and node.d0 in origins and len({after for before, after in changes
                                                                        if before is node.d0}) > 1:
                    raise Ambiguous
        if not self.repeats:
            return
        held = dict.fromkeys([each.id for node in origins for each in (node, node.d0) if each is not None], -1)
        self.note_outside(origins, held)
        times: dict[int, list[Node]] = {}
        for before, after in changes:
            times.setdefault(before.id, []).append(after)
        for part in (self.before, *self.parts):
            for node in part:
                for operand in operands(node):
                    if not (node.kind == SCATTER and operand is node.d0):
                        _require_clear(operand, times, held)
        for result in self.results:
            for node in result:
                _require_clear(node, times, held)

    def note_outside(self, origins: Sequence[Node], held: dict[int, int]) -> None:
        """Note what was computed outside in this trace of what has been told apart, and of arrays from outside."""
        changed = self.apart | {node.id: True for node in origins}
        captures = _outside(self.used(), self.id, min(self.first, *changed))
        for origin in origins:
            memory = origin.d0 if origin.kind == OPAQUE else None
            for node in captures:
                if memory is not None and node.kind == OPAQUE and node.d0 is memory and node is not origin and \
                        node.id >= self.first:
                    if times_held(memory.id, held) > 1:
                        raise Ambiguous  # perhaps through another array
                    self.aliases[node.id] = origin
        self.before = []
        for node in captures:
            found = [changed[operand.id] for operand in operands(node) if operand.id in changed]
            if not found or node.id in changed or node.id in self.aliases:
                continue
            is_changed = any(found)
            known = node.kind >= FIRST_REGISTERED or node.kind in (CAST, BITCAST, GATHER, PACK)
            if is_changed and (not known or node.id < self.first):  # computed before, and perhaps once more since
                raise Ambiguous
            if known:
                changed[node.id] = is_changed
                self.before.append(node)

    def used(self) -> list[Node]:
        """What the nodes of the region refer to, and its results."""
        return [operand for part in self.parts for node in part for operand in operands(node)] + [
            node for result in self.results for node in result]

    def tells(self, width: int) -> bool:
        """Whether it tells what a trace of another width would be: nothing from outside is as wide as it was, nor
        computed in this trace of what is."""
        if width == self.width or self.width < 2:
            return True
        found = [operand for part in (*self.parts, _outside(self.used(), self.id, self.first)) for node in part
                 for operand in operands(node)]
        return not [node for node in found if node.kind in (LITERAL, COUNTER) and node.size == self.width] and \
            not [node for result in self.results for node in result if node.kind == LITERAL and
                 node.size == self.width]


def _outside(nodes: Iterable[Node], scope: int, lowest: int) -> list[Node]:
    """What some nodes are, and are computed of, that belongs to no region of a scope, and has been made since a node of
    some id, in the order of making."""
    seen: set[int] = set()
    found: list[Node] = []
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node.id >= lowest and node.scope != scope and node.id not in seen:
            seen.add(node.id)
            found.append(node)
            todo += operands(node)
    return sorted(found, key=_id)


def depending(nodes: Iterable[Node], scope: int, stands: Container[int], lowest: int) -> bool:
    """Whether any of some nodes, of those that belong to no region of a scope, is one of some, or computed of these,
    given their ids and the ``lowest`` of them."""
    return bool([node for node in _outside(nodes, scope, lowest) if node.id in stands])


def _require_clear(value: Node, changes: dict[int, list[Node]], held: dict[int, int]) -> None:
    """Refuse to tell which array was read, if it is one of several that were the same, and that change otherwise."""
    after = changes.get(value.id)
    if after is not None and (len(set(after)) > 1 or times_held(value.id, held) > len(after)):
        raise Ambiguous


def times_held(number: int, held: dict[int, int]) -> int:
    """How many arrays hold a node, by its id: one of some, which are counted when the first one is asked for."""
    if held[number] < 0:
        count_holders[0](held)
    return held[number]
