"""Derivatives of rows with structure that are registered: how a change of each operand carries over to the result, and
back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import NoDerivative
from ..ir.dual import primal
from ..ir.node import Node
from ..ir.structured import READS, has_derivative
from ..ir.trace import ops
from ..ir.vertex import Vertex
from ..types import TYPES
from .flow import Flow, full
from .structure import STRUCTURE, Gradients, Structure

__all__ = ["Derivative", "register"]


class Derivative(NamedTuple):
    """The derivative of a row by each of its operands, which are given by their places; all functions get the operands
    first, as the trace function had them."""

    #: What the result changes by if an operand changes; a change of memory has all its elements.
    forward: Callable[[Sequence[Node], int, Node], Node]
    #: What the gradient of the result says about an operand that is no memory.
    reverse: Callable[[Sequence[Node], int, Node], Node]
    #: What it says about memory: values that are added to its gradient, with an index and a mask each.
    scattered: Callable[[Sequence[Node], int, Node], Sequence[tuple[Node, Node, Node]]] | None = None


def register(name: str, derivative: Derivative) -> None:
    """Say how derivatives flow through a row that is registered."""
    has_derivative(name)

    def forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
        operands = _operands(flow, vertex)
        result = None
        for (_, place), gradient in zip(_differentiated(vertex), gradients, strict=False):
            if gradient is not None:
                change = full(gradient, operands[place].size) if place < READS[name] else gradient
                part = _checked(name, "forward", derivative.forward(operands, place, change), vertex.type,
                                max(vertex.size, gradient.size))
                result = part if result is None else ops.add(result, part)
        return result

    def reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
        operands = _operands(flow, vertex)
        for operand, place in _differentiated(vertex):
            if operand is None or not flow.takes(operand):
                continue
            if place >= READS[name]:
                part = _checked(name, "reverse", derivative.reverse(operands, place, gradient), operand.type,
                                max(vertex.size, gradient.size))
                flow.give(operand, part, vertex.size, True)
                continue
            if derivative.scattered is None:
                raise NoDerivative(f"the row '{name}' has no derivative by its memory: its Derivative has no "
                                   "'scattered'")
            for part, index, mask in derivative.scattered(operands, place, gradient):
                flow.scatter(operand, part, index, mask)

    STRUCTURE[name] = Structure(forward, reverse)


def _checked(name: str, function: str, found: Any, type_: int, size: int) -> Node:
    """What a function of a derivative has returned, if it is the change of something of some type and size."""
    if not isinstance(found, Node) or found.type != type_ or found.size not in (1, size):
        what = f"{TYPES[found.type].name}[{found.size}]" if isinstance(found, Node) else type(found).__name__
        raise TypeError(f"'{function}' of the derivative of the row '{name}' must return a node of the type "
                        f"{TYPES[type_].name} with 1 or {size} elements, found {what}")
    return found


def _differentiated(vertex: Vertex) -> Iterator[tuple[Vertex | None, int]]:
    """The operands that a vertex is about, and their places among those of the row."""
    first, second, third, *_ = vertex.info
    yield from ((operand, place) for operand, place in ((vertex.a, first), (vertex.b, second), (vertex.c, third))
                if place >= 0)


def _operands(flow: Flow, vertex: Vertex) -> list[Node]:
    """The operands of the row, as values of vertices if the derivative is differentiated."""
    _, _, _, *operands = vertex.info
    return operands if flow.again else [primal(operand) for operand in operands]
