"""Derivatives through a call of a frozen function: recordings of what a traversal of its graph computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drjit_core as core
from drjit_core import BACKWARD, FORWARD_MODE, HUB, KIND, STRUCTURE, Flow, Node, Vertex, dual, literal, primal

from .._base.nodes import broadcast
from .again import Again

__all__ = ["Call", "traversed"]

_EVALUATED = KIND["evaluated"]


def traversed(mode: int, inputs: Sequence[Vertex], outputs: Sequence[Vertex], seeds: Sequence[Node]) -> list[Node]:
    """What derivatives of the outputs, or of the inputs, are on the other side; also of outputs that others are
    computed of."""
    if mode == BACKWARD:
        found, ends = core.pull(list(zip(outputs, seeds, strict=True)), inputs), inputs
    else:
        found, ends = core.push(list(zip(inputs, seeds, strict=True)), outputs), outputs
    return [literal(vertex.type, 0, vertex.size) if gradient is None else broadcast(primal(gradient), vertex.size)
            for vertex, gradient in zip(ends, found, strict=True)]


class Call:
    """A call in the graph of derivatives, as far as some results depend on some inputs: the payload of a vertex."""

    #: Derivatives of derivatives are those of the function when it is traced again.
    again = True

    def __init__(self, name: str, given: Sequence[Node], types: dict[int, list[tuple[int, int]]],
                 places: tuple[list[int], list[int]], inputs: Sequence[Vertex], results: Sequence[Node],
                 recordings: dict[int, core.Recording], failures: dict[int, str], retraced: Again | None,
                 compiles: bool) -> None:
        #: Types and sizes of all derivatives that a traversal of a mode begins with; which of all inputs and results
        #: these are.
        self.types, self.places = types, places
        self.name = name
        self.given = list(given)
        self.inputs = list(inputs)
        self.recordings, self.failures, self.retraced, self.compiles = recordings, failures, retraced, compiles
        self.outputs = [(node.type, node.size) for node in results]
        self.received: dict[int, Node] = {}
        self.sent: dict[int, Node] = {}

    def followed(self, results: Sequence[Node]) -> list[Node]:
        """The results with vertices that depend on the call. (It knows none of them: they would keep each other.)"""
        hub = Vertex(HUB, 0, 1, info=self)
        hub.label = self.name
        return [dual(node, Vertex(STRUCTURE["output"], node.type, node.size, hub, info=place))
                for place, node in enumerate(results)]

    @staticmethod
    def uses(place: int) -> tuple[bool, bool]:
        """Whether an input is read by index as a whole, and whether it is used in another way."""
        del place
        return False, True

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow from the results to the inputs."""
        inputs, outputs = self.places
        found: Any = None
        if not flow.again:
            found = self.replayed(BACKWARD, {outputs[place]: node for place, node in self.received.items()})
        if found is not None:
            for place, vertex in zip(inputs, self.inputs, strict=True):
                flow.bring(vertex, found[place], found[place].size)
            return
        vertices = self.vertices()
        gradients = core.pull([(vertices[outputs[place]], node) for place, node in self.received.items()],
                              self.inputs, again=flow.again)
        for vertex, gradient in zip(self.inputs, gradients, strict=True):
            if gradient is not None:
                flow.bring(vertex, gradient, gradient.size)

    def forward(self, flow: Flow) -> None:
        """Let changes flow from the inputs to the results."""
        inputs, outputs = self.places
        found: Any = None
        if not flow.again:
            found = self.replayed(FORWARD_MODE, {place: node for place, vertex in zip(inputs, self.inputs, strict=True)
                                                 if (node := flow.change(vertex)) is not None})
        if found is not None:
            self.sent.update({number: found[place] for number, place in enumerate(outputs)})
            return
        vertices = self.vertices()
        changes = [(vertex, node) for vertex in self.inputs if (node := flow.change(vertex)) is not None]
        moved = core.push(changes, [vertices[place] for place in outputs], again=flow.again)
        self.sent.update({number: node for number, node in enumerate(moved) if node is not None})

    def vertices(self) -> list[Vertex]:
        """The vertices of all results when the function is traced again."""
        if self.retraced is None:
            raise RuntimeError(f"drjit.freeze(): {self.name}() has no derivatives of derivatives, since it lets "
                               "derivatives of its arguments flow, changes their gradients, or makes variables that "
                               "its results depend on")
        return self.retraced.vertices(self.name)

    def replayed(self, mode: int, seeds: dict[int, Node]) -> list[Node] | None:
        """Launch what was recorded, with the derivatives where it begins; ``None`` if that is not good for this call,
        so that the function has to be traced again."""
        if mode not in self.recordings:
            raise RuntimeError(f"drjit.freeze(): {self.name}() has no derivative in this mode: {self.failures[mode]}")
        recording = self.recordings[mode]
        nodes = []
        for place, (type_, size) in enumerate(self.types[mode]):
            seed = seeds.get(place)
            node = literal(type_, 0, size) if seed is None else primal(seed)
            nodes.append(broadcast(node, size) if node.size == 1 else node)
        if not self.compiles:
            nodes = [core.filled(node, recording.where) for node in nodes]
        nodes = core.opaque_all(nodes, recording.where)
        seen = {node.payload for node in self.given if node.kind == _EVALUATED}
        for position, node in enumerate(nodes):  # each in memory of its own, as when it was recorded
            if node.payload in seen:
                nodes[position] = node = core.copied(node)
            seen.add(node.payload)
        arguments = [*self.given, *nodes]
        with core.evaluation_lock:  # between the question and the launches, the number of threads stays the same
            values = recording.terms(arguments) if core.pattern_of(arguments) == recording.pattern else \
                "its arguments are others"
            found = None if isinstance(values, str) else recording.run(arguments, values)
        if found is None and (self.retraced is None or not self.retraced.is_possible):
            raise RuntimeError(f"drjit.freeze(): the derivative of {self.name}() cannot be replayed: "
                               f"{values if isinstance(values, str) else core.UNLIKE_CONTENTS}")
        return found

    def nodes(self) -> list[Node]:
        """The values that it has kept."""
        return [primal(node) for node in self.given]

    def moved(self, copy: core.Copy) -> Call:
        """A copy of the call for other nodes: there is none in symbolic constructs."""
        raise AssertionError("frozen functions are traced into symbolic constructs")
