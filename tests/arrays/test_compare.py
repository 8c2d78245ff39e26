"""Comparison within tolerances, and assertions of debug mode."""

from __future__ import annotations

import math

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Array3f, Bool, Complex2f, Float, Float16, Float64, Int, Matrix2f, TensorXf, UInt

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(("a", "b", "expected"), [
    (1, 1, True), (1, 1.0001, False), (1, 1.000001, True), (INF, INF, True), (NAN, NAN, False),
    ([1, 2], (1, 2), True), ([[1], [2]], [[1], [3]], False), ([Float(1), 2], [1, Float(2)], True),
    (Float(1, 2), [1, 2.0001], True), (Float(1, 2), Float(1, 2.1), False), (Float(NAN), Float(NAN), False),
    (Float16(1, 2), Float16(1, 2.2), True), (Float(1), Float64(1.0005), False), (UInt(1, 2), UInt(2, 1), False),
    (Int(-(2**31)), Int(2**31 - 1), False), (Int(1000000), Int(1000001), True), (Bool(True), Bool(False), False),
    (Array3f(1, 2, 3), [1, 2, 3], True), (Float(), Float(), True), (Float(1, 1), 1, True),
    (Matrix2f(1, 2, 3, 4), Matrix2f([[1, 2], [3, 4]]), True), (Matrix2f(1, 2, 3, 4), Matrix2f(1), False),
    (Complex2f(1, 2), 1 + 2j, True), (Complex2f(1, 2), 1, False),
    (TensorXf([1, 2], (2,)), [1, 2], True), (TensorXf([1, 2], (2,)), TensorXf([1, 2], (2, 1)), False),
])
def test_allclose(a, b, expected):
    assert dr.allclose(a, b) is expected


def test_tolerances():
    assert dr.allclose(Float(NAN, 1), Float(NAN, 1), equal_nan=True)
    assert dr.allclose(NAN, NAN, equal_nan=True)
    assert dr.allclose(Float(1), 2, rtol=0.5) and not dr.allclose(Float(1), 2, rtol=0.4)
    assert dr.allclose(Float(1), 2, atol=1) and not dr.allclose(1, 2, atol=0.5)


@pytest.mark.parametrize(("a", "b", "error"), [
    ("a", "b", TypeError), (None, None, TypeError), ({"a": 1}, {"a": 1}, TypeError), ([1, 2], [1, 2, 3], RuntimeError),
    (Float(1, 2), Float(1, 2, 3), RuntimeError), (Float(1), "a", (TypeError, RuntimeError)),
])
def test_allclose_bad_input(a, b, error):
    with pytest.raises(error, match=r"drjit\.allclose"):
        dr.allclose(a, b)


def test_assert_allclose():
    dr.assert_allclose(Float(1, 2), [1, 2])
    with pytest.raises(AssertionError) as info:
        dr.assert_allclose(Float(1, 2, 3), Float(1, 2, 4), err_msg="hello")
    assert str(info.value) == ("hello\nArrays are not equal to tolerance rtol=0.001, atol=1e-05\nMismatched elements: "
                               "1 / 3 (33.3%)\nMax absolute difference: 1\nMax relative difference: 0.25\n"
                               " ACTUAL: [1, 2, 3]\n DESIRED: [1, 2, 4]")
    for a, b in [(1, 2), ([1, 2], [1, 3]), (UInt(1), UInt(2)), (Bool(True), Bool(False)), (Int(3), Int(2)),
                 (Matrix2f(1), Matrix2f(2)), (TensorXf([1], (1,)), TensorXf([2], (1,))), ([1, 2], Float(1, 3)),
                 (2, Float(1)), (Array3f(1, 2, 3), [1, 2, 5]), (TensorXf([1], (1,)), TensorXf([1], (1, 1))),
                 (Int(1), Float(2))]:
        with pytest.raises(AssertionError):
            dr.assert_allclose(a, b)
    nan = float("nan")
    with pytest.raises(AssertionError, match=r"difference: nan\nMax relative difference: nan"):
        dr.assert_allclose(Float(nan), Float(nan))
    with pytest.raises(AssertionError, match=r"difference: 2\nMax relative difference: 0.666667"):
        dr.assert_allclose(Float(nan, 1), Float(1, 3))


