"""Linear algebra by NumPy's names and signatures.

Products and norms are lazy. Factorisations, systems of equations and eigenvalues are LAPACK's, and evaluate their
arguments; all are differentiable but for ranks. Matrices are the last two axes; those in front are batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import drjit.array_api as xp

from ._products import cross, matmul, outer, tensordot, vecdot
from ._public import Array, array_of, axes_of, decided, documented, floating, into, missing, named

__all__ = ["LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv",
           "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm",
           "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve",
           "trace", "vecdot", "vector_norm"]

LinAlgError = np.linalg.LinAlgError

#: Functions that are those of the standard, for arguments of all kinds; how many of them are arrays.
_STANDARD = {"cholesky": 1, "det": 1, "diagonal": 1, "inv": 1, "matrix_norm": 1, "slogdet": 1,
             "solve": 2, "svdvals": 1, "trace": 1, "vector_norm": 1, "matrix_transpose": 1}


def _of_standard(name: str, count: int) -> Any:
    found: Any = getattr(xp.linalg, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        return found(*map(array_of, args[:count]), *args[count:], **kwargs)

    return documented(function, f"linalg.{name}", found.__doc__)


def _named(function: Any) -> Any:
    return named(f"drjit.numpy.linalg.{function.__name__}")(function)


cholesky, det, diagonal, inv = (_of_standard(name, 1) for name in ("cholesky", "det", "diagonal", "inv"))
matrix_norm, slogdet = _of_standard("matrix_norm", 1), _of_standard("slogdet", 1)
solve, svdvals, trace = _of_standard("solve", 2), _of_standard("svdvals", 1), _of_standard("trace", 1)
vector_norm, matrix_transpose = _of_standard("vector_norm", 1), _of_standard("matrix_transpose", 1)


@_named
def matrix_power(a: Any, n: int) -> Array:
    """The product of a matrix with itself, ``n`` times; the inverse for negative ones. Differentiable; lazy, but for
    negative ones."""
    array = array_of(a)
    if array.dtype.kind in "fc" or n < 0:
        return xp.linalg.matrix_power(array, n)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise LinAlgError(f"needs square matrices, found the shape {array.shape}.")
    found = xp.broadcast_to(xp.eye(array.shape[-1], dtype=array.dtype), array.shape)
    while n:
        found = found @ array if n & 1 else found
        n >>= 1
        array = array @ array if n else array
    return found


def _any(values: Any) -> bool:
    return bool(np.any(values))


@_named
def eig(a: Any) -> Any:
    """The eigenvalues and eigenvectors of square matrices; real ones if all imaginary parts are 0. Evaluates;
    differentiable."""
    found = xp.linalg.eig(array_of(a))
    if array_of(a).dtype.kind != "c" and not decided(_any, xp.imag(found.eigenvalues)):
        return type(found)(xp.real(found.eigenvalues), xp.real(found.eigenvectors))
    return found


@_named
def eigvals(a: Any) -> Array:
    """The eigenvalues of square matrices; real ones if all imaginary parts are 0. Evaluates; differentiable."""
    found = xp.linalg.eigvals(array_of(a))
    if array_of(a).dtype.kind != "c" and not decided(_any, xp.imag(found)):
        return xp.real(found)
    return found


def _triangle(a: Any, UPLO: str) -> Array:
    """Hermitian matrices of one of their triangles."""
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(f"'UPLO' must be 'L' or 'U', found {UPLO!r}.")
    array = array_of(a)
    return array if UPLO in "Ll" else xp.conj(xp.matrix_transpose(floating(array)))


@_named
def eigh(a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues, ascending, and eigenvectors of Hermitian matrices, of which one triangle counts. Evaluates;
    differentiable."""
    return xp.linalg.eigh(_triangle(a, UPLO))


@_named
def eigvalsh(a: Any, UPLO: str = "L") -> Array:
    """The eigenvalues of Hermitian matrices, ascending. Evaluates; differentiable."""
    return xp.linalg.eigvalsh(_triangle(a, UPLO))


@_named
def qr(a: Any, mode: str = "reduced") -> Any:
    """The factors Q and R of matrices, or R alone (``mode='r'``). Evaluates; differentiable but for
    ``mode='complete'``."""
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"'mode' must be 'reduced', 'complete' or 'r', found {mode!r}.")
    found = xp.linalg.qr(array_of(a), mode="complete" if mode == "complete" else "reduced")
    return found.R if mode == "r" else found


@_named
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """The singular value decomposition of matrices, or the singular values alone. Evaluates; differentiable with
    ``full_matrices=False``."""
    return xp.linalg.svd(array_of(a), full_matrices=full_matrices) if compute_uv else xp.linalg.svdvals(array_of(a))


@_named
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """The Moore-Penrose inverse; singular values below ``rcond`` (or ``rtol``) times the largest one count as 0.
    Evaluates; differentiable where the rank does not change."""
    limit = rtol if rcond is None else rcond
    return xp.linalg.pinv(array_of(a), rtol=1e-15 if limit is None else limit)


@_named
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """The number of singular values above ``tol``, or ``rtol`` times the largest one. Evaluates; has no derivative."""
    array = array_of(A)
    if array.ndim < 2:
        return (array != 0).any().astype(xp.int64)
    if tol is None:
        return xp.linalg.matrix_rank(array, rtol=rtol)
    bound = array_of(tol)
    return (xp.linalg.svdvals(array) > (bound[..., None] if bound.ndim else bound)).sum(-1)


