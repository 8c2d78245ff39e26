"""Matrices: products, inverses and decompositions against NumPy, construction, and functions on the sphere."""

from __future__ import annotations

import math

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import (
    Array2f,
    Array2i,
    Array3f,
    Array3f64,
    Array4f64,
    Array22f,
    Complex2f,
    Float,
    Matrix2f,
    Matrix2f64,
    Matrix3f,
    Matrix3f64,
    Matrix4f,
    Matrix4f64,
    Matrix34f,
)

RNG = np.random.default_rng(2)
SIZES = (2, 3, 4)


def random(size: int, count: int = 20) -> tuple[object, np.ndarray]:
    """A matrix array and the same as a stack of NumPy matrices."""
    values = RNG.normal(size=(size, size, count))
    return getattr(llvm, f"Matrix{size}f64")(values), np.moveaxis(values, -1, 0)


def stack(value: object) -> np.ndarray:
    return np.moveaxis(np.asarray(value), -1, 0)


def close(a: object, b: object, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", SIZES)
def test_products(size: int) -> None:
    (a, x), (b, y) = random(size), random(size)
    vector = RNG.normal(size=(size, 20))
    v = getattr(llvm, f"Array{size}f64")(vector)
    close(stack(a * b), x @ y)
    close(stack(a @ b), x @ y)
    close(stack(dr.matmul(a, b, At=True)), np.swapaxes(x, 1, 2) @ y)
    close(stack(dr.matmul(a, b, Bt=True)), x @ np.swapaxes(y, 1, 2))
    close((a @ v).numpy().T, np.einsum("nij,nj->ni", x, vector.T))
    close((v @ a).numpy().T, np.einsum("nij,ni->nj", x, vector.T))
    close(a * v, a @ v)
    close(v * a, v @ a)
    close(v @ v, (vector * vector).sum(0))
    close(stack(dr.fma(a, b, a)), x @ y + x)
    plain = a.array @ b.array  # nested arrays of the shape of matrices
    assert type(plain) is type(a.array)
    close(stack(plain), x @ y)
    assert type(a @ b.array) is type(a)
    close(stack(a**3), np.linalg.matrix_power(x, 3))
    close(stack(a**-2), np.linalg.matrix_power(np.linalg.inv(x), 2), 1e-6)
    close(stack(a**0), np.eye(size) + 0 * x)


@pytest.mark.parametrize("size", SIZES)
def test_determinants_inverses_and_quotients(size: int) -> None:
    (a, x), (b, y) = random(size), random(size)
    close(dr.det(a), np.linalg.det(x))
    for inverse in (dr.rcp(a), dr.inverse(a), 1 / a):
        close(stack(inverse), np.linalg.inv(x), 1e-8)
    close(stack(a / b), x @ np.linalg.inv(y), 1e-8)
    close(stack(2 / a), 2 * np.linalg.inv(x), 1e-8)
    close(stack(a / 2), x / 2)
    close(dr.trace(a), np.trace(x, axis1=1, axis2=2))
    close(dr.frob(a), (x * x).sum((1, 2)))
    close(dr.diag(a).numpy().T, np.diagonal(x, axis1=1, axis2=2))
    close(stack(a.T), np.swapaxes(x, 1, 2))
    close(stack(a.mT), np.swapaxes(x, 1, 2))
    close(dr.transpose(a), a.T)
    close(dr.transpose(a.array), a.T)


@pytest.mark.parametrize("size", SIZES)
def test_polar_decomposition(size: int) -> None:
    a, _ = random(size)
    q, p = dr.polar_decomp(a)
    close(stack(q @ q.T), np.eye(size) + 0 * stack(q))
    close(p, p.T)
    close(q @ p, a)
    assert (np.linalg.eigvalsh(stack(p)) > 0).all()


def test_transformations_are_decomposed_and_composed() -> None:
    values = RNG.normal(size=(4, 4, 30))
    values[3] = np.array([0, 0, 0, 1])[:, None]
    transform = Matrix4f64(values)
    scaling, rotation, translation = dr.transform_decompose(transform)
    close(translation, values[:3, 3])
    close(dr.abs(rotation), np.ones(30))
    close(dr.transform_compose(scaling, rotation, translation), transform)
    sign = np.sign(np.linalg.det(stack(values)[:, :3, :3]))
    assert (np.linalg.eigvalsh(stack(scaling)) * sign[:, None] > 0).all()


def test_single_precision_results_and_mixed_types() -> None:
    m = Matrix2f(1, 2, 3, 4)
    assert repr(m * Array2f(1, 2)) == "[[5, 11]]" and repr(Array2f(1, 2) @ m) == "[[7, 10]]"
    assert type(m * Array2i(1, 2)) is Array2f
    assert type(m * Matrix2f64(1)) is Matrix2f64
    assert repr(m * Float(1, 2)) == "[[[1, 2],\n  [3, 4]],\n [[2, 4],\n  [6, 8]]]"
    assert type(scalar.Matrix2f(1, 2, 3, 4) @ m) is Matrix2f
    assert repr(scalar.Matrix2f(1, 2, 3, 4) + 10) == "[[11, 2],\n [3, 14]]"
    assert repr(Array2f(1, 0) / Matrix2f(2, 0, 0, 4)) == "[[0.5, 0]]"
    assert repr(dr.sqrt(Matrix2f(1, 4, 9, 16))) == "[[[1, 2],\n  [3, 4]]]"  # elementwise
    assert repr(dr.abs(-m)) == repr(m)
    assert repr(m == 1) == "[[[True, False],\n  [False, False]]]"
    assert repr(2 @ m if hasattr(int, "__matmul__") else m @ 2) == repr(m + m)


@pytest.mark.parametrize(("value", "rows"), [
    (lambda: Matrix2f(1, 2, 3, 4), [[1, 2], [3, 4]]), (lambda: Matrix2f([1, 2], [3, 4]), [[1, 2], [3, 4]]),
    (lambda: Matrix2f([[1, 2], [3, 4]]), [[1, 2], [3, 4]]), (lambda: Matrix2f([1, 2, 3, 4]), [[1, 2], [3, 4]]),
    (lambda: Matrix2f(3), [[3, 0], [0, 3]]), (lambda: Matrix2f(Float(3)), [[3, 0], [0, 3]]),
    (lambda: Matrix2f(Array22f([1, 2], [3, 4])), [[1, 2], [3, 4]]),
    (lambda: Matrix2f(np.array([[1, 2], [3, 4]])), [[1, 2], [3, 4]]),
    (lambda: Matrix3f(Matrix2f(1, 2, 3, 4)), [[1, 2, 0], [3, 4, 0], [0, 0, 1]]),
    (lambda: Matrix2f(Matrix3f(1, 2, 3, 4, 5, 6, 7, 8, 9)), [[1, 2], [4, 5]]),
    (lambda: Matrix2f(1, 2, 3, 4) + 10, [[11, 2], [3, 14]]), (lambda: 1 - Matrix2f(1, 2, 3, 4), [[0, -2], [-3, -3]]),
    (lambda: dr.diag(Array2f(1, 2)), [[1, 0], [0, 2]]), (lambda: dr.identity(Matrix3f), np.eye(3)),
    (lambda: dr.full(Matrix2f, 2), [[2, 2], [2, 2]]), (lambda: Array22f(Matrix2f(1, 2, 3, 4)), [[1, 2], [3, 4]]),
])
def test_construction(value: object, rows: list[list[float]]) -> None:
    assert value().numpy()[..., 0].tolist() == np.asarray(rows).tolist()  # type: ignore[operator]


def test_matrices_of_arrays_compute_each_component() -> None:
    values = RNG.normal(size=(3, 3, 4, 5)).astype("f")
    m = Matrix34f(values)
    expected = np.einsum("ijkn,jlkn->ilkn", values, values)
    np.testing.assert_allclose((m * m).numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dr.det(m).numpy(), np.linalg.det(np.moveaxis(values, (2, 3), (0, 1))), rtol=1e-3,
                               atol=1e-4)
    np.testing.assert_allclose((m * Array3f(1, 2, 3)).numpy(), np.einsum("ijkn,j->ikn", values, [1, 2, 3]), rtol=1e-4,
                               atol=1e-5)


@pytest.mark.parametrize("inner", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("kinds", [("Matrix", "Matrix"), ("Matrix", "Array"), ("Array", "Array")])
def test_products_of_entries_with_components_do_not_depend_on_earlier_ones(kinds: tuple[str, str], size: int,
                                                                           inner: int) -> None:
    """Entries with as many components as the matrix has rows make it no larger matrix."""
    rng = np.random.default_rng(0)
    if not hasattr(llvm, f"Matrix{size}{inner}f"):
        pytest.skip("there is no such type")
    left = getattr(llvm, f"Matrix{size}{inner}f" if kinds[0] == "Matrix" else f"Array{size}{size}{inner}f")
    right = getattr(llvm, f"Matrix{size}{inner}f" if kinds[1] == "Matrix" else f"Array{size}{size}{inner}f")
    for _ in range(3):
        a, b = (rng.integers(-3, 4, (size, size, inner, 2)).astype("f4") for _ in range(2))
        found = left(a) @ right(b)
        assert np.array_equal(np.array(found.numpy()), np.einsum("ijkw,jlkw->ilkw", a, b))


@pytest.mark.parametrize("call", [
    lambda m: m < m, lambda m: m % 2, lambda m: m @ Complex2f(1), lambda m: m * Array22f(1), lambda m: m * Matrix3f(1),
    lambda m: m + Array2f(1), lambda m: m * Array3f(1), lambda m: m**0.5, lambda m: dr.matmul(2, 3),
    lambda m: dr.det(Array22f(1)), lambda m: dr.trace(Array2f(1)), lambda m: dr.frob(2), lambda m: dr.diag(Float(1)),
    lambda m: dr.cross(m, m), lambda m: dr.polar_decomp(Array22f(1)), lambda m: dr.transform_decompose(m),
    lambda m: dr.transpose(Array2f(1)), lambda m: dr.matrix_to_quat(m), lambda m: dr.inverse(Array3f(2)), lambda m: m.x,
])
def test_what_is_not_defined_says_so(call: object) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError), match="drjit"):
        call(Matrix2f(1, 2, 3, 4))  # type: ignore[operator]


