"""Products of matrices in memory and vectors, plain and in regions, and sums of products of two vectors, on every
backend against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drjit_core import (
    Node,
    add_outer_sums,
    cast,
    cond,
    counter,
    literal,
    ops,
    outer_sums,
    products,
    record,
    reduce,
    while_loop,
)
from drjit_core.flags import state
from drjit_core.ir.products import row_of_product
from drjit_core.ir.verify import VerificationError, verify
from drjit_core.runtime.cpu.launches import block_size
from drjit_core.runtime.recording import Recorded
from drjit_core.types import BOOL, COMPUTES_IN, FLOAT32, FLOAT64, ReduceOp
from tests.core.harness import UINT32, array, assert_same_bits, values

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
    arguments: Any = array(numbers(4).astype(np.float32)), [literal(14, 1.0), literal(14, 1.0)], 3, 0, 2, 1
    with pytest.raises(IndexError, match=r"3 rows and 2 columns, at places 0 to 5, .* an array of size 4"):
        products(*arguments)
    found = [row_of_product(arguments[0], *arguments[1], attr=2, payload=(0, 2, 1))]
    with pytest.raises(VerificationError, match="beyond"):
        verify(found)


# --- sums of products of two vectors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (8, 16), (1, 40), (40, 1), (26, 33), (7, 65)])
@pytest.mark.parametrize("width", [1, 5, 1000])
def test_sums_of_products(backend: str, type_: int, rows: int, columns: int, width: int) -> None:
    dtype = np.float32 if type_ == FLOAT32 else np.float64
    (left, x), (right, y) = (vector(dtype, count, width, type_) for count in (rows, columns))
    found = outer_sums(left, right)
    verify([found])
    assert found.size == rows * columns
    assert np.array_equal(values(found).reshape(rows, columns), x @ y.T)


@pytest.mark.parametrize("width", [2, 100, 70_000])
def test_what_is_the_same_in_all_elements_counts_for_each(backend: str, width: int) -> None:
    x, three = array(np.arange(width, dtype=np.float64)), literal(FLOAT64, 3.0)
    total = width * (width - 1) / 2
    assert np.array_equal(values(outer_sums([x, three], [three])), [3 * total, 9 * width])
    wide = literal(FLOAT64, 2.0, width)
    assert np.array_equal(values(outer_sums([wide], [three, wide])), [6 * width, 4 * width])


def test_several_sums_and_reductions_share_a_kernel(backend: str) -> None:
    (left, x), (right, y) = (vector(np.float32, count, 3000, FLOAT32) for count in (9, 4))
    sums = [outer_sums(left, right), outer_sums(right, right), *(reduce(node, ReduceOp.Add.value) for node in left)]
    assert np.array_equal(values(ops.add(sums[1], literal(FLOAT32, 1.0))), (y @ y.T).ravel() + 1)
    assert np.array_equal(values(sums[0]), (x @ y.T).ravel())
    assert np.array_equal([values(node)[0] for node in sums[2:]], x.sum(1))


def test_errors_of_sums_do_not_grow_with_the_elements(backend: str) -> None:
    if backend == "interpreter":
        pytest.skip("takes memory for all products")
    width = 1 << 20
    x = literal(FLOAT32, 0.1, width)
    (found,) = values(outer_sums([x], [ops.add(x, array(np.zeros(width, np.float32)))]))
    expected = np.float64(np.float32(0.1)) ** 2 * width
    assert abs(found / expected - 1) < 1e-6


def test_sums_have_the_same_bits_in_recordings() -> None:
    def both(*nodes: Node) -> list[Node]:
        return [outer_sums(nodes[:2], nodes[2:]), ops.add(nodes[0], nodes[1])]

    def data(width: int) -> list[Node]:
        return [array(RNG.normal(size=width).astype(np.float32)) for _ in range(5)]

    recorded = Recorded(both)
    for width in (6, 1000, 50_000, 6):  # 6 elements, and as many sums
        nodes = data(width)
        found, total = recorded(*nodes)
        assert_same_bits(values(found), values(both(*nodes)[0]))
        assert total.size == width
    assert len(recorded.recordings) == 1


def test_recordings_know_which_operand_of_a_product_is_memory() -> None:
    """What it is large enough for is decided once; as many elements as the vectors have, it has by chance."""
    def function(matrix: Node, *x: Node) -> list[Node]:
        (y,) = products(matrix, x, 1, 0, 3, 1)
        return [ops.add(y, cast(counter(state.recording.extent(y)), FLOAT32))]

    def of(matrix: int, width: int) -> tuple[list[Node], Any]:
        weights, x = numbers(matrix).astype(np.float32), numbers(3, width).astype(np.float32)
        return [array(weights), *map(array, x)], weights[:3] @ x + np.arange(width)

    arguments, expected = of(6, 6)
    recording, (found,) = record(function, arguments)
    assert np.array_equal(values(found), expected)
    about = [str(guard.reason) for guard in recording.guards if "argument 0" in str(guard.reason)]
    assert about == ["place 2 of an array: size of argument 0", "width of indices: size of argument 0",
                     "asked for ahead: size of argument 0"]
    for sizes in ((6, 10), (9, 1000)):
        arguments, expected = of(*sizes)
        assert recording.obstacle(arguments) is None
        assert np.array_equal(values(recording.replay(arguments)[0]), expected)


@pytest.mark.parametrize(("offset", "down"), [(0, 2), (4, -2), (1, 2)])
def test_recordings_are_for_memory_that_has_the_whole_matrix(offset: int, down: int) -> None:
    """Who replays them for less would read, or write, beyond its end."""
    def read(matrix: Node, *x: Node) -> list[Node]:
        return products(matrix, x, 3, offset, down, 1)

    def write(memory: Node, *x: Node) -> list[Node]:
        return [add_outer_sums(memory, [*x, x[0]], x, literal(BOOL, True), offset, down, 1)]

    last = max(offset, offset + 2 * down) + 1
    x = numbers(2, 10).astype(np.float32)
    for function in (read, write):
        recording, _ = record(function, [array(np.ones(50, np.float32)), *map(array, x)])
        for size in (last + 1, 20, last, 2):
            weights = numbers(size).astype(np.float32)
            arguments = [array(weights), *map(array, x)]
            if size <= last:
                assert recording.obstacle(arguments) == f"place {last} of an array: size of argument 0"
                with pytest.raises(RuntimeError, match="is not good for these arguments: place"):
                    recording.replay(arguments)
                with pytest.raises(IndexError, match="is not all within its memory, an array of size"):
                    function(*arguments)
                continue
            place = offset + down * np.arange(3)[:, None] + np.arange(2)
            found = [values(each) for each in recording.replay(arguments)]
            if function is read:
                assert np.array_equal(found, weights[place] @ x)
            else:
                weights[place.ravel()] += (x[[0, 1, 0]] @ x.T).ravel()
                assert np.array_equal(found[0], weights)


def test_matrices_make_blocks_large() -> None:
    for words in (2000, 25_000):
        size = block_size(100_000, 1 << 18, 1, words)
        assert size >= words // 32 and (1 << 18) // size <= 64
        assert block_size(100_000, 1 << 18, 1, 100) == 64
