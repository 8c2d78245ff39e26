"""Zeros, infinities, NaN, denormal numbers and the ends of the range, as C99 and NumPy define them."""

from __future__ import annotations

import math as pymath
from typing import Any

import numpy as np
import pytest

from drjit_core import BAKED, JitFlag, UnsupportedType, evaluate, kernel_history, literal, math, scoped_set_flag
from drjit_core.types import BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT32, UINT32, UINT64
from tests.math.kernels import DTYPES, FLOATS, compute, fold, to_node

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, np.inf, -np.inf, np.nan]
#: Denormal numbers, and arguments next to overflow, underflow and its last bit.
ENDS = {
    FLOAT16: [6e-8, 1e-5, -6e-8, 11.08, 11.1, -16.5, -17.4, 15.99, 16.0, -24.0, -25.1],
    FLOAT32: [1e-45, 1e-40, -1e-45, 1.1754944e-38, 88.72283, 88.7229, 89.0, -87.4, -100.0, -103.9, -104.0, 127.99999,
              128.0, -126.5, -149.0, -150.0, -1e30, 1e30],
    FLOAT64: [5e-324, 2e-310, -5e-324, 2.2250738585072014e-308, 709.78, 709.79, 710.5, -708.5, -740.0, -745.1, -745.2,
              1023.9999, 1024.0, -1022.5, -1074.0, -1075.0, -1e300, 1e300],
}


def _same(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], tolerance: float) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        close = np.abs(found - expected) <= tolerance * np.spacing(np.abs(expected))
    equal = (found == expected) & (np.signbit(found) == np.signbit(expected))
    return equal | (np.isnan(found) & np.isnan(expected)) | close & (expected != 0)


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2"])
@pytest.mark.parametrize("type_", FLOATS, ids=lambda t: str(DTYPES[t]))
def test_exponentials_and_logarithms(name: str, type_: int) -> None:
    x = np.array(SPECIAL + ENDS[type_], DTYPES[type_])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(np.longdouble)).astype(x.dtype)
    found = compute(getattr(math, name), x)
    wrong = ~_same(found, expected, 1.0)
    assert not wrong.any(), list(zip(x[wrong], found[wrong], expected[wrong], strict=True))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("type_", FLOATS, ids=lambda t: str(DTYPES[t]))
def test_trigonometry(name: str, type_: int) -> None:
    x = np.array(SPECIAL + [6e-8, -6e-8, 1e-3, np.pi, np.pi / 2, 100.0, float(np.finfo(DTYPES[type_]).tiny)],
                 DTYPES[type_])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(np.longdouble)).astype(x.dtype)
    found = compute(getattr(math, name), x)
    wrong = ~_same(found, expected, 3.0)
    assert not wrong.any(), list(zip(x[wrong], found[wrong], expected[wrong], strict=True))


MORE = [3.0, -3.0, 1e4, 26.5, 10.0]
LIMITS = {FLOAT16: [11.79, 11.81, 65504.0], FLOAT32: [89.41, -89.4, 89.42, 3.4e38, -3.4e38],
          FLOAT64: [710.47, -710.47, 710.48, 1.7e308, -1.7e308]}
INVERSE: dict[str, Any] = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "cbrt": np.cbrt, "erf": np.vectorize(pymath.erf),
    "erfc": np.vectorize(pymath.erfc)}


def _ends(type_: int) -> np.ndarray[Any, Any]:
    finfo = np.finfo(DTYPES[type_])
    tiny = [finfo.tiny, finfo.smallest_subnormal, finfo.eps]
    values = SPECIAL + MORE + LIMITS[type_] + tiny + [-value for value in tiny] + [1 + finfo.eps, 1 - finfo.eps / 2]
    return np.array(values, DTYPES[type_])


@pytest.mark.parametrize("name", INVERSE)
@pytest.mark.parametrize("type_", FLOATS, ids=lambda t: str(DTYPES[t]))
def test_hyperbolic_inverse_and_error_functions(name: str, type_: int) -> None:
    x = _ends(type_)
    with np.errstate(all="ignore"):
        expected = INVERSE[name](x.astype(np.longdouble)).astype(x.dtype)
    found = compute(getattr(math, name), x)
    wrong = ~_same(found, expected, 7.5 if name == "erfc" else 3.0)
    assert not wrong.any(), list(zip(x[wrong], found[wrong], expected[wrong], strict=True))


