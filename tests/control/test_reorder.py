"""``dr.reorder_threads``, which has nothing to do on the CPU but to check its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm.ad import Array3f, Array3u, Bool, Float, Int32, TensorXf, TensorXu, UInt32, UInt64

KEY = UInt32(0, 1, 2)


@dataclass
class Pair:
    first: Float
    second: Any


def test_values_are_returned_as_they_are() -> None:
    x = Float(1, 2, 3)
    dr.enable_grad(x)
    value = {"x": x, "more": [Array3f(1, 2, 3), (4, "text")], "pair": Pair(x * 2, None), "t": TensorXf([[1, 2]])}
    found: Any = dr.reorder_threads(KEY, 2, value)
    assert found is not value and found["x"] is not x and type(found["pair"]) is Pair
    assert str(found) == str(value)
    assert found["more"][1] == (4, "text") and found["t"].shape == (1, 2)
    dr.backward(found["x"] + found["pair"].first)
    assert x.grad.numpy().tolist() == [3, 3, 3]
    found["x"] += 1
    assert x.numpy().tolist() == [1, 2, 3]


@pytest.mark.parametrize("bits", [0, 1, 16, np.int32(3)])
def test_numbers_of_bits(bits: Any) -> None:
    assert dr.reorder_threads(key=KEY, num_bits=bits, value=Float(5))[0] == 5


def test_in_symbolic_loops() -> None:
    def body(i: Any, x: Any) -> Any:
        return i + 1, dr.reorder_threads(i & 1, 1, x) * 2

    assert dr.while_loop((UInt32(0), Float(1, 2)), lambda i, x: i < 3, body, mode="symbolic")[1].numpy().tolist() == \
        [8, 16]


@pytest.mark.parametrize("key", [Int32(1), UInt64(1), Float(1), Bool(True), Array3u(1), TensorXu([1, 2]), 3, None,
                                 scalar.Array3u(1)])
def test_errors_of_keys(key: Any) -> None:
    with pytest.raises(TypeError, match=r"drjit.reorder_threads\(\): 'key' must be a flat array of 32-bit unsigned"):
        dr.reorder_threads(key, 2, Float(1))


@pytest.mark.parametrize("value", [3, None, "text", [], (1, 2), scalar.Array3f(1)])
def test_errors_of_values(value: Any) -> None:
    with pytest.raises(RuntimeError, match=r"drjit.reorder_threads\(\): 'value' must be an array or a PyTree with"):
        dr.reorder_threads(KEY, 2, value)


@pytest.mark.parametrize(("bits", "error", "message"), [
    (17, ValueError, "'num_bits' must be at most 16, found 17"), (-1, ValueError, "found -1"),
    (2.0, TypeError, "'num_bits' must be an int, found float"), ("2", TypeError, "'num_bits' must be an int")])
def test_errors_of_numbers_of_bits(bits: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        dr.reorder_threads(KEY, bits, Float(1))