def test_cross_products() -> None:
    a, b = RNG.normal(size=(2, 3, 20))
    close(dr.cross(Array3f64(a), Array3f64(b)), np.cross(a, b, axis=0))
    assert repr(dr.cross(Array3f(1, 2, 3), scalar.Array3f(3, 2, 5))) == "[[4, 4, -4]]"


def test_homogeneous_coordinates() -> None:
    m = Matrix4f(2)
    m[3, 3] = 1
    m[0, 3] = 5
    assert repr(m @ llvm.Array4f(1, 1, 1, 1)) == "[[7, 2, 2, 1]]"
    assert type(Matrix4f64(1) @ Array4f64(1)) is Array4f64 and type(Matrix3f64(1).T) is Matrix3f64


# --- the sphere ------------------------------------------------------------------------------------------------------


def legendre(degree: int, m: int, z: np.ndarray) -> np.ndarray:
    """Associated Legendre function with the phase of Condon and Shortley, by the recurrence in the degree."""
    start = (-1.0)**m * math.prod(range(1, 2 * m, 2)) * (1 - z * z)**(m / 2)
    if degree == m:
        return start
    before, value = start, (2 * m + 1) * z * start
    for k in range(m + 2, degree + 1):
        before, value = value, ((2 * k - 1) * z * value - (k + m - 1) * before) / (k - m)
    return value


