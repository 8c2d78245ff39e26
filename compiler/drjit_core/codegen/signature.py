"""The signature of a kernel: what each of its parameters is for.

A :class:`Signature` belongs to a kernel and knows of no program; what a launch enters is its *binding*
(:mod:`drjit_core.runtime.stages`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..ir.expansion import count_updates
from ..ir.node import Node
from ..ir.region import memory_of
from ..ops.table import EVALUATED, IS_INDEXED, LITERAL, SCATTER, VIEW
from ..passes.domain import WIDE_EXTENT
from ..types import TYPES, ReduceOp
from .program import Program, streamed_bytes
from .target import Interval, Target

__all__ = ["Decision", "Role", "Signature", "Slot", "decisions_of", "signature_of", "slots_of",
           "straight_decisions"]


class Role(enum.StrEnum):
    """What one of the 64-bit words is that a kernel, or a function that it calls, gets."""

    WIDTH = "width"
    PARTIALS = "partials"  # address of the partial results of reductions
    LITERAL = "literal"  # its bits
    INPUT = "input"  # address of an array that is read by position
    OUTPUT = "output"  # address of an array that is written by position
    MEMORY = "memory"  # address of an array that is read or written by index
    TABLES = "tables"  # address of the tables of a scatter-reduction
    TABLE_BYTES = "table bytes"
    FIRST = "first"  # position of the first element of a part of an array
    STRIDE = "stride"  # of a view, along an axis of the domain
    EXTENT = "extent"  # of an axis of the domain, the innermost first; but the outermost
    PARTS = "parts"  # number of parts that a row is cut into
    PART = "part"  # number of elements of such a part
    LIMIT = "limit"  # number of elements of memory: which indices are compared with, or which a block has a table of
    REPORT = "report"  # address of what checks find
    CALLS = "calls"  # address of the table of a call
    TARGETS = "targets"  # number of its entries
    LINK = "link"  # of a function: a word of what calls it
    ARGUMENT = "argument"  # of a function: place of one of its arguments


class Slot(NamedTuple):
    """A parameter of a program."""

    role: Role
    type: int = 0  # of the elements, or of the literal
    size: int = 0  # number of elements
    node: Node | None = None


class Signature(NamedTuple):
    """What a kernel gets and gives."""

    key: bytes
    roles: tuple[Role, ...]
    partial_words: int


def signature_of(program: Program) -> Signature:
    """The signature of a program's kernel."""
    return Signature(program.key, tuple(slot.role for slot in slots_of(program)), program.partial_words)


def slots_of(program: Program) -> list[Slot]:
    """The meaning of each parameter."""
    result: list[Slot | None] = [None] * len(program.parameters)

    def enter(number: int, role: Role, node: Node | None = None, size: int = 0) -> None:
        result[number] = Slot(role, node.type, node.size, node) if node is not None and not size else \
            Slot(role, 0, size, node)

    enter(0, Role.WIDTH)
    enter(1, Role.PARTIALS)
    if not program.domain.is_flat:
        count = len(program.domain.extents) - 1
        for number in range(count):
            enter(program.axes + number, Role.EXTENT)
        enter(program.axes + count, Role.PARTS)
        enter(program.axes + count + 1, Role.PART)
    slots, firsts = program.slots, program.firsts
    for node in [node for node in program.order if node.id in slots or node.id in firsts]:
        if node.id in slots and node.kind in (LITERAL, EVALUATED):
            enter(slots[node.id], Role.LITERAL if node.kind == LITERAL else Role.INPUT, node)
        elif node.id in firsts:
            enter(program.firsts[node.id], Role.FIRST, node)
            if node.kind == VIEW:
                for axis in range(2 if node.id in program.short else len(program.domain.extents)):
                    enter(program.firsts[node.id] + 1 + axis, Role.STRIDE, node)
    if not program.is_function:
        for node in (*program.stores, *program.reductions):
            enter(program.slots[node.id], Role.OUTPUT, node)
    for node in program.extras:
        enter(program.slots[node.id], Role.ARGUMENT, node)
    for node in program.inputs:
        if node.id in program.pointers:
            enter(program.pointers[node.id], Role.MEMORY, node)
    for number, _ in program.links:
        enter(number, Role.LINK)
    for node, *_ in program.tabled:
        number = program.tables[node.id]
        enter(number, Role.TABLES, node)
        enter(number + 1, Role.TABLE_BYTES, node)
    for node in program.sharing:
        if program.pointers[node.id] in program.block_tables:
            enter(program.block_tables[program.pointers[node.id]], Role.LIMIT, node, node.size)
    if program.checks:
        enter(program.report, Role.REPORT, None, len(program.checks))
    for check in program.checks.values():
        enter(check.slot, Role.LIMIT, check.access, check.size)
    for site in program.calls.values():
        enter(site.slot, Role.CALLS)
        enter(site.slot + 1, Role.TARGETS, None, len(site.targets))
    assert None not in result, f"parameter {result.index(None)} has no role"
    return result  # type: ignore[return-value]


