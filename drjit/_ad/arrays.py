"""Derivatives of what arrays hold: variables, their gradients, and values without derivatives."""

from __future__ import annotations

import math
from typing import Any

import drjit_core as core
from drjit_core import (
    LEAF,
    STRUCTURE,
    Node,
    Vertex,
    dual,
    is_apart,
    literal,
    ops,
    primal,
    surely_tracked,
    tracked,
    vertex_of,
)

from .._access.lanes import begun, gradient_elsewhere
from .._access.store import store
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.links import links
from .._base.methods import FlatSlots
from .._base.nodes import broadcast
from .._base.types import relative
from .._base.typing import T
from .._base.values import filled, plain_scalar
from .._functions.creation import zeros_like
from .._promotion.componentwise import flat_array
from .._promotion.plans import elementwise, operands
from .._promotion.promote import coerce, wrap_like
from .._trees.pytree import known_leaves, leaves, transform, walk

__all__ = ["accum_grad", "clear_grad", "counts_for_all", "detach", "detached", "differentiable", "disable_grad",
           "enable_grad", "grad", "grad_enabled", "gradient_of", "relative_grad", "replace_grad", "set_grad",
           "set_grad_enabled", "set_ones", "variables", "vertices_of", "zero_of"]


def differentiable(value: object) -> bool:
    """Whether a value is an array of a type that can track derivatives."""
    return isinstance(value, ArrayBase) and value._record.diff and value._kind == "f"


def variables(function: str, *args: Any) -> list[Any]:
    """The arrays in PyTrees that can track derivatives."""
    return [leaf for arg in args for leaf in known_leaves(arg, function) if differentiable(leaf)]


def vertices_of(function: str, *args: Any, known: bool = False) -> list[Vertex]:
    """The vertices of all arrays in PyTrees, as far as their derivatives are tracked. ``known``: it is known that
    objects beside these hold others."""
    found = []
    for arg in args:
        for leaf in (arg,) if isinstance(arg, ArrayBase) else leaves(arg, function) if known else \
                known_leaves(arg, function):
            if differentiable(leaf):
                for node in leaf._nodes():
                    vertex = tracked(node)
                    if vertex is not None:
                        found.append(vertex)
    return found


# --- variables -------------------------------------------------------------------------------------------------------


def enable_grad(*args: Any) -> None:
    """Track derivatives with respect to arrays.

    ``args`` are arrays and PyTrees, which are traversed. Arrays of floats in the packages ``drjit.*.ad`` become
    variables, unless they track derivatives already, or would if a scope such as :func:`suspend_grad` allowed it; other
    values are ignored. Operations on them are recorded from now on, until :func:`backward` or :func:`forward` lets
    derivatives flow. Within :func:`suspend_grad` without arguments, nothing happens. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2, 3)
    >>> dr.enable_grad(x)
    >>> dr.backward(x * x)
    >>> x.grad
    [2, 4, 6]
    """
    scope = core.state.derivatives
    if scope is not None and not scope.records:
        return
    for array in variables("drjit.enable_grad", *args):
        nodes, new = array._nodes(), []
        for node in nodes:
            if vertex_of(node) is None:
                # (Variables of users have some information, others have none: see `drjit.detail.is_variable`.)
                node = dual(primal(node), Vertex(LEAF, node.type, node.size, info=array._name))
            elif is_apart(primal(node)) and not surely_tracked(node):
                raise core.SymbolicValue(
                    "drjit.enable_grad(): the array was made outside of the symbolic loop that is being traced, whose "
                    "derivatives would not be those of what it is outside. Enable them before the loop.")
            new.append(node)
        if new != nodes:
            store(array, new)


def disable_grad(*args: Any) -> None:
    """Track no more derivatives with respect to arrays: they are constants from now on, and have no gradient.

    ``args`` are arrays and PyTrees, which are traversed. What was computed from the arrays before goes on to depend on
    them. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1)
    >>> dr.enable_grad(x)
    >>> dr.disable_grad(x)
    >>> dr.grad_enabled(x)
    False
    """
    for array in variables("drjit.disable_grad", *args):
        nodes = array._nodes()
        if any(vertex_of(node) is not None for node in nodes):
            store(array, [primal(node) for node in nodes])


def set_grad_enabled(arg0: Any, arg1: bool, /) -> None:
    """Call :func:`enable_grad` or :func:`disable_grad`, as the second argument says.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1)
    >>> dr.set_grad_enabled(x, True)
    >>> dr.grad_enabled(x)
    True
    """
    if arg1.__class__ is not bool:
        raise ArgumentError("drjit.set_grad_enabled(): the second argument must be a bool (found "
                            f"{describe(arg1)}).")
    (enable_grad if arg1 else disable_grad)(arg0)


