"""Quaternions and rotations: algebra, functions, conversions to and from matrices and Euler angles, interpolation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import (
    Array3f,
    Array3f64,
    Array4f,
    Float,
    Matrix3f64,
    Matrix4f64,
    Quaternion4f,
    Quaternion4f16,
    Quaternion4f64,
)

RNG = np.random.default_rng(1)


def random(count: int = 50) -> Quaternion4f64:
    return Quaternion4f64(RNG.normal(size=(4, count)))


def rotations(count: int = 50) -> Quaternion4f64:
    return dr.normalize(random(count))


def close(a: object, b: object, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def as_matrices(q: Quaternion4f64) -> np.ndarray:
    """Complex 2x2 matrices that multiply like quaternions, one for each."""
    x, y, z, w = q.numpy()
    return np.moveaxis(np.array([[w + 1j * x, y + 1j * z], [-y + 1j * z, w - 1j * x]]), -1, 0)


@pytest.mark.parametrize(("units", "product"), [
    ("ij", "1k"), ("jk", "1i"), ("ki", "1j"), ("ji", "-1k"), ("kj", "-1i"), ("ik", "-1j"), ("ii", "-1"),
    ("jj", "-1"), ("kk", "-1"), ("wi", "1i"),
])
def test_products_of_units(units: str, product: str) -> None:
    a, b = (Quaternion4f(*(float(unit == letter) for letter in "ijkw")) for unit in units)
    assert repr(a * b) == f"[{product}]"


def test_algebra_is_that_of_matrices() -> None:
    a, b = random(), random()
    close(as_matrices(a * b), as_matrices(a) @ as_matrices(b))
    close(as_matrices(a / b), as_matrices(a) @ np.linalg.inv(as_matrices(b)))
    close(as_matrices(dr.rcp(a)), np.linalg.inv(as_matrices(a)))
    close(as_matrices(a**3), np.linalg.matrix_power(as_matrices(a), 3))
    close(as_matrices(a**-2), np.linalg.matrix_power(np.linalg.inv(as_matrices(a)), 2), 1e-11)
    close(as_matrices(dr.fma(a, b, a)), as_matrices(a) @ as_matrices(b) + as_matrices(a))
    close(dr.abs(a) ** 2, (a * dr.conj(a)).w)


def test_functions_invert_each_other() -> None:
    q = random()
    close(dr.sqrt(q) ** 2, q)
    close(dr.rsqrt(q) * dr.sqrt(q), np.array([[0.0]] * 3 + [[1.0]]) + 0 * q.numpy())
    close(dr.exp(dr.log(q)), q)
    close(dr.exp2(dr.log2(q)), q)
    close(dr.power(q, 0.5), dr.sqrt(q))
    eigenvalues, vectors = np.linalg.eig(as_matrices(q))
    expected = vectors @ (np.exp(eigenvalues)[..., None] * np.linalg.inv(vectors))
    close(as_matrices(dr.exp(q)), expected, 1e-11)


@pytest.mark.parametrize("function", [lambda q, p: q**p, lambda q, p: dr.rsqrt(q)])
def test_half_precision_is_rounded_once(function: Callable[..., Any]) -> None:
    x, y = RNG.normal(size=(2, 4, 200)).astype(np.float16)
    found = function(Quaternion4f16(x), Quaternion4f16(y)).numpy().astype(float)
    expected = function(*(Quaternion4f64(values.astype(float)) for values in (x, y))).numpy()
    assert (np.abs(found - expected) <= 2e-3 * np.linalg.norm(expected, axis=0)).all()


def test_functions_of_real_quaternions() -> None:
    assert repr(dr.sqrt(Quaternion4f(4))) == "[2]" and repr(dr.sqrt(Quaternion4f(-4))) == "[2i]"
    assert repr(dr.exp(Quaternion4f(0))) == "[1]" and repr(dr.log(Quaternion4f(-1))) == "[3.14159i]"
    assert dr.abs(Quaternion4f(3e30, 0, 0, 4e30)).item() == np.float32(5e30)


@pytest.mark.parametrize(("value", "text"), [
    (lambda: Quaternion4f(1, 2, 3, 4) + 10, "[1i+2j+3k+14]"), (lambda: Quaternion4f(0, -1, 0, -2), "[-1j-2]"),
    (lambda: dr.scalar.Quaternion4f(1, 2, 3, 4) + 10, "1i+2j+3k+14"), (lambda: Quaternion4f(0), "[0]"),
    (lambda: Quaternion4f([1, 2], 2, 3, 4), "[1i+2j+3k+4,\n 2i+2j+3k+4]"), (lambda: Quaternion4f(), "[]"),
    (lambda: Quaternion4f(Array4f(1, 2, 3, 4)), "[1i+2j+3k+4]"), (lambda: Quaternion4f(Float(1, 2)), "[1,\n 2]"),
    (lambda: Quaternion4f(1, 2, 3, 4) * Float(1, 2), "[1i+2j+3k+4,\n 2i+4j+6k+8]"),
    (lambda: 2 - Quaternion4f(1, 2, 3, 4), "[-1i-2j-3k-2]"), (lambda: Quaternion4f(1, 2, 3, 4) / 2,
                                                             "[0.5i+1j+1.5k+2]"),
    (lambda: dr.identity(Quaternion4f), "[1]"), (lambda: dr.full(Quaternion4f, 2), "[2]"),
])
def test_construction_and_representation(value: object, text: str) -> None:
    assert repr(value()) == text  # type: ignore[operator]


def test_parts() -> None:
    q = Quaternion4f(1, 2, 3, 4)
    assert [q.x.item(), q.y.item(), q.z.item(), q.w.item(), q.real.item()] == [1, 2, 3, 4, 4]
    assert type(q.imag) is Array3f and repr(dr.imag(q)) == "[[1, 2, 3]]" and repr(dr.real(q)) == "[4]"
    q.x, q.real = 5, 6
    assert repr(q) == "[5i+2j+3k+6]"
    assert repr(q.array) == "[[5, 2, 3, 6]]"
    assert repr(q == q) == "[[True, True, True, True]]"


def rotation_matrix(axis: int, angle: float) -> np.ndarray:
    c, s, result = np.cos(angle), np.sin(angle), np.eye(3)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    result[i, i] = result[j, j] = c
    result[i, j], result[j, i] = -s, s
    return result


@pytest.mark.parametrize("axis", range(3))
def test_rotations_about_the_axes(axis: int) -> None:
    unit = [0.0, 0.0, 0.0]
    unit[axis] = 1.0
    q = dr.rotate(Quaternion4f64, Array3f64(unit), 0.7)
    close(dr.quat_to_matrix(Matrix3f64, q).numpy()[..., 0], rotation_matrix(axis, 0.7))
    close(dr.quat_to_matrix(Matrix4f64, q).numpy()[:3, :3, 0], rotation_matrix(axis, 0.7))


def test_matrices_and_quaternions_of_rotations() -> None:
    q, v = rotations(200), Array3f64(RNG.normal(size=(3, 200)))
    m = dr.quat_to_matrix(Matrix3f64, q)
    close(m @ v, dr.quat_apply(q, v))
    close((m @ m.T).numpy(), np.eye(3)[..., None] + 0 * m.numpy())
    close(dr.quat_to_matrix(Matrix3f64, dr.matrix_to_quat(m)), m)
    found, expected = dr.matrix_to_quat(m).numpy(), q.numpy()
    close(found * np.sign((found * expected).sum(0)), expected)
    for k in range(3):  # half turns: the trace is -1
        d = -np.eye(3)
        d[k, k] = 1
        assert abs(dr.matrix_to_quat(Matrix3f64(d)).numpy()[k, 0]) == 1


def test_euler_angles() -> None:
    angles = RNG.uniform(-1.5, 1.5, (3, 100))
    q = dr.euler_to_quat(Array3f64(angles))
    close(dr.quat_to_euler(q), angles)
    first = dr.quat_to_matrix(Matrix3f64, q).numpy()[..., 0]
    x, y, z = angles[:, 0]
    close(first, rotation_matrix(2, z) @ rotation_matrix(1, y) @ rotation_matrix(0, x))
    for pitch in (np.pi / 2, -np.pi / 2):  # the same rotation, by other angles
        q = dr.euler_to_quat(Array3f64(0.1, pitch, 0.3))
        again = dr.euler_to_quat(dr.quat_to_euler(q))
        close(dr.abs(dr.dot(q, again)), [1.0])


def test_spherical_interpolation() -> None:
    z = Array3f64(0, 0, 1)
    a, b = Quaternion4f64(1), dr.rotate(Quaternion4f64, z, 1.5)
    t = np.array([0.0, 0.25, 0.5, 1.0])
    expected = dr.rotate(Quaternion4f64, z, type(z.x)(1.5 * t))
    close(dr.slerp(a, b, type(z.x)(t)), expected)
    close(dr.slerp(a, -b, type(z.x)(t)), expected)
    close(dr.slerp(b, b, 0.3), b)


@pytest.mark.parametrize("call", [dr.sin, dr.tanh, dr.erf, dr.floor, dr.arg, lambda q: q < q, lambda q: q % 2,
                                  lambda q: dr.slerp(q, 1, 0.5), lambda q: dr.rotate(Array3f, q, 1),
                                  lambda q: dr.quat_apply(q, q), lambda q: dr.quat_to_matrix(Array3f, q)])
def test_what_is_not_defined_says_so(call: object) -> None:
    with pytest.raises(TypeError, match=r"quaternion|3D array|matri"):
        call(Quaternion4f(1, 2, 3, 4))  # type: ignore[operator]