def test_spherical_harmonics() -> None:
    theta, phi = RNG.uniform(0, np.pi, 50), RNG.uniform(-np.pi, np.pi, 50)
    direction = dr.sphdir(llvm.Float64(theta), llvm.Float64(phi))
    close(direction, [np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)])
    values = dr.sh_eval(direction, 10)
    assert len(values) == 121
    for degree in range(11):
        for m in range(-degree, degree + 1):
            k = math.sqrt((2 * degree + 1) / (4 * math.pi) * math.factorial(degree - abs(m))
                          / math.factorial(degree + abs(m)))
            angular = 1.0 if m == 0 else math.sqrt(2) * (np.cos(m * phi) if m > 0 else np.sin(-m * phi))
            close(values[degree * (degree + 1) + m], k * legendre(degree, abs(m), np.cos(theta)) * angular)


def test_spherical_harmonics_of_scalar_arrays_and_their_limits() -> None:
    assert dr.sh_eval(scalar.Array3f(0.6, 0, 0.8), 1) == pytest.approx([0.2820948, 0, 0.3908820, -0.2931615], abs=1e-6)
    for order in (-1, 11, 1.5):
        with pytest.raises((TypeError, ValueError, RuntimeError), match="'order' must be an integer from 0 to 10"):
            dr.sh_eval(Array3f(0, 0, 1), order)
    assert type(dr.sphdir(0.5, 1.0)) is scalar.Array3f64