def grad_enabled(*args: Any) -> bool:
    """Whether derivatives are tracked with respect to any array in some PyTrees.

    Scopes such as :func:`suspend_grad` count. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1)
    >>> dr.enable_grad(x)
    >>> dr.grad_enabled(x + 1), dr.grad_enabled(dr.detach(x))
    (True, False)
    """
    return any(surely_tracked(node) for array in variables("drjit.grad_enabled", *args) for node in array._nodes())


def detach(arg: T, preserve_type: bool = True) -> T:
    """``arg`` without derivatives: its values, which are constants as far as derivatives go.

    ``arg`` is an array or a PyTree, which is traversed; leaves without arrays are returned as they are. Arrays
    keep their type, unless ``preserve_type`` is false: then they are of the type of the same name that tracks no
    derivatives. Copies nothing, evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.enable_grad(x)
    >>> y = dr.detach(x)
    >>> y, dr.grad_enabled(y), type(dr.detach(x, preserve_type=False))
    ([1, 2], False, <class 'drjit.llvm.Float'>)
    """
    if preserve_type and isinstance(arg, FlatSlots):
        return flat_array(type(arg), primal(arg._n))  # type: ignore[no-any-return]
    return transform("drjit.detach", lambda leaf: detached(leaf, preserve_type), arg)  # type: ignore[no-any-return]


def detached(leaf: Any, preserve_type: bool) -> Any:
    if not isinstance(leaf, ArrayBase) or not leaf._dynamic:
        return leaf
    record = leaf._record
    cls = type(leaf) if preserve_type or not record.diff else relative(type(leaf), record.backend, False)
    return wrap_like(leaf, cls, [primal(node) for node in leaf._nodes()])


# --- gradients -------------------------------------------------------------------------------------------------------


def gradient_of(node: Node) -> Node:
    """The gradient of a node, with as many elements: zeros, if it has none, or is not tracked at the moment. In
    a symbolic construct, that of a single value has several: each element has its own."""
    vertex = tracked(node)
    if vertex is None:
        return literal(node.type, 0, node.size)
    found = vertex.gradient if core.innermost() is None else core.gradient_within(vertex)
    if begun and (outer := gradient_elsewhere(vertex, gradient_of)) is not None:
        found = outer if found is None else core.ops.add(found, outer)
    if found is None:
        return literal(node.type, 0, node.size)
    gradient = primal(found)
    return broadcast(gradient, node.size) if gradient.size == 1 else gradient


def grad(arg: T, preserve_type: bool = True) -> T:
    """The gradients of arrays: what derivatives have added up so far, zeros of the same size if there is nothing.

    ``arg`` is an array or a PyTree, which is traversed. The gradients have no derivatives themselves. They are of the
    arrays' types, unless ``preserve_type`` is false: then of the types of the same name that track no derivatives.
    For values without derivatives (numbers, integer arrays) the result is zero. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(3)
    >>> dr.enable_grad(x)
    >>> dr.backward(x * x)
    >>> dr.grad(x)
    [6]
    """
    if preserve_type and isinstance(arg, FlatSlots):
        return flat_array(type(arg), gradient_of(arg._n))  # type: ignore[no-any-return]
    return transform("drjit.grad", lambda leaf: _gradient(leaf, preserve_type), arg)  # type: ignore[no-any-return]


def _gradient(leaf: Any, preserve_type: bool) -> Any:
    if isinstance(leaf, ArrayBase):
        if not leaf._dynamic:
            return zero_of(leaf)
        record = leaf._record
        cls = type(leaf) if preserve_type or not record.diff else relative(type(leaf), record.backend, False)
        return wrap_like(leaf, cls, [gradient_of(node) for node in leaf._nodes()])
    return zero_of(leaf)


def zero_of(leaf: Any) -> Any:
    """The gradient of a leaf that has none: zeros of the same type and shape. What is no number stays as it is."""
    if isinstance(leaf, ArrayBase):
        if not leaf._dynamic:
            return zeros_like(leaf)
        return wrap_like(leaf, type(leaf), [literal(node.type, 0, node.size) for node in leaf._nodes()])
    return filled(leaf, 0)


def counts_for_all(value: Any) -> bool:
    """Whether a value stands for the gradients of all arrays of a PyTree: one array or number."""
    return isinstance(value, ArrayBase | complex) or plain_scalar(value) is not None


