"""PyTorch, JAX and TensorFlow: their arrays, and how each computes derivatives of a function.

A :class:`Framework` is all that the rest of this package knows of one of them. It exports and imports arrays without
copies, differentiates a function of its arrays (for programs of Dr.Jit that call it), and makes a function of Dr.Jit an
operation of its own (for its programs that call Dr.Jit). The package itself is imported when it is first needed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from drjit_core import evaluate, sync

from .._arrays.dlpack import capsule_of, device_of, memory_of
from .._arrays.host import CPU
from .._base.array import ArrayBase
from .._base.links import links

__all__ = ["FRAMEWORKS", "Derivatives", "Framework", "Inner", "framework_named", "to_framework"]


class Derivatives(Protocol):
    """Derivatives of a call of a framework's function. Lists have an entry for each array that takes part."""

    def reverse(self, gradients: list[Any]) -> list[Any]:
        """Gradients of the arguments, given those of the results."""

    def forward(self, changes: list[Any]) -> list[Any]:
        """Changes of the results, given those of the arguments."""


class Inner(Protocol):
    """A call of a function of Dr.Jit with arrays of a framework, see :mod:`.wrap`."""

    #: Which of the arguments derivatives are tracked for, and which of the results have some.
    tracked: list[bool]
    floating: list[bool]

    def run(self, arrays: Sequence[Any], tracked: Sequence[bool]) -> list[Any]:
        """The arrays that the function returns; what is needed for derivatives by the tracked ones is kept."""

    def again(self) -> Inner:
        """Another call of the function, which has not happened."""

    def on(self, framework: Framework) -> Inner:
        """This call, with arrays of another framework."""

    def resemble(self, other: Inner) -> None:
        """Take over what another call of the function has returned, but for its arrays and derivatives."""

    def ready(self, arrays: Sequence[Any], tracked: Sequence[bool]) -> Inner:
        """This call, if it has happened, with derivatives; else another one with these arrays."""

    def reverse(self, gradients: Sequence[Any]) -> list[Any]:
        """Gradients of the arguments (``None`` for those that are not tracked), given those of all results."""

    def forward(self, changes: Sequence[Any]) -> list[Any]:
        """Changes of all results (``None`` for those without derivatives), given those of the arguments."""


