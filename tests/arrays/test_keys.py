"""What stands in brackets: the same keys on flat arrays, nested arrays, tensors and scalar arrays, against NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import (
    Array2f,
    Array3b,
    Array3f,
    Array3i,
    Array4f,
    Array22f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Int,
    Int64,
    Matrix2f,
    Quaternion4f,
    TensorXb,
    TensorXf,
    TensorXi,
    UInt,
)

VALUES = np.array([5, 6, 7, 8], dtype=np.float32)

# --- NumPy's keys on one dimension -----------------------------------------------------------------------------------

KEYS: list[Any] = [
    0, -1, np.int64(2), np.uint8(3), np.array(1), slice(None), slice(1, 3), slice(None, None, -1), slice(3, 0, -2),
    slice(9, 12), ..., (), (2,), (..., 1), (slice(1, 3),), None, (None,), (slice(None), None), (..., None),
    (None, slice(1, 3)), (None, ..., None), (None, 2), [0, 2], [-1, 0, -4], [], range(3), range(3, -1, -1), ([3, 1],),
    np.array([2, 0]), np.array([-1, 3], np.int8), np.array([3], np.uint64), np.array([], int), np.array([[0, 1],
    [2, 3]]),
    [[0, 1], [2, -1]], (None, [3, 1]), (np.array([1, -2]), None),
]


def compare(found: Any, expected: Any) -> None:
    """The result of a key on an array of one dimension: a number, a flat array, or a tensor."""
    if np.ndim(expected) == 0:
        assert isinstance(found, float) and found == expected
        return
    assert type(found) is (Float if expected.ndim == 1 else TensorXf)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("start", [lambda: Float(VALUES), lambda: Float(VALUES) + 0, lambda: Array2f(VALUES, 1).x],
                         ids=["memory", "unevaluated", "component"])
def test_keys_of_flat_arrays_read_as_in_numpy(start: Callable[[], Any], key: Any) -> None:
    compare(start()[key], VALUES[np.array(key, int) if isinstance(key, (list, range)) else key])


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_the_same_keys_on_tensors_and_scalar_arrays(key: Any) -> None:
    expected = VALUES[np.array(key, int) if isinstance(key, (list, range)) else key]
    found = TensorXf(VALUES)[key]
    assert found.shape == np.shape(expected)
    np.testing.assert_array_equal(found.numpy(), expected)
    numbers = scalar.ArrayXf(VALUES)[key] if np.ndim(expected) < 2 or key is None or isinstance(key, tuple) else None
    if numbers is not None:
        np.testing.assert_array_equal(np.array(numbers).reshape(np.shape(expected)), expected)


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("start", [Float, lambda v: Float(v) * 1, lambda v: Array2f(v, 1).x, TensorXf],
                         ids=["memory", "unevaluated", "component", "tensor"])
def test_keys_of_one_dimension_write_as_in_numpy(start: Callable[[Any], Any], key: Any) -> None:
    numpy_key = np.array(key, int) if isinstance(key, (list, range)) else key
    shape = VALUES[numpy_key].shape
    for value in (9, np.arange(100, 100 + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)):
        expected = VALUES.copy()
        expected[numpy_key] = value
        a = start(VALUES)
        other = type(a)(a)
        if value.__class__ is not int and isinstance(a, Float):
            value = float(value) if not shape else Float(value) if len(shape) == 1 else TensorXf(value)
        a[key] = value
        np.testing.assert_array_equal(a.numpy(), expected)
        np.testing.assert_array_equal(other.numpy(), VALUES)


@pytest.mark.parametrize("key", [Int(-1, 0), Int64(-4, 3), UInt(3, 0), TensorXi([-1, 0]), scalar.ArrayXi(-1, 0),
    Int(-2)])
def test_index_arrays_count_from_the_end_if_they_are_signed(key: Any) -> None:
    positions = np.array(key)
    for a in (Float(VALUES), TensorXf(VALUES)):
        np.testing.assert_array_equal(a[key].numpy(), VALUES[positions])
        a[key] = 1
        expected = VALUES.copy()
        expected[positions] = 1
        np.testing.assert_array_equal(a.numpy(), expected)


def test_indices_of_two_dimensions_give_tensors() -> None:
    found = Float(VALUES)[TensorXi([[0, 1], [2, -1]])]
    assert type(found) is TensorXf and found.numpy().tolist() == [[5, 6], [7, 8]]


@pytest.mark.parametrize("backend", [dr.llvm, dr.llvm.ad])
def test_new_axes_keep_package_and_scalar_type(backend: Any) -> None:
    assert type(backend.Int(1, 2)[None]) is backend.TensorXi
    assert type(backend.Float16(1, 2)[:, None]) is backend.TensorXf16
    assert type(scalar.ArrayXf(1, 2)[:, None]) is scalar.TensorXf


# --- masks -----------------------------------------------------------------------------------------------------------

MASKS = [Bool(True, False, True, False), np.array([True, False, True, False]), [True, False, True, False],
         TensorXb([True, False, True, False]), (Bool(True, False, True, False),)]


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: type(mask).__name__)
@pytest.mark.parametrize("start", [lambda: Float(VALUES), lambda: TensorXf(VALUES), lambda: scalar.ArrayXf(VALUES),
                                   lambda: Array2f(VALUES, 0).x], ids=["flat", "tensor", "scalar", "component"])
def test_masks_read_all_and_select_what_is_written(start: Callable[[], Any], mask: Any) -> None:
    if isinstance(start(), scalar.ArrayXf):
        mask = scalar.ArrayXb(True, False, True, False) if isinstance(mask, (Bool, TensorXb, tuple)) else mask
    a = start()
    all_ = a[mask]
    assert type(all_) is type(a) and all_ is not a and np.array(all_).tolist() == [5, 6, 7, 8]
    a[mask] = 1
    assert np.array(a).tolist() == [1, 6, 1, 8]
    a[mask] = type(a)([1, 2, 3, 4])
    assert np.array(a).tolist() == [1, 6, 3, 8]
    a[mask] += 10
    assert np.array(a).tolist() == [11, 6, 13, 8]
    a[mask] *= type(a)([2, 2, 3, 3])
    assert np.array(a).tolist() == [22, 6, 39, 8]
    assert np.array(all_).tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize(("mask", "expected"), [
    (Bool(True, False), [[9, 9, 9], [2, 4, 5]]), (np.array([True, False]), [[9, 9, 9], [2, 4, 5]]),
    ([True, False], [[9, 9, 9], [2, 4, 5]]), (Bool(True), [[9, 9, 9], [9, 9, 9]]),
    (Array3b(True, False, True), [[9, 3, 9], [9, 4, 9]]),
    (np.array([[True], [False], [False]]), [[9, 3, 5], [9, 4, 5]]),
    (Array3b(Bool(True, False), False, True), [[9, 3, 9], [2, 4, 9]]),
    ([[True, False], [False, True], [False, False]], [[9, 3, 5], [2, 9, 5]]),
])
def test_masks_of_nested_arrays(mask: Any, expected: Any) -> None:
    v = Array3f([1, 2], [3, 4], 5)
    assert repr(v[mask]) == repr(v)
    v[mask] = 9
    assert v.numpy().T.tolist() == expected
    w = Array3i([1, 2], [3, 4], 5)
    w[mask] += 1
    before = np.array([[1, 3, 5], [2, 4, 5]])
    assert w.numpy().T.tolist() == (before + (np.array(expected) == 9)).tolist()


@pytest.mark.parametrize(("mask", "expected"), [
    (TensorXf([[1, 2], [3, 4]]) > 2, [[1, 2], [9, 9]]), (Bool(True, False), [[9, 2], [9, 4]]),
    (np.array([[True], [False]]), [[9, 9], [3, 4]]), ([[True, False], [False, True]], [[9, 2], [3, 9]]),
    (Bool(True), [[9, 9], [9, 9]]),
])
def test_masks_of_tensors(mask: Any, expected: Any) -> None:
    t = TensorXf([[1, 2], [3, 4]])
    assert repr(t[mask]) == repr(t)
    t[mask] = 9
    assert t.numpy().tolist() == expected
    t[mask] += 1
    assert t.numpy().tolist() == [[entry + (entry == 9) for entry in row] for row in expected]


def test_a_wide_mask_widens_an_array_of_one_element() -> None:
    a = Float(1)
    a[Bool(True, False, True)] = 9
    assert list(a) == [9, 1, 9]


# --- nested and scalar arrays ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("expression", "text"), [
    (lambda v: v[[0, 2]], "[[1, 5],\n [2, 6]]"), (lambda v: v[np.array([-1, 0])], "[[5, 1],\n [6, 2]]"),
    (lambda v: v[range(1)], "[[1],\n [2]]"), (lambda v: v[:, [1, 0]], "[[2, 4, 6],\n [1, 3, 5]]"),
    (lambda v: v[0, np.array([1])], "[2]"), (lambda v: v[..., 0], "[1, 3, 5]"),
    (lambda v: v[...], "[[1, 3, 5],\n [2, 4, 6]]"),
    (lambda v: v[1, ...], "[3, 4]"), (lambda v: v[[0, 1], 1:], "[[2, 4]]"), (lambda v: v[0, ..., 1], "2.0"),
    (lambda v: v[None], "[[[1, 2],\n  [3, 4],\n  [5, 6]]]"), (lambda v: v[0, :, None], "[[1],\n [2]]"),
    (lambda v: v[:, UInt(1)], "[[2, 4, 6]]"), (lambda v: v[:, -1], "[2, 4, 6]"),
])
def test_keys_of_nested_arrays(expression: Any, text: str) -> None:
    assert repr(expression(Array3f([1, 2], [3, 4], [5, 6]))) == text


def test_lists_of_components_have_the_type_of_their_size() -> None:
    assert type(Array4f(1)[[0, 1]]) is Array2f and type(ArrayXf(1, 2, 3)[[0, 1]]) is ArrayXf
    assert type(scalar.Array4f(1)[[0, 1]]) is scalar.Array2f and type(scalar.ArrayXf(1, 2, 3)[[0, 1]]) is scalar.ArrayXf


@pytest.mark.parametrize(("key", "value", "text"), [
    ([0, 2], 9, "[[9, 3, 9],\n [9, 4, 9]]"), ([2, 0], [7, 8], "[[8, 3, 7],\n [8, 4, 7]]"),
    (np.array([0, 1]), Array2f(7, 8), "[[7, 8, 5],\n [7, 8, 6]]"), ((..., 0), 9, "[[9, 9, 9],\n [2, 4, 6]]"),
    ((slice(None), [1, 0]), 9, "[[9, 9, 9],\n [9, 9, 9]]"), (..., 9, "[[9, 9, 9]]"),
    ((), 9, "[[9, 9, 9]]"), (slice(None), np.array([[1, 2], [3, 4], [5, 7]]), "[[1, 3, 5],\n [2, 4, 7]]"),
    (slice(0, 2), np.array([7, 8]), "[[7, 8, 5],\n [7, 8, 6]]"),
    ((0, slice(None)), Float(7, 8), "[[7, 3, 5],\n [8, 4, 6]]"),
])
def test_writing_to_nested_arrays(key: Any, value: Any, text: str) -> None:
    v = Array3f([1, 2], [3, 4], [5, 6])
    v[key] = value
    assert repr(v) == text


def test_scalar_arrays_take_all_keys() -> None:
    a = scalar.ArrayXf(1, 2, 3)
    a[scalar.ArrayXi(-1, 0)] = 9
    assert repr(a) == "[9, 2, 9]"
    a[[1]] = 5
    a[UInt(0)] = 4
    assert repr(a) == "[4, 5, 9]" and repr(a[UInt(2, 0)]) == "[9, 4]"
    for key in (scalar.ArrayXi(3), [3], UInt(-1 % 2**32)):
        with pytest.raises(IndexError, match="out of bounds"):
            a[key]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "key", "error", "message"), [
    (lambda: Float(1, 2, 3), [3], IndexError, "index 3 is out of bounds for axis 0 with size 3"),
    (lambda: Float(1, 2, 3), np.array([0, -4]), IndexError, "index -4 is out of bounds"),
    (lambda: Float(1, 2, 3), np.array([0, 9]), IndexError, "index 9 is out of bounds"),
    (lambda: Float(1, 2, 3), [0, "a"], TypeError, "'str'"), (lambda: Float(1, 2, 3), [0, 1.5], TypeError, "'float'"),
    (lambda: Float(1, 2, 3), [0, True], TypeError, "'bool'"),
    (lambda: Float(1, 2, 3), np.array([1.5]), TypeError, "float64"),
    (lambda: Float(1, 2, 3), Float(1), TypeError, "Float"),
    (lambda: Float(1, 2, 3), np.array(True), TypeError, "ndarray"),
    (lambda: Float(1, 2, 3), np.bool_(True), TypeError, "bool"),
    (lambda: Float(1, 2, 3), (0, 0), IndexError, "too many"),
    (lambda: Float(1, 2, 3), (..., ...), IndexError, "multiple ellipses"),
    (lambda: Float(1, 2, 3), slice(None, None, 0), ValueError, "step cannot be zero"),
    (lambda: Float(), UInt(0), IndexError, "out of bounds"),
    (lambda: Float(1, 2, 3), np.array([True, False]), RuntimeError, "mask has 2 elements, but the array has 3"),
    (lambda: Float(1, 2, 3), [True] * 4, RuntimeError, "mask has 4 elements, but the array has 3"),
    (lambda: Float(1, 2, 3), np.array([[True, False, True]] * 2), TypeError, "bool|mask|2 dimensions"),
    (lambda: Float(1, 2, 3), (None, Bool(True)), TypeError, "masks must stand alone"),
    (lambda: Array3f([1, 2], 3, 4), UInt(0), TypeError, r"as in 'v\[:, index\]'"),
    (lambda: Array3f([1, 2], 3, 4), Bool(True, False, True), RuntimeError, "mask has 3 elements, but the array has 2"),
    (lambda: Array3f([1, 2], 3, 4), dr.llvm.Array2b(True), TypeError, "Array2b"),
    (lambda: Array3f(1), [[0, 1]], TypeError, "one dimension"),
    (lambda: Array3f(1), [3], IndexError, "index 3"), (lambda: Array3f(1), (0, 0, 0), IndexError, "too many indices"),
    (lambda: Array22f(1), (0, 0, 0, 0), IndexError, "too many indices"),
    (lambda: TensorXf([[1, 2]]), np.array([True, False, True]), RuntimeError, r"mask of the shape \(3,\)"),
    (lambda: scalar.ArrayXf(1, 2), [True] * 3, RuntimeError, "3 components|mask 3"),
    (lambda: scalar.Array3f(1), True, TypeError, "'bool'"),
], ids=lambda value: getattr(value, "__name__", None))
def test_keys_that_are_refused(make: Any, key: Any, error: type[Exception], message: str) -> None:
    array = make()
    before = repr(array)
    if not (isinstance(array, scalar.ArrayXf) and isinstance(key, list)):
        with pytest.raises(error, match=message) as found:
            array[key]
        assert f"{type(array).__name__}." in str(found.value)
    with pytest.raises((error, TypeError)):
        array[key] = 1
    assert repr(array) == before


# --- components that a type lacks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "name", "lacking", "has"), [
    (lambda: Float(1), "x", "x", "elements"), (lambda: TensorXf(1), "w", "w", "elements"),
    (lambda: Array2f(1), "z", "z", "'x' and 'y'"),
    (lambda: Array2f(1), "xz", "z", "'x' and 'y'"), (lambda: Array3f(1), "xyzw", "w", "'x', 'y' and 'z'"),
    (lambda: Array3f(1), "xyzxw", "w", "'x', 'y' and 'z'"), (lambda: Complex2f(1), "x", "x", "'real' and 'imag'"),
    (lambda: Complex2f(1), "xy", "x", "'real' and 'imag'"), (lambda: Matrix2f(1), "y", "y", r"a\[0, 1\]"),
    (lambda: Matrix2f(1), "xx", "x", r"a\[0, 1\]"), (lambda: ArrayXf(1, 2), "x", "x", r"a\[0\]"),
    (lambda: Float(1), "xy", "x", "elements"),
    (lambda: dr.llvm.Array1f(1), "y", "y", "only component is 'x'"),
    (lambda: dr.llvm.Array0f(), "x", "x", "no components"),
    (lambda: scalar.Array2f(1), "z", "z", "'x' and 'y'"), (lambda: scalar.ArrayXf(1), "x", "x", r"a\[0\]"),
])
def test_components_that_a_type_lacks(make: Any, name: str, lacking: str, has: str) -> None:
    array = make()
    message = rf"{type(array).__name__} does not have a '{lacking}' component \(.*{has}.*\)"
    with pytest.raises(AttributeError, match=message) as found:
        getattr(array, name)
    assert isinstance(found.value, RuntimeError)
    assert not hasattr(array, name)
    with pytest.raises(AttributeError):
        setattr(array, name, 1)
    if len(name) == 1:
        with pytest.raises(RuntimeError, match=message):
            setattr(array, name, 1)


def test_components_that_exist() -> None:
    assert hasattr(Array3f(1), "z") and hasattr(Quaternion4f(1), "w") and hasattr(Array3f(1), "zzz")
    assert operator.attrgetter("x.x")(Array22f(1)).shape == (1,)


@pytest.mark.parametrize("key", [slice(0, 1.5), slice("a", None), slice(None, None, 0)], ids=repr)
@pytest.mark.parametrize("make", [lambda: Float(1, 2, 3), lambda: Array3f(1, 2, 3), lambda: TensorXf([1, 2, 3])],
                         ids=["flat", "nested", "tensor"])
def test_invalid_slices_name_the_method(make: Any, key: slice) -> None:
    array = make()
    for method, access in (("__getitem__", lambda: array[key]), ("__setitem__", lambda: array.__setitem__(key, 1))):
        with pytest.raises((TypeError, ValueError), match=rf"^{type(array)._name}\.{method}\(\): invalid slice slice"):
            access()
