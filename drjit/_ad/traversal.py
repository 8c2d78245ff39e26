"""Letting derivatives flow, and choosing which ones are tracked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import drjit_core as core
from drjit_core import BACKWARD, FORWARD_MODE, ADFlag, Node, Scope, Vertex, state

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, describe, translate
from .._trees.pytree import leaves
from .arrays import grad, set_ones, vertices_of
from .flags import flags_of, mode_of

__all__ = ["backward", "backward_from", "backward_to", "enqueue", "explained", "forward", "forward_from",
           "forward_to", "isolate_grad", "resume_grad", "scoped", "suspend_grad", "traverse"]


def enqueue(mode: Any, *args: Any) -> None:
    """Let the next traversal visit variables, and what depends on them or what they depend on.

    With ``ADMode.Forward``, all variables computed from the arrays in ``args`` (and PyTrees of them) are visited as
    well; with ``ADMode.Backward`` all variables that they were computed from. See :func:`traverse`. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(3)
    >>> dr.enable_grad(x)
    >>> y, z = x * 2, x * 5
    >>> dr.set_grad(x, 1)
    >>> dr.enqueue(dr.ADMode.Backward, y)  # z is not visited
    >>> dr.traverse(dr.ADMode.Forward)
    >>> y.grad, z.grad
    ([2], [0])
    """
    core.enqueue(mode_of("drjit.enqueue", mode), vertices_of("drjit.enqueue", *args))


def traverse(mode: Any, flags: Any = ADFlag.Default) -> None:
    """Let derivatives flow along all that :func:`enqueue` has chosen, in the direction that ``mode`` says.

    Where they end, they add up as gradients; those in between are cleared and the recorded operations are taken apart,
    unless ``flags`` (see :class:`ADFlag`) say otherwise. Raises a ``RuntimeError`` if an earlier traversal has taken
    apart what derivatives would have to flow through. If it raises, or a custom operation does, all gradients are as
    before. Evaluates nothing: gradients are computed when they are needed, those of one traversal together.

    But where the program has evaluated something between hundreds of operations, as in the steps of a simulation,
    gradients are evaluated as well when they come to that: kernels are as large as those of some steps, and steps that
    are alike run the same ones. Time and memory are linear in the steps; see :func:`checkpoint` for less memory.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> dr.set_grad(y, Float(1, 10))
    >>> dr.enqueue(dr.ADMode.Backward, y)
    >>> dr.traverse(dr.ADMode.Backward)
    >>> x.grad
    [2, 40]
    """
    _traverse("drjit.traverse", mode_of("drjit.traverse", mode), flags_of("drjit.traverse", flags))


def _traverse(function: str, mode: int, flags: int) -> None:
    try:
        gradients = core.traverse(mode, flags)
    except _EXPLAINED as error:
        raise _explanation(error, function) from None
    _schedule(gradients)


def _schedule(gradients: list[Node]) -> None:
    """Let gradients be computed together; those of a symbolic construct are part of that."""
    core.schedule([node for node in gradients if not node.scope])


@contextlib.contextmanager
def explained(function: str) -> Iterator[None]:
    """Let errors of a traversal name the function that the user called."""
    try:
        yield
    except _EXPLAINED as error:
        raise _explanation(error, function) from None


#: What a traversal raises without knowing which function the user has called.
_EXPLAINED = (*CORE_ERRORS, core.Consumed, core.NoDerivative)


def _explanation(error: Exception, function: str) -> Exception:
    return translate(error, function) if isinstance(error, CORE_ERRORS) else RuntimeError(f"{function}(): {error}.")


def _flow(function: str, mode: int, arg: Any, flags: Any, *, overwrite: bool) -> None:
    """What ``forward_from``, ``backward_from`` and their like do."""
    bits = flags_of(function, flags)
    if not isinstance(arg, ArrayBase) and not any(True for _ in _arrays(function, arg)):
        raise TypeError(f"{function}(): expected an array or a PyTree with arrays (found {describe(arg)}).")
    vertices = vertices_of(function, arg)
    if not vertices:
        _require(function, bits)
        return
    if mode == BACKWARD and not overwrite:
        _require_inside(function, vertices, "let its derivatives flow outside")
    before = [(vertex.gradient, vertex.pending, vertex.sparse) for vertex in vertices]
    if overwrite or all(gradient is None for gradient, _, _ in before):
        set_ones(function, vertices)
    try:
        core.enqueue(mode, vertices)
        _traverse(function, mode, bits)
    except BaseException:
        for vertex, (gradient, pending, sparse) in zip(vertices, before, strict=True):
            vertex.gradient, vertex.pending, vertex.sparse = gradient, pending, sparse
        raise


def _require_inside(function: str, vertices: list[Vertex], advice: str) -> None:
    """In a symbolic construct, refuse variables from outside."""
    region = core.innermost()
    if region is not None and any(vertex.scope != region.id for vertex in vertices):
        raise core.SymbolicValue(f"{function}(): the argument was made outside of the symbolic {region.noun} that is "
                                 f"being traced; {advice}.")


def _arrays(function: str, arg: Any) -> Iterator[Any]:
    return (leaf for leaf in leaves(arg, function) if isinstance(leaf, ArrayBase))


def _require(function: str, flags: int) -> None:
    if not flags & ADFlag.AllowNoGrad:
        raise RuntimeError(
            f"{function}(): the argument does not depend on any variable that derivatives are tracked for; perhaps "
            "drjit.enable_grad() was not called, or the path is cut (by a conversion to integers, drjit.detach(), or "
            "drjit.suspend_grad()). If that is meant to happen, pass flags=drjit.ADFlag.Default | "
            "drjit.ADFlag.AllowNoGrad.")


def forward_from(arg: Any, flags: Any = ADFlag.Default) -> None:
    """Let derivatives flow from an array to all that was computed from it.

    The gradient of ``arg`` (an array or PyTree) is what it was set to, or one. Afterwards, what was computed last has
    the gradients: see :func:`grad`. ``flags`` is described at :class:`ADFlag`. Raises a ``RuntimeError`` if ``arg``
    tracks no derivatives. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> dr.set_grad(x, 10)
    >>> dr.forward_from(x)
    >>> y.grad
    [60]
    """
    _flow("drjit.forward_from", FORWARD_MODE, arg, flags, overwrite=False)


def forward(arg: Any, flags: Any = ADFlag.Default) -> None:
    """Set the gradient of an array to one, and call :func:`forward_from`.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> dr.forward(x)
    >>> y.grad
    [6]
    """
    _flow("drjit.forward", FORWARD_MODE, arg, flags, overwrite=True)


def backward_from(arg: Any, flags: Any = ADFlag.Default) -> None:
    """Let derivatives flow from an array to all that it was computed from.

    The gradient of ``arg`` (an array or PyTree) is what it was set to, or one. Afterwards, the variables have the
    gradients: see :func:`grad`. ``flags`` is described at :class:`ADFlag`. Raises a ``RuntimeError`` if ``arg``
    depends on no variable. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> dr.set_grad(y, Float(1, 10))
    >>> dr.backward_from(y)
    >>> x.grad
    [2, 40]
    """
    _flow("drjit.backward_from", BACKWARD, arg, flags, overwrite=False)


def backward(arg: Any, flags: Any = ADFlag.Default) -> None:
    """Set the gradient of an array to one, and call :func:`backward_from`.

    One is the gradient of every component, those of matrices, complex numbers and quaternions included; whereas
    ``set_grad(arg, 1)`` sets the number 1 of the type, which is the identity of matrices.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.backward(dr.sum(x * x))
    >>> x.grad
    [2, 4]
    """
    _flow("drjit.backward", BACKWARD, arg, flags, overwrite=True)


def forward_to(*args: Any, flags: Any = ADFlag.Default) -> Any:
    """Let derivatives flow to arrays from the variables that they were computed from; returns their gradients.

    The gradients of the variables must have been set. ``args`` are arrays and PyTrees; of several, the result is a
    tuple. ``flags`` is described at :class:`ADFlag`. Raises a ``RuntimeError`` if no array depends on a variable.
    Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> dr.set_grad(x, 1)
    >>> dr.forward_to(y)
    [6]
    """
    return _flow_to("drjit.forward_to", BACKWARD, FORWARD_MODE, args, flags)


def backward_to(*args: Any, flags: Any = ADFlag.Default) -> Any:
    """Let derivatives flow to variables from what was computed from them; returns their gradients.

    The gradients of the results must have been set. ``args`` are arrays and PyTrees; of several, the result is a tuple.
    ``flags`` is described at :class:`ADFlag`. Raises a ``RuntimeError`` if no array is a variable. Evaluates nothing.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> dr.set_grad(y, 1)
    >>> dr.backward_to(x)
    [6]
    """
    return _flow_to("drjit.backward_to", FORWARD_MODE, BACKWARD, args, flags)


def _flow_to(function: str, chosen: int, mode: int, args: tuple[Any, ...], flags: Any) -> Any:
    bits = flags_of(function, flags)
    vertices = vertices_of(function, *args)
    if mode == BACKWARD:
        _require_inside(function, vertices, "its gradient is complete when that has run: use drjit.backward_from(), "
                        "and look at the gradient afterwards")
    if vertices:
        core.enqueue(chosen, vertices)
        _traverse(function, mode, bits)
    else:
        _require(function, bits)
    return grad(args[0] if len(args) == 1 else args)


# --- scopes ----------------------------------------------------------------------------------------------------------


class _Within(contextlib.ContextDecorator):
    """A context in which a scope holds, which is made when it is entered: that may happen more than once."""

    def __init__(self, make: Callable[[Scope | None], Scope]) -> None:
        self._make = make
        self._scopes: list[Scope] = []

    def __enter__(self) -> None:
        scope = self._make(state.derivatives)
        self._scopes.append(scope)
        state.derivatives = scope

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        self._leave(self._scopes.pop(), error is not None)

    def _leave(self, scope: Scope, failed: bool) -> None:
        scope.end()


class _Isolated(_Within):
    """Within a scope that traversals do not leave: they go on when it ends, unless that is by an exception."""

    def _leave(self, scope: Scope, failed: bool) -> None:
        scope.end()
        if failed:
            core.abandon(scope)
        else:
            _schedule(core.leave(scope))


def scoped(scope: Scope | None) -> AbstractContextManager[None]:
    """A context in which a scope says which derivatives are tracked, if there is one."""
    return contextlib.nullcontext() if scope is None else _Within(lambda _: scope)


def suspend_grad(*args: Any, when: bool = True) -> AbstractContextManager[None]:
    """A context in which no derivatives are tracked, or none with respect to some arrays.

    Without arguments, operations are not recorded and :func:`enable_grad` does nothing. With arrays or PyTrees, the
    results of operations do not depend on these, as far as derivatives go. Contexts may be nested. ``when=False`` turns
    this one off.

    >>> from drjit.llvm.ad import Float
    >>> x, y = Float(1), Float(2)
    >>> dr.enable_grad(x, y)
    >>> with dr.suspend_grad(x):
    ...     z = x * y
    >>> dr.backward(z)
    >>> x.grad, y.grad
    ([0], [1])
    """
    return _scope("drjit.suspend_grad", Scope.suspended, args, when=_checked("drjit.suspend_grad", when))


def resume_grad(*args: Any, when: bool = True) -> AbstractContextManager[None]:
    """A context in which derivatives are tracked again, within one of :func:`suspend_grad`: all, or those with respect
    to some arrays. ``when=False`` turns it off.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1)
    >>> dr.enable_grad(x)
    >>> with dr.suspend_grad():
    ...     with dr.resume_grad():
    ...         y = x * 2
    >>> dr.grad_enabled(y)
    True
    """
    return _scope("drjit.resume_grad", Scope.resumed, args, when=_checked("drjit.resume_grad", when))


def isolate_grad(when: bool = True) -> AbstractContextManager[None]:
    """A context that reverse traversals do not leave: what they would have to do beyond waits until it ends.

    The derivatives are the same, but those of what was computed before the context flow in a traversal of their own. If
    an exception ends it, they are dropped.
    ``when=False`` turns it off.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> with dr.isolate_grad():
    ...     dr.backward(y * 2)
    ...     print(x.grad)
    [0]
    >>> x.grad
    [12]
    """
    return _Isolated(Scope.isolating) if _checked("drjit.isolate_grad", when) else contextlib.nullcontext()


def _checked(function: str, when: Any) -> bool:
    """The argument ``when``, which is a ``bool``, or as good as one."""
    try:
        return bool(when)
    except (TypeError, ValueError):
        raise ArgumentError(f"{function}(): the argument 'when' must be a bool (found {describe(when)}).") from None


def _scope(function: str, make: Callable[[Scope | None, set[int] | None], Scope], args: tuple[Any, ...], *,
           when: bool) -> AbstractContextManager[None]:
    if not when:
        return contextlib.nullcontext()
    numbers = _numbers(function, args) if args else None
    return _Within(lambda outer: make(outer, numbers))


def _numbers(function: str, args: tuple[Any, ...]) -> set[int]:
    """The ids of the vertices of some arrays, whatever the scopes say."""
    found = [core.vertex_of(node) for arg in args for leaf in leaves(arg, function)
             if isinstance(leaf, ArrayBase) and leaf._dynamic for node in leaf._nodes()]
    return {vertex.id for vertex in found if vertex is not None}
