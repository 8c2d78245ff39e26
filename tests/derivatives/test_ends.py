"""Derivatives at zeros, seams, ends of domains, infinity, NaN and ties, forward and reverse, in every precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import drjit as dr
from drjit.llvm import ad

INF, NAN = math.inf, math.nan
E, LOG_2, ROOT_PI = math.e, math.log(2), math.sqrt(math.pi)
TYPES = {"BFloat16": 4e-2, "Float16": 1e-2, "Float": 1e-5, "Float64": 1e-10}
precisions = pytest.mark.parametrize("precision", TYPES)

#: Derivatives of functions of one number.
UNARY: dict[str, dict[float, float]] = {
    "sin": {0.0: 1, INF: NAN, NAN: NAN}, "cos": {0.0: 0, -INF: NAN, NAN: NAN},
    "tan": {0.0: 1, INF: NAN, NAN: NAN}, "cot": {0.0: -INF, 1.0: -1 / math.sin(1)**2, INF: NAN},
    "asin": {0.0: 1, 1.0: INF, -1.0: INF, 2.0: NAN, NAN: NAN}, "acos": {0.0: -1, 1.0: -INF, -1.0: -INF, 2.0: NAN},
    "atan": {0.0: 1, 1.0: 0.5, INF: 0, -INF: 0, NAN: NAN},
    "sinh": {0.0: 1, INF: INF, -INF: INF, NAN: NAN}, "cosh": {0.0: 0, INF: INF, -INF: -INF, NAN: NAN},
    "tanh": {0.0: 1, INF: 0, -INF: 0, NAN: NAN}, "asinh": {0.0: 1, INF: 0, -INF: 0, NAN: NAN},
    "acosh": {1.0: INF, INF: 0, 2.0: 1 / math.sqrt(3), NAN: NAN}, "atanh": {0.0: 1, 1.0: INF, -1.0: INF, NAN: NAN},
    "exp": {0.0: 1, 1.0: E, INF: INF, -INF: 0, NAN: NAN}, "exp2": {0.0: LOG_2, 1.0: 2 * LOG_2, INF: INF, -INF: 0},
    "log": {0.0: INF, 1.0: 1, INF: 0, NAN: NAN}, "log2": {0.0: INF, 1.0: 1 / LOG_2, INF: 0, NAN: NAN},
    "sqrt": {0.0: INF, 1.0: 0.5, INF: 0, -1.0: NAN, NAN: NAN}, "rsqrt": {0.0: -INF, 1.0: -0.5, INF: 0, -1.0: NAN},
    "cbrt": {0.0: INF, 1.0: 1 / 3, -1.0: 1 / 3, INF: 0, NAN: NAN},
    "rcp": {0.0: -INF, 1.0: -1, -1.0: -1, INF: 0, NAN: NAN},
    "abs": {0.0: 0, 1.0: 1, -1.0: -1, INF: 1, -INF: -1}, "square": {0.0: 0, 1.0: 2, INF: INF, -INF: -INF},
    "erf": {0.0: 2 / ROOT_PI, INF: 0, -INF: 0, NAN: NAN},
    "erfc": {0.0: -2 / ROOT_PI, INF: 0, -INF: 0, NAN: NAN},
    "erfinv": {0.0: ROOT_PI / 2, 1.0: INF, -1.0: INF, 2.0: NAN, NAN: NAN},
    "lgamma": {1.0: -0.5772156649015329, 2.0: 0.42278433509846713, INF: INF, NAN: NAN},
    "safe_sqrt": {0.0: 0, -1.0: 0, 1.0: 0.5, -INF: 0, INF: 0}, "safe_asin": {0.0: 1, 1.0: 0, -1.0: 0, 2.0: 0, -INF: 0},
    "safe_acos": {0.0: -1, 1.0: 0, -1.0: 0, 2.0: 0, INF: 0},
    **{name: {0.0: 0, 0.5: 0, 1.0: 0, -1.0: 0, INF: 0} for name in ("sign", "floor", "ceil", "round", "trunc")},
    "rad2deg": {0.0: 180 / math.pi, INF: 180 / math.pi}, "deg2rad": {0.0: math.pi / 180, INF: math.pi / 180},
}
#: Of these the derivative at -0 is not that at 0.
ONE_SIDED = "log", "log2", "sqrt", "rsqrt"
#: Likewise of two: by both.
BINARY: dict[str, dict[tuple[float, float], tuple[float, float]]] = {
    "minimum": {(1, 1): (1, 0), (0, -0.0): (1, 0), (2, 1): (0, 1), (INF, INF): (1, 0), (3, NAN): (0, 1)},
    "maximum": {(1, 1): (0, 1), (0, -0.0): (0, 1), (2, 1): (1, 0), (INF, INF): (0, 1), (3, NAN): (0, 1)},
    "fmin": {(1, 1): (1, 0), (2, 1): (0, 1), (3, NAN): (1, 0), (NAN, 3): (0, 1)},
    "fmax": {(1, 1): (1, 0), (2, 1): (1, 0), (3, NAN): (1, 0), (NAN, 3): (0, 1)},
    "hypot": {(0, 0): (0, 0), (3, 4): (0.6, 0.8), (0, -2): (0, -1), (-2, 0): (-1, 0)},
    "atan2": {(0, 1): (1, 0), (1, 0): (0, -1), (0, -2): (-0.5, 0), (0, 0): (NAN, NAN), (INF, 1): (0, 0),
              (1, -INF): (0, 0)},
    "power": {(0, 2): (0, 0), (0, 1): (1, 0), (0, 0): (0, -INF), (2, 0): (0, LOG_2), (0, 0.5): (INF, 0),
              (-2, 2): (-4, NAN), (INF, -1): (0, 0), (1, 1): (1, 0)},
    "copysign": {(2, 1): (1, 0), (2, -1): (-1, 0), (-2, -0.0): (1, 0), (0, 1): (1, 0)},
    "mulsign": {(2, 1): (1, 0), (2, -0.0): (1, 0), (-2, -1): (-1, 0)},
}
#: Functions of all elements.
WHOLE: dict[str, dict[tuple[float, ...], tuple[float, ...]]] = {
    "min": {(1, 1, 1): (1, 1, 1), (0, 1, 0): (1, 0, 1)}, "max": {(1, 1, 1): (1, 1, 1), (0, 1, 0): (0, 1, 0)},
    "prod": {(0, 2, 3): (6, 0, 0), (0, 0, 3): (0, 0, 0), (2, 3, 4): (12, 8, 6)},
    "norm": {(0, 0, 0): (0, 0, 0), (0, 3, 4): (0, 0.6, 0.8)}, "var": {(1, 1, 1): (0, 0, 0)},
    "cumsum": {(0, INF, 1): (3, 2, 1)}, "sum": {(0, INF, NAN): (1, 1, 1)},
}


def derivatives(function: Callable[..., Any], arrays: list[Any], place: int) -> list[list[float]]:
    """By one of the arguments, in reverse and forward mode: those of the sum of the results, and of each."""
    found = []
    for forward in (False, True):
        values = [type(array)(array) for array in arrays]
        dr.enable_grad(values[place])
        result = function(*values)
        if not dr.grad_enabled(result):
            return [[0.0] * len(arrays[place])] * 2
        (dr.forward if forward else dr.backward)(values[place] if forward else result)
        found.append(list(dr.grad(result if forward else values[place])))
    return found


def assert_near(found: Any, wanted: Any, precision: str) -> None:
    np.testing.assert_allclose(np.array(found, float), np.array(wanted, float), rtol=TYPES[precision], atol=1e-30)


@precisions
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str, precision: str) -> None:
    points, wanted = list(UNARY[name]), list(UNARY[name].values())
    if 0.0 in points and name not in ONE_SIDED:
        points, wanted = [*points, -0.0], [*wanted, UNARY[name][0.0]]
    for found in derivatives(getattr(dr, name), [getattr(ad, precision)(points)], 0):
        assert_near(found, wanted, precision)


@precisions
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name: str, precision: str) -> None:
    arrays = [getattr(ad, precision)(list(values)) for values in zip(*BINARY[name], strict=True)]
    for place in (0, 1):
        for found in derivatives(getattr(dr, name), arrays, place):
            assert_near(found, [pair[place] for pair in BINARY[name].values()], precision)


@precisions
@pytest.mark.parametrize("name", WHOLE)
def test_functions_of_all_elements(name: str, precision: str) -> None:
    for values, wanted in WHOLE[name].items():
        found, _ = derivatives(getattr(dr, name), [getattr(ad, precision)(list(values))], 0)
        assert_near(found, wanted, precision)


@precisions
def test_clipping(precision: str) -> None:
    x = getattr(ad, precision)(0, 1, 2, 3, 4, INF, -INF)
    for found in derivatives(lambda x: dr.clip(x, 1, 3), [x], 0):
        assert_near(found, [0, 0, 1, 1, 0, 0, 0], precision)


#: Functions of one number in mpmath, and where they have second derivatives: zeros, seams of expansions, and more.
_EVERYWHERE = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0)
SECOND: dict[str, tuple[Any, tuple[float, ...]]] = {
    "sin": (mpmath.sin, _EVERYWHERE), "cos": (mpmath.cos, _EVERYWHERE), "tan": (mpmath.tan, _EVERYWHERE),
    "cot": (mpmath.cot, (0.5, -0.5, 1.0)), "asin": (mpmath.asin, (0.0, -0.0, 0.5, -0.75)),
    "acos": (mpmath.acos, (0.0, -0.0, 0.5, -0.75)), "atan": (mpmath.atan, _EVERYWHERE),
    "sinh": (mpmath.sinh, _EVERYWHERE), "cosh": (mpmath.cosh, _EVERYWHERE), "tanh": (mpmath.tanh, _EVERYWHERE),
    "asinh": (mpmath.asinh, _EVERYWHERE), "acosh": (mpmath.acosh, (1.5, 2.0)),
    "atanh": (mpmath.atanh, (0.0, -0.0, 0.5, -0.75)), "exp": (mpmath.exp, _EVERYWHERE),
    "exp2": (lambda x: mpmath.mpf(2)**x, _EVERYWHERE), "log": (mpmath.log, (0.5, 1.0, 2.0)),
    "log2": (lambda x: mpmath.log(x, 2), (0.5, 1.0, 2.0)), "sqrt": (mpmath.sqrt, (0.5, 1.0, 4.0)),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), (0.5, 1.0, 4.0)),
    "cbrt": (lambda x: mpmath.sign(x) * abs(x)**(mpmath.mpf(1) / 3), (0.5, 1.0, -1.0)),
    "rcp": (lambda x: 1 / x, (0.5, 1.0, -1.0)), "square": (lambda x: x * x, _EVERYWHERE),
    "abs": (abs, (0.5, -0.5)), "erf": (mpmath.erf, _EVERYWHERE), "erfc": (mpmath.erfc, _EVERYWHERE),
    "erfinv": (mpmath.erfinv, (0.0, 0.5, -0.5)), "lgamma": (mpmath.loggamma, (0.5, 1.0, 2.0, 5.0)),
}
SECOND_OF_TWO: dict[str, tuple[Any, tuple[tuple[float, float], ...]]] = {
    "hypot": (mpmath.hypot, ((3, 4), (0, 2), (-2, 0))), "atan2": (mpmath.atan2, ((0, 1), (1, 0), (2, -1))),
    "power": (lambda x, y: x**y, ((1, 1), (2, 3), (0.5, -1), (2, 0))),
    "copysign": (lambda x, y: abs(x) * mpmath.sign(y), ((2, 1), (2, -1))),
}
#: Rules that are written for less than double precision approximate second derivatives as well as they do first ones.
_LOOSE = {"Float": 2e-4, "Float64": 1e-8}


@pytest.mark.parametrize("precision", _LOOSE)
@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str, precision: str) -> None:
    function, points = SECOND[name]
    x = getattr(ad, precision)(list(points))
    gradient, product = dr.hvp(lambda x: dr.sum(getattr(dr, name)(x)), x, dr.ones(type(x), len(points)))
    tolerance = _LOOSE[precision]
    for order, found in ((1, gradient), (2, product)):
        wanted = [float(mpmath.diff(function, x, order)) for x in points]
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("precision", _LOOSE)
@pytest.mark.parametrize("name", SECOND_OF_TWO)
def test_second_derivatives_by_two_numbers(name: str, precision: str) -> None:
    function, points = SECOND_OF_TWO[name]
    kind = getattr(ad, precision)
    x, y = (kind(list(values)) for values in zip(*points, strict=True))
    ones, zeros = dr.ones(kind, len(points)), dr.zeros(kind, len(points))
    for place, directions in enumerate(((ones, zeros), (zeros, ones))):
        _, products = dr.hvp(lambda x, y: dr.sum(getattr(dr, name)(x, y)), (x, y), directions)
        for other, found in enumerate(products):
            orders = [0, 0]
            orders[place] += 1
            orders[other] += 1
            wanted = [float(mpmath.diff(function, point, tuple(orders))) for point in points]
            np.testing.assert_allclose(found, wanted, rtol=_LOOSE[precision], atol=_LOOSE[precision])


@pytest.mark.parametrize(("cls", "exponent", "tolerance"), [
    (ad.BFloat16, 100, 4e-2), (ad.Float, 100, 1e-6), (ad.Float64, 800, 1e-14)])  # a few roundings of the type
def test_derivatives_where_squares_are_out_of_range(cls: Any, exponent: int, tolerance: float) -> None:
    large, small = 2.0**exponent, 2.0**-exponent

    def gradients(function: Callable[..., Any], *values: list[float]) -> list[list[float]]:
        arrays = [cls(value) for value in values]
        dr.enable_grad(*arrays)
        dr.backward(function(*arrays))
        return [[float(number) for number in dr.grad(array)] for array in arrays]

    (found,) = gradients(dr.asinh, [large, -large, small])
    np.testing.assert_allclose(found, [small, small, 1], rtol=tolerance)
    (found,) = gradients(dr.acosh, [large])
    np.testing.assert_allclose(found, [small], rtol=tolerance)
    by_y, by_x = gradients(dr.atan2, [large, small, -small, large], [large, small, small, small])
    # the last one is the third power of the small number, which some types do not have: it is far below the others
    np.testing.assert_allclose(by_y, [small / 2, large / 2, large / 2, 0], rtol=tolerance, atol=small**1.3)
    np.testing.assert_allclose(by_x, [-small / 2, -large / 2, large / 2, -small], rtol=tolerance)


@pytest.mark.parametrize("precision", ["Float", "Float64"])
def test_derivatives_of_tanh_have_all_digits_where_it_is_nearly_linear_or_constant(precision: str) -> None:
    points = (2.0**-66, -(2.0**-10), 0.96875, 1.03125, 5, 9.5, -20, 40)  # exact in each precision
    x = getattr(ad, precision)(list(points))
    found = dr.hvp(lambda x: dr.sum(dr.tanh(x)), x, dr.ones(type(x), len(points)))
    with mpmath.workdps(60):
        first = [1 / mpmath.cosh(point)**2 for point in points]
        second = [-2 * mpmath.tanh(point) * slope for point, slope in zip(points, first, strict=True)]
    for one, exact in zip(found, (first, second), strict=True):
        np.testing.assert_allclose(one, [float(value) for value in exact],
                                   rtol=2e-6 if precision == "Float" else 4e-15)  # a dozen roundings
