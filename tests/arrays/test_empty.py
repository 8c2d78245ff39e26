"""Functions of arrays without elements."""

from __future__ import annotations

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Array3f, Float, TensorXf

EMPTY = [lambda: Float(), lambda: TensorXf(np.ones((0, 3), np.float32)), lambda: Array3f(np.ones((3, 0), np.float32))]
FUNCTIONS = ["sin", "cos", "tan", "cot", "exp", "exp2", "erf", "erfc", "erfinv", "sinh", "cosh", "tanh", "rcp",
             "rsqrt", "log", "log2", "cbrt", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sign", "lgamma",
             "safe_sqrt", "safe_asin", "safe_acos", "deg2rad", "rad2deg", "sqrt", "abs", "floor", "isinf", "isfinite",
             "isnan"]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("make", EMPTY, ids=["flat", "tensor", "nested"])
def test_elementwise_functions_of_one_argument(name, make):
    array = make()
    result = getattr(dr, name)(array)
    assert result.shape == array.shape
    assert type(result) is (dr.mask_t(array) if name.startswith("is") else type(array))


@pytest.mark.parametrize("name", ["sincos", "sincosh"])
@pytest.mark.parametrize("make", EMPTY, ids=["flat", "tensor", "nested"])
def test_functions_with_two_results(name, make):
    array = make()
    for result in getattr(dr, name)(array):
        assert result.shape == array.shape and type(result) is type(array)
