"""Convolutions with discrete kernels, at boundaries and in modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import ad

BOUNDARIES = {"zero": [4, 10, 16, 22, 28, 34, 32], "nearest": [7, None, 39], "wrap": [25, None, 33],
              "reflect": [7, None, 39], "mirror": [10, None, 38]}
PADDING = {"zero": "constant", "nearest": "edge", "wrap": "wrap", "reflect": "symmetric", "mirror": "reflect"}
MODES = [None, "symbolic", "evaluated"]


def numbers(count: int) -> Any:
    return dr.arange(llvm.Float, count) + 1


@pytest.mark.parametrize(("kernel", "found"), [
    ([1, 0, -1], [2, 2, 2, 2, 2, 2, -6]), ([1, 2], [1, 4, 7, 10, 13, 16, 19]),
    ([1, 2, 3, 4], [4, 10, 20, 30, 40, 50, 52])])
@pytest.mark.parametrize("form", [list, tuple, np.array, llvm.Float, llvm.UInt, scalar.ArrayXf])
def test_discrete_kernels(kernel: list[int], found: list[int], form: Any) -> None:
    if form is llvm.UInt and min(kernel) < 0:
        pytest.skip("unsigned")
    for mode in MODES:
        assert list(dr.convolve(numbers(7), form(kernel), mode=mode)) == found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_boundaries(boundary: str, mode: str | None) -> None:
    found = list(dr.convolve(numbers(7), [1, 2, 3], boundary=boundary, mode=mode))
    expected = BOUNDARIES[boundary]
    assert (found[0], found[-1]) == (expected[0], expected[-1])
    assert found[1:-1] == [10, 16, 22, 28, 34]


@pytest.mark.parametrize("package", [llvm, scalar])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("size", "taps"), [(7, 3), (7, 4), (5, 5), (3, 12), (1, 3), (2, 9), (40, 37), (1, 40)])
def test_kernels_of_any_width(size: int, taps: int, boundary: str, package: Any) -> None:
    rng = np.random.default_rng(size * taps)
    x, kernel = rng.normal(size=size), rng.normal(size=taps)
    before, after = taps, taps
    padded = np.pad(x, (before, after), mode=PADDING[boundary]) if boundary not in ("mirror", "reflect") or size > 1 \
        else np.pad(x, (before, after), mode="edge")
    full = np.convolve(padded, kernel, "full")[(taps - 1) // 2:][:padded.size]
    expected = full[before:before + size]
    cls = llvm.Float64 if package is llvm else scalar.ArrayXf64
    found = dr.convolve(cls(x.tolist()), kernel.tolist(), boundary=boundary)
    assert np.allclose(np.array(found), expected, atol=1e-12)


def test_one_element_and_its_mirror_images() -> None:
    assert list(dr.convolve(llvm.Float(5), [1, 2, 3], boundary="mirror")) == [30]


def test_normalised_kernels() -> None:
    found = list(dr.convolve(numbers(7), [1, 2, 3], normalize=True))
    assert np.allclose(found[:2] + found[-1:], [4 / 3, 5 / 3, 6.4])


def test_named_filters_have_a_radius_of_their_own() -> None:
    found = list(dr.convolve(numbers(7), "gaussian", normalize=False))
    assert np.allclose([found[0], found[1], found[-1]], [1.26966, 2.53933, 7.80765], rtol=1e-5)
    assert np.isclose(dr.convolve(numbers(7), "gaussian", 2, normalize=False)[0], 2.66, rtol=1e-3)
    assert np.isclose(dr.convolve(numbers(7), "gaussian", 2)[0], 1.52, rtol=1e-2)


@pytest.mark.parametrize("call", [
    lambda x: dr.convolve(x, [1, 2], 3), lambda x: dr.convolve(x, []), lambda x: dr.convolve(x, lambda t: t),
    lambda x: dr.convolve(x, [1, 2], mode="quick"), lambda x: dr.resample(x, [3], mode="quick"),
    lambda x: dr.resample(x, [len(x)], mode="quick"), lambda x: dr.convolve(x[:0], [1, 2], mode="quick"),
    lambda x: dr.convolve(x, [[1, 2]]), lambda x: dr.convolve(x, [1], boundary="none")])
def test_what_is_refused(call: Any) -> None:
    with pytest.raises(RuntimeError):
        call(numbers(7))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("kernel", [[1, 2, 3, 4], [1.0, -2.0], list(range(45))])
def test_adjoints(kernel: list[float], boundary: str, mode: str | None) -> None:
    """Of linear functions A: <A x, y> = <x, A' y>."""
    rng = np.random.default_rng(3)
    x, y = (ad.Float64(rng.normal(size=6).tolist()) for _ in range(2))
    dr.enable_grad(x)
    z = dr.convolve(x, kernel, boundary=boundary, mode=mode)
    z.grad = y
    dr.backward_from(z)
    assert np.isclose(dr.sum(dr.detach(z) * y)[0], dr.sum(dr.detach(x) * x.grad)[0])
    x.grad = y
    z = dr.convolve(x, kernel, boundary=boundary, mode=mode)
    assert np.allclose(dr.forward_to(z).numpy(), dr.convolve(y, kernel, boundary=boundary).numpy())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(3,), (20,)])
def test_modes_of_resampling(shape: tuple[int], mode: str | None) -> None:
    found = dr.resample(numbers(7), shape, mode=mode)
    assert np.allclose(found.numpy(), dr.resample(numbers(7), shape).numpy(), rtol=1e-6)
    if mode == "evaluated":
        assert found.state == dr.VarState.Evaluated


def test_tensors_along_axes() -> None:
    x = np.random.default_rng(1).normal(size=(4, 5)).astype("f4")
    found = dr.convolve(llvm.TensorXf(x), [1, 2, 3], axis=1, mode="symbolic").numpy()
    assert np.allclose(found, [np.convolve(row, [1, 2, 3], "same") for row in x], atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("size", "taps"), [(4, 2), (5, 3), (40, 8), (40, 40), (20000, 8)])
@pytest.mark.parametrize("weight", [np.inf, -np.inf, np.nan])
def test_weights_that_are_not_finite_leave_out_what_is_beyond_the_ends(size: int, taps: int, mode: str | None,
                                                                       weight: float) -> None:
    rng = np.random.default_rng(size + taps)
    x, kernel, gradient = rng.normal(size=size), rng.normal(size=taps), rng.normal(size=size)
    kernel[0 if size % 2 else -1] = weight
    source = ad.Float64(x)
    dr.enable_grad(source)
    y = dr.convolve(source, kernel, mode=mode)
    np.testing.assert_allclose(y.numpy(), np.convolve(x, kernel, "same"))
    dr.set_grad(y, ad.Float64(gradient))
    dr.backward_from(y)
    first = (taps - 1) // 2
    adjoint = np.convolve(gradient, kernel[::-1], "full")[taps - 1 - first:][:size]
    np.testing.assert_allclose(source.grad.numpy(), adjoint)