class _View:
    """What frameworks import: the evaluated memory of an array, without a copy if it lies there in one piece; or of
    complex numbers, whose real and imaginary parts are two arrays.

    ``immutable``: the framework never writes to it, so that it may also see what belongs to another package.
    ``alignment``: the framework needs memory that begins at a multiple of this many bytes.
    """

    def __init__(self, parts: Sequence[ArrayBase], *, immutable: bool, alignment: int = 1) -> None:
        self.parts, self.immutable, self.alignment = parts, immutable, alignment

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        # Always of version 0: PyTorch overlooks that memory is read-only, JAX and TensorFlow know no other version.
        memory, kind = memory_of(self.parts, device_of(self.parts[0]))
        copy = True if memory.address % self.alignment else None
        function = f"{self.parts[0]._name}.__dlpack__"
        return capsule_of(function, memory, kind, None, copy, immutable=self.immutable, stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return device_of(self.parts[0])


class Framework:
    """A package of arrays with derivatives."""

    #: The name that programs use, that of the module, and that of the package which provides it.
    name: str
    module: str
    package: str

    @functools.cached_property
    def library(self) -> Any:
        """The module, which is imported now."""
        return importlib.import_module(self.module)

    def load(self, function: str) -> Any:
        """The module; raises a ``ModuleNotFoundError`` that names the user's function if it is not installed."""
        try:
            return self.library
        except ModuleNotFoundError as error:
            if error.name != self.module:
                raise
            raise ModuleNotFoundError(f"{function}(): needs the package '{self.package}', which is not installed: "
                              f"pip install {self.package}.", name=self.module) from None

    def is_array(self, value: Any) -> bool:
        """Whether a value is an array of this framework."""
        raise NotImplementedError

    def is_floating(self, value: Any) -> bool:
        """Whether an array can have derivatives."""
        raise NotImplementedError

    def tracks(self) -> bool:
        """Whether it records what is computed from variables that it knows itself, such as parameters of modules."""
        return False

    def is_tracked(self, value: Any) -> bool:
        """Whether an array has been computed from such variables."""
        del value
        return False

    def version(self, value: Any) -> int:
        """How often an array has been written to."""
        del value
        return 0

    def export(self, *parts: ArrayBase) -> Any:
        """An array of this framework that shows the memory of an array of Dr.Jit, or that holds the complex numbers of
        which two tensors are the real and imaginary parts."""
        raise NotImplementedError

    def plain(self, value: Any) -> Any:
        """An array without its derivatives, which speaks DLPack."""
        raise NotImplementedError

    def differentiate(self, function: Callable[[list[Any]], list[Any]], arrays: list[Any],
                      tracked: list[bool]) -> tuple[list[Any], Derivatives]:
        """The values of a function of arrays, and its derivatives by some of them."""
        raise NotImplementedError

    def embed(self, inner: Inner, arrays: list[Any]) -> list[Any]:
        """The arrays that a call of Dr.Jit returns, as results of an operation of this framework."""
        raise NotImplementedError


def _chosen(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [value for value, flag in zip(values, flags, strict=True) if flag]


def _merged(values: Sequence[Any], chosen: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """The values, with others in the places of those that are flagged."""
    rest = iter(chosen)
    return [next(rest) if flag else value for value, flag in zip(values, flags, strict=True)]


# --- PyTorch ---------------------------------------------------------------------------------------------------------


class _Torch(Framework):
    name, module, package = "torch", "torch", "torch"

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.library.Tensor)

    def is_floating(self, value: Any) -> bool:
        return bool(value.is_floating_point() or value.is_complex())

    def tracks(self) -> bool:
        return bool(self.library.is_grad_enabled())

    def is_tracked(self, value: Any) -> bool:
        return bool(value.requires_grad)

    def version(self, value: Any) -> int:
        return int(value._version)

    def export(self, *parts: ArrayBase) -> Any:
        with _beyond_inference(self.library):  # whose arrays know neither derivatives nor versions
            return self.library.from_dlpack(_View(parts, immutable=False))

    def plain(self, value: Any) -> Any:
        return value.detach().resolve_conj().resolve_neg()

    def differentiate(self, function: Callable[[list[Any]], list[Any]], arrays: list[Any],
                      tracked: list[bool]) -> tuple[list[Any], Derivatives]:
        derivatives = _TorchDerivatives(self.library, function, arrays, tracked)
        return derivatives.outputs, derivatives

    def embed(self, inner: Inner, arrays: list[Any]) -> list[Any]:
        torch = self.library
        dual, reverse = torch.autograd.forward_ad.unpack_dual, torch.is_grad_enabled()
        transformed = torch._C._functorch.peek_interpreter_stack() is not None  # which asks what it wants
        tracked = [self.is_floating(array) and (
            transformed or reverse and array.requires_grad or dual(array).tangent is not None) for array in arrays]
        return list(self._operation.apply(inner, tracked, *arrays))

    @functools.cached_property
    def _operation(self) -> Any:
        """A call of Dr.Jit. Its derivatives are operations of their own, which transformations may transform again."""

        def forward(inner: Inner, tracked: list[bool], *arrays: Any) -> Any:
            # its user may write to results, which somebody else may look at
            return tuple([output.clone() for output in inner.run(arrays, tracked)])

        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.inner, ctx.tracked, *arrays = inputs
            ctx.save_for_backward(*arrays)  # also for the check that nobody has written to them
            ctx.save_for_forward(*arrays)
            ctx.mark_non_differentiable(*[entry for entry in output if not self.is_floating(entry)])

        def backward(ctx: Any, *gradients: Any) -> Any:
            given = _chosen(gradients, ctx.inner.floating)
            found = reverse.apply(ctx.inner, ctx.tracked, len(given), *given, *ctx.saved_tensors)
            return None, None, *_merged([None] * len(ctx.tracked), found, ctx.tracked)

        def jvp(ctx: Any, _inner: Any, _tracked: Any, *changes: Any) -> Any:
            given = _chosen(changes, ctx.tracked)
            found = change.apply(ctx.inner, ctx.tracked, len(given), *given, *ctx.saved_tensors)
            return tuple(_merged([None] * len(ctx.inner.floating), found, ctx.inner.floating))

        def vmap(info: Any, in_dims: Any, inner: Inner, tracked: list[bool], *arrays: Any) -> Any:
            def call(entries: list[Any]) -> Any:
                one = inner.again()
                outputs = operation.apply(one, tracked, *entries)
                inner.resemble(one)
                return outputs

            return self._batched(info, in_dims[2:], arrays, call)

        def gradients_of(inner: Inner, given: Sequence[Any]) -> list[Any]:
            return _chosen(inner.reverse(_merged([None] * len(inner.floating), given, inner.floating)), inner.tracked)

        def changes_of(inner: Inner, given: Sequence[Any]) -> list[Any]:
            return _chosen(inner.forward(_merged([None] * len(inner.tracked), given, inner.tracked)), inner.floating)

        operation = self._operation_of("DrJit", forward, setup_context, backward, jvp, vmap)
        reverse = self._linear("DrJitReverse", gradients_of, lambda: change)
        change = self._linear("DrJitForward", changes_of, lambda: reverse)
        return operation

    def _linear(self, name: str, compute: Callable[[Inner, Sequence[Any]], list[Any]],
                transposed: Callable[[], Any]) -> Any:
        """A derivative of a call, as an operation that is linear in the first arrays that it is given. Its derivatives
        by the others, which are the arguments of the call, are refused when they are asked for."""
        refused = RuntimeError("drjit.wrap(): second derivatives of functions of Dr.Jit are not available in PyTorch.")

        def forward(inner: Inner, tracked: list[bool], count: int, *arrays: Any) -> Any:
            return tuple([entry.clone() for entry in compute(inner.ready(arrays[count:], tracked), arrays[:count])])

        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.inner, ctx.tracked, ctx.count, *arrays = inputs
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*arrays[ctx.count:])
            ctx.save_for_forward(*arrays[ctx.count:])

        def backward(ctx: Any, *gradients: Any) -> Any:
            if any(ctx.needs_input_grad[3 + ctx.count:]):
                raise refused
            found = transposed().apply(ctx.inner, ctx.tracked, len(gradients), *gradients, *ctx.saved_tensors)
            return None, None, None, *found, *[None] * len(ctx.saved_tensors)

        def jvp(ctx: Any, _inner: Any, _tracked: Any, _count: Any, *changes: Any) -> Any:
            if any(change is not None for change in changes[ctx.count:]):
                raise refused
            return operation.apply(ctx.inner, ctx.tracked, ctx.count, *changes[:ctx.count], *ctx.saved_tensors)

        def vmap(info: Any, in_dims: Any, inner: Inner, tracked: list[bool], count: int, *arrays: Any) -> Any:
            return self._batched(info, in_dims[3:], arrays, lambda entries: operation.apply(
                inner if all(dim is None for dim in in_dims[3 + count:]) else inner.again(), tracked, count, *entries))

        operation = self._operation_of(name, forward, setup_context, backward, jvp, vmap)
        return operation

    def _operation_of(self, name: str, *functions: Callable[..., Any]) -> Any:
        return type(name, (self.library.autograd.Function,),
                    {function.__name__: staticmethod(function) for function in functions})

    def _batched(self, info: Any, dims: Any, arrays: Any, call: Callable[[list[Any]], Any]) -> tuple[Any, Any]:
        """What an operation gives for each entry of a batch, one after the other."""
        found = [call([array if dim is None else array.select(dim, k)
                       for array, dim in zip(arrays, dims, strict=True)]) for k in range(info.batch_size)]
        outputs = tuple([self.library.stack(entries) for entries in zip(*found, strict=True)])
        return outputs, (0,) * len(outputs)


_WITHIN = contextlib.nullcontext()


def _beyond_inference(torch: Any) -> Any:
    """A context in which PyTorch's mode of inference, if it is on, is not."""
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else _WITHIN


class _TorchDerivatives:
    """The graph of a call is kept for reverse mode. Forward mode calls the function once more. Whether PyTorch's
    program computes derivatives itself around the call does not matter."""

    def __init__(self, torch: Any, function: Callable[[list[Any]], list[Any]], arrays: list[Any],
                 tracked: list[bool]) -> None:
        self.torch, self.function, self.arrays, self.tracked = torch, function, arrays, tracked
        self.inputs = [array.detach().requires_grad_() for array in _chosen(arrays, tracked)]
        with _beyond_inference(torch), _WITHIN if torch.is_grad_enabled() else torch.enable_grad():
            self.outputs = function(_merged(arrays, self.inputs, tracked))

    def reverse(self, gradients: list[Any]) -> list[Any]:
        pairs = [(output, gradient) for output, gradient in zip(self.outputs, gradients, strict=True)
                 if gradient is not None and output.requires_grad]
        for array in self.inputs:
            array.grad = None
        if pairs:
            # not autograd.grad(): parameters of modules that the function uses get their gradients, too
            with _beyond_inference(self.torch):
                self.torch.autograd.backward([output for output, _ in pairs], [gradient for _, gradient in pairs],
                                             retain_graph=True)
        found = [array.grad for array in self.inputs]
        for array in self.inputs:
            array.grad = None
        return found

    def forward(self, changes: list[Any]) -> list[Any]:
        forward_ad = self.torch.autograd.forward_ad
        with _beyond_inference(self.torch), forward_ad.dual_level():
            duals = [array.detach() if change is None else forward_ad.make_dual(array.detach(), change)
                     for array, change in zip(self.inputs, changes, strict=True)]
            outputs = self.function(_merged(self.arrays, duals, self.tracked))
            return [forward_ad.unpack_dual(output).tangent for output in outputs]


# --- JAX -------------------------------------------------------------------------------------------------------------


class _JAX(Framework):
    name, module, package = "jax", "jax", "jax"

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.library.Array)

    def is_floating(self, value: Any) -> bool:
        return bool(self.library.numpy.issubdtype(value.dtype, self.library.numpy.inexact))

    def export(self, *parts: ArrayBase) -> Any:
        return self.library.dlpack.from_dlpack(_View(parts, immutable=True))

    def plain(self, value: Any) -> Any:
        return value

    def differentiate(self, function: Callable[[list[Any]], list[Any]], arrays: list[Any],
                      tracked: list[bool]) -> tuple[list[Any], Derivatives]:
        derivatives = _JAXDerivatives(self, function, arrays, tracked)
        return derivatives.outputs, derivatives

    def embed(self, inner: Inner, arrays: list[Any]) -> list[Any]:
        jax = self.library
        floating = [self.is_floating(array) for array in arrays]
        none = [False] * len(arrays)

        @jax.custom_jvp  # type: ignore[untyped-decorator]
        def operation(*inputs: Any) -> list[Any]:
            return inner.run(inputs, none) if self.known(inputs) else self._called_back(inner, inputs)

        @operation.defjvp  # type: ignore[untyped-decorator]
        def changes(inputs: Any, changes: Any) -> tuple[list[Any], list[Any]]:
            outputs = inner.run(inputs, floating) if self.known(inputs) else operation(*inputs)
            linear = _Linear(self, inner, floating, _chosen(inputs, floating), _chosen(outputs, inner.floating))
            found = linear(inputs, _chosen(changes, floating))
            import numpy

            none = [numpy.zeros(output.shape, jax.dtypes.float0) for output in outputs]
            return outputs, _merged(none, found, inner.floating)

        return list(operation(*arrays))

    def known(self, values: Sequence[Any]) -> bool:
        """Whether arrays have values, and are not what a transformation traces."""
        return not any(isinstance(value, self.library.core.Tracer) for value in values)

    def _called_back(self, inner: Inner, inputs: Sequence[Any]) -> list[Any]:
        """The results where a transformation of JAX traces the call: when its program runs, it calls back. What the
        results are like shows the function itself, called with ones."""
        import numpy

        none = [False] * len(inputs)
        example = inner.again().on(_HOST)
        results = example.run([numpy.ones(array.shape, array.dtype) for array in inputs], none)
        inner.resemble(example)
        canonical = self.library.dtypes.canonicalize_dtype
        shapes = [self.library.ShapeDtypeStruct(result.shape, canonical(result.dtype)) for result in results]
        return self.callback(lambda *values: inner.again().on(_HOST).run(values, none), shapes, inputs)

    def callback(self, function: Callable[..., list[Any]], shapes: list[Any], inputs: Sequence[Any]) -> list[Any]:
        """Arrays that a function of NumPy arrays computes when JAX's program runs."""
        import numpy

        def call(*values: Any) -> list[Any]:
            return [numpy.asarray(found, shape.dtype) for found, shape in zip(
                function(*map(numpy.asarray, values)), shapes, strict=True)]

        return list(self.library.pure_callback(call, shapes, *inputs, vmap_method="sequential"))

    @functools.cached_property
    def linear(self) -> Any:
        """The derivative of a call as an operation of JAX: linear in some arrays (``_Linear.given``), after those that
        the function was called with."""
        ad, batching, mlir, extension = [importlib.import_module(f"jax.{name}") for name in (
            "interpreters.ad", "interpreters.batching", "interpreters.mlir", "extend.core")]
        jax = self.library
        primitive = extension.Primitive("drjit_derivative")
        primitive.multiple_results = True
        primitive.def_impl(lambda *values, linear: linear.compute(linear.inner, values))
        primitive.def_abstract_eval(lambda *values, linear: [
            jax.core.ShapedArray(found.shape, found.dtype) for found in linear.found])

        def called_back(*values: Any, linear: _Linear) -> list[Any]:
            return self.callback(lambda *values: linear.compute(linear.inner.again().on(_HOST), values), linear.found,
                                 values)

        def change(values: Any, changes: Any, *, linear: _Linear) -> Any:
            if any(type(change) is not ad.Zero for change in changes[:linear.count]):
                raise RuntimeError("drjit.wrap(): second derivatives of functions of Dr.Jit are not available in JAX.")
            inputs = values[:linear.count]
            return (linear(inputs, values[linear.count:]),
                    linear(inputs, list(map(ad.instantiate_zeros, changes[linear.count:]))))

        def transposed(gradients: Any, *values: Any, linear: _Linear) -> list[Any]:
            found = linear.transposed()(values[:linear.count], list(map(ad.instantiate_zeros, gradients)))
            return [None] * linear.count + found

        def batched(values: Any, dims: Any, *, linear: _Linear) -> tuple[list[Any], list[int]]:
            whole = [None if dim is None else jax.numpy.moveaxis(value, dim, 0)
                     for value, dim in zip(values, dims, strict=True)]
            size = next(value.shape[0] for value in whole if value is not None)

            def entry(parts: Any) -> list[Any]:
                found = [value if part is None else part for value, part in zip(values, parts, strict=True)]
                return linear(found[:linear.count], found[linear.count:])

            if self.known(values):
                results = [entry([None if value is None else value[k] for value in whole]) for k in range(size)]
                return [jax.numpy.stack(entries) for entries in zip(*results, strict=True)], [0] * len(linear.found)
            return jax.lax.map(entry, whole), [0] * len(linear.found)

        mlir.register_lowering(primitive, mlir.lower_fun(called_back, multiple_results=True))
        ad.primitive_jvps[primitive], ad.primitive_transposes[primitive] = change, transposed
        batching.primitive_batchers[primitive] = batched
        return primitive

    def conjugate(self, gradient: Any) -> Any:
        """A gradient in the other convention: JAX's products of cotangents and tangents have no conjugates."""
        return gradient.conj() if self.library.numpy.iscomplexobj(gradient) else gradient


