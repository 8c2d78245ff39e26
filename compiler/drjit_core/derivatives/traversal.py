"""Which vertices take part in a traversal, in which order, and what is left of them.

Vertices refer to older ones only, so that their ids are an order: derivatives flow forward by ascending ids, and in
reverse by descending ones.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Iterable, Sequence

from ..context import state
from ..ir.dual import Scope
from ..ir.node import Node
from ..ir.trace import ops, unary
from ..ir.vertex import HUB, LEAF, Vertex, live_vertices
from ..ops.derivatives import BOTH, FACTOR, NEGATED, OTHERWISE, PASSED, TIMES_R, TIMES_X, TIMES_Y, WHERE, Partial, Rule
from ..ops.table import KIND
from .flow import Flow
from .formulas import FORMULAS, masked, product
from .structure import STRUCTURE, no_derivative

__all__ = ["BACKWARD", "CLEAR_EDGES", "CLEAR_INPUT", "CLEAR_INTERIOR", "FORWARD_MODE", "Consumed", "enqueue",
           "leave", "pull", "push", "traverse"]

FORWARD_MODE, BACKWARD = 1, 2
CLEAR_EDGES, CLEAR_INPUT, CLEAR_INTERIOR = 1, 2, 4


class Consumed(RuntimeError):
    """Derivatives would have to flow through what an earlier traversal has taken apart."""


_NEG = KIND["neg"]
#: The rule of a vertex whose edges a traversal has cut.
CONSUMED = Rule("consumed", ())


#: Traversals and their marks in vertices belong to one thread at a time; callbacks of custom operations may traverse.
_lock = threading.RLock()
_number = operator.attrgetter("id")
_next_queue = itertools.count(1).__next__


class _Queue(threading.local):
    """The vertices that the next traversal of this thread visits, which have its number."""

    def __init__(self) -> None:
        self.vertices: list[Vertex] = []
        self.number = _next_queue()


_queue = _Queue()


def _isolating() -> Scope | None:
    """The innermost scope that traversals must not leave."""
    scope: Scope | None = state.derivatives
    while scope is not None and not scope.limit:
        scope = scope.outer
    return scope


def enqueue(mode: int, vertices: Iterable[Vertex]) -> None:
    """Let the next traversal visit vertices, and all that depend on them, or that they depend on."""
    with _lock:
        if mode == BACKWARD:
            _reach(list(vertices), _queue.vertices, _queue.number, _isolating())
        else:
            _reach_forward(list(vertices), _queue.vertices, _queue.number)


def _reach(todo: list[Vertex], found: list[Vertex], number: int, scope: Scope | None) -> None:
    """Find all vertices that some depend on."""
    while todo:
        vertex = todo.pop()
        if vertex.queued == number:
            continue
        if scope is not None and vertex.id <= scope.limit:
            scope.postponed[vertex.id] = vertex
            continue
        vertex.queued = number
        found.append(vertex)
        if vertex.rule is HUB:
            todo += vertex.operands()
            continue
        if vertex.a is not None:
            todo.append(vertex.a)
        if vertex.b is not None:
            todo.append(vertex.b)
        if vertex.c is not None:
            todo.append(vertex.c)


def _reach_forward(start: list[Vertex], found: list[Vertex], number: int) -> None:
    """Find all vertices that depend on some."""
    for vertex in _following(start):
        if vertex.queued != number:
            vertex.queued = number
            found.append(vertex)


def _following(start: Sequence[Vertex]) -> list[Vertex]:
    """Some vertices, and all that depend on them."""
    found = {vertex.id: vertex for vertex in start}
    for vertex in live_vertices(min(found)) if found else ():
        if vertex.id not in found and any(operand.id in found for operand in vertex.operands()):
            found[vertex.id] = vertex
    return list(found.values())


def traverse(mode: int, flags: int) -> list[Node]:
    """Let derivatives flow along the vertices that wait; returns the gradients of those that keep one.

    If it raises, all gradients and edges are as before.
    """
    order, _queue.vertices, _queue.number = _queue.vertices, [], _next_queue()
    order.sort(key=_number, reverse=mode == BACKWARD)
    with _lock:
        scope = _isolating()
        flow = Flow(members=order if scope is None else [*order, *scope.postponed.values()])
        try:
            _refuse_consumed(order)
            if mode == BACKWARD:
                _reverse(flow, order, flags)
            else:
                _forward(flow, order, flags)
        except BaseException:
            flow.roll_back()
            raise
        finally:
            flow.end()
            _forget_custom(order)
        if flags & CLEAR_EDGES:
            _cut(order)
        return [vertex.gradient for vertex in order if vertex.gradient is not None]


def _cut(order: list[Vertex]) -> None:
    """Cut all edges."""
    for vertex in order:
        if vertex.rule is not LEAF:
            vertex.release()
            vertex.rule = CONSUMED


def _refuse_consumed(order: Sequence[Vertex]) -> None:
    for vertex in order:
        if vertex.rule is CONSUMED:
            raise Consumed(
                "derivatives would have to flow through operations that an earlier traversal has taken apart, which is "
                "what traversals do by default: pass flags=drjit.ADFlag.ClearVertices (or ClearNone, which keeps the "
                "gradients between, too) to the earlier one, or use drjit.detach() where the earlier part is to count "
                "as a constant")


def _kept_part(mode: int, flags: int, vertex: Vertex, dependents: set[int]) -> bool:
    """Whether a vertex keeps its gradient: where derivatives end, and else as the flags say."""
    inner = vertex.rule is not LEAF
    if mode == BACKWARD:
        if not inner:
            return True
        return not flags & (CLEAR_INTERIOR if vertex.id in dependents else CLEAR_INPUT)
    if vertex.id not in dependents:
        return True
    return not flags & (CLEAR_INTERIOR if inner else CLEAR_INPUT)


def _dependents(order: Sequence[Vertex]) -> set[int]:
    """The vertices that others of a traversal depend on."""
    found: set[int] = set()
    for vertex in order:
        if vertex.rule is HUB:
            found.update(operand.id for operand in vertex.operands())
            continue
        if vertex.a is not None:
            found.add(vertex.a.id)
        if vertex.b is not None:
            found.add(vertex.b.id)
        if vertex.c is not None:
            found.add(vertex.c.id)
    return found


def _reverse(flow: Flow, order: Sequence[Vertex], flags: int) -> None:
    dependents = _dependents(order)
    for vertex in order:
        if flow.has_gradient(vertex):
            _reverse_one(flow, vertex)
            if vertex.rule is not HUB and not _kept_part(BACKWARD, flags, vertex, dependents):
                flow.clear(vertex)


def _reverse_one(flow: Flow, vertex: Vertex) -> None:
    """Let the gradient of a vertex flow to its operands."""
    if vertex.rule is HUB:
        _refuse_again(flow)
        vertex.info.reverse(flow)
        return
    gradient = flow.gradient(vertex)
    assert gradient is not None
    if vertex.rule.partials:
        _reverse_row(flow, vertex, gradient)
    elif vertex.rule is not LEAF:
        STRUCTURE[vertex.rule.name].reverse(flow, vertex, gradient)


def _refuse_again(flow: Flow) -> None:
    if flow.again:
        raise no_derivative("derivative that a custom operation computes")


def _reverse_row(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    x, y, z, r = flow.kept(vertex)
    width, sparse = vertex.size, vertex.sparse
    partials = vertex.rule.partials
    for position in range(len(partials)):
        operand = vertex.a if position == 0 else vertex.b if position == 1 else vertex.c
        if operand is None or not flow.takes(operand):
            continue
        partial = partials[position]
        how, _, factor = partial
        if how == PASSED:
            flow.give(operand, gradient, width, sparse)
        elif how == NEGATED:
            flow.give(operand, unary(_NEG, gradient), width, sparse)
        elif how == TIMES_Y:
            flow.give_product(operand, gradient, y, width, sparse)
        elif how == TIMES_X:
            flow.give_product(operand, gradient, x, width, sparse)
        elif how == TIMES_R:
            flow.give_product(operand, gradient, r, width, sparse)
        elif how == FACTOR:
            flow.give_product(operand, gradient, factor(FORMULAS, x, y, z, r), width, sparse)
        else:
            flow.give(operand, _where(partial, gradient, x, y, z, r), width, True)


def _where(partial: Partial, gradient: Node, x: Node, y: Node, z: Node, r: Node) -> Node:
    if partial.how == BOTH:
        assert partial.factor is not None
        return masked(partial.factor(FORMULAS, x, y, z, r), gradient)
    assert partial.how in (WHERE, OTHERWISE)
    return masked(x, gradient, inverted=partial.how == OTHERWISE)


def _forward(flow: Flow, order: Sequence[Vertex], flags: int) -> None:
    dependents = _dependents(order)
    for vertex in order:
        _forward_one(flow, vertex)
    for vertex in order:
        if vertex.rule is not HUB and not _kept_part(FORWARD_MODE, flags, vertex, dependents):
            flow.clear(vertex)


def _forward_one(flow: Flow, vertex: Vertex) -> None:
    """Let the changes of its operands flow to a vertex."""
    if vertex.rule is LEAF:
        return
    if vertex.rule is HUB:
        if any(flow.has_gradient(operand) for operand in vertex.operands()):
            _refuse_again(flow)
            vertex.info.forward(flow)
        return
    gradients = [None if operand is None or operand.rule is HUB else flow.gradient(operand)
                 for operand in (vertex.a, vertex.b, vertex.c)]
    if vertex.rule.partials:
        result = _forward_row(flow, vertex, gradients)
    elif vertex.rule.name == "output" or any(gradient is not None for gradient in gradients):
        result = STRUCTURE[vertex.rule.name].forward(flow, vertex, gradients)
    else:
        result = None
    if result is not None:
        sparse = any(operand is not None and operand.sparse for operand in (vertex.a, vertex.b, vertex.c))
        flow.give(vertex, result, result.size, sparse)


def _forward_row(flow: Flow, vertex: Vertex, gradients: Sequence[Node | None]) -> Node | None:
    x, y, z, r = flow.kept(vertex)
    result: Node | None = None
    operands = (vertex.a, vertex.b, vertex.c)
    for partial, operand, gradient in zip(vertex.rule.partials, operands, gradients, strict=False):
        if operand is None or partial is None or gradient is None:
            continue
        how = partial.how
        if how == PASSED:
            change = gradient
        elif how == NEGATED:
            change = unary(_NEG, gradient)
        elif how <= FACTOR:
            factor = y if how == TIMES_Y else x if how == TIMES_X else r if how == TIMES_R else \
                partial.factor(FORMULAS, x, y, z, r)
            if result is not None and not operand.sparse:
                result = ops.fma(gradient, factor, result)
                continue
            change = product(gradient, factor, operand.sparse)
        else:
            change = _where(partial, gradient, x, y, z, r)
            flow.note(vertex)
            vertex.sparse = True
        result = change if result is None else ops.add(result, change)
    return result


def leave(scope: Scope) -> list[Node]:
    """Go on with what waited for a scope to end (which it has)."""
    if not scope.postponed:
        return []
    vertices, scope.postponed = list(scope.postponed.values()), {}
    enqueue(BACKWARD, vertices)
    return traverse(BACKWARD, CLEAR_EDGES | CLEAR_INPUT | CLEAR_INTERIOR)


# --- derivatives as values -------------------------------------------------------------------------------------------


def pull(outputs: Sequence[tuple[Vertex, Node]], inputs: Sequence[Vertex], *, again: bool = False) -> list[Node | None]:
    """The gradients that flow from some vertices, which have given ones, to others; nothing is stored in the graph.

    ``again`` says that the gradients are to be differentiated, too.
    """
    ends = {vertex.id for vertex in inputs}
    found: dict[int, Vertex] = {}
    todo = [vertex for vertex, _ in outputs]
    while todo:
        vertex = todo.pop()
        if vertex.id not in found:
            found[vertex.id] = vertex
            if vertex.id not in ends:
                todo += vertex.operands()
    order = [found[number] for number in sorted(found, reverse=True)]
    with _lock:
        return _pull(outputs, inputs, order, ends, again=again)


def _pull(outputs: Sequence[tuple[Vertex, Node]], inputs: Sequence[Vertex], order: list[Vertex], ends: set[int], *,
          again: bool) -> list[Node | None]:
    _refuse_consumed(order)
    flow = Flow(again=again, members=order)
    try:
        for vertex in order:
            flow.clear(vertex)
        for vertex, gradient in outputs:
            flow.give(vertex, gradient, vertex.size)
        for vertex in order:
            if vertex.id not in ends and flow.has_gradient(vertex):
                _reverse_one(flow, vertex)
        return [flow.gradient(vertex) if flow.takes(vertex) else None for vertex in inputs]
    finally:
        flow.end()
        _forget_custom(order)
        flow.roll_back()


def push(inputs: Sequence[tuple[Vertex, Node]], outputs: Sequence[Vertex], *, again: bool = False) -> list[Node | None]:
    """The changes of some vertices for given changes of others; nothing is stored in the graph."""
    given = {vertex.id for vertex, _ in inputs}
    order = sorted(_following([vertex for vertex, _ in inputs]), key=_number)
    with _lock:
        return _push(inputs, outputs, order, given, again=again)


def _push(inputs: Sequence[tuple[Vertex, Node]], outputs: Sequence[Vertex], order: list[Vertex], given: set[int], *,
          again: bool) -> list[Node | None]:
    flow = Flow(again=again)
    try:
        for vertex in order:
            flow.clear(vertex)
        for vertex, change in inputs:
            flow.give(vertex, change, change.size)
        for vertex in order:
            if vertex.id not in given:
                _forward_one(flow, vertex)
        return [flow.gradient(vertex) for vertex in outputs]
    finally:
        flow.end()
        _forget_custom(order)
        flow.roll_back()


def _forget_custom(order: Iterable[Vertex]) -> None:
    for vertex in order:
        if vertex.rule is HUB:
            vertex.info.received, vertex.info.sent = {}, {}
