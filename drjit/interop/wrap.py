"""Derivatives that cross between Dr.Jit and other frameworks: :func:`wrap`.

A call of a framework's function from a program of Dr.Jit is a custom operation (:class:`_Outer`), one in the other
direction an operation of the framework (:class:`_Inner`). Both take the PyTrees of arguments and results apart, so that
only arrays cross. Either holds on to the arrays that crossed: what is written to one of Dr.Jit's afterwards goes to a
copy, so that derivatives are those of the values that the function has seen.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from copy import copy as shallow_copy
from types import ModuleType
from typing import Any

import drjit_core as core
from drjit_core import JitBackend, symbolic_error, tracked

from .._ad.arrays import detach, differentiable, enable_grad, grad_enabled
from .._ad.custom import CustomOp, custom
from .._ad.functions import Arguments
from .._ad.traversal import explained
from .._arrays.broadcasting import make
from .._arrays.dlpack import read
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, RangeError, describe, passed_on
from .._base.nodes import broadcast
from .._base.types import FLOAT32, Record, lookup
from .._base.typing import T
from .._functions.hosted import call_host, records
from .._promotion.promote import wrap as wrap_nodes
from .._promotion.promote import wrap_like
from .._trees.classes import is_foreign_array
from .._trees.holders import array_within, beside_entries, passed_over
from .._trees.pytree import TreeSpec, flatten
from .frameworks import Derivatives, Framework, Inner, framework_named

__all__ = ["wrap", "wrap_ad"]

_FUNCTION = "drjit.wrap"
_ARGUMENTS = "args", "kwargs"


#: Arrays of a call: one, or the parts of an array of another package (see :func:`_parts`).
Parts = list[ArrayBase]


def _is_array(value: Any) -> bool:
    return isinstance(value, ArrayBase) or is_foreign_array(value)


def _parts(value: Any) -> Parts:
    """The arrays that an array consists of: itself, or the one or two of an array of another package."""
    return [value] if isinstance(value, ArrayBase) else list(value.__drjit_children__().values())


def _require_known(leaves: Sequence[Any], spec: TreeSpec, names: str | Sequence[str],
                   is_array: Callable[[Any], bool]) -> None:
    """Refuse leaves that hold arrays which should cross."""
    for k, leaf in enumerate(leaves):
        if not is_array(leaf) and array_within(leaf, is_array):
            raise passed_over(_FUNCTION, leaf, spec.paths(names)[k])
    beside_entries(_FUNCTION, spec.attributes(), is_array)


def _differentiable(parts: Parts) -> bool:
    return all(map(differentiable, parts))


class _Call:
    """A call of a framework's function with arrays of Dr.Jit."""

    def __init__(self, framework: Framework, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.framework, self.function = framework, function
        self.leaves, self.spec = flatten((args, kwargs), _FUNCTION, whole=True)
        _require_known(self.leaves, self.spec, _ARGUMENTS, _is_array)
        self.places = [place for place, leaf in enumerate(self.leaves) if _is_array(leaf)]
        found = [self.leaves[place] for place in self.places]
        for place in self.places:  # nobody needs them any more, but replays of a frozen function keep the call
            self.leaves[place] = None
        self.arrays = list(map(_parts, found))
        self.tracked = [_differentiable(parts) and any(map(grad_enabled, parts)) for parts in self.arrays]
        #: What makes the arrays of the result, if there are arrays of another package among the arguments.
        self.namespace = next((array.__array_namespace__() for array in found if not isinstance(array, ArrayBase)),
                              None)
        #: What the function has returned: the leaves, which of them are arrays, and the structure.
        self.results: list[Any] = []
        self.is_output: list[bool] = []
        self.structure = self.spec
        #: Whether the results depend on variables that the framework knows itself, such as parameters of modules.
        self.has_parameters = False

    @property
    def name(self) -> str:
        """What messages call the function."""
        return getattr(self.function, "__name__", "function")

    def run(self) -> Any:
        """The result of the function, which takes part in derivatives."""
        arrays, self.arrays = self.arrays, []
        nodes = [node for parts in arrays for part in parts if part._dynamic for node in part._nodes()]
        for node in nodes:
            if node.scope:
                raise symbolic_error(node, "wrap", f"{self.framework.package} computes with values")
        core.evaluate(nodes)
        differentiated, found = _Differentiated(self), None
        if not any(self.tracked):
            found = self.leaves_of(differentiated.values, arrays)
        if found is None or self.has_parameters:
            found = custom(_Outer, self, arrays, differentiated, found)
        return self.structure.rebuild(found)

    def called(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function computes that looks at memory; replays of a frozen function call it again."""
        return call_host(function, *args, name=self.name) if records() else function(*args)

    def leaves_of(self, values: Callable[[list[Parts]], list[Any]], arrays: list[Parts]) -> list[Any]:
        """What :meth:`called` does for a function that computes the leaves of the result, whose structure must not
        change either."""
        if not records():
            return values(arrays)

        def result(given: list[Parts]) -> Any:
            found = values(given)
            return self.structure.rebuild(found)

        return flatten(self.called(result, arrays), _FUNCTION, whole=True)[0]

    def values(self, arrays: list[Parts]) -> list[Any]:
        """The leaves of the result, as they are here."""
        return self.imported(self.compute(self.exported(arrays)))

    def exported(self, arrays: Sequence[Parts]) -> list[Any]:
        """Arrays as those of the framework."""
        return [self.framework.export(*parts) for parts in arrays]

    def compute(self, inputs: list[Any]) -> list[Any]:
        """The arrays among what the function returns, for given arrays among its arguments."""
        leaves = list(self.leaves)
        for place, value in zip(self.places, inputs, strict=True):
            leaves[place] = value
        args, kwargs = self.spec.rebuild(leaves)
        framework, versions = self.framework, list(map(self.framework.version, inputs))
        self.results, self.structure = flatten(self.function(*args, **kwargs), _FUNCTION)
        for place, value, version in zip(self.places, inputs, versions, strict=True):
            if framework.version(value) != version:
                raise RuntimeError(
                    f"{_FUNCTION}(): {self.name}() writes to its argument '{self.spec.paths(_ARGUMENTS)[place]}', and "
                    "with it to the array that it was called with, if both are one memory. Let it write to a copy.")
        is_array = framework.is_array
        _require_known(self.results, self.structure, "result", is_array)
        self.is_output = list(map(is_array, self.results))
        outputs = [leaf for leaf, flag in zip(self.results, self.is_output, strict=True) if flag]
        self.has_parameters = any(map(framework.is_tracked, outputs))
        return outputs

    def array(self, value: Any) -> Any:
        """What an array of the framework becomes, which shares its memory."""
        if self.namespace is None:
            return _tensor(self.framework, value)
        return self.namespace.from_dlpack(self.framework.plain(value))

    def imported(self, outputs: Sequence[Any]) -> list[Any]:
        """The leaves of the result, with arrays on this side in the places of the framework's."""
        rest = iter(outputs)
        results, self.results = self.results, []
        return [self.array(next(rest)) if flag else leaf for leaf, flag in zip(results, self.is_output, strict=True)]


class _Differentiated:
    """A call with derivatives. In replays of a frozen function, calls keep what these need only if they are computed,
    and until then."""

    def __init__(self, call: _Call) -> None:
        self.call = call
        self.recorded = records()
        self.wanted = not self.recorded and (any(call.tracked) or call.framework.tracks())
        #: The memory of the arguments, and what the framework has kept.
        self.known: tuple[list[Any], Derivatives] | None = None

    def values(self, arrays: list[Parts]) -> list[Any]:
        """The leaves of the result."""
        call = self.call
        if not self.wanted:
            return call.values(arrays)
        outputs, derivatives = call.framework.differentiate(call.compute, call.exported(arrays), call.tracked)
        self.known = _memory_of(arrays), derivatives
        return call.imported(outputs)

    def derivatives(self, arrays: list[Parts]) -> Derivatives:
        """Those of a call with some arguments: the last one, or else the function is called again."""
        call, known = self.call, self.known
        if self.recorded:
            self.wanted, self.known = True, None
        if known is not None and all(map(operator.is_, known[0], _memory_of(arrays))):
            return known[1]
        return call.framework.differentiate(call.compute, call.exported(arrays), call.tracked)[1]

    def reverse(self, arrays: list[Parts], given: list[Parts]) -> list[Any]:
        """Gradients of the arguments, given those of the results; 0 where derivatives are not tracked."""
        call = self.call
        gradients = [call.framework.export(*parts) if _differentiable(parts) else None for parts in given]
        found = iter(self.derivatives(arrays).reverse(gradients))
        return [_like(call.framework, next(found), parts) if flag else [0] * len(parts)
                for parts, flag in zip(arrays, call.tracked, strict=True)]

    def forward(self, arrays: list[Parts], given: list[Parts]) -> list[Any]:
        """Changes of the results, given those of the arguments that are tracked; 0 where there is none."""
        call = self.call
        found = iter(self.derivatives(arrays).forward(call.exported(given)))
        changes = [next(found) if flag else None for flag in call.is_output]
        call.results = []
        return [0 if change is None else call.array(change) for change in changes]


def _memory_of(arrays: list[Parts]) -> list[Any]:
    return [core.primal(node).payload for parts in arrays for part in parts for node in part._nodes()]


class _Outer(CustomOp):
    """The operation that stands for a call of a framework's function."""

    call: _Call
    differentiated: _Differentiated
    arrays: list[Parts]

    def name(self) -> str:
        return f"{self.call.framework.name}: {self.call.name}"

    def eval(self, call: _Call, arrays: list[Parts], differentiated: _Differentiated,
             found: list[Any] | None) -> list[Any]:
        self.call, self.differentiated = call, differentiated
        self.arrays = arrays  # held, so that writes to them go to a copy: the framework looks at this memory
        if found is None:
            return call.leaves_of(differentiated.values, arrays)
        self.add_input(_variable())  # derivatives flow on to the framework's variables
        return found

    def backward(self) -> None:
        call = self.call
        given = [_parts(gradient) for gradient, flag in zip(self.grad_out(), call.is_output, strict=True) if flag]
        self.set_grad_in("arrays", call.called(self.differentiated.reverse, self.arrays, given))

    def forward(self) -> None:
        call = self.call
        given = [change for change, flag in zip(self.grad_in("arrays"), call.tracked, strict=True) if flag]
        self.set_grad_out(call.called(self.differentiated.forward, self.arrays, given))


def _variable() -> Any:
    """An array that derivatives are tracked for, if any are."""
    kind: Any = lookup(Record(JitBackend.LLVM, FLOAT32, "array", (), True))
    found = kind(0)
    enable_grad(found)
    return found


class _Inner:
    """A call of a function of Dr.Jit with arrays of a framework."""

    def __init__(self, framework: Framework, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.framework, self.function = framework, function
        self.leaves, self.spec = flatten((args, kwargs), _FUNCTION)
        _require_known(self.leaves, self.spec, _ARGUMENTS, framework.is_array)
        self.places = [place for place, leaf in enumerate(self.leaves) if framework.is_array(leaf)]
        self.arguments: Arguments | None = None
        self.tracked: list[bool] = []
        #: Arrays among the results, and which of them have derivatives.
        self.outputs: list[Parts] = []
        self.floating: list[bool] = []
        self.results: list[Any] = []
        self.structure = self.spec

    def call(self) -> Any:
        """The result of the function, as one of the framework's operations."""
        arrays = [self.leaves[place] for place in self.places]
        found = iter(self.framework.embed(self, arrays) if arrays else self.run([], []))
        return self.structure.rebuild([next(found) if _is_array(leaf) else leaf for leaf in self.results])

    def again(self) -> _Inner:
        """See :class:`drjit.interop.frameworks.Inner`."""
        other = shallow_copy(self)
        other.arguments = None
        return other

    def on(self, framework: Framework) -> _Inner:
        """See :class:`drjit.interop.frameworks.Inner`."""
        other = shallow_copy(self)
        other.framework = framework
        return other

    def resemble(self, other: Inner) -> None:
        """See :class:`drjit.interop.frameworks.Inner`."""
        assert isinstance(other, _Inner)
        self.results, self.structure, self.floating, self.tracked = \
            other.results, other.structure, other.floating, other.tracked

    def ready(self, arrays: Sequence[Any], tracked: Sequence[bool]) -> _Inner:
        """See :class:`drjit.interop.frameworks.Inner`."""
        if self.arguments is not None:
            return self
        other = self.again()
        other.run(arrays, tracked)
        return other

    def run(self, arrays: Sequence[Any], tracked: Sequence[bool]) -> list[Any]:
        """See :class:`drjit.interop.frameworks.Inner`."""
        values = [_tensor(self.framework, array) for array in arrays]
        self.tracked = list(tracked)
        chosen = [value for value, flag in zip(values, tracked, strict=True) if flag]
        if chosen:
            self.arguments = Arguments(_FUNCTION, chosen)
            rest = iter(self.arguments.values)
            values = [next(rest) if flag else value for value, flag in zip(values, tracked, strict=True)]
            with self.arguments.tracked():
                self._compute(values)
        else:
            self._compute(values)
        return [self.framework.export(*parts) for parts in detach(self.outputs)]

    def _compute(self, values: list[Any]) -> None:
        leaves = list(self.leaves)
        for place, value in zip(self.places, values, strict=True):
            leaves[place] = value
        args, kwargs = self.spec.rebuild(leaves)
        self.results, self.structure = flatten(self.function(*args, **kwargs), _FUNCTION, whole=True)
        _require_known(self.results, self.structure, "result", _is_array)
        self.outputs = [list(map(_even, _parts(leaf))) for leaf in self.results if _is_array(leaf)]
        self.floating = [parts[0]._kind == "f" for parts in self.outputs]

    def reverse(self, gradients: Sequence[Any]) -> list[Any]:
        """See :class:`drjit.interop.frameworks.Inner`."""
        arguments = self.arguments
        assert arguments is not None
        pairs = []
        for parts, gradient in zip(self.outputs, gradients, strict=True):
            if gradient is not None and _differentiable(parts):
                for part, own in zip(parts, _like(self.framework, gradient, parts), strict=True):
                    pairs += [(vertex, change) for node, change in zip(part._nodes(), own._nodes(), strict=True)
                              if (vertex := tracked(node)) is not None]
        with explained(_FUNCTION):
            found = iter(arguments.rebuild(core.pull(pairs, arguments.flat(), again=False)))
        return [self.framework.export(next(found)) if flag else None for flag in self.tracked]

    def forward(self, changes: Sequence[Any]) -> list[Any]:
        """See :class:`drjit.interop.frameworks.Inner`."""
        arguments = self.arguments
        assert arguments is not None
        given = [change for change, flag in zip(changes, self.tracked, strict=True) if flag]
        pairs = []
        for own, array, change in zip(arguments.vertices, arguments.leaves, given, strict=True):
            if change is not None:
                pairs += list(zip(own, _like(self.framework, change, [array])[0]._nodes(), strict=True))
        vertices = [vertex for parts in self.outputs for part in parts for node in part._nodes()
                    if (vertex := tracked(node)) is not None]
        with explained(_FUNCTION):
            known = iter(core.push(pairs, vertices, again=False))

        def change_of(part: Any) -> Any:
            nodes = []
            for node in part._nodes():
                change = next(known) if tracked(node) is not None else None
                nodes.append(core.literal(node.type, 0, node.size) if change is None else broadcast(change, node.size))
            return wrap_like(part, type(part), nodes)

        found = [list(map(change_of, parts)) for parts in self.outputs]
        return [self.framework.export(*parts) if floating else None
                for parts, floating in zip(found, self.floating, strict=True)]


def _even(array: Any) -> Any:
    """An array whose components all have the same size, which is what they have in other frameworks."""
    if array._depth <= 0 or not array._dynamic:
        return array
    width = array._width(_FUNCTION)
    return wrap_like(array, type(array), [broadcast(node, width) for node in array._nodes()])


def _tensor(framework: Framework, value: Any) -> Any:
    """A tensor that shares the memory of a framework's array; a complex array where its elements are complex."""
    found = read(_FUNCTION, framework.plain(value))
    kind: Any
    if found.kind == "c":
        if len(found.shape) != 1:
            raise ArgumentError(f"{_FUNCTION}(): Dr.Jit has complex arrays of one dimension only, found an array of "
                                f"{found.source} with the shape {found.shape}.")
        kind = lookup(Record(found.backend, found.type, "complex", (2,), True))
        return wrap_nodes(kind, [found.node(0), found.node(1)])
    kind = lookup(Record(found.backend, found.type, "tensor", (), True))
    return make(kind, found.node(), found.shape)


def _like(framework: Framework, value: Any, parts: Parts) -> Parts:
    """A gradient that a framework has computed, as arrays of the types of others; zeros if there is none."""
    if value is None:
        return [wrap_like(part, type(part), [core.literal(node.type, 0, node.size) for node in part._nodes()])
                for part in parts]
    if len(parts) == 1:
        cls: Any = type(parts[0])
        return [cls(framework.plain(value))]
    found = read(_FUNCTION, framework.plain(value), where=parts[0]._where)
    if found.kind == "c":
        return [make(type(part), found.node(number), found.shape) for number, part in enumerate(parts)]
    real: Any = make(type(parts[0]), found.node(), found.shape)
    return [real, wrap_like(parts[1], type(parts[1]), [core.literal(node.type, 0, node.size)
                                                      for node in parts[1]._nodes()])]


def _name(role: str, value: str | ModuleType) -> str:
    """The name of a framework, ``'drjit'`` for this one, given a name or a module."""
    name = value.__name__.partition(".")[0] if isinstance(value, ModuleType) else value
    if not isinstance(name, str):
        raise ArgumentError(f"{_FUNCTION}(): '{role}' must be a string or a module, found {describe(value)}.")
    framework = framework_named(name)
    if framework is not None:
        return framework.name
    if name != "drjit":
        raise RangeError(f"{_FUNCTION}(): '{role}' must be one of 'drjit', 'torch', 'jax' and 'tf', or the module of "
                         f"one of them, found {name!r}.")
    return name


def wrap(source: str | ModuleType, target: str | ModuleType) -> Callable[[T], T]:
    """A decorator for functions that are written with one framework, and called from programs of another one.

    ``source`` is the framework outside of the function, ``target`` the one inside: ``'drjit'``, ``'torch'``, ``'jax'``
    or ``'tf'``, or its module. One of them is Dr.Jit; if both are, the function stays as it is.

    Arguments and results may be PyTrees. The arrays in there are converted, without copies where they lie in memory in
    one piece (nested arrays, such as ``Array3f``, do not), anything else is passed on as it is. What was an array of
    Dr.Jit, of whatever type, is a tensor of the same shape in the other framework (elements of complex arrays are its
    complex numbers), and what was an array there is a tensor of ``drjit.llvm.ad`` here, or an array such as
    ``Complex2f`` if its elements are complex. Arrays are evaluated when they cross, and waited for. What is in the
    memory of a GPU stays there, is an array of ``drjit.cuda.ad`` here, and is waited for by the other framework's
    stream only.

    Arrays of ``drjit.array_api`` are converted as well, complex ones by a copy. If there are some among the arguments
    of a function of another framework, its results become such arrays.

    Derivatives cross, too:

    ======================  ============  ============  ==============================================================
    ``source, target``      forward mode  reverse mode
    ======================  ============  ============  ==============================================================
    ``'drjit', 'torch'``    yes           yes           parameters of modules get their gradients in reverse mode,
                                                        also if no argument tracks derivatives (``torch.no_grad`` and
                                                        :func:`suspend_grad` turn that off)
    ``'drjit', 'jax'``      yes           yes           the function may be one of ``jax.jit``
    ``'drjit', 'tf'``       yes           yes           the function may be one of ``tf.function``
    ``'torch', 'drjit'``    yes           yes           no second derivatives; ``torch.func`` may transform it
    ``'jax', 'drjit'``      yes           yes           no second derivatives; ``jax.jit``, ``jax.vmap``,
                                                        ``jax.lax.scan`` … may trace it
    ``'tf', 'drjit'``       yes           yes           no second derivatives; in ``tf.function``, reverse mode only
    ======================  ============  ============  ==============================================================

    The function must be pure: it computes a result from its arguments, does not write to them, and may be called again
    to compute derivatives. Where a function of PyTorch has written to an argument, a ``RuntimeError`` says so
    afterwards: the memory is that of the array which it was called with. What JAX and ``tf.function`` compile calls it
    back when it runs, and calls it once with ones to see what the results are like; ``torch.func.vmap`` and
    ``jax.vmap`` call it for one entry of a batch after the other. ``torch.compile`` cannot look into it: in what that
    compiles, call ``torch.compiler.disable(function)``. PyTorch gets copies of results, to which its programs may
    write.

    Functions of other frameworks may be called in frozen functions: each replay calls them. Where they return something
    else than before, beside contents of arrays, the frozen function is recorded again; what they know themselves
    (parameters of modules, say) is no input of it.

    Symbolic loops, branches and calls have no values that other frameworks could compute with, and refuse them.
    Arguments and results that hold arrays, but are no PyTrees, are refused as well. Raises a ``ValueError`` for other
    frameworks. The function, when it is called, raises a ``ModuleNotFoundError`` if the framework is not installed, and
    a ``TypeError`` for arrays whose elements have no equivalent. ``@drjit.syntax`` stands below this decorator.

    >>> from drjit.llvm.ad import Float
    >>> @dr.wrap("drjit", "torch")  # doctest: +SKIP
    ... def softplus(x):
    ...     return torch.nn.functional.softplus(x)
    >>> dr.wrap("drjit", "drjit")(dr.sin)(Float(0))
    [0]
    """
    outside, inside = _name("source", source), _name("target", target)
    if "drjit" not in (outside, inside):
        raise RangeError(f"{_FUNCTION}(): one of 'source' and 'target' must be 'drjit', found {outside!r} and "
                         f"{inside!r}.")
    framework = framework_named(inside if outside == "drjit" else outside)

    def decorate(function: Any) -> Any:
        if not callable(function):
            raise ArgumentError(f"{_FUNCTION}(): decorates functions (found {describe(function)}).")
        if framework is None:
            return function

        def call(*args: Any, **kwargs: Any) -> Any:
            framework.load(_FUNCTION)
            try:
                if outside == "drjit":
                    return _Call(framework, function, args, kwargs).run()
                return _Inner(framework, function, args, kwargs).call()
            except Exception as error:
                raise passed_on(error)  # noqa: B904

        functools.update_wrapper(call, function)
        call.__dict__["__drjit_wrap__"] = True  # for @drjit.syntax, which belongs below this
        call.__dict__["autograph_info__"] = True  # tf.function calls this as it is, and does not look for the function
        return call

    return decorate


def wrap_ad(source: str | ModuleType, target: str | ModuleType) -> Callable[[T], T]:
    """What :func:`wrap` was called before. See there.

    >>> dr.wrap_ad(source="drjit", target="torch").__class__.__name__
    'function'
    """
    return wrap(source, target)
