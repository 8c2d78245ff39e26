"""Errors of the traced functions, sampled, against extended precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
import scipy.special

from drjit_core import JitFlag, Node, math, scoped_set_flag
from drjit_core.types import FLOAT16, FLOAT32, FLOAT64
from tests.math.kernels import DTYPES, FLOATS, compute, fold, to_node, ulp_error

# x87 extended precision has 11 bits more than float64; where it is not, float64 is checked by mpmath alone
EXTENDED = np.finfo(np.longdouble).nmant > 60


class Case(NamedTuple):
    """A function on a domain, and the largest error in units of the last place."""

    name: str
    low: float
    high: float
    ulp: float
    types: tuple[int, ...] = (FLOAT32, FLOAT64)
    logarithmic: bool = False


CASES = [
    Case("sin", -8192, 8192, 1.6),
    Case("cos", -8192, 8192, 1.6),
    Case("tan", -8192, 8192, 2.7),
    Case("sin", -1e6, 1e6, 1.7),
    Case("cos", -1e6, 1e6, 1.7),
    Case("sin", -4.19e6, 4.19e6, 5.5),
    Case("sin", -1e14, 1e14, 1.7, (FLOAT64,)),
    Case("cos", -1e14, 1e14, 1.7, (FLOAT64,)),
    Case("exp", -20, 30, 1.1),
    Case("exp", -87, 88.7, 1.1),
    Case("exp", -708, 709.7, 1.1, (FLOAT64,)),
    Case("exp2", -126, 127.9, 1.2),
    Case("log", 1e-20, 2e30, 0.6),
    Case("log", 1e-37, 1e38, 0.9, logarithmic=True),
    Case("log", 1e-307, 1e308, 0.9, (FLOAT64,), logarithmic=True),
    Case("log", 0.5, 2, 0.9),
    Case("log2", 1e-37, 1e38, 1.6, logarithmic=True),
    Case("log2", 0.5, 2, 1.6),
    Case("cot", -8192, 8192, 2.7),
    Case("asin", -1, 1, 2.1),
    Case("asin", -1, 1, 1.0, (FLOAT64,)),
    Case("asin", 1e-30, 1, 2.1, logarithmic=True),
    Case("acos", -1, 1, 1.3),
    Case("acos", 0.99, 1, 1.5),
    Case("atan", -1, 1, 1.7),
    Case("atan", 1e-30, 1e30, 1.7, logarithmic=True),
    Case("sinh", -10, 10, 2.2),
    Case("sinh", 1e-30, 89, 2.2, logarithmic=True),
    Case("sinh", -710, 710, 2.2, (FLOAT64,)),
    Case("cosh", -10, 10, 2.0),
    Case("cosh", -89, 89, 2.0),
    Case("cosh", -710, 710, 2.0, (FLOAT64,)),
    Case("tanh", -10, 10, 2.8),
    Case("tanh", 1e-30, 30, 2.8, logarithmic=True),
    Case("asinh", -30, 30, 1.8),
    Case("asinh", 1e-30, 1e38, 1.8, logarithmic=True),
    Case("acosh", 1, 10, 2.6),
    Case("acosh", 1, 1.001, 2.6),
    Case("acosh", 1, 1e38, 2.6, logarithmic=True),
    Case("atanh", -1, 1, 1.2),
    Case("atanh", 1e-30, 1, 1.2, logarithmic=True),
    Case("cbrt", -8, 8, 0.75),
    Case("cbrt", 1e-44, 1e38, 0.75, logarithmic=True),
    Case("cbrt", -8, 8, 0.53, (FLOAT64,)),
    Case("cbrt", 1e-320, 1e308, 0.53, (FLOAT64,), logarithmic=True),
    Case("rcp", 1e-37, 1e37, 0.51, logarithmic=True),
    Case("rsqrt", 1e-37, 1e37, 1.0, (FLOAT32,), logarithmic=True),
    Case("rsqrt", 1e-300, 1e300, 1.5, (FLOAT64,), logarithmic=True),
    Case("sin", -100, 100, 0.55, (FLOAT16,)),
    Case("cos", -100, 100, 0.55, (FLOAT16,)),
    Case("exp", -9, 11, 0.55, (FLOAT16,)),
    Case("log", 1e-4, 6e4, 0.55, (FLOAT16,), logarithmic=True),
    *(Case(name, -0.99, 0.99, 0.55, (FLOAT16,)) for name in ("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
                                                             "atanh", "cbrt")),
]
REFERENCES: dict[str, Callable[[Any], Any]] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "rcp": np.reciprocal, "rsqrt": lambda x: 1 / np.sqrt(x), "cot": lambda x: 1 / np.tan(x), "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "cbrt": np.cbrt}
#: Functions whose reference is mpmath: name, domain, largest error.
SLOW: list[tuple[str, float, float, float]] = [
    ("erf", -1, 1, 1.3), ("erf", -6, 6, 1.6), ("erfc", -1, 1, 7.5), ("erfc", 1, 9, 7.5), ("erfinv", -1, 1, 4.6),
    ("erfinv", 0.99, 1, 4.6), ("lgamma", 0, 3, 5.5), ("lgamma", 3, 100, 3), ("lgamma", -0.45, 0, 5.5)]
ALL = sorted({*REFERENCES, "erf", "erfc", "erfinv", "lgamma"})


def _samples(low: float, high: float, logarithmic: bool, dtype: np.dtype[Any], size: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(1)
    if logarithmic:
        return np.exp(rng.uniform(np.log(low), np.log(high), size)).astype(dtype)
    return rng.uniform(low, high, size).astype(dtype)


@pytest.mark.parametrize(("case", "type_"), [(case, type_) for case in CASES for type_ in case.types],
                         ids=lambda value: f"{value.name}-{value.low:g}..{value.high:g}" if isinstance(value, Case)
                         else str(DTYPES[value]))
def test_largest_error(case: Case, type_: int) -> None:
    if type_ == FLOAT64 and not EXTENDED:
        pytest.skip("needs extended precision for reference")
    x = _samples(case.low, case.high, case.logarithmic, DTYPES[type_], 100_000)
    exact = REFERENCES[case.name](x.astype(np.longdouble if type_ == FLOAT64 else np.float64))
    error = ulp_error(compute(getattr(math, case.name), x), exact)
    worst = int(np.argmax(error))
    assert error[worst] <= case.ulp, f"{case.name}({x[worst]!r}): {error[worst]:.2f} ulp"


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_without_fast_math_single_precision_has_the_range_of_double(name: str) -> None:
    x = _samples(-1e14, 1e14, False, DTYPES[FLOAT32], 100_000)
    with scoped_set_flag(JitFlag.FastMath, False):
        result = compute(getattr(math, name), x)
    assert ulp_error(result, REFERENCES[name](x.astype(np.float64))).max() < 1.7


@pytest.mark.parametrize("name", ["sin", "cos", "exp", "log", "exp2", "log2"])
def test_double_precision_against_mpmath(name: str) -> None:
    x = _samples(0.01, 40, True, DTYPES[FLOAT64], 300)
    result = compute(getattr(math, name), x)
    function = {"exp2": lambda v: mpmath.mpf(2) ** v, "log2": lambda v: mpmath.log(v) / mpmath.log(2)}.get(
        name, getattr(mpmath, name, None))
    with mpmath.workprec(120):
        for value, found in zip(x, result, strict=True):
            exact = function(mpmath.mpf(float(value)))
            error = abs(mpmath.mpf(float(found)) - exact) / mpmath.mpf(float(np.spacing(abs(float(exact)))))
            assert error < 1.7, value


def _with_mpmath(name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Values in extended precision, as sums of two doubles."""
    function = mpmath.loggamma if name == "lgamma" else getattr(mpmath, name)
    with mpmath.workdps(30):
        exact = [mpmath.re(function(mpmath.mpf(float(value)))) for value in x]
        high = [float(value) for value in exact]
        low = [float(value - part) for value, part in zip(exact, high, strict=True)]
    return np.array(high, np.longdouble) + np.array(low, np.longdouble)


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "low", "high", "limit"), SLOW)
@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64], ids=lambda t: str(DTYPES[t]))
def test_error_and_gamma_functions(name: str, low: float, high: float, limit: float, type_: int) -> None:
    x = _samples(low, high, False, DTYPES[type_], 1000)
    x = x[np.abs(x) < 1] if name == "erfinv" else x
    assert ulp_error(compute(getattr(math, name), x), _with_mpmath(name, x)).max() <= limit


