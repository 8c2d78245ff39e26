"""Operations whose derivatives their users write."""

from __future__ import annotations

import contextlib
import inspect
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping
from copy import copy as shallow_copy
from numbers import Integral
from types import FunctionType, MethodType, ModuleType
from typing import Any

import drjit_core as core
from drjit_core import HUB, LEAF, STRUCTURE, Flow, Node, Vertex, dual, literal, primal, tracked, vertex_of

from .._access.store import store, store_same
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe, passed_on
from .._base.nodes import broadcast
from .._promotion.promote import wrap_like
from .._trees.pytree import TreeSpec, flatten, is_pytree, transform_known
from .arrays import _converted, counts_for_all, detached, differentiable, variables, vertices_of, zero_of

__all__ = ["CustomOp", "custom"]


class CustomOp:
    """An operation with derivatives of its own: derive a class, and pass it to :func:`custom`.

    :meth:`eval` computes the result from arguments without derivatives, and may keep what it needs later as attributes.
    :meth:`forward` computes the change of the result from those of the arguments (:meth:`grad_in`,
    :meth:`set_grad_out`), :meth:`backward` the gradients of the arguments from that of the result (:meth:`grad_out`,
    :meth:`set_grad_in`). Only what a program uses need be there. There are no derivatives of derivatives, unless
    the class sets ``differentiable``, see :meth:`given`.

    >>> from drjit.llvm.ad import Float
    >>> class Product(dr.CustomOp):
    ...     def eval(self, x, y):
    ...         self.x, self.y = x, y
    ...         return x * y
    ...     def backward(self):
    ...         self.set_grad_in("x", self.y * self.grad_out())
    ...         self.set_grad_in("y", self.x * self.grad_out())
    >>> x, y = Float(2), Float(3)
    >>> dr.enable_grad(x, y)
    >>> dr.backward(dr.custom(Product, x, y))
    >>> x.grad, y.grad
    ([3], [2])
    """

    #: Whether derivatives of what the callbacks compute are those of second order.
    differentiable = False
    _link: _Link | None = None

    def eval(self, *args: Any, **kwargs: Any) -> Any:
        """The result, given the arguments without derivatives. To be overridden.

        >>> from drjit.llvm.ad import Float
        >>> class Square(dr.CustomOp):
        ...     def eval(self, x):
        ...         self.x = x
        ...         return x * x
        >>> dr.custom(Square, Float(3))
        [9]
        """
        raise NotImplementedError(f"{type(self).__name__}.eval() is not implemented: a custom operation computes its "
                                  "result there.")

    def forward(self) -> None:
        """Set the change of the result, given those of the arguments. To be overridden.

        >>> from drjit.llvm.ad import Float
        >>> class Square(dr.CustomOp):
        ...     def eval(self, x):
        ...         self.x = x
        ...         return x * x
        ...     def forward(self):
        ...         self.set_grad_out(2 * self.x * self.grad_in("x"))
        >>> x = Float(3)
        >>> dr.enable_grad(x)
        >>> y = dr.custom(Square, x)
        >>> dr.forward(x)
        >>> y.grad
        [6]
        """
        raise NotImplementedError(f"{type(self).__name__}.forward() is not implemented: the operation has no "
                                  "derivative in forward mode.")

    def backward(self) -> None:
        """Set the gradients of the arguments, given that of the result. To be overridden.

        >>> from drjit.llvm.ad import Float
        >>> class Square(dr.CustomOp):
        ...     def eval(self, x):
        ...         self.x = x
        ...         return x * x
        ...     def backward(self):
        ...         self.set_grad_in("x", 2 * self.x * self.grad_out())
        >>> x = Float(3)
        >>> dr.enable_grad(x)
        >>> y = dr.custom(Square, x)
        >>> dr.backward(y)
        >>> x.grad
        [6]
        """
        raise NotImplementedError(f"{type(self).__name__}.backward() is not implemented: the operation has no "
                                  "derivative in reverse mode.")

    def name(self) -> str:
        """What listings and graphs call the operation: the name of the class, unless overridden.

        >>> dr.CustomOp().name()
        'CustomOp'
        """
        return type(self).__name__

    def grad_out(self) -> Any:
        """The gradient of the result, structured like it. In :meth:`backward`.

        >>> from drjit.llvm.ad import Float
        >>> class Square(dr.CustomOp):
        ...     def eval(self, x):
        ...         self.x = x
        ...         return x * x
        ...     def backward(self):
        ...         self.set_grad_in("x", 2 * self.x * self.grad_out())
        >>> x = Float(3)
        >>> dr.enable_grad(x)
        >>> y = dr.custom(Square, x)
        >>> dr.backward(y)
        >>> x.grad
        [6]
        """
        return self._require("grad_out", "backward").grad_out()

    def set_grad_out(self, arg: Any, /) -> None:
        """Add to the change of the result; ``arg`` is structured like it. In :meth:`forward`.

        >>> from drjit.llvm.ad import Float
        >>> class Square(dr.CustomOp):
        ...     def eval(self, x):
        ...         self.x = x
        ...         return x * x
        ...     def forward(self):
        ...         self.set_grad_out(2 * self.x * self.grad_in("x"))
        >>> x = Float(3)
        >>> dr.enable_grad(x)
        >>> y = dr.custom(Square, x)
        >>> dr.forward(x)
        >>> y.grad
        [6]
        """
        self._require("set_grad_out", "forward").set_grad_out(arg)

    def grad_in(self, arg: Any, /) -> Any:
        """The change of an argument, given its name, or its position among ``*args``; or those of all
        of these as a tuple, given ``'args'``, of ``**kwargs`` as a dictionary. In :meth:`forward`.

        >>> from drjit.llvm.ad import Float
        >>> class Square(dr.CustomOp):
        ...     def eval(self, x):
        ...         self.x = x
        ...         return x * x
        ...     def forward(self):
        ...         self.set_grad_out(2 * self.x * self.grad_in("x"))
        >>> x = Float(3)
        >>> dr.enable_grad(x)
        >>> y = dr.custom(Square, x)
        >>> dr.forward(x)
        >>> y.grad
        [6]
        """
        return self._require("grad_in", "forward").grad_in(arg)

    def set_grad_in(self, arg0: Any, arg1: Any, /) -> None:
        """Add to the gradient of an argument, given its name, or its position among ``*args``; or to
        those of all of these, given ``'args'`` and a tuple, of ``**kwargs`` likewise. In :meth:`backward`.

        >>> from drjit.llvm.ad import Float
        >>> class Square(dr.CustomOp):
        ...     def eval(self, x):
        ...         self.x = x
        ...         return x * x
        ...     def backward(self):
        ...         self.set_grad_in("x", 2 * self.x * self.grad_out())
        >>> x = Float(3)
        >>> dr.enable_grad(x)
        >>> y = dr.custom(Square, x)
        >>> dr.backward(y)
        >>> x.grad
        [6]
        """
        self._require("set_grad_in", "backward").set_grad_in(arg0, arg1)

    def given(self, arg: Any, /) -> Any:
        """An argument, as it was given to :meth:`eval`. In :meth:`forward` and :meth:`backward`.

        It has derivatives if those of derivatives are computed, which there are of operations whose class says that
        it is ``differentiable``: then all that callbacks compute must be functions of this, :meth:`grad_in` and
        :meth:`grad_out`, and not of what :meth:`eval` has kept.

        >>> from drjit.llvm.ad import Float
        >>> class Cube(dr.CustomOp):
        ...     differentiable = True
        ...     def eval(self, x):
        ...         return x * x * x
        ...     def backward(self):
        ...         self.set_grad_in("x", 3 * self.given("x") ** 2 * self.grad_out())
        >>> dr.hvp(lambda x: dr.custom(Cube, x), Float(2), Float(1))
        ([12], [12])
        """
        if self._link is None or self._link.stage == "eval":
            raise RuntimeError(f"{type(self).__name__}.given(): this is of use in forward() and backward() only.")
        return self._link.given(arg)

    def add_input(self, arg: Any, /) -> None:
        """Declare that the result depends on arrays that are no arguments. In :meth:`eval`.

        Their changes and gradients are read and written as usual, by :func:`grad` and :func:`accum_grad`.

        >>> from drjit.llvm.ad import Float
        >>> weight = Float(3)
        >>> dr.enable_grad(weight)
        >>> class Weighted(dr.CustomOp):
        ...     def eval(self, x):
        ...         self.add_input(weight)
        ...         self.x = x
        ...         return x * dr.detach(weight)
        ...     def backward(self):
        ...         self.set_grad_in("x", dr.detach(weight) * self.grad_out())
        ...         dr.accum_grad(weight, self.x * self.grad_out())
        >>> dr.backward(dr.custom(Weighted, Float(5)))
        >>> weight.grad
        [5]
        """
        self._require("add_input", "eval").inputs += vertices_of("drjit.CustomOp.add_input", arg)

    def add_output(self, arg: Any, /) -> None:
        """Declare that arrays beside the result depend on the arguments. In :meth:`eval`.

        Their changes and gradients are written and read as usual, by :func:`accum_grad` and :func:`grad`. If the
        operation refers to such an array itself (in an attribute, or a closure), both live until derivatives have
        flowed.

        >>> from drjit.llvm.ad import Float
        >>> x, twice = Float(3), Float(0)
        >>> dr.enable_grad(x)
        >>> class Both(dr.CustomOp):
        ...     def eval(self, x):
        ...         twice[:] = 2 * x
        ...         self.add_output(twice)
        ...         return x + 1
        ...     def backward(self):
        ...         self.set_grad_in("x", self.grad_out() + 2 * dr.grad(twice))
        >>> y = dr.custom(Both, x)
        >>> dr.backward(y + twice)
        >>> x.grad
        [3]
        """
        self._require("add_output", "eval").more_outputs += list(variables("drjit.CustomOp.add_output", arg))

    def _require(self, method: str, stage: str) -> _Link:
        if self._link is None or self._link.stage != stage:
            raise RuntimeError(f"{type(self).__name__}.{method}(): this is of use in {stage}() only.")
        return self._link


