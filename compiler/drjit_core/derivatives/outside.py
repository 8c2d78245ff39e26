"""Gradients that flow out of a symbolic loop, branch or call while that is being traced.

A reverse traversal in there ends at variables from outside.  What reaches them is added to memory of their size while
the construct runs, by the elements that take part; when it has been traced, what has come together flows on from there.
"""

from __future__ import annotations

from collections.abc import Callable

from ..context import state
from ..errors import NoDerivative, SymbolicValue
from ..ir.build import counter, literal
from ..ir.deferred import Memory, Statement, defer, version_of
from ..ir.dual import isolating_scope, primal, refuse_for
from ..ir.node import Node
from ..ir.symbolic import Tracing, call_site, innermost
from ..ir.trace import cast, ops, scatter
from ..ir.vertex import Vertex
from ..ops.table import LITERAL
from ..types import BOOL, COMPUTES_IN, UINT32, UINT64, ReduceMode, ReduceOp
from .flow import Flow

__all__ = ["LOOKED", "Outside", "gradient_within", "hand_out"]

_ADD, _AUTO, _NO_CONFLICTS = ReduceOp.Add.value, ReduceMode.Auto.value, ReduceMode.NoConflicts.value


LOOKED = "what a symbolic loop, branch or call adds to gradients outside is not known while that is traced"

#: What is to happen when all gradients of some vertices are complete.
GoOn = Callable[[list[Vertex]], object]


class Outside:
    """The variables from outside that a traversal in a region has reached, and ``variables`` of the region itself that
    are read by index, by ids: their gradients are scattered to memory, too."""

    def __init__(self, region: Tracing, vertices: list[Vertex], variables: dict[int, Vertex]) -> None:
        self.region = region
        self.variables = variables
        entries = region.entries or {}
        ends = [(vertex, vertex) for vertex in vertices]
        ends += [(vertex, origin) for vertex in variables.values() if (origin := entries[vertex.id]) is not None]
        #: What is reached, what that is outside, and memory for what it brings.
        self._ends = [(vertex, origin, _memory(vertex)) for vertex, origin in ends if _is_outermost(region, origin)]
        self._before = [(vertex.gradient, vertex.pending, vertex.sparse) for vertex in self.vertices]
        #: Arrays that gradients of reads by index are scattered to, by the ids of vertices.
        self.versions = {vertex.id: version_of(memory, region) for vertex, _, memory in self._ends}

    @property
    def vertices(self) -> list[Vertex]:
        """The vertices that are reached."""
        return [vertex for vertex, _, _ in self._ends]

    def begin(self, flow: Flow) -> None:
        """Let the variables collect what this traversal brings, and nothing else."""
        for vertex in self.vertices:
            flow.clear(vertex)

    def collect(self, flow: Flow, go_on: GoOn) -> None:
        """Write what has come together; it goes on from there when it is complete."""
        _write(self.region, [(origin, memory, flow.gradient(vertex)) for vertex, origin, memory in self._ends], go_on)

    def end(self) -> None:
        """Give the variables back the gradients that they have outside; those of the region itself have one."""
        for vertex, (gradient, pending, sparse) in zip(self.vertices, self._before, strict=True):
            if gradient is None and vertex.id in self.variables:
                gradient = literal(vertex.type, 0)
            vertex.gradient, vertex.pending, vertex.sparse = gradient, pending, sparse


def hand_out(gradients: list[tuple[Vertex, Node]], go_on: GoOn) -> None:
    """Let gradients that have come together at the variables of a region flow on from what these are outside."""
    region = innermost()
    assert region is not None
    _write(region, [(vertex, _memory(vertex), gradient) for vertex, gradient in gradients
                    if gradient.kind != LITERAL or gradient.payload if _is_outermost(region, vertex)], go_on)


def gradient_within(vertex: Vertex) -> Node | None:
    """The gradient of a variable as a function finds it that is being traced: that of what it is outside, and what the
    function has let flow to a variable of its own. What it has let flow out is known when it has been traced."""
    regions, found = state.open, vertex.gradient
    while (region := regions.get(vertex.scope)) is not None:
        region.looked |= {vertex.id}
        origin = None if region.entries is None else region.entries.get(vertex.id)
        if origin is None:
            return found
        vertex = origin
        if vertex.gradient is not None:
            found = vertex.gradient if found is None else ops.add(found, vertex.gradient)
    around = innermost()
    while around is not None:
        if vertex.id in around.reached:
            raise NoDerivative(LOOKED)
        around.looked |= {vertex.id}
        around = around.outer
    return found


def _note(region: Tracing | None, reached: list[int]) -> None:
    """Tell a region, and those around it, what derivatives flow out to."""
    while region is not None:
        region.reached |= frozenset(reached)
        region = region.outer


def _is_outermost(region: Tracing, vertex: Vertex) -> bool:
    """Whether derivatives may flow out of a region to a vertex; else nothing must turn out to depend on that."""
    if vertex.scope:
        refuse_for(
            SymbolicValue, f"{call_site('traverse')}(): derivatives would flow out of this symbolic {region.noun} to a "
            "variable of another one around it. Differentiate where the variable is, or use drjit.detach() or "
            "drjit.suspend_grad() if no derivative is meant to flow there.", [vertex])
    return not vertex.scope


def _memory(vertex: Vertex) -> Memory:
    return Memory(literal(COMPUTES_IN[vertex.type], 0, vertex.size))


def _write(region: Tracing, found: list[tuple[Vertex, Memory, Node | None]], go_on: GoOn) -> None:
    """Add gradients to memory, where elements take part; ``go_on`` is called for their vertices at the end."""
    if not found:
        return
    scope = isolating_scope()
    assert region.live is not None
    _note(region, [vertex.id for vertex, _, _ in found])
    mask = literal(BOOL, True) if scope is None or scope.lanes is None else scope.lanes(region.live.size)
    for vertex, memory, gradient in found:
        if gradient is not None:
            scalar = UINT32 if vertex.size <= 1 << 32 else UINT64
            single, gradient = vertex.size == 1, cast(primal(gradient), memory.node.type)
            scatter(version_of(memory, region), gradient, literal(scalar, 0) if single else
                    counter(vertex.size, scalar, gradient.where), mask, _ADD, _AUTO if single else _NO_CONFLICTS)

    def act() -> None:
        flow, reached = Flow(), []
        for vertex, memory, _ in found:
            if memory.node.kind != LITERAL:
                flow.give(vertex, cast(memory.node, vertex.type), vertex.size, True)
                reached.append(vertex)
        go_on(reached)

    defer(Statement((), act))
