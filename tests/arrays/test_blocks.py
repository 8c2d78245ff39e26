"""Reductions of blocks, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import Array2f, Bool, Complex2f, Float, Float16, Float64, Int, TensorXf, UInt, UInt64

OPERATIONS: dict[dr.ReduceOp, Any] = {
    dr.ReduceOp.Add: np.add, dr.ReduceOp.Mul: np.multiply, dr.ReduceOp.Min: np.minimum, dr.ReduceOp.Max: np.maximum}


@pytest.mark.parametrize("mode", (None, "evaluated", "symbolic"))
@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", (Float, Float64, Int, UInt64), ids=lambda dtype: dtype.__name__)
def test_blocks_of_every_length(dtype: type, op: dr.ReduceOp, mode: str | None) -> None:
    for count, length in ((1, 7), (5, 1), (2, 2), (3, 16), (70, 3), (9, 100), (1000, 64)):
        values = np.random.default_rng(count).integers(1, 5, count * length).astype(dtype(0).numpy().dtype)
        if op is dr.ReduceOp.Mul:
            values = np.where(np.arange(values.size) % 11 < 2, values, 1).astype(values.dtype)
        expected = OPERATIONS[op].reduce(values.reshape(count, length), axis=1, dtype=values.dtype)
        for array in (dtype(values), dtype(values) + 0 * dr.arange(dtype, values.size)):
            np.testing.assert_array_equal(dr.block_reduce(op, array, length, mode).numpy(), expected)


def test_blocks_of_masks_halves_and_numbers() -> None:
    mask = Bool([True, True, False, True, False, False])
    assert dr.block_reduce(dr.ReduceOp.And, mask, 2).numpy().tolist() == [True, False, False]
    assert dr.block_reduce(dr.ReduceOp.Or, mask, 3).numpy().tolist() == [True, True]
    assert float(dr.block_sum(dr.full(Float16, 0.1, 20000), 10000)[1]) == pytest.approx(1000, rel=1e-3)
    assert list(dr.block_sum(scalar.ArrayXf(1, 2, 3, 4), 2)) == [3, 7]
    assert list(dr.block_reduce(dr.ReduceOp.Or, UInt(1, 2, 4, 8), 2)) == [3, 12]


def test_blocks_of_components_and_trees() -> None:
    x = Float(1, 2, 3, 4)
    assert dr.all(dr.block_sum(Array2f(x, 2), 2) == Array2f(Float(3, 7), 2), axis=None)
    assert dr.all(dr.block_sum(Complex2f(x, x), 4) == Complex2f(10, 10), axis=None)
    found = dr.block_sum({"a": [x, 5], "b": (x * 2,)}, 2)
    assert found["a"][1] == 5 and list(found["a"][0]) == [3, 7] and list(found["b"][0]) == [6, 14]
    assert dr.width(dr.block_sum(Float(), 3)) == 0
    assert list(dr.block_sum(dr.ones(Float, 6), 3)) == [3, 3]
    assert list(dr.block_sum(Float(2), 3)) == [2]


def test_a_block_reduction_is_part_of_the_kernel_that_computes_its_input() -> None:
    x = dr.opaque(Float, 2, 300)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        y = x * x
        sums = dr.block_sum(y, 100)
        dr.eval(sums, y)
        assert len(dr.kernel_history()) == 1
    assert list(sums) == [400, 400, 400]


def test_blocks_in_a_loop() -> None:
    x = dr.opaque(Float, 1, 8)

    def body(i: UInt, total: Float) -> tuple[UInt, Float]:
        return i + 1, total + dr.block_sum(x, 2)

    _, total = dr.while_loop((UInt(0), dr.zeros(Float, 4)), lambda i, total: i < 3, body)
    assert list(total) == [6, 6, 6, 6]


def test_what_has_no_blocks() -> None:
    x = Float(1, 2, 3)
    with pytest.raises(RuntimeError, match=r"block_sum\(\): drjit.llvm.Float has 3 elements, which is no multiple .*2"):
        dr.block_sum(x, 2)
    with pytest.raises(ValueError, match=r"'block_size' must be an int >= 1, found 0"):
        dr.block_sum(x, 0)
    with pytest.raises(TypeError, match=r"'block_size'"):
        dr.block_sum(x, 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tensor"):
        dr.block_sum(TensorXf([1, 2]), 2)
    with pytest.raises(TypeError, match="not defined"):
        dr.block_sum(Bool(True, False), 2)
    with pytest.raises(TypeError, match="no operation"):
        dr.block_reduce(dr.ReduceOp.Identity, x, 3)
    with pytest.raises(TypeError, match="'mode'"):
        dr.block_sum(x, 3, mode="other")  # type: ignore[arg-type]