class _Linear:
    """The derivative of a call of Dr.Jit, from changes of arguments to those of results, or back: what JAX knows of it
    are the arrays that it is ``given``, and those that are ``found``."""

    def __init__(self, framework: _JAX, inner: Inner, tracked: list[bool], given: list[Any], found: list[Any],
                 reverse: bool = False) -> None:
        self.framework, self.inner, self.tracked, self.reverse = framework, inner, tracked, reverse
        shape = framework.library.ShapeDtypeStruct
        self.given, self.found = ([shape(array.shape, array.dtype) for array in arrays] for arrays in (given, found))
        self.count = len(tracked)

    def __call__(self, inputs: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        if not self.found:
            return []
        return list(self.framework.linear.bind(*inputs, *given, linear=self))

    def transposed(self) -> _Linear:
        """In the other direction."""
        return _Linear(self.framework, self.inner, self.tracked, self.found, self.given, not self.reverse)

    def compute(self, inner: Inner, values: Sequence[Any]) -> list[Any]:
        """The arrays that are found, given arguments of the call and what this is linear in."""
        call, given, conjugate = inner.ready(values[:self.count], self.tracked), values[self.count:], \
            self.framework.conjugate
        if not self.reverse:
            return _chosen(call.forward(_merged([None] * self.count, given, self.tracked)), call.floating)
        gradients = _merged([None] * len(call.floating), list(map(conjugate, given)), call.floating)
        return list(map(conjugate, _chosen(call.reverse(gradients), self.tracked)))


class _JAXDerivatives:
    """What ``jax.vjp`` keeps is kept for reverse mode. Forward mode calls the function once more."""

    def __init__(self, framework: _JAX, function: Callable[[list[Any]], list[Any]], arrays: list[Any],
                 tracked: list[bool]) -> None:
        self.framework, self.function, self.arrays, self.tracked = framework, function, arrays, tracked
        self.inputs = _chosen(arrays, tracked)
        self.floating: list[bool] = []
        found, self.pullback, rest = framework.library.vjp(self._parts, *self.inputs, has_aux=True)
        self.dtypes = [output.dtype for output in found]
        self.outputs = self._joined(found, rest)

    def _parts(self, *inputs: Any) -> tuple[list[Any], list[Any]]:
        """The results that have derivatives, and the other ones."""
        outputs = self.function(_merged(self.arrays, inputs, self.tracked))
        self.floating = [self.framework.is_floating(output) for output in outputs]
        return _chosen(outputs, self.floating), _chosen(outputs, [not flag for flag in self.floating])

    def _joined(self, found: Sequence[Any], rest: Sequence[Any]) -> list[Any]:
        return _merged(_merged(self.floating, rest, [not flag for flag in self.floating]), found, self.floating)

    def reverse(self, gradients: list[Any]) -> list[Any]:
        conjugate = self.framework.conjugate
        found = self.pullback([conjugate(gradient) for gradient in _chosen(gradients, self.floating)])
        return [conjugate(gradient) for gradient in found]

    def forward(self, changes: list[Any]) -> list[Any]:
        _, found, rest = self.framework.library.jvp(self._parts, self.inputs, changes, has_aux=True)
        return self._joined(found, [None] * len(rest))


class _Host(Framework):
    """Arrays of NumPy, which are what JAX's programs call back with."""

    def export(self, *parts: ArrayBase) -> Any:
        import numpy

        return numpy.from_dlpack(_View(parts, immutable=True))

    def plain(self, value: Any) -> Any:
        return value


_HOST = _Host()


# --- TensorFlow ------------------------------------------------------------------------------------------------------


class _TensorFlow(Framework):
    name, module, package = "tf", "tensorflow", "tensorflow"

    def is_array(self, value: Any) -> bool:
        return isinstance(value, (self.library.Tensor, self.library.Variable))

    def is_floating(self, value: Any) -> bool:
        return bool(value.dtype.is_floating or value.dtype.is_complex)

    def export(self, *parts: ArrayBase) -> Any:
        # it ends the process when it finds memory with another alignment
        view = _View(parts, immutable=True, alignment=64)
        if view.__dlpack_device__() != CPU:
            evaluate([node for part in parts for node in part._nodes()])
            sync()  # it tells nobody what stream it uses
        return self.library.experimental.dlpack.from_dlpack(view.__dlpack__())

    def plain(self, value: Any) -> Any:
        return self.library.convert_to_tensor(value)

    def differentiate(self, function: Callable[[list[Any]], list[Any]], arrays: list[Any],
                      tracked: list[bool]) -> tuple[list[Any], Derivatives]:
        derivatives = _TensorFlowDerivatives(self.library, function, arrays, tracked)
        return derivatives.outputs, derivatives

    def embed(self, inner: Inner, arrays: list[Any]) -> list[Any]:
        tf = self.library
        arrays = list(map(tf.convert_to_tensor, arrays))
        if not all(hasattr(array, "numpy") for array in arrays):
            return self._called_back(inner, arrays)
        floating = [self.is_floating(array) for array in arrays]

        def operation(*inputs: Any) -> tuple[list[Any], Callable[..., list[Any]]]:
            outputs = inner.run(inputs, floating)

            def reverse(*gradients: Any) -> list[Any]:
                given = _chosen(gradients, inner.floating)
                found = derivative(*given, *map(self._guard, _chosen(inputs, floating)))
                return _merged([None] * len(inputs), found, floating)

            return outputs, reverse

        def derivative_and_its(*given: Any) -> tuple[list[Any], Callable[..., list[Any]]]:
            count = sum(inner.floating)
            found = inner.reverse(_merged([None] * len(inner.floating), list(map(
                tf.convert_to_tensor, given[:count])), inner.floating))

            def forward(*changes: Any) -> list[Any]:  # the derivative is linear in what it is given
                result = inner.forward(_merged([None] * len(floating), list(map(
                    tf.convert_to_tensor, changes)), floating))
                return [*_chosen(result, inner.floating), *map(tf.zeros_like, given[count:])]

            return _chosen(found, floating), forward

        derivative = tf.custom_gradient(derivative_and_its)
        return list(tf.custom_gradient(operation)(*arrays))

    def _called_back(self, inner: Inner, arrays: list[Any]) -> list[Any]:
        """The results where ``tf.function`` traces the call: when its program runs, it calls back, in reverse mode
        once more. What the results are like shows the function itself, called with ones."""
        tf = self.library
        example, known = inner.again(), all(array.shape.is_fully_defined() for array in arrays)
        if any(array.shape.rank is None for array in arrays):
            raise TypeError("drjit.wrap(): where TensorFlow traces a function of Dr.Jit, the numbers of axes of its "
                            "arguments must be known.")
        with tf.init_scope():
            ones = [tf.ones([size or 1 for size in array.shape.as_list()], array.dtype) for array in arrays]
            results = example.run(ones, [False] * len(arrays))
        inner.resemble(example)
        floating, count = [self.is_floating(array) for array in arrays], len(arrays)

        def run(*values: Any) -> list[Any]:
            return inner.again().run(values, [False] * count)

        def gradients_of(*values: Any) -> list[Any]:
            call = inner.again().ready(values[:count], floating)
            return _chosen(call.reverse(_merged([None] * len(call.floating), values[count:], call.floating)), floating)

        def operation(*inputs: Any) -> tuple[list[Any], Callable[..., list[Any]]]:
            def reverse(*gradients: Any) -> list[Any]:
                given = [*map(self._guard, inputs), *_chosen(gradients, inner.floating)]
                found = tf.py_function(gradients_of, given, [array.dtype for array in _chosen(arrays, floating)])
                return _merged([None] * count, found, floating)

            found = tf.py_function(run, inputs, [result.dtype for result in results])
            for tensor, result in zip(found, results, strict=True):
                tensor.set_shape(result.shape if known else [None] * result.shape.rank)
            return list(found), reverse

        return list(tf.custom_gradient(operation)(*arrays))

    def _guard(self, array: Any) -> Any:
        """An array by which derivatives are computed that have none themselves."""
        def identity(value: Any) -> tuple[Any, Callable[[Any], Any]]:
            def refused(gradient: Any) -> Any:
                raise RuntimeError("drjit.wrap(): second derivatives of functions of Dr.Jit are not available in "
                                   "TensorFlow.")

            return self.library.identity(value), refused

        return self.library.custom_gradient(identity)(array)


class _TensorFlowDerivatives:
    """The tape of a call is kept for reverse mode. Forward mode calls the function once more."""

    def __init__(self, tf: Any, function: Callable[[list[Any]], list[Any]], arrays: list[Any],
                 tracked: list[bool]) -> None:
        self.tf, self.function, self.arrays, self.tracked = tf, function, arrays, tracked
        self.inputs = list(map(tf.identity, _chosen(arrays, tracked)))
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as self.tape:
            self.tape.watch(self.inputs)
            self.outputs = list(map(tf.convert_to_tensor, function(_merged(arrays, self.inputs, tracked))))

    def reverse(self, gradients: list[Any]) -> list[Any]:
        pairs = [(output, gradient) for output, gradient in zip(self.outputs, gradients, strict=True)
                 if gradient is not None]
        found = self.tape.gradient([output for output, _ in pairs], self.inputs,
                                   output_gradients=[gradient for _, gradient in pairs])
        return [None if gradient is None else self.tf.convert_to_tensor(gradient) for gradient in found]

    def forward(self, changes: list[Any]) -> list[Any]:
        with self.tf.autodiff.ForwardAccumulator(self.inputs, changes) as accumulator:
            outputs = self.function(_merged(self.arrays, self.inputs, self.tracked))
        return [accumulator.jvp(output) for output in outputs]


# --- all of them -----------------------------------------------------------------------------------------------------

#: Frameworks by the names that programs use.
FRAMEWORKS: dict[str, Framework] = {framework.name: framework for framework in (_Torch(), _JAX(), _TensorFlow())}
_BY_MODULE = {framework.module: framework for framework in FRAMEWORKS.values()}


def framework_named(name: str) -> Framework | None:
    """The framework with a name, which may also be that of its module."""
    return FRAMEWORKS.get(name) or _BY_MODULE.get(name)


def to_framework(function: str, name: str, parts: Sequence[ArrayBase]) -> Any:
    """An array of the framework of a name that shows the memory of a tensor, or that holds the complex numbers of which
    two tensors are the parts. ``function`` is the user's, for messages."""
    framework = FRAMEWORKS[name]
    framework.load(function)
    return framework.export(*parts)


def _exporter(name: str) -> Callable[[ArrayBase], Any]:
    def export(array: ArrayBase) -> Any:
        return to_framework(f"{array._name}.{name}", name, [array])

    return export


links.to_torch, links.to_jax, links.to_tf = map(_exporter, ("torch", "jax", "tf"))
