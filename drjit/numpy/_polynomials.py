"""Polynomials, by their coefficients in descending order, as NumPy's ``poly`` functions have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import drjit.array_api as xp

from . import linalg
from ._public import Array, array_of, bounds_of_nonzero, decided, floating, is_number, on_host, public
from ._signal import convolve

__all__ = ["poly", "poly1d", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval",
           "roots"]


def _coefficients(p: Any) -> Array:
    array = p.coeffs if isinstance(p, poly1d) else array_of(p)
    return array.reshape(1) if not array.ndim else array


def _like(p: Any, q: Any, found: Array) -> Any:
    """Coefficients as the class of the operands."""
    return poly1d(found) if isinstance(p, poly1d) or isinstance(q, poly1d) else found


@public
def polyval(p: Any, x: Any) -> Any:
    """The values of a polynomial at numbers, by Horner's scheme. Lazy; differentiable."""
    coefficients = _coefficients(p)
    values: Any = x if isinstance(x, poly1d) else array_of(x)
    found: Any = poly1d([0]) if isinstance(x, poly1d) else xp.zeros_like(values)
    for k in range(coefficients.size):
        found = found * values + coefficients[k]
    return found


def _together(a: Array, b: Array) -> tuple[Array, Array]:
    """Coefficients of both polynomials, as many of each."""
    size = max(a.size, b.size)
    first, second = (xp.concat([xp.zeros((size - p.size,), dtype=p.dtype), p]) if p.size < size else p for p in (a, b))
    return first, second


@public
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of polynomials. Lazy; differentiable."""
    first, second = _together(_coefficients(a1), _coefficients(a2))
    return _like(a1, a2, first + second)


@public
def polysub(a1: Any, a2: Any) -> Any:
    """The difference of polynomials. Lazy; differentiable."""
    first, second = _together(_coefficients(a1), _coefficients(a2))
    return _like(a1, a2, first - second)


@public
def polymul(a1: Any, a2: Any) -> Any:
    """The product of polynomials. Lazy; differentiable."""
    return _like(a1, a2, convolve(_trimmed(_coefficients(a1)), _trimmed(_coefficients(a2))))


@public
def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """The quotient of polynomials, and the remainder, whose zeros in front are left out: evaluates. Differentiable."""
    rest, divisor = floating(_coefficients(u)), floating(_coefficients(v))
    size, count = rest.size, divisor.size
    if count > size:
        return _like(u, v, xp.zeros((1,), dtype=rest.dtype)), _like(u, v, rest)
    quotient = []
    for k in range(size - count + 1):
        factor = rest[k] / divisor[0]
        quotient.append(factor.reshape(1))
        rest = rest.at[k:k + count].add(-factor * divisor)

    def first_of_rest(rest: Any) -> int:
        found = np.abs(rest)
        return next((k for k in range(size - count + 1, size) if found[k] > 1e-14 * max(1.0, float(found.max()))),
                    size - 1)

    first = decided(first_of_rest, rest)
    return _like(u, v, xp.concat(quotient)), _like(u, v, rest[first:])


@public
def polyder(p: Any, m: int = 1) -> Any:
    """The derivative of a polynomial, ``m`` times. Lazy; differentiable."""
    if m < 0:
        raise ValueError(f"'m' must not be negative, found {m}.")
    found = _coefficients(p)
    for _ in range(m):
        size = found.size
        found = found[:-1] * xp.arange(size - 1, 0, -1) if size > 1 else found[:0]
    return _like(p, None, found)


@public
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The integral of a polynomial, ``m`` times, with constants ``k`` of integration. Lazy; differentiable."""
    if m < 0:
        raise ValueError(f"'m' must not be negative, found {m}.")
    constants = array_of(0.0 if k is None else k).ravel()
    constants = xp.broadcast_to(constants, (m,)) if constants.size == 1 else constants
    if constants.size < m:
        raise ValueError(f"'k' must be one constant, or {m} of them, found {constants.size}.")
    found = _coefficients(p)
    for step in range(m):
        size = found.size
        found = xp.concat([found / xp.arange(size, 0, -1), constants[step:step + 1]])
    return _like(p, None, found)


def _trimmed(p: Array) -> Array:
    """Coefficients without zeros in front, where Python knows them."""
    first, end = decided(bounds_of_nonzero, p)
    return p[first:] if end else p[-1:]


@public
def roots(p: Any) -> Array:
    """The zeros of a polynomial, as eigenvalues of its companion matrix. Evaluates; differentiable."""
    coefficients = _coefficients(p)
    if coefficients.ndim != 1:
        raise ValueError(f"'p' must have one dimension, found the shape {coefficients.shape}.")
    first, end = decided(bounds_of_nonzero, coefficients)
    if not end:
        return xp.zeros((0,))
    zeros = coefficients.size - end
    inner = floating(coefficients[first:end])
    size = inner.size - 1
    if not size:
        return xp.zeros((zeros,))
    companion = xp.concat([(-inner[1:] / inner[0]).reshape(1, -1), xp.eye(size - 1, size, dtype=inner.dtype)], axis=0) \
        if size > 1 else (-inner[1:] / inner[0]).reshape(1, 1)
    found = linalg.eigvals(companion)
    return xp.concat([found, xp.zeros((zeros,), dtype=found.dtype)]) if zeros else found


def _are_pairs(zeros: Any) -> bool:
    """Whether the conjugates of some numbers are there, too."""
    return bool(np.array_equal(np.sort_complex(zeros), np.sort_complex(zeros.conj())))


