"""The order of arrays of many elements, which the host finds: stable, NaN at the end, zeros of both signs equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
import drjit.numpy as dnp

_SHAPES = [((20_000,), 0), ((150_000,), 0), ((3, 50_000), 1), ((9_000, 3), 1), ((3, 9_000), 0), ((2, 5_000, 3), 1),
           ((20,), 0), ((2_000,), 0), ((40, 60), 0)]
_DTYPES = ["bool", "int8", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]


def _special(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    values = rng.integers(-3, 3, shape) * np.where(rng.random(shape) < 0.5, -1.0, 1.0)
    for value in (np.nan, -np.nan, np.inf, -np.inf):
        values[rng.random(shape) < 0.05] = value
    return values


#: What elements are like: all kinds of numbers, few of them, and such as differ in their last bits only.
_VALUES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "special": _special,
    "near": lambda rng, shape: 1 + rng.integers(0, 1000, shape) * 2.0 ** -52,
    "partly near": lambda rng, shape: np.where(rng.random(shape) < 0.01, 1 + rng.integers(0, 9, shape) * 2.0 ** -50,
                                               rng.normal(size=shape))}


def _elements(dtype: str, kind: str, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(len(kind))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        return _VALUES[kind](rng, shape).astype(dtype)
    limits = np.iinfo(dtype)
    low, high = (limits.min, limits.max) if kind in ("normal", "near") else (max(limits.min, -3), 3)
    return rng.integers(low, high, shape, dtype=dtype, endpoint=True)


def _order(values: Any, axis: int, descending: bool) -> Any:
    """The stable order, by ranks of the elements."""
    rows = np.moveaxis(values, axis, -1)
    missing = rows != rows
    _, rank = np.unique(np.where(missing, 0, rows), return_inverse=True)
    rank = rank.reshape(rows.shape)
    rank = np.where(missing, rows.size, -rank if descending else rank)
    return np.moveaxis(np.argsort(rank, axis=-1, kind="stable"), -1, axis)


@pytest.mark.parametrize("kind", _VALUES)
@pytest.mark.parametrize("dtype", _DTYPES)
def test_orders_are_stable_by_threads(dtype: str, kind: str) -> None:
    for shape, axis in _SHAPES:
        values = _elements(dtype, kind, shape)
        for descending in (False, True):
            expected = _order(values, axis, descending)
            ordered = np.take_along_axis(values, expected, axis)
            array = xp.asarray(values)
            np.testing.assert_array_equal(np.asarray(xp.argsort(array, axis=axis, descending=descending)), expected)
            found = np.asarray(xp.sort(array, axis=axis, descending=descending))
            assert found.dtype == values.dtype
            np.testing.assert_array_equal(found, ordered)
            if values.dtype.kind == "f":
                zeros = ordered == 0
                np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(ordered[zeros]))


def test_what_derivatives_are_tracked_of_is_ordered_as_well() -> None:
    values = np.random.default_rng(0).normal(size=20_000)
    x = xp.asarray(values)
    dr.enable_grad(x)
    dr.backward(dnp.sum(xp.sort(x) * xp.arange(20_000)))
    gradient = np.empty(20_000)
    gradient[np.argsort(values)] = np.arange(20_000)
    np.testing.assert_array_equal(np.asarray(dr.grad(x)), gradient)


def test_frozen_functions_sort_anew() -> None:
    @dr.freeze
    def largest(x: Any) -> Any:
        return xp.sort(x)[-3:], xp.argsort(x)[:2]

    for seed in range(4):
        values = np.random.default_rng(seed).normal(size=10_000)
        found, places = largest(xp.asarray(values))
        np.testing.assert_array_equal(np.asarray(found), np.sort(values)[-3:])
        np.testing.assert_array_equal(np.asarray(places), np.argsort(values)[:2])


def test_distinct_elements_of_many() -> None:
    rng = np.random.default_rng(5)
    for values in (rng.integers(0, 900, 30_000), rng.normal(size=30_000), _special(rng, (30_000,)),
                   rng.integers(0, 3, 30_000) + 1j * rng.integers(0, 3, 30_000), rng.random(30_000) < 0.5):
        for equal_nan in (True, False):
            np.testing.assert_array_equal(np.asarray(dnp.unique(dnp.asarray(values), equal_nan=equal_nan)),
                                          np.unique(values, equal_nan=equal_nan))
