"""Gradients of vertices while derivatives flow: what is added to them, and how a failure leaves no trace.

A gradient has the size of its vertex, or one element that counts for each of them.  Contributions of whole arrays to a
vertex of one element wait, added to each other, to be summed once; gradients of reads by index wait in an array that
they are scattered to.

Where the values that vertices keep were evaluated, the gradients are, too, as soon as the operations since are enough
for a kernel (a *window*): a thousand steps of a simulation, each of which was evaluated, are launches of one kernel
for some steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..context import state
from ..ir.build import literal, resize
from ..ir.dual import Scope, dual
from ..ir.node import Node
from ..ir.trace import accumulate, binary, cast, gather, opaque, reduce, ternary
from ..ir.vertex import HUB, Vertex
from ..ops.table import KIND, LITERAL
from ..types import BOOL, COMPUTES_IN, UINT32, ReduceMode, ReduceOp
from .formulas import masked, product

__all__ = ["ENDED", "Flow", "evaluate_by", "full"]

_ADD, _AUTO = ReduceOp.Add.value, ReduceMode.Auto.value
#: Among the contributions that wait, the array that others are scattered to.
_SCATTERED = 0
_PLUS, _MUL, _FMA, _SELECT = KIND["add"], KIND["mul"], KIND["fma"], KIND["select"]
_HUB = HUB

#: How many vertices derivatives flow through before their gradients are evaluated where the values were. (A cloth of
#: 64² masses, 100 steps, first gradient and later ones: 9.2 and 2 s by one kernel, 0.3 and 0.1 by kernels for a step.)
WINDOW = 256
#: How many vertices that is where a kernel ends anyway, because what goes on from there has been scattered, reduced or
#: the like: the least of both.
ENDED = 64

_evaluate: Callable[[list[Node]], Any] | None = None


def evaluate_by(function: Callable[[list[Node]], Any]) -> None:
    """Say what evaluates nodes, which belongs to a higher floor."""
    global _evaluate
    _evaluate = function


def full(node: Node, size: int) -> Node:
    """A gradient with an element of its own for each of a vertex."""
    found = resize(node, size)
    return gather(node, literal(UINT32, 0, size), literal(BOOL, True), True) if found is None else found


#: Numbers of flows; and those of flows that have not ended, of one thread at a time.
_next = itertools.count(1).__next__
_running: list[int] = []


class Flow:
    """One traversal: ``again`` says that its own operations are to be differentiated, too.

    In a region (``lanes``) each element has gradients of its own, also of what there is one of: they are summed
    outside. What is scattered goes to arrays that the region has, by the ids of vertices.
    """

    def __init__(self, *, again: bool = False, members: list[Vertex] | None = None, lanes: bool = False,
                 memory: dict[int, Node] | None = None, scope: Scope | None = None) -> None:
        self.again = again
        #: What flows out of a scope may have a part in some elements only: to vertices up to a limit, from what is not.
        self.part: Callable[[int], Node] | None = None if scope is None else scope.lanes
        self.limit = 0 if scope is None or scope.lanes is None else scope.limit
        self.crosses = True
        #: Of an operation with many operands: whether zeros of its gradients mean that elements have no part.
        self.sparse = False
        self.lanes = lanes
        self.memory = memory
        self.number = _next()
        #: Whether only ``members`` take part.
        self.selective = members is not None
        #: Their marks before, if those are of a flow that has not ended: a callback of it has begun this one.
        self._outer: list[tuple[Vertex, int, int]] = []
        if members is not None:
            self._join(members)
        #: Vertices that had no gradient before, and those that had one, with that; in the order of the changes.
        self._before: list[Vertex | tuple[Vertex, Any, Any, bool]] = []
        #: What has been evaluated before the vertices that it flows through were made; and how many these are.
        self._era = -1
        self._passed = 0
        self._window = WINDOW
        #: Up to which of the changes gradients have been evaluated, and the vertices that had some then.
        self._evaluated = 0
        self._live: list[Vertex] = []

    def _join(self, members: list[Vertex]) -> None:
        """Mark all that take part."""
        if _running:
            self._outer = [(vertex, vertex.member, vertex.depended) for vertex in members]
        for vertex in members:
            vertex.member = self.number
        _running.append(self.number)

    def end(self) -> None:
        """No more flows."""
        if self.selective:
            _running.remove(self.number)
        for vertex, member, depended in self._outer:
            vertex.member, vertex.depended = member, depended

    def comes_to(self, vertex: Vertex) -> bool:
        """Note that it flows on through a vertex; returns whether the gradients so far are to be evaluated first."""
        era = vertex.era
        if era != self._era:
            self._era = era
            if self._passed >= self._window and not self.lanes:
                self._passed, self._window = 1, WINDOW
                return True
        self._passed += 1
        return False

    def kernel_ends(self) -> None:
        """Note that gradients go on from what a kernel must have computed before."""
        self._window = ENDED

    def live(self) -> list[Vertex]:
        """The vertices that have gradients, of those that it has changed."""
        for entry in self._before[self._evaluated:]:
            self._live.append(entry if isinstance(entry, Vertex) else entry[0])
        self._evaluated = len(self._before)
        self._live = [vertex for vertex in self._live if self.has_gradient(vertex)]
        return self._live

    def evaluate(self, vertices: list[Vertex]) -> None:
        """Evaluate gradients, and what has been scattered to them."""
        nodes: list[Node] = []
        for vertex in vertices:
            if vertex.rule is _HUB:
                nodes += vertex.info.received.values()
                continue
            pending = vertex.pending
            if pending and _SCATTERED in pending:
                nodes.append(pending[_SCATTERED])
                vertex.pending = {size: node for size, node in pending.items() if size != _SCATTERED}
                gradient = self.gradient(vertex)
                vertex.pending = {_SCATTERED: pending[_SCATTERED]}
            else:
                gradient = self.gradient(vertex)
            if gradient is not None:
                nodes.append(gradient)
        assert _evaluate is not None
        acting, state.acting = state.acting, True  # statements wait: they may traverse, too
        try:
            _evaluate(nodes)
        finally:
            state.acting = acting

    # --- what vertices have kept -------------------------------------------------------------------------------------

    def kept(self, vertex: Vertex) -> tuple[Any, Any, Any, Any]:
        """The operands and the result, as far as they are kept."""
        if not self.again:
            return vertex.x, vertex.y, vertex.z, vertex.r
        return (self.differentiable(vertex.x, vertex.a), self.differentiable(vertex.y, vertex.b),
                self.differentiable(vertex.z, vertex.c), self.differentiable(vertex.r, vertex))

    @staticmethod
    def differentiable(node: Node | None, vertex: Vertex | None) -> Node | None:
        """A node that was kept, as the value of a vertex."""
        return node if node is None or vertex is None else dual(node, vertex)

    def takes(self, vertex: Vertex | None) -> bool:
        """Whether derivatives flow to a vertex."""
        return vertex is not None and (not self.selective or vertex.member == self.number)

    # --- gradients ---------------------------------------------------------------------------------------------------

    def note(self, vertex: Vertex) -> None:
        """Remember the gradient of a vertex, which is about to change."""
        if vertex.noted == self.number:
            return
        recording = state.recording
        if recording is not None and vertex.id <= recording.last_vertex:
            raise RuntimeError("this program is being recorded, and changes the gradient of an array from outside: a "
                               "replay would not do so. Differentiate functions of the recording's arguments, and "
                               "return their gradients.")
        vertex.noted = self.number
        if vertex.gradient is None and vertex.pending is None and not vertex.sparse:
            self._before.append(vertex)
        else:
            self._before.append((vertex, vertex.gradient, vertex.pending, vertex.sparse))

    def roll_back(self) -> None:
        """Give all gradients back what they were."""
        for entry in reversed(self._before):  # some twice, if there was a flow within
            if isinstance(entry, Vertex):
                entry.gradient, entry.pending, entry.sparse = None, None, False
            else:
                vertex, gradient, pending, sparse = entry
                vertex.gradient, vertex.pending, vertex.sparse = gradient, pending, sparse

    def clear(self, vertex: Vertex) -> None:
        """A gradient has done what it was for."""
        if vertex.gradient is not None or vertex.pending is not None or vertex.sparse:
            self.note(vertex)
            vertex.gradient, vertex.pending, vertex.sparse = None, None, False

    def replace(self, vertex: Vertex) -> None:
        """Clear the gradient of a vertex that is about to get another one: where elements take part."""
        before = None
        if vertex.id <= self.limit and self.part is not None and vertex.size != 1:
            before = self.gradient(vertex)
        self.clear(vertex)
        if before is not None and self.part is not None:
            kept = ternary(_SELECT, self.part(vertex.size), literal(vertex.type, 0), before)
            vertex.gradient, vertex.sparse = kept, True

    def give(self, vertex: Vertex | None, gradient: Node, width: int, sparse: bool = False) -> None:
        """Add to the gradient of a vertex what an operation of some width has to say about each of its elements."""
        if vertex is None or not self.takes(vertex):
            return
        if self.part is not None and (self.crosses if vertex.id <= self.limit else vertex.size == 1 < width):
            # elements without a part are gone once a sum has been made, even if that is before it crosses the limit
            gradient, sparse = masked(self.part(max(width, gradient.size, vertex.size)), gradient), True
        self.note(vertex)
        if not width and vertex.size:  # of no elements, none says anything
            if vertex.gradient is None and not vertex.pending:
                vertex.gradient, vertex.sparse = literal(gradient.type, 0), True
            return
        vertex.sparse = vertex.sparse or sparse
        if vertex.size == 1 < width and not self.lanes:
            if gradient.size == 1:  # each of so many elements says the same
                gradient = binary(_MUL, gradient, literal(gradient.type, width))
            else:
                self._wait(vertex, gradient)
                return
        before = vertex.gradient
        vertex.gradient = gradient if before is None else binary(_PLUS, before, gradient)

    def bring(self, vertex: Vertex, gradient: Node, width: int) -> None:
        """Add what comes from no operation of this flow to a vertex: elements where it is zero have no part."""
        self.give(vertex, gradient, width, gradient.kind != LITERAL or gradient.payload == 0)

    def give_product(self, vertex: Vertex | None, gradient: Node, factor: Node, width: int, sparse: bool) -> None:
        """Add a product to a vertex, in one operation if there is something to add it to."""
        if vertex is None or not self.takes(vertex):
            return
        before = vertex.gradient
        if before is not None and not sparse and vertex.id > self.limit and (
                vertex.size > 1 or width == 1 or self.lanes and width):
            self.note(vertex)
            if before.kind == _MUL and (before.d0 is gradient and before.d1 is factor
                                        or before.d0 is factor and before.d1 is gradient):
                vertex.gradient = binary(_PLUS, before, before)  # of a square: the same bits, and cheaper
            else:
                vertex.gradient = ternary(_FMA, gradient, factor, before)
        else:
            self.give(vertex, product(gradient, factor, sparse), width, sparse)

    def _wait(self, vertex: Vertex, gradient: Node) -> None:
        pending = dict(vertex.pending or {})
        before = pending.get(gradient.size)
        pending[gradient.size] = gradient if before is None else binary(_PLUS, before, gradient)
        vertex.pending = pending

    def scatter(self, vertex: Vertex, gradient: Node, index: Node, mask: Node, mode: int = _AUTO) -> None:
        """Add to single elements of a gradient."""
        self.write(vertex, lambda memory: accumulate(memory, cast(gradient, memory.type), index, mask, mode))

    def write(self, vertex: Vertex, add: Callable[[Node], Node]) -> None:
        """Add to parts of a gradient: a function of memory does so; that of half precision is in single precision."""
        if not self.takes(vertex):
            return
        if self.memory is not None and vertex.id in self.memory:
            self.memory[vertex.id] = add(self.memory[vertex.id])
            return
        self.note(vertex)
        vertex.sparse = True
        pending = dict(vertex.pending or {})
        before = pending.get(_SCATTERED)
        pending[_SCATTERED] = add(literal(COMPUTES_IN[vertex.type], 0, vertex.size) if before is None else before)
        vertex.pending = pending

    def room(self, vertex: Vertex) -> Node:
        """An array that a region within may scatter gradients of a vertex to, for :meth:`give_scattered`: those of half
        precision are added up in single precision."""
        if self.memory is not None and vertex.id in self.memory:
            return self.memory[vertex.id]
        return opaque(literal(COMPUTES_IN[vertex.type], 0, vertex.size))

    def give_scattered(self, vertex: Vertex, version: Node) -> None:
        """What a region has made of such an array."""
        if self.memory is not None and vertex.id in self.memory:
            self.memory[vertex.id] = version
        else:
            self.give(vertex, cast(version, vertex.type), version.size, True)

    def gradient(self, vertex: Vertex) -> Node | None:
        """All that has been given to a vertex, added up."""
        pending = vertex.pending
        if pending:
            self.note(vertex)
            self._window = ENDED
            total = vertex.gradient
            for size, node in pending.items():
                part = reduce(node, _ADD) if size != _SCATTERED else cast(node, vertex.type)
                total = part if total is None else binary(_PLUS, total, part)
            vertex.gradient, vertex.pending = total, None
        return vertex.gradient

    def change(self, vertex: Vertex | None) -> Node | None:
        """The gradient of an operand, if derivatives flow from there; gradients of other traversals may be there, too.
        """
        return None if vertex is None or not self.takes(vertex) or vertex.rule is _HUB else self.gradient(vertex)

    def has_gradient(self, vertex: Vertex) -> bool:
        """Whether anything has been given to a vertex."""
        if vertex.rule is _HUB:
            return bool(vertex.info.received)
        return vertex.gradient is not None or bool(vertex.pending)
