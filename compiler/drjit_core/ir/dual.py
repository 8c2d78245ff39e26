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

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from ..context import current
from ..errors import SymbolicValue
from ..ops.derivatives import Rule
from ..ops.table import DUAL, OPS
from ..types import TYPES
from .node import Node, blank_node, new_id

__all__ = ["HUB", "LEAF", "STRUCTURE", "Scope", "Vertex", "attached", "derived", "dual", "live_vertices", "primal",
           "recorded", "tracked", "vertex_of", "without"]

#: The rule of a variable that derivatives are asked for; of what has more than three operands, which ``info`` knows.
LEAF, HUB = Rule("", ()), Rule("custom", ())
#: The rules of operations with structure, by their names.
STRUCTURE: dict[str, Rule] = {name: Rule(name, ()) for name in (
    "identity", "cast", "gather", "access", "view", "scatter", "reduce", "segment", "scan", "sort", "matmul",
    "transpose", "output")}
_RULES: tuple[Rule | None, ...] = tuple(row.derivative for row in OPS)
_IS_FLOAT = bytes(info is not None and info.kind == "f" for info in TYPES)
_last = 0


class Vertex:
    """One differentiable operation.

    ``rule`` is that of an elementwise operation, or one without partials, of whose name
    :mod:`drjit_core.derivatives.structure` knows the meaning.  Up to three operands have vertices ``a``, ``b``, ``c``;
    ``x``, ``y``, ``z`` and ``r`` are the operands and the result as far as the rule keeps them, and ``info`` is
    whatever else it needs.
    """

    __slots__ = ("__weakref__", "a", "b", "c", "gradient", "id", "info", "label", "pending", "r", "rule", "size",
                 "sparse", "type", "x", "y", "z")

    def __init__(self, rule: Any, type_: int, size: int, a: Vertex | None = None, b: Vertex | None = None,
                 c: Vertex | None = None, info: Any = None) -> None:
        global _last
        self.rule, self.type, self.size = rule, type_, size
        self.a, self.b, self.c, self.info = a, b, c, info
        self.x: Node | None = None
        self.y: Node | None = None
        self.z: Node | None = None
        self.r: Node | None = None
        #: The gradient so far: a node of its size, or of one element, which all elements share. ``None``: zero.
        self.gradient: Node | None = None
        #: Contributions of whole arrays to a vertex of one element, not yet summed; and scatter-additions to it.
        self.pending: Any = None
        #: Whether zeros of the gradient mean that an element has no part, whatever it is multiplied by.
        self.sparse = False
        self.label: str | None = None
        _last += 1
        self.id = _last
        _live[_last] = weakref.ref(self)

    def __del__(self) -> None:
        _live.pop(self.id, None)

    def operands(self) -> list[Vertex]:
        """The vertices that it depends on."""
        if self.rule is LEAF:
            return []
        if self.rule is HUB:
            return list(self.info.inputs)
        return [vertex for vertex in (self.a, self.b, self.c) if vertex is not None]

    def release(self) -> None:
        """Cut the edges to operands, with all that was kept for them: from now on it is a variable like any."""
        self.rule = LEAF
        self.a = self.b = self.c = self.info = self.x = self.y = self.z = self.r = None

    @property
    def name(self) -> str:
        """What listings call it."""
        name: str = self.rule.name
        return name.rstrip("_")


_live: dict[int, weakref.ref[Vertex]] = {}


def live_vertices(first: int = 0) -> list[Vertex]:
    """The vertices that exist, from an id on, in order of ids."""
    found = [reference() for id_, reference in list(_live.items()) if id_ >= first]
    return [vertex for vertex in found if vertex is not None]


