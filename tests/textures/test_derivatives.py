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


@pytest.mark.parametrize("kind", [Texture1f16, Texture1bf16, Texture1f])
def test_gradients_of_a_texture_are_added_up_again_and_again(kind: Any) -> None:
    texture = kind([1], 1)
    dr.enable_grad(texture)
    for _ in range(3):
        dr.backward(texture.eval(Array1f(Float(0.5, 0.5))).x)
    assert dr.grad(texture.value())[0] == 6
    one, other = texture.eval(Array1f(0.5)).x, texture.eval(Array1f(0.7)).x
    dr.backward(one, flags=dr.ADFlag.ClearVertices)
    dr.backward(one + other)
    assert dr.grad(texture.value())[0] == 9


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


def second_order_matches(total: Any, kind: Any, places: Any, changes: Any) -> None:
    """Second derivatives of a total by texels and positions, along changes of both, are differences of gradients."""
    def gradient(step: float) -> Any:
        texels, p = (cls(place + step * change) for cls, place, change in
                     zip((TensorXf64, kind), places, changes, strict=True))
        dr.enable_grad(texels, p)
        dr.backward(total(texels, p))
        return np.concatenate([dr.grad(texels).numpy().ravel(), dr.grad(p).numpy().ravel()])

    expected = (gradient(1e-6) - gradient(-1e-6)) / 2e-6
    _, found = dr.hvp(total, (TensorXf64(places[0]), kind(places[1])), (TensorXf64(changes[0]), kind(changes[1])))
    found = np.concatenate([found[0].numpy().ravel(), found[1].numpy().ravel()])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)  # of differences at 1e-6 in double precision


@pytest.mark.parametrize("mode", WrapMode)
@pytest.mark.parametrize(("method", "dimension"), [
    ("eval", 1), ("eval", 2), ("eval", 3), ("eval_cubic", 1), ("eval_cubic", 2), ("eval_catmull_rom", 1),
    ("eval_catmull_rom", 2), ("eval_cubic_grad", 1)])
def test_second_order_matches_differences_of_gradients(method: str, dimension: int, mode: WrapMode) -> None:
    """By texels and positions at once."""
    cls, kind, shape = TEXTURES[dimension]
    rng = np.random.default_rng([dimension, len(method)])
    data, position = rng.random((*shape, 2)), rng.random((dimension, 12)) * 1.6 - 0.3
    changes = rng.random(data.shape) - 0.5, rng.random(position.shape) - 0.5
    options = {"border": [0.3, -1]} if mode is WrapMode.Border else {}

    def total(texels: Any, p: Any) -> Any:
        x, y, *_ = everything(getattr(cls(texels, wrap_mode=mode, **options), method)(kind(p)))
        return dr.sum(x * y + x)

    second_order_matches(total, kind, (data, position), changes)


def repeated(look: Any, p: Any) -> Any:
    state = UInt(0), dr.zeros(Float64, dr.width(p)), p
    return dr.while_loop(state, lambda i, s, q: i < 3, lambda i, s, q: (i + 1, s + look(q), q * 0.9),
                         max_iterations=3, mode="symbolic")[1]


def chosen(look: Any, p: Any) -> Any:
    return dr.if_stmt((p,), p.x > 0.4, lambda q: look(q) * 2, lambda q: look(q * 0.5) + 1, mode="symbolic")


def called(look: Any, p: Any) -> Any:
    """More functions than become branches."""
    targets = [look, lambda q: look(q * 0.5) * 3, lambda q: q.x * look(q + 0.1), lambda q: dr.sin(look(q))] * 2
    return dr.switch(UInt(p.x * 3.9), targets, p, mode="symbolic")


@pytest.mark.parametrize("mode", [WrapMode.Clamp, WrapMode.Border])
@pytest.mark.parametrize("method", ["eval", "eval_cubic"])
@pytest.mark.parametrize("construct", [repeated, chosen, called])
def test_second_order_within_constructs_matches_differences(construct: Any, method: str, mode: WrapMode) -> None:
    cls, kind, shape = TEXTURES[2]
    rng = np.random.default_rng(len(method))
    data, position = rng.random((*shape, 2)), rng.random((2, 9)) * 0.9 + 0.05
    changes = rng.random(data.shape) - 0.5, rng.random(position.shape) - 0.5

    def total(texels: Any, p: Any) -> Any:
        texture = cls(texels, wrap_mode=mode)

        def look(q: Any) -> Any:
            x, y = getattr(texture, method)(q)
            return x * y + x

        return dr.sum(construct(look, p))

    second_order_matches(total, kind, (data, position), changes)


@pytest.mark.parametrize("method", ["eval", "eval_cubic"])
def test_lookups_that_nobody_wants_say_nothing_in_second_order(method: str) -> None:
    texels = TensorXf64(np.arange(12.0).reshape(3, 2, 2))
    position = Array2f64([float("nan"), 0.4, 0.6], [0.5, float("inf"), 0.6])

    def total(texels: Any) -> Any:
        x, y = getattr(Texture2f64(texels), method)(position)
        return dr.sum(dr.select(Bool(False, False, True), x * y, 0))

    gradient, product = dr.hvp(total, texels, texels)
    assert np.isfinite(gradient.numpy()).all() and np.isfinite(product.numpy()).all()
    # of a quadratic form; double precision
    np.testing.assert_allclose(product.numpy(), gradient.numpy(), rtol=1e-12)


