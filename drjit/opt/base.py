"""What all optimisers have in common: parameters by name, learning rates, and steps.

A parameter is stored without derivatives, as a plain array (half precision as single precision, if that is wanted),
with one vertex of the graph of derivatives for each of its components. What is handed out joins the two; a step reads
the gradients of the vertices, and replaces both. So what a program does to an array that it was handed stays there.

Whatever changes from step to step reaches kernels as a parameter: numbers of a step are literals that are never
simplified upon, and have tags of their own, so that no two of them become one node because they happen to be equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, ClassVar, Literal

import drjit_core as core
from drjit_core import COMPUTES_IN, LEAF, SHAPE, Node, Vertex, cast, dual, literal, ops, primal, vertex_of

from .._ad.arrays import differentiable
from .._base.arguments import require_float
from .._base.array import ArrayBase
from .._base.errors import RangeError, SizeError, describe
from .._base.types import reshape, retype
from .._base.values import plain_scalar
from .._functions.evaluation import copy
from .._promotion.promote import wrap, wrap_like
from .._trees.classes import sole_array

__all__ = ["Nodes", "Optimizer", "Parameter", "Step", "require_between"]

#: Tags of literals (see drjit_core.literal): each parameter has this many from here on.
_FIRST_TAG, _TAGS = 1 << 20, 4
#: What the tags of a parameter are for: the scale of its gradients, the length of a step, the decay of its values.
_SCALE, _LENGTH, _DECAY = range(3)
_LITERAL = core.KIND["literal"]

Nodes = list[Node]
#: A learning rate.
Rate = float | ArrayBase


class Parameter:
    """A parameter: its value, and what an optimiser keeps for it."""

    __slots__ = ("cls", "duals", "form", "name", "rate", "serial", "shared", "state", "steps", "value", "vertices")

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
        #: The components as the program sees them, with their vertices, once they have been asked for.
        self.duals: Nodes = []

    def array(self) -> Any:
        """The value as it is handed out: a variable of the type that the program sees."""
        nodes = self.duals
        if not nodes:
            self.duals = nodes = [dual(cast(node, self.cls._type), vertex) for node, vertex in
                                  zip(values_of(self.value), self.vertices, strict=True)]
        return _dressed(self.form, wrap_like(self.value, self.cls, nodes))

    def gradients(self) -> Nodes:
        """The gradients of the components, in the type that the program sees; of one element, if all have the same."""
        return [literal(vertex.type, 0) if vertex.gradient is None else primal(vertex.gradient)
                for vertex in self.vertices]

    def shape(self) -> tuple[Any, ...]:
        """Equal for parameters of one type and shape."""
        return self.cls, type(self.form), type(self.value), _tensor_shape(self.value), \
            [node.size for node in self.value._nodes()]

    def take(self, nodes: Nodes) -> None:
        """Hold others, values and vertices, as if the program had assigned them."""
        if nodes == self.duals:
            return
        values = list(map(primal, nodes))
        if values != list(map(primal, self.duals)):
            type_ = self.value._type
            self.value = wrap_like(self.value, type(self.value), [cast(node, type_) for node in values])
        self.duals = list(nodes)
        self.vertices = [vertex_of(node) or Vertex(LEAF, node.type, node.size) for node in nodes]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name not in ("duals", "vertices")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.attach()


def _dressed(form: Any, array: Any) -> Any:
    """An array in the form of an array of another package, if there is one."""
    return array if form is None else form.__drjit_rebuild__({next(iter(form.__drjit_children__())): array})


def values_of(array: Any) -> Nodes:
    """The component nodes of an array, without derivatives."""
    return [primal(node) for node in array._nodes()]


def _tensor_shape(array: Any) -> tuple[int, ...] | None:
    return array.shape if array._depth < 0 else None


def _copied(array: Any) -> Any:
    """The same values without derivatives, in an array of one's own."""
    return wrap_like(array, type(array), values_of(array))