@pytest.mark.parametrize("name", ["atan2", "hypot"])
@pytest.mark.parametrize("type_", FLOATS, ids=lambda t: str(DTYPES[t]))
def test_two_operands(name: str, type_: int) -> None:
    a, b = (grid.ravel() for grid in np.meshgrid(_ends(type_), _ends(type_)))
    with np.errstate(all="ignore"):
        function = np.arctan2 if name == "atan2" else np.hypot
        expected = function(a.astype(np.longdouble), b.astype(np.longdouble)).astype(a.dtype)
    found = compute(getattr(math, name), a, b)
    wrong = ~_same(found, expected, 3.0)
    assert not wrong.any(), list(zip(a[wrong], b[wrong], found[wrong], expected[wrong], strict=True))


@pytest.mark.parametrize(("name", "arguments", "expected"), [
    ("lgamma", [0.0, -0.0, 1.0, 2.0, -1.0, -7.0, np.inf, -np.inf, np.nan, -1e5], [np.inf, np.inf, 0, 0, np.inf, np.inf,
                                                                             np.inf, np.inf, np.nan, np.inf]),
    ("erfinv", [0.0, 1.0, -1.0, 1.5, -np.inf, np.nan], [0, np.inf, -np.inf, np.nan, np.nan, np.nan]),
    ("cot", [0.0, -0.0, np.inf, np.nan], [np.inf, -np.inf, np.nan, np.nan])])
@pytest.mark.parametrize("type_", FLOATS, ids=lambda t: str(DTYPES[t]))
def test_poles_and_domains(name: str, arguments: list[float], expected: list[float], type_: int) -> None:
    with np.errstate(over="ignore"):
        x = np.array(arguments, DTYPES[type_])
    np.testing.assert_array_equal(compute(getattr(math, name), x), np.array(expected, DTYPES[type_]))


@pytest.mark.parametrize("name", ["asin", "atan", "sinh", "tanh", "asinh", "atanh", "cbrt", "erf", "erfinv"])
@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64], ids=lambda t: str(DTYPES[t]))
def test_odd_functions_are_exactly_odd(name: str, type_: int) -> None:
    x = np.random.default_rng(8).uniform(0, 1, 1000).astype(DTYPES[type_])
    np.testing.assert_array_equal(compute(getattr(math, name), -x), -compute(getattr(math, name), x))


@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64], ids=lambda t: str(DTYPES[t]))
def test_sine_and_cosine_stay_in_range_for_every_argument(type_: int) -> None:
    finfo = np.finfo(DTYPES[type_])
    x = np.exp2(np.random.default_rng(3).uniform(finfo.minexp, finfo.maxexp - 1, 20000)).astype(DTYPES[type_])
    for name in ("sin", "cos"):
        assert np.all(np.abs(compute(getattr(math, name), x)) <= 1 + finfo.eps)
        np.testing.assert_array_equal(compute(getattr(math, name), -x),
                                      compute(getattr(math, name), x) * (-1 if name == "sin" else 1))


def test_double_precision_cosine_of_ten_billion() -> None:
    assert compute(math.cos, np.array([1e10]))[0] == pytest.approx(0.873119622676856, rel=1e-15)


@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64], ids=lambda t: str(DTYPES[t]))
def test_exponential_gradual_underflow(type_: int) -> None:
    low, high = (-103.97, -87.4) if type_ == FLOAT32 else (-745.13, -708.4)
    x = np.linspace(low, high, 5000).astype(DTYPES[type_])
    expected = np.exp(x.astype(np.longdouble)).astype(x.dtype)
    assert np.all(_same(compute(math.exp, x), expected, 1.0))


@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64], ids=lambda t: str(DTYPES[t]))
def test_exact_results(type_: int) -> None:
    integers = np.arange(-149 if type_ == FLOAT32 else -1074, 128, dtype=DTYPES[type_])
    powers = np.ldexp(np.ones_like(integers), integers.astype(np.int32))  # np.exp2 is off in float32
    np.testing.assert_array_equal(compute(math.exp2, integers), powers)
    np.testing.assert_array_equal(compute(math.log2, powers), integers)
    one = np.ones(1, DTYPES[type_])
    assert compute(math.log, one)[0] == 0 and compute(math.exp, one * 0)[0] == 1