#: The largest size with positions of 32 bits.
_NARROW = WIDE_EXTENT - 1


class Decision(NamedTuple):
    """What was decided by a size: it stays the same as long as a quantity lies in an interval."""

    what: str
    memory: Node | None  # whose number of elements it is, or that of the width of the kernel if there is none
    low: float
    high: float

    @classmethod
    def of(cls, interval: Interval, memory: Node | None = None) -> Decision:
        """What the target has decided, maybe of some memory."""
        return cls(interval.what, memory if interval.of_memory else None, interval.low, interval.high)


def straight_decisions(target: Target, width: int, order: Iterable[Node], streamed: int) -> Iterator[Decision]:
    """What :func:`decisions_of` says of a flat program that reads, computes, stores and adds up, and nothing else; of
    the nodes that access memory by index, in order, and the bytes of an element that are read and stored by position.
    """
    yield _of_width(width)
    for node in order:
        if IS_INDEXED[node.kind]:
            yield from _of_access(target, node)
    if streamed:
        yield Decision.of(target.streams_holds(width, streamed))


def _of_width(width: int) -> Decision:
    """What was decided by the width of a kernel alone."""
    if width == 1:
        return Decision("one element", None, 1, 1)
    return Decision("width of positions", None, *((2, _NARROW) if width <= _NARROW else (_NARROW + 1, math.inf)))


def _of_access(target: Target, node: Node) -> Iterator[Decision]:
    """What was decided by the sizes of arrays that a node accesses by index."""
    for memory in memory_of(node):
        size = memory.size
        yield Decision("width of indices", memory, *((1, _NARROW) if size <= _NARROW else (_NARROW + 1, math.inf)))
        yield Decision.of(target.large_holds(size, TYPES[memory.type].size), memory)


def decisions_of(program: Program) -> Iterator[Decision]:
    """Everything that the key of a program owes to sizes rather than to the graph."""
    width = program.width
    yield _of_width(width)
    for begin in program.stack:  # the number of entries follows from both
        yield Decision("arrays on the stack", None, width, width)
        yield Decision("array on the stack", begin, begin.size, begin.size)
    nodes = [*program.order, *program.scatters]
    targets = [site.programs for site in program.calls.values()]
    for found in targets:  # which grows meanwhile
        for target in found:
            nodes += target.order
            targets += (site.programs for site in target.calls.values())
    for node in [node for node in nodes if IS_INDEXED[node.kind]]:
        yield from _of_access(program.target, node)
    for node in program.scatters:
        if node.attr != ReduceOp.Identity.value and node.d0 is not None and node.d0.kind != SCATTER:
            for interval in program.target.strategy_holds(node.payload, node.size, width):
                yield Decision.of(interval, node.d0)
    for node in program.sharing:
        for interval in program.target.shares_holds(node.size, width):
            yield Decision.of(interval, node.d0)
    for _, memory, updates in program.updated:
        count = count_updates(updates)
        for mode in {update.payload for update in updates}:
            for interval in program.target.strategy_in_regions_holds(mode, memory.size, width, count):
                yield Decision.of(interval, memory)
    bytes_ = streamed_bytes(program)
    if bytes_:
        yield Decision.of(program.target.streams_holds(width, bytes_))
