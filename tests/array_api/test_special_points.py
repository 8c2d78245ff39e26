"""Gradients where parts are zero, at seams, and where a formula would lose them: against mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp

#: The derivatives of complex functions, and points beside those on the axes at which they do not exist.
COMPLEX: dict[str, tuple[Callable[[Any], Any], tuple[complex, ...]]] = {
    "acos": (lambda z: -1 / (mpmath.sqrt(1 - z) * mpmath.sqrt(1 + z)), (1, -1)),
    "acosh": (lambda z: 1 / (mpmath.sqrt(z - 1) * mpmath.sqrt(z + 1)), (1, -1)),
    "asin": (lambda z: 1 / (mpmath.sqrt(1 - z) * mpmath.sqrt(1 + z)), (1, -1)),
    "asinh": (lambda z: 1 / (mpmath.sqrt(1 - 1j * z) * mpmath.sqrt(1 + 1j * z)), (1j, -1j)),
    "atan": (lambda z: 1 / (1 + z * z), (1j, -1j)),
    "atanh": (lambda z: 1 / (1 - z * z), (1, -1)),
    "cos": (lambda z: -mpmath.sin(z), ()), "cosh": (mpmath.sinh, ()),
    "exp": (mpmath.exp, ()), "expm1": (mpmath.exp, ()),
    "log": (lambda z: 1 / z, (0,)), "log10": (lambda z: 1 / (z * mpmath.log(10)), (0,)),
    "log1p": (lambda z: 1 / (1 + z), (-1,)), "log2": (lambda z: 1 / (z * mpmath.log(2)), (0,)),
    "reciprocal": (lambda z: -1 / (z * z), (0,)),
    "sin": (mpmath.cos, ()), "sinh": (mpmath.cosh, ()),
    "sqrt": (lambda z: 1 / (2 * mpmath.sqrt(z)), (0,)), "square": (lambda z: 2 * z, ()),
    "tan": (lambda z: 1 / mpmath.cos(z)**2, ()), "tanh": (lambda z: 1 / mpmath.cosh(z)**2, ()),
}
_PARTS = (0.0, 0.5, 1.0, 2.0, -0.5, -1.0, -2.0)
POINTS = [complex(a, b) for a in _PARTS for b in _PARTS]
#: Branch cuts: positions on them, whose zeros have either sign.
CUTS = {**dict.fromkeys(("acos", "asin", "acosh", "atanh", "log", "log10", "log2", "log1p", "sqrt"), "real"),
        "asinh": "imaginary", "atan": "imaginary"}


def _tracked(values: Any, dtype: Any) -> Any:
    found = xp.asarray(np.asarray(values), dtype=dtype)
    dr.enable_grad(found)
    return found


def _close(found: Any, wanted: Any, dtype: Any) -> None:
    eps = float(xp.finfo(dtype).eps)
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=200 * eps, atol=50 * eps)


@pytest.mark.parametrize("dtype", [xp.complex64, xp.complex128], ids=str)
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions_on_the_axes_and_beside(name: str, dtype: Any) -> None:
    derivative, without = COMPLEX[name]
    points = [z for z in POINTS if z not in without]
    # the imaginary zeros of the table are +0: the upper side of cuts on the real axis, which mpmath has, too; the real
    # ones the right side of those on the imaginary axis, which it takes from 1 - i z
    wanted = np.array([complex(derivative(mpmath.mpc(z))) for z in points])
    if CUTS.get(name) == "imaginary":
        on_cut = np.array([z.real == 0 and abs(z.imag) > 1 for z in points])
    elif name in ("acos", "asin"):
        on_cut = np.array([z.imag == 0 and abs(z.real) > 1 for z in points])
    else:
        on_cut = np.zeros(len(points), bool)
    for direction in (1, 1j):
        z = _tracked(points, dtype)
        dr.set_grad(z, xp.full(z.shape, direction, dtype=dtype))
        result = getattr(xp, name)(z)
        dr.forward_to(result)
        found = np.where(on_cut, wanted * direction, np.asarray(dr.grad(result)))
        _close(found, wanted * direction, dtype)
        z = _tracked(points, dtype)
        result = getattr(xp, name)(z)
        dr.set_grad(result, xp.full(z.shape, direction, dtype=dtype))
        dr.backward_from(result)
        reverse = np.asarray(dr.grad(z))
        _close(np.where(on_cut, np.conj(wanted) * direction, reverse), np.conj(wanted) * direction, dtype)


@pytest.mark.parametrize("name", sorted(set(CUTS)))
def test_either_side_of_a_cut_has_the_derivative_of_that_side(name: str) -> None:
    beyond = {"acosh": -2.0, "log": -2.0, "log10": -2.0, "log2": -2.0, "log1p": -3.0, "sqrt": -2.0}.get(name, 2.0)
    for sign in (1.0, -1.0):
        on, near = (complex(beyond, math.copysign(0.0, sign)), complex(beyond, sign * 1e-9)) \
            if CUTS[name] == "real" else (complex(math.copysign(0.0, sign), beyond), complex(sign * 1e-9, beyond))
        found = []
        for point in (on, near):
            z = _tracked([point], xp.complex128)
            dr.backward(xp.real(getattr(xp, name)(z)))
            found.append(np.asarray(dr.grad(z))[0])
        np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", [xp.complex64, xp.complex128], ids=str)
def test_powers(dtype: Any) -> None:
    bases, exponents = (1, 2, -2 + 1j, 1j, 2j, 0.5), (0, 1, 2, 0.5, 1j, -1 + 1j)
    a, b = (np.array(x) for x in zip(*[(p, q) for p in bases for q in exponents], strict=True))
    z, w = _tracked(a, dtype), _tracked(b, dtype)
    result = xp.pow(z, w)
    dr.set_grad(result, xp.ones(result.shape, dtype=dtype))
    dr.backward_from(result)
    by_base = [complex(mpmath.mpc(q) * mpmath.power(p, q - 1)) for p, q in zip(a, b, strict=True)]
    by_exponent = [complex(mpmath.log(p) * mpmath.power(p, q)) for p, q in zip(a, b, strict=True)]
    _close(dr.grad(z), np.conj(by_base), dtype)
    _close(dr.grad(w), np.conj(by_exponent), dtype)
    zero = _tracked([0, 0, 0, 0], dtype)
    dr.backward(xp.real(xp.pow(zero, xp.asarray([0, 1, 2, 3 + 1j], dtype=dtype))))
    _close(dr.grad(zero), [0, 1, 0, 0], dtype)


@pytest.mark.parametrize("dtype", [xp.complex64, xp.complex128], ids=str)
def test_products_and_quotients(dtype: Any) -> None:
    parts = [complex(x, y) for x in (0.0, 0.5, -2.0) for y in (0.0, 1.0, -3.0)]
    a, b = (np.array(x) for x in zip(*[(p, q) for p in parts for q in parts if q], strict=True))
    for function, by_a, by_b in ((xp.multiply, b, a), (xp.divide, 1 / b, -a / (b * b))):
        for direction in (1, 1j):
            z, w = _tracked(a, dtype), _tracked(b, dtype)
            result = function(z, w)
            dr.set_grad(result, xp.full(result.shape, direction, dtype=dtype))
            dr.backward_from(result)
            _close(dr.grad(z), np.conj(by_a) * direction, dtype)
            _close(dr.grad(w), np.conj(by_b) * direction, dtype)
            z, w = _tracked(a, dtype), _tracked(b, dtype)
            result = function(z, w)
            dr.set_grad((z, w), (xp.full(z.shape, direction, dtype=dtype), xp.full(z.shape, 2, dtype=dtype)))
            dr.forward_to(result)
            _close(dr.grad(result), by_a * direction + 2 * by_b, dtype)


@pytest.mark.parametrize("dtype", [xp.complex64, xp.complex128], ids=str)
def test_magnitudes_and_directions(dtype: Any) -> None:
    points = np.array([2, -2, 3j, -0.5j, 1 + 2j, -3 - 4j, 0])
    size = np.abs(points)
    with np.errstate(invalid="ignore"):
        unit = np.where(size == 0, 0, points / size)
    z = _tracked(points, dtype)
    dr.backward(xp.abs(z))
    _close(dr.grad(z), unit, dtype)
    for direction in (1, 1j):
        z = _tracked(points, dtype)
        dr.set_grad(z, xp.full(z.shape, direction, dtype=dtype))
        result = xp.sign(z)
        dr.forward_to(result)
        with np.errstate(invalid="ignore"):
            across = np.where(size == 0, 0, 1j * unit * (direction * np.conj(unit)).imag / size)
        _close(dr.grad(result), across, dtype)


@pytest.mark.parametrize("dtype", [xp.complex64, xp.complex128], ids=str)
def test_quotients_and_directions_in_the_limit(dtype: Any) -> None:
    inf, nan = math.inf, math.nan
    a = [1 + 2j, 1 + 0j, complex(inf, 1), complex(inf, 0), complex(1, 2), complex(nan, 0), complex(3, 4)]
    b = [0j, complex(-0.0, 0), 2 + 0j, 1j, complex(inf, 0), 1 + 0j, 3 + 4j]
    found = np.asarray(xp.divide(xp.asarray(a, dtype=dtype), xp.asarray(b, dtype=dtype)))
    wanted = [complex(inf, inf), complex(-inf, nan), complex(inf, 0), complex(0, -inf), 0, complex(nan, nan), 1]
    np.testing.assert_array_equal(found[[0, 4, 6]], np.array(wanted)[[0, 4, 6]])
    assert found[1].real == -inf and found[2].real == inf and found[3].imag == -inf and np.isnan(found[5])
    z = xp.asarray([complex(inf, 1), complex(-inf, 0), complex(2, -inf), complex(inf, inf), complex(nan, inf), 1e200j],
                   dtype=xp.complex128)
    np.testing.assert_array_equal(np.asarray(xp.sign(z)), [1, -1, -1j, complex(nan, nan), complex(nan, nan), 1j])


# --- real functions --------------------------------------------------------------------------------------------------

REAL: dict[str, tuple[Callable[[Any], Any], tuple[float, ...]]] = {
    "expit": (lambda x: mpmath.exp(-abs(x)) / (1 + mpmath.exp(-abs(x)))**2,
              (-100.0, -50.0, -1.0, 0.0, -0.0, 1.0, 100.0)),
    "log_expit": (lambda x: 1 / (1 + mpmath.exp(x)), (-100.0, -1.0, 0.0, -0.0, 1.0, 50.0)),
    "i0": (lambda x: mpmath.besseli(1, x), (0.0, -0.0, 1.0, -1.0, 30.0, 31.0)),
    "i1": (lambda x: (mpmath.besseli(0, x) + mpmath.besseli(2, x)) / 2, (0.0, -0.0, 1.0, -1.0, 30.0, 31.0)),
    "i1e": (lambda x: mpmath.exp(-abs(x)) * ((mpmath.besseli(0, x) + mpmath.besseli(2, x)) / 2
                                             - mpmath.sign(x) * mpmath.besseli(1, x)),
            (0.0, -0.0, 1.0, -1.0, 29.0, 31.0)),
    "erf": (lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x), (0.0, -0.0, 1.0, -3.0)),
    "erfc": (lambda x: -2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x), (0.0, -0.0, 1.0, -3.0)),
    "ndtr": (mpmath.npdf, (0.0, -0.0, 1.0, -3.0)),
    "log_ndtr": (lambda x: mpmath.npdf(x) / mpmath.ncdf(x), (0.0, -1.0, -8.0, -20.0, 2.0)),
    "logit": (lambda x: 1 / (x * (1 - x)), (0.5, 0.25, 0.75)),
    "exp2": (lambda x: mpmath.log(2) * 2**x, (0.0, -0.0, 1.0)),
    "exp10": (lambda x: mpmath.log(10) * 10**x, (0.0, -0.0, 1.0)),
    "entr": (lambda x: -mpmath.log(x) - 1, (1.0, 0.5)),
    "digamma": (lambda x: mpmath.psi(1, x), (1.0, 0.5, 10.0, -0.5)),
    "gammaln": (mpmath.digamma, (1.0, 2.0, 0.5)),
}
_WIDE = {"i0", "i1", "i1e", "digamma", "log_ndtr"}


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64], ids=str)
@pytest.mark.parametrize("name", REAL)
def test_special_functions_at_zeros_and_seams(name: str, dtype: Any) -> None:
    derivative, points = REAL[name]
    wanted = [float(derivative(mpmath.mpf(x))) for x in points]
    x = _tracked(points, dtype)
    dr.backward(getattr(xp.special, name)(x))
    tolerance = (2e-4 if name in _WIDE else 2e-5) if dtype == xp.float32 else 1e-11
    np.testing.assert_allclose(np.asarray(dr.grad(x)), wanted, rtol=tolerance, atol=tolerance**2)
    x = _tracked(points, dtype)
    result = getattr(xp.special, name)(x)
    dr.forward(x)
    np.testing.assert_allclose(np.asarray(dr.grad(result)), wanted, rtol=tolerance, atol=tolerance**2)


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64], ids=str)
def test_products_with_logarithms_where_x_is_zero(dtype: Any) -> None:
    for function, logarithm in ((xp.special.xlogy, math.log), (xp.special.xlog1py, math.log1p)):
        x, y = _tracked([0.0, 0.0, -0.0, 2.0], dtype), _tracked([0.5, 2.0, 3.0, 3.0], dtype)
        dr.backward(function(x, y))
        np.testing.assert_allclose(np.asarray(dr.grad(x)), [logarithm(v) for v in (0.5, 2, 3, 3)], rtol=1e-6)
        x, y = xp.asarray([0.0, 0.0, math.nan], dtype=dtype), xp.asarray([0.0, math.nan, 1.0], dtype=dtype)
        np.testing.assert_array_equal(np.asarray(function(x, y))[:2], [0, math.nan])


INF, NAN = math.inf, math.nan

#: Derivatives where they are infinite, do not exist, or their formulas would overflow: at the ends of domains, at
#: poles, outside of domains (NaN), and at infinity.
ENDS: dict[str, dict[float, float]] = {
    "special.digamma": {0.0: INF, -1.0: INF, -7.0: INF, INF: 0, -INF: NAN, NAN: NAN},
    "special.entr": {0.0: INF, -1.0: NAN, INF: -INF, NAN: NAN},
    "special.expit": {INF: 0, -INF: 0, NAN: NAN, 1000.0: 0, -1000.0: 0},
    "special.log_expit": {INF: 0, -INF: 1, NAN: NAN, 1000.0: 0, -1000.0: 1},
    "special.logit": {0.0: INF, 1.0: INF, 0.5: 4, NAN: NAN},
    "special.ndtr": {INF: 0, -INF: 0, NAN: NAN},
    "special.log_ndtr": {INF: 0, -INF: INF, NAN: NAN, -1e30: 1e30, 1e30: 0},
    "special.ndtri": {0.0: INF, 1.0: INF, -0.5: NAN, 2.0: NAN, NAN: NAN, 0.5: math.sqrt(2 * math.pi)},
    "special.erf": {INF: 0, -INF: 0, NAN: NAN}, "special.erfc": {INF: 0, -INF: 0, NAN: NAN},
    "special.erfinv": {1.0: INF, -1.0: INF, 0.0: math.sqrt(math.pi) / 2, 2.0: NAN, NAN: NAN},
    "special.i0": {1000.0: INF, -1000.0: -INF, 0.0: 0, 1e-10: 5e-11, -1e-10: -5e-11, NAN: NAN},
    "special.i1": {1000.0: INF, -1000.0: INF, NAN: NAN}, "special.i0e": {0.0: 0, INF: 0, -INF: 0, NAN: NAN},
    "special.i1e": {INF: 0, -INF: 0, NAN: NAN}, "special.exp2": {INF: INF, -INF: 0, NAN: NAN},
    "special.exp10": {INF: INF, -INF: 0, NAN: NAN},
    "acos": {1.0: -INF, -1.0: -INF, 2.0: NAN, NAN: NAN}, "asin": {1.0: INF, -1.0: INF, 2.0: NAN, NAN: NAN},
    "acosh": {1.0: INF, INF: 0, NAN: NAN}, "atanh": {1.0: INF, -1.0: INF, NAN: NAN},
    "asinh": {0.0: 1, INF: 0, -INF: 0, 1e30: 1e-30, NAN: NAN}, "atan": {INF: 0, -INF: 0, NAN: NAN},
    "abs": {0.0: 0, INF: 1, -INF: -1}, "cos": {0.0: 0, INF: NAN, NAN: NAN},
    "sin": {0.0: 1, INF: NAN, NAN: NAN},
    "cosh": {0.0: 0, INF: INF, -INF: -INF}, "sinh": {0.0: 1, INF: INF, -INF: INF}, "tan": {0.0: 1, INF: NAN, NAN: NAN},
    "tanh": {0.0: 1, INF: 0, -INF: 0, NAN: NAN}, "exp": {INF: INF, -INF: 0, NAN: NAN},
    "expm1": {0.0: 1, INF: INF, -INF: 0, 1e-30: 1, NAN: NAN}, "log": {0.0: INF, INF: 0, NAN: NAN},
    "log10": {0.0: INF, INF: 0, 1.0: 1 / math.log(10), 100.0: 0.01 / math.log(10), NAN: NAN},
    "log1p": {-1.0: INF, 0.0: 1, 1e-30: 1, INF: 0, NAN: NAN}, "log2": {0.0: INF, INF: 0, NAN: NAN},
    "reciprocal": {0.0: -INF, INF: 0, -INF: 0, NAN: NAN},
    "sqrt": {0.0: INF, INF: 0, -1.0: NAN, NAN: NAN}, "square": {0.0: 0, INF: INF, -INF: -INF, NAN: NAN},
    **{name: {0.0: 0, 0.5: 0, 1.0: 0, INF: 0} for name in ("sign", "floor", "ceil", "trunc", "round")},
    **{name: {0.0: 1, INF: 1} for name in ("positive", "conj", "real")}, "negative": {0.0: -1, -INF: -1},
}
#: Of these the derivative at -0 is not that at 0.
ONE_SIDED = "log", "log2", "log10", "sqrt", "special.logit"


class _MinusZero:
    """The number -0.0, as a key of its own."""

    def __float__(self) -> float:
        return -0.0


MINUS_ZERO: Any = _MinusZero()


def _function(name: str) -> Any:
    return getattr(xp.special, name[8:]) if name.startswith("special.") else getattr(xp, name)


def _derivatives(function: Any, arrays: list[Any], place: int) -> tuple[Any, Any]:
    """By one of the arguments, in reverse and forward mode."""
    found = []
    for forward in (False, True):
        values = [dr.copy(array) for array in arrays]
        dr.enable_grad(values[place])
        result = function(*values)
        if not dr.grad_enabled(result):
            return (np.zeros(result.shape),) * 2
        (dr.forward if forward else dr.backward)(values[place] if forward else result)
        found.append(np.asarray(dr.grad(result if forward else values[place]), float))
    return found[0], found[1]


@pytest.mark.parametrize("dtype", [xp.float16, xp.float32, xp.float64], ids=str)
@pytest.mark.parametrize("name", ENDS)
def test_ends_of_domains_and_infinity(name: str, dtype: Any) -> None:
    points = {x: value for x, value in ENDS[name].items() if dtype != xp.float16 or not 0 < abs(x) < 1e-4 and (
        math.isinf(x) or abs(x) < 1e4 or math.isnan(x))}
    if 0.0 in points and name not in ONE_SIDED:
        points = {**points, MINUS_ZERO: points[0.0]}
    tolerance = {xp.float16: 5e-3, xp.float32: 1e-5, xp.float64: 1e-10}[dtype]
    for found in _derivatives(_function(name), [xp.asarray(list(map(float, points)), dtype=dtype)], 0):
        np.testing.assert_allclose(found, list(points.values()), rtol=tolerance, atol=1e-20)


#: Derivatives by both arguments: at ties, zeros and infinity.
PAIRS: dict[str, dict[tuple[float, float], tuple[float, float]]] = {
    "special.xlogy": {(0, 2): (math.log(2), 0), (0, 0): (-INF, 0), (0, INF): (INF, 0), (1, 0): (-INF, INF),
                      (2, 2): (math.log(2), 1), (0, -1): (NAN, 0), (1, INF): (INF, 0)},
    "special.xlog1py": {(0, 1): (math.log(2), 0), (0, -1): (-INF, 0), (2, 0): (0, 2), (1, -1): (-INF, INF)},
    "special.rel_entr": {(0, 1): (-INF, 0), (1, 1): (1, -1), (1, 0): (INF, -INF), (-1, 1): (NAN, 1), (0, 0): (NAN, 0)},
    "special.kl_div": {(0, 1): (-INF, 1), (1, 1): (0, 0), (1, 0): (INF, -INF), (2, 1): (math.log(2), -1)},
    "logaddexp": {(0, 0): (0.5, 0.5), (1000, 1000): (0.5, 0.5), (INF, 0): (1, 0), (0, -INF): (1, 0), (-1000, 0): (0, 1),
                  (INF, INF): (NAN, NAN), (-INF, -INF): (NAN, NAN)},
    "hypot": {(0, 0): (0, 0), (3, 4): (0.6, 0.8), (0, -2): (0, -1), (1e30, 1e30): (math.sqrt(0.5), math.sqrt(0.5))},
    "atan2": {(0, 1): (1, 0), (1, 0): (0, -1), (0, -2): (-0.5, 0), (0, 0): (NAN, NAN)},
    "maximum": {(1, 1): (0, 1), (0, -0.0): (0, 1), (2, 1): (1, 0), (1, 2): (0, 1), (INF, INF): (0, 1)},
    "minimum": {(1, 1): (1, 0), (0, -0.0): (1, 0), (2, 1): (0, 1), (1, 2): (1, 0)},
    "copysign": {(2, 1): (1, 0), (2, -1): (-1, 0), (-2, -0.0): (1, 0), (0, 1): (0, 0)},
    "remainder": {(5, 3): (1, -1), (-5, 3): (1, 2), (6, 3): (1, -2), (0, 3): (1, 0)},
    "multiply": {(0, 3): (3, 0), (INF, 2): (2, INF)},
    "divide": {(0, 2): (0.5, 0), (1, 0): (INF, -INF), (1, INF): (0, 0)},
    "pow": {(0, 2): (0, 0), (0, 1): (1, 0), (0, 0): (0, -INF), (2, 0): (0, math.log(2)), (0, 0.5): (INF, 0),
            (-2, 2): (-4, NAN), (INF, -1): (0, 0)},
    "add": {(INF, 1): (1, 1)}, "subtract": {(INF, 1): (1, -1)},
}


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64], ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two_arrays_at_ties_and_ends(name: str, dtype: Any) -> None:
    arrays = [xp.asarray(list(values), dtype=dtype) for values in zip(*PAIRS[name], strict=True)]
    for place in (0, 1):
        for found in _derivatives(_function(name), arrays, place):
            np.testing.assert_allclose(found, [pair[place] for pair in PAIRS[name].values()], rtol=1e-6, atol=1e-20)


#: Functions of the namespace whose second derivatives exist.
SMOOTH = sorted({*COMPLEX, "negative", "positive", "abs", "conj", "real"} - {"acosh"})


@pytest.mark.parametrize("name", [*[f"special.{name}" for name in xp.special.__all__ if name not in (
    "xlogy", "xlog1py", "rel_entr", "kl_div")], *SMOOTH])
def test_derivatives_of_derivatives(name: str) -> None:
    function, values = _function(name), np.array([0.3, 0.6, 0.45, 0.81])

    def gradient(values: Any) -> Any:
        return _derivatives(function, [xp.asarray(values)], 0)[0]

    gradients, products = dr.hvp(lambda x: xp.sum(function(x)), xp.asarray(values), xp.ones(4, dtype=xp.float64))
    np.testing.assert_allclose(np.asarray(gradients), gradient(values), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(products), (gradient(values + 1e-5) - gradient(values - 1e-5)) / 2e-5,
                               rtol=1e-7)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_hyperbolic_tangents_of_infinite_parts_have_the_zeros_of_the_standard(dtype: str) -> None:
    """``1 + 0j`` for every b > 0 (NumPy's zero has the sign of ``sin 2b``); odd, and equal to its conjugate's."""
    b = np.array([0.5, 1.0, 2.0, 3.0, 5.0, 1e30])
    for a in (np.inf, -np.inf):
        for sign in (1.0, -1.0):
            found = np.asarray(xp.tanh(xp.asarray(np.array([complex(a, sign * value) for value in b]).astype(dtype))))
            np.testing.assert_array_equal(found.real, np.sign(a))
            np.testing.assert_array_equal(found.imag, 0)
            np.testing.assert_array_equal(np.signbit(found.imag), sign < 0)


@pytest.mark.parametrize("name", COMPLEX)
def test_second_derivatives_of_complex_functions(name: str) -> None:
    derivative, without = COMPLEX[name]
    inside = [z for z in (0, 0.5, 0.5j, 0.25 + 0.5j, -0.5 - 0.25j, 0.75 - 0.125j) if z not in without]
    points = [z + 2 for z in inside] if name == "acosh" else inside if name not in CUTS or name in (
        "asin", "acos", "atanh", "asinh", "atan", "log1p") else [z + 1 for z in inside]
    second = np.array([complex(mpmath.diff(derivative, z)) for z in points])
    for direction in (1, 1j):
        z = xp.asarray(points, dtype=xp.complex128)
        _, found = dr.hvp(lambda z: xp.sum(xp.real(getattr(xp, name)(z))), z,
                          xp.full(z.shape, direction, dtype=xp.complex128))
        np.testing.assert_allclose(np.asarray(found), np.conj(second * direction), rtol=1e-9, atol=1e-9)
