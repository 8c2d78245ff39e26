"""The shapes of tensors in the state of symbolic loops.

Within a symbolic loop, what has one element before it has as many as the loop, and a number of elements tells no shape.
A tensor of one element has the shape there that it has in what the body returns; where the body leaves it a single
element, that of the condition. It is taken for granted that this is the shape of the other tensors; if that proves
wrong, the functions are called once more with the tensors as they are before the loop, which tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from drjit_core import Node, primal

from .._base.errors import ArgumentError
from .._trees.pytree import TreeSpec, joint_shape

__all__ = ["Reshaped", "Shapes", "changed_shape"]

Shape = tuple[int, ...]


class Reshaped(Exception):
    """Tensors in the state of a loop have other shapes than was assumed: trace again."""


class Shapes:
    """The shapes of tensors in the state of one loop, which has some of them."""

    def __init__(self, spec: TreeSpec, nodes: Sequence[Node]) -> None:
        self.spec = spec
        self.nodes = nodes
        #: The nodes of tensors with one element, by the positions of leaves.
        self.single: dict[int, int] = {}
        #: The shapes of other tensors.
        self.wide: set[Shape] = set()
        position = 0
        for leaf, _, shape, count, depth in spec.traced():
            if depth < 0 and math.prod(shape) == 1:
                self.single[leaf] = position
            elif depth < 0:
                self.wide.add(shape)
            position += count
        #: What is known of the former, by positions of leaves.
        self.found: dict[int, Shape] = {}
        #: Whether they are given to the functions as they are before the loop, to find out.
        self.apart = False
        # Of a trace:
        #: Which of them are wide, and have an unknown shape.
        self.open: list[int] = []
        #: What their shapes are assumed to be.
        self.assumed: dict[int, Shape] = {}
        self.size = 1
        #: The shape of the condition.
        self.lanes: Shape = ()

    def given(self, variables: list[Node]) -> tuple[list[Node], TreeSpec]:
        """The nodes and the structure of what the functions are given."""
        shapes = dict[int, Shape]()
        self.open, self.assumed = [], {}
        for leaf, position in self.single.items():
            size, shape = variables[position].size, self.found.get(leaf)
            if shape is not None and math.prod(shape) in (1, size):
                shapes[leaf] = shape
            if size != 1 and (shape is None or math.prod(shape) != size):
                self.open.append(leaf)
                self.size = size
        if self.open:
            others = self.others()
            self.apart = self.apart or len(others) > 1
            if self.apart:
                variables = variables.copy()
                for leaf in self.open:
                    variables[self.single[leaf]] = primal(self.nodes[self.single[leaf]])
            else:
                self.assumed = {leaf: self.broadcast(leaf, others) for leaf in self.open}
        return variables, self.spec.reshaped(shapes | self.assumed)

    def others(self) -> list[Shape]:
        """The shapes of other tensors that are as wide as the loop."""
        return [shape for shape in sorted(self.wide | {*self.found.values()}) if math.prod(shape) == self.size]

    def broadcast(self, leaf: int, shapes: Sequence[Shape]) -> Shape:
        """The shape of a tensor that is broadcast to the first of some, or to one dimension."""
        shape = self.found.get(leaf, ())
        if math.prod(shape) != 1:
            shape = ()
        shape = joint_shape(self.spec.leaf_specs()[leaf].shape, shape) or ()
        found = joint_shape(shape, shapes[0] if shapes else (self.size,))
        assert found is not None
        return found

    def note_condition(self, lanes: Shape) -> None:
        """Note the shape of the condition, with which an assumption must go."""
        self.lanes = lanes
        if self.assumed and not self.apart and math.prod(lanes) == self.size and \
                any(joint_shape(shape, lanes) is None for shape in self.assumed.values()):
            self.doubt()

    def doubt(self) -> None:
        """Find out what was assumed only; something has shown that it is wrong, or may have."""
        if self.assumed and not self.apart:
            self.apart = True
            raise Reshaped

    def note_results(self, given: TreeSpec, returned: TreeSpec, names: Sequence[str]) -> None:
        """Note the shapes of what the body returned; refuses those that change where they may not."""
        again = False
        for leaf, (before, after) in enumerate(zip(given.leaf_specs(), returned.leaf_specs(), strict=True)):
            if before.shape == after.shape:
                continue
            shape = joint_shape(before.shape, after.shape)
            if shape == before.shape:
                continue
            wider = shape is not None and math.prod(shape) != 1
            if shape is None or leaf not in self.single or math.prod(before.shape) != 1 or \
                    leaf in self.found and not wider:
                self.doubt()
                raise changed_shape(self.spec.paths(names)[leaf], before.shape, after.shape)
            self.found[leaf] = shape
            again |= leaf in self.open or not wider  # others become wider in the next trace anyway
        if self.open and not self.assumed and not again:
            again = True  # those that remain are single elements, of which each lane has one
            shapes = [self.lanes] if math.prod(self.lanes) == self.size else self.others()
            self.found |= {leaf: self.broadcast(leaf, shapes) for leaf in self.open}
        if again:
            raise Reshaped
        self.found |= self.assumed

    def after(self, nodes: Sequence[Node]) -> TreeSpec:
        """The structure of the state after the loop, given its nodes."""
        return self.spec.reshaped({leaf: shape for leaf, shape in self.found.items()
                                   if math.prod(shape) == nodes[self.single[leaf]].size})


def changed_shape(name: str, before: Shape, after: Shape) -> ArgumentError:
    return ArgumentError(f"drjit.while_loop(): the body of this loop changed the shape of the state variable '{name}' "
                         f"from {before} to {after}.")
