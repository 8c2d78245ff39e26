"""Products of matrices in memory and vectors, on every backend, plain and in regions, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drjit_core import Node, cast, cond, counter, literal, ops, products, while_loop
from drjit_core.ir.verify import VerificationError, verify
from drjit_core.types import COMPUTES_IN
from tests.core.harness import UINT32, array, values

DTYPES = [np.float16, np.float32, np.float64]
RNG = np.random.default_rng(4)


def numbers(*shape: int) -> Any:
    """Numbers of which all sums are exact."""
    return RNG.integers(-8, 9, shape) / 4


def vector(dtype: Any, columns: int, width: int, type_: int) -> tuple[list[Node], Any]:
    found = numbers(columns, width)
    return [cast(array(row.astype(dtype)), type_) for row in found], found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (8, 2), (17, 4), (33, 9), (40, 3)])
@pytest.mark.parametrize("width", [1, 5, 1000])
def test_products(backend: str, dtype: Any, rows: int, columns: int, width: int) -> None:
    weights = numbers(rows * columns + 3)
    source = array(weights.astype(dtype))
    x, known = vector(dtype, columns, width, COMPUTES_IN[source.type])
    matrix = weights[3:].reshape(rows, columns)
    turned = weights[3:].reshape(columns, rows).T
    for found, expected in ((products(source, x, rows, 3, columns, 1), matrix @ known),
                            (products(source, x, rows, 3, 1, rows), turned @ known),
                            (products(source, x, rows, 3 + (rows - 1) * columns, -columns, 1), matrix[::-1] @ known)):
        verify(found)
        assert np.array_equal([values(node) for node in found], expected)
        assert np.array_equal(values(found[-1]), expected[-1])


def test_some_rows_are_wanted(backend: str) -> None:
    weights = numbers(24).astype(np.float32)
    x, known = vector(np.float32, 3, 100, 14)
    found = products(array(weights), x, 8, 0, 3, 1)
    total = ops.add(ops.mul(found[6], found[1]), found[3])
    expected = weights.reshape(8, 3) @ known
    assert np.array_equal(values(total), expected[6] * expected[1] + expected[3])


def test_components_of_one_element_and_of_many(backend: str) -> None:
    weights = numbers(6).astype(np.float32)
    x = [array(np.arange(50, dtype=np.float32)), array(np.float32([2])), literal(14, 3.0)]
    expected = weights.reshape(2, 3) @ np.stack([np.arange(50), np.full(50, 2), np.full(50, 3)])
    assert np.array_equal([values(node) for node in products(array(weights), x, 2, 0, 3, 1)], expected)


def test_products_in_loops_and_branches(backend: str) -> None:
    weights = numbers(4).astype(np.float32)
    source, x = array(weights), [array(np.arange(-8, 8, dtype=np.float32)), literal(14, 1.0, 16)]
    matrix, known = weights.reshape(2, 2), np.stack([np.arange(-8, 8), np.ones(16)]).astype(np.float32)

    def body(state: Any) -> Any:
        return [ops.add(state[0], literal(UINT32, 1)), *products(source, state[1:], 2, 0, 2, 1)]

    limit = ops.mod(counter(16), literal(UINT32, 4))
    found = while_loop([literal(UINT32, 0, 16), *x], lambda state: ops.lt(state[0], limit), body)
    expected = known.copy()
    for lane in range(16):
        for _ in range(lane % 4):
            expected[:, lane] = matrix @ expected[:, lane]
    assert np.allclose([values(node) for node in found[1:]], expected)
    chosen, _ = cond(ops.lt(limit, literal(UINT32, 2)), x, lambda x: products(source, x, 2, 0, 2, 1), lambda x: x)
    expected = np.where(np.arange(16) % 4 < 2, matrix @ known, known)
    assert np.array_equal([values(node) for node in chosen], expected)


def test_what_reads_beyond_the_matrix_is_refused() -> None:
    found = products(array(numbers(4).astype(np.float32)), [literal(14, 1.0), literal(14, 1.0)], 3, 0, 2, 1)
    with pytest.raises(VerificationError, match="beyond"):
        verify(found)
