"""Derivatives across frameworks: ``dr.wrap`` in both directions, against Dr.Jit's own and finite differences."""

from __future__ import annotations

import gc
import warnings
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm.ad import (
    Array3f,
    Array3f64,
    Bool,
    Complex2f64,
    Float,
    Float64,
    Int,
    Matrix2f64,
    TensorXf,
    TensorXf64,
    UInt,
)
from tests.interop.harness import MODULES, array_of, gradients, library

#: Of PyTorch itself, when it computes derivatives in forward mode.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")


# --- a framework within Dr.Jit ---------------------------------------------------------------------------------------

ARGUMENTS = {
    "flat": lambda: Float64(0.5, 1, 1.5), "one value": lambda: Float64(0.7), "nested": lambda: Array3f64([1, 2], 3, 4),
    "tensor": lambda: TensorXf64([[1, 2], [3, 4], [0.5, 0.1]]), "no axes": lambda: TensorXf64(0.3),
    "matrix": lambda: Matrix2f64([1, 2], 2, 3, 4), "single precision": lambda: TensorXf([[1, 2]]),
}


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_derivatives_of_a_framework_flow_through_drjit(framework, argument):
    xp = library(framework)
    wrapped = dr.wrap("drjit", framework)(lambda x: xp.sin(x) * x)

    def derivatives(function):
        x = ARGUMENTS[argument]()
        dr.enable_grad(x)
        y = function(x * 2)
        dr.backward(y * y)
        first = dr.grad(x).numpy()
        x = ARGUMENTS[argument]()
        dr.enable_grad(x)
        dr.set_grad(x, 0.5)
        y = function(x * 2)
        dr.forward_to(y)
        return first, y.numpy(), dr.grad(y).numpy()

    def own(x):
        tensor = dr.tensor_t(type(x))(x)  # which is what comes back
        return dr.sin(tensor) * tensor

    for one, other in zip(derivatives(own), derivatives(wrapped), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-5 if argument == "single precision" else 1e-12)


def test_results_are_tensors_and_share_memory(framework):
    xp = library(framework)
    seen = []

    def function(x):
        seen.append(x)
        return xp.sqrt(x)

    x = dr.arange(Float, 1000) + 1
    y = dr.wrap("drjit", framework)(function)(x)
    assert type(y) is TensorXf and y.shape == (1000,) and not dr.grad_enabled(y)
    inside = np.from_dlpack(seen[0].detach() if framework == "torch" else seen[0])
    assert inside.ctypes.data == x.numpy().ctypes.data


@dataclass
class State:
    position: Array3f
    weight: Float
    label: str = "state"


def test_pytrees_and_other_values_cross(framework):
    xp = library(framework)

    @dr.wrap("drjit", framework)
    def step(state, factors, *, scale, mode):
        assert mode == "fast" and state.label == "state" and type(factors) is tuple and factors[1] is None
        assert not isinstance(state.position, dr.ArrayBase) and "bool" in str(factors[2].dtype)
        return State(state.position * factors[0] * scale, state.weight, "next"), [xp.sum(state.weight), 3, "text"], \
            {"count": factors[3]}

    x, w = Array3f([1, 2], 3, 4), Float(1, 2)
    dr.enable_grad(x)
    state, (total, number, text), rest = step(State(x, w), (Float(2), None, Bool(True, False), Int(4, 5)), scale=3,
                                              mode="fast")
    assert (state.label, number, text) == ("next", 3, "text") and isinstance(state, State)
    assert state.position.numpy().tolist() == [[6, 12], [18, 18], [24, 24]] and total.numpy() == 3
    assert type(rest["count"]).__name__ == "TensorXi" and rest["count"].numpy().tolist() == [4, 5]
    dr.backward(state.position[0])
    assert x.grad.numpy().tolist() == [[6, 6], [0, 0], [0, 0]]


def test_only_tracked_arguments_get_gradients(framework):
    xp = library(framework)
    wrapped = dr.wrap("drjit", framework)(lambda a, b, n: (a * b, xp.sum(b), n))
    a, b = Float(1, 2), Float(3, 4)
    dr.enable_grad(b)
    product, total, n = wrapped(a, b, Int(1, 2))
    dr.enqueue(dr.ADMode.Backward, product)
    dr.backward(dr.sum(product) + 10 * total)
    assert b.grad.numpy().tolist() == [11, 12] and not dr.grad_enabled(a) and not dr.grad_enabled(n)


def test_results_that_do_not_depend_on_arguments_have_no_gradients(framework):
    xp = library(framework)
    wrapped = dr.wrap("drjit", framework)(lambda x, y: (x * 2, xp.ones(2)))
    x, y = Float64(1, 2), Float64(1)
    dr.enable_grad(x, y)
    first, second = wrapped(x, y)
    dr.backward(dr.sum(first) + dr.sum(second))
    assert x.grad.numpy().tolist() == [2, 2] and y.grad.numpy().tolist() == [0]
    x.grad = 1
    y.grad = 1
    first, second = wrapped(x, y)
    dr.forward_to(first, second)
    assert first.grad.numpy().tolist() == [2, 2] and second.grad.numpy().tolist() == [0, 0]


def test_complex_numbers_cross_with_their_gradients(framework):
    def gradient(square):
        z = Complex2f64([1, 2], [3, 4])
        dr.enable_grad(z)
        w = square(z)
        assert type(w) is Complex2f64
        dr.backward(dr.real(w) + 2 * dr.imag(w))
        return z.grad.numpy().tolist()

    assert gradient(dr.wrap("drjit", framework)(lambda z: z * z * (1 + 2j))) == \
        gradient(lambda z: z * z * Complex2f64(1, 2))
    with pytest.raises(TypeError, match=r"drjit\.wrap.*complex arrays of one dimension.*\(1, 2\)"):
        dr.wrap("drjit", framework)(lambda z: z[None])(Complex2f64([1, 2], 3))


