"""Derivatives as functions of functions: gradients, Jacobians, products with Hessians, and a check of derivatives.

(These functions are additions to the interface of Dr.Jit.) They take functions of arrays and PyTrees, and leave no
trace in the graph of derivatives: what they return may be differentiated again.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import drjit_core as core
from drjit_core import STRUCTURE, Node, Scope, Vertex, dual, literal, ops, primal, tracked, vertex_of

from .._arrays.broadcasting import concatenate, make
from .._base.arguments import require_count, require_float
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, RangeError, SizeError, describe
from .._base.nodes import broadcast, values
from .._base.types import lookup
from .._base.values import plain_scalar
from .._promotion.promote import wrap_like
from .._trees.classes import sole_array
from .._trees.pytree import TreeSpec, flatten
from .arrays import differentiable, zero_of
from .traversal import explained, scoped

__all__ = ["Arguments", "gradcheck", "hvp", "jacobian", "value_and_grad"]


class Arguments:
    """Arguments of a function, those that it is differentiated by as variables of their own."""

    def __init__(self, function: str, values: Sequence[Any]) -> None:
        self.function = function
        self.leaves, self.spec = flatten(list(values), function)
        self.vertices: list[list[Vertex]] = []
        #: The last vertex of the caller.
        self.last = core.last_vertex()
        inner = []
        for leaf in self.leaves:
            if not differentiable(leaf):
                if isinstance(leaf, ArrayBase) and leaf._kind == "f":
                    raise ArgumentError(f"{function}(): the argument is of a type that tracks no derivatives (found "
                                        f"{describe(leaf)}); use the type of the same name in drjit.*.ad.")
                inner.append(leaf)
                self.vertices.append([])
                continue
            nodes, found = [], []
            for node in leaf._nodes():
                # a variable that derivatives by the caller's variables go through
                vertex = Vertex(STRUCTURE["identity"], node.type, node.size, tracked(node))
                nodes.append(dual(primal(node), vertex))
                found.append(vertex)
            inner.append(wrap_like(leaf, type(leaf), nodes))
            self.vertices.append(found)
        if not any(self.vertices):
            raise ArgumentError(f"{function}(): there is no array of a type that tracks derivatives among the "
                                f"arguments (found {', '.join(map(describe, values)) or 'none'}).")
        self.values: list[Any] = self.spec.rebuild(inner)

    def tracked(self) -> AbstractContextManager[None]:
        """A context in which derivatives by the arguments are tracked, whatever the caller has suspended."""
        outer = core.state.derivatives
        return scoped(outer and Scope.resumed(outer, [vertex.id for vertex in self.flat()]))

    def flat(self) -> list[Vertex]:
        """All variables."""
        return [vertex for vertices in self.vertices for vertex in vertices]

    def rebuild(self, nodes: Sequence[Node | None]) -> list[Any]:
        """PyTrees like the arguments, of a node for each variable; zeros for what is no variable."""
        rest = iter(nodes)
        found = []
        for leaf, vertices in zip(self.leaves, self.vertices, strict=True):
            if vertices:
                own = [_full(next(rest), vertex) for vertex in vertices]
                found.append(wrap_like(leaf, type(leaf), own))
            else:
                found.append(zero_of(leaf))
        return self.spec.rebuild(found)  # type: ignore[no-any-return]


def _full(node: Node | None, vertex: Vertex) -> Node:
    """A gradient as wide as its variable; zeros where there is none."""
    return literal(vertex.type, 0, vertex.size) if node is None else broadcast(node, vertex.size)


def _results(function: str, value: Any) -> tuple[list[Any], TreeSpec]:
    """The arrays of a result that may have derivatives; there must be some (or the function may lack a ``return``)."""
    leaves, spec = flatten(value, function)
    arrays = [leaf for leaf in leaves if differentiable(leaf)]
    if not arrays:
        raise ArgumentError(f"{function}(): there is no array of floats of a type that tracks derivatives in what the "
                            f"function returned (found {describe(value)}).")
    return arrays, spec


def _outer(arrays: Sequence[Any], arguments: Arguments) -> bool:
    """Whether results depend on variables of the caller, who may differentiate by these, too."""
    return core.depends([vertex for array in arrays for node in array._nodes()
                         if (vertex := vertex_of(node)) is not None], arguments.last)


def value_and_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the value of another one, and its gradient.

    ``function`` takes arrays and PyTrees and returns one; the gradient is that of the sum of all elements of the
    arrays of floats in there, with respect to the arguments whose positions ``argnums`` says (one position, or a tuple:
    then there is a tuple of gradients). It is structured like the arguments. Other arguments are passed on. May be
    nested: the results have derivatives by what the caller tracks, be it an argument or not. Raises a ``TypeError`` if
    there is nothing to differentiate by. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> dr.value_and_grad(lambda x: dr.sum(x * x))(Float(1, 2))
    ([5], [2, 4])
    """
    _require_callable("drjit.value_and_grad", function)
    positions = _positions(argnums)

    @functools.wraps(function)
    def compute(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        for position in positions:
            if not -len(args) <= position < len(args):
                raise ArgumentError(f"drjit.value_and_grad(): 'argnums' names the argument {position}, but there are "
                                    f"{len(args)}.")
        chosen = [position % len(args) for position in positions]
        if len(set(chosen)) < len(chosen):
            raise ArgumentError(f"drjit.value_and_grad(): 'argnums' names an argument twice (found {argnums}, of "
                                f"{len(args)}).")
        arguments = Arguments("drjit.value_and_grad", [args[position] for position in chosen])
        given = list(args)
        for position, value in zip(chosen, arguments.values, strict=True):
            given[position] = value
        with arguments.tracked():
            result = function(*given, **kwargs)
            arrays, _ = _results("drjit.value_and_grad", result)
            outer = _outer(arrays, arguments)
            gradients = arguments.rebuild(_pulled(arrays, None, arguments, again=outer))
        return result if outer else _plain(result, arguments), \
            gradients[0] if isinstance(argnums, int) else tuple(gradients)

    return compute


def _require_callable(name: str, function: Any) -> None:
    """Refuse what is no function, such as the value of one."""
    if not callable(function):
        raise ArgumentError(f"{name}(): 'function' must be a function (found {describe(function)}).")


def _positions(argnums: Any) -> tuple[int, ...]:
    """The positions that an argument names."""
    positions = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(positions, Sequence) or not positions or not all(isinstance(p, int) for p in positions):
        raise ArgumentError(f"drjit.value_and_grad(): 'argnums' must be the position of an argument, or a tuple of "
                            f"positions (found {describe(argnums)}); the arguments themselves go to the function that "
                            f"is returned.")
    return tuple(positions)


def _pulled(arrays: Sequence[Any], gradients: Sequence[Node] | None, arguments: Arguments, *,
            again: bool) -> list[Node | None]:
    """The gradients by the arguments, for gradients of results (ones, if they are not given)."""
    outputs = []
    nodes = [node for array in arrays for node in array._nodes()]
    for number, node in enumerate(nodes):
        vertex = tracked(node)
        if vertex is not None:
            outputs.append((vertex, literal(node.type, 1) if gradients is None else gradients[number]))
    with explained(arguments.function):
        return core.pull(outputs, arguments.flat(), again=again)


def _plain(value: Any, arguments: Arguments) -> Any:
    """A result without derivatives."""
    leaves, spec = flatten(value, arguments.function)
    return spec.rebuild([wrap_like(leaf, type(leaf), [primal(node) for node in leaf._nodes()])
                         if differentiable(leaf) else leaf for leaf in leaves])


def hvp(function: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The gradient of a function, and the product of its Hessian with a vector.

    ``primals`` is the argument of ``function``, an array or PyTree (or a tuple of all arguments), ``tangents`` the
    vector, structured like it. The function's value is the sum of all elements that it returns. Forward mode over
    reverse mode: takes about twice the time of a gradient, whatever the size. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> dr.hvp(lambda x: dr.sum(x * x * x), Float(1, 2), Float(1, 10))
    ([3, 12], [6, 120])
    """
    _require_callable("drjit.hvp", function)
    several = primals.__class__ is tuple
    arguments = Arguments("drjit.hvp", primals if several else (primals,))
    changes = _like("drjit.hvp", arguments, tangents if several else (tangents,))
    with arguments.tracked():
        arrays, _ = _results("drjit.hvp", function(*arguments.values))
        outer = _outer(arrays, arguments)
        gradients = [_full(node, vertex) for node, vertex in
                     zip(_pulled(arrays, None, arguments, again=True), arguments.flat(), strict=True)]
        vertices = [tracked(node) for node in gradients]
        inputs = list(zip(arguments.flat(), changes, strict=True))
        with explained("drjit.hvp"):
            known = core.push(inputs, [vertex for vertex in vertices if vertex is not None], again=outer)
    rest = iter(known)
    products = [None if vertex is None else next(rest) for vertex in vertices]
    first = arguments.rebuild(gradients if outer else [primal(node) for node in gradients])
    second = arguments.rebuild(products)
    return (tuple(first), tuple(second)) if several else (first[0], second[0])


def _like(function: str, arguments: Arguments, values_: Sequence[Any]) -> list[Node]:
    """The nodes of PyTrees that are structured like the arguments."""
    found = arguments.spec.flatten_up_to(list(values_), function)
    nodes: list[Node] = []
    for leaf, vertices, value in zip(arguments.leaves, arguments.vertices, found, strict=True):
        if not vertices:
            continue
        number = plain_scalar(value)
        if number is not None:
            value = wrap_like(leaf, type(leaf),
                              [literal(vertex.type, float(number), vertex.size) for vertex in vertices])
        if type(value) is not type(leaf):
            raise ArgumentError(f"{function}(): expected {describe(leaf)} for the change of an argument of that type "
                                f"(found {describe(value)}).")
        own = value._nodes()
        if [node.size for node in own if node.size != 1] != [vertex.size for node, vertex in
                                                            zip(own, vertices, strict=True) if node.size != 1]:
            raise SizeError(f"{function}(): the change of an argument has the shape {value.shape}, the argument "
                            f"{leaf.shape}.")
        nodes += own
    return nodes


def jacobian(function: Callable[[Any], Any], x: Any, *, mode: str = "auto") -> Any:
    """The derivatives of all elements that a function returns by all elements of its argument, as a tensor.

    ``x`` is a flat array or a tensor of floats, and so is what ``function`` returns; arrays of
    ``drjit.array_api`` are tensors, and the result is one if ``x`` is. The shape of the result is that
    of the function's value followed by that of ``x``. ``mode`` is ``'forward'`` (a pass for each element of ``x``),
    ``'reverse'`` (one for each element of the value), or ``'auto'``: whatever takes fewer. Evaluates nothing, and all
    passes are evaluated together.

    >>> from drjit.llvm.ad import Float
    >>> dr.jacobian(lambda x: x * x, Float(1, 2))
    [[2, 0],
     [0, 4]]
    """
    _require_callable("drjit.jacobian", function)
    if mode not in ("auto", "forward", "reverse"):
        raise ArgumentError(f"drjit.jacobian(): 'mode' must be 'auto', 'forward' or 'reverse' (found {mode!r}).")
    given, x = x, sole_array(x)
    _require_single("drjit.jacobian", "'x'", x)
    arguments = Arguments("drjit.jacobian", (given,))
    with arguments.tracked():
        result = sole_array(function(*arguments.values))
        _require_single("drjit.jacobian", "the value of the function", result)
        source, = arguments.flat()
        node = result._nodes()[0]
        rows, columns = node.size, source.size
        again = _outer([result], arguments)
        vertex = tracked(node)
        by_column = vertex is not None and (mode == "forward" or mode == "auto" and columns <= rows)
        with explained("drjit.jacobian"):
            parts: list[Node]
            if vertex is None:
                parts = [literal(node.type, 0, rows * columns)] if rows * columns else []
            elif by_column:
                parts = [_full(core.push([(source, _unit(source, k))], [vertex], again=again)[0], vertex)
                         for k in range(columns)]
            else:
                parts = [_full(core.pull([(vertex, _unit(vertex, k))], [source], again=again)[0], source)
                         for k in range(rows)]
    cls: Any = lookup(type(x)._record._replace(kind="tensor", shape=(), type=node.type))
    shape = (*_shape(result), *_shape(x))
    if not parts:
        return _like_given(given, make(cls, core.invalid(node.type), shape))
    flat = parts[0] if len(parts) == 1 else concatenate(parts)
    if by_column and len(parts) > 1 and rows > 1:
        found = core.view(flat, 0, (rows, columns), (1, rows))
        flat = flat if found is None else found
    return _like_given(given, make(cls, flat, shape))


def _like_given(given: Any, found: Any) -> Any:
    """A tensor, as an array of the package that an argument belongs to."""
    return found if sole_array(given) is given else flatten(given, "drjit.jacobian")[1].rebuild([found])


def _unit(vertex: Vertex, position: int) -> Node:
    """A vector with a single one."""
    if vertex.size == 1:
        return literal(vertex.type, 1)
    scalar = core.VarType.UInt32.value
    place = core.counter(vertex.size, scalar)
    return ops.select(ops.eq(place, literal(scalar, position)),  # type: ignore[no-any-return]
                      literal(vertex.type, 1), literal(vertex.type, 0))


def _shape(array: Any) -> tuple[int, ...]:
    return array.shape if array._depth < 0 else (array._n.size,)


def _require_single(function: str, what: str, value: Any) -> None:
    if not differentiable(value) or value._depth > 0:
        raise ArgumentError(f"{function}(): {what} must be a flat array or a tensor of floats that can track "
                            f"derivatives (found {describe(value)}).")


#: Steps and tolerances of differences by the number of bits of the least precise argument: steps about the cube root of
#: the distance of numbers, at which the errors of rounding and of the difference are alike (Numerical Recipes, 5.7).
_DIFFERENCES = {64: (1e-6, 1e-5, 1e-3), 32: (5e-3, 5e-3, 1e-2)}


def gradcheck(function: Callable[..., Any], *args: Any, eps: float | None = None, atol: float | None = None,
              rtol: float | None = None, directions: int = 2) -> bool:
    """Compare the derivatives of a function with finite differences, in both directions.

    ``args`` are its arguments, arrays and PyTrees, best in double precision. In some random ``directions``, the change
    of the values in forward mode is compared with ``(f(x + eps d) - f(x - eps d)) / (2 eps)``, and the product of the
    gradient in reverse mode with the direction. The step ``eps`` and the absolute and relative tolerances follow from
    the least precise argument, if they are not given: ``1e-6``, ``1e-5`` and ``1e-3`` in double precision. (Those of
    half precision must be given: differences tell little there.) Returns
    ``True``, or raises an ``AssertionError`` that says which element differs, and how. Evaluates arrays and waits for
    them.

    >>> from drjit.llvm.ad import Float64
    >>> dr.gradcheck(lambda x: dr.sin(x) * x, Float64(1, 2, 3))
    True
    """
    name = "drjit.gradcheck"
    _require_callable(name, function)
    require_count(name, "directions", directions, 1)
    generator = random.Random(0)
    precision = min((core.TYPES[leaf._type].bits for leaf in flatten(list(args), name)[0] if differentiable(leaf)),
                    default=64)
    if precision not in _DIFFERENCES and None in (eps, atol, rtol):
        raise ArgumentError(f"{name}(): differences of half precision tell little: pass arguments of more precision, "
                            "or 'eps', 'atol' and 'rtol'.")
    eps, atol, rtol = (usual if given is None else _tolerance(name, option, given) for option, given, usual in zip(
        ("eps", "atol", "rtol"), (eps, atol, rtol), _DIFFERENCES.get(precision, (0, 0, 0)), strict=True))

    def moved(direction: Sequence[Sequence[float]], step: float) -> list[list[float]]:
        leaves = [leaf for leaf in flatten(list(args), name)[0] if differentiable(leaf)]
        cls_nodes = [node for leaf in leaves for node in leaf._nodes()]
        return [[a + step * b for a, b in zip(values(primal(node)), row, strict=True)]
                for node, row in zip(cls_nodes, direction, strict=True)]

    def evaluated(rows: Sequence[Sequence[float]]) -> list[float]:
        leaves, spec = flatten(list(args), name)
        rest = iter(rows)
        found = [wrap_like(leaf, type(leaf), [core.import_copy(node.type, _packed(node.type, next(rest)), 0)
                                              for node in leaf._nodes()]) if differentiable(leaf) else leaf
                 for leaf in leaves]
        arrays, _ = _results(name, function(*spec.rebuild(found)))
        return [value for array in arrays for node in array._nodes() for value in values(primal(node))]

    for _ in range(directions):
        arguments = Arguments(name, args)
        flat = arguments.flat()
        direction = [[generator.gauss(0, 1) for _ in range(vertex.size)] for vertex in flat]
        above, below = evaluated(moved(direction, eps)), evaluated(moved(direction, -eps))
        expected = [(a - b) / (2 * eps) for a, b in zip(above, below, strict=True)]
        with arguments.tracked():
            arrays, _ = _results(name, function(*arguments.values))
            nodes = [node for array in arrays for node in array._nodes()]
            outputs = [(node, tracked(node)) for node in nodes]
        changes = [core.import_copy(vertex.type, _packed(vertex.type, row), 0)
                   for vertex, row in zip(flat, direction, strict=True)]
        with explained(name):
            pushed = iter(core.push(list(zip(flat, changes, strict=True)), [v for _, v in outputs if v is not None]))
        forward: list[float] = []
        for node, vertex in outputs:
            change = next(pushed) if vertex is not None else None
            forward += [0.0] * node.size if change is None else values(primal(broadcast(change, node.size)))
        _compare("forward mode", forward, expected, atol, rtol)
        weights = [[generator.gauss(0, 1) for _ in range(node.size)] for node in nodes]
        with arguments.tracked():
            gradients = _pulled(arrays, [core.import_copy(node.type, _packed(node.type, row), 0)
                                         for node, row in zip(nodes, weights, strict=True)], arguments, again=False)
        total = 0.0
        for vertex, gradient, row in zip(flat, gradients, direction, strict=True):
            if gradient is not None:
                total += sum(a * b for a, b in zip(values(broadcast(gradient, vertex.size)), row, strict=True))
        wanted = sum(a * b for a, b in zip([w for row in weights for w in row], expected, strict=True))
        _compare("reverse mode", [total], [wanted], atol * max(1, len(expected)) ** 0.5, rtol)
    return True


def _tolerance(function: str, name: str, value: Any) -> float:
    """A step, which must be above zero, or a tolerance, which may be zero."""
    found = require_float(function, name, value)
    if not (0 < found < math.inf or found == 0 and name != "eps"):
        raise RangeError(f"{function}(): '{name}' must be finite and {'>' if name == 'eps' else '>='} 0, found "
                         f"{value!r}.")
    return found


def _packed(type_: int, row: Sequence[float]) -> bytes:
    return core.to_memory(core.TYPES[type_], row)


def _compare(mode: str, found: Sequence[float], expected: Sequence[float], atol: float, rtol: float) -> None:
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        if not (abs(a - b) <= atol + rtol * abs(b) or a == b or a != a and b != b):
            raise AssertionError(f"drjit.gradcheck(): in {mode}, the derivative of element {number} in a random "
                                 f"direction is {a:.8g}; finite differences say {b:.8g}.")
