"""``dr.slice``: elements of all arrays of a PyTree."""

from dataclasses import dataclass

import pytest

import drjit as dr
import drjit.scalar as scalar
from drjit.llvm import Array2b, Array3f, Array22f, ArrayXf, Bool, Complex2f, Float, Int, Matrix2f, TensorXf, UInt


@dataclass
class Pair:
    a: Float
    b: Array3f


@pytest.mark.parametrize(("value", "index", "expected", "kind"), [
    (Float(1, 2, 3), 1, 2.0, float), (Float(1, 2, 3), -1, 3.0, float), (Bool(True, False), 1, False, bool),
    (Int(4, -5), 1, -5, int), (Float(7), 0, 7.0, float),
    (Array3f([1, 2], [3, 4], [5, 6]), 1, [2, 4, 6], scalar.Array3f),
    (Array3f(1, [2, 3], 4), 1, [1, 3, 4], scalar.Array3f),
    (ArrayXf([[1, 2, 5], [3, 4, 6]]), 2, [5, 6], scalar.ArrayXf),
    (Complex2f([1, 2], [3, 4]), 1, [2, 4], scalar.Complex2f),
    (Array2b(Bool(True, False), True), 1, [False, True], scalar.Array2b), (scalar.ArrayXf(1, 2, 3), 1, 2.0, float),
    (scalar.Array3f(1, 2, 3), 1, [1, 2, 3], scalar.Array3f), (5, 1, 5, int), ("x", 1, "x", str),
    (None, 0, None, type(None)),
])
def test_one_element(value, index, expected, kind):
    found = dr.slice(value, index)
    assert type(found) is kind
    assert (list(found) if isinstance(expected, list) else found) == expected


def test_the_first_element_by_default():
    assert dr.slice(Float(4, 5)) == 4


@pytest.mark.parametrize("index", [UInt(2, 0), Int(2, 0), [2, 0], (2, 0)])
def test_several_elements(index):
    assert list(dr.slice(Float(1, 2, 3), index)) == [3, 1]
    assert dr.slice(Array3f([1, 2, 3], 4, [5, 6, 7]), index).numpy().tolist() == [[3, 1], [4, 4], [7, 5]]
    assert list(dr.slice(scalar.ArrayXf(1, 2, 3), [2, 0])) == [3, 1]


def test_trees():
    tree = {"a": Float(1, 2), "b": [UInt(3, 4), "x", 7, None], "c": Pair(Float(5, 6), Array3f(0, [1, 2], 3))}
    one = dr.slice(tree, 1)
    assert one["a"] == 2 and one["b"] == [4, "x", 7, None] and one["c"].a == 6 and list(one["c"].b) == [0, 2, 3]
    assert type(one["c"]) is Pair and type(one["c"].b) is scalar.Array3f
    several = dr.slice(tree, UInt(1, 1, 0))
    assert list(several["a"]) == [2, 2, 1] and several["c"].b.numpy().tolist() == [[0, 0, 0], [2, 2, 1], [3, 3, 3]]


def test_matrices_and_arrays_of_arrays():
    found = dr.slice(Matrix2f([[[1, 2], 2], [3, 4]]), 1)
    assert type(found) is scalar.Matrix2f and [list(row) for row in found] == [[2, 2], [3, 4]]
    found = dr.slice(Array22f([[1, 2], [3, 4]], [[5, 6], [7, 8]]), 1)
    assert type(found) is scalar.Array22f and [list(row) for row in found] == [[2, 4], [6, 8]]


def test_tensors_are_returned_as_they_are():
    tensor = TensorXf([[1, 2], [3, 4]])
    assert dr.slice(tensor, 1) is tensor and dr.slice([tensor], UInt(0))[0] is tensor


def test_all_arrays_are_evaluated_at_once():
    tree = [dr.arange(Float, 1000) * 2, dr.arange(Float, 1000) + 1, Array3f(dr.arange(Float, 1000) * 3)]
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        assert dr.slice(tree, 7)[:2] == [14, 8]
        assert len(dr.kernel_history()) == 1


@pytest.mark.parametrize(("index", "exception", "message"), [
    (3, IndexError, "drjit.slice.*position 3 is out of bounds .*of size 3"), (-4, IndexError, "position -4 is out of"),
    (1.5, TypeError, "'index' must be an integer or an array of integers, found float"),
    (Float(1), TypeError, "found drjit.llvm.Float"), (Bool(True, False, True), TypeError, "found drjit.llvm.Bool"),
    (True, TypeError, "found bool"), (slice(0, 2), TypeError, "found slice"), (None, TypeError, "found NoneType")])
def test_bad_input(index, exception, message):
    with pytest.raises(exception, match=message):
        dr.slice(Float(1, 2, 3), index)
