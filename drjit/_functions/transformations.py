"""Rotations, transformations of space, and functions on the sphere.

Everything here is written with operators and functions of arrays. Rotations are unit quaternions ``(x, y, z, w)`` with
``w = cos(angle / 2)``; Euler angles are applied about the axes x, y, z in this order.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import drjit_core as core

from .._arrays.matrix import MatrixBase
from .._arrays.quaternion import QuaternionBase
from .._arrays.scalar import rounding
from .._arrays.special import SpecialArray
from .._base.arguments import require_angle
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.types import SCALAR, Record, lookup, reshape
from .._base.typing import ArrayT, T
from .._base.values import plain_scalar
from .._promotion.promote import wrap
from .creation import constant
from .elementwise import abs as _abs
from .elementwise import atan, atan2, fma, select, sin, sincos, sqrt
from .linalg import cross, det, polar_decomp
from .traits import is_float_v

__all__ = ["arg", "conj", "euler_to_quat", "identity", "imag", "matrix_to_quat", "quat_apply", "quat_to_euler",
           "quat_to_matrix", "real", "rotate", "sh_eval", "slerp", "sphdir", "transform_compose", "transform_decompose"]


# --- parts of complex numbers and quaternions ------------------------------------------------------------------------


def real(arg: Any, /) -> Any:
    """Real part of complex numbers and quaternions; other values are returned as they are.

    ``arg`` is an array or a Python number. Evaluates nothing.

    >>> from drjit.llvm import Complex2f, Quaternion4f
    >>> dr.real(Complex2f(3, 4)), dr.real(Quaternion4f(1, 2, 3, 4)), dr.real(5.0)
    ([3], [4], 5.0)
    """
    if isinstance(arg, (ArrayBase, complex)):
        return arg.real
    return arg


def imag(arg: Any, /) -> Any:
    """Imaginary part of complex numbers, ``(i, j, k)`` part of quaternions as a 3D array; else zero.

    ``arg`` is an array or a Python number. Evaluates nothing.

    >>> from drjit.llvm import Complex2f, Quaternion4f
    >>> dr.imag(Complex2f(3, 4)), dr.imag(Quaternion4f(1, 2, 3, 4)), dr.imag(5.0)
    ([4], [[1, 2, 3]], 0.0)
    """
    if isinstance(arg, (ArrayBase, complex)):
        return arg.imag
    return type(arg)(0)


def conj(arg: T, /) -> T:
    """Conjugate of complex numbers and quaternions; other values are returned as they are.

    Evaluates nothing.

    >>> from drjit.llvm import Complex2f
    >>> dr.conj(Complex2f(3, 4))
    [3-4j]
    """
    value: Any = arg
    if isinstance(value, ArrayBase):
        value = value._function("conj") if value._special in ("complex", "quaternion") else value
    elif isinstance(value, complex):
        value = value.conjugate()
    result: T = value
    return result


def arg(z: Any, /) -> Any:
    """Argument (angle) of a complex number, from -pi to pi; of real numbers, 0 or pi by their sign.

    ``z`` is an array or a Python number; the result has the type of the real part. Raises a ``TypeError`` for
    quaternions and anything else. Evaluates nothing.

    >>> from drjit.llvm import Complex2f, Float
    >>> dr.arg(Complex2f(0, 2))
    [1.5708]
    >>> dr.arg(Float(3, -3))
    [0, 3.14159]
    """
    if isinstance(z, ArrayBase):
        if z._special == "complex":
            return z._function("arg")
        if z._special == "quaternion":
            raise TypeError(f"drjit.arg(): the function is not defined for quaternions (found <{z._name}>).")
        negative: Any = z < 0  # type: ignore[operator]
        half: Any = type(z)(math.pi) if is_float_v(z) else math.pi
        return select(negative, half, 0.0)
    if isinstance(z, complex):
        return math.atan2(z.imag, z.real)
    number = plain_scalar(z)
    if number is None:
        raise TypeError(f"drjit.arg(): 'z' must be a Dr.Jit array or a Python number, found {describe(z)}.")
    return math.pi if number < 0 else 0.0


def identity(dtype: type[T], size: int = 1) -> T:
    """The identity element of a type: the identity matrix, or 1.

    ``dtype`` is an array type, ``bool``, ``int`` or ``float``, or a PyTree class, else a ``TypeError`` is raised.
    ``size`` is that of the trailing dimension. Evaluates nothing.

    >>> from drjit.llvm import Matrix2f, Quaternion4f
    >>> dr.identity(Matrix2f)
    [[[1, 0],
      [0, 1]]]
    >>> dr.identity(Quaternion4f)
    [1]
    """
    function = "drjit.identity"
    if isinstance(dtype, type) and issubclass(dtype, SpecialArray):
        flat: Any = constant(dtype._leaf, size, 1, function, "size")
        return dtype(flat)
    return constant(dtype, size, 1, function, "size")


# --- types -----------------------------------------------------------------------------------------------------------


def _relative(function: str, array: ArrayBase, kind: str, shape: tuple[int, ...]) -> Any:
    found = lookup(array._record._replace(kind=kind, shape=shape))
    if found is None:
        raise TypeError(f"{function}(): there is no {kind} type that goes with {array._name}.")
    return found


def _quaternion(function: str, value: Any, name: str) -> Any:
    if not isinstance(value, QuaternionBase):
        raise TypeError(f"{function}(): '{name}' must be a quaternion, found {describe(value)}.")
    return value


def _vector3(function: str, value: Any, name: str) -> Any:
    if not isinstance(value, ArrayBase) or value._special or value._record.shape[:1] != (3,):
        raise TypeError(f"{function}(): '{name}' must be a 3D array, found {describe(value)}.")
    return value


# --- rotations -------------------------------------------------------------------------------------------------------


@rounding
def rotate(dtype: type[T], axis: ArrayBase, angle: ArrayBase | float) -> T:
    """The quaternion of a rotation by ``angle`` radians about ``axis``, a unit vector.

    ``(axis * sin(angle / 2), cos(angle / 2))``, of the quaternion type ``dtype``. ``axis`` is a 3D array or a sequence
    of three numbers, ``angle`` a flat array or a number, else a ``TypeError`` is raised. Evaluates nothing.

    >>> from drjit.llvm import Array3f, Quaternion4f
    >>> q = dr.rotate(Quaternion4f, Array3f(0, 0, 1), dr.pi / 3)
    >>> q
    [0.5k+0.866025]
    """
    function = "drjit.rotate"
    if not isinstance(dtype, type) or not issubclass(dtype, QuaternionBase):
        raise TypeError(f"{function}(): 'dtype' must be a quaternion type, found {describe(dtype)}.")
    if isinstance(axis, (list, tuple)):
        axis = reshape(dtype, (3,))(axis)
    x, y, z = _vector3(function, axis, "axis")
    s, c = sincos(require_angle(function, "angle", angle) * 0.5)
    return dtype(x * s, y * s, z * s, c)


@rounding
def quat_apply(arg0: Any, arg1: Any, /) -> Any:
    """The 3D vector ``arg1`` rotated by the unit quaternion ``arg0``.

    ``v + 2 w (u x v) + 2 u x (u x v)`` for a quaternion ``w + u``. Raises a ``TypeError`` for other arguments.
    Evaluates nothing.

    >>> from drjit.llvm import Array3f, Quaternion4f
    >>> q = Quaternion4f(0, 0, 1, 0)
    >>> dr.quat_apply(q, Array3f(1, 2, 3))
    [[-1, -2, 3]]
    """
    q = _quaternion("drjit.quat_apply", arg0, "arg0")
    v = _vector3("drjit.quat_apply", arg1, "arg1")
    u = q.imag
    t = 2.0 * cross(u, v)
    return v + q.w * t + cross(u, t)


@rounding
def quat_to_matrix(dtype: type[T], q: ArrayBase) -> T:
    """The rotation matrix of a unit quaternion, of the matrix type ``dtype`` with 3 or 4 rows.

    Raises a ``TypeError`` for other types and arguments. Evaluates nothing.

    >>> from drjit.llvm import Matrix3f, Quaternion4f
    >>> dr.quat_to_matrix(Matrix3f, Quaternion4f(0, 0, 1, 0))
    [[[-1, 0, 0],
      [0, -1, 0],
      [0, 0, 1]]]
    """
    function = "drjit.quat_to_matrix"
    if not isinstance(dtype, type) or not issubclass(dtype, MatrixBase) or dtype._record.shape not in ((3, 3), (4, 4)):
        raise TypeError(f"{function}(): 'dtype' must be a type of 3x3 or 4x4 matrices, found {describe(dtype)}.")
    x, y, z, w = _quaternion(function, q, "q")
    x2, y2, z2 = x + x, y + y, z + z
    xx, yy, zz = x * x2, y * y2, z * z2
    xy, yz, xz = x * y2, y * z2, x * z2
    xw, yw, zw = w * x2, w * y2, w * z2
    rows = [[1 - (yy + zz), xy - zw, xz + yw], [xy + zw, 1 - (xx + zz), yz - xw], [xz - yw, yz + xw, 1 - (xx + yy)]]
    if dtype._size == 4:
        rows = [*([*row, 0.0] for row in rows), [0.0, 0.0, 0.0, 1.0]]
    return dtype(*(entry for row in rows for entry in row))


@rounding
def matrix_to_quat(arg: Any, /) -> Any:
    """The unit quaternion of a rotation matrix with 3 rows, or of the upper left part of one with 4.

    The largest of the four components is found first and divides the others (M. Day, *Converting a rotation matrix to a
    quaternion*, Insomniac Games). Raises a ``TypeError`` for other matrices and arguments. Evaluates nothing.

    >>> from drjit.llvm import Matrix3f
    >>> dr.matrix_to_quat(Matrix3f([[-1, 0, 0], [0, -1, 0], [0, 0, 1]]))
    [1k]
    """
    function = "drjit.matrix_to_quat"
    if not isinstance(arg, MatrixBase) or arg._record.shape not in ((3, 3), (4, 4)):
        raise TypeError(f"{function}(): 'arg' must be a 3x3 or 4x4 matrix, found {describe(arg)}.")
    cls = _relative(function, arg, "quaternion", (4,))
    m00, m11, m22 = arg[0, 0], arg[1, 1], arg[2, 2]
    x, y, z = arg[2, 1] - arg[1, 2], arg[0, 2] - arg[2, 0], arg[1, 0] - arg[0, 1]
    xy, xz, yz = arg[1, 0] + arg[0, 1], arg[0, 2] + arg[2, 0], arg[2, 1] + arg[1, 2]
    tx, ty, tz, tw = 1 + m00 - m11 - m22, 1 - m00 + m11 - m22, 1 - m00 - m11 + m22, 1 + m00 + m11 + m22
    upper, lower = select(m00 > m11, 0, 1), select(m00 < -m11, 2, 3)
    case = select(m22 < 0, upper, lower)

    def pick(a: Any, b: Any, c: Any, d: Any) -> Any:
        return select(case == 0, a, select(case == 1, b, select(case == 2, c, d)))

    scale = 0.5 / sqrt(pick(tx, ty, tz, tw))
    return cls(pick(tx, xy, xz, x) * scale, pick(xy, ty, yz, y) * scale, pick(xz, yz, tz, z) * scale,
               pick(x, y, z, tw) * scale)


@rounding
def euler_to_quat(arg: Any, /) -> Any:
    """The rotation quaternion of Euler angles in radians: about x, then y, then z.

    ``arg`` is a 3D array of floating-point numbers, else a ``TypeError`` is raised. Evaluates nothing.

    >>> from drjit.llvm import Array3f
    >>> dr.euler_to_quat(Array3f(0, 0, dr.pi / 2))
    [0.707107k+0.707107]
    """
    angles = _vector3("drjit.euler_to_quat", arg, "arg")
    (sx, cx), (sy, cy), (sz, cz) = (sincos(angle * 0.5) for angle in angles)
    return _relative("drjit.euler_to_quat", angles, "quaternion", (4,))(
        sx * cy * cz - cx * sy * sz, cx * sy * cz + sx * cy * sz, cx * cy * sz - sx * sy * cz,
        cx * cy * cz + sx * sy * sz)


@rounding
def quat_to_euler(arg: Any, /) -> Any:
    """Euler angles of a rotation quaternion, about x, y, z in this order; the second is between -pi/2 and pi/2.

    At these two, where only the difference or sum of the others is determined, the third one is zero. Returns a 3D
    array. Raises a ``TypeError`` for anything but quaternions. Evaluates nothing.

    >>> from drjit.llvm import Array3f
    >>> dr.quat_to_euler(dr.euler_to_quat(Array3f(0.5, 1, -2)))
    [[0.5, 1, -2]]
    """
    x, y, z, w = _quaternion("drjit.quat_to_euler", arg, "arg")
    xx, yy, zz, ww = x * x, y * y, z * z, w * w
    roll_sine, roll_cosine = 2 * (w * x + y * z), ww - xx - yy + zz
    pitch_sine = 2 * (w * y - z * x)
    yaw_sine, yaw_cosine = 2 * (w * z + x * y), ww + xx - yy - zz
    pitch_cosine = sqrt(yaw_sine * yaw_sine + yaw_cosine * yaw_cosine)
    squared = xx + yy + zz + ww
    # Of rounded unit quaternions, the sine may exceed 1: then it is meant to be 1.
    beyond = (_abs(pitch_sine) >= 1) & (_abs(squared - 1) < 1e-3)
    locked = (pitch_cosine < 1e-6 * squared) | beyond
    return reshape(type(arg), (3,))(
        select(locked, 2 * atan2(x, w), atan2(roll_sine, roll_cosine)),
        atan2(pitch_sine, select(beyond, 0.0, pitch_cosine)), select(locked, 0.0, atan2(yaw_sine, yaw_cosine)))


@rounding
def slerp(a: ArrayT, b: ArrayT, t: ArrayBase | float) -> ArrayT:
    """Spherical linear interpolation between two rotation quaternions, along the shorter way.

    ``(sin((1 - t) u) a + sin(t u) b) / sin(u)`` with the angle u between them (K. Shoemake, *Animating rotation with
    quaternion curves*, SIGGRAPH 1985), found from the lengths of their sum and difference; where it vanishes, linear
    interpolation. ``t`` is a flat array or a number; raises a ``TypeError`` if ``a`` or ``b`` is no quaternion.
    Evaluates nothing.

    >>> from drjit.llvm import Array3f, Quaternion4f
    >>> a, b = (dr.rotate(Quaternion4f, Array3f(0, 0, 1), angle) for angle in (0, 2))
    >>> dr.quat_to_euler(dr.slerp(a, b, 0.25))
    [[0, 0, 0.5]]
    """
    a, b = _quaternion("drjit.slerp", a, "a"), _quaternion("drjit.slerp", b, "b")
    p, q = a.array, b.array
    q = select(p @ q < 0, -q, q)
    difference, sum_ = q - p, q + p
    whole = sum_ @ sum_
    squared = (difference @ difference) / select(whole > 0, whole, 1.0)
    tangent = sqrt(squared)  # of half the angle, at most 1
    angle = 2 * atan(tangent)
    close = tangent < 5e-7
    inverse_sine = (1 + squared) / (2 * select(close, 1.0, tangent))
    rest: Any = 1 - t  # type: ignore[operator]
    first = select(close, rest, sin(rest * angle) * inverse_sine)
    second = select(close, t, sin(t * angle) * inverse_sine)
    found = p * first + q * second
    result: ArrayT = _relative("drjit.slerp", found, "quaternion", (4,))(found)
    return result


# --- transformations -------------------------------------------------------------------------------------------------


def transform_decompose(arg: Any, it: int = 10) -> tuple[Any, Any, Any]:
    """Split a 4x4 affine transformation into scaling, rotation and translation.

    Returns ``(S, Q, T)``: a symmetric 3x3 matrix, a rotation quaternion and a 3D array, with :func:`transform_compose`
    as the inverse. ``it`` is the number of iterations of :func:`polar_decomp`. S is positive definite unless the
    transformation mirrors: then it is negative definite, as Q remains a rotation. Raises a ``TypeError`` for anything
    but 4x4 matrices. Evaluates nothing.

    >>> from drjit.llvm import Matrix4f
    >>> S, Q, T = dr.transform_decompose(Matrix4f([[0, -2, 0, 5], [2, 0, 0, 6], [0, 0, 2, 7], [0, 0, 0, 1]]))
    >>> dr.quat_to_euler(Q)
    [[0, 0, 1.5708]]
    >>> T
    [[5, 6, 7]]
    """
    function = "drjit.transform_decompose"
    if not isinstance(arg, MatrixBase) or arg._record.shape != (4, 4):
        raise TypeError(f"{function}(): 'arg' must be a 4x4 matrix, found {describe(arg)}.")
    q, p = polar_decomp(_relative(function, arg, "matrix", (3, 3))(arg), it)
    sign = select(det(q) < 0, -1.0, 1.0)
    translation = reshape(type(arg), (3,))(*(arg[row, 3] for row in range(3)))
    return p * sign, matrix_to_quat(q * sign), translation


def transform_compose(S: Any, Q: Any, T: Any, /) -> Any:
    """The 4x4 matrix that scales by the 3x3 matrix ``S``, rotates by the quaternion ``Q``, and translates by ``T``.

    ``T`` is a 3D array; raises a ``TypeError`` for other arguments. Evaluates nothing.

    >>> from drjit.llvm import Array3f, Matrix3f, Quaternion4f
    >>> dr.transform_compose(Matrix3f(2), Quaternion4f(0, 0, 0, 1), Array3f(5, 6, 7))
    [[[2, 0, 0, 5],
      [0, 2, 0, 6],
      [0, 0, 2, 7],
      [0, 0, 0, 1]]]
    """
    function = "drjit.transform_compose"
    if not isinstance(S, MatrixBase) or S._record.shape != (3, 3):
        raise TypeError(f"{function}(): 'S' must be a 3x3 matrix, found {describe(S)}.")
    quaternion, translation = _quaternion(function, Q, "Q"), _vector3(function, T, "T")
    linear = quat_to_matrix(_relative(function, quaternion, "matrix", (3, 3)), quaternion) @ S
    rows = [[*(linear[row, column] for column in range(3)), translation[row]] for row in range(3)]
    return _relative(function, linear, "matrix", (4, 4))(*(entry for row in [*rows, [0.0, 0.0, 0.0, 1.0]]
                                                           for entry in row))


# --- the sphere ------------------------------------------------------------------------------------------------------


def sphdir(theta: Any, phi: Any) -> Any:
    """The unit vector with the angle ``theta`` to the z axis, and azimuth ``phi``, both in radians.

    ``(sin(theta) cos(phi), sin(theta) sin(phi), cos(theta))``. The angles are flat arrays of floating-point numbers or
    Python numbers, else a ``TypeError`` is raised; two Python numbers give a scalar array of double precision.
    Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> dr.sphdir(Float(0, dr.pi / 6), Float(0))
    [[0, 0, 1],
     [0.5, 0, 0.866025]]
    """
    function = "drjit.sphdir"
    (st, ct), (sp, cp) = (sincos(require_angle(function, name, value))
                          for name, value in (("theta", theta), ("phi", phi)))
    x, y = st * cp, st * sp
    if isinstance(x, ArrayBase):
        cls: Any = lookup(x._record._replace(shape=(3, *x._record.shape)))
        if cls is None:
            raise TypeError(f"{function}(): the angles have the type {x._name}, over which there are no 3D arrays.")
    else:
        cls = lookup(Record(SCALAR, core.VarType.Float64.value, "array", (3,)))
    return cls(x, y, ct)


_HIGHEST_ORDER = 10


@functools.cache
def _legendre(order: int) -> dict[tuple[int, int], tuple[float, float]]:
    """Coefficients ``(a, b)`` of the recurrence ``N[l, m] = a z N[l-1, m] + b N[l-2, m]`` of normalised polynomials."""
    result = {}
    for m in range(order + 1):
        for degree in range(m + 1, order + 1):
            a = math.sqrt((4 * degree**2 - 1) / (degree**2 - m**2))
            b = math.sqrt(((degree - 1)**2 - m**2) / (4 * (degree - 1)**2 - 1)) if degree > m + 1 else 0.0
            result[degree, m] = (a, -a * b)
    return result


def _filled(like: Any, value: float) -> Any:
    """A constant of the type and size of a component."""
    if not isinstance(like, ArrayBase):
        return value
    return wrap(type(like), [core.literal(like._type, value, node.size) for node in like._nodes()])


def sh_eval(d: Any, order: int) -> list[Any]:
    """Real spherical harmonics of the unit vector ``d`` up to an order from 0 to 10.

    A list of ``(order + 1)**2`` values, ``Y[l, m]`` at position ``l * (l + 1) + m``. With the associated Legendre
    functions, and the sign ``(-1)**m`` of Condon and Shortley in them::

        Y[l, 0] = K[l, 0] P[l, 0](z)
        Y[l, m] = sqrt(2) K[l, |m|] P[l, |m|](z) * (cos(m phi) if m > 0 else sin(|m| phi))

    evaluated by recurrences without divisions or trigonometric functions: ``sin(theta)**m`` times ``cos(m phi)`` and
    ``sin(m phi)`` are the real and imaginary part of ``(x + i y)**m``, and the rest is a polynomial in z, which is
    normalised as it is computed (P.-P. Sloan, *Efficient spherical harmonic evaluation*, JCGT 2 (2013), pp. 84-90; the
    recurrence in normalised form: W. H. Press et al., *Numerical Recipes*, 3rd edition, section 6.7).

    ``d`` is a 3D array, else a ``TypeError`` is raised, and so for another order. Evaluates nothing.

    >>> from drjit.llvm import Array3f
    >>> dr.sh_eval(Array3f(0.6, 0.64, 0.48), 1)
    [[0.282095], [-0.312706], [0.234529], [-0.293162]]
    """
    function = "drjit.sh_eval"
    _vector3(function, d, "d")
    if not isinstance(order, int) or not 0 <= order <= _HIGHEST_ORDER:
        raise ArgumentError(f"{function}(): 'order' must be an integer from 0 to {_HIGHEST_ORDER}, found {order!r}.")
    x, y, z = d
    values: list[Any] = [None] * (order + 1)**2
    coefficients = _legendre(order)
    diagonal = math.sqrt(1 / (4 * math.pi))  # N[m, m]
    cosine: Any = None  # of m phi, times sin(theta)**m
    sine: Any = None
    for m in range(order + 1):
        if m == 1:
            cosine, sine = x, y
        elif m > 1:
            cosine, sine = fma(x, cosine, -(y * sine)), fma(x, sine, y * cosine)
        if m:
            diagonal *= -math.sqrt((2 * m + 1) / (2 * m))
        factor = math.sqrt(2) if m else 1.0
        before, polynomial = None, diagonal * factor
        for degree in range(m, order + 1):
            if degree > m:
                a, b = coefficients[degree, m]
                if before is None:
                    before, polynomial = polynomial, z * (a * polynomial)
                else:
                    before, polynomial = polynomial, fma(a * z, polynomial, b * before)
            base = degree * (degree + 1)
            if not m:
                values[base] = polynomial if degree else _filled(x, polynomial)
            else:
                values[base + m], values[base - m] = cosine * polynomial, sine * polynomial
    return values