@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64], ids=lambda t: str(DTYPES[t]))
def test_gamma_of_negative_arguments(type_: int) -> None:
    x = _samples(-20, -0.5, False, DTYPES[type_], 1000)
    exact = _with_mpmath("lgamma", x)
    error = np.abs(compute(math.lgamma, x) - exact) / np.maximum(1, np.abs(exact))
    assert error.max() <= 8 * np.finfo(DTYPES[type_]).eps


@pytest.mark.parametrize("type_", FLOATS, ids=lambda t: str(DTYPES[t]))
@pytest.mark.parametrize(("name", "limit"), [("atan2", 2.9), ("hypot", 1.2)])
def test_functions_of_two_operands(name: str, limit: float, type_: int) -> None:
    rng, largest = np.random.default_rng(6), float(np.finfo(DTYPES[type_]).maxexp)
    for spread in (1.0, 3.0, largest - 2):
        a, b = (np.exp2(rng.uniform(-spread, spread, 20_000)) * rng.choice([-1, 1], 20_000) for _ in range(2))
        a, b = a.astype(DTYPES[type_]), b.astype(DTYPES[type_])
        exact = {"atan2": np.arctan2, "hypot": np.hypot}[name](a.astype(np.longdouble), b.astype(np.longdouble))
        ordinary = np.abs(exact) > 4 * np.finfo(DTYPES[type_]).tiny
        assert ulp_error(compute(getattr(math, name), a, b), exact)[ordinary].max() <= limit


