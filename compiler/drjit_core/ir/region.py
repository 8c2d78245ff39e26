"""Regions: parts of the graph with a control flow of their own.

A :class:`Region` has *formals*, nodes that stand for values which are known only when it runs, and lists exactly the
nodes that depend on them (``node.scope`` is the region's id); everything else that it uses is computed once, outside,
and *captured*.  Dependence follows from the operands alone: wherever a node is traced, it belongs to the innermost
region whose formals it needs.

What must not be computed when nobody asked (accesses to memory, writes, loops) takes the mask of the enclosing region's
active elements as an operand, and so depends on it.

Formals are *values* (one for each element) or *memory*: the version of an array that accesses by index refer to.
Writes make new versions, and the region's last one is among its results.  Nodes are listed in the order in which they
were traced: each after its operands, and each read of a version before the write that replaces it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from ..ops.table import (
    BITCAST,
    BOUND,
    CALL,
    EVALUATED,
    FIRST_ELEMENTWISE,
    FIRST_REGISTERED,
    IS_WRITE,
    LITERAL,
    LOCAL,
    MEMORY_OPERANDS,
    OPS,
    PACK,
    PHI,
    RESULT,
)
from .node import Node, collect

__all__ = ["CONTROL", "Call", "Choice", "Cond", "Control", "Loop", "MemoryAsValue", "OWN", "Region", "all_operands",
           "arguments_of", "in_record", "is_apart", "is_local", "is_version", "memory_of", "needed_for", "operands",
           "origin_of", "values_of", "width_of_write", "writes"]

#: Kinds of nodes with regions.
CONTROL = tuple(row.kind for row in OPS if row.effect == "region")


#: The payload of formals and results that are local memory; that of other memory is ``True``, of values ``False``.
OWN = 2
#: What most regions have none of.
_NONE: frozenset[int] = frozenset()
_EMPTY: list[Node] = []


class MemoryAsValue(Exception):
    """A region uses memory that it writes to as a value, of which it does not know when to read it."""

    def __init__(self, node: Node) -> None:
        super().__init__(f"{node!r} is memory")
        self.node = node


class Region:
    """Nodes in order, in parts that follow each other, each with results of its own.

    A loop's region has two parts, its condition first, so that what both need is computed once; others have one part.
    """

    __slots__ = ("accesses", "captures", "formals", "id", "inner", "masks", "parts", "recorded", "results", "sources",
                 "used", "writes")

    def __init__(self, id_: int, formals: Sequence[Node], masks: Sequence[Node],
                 results: Sequence[Sequence[Node]]) -> None:
        self.set_up(id_, formals, masks, results)

    def set_up(self, id_: int, formals: Sequence[Node], masks: Sequence[Node],
               results: Sequence[Sequence[Node]]) -> None:
        """What ``__init__`` does."""
        self.id = id_
        #: Formals, in the order of the arguments, and those that stand for masks of active elements, one for each part.
        self.formals = tuple(formals)
        self.masks = tuple(masks)
        self.results = tuple([tuple(roots) for roots in results])
        parts, users, captures, self.used = collect(id_, self.formals + self.masks, self.results, _IS_PLAIN, operands)
        #: Nodes that each part needs and those before it do not, in the order of tracing.
        self.parts = tuple(parts)
        #: Values from outside, and arrays from outside that are read by index.
        self.captures: tuple[Node, ...] = tuple(captures)
        self.sources: tuple[Node, ...] = ()
        #: Nodes that access memory; the loops, branches and calls in it.
        self.accesses: list[Node] = _EMPTY
        self.inner: tuple[Node, ...] = ()
        #: Whether anything is written.
        self.writes = False
        #: Of the captures, by their ids, those that only the targets of calls in it use.
        self.recorded = _NONE
        if users:
            self.look_through(users)

    def look_through(self, users: list[Node]) -> None:
        """Note what those nodes use that are not plain, which use memory or other regions."""
        captures = {capture.id: capture for capture in self.captures}
        sources: dict[int, Node] = {}
        inner: list[Node] = []
        self.accesses = []
        _look_through(self.id, users, captures, sources, inner, self.accesses)
        self.captures, self.sources, self.inner = tuple(captures.values()), tuple(sources.values()), tuple(inner)
        self.writes = bool([node for node in self.accesses + inner if writes(node)])
        if inner:
            self.recorded = _recorded(self)

    @property
    def nodes(self) -> Iterator[Node]:
        """All nodes, in order."""
        for part in self.parts:
            yield from part

    def needed(self) -> Sequence[Node]:
        """Captures that must be there before: all but what only the targets of calls in it have in their records."""
        if not self.recorded:
            return self.captures
        return [capture for capture in self.captures if capture.id not in self.recorded or not in_record(capture)]


def needed_for(scope: int, known: Sequence[Node], results: Sequence[Sequence[Node]]) -> list[list[Node]]:
    """For each part of a region, the nodes that its results need, and parts before it do not, in the order of tracing;
    without some that are ``known``."""
    parts, *_ = collect(scope, tuple(known), tuple([tuple(roots) for roots in results]), _IS_PLAIN, operands)
    return parts


def _look_through(id_: int, nodes: list[Node], captures: dict[int, Node], sources: dict[int, Node],
                  inner: list[Node], accesses: list[Node]) -> None:
    """Note what those nodes of a region use that may use what lies outside, memory or other regions."""
    for node in nodes:
        if _IS_PLAIN[node.kind]:
            _use(id_, node.d0, captures)
            _use(id_, node.d1, captures)
            _use(id_, node.d2, captures)
            continue
        if node.kind in CONTROL:
            inner.append(node)
            control = node.payload
            for version in (*control.memory(), *control.sources()):
                if version.scope != id_:
                    sources[version.id] = version
            for value in (node.d0, node.d1, node.d2, *control.inputs()):
                _use(id_, value, captures)
            continue
        accesses.append(node)
        memory = MEMORY_OPERANDS[node.kind]
        for value in (node.d0, node.d1, node.d2, node.d3):
            if memory > 0:
                if value is not None and value.scope != id_:
                    sources[value.id] = value
            else:
                _use(id_, value, captures)
            memory -= 1


#: By kinds: whether nodes have neither memory nor regions, and at most three operands; of kinds that may be registered
#: nobody knows.
_IS_PLAIN = bytes(not (kind in CONTROL or MEMORY_OPERANDS[kind] or IS_WRITE[kind] or
                       FIRST_REGISTERED <= kind < FIRST_ELEMENTWISE) for kind in range(len(OPS)))


def _use(id_: int, value: Node | None, captures: dict[int, Node]) -> None:
    """Note an operand."""
    if value is None:
        return
    if value.scope != id_:
        captures[value.id] = value
    elif value.payload is not None and is_version(value):
        raise MemoryAsValue(value)


def _recorded(region: Region) -> frozenset[int]:
    """The captures of a region that nothing in it uses but the targets of calls."""
    found: set[int] = set()
    for node in region.inner:
        for inner in node.payload.regions:
            found.update((capture.id for capture in inner.captures) if node.kind == CALL else inner.recorded)
    if found:
        for node in region.nodes:
            found.difference_update(d.id for d in (node.d0, node.d1, node.d2, node.d3) if d is not None)
        for node in region.inner:
            found.difference_update(value.id for value in node.payload.initial)
            if node.kind != CALL:
                for inner in node.payload.regions:
                    found.difference_update(capture.id for capture in inner.captures
                                            if capture.id not in inner.recorded)
        found.difference_update(result.id for results in region.results for result in results)
    return frozenset(found)


def in_record(capture: Node) -> bool:
    """Whether the targets of a call have a captured value in their records; others are arguments."""
    return capture.kind == LITERAL or capture.kind == BOUND or capture.kind == EVALUATED and capture.size == 1


class Control:
    """The payload of a node with regions.

    ``initial`` is what the formals stand for at first: the same for all regions.  Formals that are memory are written
    by some region: what is only read is captured.
    """

    __slots__ = ("extension", "initial", "label", "outputs", "regions", "writes")

    regions: tuple[Region, ...]
    initial: tuple[Node, ...]
    label: str | None
    #: The ``RESULT`` nodes, as long as they live.
    outputs: list[weakref.ref[Node]]
    #: Whether anything is written.
    writes: bool
    #: What it can do besides, see :mod:`.extension`.
    extension: Any

    def set_up(self, regions: Sequence[Region], initial: Sequence[Node], label: str | None) -> None:
        """What ``__init__`` of all of them does."""
        self.regions = tuple(regions)
        self.initial = tuple(initial)
        self.label = label
        self.outputs = []
        self.writes = False
        for region in regions:
            self.writes |= region.writes
        self.extension = None

    def arguments(self) -> list[Node]:
        """What formals that are values stand for."""
        formals = self.regions[0].formals
        found = []
        for position, initial in enumerate(self.initial):
            formal = formals[position]
            if not formal.payload:
                found.append(initial)
        return found

    def inputs(self) -> list[Node]:
        """Every value that is used: what formals stand for, and captures."""
        found = self.arguments()
        for region in self.regions:
            found += region.captures
        return found

    def values(self) -> list[Node]:
        """Every value that must be there before: all but what targets of calls have in their records."""
        found = self.arguments()
        for region in self.regions:
            found += region.needed()
        return found

    def memory(self) -> list[Node]:
        """The versions of arrays that are written to."""
        formals = self.regions[0].formals
        found = []
        for position, initial in enumerate(self.initial):
            formal = formals[position]
            if formal.payload:
                found.append(initial)
        return found

    def sources(self) -> list[Node]:
        """The arrays that are read by index, and not written to."""
        found: list[Node] = []
        for region in self.regions:
            found += region.sources
        return found

    def is_memory(self, position: int) -> bool:
        """Whether a result, given by its position, is the last version of memory."""
        raise NotImplementedError

    def origin(self, position: int) -> Node:
        """The version that was there before a result that is memory."""
        raise NotImplementedError


class Loop(Control):
    """``while condition(state): state = body(state)`` per element, with the elements that are done masked out.

    The operand of the ``LOOP`` is the mask of the elements that take part (of the enclosing region; by default all).
    """

    __slots__ = ("single", "trips")

    def __init__(self, regions: Sequence[Region], initial: Sequence[Node], label: str | None, trips: int = 0,
                 single: Sequence[int] = ()) -> None:
        self.set_up(regions, initial, label)
        #: If it is wide only for the sake of what it writes: the widths of its writes before it was.
        self.single = single
        #: About how often it repeats; 0 if nobody knows.
        self.trips = trips

    @property
    def region(self) -> Region:
        """Condition and body."""
        return self.regions[0]

    @property
    def condition(self) -> Node:
        """The mask that says which elements go on."""
        return self.regions[0].results[0][0]

    @property
    def finals(self) -> tuple[Node, ...]:
        """The state after an iteration."""
        return self.regions[0].results[1]

    def is_memory(self, position: int) -> bool:
        region = self.regions[0]
        formal = region.formals[position]
        return bool(formal.payload)

    def origin(self, position: int) -> Node:
        return self.initial[position]


class Choice(Control):
    """Regions of which each element takes one.  Each computes the values of ``count`` results; further ones are memory.
    """

    __slots__ = ("count", "memory_of")

    def __init__(self, regions: Sequence[Region], initial: Sequence[Node], label: str | None, count: int,
                 memory_of: Sequence[int]) -> None:
        self.set_up(regions, initial, label)
        self.count = count
        #: Of each result from ``count`` on, the position of the formal that it is a version of.
        self.memory_of = tuple(memory_of)

    def is_memory(self, position: int) -> bool:
        return position >= self.count

    def origin(self, position: int) -> Node:
        return self.initial[self.memory_of[position - self.count]]


class Cond(Choice):
    """``true(arguments) if mask else false(arguments)`` per element.  Operands of the ``COND``: the mask, and that of
    the enclosing region."""

    __slots__ = ("rare",)

    def __init__(self, regions: Sequence[Region], initial: Sequence[Node], label: str | None, count: int,
                 memory_of: Sequence[int], rare: str = "") -> None:
        self.set_up(regions, initial, label)
        self.count, self.memory_of = count, tuple(memory_of)
        #: The name of a branch of an expansion that hardly any element takes: equal names and types are equal regions,
        #: without captures other than constants, so that a backend may make one function of all such branches.
        self.rare = rare


class Call(Choice):
    """``targets[index](arguments)`` per element.  Operands of the ``CALL``: index, mask, and that of the enclosing
    region; an element that is masked out, or whose index is too large, gets zeros."""

    __slots__ = ()

    def values(self) -> list[Node]:
        found = self.arguments()
        for region in self.regions:
            found += [capture for capture in region.captures if not in_record(capture)]
        return found


def operands(node: Node) -> list[Node]:
    """The nodes that a node uses, be it as values or as memory; for a loop also what its region uses."""
    found = [operand for operand in (node.d0, node.d1, node.d2, node.d3) if operand is not None]
    if node.kind in CONTROL:
        control = node.payload
        found += control.inputs()
        found += control.memory()
        found += control.sources()
    return found


def all_operands(node: Node) -> list[Node]:
    """The operands of a node as its row has them: what is in a pack stands in the place of that."""
    found: list[Node] = []
    todo = [node.d3, node.d2, node.d1, node.d0]
    while todo:
        operand = todo.pop()
        if operand is None:
            continue
        if operand.kind == PACK:
            todo += (operand.d2, operand.d1, operand.d0)
        else:
            found.append(operand)
    return found


def arguments_of(node: Node) -> list[Node]:
    """What a node computes with: its operands but for memory, and for the mask of the region that it was traced in."""
    found, kind = all_operands(node), node.kind
    return found[MEMORY_OPERANDS[kind]:] if IS_WRITE[kind] else found[MEMORY_OPERANDS[kind]:OPS[kind].arity]


def memory_of(node: Node) -> list[Node]:
    """The operands that are memory."""
    return [operand for operand in (node.d0, node.d1, node.d2)[:MEMORY_OPERANDS[node.kind]] if operand is not None]


def values_of(node: Node) -> list[Node]:
    """The operands that are none."""
    return [operand for operand in (node.d0, node.d1, node.d2, node.d3)[MEMORY_OPERANDS[node.kind]:]
            if operand is not None]


def is_version(node: Node) -> bool:
    """Whether a node is an array after a write (or, in a region, before the first one): memory, not a value."""
    return IS_WRITE[node.kind] or (node.kind == PHI or node.kind == RESULT) and bool(node.payload)


def is_apart(node: Node) -> bool:
    """Whether a node is another one, told apart from its equals (see :func:`drjit_core.ir.build.apart`)."""
    return node.kind == BITCAST and node.d0 is not None and node.d0.type == node.type


def writes(node: Node) -> bool:
    """Whether a node writes to memory, itself or in its regions; local memory is none of it."""
    return IS_WRITE[node.kind] and not is_local(node) or node.kind in CONTROL and node.payload.writes


def is_local(memory: Node) -> bool:
    """Whether a version of memory is local, see :mod:`.extension`."""
    node: Node | None = memory
    while node is not None and IS_WRITE[node.kind]:
        node = node.d0
    return node is not None and (
        node.kind == LOCAL or (node.kind == PHI or node.kind == RESULT) and node.payload is OWN)


def width_of_write(node: Node) -> int:
    """The number of elements that a write with these operands writes, as far as its mask is set."""
    assert node.d1 is not None and node.d2 is not None and node.d3 is not None
    return max(node.d1.size, node.d2.size, node.d3.size)


def origin_of(node: Node, region: int) -> Node:
    """The version that was there before the writes of a region which led to a node."""
    while node.scope == region and is_version(node):
        if IS_WRITE[node.kind]:
            assert node.d0 is not None
            node = node.d0
        elif node.kind == RESULT:
            assert node.d0 is not None
            node = node.d0.payload.origin(node.attr)
        else:
            break  # a formal
    return node