@public
def poly(seq_of_zeros: Any) -> Array:
    """The coefficients of the polynomial with some zeros, or the characteristic polynomial of a matrix, which
    evaluates. Lazy else; differentiable."""
    zeros = floating(seq_of_zeros)
    zeros = zeros.reshape(1) if not zeros.ndim else zeros
    if zeros.ndim == 2:
        zeros = linalg.eigvals(zeros)
    elif zeros.ndim != 1:
        raise ValueError(f"needs a vector or a square matrix, found the shape {zeros.shape}.")
    found = xp.ones((1,), dtype=zeros.dtype)
    one = xp.ones((1,), dtype=zeros.dtype)
    for k in range(zeros.size):
        found = convolve(found, xp.concat([one, -zeros[k:k + 1]]))
    if found.dtype.kind == "c":
        if decided(_are_pairs, zeros):
            return xp.real(found)
    return found


@public
def polyfit(x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None,
            cov: bool | str = False) -> Any:
    """The coefficients of the polynomial of a degree that fits points best by least squares, weighted by ``w``; with
    ``full`` also residuals, rank, singular values and ``rcond``, with ``cov`` the covariances. Evaluates;
    differentiable."""
    points, values = floating(x), floating(y)
    if deg < 0:
        raise ValueError(f"'deg' must not be negative, found {deg}.")
    if points.ndim != 1 or values.ndim not in (1, 2) or not points.size:
        raise TypeError(f"'x' must be a vector and 'y' a vector or matrix, found the shapes {points.shape} and "
                        f"{values.shape}.")
    if points.shape[0] != values.shape[0]:
        raise TypeError(f"'x' and 'y' must have as many points, found {points.shape[0]} and {values.shape[0]}.")
    limit = points.size * float(xp.finfo(points.dtype).eps) if rcond is None else rcond
    matrix = xp.stack([xp.ones_like(points) if not k else points ** k for k in range(deg, -1, -1)], axis=-1)
    if w is not None:
        weights = floating(w)
        matrix = matrix * weights[:, None]
        values = values * (weights if values.ndim == 1 else weights[:, None])
    scale = xp.sqrt((matrix * matrix).sum(axis=0))
    divisor = scale if values.ndim == 1 else scale[:, None]
    if full:
        solution, residuals, rank, singular = linalg.lstsq(matrix / scale, values, limit)
        return solution / divisor, residuals, rank, singular, limit
    found = xp.linalg.pinv(matrix / scale, rtol=limit) @ values / divisor
    if not cov:
        return found
    base = linalg.inv(matrix.T @ matrix)
    if cov == "unscaled":
        return found, base
    if points.size <= deg + 1:
        raise ValueError("there must be more points than coefficients for covariances.")
    rest = values - matrix @ found
    factor = (rest * rest).sum(axis=0) / (points.size - deg - 1)
    return found, base * factor if values.ndim == 1 else base[:, :, None] * factor


class poly1d:
    """A polynomial of one variable, with its arithmetic: ``p(x)``, ``p + q``, ``p * q``, ``p ** n``, ``p.deriv()``,
    ``p.integ()``, ``p.roots``. Zeros in front of the coefficients are left out, for which they are evaluated."""

    __module__ = "drjit.numpy"
    __hash__ = None  # type: ignore[assignment]  # coefficients may change

    def __init__(self, c_or_r: Any, r: bool = False, variable: str = "x") -> None:
        given = poly(c_or_r) if r else _coefficients(c_or_r)
        self.coeffs, self.variable = _trimmed(given), variable

    @property
    def c(self) -> Array:
        """The coefficients, in descending order."""
        return self.coeffs

    coef = coefficients = c

    @property
    def order(self) -> int:
        """The degree."""
        return self.coeffs.size - 1

    o = order

    @property
    def roots(self) -> Array:
        """The zeros."""
        return roots(self.coeffs)

    r = roots

    def __call__(self, val: Any) -> Any:
        return polyval(self, val)

    def __len__(self) -> int:
        return self.order

    def __iter__(self) -> Iterator[Array]:
        return iter(self.coeffs)

    def __getitem__(self, power: int) -> Any:
        return self.coeffs[self.order - power] if 0 <= power <= self.order else xp.asarray(0)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.coeffs, dtype=dtype)

    def __neg__(self) -> poly1d:
        return poly1d(-self.coeffs)

    def __add__(self, other: Any) -> poly1d:
        return poly1d(polyadd(self.coeffs, _coefficients(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> poly1d:
        return poly1d(polysub(self.coeffs, _coefficients(other)))

    def __rsub__(self, other: Any) -> poly1d:
        return poly1d(polysub(_coefficients(other), self.coeffs))

    def __mul__(self, other: Any) -> poly1d:
        return poly1d(polymul(self.coeffs, _coefficients(other)))

    __rmul__ = __mul__

    def __pow__(self, number: int) -> poly1d:
        if not isinstance(number, int) or number < 0:
            raise ValueError(f"drjit.numpy.poly1d: powers must be integers that are not negative, found {number!r}.")
        found = poly1d([1])
        for _ in range(number):
            found = found * self
        return found

    def __truediv__(self, other: Any) -> Any:
        return poly1d(self.coeffs / other) if is_number(other) else polydiv(self, other)

    def __eq__(self, other: object) -> bool:
        host = on_host(self.coeffs)
        return isinstance(other, poly1d) and bool(np.array_equal(host, on_host(other.coeffs)))

    def __repr__(self) -> str:
        return f"poly1d({on_host(self.coeffs).tolist()})"

    def __str__(self) -> str:
        return str(np.poly1d(on_host(self.coeffs), variable=self.variable))

    def deriv(self, m: int = 1) -> poly1d:
        """The derivative, ``m`` times."""
        return poly1d(polyder(self.coeffs, m)) if m <= self.order else poly1d([0])

    def integ(self, m: int = 1, k: Any = 0) -> poly1d:
        """The integral, ``m`` times, with constants of integration."""
        return poly1d(polyint(self.coeffs, m, k))
