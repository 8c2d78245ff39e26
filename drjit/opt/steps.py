"""One parameter of an optimiser, and one step of it: what rules compute with.

Whatever changes from step to step reaches kernels as a parameter: numbers of a step are literals that are never
simplified upon, and have tags of their own, so that no two of them become one node because they happen to be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import drjit_core as core
from drjit_core import (
    COMPUTES_IN,
    KIND,
    LEAF,
    SHAPE,
    Extent,
    JitBackend,
    Node,
    Vertex,
    cast,
    dual,
    literal,
    ops,
    primal,
    vertex_of,
)

from .._base.array import ArrayBase
from .._base.errors import SizeError
from .._base.types import Record, lookup, reshape, retype
from .._functions.states import Place
from .._promotion.promote import wrap, wrap_like
from .schedules import Schedule

__all__ = ["LITERAL", "Nodes", "Number", "Parameter", "Rate", "Step", "dressed", "flat_type", "values_of"]

#: Tags of literals (see drjit_core.literal): each parameter has this many from here on.
_FIRST_TAG, _TAGS = 1 << 20, 4
#: What the tags of a parameter are for: the scale of its gradients, the length of a step, the decay of its values, and
#: the weight of that.
_SCALE, _LENGTH, _DECAY, _WEIGHT = range(_TAGS)
LITERAL = KIND["literal"]

#: What has one value for all elements: numbers, and those of a recording.
_NUMBERS = float, Extent

#: What a parameter knows of its derivatives, which no pickle has.
_COMPUTED = frozenset(("attached", "duals", "powers", "slope", "vertices"))

Nodes = list[Node]
#: A learning rate.
Rate = float | ArrayBase | Schedule


class Parameter:
    """A parameter: its value, and what an optimiser keeps for it."""

    __slots__ = ("attached", "cls", "duals", "form", "name", "powers", "rate", "serial", "shared", "slope", "state",
                 "steps", "value", "vertices")

    def __init__(self, name: str, cls: Any, value: Any, serial: int, form: Any = None) -> None:
        self.name = name
        #: An array of another package (see drjit._trees.classes) like those that the program sees, where it does.
        self.form = form
        #: The type that the program sees.
        self.cls = cls
        #: The value in the type that is stored, without derivatives.
        self.value = value
        #: The learning rate, where this parameter has its own.
        self.rate: Rate | None = None
        #: What the rule of the optimiser keeps: arrays like the value, and arrays of one element.
        self.state: dict[str, Any] = {}
        self.shared: dict[str, Any] = {}
        #: Steps since the state was reset.
        self.steps = 0
        self.serial = serial
        self.attach()

    def attach(self) -> None:
        """Become a variable without a gradient."""
        self.vertices = [Vertex(LEAF, self.cls._type, node.size) for node in self.value._nodes()]
        #: What stands for the steps in arrays, once that has been asked for: their number, arrays by name, and what
        #: these hold.
        self.powers: tuple[int, dict[str, Any], Nodes] | None = None
        #: The ids of the components that they belong to.
        self.attached = [node.id for node in values_of(self.value)]
        #: The components as the program sees them, with their vertices, once they have been asked for.
        self.duals: Nodes = []
        #: The gradients of the vertices, an array of these, and what it holds, once it has been asked for.
        self.slope: tuple[list[Any], Any, Nodes] | None = None

    @property
    def promoted(self) -> bool:
        """Whether the value is stored in a higher precision than the program sees."""
        return bool(self.value._type != self.cls._type)

    def array(self) -> Any:
        """The value as it is handed out: a variable of the type that the program sees."""
        nodes = self.duals
        if not nodes:
            self.duals = nodes = [dual(cast(node, self.cls._type), vertex) for node, vertex in
                                  zip(values_of(self.value), self.vertices, strict=True)]
        array = wrap_like(self.value, self.cls, nodes)
        return array if self.form is None else dressed(self.form, array)

    def counted(self) -> dict[str, Any] | None:
        """What stands for the steps in arrays, as far as that is known."""
        if self.powers is None or self.powers[0] != self.steps:
            return None
        _, arrays, nodes = self.powers
        return arrays if [array._nodes()[0] for array in arrays.values()] == nodes else None

    def gradients(self) -> Nodes:
        """The gradients of the components, in the type that the program sees; of one element, if all have the same."""
        return [literal(vertex.type, 0) if vertex.gradient is None else primal(vertex.gradient)
                for vertex in self.vertices]

    def gradient(self) -> Any:
        """The gradient as an array of the type that the program sees: the same one, as long as it is the same."""
        nodes = [vertex.gradient for vertex in self.vertices]
        if self.slope is None or self.slope[0] != nodes:
            values = [literal(vertex.type, 0, vertex.size) if node is None else primal(node)
                      for node, vertex in zip(nodes, self.vertices, strict=True)]
            self.slope = nodes, wrap_like(self.value, self.cls, values), values
        return self.slope[1]

    def follow(self, old: Parameter, gradient: Any) -> None:
        """Have the gradient that an array tells: with the vertices of an old one, if nothing has changed."""
        nodes = values_of(gradient)
        if [node.id for node in values_of(self.value)] == old.attached and old.slope is not None and \
                gradient is old.slope[1] and old.gradient() is gradient and nodes == old.slope[2]:
            self.vertices, self.duals, self.slope = old.vertices, old.duals, old.slope
            return
        for vertex, node in zip(self.vertices, nodes, strict=True):
            vertex.gradient = None if node.kind == LITERAL and not node.payload else node

    def shape(self) -> tuple[Any, ...]:
        """Equal for parameters of one type and shape."""
        return self.cls, type(self.form), type(self.value), tensor_shape(self.value), \
            [node.size for node in self.value._nodes()]

    def take(self, nodes: Nodes) -> None:
        """Hold others, values and vertices; a value of higher precision is what it is."""
        before = self.duals
        if nodes == before:
            return
        values = [primal(node) for node in nodes]
        if not self.promoted and values != [primal(node) for node in before]:
            self.value = wrap_like(self.value, type(self.value), values)
        self.duals, self.attached = list(nodes), [node.id for node in values_of(self.value)]
        self.vertices = [vertex_of(node) or Vertex(LEAF, node.type, node.size) for node in nodes]

    def become(self, other: Parameter) -> None:
        """Be what another one is."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name not in _COMPUTED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.attach()


