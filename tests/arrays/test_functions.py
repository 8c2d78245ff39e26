"""Elementwise functions and reductions on arrays and Python numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import (
    Array3b,
    Array3f,
    Array3i,
    Array3u,
    Array22f,
    ArrayXf,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    Int8,
    UInt,
    UInt8,
    UInt64,
)

NAN, INF = math.nan, math.inf

RESULTS = [
    (lambda: dr.sqrt(Float(4, 9)), "[2, 3]"), (lambda: dr.sqrt(4), "2.0"),
    (lambda: dr.sqrt(Array3f(1, 4, 9)), "[[1, 2, 3]]"),
    (lambda: dr.rcp(Float(0, 2)), "[inf, 0.5]"), (lambda: dr.rcp(2), "0.5"), (lambda: dr.rsqrt(4), "0.5"),
    (lambda: dr.rsqrt(Float(0, 4)), "[inf, 0.5]"), (lambda: dr.round(Float(0.5, 1.5, -0.5, 2.5)), "[0, 2, -0, 2]"),
    (lambda: dr.floor(Float(1.5, -1.5)), "[1, -2]"), (lambda: dr.floor(3), "3.0"), (lambda: dr.trunc(-1.5), "-1.0"),
    (lambda: dr.ceil(1.2), "2.0"), (lambda: dr.abs(Float(-1)), "[1]"), (lambda: dr.abs(UInt(1)), "[1]"),
    (lambda: dr.abs(-3), "3"), (lambda: dr.minimum(Float(1, NAN), Float(NAN, 1)), "[nan, nan]"),
    (lambda: dr.maximum(Int(1), 2.5), "[2.5]"), (lambda: dr.maximum(1, 2.5), "2.5"),
    (lambda: dr.minimum(Array3f(1, 2, 3), 2), "[[1, 2, 2]]"), (lambda: dr.fma(Float(1, 2), 2, 3), "[5, 7]"),
    (lambda: dr.fma(1, 2, 3), "5"), (lambda: dr.fma(1.0, 2, 3), "5.0"), (lambda: dr.fma(Int(1), 2.5, 1), "[3.5]"),
    (lambda: dr.fma(Array3f(1, 2, 3), 2, Float(1, 2)), "[[3, 5, 7],\n [4, 6, 8]]"),
    (lambda: dr.clip(Float(1, 2, 3), 1.5, 2.5), "[1.5, 2, 2.5]"), (lambda: dr.clip(5, 1, 3), "3"),
    (lambda: dr.lerp(Float(1), Float(2), 0.5), "[1.5]"), (lambda: dr.lerp(1, 2, 0.5), "1.5"),
    (lambda: dr.popcnt(Int(-1, 7)), "[32, 3]"), (lambda: dr.popcnt(7), "3"), (lambda: dr.lzcnt(Int(0, 1)), "[32, 31]"),
    (lambda: dr.tzcnt(Int(0, 8)), "[32, 3]"), (lambda: dr.tzcnt(0), "32"), (lambda: dr.brev(UInt(1)), "[2147483648]"),
    (lambda: dr.log2i(UInt(8, 9, 1)), "[3, 3, 0]"), (lambda: dr.log2i(8), "3"),
    (lambda: dr.mul_hi(UInt(2**31), 4), "[2]"),
    (lambda: dr.popcnt(UInt64(2**63 + 1)), "[2]"), (lambda: dr.popcnt(Array3u(1, 2, 3)), "[[1, 1, 2]]"),
    (lambda: dr.isnan(Float(1, NAN)), "[False, True]"), (lambda: dr.isinf(Float(-INF, 1)), "[True, False]"),
    (lambda: dr.isfinite(Float(NAN, INF, 1)), "[False, False, True]"), (lambda: dr.isnan(Int(1)), "[False]"),
    (lambda: dr.isfinite(1.0), "True"), (lambda: dr.select(True, 1, 2), "1"),
    (lambda: dr.select(False, Float(1), 2), "[2]"),
    (lambda: dr.select(Bool(True, False), 1, 2.0), "[1, 2]"),
    (lambda: dr.select(Bool(True, False), True, False), "[True, False]"),
    (lambda: dr.select(Bool(True, False), Float(1, 2), Int(3, 4)), "[1, 4]"),
    (lambda: dr.select(Bool(True, False), Array3f(1), Float(2)), "[[1, 1, 1],\n [2, 2, 2]]"),
    (lambda: dr.select(Array3b(True, False, True), Float(1, 2), Float(3, 4)), "[[1, 3, 1],\n [2, 4, 2]]"),
    (lambda: dr.select(Bool(True, False), (Float(1), Int(2)), (Float(3), Int(4))), "([1, 3], [2, 4])"),
    (lambda: dr.exp(0), "1.0"), (lambda: dr.sincos(Float(0)), "([0], [1])"), (lambda: dr.power(2, 3), "8.0"),
    (lambda: dr.power(Float(2), 3), "[8]"), (lambda: dr.reinterpret_array(Int, Float(1)), "[1065353216]"),
    # reductions
    (lambda: dr.sum(Float(1, 2, 3)), "[6]"), (lambda: dr.sum(Array3f(1, 2, 3)), "[6]"),
    (lambda: dr.sum([1, 2, 3]), "6"),
    (lambda: dr.sum(Array3f([1, 2], 2, 3), axis=None), "[13]"),
    (lambda: dr.sum(Array3f([1, 2], 2, 3), axis=(0, 1)), "[13]"),
    (lambda: dr.sum(Array3f([1, 2], 2, 3), axis=1), "[[3, 4, 6]]"),
    (lambda: dr.sum(Array3f([1, 2], 2, 3), axis=-1), "[[3, 4, 6]]"),
    (lambda: dr.sum(Float(1, 2), axis=()), "[1, 2]"), (lambda: dr.sum(Float()), "[0]"),
    (lambda: dr.prod(Float()), "[1]"),
    (lambda: dr.min(Float()), "[inf]"), (lambda: dr.max(Int()), "[-2147483648]"),
    (lambda: dr.min(UInt()), "[4294967295]"),
    (lambda: dr.min(Float(1, NAN, 3)), "[1]"), (lambda: dr.max(Array3f(3, 1, NAN)), "[3]"),
    (lambda: dr.max(Array3f(NAN, 1, 2)), "[2]"),
    (lambda: dr.sum(Array22f([1, 2], [3, 4])), "[[4, 6]]"),
    (lambda: dr.sum(Array22f([1, 2], [3, 4]), axis=1), "[[3, 7]]"),
    (lambda: dr.sum(dr.ones(Array22f, 3), axis=None), "[12]"), (lambda: dr.sum(ArrayXf([1, 2], [3, 4])), "[4, 6]"),
    (lambda: dr.mean(Float(1, 2, 3)), "[2]"), (lambda: dr.mean(Float()), "[nan]"),
    (lambda: dr.mean(Array3f([1, 2], 2, 3)), "[2, 2.33333]"),
    (lambda: dr.mean(Array3f([1, 2], 2, 3), axis=None), "[2.16667]"),
    (lambda: dr.mean([1, 2, 4]), "2.3333333333333335"),
    (lambda: dr.mean(dr.full(Float16, 2, 70000)), "[2]"), (lambda: dr.all(Bool(True, False)), "[False]"),
    (lambda: dr.all(Array3b([True, False], True, True)), "[True, False]"), (lambda: dr.all([True, False]), "False"),
    (lambda: dr.any(Bool()), "[False]"), (lambda: dr.all(Bool()), "[True]"),
    (lambda: dr.none(Bool(True, False)), "[False]"),
    (lambda: dr.none([False]), "True"), (lambda: dr.count(Bool(True, False, True)), "[2]"),
    (lambda: dr.count(Array3b([True, False], True, True)), "[3, 2]"), (lambda: dr.count([True, True]), "2"),
    (lambda: dr.count(Array3b([True, False], True, True), axis=None), "[5]"),
    (lambda: dr.count(dr.ones(Bool, 9)), "[9]"),
    (lambda: dr.sum([Float(1, 2), Float(3)]), "[4, 5]"), (lambda: dr.max([1, 2.5]), "2.5"),
    (lambda: dr.min([Float(1), 0]), "[0]"),
    (lambda: dr.sum(Int8(100, 100)), "[-56]"), (lambda: dr.max(UInt8(3, 1)), "[3]"),
    (lambda: dr.prod(Array3i(2, 3, 4)), "[24]"),
    (lambda: dr.reduce(dr.ReduceOp.And, Int(3, 6)), "[2]"), (lambda: dr.reduce(dr.ReduceOp.Or, Int(3, 6)), "[7]"),
    (lambda: dr.sum(Float(1, 2), mode="evaluated"), "[3]"), (lambda: dr.sum(Float(1, 2), keepdims=True), "[3]"),
]


@pytest.mark.parametrize(("expression", "text"), RESULTS)
def test_result_of_function(expression, text: str) -> None:
    assert repr(expression()) == text


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "sqrt"])
@pytest.mark.parametrize(("kind", "tolerance"), [(Float, 1e-6), (Float64, 1e-14)])
def test_transcendental_functions_agree_with_numpy(name: str, kind: type, tolerance: float) -> None:
    values = kind(np.linspace(0.1, 10, 257))
    expected = getattr(np, name)(values.numpy().astype(np.float64))
    np.testing.assert_allclose(getattr(dr, name)(values).numpy(), expected, rtol=tolerance, atol=tolerance)


def test_powers_agree_with_numpy() -> None:
    x = np.linspace(0.1, 5, 101)
    np.testing.assert_allclose((Float64(x) ** 0.7).numpy(), x**0.7, rtol=1e-13)
    np.testing.assert_allclose((Float64(x) ** Float64(x)).numpy(), x**x, rtol=1e-13)
    np.testing.assert_allclose((2.0 ** Float64(x)).numpy(), 2**x, rtol=1e-13)
    np.testing.assert_allclose((Float64(x) ** 5).numpy(), x**5, rtol=1e-13)
    np.testing.assert_allclose((Float64(x) ** -3).numpy(), x**-3.0, rtol=1e-13)


REFUSALS = [
    (lambda: dr.sqrt(Int(4)), r"drjit\.sqrt\(<drjit\.llvm\.Int>\): operation not supported.*int32"),
    (lambda: dr.exp(Int(1)), r"drjit\.exp\(<drjit\.llvm\.Int>\)"), (lambda: dr.popcnt(Float(1)), r"drjit\.popcnt"),
    (lambda: dr.abs("a"), r"drjit\.abs\(\): 'arg'.*str"), (lambda: dr.minimum("a", 1), r"'arg0'.*str"),
    (lambda: dr.minimum(Float(1, 2), Float(1, 2, 3)), r"drjit\.minimum\(<drjit\.llvm\.Float>\).*sizes: 2, 3"),
    (lambda: dr.fma(Float(1, 2), Float(1, 2, 3), 1), r"drjit\.fma.*sizes: 2, 3"), (lambda: dr.popcnt(-1), "-1"),
    (lambda: dr.select(Bool(True, False), Float(1, 2, 3), 1), r"drjit\.select.*sizes: 2, 3"),
    (lambda: dr.select(Float(1), 1, 2), "'arg0'"), (lambda: dr.select(Bool(True), "a", "b"), "'arg1'"),
    (lambda: dr.sum(Bool(True, True)), r"drjit\.sum\(<drjit\.llvm\.Bool>\)"), (lambda: dr.all(Float(1)), r"drjit\.all"),
    (lambda: dr.count(Float(1, 2) > 1, axis=1), r"drjit.count\(<drjit.llvm.Bool>\): out-of-bounds axis"),
    (lambda: dr.sum(Float(1, 2), axis=1), r"out-of-bounds axis \(got 1, ndim=1\)"),
    (lambda: dr.sum(Float(1), axis="a"), "'axis'"),
    (lambda: dr.sum(Float(1), mode="bogus"), "'mode'"), (lambda: dr.sum(Array3f(1), keepdims=True), "keepdims"),
    (lambda: dr.mean(Int(1)), r"drjit\.mean"), (lambda: dr.reduce(dr.ReduceOp.Identity, Int(1)), "'op'"),
    (lambda: dr.sum("ab"), "str"),
    (lambda: Int(1) / 2, r"Int\.__truediv__"), (lambda: Float(1) // 2, r"Float\.__floordiv__"),
    (lambda: Float(1) & 1, "__and__"),
    (lambda: Bool(True) + Bool(True), r"Bool\.__add__"), (lambda: -Bool(True), r"Bool\.__neg__"),
    (lambda: ~Float(1), "__invert__"),
    (lambda: Float(1) + "a", r"Float\.__add__.*'str'"), (lambda: Float(1) + 1j, "'complex'"),
    (lambda: Float(1) == None, "'NoneType'"),  # noqa: E711
    (lambda: Int(1) + 2**31, r"Int\.__add__.*2147483648"), (lambda: UInt(1) + -1, "-1"),
    (lambda: Int(1) << 1.5, "__lshift__"),
    (lambda: Array3f(1) + Array22f(1), r"Array3f\.__add__"), (lambda: Array3f(1) + ArrayXf(1, 2), "components"),
    (lambda: Int(2) ** -1, r"Int\.__pow__.*-1"), (lambda: Int(2) ** Int(2), r"Int\.__pow__"),
    (lambda: Float() + Float(1, 2), "sizes: 0, 2"),
]


@pytest.mark.parametrize(("expression", "message"), REFUSALS)
def test_refusal_names_function_and_argument(expression, message: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=message):
        expression()


# --- NumPy arrays as arguments ---------------------------------------------------------------------------------------

ONE, TWO = np.array([1.0, 4.0], np.float32), np.array([[1.0, 4.0]])
FOREIGN = [
    (lambda: dr.sqrt(ONE), "Float", "[1, 2]"), (lambda: dr.sqrt(TWO), "TensorXf64", "[[1, 2]]"),
    (lambda: dr.sqrt(ONE.astype(np.float16)), "Float16", "[1, 2]"), (lambda: dr.abs(np.array([-3])), "Int64", "[3]"),
    (lambda: dr.popcnt(np.array([7], np.uint32)), "UInt", "[3]"), (lambda: dr.isnan(ONE), "Bool", "[False, False]"),
    (lambda: dr.sincos(0 * ONE)[1], "Float", "[1, 1]"), (lambda: dr.maximum(ONE, 2), "Float", "[2, 4]"),
    (lambda: dr.maximum(2, TWO), "TensorXf64", "[[2, 4]]"), (lambda: dr.fma(ONE, 2, np.array([1.0, 2.0])), "Float64",
                                                            "[3, 10]"),
    (lambda: dr.clip(ONE, 2, 3), "Float", "[2, 3]"), (lambda: dr.lerp(ONE, 2 * ONE, 0.5), "Float", "[1.5, 6]"),
    (lambda: dr.hypot(3 * ONE, 4), "Float", "[5, 12.6491]"), (lambda: dr.power(ONE, 2), "Float", "[1, 16]"),
    (lambda: dr.step(ONE, 2), "Int", "[0, 1]"), (lambda: dr.rad2deg(0 * ONE), "Float", "[0, 0]"),
    (lambda: dr.mul_wide(np.array([5], np.int32), 2), "Int64", "[10]"), (lambda: dr.sign(-ONE), "Float", "[-1, -1]"),
    (lambda: dr.mulsign(ONE, -1), "Float", "[-1, -4]"), (lambda: dr.select(ONE > 2, ONE, 0), "Float", "[0, 4]"),
    (lambda: dr.select(ONE > 2, 1, 2), "Int", "[2, 1]"),
    (lambda: dr.select(ONE > 2, Float64(5), 2), "Float64", "[2, 5]"),
    (lambda: dr.select(Bool(True, False), ONE, 0), "Float", "[1, 0]"), (lambda: dr.safe_sqrt(-ONE), "Float", "[0, 0]"),
    # beside Dr.Jit arrays they are promoted with them, as are sequences
    (lambda: dr.maximum(Int(3), ONE), "Float", "[3, 4]"), (lambda: dr.maximum(Float(1, 9), [3, 0]), "Float", "[3, 9]"),
    (lambda: dr.fma([1, 2], Float(1, 2), ONE), "Float", "[2, 8]"),
    # scalars of NumPy are numbers
    (lambda: dr.sqrt(np.float32(4)), "float", "2.0"), (lambda: dr.maximum(np.int64(1), 2), "int", "2"),
    (lambda: dr.sqrt(np.array(4.0)), "float", "2.0"),
]


@pytest.mark.parametrize(("expression", "kind", "text"), FOREIGN)
def test_numpy_arrays_are_arguments(expression, kind: str, text: str) -> None:
    result = expression()
    assert (type(result).__name__, repr(result)) == (kind, text)
    assert type(result).__module__ in ("drjit.llvm", "builtins")


def test_numpy_arrays_become_arrays_of_the_chosen_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    from drjit._base import backends

    monkeypatch.setattr(backends, "_chosen", None)
    dr.set_backend("scalar")
    assert type(dr.sqrt(ONE)) is dr.scalar.ArrayXf and repr(dr.sqrt(ONE)) == "[1, 2]"
    assert type(dr.sqrt(TWO)) is dr.scalar.TensorXf64


@pytest.mark.parametrize(("expression", "message"), [
    (lambda: dr.sin(np.array([1, 2])), r"drjit\.sin\(<drjit\.llvm\.Int64>\): operation not supported"),
    (lambda: dr.sin(np.array(["a"])), r"drjit\.sin\(\): 'arg' is a NumPy array with elements of type '<U1'"),
    (lambda: dr.fma(1, 2, np.array([1j])), r"drjit\.fma\(\): 'arg2' is a NumPy array.*complex128"),
    (lambda: dr.maximum(ONE, np.ones(3)), r"drjit\.maximum.*sizes: 2, 3"),
    (lambda: dr.sin([1.0, 2.0]), r"drjit\.sin\(\): 'arg' must be .*found list; convert a sequence"),
    (lambda: dr.atan2(1, (2,)), r"drjit\.atan2\(\): 'arg1' must be .*found tuple"),
    (lambda: dr.select(np.array([1, 0]), 1, 2), r"drjit\.select\(\): 'arg0', the condition, must be a mask array"),
])
def test_refusal_of_foreign_arguments(expression, message: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=message):
        expression()


# --- functions in terms of others blame the one that was called ------------------------------------------------------


@pytest.mark.parametrize(("expression", "message"), [
    (lambda: dr.clip("a", 1, 2), r"drjit\.clip\(\): 'value'.*str"), (lambda: dr.clip(1, None, 2), r"\.clip\(\): 'min'"),
    (lambda: dr.clip(Float(1), "a", 2), r"drjit\.clip\(.*'str'"),
    (lambda: dr.clip(*3 * [Bool(True)]), r"drjit\.clip\(<"),
    (lambda: dr.clip(dr.llvm.Complex2f(1), 0, 1), r"drjit\.clip\(.*complex numbers"),
    (lambda: dr.lerp("a", 1, 2), r"drjit\.lerp\(\): 'a'.*str"),
    (lambda: dr.lerp(Float(1), "a", 2), r"drjit\.lerp\(.*str"),
    (lambda: dr.lerp(1, 2, [3]), r"drjit\.lerp\(\): 't'.*list"),
    (lambda: dr.lerp(None, Float(1), 2), r"drjit\.lerp\(.*None"),
    (lambda: dr.lerp(dr.llvm.Complex2f(1), "a", 2), r"drjit\.lerp\(.*str"),
    (lambda: dr.lerp(Float(1, 2), Float(1, 2, 3), 1), r"drjit\.lerp\(.*sizes"),
    (lambda: dr.safe_sqrt("a"), r"drjit\.safe_sqrt\(\): 'arg'"),
    (lambda: dr.safe_sqrt(Int(4)), r"drjit\.safe_sqrt\(<.*int32"),
    (lambda: dr.safe_asin([1]), r"drjit\.safe_asin\(\): 'arg'"), (lambda: dr.safe_acos(Int(1)), r"drjit\.safe_acos\(<"),
    (lambda: dr.step(Float(1), "a"), r"drjit\.step\(.*'str'"),
    (lambda: dr.step(dr.llvm.Complex2f(1), 1), r"drjit\.step\(.*order among complex"),
    (lambda: dr.mulsign(Float(1), "a"), r"drjit\.mulsign\(.*'str'"),
    (lambda: dr.mulsign(*2 * [Bool(True)]), r"drjit\.mulsign\(<"),
    (lambda: dr.hypot(1, "a"), r"drjit\.hypot\(\): 'b'.*str"), (lambda: dr.deg2rad("a"), r"drjit\.deg2rad\(\): 'arg'"),
    (lambda: dr.select(Bool(True), 1, "b"), r"drjit\.select\(\).*'arg2' is of type str"),
    (lambda: dr.mul_hi(1, 2**33), r"drjit\.mul_hi\(\): 'arg1'.*32 bits"),
    (lambda: dr.log2i(1.5), r"drjit\.log2i\(\): 'arg'.*1\.5"),
    (lambda: dr.power(Float(1), "a"), r"drjit\.power\(<.*'str'"),
    (lambda: dr.power("a", Float(1)), r"drjit\.power\(<.*'str'"),
    (lambda: dr.power(Int(2), -1), r"drjit\.power\(<.*negative power -1"),
    (lambda: dr.power(Int(2), Int(2)), r"drjit\.power\(<.*floating-point type"),
    (lambda: dr.power(Float(1, 2), Float(1, 2, 3)), r"drjit\.power\(<drjit\.llvm\.Float>\).*sizes: 2, 3"),
    (lambda: dr.reinterpret_array(Int, 1), r"drjit\.reinterpret_array\(\): 'value'.*int"),
    (lambda: dr.reinterpret_array(3, Int(1)), r"drjit\.reinterpret_array\(\): 'dtype'"),
])
def test_functions_in_terms_of_others_blame_the_one_that_was_called(expression, message: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=message):
        expression()


DEFECTS = [
    (lambda: dr.clip(5, 3, 2), "3"), (lambda: dr.clip(Float(5), 3, 2), "[3]"), (lambda: dr.clip(NAN, 0, 1), "nan"),
    (lambda: dr.clip(Float(NAN), 0, 1), "[nan]"), (lambda: dr.lerp(UInt(1), UInt(3), 0.5), "[2]"),
    (lambda: dr.lerp(UInt(3), dr.llvm.Complex2f(2, 1), 0.5), "[2.5+0.5j]"),
    (lambda: dr.lerp(dr.llvm.Bool(True), 3, dr.llvm.Matrix2f(0.5)), "[[[2, 0],\n  [0, 2]]]"),
    (lambda: dr.lerp(Int(1), Int(3), 2), "[5]"), (lambda: dr.lerp(1, 3, 2), "5"),
    (lambda: dr.lerp(dr.llvm.Complex2f(1, 2), 3, 0.5), "[2+1j]"),
    (lambda: dr.lerp(1, dr.llvm.Complex2f(3, 2), 0.5), "[2+1j]"),
    (lambda: dr.lerp(dr.llvm.Matrix2f(1), dr.llvm.Matrix2f(3), 0.5), "[[[2, 0],\n  [0, 2]]]"),
    (lambda: dr.sin(10**400), "nan"), (lambda: dr.isfinite(10**400), "True"), (lambda: dr.sqrt(10**400), "inf"),
    (lambda: dr.power(-10, 401), "-inf"), (lambda: dr.power(0, -1), "inf"), (lambda: dr.power(-8.0, 1 / 3), "nan"),
    (lambda: dr.log2i(0), "-1"), (lambda: dr.mul_hi(-1, 2), "-1"), (lambda: dr.mul_hi(2**32 - 1, 2), "1"),
]


@pytest.mark.parametrize(("expression", "text"), DEFECTS)
def test_edges_of_functions(expression, text: str) -> None:
    assert repr(expression()) == text


def test_numbers_are_computed_without_constant_propagation() -> None:
    with dr.scoped_set_flag(dr.JitFlag.ConstantPropagation, False):
        assert dr.erfinv(0.0) == 0 and dr.log(0) == -INF and dr.sincos(INF)[0] != 0


def test_foreign_operands_get_their_turn() -> None:
    class Foreign:
        def __radd__(self, other: object) -> str:
            return "foreign"

    assert Float(1) + Foreign() == "foreign"
    with pytest.raises(TypeError):
        Float(1) - Foreign()