def test_derivatives_are_those_of_the_values_that_the_function_has_seen(framework):
    x = Float64(1, 2, 3)
    dr.enable_grad(x)
    y = dr.wrap("drjit", framework)(lambda x: x * x)(x)
    own = dr.detach(x)
    own[0] = 100
    z = dr.wrap("drjit", framework)(lambda x: x * x)(own)
    x_before = dr.grad(x)
    dr.backward(y)
    assert x.grad.numpy().tolist() == [2, 4, 6] and x_before.numpy().tolist() == [0, 0, 0]
    assert z.numpy().tolist() == [10000, 4, 9]
    a = Float64(1, 2, 3)
    dr.enable_grad(a)
    b = dr.wrap("drjit", framework)(lambda x: x * x)(a)
    a[1] = 50
    assert b.numpy().tolist() == [1, 4, 9]


def test_gradients_can_be_asked_for_again(framework):
    x = Float64(1, 2)
    dr.enable_grad(x)
    y = dr.wrap("drjit", framework)(lambda x: x * x * x)(x)
    for _ in range(2):
        dr.clear_grad(x)
        dr.backward(y, dr.ADFlag.ClearVertices)
        assert x.grad.numpy().tolist() == [3, 12]


def test_memory_is_let_go_when_the_result_is(framework):
    xp = library(framework)
    seen = []

    def function(x):
        seen.append(weakref.ref(x))
        return xp.sin(x)

    x = Float64(1, 2)
    dr.enable_grad(x)
    y = dr.wrap("drjit", framework)(function)(x)
    dr.backward(y)
    del y
    gc.collect()
    assert seen[0]() is None


def test_functions_that_the_framework_compiles(framework):
    if framework == "torch":
        pytest.skip("torch.compile needs a compiler of C++")
    if framework == "jax":
        import jax

        compiled = jax.jit
    else:
        import tensorflow

        compiled = tensorflow.function
    xp = library(framework)

    def sine(x, y):
        return xp.sin(x) * y

    wrapped = dr.wrap("drjit", framework)(compiled(sine))
    for _ in range(2):
        x, y = Float64(1, 2), Float64(3)
        dr.enable_grad(x)
        dr.backward(wrapped(x, y))
        np.testing.assert_allclose(x.grad.numpy(), 3 * np.cos([1, 2]))


def test_scalar_arrays_cross(framework):
    found = dr.wrap("drjit", framework)(lambda v: v + v)(scalar.Array3f(1, 2, 3))
    assert found.numpy().tolist() == [2, 4, 6]


def test_gradients_reach_parameters_of_torch_modules():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(3, 2)
    x = TensorXf([[1, 2, 3]])
    dr.enable_grad(x)
    y = dr.wrap("drjit", "torch")(layer)(x)
    dr.backward(dr.sum(y))
    np.testing.assert_allclose(x.grad.numpy(), layer.weight.detach().numpy().sum(0)[None], rtol=1e-6)
    assert layer.weight.grad.tolist() == [[1, 2, 3], [1, 2, 3]] and layer.bias.grad.tolist() == [1, 1]


def test_parameters_get_their_gradients_if_no_argument_is_tracked():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(3, 1)
    wrapped = dr.wrap("drjit", "torch")(lambda x: layer(x))
    x = TensorXf([1, 2, 3])

    def suspended(w):
        with dr.suspend_grad():
            y = wrapped(x)
        return y.array * w

    def without(w):
        with torch.no_grad():
            y = wrapped(x)
        return y.array * w

    frozen = dr.freeze(lambda x, w: wrapped(x).array * w)
    calls = [
        (lambda w: wrapped(x).array * w, [2, 4, 6]), (suspended, None), (without, None),
        (lambda w: frozen(x, w), [2, 4, 6]), (lambda w: frozen(x, w), [2, 4, 6]),
        (lambda w: dr.checkpoint(lambda x: wrapped(x), x).array * w, [2, 4, 6]),
        (lambda w: dr.checkpoint(lambda w: wrapped(x).array * w, w), [2, 4, 6]),
        (lambda w: dr.checkpoint(lambda y: wrapped(x).array * 0 + y + wrapped(x).array, Float(0), steps=3) * w,
         [6, 12, 18]),
    ]
    for function, expected in calls:
        layer.zero_grad(set_to_none=True)
        w = Float(2)
        dr.enable_grad(w)
        y = function(w)
        dr.backward(y)
        assert w.grad.numpy() == pytest.approx(y.numpy() / 2)
        assert (layer.weight.grad is None) == (expected is None)
        assert expected is None or layer.weight.grad.flatten().tolist() == pytest.approx(expected)
    assert not dr.grad_enabled(dr.wrap("drjit", "torch")(torch.sin)(x))
    layer.zero_grad()
    dr.value_and_grad(lambda w: wrapped(x).array * w)(Float(2))  # by 'w' only
    assert layer.weight.grad is None


@pytest.mark.parametrize("mode", ["forward", "backward"])
@pytest.mark.parametrize("around", ["no_grad", "inference_mode"])
def test_programs_of_torch_around_a_call_do_not_turn_its_derivatives_off(around, mode):
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(1, 1, dtype=torch.float64)
    x = TensorXf64([0.5])
    dr.enable_grad(x)
    with getattr(torch, around)():
        y = dr.wrap("drjit", "torch")(lambda x: torch.sin(x) + 0 * layer(x))(x)
        (dr.backward if mode == "backward" else dr.forward)(y if mode == "backward" else x)
    assert (x.grad if mode == "backward" else y.grad).numpy() == pytest.approx(np.cos([0.5]))
    if mode == "backward":
        layer.weight.grad += 1  # is an ordinary tensor
        assert layer.weight.grad.tolist() == [[1]]


