"""Views, orders and joins of arrays of any size are recorded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Array3f, Float, UInt

VIEWS: dict[str, Callable[[Any], Any]] = {
    "running sums": dr.cumsum, "sort": lambda x: dr.sort(-x), "argsort": lambda x: dr.argsort(-x),
    "reverse": dr.reverse, "tile": lambda x: dr.tile(x, 3), "repeat": lambda x: dr.repeat(x, 3),
    "concat": lambda x: dr.concat([x, x + 1, x[::2]]), "shift": lambda x: dr.concat([x[1:], x[:1]]),
    "every second": lambda x: x[::2], "all but the first": lambda x: x[1:], "all but the last": lambda x: x[:-2],
    "some": lambda x: x[1:4], "backwards": lambda x: x[::-1], "the last": lambda x: x[-3:],
    "far ones": lambda x: x[-2:0:-2], "thirds": lambda x: x[2::3], "first ones": lambda x: x[:3] * 2,
    "differences": lambda x: x[1:] - x[:-1], "of components": lambda x: dr.reverse(Array3f(x, x + 1, x * 2), axis=1),
    "sums of components": lambda x: dr.cumsum(Array3f(x, x + 1, x * 2), axis=1),
    "together": lambda x: dr.sum(dr.reverse(x)[1:] * x[1:]),
}
SIZES = (9, 12, 100, 10, 3000, 9)


def floats(n: int) -> Any:
    return Float((np.arange(n) * 7 % 11).astype(np.float32))


@pytest.mark.parametrize("name", VIEWS)
def test_one_recording_serves_for_all_sizes(name: str) -> None:
    function = VIEWS[name]
    frozen = dr.freeze(function)
    for n in SIZES:
        found, expected = frozen(floats(n)), function(floats(n))
        assert type(found) is type(expected) and np.array_equal(found, expected)
    assert frozen.n_recordings == 1


@pytest.mark.parametrize("name", VIEWS)
def test_small_sizes_are_right(name: str) -> None:
    function = VIEWS[name]
    frozen = dr.freeze(function)
    for n in (6, 5, 4, 3, 2, 1, 0, 2, 3, 7):
        results = []
        for each in (frozen, function):
            try:
                results.append(np.array(each(floats(n))))
            except Exception as error:
                results.append(type(error))
        found, expected = results
        assert found is expected if isinstance(expected, type) else np.array_equal(found, expected), n


@pytest.mark.parametrize("backward", [True, False])
@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("argsort",)])
def test_derivatives_at_all_sizes(name: str, backward: bool) -> None:
    function = VIEWS[name]
    frozen = dr.freeze(function)
    for n in SIZES:
        results = []
        for each in (frozen, function):
            x = floats(n)
            dr.enable_grad(x)
            y = each(x)
            if backward:
                dr.backward(y * y)
                results.append(np.array(x.grad))
            else:
                dr.forward(x)
                results.append(np.array(dr.grad(y)))
        assert np.allclose(*results, rtol=1e-4)
    assert frozen.n_recordings == 1


def test_decisions_by_sizes_are_guards_with_derivatives_too() -> None:
    frozen = dr.freeze(lambda x: x * 2 if dr.width(x) > 10 else x * 3)
    for n in (5, 7, 8, 20, 21, 5):
        x = floats(n)
        dr.enable_grad(x)
        y = frozen(x)
        dr.backward(y)
        assert np.array_equal(y, floats(n) * (2 if n > 10 else 3))
        assert np.array_equal(x.grad, np.full(n, 2 if n > 10 else 3))


@pytest.mark.parametrize("function", [
    lambda x, y: (x * 2, y[2:]), lambda x, y: (dr.gather(Float, x, dr.arange(UInt, 3)), dr.reverse(y)),
    lambda x, y: (dr.concat([x[1:], y]), dr.sum(y)), lambda x, y: (dr.cumsum(x), dr.sort(-y)),
    lambda x, y: (x[:-1] * 2, y * y), lambda x, y: (dr.block_prefix_sum(x, 2), dr.tile(y, 2))])
def test_sizes_that_are_equal_by_chance(function: Callable[[Any, Any], Any]) -> None:
    """What is as large as two arguments may follow from either."""
    frozen = dr.freeze(function)
    for n, m in ((9, 9), (12, 12), (12, 20), (20, 12), (10, 11), (14, 15), (14, 20), (20, 20), (8, 7), (13, 13)):
        results = []
        for each in (frozen, function):
            x, y = floats(n), floats(m)
            dr.enable_grad(x, y)
            found = each(x, y)
            for number, value in enumerate(found):
                dr.set_grad(value, number + 1)
            dr.enqueue(dr.ADMode.Backward, *found)
            dr.traverse(dr.ADMode.Backward)
            results.append([np.array(value) for value in (*found, x.grad, y.grad)])
        for one, other in zip(*results, strict=True):
            assert one.shape == other.shape and np.allclose(one, other), (n, m)


@pytest.mark.parametrize("key", [slice(None), slice(0, None), slice(None, 100), slice(None, None, 1)], ids=str)
def test_a_slice_that_is_the_whole_array_is_the_array_itself(key: slice) -> None:
    """As in plain code: the same variable of derivatives, and nothing to launch."""
    def function(x: Float) -> tuple[Float, Float]:
        return x[key], x * 2

    frozen = dr.freeze(function)
    for size in (4, 7, 9):
        for call in (function, frozen):
            x = dr.arange(Float, size) + 1
            dr.enable_grad(x)
            same, _ = call(x)
            assert same.index_ad == x.index_ad and len(same) == size
    assert frozen.n_recordings == 1


def test_slices_that_are_the_array_share_its_variable() -> None:
    frozen = dr.freeze(lambda x: (x, x[:3]))
    for n in (5, 3, 2, 4, 3):
        for function in (frozen, frozen.f):
            x = Float(np.arange(n) + 1.0)
            dr.enable_grad(x)
            one, other = function(x)
            dr.set_grad(one, 1)
            dr.set_grad(other, 2)
            dr.backward_to(x)
            assert dr.grad(x).numpy().tolist() == [2.0] * n if n <= 3 else [3.0] * 3 + [1.0] * (n - 3), (n, function)
    assert frozen.n_recordings == 2


def test_launches_have_one_order_whichever_sizes_are_larger() -> None:
    @dr.freeze
    def both(x: Any, weights: Any) -> Any:
        return x * 2, weights * 3, dr.sum(x) * weights

    weights = dr.opaque(Float, 0.5, 8)
    for size in (4, 16, 2, 70_000, 9):
        x = dr.arange(Float, size) + 0.5
        found = both(x, weights)
        for one, other in zip(found, (x * 2, weights * 3, dr.sum(x) * weights), strict=True):
            assert np.allclose(one, other, rtol=1e-5)  # sums of one kernel, and of another one
    assert both.n_recordings == 1