@pytest.mark.parametrize(("call", "message"), [
    (lambda: dr.assert_true(False), "Assertion failure!"),
    (lambda: dr.assert_true(False, "msg {}", 3), "Assertion failure: msg 3"),
    (lambda: dr.assert_true(Float(1, -4, -2) >= 0, "{x=}", x=Float(1, -4, -2)), "Assertion failure: x=[-4, -2]"),
    (lambda: dr.assert_true(Array3f(1, 2, 3) > 1), "Assertion failure!"),
    (lambda: dr.assert_false(Bool(True, False), "x"), "Assertion failure: x"),
    (lambda: dr.assert_equal(1, 2), "Assertion failure!"), (lambda: dr.assert_equal("a", "b"), "Assertion failure!"),
    (lambda: dr.assert_equal(Float(1, 2), Float(1, 3), "v {}", Float(1, 2)), "Assertion failure: v [2]"),
    (lambda: dr.assert_equal(TensorXf([1, 2], (2,)), TensorXf([1, 3], (2,))), "Assertion failure!"),
    (lambda: dr.assert_true(TensorXf([[1, 2], [3, 4]]) < 3, "{} {}", TensorXf([[5, 6], [7, 8]]), Float(1, 2)),
     "Assertion failure: [7, 8] [1, 2]"),
    (lambda: dr.assert_equal([Float(1, 2)], [Float(1, 3)]), "Assertion failure!"),
    (lambda: dr.assert_equal({"a": (1, Float(1, 2)), "b": "x"}, {"a": (1, Float(3, 2)), "b": "x"}, "{}", Float(5, 6)),
     "Assertion failure: [5]"),
    (lambda: dr.assert_equal([Int(1, 2, 3), Int(1, 2, 3)], [Int(0, 2, 3), Int(1, 2, 0)], "{}", Float(5, 6, 7)),
     "Assertion failure: [5, 7]"),
    (lambda: dr.assert_equal([Int(1, 2, 3), Int(1, 2)], [Int(0, 2, 3), Int(1, 3)], "{}", Float(5, 6, 7)),
     "Assertion failure: [5, 6, 7]"),
    (lambda: dr.assert_equal([1, 2], [1]), "Assertion failure: drjit.assert_equal(): the structures of the arguments "
     "differ: found list with 2 entries and with 1 entries."),
    (lambda: dr.assert_equal([1, 2], [1], "lengths"), "Assertion failure: lengths"),
    (lambda: dr.assert_equal([Float(1, 2)], [Float(1, float("nan"))]), "Assertion failure!"),
    (lambda: dr.assert_equal([np.arange(3)], [np.arange(3) + 1]), "Assertion failure!"),
    (lambda: dr.assert_true([True, {"a": Bool(True, False)}], "{}", Float(1, 2)), "Assertion failure: [2]"),
    (lambda: dr.assert_true((np.array([True, False]),)), "Assertion failure!"),
    (lambda: dr.assert_false((Bool(False), [Array3f(1, 2, 3) > 2])), "Assertion failure!"),
    (lambda: dr.assert_true(fmt="x", cond=False), "Assertion failure: x"),
])
def test_assertions(call, message):
    call()  # outside of debug mode
    with dr.scoped_set_flag(dr.JitFlag.Debug, True), pytest.raises(AssertionError) as info:
        call()
    assert str(info.value) == message


def test_assertions_that_hold():
    with dr.scoped_set_flag(dr.JitFlag.Debug, True):
        dr.assert_true(True)
        dr.assert_true(Bool())
        dr.assert_false(Bool(False, False), "never shown {}")
        dr.assert_equal(Array3f(1), Array3f(1))
        dr.assert_equal([1, "a"], [1, "a"])
        dr.assert_equal([Float(1, 2), {"a": TensorXf([[1, 2]])}], [Float(1, 2), {"a": TensorXf([[1, 2]])}])
        dr.assert_equal(Float(1, 2), [1, 2])
        dr.assert_true([Bool(True, True), True, (), {"a": np.array([True])}])
        dr.assert_false({"a": [Bool(False), np.array([False])]})


@pytest.mark.parametrize("cond", [3, [True, 1], {"a": None}, None, Float(1), "True"])
@pytest.mark.parametrize("function", [dr.assert_true, dr.assert_false])
def test_assertions_bad_input(function, cond):
    with dr.scoped_set_flag(dr.JitFlag.Debug, True), pytest.raises(TypeError, match="must be a bool or a mask"):
        function(cond)
