"""Gather, scatter and scatter-reductions."""

from __future__ import annotations

import numpy as np
import pytest

import drjit as dr
from drjit import llvm
from drjit.llvm import Array3f, Array22f, ArrayXf, Bool, Float, Int, UInt, UInt64

#: What the code in the tables refers to.
NAMES = {**{name: getattr(llvm, name) for name in llvm.__all__}, "dr": dr}


@pytest.mark.parametrize(("expression", "text"), [
    (lambda: dr.gather(Float, Float(1, 2, 3), UInt(2, 1)), "[3, 2]"),
    (lambda: dr.gather(Float, Float(1, 2, 3), [2, 1]), "[3, 2]"),
    (lambda: dr.gather(Float, Float(1, 2, 3), 1), "[2]"),
    (lambda: dr.gather(Float, Float(1, 2), UInt64(1, 0)), "[2, 1]"),
    (lambda: dr.gather(Float, Float(1, 2, 3), UInt(2, 1), Bool(True, False)), "[3, 0]"),
    (lambda: dr.gather(Float, Float(1, 2, 3), UInt(0, 1), active=[True, False]), "[1, 0]"),
    (lambda: dr.gather(Bool, Bool(True, False), UInt(1, 0)), "[False, True]"),
    (lambda: dr.gather(Float, Float(1, 2), UInt()), "[]"),
    (lambda: dr.gather(Float, Float(5), UInt(0, 0)), "[5, 5]"),
    (lambda: dr.gather(Float, Float(), UInt(1), False), "[0]"),
    (lambda: dr.gather(Array3f, Array3f([1, 2], 3, 4), UInt(1, 0)), "[[2, 3, 4],\n [1, 3, 4]]"),
    (lambda: dr.gather(Array3f, Float(range(9)), UInt(2, 1)), "[[6, 7, 8],\n [3, 4, 5]]"),
    (lambda: dr.gather(Array22f, Float(range(8)), UInt(1)), "[[[4, 5],\n  [6, 7]]]"),
    (lambda: dr.gather(ArrayXf, Float(range(8)), UInt(0, 1), shape=(4, 2)), "[[0, 1, 2, 3],\n [4, 5, 6, 7]]"),
    (lambda: dr.gather(dict, {"a": Float(1, 2), "b": (Int(3, 4), "s")}, UInt(1)), "{'a': [2], 'b': ([4], 's')}"),
])
def test_gather(expression, text: str) -> None:
    assert repr(expression()) == text


@pytest.mark.parametrize(("start", "code", "text"), [
    ("dr.zeros(Float, 3)", "dr.scatter(a, [1, 2], [0, 1])", "[1, 2, 0]"),
    ("dr.zeros(Float, 3)", "dr.scatter(a, 1, UInt(0, 2))", "[1, 0, 1]"),
    ("dr.zeros(Float, 3)", "dr.scatter(a, Float(5, 6), UInt(0, 1), Bool(True, False))", "[5, 0, 0]"),
    ("dr.zeros(Int, 3)", "dr.scatter(a, True, UInt(0, 1))", "[1, 1, 0]"),
    ("Float(1, 2)", "dr.scatter(a, 1, UInt())", "[1, 2]"),
    ("dr.zeros(Float, 3)", "dr.scatter_add(a, Float(1, 2), UInt(0, 0))", "[3, 0, 0]"),
    ("Int(1, 5)", "dr.scatter_reduce(dr.ReduceOp.Max, a, Int(3, 4), UInt(0, 1))", "[3, 5]"),
    ("Int(1, 5)", "dr.scatter_reduce(dr.ReduceOp.Min, a, Int(3, 4), UInt(0, 1))", "[1, 4]"),
    ("Int(6, 5)", "dr.scatter_reduce(dr.ReduceOp.And, a, 3, UInt(0))", "[2, 5]"),
    ("Array2f([1, 2], 3)", "dr.scatter(a, Array2f(9), UInt(0))", "[[9, 9],\n [2, 3]]"),
    ("dr.zeros(Array2f, 2)", "dr.scatter_add(a, Array2f(1, 2), UInt(1))", "[[0, 0],\n [1, 2]]"),
    ("dr.zeros(Float, 6)", "dr.scatter(a, Array3f(1, 2, 3), UInt(0, 1))", "[1, 2, 3, 1, 2, 3]"),
    ("[dr.zeros(Float, 2), {'k': dr.zeros(Int, 2)}]", "dr.scatter(a, [Float(1), {'k': Int(2)}], UInt(1))",
     "[[0, 1], {'k': [0, 2]}]"),
])
def test_scatter(start: str, code: str, text: str) -> None:
    scope = {**NAMES}
    scope["a"] = eval(start, scope)
    exec(code, scope)
    assert repr(scope["a"]) == text