def dressed(form: Any, array: Any) -> Any:
    """An array in the form of an array of another package, if there is one."""
    return array if form is None else form.__drjit_rebuild__({next(iter(form.__drjit_children__())): array})


def values_of(array: Any) -> Nodes:
    """The component nodes of an array, without derivatives."""
    return [primal(node) for node in array._nodes()]


def tensor_shape(array: Any) -> tuple[int, ...] | None:
    return array.shape if array._depth < 0 else None


class Number:
    """A number on the device: a variable as optimisers have them (see ``__drjit_variables__``)."""

    __slots__ = ("cls", "form", "name", "node", "rate", "shared", "state", "steps")

    promoted = False

    def __init__(self, name: str, type_: int, value: Any, backend: JitBackend = JitBackend.LLVM) -> None:
        self.name, self.node = name, core.opaque(literal(type_, value), backend.value)
        self.cls: Any = lookup(Record(backend, type_, "array", ()))
        self.form = self.rate = None
        self.state: dict[str, Any] = {}
        self.shared: dict[str, Any] = {}
        self.steps = 0

    def belong(self, cls: Any) -> None:
        """Go with arrays of a class: belong to their backend.  Where it is another one, that waits for the device."""
        if self.cls._where != cls._where:
            name, type_, value, _ = self.__getstate__()
            self.__setstate__((name, type_, value, JitBackend(cls._where)))

    def array(self) -> Any:
        """An array that holds it."""
        return wrap(self.cls, [self.node])

    def take(self, nodes: list[Node]) -> None:
        """Hold what an array holds."""
        (self.node,) = nodes

    def count(self, active: Node | None) -> None:
        """Be larger by one, if a mask is set or there is none."""
        more = ops.add(self.node, literal(self.node.type, 1))
        self.node = more if active is None else ops.select(active, more, self.node)

    def place(self) -> Place:
        """The number as a part of a state: reading it waits for the device."""
        def put(value: Any) -> None:
            self.node = core.opaque(literal(self.node.type, value), self.cls._where)

        return Place(core.read_element(self.node, 0), put)

    def __getstate__(self) -> tuple[str, int, Any, JitBackend]:
        return self.name, self.cls._type, core.read_element(self.node, 0), JitBackend(self.cls._where)

    def __setstate__(self, state: tuple[str, int, Any, JitBackend]) -> None:
        self.__init__(*state)  # type: ignore[misc]


