"""Operators: types of results, values, promotion, in-place forms."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import (
    Array2f,
    Array2i,
    Array3b,
    Array3f,
    Array3i,
    Array22f,
    ArrayXf,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    Int8,
    Int64,
    UInt,
    UInt64,
)

INTEGERS = [7, -7, 6, -1, 0, 2147483647]
FLOATS = [1.5, -2.25, 0.0, 3.0, 1e10, -0.5]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "eq", "ne"])
def test_arithmetic_and_comparisons_of_floats_agree_with_numpy(name: str) -> None:
    function = getattr(operator, name)
    a, b = FLOATS, FLOATS[::-1]
    with np.errstate(all="ignore"):
        expected = function(np.array(a, dtype=np.float32), np.array(b, dtype=np.float32))
    np.testing.assert_array_equal(function(Float(a), Float(b)).numpy(), expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "and_", "or_", "xor", "lt", "eq", "ne"])
def test_integer_operations_agree_with_numpy(name: str) -> None:
    function = getattr(operator, name)
    a, b = INTEGERS, INTEGERS[::-1]
    with np.errstate(all="ignore"):
        expected = function(np.array(a, dtype=np.int32), np.array(b, dtype=np.int32))
    np.testing.assert_array_equal(function(Int(a), Int(b)).numpy(), expected)


RESULTS = [
    (lambda: Int(7, -7) // 2, "[3, -3]", Int),  # integer division truncates
    (lambda: Int(7, -7) % 2, "[1, -1]", Int),
    (lambda: Int(7, -7) // Int(-2), "[-3, 3]", Int),
    (lambda: 7 // Int(2, -2), "[3, -3]", Int),
    (lambda: Int(1) << 2, "[4]", Int),
    (lambda: Int(-8) >> 1, "[-4]", Int),
    (lambda: UInt(8) >> 1, "[4]", UInt),
    (lambda: ~Int(1), "[-2]", Int),
    (lambda: ~Bool(True), "[False]", Bool),
    (lambda: -Float(1, 2), "[-1, -2]", Float),
    (lambda: +Float(1), "[1]", Float),
    (lambda: abs(Int(-3)), "[3]", Int), (lambda: abs(UInt(3)), "[3]", UInt),
    (lambda: Float(2, 3) ** 2, "[4, 9]", Float),
    (lambda: Int(2) ** 3, "[8]", Int),
    (lambda: Int(2) ** 40, "[0]", Int),
    (lambda: Int(0) ** 0, "[1]", Int),
    (lambda: Float(2, 4) ** -1, "[0.5, 0.25]", Float),
    (lambda: pow(Float(2), 3), "[8]", Float),
    (lambda: 1 - Float(1), "[0]", Float),
    (lambda: 2 / Float(4), "[0.5]", Float),
    (lambda: Float(1, 2) + [1, 2], "[2, 4]", Float),
    (lambda: [1, 2] + Float(1, 2), "[2, 4]", Float),
    (lambda: Int(1, 2) + [1.5, 2], "[2.5, 4]", Float),
    (lambda: Float(1, 2) * np.float32(2), "[2, 4]", Float),
    (lambda: np.float32(2) * Float(1, 2), "[2, 4]", Float),
    (lambda: np.array([1, 2], dtype=np.float32) * Float(1, 2), "[1, 4]", Float),
    (lambda: Float(1, 2) * np.array([1, 2], dtype=np.float64), "[1, 4]", Float64),
    (lambda: Float(1) + 2**40, "[1.09951e+12]", Float),
    (lambda: Int(1, 2) + -2**31, "[-2147483647, -2147483646]", Int),
    (lambda: Float(1, 2) & Bool(True, False), "[1, 0]", Float),
    (lambda: Int(1, 2) & Bool(True, False), "[1, 0]", Int),
    (lambda: 3 & Bool(True, False), "[3, 0]", Int),
    (lambda: 2.5 & Bool(True, False), "[2.5, 0]", Float),
    (lambda: Bool(True, False) & 3, "[1, 0]", Int),
    (lambda: Bool(True, False) & True, "[True, False]", Bool),
    (lambda: True & Bool(True), "[True]", Bool),
    (lambda: Bool(True, False) | Int(2), "[3, 2]", Int),
    (lambda: Bool(True) ^ Bool(True), "[False]", Bool),
    (lambda: Bool(True) == Bool(False), "[False]", Bool),
    (lambda: Int(1) == 1.5, "[False]", Bool),
    (lambda: Array3f(1, 2, 3) + Float(1, 2), "[[2, 3, 4],\n [3, 4, 5]]", Array3f),
    (lambda: Float(1, 2) - Array3f(1, 2, 3), "[[0, -1, -2],\n [1, 0, -1]]", Array3f),
    (lambda: Array3f(1, 2, 3) * Array3i(1, 2, 3), "[[1, 4, 9]]", Array3f),
    (lambda: Array3f(1, 2, 3) + [1, 2, 3], "[[2, 4, 6]]", Array3f),
    (lambda: Array3f(1, 2, 3) < 2, "[[True, False, False]]", Array3b),
    (lambda: Array3f(1, 2, 3) == Array3f(1, 5, 3), "[[True, False, True]]", Array3b),
    (lambda: 1 / Array3f(1, 2, 4), "[[1, 0.5, 0.25]]", Array3f),
    (lambda: Array3i(7, 8, 9) // 2, "[[3, 4, 4]]", Array3i),
    (lambda: Array3f(1, 2, 3) ** 2, "[[1, 4, 9]]", Array3f),
    (lambda: Array3f(1, 2, 3) & Bool(True, False), "[[1, 2, 3],\n [0, 0, 0]]", Array3f),
    (lambda: Array3f(1, 2, 3) & Array3b(True, False, True), "[[1, 0, 3]]", Array3f),
    (lambda: Array3f(1, 2, 3) @ Array3f(1, 2, 3), "[14]", Float),
    (lambda: Array3f(1, 2, 3) @ 2, "[[2, 4, 6]]", Array3f),
    (lambda: ArrayXf([1, 2], [3, 4]) + ArrayXf([7, 8]), "[[8, 11],\n [9, 12]]", ArrayXf),
    (lambda: ArrayXf([1, 2], [3, 4]) + Array2f(1, 2), "[[2, 5],\n [3, 6]]", ArrayXf),
    (lambda: Array2f(1, 2) + ArrayXf([1, 2], [3, 4]), "[[2, 5],\n [3, 6]]", ArrayXf),
    (lambda: Array22f(1) + Array2f(1, 2), "[[[2, 3],\n  [2, 3]]]", Array22f),
    (lambda: Array22f(1) + Float(1, 2), "[[[2, 2],\n  [2, 2]],\n [[3, 3],\n  [3, 3]]]", Array22f),
]


@pytest.mark.parametrize(("expression", "text", "kind"), RESULTS)
def test_result_of_operator(expression, text: str, kind: type) -> None:
    result = expression()
    assert type(result) is kind
    assert repr(result) == text


PROMOTIONS = [
    (Int, UInt, UInt), (Int64, UInt, Int64), (UInt64, Int64, UInt64), (Int64, Float, Float), (Int, Float16, Float16),
    (UInt64, Float16, Float16), (Float16, Float, Float), (Float, Float64, Float64), (Bool, Int, Int),
    (Bool, Float, Float),
    (Array3f, Float64, None), (Array3i, Float, Array3f), (Array2i, Array2f, Array2f),
]


@pytest.mark.parametrize(("left", "right", "expected"), PROMOTIONS)
def test_promotion_is_symmetric(left: type, right: type, expected: type | None) -> None:
    a, b = left(1), right(1)
    assert type(a + b) is type(b + a)
    if expected is not None:
        assert type(a + b) is expected


@pytest.mark.parametrize(("kind", "scalar", "expected"), [
    (Int, True, Int), (Int, 1, Int), (Int, 1.5, Float), (Int64, 1.5, Float), (Int8, 1, Int8), (Bool, 1, Int),
    (Bool, 1.0, Float), (Float16, 1, Float16), (Float16, 1.5, Float16), (Float64, 1.5, Float64), (UInt, 3.5, Float),
])
def test_python_numbers_are_weak(kind: type, scalar: object, expected: type) -> None:
    assert type(kind(True) + scalar) is expected


def test_in_place_operators_keep_the_object_where_the_type_does_not_change() -> None:
    a = Float(1, 2, 3)
    b = a
    a += 1
    assert a is b
    assert list(b) == [2, 3, 4]
    c = d = Array3f(1, 2, 3)
    c *= 2
    assert c is d
    assert repr(d) == "[[2, 4, 6]]"


def test_in_place_operators_make_a_new_array_where_the_type_changes() -> None:
    a = b = Int(1, 2, 3)
    a += 1.5
    assert type(a) is Float
    assert list(a) == [2.5, 3.5, 4.5]
    assert list(b) == [1, 2, 3]
    c = e = Float(1)
    c += Array3f(1)
    assert type(c) is Array3f
    assert list(e) == [1]


@pytest.mark.parametrize(("symbol", "start", "operand", "expected"), [
    ("+=", 5, 2, 7), ("-=", 5, 2, 3), ("*=", 5, 2, 10), ("//=", 5, 2, 2), ("%=", 5, 2, 1), ("<<=", 5, 1, 10),
    (">>=", 5, 1, 2), ("&=", 5, 4, 4), ("|=", 5, 2, 7), ("^=", 5, 1, 4), ("**=", 5, 2, 25),
])
def test_each_in_place_operator(symbol: str, start: int, operand: int, expected: int) -> None:
    scope = {"a": Int(start, start), "b": operand}
    before = scope["a"]
    exec(f"a {symbol} b", scope)
    assert scope["a"] is before
    assert list(before) == [expected, expected]


def test_failed_in_place_operator_changes_nothing() -> None:
    a = Float(1, 2)
    with pytest.raises(RuntimeError, match=r"drjit\.llvm\.Float\.__add__.*incompatible sizes! \(sizes: 2, 3\)"):
        a += Float(1, 2, 3)
    assert list(a) == [1, 2]


def test_arrays_are_hashable_by_identity() -> None:
    a, b = Float(1), Float(1)
    assert len({a: 1, b: 2}) == 2


def test_masks_of_one_element_are_truth_values() -> None:
    assert bool(Bool(True)) is True
    assert not dr.all(Float(1, 2) > 1)


# --- found by random programs ----------------------------------------------------------------------------------------


def test_magnitudes_of_unsigned_numbers() -> None:
    assert repr(abs(llvm.UInt(3, 7))) == "[3, 7]" and repr(abs(llvm.Array2u(3, 7))) == "[[3, 7]]"


def test_signs_of_unsigned_numbers() -> None:
    assert repr(dr.mulsign(llvm.UInt(2), llvm.Int(5, -1))) == "[2, 4294967294]"
    assert repr(dr.mulsign(llvm.UInt(2), llvm.UInt(5, 1))) == "[2, 2]"
    assert repr(dr.mulsign(llvm.UInt8(2), 1000)) == "[2]" and repr(dr.mulsign(llvm.Int8(2), -1000)) == "[-2]"
    assert repr(dr.copysign(llvm.UInt(2), llvm.UInt(5, 1))) == "[2, 2]"


def test_a_dynamic_size_goes_with_a_static_one_of_one() -> None:
    result = llvm.Array1f(2) * llvm.ArrayXf16([1, 2, 3])
    assert type(result) is llvm.ArrayXf and repr(result) == "[[2, 4, 6]]"
    assert repr(llvm.ArrayXf([1]) + llvm.Array2f(1, 2)) == "[[2, 3]]"
    for left, right in ((llvm.Array1f(1), llvm.Array3f(1)), (llvm.ArrayXf([1, 2]), llvm.Array3f(1))):
        with pytest.raises(TypeError, match="incompatible"):
            left + right


def test_inner_products_of_dynamic_arrays_broadcast() -> None:
    long = llvm.ArrayXi([llvm.Int(4, -2), 100])
    assert repr(dr.dot(llvm.ArrayXi([-2]), long)) == repr(dr.dot(long, llvm.ArrayXi([-2]))) == "[-208, -196]"
    assert repr(dr.dot(llvm.ArrayXf([1, 2]), llvm.ArrayXi([3, 4]))) == "[11]"
    assert repr(dr.dot(llvm.Array0f(), llvm.Array0f())) == "[0]"


def test_a_real_minus_a_complex_number_subtracts_from_zero() -> None:
    result = 1 - llvm.Complex2f(llvm.Float(3, 4), llvm.Float(0, -0.0))
    assert math.copysign(1, result.imag[0]) == 1 and math.copysign(1, result.imag[1]) == 1
    result = 1 - llvm.Quaternion4f(llvm.Float(0), llvm.Float(1), llvm.Float(2), llvm.Float(3))
    assert repr(result) == "[-1j-2k-2]" and math.copysign(1, result.x[0]) == 1


@pytest.mark.parametrize(("value", "expected"), [
    (lambda: dr.select(False, llvm.Float(1, 2, 3), 0.0), "[0, 0, 0]"),
    (lambda: dr.select(True, llvm.Float(1), llvm.Float(1, 2, 3)), "[1, 1, 1]"),
    (lambda: dr.select(True, llvm.Array2f(1), llvm.Float(1, 2)), "[[1, 1],\n [1, 1]]"),
    (lambda: dr.select(False, llvm.Complex2f(llvm.Float(1, 2), 3), 5), "[5,\n 5]"),
])
def test_selection_by_a_bool_has_the_width_of_both_choices(value: Callable[[], Any], expected: str) -> None:
    assert repr(value()) == expected


def test_selection_by_a_bool_checks_the_widths() -> None:
    with pytest.raises(RuntimeError, match=r"drjit\.select"):
        dr.select(True, llvm.Float(1, 2), llvm.Float(1, 2, 3))


@pytest.mark.parametrize("assign", [
    lambda x: x.__setitem__(x > 1, 1.5), lambda x: x.__setitem__(slice(None), 1.5), lambda x: x.__setitem__(0, 1.5),
    lambda x: x.__setitem__(x > 1, type(x + 0.5)(1.5)),
])
@pytest.mark.parametrize("make", [lambda: llvm.Int(1, 2), lambda: llvm.Array2i(1, 2), lambda: llvm.Array2u64(1, 2),
                                  lambda: llvm.TensorXi([1, 2], shape=(2,))])
def test_floating_point_numbers_are_not_assigned_to_integers(make: Callable[[], Any],
                                                             assign: Callable[[Any], Any]) -> None:
    array = make()
    before = repr(array)
    with pytest.raises(TypeError, match=r"of type '(float|drjit)"):
        assign(array)
    assert repr(array) == before
    if dr.depth_v(array) > 1:
        with pytest.raises(TypeError, match=r"\.x\(\): cannot assign"):
            array.x = 1.5


@pytest.mark.parametrize(("kind", "value"), [
    ("Array444f16", lambda: llvm.Array22f16(1)), ("Matrix43f", lambda: llvm.Array44f(1)),
    ("Array44f", lambda: llvm.Array41f(1)), ("Array0f", lambda: llvm.Float(10)), ("Array444f", lambda: llvm.Array1f(2)),
])
def test_nested_arrays_do_not_convert_to_shapes_that_do_not_fit(kind: str, value: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=rf"drjit\.llvm\.{kind}"):
        getattr(llvm, kind)(value())


@pytest.mark.parametrize(("value", "expected"), [
    (lambda: llvm.Array3f(1)[0:0], llvm.Array0f), (lambda: llvm.Matrix3f(1)[0:3], llvm.Matrix3f),
    (lambda: llvm.Quaternion4f(1)[:4], llvm.Quaternion4f), (lambda: llvm.Matrix3f(1)[::-1], llvm.Matrix3f),
    (lambda: llvm.Array3f(1)[::-1], llvm.Array3f),
    (lambda: llvm.ArrayXf([1, 2])[0:0], llvm.ArrayXf),
])
def test_types_of_slices(value: Callable[[], Any], expected: type) -> None:
    assert type(value()) is expected


@pytest.mark.parametrize("package", [scalar, llvm], ids=["scalar", "llvm"])
@pytest.mark.parametrize("name", ["Array3i", "Array22i", "Array443i64", "Array4u"])
@pytest.mark.parametrize("value", [1.5, -0.0])
def test_components_of_integers_take_no_floats(package, name, value):
    array = getattr(package, name)(7)
    before = repr(array)
    for assign in (lambda: setattr(array, "x", value), lambda: array.__setitem__(0, value)):
        with pytest.raises(RuntimeError, match=rf"{package.__name__}\.{name}.*cannot assign a value of type 'float'"):
            assign()
    assert repr(array) == before
