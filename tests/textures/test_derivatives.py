"""Derivatives of lookups by texels and positions: both modes, second order, and where else lookups may stand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import FilterMode, WrapMode
from drjit.llvm.ad import (
    Array1f,
    Array1f64,
    Array2f,
    Array2f64,
    Array3f64,
    BFloat16,
    Bool,
    Float,
    Float16,
    Float64,
    TensorXf,
    TensorXf64,
    Texture1bf16,
    Texture1f,
    Texture1f16,
    Texture1f64,
    Texture2f,
    Texture2f8u,
    Texture2f64,
    Texture3f64,
    UInt,
)
from tests.textures import model

TEXTURES = {1: (Texture1f64, Array1f64, (7,)), 2: (Texture2f64, Array2f64, (5, 4)),
            3: (Texture3f64, Array3f64, (3, 5, 4))}
METHODS = ("eval", "eval_cubic", "eval_cubic_grad", "eval_fetch")


def everything(result: Any) -> list[Any]:
    """The flat arrays of a result."""
    if isinstance(result, (list, tuple)):
        return [array for entry in result for array in everything(entry)]
    return [result[k] for k in range(len(result))]


def looked_up(dimension: int, mode: WrapMode, method: str, data: Any, position: Any, weights: Any) -> Any:
    """A weighted sum of all that a lookup finds."""
    cls, kind, shape = TEXTURES[dimension]
    texture = cls(TensorXf64(data, (*shape, 2)), wrap_mode=mode)
    found = everything(getattr(texture, method)(kind(*position)))
    return sum(array * float(weight) for array, weight in zip(found, weights, strict=False))


@pytest.mark.parametrize("mode", WrapMode)
@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_derivatives_match_finite_differences(method: str, dimension: int, mode: WrapMode) -> None:
    rng = np.random.default_rng([dimension, len(method)])
    shape = TEXTURES[dimension][2]
    size, weights = int(np.prod(shape)) * 2, rng.random(100) - 0.5
    data, position = rng.random(size), rng.random((dimension, 20)) * 2 - 0.5
    changes = rng.random(size) - 0.5, rng.random((dimension, 20)) - 0.5
    if method == "eval_fetch":
        changes = changes[0], changes[1] * 0

    def at(step: float) -> Any:
        return looked_up(dimension, mode, method, Float64(data + step * changes[0]),
                         [Float64(p + step * c) for p, c in zip(position, changes[1], strict=True)], weights).numpy()

    expected = (at(1e-6) - at(-1e-6)) / 2e-6
    values, places = Float64(data), [Float64(p) for p in position]
    dr.enable_grad(values, places)
    result = looked_up(dimension, mode, method, values, places, weights)
    dr.set_grad(values, changes[0])
    for place, change in zip(places, changes[1], strict=True):
        dr.set_grad(place, change)
    forward = dr.forward_to(result, flags=dr.ADFlag.ClearEdges | dr.ADFlag.ClearInterior).numpy()
    np.testing.assert_allclose(forward, expected, rtol=1e-5, atol=1e-6)
    dr.clear_grad(values), dr.clear_grad(places)
    cotangent = rng.random(20)
    result = looked_up(dimension, mode, method, values, places, weights)
    dr.backward(result * Float64(cotangent))
    total = (dr.grad(values).numpy() * changes[0]).sum()
    total += sum((dr.grad(place).numpy() * change).sum() for place, change in zip(places, changes[1], strict=True))
    np.testing.assert_allclose(total, (expected * cotangent).sum(), rtol=1e-5, atol=1e-6)


def test_second_order() -> None:
    rng = np.random.default_rng(2)
    data = rng.random((5, 4, 1))
    texture, position = Texture2f64(data), Array2f64(rng.random((2, 30)))
    _, _, (hessian,) = texture.eval_cubic_hessian(position)
    for axis in range(2):
        point = Array2f64(position)
        dr.enable_grad(point)
        value = texture.eval_cubic(point).x
        gradient = dr.forward_from  # noqa: F841  (the reverse mode is what is differentiated)
        dr.set_grad(value, 1)
        dr.enqueue(dr.ADMode.Backward, value)
        dr.traverse(dr.ADMode.Backward)
        slope = dr.grad(point)
        np.testing.assert_allclose(slope[axis].numpy(),
                                   model.cubic(data, position.numpy(), [WrapMode.Clamp] * 2, 0, np.float64,
                                               [int(k == axis) for k in range(2)])[:, 0], atol=1e-9)
    vector = Array2f64(0.3, -0.7)
    _, product = dr.hvp(lambda p: dr.sum(texture.eval_cubic(p).x), Array2f64(position), vector), None
    assert product is None and hessian is not None


@pytest.mark.parametrize("mode", [WrapMode.Clamp, WrapMode.Repeat, WrapMode.Mirror])
def test_slopes_at_knots(mode: WrapMode) -> None:
    """The cell after a knot counts; where a texture is clamped, there is none after the last centre."""
    texture = Texture1f([[1], [3], [7], [4]], wrap_mode=mode)
    position = Array1f(Float((np.arange(-4, 8) + 0.5) / 4))
    dr.enable_grad(position)
    dr.backward(texture.eval(position).x)
    numbers = np.arange(-4, 8)
    data = np.array([1, 3, 7, 4])
    after = data[model.wrapped(numbers + 1, 4, mode)] - data[model.wrapped(numbers, 4, mode)]
    assert dr.grad(position).x.numpy().tolist() == (4 * after).tolist()


def test_nearest_lookups_are_attached_to_texels_alone() -> None:
    texture = Texture2f([[[1], [2]], [[3], [4]]], filter_mode=FilterMode.Nearest)
    position = Array2f([0.1, 0.9, 0.8], [0.1, 0.2, 0.4])
    dr.enable_grad(position)
    assert not dr.grad_enabled(texture.eval(position))
    dr.enable_grad(texture)
    dr.backward(texture.eval(position).x)
    assert dr.grad(texture.value()).numpy().tolist() == [1, 2, 0, 0]


def test_texels_of_8_bits_have_no_derivative_but_positions_do() -> None:
    texture, position = Texture2f8u([[[0], [255]]]), Array2f(0.5, 0.5)
    dr.enable_grad(position)
    dr.backward(texture.eval(position).x)
    assert dr.allclose(dr.grad(position), Array2f(2, 0))


@pytest.mark.parametrize(("kind", "number"), [(Texture1f16, Float16), (Texture1bf16, BFloat16)])
def test_gradients_of_half_precision_are_added_in_single(kind: Any, number: Any) -> None:
    texture, value = kind([1], 1), number(1)
    dr.enable_grad(value)
    texture.set_value(value)
    dr.backward(texture.eval(dr.full(Float, 0.5, 100000)).x * 2**-8)
    assert abs(dr.grad(value)[0] - 390.6) < 1


def test_masked_lookups_have_none() -> None:
    texture, position = Texture1f([[1], [2]]), Array1f(Float(float("nan"), 0.5))
    dr.enable_grad(texture, position)
    dr.backward(texture.eval(position, Bool(False, True)).x)
    assert dr.grad(texture.value()).numpy().tolist() == [0.5, 0.5]
    assert dr.grad(position).x.numpy().tolist() == [0, 2]


def test_what_is_differentiable_may_be_set_in_many_ways() -> None:
    def gradient(texture: Any, source: Any) -> Any:
        dr.backward(texture.eval(0.5).x)
        return dr.grad(source).numpy().tolist()

    value = Float(1, 2)
    dr.enable_grad(value)
    texture = Texture1f([2], 1)
    texture.set_value(value)
    assert dr.grad_enabled(texture) and gradient(texture, value) == [0.5, 0.5]
    tensor = TensorXf([1, 2], (2, 1))
    dr.enable_grad(tensor)
    for made in (Texture1f(tensor), Texture1f([2], 1)):
        dr.clear_grad(tensor)
        made.set_tensor(tensor)
        assert gradient(made, tensor.array) == [0.5, 0.5]
    texture = Texture1f([[1], [2]])
    dr.enable_grad(texture.value())
    assert gradient(texture, texture.value()) == [0.5, 0.5]
    texture = Texture1f([[1], [2]])
    dr.enable_grad(texture)
    assert gradient(texture, texture.tensor().array) == [0.5, 0.5]
    with dr.suspend_grad():
        assert not dr.grad_enabled(texture.tensor())
        texture.set_value(value)
        assert not dr.grad_enabled(texture.eval(0.5))
    assert not dr.grad_enabled(texture.eval(0.5))


def test_written_values_carry_derivatives() -> None:
    texture, value = Texture1f([3], 1, writable=True), Float(5)
    dr.enable_grad(value)
    texture.write([2], [value])
    dr.backward(texture.eval(1.0).x)
    assert dr.grad(value)[0] == 1


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops_branches_and_calls(mode: str) -> None:
    rng = np.random.default_rng(4)
    data, x = rng.random((4, 4, 2)).astype(np.float32), rng.random(50).astype(np.float32)
    plain = Texture2f(data)
    position = Array2f(x, 0.3)

    def in_loop(texture: Any, p: Any) -> Any:
        def body(i: UInt, total: Float, q: Array2f) -> Any:
            return i + 1, total + dr.sum(texture.eval(q)), q * 0.9
        return dr.while_loop((UInt(0), Float(0), p), lambda i, total, q: i < 3, body, mode=mode, max_iterations=3)[1]

    def in_branch(texture: Any, p: Any) -> Any:
        return dr.if_stmt((p,), p.x > 0.5, lambda q: texture.eval(q).x, lambda q: texture.eval_cubic(q).y, mode=mode)

    def in_call(texture: Any, p: Any) -> Any:
        return dr.switch(UInt(np.arange(50) % 2), [lambda q: texture.eval(q).x, lambda q: texture.eval_cubic(q).y], p,
                         mode=mode)

    def expected(name: str, texture: Any, p: Any) -> Any:
        if name == "in_loop":
            return sum(dr.sum(texture.eval(p * 0.9**k)) for k in range(3))
        here = p.x > 0.5 if name == "in_branch" else Bool(np.arange(50) % 2 == 0)
        return dr.select(here, texture.eval(p).x, texture.eval_cubic(p).y)

    for work, attached in itertools.product((in_loop, in_branch, in_call), (False, True)):
        results = []
        for function in (work, lambda t, p: expected(work.__name__, t, p)):  # noqa: B023
            texture, place = Texture2f(data), Array2f(position)
            if attached:
                dr.enable_grad(texture, place)
            found = function(texture, place)
            if attached:
                dr.backward(found)
                results.append([found.numpy(), dr.grad(texture.value()).numpy(), dr.grad(place).numpy()])
            else:
                results.append([found.numpy()])
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5, err_msg=f"{work.__name__} {attached}")
    assert plain.shape == (4, 4, 2)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_textures_are_state_and_arguments(mode: str) -> None:
    texture = Texture1f([[1], [3]])

    def body(i: UInt, t: Any, total: Float) -> Any:
        return i + 1, t, total + t.eval(Array1f(Float(i) * 0.25)).x

    _, after, total = dr.while_loop((UInt([0, 1, 2]), texture, Float(0)), lambda i, t, s: i < 5, body, mode=mode)
    at = [texture.eval(k * 0.25).x.numpy()[0] for k in range(5)]
    assert isinstance(after, Texture1f) and np.allclose(total.numpy(), [sum(at[k:]) for k in range(3)])
    found = dr.if_stmt((texture, Float(0.1, 0.9)), Bool(True, False), lambda t, x: t.eval(Array1f(x)).x,
                       lambda t, x: Float(0), mode=mode)
    assert found.numpy().tolist() == [1, 0]
