"""What NumPy's users and tools do: numbers, formats, lists, requests for copies, masked arrays, plots."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

import drjit as dr
import drjit.llvm as llvm
import drjit.scalar as scalar
from drjit.llvm import (
    Array2f,
    Array3f,
    ArrayXi,
    Bool,
    Complex2f,
    Float,
    Float16,
    Int,
    Matrix2f,
    Matrix4f,
    TensorXb,
    TensorXf,
    TensorXi,
    UInt,
    UInt64,
)
from tests.interop.harness import from_dlpack

ONE = [Float(2.75), dr.opaque(Float, 2.75), TensorXf(2.75), TensorXf([[2.75]]), Float16(2.75), llvm.Array1f(2.75),
       scalar.Array1f(2.75), Float(1.75) + 1, dr.sum(Float(1, 1.75))]


@pytest.mark.parametrize("array", ONE, ids=[type(x)._name + str(k) for k, x in enumerate(ONE)])
def test_one_element_is_a_number(array):
    assert (float(array), int(array), complex(array)) == (2.75, 2, 2.75 + 0j)
    assert (f"{array:.3f}", f"{array:>8.1e}", math.floor(array)) == ("2.750", " 2.8e+00", 2)
    with pytest.raises(TypeError, match=r"__index__\(\): only integer arrays"):
        operator.index(array)


@pytest.mark.parametrize("cls", [Int, UInt, UInt64, llvm.Int8, TensorXi, llvm.Array1i, scalar.Array1u])
def test_one_integer_counts(cls):
    array = cls(3)
    assert list(range(array)) == [0, 1, 2] and "abcd"[array] == "d" and [1] * int(array) == [1, 1, 1]
    assert (f"{array:04d}", float(array), hex(array)) == ("0003", 3.0, "0x3")


def test_masks_are_numbers_but_no_indices():
    assert (int(Bool(True)), float(Bool(False)), bool(Bool(True))) == (1, 0.0, True)
    with pytest.raises(TypeError, match=r"Bool\.__index__\(\): only integer arrays"):
        range(Bool(True))


@pytest.mark.parametrize("array", [
    Float(1, 2), Float(), Array2f(1, 2), Matrix2f(1), TensorXf([1, 2]), scalar.Array2f(1, 2), ArrayXi([1], [2])])
def test_several_elements_are_no_number(array):
    for convert in (float, int, lambda x: f"{x:.1f}", *([complex] if array._special != "complex" else [])):
        with pytest.raises(TypeError, match=r"requires an array with exactly 1 element"):
            convert(array)
    assert f"{array}" == f"{array:}" == str(array)


def test_complex_numbers():
    assert complex(Complex2f(1, -2)) == complex(scalar.Complex2f(1, -2)) == 1 - 2j
    assert f"{Complex2f(1, 2):.1f}" == "1.0+2.0j"
    for convert in (Complex2f.numpy, np.array, Complex2f.tolist, repr):
        array = Complex2f(dr.arange(Float, 4) * 2.5, dr.arange(Float, 4) + 1.5)
        with dr.profile_enable():
            convert(array)
        assert len(dr.kernel_history()) == 1
    for array in (Complex2f([1, 2], 3), llvm.Complex2f64(1, [2, 3]), Complex2f(), scalar.Complex2f(1, 2)):
        exchanged = from_dlpack(array)
        assert exchanged.dtype == array.numpy().dtype and exchanged.tolist() == array.tolist()
    with pytest.raises(TypeError, match=r"Complex2f\.__float__"):
        float(Complex2f(1, 2))
    with pytest.raises(TypeError, match=r"Complex2f\.__complex__"):
        complex(Complex2f([1, 2], 3))


@pytest.mark.parametrize("array", [
    Float(1, 2, 3), Float(2), Float(), Bool(True, False), Int(1, -2), Float16(0.5, 1), Array3f([1, 2], 3, 4),
    Array3f(1, 2, 3), ArrayXi([1, 2], [3, 4]), ArrayXi(), Matrix2f(1, 2, 3, 4), llvm.Array22f(5),
    llvm.Matrix43f(2), TensorXf(np.arange(24).reshape(2, 3, 4)), TensorXf(3), TensorXf(Float(), (2, 0, 3)),
    TensorXb([True, False]), scalar.Array3f(1, 2, 3), scalar.Matrix2f(3), scalar.ArrayXi([]), Complex2f([1, 2], 3),
], ids=lambda array: type(array)._name + str(array.shape))
def test_lists(array):
    expected = array.numpy().tolist()
    assert array.tolist() == expected and repr(array.tolist()) == repr(expected)


# --- requests for copies ---------------------------------------------------------------------------------------------


def test_copies_as_requested():
    x = dr.opaque(Float, 1, 3)
    for view in (np.asarray(x), np.asarray(x, copy=False), np.asarray(x, dtype=np.float32, copy=False), x.numpy(),
                 np.asarray(TensorXf(x, (1, 3)), copy=False), np.asarray(x, copy=None)):
        assert not view.flags.owndata
    view = np.asarray(x, copy=False)
    for independent in (np.array(x), np.asarray(x, copy=True), np.asarray(x, dtype=np.float64), np.array(x, copy=True)):
        view[0] = 5
        assert independent[0] == 1
        view[0] = 1


@pytest.mark.parametrize("array", [
    Array3f(1, 2, 3), Array3f([1, 2], 3, 4), Matrix2f(1), scalar.Array3f(1, 2, 3), ArrayXi([1, 2])])
def test_nested_arrays_need_a_copy(array):
    with pytest.raises(ValueError, match=r"without a copy, which copy=False rules out"):
        np.asarray(array, copy=False)
    for copy in (None, True):
        assert np.array_equal(np.asarray(array, copy=copy), array.numpy())


def test_conversions_need_a_copy():
    with pytest.raises(ValueError, match=r"Float\.__array__\(\): cannot convert elements of type float32"):
        np.asarray(Float(1, 2), dtype=np.float64, copy=False)
    assert np.asarray(Array2f(1, 2), dtype=int).tolist() == [[1], [2]]


# --- one kernel for one conversion -----------------------------------------------------------------------------------

CONVERSIONS = {
    "numpy": lambda x: x.numpy(), "np.array": np.array, "np.asarray": np.asarray, "DLPack": from_dlpack,
    "memview": lambda x: x.memview(), "tolist": lambda x: x.tolist(), "repr": repr, "str": str, "format": dr.format,
    "np.float64": lambda x: np.asarray(x, dtype=np.float64), "f-string": lambda x: f"{x}",
}


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
@pytest.mark.parametrize("make", [
    lambda *x: Matrix4f(*x[:16]), lambda *x: Array3f(*x[:3]), lambda *x: llvm.ArrayXf(*x[:5]), lambda *x: Float(x[0]),
    lambda *x: llvm.Quaternion4f(*x[:4]), lambda *x: llvm.Array22f([x[:2], x[2:4]]), lambda *x: TensorXf(x[0], (5, 8)),
    lambda *x: Float16(x[0]), lambda *x: Array2f(*x[:2]) > 50,
], ids=["Matrix4f", "Array3f", "ArrayXf", "Float", "Quaternion4f", "Array22f", "TensorXf", "Float16", "Array2b"])
def test_one_kernel(make, convert):
    array = make(*[dr.arange(Float, 40) * (k + 2.5) for k in range(16)])
    with dr.profile_enable():
        convert(array)
    (kernel,) = dr.kernel_history()
    assert kernel["size"] == 40
    with dr.profile_enable():
        convert(array)
    assert not dr.kernel_history()


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
def test_constants_in_symbolic_loops(convert):
    constants = [Float(2.5), dr.full(Float, 2.5, 3), TensorXf(2.5), Array3f(1, 2.5, 3), Array2f([1, 2], 3)]

    def body(i):
        for array in constants:
            convert(array)
        return (i + 1,)

    expected = [array.tolist() for array in constants]
    (i,) = dr.while_loop((Int(0, 1),), lambda i: i < 2, body)
    assert [array.tolist() for array in constants] == expected and i.tolist() == [2, 2]


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
def test_constants_of_nested_arrays_need_no_kernel(convert):
    with dr.profile_enable():
        convert(Matrix4f(3))
    assert not dr.kernel_history()


def test_components_of_one_element_are_repeated():
    array = Array3f([1, 2, 3], dr.opaque(Float, 5), -0.0)
    expected = [[1, 2, 3], [5, 5, 5], [-0.0, -0.0, -0.0]]
    assert repr(array.numpy().tolist()) == repr(np.array(expected, dtype=np.float32).tolist())
    assert array.memview().tolist() == from_dlpack(array).tolist() == array.tolist() == expected
    assert array.y.shape == (1,)


# --- masked arrays ---------------------------------------------------------------------------------------------------

MASKED = np.ma.array([1.0, 2.0], mask=[False, True])


def test_masked_arrays_of_ours():
    for array in (Float(1, 2), Array2f([1, 2], 3), TensorXf([[1, 2]]), Int(3, 4)):
        masked = np.ma.array(array)
        assert not np.ma.is_masked(masked) and masked.tolist() == array.tolist()
    assert np.ma.array(Float(1, 2), mask=[True, False]).tolist() == [None, 2]
    assert np.ma.masked_where(Float(1, 2).numpy() > 1, Float(1, 2)).tolist() == [1, None]


@pytest.mark.parametrize("make", [
    lambda: Float(MASKED), lambda: TensorXf(MASKED), lambda: Array2f(MASKED), lambda: Array2f(MASKED[None].T),
    lambda: scalar.Array2f(MASKED), lambda: Float(1, 2) + MASKED, lambda: MASKED * Float(1, 2),
    lambda: TensorXf([1, 2]) + MASKED, lambda: Bool(np.ma.array([True, False], mask=[True, False]))])
def test_masked_entries_are_refused(make):
    with pytest.raises(TypeError, match=r"masked entries \(1 of [12]\).*value\.filled\(0\).*value\.compressed\(\)"):
        make()


def test_the_masked_constant_is_refused():
    for make in (Float, TensorXf, lambda value: Float([1, value]), lambda value: Float(1, 2) + value):
        with pytest.raises(TypeError):
            make(np.ma.masked)


def test_masked_arrays_without_masked_entries():
    complete = np.ma.array([1.0, 2.0])
    assert Float(complete).tolist() == [1, 2] and TensorXf(complete).tolist() == [1, 2]
    assert (Float(1, 2) + complete).tolist() == [2, 4] and Float(MASKED.filled(0)).tolist() == [1, 0]


# --- hashes and plots ------------------------------------------------------------------------------------------------


def test_arrays_are_keys_by_identity():
    x, y = Float(1, 2), Float(1, 2)
    table = {x: "x", y: "y", Array3f(1): "v"}
    assert (table[x], table[y], len(table)) == ("x", "y", 3) and len({x, x, y}) == 2


PLOTS = {
    "plot": lambda axes, x, y, image: axes.plot(x, y)[0].get_xydata()[:, 1],
    "scatter": lambda axes, x, y, image: axes.scatter(x, y, c=y, s=y * 10).get_offsets()[:, 1],
    "bar": lambda axes, x, y, image: [bar.get_height() for bar in axes.bar(x, y)],
    "hist": lambda axes, x, y, image: y.numpy() if axes.hist(y)[0].sum() == len(y) else None,
    "imshow": lambda axes, x, y, image: axes.imshow(image).get_array()[0],
}


@pytest.mark.parametrize("draw", PLOTS.values(), ids=PLOTS)
def test_matplotlib(draw):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    x = dr.linspace(Float, 0, 1, 10)
    y = x * x
    image = TensorXf(dr.concat([y, x]), (2, 10))
    assert np.allclose(draw(figure.subplots(), x, y, image), y)
    figure.canvas.draw()
