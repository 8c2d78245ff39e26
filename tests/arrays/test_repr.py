"""String representations."""

from __future__ import annotations

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Array2f, Array3f, Array22f, ArrayXf, Bool, Float, Float16, Float64, Int, UInt64


@pytest.mark.parametrize(("expression", "text"), [
    (lambda: Float(1, 0.5, 0.25), "[1, 0.5, 0.25]"),
    (lambda: dr.sqrt(1 - Float(1, 0.5, 0.25) ** 2), "[0, 0.866025, 0.968246]"),
    (lambda: dr.arange(Int, 10000) ** 2, "[0, 1, 4, .. 9994 skipped .., 99940009, 99960004, 99980001]"),
    (lambda: Float(range(20)), "[" + ", ".join(map(str, range(20))) + "]"),
    (lambda: Float(range(21)), "[0, 1, 2, .. 15 skipped .., 18, 19, 20]"),
    (lambda: Float(1e10, 1e-10, 123456789), "[1e+10, 1e-10, 1.23457e+08]"),
    (lambda: Float(100000, 1000000, 1e-5, 0.0001), "[100000, 1e+06, 1e-05, 0.0001]"),
    (lambda: Float(float("nan"), float("inf"), -float("inf"), -0.0), "[nan, inf, -inf, -0]"),
    (lambda: Float64(1 / 3), "[0.333333]"), (lambda: Float16(1 / 3), "[0.333252]"),
    (lambda: Bool(True, False), "[True, False]"), (lambda: UInt64(2**64 - 1), "[18446744073709551615]"),
    (lambda: Array2f([1, 2, 3], 10), "[[1, 10],\n [2, 10],\n [3, 10]]"),
    (lambda: Array2f([1, 2, 3], [1, 2]), "[ragged array]"),
    (lambda: dr.zeros(Array3f, 25),
     "[" + ",\n ".join(["[0, 0, 0]"] * 3 + [".. 19 skipped .."] + ["[0, 0, 0]"] * 3) + "]"),
    (lambda: ArrayXf(np.arange(60).reshape(30, 2)),
     "[[0, 2, 4, .. 24 skipped .., 54, 56, 58],\n [1, 3, 5, .. 24 skipped .., 55, 57, 59]]"),
    (lambda: dr.zeros(Array22f, 2), "[[[0, 0],\n  [0, 0]],\n [[0, 0],\n  [0, 0]]]"),
    (lambda: Array3f(), "[]"), (lambda: ArrayXf(), "[]"),
])
def test_repr(expression, text: str) -> None:
    assert repr(expression()) == text
    assert str(expression()) == text
