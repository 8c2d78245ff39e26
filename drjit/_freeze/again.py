"""Derivatives of derivatives of frozen calls: of these there are no recordings, so that the function is traced again,
as it was called."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from drjit_core import LEAF, Node, Vertex, current, dual, primal, vertex_of

from .._base.array import ArrayBase
from .._base.handle import fresh_array
from .inputs import Inputs, Route
from .outcome import Outcome

__all__ = ["Again"]

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type)


class Again:
    """What it takes to trace a call again: copies of its arguments, none of which leads to what the program keeps."""

    __slots__ = ("_expected", "_function", "_nodes", "_parts", "_routes", "_scope", "_tree")

    def __init__(self, function: Callable[..., Any], tree: list[Any], nodes: Sequence[Node], needed: set[int],
                 parts: Any, expected: int, routes: Sequence[Route]) -> None:
        self._function = weakref.ref(function)
        self._parts, self._expected, self._routes = parts, expected, routes
        #: Vertices that no result depends on are not kept: others would be found to lead somewhere.
        self._nodes = [node if position in needed or vertex_of(node) is None else
                       dual(primal(node), Vertex(LEAF, node.type, node.size)) for position, node in enumerate(nodes)]
        self._scope = current().derivatives
        try:
            self._tree = _copied(tree, {}) if parts is not None else "been loaded from a file"
        except TypeError as error:
            self._tree = str(error)

    @property
    def is_possible(self) -> bool:
        """Whether there is a function, and there are copies of its arguments."""
        return self._function() is not None and not isinstance(self._tree, str)

    def vertices(self, name: str) -> list[Vertex]:
        """The vertices of the results, which depend on those of the inputs."""
        function: Any = self._function()
        if function is None or isinstance(self._tree, str):
            raise RuntimeError(f"drjit.freeze(): {name}() has no derivatives of derivatives, since it has "
                               f"{self._tree if function is not None else 'been deleted'}")
        args, kwargs, further = self._tree
        inputs = Inputs(function.f, args, kwargs, further, self._routes)
        if inputs.parts != self._parts or len(inputs.nodes) != len(self._nodes) or any(
                primal(one) is not primal(other) for one, other in zip(inputs.nodes, self._nodes, strict=True)):
            raise RuntimeError(f"drjit.freeze(): {name}() has no derivatives of derivatives here, since what it "
                               "refers to has changed after it was called")
        inputs.nodes = self._nodes
        inputs.give(inputs.nodes)
        shapes, state = inputs.shapes(), current()
        scope, state.derivatives = state.derivatives, self._scope
        acting, state.acting = state.acting, True
        args, kwargs, _ = inputs.tree
        try:
            result = function.f(*args, **kwargs)
            statements, state.statements = state.statements, []
            found = Outcome(inputs, inputs.nodes, result, statements).vertices
        finally:
            state.acting, state.derivatives = acting, scope
            inputs.roll_back(shapes)
        if len(found) != self._expected:
            raise RuntimeError(f"drjit.freeze(): {name}() has other results when it is traced again")
        return found


def _copied(value: Any, known: dict[int, Any]) -> Any:
    """A copy of arguments: arrays with the same nodes, in containers of the same structure."""
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, _PLAIN):
        return value
    copy: Any
    if isinstance(value, ArrayBase):
        if not value._dynamic or value._o is not None:
            raise TypeError(f"an argument of type {type(value).__name__} that is part of another one")
        copy = fresh_array(type(value))
        copy._o = None
        if value._depth > 0:
            copy._c = list(map(primal, value._nodes()))
        else:
            copy._n = primal(value._nodes()[0])
            if value._depth < 0:
                copy._s = value._s
        known[id(value)] = copy
        return copy
    if type(value) is list:
        copy = known[id(value)] = []
        copy += [_copied(entry, known) for entry in value]
        return copy
    if type(value) is dict:
        copy = known[id(value)] = {}
        copy.update({key: _copied(entry, known) for key, entry in value.items()})
        return copy
    if type(value) is tuple:
        copy = known[id(value)] = tuple([_copied(entry, known) for entry in value])
        return copy
    raise TypeError(f"an argument of type {type(value).__name__}")