def clear_grad(arg: Any, /) -> None:
    """Set gradients to zero.

    ``arg`` is an array or a PyTree, which is traversed; what tracks no derivatives is ignored. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(3)
    >>> dr.enable_grad(x)
    >>> dr.backward(x * x)
    >>> dr.clear_grad(x)
    >>> x.grad
    [0]
    """
    vertices = vertices_of("drjit.clear_grad", arg)
    if core.innermost() is not None:
        for vertex in vertices:
            _require_local("drjit.clear_grad", vertex)
    core.clear_gradients(vertices)


def set_grad(target: Any, source: Any) -> None:
    """Set gradients: :func:`clear_grad`, then :func:`accum_grad`.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.set_grad(x, 5)
    >>> x.grad
    [5, 5]
    """
    _accumulate("drjit.set_grad", target, source, clear=True)


def set_ones(function: str, vertices: list[Vertex]) -> None:
    """Set gradients to one, in the name of another function."""
    if core.innermost() is not None:
        for vertex in vertices:
            _require_inside(function, vertex)
    core.set_ones(vertices)


def _require_inside(function: str, vertex: Vertex) -> None:
    """In a symbolic construct, refuse the vertex of an array from outside."""
    region = core.innermost()
    if region is not None and vertex.scope != region.id:
        raise core.SymbolicValue(
            f"{function}(): this changes the gradient of an array that was made outside of the symbolic loop, branch "
            "or call that is being traced. Return what is to be added, and add it there.")


def _require_local(function: str, vertex: Vertex) -> None:
    """In a symbolic construct, refuse to replace a gradient of which there is a part outside, which elements that take
    part would lose; or in a loop, what earlier iterations have added to it."""
    regions, origin, repeats = core.state.open, vertex, False
    while origin is not None and origin.scope in regions:
        region = regions[origin.scope]
        if region.entries is None or origin.id not in region.entries:
            return
        repeats = repeats or region.noun == "loop"
        origin = region.entries[origin.id]
    if origin is not None and (repeats and origin is not vertex or origin.gradient is not None or origin.pending):
        raise core.SymbolicValue(
            f"{function}(): this replaces the gradient of an array that was made outside of the symbolic loop, branch "
            "or call that is being traced, which only adds to it in the end. Use drjit.accum_grad() to add, clear "
            "the gradient before, or use mode='evaluated'.")


def accum_grad(target: Any, source: Any) -> None:
    """Add to gradients.

    ``target`` is an array or a PyTree; ``source`` is a PyTree of the same structure with an array, or a number for all
    elements, for each of its arrays, or one such value for all of them. Values are converted and broadcast to what they
    are added to; flat ones fit tensors of as many elements, in C order; more elements than a variable of one element
    has are summed; an empty array adds nothing. What tracks no derivatives is ignored.
    Raises a ``RuntimeError`` if sizes differ, and a ``TypeError`` for values that are no arrays and no numbers.
    Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.accum_grad(x, 5)
    >>> dr.accum_grad(x, Float(1, 2))
    >>> x.grad
    [6, 7]
    """
    _accumulate("drjit.accum_grad", target, source, clear=False)


def _accumulate(function: str, target: Any, source: Any, *, clear: bool) -> None:
    found: list[tuple[Vertex, Node]] = []
    cleared: list[Vertex] = []

    def visit(leaf: Any, value: Any) -> None:
        if not differentiable(leaf):
            return
        for node, gradient in zip(leaf._nodes(), _converted(function, leaf, value), strict=True):
            vertex = tracked(node)
            if vertex is not None:
                _require_inside(function, vertex)
                if clear and core.innermost() is not None:
                    _require_local(function, vertex)
                if gradient.size or not vertex.size:
                    found.append((vertex, gradient))
                else:
                    cleared.append(vertex)

    if counts_for_all(source):
        walk(function, lambda leaf: visit(leaf, source), target)
    else:
        walk(function, visit, target, source)
    core.add_gradients(found, clear=clear)
    if clear:
        core.clear_gradients(cleared)