class Step:
    """One step of one parameter, as the rules of optimisers see it.

    Nodes are those of the components, in the type that is computed in: single precision, if half precision is stored. A
    rule puts new ones in the place of those in ``values``, ``state`` and ``shared``.
    """

    def __init__(self, function: str, parameter: Parameter, rate: Any, scale: Any,
                 active: Node | None) -> None:
        self.function, self.parameter, self.active = function, parameter, active
        self.type = COMPUTES_IN[parameter.value._type]
        self.values = self.nodes(parameter.value)
        self.gradients = [self.cast(node) for node in parameter.gradients()]
        if scale is not None:
            scales = [self.number(scale, _SCALE)] * len(self.values) if isinstance(scale, _NUMBERS) else \
                self._spread(scale, "the argument 'grad_scale'", _SCALE)
            self.gradients = [ops.mul(*pair) for pair in zip(self.gradients, scales, strict=True)]
        self.rate = rate if isinstance(rate, _NUMBERS) else self._spread(rate, "the learning rate", _LENGTH)
        #: What the rule keeps, by name: for each component, and of one element.
        self.state = {name: self.nodes(array) for name, array in parameter.state.items()}
        self.shared = {name: primal(array._nodes()[0]) for name, array in parameter.shared.items()}
        #: The number of this step, from 1 on, as far as the host knows.
        self.count = parameter.steps + 1

    def cast(self, node: Node) -> Node:
        """A node in the type that is computed in."""
        return node if node.type == self.type else cast(node, self.type)

    def nodes(self, array: Any) -> Nodes:
        """The components of an array in the type that is computed in."""
        return [self.cast(node) for node in values_of(array)]

    def number(self, value: Any, what: int, type_: int = 0) -> Node:
        """A number that may change from step to step; ``what`` tells those of a parameter apart."""
        if isinstance(value, Extent):
            return core.bound(type_ or self.type, value)
        return literal(type_ or self.type, value, 1, SHAPE, tag=_FIRST_TAG + self.parameter.serial * _TAGS + what)

    def constant(self, value: float) -> Node:
        """A number that does not change."""
        return literal(self.type, value)

    def _spread(self, array: Any, what: str, tag: int) -> Nodes:
        """An array of the user's as one node for each component."""
        value = self.parameter.value
        nodes = values_of(array)
        if len(nodes) == 1:
            nodes = nodes * len(self.values)
        shapes = tensor_shape(array), tensor_shape(value)
        if len(nodes) != len(self.values) or (shapes[0] != shapes[1] and None not in shapes and nodes[0].size != 1) or \
                any(node.size not in (1, own.size) for node, own in zip(nodes, self.values, strict=True)):
            raise SizeError(f"{self.function}(): {what} does not fit the parameter {self.parameter.name!r}: an array "
                            f"of the shape {array.shape} goes with one of the shape {value.shape} only if they are "
                            "equal, or if it has one element.")
        return [self.number(node.payload, tag) if node.kind == LITERAL and node.size == 1 else self.cast(node)
                for node in nodes]

    # --- what rules do -----------------------------------------------------------------------------------------------

    def length(self, factor: float | Node | None = None, what: int = _LENGTH) -> Nodes:
        """The learning rate, times a factor, with a minus sign: what a direction is multiplied by."""
        count = len(self.values)
        if isinstance(factor, Node):
            if isinstance(self.rate, _NUMBERS):
                return [self.cast(ops.mul(factor, self.number(-self.rate, what, factor.type)))] * count
            other = ops.neg(self.cast(factor))
        elif isinstance(self.rate, _NUMBERS):
            return [self.number(-self.rate * (1.0 if factor is None else factor), what)] * count
        elif factor is None:
            return [ops.neg(node) for node in self.rate]
        else:
            other = self.number(-factor, what)
        return [ops.mul(node, other) for node in self.rate]

    def descend(self, direction: Nodes, factor: float | Node | None = None) -> None:
        """Go from the values along a direction, by the learning rate times a factor."""
        self.values = [ops.fma(length, node, value) for length, node, value in zip(
            self.length(factor), direction, self.values, strict=True)]

    def decay(self, weight: Any) -> None:
        """Subtract from the values their part ``learning rate * weight``; a dictionary has the weights of parameters by
        their names, or by functions of names."""
        if isinstance(weight, Mapping):
            name = self.parameter.name
            found = [value for key, value in weight.items() if key == name or callable(key) and key(name)]
            if not found:
                return
            weight = found[-1]
        if isinstance(weight, ArrayBase):
            lengths = [ops.mul(*pair) for pair in zip(self.length(None, _DECAY), self._spread(
                weight, "the weight decay", _WEIGHT), strict=True)]
        else:
            lengths = self.length(weight, _DECAY)
        self.values = [ops.fma(length, value, value) for length, value in zip(lengths, self.values, strict=True)]

    def average(self, name: str, weight: float, samples: Nodes) -> Nodes:
        """Let an exponential moving average that the state keeps go on; ``weight`` is that of the past."""
        old, new = self.constant(weight), self.constant(1 - weight)
        self.state[name] = [ops.fma(old, past, ops.mul(new, sample)) for past, sample in zip(
            self.state[name], samples, strict=True)]
        return self.state[name]

    # --- when they are done ------------------------------------------------------------------------------------------

    def keep(self, masked: bool) -> None:
        """Leave as it was what takes no part in the step: all, if it is not active; what has a zero gradient, if that
        is wanted."""
        masks: list[Node | None] = [self.active] * len(self.values)
        if masked:
            changing = [ops.neq(node, literal(node.type, 0)) for node in self.gradients]
            masks = list(changing) if self.active is None else [ops.and_(self.active, node) for node in changing]
        if masked or self.active is not None:
            self.values = _selected(masks, self.values, self.nodes(self.parameter.value))
            for name, array in self.parameter.state.items():
                self.state[name] = _selected(masks, self.state[name], self.nodes(array))

    def finish(self) -> None:
        """Let the parameter have what the step has made."""
        parameter = self.parameter
        value = parameter.value
        parameter.state = {name: self._stored(value, nodes) for name, nodes in self.state.items()}
        parameter.shared = {name: wrap(flat_type(type(value), node.type), [node]) for name, node in self.shared.items()}
        parameter.value = self._stored(value, self.values)
        parameter.steps += 1
        parameter.attach()

    @staticmethod
    def _stored(like: Any, nodes: Nodes) -> Any:
        return wrap_like(like, type(like), [node if node.type == like._type else cast(node, like._type)
                                            for node in nodes])


def _selected(masks: list[Any], new: Nodes, old: Nodes) -> Nodes:
    return [ops.select(*nodes) for nodes in zip(masks, new, old, strict=True)]


def flat_type(cls: type[ArrayBase], scalar: int) -> type[ArrayBase]:
    """The flat array type of the package of a type, of a scalar type."""
    return retype(reshape(cls, ()), scalar)
