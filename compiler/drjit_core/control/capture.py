"""What elements take part in a statement, and the values that they have there, in memory for the host to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import IncompatibleSizes, SymbolicValue
from ..ir import trace
from ..ir.build import broadcast_size, counter, literal, undefined, where_of
from ..ir.deferred import Memory, Statement, defer, version_of
from ..ir.dual import primal
from ..ir.node import Node
from ..ir.symbolic import Tracing, call_site, innermost, size_for_program, tells_elements_apart, width_of_write
from ..ops.table import LITERAL
from ..types import BOOL, UINT32, UINT64, ReduceOp
from .choice import cond
from .once import once

__all__ = ["Capture", "capture"]


class Capture:
    """Values of some nodes, one after the other as elements come by: no more than a limit of them, in any order."""

    __slots__ = ("_count", "_elements", "_memory", "limit", "nodes")

    def __init__(self, nodes: Sequence[Node], element: int, limit: int, where: int) -> None:
        self.limit = limit
        #: What is captured; literals need no memory.
        self.nodes = tuple(nodes)
        self._count = Memory(literal(UINT64, 0))
        self._elements = Memory(undefined(element, limit, where))
        self._memory = [None if node.kind == LITERAL else Memory(undefined(node.type, limit, where)) for node in nodes]

    @property
    def memory(self) -> list[Memory]:
        """All that is written to."""
        return [self._count, self._elements, *(memory for memory in self._memory if memory is not None)]

    @property
    def count(self) -> Node:
        """Afterwards, how many elements came by."""
        return self._count.node

    @property
    def elements(self) -> Node:
        """Afterwards, the positions of those that were captured, among ``limit``."""
        return self._elements.node

    @property
    def values(self) -> list[Node]:
        """Afterwards, the values of the nodes in those elements, or a literal."""
        return [literal(node.type, node.payload) if memory is None else memory.node
                for node, memory in zip(self.nodes, self._memory, strict=True)]

    def trace(self, region: Tracing, active: Node, width: int, number: Node) -> None:
        """Count and write in the region that is being traced."""
        before = version_of(self._count, region)
        slot, _ = trace.atomic(before, literal(UINT64, 1), literal(UINT64, 0, width), active, ReduceOp.Add.value, 0)
        room = trace.ops.and_(active, trace.ops.lt(slot, literal(UINT64, self.limit)))
        trace.scatter(version_of(self._elements, region), number, slot, room, 0, 0)
        for node, memory in zip(self.nodes, self._memory, strict=True):
            if memory is not None:
                trace.scatter(version_of(memory, region), node, slot, room, 0, 0)


def capture(function: str, nodes: Sequence[Node], active: Node, limit: int, act: Callable[[Capture], None]) -> None:
    """Let a statement act on the values that nodes have in the active elements of what is being traced.

    In a region these are of those that take part; a loop's body captures in each iteration.  Of a single element, all
    elements of the region have a copy, but where they are there only because of what they write: there is one.
    ``function`` is the name of the user's, if that cannot be found.  The condition of a loop must not capture.
    """
    nodes = [primal(node) for node in nodes]
    if innermost() is None:
        size = broadcast_size(function, active, *nodes)
        once(trace.ops.and_(active, literal(BOOL, True, size)), [],
             lambda _: _capture(function, nodes, active, limit, act))
    else:
        _capture(function, nodes, active, limit, act)


def _capture(function: str, nodes: Sequence[Node], active: Node, limit: int,
             act: Callable[[Capture], None]) -> Sequence[Node]:
    region = innermost()
    assert region is not None and region.live is not None
    if region.live is region.entering:
        raise SymbolicValue(f"{call_site(function)}(): this stands in the condition of a symbolic loop, which must be "
                            "free of side effects, and has no values before the loop runs: move it to the loop's body.")
    width, lanes = broadcast_size(function, active, *nodes), size_for_program(region.live)
    if lanes != 1 and width not in (1, lanes):
        raise IncompatibleSizes(function, (width, lanes))
    element = UINT32 if max(width, lanes) <= 1 << 32 else UINT64
    where = where_of(function, (active, *nodes))
    uniform, meant = _is_uniform(region), width_of_write(region, width)
    if uniform and not region.uniform and not tells_elements_apart(active) and \
            not any(tells_elements_apart(node, True) for node in nodes):
        meant = 1  # as wide as the region around it
    if meant == 1 < lanes:
        width = lanes
        if uniform:
            active = trace.ops.and_(active, trace.ops.eq(counter(width, element, where), literal(element, 0)))
    found = Capture(nodes, element, limit, where)

    def trace_if_any(_: list[Node]) -> Sequence[Node]:
        inner = innermost()
        assert inner is not None
        inner.apart = True
        try:
            found.trace(inner, active, width, counter(width, element, where))
        finally:
            inner.apart = False
        defer(Statement(found.memory, lambda: act(found)))
        return []

    if uniform:
        trace_if_any([])
    else:
        cond(active, [], trace_if_any, lambda _: [])
    return []


def _is_uniform(region: Tracing | None) -> bool:
    """Whether a region's elements, or those of one around it, are several only because of what they write."""
    while region is not None:
        if region.uniform:
            return True
        region = region.outer
    return False