def test_torch_must_not_write_to_arguments():
    torch = pytest.importorskip("torch")

    def within(x):
        with torch.no_grad():
            return x["a"][0].clamp_(5)

    def passed_on(x):
        torch.nn.functional.relu(x["a"][0], inplace=True)
        return x

    message = r"drjit\.wrap\(\): \w+\(\) writes to its argument 'args\[0\]\['a'\]\[0\]'"
    for function in (within, passed_on):
        wrapped = dr.wrap("drjit", "torch")(function)
        for call in (wrapped, dr.freeze(wrapped)):
            with pytest.raises(RuntimeError, match=message):
                call({"a": [TensorXf([1, 2, 3])]})
            with torch.inference_mode(), pytest.raises(RuntimeError, match=message):
                call({"a": [Array3f(1, 2, 3)]})
    x = TensorXf([1, 2, 3])
    dr.enable_grad(x)
    with pytest.raises(RuntimeError, match=message):
        dr.wrap("drjit", "torch")(within)({"a": [x]})
    with pytest.raises(RuntimeError, match="in-place operation"):
        dr.wrap("drjit", "torch")(passed_on)({"a": [x]})
    assert x.numpy().tolist() == [5, 5, 5]  # which nobody can take back
    assert dr.wrap("drjit", "torch")(lambda x: x.clone().mul_(2))(x).numpy().tolist() == [10, 10, 10]


# --- Dr.Jit within a framework ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_derivatives_of_drjit_flow_through_a_framework(framework, shape):
    xp = library(framework)
    values = np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape)
    x, y = array_of(framework, values), array_of(framework, values[::-1].copy() if shape else values)
    wrapped = dr.wrap(framework, "drjit")(lambda x, y: dr.sin(x) * y)
    found = gradients(framework, lambda x, y: xp.sum(wrapped(x * 2, y) ** 2), x, y)
    expected = gradients(framework, lambda x, y: xp.sum((xp.sin(x * 2) * y) ** 2), x, y)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12)


def test_pytrees_and_other_values_cross_into_drjit(framework):
    @dr.wrap(framework, "drjit")
    def step(state, factor, *, mode):
        assert mode == "fast" and type(state["x"]) is TensorXf64 and type(state["flags"]).__name__ == "TensorXb"
        return {"x": dr.select(state["flags"], state["x"] * factor, 0), "n": (dr.arange(llvm.Int, 3), "text", 5)}

    x = array_of(framework, [1.0, 2, 3])
    if framework == "tf":
        import tensorflow

        x = tensorflow.cast(x, "float64")
    elif framework == "torch":
        x = x.double()
    flags = array_of(framework, [True, False, True])
    found = step({"x": x, "flags": flags}, 3, mode="fast")
    assert np.asarray(found["x"]).tolist() == [3, 0, 9]
    assert isinstance(found["x"], type(x)) and np.asarray(found["n"][0]).tolist() == [0, 1, 2]
    assert found["n"][1:] == ("text", 5)
    gradient, = gradients(framework, lambda x: library(framework).sum(
        step({"x": x, "flags": flags}, 3, mode="fast")["x"]), x)
    assert np.asarray(gradient).tolist() == [3, 0, 3]


def test_nested_results_become_arrays_of_two_dimensions(framework):
    wrapped = dr.wrap(framework, "drjit")(lambda x: Array3f64(x.array, 1, 2 * x.array))
    x = array_of(framework, np.array([1.0, 2]))
    assert np.asarray(wrapped(x)).tolist() == [[1, 2], [1, 1], [2, 4]]
    gradient, = gradients(framework, lambda x: library(framework).sum(wrapped(x) ** 2), x)
    assert np.asarray(gradient).tolist() == [10, 20]


def test_one_value_that_is_repeated_gets_the_sum_of_gradients(framework):
    wrapped = dr.wrap(framework, "drjit")(lambda x, y: Array3f64(dr.mean(x.array), y.array, 0))
    x, y = array_of(framework, np.array([1.0, 2])), array_of(framework, np.array([3.0, 4, 5]))
    found = gradients(framework, lambda x, y: library(framework).sum(wrapped(x, y)), x, y)
    assert [np.asarray(entry).tolist() for entry in found] == [[1.5, 1.5], [1, 1, 1]]


def test_gradients_of_complex_arguments(framework):
    if framework == "tf":
        import tensorflow

        real = tensorflow.math.real
    else:
        real = library(framework).real
    z = array_of(framework, np.array([1 + 2j, 3 - 1j]))
    wrapped = dr.wrap(framework, "drjit")(lambda z: z * z * Complex2f64(1, 2))
    total = library(framework).sum
    found, = gradients(framework, lambda z: total(real(wrapped(z))), z)
    expected, = gradients(framework, lambda z: total(real(z * z * (1 + 2j))), z)
    np.testing.assert_allclose(np.asarray(found.resolve_conj() if framework == "torch" else found),
                               np.asarray(expected.resolve_conj() if framework == "torch" else expected))


def test_round_trips_through_both_directions(framework):
    """Dr.Jit calls a framework's function, which calls one of Dr.Jit."""
    inner = dr.wrap(framework, "drjit")(lambda x: dr.exp(x))
    outer = dr.wrap("drjit", framework)(lambda x: inner(x * 2) * x)
    x = Float64(0.5, 1)
    dr.enable_grad(x)
    dr.backward(outer(x))
    values = np.array([0.5, 1])
    np.testing.assert_allclose(x.grad.numpy(), np.exp(2 * values) * (1 + 2 * values))


