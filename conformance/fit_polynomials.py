"""Fit the polynomials of ``drjit_core.math`` and print them with their errors.

Each polynomial is the minimax approximation of the part of a function that its expansion does not give exactly, found
by the Remez exchange algorithm (E. Remez, 1934; as in J.-M. Muller, *Elementary Functions*, 3rd ed., section 3.5) at 60
digits.  The weight makes the error relative to the *whole* function.  Coefficients are rounded to the precision they
are used in, and the error of the rounded polynomial, evaluated exactly, is what is printed: it leaves out the rounding
errors of the kernel, which ``conformance/accuracy.py`` measures.

    python conformance/fit_polynomials.py [name ...]
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

mp.mp.dps = 60
Real = Any
Function = Callable[[Real], Real]


class Fit(NamedTuple):
    """``target(x)`` is approximated on ``[low, high]`` such that ``weight(x) * error`` is smallest."""

    target: Function
    weight: Function
    low: Real
    high: Real
    degree: int
    dtype: type[np.floating[Any]]


def _solve(fit: Fit, points: list[Real]) -> list[Real]:
    """Coefficients of the polynomial whose weighted error alternates between the points."""
    n = fit.degree + 2
    matrix, right = mp.matrix(n, n), mp.matrix(n, 1)
    for i, x in enumerate(points):
        for j in range(n - 1):
            matrix[i, j] = x ** j
        matrix[i, n - 1] = (-1) ** i / abs(fit.weight(x))
        right[i] = fit.target(x)
    solution = mp.lu_solve(matrix, right)
    return [solution[j] for j in range(n - 1)]


def _error(fit: Fit, coefficients: list[Real], x: Real) -> Real:
    return abs(fit.weight(x)) * (mp.polyval(coefficients[::-1], x) - fit.target(x))


def _extrema(fit: Fit, coefficients: list[Real], grid: list[Real]) -> list[Real]:
    """The largest error of each run of one sign, which is where the next polynomial's error shall alternate."""
    best: list[tuple[Real, Real]] = []
    for x in grid:
        error = _error(fit, coefficients, x)
        if best and (error > 0) == (best[-1][0] > 0):
            if abs(error) > abs(best[-1][0]):
                best[-1] = (error, x)
        else:
            best.append((error, x))
    while len(best) > fit.degree + 2:  # drop the smaller end
        best.pop(0 if abs(best[0][0]) < abs(best[-1][0]) else -1)
    return [x for _, x in best]


def remez(fit: Fit, samples: int = 600) -> list[Real]:
    """Coefficients of the minimax polynomial, lowest first."""
    middle, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    # points off the zero of the weight, where the weighted error is zero for every polynomial
    grid = [middle - half * mp.cos(mp.pi * (i + mp.mpf(1) / 3) / samples) for i in range(samples)]
    n = fit.degree + 2
    points = [middle - half * mp.cos(mp.pi * (i + mp.mpf("0.47")) / n) for i in range(n)]
    for _ in range(12):
        coefficients = _solve(fit, points)
        exchanged = _extrema(fit, coefficients, grid)
        if len(exchanged) < n or exchanged == points:
            break
        points = exchanged
    return coefficients


def rounded_remez(fit: Fit) -> list[float]:
    """Coefficients in the target precision, lowest first.

    Each is rounded when its turn comes, and the ones above it are fitted again, so that they make up for the rounding.
    (On an interval around zero that would not be a Chebyshev system, and all are rounded at once.)
    """
    coefficients = [float(fit.dtype(float(c))) for c in remez(fit)]
    if fit.low < 0 or fit.degree == 0:
        return coefficients
    first = coefficients[0]
    rest = fit._replace(target=lambda x: (fit.target(x) - first) / x, weight=lambda x: fit.weight(x) * x,
                        degree=fit.degree - 1)
    return [first, *rounded_remez(rest)]


def largest_error(fit: Fit, coefficients: list[float], samples: int = 999) -> Real:
    """Largest weighted error of a polynomial."""
    exact = [mp.mpf(c) for c in coefficients]
    step = (fit.high - fit.low) / samples
    return max(abs(_error(fit, exact, fit.low + step * (i + mp.mpf(1) / 7))) for i in range(samples))


def _log1p_tail(f: Real) -> Real:
    return (mp.log1p(f) - f + f * f / 2) / f ** 3


def _atanh_tail(z: Real) -> Real:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / s ** 3


def _atanh_ratio(z: Real) -> Real:
    s = mp.sqrt(z)
    return mp.atanh(s) / s


def _sin_tail(z: Real) -> Real:
    r = mp.sqrt(z)
    return (mp.sin(r) - r) / r ** 3


def _cos_tail(z: Real) -> Real:
    r = mp.sqrt(z)
    return (mp.cos(r) - 1 + z / 2) / z ** 2


def _tan_tail(z: Real) -> Real:
    r = mp.sqrt(z)
    return (mp.tan(r) - r) / r ** 3


def _asin_tail(z: Real) -> Real:
    s = mp.sqrt(z)
    return (mp.asin(s) - s) / s ** 3