def test_scatter_leaves_other_holders_alone() -> None:
    a = Float(1, 2, 3)
    b, c = Float(a), a + 1
    dr.scatter(a, 9, 0)
    assert a.state is dr.VarState.Dirty
    assert (list(a), list(b), list(c)) == ([9, 2, 3], [1, 2, 3], [2, 3, 4])
    assert a.state is dr.VarState.Evaluated


def test_scatters_run_with_the_next_evaluation() -> None:
    a = dr.zeros(UInt, 10)
    dr.scatter_add(a, 1, dr.arange(UInt, 1000) % 10)
    dr.eval()
    assert a.state is dr.VarState.Evaluated
    assert list(a) == [100] * 10


def test_gather_and_scatter_agree_with_numpy() -> None:
    rng = np.random.default_rng(1)
    data, index = rng.random(1000).astype(np.float32), rng.permutation(1000).astype(np.uint32)
    np.testing.assert_array_equal(dr.gather(Float, Float(data), UInt(index)).numpy(), data[index])
    target, expected = dr.zeros(Float, 1000), np.zeros(1000, dtype=np.float32)
    dr.scatter(target, Float(data), UInt(index))
    expected[index] = data
    np.testing.assert_array_equal(target.numpy(), expected)


@pytest.mark.parametrize(("code", "message"), [
    ("dr.gather(Float, 3, UInt(0))", r"drjit\.gather\(\): 'source'.*int"), ("dr.gather(3, a, 0)", "'dtype'"),
    ("dr.gather(Int, a, UInt(0))", "unsupported 'dtype'"), ("dr.gather(Float, a, 'a')", "'index'.*str"),
    ("dr.gather(Float, a, -1)", "'index'.*-1"), ("dr.gather(Float, a, UInt(0), 'x')", "'active'"),
    ("dr.gather(Float, a, UInt(0, 1), Bool(True, True, True))", "sizes: 2, 3"),
    ("dr.gather(ArrayXf, a, UInt(0))", "'shape'"),
    ("dr.gather(Float, Float(), UInt(0))", "empty"), ("dr.gather(Float, a, Array2f(1))", "'index'"),
    ("dr.gather(Float, a, 0, mode=3)", "'mode'"),
    ("dr.scatter(3, a, UInt(0))", r"drjit\.scatter\(\): 'target'"),
    ("dr.scatter(a, Int(1), UInt(0))", r"'value'.*drjit\.llvm\.Int"),
    ("dr.scatter(a, Float(1, 2), UInt(0, 1, 2))", "sizes: 2, 3"), ("dr.scatter(a, 'a', UInt(0))", "'str'"),
    ("dr.scatter(Float(), 1, UInt(0))", "empty"),
    ("dr.scatter_add(Bool(True), True, UInt(0))", r"drjit\.scatter_add.*Add.*bool"),
    ("dr.scatter_reduce(3, a, 1, UInt(0))", "'op'"),
    ("dr.scatter([a, a], [Float(1), 'x'], UInt(0))", "'str'"),
    ("dr.scatter([a], [Float(1), Float(2)], UInt(0))", "structures"),
])
def test_refused_access_changes_nothing(code: str, message: str) -> None:
    scope = {**NAMES, "a": Float(1, 2, 3)}
    with pytest.raises((TypeError, RuntimeError), match=message):
        eval(code, scope)
    assert list(scope["a"]) == [1, 2, 3]