class Scope:
    """Which vertices derivatives are tracked for, in the dynamic extent of a ``with`` statement."""

    __slots__ = ("boundary", "enabled", "isolated", "off", "on", "outer", "postponed")

    def __init__(self, outer: Scope | None, enabled: bool, boundary: int | None = None,
                 on: frozenset[int] = frozenset(), off: frozenset[int] = frozenset(), *,
                 isolated: bool = False) -> None:
        self.outer = outer
        #: What holds for vertices that are not named: up to the boundary, and beyond it if none is named at all.
        self.enabled = enabled
        self.boundary = _last if boundary is None else boundary
        #: The ids of those for which the contrary holds.
        self.on, self.off = on, off
        #: Whether traversals stop at the boundary, and go on when the scope ends, with what is postponed.
        self.isolated = isolated
        self.postponed: dict[int, Vertex] = {}

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
        before = outer or Scope(None, True)
        return Scope(outer, before.enabled, before.boundary, before.on | set(ids), before.off - set(ids))

    @staticmethod
    def isolating(outer: Scope | None) -> Scope:
        """Track what the scope around it does; traversals stop at what is there already."""
        before = outer or Scope(None, True)
        return Scope(outer, before.enabled, _last, before.on, before.off, isolated=True)

    def tracks(self, vertex: Vertex) -> bool:
        """Whether operations on a value are recorded."""
        if vertex.id in self.off:
            return False
        return self.enabled or vertex.id in self.on or vertex.id > self.boundary and bool(self.on)

    @property
    def records(self) -> bool:
        """Whether anything at all may be tracked, such as a new variable."""
        return self.enabled or bool(self.on)


def primal(node: Node) -> Node:
    """The value of a node, without its derivative."""
    return node.d0 if node.kind == DUAL else node  # type: ignore[return-value]


def vertex_of(node: Node) -> Vertex | None:
    """The vertex of a node, if it has one."""
    return node.payload if node.kind == DUAL else None


def tracked(node: Node) -> Vertex | None:
    """The vertex of a node, if operations on it are to be recorded."""
    if node.kind != DUAL:
        return None
    vertex: Vertex = node.payload
    scope = current().derivatives
    return vertex if scope is None or scope.tracks(vertex) else None


def dual(value: Node, vertex: Vertex) -> Node:
    """A value with a vertex."""
    assert value.kind != DUAL
    node = blank_node()
    node.kind, node.type, node.size, node.id = DUAL, value.type, value.size, new_id()
    node.d0, node.payload, node.attr, node.scope = value, vertex, 0, value.scope
    node.d1 = node.d2 = node.d3 = None
    return node


def attached(rule: Rule | None, value: Node, x: Node, y: Node | None = None, z: Node | None = None) -> Node:
    """The result of an operation on operands of which some are duals: a dual, if a derivative flows to it."""
    if rule is None or not _IS_FLOAT[value.type]:
        return value
    vertices: list[Vertex | None] = [None, None, None]
    keeps = ""
    for position, (operand, partial) in enumerate(zip((x, y, z), rule.partials, strict=False)):
        if operand is None or partial is None:
            continue
        vertex = tracked(operand)
        if vertex is not None:
            vertices[position] = vertex
            keeps += partial.keeps
    return _vertex(rule, value, vertices, (x, y, z), keeps)


def _vertex(rule: Rule, value: Node, vertices: Sequence[Vertex | None], operands: Sequence[Node | None], keeps: str,
            info: Any = None) -> Node:
    """A dual of a new vertex; the value itself, if no operand has one."""
    if all(vertex is None for vertex in vertices):
        return value
    if current().region is not None:
        raise SymbolicValue(
            f"an operation ({rule.name.rstrip('_')}) on an array that tracks derivatives is traced in a symbolic loop, "
            "branch or call, of which there are no derivatives yet: use drjit.detach() or drjit.suspend_grad(), or "
            "mode='evaluated'.")
    found = Vertex(rule, value.type, value.size, *vertices)
    found.info = info
    for name, operand in zip("xyz", operands, strict=False):
        if name in keeps and operand is not None:
            setattr(found, name, primal(operand))
    if "r" in keeps:
        found.r = value
    return dual(value, found)


def recorded(kind: int, value: Node, x: Node, y: Node | None = None, z: Node | None = None) -> Node:
    """Likewise, of a row."""
    return attached(_RULES[kind], value, x, y, z)


def derived(name: str, value: Node, operands: Sequence[Node], info: Any = None, keeps: str = "") -> Node:
    """The result of an operation with structure; ``operands`` are those that it may be differentiated by, at most
    three, in the order in which the rule expects them."""
    if not _IS_FLOAT[value.type]:
        return value
    return _vertex(STRUCTURE[name], value, [tracked(operand) for operand in operands], operands, keeps, info)


def without(node: Node) -> Node:
    """The value of a dual."""
    value = node.d0
    assert value is not None
    return value
