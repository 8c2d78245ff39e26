"""Vertices of the graph of derivatives (see :mod:`.dual`)."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any

from ..context import current
from ..ops.derivatives import Rule
from .node import Node

__all__ = ["HUB", "LEAF", "Vertex", "any_vertex", "begin_era", "last_vertex", "live_vertices", "new_vertex"]

#: The rule of a variable that derivatives are asked for; of what has more than three operands, which ``info`` knows.
LEAF, HUB = Rule("", ()), Rule("custom", ())
_next_id = itertools.count(1).__next__
_era = 0


class Vertex:
    """One differentiable operation.

    ``rule`` is that of an elementwise operation, or one without partials, of whose name
    :mod:`drjit_core.derivatives.structure` knows the meaning.  Up to three operands have vertices ``a``, ``b``, ``c``;
    ``x``, ``y``, ``z`` and ``r`` are the operands and the result as far as the rule keeps them, and ``info`` is
    whatever else it needs.
    """

    a: Vertex | None = None
    b: Vertex | None = None
    c: Vertex | None = None
    x: Node | None = None
    y: Node | None = None
    z: Node | None = None
    r: Node | None = None
    info: Any = None
    #: The gradient so far: a node of its size, or of one element, which all elements share. ``None``: zero.
    gradient: Node | None = None
    #: Contributions of whole arrays to a vertex of one element, not yet summed; and scatter-additions to it.
    pending: Any = None
    #: Whether zeros of the gradient mean that an element has no part, whatever it is multiplied by.
    sparse = False
    label: str | None = None
    #: The region that it was recorded in (0: none): it is part of the graph only as long as that is being traced.
    scope = 0
    #: The numbers of the flow that it takes part in, of that in which others depend on it, of that which has noted what
    #: its gradient was before, and of the queue that it is in (negative: as where derivatives begin or end, after an
    #: earlier traversal has taken apart what lies behind it).
    member = depended = noted = queued = 0

    def __init__(self, rule: Rule, type_: int, size: int, a: Vertex | None = None, b: Vertex | None = None,
                 c: Vertex | None = None, info: Any = None) -> None:
        self.rule = rule
        self.type = type_
        self.size = size
        if a is not None:
            self.a = a
        if b is not None:
            self.b = b
        if c is not None:
            self.c = c
        if info is not None:
            self.info = info
        self.id = _next_id()
        #: How many evaluations there had been when it was made.
        self.era = _era
        region = current().region
        if region is not None:
            self.scope = region.id
        _made.append(weakref.ref(self))
        if len(_made) > _limit:
            _sweep()

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

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("cannot pickle or copy a vertex of the graph of derivatives")

    @property
    def name(self) -> str:
        """What listings call it."""
        return self.rule.name.rstrip("_")


#: All vertices that live, and some that have died; those are swept out when there are twice as many as there were.
_made: list[weakref.ref[Vertex]] = []
_limit = 1024
_sweeping = threading.Lock()


def _sweep() -> None:
    global _limit
    if _sweeping.acquire(blocking=False):
        try:
            count = len(_made)  # what other threads append meanwhile stays behind it
            _made[:count] = [reference for reference in _made[:count] if reference() is not None]
            _limit = max(1024, 2 * len(_made))
        finally:
            _sweeping.release()


def live_vertices(first: int = 0) -> list[Vertex]:
    """The vertices that exist, from an id on, in order of ids."""
    found = [reference() for reference in list(_made)]
    return sorted((vertex for vertex in found if vertex is not None and vertex.id >= first), key=lambda v: v.id)


def any_vertex() -> bool:
    """Whether any vertex exists."""
    for reference in reversed(_made):  # the youngest is the most likely one
        if reference() is not None:
            return True
    _sweep()
    return False


def begin_era() -> None:
    """Something has been evaluated: what vertices keep from now on begins with that."""
    global _era
    _era += 1


def last_vertex() -> int:
    """A number from the ids of the vertices that exist up to those of the vertices that will."""
    return _next_id()


def new_vertex(rule: Rule, type_: int, size: int, a: Vertex | None, b: Vertex | None, c: Vertex | None) -> Vertex:
    """A vertex that has kept nothing yet."""
    return Vertex(rule, type_, size, a, b, c)