def test_calls_without_arrays(framework):
    assert np.asarray(dr.wrap(framework, "drjit")(lambda n: dr.arange(llvm.Int, n))(3)).tolist() == [0, 1, 2]
    assert dr.wrap("drjit", framework)(lambda n: (n, "a"))(3) == (3, "a")


# --- PyTorch only ----------------------------------------------------------------------------------------------------


def test_torch_checks_both_modes():
    torch = pytest.importorskip("torch")
    x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[1.0], [2.0]], dtype=torch.float64, requires_grad=True)

    @dr.wrap("torch", "drjit")
    def function(x, y, n):
        return dr.exp(x) * y, dr.sum(x), n, x[0]

    assert torch.autograd.gradcheck(lambda x, y: tuple(function(x, y, torch.tensor([1]))[k] for k in (0, 1, 3)), (x, y),
                                    check_forward_ad=True, check_batched_grad=False)


def test_torch_tracks_what_it_tracks():
    torch = pytest.importorskip("torch")
    wrapped = dr.wrap("torch", "drjit")(lambda x: (dr.sin(x), dr.arange(llvm.Int, 2)))
    x = torch.ones(2, requires_grad=True)
    first, second = wrapped(x)
    assert first.requires_grad and not second.requires_grad
    assert not wrapped(x.detach())[0].requires_grad
    with torch.no_grad():
        assert not wrapped(x)[0].requires_grad


def test_torch_may_write_to_results_and_is_told_of_writes_to_arguments():
    torch = pytest.importorskip("torch")
    wrapped = dr.wrap("torch", "drjit")(lambda x: dr.exp(x))
    x = torch.zeros(3, requires_grad=True)
    y = wrapped(x).mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [5, 5, 5]
    x = torch.zeros(3, requires_grad=True)
    between = x * 1
    y = wrapped(between)
    between.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    x = torch.zeros(3)
    assert dr.wrap("torch", "drjit")(lambda x: x)(x).data_ptr() != x.data_ptr()


def test_torch_has_gradients_again_where_the_graph_is_retained():
    torch = pytest.importorskip("torch")
    x = torch.tensor([2.0], requires_grad=True)
    y = dr.wrap("torch", "drjit")(lambda x: x * x)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [8]


def derivatives_of_derivatives(framework, function, x):
    """The gradient of the sum of a function's gradient."""
    if framework == "torch":
        x = x.clone().requires_grad_()
        import torch

        gradient, = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.sum(), x)
    if framework == "jax":
        import jax

        return jax.grad(lambda x: jax.grad(lambda x: function(x).sum())(x).sum())(x)
    import tensorflow

    with tensorflow.GradientTape() as outer:
        outer.watch(x)
        with tensorflow.GradientTape() as inner:
            inner.watch(x)
            value = function(x)
        gradient = inner.gradient(value, x)
    return outer.gradient(gradient, x)


def test_second_derivatives_are_refused_when_they_are_asked_for(framework):
    x = array_of(framework, [1.0, 2.0])
    wrapped = dr.wrap(framework, "drjit")(lambda x: x * x)
    for function in (wrapped, lambda x: wrapped(x) + x**3):
        with pytest.raises(RuntimeError, match=r"drjit\.wrap\(\): second derivatives of functions of Dr\.Jit are not"):
            derivatives_of_derivatives(framework, function, x)


def test_tensorflow_has_forward_mode():
    tensorflow = tensorflow_module()
    x, n, y = tensorflow.constant([1.0, 2]), tensorflow.constant([1, 2]), tensorflow.constant([3.0, 4])
    wrapped = dr.wrap("tf", "drjit")(lambda x, n, y: (dr.sin(x) * y, n + 1))
    ones = tensorflow.ones_like(x)
    with tensorflow.autodiff.ForwardAccumulator([x, y], [ones, 2 * ones]) as accumulator:
        value, number = wrapped(x, n, y)
    np.testing.assert_allclose(accumulator.jvp(value), tensorflow.cos(x) * y + 2 * tensorflow.sin(x), rtol=1e-6)
    assert accumulator.jvp(number) is None


# --- transformations -------------------------------------------------------------------------------------------------


def both(framework):
    """A function with several results, one of integers: of Dr.Jit, wrapped, and of the framework."""
    xp = library(framework)
    return (dr.wrap(framework, "drjit")(lambda x, n, y: (dr.sin(x) * y, n + 1, dr.sum(y * x))),
            lambda x, n, y: (xp.sin(x) * y, n + 1, xp.sum(y * x)))


def same(found, expected):
    if isinstance(found, tuple | list):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    else:
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12)


def forward(f, grad, jvp, jacfwd, jit):
    return {
        "jvp": lambda x, n, y: jvp(lambda x, y: f(x, n, y)[::2], (x, y), (y, x)),
        "jacfwd": lambda x, n, y: jacfwd(lambda x, y: f(x, n, y)[0], (0, 1))(x, y),
        "jvp of jit": lambda x, n, y: jvp(jit(lambda x, y: f(x, n, y)[::2]), (x, y), (y, x)),
        "jit of jvp": lambda x, n, y: jit(lambda x, y: jvp(lambda x: f(x, n, y)[0], (x,), (y,)))(x, y),
        "jit of jacfwd": lambda x, n, y: jit(jacfwd(lambda x: f(x, n, y)[2]))(x),
        "jacfwd of a sum": lambda x, n, y: jacfwd(lambda y: f(x, n, y)[2] * y + f(x * 2, n, y)[0])(y),
    }


