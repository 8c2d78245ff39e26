"""Details that a comparison with the reference, function by function, brought to light."""

from __future__ import annotations

import operator

import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import (
    Array2f,
    Array3f,
    Array4f,
    Array22f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Int,
    Matrix2f,
    Quaternion4f,
    TensorXf,
    UInt,
)

# --- comparisons and selection ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge])
@pytest.mark.parametrize("special", [Complex2f(1, 2), Quaternion4f(1, 2, 3, 4), Matrix2f(1), scalar.Complex2f(1, 2)])
@pytest.mark.parametrize("other", [1, Int(-3), Float(1), Array2f(1, 2), scalar.Array2f(1, 2)])
def test_there_is_no_order_among_specials_on_either_side(compare, special, other) -> None:
    for a, b in ((special, other), (other, special), (special, special)):
        with pytest.raises(RuntimeError, match=r"there is no order among|incompatible"):
            compare(a, b)
    with pytest.raises(TypeError, match="there is no order"):
        compare(special, 1j)
    with pytest.raises(TypeError, match=r"there is no order|unsupported operand"):
        compare(Float(1), 1j) if special._special == "complex" else compare(special, 1)


def test_specials_are_compared_with_numbers() -> None:
    assert repr(Matrix2f(1, 2, 3, 4) == 1) == repr(Matrix2f(1, 2, 3, 4) == Matrix2f(1))
    assert repr(Float(1) == Complex2f(1, 0)) == "[[True, True]]"
    assert dr.allclose(Complex2f(1, 2), Complex2f(1, 2.0000001))
    assert dr.allclose(Matrix2f(2), 2)


@pytest.mark.parametrize(("function", "args", "result"), [
    (dr.maximum, (True, False), 1), (dr.minimum, (True, True), 1), (dr.minimum, (1, 2.0), 1.0),
    (dr.maximum, (3, 2.5), 3.0), (dr.maximum, (3, 2), 3), (dr.fmin, (1, 2.5), 1.0), (dr.fmax, (True, 2), 2),
    (dr.clip, (5.5, 2, 3), 3.0), (dr.clip, (5, 2, 3), 3), (dr.clip, (1, 2.0, 3), 2.0),
])
def test_python_numbers_are_promoted(function, args, result) -> None:
    found = function(*args)
    assert found == result
    assert type(found) is type(result)


def test_large_integers_need_no_conversion() -> None:
    assert dr.maximum(10**400, 1) == 10**400


@pytest.mark.parametrize("value", [Int(5, 6), Float(5, 6), Array3f(1, 2, 3), TensorXf([[1, 2]]), Matrix2f(1, 2, 3, 4),
                                   Complex2f(1, 2), scalar.Array3f(1, 2, 3)])
def test_a_bool_masks_numbers_like_a_mask(value) -> None:
    assert repr(value & True) == repr(value)
    assert type(value & False) is type(value)
    assert repr(value & False) == repr(value * 0)
    copy = type(value)(value)
    copy &= False
    assert repr(copy) == repr(value * 0)


def test_bools_combine_with_masks() -> None:
    assert repr(Bool(True, False) & True) == "[True, False]"
    assert repr(Int(5) & 1) == "[1]"


def test_select_between_nothing_and_nothing() -> None:
    assert dr.select(Bool(True, False), None, None) is None
    assert dr.select(Bool(True, False), [None, Float(1)], [None, Float(2)])[0] is None


# --- vectors and matrices --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b", "text"), [
    (Float(0.5), Quaternion4f(1, 2, 3, 4), "[5]"), (Complex2f(1, 2), Int(-3), "[-9]"),
    (Matrix2f(1, 2, 3, 4), UInt(6), "[[24, 36]]"), (Matrix2f(1, 2, 3, 4), Matrix2f(1, 2, 3, 4), "[[10, 20]]"),
    (Quaternion4f(1, 2, 3, 4), Array4f(1, 2, 3, 4), "[30]"), (scalar.Complex2f(1, 2), scalar.Complex2f(3, 4), "11.0"),
])
def test_dot_multiplies_components(a, b, text: str) -> None:
    assert repr(dr.dot(a, b)) == repr(dr.dot(b, a)) == text
    assert repr(dr.abs_dot(a, b)) == text.replace("-", "")


