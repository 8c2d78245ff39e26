"""Mathematical functions, constants, colors, norms and variance, on arrays and Python numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import (
    Array2f,
    Array3f,
    Array3f64,
    Array3i,
    Array4f,
    Array22f,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    Int64,
    UInt,
    UInt64,
)

NAN, INF = math.nan, math.inf

RESULTS = [
    (lambda: dr.asin(Float(0, 1, 2)), "[0, 1.5708, nan]"), (lambda: dr.acos(Array3f(1, 0, 1)), "[[0, 1.5708, 0]]"),
    (lambda: dr.atan2(Float(1), 1), "[0.785398]"), (lambda: dr.atan2(0.0, -1.0), repr(math.pi)),
    (lambda: dr.atan2(Int(1), 2.0), "[0.463648]"), (lambda: dr.asin(2), "nan"), (lambda: dr.atanh(-1), "-inf"),
    (lambda: dr.lgamma(-3), "inf"), (lambda: dr.sinh(-1000), "-inf"), (lambda: dr.erfinv(1), "inf"),
    (lambda: dr.erfinv(0), "0.0"), (lambda: dr.log2(0), "-inf"), (lambda: dr.exp2(10), "1024.0"),
    (lambda: dr.cbrt(-27), "-3.0"), (lambda: dr.cot(0.0), "inf"), (lambda: dr.acosh(0.5), "nan"),
    (lambda: dr.sincosh(Float(0)), "([0], [1])"), (lambda: dr.sincosh(0), "(0.0, 1.0)"),
    (lambda: dr.hypot(3, 4), "5.0"), (lambda: dr.hypot(Float(3e30), 4e30), "[5e+30]"),
    (lambda: dr.hypot(Float(3), b=4), "[5]"),
    # signs
    (lambda: dr.sign(Float(0.0, -0.0, 2, -3, NAN)), "[1, 1, 1, -1, -1]"), (lambda: dr.sign(Int(-3, 0)), "[-1, 1]"),
    (lambda: dr.sign(UInt(0, 3)), "[1, 1]"), (lambda: dr.sign(-3), "-1"), (lambda: dr.sign(-3.5), "-1.0"),
    (lambda: dr.copysign(Float(1, -2), Float(-0.0, 3)), "[-1, 2]"),
    (lambda: dr.copysign(Int(1, -2), Int(-1, 3)), "[-1, 2]"),
    (lambda: dr.copysign(1, -2), "-1"), (lambda: dr.copysign(1.5, -2), "-1.5"), (lambda: dr.copysign(-1, 2), "1"),
    (lambda: dr.copysign(Float16(-2), 1), "[2]"), (lambda: dr.copysign(UInt(2), UInt(1)), "[2]"),
    (lambda: dr.mulsign(Float(1, -2), Float(-0.0, -3)), "[1, 2]"), (lambda: dr.mulsign(2, -3), "-2"),
    (lambda: dr.mulsign(Int(1, -2), Int(-1, 3)), "[-1, -2]"), (lambda: dr.mulsign(UInt(2), UInt(1)), "[2]"),
    (lambda: dr.step(Float(1, 2, 3), 2), "[0, 1, 1]"), (lambda: dr.step(1, Float(1, 2)), "[1, 0]"),
    (lambda: dr.step(1, 2), "0"), (lambda: dr.step(2.5, 2), "1"),
    # smaller and larger
    (lambda: dr.fmin(Float(1, NAN, 3), Float(NAN, 2, 1)), "[1, 2, 1]"),
    (lambda: dr.fmax(Float(1, NAN, 3), Float(NAN, 2, 1)), "[1, 2, 3]"), (lambda: dr.fmin(NAN, 2.0), "2.0"),
    (lambda: dr.fmax(2, 3), "3"), (lambda: dr.fmin(Int(1, 5), 3), "[1, 3]"),
    (lambda: dr.fmax(Float(NAN), NAN), "[nan]"),
    (lambda: dr.minimum(1.0, NAN), "nan"), (lambda: dr.maximum(NAN, 1), "nan"),
    # products
    (lambda: dr.mul_wide(UInt(2**31), 4), "[8589934592]"), (lambda: dr.mul_wide(Int(-(2**31)), 4), "[-8589934592]"),
    (lambda: dr.mul_wide(2**31, 4), "8589934592"), (lambda: type(dr.mul_wide(UInt(1), 4)) is UInt64, "True"),
    (lambda: type(dr.mul_wide(Int(1), Int(4))) is Int64, "True"),
    # angles and clipped domains
    (lambda: dr.rad2deg(math.pi), "180.0"), (lambda: dr.rad2deg(Float(math.pi)), "[180]"),
    (lambda: dr.deg2rad(Int(180)), "[3.14159]"), (lambda: dr.deg2rad(180), repr(math.pi)),
    (lambda: dr.safe_sqrt(-1.0), "0.0"), (lambda: dr.safe_sqrt(Float(-1e-9, 4, NAN)), "[0, 2, nan]"),
    (lambda: dr.safe_asin(Float(-1.1, 0, 7)), "[-1.5708, 0, 1.5708]"), (lambda: dr.safe_acos(2), "0.0"),
    (lambda: dr.safe_acos(Float(-3)), "[3.14159]"),
    # constants
    (lambda: dr.epsilon(Float), repr(2.0**-24)), (lambda: dr.epsilon(Float64(1)), repr(2.0**-53)),
    (lambda: dr.epsilon(Array3f), repr(2.0**-24)), (lambda: dr.epsilon(Float16), repr(2.0**-11)),
    (lambda: dr.one_minus_epsilon(Float), repr(1 - 2.0**-24)), (lambda: dr.recip_overflow(Float), repr(2.0**-128)),
    (lambda: dr.recip_overflow(Float16), repr(2.0**-16)), (lambda: dr.smallest(Float64), repr(2.0**-1022)),
    (lambda: dr.largest(Float16), "65504.0"), (lambda: dr.largest(Float64), repr(1.7976931348623157e308)),
    (lambda: float(dr.rcp(Float(dr.recip_overflow(Float)))[0]), "inf"),
    (lambda: dr.isfinite(dr.rcp(Float(dr.recip_overflow(Float) * 1.001))), "[True]"),
    # products of vectors
    (lambda: dr.dot(Array3f(1, 2, 3), Array3f(4, 5, 6)), "[32]"), (lambda: dr.dot(Float(1, 2), Float(3, 4)), "[11]"),
    (lambda: dr.dot(Array3i(1, 2, 3), Array3f(1, 2, 3)), "[14]"), (lambda: dr.dot([1, 2], (3, 4)), "11"),
    (lambda: dr.dot(Array3f([1, 2], 2, 3), Array3f(1, 2, 3)), "[14, 15]"),
    (lambda: dr.dot(Array22f([1, 2], [3, 4]), Array22f([1, 1], [2, 2])), "[[7, 10]]"),
    (lambda: dr.dot(Array3f(1, 2, 3), [4, 5, 6]), "[32]"), (lambda: dr.dot(UInt(1, 2), UInt(3, 4)), "[11]"),
    (lambda: dr.abs_dot(Array3f(1, 2, 3), Array3f(-1, -2, -3)), "[14]"), (lambda: dr.abs_dot([1], [-2]), "2"),
    (lambda: dr.squared_norm(Array3f(1, 2, 3)), "[14]"), (lambda: dr.squared_norm(Int(1, 2)), "[5]"),
    (lambda: dr.norm(Float(3, 4)), "[5]"), (lambda: dr.norm([3.0, 4.0]), "5.0"),
    (lambda: dr.norm(Array2f(3, 4)), "[5]"),
    (lambda: dr.squared_norm(Array3f([1, 2], 2, 3), axis=None), "[31]"),
    (lambda: dr.norm(Array2f([3, 1], [4, 1]), axis=1), "[[3.16228, 4.12311]]"),
    (lambda: dr.normalize(Array3f(0, 3, 4)), "[[0, 0.6, 0.8]]"), (lambda: dr.normalize(Float(3, 4)), "[0.6, 0.8]"),
    (lambda: dr.unit_angle(Array3f(1, 0, 0), Array3f(0, 1, 0)), "[1.5708]"),
    (lambda: dr.unit_angle(Array3f(1, 0, 0), Array3f(-1, 0, 0)), "[3.14159]"),
    # variance
    (lambda: dr.var(Float(1, 2, 4)), "[1.55556]"), (lambda: dr.var(Float(1, 2, 4), ddof=1), "[2.33333]"),
    (lambda: dr.var([1, 2, 4]), "1.5555555555555554"), (lambda: dr.var(3), "0.0"), (lambda: dr.var(Float()), "[nan]"),
    (lambda: dr.var(Float(1), ddof=1), "[nan]"), (lambda: dr.var([1.0], ddof=1), "nan"),
    (lambda: dr.var(Array3f([1, 3], 2, 3)), "[0.666667, 0.222222]"),
    (lambda: dr.std(Array3f([1, 3], 2, 3), axis=None), "[0.745356]"),
    (lambda: dr.std(Array3f([1, 3], 2, 3), axis=1), "[[1, 0, 0]]"), (lambda: dr.std([1, 3]), "1.0"),
    (lambda: dr.var(Float16(100, 300)), "[10000]"), (lambda: dr.var(Float(1, 3), mode="evaluated"), "[1]"),
    (lambda: dr.var([Float(1, 2), Float(3, 4)]), "[1, 1]"), (lambda: dr.var(Float(1e6, 1e6 + 1)), "[0.25]"),
    # colors
    (lambda: dr.linear_to_srgb(Float(-0.2, 0, 0.001, 0.5, 2)), "[0, 0, 0.01292, 0.735357, 1]"),
    (lambda: dr.linear_to_srgb(Float(-0.2, 0.5, 2), clip=False), "[-0.484529, 0.735357, 1.35326]"),
    (lambda: dr.srgb_to_linear(Float(-0.2, 0.01, 0.5, 2)), "[0, 0.000773994, 0.214041, 1]"),
    (lambda: dr.srgb_to_linear(Float(-0.2, 0.5, 2), clip=False), "[-0.0331048, 0.214041, 4.95385]"),
    (lambda: dr.linear_srgb_to_oklab(Array4f(1, 1, 1, 0.3))[3], "[0.3]"),
]


@pytest.mark.parametrize(("expression", "text"), RESULTS)
def test_result_of_function(expression: Any, text: str) -> None:
    assert repr(expression()) == text


FUNCTIONS = {"tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
             "tanh": np.tanh, "asinh": np.arcsinh, "atanh": np.arctanh, "cbrt": np.cbrt, "exp2": np.exp2,
             "log2": np.log2, "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc),
             "lgamma": np.vectorize(math.lgamma)}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("kind", "tolerance"), [(Float, 2e-6), (Float64, 2e-14)])
def test_functions_agree_with_numpy(name: str, kind: Any, tolerance: float) -> None:
    values = kind(np.linspace(0.05, 0.95, 257))
    function = getattr(dr, name)
    expected = FUNCTIONS[name](values.numpy().astype(np.float64))
    np.testing.assert_allclose(function(values).numpy(), expected, rtol=tolerance)
    assert function(0.25) == pytest.approx(float(FUNCTIONS[name](0.25)), rel=1e-15)
    assert type(function(0.25)) is float


def test_error_function_and_its_inverse() -> None:
    x = np.linspace(-2, 2, 101)
    np.testing.assert_allclose(dr.erfinv(dr.erf(Float64(x))).numpy(), x, rtol=1e-12, atol=1e-15)
    assert dr.erfinv(dr.erf(0.7)) == pytest.approx(0.7, rel=1e-14)


def test_constants() -> None:
    assert (dr.e, dr.pi, dr.inf) == (math.e, math.pi, math.inf) and math.isnan(dr.nan)
    assert dr.log_two == math.log(2) and dr.inv_log_two == 1 / math.log(2)
    for name, value in (("pi", math.pi), ("two_pi", 2 * math.pi), ("four_pi", 4 * math.pi), ("two", 2.0)):
        exact = pytest.approx(math.sqrt(value), rel=1e-15)
        assert getattr(dr, f"sqrt_{name}") == exact
        if name != "four_pi":
            assert getattr(dr, f"inv_sqrt_{name}") == pytest.approx(1 / math.sqrt(value), rel=1e-15)
        if name != "two":
            assert getattr(dr, name) == value and getattr(dr, f"inv_{name}") == pytest.approx(1 / value, rel=1e-15)


def test_dot_of_flat_arrays_is_one_kernel() -> None:
    x = Float(np.linspace(0, 1, 10_000, dtype=np.float32))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        total = dr.dot(dr.sin(x), x + 1)
        assert not dr.kernel_history()
        value = total[0]
        assert len(dr.kernel_history()) == 1
    y = x.numpy().astype(np.float64)
    assert value == pytest.approx(float(np.dot(np.sin(y), y + 1)), rel=1e-5)


def test_colors_survive_the_round_trip() -> None:
    rng = np.random.default_rng(3)
    for kind, tolerance in ((Array3f, 1e-4), (Array3f64, 1e-6)):
        channels = rng.uniform(0, 1, (3, 100))
        color = kind(*(type(kind(0)[0])(channel) for channel in channels))
        back = dr.oklab_to_linear_srgb(dr.linear_srgb_to_oklab(color))
        for channel, expected in zip(back, channels, strict=True):
            np.testing.assert_allclose(channel.numpy(), expected, atol=tolerance)
    x = rng.uniform(-2, 2, 100)
    np.testing.assert_allclose(dr.srgb_to_linear(dr.linear_to_srgb(Float64(x), clip=False), clip=False).numpy(), x,
                               rtol=1e-6)
    assert dr.srgb_to_linear(dr.linear_to_srgb(0.3)) == pytest.approx(0.3)


def test_variance_does_not_cancel() -> None:
    x = np.random.default_rng(5).normal(1e4, 1, 10_000).astype(np.float32)
    assert dr.var(Float(x))[0] == pytest.approx(float(x.astype(np.float64).var()), rel=1e-4)
    assert dr.std(Float(x), ddof=1)[0] == pytest.approx(float(x.astype(np.float64).std(ddof=1)), rel=1e-4)


def test_angle_of_vectors_that_are_nearly_parallel() -> None:
    assert dr.unit_angle(Array3f(1, 0, 0), Array3f(1, 1e-5, 0))[0] == pytest.approx(1e-5, rel=1e-4)


REFUSALS = [
    (lambda: dr.asin(Int(1)), r"drjit\.asin\(<drjit\.llvm\.Int>\): operation not supported.*int32"),
    (lambda: dr.erf("a"), r"drjit\.erf\(\): 'arg'.*str"), (lambda: dr.atan2("a", 1), r"'arg0'.*str"),
    (lambda: dr.atan2(Float(1, 2), Float(1, 2, 3)), r"drjit\.atan2\(<drjit\.llvm\.Float>\).*sizes: 2, 3"),
    (lambda: dr.atan2(Int(1), 2), r"drjit\.atan2\(<drjit\.llvm\.Int>\).*int32"),
    (lambda: dr.sincosh(Int(1)), r"drjit\.sincosh\(<drjit\.llvm\.Int>\)"),
    (lambda: dr.sincosh("a"), r"drjit\.sincosh.*str"),
    (lambda: dr.sign(Bool(True)), r"drjit\.sign"), (lambda: dr.copysign(Bool(True), Bool(True)), r"drjit\.copysign"),
    (lambda: dr.step("a", 1), r"drjit\.step\(\): 'arg0'.*str"), (lambda: dr.mul_wide(1.5, 2), r"drjit\.mul_wide.*1\.5"),
    (lambda: dr.mul_wide(UInt64(1), 2), r"drjit\.mul_wide\(<drjit\.llvm\.UInt64>\).*uint64"),
    (lambda: dr.mul_wide(Float(1), 2), r"drjit\.mul_wide\(<drjit\.llvm\.Float>\)"),
    (lambda: dr.rad2deg("a"), r"drjit\.rad2deg.*str"), (lambda: dr.epsilon(1.0), r"drjit\.epsilon\(\): 'arg'.*float"),
    (lambda: dr.largest(Int), r"drjit\.largest.*drjit\.llvm\.Int"),
    (lambda: dr.dot(Float(1), 2), r"drjit\.dot\(\): 'arg1'.*int"),
    (lambda: dr.dot(3, [2]), r"drjit\.dot\(\): 'arg0'.*int"), (lambda: dr.dot([1], [1, 2]), r"drjit\.dot.*1 and 2"),
    (lambda: dr.dot(Float(1, 2), Float(1, 2, 3)), r"drjit\.dot\(<drjit\.llvm\.Float>\).*sizes: 2, 3"),
    (lambda: dr.dot(Bool(True), Bool(True)), r"drjit\.dot\(<drjit\.llvm\.Bool>\)"),
    (lambda: dr.norm(3.0), r"drjit\.norm\(\): 'value'.*float"),
    (lambda: dr.normalize([1, 2]), r"drjit\.normalize.*list"),
    (lambda: dr.var(Int(1)), r"drjit\.var\(<drjit\.llvm\.Int>\).*floating-point"),
    (lambda: dr.var(Float(1), ddof=-1), r"'ddof'.*-1"), (lambda: dr.var(Float(1), axis=3), "out-of-bounds axis"),
    (lambda: dr.std(Float(1), mode="x"), "'mode'"), (lambda: dr.var(Array3f(1), keepdims=True), "keepdims"),
    (lambda: dr.linear_to_srgb(Int(1)), r"drjit\.linear_to_srgb\(\): 'x'.*Int"),
    (lambda: dr.srgb_to_linear("a"), r"drjit\.srgb_to_linear\(\): 'x'.*str"),
    (lambda: dr.linear_srgb_to_oklab(Array2f(1)),
     r"drjit\.linear_srgb_to_oklab\(\): 'value'.*3 or 4 channels.*Array2f"),
    (lambda: dr.oklab_to_linear_srgb(Float(1, 2, 3)), r"3 or 4 channels.*Float"),
]


@pytest.mark.parametrize(("expression", "message"), REFUSALS)
def test_refusal_names_function_and_argument(expression: Any, message: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=f"(?s){message}"):
        expression()