@pytest.mark.parametrize("name", [name for name in ALL if name != "acosh"])
@pytest.mark.parametrize("type_", FLOATS, ids=lambda t: str(DTYPES[t]))
def test_folding_computes_the_same_bits_as_the_kernel(name: str, type_: int) -> None:
    x = np.array([0.0, 1e-3, 0.5, 0.75, 1, 1.5, 3.25, 10], DTYPES[type_])
    function = getattr(math, name)
    np.testing.assert_array_equal([fold(function, type_, float(v)) for v in x], compute(function, x))


EVERY_HALF = ["sin", "cos", "tan", "exp", "exp2", "log", "log2", "rcp", "rsqrt",
              *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ALL if name not in (
                  "sin", "cos", "tan", "exp", "exp2", "log", "log2", "rcp", "rsqrt"))]


@pytest.mark.parametrize("name", EVERY_HALF)
def test_every_half(name: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        if name in ("erf", "erfc", "erfinv", "lgamma"):
            exact = getattr(scipy.special, "gammaln" if name == "lgamma" else name)(x.astype(np.float64))
            exact[np.isinf(x)] = np.inf if name == "lgamma" else exact[np.isinf(x)]
        else:
            exact = REFERENCES[name](x.astype(np.float64))
        expected = exact.astype(np.float16)
        found = compute(getattr(math, name), x)
        ordinary = np.isfinite(expected)
        np.testing.assert_array_equal(found[~ordinary], expected[~ordinary])
        assert ulp_error(found, exact)[ordinary].max() <= 0.51


def test_reciprocal_roots_of_single_precision() -> None:
    """Every 7th number of the two binades that all others are powers of four away from, and all kinds of others."""
    x = np.arange(1 << 24, step=7, dtype=np.uint32) + np.float32(0.5).view(np.uint32)
    x = x.astype(np.uint32).view(np.float32)
    exact = 1 / np.sqrt(x.astype(np.float64))
    found = compute(math.rsqrt, x)
    assert (np.abs(found - exact) / np.spacing(found).astype(np.float64)).max() <= 1.0
    scaled = compute(math.rsqrt, x[::100] * np.float32(2.0 ** -100))
    np.testing.assert_array_equal(scaled, found[::100] * np.float32(2.0 ** 50))
    with np.errstate(all="ignore"):  # by root and division, with the zeros' signs: beside numbers of the usual kind
        others = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1, 1e-45, 1e-39, -1e-40, 2.0 ** -126, 0.25, 4], x.dtype)
        np.testing.assert_array_equal(compute(math.rsqrt, others)[:-3], (1 / np.sqrt(others))[:-3])
        np.testing.assert_array_equal(compute(math.rsqrt, others)[-3:], [2.0 ** 63, 2, 0.5])


