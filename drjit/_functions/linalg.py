"""Linear algebra of small matrices and vectors: products, determinants, inverses, traces, and the polar decomposition.

Operands are matrices, or nested arrays of the same shape; everything is unrolled into operations on flat arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node, common_type, ops

from .._arrays.matrix import MatrixBase
from .._arrays.products import is_square, is_tensor, product
from .._arrays.scalar import rounding
from .._base.arguments import require_count
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, ShapeError, describe, translate
from .._base.types import lookup, reshape, retype
from .._base.typing import ArrayT, T
from .._promotion.promote import common_package, wrap
from .._rules import matrix as rules
from .elementwise import fma, rcp, sqrt

__all__ = ["cross", "det", "diag", "frob", "inverse", "matmul", "polar_decomp", "trace", "transpose"]


# --- products --------------------------------------------------------------------------------------------------------


def matmul(A: Any, B: Any, At: bool = False, Bt: bool = False) -> Any:
    """Product of matrices, of a matrix and a vector, of a vector and a matrix, of two vectors, or with a scalar: ``A @
    B``.

    Which of them it is follows from the leading static dimensions: ``(n, n)`` is a matrix, be it of a matrix type or a
    nested array, ``(n,)`` a vector (a column on the right, a row on the left); the product of two vectors is the inner
    product. A number or flat array scales. Tensors are multiplied as NumPy's ``matmul`` does it. ``At`` and ``Bt``
    transpose the matrices ``A`` and ``B``; tensors are read as they are for it, without a copy.

    The result has the matrix type if an operand has it, and the promoted scalar type. Raises a ``TypeError`` (of
    tensors a ``RuntimeError``) if the shapes do not fit, or no operand is an array. Evaluates nothing. Products of
    tensors over more than four elements are computed by kernels of their own, from operands in memory. Half precision
    is multiplied and summed in single precision; sums over many elements are those of sums over blocks of 256, so that
    their error is that of BLAS, and have the same bits with any number of threads.

    >>> from drjit.llvm import Array2f, Matrix2f
    >>> dr.matmul(Matrix2f(1, 2, 3, 4), Array2f(1, 10))
    [[21, 43]]
    >>> dr.matmul(Matrix2f(1, 2, 3, 4), Array2f(1, 10), At=True)
    [[31, 42]]
    """
    function = "drjit.matmul"
    if not isinstance(A, ArrayBase) and not isinstance(B, ArrayBase):
        raise TypeError(f"{function}(): expected at least one Dr.Jit array, found {describe(A)} and {describe(B)}.")
    for value, flag, name in ((A, At, "At"), (B, Bt, "Bt")):
        if flag and not (isinstance(value, ArrayBase) and (value._depth >= 2 or value._depth < 0 and value.ndim >= 2)):
            shape = f" of shape {value.shape}" if isinstance(value, ArrayBase) else ""
            raise ShapeError(f"{function}(): '{name}' transposes a matrix, found {describe(value)}{shape}.")
    if is_tensor(A) or is_tensor(B):
        return product(function, A, B, (At, Bt))
    return product(function, transpose(A) if At else A, transpose(B) if Bt else B)


@rounding
def cross(arg0: Any, arg1: Any, /) -> Any:
    """Cross product of two 3D arrays, which is orthogonal to both.

    ``arg0`` and ``arg1`` have three components along their outermost dimension, else a ``TypeError`` is raised; the
    result has the promoted type. Evaluates nothing.

    >>> from drjit.llvm import Array3f
    >>> dr.cross(Array3f(1, 0, 0), Array3f(0, 1, 0))
    [[0, 0, 1]]
    """
    for value in (arg0, arg1):
        if not isinstance(value, ArrayBase) or value._special or value._depth < 1 or value._static_shape()[0] != 3:
            raise TypeError(f"drjit.cross(): expected two arrays of three components, found {describe(arg0)} and "
                            f"{describe(arg1)}.")
    a, b = list(arg0), list(arg1)
    components = [fma(a[i], b[j], -(a[j] * b[i])) for i, j in ((1, 2), (2, 0), (0, 1))]
    kind = retype(reshape(type(arg0), arg0._record.shape), common_type(arg0._type, arg1._type))
    found = common_package("drjit.cross", (arg0, arg1), kind)
    return found(*components)


# --- functions of one matrix -----------------------------------------------------------------------------------------


def _matrix(value: Any, function: str) -> Any:
    if not isinstance(value, MatrixBase):
        raise TypeError(f"{function}(): 'arg' must be a matrix, found {describe(value)}.")
    return value


def _entries(arg: Any, function: Callable[[list[Node]], Node], name: str) -> Any:
    """A function from matrices to single entries."""
    cls = type(arg)
    count = cls._count // (cls._size * cls._size)
    try:
        nodes = [function(arg._c[k::count]) for k in range(count)]
    except CORE_ERRORS as error:
        raise translate(error, f"{name}(<{cls._name}>)") from None
    return wrap(reshape(cls._plain, cls._record.shape[2:]), nodes)


def det(arg: Any, /) -> Any:
    """Determinant of a matrix, by Laplace expansion.

    The result has the type of an entry. Raises a ``TypeError`` for anything but matrices. Evaluates nothing.

    >>> from drjit.llvm import Matrix2f
    >>> dr.det(Matrix2f(1, 2, 3, 4))
    [-2]
    """
    return _entries(_matrix(arg, "drjit.det"), rules.determinant, "drjit.det")


def _trace(nodes: Sequence[Node]) -> Node:
    size = rules.size_of(nodes)
    result = nodes[0]
    for k in range(1, size):
        result = ops.add(result, nodes[k * (size + 1)])
    return result


def trace(arg: Any, /) -> Any:
    """Sum of the diagonal entries of a matrix.

    The result has the type of an entry. Raises a ``TypeError`` for anything but matrices. Evaluates nothing.

    >>> from drjit.llvm import Matrix2f
    >>> dr.trace(Matrix2f(1, 2, 3, 4))
    [5]
    """
    return _entries(_matrix(arg, "drjit.trace"), _trace, "drjit.trace")


def frob(arg: Any, /) -> Any:
    """Squared Frobenius norm of a matrix: the sum of the squares of its entries.

    The result has the type of an entry. Raises a ``TypeError`` for anything but matrices. Evaluates nothing.

    >>> from drjit.llvm import Matrix2f
    >>> dr.frob(Matrix2f(1, 2, 3, 4))
    [30]
    """
    return _entries(_matrix(arg, "drjit.frob"), lambda nodes: rules.dot(nodes, nodes), "drjit.frob")


def diag(arg: Any, /) -> Any:
    """The diagonal of a matrix as an array, or the matrix with the components of an array on its diagonal.

    ``arg`` is a matrix, or an array of 2 to 4 floating-point components, else a ``TypeError`` is raised. Evaluates
    nothing.

    >>> from drjit.llvm import Array2f, Matrix2f
    >>> dr.diag(Matrix2f(1, 2, 3, 4))
    [[1, 4]]
    >>> dr.diag(Array2f(5, 6))
    [[[5, 0],
      [0, 6]]]
    """
    if isinstance(arg, MatrixBase):
        size, nodes = arg._size, arg._nodes()
        inner = len(nodes) // (size * size)
        diagonal = [node for k in range(size) for node in nodes[k * (size + 1) * inner:(k * (size + 1) + 1) * inner]]
        return wrap(reshape(type(arg)._plain, (size, *arg._record.shape[2:])), diagonal)
    if isinstance(arg, ArrayBase) and not arg._special and arg._depth >= 1 and arg._size > 0:
        shape = (arg._size, *arg._record.shape)
        cls: Any = lookup(arg._record._replace(kind="matrix", shape=shape))
        if cls is not None:
            nodes, size = arg._nodes(), arg._size
            inner = len(nodes) // size
            zero = core.literal(cls._type, 0)
            return wrap(cls, [nodes[row * inner + k] if row == column else zero for row in range(size)
                              for column in range(size) for k in range(inner)])
    raise TypeError(f"drjit.diag(): 'arg' must be a matrix, or an array of 2 to 4 floating-point components, found "
                    f"{describe(arg)}.")


def inverse(arg: T, /) -> T:
    """Inverse of a matrix, or what :func:`rcp` returns for complex numbers, quaternions and numbers.

    Infinite or NaN for singular matrices. Raises a ``TypeError`` for other nested arrays. Evaluates nothing.

    >>> from drjit.llvm import Matrix2f
    >>> dr.inverse(Matrix2f(1, 2, 3, 4))
    [[[-2, 1],
      [1.5, -0.5]]]
    """
    if isinstance(arg, ArrayBase) and arg._depth > 0 and arg._special not in ("complex", "quaternion"):
        arg = _matrix(arg, "drjit.inverse")
    result: T = rcp(arg)
    return result


def transpose(value: Any, /, axes: Sequence[int] | None = None) -> Any:
    """The transpose of a matrix, or of a nested array that has the shape of one.

    ``axes`` is a permutation of the leading two dimensions: ``(0, 1)`` leaves the array as it is.
    """
    function = "drjit.transpose"
    if not isinstance(value, ArrayBase) or value._depth < 2 or not is_square(value):
        raise TypeError(f"{function}(): 'value' must be a tensor or a matrix, or have the shape of one, found "
                        f"{describe(value)}.")
    if axes is not None:
        if sorted(axes) != [0, 1]:
            raise ArgumentError(f"{function}(): 'axes' must be a permutation of (0, 1), found {axes}.")
        if tuple(axes) == (0, 1):
            return type(value)(value)
    return wrap(type(value), rules.transpose(value._nodes(), value._static_shape()[0]))


def polar_decomp(arg: ArrayT, it: int = 10) -> tuple[ArrayT, ArrayT]:
    """Polar decomposition ``arg = Q P`` of a matrix: ``(Q, P)`` with orthogonal Q, symmetric positive semidefinite P.

    ``it`` is the number of iterations of Newton's method, scaled by norms (N. J. Higham, *Computing the polar
    decomposition, with applications*, SIAM J. Sci. Stat. Comput. 7 (1986)): ``Q`` becomes ``(g Q + inv(Q).T / g) / 2``
    with ``g = (frob(inv(Q)) / frob(Q))**(1/4)``. Q has the sign of the determinant; that of a singular matrix is not
    found. Raises a ``TypeError`` for anything but matrices. Evaluates nothing.

    >>> from drjit.llvm import Matrix2f
    >>> Q, P = dr.polar_decomp(Matrix2f(0, -3, 2, 0))
    >>> Q
    [[[0, -1],
      [1, 0]]]
    >>> P
    [[[2, 0],
      [0, 3]]]
    """
    function = "drjit.polar_decomp"
    q = _matrix(arg, function)
    for _ in range(require_count(function, "it", it, 1)):
        adjoint = rcp(q).T
        scale = sqrt(sqrt(frob(adjoint) / frob(q)))
        q = q * (0.5 * scale) + adjoint * (0.5 / scale)
    return q, q.T @ arg