def _atan_tail(z: Real) -> Real:
    t = mp.sqrt(z)
    return (mp.atan(t) - t) / t ** 3


def _sinh_tail(z: Real) -> Real:
    r = mp.sqrt(z)
    return (mp.sinh(r) - r) / r ** 3


def _erf_tail(z: Real) -> Real:
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1


def _erfc_argument(t: Real) -> Real:
    """The argument a with ``t = 1 - 2 K / (a + K)``, ``K = 4``."""
    return 4 * (1 + t) / (1 - t)


@functools.cache
def _erfc_scaled(t: Real) -> Real:
    a = _erfc_argument(t)
    return mp.exp(a * a) * mp.erfc(a) * (a + 4)


@functools.cache
def _erfinv_of_log(w: Real) -> Real:
    """``erfinv(x) / x`` as a function of ``w = -log(1 - x**2)``."""
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


@functools.cache
def _lgamma_at_two(t: Real) -> Real:
    return mp.loggamma(2 + t) / t


@functools.cache
def _stirling_tail(z: Real) -> Real:
    x = 1 / mp.sqrt(z)
    return (mp.loggamma(x) - (x - mp.mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x


def _sinpi_tail(z: Real) -> Real:
    f = mp.sqrt(z)
    return mp.sin(mp.pi * f) / f


_HALF_LOG2 = mp.log(2) / 2 * mp.mpf("1.0001")  # beyond ln(2)/2 by the error of the rounded quotient
_MANTISSA = (mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(mp.mpf(2)) - 1)
_ATANH = (mp.mpf("1e-12"), (3 - 2 * mp.sqrt(mp.mpf(2))) ** 2)  # s = f / (2 + f) reaches 3 - 2 sqrt(2)
_OCTANT = (mp.mpf("1e-12"), (mp.pi / 4 * mp.mpf("1.0001")) ** 2)


def _exp(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(lambda r: (mp.exp(r) - 1 - r) / r ** 2, lambda r: r ** 2 / mp.exp(r), -_HALF_LOG2, _HALF_LOG2, degree,
               dtype)


def _exp2(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    half = mp.mpf("0.50005")
    return Fit(lambda r: (mp.mpf(2) ** r - 1) / r, lambda r: r / mp.mpf(2) ** r, -half, half, degree, dtype)


def _log2(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    scale = 2 / mp.log(2)
    return Fit(lambda z: scale * (_atanh_ratio(z) - 1) / z, lambda z: z / (scale * _atanh_ratio(z)), *_ATANH, degree,
               dtype)


def _atanh(tail: Function, power: int, degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(tail, lambda z: mp.sqrt(z) ** power / (2 * mp.atanh(mp.sqrt(z))), *_ATANH, degree, dtype)


def _sin(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(_sin_tail, lambda z: mp.sqrt(z) ** 3 / mp.sin(mp.sqrt(z)), *_OCTANT, degree, dtype)


def _cos(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(_cos_tail, lambda z: z ** 2 / mp.cos(mp.sqrt(z)), *_OCTANT, degree, dtype)


def _tan(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(_tan_tail, lambda z: mp.sqrt(z) ** 3 / mp.tan(mp.sqrt(z)), *_OCTANT, degree, dtype)


_TINY = mp.mpf("1e-12")
_ROOT_OF_HALF = mp.sqrt(mp.mpf(1) / 2)


def _asin(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(_asin_tail, lambda z: mp.sqrt(z) ** 3 / mp.asin(mp.sqrt(z)), _TINY, mp.mpf(1) / 4, degree, dtype)


def _atan(high: float, degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(_atan_tail, lambda z: mp.sqrt(z) ** 3 / mp.atan(mp.sqrt(z)), _TINY, mp.mpf(high), degree, dtype)


def _sinh(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(_sinh_tail, lambda z: mp.sqrt(z) ** 3 / mp.sinh(mp.sqrt(z)), _TINY, _HALF_LOG2 ** 2, degree, dtype)


def _tanh_tail(z: Real) -> Real:
    r = mp.sqrt(z)
    return (mp.tanh(r) - r) / r ** 3


def _tanh(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(_tanh_tail, lambda z: mp.sqrt(z) ** 3 / mp.tanh(mp.sqrt(z)), _TINY, mp.mpf(1) / 4, degree, dtype)


def _cosh(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(lambda z: (mp.cosh(mp.sqrt(z)) - 1) / z, lambda z: z, _TINY, _HALF_LOG2 ** 2, degree, dtype)


def _cbrt(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(lambda m: 1 / mp.cbrt(m), mp.cbrt, _ROOT_OF_HALF, 2 * _ROOT_OF_HALF, degree, dtype)


def _rsqrt(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(lambda h: 1 / mp.sqrt(1 - h), lambda h: mp.sqrt(1 - h), mp.mpf(5) / 32, mp.mpf(1) / 4, degree, dtype)


def _erf(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(_erf_tail, lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), _TINY, mp.mpf(1), degree, dtype)


def _erfc(degree: int, high: float, dtype: type[np.floating[Any]]) -> Fit:
    low, end = mp.mpf(0.5), mp.mpf(high)
    return Fit(_erfc_scaled, lambda t: 1 / _erfc_scaled(t), 1 - 8 / (low + 4), 1 - 8 / (end + 4), degree, dtype)


def _erf_far(degree: int, high: float, dtype: type[np.floating[Any]]) -> Fit:
    def weight(t: Real) -> Real:  # of the error of erf, which is about 1
        a = _erfc_argument(t)
        return mp.exp(-a * a) / (a + 4) / mp.erf(a)

    low, end = mp.mpf(1), mp.mpf(high)
    return Fit(_erfc_scaled, weight, 1 - 8 / (low + 4), 1 - 8 / (end + 4), degree, dtype)


def _erfinv(center: float, half: float, degree: int, dtype: type[np.floating[Any]], *, root: bool) -> Fit:
    def target(v: Real) -> Real:
        return _erfinv_of_log((v + center) ** 2 if root else v + center)

    return Fit(target, lambda v: 1 / target(v), mp.mpf(-half), mp.mpf(half), degree, dtype)


def _lgamma(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(_lgamma_at_two, lambda t: 1 / _lgamma_at_two(t), -mp.mpf(1) / 2, mp.mpf(1) / 2, degree, dtype)


def _stirling(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    # relative to log(gamma(8)), the smallest value that this is added to
    return Fit(_stirling_tail, lambda z: mp.sqrt(z) / mp.log(5040), _TINY, mp.mpf(1) / 64, degree, dtype)


def _sinpi(degree: int, dtype: type[np.floating[Any]]) -> Fit:
    return Fit(_sinpi_tail, lambda z: 1 / _sinpi_tail(z), _TINY, mp.mpf(1) / 4, degree, dtype)


FITS: dict[str, Fit] = {
    "exp float32": _exp(4, np.float32),
    "exp float64": _exp(9, np.float64),
    "exp2 float32": _exp2(5, np.float32),
    "exp2 float64": _exp2(10, np.float64),
    "log float32": Fit(_log1p_tail, lambda f: f ** 3 / mp.log1p(f), *_MANTISSA, 7, np.float32),
    "log float64": _atanh(_atanh_tail, 3, 6, np.float64),
    "power log2 float32": _log2(3, np.float32),
    "power log2 float64": _log2(6, np.float64),
    "sin float32": _sin(2, np.float32),
    "sin float64": _sin(5, np.float64),
    "cos float32": _cos(2, np.float32),
    "cos float64": _cos(5, np.float64),
    "tan float32": _tan(5, np.float32),
    "tan float64": _tan(13, np.float64),
    "asin float32": _asin(4, np.float32),
    "asin float64": _asin(11, np.float64),
    "atan float32": _atan(0.25, 4, np.float32),
    "atan float64": _atan(0.25, 11, np.float64),
    "atan2 float32": _atan(1.0, 7, np.float32),
    "atan2 float64": _atan(1.0, 18, np.float64),
    "sinh float32": _sinh(1, np.float32),
    "sinh float64": _sinh(4, np.float64),
    "tanh float32": _tanh(3, np.float32),
    "cosh float32": _cosh(2, np.float32),
    "cosh float64": _cosh(5, np.float64),
    "cbrt float32": _cbrt(3, np.float32),
    "cbrt float64": _cbrt(4, np.float64),
    "rsqrt float32": _rsqrt(2, np.float32),
    "erf float32": _erf(6, np.float32),
    "erf float64": _erf(13, np.float64),
    "erf far float32": _erf_far(5, 4.0, np.float32),
    "erf far float64": _erf_far(11, 6.0, np.float64),
    "erfc float32": _erfc(10, 10.1, np.float32),
    "erfc float64": _erfc(21, 27.3, np.float64),
    "erfinv float32": _erfinv(2.5, 2.5, 8, np.float32, root=False),
    "erfinv float64": _erfinv(3.125, 3.125, 22, np.float64, root=False),
    "erfinv tail float32": _erfinv(3.125, 0.9, 9, np.float32, root=True),
    "erfinv tail float64": _erfinv(3.25, 0.76, 19, np.float64, root=True),
    "erfinv far float64": _erfinv(5.03, 1.04, 18, np.float64, root=True),
    "lgamma float32": _lgamma(8, np.float32),
    "lgamma float64": _lgamma(17, np.float64),
    "stirling float32": _stirling(1, np.float32),
    "stirling float64": _stirling(5, np.float64),
    "sinpi float32": _sinpi(5, np.float32),
    "sinpi float64": _sinpi(10, np.float64),
}


def main(names: list[str]) -> None:
    """Print the polynomials that are asked for, or all."""
    for name, fit in FITS.items():
        if names and name not in names:
            continue
        coefficients = rounded_remez(fit)
        error = largest_error(fit, coefficients)
        print(f"{name}: degree {fit.degree} on [{mp.nstr(fit.low, 6)}, {mp.nstr(fit.high, 6)}], "
              f"relative error {mp.nstr(error, 3)} = 2^{mp.nstr(mp.log(error, 2), 4)}")
        for c in coefficients:
            print(f"    {c!r},")


if __name__ == "__main__":
    main(sys.argv[1:])
