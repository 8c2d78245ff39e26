"""What operations of this package have to do with derivatives."""

from __future__ import annotations

from copy import copy as shallow_copy

import drjit_core as core
from drjit_core import HUB, STRUCTURE, Flow, Node, Vertex, dual, primal, tracked, vertex_of

__all__ = ["Structure"]


class Structure:
    """What an operation has to do with derivatives whose operands are several vertices: the payload of its vertex (see
    :class:`drjit_core.Copy`)."""

    again = True
    name: str
    label: str

    def __init__(self, nodes: list[Node]) -> None:
        #: Of each operand, the vertex that derivatives are tracked for; without any, it is a constant.
        self.vertices: list[Vertex | None] = []
        self.operands: list[Node] = []
        inputs: dict[Vertex, None] = {}
        for node in nodes:
            vertex = tracked(node)
            if vertex is None:
                node = primal(node)
            else:
                inputs[vertex] = None
            self.vertices.append(vertex)
            self.operands.append(node)
        self.inputs = list(inputs)
        self.received: dict[int, Node] = {}
        self.sent: dict[int, Node] = {}
        self.outputs: list[tuple[int, int]] = []

    def attached(self, nodes: list[Node]) -> list[Node]:
        """The results, with their vertices."""
        hub = Vertex(HUB, 0, 1, info=self)
        hub.label = self.label
        self.outputs = [(node.type, node.size) for node in nodes]
        return [dual(node, Vertex(STRUCTURE["output"], node.type, node.size, hub, info=place))
                for place, node in enumerate(nodes)]

    def uses(self, place: int) -> tuple[bool, bool]:
        """Whether an input is read by index as a whole, and whether it is used in another way."""
        del place
        return False, True

    def nodes(self) -> list[Node]:
        """The values that the derivative needs."""
        return [primal(node) for node in self.operands]

    def kept(self, flow: Flow) -> list[Node]:
        """The operands, with their vertices if the derivative is differentiated."""
        return self.operands if flow.again else [primal(node) for node in self.operands]

    def changes(self, flow: Flow) -> list[Node | None]:
        """The changes of the operands."""
        return [flow.change(vertex) for vertex in self.vertices]

    def moved(self, copy: core.Copy) -> Structure:
        """A copy of the operation where other nodes and vertices stand for those that it has kept."""
        def linked(node: Node) -> Node:
            vertex = vertex_of(node)
            return copy.node(primal(node)) if vertex is None else dual(copy.node(primal(node)), copy.vertex(vertex))

        new = shallow_copy(self)
        new.operands = [linked(node) for node in self.operands]
        new.vertices = [vertex and copy.vertex(vertex) for vertex in self.vertices]
        new.inputs = [copy.vertex(vertex) for vertex in self.inputs]
        new.received, new.sent = {}, {}
        return new