class _Link:
    """What a custom operation has to do with the graph: the payload of its vertex."""

    def __init__(self, operation: CustomOp, arguments: dict[Any, Any],
                 groups: dict[str, tuple[Any, ...] | None]) -> None:
        self.operation = operation
        #: Whether there are derivatives of derivatives.
        self.again = operation.differentiable
        self.arguments = arguments
        #: The names of ``*args`` and ``**kwargs``, with the keys of the latter and ``None`` for the former.
        self.groups = groups
        self.stage = "eval"
        self.flow: Flow | None = None
        self.inputs = vertices_of("drjit.custom", *arguments.values(), known=True)
        #: The result without derivatives, by leaves; and for each component node of its arrays the place of its vertex.
        self.leaves: list[Any] = []
        self.spec: TreeSpec | None = None
        self.places: list[list[int]] = []
        self.outputs: list[tuple[int, int]] = []  # types and sizes
        self.more_outputs: list[Any] = []
        self.more: list[tuple[weakref.ref[Any], list[int]]] = []
        #: Gradients by the places of outputs: what reverse mode has brought, and what forward mode sends.
        self.received: dict[int, Node] = {}
        self.sent: dict[int, Node] = {}

    @property
    def name(self) -> str:
        return f"{self.operation.__class__.__name__}"

    @staticmethod
    def uses(place: int) -> tuple[bool, bool]:
        """Whether an input is read by index as a whole, and whether it is used in another way."""
        del place
        return False, True

    def attach(self, nodes: list[Node], hub: Vertex) -> tuple[list[Node], list[int]]:
        """Make nodes results of the operation."""
        found, places = [], []
        for node in nodes:
            value = primal(node)
            place = len(self.outputs)
            self.outputs.append((value.type, value.size))
            places.append(place)
            found.append(dual(value, Vertex(STRUCTURE["output"], value.type, value.size, hub, info=place)))
        return found, places

    # --- what callbacks ask for --------------------------------------------------------------------------------------

    def _named(self, method: str, key: Any) -> Any:
        if isinstance(key, bool) or not isinstance(key, str | Integral) or key not in self.arguments:
            if isinstance(key, str) and key in self.groups:
                names = self.groups[key]
                if names is not None:
                    return {name: self.arguments[name] for name in names}
                return tuple(value for name, value in self.arguments.items() if not isinstance(name, str))
            known = ", ".join(repr(name) for name in (*self.arguments, *self.groups))
            raise ArgumentError(f"{self.name}.{method}(): there is no argument {key!r}; there are: {known or 'none'}.")
        return self.arguments[key]

    def given(self, key: Any) -> Any:
        flow, value = self.flow, self._named("given", key)
        assert flow is not None
        return value if flow.again else _without(value)

    def _contributions(self, function: str, leaf: Any, value: Any) -> list[Node]:
        """What is added to the gradients or changes of an array."""
        assert self.flow is not None
        return _converted(function, leaf, value, self.flow.again)

    def grad_in(self, key: Any) -> Any:
        flow = self.flow
        assert flow is not None

        def change(node: Node) -> Node:
            vertex = tracked(node)
            found = flow.change(vertex)
            return literal(node.type, 0, node.size) if found is None else _as_wide(found, node.size)

        found, spec = flatten(self._named("grad_in", key), "drjit.CustomOp.grad_in")
        return spec.rebuild([wrap_like(leaf, type(leaf), [change(node) for node in leaf._nodes()])
                             if differentiable(leaf) else zero_of(leaf) for leaf in found])

    def set_grad_in(self, key: Any, value: Any) -> None:
        flow, function = self.flow, f"{self.name}.set_grad_in"
        assert flow is not None
        found, spec = flatten(self._named("set_grad_in", key), function)
        values = [value] * len(found) if counts_for_all(value) else spec.flatten_up_to(value, function)
        given = []
        for leaf, gradient in zip(found, values, strict=True):
            if not differentiable(leaf):
                continue
            nodes = leaf._nodes()
            for node, contribution in zip(nodes, self._contributions(function, leaf, gradient), strict=True):
                vertex = tracked(node)
                if vertex is not None:
                    given.append((vertex, contribution))
        for vertex, contribution in given:
            flow.bring(vertex, contribution, contribution.size)

    def grad_out(self) -> Any:
        assert self.spec is not None

        def gradient(node: Node, place: int) -> Node:
            found = self.received.get(place)
            return literal(node.type, 0, node.size) if found is None else _as_wide(found, node.size)

        return self.spec.rebuild([
            wrap_like(leaf, type(leaf), list(map(gradient, leaf._nodes(), places)))
            if places else zero_of(leaf) for leaf, places in zip(self.leaves, self.places, strict=True)])

    def set_grad_out(self, value: Any) -> None:
        function = f"{self.name}.set_grad_out"
        assert self.spec is not None
        values = [value] * len(self.leaves) if counts_for_all(value) else self.spec.flatten_up_to(value, function)
        for leaf, places, change in zip(self.leaves, self.places, values, strict=True):
            if places:
                for place, node in zip(places, self._contributions(function, leaf, change), strict=True):
                    before = self.sent.get(place)
                    self.sent[place] = node if before is None else core.ops.add(before, node)

    # --- what traversals ask for -------------------------------------------------------------------------------------

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow from the results to the arguments."""
        with self._showing(self.received):
            self._run("backward", flow)

    def forward(self, flow: Flow) -> None:
        """Let changes flow from the arguments to the results."""
        with self._showing({}) as vertices:
            self._run("forward", flow)
        for place, vertex in vertices.items():  # what it has accumulated there flows on from the operation
            if vertex.gradient is not None:
                self.sent[place] = vertex.gradient

    @contextlib.contextmanager
    def _showing(self, gradients: Mapping[int, Node]) -> Iterator[dict[int, Vertex]]:
        """While a callback runs, let further results have gradients as the operation left them, whatever they are now.
        """
        vertices: dict[int, Vertex] = {}
        before = []
        for reference, places in self.more:
            array = reference()
            if array is None:
                continue
            nodes = []
            for place in places:
                type_, size = self.outputs[place]
                vertex = vertices[place] = Vertex(LEAF, type_, size)
                vertex.gradient = gradients.get(place)
                nodes.append(dual(literal(type_, 0, size), vertex))
            before.append((array, array._nodes()))
            store_same(array, nodes)
        try:
            yield vertices
        finally:
            for array, nodes in before:
                store_same(array, nodes)

    # --- in the derivative of a symbolic construct that it is part of ------------------------------------------------

    def nodes(self) -> list[Node]:
        """The values that the operation has kept."""
        found: list[Node] = []

        def note(node: Node) -> Node:
            found.append(primal(node))
            return node

        _Rebuilding(note).attributes(self.operation)
        return found

    def moved(self, copy: core.Copy) -> _Link:
        """A copy of the operation where other nodes and vertices stand for those that it has kept."""
        def linked(node: Node) -> Node:
            vertex = vertex_of(node)
            return node if vertex is None else dual(primal(node), copy.vertex(vertex))

        new, rebuilding = shallow_copy(self), _Rebuilding(copy.node)
        new.operation = shallow_copy(self.operation)
        vars(new.operation).update(rebuilding.attributes(self.operation))
        new.arguments = transform_known("drjit.custom", _Rebuilding(linked), self.arguments)
        new.inputs = [copy.vertex(vertex) for vertex in self.inputs]
        new.more = [(weakref.ref(rebuilding.made.get(id(array), array)), places) for reference, places in self.more
                    if (array := reference()) is not None]
        new.received, new.sent = {}, {}
        return new

    def _run(self, stage: str, flow: Flow) -> None:
        self.stage, self.flow = stage, flow
        self.operation._link = self  # for now only: nothing is to wait for the garbage collector
        try:
            getattr(self.operation, stage)()
        finally:
            self.operation._link = self.flow = None


class _Rebuilding:
    """Makes objects like others, whose arrays have other nodes; what has none of these stays what it is."""

    def __init__(self, node_of: Callable[[Node], Node]) -> None:
        self.node_of = node_of
        #: What stands for objects, by their ids, and these, which live until then.
        self.made: dict[int, Any] = {}
        self.originals: list[Any] = []

    def __call__(self, value: Any, depth: int = 0) -> Any:
        """What stands for an object: an array, a PyTree, or one whose attributes hold some."""
        if id(value) not in self.made:
            self.originals.append(value)
            self.made[id(value)] = value  # objects may refer to themselves
            self.made[id(value)] = self.rebuilt(value, depth)
        return self.made[id(value)]

    def rebuilt(self, value: Any, depth: int) -> Any:
        if isinstance(value, ArrayBase):
            before = value._nodes() if value._dynamic else ()
            nodes = [self.node_of(node) for node in before]
            return wrap_like(value, type(value), nodes) if any(map(operator.is_not, nodes, before)) else value
        if is_pytree(type(value)):
            return transform_known("drjit.custom", lambda leaf: self(leaf, depth), value)
        if depth == _DEPTH or not hasattr(value, "__dict__") or isinstance(value, _NO_INSTANCES):
            return value
        changed = self.attributes(value, depth + 1)
        if not changed:
            return value
        new = shallow_copy(value)
        vars(new).update(changed)
        return new

    def attributes(self, value: Any, depth: int = 0) -> dict[str, Any]:
        """The attributes of an object that are others."""
        return {name: new for name, entry in vars(value).items() if (new := self(entry, depth)) is not entry}


#: So deep, attributes of objects are looked at; and what has attributes of another kind.
_DEPTH = 4
_NO_INSTANCES = (type, FunctionType, MethodType, ModuleType)


def _as_wide(gradient: Node, size: int) -> Node:
    """A gradient with an element for each of an array. In a symbolic construct, those of single values have several."""
    return broadcast(gradient, size) if gradient.size == 1 else gradient


def _same(leaf: Any) -> Any:
    """An array with the same contents, which stay when the other one is written to."""
    return wrap_like(leaf, type(leaf), leaf._nodes()) if differentiable(leaf) else leaf


def _without(value: Any) -> Any:
    """A PyTree without derivatives. What objects beside it hold is their matter: they may be anything."""
    return transform_known("drjit.custom", lambda leaf: detached(leaf, True), value)


def custom(arg0: type[CustomOp], /, *args: Any, **kwargs: Any) -> Any:
    """The result of a custom operation, which takes part in derivatives.

    ``arg0`` is a class derived from :class:`CustomOp`; all other arguments are those of its method ``eval``, which gets
    them without derivatives. They and the result may be PyTrees. If no argument tracks derivatives, neither does the
    result; derivatives by other arrays that ``eval`` makes use of end here, unless it names them to
    :meth:`CustomOp.add_input`. Raises a ``TypeError`` for anything but such a class, and for arguments that ``eval``
    does not take; what ``eval`` raises is raised as an exception of the same class that is a ``RuntimeError``, too.

    >>> from drjit.llvm.ad import Float
    >>> class Straight(dr.CustomOp):  # rounds, and passes gradients on as if it did not
    ...     def eval(self, x):
    ...         return dr.round(x)
    ...     def backward(self):
    ...         self.set_grad_in("x", self.grad_out())
    >>> x = Float(1.4)
    >>> dr.enable_grad(x)
    >>> dr.backward(dr.custom(Straight, x))
    >>> x.grad
    [1]
    """
    if not isinstance(arg0, type) or not issubclass(arg0, CustomOp):
        raise ArgumentError("drjit.custom(): the first argument must be a class derived from drjit.CustomOp (found "
                            f"{describe(arg0)}).")
    operation = arg0()
    try:
        bound = inspect.signature(operation.eval).bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"drjit.custom(): the arguments do not fit {arg0.__name__}.eval(): {error}.") from None
    bound.apply_defaults()
    named: dict[Any, Any] = {}
    groups: dict[str, tuple[Any, ...] | None] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            named.update(enumerate(value))
            groups[name] = None
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
            groups[name] = tuple(value)
        else:
            named[name] = value
    # what is written to the arguments afterwards does not matter
    link = operation._link = _Link(operation, transform_known("drjit.custom", _same, named), groups)
    try:
        result = operation.eval(*_without(list(args)), **_without(kwargs))
    except Exception as error:
        raise passed_on(error)  # noqa: B904
    finally:
        operation._link = None
    link.leaves, link.spec = flatten(_without(result), "drjit.custom")
    if not link.inputs:
        return link.spec.rebuild(link.leaves)
    hub = Vertex(HUB, 0, 1, info=link)
    hub.label = operation.name()
    if not isinstance(hub.label, str):
        raise ArgumentError(f"drjit.custom(): {arg0.__name__}.name() must return a str (found {describe(hub.label)}).")
    found = []
    for leaf in link.leaves:
        nodes, places = link.attach(leaf._nodes(), hub) if differentiable(leaf) else ([], [])
        link.places.append(places)
        found.append(wrap_like(leaf, type(leaf), nodes) if places else leaf)
    for array in link.more_outputs:
        nodes, places = link.attach(array._nodes(), hub)
        store(array, nodes)
        link.more.append((weakref.ref(array), places))
    link.more_outputs = []  # which refer to the operation now
    return link.spec.rebuild(found)