TRANSFORMATIONS = {
    "grad": lambda f, grad, vmap, jacrev, jit: grad(lambda x, n, y: f(x, n, y)[0].sum() + f(x, n, y)[2], (0, 2)),
    "jacrev": lambda f, grad, vmap, jacrev, jit: jacrev(lambda x, n, y: f(x, n, y)[0], (0, 2)),
    "vmap": lambda f, grad, vmap, jacrev, jit: vmap(f, (0, None, None)),
    "vmap of grad": lambda f, grad, vmap, jacrev, jit: vmap(grad(lambda x, n, y: f(x, n, y)[2], (0, 2)), (0, None, 0)),
    "vmap of jacrev": lambda f, grad, vmap, jacrev, jit: vmap(jacrev(lambda x, n, y: f(x, n, y)[0], 2), (0, None, 0)),
    "vmap of vmap": lambda f, grad, vmap, jacrev, jit: vmap(vmap(f, (0, 0, None)), (None, None, 0)),
    "jit": lambda f, grad, vmap, jacrev, jit: jit(f),
    "jit of grad": lambda f, grad, vmap, jacrev, jit: jit(grad(lambda x, n, y: f(x, n, y)[2], 0)),
    "grad of jit": lambda f, grad, vmap, jacrev, jit: grad(jit(lambda x, n, y: f(x, n, y)[2]), 2),
    "vmap of jit": lambda f, grad, vmap, jacrev, jit: vmap(jit(f), (0, None, None)),
}


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_functions_are_transformed(framework, transformation):
    if framework == "tf":
        pytest.skip("has none")
    if framework == "torch":
        import torch

        if "jit" in transformation:
            pytest.skip("torch.compile needs a compiler of C++")
        parts = torch.func.grad, torch.func.vmap, torch.func.jacrev, None
    else:
        import jax

        parts = jax.grad, jax.vmap, jax.jacrev, jax.jit
    x, n, y = (array_of(framework, values) for values in ([1.0, 2.0], [1, 2], [3.0, 4.0]))
    if framework == "torch":
        x, y = x.double(), y.double()
    one, other = (TRANSFORMATIONS[transformation](f, *parts)(x, n, y) for f in both(framework))
    same(one, other)


@pytest.mark.parametrize("transformation", forward(*[None] * 5))
def test_jax_transforms_in_forward_mode(transformation):
    jax = pytest.importorskip("jax")
    x, n, y = (array_of("jax", values) for values in ([1.0, 2.0], [1, 2], [3.0, 4.0]))
    one, other = (forward(f, jax.grad, jax.jvp, jax.jacfwd, jax.jit)[transformation](x, n, y) for f in both("jax"))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), one, other)