def _converted(function: str, array: Any, value: Any, again: bool = False) -> list[Node]:
    """What is added to the gradients of an array: a node for each of its own; with derivatives, if they are
    differentiated ``again``."""
    cls = type(array)
    try:
        if cls._depth < 0:
            converted: Any = value if type(value) is cls else cls(value)
            shape, own = converted.shape, math.prod(array.shape)
            fits = shape == array.shape or shape in ((), (0,), (own,)) or math.prod(shape) == 1 or \
                len(shape) == 1 == own
            if not fits:
                raise SizeError(f"{function}(): a gradient of the shape {shape} does not fit an array of the shape "
                                f"{array.shape}.")
            nodes = converted._nodes()
        else:
            nodes = coerce(cls, value, function)
    except CORE_ERRORS as error:
        raise translate(error, function) from None
    variables = array._nodes()
    if len(nodes) == 1:
        nodes = nodes * len(variables)
    if len(nodes) != len(variables):
        raise SizeError(f"{function}(): a gradient with {len(nodes)} components does not fit an array with "
                        f"{len(variables)}.")
    for node, gradient in zip(variables, nodes, strict=True):
        if gradient.size not in (0, 1, node.size) and node.size != 1:
            raise SizeError(f"{function}(): a gradient with {gradient.size} elements does not fit an array with "
                            f"{node.size}.")
    return list(nodes) if again else [primal(node) for node in nodes]


links.gradient, links.set_gradient = grad, set_grad


def replace_grad(arg0: Any, arg1: Any, /) -> Any:
    """The values of the first argument with the derivative of the second one.

    Arguments are arrays and numbers, which are promoted and broadcast to each other, or PyTrees of the same structure
    and types.
    Useful where derivatives of an expression can be computed in a better way than by differentiating how it was
    computed. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(4)
    >>> dr.enable_grad(x)
    >>> dr.backward(dr.replace_grad(dr.floor(x), x * 2))
    >>> x.grad
    [2]
    """
    if isinstance(arg0, ArrayBase) or plain_scalar(arg0) is not None:
        return _with_gradient_of(arg0, arg1)
    return transform("drjit.replace_grad", _with_gradient_of_one_type, arg0, arg1)


def relative_grad(x: Any) -> Any:
    """The number 1 with the relative derivative of an array, ``dx/x``, or 0 where that is 0.

    What is multiplied by it has the derivative of a product with ``x``, divided by ``x``: useful for estimators whose
    value does not depend on ``x``. Of nested arrays, component by component; of anything but arrays that track
    derivatives, it is 1 alone. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(2, 0, -4)
    >>> dr.enable_grad(x)
    >>> y = dr.relative_grad(x)
    >>> dr.backward(y)
    >>> y, x.grad
    ([1, 1, 1], [0.5, 0, -0.25])
    """
    if not isinstance(x, ArrayBase):
        if plain_scalar(x) is None:
            raise TypeError(f"drjit.relative_grad(): expected an array or a number, found {describe(x)}.")
        return 1.0
    if x._kind != "f" or x._special not in ("", "tensor"):
        raise ArgumentError(f"drjit.relative_grad(): expected a real array of floating-point numbers, found "
                            f"{describe(x)}.")

    def relative_to(node: Node) -> Node:
        value, one = primal(node), literal(node.type, 1, node.size)
        if tracked(node) is None:
            return one
        zero = literal(node.type, 0)
        present = ops.neq(value, zero)
        factor = ops.select(present, ops.div(literal(node.type, 1), ops.select(present, value, one)), zero)
        return _replaced(one, ops.mul(node, factor))

    return wrap_like(x, type(x), [relative_to(node) for node in x._nodes()])


def _with_gradient_of_one_type(a: Any, b: Any) -> Any:
    """The value of a leaf of a PyTree with the derivatives of one of another, of the same type."""
    if type(a) is not type(b):
        raise ArgumentError(f"drjit.replace_grad(): the leaves of PyTrees must be of one type, found {describe(a)} and "
                            f"{describe(b)}.")
    return _with_gradient_of(a, b)


def _with_gradient_of(a: Any, b: Any) -> Any:
    arrays = [value for value in (a, b) if isinstance(value, ArrayBase)]
    if not arrays:
        return a
    if any(array._depth < 0 for array in arrays) or not any(array._special for array in arrays):
        return elementwise("drjit.replace_grad", _replaced, (a, b))
    cls, found = operands("drjit.replace_grad", (a, b))  # complex numbers and their like: component by component
    return wrap_like(arrays[0], cls, list(map(_replaced, *found)))


def _replaced(a: Node, b: Node) -> Node:
    size = core.broadcast_size("replace_grad", a, b)
    value, vertex = broadcast(primal(a), size), tracked(b)
    if vertex is None:
        return value
    if vertex.size != size:
        vertex = Vertex(STRUCTURE["identity"], value.type, size, vertex)
    return dual(value, vertex)