POWERS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1 / 3, -1 / 3, 4.5, np.inf, -np.inf, np.nan, 1e4, -1e4,
          1025.0, 6e-8]


@pytest.mark.parametrize("type_", FLOATS, ids=lambda t: str(DTYPES[t]))
def test_power_is_numpys(type_: int) -> None:
    more = {FLOAT16: [], FLOAT32: [1e30, -1e-40, 2.0 ** 24 - 1, 1e-45],
            FLOAT64: [1e300, -1e-310, 2.0 ** 53 - 1, 5e-324]}
    values = np.array(POWERS + more[type_], DTYPES[type_])
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.power(a.astype(np.longdouble), b.astype(np.longdouble)).astype(a.dtype)
    found = compute(math.power, a, b)
    wrong = ~_same(found, expected, 1.0)
    assert not wrong.any(), list(zip(a[wrong], b[wrong], found[wrong], expected[wrong], strict=True))


@pytest.mark.parametrize("exponent", [3.0, -3.0, 0.5, 0.0, -1.0, np.inf, np.nan])
def test_power_with_a_literal_exponent_is_the_same(exponent: float) -> None:
    a = np.array(POWERS, np.float32)
    found = compute(lambda node: math.power(node, literal(FLOAT32, exponent)), a)
    np.testing.assert_array_equal(found, compute(math.power, a, np.full_like(a, exponent)))


def test_folded_special_values() -> None:
    assert fold(math.log, FLOAT32, 0.0) == -np.inf
    assert np.isnan(fold(math.log, FLOAT64, -1.0))
    assert fold(math.exp, FLOAT32, np.inf) == np.inf and fold(math.exp, FLOAT32, -np.inf) == 0
    assert np.isnan(fold(math.sin, FLOAT32, np.inf))
    assert np.signbit(fold(math.sin, FLOAT64, -0.0))
    assert fold(math.power, FLOAT64, -2.0, 3.0) == -8


def test_integer_powers_wrap_around() -> None:
    a = np.arange(-20, 20, dtype=np.int32)
    np.testing.assert_array_equal(compute(lambda n: math.power(n, 11), a), a ** 11)
    b = np.arange(20, dtype=np.uint64)
    np.testing.assert_array_equal(compute(lambda n: math.power(n, 20), b), b ** np.uint64(20))
    np.testing.assert_array_equal(compute(lambda n: math.power(n, 0), a), np.ones_like(a))


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sin", "cos", "tan", "rcp", "rsqrt", "acos", "asin",
                                  "atan", "sinh", "cosh", "sincosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "erf",
                                  "erfc", "erfinv", "lgamma", "cot"])
@pytest.mark.parametrize("type_", [BOOL, INT8, INT32, UINT64])
def test_functions_of_floats_refuse_other_types(name: str, type_: int) -> None:
    with pytest.raises(UnsupportedType):
        getattr(math, name)(literal(type_, 1, 1, BAKED))


@pytest.mark.parametrize("name", ["atan2", "hypot"])
def test_functions_of_two_floats_refuse_other_types(name: str) -> None:
    with pytest.raises(UnsupportedType, match="int32"):
        getattr(math, name)(literal(INT32, 1), literal(INT32, 1))
    with pytest.raises(UnsupportedType):
        getattr(math, name)(literal(FLOAT32, 1), literal(FLOAT64, 1))


def test_power_refuses_what_has_no_result() -> None:
    with pytest.raises(UnsupportedType, match="negative exponent"):
        math.power(literal(UINT32, 3), -1)
    with pytest.raises(UnsupportedType):
        math.power(literal(INT32, 3), literal(INT32, 2))
    with pytest.raises(UnsupportedType):
        math.power(literal(BOOL, True), 2)


@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64], ids=lambda t: str(DTYPES[t]))
def test_fractional_exponents_share_one_kernel(type_: int) -> None:
    a = to_node(np.linspace(0.1, 2, 100).astype(DTYPES[type_]))
    with scoped_set_flag(JitFlag.KernelHistory, True):
        kernel_history()
        for exponent in (0.3, 2.3, -7.25):
            evaluate([math.power(a, literal(type_, exponent))])
        assert len({entry["hash"] for entry in kernel_history()}) == 1
