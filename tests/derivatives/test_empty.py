"""Derivatives of what has no elements: zero, for whatever there is one of or several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Array3f, Complex2f, Float, Float16, Float64, Matrix2f, TensorXf, UInt

X, Y, TABLE, K = Float(), Float(2), Float(1, 2, 3), UInt()
OPAQUE = dr.opaque(UInt, 1)


def nothing(*shape: int) -> TensorXf:
    return dr.zeros(TensorXf, shape)


def scattered(x: Any, y: Any) -> Any:
    target = dr.zeros(Float, 3)
    dr.scatter_add(target, x, K)
    return target * y


#: Functions of two arrays, of which the first one has no elements.
FUNCTIONS: dict[str, tuple[Any, Any, Any]] = {
    "product": (lambda x, y: x * y, X, Y), "quotient": (lambda x, y: y / x, X, Y), "sum": (lambda x, y: x + y, X, Y),
    "power": (lambda x, y: x ** y, X, Y), "fma": (lambda x, y: dr.fma(x, y, y), X, Y),
    "select": (lambda x, y: dr.select(x > 0, y, x), X, Y), "clip": (lambda x, y: dr.clip(x, 0, y), X, Y),
    "expansion": (lambda x, y: dr.sin(x * y) + dr.lgamma(y + x), X, Y), "cast": (lambda x, y: Float64(x) * y, X, Y),
    "half": (lambda x, y: Float16(x) * Float16(y), X, Y), "copysign": (lambda x, y: dr.copysign(y, x), X, Y),
    "replace_grad": (lambda x, y: dr.replace_grad(x, y), X, Y), "sums": (lambda x, y: dr.sum(x * y) * x, X, Y),
    "products": (lambda x, y: dr.prod(x * y), X, Y), "extrema": (lambda x, y: dr.max(x + y) * 0, X, Y),
    "means": (lambda x, y: dr.mean(x * y), X, Y), "running sums": (lambda x, y: dr.cumsum(x * y), X, Y),
    "sort": (lambda x, y: dr.sort(x * y), X, Y), "blocks": (lambda x, y: dr.block_sum(x * y, 2), X, Y),
    "repeat": (lambda x, y: dr.repeat(x * y, 2), X, Y), "repeat none": (lambda x, y: dr.repeat(y, 0), X, Y),
    "tile": (lambda x, y: dr.tile(y, 0), X, TABLE), "reverse": (lambda x, y: dr.reverse(x) * y, X, Y),
    "gather": (lambda x, y: dr.gather(Float, y, K), X, TABLE), "gather from one": (lambda x, y: y[K], X, Y),
    "slice": (lambda x, y: y[3:], X, TABLE), "scatter": (scattered, X, TABLE),
    "vectors": (lambda x, y: dr.dot(x, y) + dr.norm(x + y), Array3f(X), Array3f(1, 2, 3)),
    "matrices": (lambda x, y: dr.det(x @ y), Matrix2f(X), Matrix2f(1, 2, 3, 4)),
    "complex numbers": (lambda x, y: dr.exp(x * y).real, Complex2f(X, X), Complex2f(1, 2)),
    "tensors": (lambda x, y: x * y, nothing(0, 3), TensorXf([1, 2, 3])),
    "sums of rows": (lambda x, y: dr.sum(x * y, axis=1), nothing(0, 3), TensorXf([1, 2, 3])),
    "sums of columns": (lambda x, y: dr.sum(x * y, axis=0), nothing(0, 3), TensorXf([1, 2, 3])),
    "products of columns": (lambda x, y: dr.prod(x * y, axis=0), nothing(0, 3), TensorXf([1, 2, 3])),
    "matrix products": (lambda x, y: x @ y, nothing(0, 3), dr.ones(TensorXf, (3, 2))),
    "products over nothing": (lambda x, y: x @ y, nothing(2, 0), nothing(0, 3)),
    "transposition": (lambda x, y: dr.moveaxis(x, 0, 1) * y, nothing(0, 3), TensorXf(2.0)),
}
MODES = ["symbolic", "evaluated"]
CONSTRUCTS: dict[str, Any] = {
    "loop": lambda mode: lambda x, y: dr.while_loop((x, UInt(0)), lambda x, i: i < 3, lambda x, i: (x * y, i + 1),
                                                    mode=mode)[0],
    "loop without iterations": lambda mode: lambda x, y: dr.while_loop(
        (x,), lambda x: x < 3, lambda x: (x * 2,), mode=mode)[0] * y,
    "loop that adds": lambda mode: lambda x, y: dr.while_loop(
        (x, UInt(0)), lambda x, i: i < 3, lambda x, i: (x + dr.sin(y), i + 1), mode=mode)[0],
    "loop of both": lambda mode: lambda x, y: dr.while_loop(
        (x, y, UInt(0)), lambda x, y, i: i < 3, lambda x, y, i: (x * y, y, i + 1), mode=mode)[0],
    "bounded loop": lambda mode: lambda x, y: dr.while_loop(
        (x, UInt(0)), lambda x, i: i < 3, lambda x, i: (x * x * y, i + 1), mode=mode, max_iterations=3)[0],
    "loop within a loop": lambda mode: lambda x, y: dr.while_loop(
        (x, UInt(0)), lambda x, i: i < 2,
        lambda x, i: (CONSTRUCTS["loop"](mode)(x, y), i + 1), mode=mode)[0],
    "branch": lambda mode: lambda x, y: dr.if_stmt((x, y), x > 0, lambda x, y: x * y, lambda x, y: x, mode=mode),
    "branch of one element": lambda mode: lambda x, y: dr.if_stmt(
        (x, y), OPAQUE > 0, lambda x, y: x * y, lambda x, y: y, mode=mode),
    "call": lambda mode: lambda x, y: dr.switch(K, [lambda x, y: x * y, lambda x, y: x + y], x, y, mode=mode),
    "call of one element": lambda mode: lambda x, y: dr.switch(
        OPAQUE, [lambda x, y: x * y, lambda x, y: x + y], x, y, mode=mode),
}
FUNCTIONS |= {f"{name}, {mode}": (make(mode), X, Y) for name, make in CONSTRUCTS.items() for mode in MODES}
FUNCTIONS["loop that reads, symbolic"] = (lambda x, y: dr.while_loop(
    (x, K), lambda x, k: k < 3, lambda x, k: (x * dr.gather(Float, y, k), k + 1))[0], X, TABLE)


def variables(name: str) -> tuple[Any, Any, Any]:
    function, x, y = FUNCTIONS[name]
    x, y = type(x)(x), type(y)(y)
    dr.enable_grad(x, y)
    return function, x, y


def assert_zero(array: Any, shape: tuple[int, ...]) -> None:
    assert array.shape == shape
    assert not np.any(array.numpy())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_zero(name: str) -> None:
    """Of a sum, and of what is summed, if that is something."""
    function, x, y = variables(name)
    result = dr.sum(function(x, y), axis=None)
    dr.backward(result)
    assert_zero(x.grad, x.shape)
    assert_zero(y.grad, y.shape)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_changes_are_zero(name: str) -> None:
    function, x, y = variables(name)
    result = dr.sum(function(x, y), axis=None)
    dr.set_grad(x, 1)
    dr.set_grad(y, 1)
    assert_zero(dr.forward_to(result), result.shape)


@pytest.mark.parametrize("name", ["product", "expansion", "gather", "tensors", "loop, symbolic", "branch, symbolic"])
def test_gradients_go_on_from_what_is_added(name: str) -> None:
    """What has elements has the gradient that it would have alone."""
    function, x, y = variables(name)
    dr.backward(dr.sum(function(x, y), axis=None) + dr.sum(y * y, axis=None))
    np.testing.assert_allclose(y.grad.numpy(), 2 * y.numpy())
    assert_zero(x.grad, x.shape)


def test_arrays_without_elements_are_variables() -> None:
    x = Float()
    dr.enable_grad(x)
    assert dr.grad_enabled(x, x * 2, x + Float(1)) and not dr.grad_enabled(dr.detach(x))
    dr.backward(x * x)
    assert x.grad.shape == (0,)
    dr.set_grad(x, 1)
    assert x.grad.shape == (0,)
    y = Float(1)
    dr.enable_grad(y)
    dr.accum_grad(y, Float())
    assert list(y.grad) == [0]
    with pytest.raises(RuntimeError, match="a gradient with 2 elements does not fit"):
        dr.set_grad(x, Float(1, 2))


@pytest.mark.parametrize("mode", MODES)
def test_infinities_do_not_make_nan_of_nothing(mode: str) -> None:
    """Gradients of no elements are no products with what the elements are computed from."""
    y = Float(0)
    dr.enable_grad(y)
    dr.backward(dr.sum(Float() / y) + dr.sum(dr.log(y) * Float()) + dr.sum(CONSTRUCTS["loop"](mode)(Float(), 1 / y)))
    assert list(y.grad) == [0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", [
    lambda x, s, z: s * 2 + dr.sum(x * z) * s, lambda x, s, z: dr.sum(x * z) * s + s * 2,
    lambda x, s, z: s + s + dr.sum(x + z * z)])
def test_gradients_within_constructs_of_several_elements(step: Any, mode: str) -> None:
    x, y, z = Float(), Float(1, 2), Float(3)
    dr.enable_grad(x, y, z)
    found, _ = dr.while_loop((y, UInt(0, 0)), lambda s, i: i < 2, lambda s, i: (step(x, s, z), i + 1), mode=mode)
    dr.backward(found)
    assert list(y.grad) == [4, 4] and list(z.grad) == [0] and x.grad.shape == (0,)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", [lambda x, s: dr.sum(x * s) + s * 2, lambda x, s: s * 2 + dr.sum(x * s),
                                  lambda x, s: s * 3 - dr.sum(s + x) - s])
def test_gradients_within_constructs_of_one_element(step: Any, mode: str) -> None:
    x, y = Float(), dr.opaque(Float, 1)
    dr.enable_grad(x, y)
    found, _ = dr.while_loop((y, dr.opaque(UInt, 0)), lambda s, i: i < 2, lambda s, i: (step(x, s), i + 1), mode=mode)
    dr.backward(found)
    assert list(y.grad) == [4] and x.grad.shape == (0,)


def test_second_derivatives() -> None:
    _, x, y = variables("product")
    first = dr.value_and_grad(lambda y: dr.sum(x * y * y))
    value, gradient = first(y)
    assert list(value) == [0] and list(gradient) == [0]
    assert dr.jacobian(lambda y: x * y, y).shape == (0, 1)
