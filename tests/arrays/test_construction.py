"""Constructors and conversions."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import (
    Array0f,
    Array2f,
    Array3f,
    Array3i,
    Array22f,
    ArrayXf,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    UInt,
    UInt8,
    UInt64,
    ad,
)

FLAT = ["Bool", "Int8", "UInt8", "Int16", "UInt16", "Int", "UInt", "Int64", "UInt64", "Float16", "Float", "Float64"]
SUFFIXES = ["b", "i8", "u8", "i16", "u16", "i", "u", "i64", "u64", "f16", "f", "f64"]


def test_all_types_exist_under_the_names_of_the_reference() -> None:
    for name in FLAT:
        assert getattr(llvm, name).__name__ == name
    for digits in "01234X":
        for suffix in SUFFIXES:
            cls = getattr(llvm, f"Array{digits}{suffix}")
            assert (cls.__name__, cls.__module__) == (f"Array{digits}{suffix}", "drjit.llvm")
    assert llvm.Float32 is Float
    assert llvm.Int32 is Int
    assert llvm.UInt32 is UInt
    assert set(llvm.__all__) <= set(dir(llvm))


def test_metadata_strings() -> None:
    assert Array3f.__meta__ == ("ArrayMeta[\n  type=float32,\n  backend=llvm,\n  is_jit=1,\n  is_vector=1,\n"
                                "  shape=(3, *)\n]")
    assert Int.__meta__ == "ArrayMeta[\n  type=int32,\n  backend=llvm,\n  is_jit=1,\n  shape=(*)\n]"


@pytest.mark.parametrize(("expression", "text"), [
    (lambda: Float(), "[]"),
    (lambda: Float([]), "[]"),
    (lambda: Float(1), "[1]"),
    (lambda: Float(1, 2, 3), "[1, 2, 3]"),
    (lambda: Float((1, 2)), "[1, 2]"),
    (lambda: Float(range(4)), "[0, 1, 2, 3]"),
    (lambda: Float(x for x in range(3)), "[0, 1, 2]"),
    (lambda: Float(True, False), "[1, 0]"),
    (lambda: Float(Int(1, 2)), "[1, 2]"),
    (lambda: Float(Bool(True, False)), "[1, 0]"),
    (lambda: Bool(Float(0, 1, 2)), "[False, True, True]"),
    (lambda: Bool(0.5), "[True]"),
    (lambda: Int(1.5), "[1]"),
    (lambda: UInt(3.7), "[3]"),
    (lambda: UInt64(2**64 - 1), "[18446744073709551615]"),
    (lambda: Float16(1e6), "[inf]"),
    (lambda: Float16(1, 1e6), "[1, inf]"),
    (lambda: Float(Float64(1e300)), "[inf]"),
    (lambda: Float(np.float32(3)), "[3]"),
    (lambda: Int(np.int32(1), np.int64(2)), "[1, 2]"),
    (lambda: Float(np.array([1, 2, 3])), "[1, 2, 3]"),
    (lambda: Float(np.arange(6)[::2]), "[0, 2, 4]"),
    (lambda: Float(np.array(3.0)), "[3]"),
    (lambda: Float(np.array([])), "[]"),
    (lambda: Bool(np.array([True, False])), "[True, False]"),
    (lambda: Float(array.array("f", [1, 2])), "[1, 2]"),
    (lambda: Float(array.array("d", [1, 2])), "[1, 2]"),
    (lambda: UInt8(b"ab"), "[97, 98]"),
    (lambda: Int(Float(1.5, -1.5, float("nan"), float("inf"), 1e20)),
     "[1, -1, -2147483648, -2147483648, -2147483648]"),
    (lambda: Array3f(), "[]"),
    (lambda: Array0f(), "[]"),
    (lambda: Array3f(1), "[[1, 1, 1]]"),
    (lambda: Array3f(1, 2, 3), "[[1, 2, 3]]"),
    (lambda: Array3f([1, 2], 3, 4), "[[1, 3, 4],\n [2, 3, 4]]"),
    (lambda: Array3f(Float(1, 2)), "[[1, 1, 1],\n [2, 2, 2]]"),
    (lambda: Array3f(Array3i(1, 2, 3)), "[[1, 2, 3]]"),
    (lambda: Array2f([[1, 2], [3, 4]]), "[[1, 3],\n [2, 4]]"),
    (lambda: ArrayXf(1, 2, 3), "[[1, 2, 3]]"),
    (lambda: ArrayXf(Array2f(1, 2)), "[[1, 2]]"),
    (lambda: ArrayXf(Float(1, 2)), "[[1],\n [2]]"),
    (lambda: Array3f(np.array([1, 2, 3])), "[[1, 2, 3]]"),
    (lambda: Array3f(np.ones((3, 2))), "[[1, 1, 1],\n [1, 1, 1]]"),
    (lambda: Array22f([1, 2], [3, 4]), "[[[1, 2],\n  [3, 4]]]"),
    (lambda: Array22f(Array2f(1, 2)), "[[[1, 2],\n  [1, 2]]]"),
    (lambda: Array22f(np.arange(8).reshape(2, 2, 2)), "[[[0, 2],\n  [4, 6]],\n [[1, 3],\n  [5, 7]]]"),
])
def test_constructor(expression, text: str) -> None:
    assert repr(expression()) == text


@pytest.mark.parametrize(("expression", "state"), [
    (lambda: Float(), dr.VarState.Invalid), (lambda: Float(1), dr.VarState.Literal),
    (lambda: Float([1]), dr.VarState.Literal), (lambda: Float(1, 1), dr.VarState.Evaluated),
    (lambda: Float(1, 2) + 1, dr.VarState.Unevaluated), (lambda: dr.empty(Float, 3), dr.VarState.Undefined),
    (lambda: Array3f(1, [2, 3], 3), dr.VarState.Mixed), (lambda: Array3f(1), dr.VarState.Literal),
])
def test_state(expression, state: dr.VarState) -> None:
    assert expression().state is state


def test_a_copy_is_independent() -> None:
    a = Float(1, 2, 3)
    b = Float(a)
    assert a.index == b.index
    b[0] = 9
    assert list(a) == [1, 2, 3]
    v = Array3f(1, 2, 3)
    w = Array3f(v)
    w.x += 1
    assert repr(v) == "[[1, 2, 3]]"


def test_numpy_input_is_copied() -> None:
    source = np.array([1, 2, 3], dtype=np.float32)
    a = Float(source)
    source[0] = 9
    assert list(a) == [1, 2, 3]


@pytest.mark.parametrize(("expression", "message"), [
    (lambda: Int([1.5]), r"drjit\.llvm\.Int\.__init__\(\).*element 0.*'float'"),
    (lambda: Int(2**31), r"drjit\.llvm\.Int\.__init__\(\).*2147483648"),
    (lambda: Int(1, 2**31), r"drjit\.llvm\.Int\.__init__\(\).*2147483648"),
    (lambda: UInt(-1), r"drjit\.llvm\.UInt\.__init__\(\).*-1"),
    (lambda: Int(float("nan")), r"drjit\.llvm\.Int\.__init__\(\).*nan"),
    (lambda: Float(10**400), r"drjit\.llvm\.Float\.__init__\(\).*out of range"),
    (lambda: Float("a"), r"drjit\.llvm\.Float\.__init__\(\).*'str'"),
    (lambda: Float(None), "'NoneType'"),
    (lambda: Float(1, 2, "a"), "element 2 .*'str'"),
    (lambda: Float([[1, 2]]), "'list'"),
    (lambda: Float([Float(1), Float(2)]), r"'drjit\.llvm\.Float'"),
    (lambda: Float(Array3f(1, 2, 3)), r"drjit\.llvm\.Array3f"),
    (lambda: Float(np.ones((1, 3))), "ndim=1"),
    (lambda: Float(np.array(["a"])), "dtype=float32"),
    (lambda: Float(b"abc"), "'bytes'"),
    (lambda: Float(1, dtype=3), "unknown keyword argument 'dtype'"),
    (lambda: Bool([1, 0]), "expected bool"),
    (lambda: Array3f(1, 2), r"Array3f\.__init__\(\).*expected 3 elements, got 2"),
    (lambda: Array3f(Array2f(1, 2)), "expected 3 elements, got 2"),
    (lambda: Array3f(1, 2, "a"), "component 2 .*'str'"),
    (lambda: Array3f(np.ones((2, 3))), r"shape=\(3, \*\)"),
    (lambda: Array0f(1), "expected 0 elements, got 1"),
    (lambda: dr.ArrayBase(), "cannot be instantiated"),
])
def test_constructor_refuses(expression, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        expression()


# --- from arrays of fewer dimensions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("package", [llvm, ad, scalar], ids=["llvm", "ad", "scalar"])
def test_special_arrays_are_made_of_dynamic_arrays_as_of_lists(package: Any) -> None:
    def entries(count: int, kind: str = "ArrayXf") -> Any:
        return getattr(package, kind)(list(range(1, count + 1)))

    for kind in ("ArrayXf", "ArrayXi", "ArrayXf64"):
        assert np.array_equal(np.array(package.Complex2f(entries(2, kind))).reshape(-1), [1 + 2j])
        assert np.array_equal(np.array(package.Quaternion4f(entries(4, kind))).reshape(-1), [1, 2, 3, 4])
        assert np.array_equal(np.array(package.Matrix2f(entries(4, kind))).reshape(-1), [1, 2, 3, 4])
        assert np.array_equal(np.array(package.Matrix2f(entries(2, kind))).reshape(-1), [1, 1, 2, 2])
        assert np.array_equal(np.array(package.Matrix3f(entries(9, kind))).reshape(-1), range(1, 10))
        assert np.array_equal(np.array(package.Array22f(entries(2, kind))).reshape(-1), [1, 1, 2, 2])
    for cls, count in ((package.Complex2f, 3), (package.Quaternion4f, 2), (package.Matrix3f, 4), (package.Array22f, 4)):
        with pytest.raises(TypeError, match=f"{cls.__name__}.__init__.*wrong size.*got {count}"):
            cls(entries(count))


def test_matrices_of_static_arrays() -> None:
    values = llvm.Array4f([1, 5], 2, 3, 4)
    assert np.array_equal(llvm.Matrix2f(values).numpy()[..., 1], [[5, 2], [3, 4]])
    assert np.array_equal(llvm.Matrix4f(scalar.Array4f(1, 2, 3, 4)).numpy()[0, ..., 0], [1, 1, 1, 1])
    for refused in (values, llvm.Quaternion4f(1)):  # rows, columns, or a diagonal?
        with pytest.raises(TypeError, match=r"cannot convert .* to drjit\.llvm\.Matrix4f"):
            llvm.Matrix4f(refused)


def test_arrays_of_numbers_are_entries_along_the_first_axis_in_constructors_and_operators() -> None:
    for entries in (scalar.Array2f(1, 2), [1, 2]):
        assert np.array_equal(llvm.Array22f(entries).numpy()[..., 0], [[1, 1], [2, 2]])
        assert np.array_equal((llvm.Array22f(10) + entries).numpy()[..., 0], [[11, 11], [12, 12]])
    assert np.array_equal(llvm.Array22f(llvm.Complex2f(1, 2)).numpy()[..., 0], [[1, 1], [2, 2]])
    for rows in (llvm.Array2f(1, 2), llvm.Array2i(1, 2)):
        assert np.array_equal(llvm.Array22f(rows).numpy()[..., 0], [[1, 2], [1, 2]])
        assert np.array_equal((llvm.Array22f(10) + rows).numpy()[..., 0], [[11, 12], [11, 12]])
    assert np.array_equal(scalar.Array22f(scalar.Array2f(1, 2)).numpy(), [[1, 2], [1, 2]])


def test_special_arrays_are_made_of_tensors_by_rows() -> None:
    data = np.arange(12.0)
    assert np.array_equal(llvm.Quaternion4f(llvm.TensorXf(data.reshape(4, 3))).numpy(), data.reshape(4, 3))
    assert np.array_equal(ad.Matrix2f(llvm.TensorXf64(data.reshape(2, 2, 3))).numpy(), data.reshape(2, 2, 3))
    assert np.array_equal(scalar.Matrix2f(scalar.TensorXf([1, 2, 3, 4], (2, 2))).numpy(), [[1, 2], [3, 4]])
    assert scalar.Complex2f(scalar.TensorXf([1, 2], (2,))).imag == 2
    with pytest.raises(TypeError, match="either axis may be the one of real and imaginary parts"):
        llvm.Complex2f(llvm.TensorXf([[1, 2], [3, 4]]))


def test_gradients_of_special_arrays_that_are_made_of_other_arrays() -> None:
    for source, cls in ((ad.ArrayXf([[1, 2], [3, 4]]), ad.Complex2f), (ad.ArrayXf([[1], [2], [3], [4]]), ad.Matrix2f),
                        (ad.TensorXf(np.arange(8.0).reshape(4, 2)), ad.Quaternion4f)):
        dr.enable_grad(source)
        dr.backward(dr.sum(dr.square(cls(source).array), axis=None))
        assert np.array_equal(np.array(source.grad), 2 * np.array(source))


def test_real_numpy_arrays_are_real_parts_of_complex_numbers() -> None:
    assert np.array_equal(llvm.Complex2f(np.array([1.0, 2.0])).numpy(), [1, 2])
    assert np.array_equal(ad.Complex2f64(np.array([3])).numpy(), [3])
    assert len(llvm.Complex2f(np.array([])).real) == 0


def test_axes_that_do_not_fit_are_told_as_they_were_given() -> None:
    for rows in (np.zeros((4, 2)), llvm.TensorXf(np.zeros((4, 2)))):
        with pytest.raises(TypeError, match=r"with flip_axes=True, the argument must have the shape \(\*, 3\), found "
                                            r"\(4, 2\)"):
            llvm.Array3f(rows, flip_axes=True)
    data = np.arange(18.0).reshape(2, 3, 3)
    assert np.array_equal(llvm.Array33f(llvm.TensorXf(data), flip_axes=True).numpy(), data.T)
    assert np.array_equal(llvm.Matrix3f(llvm.TensorXf(data), flip_axes=True).numpy(), data.T)
