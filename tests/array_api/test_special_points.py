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