@pytest.mark.parametrize(("low", "high", "limit"), [(1e-3, 1e3, 12.0), (0.5, 2.0, 120.0), (1e-38, 1e38, 1.0)])
def test_power_of_single_precision(low: float, high: float, limit: float) -> None:
    a = _samples(low, high, True, DTYPES[FLOAT32], 100_000)
    b = np.random.default_rng(2).uniform(-limit, limit, a.size).astype(np.float32)
    assert ulp_error(compute(math.power, a, b), np.power(a.astype(np.longdouble), b.astype(np.longdouble))).max() < 2


@pytest.mark.parametrize(("low", "high", "limit"), [(1e-3, 1e3, 100.0), (0.5, 2.0, 1000.0), (1e-310, 1e-300, 1.0)])
def test_power_of_double_precision(low: float, high: float, limit: float) -> None:
    a = _samples(low, high, True, DTYPES[FLOAT64], 1000)
    b = np.random.default_rng(2).uniform(-limit, limit, a.size)
    with mpmath.workprec(140):
        for x, y, found in zip(a, b, compute(math.power, a, b), strict=True):
            exact = mpmath.power(mpmath.mpf(float(x)), mpmath.mpf(float(y)))
            spacing = mpmath.mpf(float(np.spacing(abs(float(exact)))))
            largest = 1.2 + 0.02 * abs(float(mpmath.log(exact, 2)))  # the logarithm has a few bits more than the result
            assert abs(mpmath.mpf(float(found)) - exact) <= largest * spacing, (x, y)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 10, 64, -1, -2, -5, 65, -100])
@pytest.mark.parametrize("type_", FLOATS, ids=lambda t: str(DTYPES[t]))
def test_power_with_an_integer_exponent(exponent: int, type_: int) -> None:
    x = np.linspace(-1.05, 1.05, 41).astype(DTYPES[type_])
    with np.errstate(all="ignore"):
        exact = x.astype(np.longdouble) ** exponent
        found = compute(lambda a: math.power(a, exponent), x)
        error = ulp_error(found, exact)
        special = ~np.isfinite(exact.astype(found.dtype))
        np.testing.assert_array_equal(found[special], exact.astype(found.dtype)[special])
    assert np.all(error[~special] <= 0.5 + 0.51 * abs(exponent))


def test_sincos_shares_the_reduction() -> None:
    x = np.linspace(-50, 50, 1000, dtype=np.float32)
    sine, cosine = compute(math.sincos, x)
    np.testing.assert_array_equal(sine, compute(math.sin, x))
    np.testing.assert_array_equal(cosine, compute(math.cos, x))

    def operations(*roots: Node) -> int:
        seen: set[int] = set()
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node.id not in seen:
                seen.add(node.id)
                stack += [d for d in (node.d0, node.d1, node.d2, node.d3) if d is not None]
        return len(seen)

    a = to_node(x)
    assert operations(*math.sincos(a)) < operations(math.sin(a)) + 12


@pytest.mark.parametrize(("name", "bound"), [("sin", 2.2), ("cos", 2.2), ("tan", 3.0)])
@pytest.mark.parametrize(("type_", "low", "high"), [(FLOAT32, 21.5, 128.0), (FLOAT64, 49.5, 1024.0)],
                         ids=["float32", "float64"])
def test_angles_of_any_size(name: str, bound: float, type_: int, low: float, high: float) -> None:
    dtype = DTYPES[type_]
    x = np.exp2(np.random.default_rng(4).uniform(low, high - 1e-6, 400)).astype(dtype)
    # the largest number, and one that is as close to a multiple of pi/2 as any (J.-M. Muller, Elementary Functions)
    worst = 6381956970095103 * 2.0 ** (797 if type_ == FLOAT64 else 20)
    x = np.append(x, np.array([np.finfo(dtype).max, worst], dtype))
    with mpmath.workprec(1400):
        exact = [mpmath.nstr(getattr(mpmath, name)(mpmath.mpf(float(value))), 25) for value in x]
    found = compute(getattr(math, name), x)
    assert ulp_error(found, np.array(exact).astype(np.longdouble)).max() <= bound
    np.testing.assert_array_equal(found, [fold(getattr(math, name), type_, float(value)) for value in x])
