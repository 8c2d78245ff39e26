"""Lookups are nodes, one for each channel, which are expanded where a kernel's text is made."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit.llvm as llvm
import drjit.llvm.ad as ad
from drjit_core import literal
from drjit_core.interpreter.execution import Interpreter
from drjit_core.ir.node import FIELDS, new_id, new_node
from drjit_core.ir.verify import VerificationError, verify
from drjit_core.ops.table import KIND
from drjit_core.types import UINT32

RNG = np.random.default_rng(7)
TEXELS = RNG.standard_normal((5, 6, 3)).astype(np.float32)
X, Y = (RNG.uniform(-0.5, 1.5, 33).astype(np.float32) for _ in range(2))


@pytest.fixture(autouse=True)
def _rows() -> Iterator[None]:
    """Lookups are rows under this flag, which runs of all tests on simulated GPUs clear."""
    with dr.scoped_set_flag(dr.JitFlag.FastMath, True):
        yield


def texture(data: Any = TEXELS, **options: Any) -> Any:
    found = llvm.Texture2f(llvm.TensorXf(data), **options)
    dr.eval(found)
    return found


def position() -> Any:
    return llvm.Array2f(llvm.Float(X), llvm.Float(Y))


def traced_at_once(function: Any) -> Any:
    """What a lookup is where it is no row."""
    with dr.scoped_set_flag(dr.JitFlag.PacketOps, False):
        return function()


@pytest.mark.parametrize("method", ["eval", "eval_cubic", "eval_catmull_rom"])
def test_a_channel_is_a_node(method: str) -> None:
    pos, lookup = position(), getattr(texture(), method)
    lookup(pos)  # which makes what lookups in textures of this shape have in common
    first = new_id()
    lookup(llvm.Array2f(pos.y, pos.x))
    assert new_id() - first - 1 <= 3 + 2  # and what holds its operands


def colors(wrap_mode: dr.WrapMode = dr.WrapMode.Clamp) -> Any:
    codes = llvm.TensorXu8(RNG.integers(0, 256, (5, 6, 5), dtype=np.uint8))
    dr.eval(codes)
    return llvm.Texture2f8u(codes, srgb=True, wrap_mode=wrap_mode)


@pytest.mark.parametrize("method", ["eval", "eval_cubic", "eval_catmull_rom"])
@pytest.mark.parametrize(("make", "more"), [
    (lambda: texture(wrap_mode=dr.WrapMode.Border), 2), (colors, 3), (lambda: colors(dr.WrapMode.Border), 3)])
def test_borders_and_colors_are_rows(make: Any, more: int, method: str) -> None:
    pos, held = position(), make()
    lookup = getattr(held, method)
    lookup(pos)
    first = new_id()
    lookup(llvm.Array2f(pos.y, pos.x))
    assert new_id() - first - 1 <= held.channel_count() + more
    expected = traced_at_once(lambda: np.asarray(lookup(pos, llvm.Bool(X > 0))))
    np.testing.assert_allclose(np.asarray(lookup(pos, llvm.Bool(X > 0))), expected, atol=2e-6)


@pytest.mark.parametrize("border", [[0.5, 0, -2], 3.0])
@pytest.mark.parametrize("method", ["eval", "eval_cubic", "eval_catmull_rom"])
def test_what_is_beyond_a_border_has_a_weight(method: str, border: Any) -> None:
    modes = dr.WrapMode.Border, (dr.WrapMode.Border, dr.WrapMode.Mirror), (dr.WrapMode.Clamp, dr.WrapMode.Border)
    for mode, filter_mode in itertools.product(modes, dr.FilterMode):
        lookup = getattr(texture(wrap_mode=mode, border=border, filter_mode=filter_mode), method)
        pos, active = position(), llvm.Bool(X > 0)
        lookup(pos)
        first = new_id()
        lookup(llvm.Array2f(pos.y, pos.x))
        assert new_id() - first - 1 <= 4 + 3 + 2
        expected = traced_at_once(lambda lookup=lookup, pos=pos, active=active: np.asarray(lookup(pos, active)))
        np.testing.assert_allclose(np.asarray(lookup(pos, active)), expected, atol=4e-6)


@pytest.mark.parametrize("mode", [dr.WrapMode.Clamp, dr.WrapMode.Repeat, dr.WrapMode.Mirror])
@pytest.mark.parametrize("method", ["eval", "eval_cubic", "eval_catmull_rom"])
def test_the_expansion_is_what_is_traced_at_once(method: str, mode: dr.WrapMode) -> None:
    for options in ({}, {"filter_mode": dr.FilterMode.Nearest}):
        lookup, pos = getattr(texture(wrap_mode=mode, **options), method), position()
        active = llvm.Bool(X > 0)
        expected = traced_at_once(lambda lookup=lookup, pos=pos: np.asarray(lookup(pos, llvm.Bool(X > 0))))
        np.testing.assert_allclose(np.asarray(lookup(pos, active)), expected, atol=2e-6)


@pytest.mark.parametrize("make", [texture, colors, lambda: texture(wrap_mode=dr.WrapMode.Border, border=2)])
def test_the_interpreter_knows_them(make: Any) -> None:
    held = make()
    nodes = held.eval(position())._nodes()
    found = Interpreter(lambda buffer, first, count: ctypes.string_at(buffer.address + first, count)).run(nodes)
    np.testing.assert_allclose(found, np.asarray(held.eval(position())), atol=1e-6)


def test_kernels_tell_types_of_texels_apart() -> None:
    """Results have the type of positions."""
    pos = llvm.Array1f16(llvm.Float16([0.5]))
    for kind, tensor in ((llvm.Texture1f64, llvm.TensorXf64), (llvm.Texture1f, llvm.TensorXf),
                         (llvm.Texture1f16, llvm.TensorXf16)):
        data = tensor([[1.0], [2.0], [4.0]])
        dr.eval(data)
        assert np.asarray(kind(data).eval(pos)).tolist() == [[2.0]]


def test_sizes_are_parameters() -> None:
    pos = position()
    dr.eval(texture(TEXELS[:2, :3]).eval(pos))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history()
        for height, width in ((3, 4), (5, 2), (2, 6)):
            dr.eval(texture(TEXELS[:height, :width]).eval(pos))
        kernels = [entry for entry in dr.kernel_history() if entry["type"] == dr.KernelType.JIT]
    assert len(kernels) == 3 and all(entry["cache_hit"] for entry in kernels)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_functions_that_look_up_different_textures(mode: str) -> None:
    one, other, pos = texture(), texture(2 * TEXELS), position()
    index = llvm.UInt32(np.arange(33) % 2)
    found = dr.switch(index, [one.eval, other.eval], pos, mode=mode)
    np.testing.assert_array_equal(found, dr.select(index == 0, one.eval(pos), other.eval(pos)))


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_a_loop_of_which_only_the_position_is_tracked(mode: str) -> None:
    """It is traced without derivatives first, and again with them."""
    held = ad.Texture2f(ad.TensorXf(TEXELS))
    pos = ad.Array2f(ad.Float(X), ad.Float(Y))
    dr.enable_grad(pos)
    expected = dr.sum(held.eval(pos)) + dr.sum(held.eval(pos * 0.5))
    dr.backward(dr.sum(expected))
    wanted = np.array(dr.grad(pos))
    dr.clear_grad(pos)

    def body(i: Any, p: Any, total: Any) -> Any:
        return i + 1, p * 0.5, total + dr.sum(held.eval(p))

    state = ad.UInt32(0), ad.Array2f(pos), dr.zeros(ad.Float, 33)
    _, _, total = dr.while_loop(state, lambda i, p, total: i < 2, body, mode=mode)
    dr.backward(dr.sum(total))
    np.testing.assert_allclose(dr.grad(pos), wanted, rtol=1e-4, atol=1e-4)


def test_frozen_functions_look_up_textures_of_other_sizes() -> None:
    @dr.freeze
    def look(held: Any, pos: Any) -> Any:
        return held.eval(pos) + held.eval_cubic(pos)

    for size in (3, 5, 6):
        for count in (1, 7, 33):
            held, pos = texture(TEXELS[:, :size]), llvm.Array2f(llvm.Float(X[:count]), llvm.Float(Y[:count]))
            np.testing.assert_allclose(look(held, pos), held.eval(pos) + held.eval_cubic(pos), atol=1e-6)


@pytest.mark.parametrize("flag", [dr.JitFlag.FastMath, dr.JitFlag.PacketOps])
def test_flags_that_expansions_do_not_know(flag: dr.JitFlag) -> None:
    expected = np.asarray(texture().eval(position()))
    with dr.scoped_set_flag(flag, False):
        np.testing.assert_allclose(texture().eval(position()), expected, atol=1e-6)


def test_debug_mode_checks_what_a_program_reads_itself() -> None:
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        found = np.asarray(texture().eval(llvm.Array2f(llvm.Float(X * 1e30), llvm.Float(Y))))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("method", ["eval", "eval_cubic", "eval_catmull_rom"])
def test_derivatives_by_positions_are_rows(method: str) -> None:
    """A node for each channel and axis, what puts their operands together, and sums of products with the gradient."""
    held = ad.Texture2f(ad.TensorXf(TEXELS))
    dr.eval(held)
    pos = ad.Array2f(ad.Float(X), ad.Float(Y))
    dr.enable_grad(pos)

    def gradient() -> Any:
        x, y, z = getattr(held, method)(pos)
        dr.backward(x + y * 2 + z * 3)
        return dr.grad(pos)

    gradient()
    first = new_id()
    found = gradient()
    assert new_id() - first - 1 <= 60
    assert not set(dir(found)) - set(dir(pos)) and np.isfinite(found.numpy()).all()


def test_gradients_and_hessians_are_rows() -> None:
    pos, held = position(), texture()
    held.eval_cubic_hessian(pos)
    first = new_id()
    held.eval_cubic_hessian(llvm.Array2f(pos.y, pos.x))
    assert new_id() - first - 1 <= 3 * 6 + 2


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("form", ["f", "f16"])
@pytest.mark.parametrize("mode", list(dr.WrapMode))
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_gradients_by_texels_are_those_of_what_is_traced_at_once(dimension: int, mode: dr.WrapMode, form: str,
                                                                 channels: int) -> None:
    rng = np.random.default_rng(dimension)
    weights = rng.random((channels, 40)).astype(np.float32)
    place = (rng.random((dimension, 40)) * 3 - 1).astype(np.float32)

    def gradient(data: Any) -> Any:
        found = getattr(ad, f"Texture{dimension}{form}")(data, wrap_mode=mode)
        dr.enable_grad(found)
        values = found.eval(getattr(ad, f"Array{dimension}f")(place))
        dr.backward(dr.sum([value * ad.Float(weight) for value, weight in zip(values, weights, strict=True)]))
        return dr.grad(found.tensor()).numpy()

    for shape in ((1,) * dimension, (2, 3, 5)[:dimension]):
        data = rng.random((*shape, channels))
        expected = traced_at_once(lambda data=data: gradient(data))
        # added up in any order, in the precision of the texels
        np.testing.assert_allclose(gradient(data), expected, rtol=1e-5 if form == "f" else 2e-3, atol=1e-5)


def pull(method: str, dimension: int, channels: int, form: str = "f", active: bool = False) -> tuple[Any, int]:
    """Gradients by texels, and how many nodes it takes to make them."""
    texels = getattr(ad, f"TensorX{form}")(RNG.random((*(4, 3, 5)[:dimension], channels)))
    place = getattr(ad, f"Array{dimension}f")(np.stack([X, Y, X * Y])[:dimension])
    mask = ad.Bool(X > 0) if active else True
    dr.eval(texels, place, mask)
    dr.enable_grad(texels)
    values = getattr(getattr(ad, f"Texture{dimension}{form}")(texels), method)(place, mask)
    before = new_id()
    dr.backward(values)
    return dr.grad(texels), new_id() - before - 1


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("method", "dimension"), [
    ("eval", 1), ("eval", 2), ("eval", 3), ("eval_cubic", 1), ("eval_cubic", 2), ("eval_catmull_rom", 3)])
def test_gradients_by_texels_are_a_row(method: str, dimension: int, channels: int, active: bool) -> None:
    """Whatever the number of texels that a lookup reads."""
    pull(method, dimension, channels, active=active)
    _, count = pull(method, dimension, channels, active=active)
    # memory of zeros, the row with up to three packs of its operands, the write, the flat gradient as a tensor
    assert count <= 9


@pytest.mark.parametrize("form", ["f", "f16", "f64"])
@pytest.mark.parametrize("method", ["eval", "eval_cubic"])
def test_the_interpreter_knows_gradients_by_texels(method: str, form: str) -> None:
    gradient, _ = pull(method, 2, 3, form, True)
    (node,) = gradient.array._nodes()
    found = Interpreter(lambda buffer, first, count: ctypes.string_at(buffer.address + first, count)).run([node])
    tolerance = {"f": 1e-5, "f16": 2e-3, "f64": 1e-12}[form]  # kernels add up in another order
    np.testing.assert_allclose(found[0].astype(np.float64), gradient.array.numpy().astype(np.float64), rtol=tolerance,
                               atol=tolerance)


def test_updates_are_additions_at_places_of_their_own() -> None:
    gradient, _ = pull("eval", 2, 1)
    (node,) = gradient.array._nodes()
    while node.kind != KIND["scatter"]:
        node = node.d0
    verify([node])
    for slots, message in (({"attr": dr.ReduceOp.Mul.value}, "does not add updates"),
                           ({"d2": literal(UINT32, 1)}, "has an index, and so has each update")):
        other: Any = new_node(type(node))
        for name in FIELDS:
            setattr(other, name, slots.get(name, getattr(node, name)))
        with pytest.raises(VerificationError, match=message):
            verify([other])


def test_debug_mode_finds_nothing_wrong_with_gradients_by_texels() -> None:
    """They do not depend on texels, of which each call makes others."""
    expected = pull("eval", 2, 3)[0].numpy()
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        # added up by atomic updates, in another order
        np.testing.assert_allclose(pull("eval", 2, 3)[0].numpy(), expected, rtol=1e-5)
