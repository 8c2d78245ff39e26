"""Which vertices take part in a traversal, in which order, and what is left of them.

Vertices refer to older ones only, so that their ids are an order: derivatives flow forward by ascending ids, and in
reverse by descending ones.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import threading
from collections.abc import Iterable, Iterator, Sequence

from ..context import current, state
from ..errors import NoDerivative
from ..ir.build import literal
from ..ir.dual import STRUCTURE as RULES
from ..ir.dual import Scope, isolating_scope, refuse_for
from ..ir.node import Node
from ..ir.structured import READS
from ..ir.symbolic import Tracing, innermost
from ..ir.trace import cast, ops, unary
from ..ir.vertex import HUB, LEAF, Vertex, live_vertices
from ..ops.derivatives import BOTH, FACTOR, NEGATED, OTHERWISE, PASSED, TIMES_R, TIMES_X, TIMES_Y, WHERE, Partial, Rule
from ..ops.table import KIND
from ..types import COMPUTES_IN
from .flow import ENDED, Flow
from .formulas import FORMULAS, masked, product
from .outside import Outside
from .structure import STRUCTURE

__all__ = ["BACKWARD", "CLEAR_EDGES", "CLEAR_INPUT", "CLEAR_INTERIOR", "FORWARD_MODE", "Consumed", "abandon",
           "add_gradients", "ancestors", "clear_gradients", "depending", "depends", "enqueue", "go_on", "leave", "pull",
           "pull_along", "push", "set_ones", "traverse"]

FORWARD_MODE, BACKWARD = 1, 2
CLEAR_EDGES, CLEAR_INPUT, CLEAR_INTERIOR = 1, 2, 4


class Consumed(RuntimeError):
    """Derivatives would have to flow through what an earlier traversal has taken apart."""


_NEG = KIND["neg"]
_GATHER, _IDENTITY = RULES["gather"], RULES["identity"]
#: Operations with structure some elements of whose results may depend on nothing.
_PARTLY = frozenset(("gather", "scatter", "accumulate", "scan", "output"))
#: Those whose derivatives read what other elements have, which a kernel must have computed before.
_ACROSS = frozenset(("accumulate", "gather", "matmul", "output", "reduce", "scan", "scatter", "segment", "sort"))
_NO_USES: dict[int, int] = {}
#: The rule of a vertex whose edges a traversal has cut.
CONSUMED = Rule("consumed", ())


#: Traversals and their marks in vertices belong to one thread at a time; callbacks of custom operations may traverse.
_lock = threading.RLock()
_number = operator.attrgetter("id")
_next_queue = itertools.count(1).__next__


def enqueue(mode: int, vertices: Iterable[Vertex]) -> None:
    """Let the next traversal visit vertices, and all that depend on them, or that they depend on."""
    context = current()
    if not context.queue:
        context.queue = _next_queue()
    with _lock:
        if mode == BACKWARD:
            region = innermost()
            named, known = list(vertices), len(context.boundary)
            _reach(list(named), context.queued, context.queue, context.boundary, isolating_scope(),
                   0 if region is None else region.id)
            if len(context.boundary) > known:
                on_boundary = {vertex.id for vertex in context.boundary}
                for vertex in named:
                    if vertex.id in on_boundary:
                        vertex.queued = -context.queue  # derivatives begin or end there
        else:
            started = list(vertices)
            if context.recording is not None:
                context.recording.started.update([vertex.id for vertex in started])
            _reach_forward(started, context.queued, context.queue)


def _reach(todo: list[Vertex], found: list[Vertex], number: int, boundary: list[Vertex], scope: Scope | None,
           region: int) -> None:
    """Find all vertices that some depend on, up to the boundary of a scope. In a region, scopes hold for what is in
    there."""
    while todo:
        vertex = todo.pop()
        if vertex.queued == number or vertex.queued == -number:
            continue
        vertex.queued = number
        if scope is not None and vertex.id <= scope.limit and (not region or vertex.scope == region):
            boundary.append(vertex)
            continue
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


def _expanded(vertices: list[Vertex], number: int) -> list[Vertex]:
    """Some vertices, and what they depend on, but for those that have been found already."""
    found = list(vertices)
    _reach([operand for vertex in vertices for operand in vertex.operands()], found, number, [], None, 0)
    return found


def _reach_forward(start: list[Vertex], found: list[Vertex], number: int) -> None:
    """Find all vertices that depend on some."""
    for vertex in _following(start):
        if vertex.queued not in (number, -number):
            vertex.queued = -number if vertex.rule is CONSUMED else number  # derivatives begin or end there
            found.append(vertex)


def _following(start: Sequence[Vertex]) -> list[Vertex]:
    """Some vertices, and all that depend on them; what is left of regions that have been traced is not part of it."""
    open_ = state.open
    found = {vertex.id: vertex for vertex in start}
    for vertex in live_vertices(min(found)) if found else ():
        if vertex.id not in found and (not vertex.scope or vertex.scope in open_) and any(
                operand.id in found for operand in vertex.operands()):
            found[vertex.id] = vertex
    return list(found.values())


def traverse(mode: int, flags: int) -> list[Node]:
    """Let derivatives flow along the vertices that wait; returns the gradients of those that keep one.

    If it raises, all gradients and edges are as before.
    """
    context = current()
    order, queue, boundary = context.queued, context.queue, context.boundary
    context.queued, context.queue, context.boundary = [], _next_queue(), []
    region, scope = innermost(), isolating_scope()
    with _lock:
        if mode != BACKWARD:
            beyond = _expanded(boundary, queue)
            if context.recording is not None:
                outer = beyond if region is None else [*beyond, *_parted(order, region.id)[1]]
                context.recording.reached.update([vertex.id for vertex in outer])
            return _traverse_forward([*order, *beyond], beyond, region, flags, queue)
        if boundary:
            order = order + _expanded(_postponed(boundary, scope), queue)
        if not _descends(order):
            order.sort(key=_number, reverse=True)
        order = _distinct(order)
        outside = None
        if region is not None:
            order, outer = _parted(order, region.id)
            outside = Outside(region, _used(order, outer), _read_variables(order, region))
            order = [vertex for vertex in order if vertex.id not in outside.variables]
        return _traverse_backward(order, outside, flags, scope, queue)


def _postponed(boundary: list[Vertex], scope: Scope | None) -> list[Vertex]:
    """Let vertices wait for a scope to end; returns those that it does not hold back (any more)."""
    rest = []
    for vertex in boundary:
        if scope is not None and vertex.id <= scope.limit:
            scope.postponed[vertex.id] = vertex
            scope.before.setdefault(vertex.id, (vertex.gradient, vertex.sparse))
        else:
            rest.append(vertex)
    return rest


def _read_variables(order: list[Vertex], region: Tracing) -> dict[int, Vertex]:
    """The variables of a region that are read by index, as far as they may be differentiated."""
    found: dict[int, Vertex] = {}
    if region.entries:
        for vertex in order:
            for source in _read_by(vertex):
                if source.size != 1 and source.id in region.entries:
                    found[source.id] = source
    return found


def _read_by(vertex: Vertex) -> list[Vertex]:
    """The operands of an operation that it reads by index."""
    if vertex.rule is HUB:
        return [operand for place, operand in enumerate(vertex.info.inputs) if vertex.info.uses(place)[0]]
    if vertex.rule.name in READS:
        return [operand for operand, place in zip((vertex.a, vertex.b, vertex.c), vertex.info, strict=False)
                if operand is not None and place < READS[vertex.rule.name]]
    return [vertex.a] if vertex.rule is _GATHER and vertex.a is not None else []


def _parted(order: list[Vertex], region: int) -> tuple[list[Vertex], list[Vertex]]:
    """The vertices of a region, and those from outside."""
    return ([vertex for vertex in order if vertex.scope == region],
            [vertex for vertex in order if vertex.scope != region])


def _used(users: list[Vertex], vertices: list[Vertex]) -> list[Vertex]:
    """The vertices that some others depend on by themselves."""
    used = {operand.id for vertex in users for operand in vertex.operands()}
    return [vertex for vertex in vertices if vertex.id in used]


def _traverse_forward(order: list[Vertex], beyond: list[Vertex], region: Tracing | None, flags: int,
                      queue: int) -> list[Node]:
    """What is ``beyond`` the boundary of a scope is left as it was, but for the gradients of what derivatives are asked
    for, and in a region what is from outside."""
    linked: list[Vertex] = []
    if region is not None:
        linked = _linked(order, region)
        order = order + _expanded([vertex.a for vertex in linked if vertex.a is not None], queue)
        beyond = [*beyond, *_parted(order, region.id)[1], *linked]
    order = _distinct(sorted(order, key=_number))
    left = {vertex.id for vertex in beyond}
    inside = [vertex for vertex in order if vertex.id not in left]
    before = [(vertex, vertex.gradient, vertex.pending, vertex.sparse) for vertex in beyond if vertex.queued != -queue]
    flow = Flow(members=order, lanes=region is not None)
    try:
        consumed = [vertex for vertex in order if vertex.rule is CONSUMED]
        if consumed:
            used = _used(order, consumed)
            _refuse_consumed([vertex for vertex in consumed if vertex not in used and not _is_complete(vertex)], 0)
            _refuse_consumed([vertex for vertex in used if vertex.gradient is None], queue)
        _forward(flow, order, flags)
    except BaseException:
        flow.roll_back()
        raise
    finally:
        flow.end()
        _forget_custom(order)
        for vertex, gradient, pending, sparse in before:
            vertex.gradient, vertex.pending, vertex.sparse = gradient, pending, sparse
        for vertex in linked:
            vertex.release()
    if flags & CLEAR_EDGES:
        _cut(flow, inside, tuple([vertex for vertex in order if not _is_inner(flow, vertex)]))
    return _gradients(inside)


def _is_complete(vertex: Vertex) -> bool:
    """Whether changes have flowed to a vertex that has been taken apart since, and no more wait where they came from.
    """
    return vertex.gradient is not None and vertex.info is not None and all(
        source.gradient is None for source in vertex.info)


def _linked(order: list[Vertex], region: Tracing) -> list[Vertex]:
    """The variables of a region among some vertices, joined to those that they have outside for a while: changes flow
    in from there."""
    found: list[Vertex] = []
    entries = region.entries or {}
    for vertex in order:
        if vertex.id not in entries or vertex.gradient is not None:
            continue
        if region.noun == "loop":
            refuse_for(NoDerivative, "there is no forward mode within a symbolic loop by its own state", [vertex])
        else:
            vertex.rule, vertex.a = _IDENTITY, entries[vertex.id]
            found.append(vertex)
    return found


def _traverse_backward(order: list[Vertex], outside: Outside | None, flags: int, scope: Scope | None,
                       queue: int) -> list[Node]:
    beyond: list[Vertex] = [] if outside is None else outside.vertices
    postponed = [] if scope is None else list(scope.postponed.values())
    flow = Flow(members=[*order, *postponed, *beyond] if postponed or beyond else order, lanes=outside is not None,
                memory=None if outside is None else outside.versions, scope=scope if outside is None else None)
    try:
        _refuse_consumed(order, queue)
        _refuse_consumed(beyond, queue)
        if outside is not None:
            outside.begin(flow)
        _reverse(flow, order, flags)
        for vertex in postponed:
            flow.gradient(vertex)
        if outside is not None:
            outside.collect(flow, go_on)
    except BaseException:
        flow.roll_back()
        raise
    finally:
        flow.end()
        _forget_custom(order)
        if outside is not None:
            outside.end()
    if flags & CLEAR_EDGES:
        _cut(flow, order)
    return _gradients(order)


def _descends(order: list[Vertex]) -> bool:
    """Whether each vertex is older than the one before it, as in a chain of operations."""
    last = order[0].id + 1 if order else 0
    for vertex in order:
        if vertex.id >= last:
            return False
        last = vertex.id
    return True


def _gradients(order: list[Vertex]) -> list[Node]:
    return [vertex.gradient for vertex in order if vertex.gradient is not None]


def _distinct(order: list[Vertex]) -> list[Vertex]:
    """Each of some vertices once; they are in order. (The queues of other threads may have taken their marks.)"""
    before: Vertex | None = None
    for vertex in order:
        if vertex is before:
            return list({vertex.id: vertex for vertex in order}.values())
        before = vertex
    return order


def _cut(flow: Flow, order: list[Vertex], sources: tuple[Vertex, ...] | None = None) -> None:
    """Cut the edges that derivatives have flowed along; in forward mode, vertices remember where from."""
    for vertex in order:
        if _is_inner(flow, vertex):
            vertex.release()
            vertex.rule, vertex.info = CONSUMED, sources


def _is_inner(flow: Flow, vertex: Vertex) -> bool:
    """Whether some of the operands of a vertex take part; else a traversal begins or ends there, as at a variable."""
    number = flow.number
    if vertex.rule is HUB:
        return any(operand.member == number for operand in vertex.operands())
    return _takes_part(vertex.a, number) or _takes_part(vertex.b, number) or _takes_part(vertex.c, number)


def _takes_part(vertex: Vertex | None, number: int) -> bool:
    return vertex is not None and vertex.member == number


def _refuse_consumed(order: Sequence[Vertex], queue: int) -> None:
    """Raise where derivatives would have to flow on through what has been taken apart, unless the program has named it
    as where they begin or end, when it filled the queue (0: there is none)."""
    for vertex in order:
        if vertex.rule is CONSUMED and (not queue or vertex.queued != -queue):
            raise Consumed(
                "derivatives would have to flow through operations that an earlier traversal has taken apart, which is "
                "what traversals do by default: pass flags=drjit.ADFlag.ClearVertices (or ClearNone, which keeps the "
                "gradients between, too) to the earlier one, or use drjit.detach() where the earlier part is to count "
                "as a constant")


def _keeps(flow: Flow, mode: int, flags: int, vertex: Vertex) -> bool:
    """Whether a vertex keeps its gradient: where derivatives end, and else as the flags say."""
    depended = vertex.depended == flow.number
    if mode == BACKWARD:
        if not _is_inner(flow, vertex):
            return True
        return not flags & (CLEAR_INTERIOR if depended else CLEAR_INPUT)
    if not depended:
        return True
    return not flags & (CLEAR_INPUT if vertex.rule is LEAF or vertex.rule is CONSUMED else CLEAR_INTERIOR)


def _mark_depended(flow: Flow, order: list[Vertex]) -> None:
    """Mark the vertices that others of a traversal depend on."""
    number = flow.number
    for vertex in order:
        if vertex.rule is HUB:
            for operand in vertex.operands():
                _mark(operand, number)
        else:
            _mark(vertex.a, number)
            _mark(vertex.b, number)
            _mark(vertex.c, number)


def _mark(operand: Vertex | None, number: int) -> None:
    if operand is not None and operand.member == number:
        operand.depended = number


def _reverse(flow: Flow, order: list[Vertex], flags: int) -> None:
    _mark_depended(flow, order)
    for vertex in order:
        if flow.comes_to(vertex):
            flow.evaluate(flow.live())
        if flow.has_gradient(vertex):
            flow.crosses = vertex.id > flow.limit
            _reverse_one(flow, vertex)
            if vertex.rule is not HUB and not _keeps(flow, BACKWARD, flags, vertex):
                flow.clear(vertex)


def _reverse_one(flow: Flow, vertex: Vertex) -> None:
    """Let the gradient of a vertex flow to its operands."""
    if vertex.rule is HUB:
        _refuse_again(flow, vertex)
        for operand in vertex.operands():
            flow.note(operand)  # callbacks may change gradients that are no arguments
        flow.sparse = vertex.sparse
        vertex.info.reverse(flow)
        return
    gradient = flow.gradient(vertex)
    assert gradient is not None
    if vertex.rule.partials:
        _reverse_row(flow, vertex, gradient)
    elif vertex.rule is not LEAF and vertex.rule is not CONSUMED:
        if vertex.rule.name in _ACROSS:
            flow.kernel_ends()
        STRUCTURE[vertex.rule.name].reverse(flow, vertex, gradient)


def _refuse_again(flow: Flow, vertex: Vertex) -> None:
    if flow.again and not vertex.info.again:
        raise NoDerivative("there is no derivative of a derivative that a custom operation computes; use "
                           "drjit.detach() if none is meant to flow")


def _reverse_row(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    if flow.again:
        x, y, z, r = flow.kept(vertex)
    else:
        x, y, z, r = vertex.x, vertex.y, vertex.z, vertex.r
    width, sparse = vertex.size, vertex.sparse
    partials = vertex.rule.partials
    for position in range(len(partials)):
        operand = vertex.a if position == 0 else vertex.b if position == 1 else vertex.c
        partial = partials[position]
        if operand is None or partial is None or not flow.takes(operand):
            continue
        how = partial.how
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
        elif how == FACTOR and partial.sparse:
            flow.give(operand, product(gradient, _factor(partial, vertex.type, x, y, z, r), sparse), width, True)
        elif how == FACTOR:
            flow.give_product(operand, gradient, _factor(partial, vertex.type, x, y, z, r), width, sparse)
        else:
            flow.give(operand, _where(partial, gradient, x, y, z, r), width, True)


def _factor(partial: Partial, type_: int, x: Node, y: Node, z: Node, r: Node) -> Node:
    """What a rule multiplies by, computed in more precision if the type is: squares of half precision soon overflow."""
    wide = COMPUTES_IN[type_]
    if wide == type_:
        return partial.factor(FORMULAS, x, y, z, r)  # type: ignore[no-any-return]
    kept = [node if node is None else cast(node, wide) for node in (x, y, z, r)]
    return cast(partial.factor(FORMULAS, *kept), type_)


def _where(partial: Partial, gradient: Node, x: Node, y: Node, z: Node, r: Node) -> Node:
    if partial.how == BOTH:
        return masked(partial.factor(FORMULAS, x, y, z, r), gradient)
    assert partial.how in (WHERE, OTHERWISE)
    return masked(x, gradient, partial.how == OTHERWISE)


def _forward(flow: Flow, order: list[Vertex], flags: int) -> None:
    _mark_depended(flow, order)
    last = _last_uses(order)
    for vertex in order:
        if flow.comes_to(vertex):
            flow.evaluate(_needed(flow, vertex, last, flags))
        _forward_one(flow, vertex)
    for vertex in order:
        if vertex.rule is not HUB and not _keeps(flow, FORWARD_MODE, flags, vertex):
            flow.clear(vertex)


def _last_uses(order: list[Vertex]) -> dict[int, int]:
    """The last vertices that depend on others, by ids; nothing if no gradients are evaluated on the way."""
    if len(order) <= ENDED or order[0].era == order[-1].era:
        return {}
    return {operand.id: vertex.id for vertex in order for operand in vertex.operands()}


def _needed(flow: Flow, next_: Vertex, last: dict[int, int], flags: int) -> list[Vertex]:
    """The vertices whose changes are needed from now on; those of others are cleared, if they need not be kept."""
    found = []
    for vertex in flow.live():
        if last.get(vertex.id, 0) >= next_.id or vertex.rule is HUB or _keeps(flow, FORWARD_MODE, flags, vertex):
            found.append(vertex)
        else:
            flow.clear(vertex)
    return found


def _forward_one(flow: Flow, vertex: Vertex) -> None:
    """Let the changes of its operands flow to a vertex."""
    if vertex.rule is LEAF:
        return
    if vertex.rule is HUB:
        if any(flow.change(operand) is not None for operand in vertex.operands()):
            _refuse_again(flow, vertex)
            with _hidden(flow, vertex.operands()):
                vertex.info.forward(flow)
        return
    gradients = [flow.change(vertex.a), flow.change(vertex.b), flow.change(vertex.c)]
    if vertex.rule.partials:
        result = _forward_row(flow, vertex, gradients)
    elif vertex.rule.name == "output" or any(gradient is not None for gradient in gradients):
        if vertex.rule.name in _ACROSS:
            flow.kernel_ends()
        result = STRUCTURE[vertex.rule.name].forward(flow, vertex, gradients)
    else:
        result = None
    if result is not None:
        sparse = vertex.rule.name in _PARTLY or vertex.rule.name in READS or any(
            operand is not None and operand.sparse for operand in (vertex.a, vertex.b, vertex.c))
        flow.give(vertex, result, result.size, sparse)


@contextlib.contextmanager
def _hidden(flow: Flow, operands: Iterable[Vertex]) -> Iterator[None]:
    """While a callback runs, let operands have no gradients from which none flow in a traversal."""
    before = [(vertex, vertex.gradient) for vertex in operands if not flow.takes(vertex)]
    for vertex, _ in before:
        vertex.gradient = None
    try:
        yield
    finally:
        for vertex, gradient in before:
            vertex.gradient = gradient


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
                _factor(partial, vertex.type, x, y, z, r)
            if partial.sparse:
                flow.note(vertex)
                vertex.sparse = True
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


# --- gradients from outside ------------------------------------------------------------------------------------------


def add_gradients(gradients: Sequence[tuple[Vertex, Node]], *, clear: bool) -> None:
    """Add to the gradients of vertices; or replace them, if what they had is to be cleared first. A vertex may be there
    several times (as one of two components that are the same), and gets the sum."""
    with _lock:
        flow = Flow(scope=isolating_scope())
        if clear:
            for vertex, _ in gradients:
                flow.replace(vertex)
        for vertex, gradient in gradients:
            flow.bring(vertex, gradient, gradient.size)
            flow.gradient(vertex)


def set_ones(vertices: Sequence[Vertex]) -> None:
    """Let the gradients of vertices be one, for each time that a vertex is there."""
    with _lock:
        flow = Flow(scope=isolating_scope())
        for vertex in vertices:
            flow.clear(vertex)
        for vertex in vertices:
            flow.give(vertex, literal(vertex.type, 1), 1)


def clear_gradients(vertices: Iterable[Vertex]) -> None:
    """Set the gradients of vertices to zero."""
    with _lock:
        flow = Flow(scope=isolating_scope())
        for vertex in vertices:
            flow.replace(vertex)


def leave(scope: Scope) -> list[Node]:
    """Go on with what waited for a scope to end (which it has)."""
    if not scope.postponed:
        return []
    outer = isolating_scope()
    if outer is not None:  # which some of them may have to wait for, too
        outer.before = {**scope.before, **outer.before}
    vertices, scope.postponed, scope.before = list(scope.postponed.values()), {}, {}
    return go_on(vertices)


def abandon(scope: Scope) -> None:
    """Drop the gradients that waited for a scope to end, which an exception has ended; those of variables stay."""
    with _lock:
        for vertex in scope.postponed.values():
            if vertex.rule is not LEAF:
                vertex.gradient, vertex.sparse = scope.before[vertex.id]


def go_on(vertices: list[Vertex]) -> list[Node]:
    """Let gradients that have come together flow on from vertices."""
    enqueue(BACKWARD, vertices)
    return traverse(BACKWARD, CLEAR_INPUT | CLEAR_INTERIOR)  # what began there may be traversed again


# --- derivatives as values -------------------------------------------------------------------------------------------


def ancestors(vertex: Vertex) -> Iterator[Vertex]:
    """All that a vertex depends on."""
    seen: set[int] = set()
    todo = vertex.operands()
    while todo:
        found = todo.pop()
        if found.id not in seen:
            seen.add(found.id)
            yield found
            todo += found.operands()


def depends(vertices: Iterable[Vertex], last: int) -> bool:
    """Whether vertices depend on any whose id is at most ``last``."""
    seen: set[int] = set()
    todo = list(vertices)
    while todo:
        vertex = todo.pop()
        if vertex.id <= last:
            return True
        if vertex.id not in seen:
            seen.add(vertex.id)
            todo += vertex.operands()
    return False


def _between(inputs: Iterable[Vertex], outputs: Iterable[Vertex]) -> list[Vertex]:
    """The vertices along which derivatives flow from some to others, with these, by ascending ids."""
    ends = {vertex.id for vertex in inputs}
    first, seen = min(ends) if ends else 0, set()
    found, todo = [], list(outputs)
    while todo:
        vertex = todo.pop()
        if vertex.id >= first and vertex.id not in seen:
            seen.add(vertex.id)
            found.append(vertex)
            if vertex.id not in ends:
                todo += vertex.operands()
    if len(found) > 1:
        found.sort(key=_number)
    return depending(found, ends)


def depending(vertices: Iterable[Vertex], ends: set[int]) -> list[Vertex]:
    """Those of some vertices, in their order, that are ends, given by ids, or depend on any."""
    members, order = set(ends), []
    for vertex in vertices:
        if vertex.id in ends:
            order.append(vertex)
            continue
        for operand in vertex.operands():
            if operand.id in members:
                members.add(vertex.id)
                order.append(vertex)
                break
    return order


def pull(outputs: Sequence[tuple[Vertex, Node]], inputs: Sequence[Vertex], again: bool = False,
         memory: dict[int, Node] | None = None) -> list[Node | None]:
    """The gradients that flow from some vertices, which have given ones, to others; nothing is stored in the graph.

    ``again`` says that the gradients are to be differentiated, too. In a region, ``memory`` has the arrays that
    gradients of reads by index are scattered to, by the ids of vertices.
    """
    order = _between(inputs, [vertex for vertex, _ in outputs])
    order.reverse()
    with _lock:
        return _through(order, outputs, inputs, {vertex.id for vertex in inputs}, again, memory is not None, memory,
                        False)


def pull_along(vertices: list[Vertex], outputs: Sequence[tuple[Vertex, Node]], inputs: Sequence[Vertex],
               again: bool, memory: dict[int, Node]) -> list[Node | None]:
    """The same in a region, if all vertices are known that derivatives may flow along, from one to the next."""
    ends: dict[int, Vertex] = {}
    for vertex in inputs:
        ends[vertex.id] = vertex
    order = depending([*ends.values(), *vertices], set(ends))
    order.reverse()
    with _lock:
        return _through(order, outputs, inputs, set(ends), again, True, memory, False)


def push(inputs: Sequence[tuple[Vertex, Node]], outputs: Sequence[Vertex], again: bool = False,
         lanes: bool = False) -> list[Node | None]:
    """The changes of some vertices for given changes of others; nothing is stored in the graph. ``lanes`` stands for a
    region."""
    order = _between([vertex for vertex, _ in inputs], outputs)
    with _lock:
        return _through(order, inputs, outputs, {vertex.id for vertex, _ in inputs}, again, lanes, None, True)


def _through(order: list[Vertex], given: Sequence[tuple[Vertex, Node]], wanted: Sequence[Vertex], ends: set[int],
             again: bool, lanes: bool, memory: dict[int, Node] | None, forward: bool) -> list[Node | None]:
    """What is wanted, when gradients or changes that are given have flowed through vertices, in their order."""
    _refuse_consumed(order, 0)
    flow = Flow(again=again, members=order, lanes=lanes, memory=memory)
    last = _last_uses(order) if forward else _NO_USES
    if last:
        _mark_depended(flow, order)
        last.update((vertex.id, order[-1].id) for vertex in wanted)
    try:
        for vertex in order:
            flow.clear(vertex)
        for vertex, value in given:
            flow.bring(vertex, value, value.size if forward else vertex.size)
        for vertex in order:
            if vertex.id in ends:
                continue
            if flow.comes_to(vertex):
                flow.evaluate(_needed(flow, vertex, last, CLEAR_INPUT | CLEAR_INTERIOR) if forward else flow.live())
            if forward:
                _forward_one(flow, vertex)
            elif flow.has_gradient(vertex):
                _reverse_one(flow, vertex)
                if vertex.rule is not HUB:
                    flow.clear(vertex)
        return [flow.change(vertex) for vertex in wanted]
    finally:
        flow.end()
        _forget_custom(order)
        flow.roll_back()


def _forget_custom(order: list[Vertex]) -> None:
    for vertex in order:
        if vertex.rule is HUB:
            vertex.info.received, vertex.info.sent, vertex.sparse = {}, {}, False