def test_derivatives_of_the_fourth_order_are_zero() -> None:
    texture, position = Texture1f64(np.arange(8.0).reshape(8, 1)**3), Array1f64(Float64(0.4, 0.55))

    def curvature(p: Any) -> Any:
        return dr.sum(texture.eval_cubic_hessian(p)[2][0][0][0])

    third, fourth = dr.hvp(curvature, position, Array1f64(1))
    assert (abs(third.x.numpy()) > 1).all() and fourth.x.numpy().tolist() == [0, 0]


@pytest.mark.parametrize("method", ["eval", "eval_cubic", "eval_catmull_rom"])
def test_lookups_that_nobody_wants_say_nothing(method: str) -> None:
    """At positions that are not finite there are no derivatives, if a program selects others."""
    texture = Texture2f(np.arange(12.0).reshape(3, 2, 2))
    position = Array2f([float("nan"), 0.4, 0.6], [0.5, float("nan"), 0.6])
    dr.enable_grad(texture, position)
    found = getattr(texture, method)(position)
    dr.backward(dr.select(Bool(False, False, True), dr.sum(found), 0))
    assert np.isfinite(dr.grad(texture.value()).numpy()).all()
    assert dr.grad(position).numpy()[:, :2].tolist() == [[0, 0], [0, 0]]
    assert dr.grad(position).numpy()[:, 2].all()


def test_an_array_may_be_texels_and_position() -> None:
    values = Float(0.1, 0.5, 0.7)
    dr.enable_grad(values)
    texture = Texture1f([3], 1)
    texture.set_value(values)
    dr.backward(texture.eval(Array1f(values)).x)
    texels, places = Float(0.1, 0.5, 0.7), Float(0.1, 0.5, 0.7)
    dr.enable_grad(texels, places)
    texture.set_value(texels)
    dr.backward(texture.eval(Array1f(places)).x)
    assert dr.allclose(dr.grad(values), dr.grad(texels) + dr.grad(places)) and dr.all(dr.grad(values) != 0)


def test_what_is_not_tracked_is_a_constant_in_derivatives_of_derivatives() -> None:
    texture, position = Texture1f64([[1], [4], [2]]), Array1f64(Float64(0.4, 0.6))
    dr.enable_grad(texture, position)

    def total(p: Any) -> Any:
        with dr.suspend_grad(texture):
            return dr.sum(texture.eval_cubic(p).x)

    slope, curvature = dr.hvp(total, position, Array1f64(1))
    assert slope.x.numpy().all() and curvature.x.numpy().all()
    dr.backward(total(position))
    assert not dr.grad(texture.value()).numpy().any()
    assert dr.grad(position).x.numpy().tolist() == slope.x.numpy().tolist()


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("by", ["texels", "positions"])
def test_gradients_within_constructs(by: str, mode: str) -> None:
    """Gradients that a loop computes flow to a texture from outside, which it has as an argument or not."""
    data = np.random.default_rng(5).random((4, 1)).astype(np.float32)
    places = np.linspace(0.1, 0.9, 7, dtype=np.float32)

    def results(argument: bool) -> Any:
        texture, position = Texture1f(data), Float(places)
        dr.enable_grad(texture if by == "texels" else position)

        def body(i: Any, p: Any, t: Any) -> Any:
            with dr.isolate_grad():
                value = (t if argument else texture).eval(Array1f(p * 0.5)).x
                dr.backward(value * value)
            return i + 1, p, t

        if by == "positions":
            def inside(i: Any, p: Any, t: Any) -> Any:
                q = Float(dr.detach(p))
                dr.enable_grad(q)
                dr.backward((t if argument else texture).eval(Array1f(q * 0.5)).x)
                return i + 1, p + dr.grad(q), t
            position = dr.detach(position)
            return dr.while_loop((UInt(0), position, texture), lambda i, p, t: i < 3, inside, mode=mode)[1].numpy()
        dr.while_loop((UInt(0), position, texture), lambda i, p, t: i < 3, body, mode=mode)
        return dr.grad(texture.value()).numpy()

    expected = np.zeros(4) if by == "texels" else places.astype(np.float64)
    for _ in range(3):
        where = (expected if by == "positions" else places) * 0.5
        value = model.linear(data, [where], [WrapMode.Clamp], 0, np.float64)[:, 0]
        scaled = np.clip(where * 4 - 0.5, 0, 3)
        first = np.minimum(scaled.astype(int), 2)
        if by == "texels":
            for place, weight in ((first, 1 - (scaled - first)), (first + 1, scaled - first)):
                np.add.at(expected, place, 2 * value * weight)
        else:
            inside = (where * 4 - 0.5 >= 0) & (where * 4 - 0.5 < 3)
            expected = expected + inside * 2 * (data[first + 1, 0] - data[first, 0])
    for argument in (False, True):
        np.testing.assert_allclose(results(argument), expected, rtol=1e-4, atol=1e-5)