@_named
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """The norm of vectors along an axis, of matrices along two, of all elements without one: ``ord`` is the power of
    elements for vectors, and for matrices ``'fro'``, ``'nuc'``, 1, -1, 2, -2, infinity or its negative. Differentiable;
    lazy, but for singular values (2, -2 and ``'nuc'``). Raises a ``ValueError`` for orders that do not exist."""
    array = floating(x)
    if axis is None:
        if ord is None or ord == 2 and array.ndim == 1 or ord == "fro" and array.ndim == 2:
            return vector_norm(array, keepdims=keepdims)
        if array.ndim not in (1, 2):
            raise ValueError(f"an array of {array.ndim} dimensions has no norm of the order {ord!r} without 'axis'.")
    places = axes_of(axis, array.ndim)
    if len(places) == 1:
        if isinstance(ord, str):
            raise ValueError(f"'ord' must be a number for vectors, found {ord!r}.")
        return vector_norm(array, axis=places[0], keepdims=keepdims,
                           ord=2 if ord is None else ord)
    if len(places) != 2:
        raise ValueError(f"'axis' must be one axis, or two of them, found {axis!r}.")
    found = xp.linalg.matrix_norm(xp.moveaxis(array, places, (-2, -1)), ord="fro" if ord is None else ord)
    return xp.expand_dims(found, tuple(sorted(places))) if keepdims else found


@_named
def cond(x: Any, p: Any = None) -> Array:
    """The condition number: the norm of matrices times that of their inverses, of order 2 by default. Evaluates;
    differentiable."""
    array = floating(x)
    if p is None or p in (2, -2):
        values = xp.linalg.svdvals(array)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    return xp.linalg.matrix_norm(array, ord=p) * xp.linalg.matrix_norm(xp.linalg.inv(array), ord=p)


@_named
def lstsq(a: Any, b: Any, rcond: float | None = None) -> tuple[Array, Array, int, Array]:
    """The solution of a system of equations with the least sum of squared residuals (and the least norm among several),
    that sum if the matrix has full rank and more rows than columns, its rank, and its singular values, of which those
    below ``rcond`` times the largest one count as 0. Evaluates; differentiable where the rank does not change."""
    matrix, right = floating(a), floating(b)
    if matrix.ndim != 2 or right.ndim not in (1, 2):
        raise LinAlgError(f"needs a matrix and a vector or matrix, found the shapes {matrix.shape} and {right.shape}.")
    if matrix.shape[0] != right.shape[0]:
        raise LinAlgError(f"a matrix of {matrix.shape[0]} rows does not go with the shape {right.shape}.")
    rows, columns = matrix.shape
    limit = max(rows, columns) * float(xp.finfo(matrix.dtype).eps) if rcond is None else \
        float(xp.finfo(matrix.dtype).eps) if rcond < 0 else rcond
    values = xp.linalg.svdvals(matrix)

    def number_of_large(values: Any) -> int:
        return int(np.count_nonzero(values > limit * values[0])) if values.size else 0

    rank = decided(number_of_large, values)
    found = xp.linalg.pinv(matrix, rtol=limit) @ right
    rest = right - matrix @ found
    sums = (xp.abs(rest) ** 2).sum(axis=0).reshape(-1) if rank == columns and rows > columns else \
        xp.zeros((0,), dtype=found.real.dtype)
    return found, sums, rank, values


@_named
def multi_dot(arrays: Sequence[Any], *, out: Array | None = None) -> Array:
    """The product of several matrices in the order of least work; the first and the last one may be vectors. Lazy;
    differentiable."""
    factors = [array_of(entry) for entry in arrays]
    if len(factors) < 2:
        raise ValueError(f"needs two arrays at least, found {len(factors)}.")
    front, back = factors[0].ndim == 1, factors[-1].ndim == 1
    factors[0] = factors[0][None, :] if front else factors[0]
    factors[-1] = factors[-1][:, None] if back else factors[-1]
    sizes = [factor.shape[0] for factor in factors] + [factors[-1].shape[1]]
    count = len(factors)
    best: dict[tuple[int, int], tuple[float, int]] = {(k, k): (0, k) for k in range(count)}
    for length in range(1, count):  # the order of matrices, by dynamic programming
        for first in range(count - length):
            last = first + length
            best[first, last] = min((best[first, cut][0] + best[cut + 1, last][0] +
                                     sizes[first] * sizes[cut + 1] * sizes[last + 1], cut)
                                    for cut in range(first, last))

    def product(first: int, last: int) -> Array:
        if first == last:
            return factors[first]
        cut = best[first, last][1]
        return product(first, cut) @ product(cut + 1, last)

    found = product(0, count - 1)
    found = found[0] if front else found
    found = found[..., 0] if back else found
    return into(out, found)


@_named
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Array:
    """The solution of ``tensordot(a, solution, solution.ndim) == b``. Evaluates; differentiable."""
    array, right = array_of(a), array_of(b)
    if axes is not None:
        moved = axes_of(tuple(axes), array.ndim)
        array = array.transpose(*[k for k in range(array.ndim) if k not in moved], *moved)
    shape = array.shape[right.ndim:]
    if math.prod(shape) != right.size:
        raise LinAlgError(f"the shapes {array.shape} and {right.shape} make no square system of equations.")
    return xp.linalg.solve(array.reshape((right.size, -1)), right.ravel()).reshape(shape)


@_named
def tensorinv(a: Any, ind: int = 2) -> Array:
    """The inverse of an array by ``tensordot`` over its first ``ind`` axes. Evaluates; differentiable."""
    array = array_of(a)
    if ind <= 0:
        raise ValueError(f"'ind' must be positive, found {ind}.")
    front, back = array.shape[:ind], array.shape[ind:]
    return xp.linalg.inv(array.reshape((math.prod(back), -1))).reshape((*back, *front))


def __getattr__(name: str) -> Any:
    raise missing(__name__, name, __all__)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
