"""Textures as captured values and as arguments, in every place, with derivatives by texels and by positions."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import FilterMode, WrapMode, scalar
from drjit.llvm.ad import Array1f, Array2f, Array3f, Bool, Float, TensorXf, Texture1f, Texture1f16, Texture2f, UInt
from drjit.textures import CubeMap, Mipmap

RNG = np.random.default_rng(11)
LANES = 21
DATA = RNG.random((6, 6, 2)).astype(np.float32)
PLACE = (RNG.random((2, LANES)) * 1.6 - 0.3).astype(np.float32)


def texture(**options: Any) -> Callable[[Any], Any]:
    return lambda data: Texture2f(TensorXf(data), **options)


def direction(p: Any) -> Any:
    return Array3f(p.x - 0.4, p.y - 0.3, 0.45)


#: What is made of texels, how it is looked up at positions, and whether it has derivatives by those.
SUBJECTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any], bool]] = {
    "linear": (texture(), lambda t, p: dr.sum(t.eval(p)), True),
    "nearest": (texture(filter_mode=FilterMode.Nearest), lambda t, p: t.eval(p).x, False),
    "border": (texture(wrap_mode=WrapMode.Border, border=[0.3, 2]), lambda t, p: dr.sum(t.eval(p)), True),
    "axes": (texture(wrap_mode=(WrapMode.Repeat, WrapMode.Mirror)), lambda t, p: t.eval(p).y, True),
    "masked": (texture(), lambda t, p: t.eval(p, p.x > 0.4).y, True),
    "fetch": (texture(wrap_mode=WrapMode.Repeat), lambda t, p: t.eval_fetch(p)[1].x, False),
    "cubic": (texture(wrap_mode=WrapMode.Mirror), lambda t, p: t.eval_cubic(p).x, True),
    "cubic-border": (texture(wrap_mode=WrapMode.Border, border=1), lambda t, p: t.eval_cubic(p).x, True),
    "catmull-rom": (texture(), lambda t, p: t.eval_catmull_rom(p).y, True),
    "gradient": (texture(), lambda t, p: t.eval_cubic_grad(p)[1][1].y, True),
    "hessian": (texture(), lambda t, p: t.eval_cubic_hessian(p)[2][0][0, 1], True),
    "mipmap": (lambda data: Mipmap(TensorXf(data)), lambda t, p: t.eval(p, p.x * 2).x, True),
    "footprint": (lambda data: Mipmap(TensorXf(data), WrapMode.Repeat),
                  lambda t, p: t.eval_grad(p, Array2f(0.4, 0.01), Array2f(0.02, 0.15), 4).y, True),
    "cube": (lambda data: CubeMap(TensorXf(dr.concat([TensorXf(data).array] * 6), (6, 6, 6, 2))),
             lambda t, p: t.eval(direction(p)).x, True),
}


def places(mode: str) -> dict[str, Callable[[Any, Any, Any, bool], Any]]:
    """What calls a lookup, given it, a texture, positions, and whether the texture is an argument."""

    def loop(use: Any, t: Any, p: Any, argument: bool) -> Any:
        def body(i: Any, total: Any, q: Any, held: Any) -> Any:
            return i + 1, total + use(held[0] if argument else t, q), q * 0.9, held
        state = UInt(np.arange(LANES) % 3), dr.zeros(Float, LANES), p, [t] if argument else []
        return dr.while_loop(state, lambda i, total, q, held: i < 3, body, mode=mode, max_iterations=3)[1]

    def branch(use: Any, t: Any, p: Any, argument: bool) -> Any:
        if argument:
            return dr.if_stmt((t, p), p.x > 0.5, use, lambda t, q: use(t, q * 0.5), mode=mode)
        return dr.if_stmt((p,), p.x > 0.5, lambda q: use(t, q), lambda q: use(t, q * 0.5), mode=mode)

    def call(use: Any, t: Any, p: Any, argument: bool) -> Any:
        index = UInt(np.arange(LANES) % 2)
        if argument:
            return dr.switch(index, [use, lambda t, q: use(t, q * 0.5)], t, p, mode=mode)
        return dr.switch(index, [lambda q: use(t, q), lambda q: use(t, q * 0.5)], p, mode=mode)

    def nested(use: Any, t: Any, p: Any, argument: bool) -> Any:
        def inner(use: Any, t: Any, p: Any, argument: bool) -> Any:
            return branch(use, t, p, argument)
        return loop(lambda t, p: inner(use, t, p, argument), t, p, argument)

    return {"loop": loop, "branch": branch, "call": call, "nested": nested}


def expected_of(place: str, use: Any, t: Any, p: Any) -> Any:
    """What a place gives, without it."""
    number = np.arange(LANES)
    if place in ("loop", "nested"):
        inner = use if place == "loop" else lambda t, q: expected_of("branch", use, t, q)
        first = number % 3
        return sum(
            dr.select(dr.llvm.ad.Bool(3 - first > k), inner(t, p * float(np.float32(0.9))**k), 0) for k in range(3))
    here = p.x > 0.5 if place == "branch" else dr.llvm.ad.Bool(number % 2 == 0)
    return dr.select(here, use(t, p), use(t, p * 0.5))


def outcome(work: Callable[[Any, Any], Any], make: Any, by: str) -> list[Any]:
    """The result of a lookup, and derivatives of it by texels or positions, in both modes."""
    data, p = TensorXf(DATA), Array2f(PLACE)
    variable: Any = {"texels": data, "positions": p}.get(by)
    if variable is None:
        return [work(make(data), p).numpy()]
    dr.enable_grad(variable)
    result = work(make(data), p)
    found = [result.numpy()]
    dr.backward(result * Float(np.linspace(0.5, 2, LANES)))
    found.append(np.array(dr.grad(variable).numpy()))
    dr.clear_grad(variable)
    dr.set_grad(variable, type(variable)(RNG_CHANGE[by]))
    result = work(make(data), p)
    found.append(dr.forward_to(result).numpy())
    return found


RNG_CHANGE = {"texels": RNG.random(DATA.shape).astype(np.float32),
              "positions": RNG.random(PLACE.shape).astype(np.float32)}


def agree(found: list[Any], expected: list[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        scale = max(1, abs(other).max())
        np.testing.assert_allclose(one, np.broadcast_to(other, one.shape), rtol=1e-3, atol=2e-4 * scale)


@pytest.mark.sample(3)  # kernels that take long to compile, of five parameters
@pytest.mark.parametrize("by", ["nothing", "texels", "positions"])
@pytest.mark.parametrize("argument", [False, True], ids=["captured", "argument"])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("place", ["loop", "branch", "call", "nested"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_constructs(subject: str, place: str, mode: str, argument: bool, by: str) -> None:
    make, use, by_position = SUBJECTS[subject]
    if by == "positions" and not by_position:
        pytest.skip("has no derivative by positions")
    found = outcome(lambda t, p: places(mode)[place](use, t, p, argument), make, by)
    agree(found, outcome(lambda t, p: expected_of(place, use, t, p), make, by))


@pytest.mark.parametrize("by", ["nothing", "texels", "positions"])
@pytest.mark.parametrize("argument", [False, True], ids=["captured", "argument"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_frozen_functions(subject: str, argument: bool, by: str) -> None:
    make, use, by_position = SUBJECTS[subject]
    if by == "positions" and not by_position:
        pytest.skip("has no derivative by positions")
    held = make(TensorXf(DATA))

    def work(t: Any, data: Any, p: Any) -> Any:
        if by == "nothing":
            return use(t, p)
        if by == "texels":  # a texture of its own
            data = TensorXf(data)
            dr.enable_grad(data)
            t = make(data)
        else:
            p = Array2f(p)
            dr.enable_grad(p)
        result = use(t, p)
        dr.backward(result)
        return dr.detach(result), dr.grad(data if by == "texels" else p)

    frozen = dr.freeze(work if argument else lambda data, p: work(held, data, p))
    for k, lanes in enumerate((LANES, LANES, LANES, 5, 5)):
        data, p = TensorXf(DATA * (1 + k)), Array2f(PLACE[:, :lanes] + 0.01 * k)
        t = make(data) if argument else held
        found, expected = frozen(*[t] * argument, data, p), work(t, data, p)
        for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, expected)),
                              strict=True):
            agree([one.numpy()], [other.numpy()])
    assert frozen.n_recordings <= 2


class Lookup(dr.CustomOp):  # type: ignore[misc, name-defined]
    """A lookup whose derivatives are computed by looking up once more."""

    def eval(self, use: Any, t: Any, p: Any) -> Any:
        self.use, self.t, self.p = use, t, p
        return use(t, p)

    def _again(self) -> tuple[Any, Any, Any]:
        t, p = dr.detach(self.t), dr.detach(self.p)
        dr.enable_grad(t, p)
        return t, p, self.use(t, p)

    def forward(self) -> None:
        t, p, result = self._again()
        dr.set_grad(t, self.grad_in("t"))
        dr.set_grad(p, self.grad_in("p"))
        self.set_grad_out(dr.forward_to(result))

    def backward(self) -> None:
        t, p, result = self._again()
        dr.backward_from(result * self.grad_out())
        self.set_grad_in("t", dr.grad(t))
        self.set_grad_in("p", dr.grad(p))


@pytest.mark.parametrize("by", ["nothing", "texels", "positions"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_custom_operations(subject: str, by: str) -> None:
    make, use, by_position = SUBJECTS[subject]
    if by == "positions" and not by_position:
        pytest.skip("has no derivative by positions")
    agree(outcome(lambda t, p: dr.custom(Lookup, use, t, p), make, by), outcome(use, make, by))


@pytest.mark.parametrize("by", ["nothing", "texels", "positions"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_threads(subject: str, by: str) -> None:
    make, use, by_position = SUBJECTS[subject]
    if by == "positions" and not by_position:
        pytest.skip("has no derivative by positions")
    expected, found = outcome(use, make, by), [None] * 3

    def work(k: int) -> None:
        found[k] = outcome(use, make, by)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in found:
        agree(each, expected)


@pytest.mark.parametrize("mode", list(WrapMode))
def test_textures_without_texels_are_the_same_everywhere(mode):
    values = [math.nan, 0.3, math.inf, -math.inf]
    for shape in (0, 0), (0, 3), (3, 0):
        texture = Texture2f(shape, 1, wrap_mode=mode)
        number = scalar.Texture2f(shape, 1, wrap_mode=mode)

        def look_up(x, name="eval", texture=texture):
            return getattr(texture, name)(Array2f(x, x))[0]

        x = Float(values)
        for name in "eval", "eval_cubic":
            found = look_up(x, name)
            np.testing.assert_array_equal(found, [getattr(number, name)(scalar.Array2f(v, v))[0] for v in values])
            branch = dr.if_stmt((x,), dr.opaque(Bool, True, 4), lambda x, name=name: look_up(x, name), lambda x: x,
                                mode="symbolic")
            np.testing.assert_array_equal(branch, found)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_what_textures_keep_for_later_is_no_state(mode):
    texture = Texture2f(TensorXf(DATA))
    first = float(DATA[0, 0, 0])
    (found,) = dr.while_loop((Float(0, 1),), lambda x: x < 2, lambda x: (x + 1 + 0 * texture.value()[0],), mode=mode)
    assert dr.all(found == 2)
    found = dr.if_stmt((Float(0, 1),), Bool(True, False), lambda x: x + texture.value()[0], lambda x: x, mode=mode)
    np.testing.assert_allclose(found, [first, 1])


@pytest.mark.parametrize("place", ["loop", "branch", "call"])
@pytest.mark.parametrize("by_position", [False, True])
def test_masked_lookups_within_constructs_are_traversed_again(by_position, place):
    def gradient(mode: str, times: int) -> Any:
        looked_up, position = Texture2f(TensorXf(DATA)), Array2f(PLACE)
        source = position if by_position else looked_up.tensor()
        dr.enable_grad(source)
        found = places(mode)[place](lambda t, p: t.eval(p, p.x > 0.4).y, looked_up, position, False)
        for _ in range(times):
            dr.backward(found, flags=dr.ADFlag.ClearInterior)
        return dr.grad(source).numpy()

    # sums in another order, in single precision
    np.testing.assert_allclose(gradient("symbolic", 3), 3 * gradient("evaluated", 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("argument", [False, True], ids=["captured", "argument"])
def test_half_precision_with_derivatives_within_constructs(argument, mode):
    texture = Texture1f16([1], 1)
    dr.enable_grad(texture)

    def use(t: Any, p: Any) -> Any:
        return t.eval(Array1f(p.x)).x * 2**-8

    for place, lanes in (("loop", sum(3 - k % 3 for k in range(LANES))), ("branch", LANES), ("call", LANES)):
        dr.clear_grad(texture)
        dr.backward(places(mode)[place](use, texture, Array2f(dr.full(Float, 0.5, LANES), 0), argument))
        np.testing.assert_allclose(dr.grad(texture.value()), lanes * 2**-8, rtol=1e-3)
    dr.clear_grad(texture)
    position, count = Array2f(dr.full(Float, 0.5, 20000), 0), 20000
    if argument:
        found = dr.if_stmt((texture, position), position.x < 1, use, lambda t, p: p.x, mode=mode)
    else:
        found = dr.if_stmt((position,), position.x < 1, lambda p: use(texture, p), lambda p: p.x, mode=mode)
    dr.backward(found)
    np.testing.assert_allclose(dr.grad(texture.value()), count * 2**-8, rtol=1e-3)  # added up in single precision


@pytest.mark.parametrize("size", [4, 5])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_calls_are_given_all_texels_even_if_these_are_as_many_as_elements(mode, size):
    """Tables of encodings and matrices that are views likewise."""
    texture = Texture1f([size], 1, writable=True)
    texture.set_value(dr.arange(Float, size) * 10)
    lanes, index = UInt(0, 1, 2, 3), UInt(0, 1, 0, 1)

    def look_up(t: Any, k: Any) -> Any:
        return t.eval(Array1f((k + 0.5) / size)).x

    def write(t: Any, k: Any) -> Any:
        t.write([k], [Float(k) + 100])
        return look_up(t, k)

    found = dr.switch(index, [look_up, lambda t, k: look_up(t, k) + 1], texture, lanes, mode=mode)
    # positions, and so weights of neighbours, are rounded in single precision
    np.testing.assert_allclose(found, [0, 11, 20, 31], atol=1e-5)
    found = dr.switch(index, [write, look_up], texture, lanes, mode=mode)
    np.testing.assert_allclose(found, [100, 10, 102, 30], atol=1e-5)
    np.testing.assert_array_equal(texture.value()[0:4], [100, 10, 102, 30])

    encoding = dr.nn.HashGridEncoding(Float, 1, n_levels=1, hashmap_size=2 * size, base_resolution=4)
    encoding.set_params(dr.arange(Float, encoding.n_params))
    place = (Float(lanes) + 0.3) / 4
    expected = encoding(Array1f(place))
    lanes = dr.arange(UInt, encoding.n_params)
    found = dr.switch(lanes & 1, [lambda e, p: e(Array1f(p))[1]] * 2, encoding,
                      dr.gather(Float, place, lanes & 3), mode=mode)
    np.testing.assert_allclose(found, expected[1].numpy()[lanes.numpy() & 3])

    matrix = dr.nn.view(TensorXf(dr.arange(Float, 4), (2, 2)))
    found = dr.switch(index, [lambda m, x: next(iter(dr.nn.matvec(m, dr.nn.CoopVec(x, x))))] * 2, matrix,
                      Float(1, 2, 3, 4), mode=mode)
    np.testing.assert_array_equal(found, [1, 2, 3, 4])