def test_jax_transforms_complex_functions_in_forward_mode():
    jax = pytest.importorskip("jax")
    wrapped = dr.wrap("jax", "drjit")(lambda z: z * z * dr.exp(z))
    z, t = jax.numpy.array([1 + 2j, 0.5j]), jax.numpy.array([1j, 2 - 1j])
    for found, expected in zip(jax.jvp(wrapped, (z,), (t,)), jax.jvp(lambda z: z * z * jax.numpy.exp(z), (z,), (t,)),
                               strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_jax_does_not_compute_what_it_has_computed():
    jax = pytest.importorskip("jax")
    calls = []

    @dr.wrap("jax", "drjit")
    def wrapped(x):
        calls.append(None)
        return dr.sin(x)

    x = jax.numpy.array([1.0, 2.0])
    for transform in (jax.value_and_grad(lambda x: wrapped(x).sum()), jax.jacrev(wrapped), jax.jacfwd(wrapped),
                      lambda x: jax.jvp(wrapped, (x,), (x,))):
        calls.clear()
        transform(x)
        assert len(calls) == 1


def test_second_derivatives_are_refused_by_jax():
    jax = pytest.importorskip("jax")
    wrapped = dr.wrap("jax", "drjit")(lambda x: dr.sum(dr.sin(x)))
    for second in (jax.hessian, lambda f: jax.jacrev(jax.jacfwd(f)), lambda f: jax.jacfwd(jax.jacfwd(f)),
                   lambda f: jax.jit(jax.grad(lambda x: jax.grad(f)(x).sum()))):
        with pytest.raises(RuntimeError, match=r"drjit\.wrap\(\): second derivatives"):
            second(wrapped)(jax.numpy.array([1.0, 2.0]))


def tensorflow_module():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow")


def test_tensorflow_traces_functions():
    tf = tensorflow_module()
    one, _ = both("tf")

    def other(x, n, y):
        return tf.sin(x) * y, n + 1, tf.reduce_sum(y * x)

    x, n, y = (array_of("tf", values) for values in ([1.0, 2.0], [1, 2], [3.0, 4.0]))
    traced = tf.function(one)
    for found, expected in zip(traced(x, n, y), other(x, n, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)

    def gradient(function):
        @tf.function
        def compute(x, y):
            with tf.GradientTape() as tape:
                tape.watch([x, y])
                found, _, total = function(x * 2, n, y)
                value = tf.reduce_sum(found) * total
            return tape.gradient(value, [x, y])

        return compute(x, y)

    same_float32(gradient(one), gradient(other))
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = traced(x, n, y)[2]
    same_float32(tape.gradient(value, x), y)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def wide(x):
        return dr.wrap("tf", "drjit")(lambda x: (dr.sin(x), dr.sum(x)))(x)

    for size in (1, 4):
        found, total = wide(tf.ones([size, 3]))
        assert found.shape == (size, 3) and float(total) == 3 * size

    @tf.function
    def loop(x):
        for _ in tf.range(3):
            x = dr.wrap("tf", "drjit")(lambda x: x * 2)(x)
        return x

    np.testing.assert_allclose(loop(x), [8, 16])
    with pytest.raises(RuntimeError, match=r"drjit\.wrap\(\): second derivatives"):
        tf.function(lambda x: derivatives_of_derivatives("tf", lambda x: traced(x, n, y)[2], x))(x)


def same_float32(found, expected):
    if isinstance(found, list):
        for a, b in zip(found, expected, strict=True):
            same_float32(a, b)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_torch_transforms_in_forward_mode():
    torch = pytest.importorskip("torch")
    x, n, y = (torch.tensor(values, dtype=kind) for values, kind in (
        ([1, 2], torch.float64), ([1, 2], torch.int32), ([3, 4], torch.float64)))
    for transform in (lambda f: torch.func.jacfwd(lambda x, y: f(x, n, y)[0], (0, 1))(x, y),
                      lambda f: torch.func.jvp(lambda x, y: f(x, n, y)[::2], (x, y), (y, x)),
                      lambda f: torch.func.vmap(torch.func.jacfwd(lambda x, y: f(x, n, y)[0]), (0, None))(x, y)):
        same(*map(transform, both("torch")))
    for second in (torch.func.hessian, lambda f: torch.func.jacrev(torch.func.jacfwd(f))):
        with pytest.raises(RuntimeError, match=r"drjit\.wrap\(\): second derivatives"):
            second(lambda x: both("torch")[0](x, n, y)[2])(x)


def test_jax_traces_loops_and_branches():
    jax = pytest.importorskip("jax")
    wrapped = dr.wrap("jax", "drjit")(lambda x: dr.sin(x) * x)
    x = jax.numpy.array([1.0, 2.0])

    def gradient(function):
        return jax.grad(lambda x: jax.lax.scan(lambda c, _: (function(c), None), x, None, length=3)[0].sum())(x)

    np.testing.assert_allclose(gradient(wrapped), gradient(lambda x: jax.numpy.sin(x) * x), rtol=1e-6)
    np.testing.assert_allclose(jax.lax.cond(x[0] > 0, wrapped, lambda x: x, x), np.sin([1, 2]) * [1, 2], rtol=1e-6)


# --- what crosses ----------------------------------------------------------------------------------------------------


def test_torch_gets_copies():
    torch = pytest.importorskip("torch")
    table = dr.arange(llvm.Float, 3)
    dr.eval(table)
    wrapped = dr.wrap("torch", "drjit")(lambda x: (table, x, table))
    x = torch.zeros(3)
    found = wrapped(x)
    for result in found:
        result.add_(5)
    assert list(table) == [0, 1, 2] and x.tolist() == [0, 0, 0]
    assert [result.tolist() for result in found] == [[5, 6, 7], [5, 5, 5], [5, 6, 7]]


def test_named_tuples_of_torch():
    torch = pytest.importorskip("torch")
    x = TensorXf([[3, 1], [1, 5]])
    dr.enable_grad(x)
    found = dr.wrap("drjit", "torch")(torch.sort)(x)
    assert type(found) is torch.return_types.sort and type(found.values) is TensorXf
    dr.backward(found.values * TensorXf([[1, 2], [3, 4]]))
    assert x.grad.numpy().tolist() == [[2, 1], [3, 4]]
    for function in (lambda x: x.max(0), torch.linalg.qr, torch.linalg.svd, torch.linalg.eigh):
        found = dr.wrap("drjit", "torch")(function)(x)
        assert type(found[0]) is TensorXf and dr.grad_enabled(found)
    assert dr.wrap("drjit", "torch")(lambda x: x.shape)(x) == torch.Size([2, 2])


def test_named_tuples_of_jax():
    jax = pytest.importorskip("jax")
    x = TensorXf([[3, 1], [1, 5]])
    dr.enable_grad(x)
    dr.backward(dr.wrap("drjit", "jax")(jax.numpy.linalg.eigh)(x).eigenvalues)
    np.testing.assert_allclose(x.grad, np.eye(2), atol=1e-6)


class Holder:
    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize("make", [Holder, lambda x: {id: x}.values(), lambda x: iter([x]), lambda x: Holder([x])])
def test_what_holds_arrays_but_is_no_tree_is_refused(framework, make):
    x = array_of(framework, [1.0, 2.0])
    for wrapped, value in ((dr.wrap("drjit", framework), Float(1, 2)), (dr.wrap(framework, "drjit"), x)):
        with pytest.raises(TypeError, match=r"drjit\.wrap\(\): 'args\[0\]\[1\]' is of type .*, which holds arrays"):
            wrapped(lambda x: 1)([value, make(value)])
        with pytest.raises(TypeError, match=r"drjit\.wrap\(\): 'kwargs\['x'\]' is of type .*, which holds arrays"):
            wrapped(lambda x: 1)(x=make(value))
        with pytest.raises(TypeError, match=r"drjit\.wrap\(\): 'result\['a'\]' is of type .*, which holds arrays"):
            wrapped(lambda x: {"a": make(x)})(value)
    assert dr.wrap("drjit", framework)(lambda holder: holder.x)(Holder(x)) is not None  # it is at home there


@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
def test_symbolic_values_are_refused(framework, construct):
    wrapped = dr.wrap("drjit", framework)(lambda x: x + x)

    def inner(x):
        return wrapped(x).array

    run = {"loop": lambda: dr.while_loop((Int(0), Float(1, 2)), lambda i, x: i < 2, lambda i, x: (i + 1, inner(x))),
           "branch": lambda: dr.if_stmt((Float(1, 2),), Bool(True, False), inner, lambda x: x),
           "call": lambda: dr.switch(llvm.ad.UInt(0, 1), [inner, lambda x: x], Float(1, 2))}[construct]
    with pytest.raises(RuntimeError, match=rf"drjit\.wrap\(\) \(.*test_wrap\.py:\d+\): {MODULES[framework]} computes "
                       rf"with values, but this array is symbolic: it is .* the symbolic {construct}"):
        run()


# --- what is refused -------------------------------------------------------------------------------------------------


def test_frameworks_are_named_by_strings_or_modules(framework):
    import importlib

    module = importlib.import_module(MODULES[framework])
    wrapped = dr.wrap(source=dr, target=module)(lambda x: x + x)
    assert wrapped(Float(1, 2)).numpy().tolist() == [2, 4]
    assert np.asarray(dr.wrap(MODULES[framework], "drjit")(lambda x: x + x)(array_of(framework, [1.0]))).tolist() == [2]


def test_unknown_frameworks_and_pairs_are_refused():
    for source, target, message in (("drjit", "numpy", "'target' must be one of.*'numpy'"),
                                    (np, "drjit", "'source' must be one of.*'numpy'"),
                                    ("torch", "jax", "one of 'source' and 'target' must be 'drjit'")):
        with pytest.raises(ValueError, match=rf"drjit\.wrap\(\): {message}"):
            dr.wrap(source, target)
    with pytest.raises(TypeError, match=r"drjit\.wrap\(\): 'source' must be a string or a module, found int"):
        dr.wrap(5, "torch")
    with pytest.raises(TypeError, match=r"drjit\.wrap\(\): decorates functions \(found int\)"):
        dr.wrap("drjit", "drjit")(5)

    def function(x):
        return x

    assert dr.wrap("drjit", "drjit")(function) is function


def test_wrapped_functions_keep_their_names(framework):
    @dr.wrap("drjit", framework)
    def forward_pass(x):
        """Says what it does."""
        return x

    assert (forward_pass.__name__, forward_pass.__doc__) == ("forward_pass", "Says what it does.")


def test_exceptions_of_functions_are_runtime_errors_too(framework):
    def failing(x):
        raise KeyError("here")

    for wrapped, argument in ((dr.wrap("drjit", framework)(failing), Float(1, 2)),
                              (dr.wrap(framework, "drjit")(failing), array_of(framework, [1.0, 2.0]))):
        for kind in (KeyError, RuntimeError):
            with pytest.raises(kind, match="here"):
                wrapped(argument)


# --- in frozen functions ---------------------------------------------------------------------------------------------


def test_replays_call_the_framework(framework):
    xp = library(framework)
    calls = []

    @dr.wrap("drjit", framework)
    def wrapped(x, factor=2):
        calls.append(x)
        return {"found": xp.sin(x) * factor, "factor": factor}

    def function(x, w):
        found = wrapped(x * 2, factor=3)
        return dr.sum(found["found"].array * w) * found["factor"], found["found"] + 1

    frozen = dr.freeze(function)
    for k, n in enumerate((4, 4, 4, 5, 5, 1, 1, 4)):
        x, w = Float(np.arange(n) * 0.1 + k), Float(np.arange(n) + 1.5)
        expected = function(x, w)
        calls.clear()
        for one, other in zip(frozen(x, w), expected, strict=True):
            assert type(one) is type(other)
            np.testing.assert_array_equal(one.numpy(), other.numpy())
        assert k not in (1, 2, 4, 7) or len(calls) == 1
    assert frozen.n_recordings == 4  # one element is a number, which turns out to change


def test_derivatives_flow_through_a_frozen_function(framework):
    xp = library(framework)

    @dr.wrap("drjit", framework)
    def wrapped(x, w):
        return xp.sin(x) * w, xp.sum(x * x)

    def function(x, w):
        one, two = wrapped(x * 2, w)
        return dr.sum(one.array) * x + two.array

    frozen = dr.freeze(function)
    for k in range(4):
        found = []
        for each in (function, frozen):
            x, w = Float64(np.arange(3) * 0.3 + k), Float64(np.arange(3) - 0.5 * k)
            dr.enable_grad(x, w)
            dr.backward(dr.square(each(x, w)))
            reverse = dr.grad(x).numpy(), dr.grad(w).numpy()
            x, w = Float64(np.arange(3) * 0.3 + k), Float64(np.arange(3) - 0.5 * k)
            dr.enable_grad(x, w)
            dr.set_grad(x, [1, 2, 3])
            dr.set_grad(w, 0.5)
            y = each(x, w)
            dr.forward_to(y)
            found.append((*reverse, y.numpy(), dr.grad(y).numpy()))
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    assert frozen.n_recordings == 2  # gradients are there in one of them


def test_a_frozen_step_calls_the_framework_once(framework):
    xp = library(framework)
    calls = []

    @dr.wrap("drjit", framework)
    def loss(x, target):
        calls.append(x)
        return xp.sum(xp.square(x - target))

    def step(x, target):
        dr.enable_grad(x)
        found = loss(x * 2, target)
        dr.backward(found)
        return dr.detach(x) - 0.1 * dr.grad(x), dr.detach(found)

    frozen = dr.freeze(step)
    one, other = Float64(1, 2, 3), Float64(1, 2, 3)
    for k in range(5):
        target = Float64(k, 1, 2)
        one, first = step(one, target)
        calls.clear()
        other, second = frozen(other, target)
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
        np.testing.assert_allclose(first.numpy(), second.numpy(), rtol=1e-12)
        assert not k or len(calls) == 1
    assert frozen.n_recordings == 1


def test_parameters_of_a_module_get_their_gradients_in_replays():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @dr.wrap("drjit", "torch")
    def predict(x):
        return model(x)

    def step(x, y):
        dr.enable_grad(x)
        loss = dr.mean(dr.square(predict(x) - y))
        dr.backward(loss)
        return dr.detach(loss), dr.grad(x)

    frozen = dr.freeze(step)
    losses = []
    for k in range(5):
        x, y = TensorXf(np.full((4, 3), 0.1 * k)), TensorXf(np.ones((4, 2)))
        found = []
        for each in (step, frozen):
            optimizer.zero_grad()
            loss, gradient = each(TensorXf(x), y)
            found.append([loss.numpy(), gradient.numpy(), *[p.grad.numpy().copy() for p in model.parameters()]])
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
        optimizer.step()
        losses.append(float(found[1][0]))
    assert frozen.n_recordings == 1 and losses[-1] < losses[0]


def test_other_shapes_and_values_that_a_framework_returns_are_recorded_again(framework):
    xp = library(framework)
    now = [(2, 3), 1]

    @dr.wrap("drjit", framework)
    def wrapped(x):
        return xp.reshape(xp.sin(x), now[0]), now[1]

    def function(x):
        found, number = wrapped(x)
        return found * number, dr.sum(found[0])

    frozen, x = dr.freeze(function), Float(1, 2, 3, 4, 5, 6)
    for shape, number, recordings in (((2, 3), 1, 1), ((2, 3), 1, 1), ((3, 2), 1, 2), ((2, 3), 5, 3), ((3, 2), 1, 3)):
        now[:] = shape, number
        for one, other in zip(frozen(x), function(x), strict=True):
            assert one.shape == other.shape
            np.testing.assert_array_equal(one.numpy(), other.numpy())
        assert frozen.n_recordings == recordings
    now[:] = (6,), 1
    dr.enable_grad(x)
    dr.backward(dr.freeze(lambda x: dr.sum(wrapped(x)[0] * 2))(x))
    np.testing.assert_allclose(dr.grad(x).numpy(), 2 * np.cos(np.arange(1, 7)), rtol=1e-5)


def test_functions_of_frameworks_are_told_apart(framework):
    xp = library(framework)
    one, other = dr.wrap("drjit", framework)(lambda x: xp.sin(x)), dr.wrap("drjit", framework)(lambda x: xp.cos(x))
    frozen = dr.freeze(lambda x, f: f(x) + 1)
    x = Float(0.5, 1)
    for function, expected in ((one, np.sin), (other, np.cos), (one, np.sin), (other, np.cos)):
        np.testing.assert_allclose(frozen(x, function).numpy(), expected(x.numpy()) + 1, rtol=1e-6)
    assert frozen.n_recordings == 2


def test_what_a_framework_raises_in_a_replay_changes_nothing(framework):
    xp = library(framework)
    fails = [False]

    @dr.wrap("drjit", framework)
    def wrapped(x):
        if fails[0]:
            raise ValueError("not this time")
        return xp.sin(x)

    def function(state, x):
        state["count"] += 1
        state["found"] = wrapped(x) * 2

    frozen, state = dr.freeze(function), {"count": dr.opaque(Float, 0), "found": None}
    for _ in range(3):
        frozen(state, Float(1, 2))
    before, fails[0] = state["found"], True
    with pytest.raises(ValueError, match="not this time"):
        frozen(state, Float(3, 4))
    assert state["found"] is before and state["count"] == 3
    fails[0] = False
    frozen(state, Float(3, 4))
    assert state["count"] == 4


def test_memory_that_derivatives_need_is_not_written_to_in_replays(framework):
    xp = library(framework)
    wrapped = dr.wrap("drjit", framework)(lambda x: xp.square(x))

    def function(x):
        dr.enable_grad(x)
        y = x * 2
        z = wrapped(y)
        y = dr.detach(y)
        dr.scatter(y, Float(100), UInt(0))
        dr.backward(z)
        found = dr.detach(z).array
        dr.scatter(found, Float(-1), UInt(1))
        return y, found, dr.grad(x)

    frozen = dr.freeze(function)
    for k in range(3):
        values = np.arange(4, dtype=np.float32) + k
        y, z, gradient = frozen(Float(values))
        np.testing.assert_array_equal(y.numpy(), [100, *values[1:] * 2])
        np.testing.assert_array_equal(z.numpy(), [4 * values[0] ** 2, -1, *4 * values[2:] ** 2])
        np.testing.assert_array_equal(gradient.numpy(), 8 * values)
    assert frozen.n_recordings == 1


def test_arrays_of_the_standard_cross_in_replays(framework):
    import drjit.array_api as space

    xp = library(framework)
    wrapped = dr.wrap("drjit", framework)(lambda x: xp.sin(x) * 2)
    frozen = dr.freeze(lambda a: space.sum(wrapped(a) + 1, axis=0))
    for k in range(3):
        a = space.asarray(np.arange(6.0).reshape(2, 3) + k)
        np.testing.assert_allclose(np.asarray(frozen(a)), (np.sin(np.asarray(a)) * 2 + 1).sum(axis=0))
    assert frozen.n_recordings == 1


def test_frameworks_call_frozen_functions(framework):
    frozen = dr.freeze(lambda x: dr.sin(x) * x)
    wrapped = dr.wrap(framework, "drjit")(frozen)
    for k in range(3):
        values = np.arange(3.0) + k
        found = gradients(framework, lambda x: wrapped(x).sum() if framework != "tf" else library("tf").sum(wrapped(x)),
                          array_of(framework, values))
        np.testing.assert_allclose(np.asarray(found[0]), np.cos(values) * values + np.sin(values), rtol=1e-6)
    assert frozen.n_recordings <= 2


def test_frozen_functions_with_frameworks_are_not_saved(framework, tmp_path):
    xp = library(framework)

    @dr.wrap("drjit", framework)
    def wave(x):
        return xp.sin(x)

    frozen = dr.freeze(lambda x: wave(x) + 1)
    frozen(Float(1, 2))
    with pytest.raises(RuntimeError, match=r"cannot be saved: it calls wave\(\) on the host between launches"):
        frozen.save(str(tmp_path / "wave"))
