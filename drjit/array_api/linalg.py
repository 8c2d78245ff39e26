"""The linear algebra extension of the standard.

Products are lazy. Factorisations, systems of equations and eigenvalues are computed by NumPy's LAPACK, and evaluate
their arguments; matrices are the last two axes, those in front are batches. All are differentiable but for
:func:`matrix_rank` and singular vectors beyond the reduced ones.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import operator
from builtins import max as most
from builtins import min as least
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import drjit as dr

from . import _dtypes as dtypes
from ._creation import eye, tril
from ._data import Storage, constant, view_of, wrap
from ._dtypes import DTypeLike
from ._elementwise import (
    abs,
    add,
    conj,
    divide,
    equal,
    greater,
    imag,
    multiply,
    negative,
    real,
    sqrt,
    subtract,
)
from ._elementwise import pow as power
from ._host import computed, is_tracked
from ._indexing import where
from ._linear import matmul, matrix_transpose, tensordot, vecdot
from ._manipulation import broadcast_to, concat, each, expand_dims, moveaxis, reshape, stack
from ._operands import (
    as_float,
    common_shape,
    converted,
    describe,
    normalized_axes,
    normalized_axis,
    operands,
    require_array,
    require_arrays,
)
from ._small import enter_result
from ._statistics import max, min, sum

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["EigResult", "EighResult", "LinAlgError", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cross",
           "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
           "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
           "trace", "vecdot", "vector_norm"]

_NAMESPACE = "drjit.array_api.linalg"
LinAlgError = np.linalg.LinAlgError
_qr: Any = np.linalg.qr


class EighResult(NamedTuple):
    """What :func:`eigh` returns."""

    eigenvalues: Array
    eigenvectors: Array


class EigResult(NamedTuple):
    """What :func:`eig` returns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """What :func:`qr` returns."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """What :func:`slogdet` returns."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """What :func:`svd` returns."""

    U: Array
    S: Array
    Vh: Array


for _result in (EighResult, EigResult, QRResult, SlogdetResult, SVDResult):
    enter_result(_result)

# --- helpers ---------------------------------------------------------------------------------------------------------


def _matrices(name: str, x: Any, square: bool = False, argument: str = "x") -> Array:
    function = f"{_NAMESPACE}.{name}"
    array = as_float(function, argument, x)
    if array.ndim < 2:
        raise LinAlgError(f"{function}(): '{argument}' must have two dimensions at least, found the shape "
                          f"{array.shape}.")
    if square and array.shape[-1] != array.shape[-2]:
        raise LinAlgError(f"{function}(): '{argument}' must hold square matrices, found the shape {array.shape}.")
    return array


def _adjoint(a: Array) -> Array:
    return conj(matrix_transpose(a))


def _times(*factors: Array) -> Array:
    found = factors[0]
    for factor in factors[1:]:
        found = matmul(found, factor)
    return found


def _of(name: str, value: Any, *rest: Any) -> Any:
    """A function of NumPy whose errors name ours."""
    def run(*arrays: Any) -> Any:
        try:
            return value(*arrays, *rest)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(f"{_NAMESPACE}.{name}(): {error}") from None

    run.__name__ = name
    return run


def _identity(like: Array) -> Array:
    return eye(like.shape[-1], dtype=like._dtype, device=like.device)


def _diagonal_matrix(values: Array) -> Array:
    """Matrices with values on their diagonals."""
    size = values.shape[-1]
    return where(eye(size, dtype=dtypes.bool, device=values.device), expand_dims(values, -1), 0)


def _diagonal_of(a: Array) -> Array:
    return diagonal(a)


def _symmetric(a: Array) -> Array:
    return multiply(add(a, _adjoint(a)), 0.5)


def _safe_inverse(a: Array) -> Array:
    """1 / a, and 0 where that is infinite."""
    zero = equal(a, 0)
    return where(zero, 0, divide(1, where(zero, 1, a)))


def _differences(values: Array) -> Array:
    """1 / (values[j] - values[i]) in row i and column j, 0 on the diagonal and where values are equal."""
    return _safe_inverse(subtract(expand_dims(values, -2), expand_dims(values, -1)))


# --- products --------------------------------------------------------------------------------------------------------


def outer(x1: Array, x2: Array, /) -> Array:
    """The products of each element of one vector with each of another. Lazy; differentiable."""
    function = f"{_NAMESPACE}.outer"
    for name, value in (("x1", x1), ("x2", x2)):
        if require_array(function, name, value).ndim != 1:
            raise ValueError(f"{function}(): '{name}' must have one dimension, found the shape {value.shape}.")
    a, b = operands(function, (x1, x2), ("x1", "x2"), "iufc", broadcast=False)
    return multiply(expand_dims(a, 1), expand_dims(b, 0))


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The cross product along an axis of size three. Lazy; differentiable."""
    function = f"{_NAMESPACE}.cross"
    a, b = operands(function, require_arrays(function, (x1, x2), ("x1", "x2")), ("x1", "x2"), "iufc")
    place = normalized_axis(function, axis, a.ndim if a.ndim == b.ndim else least(a.ndim, b.ndim))
    behind = place - (a.ndim if axis >= 0 else least(a.ndim, b.ndim)) if axis >= 0 else axis
    shape = common_shape(function, (a, b))
    if a.shape[behind] != 3 or b.shape[behind] != 3:
        raise ValueError(f"{function}(): the axis must have the size 3 in both, found {a.shape[behind]} and "
                         f"{b.shape[behind]}.")
    a, b = (moveaxis(broadcast_to(array, shape), behind, -1) for array in (a, b))

    def parts(array: Array) -> list[Array]:
        return [each(array, lambda part, k=k: part[..., k]) for k in range(3)]

    (a0, a1, a2), (b0, b1, b2) = parts(a), parts(b)
    found = [subtract(multiply(p, q), multiply(r, s)) for p, q, r, s in
             ((a1, b2, a2, b1), (a2, b0, a0, b2), (a0, b1, a1, b0))]
    return moveaxis(stack(found, axis=-1), -1, behind)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The entries on a diagonal, ``offset`` places above the main one. A view; lazy; differentiable."""
    function = f"{_NAMESPACE}.diagonal"
    array = require_array(function, "x", x)
    if array.ndim < 2:
        raise ValueError(f"{function}(): 'x' must have two dimensions at least, found the shape {array.shape}.")
    rows, columns = array.shape[-2:]
    first_row, first_column = most(-offset, 0), most(offset, 0)
    count = most(least(rows - first_row, columns - first_column), 0)
    first = first_row * columns + first_column
    key = (..., slice(first, first + (count - 1) * (columns + 1) + 1 if count else first, columns + 1))
    start, strides = array.place
    return view_of(array, lambda part: dr.reshape(part, (*array.shape[:-2], rows * columns))[key],
                   start + first_row * strides[-2] + first_column * strides[-1],
                   (*strides[:-2], strides[-2] + strides[-1]))


def trace(x: Array, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sum of the entries on a diagonal. Lazy; differentiable."""
    return sum(diagonal(require_array(f"{_NAMESPACE}.trace", "x", x), offset=offset), axis=-1, dtype=dtype)