def test_unit_angle_needs_vectors() -> None:
    with pytest.raises(RuntimeError, match=r"drjit.unit_angle\(\): 'a' must be a Dr.Jit array or a sequence"):
        dr.unit_angle(2, 2)


@pytest.mark.parametrize(("value", "text"), [
    (2, "0.5"), (Float(4), "[0.25]"), (Complex2f(0, 2), "[-0.5j]"),
    (Matrix2f(1, 2, 3, 4), "[[[-2, 1],\n  [1.5, -0.5]]]"), (scalar.Complex2f(2, 0), "0.5"),
])
def test_inverse_of_numbers(value, text: str) -> None:
    assert repr(dr.inverse(value)).replace("-0j", "").replace("+0j", "") == text


# --- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", [
    (Array3f, TensorXf), (TensorXf, scalar.ArrayXf), (Matrix2f, Array2f), (Array2f, Matrix2f, Int),
    (Complex2f, ArrayXf), (Complex2f, Array3f),
])
def test_expr_t_refuses_what_arithmetic_refuses(types) -> None:
    with pytest.raises(TypeError, match="incompatible types"):
        dr.expr_t(*types)


@pytest.mark.parametrize(("types", "result"), [
    ((Complex2f, Array2f), Complex2f), ((Array4f, Quaternion4f), Quaternion4f), ((TensorXf, Float), TensorXf),
    ((Matrix2f, Array22f, Int), Matrix2f),
])
def test_expr_t_of_specials(types, result) -> None:
    assert dr.expr_t(*types) is result


def test_arguments_that_have_names() -> None:
    assert dr.shape(arg=[1, 2]) == (2,)
    assert dr.is_array_v(arg=Float)
    assert dr.value_t(arg=Array3f) is Float


def test_enumerations_print_as_they_are_written() -> None:
    assert str(dr.JitFlag.Debug) == repr(dr.JitFlag.Debug) == f"{dr.JitFlag.Debug}" == "JitFlag.Debug"
    assert dr.JitFlag.Debug == 1
    assert repr(dr.VarType.Float32) == "VarType.Float32"
    assert [entry.name for entry in dr.KernelRecordingMode] == ["Inactive", "Recorded", "Replayed"]


# --- slicing and text ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "indices", "expected"), [
    ((10, 1), (slice(0, 10, 2), 0), ((5,), [0, 2, 4, 6, 8])),
    ((3, 4), (scalar.ArrayXu(2, 0), None, slice(1, 3)), ((2, 1, 2), [9, 10, 1, 2])),
    ((3, 4), (UInt(2, 0), 1), ((2,), [9, 1])), ((3, 4), (slice(0, 0), ...), ((0, 4), [])),
])
def test_slice_index_of_scalar_arrays(shape, indices, expected) -> None:
    for dtype in (scalar.ArrayXu, UInt):
        if dtype is UInt and any(isinstance(index, scalar.ArrayXu) for index in indices):
            continue
        found, index = dr.slice_index(dtype=dtype, shape=shape, indices=indices)
        assert type(index) is dtype
        assert (found, list(index)) == expected


def test_small_limits_of_text() -> None:
    assert dr.format(Float(1, 2, 3), limit=2) == "[1, 2, 3]"
    assert dr.format(Float(1, 2, 3, 4, 5, 6), limit=0) == "[1, 2, 3, 4, 5, 6]"
    assert dr.format(Float(range(8)), limit=2) == "[0, 1, 2, .. 2 skipped .., 5, 6, 7]"
    assert dr.format(Array3f(1, 2, 3), limit=1) == "[[1, 2, 3]]"
    assert dr.format(TensorXf([[1, 2, 3]]), limit=1) == "[[1, 2, 3]]"
