"""Functions of arrays without elements."""

from __future__ import annotations

import numpy as np
import pytest

import drjit as dr
import drjit_core as core
from drjit.llvm import (
    Array3b,
    Array3f,
    Array3i,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    Int64,
    TensorXb,
    TensorXf,
    TensorXi,
    UInt64,
)

EMPTY = [lambda: Float(), lambda: TensorXf(np.ones((0, 3), np.float32)), lambda: Array3f(np.ones((3, 0), np.float32))]
FUNCTIONS = ["sin", "cos", "tan", "cot", "exp", "exp2", "erf", "erfc", "erfinv", "sinh", "cosh", "tanh", "rcp",
             "rsqrt", "log", "log2", "cbrt", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sign", "lgamma",
             "safe_sqrt", "safe_asin", "safe_acos", "deg2rad", "rad2deg", "sqrt", "abs", "floor", "isinf", "isfinite",
             "isnan"]
#: The rows of the compiler's table that are public functions.
FUNCTIONS_OF_ROWS = sorted(core.FUNCTIONS)


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


def empty(dtype, size=0):
    """An array, a nested array or a tensor with so many elements (of a row)."""
    leaf = dr.leaf_t(dtype)
    number = bool if dr.is_mask_v(leaf) else np.int32 if dr.is_integral_v(leaf) else np.float32
    if dr.is_tensor_v(dtype):
        return dtype(np.ones((3, size), number))
    return dtype(np.ones((3, size) if dr.depth_v(dtype) > 1 else size, number))


KINDS = {"flat": {"f": Float, "i": Int, "b": Bool}, "half": {"f": Float16, "i": UInt64},
         "double": {"f": Float64, "i": Int64}, "nested": {"f": Array3f, "i": Array3i, "b": Array3b},
         "tensor": {"f": TensorXf, "i": TensorXi, "b": TensorXb}}


@pytest.mark.parametrize("name", FUNCTIONS_OF_ROWS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_function_of_the_table_makes_nothing_of_nothing(name, kind):
    """All expanded and composed rows, and those with a text, on each type class that they accept."""
    row = core.FUNCTIONS[name]
    for letter in {"i" if c in "iu" else c for c in row.accepts if name != "select"} or {"f"}:
        if letter not in KINDS[kind]:
            continue
        dtype = KINDS[kind][letter]
        args = [empty(dtype) for _ in range(row.arity)]
        if name == "select":
            args[0] = empty(dr.mask_t(dtype))
        results = getattr(dr, name)(*args)
        for result in results if row.result == "pair" else [results]:
            assert type(result) is (dr.mask_t(dtype) if row.result == "mask" else dtype)
            assert result.shape == args[0].shape and result.shape[-1] == 0
            assert result.numpy().size == 0


@pytest.mark.parametrize("name", [name for name in FUNCTIONS_OF_ROWS if core.FUNCTIONS[name].arity > 1])
def test_an_empty_array_does_not_go_with_one_of_an_element(name):
    """Beside arrays and tensors with elements: what arithmetic says of them, whichever operand is the empty one."""
    row = core.FUNCTIONS[name]
    dtype = Float if "f" in row.accepts else Int
    for position in range(row.arity):
        for size in (1, 2):
            args = [empty(dtype, 0 if k == position else size) for k in range(row.arity)]
            if name == "select":
                args[0] = empty(Bool, args[0].shape[0])
            with pytest.raises(RuntimeError, match=rf"drjit\.{name}\(.*incompatible sizes"):
                getattr(dr, name)(*args)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS_OF_ROWS if core.FUNCTIONS[name].arity > 1
                                  and "f" in core.FUNCTIONS[name].accepts and name != "select"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_tensors_without_elements_broadcast_with_one_row(name, shape):
    arity = core.FUNCTIONS[name].arity
    nothing, row = TensorXf(np.ones(shape, np.float32)), TensorXf(np.ones((1,) * len(shape), np.float32))
    for position in range(arity):
        result = getattr(dr, name)(*(nothing if k == position else row for k in range(arity)))
        assert type(result) is TensorXf and result.shape == shape


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -3, 1000, -1000])
@pytest.mark.parametrize("make", EMPTY, ids=["flat", "tensor", "nested"])
def test_integer_powers_of_nothing(make, exponent):
    array = make()
    assert dr.power(array, exponent).shape == (array ** exponent).shape == array.shape


@pytest.mark.parametrize("name", ["deg2rad", "rad2deg"])
@pytest.mark.parametrize("dtype", [Int, UInt64, Array3i, TensorXi])
def test_angles_of_integers_become_floats(name, dtype):
    array = empty(dtype)
    result = getattr(dr, name)(array)
    assert result.shape == array.shape and dr.is_float_v(result)