class Step:
    """One step of one parameter, as the rules of optimisers see it.

    Nodes are those of the components, in the type that is computed in: single precision, if half precision is stored. A
    rule puts new ones in the place of those in ``values``, ``state`` and ``shared``.
    """

    def __init__(self, function: str, parameter: Parameter, rate: Rate, scale: Any, active: Node | None) -> None:
        self.function, self.parameter, self.active = function, parameter, active
        self.type = COMPUTES_IN[parameter.value._type]
        self.values = self.nodes(parameter.value)
        self.gradients = [self.cast(node) for node in parameter.gradients()]
        if scale is not None:
            scales = [self.number(scale, _SCALE)] * len(self.values) if isinstance(scale, float) else \
                self._spread(scale, "the argument 'grad_scale'", _SCALE)
            self.gradients = [ops.mul(*pair) for pair in zip(self.gradients, scales, strict=True)]
        self.rate = rate if isinstance(rate, float) else self._spread(rate, "the learning rate", _LENGTH)
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

    def number(self, value: float, what: int, type_: int = 0) -> Node:
        """A number that may change from step to step; ``what`` tells those of a parameter apart."""
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
        shapes = _tensor_shape(array), _tensor_shape(value)
        if len(nodes) != len(self.values) or (shapes[0] != shapes[1] and None not in shapes and nodes[0].size != 1) or \
                any(node.size not in (1, own.size) for node, own in zip(nodes, self.values, strict=True)):
            raise SizeError(f"{self.function}(): {what} does not fit the parameter {self.parameter.name!r}: an array "
                            f"of the shape {array.shape} goes with one of the shape {value.shape} only if they are "
                            "equal, or if it has one element.")
        return [self.number(node.payload, tag) if node.kind == _LITERAL and node.size == 1 else self.cast(node)
                for node in nodes]

    # --- what rules do -----------------------------------------------------------------------------------------------

    def length(self, factor: float | Node | None = None, what: int = _LENGTH) -> Nodes:
        """The learning rate, times a factor, with a minus sign: what a direction is multiplied by."""
        count = len(self.values)
        if isinstance(factor, Node):
            if isinstance(self.rate, float):
                return [self.cast(ops.mul(factor, self.number(-self.rate, what, factor.type)))] * count
            other = ops.neg(self.cast(factor))
        elif isinstance(self.rate, float):
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

    def decay(self, weight: float) -> None:
        """Subtract from the values their part ``learning rate * weight``."""
        self.values = [ops.fma(length, value, value) for length, value in zip(
            self.length(weight, _DECAY), self.values, strict=True)]

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
        parameter.shared = {name: wrap(_flat(type(value), node.type), [node]) for name, node in self.shared.items()}
        parameter.value = self._stored(value, self.values)
        parameter.steps += 1
        parameter.attach()

    @staticmethod
    def _stored(like: Any, nodes: Nodes) -> Any:
        return wrap_like(like, type(like), [node if node.type == like._type else cast(node, like._type)
                                            for node in nodes])


def _selected(masks: list[Any], new: Nodes, old: Nodes) -> Nodes:
    return [ops.select(*nodes) for nodes in zip(masks, new, old, strict=True)]


def _flat(cls: type[ArrayBase], scalar: int) -> type[ArrayBase]:
    """The flat array type of the package of a type, of a scalar type."""
    return retype(reshape(cls, ()), scalar)


def require_between(function: str, name: str, value: Any, least: float, below: float = math.inf) -> float:
    """An argument that must be a finite number from ``least`` on, and below ``below``."""
    found = require_float(function, name, value)
    if not least <= found < below:
        wanted = f"in [{least:g}, {below:g})" if below < math.inf else "finite" if found > least else f">= {least:g}"
        raise RangeError(f"{function}(): '{name}' must be {wanted}, found {value!r}.")
    return found


def _learning_rate(function: str, what: str, value: Any) -> Rate:
    """A learning rate as it is kept."""
    found = _factor(function, what, value)
    if isinstance(found, float) and not 0 <= found < math.inf:
        raise RangeError(f"{function}(): {what} must be {'finite' if found > 0 else '>= 0'}, found {value!r}.")
    return found


def _factor(function: str, what: str, value: Any) -> Rate:
    """What gradients are multiplied by: a number, or an array that fits the parameters."""
    if isinstance(value, ArrayBase) and value._dynamic and value._kind != "b":
        return _copied(value)  # type: ignore[no-any-return]
    found = None if isinstance(value, (bool, ArrayBase)) else plain_scalar(value)
    if found is None:
        raise TypeError(f"{function}(): {what} must be a number or an array of numbers, found {describe(value)}.")
    return float(found)


