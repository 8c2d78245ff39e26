"""Derivatives of functions of quaternions against finite differences, also where they are real numbers: the vector part
is zero there, and only its square has derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Complex2f, Complex2f64, Float, Float16, Float64, Quaternion4f, Quaternion4f16, Quaternion4f64
from tests.derivatives.harness import check

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": dr.exp, "exp2": dr.exp2, "log": dr.log, "log2": dr.log2, "sqrt": dr.sqrt, "rsqrt": dr.rsqrt, "rcp": dr.rcp,
    "to a number": lambda q: q**1.5, "to itself": lambda q: q**q, "of a number": lambda q: 2**q,
    "along the group": lambda q: dr.exp(dr.log(q) * 0.3), "powers of arrays": lambda q: q**Float64(0.7),
}
#: Quaternions as columns: real ones, one next to them, and others.
VALUES = np.array([[0, 0, 0, 1], [0, 0, 0, 0.5], [0, 0, 0, 2.5], [1e-9, 0, 0, 1], [0.2, 0.1, 0, -1], [0, 0, 1, 0],
                   [1, 2, 3, 4], [0.5, -0.5, 0.5, 0.5]]).T
WEIGHTS = (0.3, -0.7, 1.1, 0.4)


def weighted(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def compute(q: Any) -> Any:
        result = function(q)
        return sum(result[k] * WEIGHTS[k] for k in range(4))
    return compute


def gradient(function: Callable[[Any], Any], values: np.ndarray, cls: Any = Quaternion4f64) -> np.ndarray:
    q = cls(*values)
    dr.enable_grad(q)
    dr.backward(weighted(function)(q))
    return np.asarray(dr.grad(q).numpy())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_in_both_modes(name: str) -> None:
    check(FUNCTIONS[name], (Quaternion4f64, VALUES))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(name: str) -> None:
    function, step = FUNCTIONS[name], 1e-5
    for k in range(4):
        direction = np.zeros((4, 1))
        direction[k] = 1
        expected = (gradient(function, VALUES + step * direction) - gradient(function, VALUES - step * direction)) / (
            2 * step)
        _, found = dr.hvp(weighted(function), Quaternion4f64(*VALUES), Quaternion4f64(*map(float, direction[:, 0])))
        scale = 1e-5 * np.maximum(1, np.abs(expected).max(axis=0))
        assert (np.abs(found.numpy() - expected) <= scale).all(), (name, k)


@pytest.mark.parametrize("real", [1.3, 0.2])
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sqrt"])
def test_second_derivatives_next_to_real_numbers(name: str, real: float) -> None:
    def product(cls: Any, size: float) -> np.ndarray:
        q, change = cls(0.3 * size, -0.5 * size, 0.2 * size, real), cls(0.2, -1, 0.4, 0.5)
        return np.ravel(dr.hvp(weighted(FUNCTIONS[name]), q, change)[1].numpy()).astype(float)

    for size in 10.0 ** -np.arange(1, 16):
        expected = product(Quaternion4f64, size)
        # differences of single precision lose digits while the vector part is larger than the fourth root of a rounding
        np.testing.assert_allclose(product(Quaternion4f, size), expected, rtol=0, atol=2e-4 * abs(expected).max())
        if size < 1e-6:  # beside real numbers, they change with the vector part
            limit = product(Quaternion4f64, 0)
            np.testing.assert_allclose(expected, limit, rtol=0, atol=100 * size * abs(limit).max() + 1e-14)


@pytest.mark.parametrize(("cls", "tolerance"), [(Quaternion4f, 1e-5), (Quaternion4f16, 1e-2)])
def test_derivatives_of_less_precision(cls: Any, tolerance: float) -> None:
    for name in ("exp", "log", "sqrt", "rsqrt"):
        expected = gradient(FUNCTIONS[name], VALUES)
        scale = tolerance * np.maximum(1, np.abs(expected).max(axis=0))
        assert (np.abs(gradient(FUNCTIONS[name], VALUES, cls) - expected) <= scale).all(), name


def test_at_the_identity_the_exponential_and_the_logarithm_are_the_identity() -> None:
    for function, point in ((dr.exp, 0.0), (dr.log, 1.0)):
        for k in range(4):
            q = Quaternion4f(0, 0, 0, point)
            dr.enable_grad(q)
            dr.set_grad(q, Quaternion4f(*(float(k == j) for j in range(4))))
            result = function(q)
            dr.forward_from(q)
            assert [dr.grad(result)[j].item() for j in range(4)] == [float(k == j) for j in range(4)]


def test_powers_of_zero() -> None:
    zero = Quaternion4f(0)
    for exponent, real in ((2.5, 0), (0.0, 1), (Quaternion4f(0, 0, 0, 2), 0), (Quaternion4f(1, 2, 3, 4), 0),
                           (Quaternion4f(0), 1)):
        assert (zero**exponent).numpy().ravel().tolist() == [0, 0, 0, real]
    assert np.isnan((zero**Quaternion4f(1, 0, 0, 0)).numpy()).all()
    q = Quaternion4f(0)
    dr.enable_grad(q)
    dr.backward(q**Quaternion4f(1))
    assert dr.grad(q).numpy().ravel().tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("cls", [Float16, Float, Float64])
def test_the_derivative_of_a_length_along_an_infinite_leg(cls: Any) -> None:
    inf = np.inf
    x, y = cls([inf, -inf, 2, 0, 3]), cls([1, 0, -inf, 0, -4])
    dr.enable_grad(x, y)
    length = dr.hypot(x, y)
    dr.backward(length)
    assert length.numpy().tolist() == [inf, inf, inf, 0, 5]
    # 0.6 and 0.8 as half precision has them
    np.testing.assert_allclose(x.grad.numpy(), [1, -1, 0, 0, 0.6], rtol=1e-3)
    np.testing.assert_allclose(y.grad.numpy(), [0, 0, -1, 0, -0.8], rtol=1e-3)


@pytest.mark.parametrize(("cls", "tiny"), [(Complex2f, 1e-40), (Complex2f, 1e-45), (Complex2f64, 5e-324)])
def test_next_to_the_pole_of_the_inverse_tangent(cls: Any, tiny: float) -> None:
    found = dr.atanh(cls(1, tiny)).numpy().item()
    # logarithms of single precision, as those of Complex2f are
    np.testing.assert_allclose(found.real, (np.log(2) - np.log(float(np.asarray(
        tiny, np.float32 if cls is Complex2f else np.float64)))) / 2, rtol=1e-6)
    np.testing.assert_allclose(found.imag, np.pi / 4, rtol=1e-6)


@pytest.mark.parametrize("function", [dr.atan, dr.atanh])
@pytest.mark.parametrize("cls", [Complex2f, Complex2f64])
def test_far_from_zero_the_inverse_tangent_does_not_change(cls: Any, function: Any) -> None:
    z = cls([3e29, -1e8, 1e20, 1e12] if cls is Complex2f else [3e229, -1e8, 1e160, 1e12],
            [1e13, -2e32, 1e20, 1e12] if cls is Complex2f else [1e13, -2e232, 1e160, 1e12])
    dr.enable_grad(z)
    dr.backward(function(z))
    # the square of 1e12 is in range, and that of the others is not; the least result of single precision has 16 bits
    np.testing.assert_allclose(np.abs(z.grad.numpy()), [0, 0, 0, 5e-25 * np.sqrt(2)], rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("function", ["tanh", "tan"])
@pytest.mark.parametrize(("cls", "real", "tolerance"), [
    # a dozen roundings, and a few dozen in second derivatives
    (Complex2f, Float, 2e-6), (Complex2f64, Float64, 4e-15)])
def test_the_slope_of_the_hyperbolic_tangent_far_from_the_axis(cls: Any, real: Any, tolerance: float,
                                                               function: str) -> None:
    # multiples of a quarter are exact in each precision; 1.5 is next to the pole
    along = [-20, -9.5, -5, -0.25, 0, 0.5, 3, 9.5, 14, 20, 35]
    x, y = [part.ravel() for part in np.meshgrid(along, [-7, 0.25, 1.5, 3])]
    if function == "tan":
        x, y = y, x
    compute, exact = getattr(dr, function), getattr(mpmath, function)
    z = cls(real(x), real(y))
    first, second = [], []
    with mpmath.workdps(60):
        for point in x + 1j * y:
            cosine = (mpmath.cosh if function == "tanh" else mpmath.cos)(mpmath.mpc(point))
            first.append(complex(1 / cosine**2))
            second.append(complex((-2 if function == "tanh" else 2) * exact(mpmath.mpc(point)) / cosine**2))
    dr.enable_grad(z)
    dr.backward(compute(z).real)
    # the gradient of a real part is the conjugate of the derivative
    error = np.abs(np.conj(dr.grad(z).numpy()) - first)
    assert (error <= tolerance * np.abs(first)).all()
    _, found = dr.hvp(lambda z: compute(z).real, cls(real(x), real(y)), cls(1, 0))
    assert (np.abs(np.conj(found.numpy()) - second) <= 4 * tolerance * np.abs(second)).all()


@pytest.mark.parametrize("cls", [Complex2f, Complex2f64])
def test_the_slope_of_the_hyperbolic_tangent_at_its_limits(cls: Any) -> None:
    inf, nan = np.inf, np.nan
    z = cls(np.array([100, -800, 1e30, inf, -inf, inf, nan, 100, 1]),
            np.array([0.5, 2, 3, 1, inf, nan, 0, nan, inf]))
    dr.enable_grad(z)
    dr.backward(dr.tanh(z).real)
    found = dr.grad(z).numpy()
    single = cls is Complex2f
    first = 4 * np.exp(-200) * np.exp(1j)  # the gradient is the conjugate of 4 exp(-2 z); 0 in single precision
    assert abs(found[0] - (0 if single else first)) <= 1e-13 * abs(first)  # exp(200) magnifies its rounding
    assert (found[1:6] == 0).all()
    assert np.isnan(found[6:]).all()


@pytest.mark.parametrize(("single", "double", "function"), [
    (Complex2f, Complex2f64, dr.abs), (Quaternion4f, Quaternion4f64, dr.abs), (Quaternion4f, Quaternion4f64, dr.rcp),
    (Quaternion4f, Quaternion4f64, dr.rsqrt), (Quaternion4f, Quaternion4f64, dr.sqrt),
    (Quaternion4f, Quaternion4f64, dr.log)])
def test_derivatives_of_large_and_small_lengths(single: Any, double: Any, function: Any) -> None:
    count = 2 if single is Complex2f else 4
    # where results and their derivatives are in range
    limits = (-18, 18) if function is dr.rcp else (-24, 24) if function is dr.rsqrt else (-37, 36)
    sizes = np.float32(10.0) ** np.arange(*limits, 0.25, np.float32)
    values = np.multiply.outer(np.array(WEIGHTS[:count], np.float32), sizes)

    def gradient(cls: Any, kind: Any) -> np.ndarray:
        z = cls(*map(kind, values.astype(np.float32 if kind is Float else np.float64)))
        dr.enable_grad(z)
        result = function(z)
        dr.backward(result if isinstance(result, kind) else sum(result[k] * WEIGHTS[k] for k in range(count)))
        found = dr.grad(z).numpy()
        return np.abs(found).reshape(-1, sizes.size).astype(float)

    expected, found = gradient(double, Float64), gradient(single, Float)
    # a dozen roundings of single precision
    assert (np.abs(found - expected) <= 2e-6 * expected.max(axis=0)).all()
    if function is dr.abs:
        for size in (1e-30, 7e-16, 1e-16, 1e20):
            _, second = dr.hvp(function, single(*(w * size for w in WEIGHTS[:count])), single(*WEIGHTS[:count][::-1]))
            _, other = dr.hvp(function, double(*(w * size for w in WEIGHTS[:count])), double(*WEIGHTS[:count][::-1]))
            np.testing.assert_allclose(second.numpy().ravel() * size, other.numpy().ravel() * size, rtol=1e-5)


def test_second_derivatives_beside_a_tiny_vector_part() -> None:
    for name in ("exp", "log", "sqrt"):
        for size in (1e-15, 1e-22, 1e-30):
            found, expected = (dr.hvp(weighted(FUNCTIONS[name]), cls(0.3 * size, -0.5 * size, 0, 0.7), cls(
                0.2, -1, 0.4, 0.5))[1].numpy().ravel() for cls in (Quaternion4f, Quaternion4f64))
            np.testing.assert_allclose(found, expected, rtol=1e-5)  # a few dozen roundings of single precision


def test_powers_of_two_turn_by_large_angles() -> None:
    for cls, imaginary, tolerance in ((Complex2f, 2.0**20 + 1, 1e-6), (Complex2f64, 2.0**52 + 1, 1e-15)):
        with mpmath.workprec(200):
            angle = mpmath.mpf(imaginary) * mpmath.log(2)
            expected = 2 * complex(mpmath.cos(angle), mpmath.sin(angle))
        assert abs(dr.exp2(cls(1, imaginary)).numpy().item() - expected) <= 4 * tolerance  # of numbers up to 2