def matrix_power(x: Array, n: int, /) -> Array:
    """The product of a matrix with itself, ``n`` times; the inverse for negative ones. Differentiable; lazy, but for
    negative ones."""
    array = _matrices("matrix_power", x, square=True)
    try:
        count = operator.index(n)
    except TypeError:
        raise TypeError(f"{_NAMESPACE}.matrix_power(): 'n' must be an int, found {describe(n)}.") from None
    if count < 0:
        array, count = inv(array), -count
    found: Array | None = None
    while count:
        if count & 1:
            found = array if found is None else matmul(found, array)
        count >>= 1
        if count:
            array = matmul(array, array)
    return broadcast_to(_identity(array), array.shape) if found is None else found


# --- norms -----------------------------------------------------------------------------------------------------------


def vector_norm(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False,
                ord: float = 2) -> Array:
    """The norm of vectors along axes, of all elements without one: the ``ord``-th root of the sum of powers, the
    largest magnitude for infinity, the smallest for minus infinity, the number of nonzero elements for 0. Lazy;
    differentiable."""
    function = f"{_NAMESPACE}.vector_norm"
    array = as_float(function, "x", x)
    axes = normalized_axes(function, axis, array.ndim)
    if not isinstance(ord, (int, float)):
        raise TypeError(f"{function}(): 'ord' must be a number, found {ord!r}.")
    if math.isinf(ord) and not array.size and not math.prod([array.shape[place] for place in axes]):
        raise ValueError(f"{function}(): there is no element along the axes {axes} of an array of the shape "
                         f"{array.shape}.")
    if axis is None and array.ndim != 1:
        found = vector_norm(reshape(array, (-1,)), ord=ord)
        return reshape(found, (1,) * array.ndim) if keepdims else found
    size = abs(array)
    if ord == math.inf:
        return max(size, axis=axes, keepdims=keepdims)
    if ord == -math.inf:
        return min(size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return sum(converted(greater(size, 0), size._dtype), axis=axes, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis=axes, keepdims=keepdims)
    if ord == 2:
        return sqrt(sum(multiply(size, size), axis=axes, keepdims=keepdims))
    return power(sum(power(size, float(ord)), axis=axes, keepdims=keepdims), 1 / float(ord))


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of matrices: ``'fro'`` (of all entries), ``'nuc'`` (the sum of singular values), 1, -1 (the largest and
    smallest sum of a column), infinity, -infinity (of a row), 2, -2 (the largest and smallest singular value).
    Differentiable; those of singular values evaluate."""
    function = f"{_NAMESPACE}.matrix_norm"
    array = _matrices("matrix_norm", x)
    size = abs(array)
    if ord == "fro":
        found = sqrt(sum(multiply(size, size), axis=(-2, -1)))
    elif ord == "nuc":
        found = sum(svdvals(array), axis=-1)
    elif ord in (2, -2):
        found = (max if ord == 2 else min)(svdvals(array), axis=-1)
    elif ord in (1, -1, math.inf, -math.inf):
        column = ord in (1, -1)
        sums = sum(size, axis=-2 if column else -1)
        found = (max if ord > 0 else min)(sums, axis=-1)
    else:
        raise ValueError(f"{function}(): 'ord' must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, found {ord!r}.")
    return reshape(found, (*array.shape[:-2], 1, 1)) if keepdims else found


# --- systems of equations --------------------------------------------------------------------------------------------


def inv(x: Array, /) -> Array:
    """The inverse. Evaluates; differentiable. Raises a ``LinAlgError`` for singular matrices."""
    array = _matrices("inv", x, square=True)
    return computed(f"{_NAMESPACE}.inv", _of("inv", np.linalg.inv), [array],
                    lambda a, y, d: [negative(_times(y[0], d[0], y[0]))],
                    lambda a, y, g: [negative(_times(_adjoint(y[0]), g[0], _adjoint(y[0])))])[0]


def solve(x1: Array, x2: Array, /) -> Array:
    """The solution of ``x1 @ solution = x2``; ``x2`` is a vector if it has one dimension, else matrices. Evaluates;
    differentiable. Raises a ``LinAlgError`` for singular matrices."""
    function = f"{_NAMESPACE}.solve"
    a, b = operands(function, (_matrices("solve", x1, square=True, argument="x1"), as_float(function, "x2", x2)),
                    ("x1", "x2"), "fc", broadcast=False)
    if not b.ndim:
        raise ValueError(f"{function}(): 'x2' must have a dimension at least.")
    vector = b.ndim == 1
    if vector:
        b = expand_dims(b, 1)
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"{function}(): matrices of {a.shape[-1]} rows do not go with the shape {x2.shape}.")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (broadcast_to(array, (*batch, *array.shape[-2:])) for array in (a, b))

    def backward(given: Any, y: Any, g: Any) -> Any:
        right = solve(_adjoint(given[0]), g[0])
        return [negative(matmul(right, _adjoint(y[0]))), right]

    found = computed(function, _of("solve", np.linalg.solve), [a, b],
                     lambda given, y, d: [solve(given[0], subtract(d[1], matmul(d[0], y[0])))], backward)[0]
    return reshape(found, found.shape[:-1]) if vector else found


def det(x: Array, /) -> Array:
    """The determinant. Evaluates; differentiable where it is not 0."""
    array = _matrices("det", x, square=True)
    return computed(f"{_NAMESPACE}.det", _of("det", np.linalg.det), [array],
                    lambda a, y, d: [multiply(y[0], trace(matmul(inv(a[0]), d[0])))],
                    lambda a, y, g: [multiply(_entries(multiply(g[0], conj(y[0]))), _adjoint(inv(a[0])))])[0]


def _entries(values: Array) -> Array:
    """Numbers, one for each matrix of a batch, to be broadcast to its entries."""
    return reshape(values, (*values.shape, 1, 1))


def slogdet(x: Array, /) -> SlogdetResult:
    """The sign of the determinant (of complex ones the direction), and the logarithm of its magnitude. Evaluates;
    differentiable where it is not 0."""
    array = _matrices("slogdet", x, square=True)
    complex_ = array._dtype.kind == "c"

    def forward(a: Any, y: Any, d: Any) -> Any:
        change = trace(matmul(inv(a[0]), d[0]))
        if not complex_:
            return [multiply(y[0], 0), change]
        turned = wrap(y[0]._dtype, imag(change)._parts[0] * 0, imag(change)._parts[0])
        return [multiply(y[0], turned), real(change)]

    def backward(a: Any, y: Any, g: Any) -> Any:
        factor = g[1]
        if complex_:
            factor = wrap(y[0]._dtype, g[1]._parts[0], negative(imag(multiply(y[0], conj(g[0]))))._parts[0])
        return [multiply(_entries(factor), _adjoint(inv(a[0])))]

    return SlogdetResult(*computed(f"{_NAMESPACE}.slogdet", _of("slogdet", lambda a: tuple(np.linalg.slogdet(a))),
                                   [array], forward, backward))


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The lower triangular factor L of ``x = L @ L^H`` (``U^H @ U`` with ``upper``), of the lower triangle of positive
    definite matrices. Evaluates; differentiable (Murray 2016, arXiv:1602.07527). Raises a ``LinAlgError`` for others.
    """
    array = _matrices("cholesky", x, square=True)

    def half(a: Array) -> Array:
        return subtract(tril(a), multiply(_diagonal_matrix(_diagonal_of(a)), 0.5))

    def forward(a: Any, y: Any, d: Any) -> Any:
        back = inv(y[0])
        return [matmul(y[0], half(_times(back, _symmetric(d[0]), _adjoint(back))))]

    def backward(a: Any, y: Any, g: Any) -> Any:
        back = inv(y[0])
        return [_symmetric(_times(_adjoint(back), half(matmul(_adjoint(y[0]), tril(g[0]))), back))]

    found = computed(f"{_NAMESPACE}.cholesky", _of("cholesky", np.linalg.cholesky), [array], forward, backward)[0]
    return _adjoint(found) if upper else found


# --- eigenvalues -----------------------------------------------------------------------------------------------------


def eigh(x: Array, /) -> EighResult:
    """Eigenvalues, in ascending order, and eigenvectors (columns) of Hermitian matrices, of which the lower triangle is
    read. Evaluates; differentiable where eigenvalues are distinct (Giles 2008)."""
    array = _matrices("eigh", x, square=True)

    def forward(a: Any, y: Any, d: Any) -> Any:
        inner = _times(_adjoint(y[1]), _symmetric(d[0]), y[1])
        return [real(_diagonal_of(inner)), matmul(y[1], multiply(_like(_differences(y[0]), inner), inner))]

    def backward(a: Any, y: Any, g: Any) -> Any:
        inner = matmul(_adjoint(y[1]), g[1])
        middle = add(_like(_diagonal_matrix(g[0]), inner), multiply(_like(_differences(y[0]), inner), inner))
        return [_symmetric(_times(y[1], middle, _adjoint(y[1])))]

    return EighResult(*computed(f"{_NAMESPACE}.eigh", _of("eigh", lambda a: tuple(np.linalg.eigh(a))), [array], forward,
                                backward))


def _like(a: Array, b: Array) -> Array:
    return converted(a, b._dtype)


def eigvalsh(x: Array, /) -> Array:
    """The eigenvalues of Hermitian matrices in ascending order. Evaluates; differentiable."""
    array = _matrices("eigvalsh", x, square=True)
    if is_tracked(array):
        return eigh(array).eigenvalues
    return computed(f"{_NAMESPACE}.eigvalsh", _of("eigvalsh", np.linalg.eigvalsh), [array])[0]


def eig(x: Array, /) -> EigResult:
    """Eigenvalues and eigenvectors (columns of length one), complex ones. Evaluates; differentiable where eigenvalues
    are distinct."""
    array = _matrices("eig", x, square=True)
    complex_ = array._dtype.kind == "c"

    def value(a: Any) -> Any:
        values, vectors = np.linalg.eig(a)
        dtype = np.result_type(a.dtype, np.complex64)
        return values.astype(dtype), vectors.astype(dtype)

    def forward(a: Any, y: Any, d: Any) -> Any:
        inner = solve(y[1], matmul(_like(d[0], y[1]), y[1]))
        change = matmul(y[1], multiply(_differences(y[0]), inner))
        along = real(_diagonal_of(matmul(_adjoint(y[1]), change)))
        return [_diagonal_of(inner), subtract(change, multiply(y[1], _like(expand_dims(along, -2), y[1])))]

    def backward(a: Any, y: Any, g: Any) -> Any:
        back = _adjoint(y[1])
        inner = matmul(back, g[1])
        along = _like(_diagonal_matrix(real(_diagonal_of(inner))), inner)
        middle = add(_diagonal_matrix(g[0]), multiply(conj(_differences(y[0])),
                                                      subtract(inner, _times(back, y[1], along))))
        found = solve(back, matmul(middle, back))
        return [found if complex_ else real(found)]

    return EigResult(*computed(f"{_NAMESPACE}.eig", _of("eig", value), [array], forward, backward))


def eigvals(x: Array, /) -> Array:
    """Eigenvalues, complex ones, in no particular order. Evaluates; differentiable where they are distinct."""
    array = _matrices("eigvals", x, square=True)
    if is_tracked(array):
        return eig(array).eigenvalues
    return computed(f"{_NAMESPACE}.eigvals", _of("eigvals", lambda a: np.linalg.eigvals(a).astype(
        np.result_type(a.dtype, np.complex64))), [array])[0]


# --- factorisations --------------------------------------------------------------------------------------------------


def qr(x: Array, /, *, mode: str = "reduced") -> QRResult:
    """Q, whose columns are orthonormal, and R, an upper triangle, with ``x = Q @ R``. ``mode='complete'`` gives a
    square Q. Evaluates; differentiable (Roberts & Roberts 2020, arXiv:2009.10071), unless Q has more columns than
    ``x``."""
    function = f"{_NAMESPACE}.qr"
    if mode not in ("reduced", "complete"):
        raise ValueError(f"{function}(): 'mode' must be 'reduced' or 'complete', found {mode!r}.")
    array = _matrices("qr", x)

    def forward(a: Any, y: Any, d: Any) -> Any:
        scaled = matmul(d[0], inv(y[1]))
        inner = matmul(_adjoint(y[0]), scaled)
        lower = tril(inner, k=-1)
        turn = subtract(lower, _adjoint(lower))
        if inner._dtype.kind == "c":
            turn = add(turn, subtract(_diagonal_matrix(_diagonal_of(inner)),
                                      _like(_diagonal_matrix(real(_diagonal_of(inner))), inner)))
        rest = subtract(scaled, matmul(y[0], inner))
        return [add(matmul(y[0], turn), rest), matmul(subtract(inner, turn), y[1])]

    def backward(a: Any, y: Any, g: Any) -> Any:
        inner = subtract(matmul(y[1], _adjoint(g[1])), matmul(_adjoint(g[0]), y[0]))
        lower = tril(inner, k=-1)
        copied = add(add(lower, _adjoint(lower)), _like(_diagonal_matrix(real(_diagonal_of(inner))), inner))
        return [matmul(add(g[0], matmul(y[0], copied)), _adjoint(inv(y[1])))]

    rows, columns = array.shape[-2:]
    if rows < columns and is_tracked(array):  # the columns behind the first square follow from its Q
        q, r = qr(array[..., :rows])
        return QRResult(q, concat([r, matmul(_adjoint(q), array[..., rows:])], axis=-1))
    unique = mode == "reduced" or rows <= columns
    return QRResult(*computed(function, _of("qr", lambda a: tuple(_qr(a, mode))), [array],
                              forward if unique else None, backward if unique else None,
                              "the columns of Q beyond those of mode='reduced' have no derivative"))


def svd(x: Array, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular vectors U and Vh and singular values S, in descending order, with ``x = U @ diag(S) @ Vh``. Evaluates;
    differentiable if values are distinct and not 0, and vectors are the reduced ones (Townsend 2016; Wan & Zhang 2019,
    arXiv:1909.02659)."""
    array = _matrices("svd", x)

    def forward(a: Any, y: Any, d: Any) -> Any:
        u, s, vh = y
        v = _adjoint(vh)
        inner = _times(_adjoint(u), d[0], v)
        f = _like(_differences(multiply(s, s)), inner)
        diag = _like(_diagonal_matrix(s), inner)
        back = _like(_diagonal_matrix(_safe_inverse(s)), inner)
        left = multiply(f, add(matmul(inner, diag), matmul(diag, _adjoint(inner))))
        right = multiply(f, add(matmul(diag, inner), matmul(_adjoint(inner), diag)))
        if inner._dtype.kind == "c":
            phase = multiply(subtract(inner, _adjoint(inner)), 0.25)
            left = add(left, matmul(_diagonal_matrix(_diagonal_of(phase)), back))
            right = subtract(right, matmul(_diagonal_matrix(_diagonal_of(phase)), back))
        du = add(matmul(u, left), subtract(_times(d[0], v, back), _times(u, inner, back)))
        dv = add(matmul(v, right), subtract(_times(_adjoint(d[0]), u, back), _times(v, _adjoint(inner), back)))
        return [du, real(_diagonal_of(inner)), _adjoint(dv)]

    def backward(a: Any, y: Any, g: Any) -> Any:
        u, s, vh = y
        v, gv = _adjoint(vh), _adjoint(g[2])
        left, right = matmul(_adjoint(u), g[0]), matmul(vh, gv)
        f = _like(_differences(multiply(s, s)), left)
        diag = _like(_diagonal_matrix(s), left)
        back = _like(_diagonal_matrix(_safe_inverse(s)), left)
        ju, jv = multiply(f, left), multiply(f, right)
        middle = add(add(matmul(add(ju, _adjoint(ju)), diag), matmul(diag, add(jv, _adjoint(jv)))),
                     _like(_diagonal_matrix(g[1]), left))
        if left._dtype.kind == "c":
            phase = multiply(subtract(subtract(left, _adjoint(left)), subtract(right, _adjoint(right))), 0.25)
            middle = add(middle, matmul(_diagonal_matrix(_diagonal_of(phase)), back))
        found = _times(u, middle, vh)
        found = add(found, _times(subtract(g[0], matmul(u, left)), back, vh))
        return [add(found, _times(u, back, _adjoint(subtract(gv, matmul(v, right)))))]

    reduced = not full_matrices or array.shape[-1] == array.shape[-2]
    return SVDResult(*computed(f"{_NAMESPACE}.svd", _of("svd", lambda a: _decomposed(a, full_matrices)),
                               [array], forward if reduced else None, backward if reduced else None,
                               "singular vectors beyond those of full_matrices=False have no derivative"))


#: Matrices of at least so many elements are left to SciPy, if it is installed: it copies them once, NumPy twice.
_LARGE = 1 << 16


def _decomposed(a: np.ndarray[Any, Any], full: bool) -> tuple[Any, ...]:
    """The singular value decomposition of NumPy arrays."""
    if a.ndim == 2 and a.size >= _LARGE and importlib.util.find_spec("scipy") is not None:
        # Imported here alone, since that takes longer than the matrices of most programs.
        return tuple(importlib.import_module("scipy.linalg").svd(a, full, check_finite=False))
    return tuple(np.linalg.svd(a, full))


def svdvals(x: Array, /) -> Array:
    """Singular values in descending order. Evaluates; differentiable."""
    array = _matrices("svdvals", x)
    if is_tracked(array):
        return svd(array, full_matrices=False).S
    return computed(f"{_NAMESPACE}.svdvals", _of("svdvals", np.linalg.svdvals), [array])[0]


def pinv(x: Array, /, *, rtol: Any = None) -> Array:
    """The Moore-Penrose inverse; singular values below ``rtol`` times the largest one count as 0 (by default the larger
    size times the precision). Evaluates; differentiable where the rank does not change (Golub & Pereyra 1973)."""
    array = _matrices("pinv", x)
    limit = _tolerance(array, rtol)

    def forward(a: Any, y: Any, d: Any) -> Any:
        p, change = y[0], d[0]
        left = subtract(_identity(matmul(a[0], p)), matmul(a[0], p))
        right = subtract(_identity(matmul(p, a[0])), matmul(p, a[0]))
        found = negative(_times(p, change, p))
        found = add(found, _times(p, _adjoint(p), _adjoint(change), left))
        return [add(found, _times(right, _adjoint(change), _adjoint(p), p))]

    def backward(a: Any, y: Any, g: Any) -> Any:
        p, gradient = y[0], g[0]
        left = subtract(_identity(matmul(a[0], p)), matmul(a[0], p))
        right = subtract(_identity(matmul(p, a[0])), matmul(p, a[0]))
        found = negative(_times(_adjoint(p), gradient, _adjoint(p)))
        found = add(found, _times(left, _adjoint(gradient), p, _adjoint(p)))
        return [add(found, _times(_adjoint(p), p, _adjoint(gradient), right))]

    return computed(f"{_NAMESPACE}.pinv", _of("pinv", lambda a: np.linalg.pinv(a, rtol=limit)), [array], forward,
                    backward)[0]


def _tolerance(array: Storage, rtol: Any) -> Any:
    if rtol is None:
        return most(*array.shape[-2:]) * float(np.finfo(array._dtype.part.numpy).eps)
    return np.asarray(rtol) if isinstance(rtol, Storage) else rtol


def matrix_rank(x: Array, /, *, rtol: Any = None) -> Array:
    """The number of singular values above ``rtol`` times the largest one (by default the larger size times the
    precision). Evaluates; has no derivative."""
    array = _matrices("matrix_rank", x)
    if not array.shape[-1] or not array.shape[-2]:
        return constant(dtypes.DEFAULT_INT, 0, array.shape[:-2], array.device)
    limit = _tolerance(array, rtol)

    def rank(a: Any) -> Any:
        values = np.linalg.svdvals(a)
        bound = values.max(axis=-1, keepdims=True) * (limit[..., None] if np.ndim(limit) else limit)
        return np.count_nonzero(values > bound, axis=-1).astype(np.int64)

    return computed(f"{_NAMESPACE}.matrix_rank", _of("matrix_rank", rank), [_detached(array)])[0]


def _detached(array: Storage) -> Array:
    return wrap(array._dtype, *[dr.detach(part) for part in array._parts])


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
