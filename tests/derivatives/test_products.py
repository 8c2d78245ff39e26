"""Second derivatives of products whose factors are zero: one zero, two, all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import drjit as dr
from drjit.llvm.ad import Float64, TensorXf64

Array = NDArray[np.float64]
MUL = dr.ReduceOp.Mul
WEIGHTS = (.3, -1.2, .7, 2., .9, .4)
FACTORS = ([0, 0, 3, 1.5, -2, .5], [0] * 6, [1, 2, 0, .5, 0, 3], [1, 2, 3, .5, -1, 2], [0, 0, 0, 1, 2, 3],
           [1, 0, 3, 1.5, -2, .5])


def running(x: Array, exclusive: bool, reverse: bool) -> Array:
    found = np.cumprod(x[::-1] if reverse else x)
    if exclusive:
        found = np.concatenate([[1], found[:-1]])
    return found[::-1] if reverse else found


def weighted(function: Callable[[Any], Any], reference: Callable[[Array], Array]) -> tuple[Any, Any]:
    def ours(x: Any) -> Any:
        y = function(x)
        return dr.sum(y * Float64(WEIGHTS[:len(y)]))

    def theirs(x: Array) -> Any:
        y = reference(x)
        return np.dot(WEIGHTS[:len(y)], y)

    return ours, theirs


FUNCTIONS = {
    "all": weighted(dr.prod, lambda x: np.prod(x, keepdims=True)),
    "blocks": weighted(lambda x: dr.block_reduce(MUL, x, 3), lambda x: np.prod(x.reshape(2, 3), axis=1)),
    "columns": weighted(lambda x: dr.prod(TensorXf64(x, (3, 2)), axis=0).array,
                        lambda x: np.prod(x.reshape(3, 2), axis=0)),
    "running columns": weighted(lambda x: dr.prefix_reduce(MUL, TensorXf64(x, (3, 2)), axis=0, exclusive=False).array,
                                lambda x: np.cumprod(x.reshape(3, 2), axis=0).ravel()),
} | {
    f"running, exclusive={exclusive}, reverse={reverse}": weighted(
        lambda x, e=exclusive, r=reverse: dr.prefix_reduce(MUL, x, exclusive=e, reverse=r),
        lambda x, e=exclusive, r=reverse: running(x, e, r))
    for exclusive in (False, True) for reverse in (False, True)
}


@pytest.mark.parametrize("factors", FACTORS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_beside_zeros(name: str, factors: list[float]) -> None:
    ours, theirs = FUNCTIONS[name]
    step = 1e-3 * np.eye(6)
    x = np.array(factors, np.float64)
    for i in range(6):
        direction = Float64(step[i] * 1e3)
        _, found = dr.hvp(ours, Float64(factors), direction)
        expected = [(theirs(x + step[i] + e) - theirs(x + step[i] - e) - theirs(x - step[i] + e)
                     + theirs(x - step[i] - e)) / 4e-6 for e in step]
        assert np.allclose(found.numpy(), expected, atol=1e-7)


@pytest.mark.parametrize(("shape", "axis"), [((1001, 3), 0), ((3, 1001), 1), ((20_011, 2), 0)])
def test_second_derivatives_of_long_products(shape: tuple[int, int], axis: int) -> None:
    """Which are reduced in parts, of which the last one is shorter."""
    factors = np.random.default_rng(1).choice([-1.25, -0.8, 0.8, 1.25], shape)
    first, second = ((5, 0), (9, 0)) if axis == 0 else ((0, 5), (0, 9))
    factors[first] = factors[second] = 0
    direction = np.zeros(shape)
    direction[first] = 1
    found = dr.hvp(lambda x: dr.sum(dr.prod(x, axis=axis).array), TensorXf64(factors), TensorXf64(direction))[-1]
    expected = np.zeros(shape)
    factors[first] = factors[second] = 1
    expected[second] = np.prod(factors, axis=axis)[0]
    assert np.allclose(found.numpy(), expected, rtol=1e-10, atol=1e-300)
