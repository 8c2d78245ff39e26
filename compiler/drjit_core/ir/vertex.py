"""Vertices of the graph of derivatives (see :mod:`.dual`)."""

from __future__ import annotations

import weakref
from typing import Any

from ..ops.derivatives import Rule
from .node import Node

__all__ = ["HUB", "LEAF", "Vertex", "last_vertex", "live_vertices", "new_vertex"]

#: The rule of a variable that derivatives are asked for; of what has more than three operands, which ``info`` knows.
LEAF, HUB = Rule("", ()), Rule("custom", ())
_last = 0


class Vertex:
    """One differentiable operation.

    ``rule`` is that of an elementwise operation, or one without partials, of whose name
    :mod:`drjit_core.derivatives.structure` knows the meaning.  Up to three operands have vertices ``a``, ``b``, ``c``;
    ``x``, ``y``, ``z`` and ``r`` are the operands and the result as far as the rule keeps them, and ``info`` is
    whatever else it needs.
    """

    __slots__ = ("__weakref__", "a", "b", "c", "gradient", "id", "info", "label", "member", "noted", "pending",
                 "queued", "r", "rule", "size", "sparse", "type", "x", "y", "z")

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
        #: The numbers of the flow that it takes part in, of that which has noted what its gradient was before, and of
        #: the queue that it is in.
        self.member = self.noted = self.queued = 0
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


def last_vertex() -> int:
    """The id of the vertex that was made last."""
    return _last


def new_vertex(rule: Rule, type_: int, size: int, a: Vertex | None, b: Vertex | None, c: Vertex | None) -> Vertex:
    """A vertex that has kept nothing yet."""
    return Vertex(rule, type_, size, a, b, c)
