"""The order of complex numbers, which is NumPy's: by real parts, then by imaginary ones, NaN last."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import drjit as dr
import drjit.array_api as xp
import drjit.numpy as dnp

nan, inf = numpy.nan, numpy.inf
#: All pairs of numbers that are ordered in a way of their own.
SPECIAL = [complex(*parts) for parts in itertools.product((0.0, -0.0, 1, nan, inf, -inf), (0.0, 1, -1, nan, inf, -inf))]
CALLS: dict[str, Callable[..., Any]] = {
    "sort": lambda np, x, y: np.sort(x, axis=0), "argsort": lambda np, x, y: np.argsort(x, axis=1, kind="stable"),
    "argmax": lambda np, x, y: (np.argmax(x, axis=0), np.argmax(x), np.argmax(x, axis=1, keepdims=True)),
    "argmin": lambda np, x, y: (np.argmin(x, axis=1), np.argmin(x), x.argmin(0)),
    "max": lambda np, x, y: (np.max(x, axis=0), np.max(x, axis=(0, 1)), x.max(keepdims=True), np.max(x, axis=())),
    "min": lambda np, x, y: (np.min(x, axis=1, keepdims=True), np.min(x), np.min(x, initial=1j)),
    "maximum": lambda np, x, y: (np.maximum(x, y), np.maximum(x, 1), np.maximum(0.5j, x)),
    "minimum": lambda np, x, y: (np.minimum(x, y), np.minimum(x, 1j)),
    "fmax": lambda np, x, y: (np.fmax(x, y), np.fmin(x, y)), "clip": lambda np, x, y: np.clip(x, 0, 1 + 1j),
    "searchsorted": lambda np, x, y: [np.searchsorted(np.sort(x, axis=None), y, side) for side in ("left", "right")],
    "lexsort": lambda np, x, y: np.lexsort((x, y)), "partition": lambda np, x, y: np.partition(x, 1, axis=0)[1],
    "accumulate": lambda np, x, y: (np.maximum.accumulate(x, 1), np.minimum.reduce(x, 0)),
    "unique": lambda np, x, y: np.unique(x[0], return_index=True, return_inverse=True, return_counts=True)[1:],
    "median": lambda np, x, y: np.median(np.where(np.isfinite(x), x, 0), axis=1),
    "nanargmax": lambda np, x, y: np.nanargmax(x, axis=1)}


@pytest.fixture(params=["at once", "traced"])
def _each_way(request: pytest.FixtureRequest) -> Iterator[None]:
    before = xp.policy.eager
    xp.policy.eager = before if request.param == "at once" else 0
    yield
    xp.policy.eager = before


def _same(found: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        for one, other in zip(found, expected, strict=True):
            _same(one, other)
        return
    array = numpy.asarray(found)
    assert array.dtype == expected.dtype
    numpy.testing.assert_array_equal(array.real, expected.real)  # NaN in the same parts
    numpy.testing.assert_array_equal(array.imag, expected.imag)


@pytest.mark.usefixtures("_each_way")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("kind", ["ties", "special"])
def test_complex_numbers_are_ordered_as_in_numpy(kind: str, dtype: str, name: str) -> None:
    rng = numpy.random.default_rng(len(name))
    values = numpy.array(SPECIAL if kind == "special" else [complex(a, b) for a in range(3) for b in range(3)], dtype)
    x, y = (values[rng.integers(0, len(values), (7, 5))] for _ in range(2))
    if name == "nanargmax":
        x[:, 0] = 2
    with numpy.errstate(all="ignore"):
        expected = CALLS[name](numpy, x, y)
    _same(CALLS[name](dnp, dnp.asarray(x), dnp.asarray(y)), expected)


@pytest.mark.usefixtures("_each_way")
def test_many_complex_numbers_are_in_order() -> None:
    rng = numpy.random.default_rng(5)
    values = (rng.integers(0, 30, 20000) + 1j * rng.normal(size=20000).round(1)).astype(numpy.complex64)
    values[::500] = nan
    for descending in (False, True):
        sign = -1 if descending else 1
        order = numpy.lexsort((sign * values.imag, sign * values.real, numpy.isnan(values)))
        found = xp.argsort(xp.asarray(values), descending=descending)
        numpy.testing.assert_array_equal(numpy.asarray(found), order)
        _same(xp.sort(xp.asarray(values), descending=descending), values[order])
    assert int(dnp.argmax(dnp.asarray(values))) == 0 and numpy.isnan(numpy.asarray(dnp.max(dnp.asarray(values))))


@pytest.mark.usefixtures("_each_way")
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "float64", "bool"])
def test_descending_orders_are_stable_and_end_with_nan(dtype: str) -> None:
    values = numpy.array([3, 0, 1, 0, 3, 1, 127, 0], dtype)
    if dtype.startswith("float"):
        values[[1, 3, 5, 6]] = [-0.0, nan, -nan, -inf]
    order = numpy.lexsort((-values.astype(float), numpy.isnan(values)))
    found = xp.argsort(xp.asarray(values), descending=True)
    numpy.testing.assert_array_equal(numpy.asarray(found), order)
    numpy.testing.assert_array_equal(numpy.asarray(xp.sort(xp.asarray(values), descending=True)), values[order])


def test_sorted_complex_numbers_have_derivatives() -> None:
    x = xp.asarray([3 + 1j, 1 - 2j, 1 - 3j])
    dr.enable_grad(x.tensor)
    found = xp.sort(x)
    dr.backward((xp.real(found) * xp.asarray([1.0, 2, 3])).tensor + (xp.imag(xp.max(x)) * 5).tensor)
    assert numpy.asarray(dr.grad(x.tensor[0])).tolist() == [3, 2, 1]
    assert numpy.asarray(dr.grad(x.tensor[1])).tolist() == [15, 0, 0]  # of a sum over three elements


def test_quantiles_of_complex_numbers_are_refused() -> None:
    for name in ("quantile", "percentile", "nanquantile", "nanpercentile"):
        with pytest.raises(TypeError, match=rf"^drjit\.numpy\.{name}\(\): 'a' must be an array of real numbers, found"):
            getattr(dnp, name)(dnp.asarray([1j, 2]), 0.5)