class Optimizer(MutableMapping[str, Any]):
    """Base class of optimisers: parameters by name, their learning rates, and what steps have in common.

    An optimiser is a dictionary of parameters, which are arrays of floating-point numbers of types that track
    derivatives (``drjit.*.ad``): flat and nested arrays, tensors, and matrices, quaternions and complex numbers, which
    are optimised component by component, and real arrays of ``drjit.array_api``. It owns them: what it is given is
    copied (without copying memory), and what it returns is a variable, with a gradient of its own since the last step.
    :meth:`step` reads that gradient and changes the parameter; arrays fetched earlier stay as they are, and changing
    them in place changes no parameter. Parameters may be added, assigned and deleted at any time.

    - ``lr`` is the learning rate, a number from 0 on or an array that is broadcast to parameters;
      :meth:`set_learning_rate` changes it, for all of them or for one.
    - ``params`` is a dictionary of parameters to begin with.
    - ``mask_updates`` leaves elements alone whose gradient is zero: neither they nor what the optimiser keeps for them
      (their momentum, say) change. Useful where a step sees a part of a parameter only.
    - ``promote_fp16`` stores parameters of half precision, and what is kept for them, in single precision. Programs
      still see half precision: it is rounded when they fetch it, so that small steps add up. Otherwise half precision
      is stored. Either way a step computes in single precision.

    Derived classes say how a step is made: use one of them. All parameters of one size take their step in one
    kernel, which is the same in each iteration. An optimiser is a PyTree of what it stores (for ``dr.eval``,
    ``dr.copy``, loops: with ``eval=False``, and Adam in evaluated ones only, since the host counts its steps), and may
    be pickled.

    >>> from drjit.llvm.ad import Float
    >>> from drjit.opt import SGD
    >>> opt = SGD(lr=0.25, params={"x": Float(1, 2)})
    >>> x = opt["x"]
    >>> dr.backward(x * x)
    >>> opt.step()
    >>> opt["x"], x
    ([0.5, 1], [1, 2])
    """

    #: Names of the arrays that the rule keeps for each component, zero at first.
    _slots: tuple[str, ...] = ()
    #: Whether the rule asks for the number of a step.
    _counts: ClassVar[bool] = False
    #: Attributes to show.
    _options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, lr: float | ArrayBase, params: Mapping[str, Any] | None = None, *,
                 mask_updates: bool = False, promote_fp16: bool = True) -> None:
        self._rate = _learning_rate(describe(type(self)), "'lr'", lr)
        self.mask_updates, self.promote_fp16 = bool(mask_updates), bool(promote_fp16)
        self._parameters: dict[str, Parameter] = {}
        self._registered = 0
        if params is not None:
            for key, value in _items(describe(type(self)), params):
                self[key] = value

    @property
    def lr(self) -> float | ArrayBase:
        """The learning rate of all parameters that have none of their own: see :meth:`learning_rate`.

        >>> from drjit.opt import SGD
        >>> SGD(lr=0.5).lr
        0.5
        """
        return self._rate

    @property
    def state(self) -> dict[str, tuple[Any, ...]]:
        """What is kept for each parameter, by name: the value in the precision that it is kept in, whether that is
        higher than the program's, the learning rate of its own (or None), and what the rule of the optimiser keeps: one
        array, or several as a tuple, or None. Those of Adam are the number of steps and the averages of gradients and
        of their squares (and the largest of the latter, or None).

        >>> from drjit.llvm.ad import Float
        >>> dr.opt.SGD(lr=1, params={"x": Float(1, 2)}).state
        {'x': ([1, 2], False, None, None)}
        """
        return {name: (_copied(found.value), found.value._type != found.cls._type, found.rate, self._of_rule(found))
                for name, found in self._parameters.items()}

    def _of_rule(self, found: Parameter) -> Any:
        """What the rule keeps for a parameter, as programs see it."""
        return next(iter(found.state.values()), None)

    # --- a dictionary of parameters ----------------------------------------------------------------------------------

    def _method(self, name: str) -> str:
        return f"{describe(type(self))}.{name}"

    def _find(self, method: str, key: Any) -> Parameter:
        found = self._parameters.get(key)
        if found is None:
            names = ", ".join(map(repr, self._parameters)) or "none"
            raise KeyError(f"{self._method(method)}(): there is no parameter {key!r} (found: {names}).")
        return found

    def _check(self, key: str, value: Any) -> None:
        """Raise, if a value cannot be a parameter."""

    def __contains__(self, key: object, /) -> bool:
        """Whether there is a parameter of a name."""
        return key in self._parameters

    def __len__(self) -> int:
        """The number of parameters."""
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __getitem__(self, key: str, /) -> Any:
        """The value of a parameter: a variable, whose gradient the next step follows."""
        return self._find("__getitem__", key).array()

    def __setitem__(self, key: str, value: Any, /) -> None:
        """Change the value of a parameter, or add one.

        What is kept for a parameter (momentum and the like) stays, unless its type or shape changes. Evaluates nothing,
        except that constants are put in memory. Raises a ``TypeError`` for anything but arrays that can track
        derivatives, and a ``RuntimeError`` for empty ones.
        """
        found = self._made(key, value)
        self._parameters[found.name] = found

    def _made(self, key: Any, value: Any) -> Parameter:
        """A parameter with a new value, to take the place of the one of that name if there is one."""
        function = self._method("__setitem__")
        if not isinstance(key, str):
            raise TypeError(f"{function}(): the name of a parameter must be a str, found {describe(key)}.")
        form, value = value, sole_array(value)
        if not differentiable(value):
            value = form
            hint = "" if not isinstance(value, ArrayBase) or value._kind != "f" or not value._dynamic else \
                " Types of the same name in drjit.*.ad do."
            if not isinstance(value, ArrayBase):
                hint = " The arrays of a PyTree are parameters of their own, each by its name."
            raise TypeError(f"{function}(): the parameter {key!r} must be an array or a tensor of floating-point "
                            f"numbers that can track derivatives, found {describe(value)}.{hint}")
        if any(not node.size for node in value._nodes()) or not value._nodes():
            raise SizeError(f"{function}(): the parameter {key!r} is empty.")
        self._check(key, value)
        cls = type(value)
        promoted = retype(cls, COMPUTES_IN[value._type]) if self.promote_fp16 else cls
        nodes = values_of(value)
        if form is not value:  # of a constant, which takes no memory
            form = _dressed(form, wrap_like(value, cls, [literal(node.type, 0, node.size) for node in nodes]))
        nodes = [cast(node, promoted._type) for node in nodes]
        # constants in memory: the kernel of the first step is that of all others
        stored = wrap_like(value, promoted, [core.opaque(node, promoted._where) if node.kind == _LITERAL else node
                                             for node in nodes])
        old = self._parameters.get(key)
        serial = self._registered if old is None else old.serial
        self._registered += old is None
        found = Parameter(key, cls, stored, serial, None if form is value else form)
        if old is not None:
            found.rate = old.rate
        if old is not None and old.shape() == found.shape():
            found.state, found.shared, found.steps = old.state, old.shared, old.steps
        else:
            self._clear(found)
        return found

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a parameter, which is added first if there is none of that name.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> x = SGD(lr=1).setdefault("x", Float(1))
        >>> x, dr.grad_enabled(x)
        ([1], True)
        """
        if key not in self:
            self[key] = default
        return self[key]

    def __delitem__(self, key: str, /) -> None:
        """Remove a parameter, and what is kept for it."""
        self._find("__delitem__", key)
        del self._parameters[key]

    def keys(self) -> Iterator[str]:  # type: ignore[override]
        """The names of the parameters, one after the other.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> list(SGD(lr=1, params={"x": Float(1), "y": Float(2, 3)}).keys())
        ['x', 'y']
        """
        return iter(self)

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """The values of the parameters, one after the other.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> list(SGD(lr=1, params={"x": Float(1), "y": Float(2, 3)}).values())
        [[1], [2, 3]]
        """
        return (self[key] for key in self)

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        """Names and values of the parameters, one after the other.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> list(SGD(lr=1, params={"x": Float(1), "y": Float(2, 3)}).items())
        [('x', [1]), ('y', [2, 3])]
        """
        return ((key, self[key]) for key in self)

    def update(self, params: Any = None, **args: Any) -> None:  # type: ignore[override]
        """Assign several parameters: those of a dictionary, then those given by name.

        What is known for a parameter of the same type and shape stays (momentum and the like), see :meth:`reset`. If a
        value cannot be a parameter, nothing changes.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> opt = SGD(lr=1)
        >>> opt.update({"x": Float(1)}, y=Float(2, 3))
        >>> opt["x"], opt["y"]
        ([1], [2, 3])
        """
        given = [] if params is None else list(self._accepted(_items(self._method("update"), params)))
        found = [self._made(key, value) for key, value in (*given, *args.items())]
        self._parameters.update({parameter.name: parameter for parameter in found})

    def _accepted(self, items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
        """Those of many parameters that an optimiser of this class is for."""
        return items

    # Two optimisers with equal parameters are not the same, and arrays have no truth value.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        rates = {"default": self._rate} | {
            name: found.rate for name, found in self._parameters.items() if found.rate is not None}
        count = sum(math.prod(found.value.shape) for found in self._parameters.values())
        shown = {"parameters": list(self._parameters), "total_count": count, "lr": rates,
                 **{name: getattr(self, name) for name in (*self._options, "mask_updates", "promote_fp16")}}
        return f"{type(self).__name__}[\n" + ",\n".join(f"  {name} = {value}" for name, value in shown.items()) + "\n]"

    # --- learning rates ----------------------------------------------------------------------------------------------

    def learning_rate(self, key: str | None = None) -> float | ArrayBase | None:
        """The default learning rate, or that of a parameter: ``None``, if it has none of its own.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> opt = SGD(lr=1, params={"x": Float(1)})
        >>> opt.learning_rate(), opt.learning_rate("x")
        (1.0, None)
        """
        rate = self._rate if key is None else self._find("learning_rate", key).rate
        return _copied(rate) if isinstance(rate, ArrayBase) else rate

    def set_learning_rate(self, value: Any = None, /, **kwargs: Any) -> None:
        """Set the default learning rate (a number or an array), or those of parameters (a dictionary, or by name).

        The learning rate of a parameter comes before the default; ``None`` removes it. Kernels stay the same. Raises a
        ``KeyError`` for names that are no parameters, and changes nothing then.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> opt = SGD(lr=1, params={"x": Float(1), "y": Float(2)})
        >>> opt.set_learning_rate(0.5)
        >>> opt.set_learning_rate({"x": 0.25}, y=0.125)
        >>> opt.set_learning_rate(y=None)
        >>> opt.learning_rate(), opt.learning_rate("x"), opt.learning_rate("y")
        (0.5, 0.25, None)
        """
        function = self._method("set_learning_rate")
        default, rates = self._rate, dict(kwargs)
        if isinstance(value, Mapping):
            rates = {**value, **rates}
        elif value is not None:
            default = _learning_rate(function, "the learning rate", value)
        found = [(self._find("set_learning_rate", key), None if rate is None else _learning_rate(
            function, f"the learning rate of {key!r}", rate)) for key, rate in rates.items()]
        self._rate = default
        for parameter, rate in found:
            parameter.rate = rate

    # --- steps -------------------------------------------------------------------------------------------------------

    def _advance(self, step: Step) -> None:
        """Make a step: the rule of a derived class."""
        raise NotImplementedError(f"{step.function}(): {describe(type(self))} holds parameters, and does not say how "
                                  "steps are made: use drjit.opt.SGD, RMSProp, Adam, AdamW or Muon.")

    def step(self, *, eval: bool = True, grad_scale: float | ArrayBase | None = None,
             active: Any = None) -> None:
        """Change all parameters by their gradients, which are zero afterwards.

        - ``eval``: whether to evaluate parameters and all else that has changed, in one kernel for all parameters of
          one size. Otherwise parameters are evaluated when they are needed, so that what is computed from them can
          share the kernel; what else the optimiser keeps is evaluated with the next evaluation of anything.
        - ``grad_scale``: gradients are multiplied by this number or array first.
        - ``active``: ``False``, or an array of one element that is false, keeps parameters and state as they are.

        Raises a ``RuntimeError`` where an array does not fit a parameter. If it raises, nothing has changed.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> opt = SGD(lr=0.25, params={"x": Float(1, 2)})
        >>> dr.set_grad(opt["x"], Float(4, 0))
        >>> opt.step(grad_scale=0.5)
        >>> opt["x"], opt["x"].grad
        ([0.5, 2], [0, 0])
        """
        function = self._method("step")
        mask = _mask(function, active)
        scale = None if grad_scale is None else _factor(function, "'grad_scale'", grad_scale)
        found = list(self._parameters.values())
        if mask is False:
            for parameter in found:
                parameter.attach()
            return
        steps = []
        for parameter in found:
            step = Step(function, parameter, self._rate if parameter.rate is None else parameter.rate, scale, mask)
            self._advance(step)
            step.keep(self.mask_updates)
            steps.append(step)
        for step in steps:
            step.finish()
        if eval:
            self._evaluate()
        else:
            core.schedule([node for node in self._kept() if not node.scope])

    def _kept(self) -> Nodes:
        """The nodes of all that the rule keeps."""
        return [node for parameter in self._parameters.values()
                for array in (*parameter.state.values(), *parameter.shared.values()) for node in array._nodes()]

    def _evaluate(self) -> None:
        core.evaluate([node for parameter in self._parameters.values() for node in parameter.value._nodes()]
                      + self._kept())

    def reset(self, key: str | None = None) -> None:
        """Forget what steps have left behind for a parameter (momentum, averages, counts), or for all of them.

        Values and learning rates stay.

        >>> from drjit.llvm.ad import Float
        >>> from drjit.opt import SGD
        >>> opt = SGD(lr=1, momentum=0.5, params={"x": Float(0)})
        >>> dr.set_grad(opt["x"], 1)
        >>> opt.step()
        >>> opt.reset("x")
        >>> opt.step()  # the gradient is zero, and nothing else would move it
        >>> opt["x"]
        [-1]
        """
        for parameter in self._parameters.values() if key is None else (self._find("reset", key),):
            self._clear(parameter)

    def _clear(self, parameter: Parameter) -> None:
        value = parameter.value
        # each in memory of its own: the kernel of the first step is that of all others
        parameter.state = {name: wrap_like(value, type(value), [
            core.opaque(literal(node.type, 0, node.size), value._where) for node in value._nodes()])
            for name in self._slots}
        parameter.shared, parameter.steps = {}, 0

    # --- a PyTree ----------------------------------------------------------------------------------------------------

    def __drjit_variables__(self) -> list[tuple[Parameter, bool]]:
        """The parameters, which are kept apart from what the traversal protocol shows, and whether their steps count.
        """
        return [(parameter, self._counts) for parameter in self._parameters.values()]

    def __drjit_children__(self) -> dict[Any, Any]:
        return {"lr": self._rate, "state": {name: {
            "value": found.value, "lr": found.rate, "state": found.state, "shared": found.shared,
            **({"steps": found.steps} if self._counts else {})}
            for name, found in self._parameters.items()}}

    def __drjit_rebuild__(self, children: dict[Any, Any]) -> Any:
        result: Any = object.__new__(type(self))
        result.__dict__.update(self.__dict__)
        result._rate = children["lr"]
        result._parameters = {}
        for name, child in children["state"].items():
            old = self._parameters[name]
            found = result._parameters[name] = Parameter(name, old.cls, child["value"], old.serial, old.form)
            found.rate, found.state, found.shared = child["lr"], child["state"], child["shared"]
            found.steps = child.get("steps", old.steps)
        return result

    def __copy__(self) -> Any:
        return copy(self)


def _items(function: str, params: Any) -> list[tuple[str, Any]]:
    """Names and values of a mapping, or of pairs."""
    try:
        return [(key, params[key]) for key in params] if hasattr(params, "keys") else \
            [(key, value) for key, value in params]
    except (TypeError, ValueError):
        raise TypeError(f"{function}(): parameters must be given as a dictionary from names to arrays, found "
                        f"{describe(params)}.") from None


def _mask(function: str, active: Any) -> Node | Literal[False] | None:
    """The argument ``active``: ``None`` if all parameters take part, ``False`` if none does."""
    if active is None or active is True:
        return None
    if active is False:
        return False
    if not isinstance(active, ArrayBase) or active._kind != "b" or active._depth > 0:
        raise TypeError(f"{function}(): 'active' must be a bool, or a mask with one element, found {describe(active)}.")
    if not active._dynamic:
        return None if bool(active) else False
    node: Node = active._nodes()[0]
    if node.size != 1:
        raise SizeError(f"{function}(): 'active' must have one element, found {node.size}.")
    if node.kind == _LITERAL:
        return None if node.payload else False
    return node
