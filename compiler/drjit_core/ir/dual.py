"""Values with a derivative: duals, and the vertices of the graph along which derivatives flow.

A *dual* is a node of the kind ``DUAL``: a value (``d0``) together with a :class:`Vertex` (the payload).  Equal values
are one node, but not everything that is equal changes alike, which is why duals are never found by value numbering.
Trace functions take duals for the values that they stand for, and give back a dual for a result that depends on them;
nothing behind tracing ever sees one: what is evaluated, planned and launched are plain nodes.

A vertex says which operation made the value, from which other vertices, and holds the nodes that the derivative of the
operation needs (see :mod:`drjit_core.ops.derivatives`): the derivative is computed when the graph is traversed
(:mod:`drjit_core.derivatives`), not when the operation is traced. Vertices refer to older ones only, so that references
alone tell how long they live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..context import current
from ..errors import NoDerivative, SymbolicValue
from ..ops.derivatives import Rule
from ..ops.table import DUAL, OPS
from ..types import IS_FLOAT
from .node import Node, blank_node, new_id
from .symbolic import seen_here
from .vertex import HUB, LEAF, Vertex, last_vertex, new_vertex

__all__ = ["STRUCTURE", "Scope", "attached", "derived", "dual", "followed", "is_recorded", "is_within",
           "isolating_scope", "outlive", "primal", "recorded", "recorded_in", "refuse", "refuse_for", "surely_tracked",
           "tracked", "vertex_of", "without"]

#: The rules of operations with structure, by their names.
STRUCTURE: dict[str, Rule] = {name: Rule(name, ()) for name in (
    "identity", "cast", "gather", "access", "view", "scatter", "accumulate", "reduce", "segment", "scan", "sort",
    "matmul", "transpose", "join", "output")}
_DUAL = DUAL
_RULES: tuple[Rule | None, ...] = tuple(row.derivative for row in OPS)


class Scope:
    """Which vertices derivatives are tracked for, in the dynamic extent of a ``with`` statement."""

    __slots__ = ("before", "boundary", "enabled", "ended", "lanes", "limit", "off", "on", "outer", "postponed")

    def __init__(self, outer: Scope | None, enabled: bool, boundary: int | None = None,
                 on: frozenset[int] = frozenset(), off: frozenset[int] = frozenset(), *, limit: int = 0,
                 lanes: Callable[[int], Node] | None = None) -> None:
        self.outer = outer
        #: What holds for vertices that are not named: up to the boundary, and beyond it if none is named at all.
        self.enabled = enabled
        self.boundary = last_vertex() if boundary is None else boundary
        #: The ids of those for which the contrary holds.
        self.on, self.off = on, off
        #: The vertex that traversals stop at, if any, to go on with what is postponed when the scope ends.
        self.limit = limit
        #: Which elements of an operation of some width may have a part in what waits; all of them if there is nothing.
        self.lanes = lanes
        self.postponed: dict[int, Vertex] = {}
        #: Gradients that these had before, and whether zeros of them had no part, by ids.
        self.before: dict[int, tuple[Node | None, bool]] = {}
        #: Whether the statement is over; others that began within it may not be (in generators).
        self.ended = False

    @staticmethod
    def suspended(outer: Scope | None, ids: Iterable[int] | None) -> Scope:
        """Track nothing, or what the scope around it tracks but for some vertices."""
        if ids is None:
            return Scope(outer, False)
        before = outer or Scope(None, True)
        return Scope(outer, before.enabled, before.boundary, before.on - set(ids), before.off | set(ids))

    @staticmethod
    def resumed(outer: Scope | None, ids: Iterable[int] | None) -> Scope:
        """Track everything, or what the scope around it tracks and some more vertices."""
        if ids is None:
            return Scope(outer, True)
        return Scope.like(outer, outer, ids)

    @staticmethod
    def like(outer: Scope | None, other: Scope | None, ids: Iterable[int]) -> Scope:
        """Track what another scope does, and some more vertices."""
        other = other or Scope(None, True)
        return Scope(outer, other.enabled, other.boundary, other.on | set(ids), other.off - set(ids))

    @staticmethod
    def isolating(outer: Scope | None, lanes: Callable[[int], Node] | None = None) -> Scope:
        """Track what the scope around it does; traversals stop at what is there already."""
        before, around = outer or Scope(None, True), isolating_scope()
        if lanes is None and around is not None:
            lanes = around.lanes
        return Scope(outer, before.enabled, before.boundary, before.on, before.off, limit=last_vertex(), lanes=lanes)

    def end(self) -> None:
        """Let the innermost scope that has not ended hold again."""
        self.ended = True
        context = current()
        scope = context.derivatives
        while scope is not None and scope.ended:
            scope = scope.outer
        context.derivatives = scope

    def tracks(self, vertex: Vertex) -> bool:
        """Whether operations on a value are recorded."""
        if vertex.id in self.off:
            return False
        return self.enabled or vertex.id in self.on or vertex.id > self.boundary and bool(self.on)

    @property
    def records(self) -> bool:
        """Whether anything at all may be tracked, such as a new variable."""
        return self.enabled or bool(self.on)


def isolating_scope() -> Scope | None:
    """The innermost scope that traversals must not leave."""
    scope: Scope | None = current().derivatives
    while scope is not None and (scope.ended or not scope.limit):
        scope = scope.outer
    return scope


def primal(node: Node) -> Node:
    """The value of a node, without its derivative."""
    return node.d0 if node.kind == _DUAL else node  # type: ignore[return-value]


def vertex_of(node: Node) -> Vertex | None:
    """The vertex of a node, if it has one."""
    return node.payload if node.kind == _DUAL else None


def tracked(node: Node) -> Vertex | None:
    """The vertex of a node, if operations on it are to be recorded."""
    if node.kind != _DUAL:
        return None
    vertex: Vertex | None = node.payload
    if vertex.scope and vertex.rule is LEAF:  # type: ignore[union-attr]
        vertex = seen_here(vertex)
    scope = current().derivatives
    return vertex if vertex is None or scope is None or scope.tracks(vertex) else None


def followed(nodes: list[Node]) -> list[Node]:
    """Some nodes as a new array holds them: without derivatives that are not tracked at the moment."""
    if current().derivatives is None:
        return nodes
    return [primal(node) if tracked(node) is None else node for node in nodes]


def surely_tracked(node: Node) -> bool:
    """Whether operations on a value are recorded, and not only because it belongs to a loop that is being traced, all
    of whose state may turn out to be differentiated."""
    regions, first = current().open, tracked(node)
    seen: set[int] = set()
    todo = [] if first is None else [first]
    while todo:
        vertex = todo.pop()
        entries = regions[vertex.scope].entries if vertex.scope in regions else None
        if entries is None:
            return True
        if vertex.id in entries:
            operands = [] if entries[vertex.id] is None else [entries[vertex.id]]
        else:
            operands = vertex.operands()
            if not operands:
                return True
        todo += [operand for operand in operands if operand.id not in seen]
        seen.update(operand.id for operand in operands)
    return False


def dual(value: Node, vertex: Vertex) -> Node:
    """A value with a vertex."""
    assert value.kind != _DUAL
    node = blank_node()
    node.kind, node.type, node.size, node.id = _DUAL, value.type, value.size, new_id()
    node.where = value.where
    node.d0, node.payload, node.attr, node.scope = value, vertex, 0, value.scope
    node.d1 = node.d2 = node.d3 = None
    return node


#: What a rule keeps for an operand, as bits, by ``3 * kind + position``; ``_NONE`` if it has no partial for that.
_X, _Y, _Z, _R, _NONE = 1, 2, 4, 8, 255


def _bits(keeps: str) -> int:
    return sum(bit for name, bit in zip("xyzr", (_X, _Y, _Z, _R), strict=True) if name in keeps)


def _kept(rule: Rule | None) -> list[int]:
    partials = () if rule is None else rule.partials
    found = [_NONE if partial is None else _bits(partial.keeps) for partial in partials]
    return found + [_NONE] * (3 - len(found))


_KEPT = bytes(bits for row in OPS for bits in _kept(row.derivative))


def recorded(kind: int, value: Node, x: Node, y: Node | None = None, z: Node | None = None) -> Node:
    """The result of a row whose operands are duals, some of them: a dual, if a derivative flows to it."""
    rule = _RULES[kind]
    if rule is None or not IS_FLOAT[value.type]:
        return value
    place = 3 * kind
    return _recorded(rule, value, x, y, z, _KEPT[place], _KEPT[place + 1], _KEPT[place + 2])


def attached(rule: Rule, value: Node, x: Node, y: Node | None = None, z: Node | None = None) -> Node:
    """The result of a function that has a rule of its own: a dual, if a derivative flows to it."""
    if not IS_FLOAT[value.type]:
        return value
    first, second, third = _kept(rule)
    return _recorded(rule, value, x, y, z, first, second, third)


def _recorded(rule: Rule, value: Node, x: Node, y: Node | None, z: Node | None, first: int, second: int,
              third: int) -> Node:
    context = current()
    scope = context.derivatives
    a, b, c = _followed(x, first, scope), _followed(y, second, scope), _followed(z, third, scope)
    keeps = 0
    if a is not None:
        keeps = first
    if b is not None:
        keeps |= second
    if c is not None:
        keeps |= third
    if a is None and b is None and c is None:
        return value
    if context.region is not None and not context.region.differentiates:
        _refuse_recording(rule.name, [vertex for vertex in (a, b, c) if vertex is not None])
        return value
    vertex = new_vertex(rule, value.type, value.size, a, b, c)
    if keeps & _X:
        vertex.x = primal(x)
    if keeps & _Y and y is not None:
        vertex.y = primal(y)
    if keeps & _Z and z is not None:
        vertex.z = primal(z)
    if keeps & _R:
        vertex.r = value
    return dual(value, vertex)


def _followed(operand: Node | None, keeps: int, scope: Scope | None) -> Vertex | None:
    """The vertex of an operand that a rule has a partial for, if operations on it are to be recorded."""
    if operand is None or operand.kind != _DUAL or keeps == _NONE:
        return None
    vertex: Vertex | None = operand.payload
    if vertex.scope and vertex.rule is LEAF:  # type: ignore[union-attr]
        vertex = seen_here(vertex)
    return vertex if vertex is None or scope is None or scope.tracks(vertex) else None


def outlive(node: Node) -> Node:
    """What a value that is no part of the region which is being traced is outside: with the derivatives that flow to it
    from there."""
    region, vertex = current().region, vertex_of(node)
    if vertex is None or region is None or node.scope == region.id:
        return node
    found: dict[int, Vertex | None] = dict(region.entries or {})
    for each in recorded_in(region.id, [vertex]):
        if [operand for operand in each.operands() if found.get(operand.id, operand) is not None]:
            found[each.id] = _copied(each, found)
        else:
            found.setdefault(each.id, None)
    kept = found.get(vertex.id, vertex)
    return primal(node) if kept is None else node if kept is vertex else dual(primal(node), kept)


def is_within(node: Node) -> bool:
    """Whether a value is part of the region which is being traced, or what its derivative is computed of."""
    region, vertex = current().region, vertex_of(node)
    if region is None or node.scope == region.id:
        return region is not None
    return vertex is not None and bool([value for each in recorded_in(region.id, [vertex]) for value in
                                        (each.x, each.y, each.z, each.r) if value is not None and
                                        value.scope == region.id])


def recorded_in(region: int, vertices: Iterable[Vertex]) -> list[Vertex]:
    """The vertices that some depend on which were recorded in a region, these included, in the order of making."""
    found: dict[int, Vertex] = {}
    todo = list(vertices)
    while todo:
        vertex = todo.pop()
        if vertex.scope == region and vertex.id not in found:
            found[vertex.id] = vertex
            todo += vertex.operands()
    return [found[number] for number in sorted(found)]


def _copied(vertex: Vertex, found: dict[int, Vertex | None]) -> Vertex:
    """A vertex like another one, outside of the region that this was recorded in; where an operand has none, nothing
    flows."""
    region = current().region
    scope = 0 if region is None or region.outer is None else region.outer.id
    if vertex.rule is HUB:  # which knows its operands by itself
        new = vertex
    else:
        a, b, c = [entry if entry is None else found.get(entry.id, entry) for entry in (vertex.a, vertex.b, vertex.c)]
        new = Vertex(vertex.rule, vertex.type, vertex.size, a, b, c, vertex.info)
        new.x, new.y, new.z, new.r, new.label = vertex.x, vertex.y, vertex.z, vertex.r, vertex.label
    new.scope = scope
    return new


def refuse(kind: type[Exception], message: str, *operands: Node) -> None:
    """Raise what is wrong with an operation on duals of which there is no derivative, unless it turns out later whether
    one is asked for: then the value is what it would be without."""
    refuse_for(kind, message, [vertex for operand in operands if (vertex := tracked(operand)) is not None])


def refuse_for(kind: type[Exception], message: str, vertices: Sequence[Vertex]) -> None:
    """Raise what is wrong with an operation on what depends on some vertices, as :func:`refuse` does."""
    seen: set[int] = set()
    regions, todo, found = current().open, list(vertices), []
    while todo:
        vertex = todo.pop()
        region = regions.get(vertex.scope)
        if region is not None and region.entries is not None:
            found.append((region, vertex))
            continue
        operands = [] if region is None else vertex.operands()
        if not operands:
            raise kind(message)
        todo += [operand for operand in operands if operand.id not in seen]
        seen.update(operand.id for operand in operands)
    for region, vertex in found:
        region.refused = [*region.refused, (vertex, kind, message)]


def is_recorded(name: str, vertices: Sequence[Vertex]) -> bool:
    """Whether an operation with structure of values with some vertices is recorded; else there is no derivative of it.
    """
    region = current().region
    if region is None:
        return True
    if not region.differentiates:
        _refuse_recording(name, vertices)
    elif name == "scatter":
        refuse_for(NoDerivative, "there is no derivative of a write in a symbolic loop, branch or call: "
                   "mode='evaluated' has one", vertices)
    else:
        return True
    return False


def _refuse_recording(name: str, vertices: Sequence[Vertex]) -> None:
    refuse_for(
        SymbolicValue, f"an operation ({name.rstrip('_')}) on an array that tracks derivatives is traced in a symbolic "
        "loop, branch or call, of which there are no derivatives yet: use drjit.detach() or drjit.suspend_grad(), or "
        "mode='evaluated'.", vertices)


def derived(name: str, value: Node, operands: Sequence[Node], info: Any = None, keeps: str = "") -> Node:
    """The result of an operation with structure; ``operands`` are those that it may be differentiated by, at most
    three, in the order in which the rule expects them."""
    if not IS_FLOAT[value.type]:
        return value
    count = len(operands)
    a = tracked(operands[0])
    b = tracked(operands[1]) if count > 1 else None
    c = tracked(operands[2]) if count > 2 else None
    if a is None and b is None and c is None:
        return value
    if current().region is not None and not is_recorded(
            name, [vertex for vertex in (a, b, c) if vertex is not None]):
        return value
    vertex = new_vertex(STRUCTURE[name], value.type, value.size, a, b, c)
    vertex.info = info
    if "x" in keeps:
        vertex.x = primal(operands[0])
    if "y" in keeps:
        vertex.y = primal(operands[1])
    if "r" in keeps:
        vertex.r = value
    return dual(value, vertex)


def without(node: Node) -> Node:
    """The value of a dual."""
    value = node.d0
    assert value is not None
    return value
