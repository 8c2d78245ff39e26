"""Sparse matrices, whose products with arrays of ``drjit.array_api`` are traced, and have derivatives.

Three formats, as SciPy's: coordinates (:class:`coo_array`), compressed rows (:class:`csr_array`) and blocks
(:class:`bsr_array`). Where the elements are is known on the host; their values, ``data``, are an array of
``drjit.array_api``, by which products are differentiated as by what they are multiplied with.

>>> import drjit.array_api as xp
>>> from drjit.sparse import coo_array
>>> A = coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [0, 2, 1])), shape=(2, 3))
>>> A @ xp.asarray([1.0, 1.0, 1.0])
Array([3., 3.], dtype=float64)
"""

from __future__ import annotations

import importlib
import operator
from typing import Any

import numpy as np

import drjit.array_api as xp

__all__ = ["bsr_array", "coo_array", "csr_array", "from_scipy", "matmul"]

Array = xp.Array


def _positions(name: str, value: Any, limit: int) -> np.ndarray[Any, Any]:
    """Integers on the host, which must be less than a limit."""
    found = np.asarray(value)
    if found.ndim != 1 or found.dtype.kind not in "iu" and found.size:
        raise TypeError(f"drjit.sparse: '{name}' must be a vector of integers, found {found.dtype}{found.shape}.")
    found = found.astype(np.int64)
    if found.size and not 0 <= found.min() <= found.max() < limit:
        raise IndexError(f"drjit.sparse: '{name}' holds {found.min()} … {found.max()}, which are not all of 0 … "
                         f"{limit - 1}.")
    return found


def _scipy() -> Any:
    """SciPy's package, which is imported when it is asked for."""
    return importlib.import_module("scipy.sparse")


def _shape_of(shape: Any) -> tuple[int, int]:
    found = tuple([operator.index(size) for size in shape])
    if len(found) != 2 or min(found) < 0:
        raise ValueError(f"drjit.sparse: 'shape' must have two sizes, found {shape!r}.")
    return found


class _Sparse:
    """What the formats share: blocks of one size (one element but for :class:`bsr_array`), and the block row and column
    of each."""

    #: Operators of NumPy's arrays are left to these classes.
    __array_ufunc__ = None
    data: Array
    shape: tuple[int, int]

    @property
    def ndim(self) -> int:
        """The number of dimensions, 2."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of the elements."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """How many elements are stored."""
        return self.data.size

    def _places(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The block row and block column of each block."""
        raise NotImplementedError

    def _like(self, data: Array) -> Any:
        """A matrix with the same places and other elements."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of shape {self.shape} and {self.dtype} with {self.nnz} elements>"

    def __matmul__(self, other: Any) -> Any:
        return _product(self, other) if isinstance(other, _Sparse) else matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        array = other if isinstance(other, xp.Array) else xp.asarray(other, device=self.data.device)
        return matmul(self.T, array) if array.ndim == 1 else matmul(self.T, array.T).T

    def __mul__(self, number: Any) -> Any:
        if isinstance(number, _Sparse) or np.ndim(number):
            raise TypeError("drjit.sparse: '*' takes a number; '@' is the product of matrices.")
        return self._like(self.data * number)

    __rmul__ = __mul__

    def __truediv__(self, number: Any) -> Any:
        return self._like(self.data / number)

    def __neg__(self) -> Any:
        return self._like(-self.data)

    @property
    def T(self) -> Any:
        """The transpose, which shares the elements."""
        raise NotImplementedError

    def toarray(self) -> Array:
        """The matrix with its zeros; elements of one place are added. Lazy; differentiable."""
        return matmul(self, xp.eye(self.shape[1], dtype=self.dtype, device=self.data.device))

    def to_scipy(self) -> Any:
        """The matrix of SciPy in the same format. Evaluates; derivatives end here."""
        raise NotImplementedError


def matmul(A: _Sparse, x: Any) -> Array:
    """The product of a sparse matrix with a vector or the columns of a matrix. Lazy; differentiable by the elements of
    both. Raises a ``ValueError`` for shapes that do not go together."""
    device = A.data.device
    array = x if isinstance(x, xp.Array) else xp.asarray(x, device=device)
    rows, columns = A._places()
    if array.ndim not in (1, 2) or array.shape[0] != A.shape[1]:
        raise ValueError(f"drjit.sparse.matmul(): a matrix of the shape {A.shape} and an array of the shape "
                         f"{array.shape} do not go together.")
    height, width = A.data.shape[1:] if A.data.ndim == 3 else (1, 1)
    beside = array.reshape((A.shape[1] // width, width, *array.shape[1:]))
    kind = xp.result_type(A.data, array)
    found = xp.zeros((A.shape[0] // height, height, *array.shape[1:]), dtype=kind, device=device)
    if rows.size and array.size:
        chosen = xp.astype(beside[xp.asarray(columns, device=device)], kind)
        blocks = xp.astype(A.data, kind).reshape((rows.size, height, width))
        parts = xp.matmul(blocks, chosen if array.ndim == 2 else chosen[..., None]) if width > 1 else \
            blocks * chosen if array.ndim == 2 else blocks * chosen[..., None]
        found = found.at[xp.asarray(rows, device=device)].add(parts if array.ndim == 2 else parts[..., 0])
    return found.reshape((A.shape[0], *array.shape[1:]))


def _product(A: _Sparse, B: _Sparse) -> csr_array:
    """The product of two sparse matrices, as compressed rows. Where its elements are is known at once; these are lazy,
    and differentiable by those of both."""
    if A.shape[1] != B.shape[0]:
        raise ValueError(f"drjit.sparse: matrices of the shapes {A.shape} and {B.shape} do not go together.")
    A, B = (matrix.tocoo() if isinstance(matrix, bsr_array) else matrix for matrix in (A, B))
    (rows, inner), (own, columns) = A._places(), B._places()
    order = np.argsort(own, kind="stable")
    first = np.searchsorted(own[order], np.arange(B.shape[0] + 1))
    counts = np.diff(first)[inner]  # with so many elements of B each element of A is multiplied
    left = np.repeat(np.arange(inner.size), counts)
    behind = np.arange(left.size) - np.repeat(np.cumsum(counts) - counts, counts)
    right = order[first[inner[left]] + behind] if left.size else left
    places, index = np.unique(rows[left] * B.shape[1] + columns[right], return_inverse=True)
    data = xp.zeros(places.size, dtype=xp.result_type(A.data, B.data), device=A.data.device)
    if places.size:
        terms = A.data[left] * B.data[right]
        data = data.at[index.reshape(-1)].add(xp.astype(terms, data.dtype))
    return coo_array((data, (places // B.shape[1], places % B.shape[1])), (A.shape[0], B.shape[1])).tocsr()


class coo_array(_Sparse):
    """A matrix of coordinates: ``coo_array((data, (row, col)), shape=...)``, or of a dense array. Elements of one place
    are added."""

    def __init__(self, arg: Any, shape: Any = None) -> None:
        if isinstance(arg, tuple):
            data, (row, col) = arg
            self.shape = _shape_of((np.max(row, initial=-1) + 1, np.max(col, initial=-1) + 1) if shape is None else
                                   shape)
            self.row, self.col = _positions("row", row, self.shape[0]), _positions("col", col, self.shape[1])
            self.data = xp.asarray(data)
        else:
            dense = np.asarray(arg)
            self.shape = _shape_of(dense.shape)
            self.row, self.col = np.nonzero(dense)
            self.data = xp.asarray(dense[self.row, self.col])
        if self.data.shape != self.row.shape or self.row.shape != self.col.shape:
            raise ValueError(f"drjit.sparse.coo_array(): there are elements of the shape {self.data.shape}, "
                             f"{self.row.size} rows and {self.col.size} columns.")

    def _places(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return self.row, self.col

    def _like(self, data: Array) -> coo_array:
        return coo_array((data, (self.row, self.col)), self.shape)

    @property
    def T(self) -> coo_array:
        """The transpose, which shares the elements."""
        return coo_array((self.data, (self.col, self.row)), self.shape[::-1])

    def tocsr(self) -> csr_array:
        """The matrix as compressed rows. Lazy; differentiable."""
        return csr_array(self)

    def to_scipy(self) -> Any:
        """The matrix of SciPy in the same format. Evaluates; derivatives end here."""
        return _scipy().coo_array((np.array(self.data), (self.row, self.col)), shape=self.shape)


class csr_array(_Sparse):
    """A matrix of compressed rows: ``csr_array((data, indices, indptr), shape=...)``, or of a dense array."""

    def __init__(self, arg: Any, shape: Any = None) -> None:
        if not isinstance(arg, tuple):
            found = arg if isinstance(arg, coo_array) else coo_array(arg)
            order = np.lexsort((found.col, found.row))
            counts = np.bincount(found.row, minlength=found.shape[0])
            arg = found.data[order] if order.size else found.data, found.col[order], \
                np.concatenate([[0], np.cumsum(counts)])
            shape = found.shape
        data, indices, indptr = arg
        self.data, self.indptr = xp.asarray(data), np.asarray(indptr).astype(np.int64)
        self.shape = _shape_of((self.indptr.size - 1, np.max(indices, initial=-1) + 1) if shape is None else shape)
        self.indices = _positions("indices", indices, self.shape[1])
        steps = np.diff(self.indptr)
        if self.indptr.size != self.shape[0] + 1 or self.indptr[0] or np.any(steps < 0) or \
                self.indptr[-1] != self.indices.size or self.data.shape != self.indices.shape:
            raise ValueError(f"drjit.sparse.csr_array(): 'indptr' must begin with 0, not decrease, and end with the "
                             f"number of elements for {self.shape[0]} rows, found {self.indptr}.")
        self._rows = np.repeat(np.arange(self.shape[0]), steps)

    def _places(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return self._rows, self.indices

    def _like(self, data: Array) -> csr_array:
        return csr_array((data, self.indices, self.indptr), self.shape)

    def tocoo(self) -> coo_array:
        """The matrix of coordinates, which shares the elements."""
        return coo_array((self.data, (self._rows, self.indices)), self.shape)

    @property
    def T(self) -> coo_array:
        """The transpose, of coordinates, which shares the elements."""
        return self.tocoo().T

    def to_scipy(self) -> Any:
        """The matrix of SciPy in the same format. Evaluates; derivatives end here."""
        return _scipy().csr_array((np.array(self.data), self.indices, self.indptr), shape=self.shape)


class bsr_array(_Sparse):
    """A matrix of compressed rows of blocks: ``bsr_array((data, indices, indptr), shape=...)``, where ``data`` holds
    blocks of one size."""

    def __init__(self, arg: tuple[Any, Any, Any], shape: Any = None) -> None:
        data, indices, indptr = arg
        self.data, self.indptr = xp.asarray(data), np.asarray(indptr).astype(np.int64)
        if self.data.ndim != 3:
            raise ValueError("drjit.sparse.bsr_array(): 'data' must have three axes, found the shape "
                             f"{self.data.shape}.")
        height, width = self.blocksize = self.data.shape[1:]
        self.shape = _shape_of(((self.indptr.size - 1) * height, (np.max(indices, initial=-1) + 1) * width)
                               if shape is None else shape)
        if self.shape[0] % height or self.shape[1] % width:
            raise ValueError(f"drjit.sparse.bsr_array(): blocks of {self.blocksize} do not fill the shape "
                             f"{self.shape}.")
        self.indices = _positions("indices", indices, self.shape[1] // width)
        steps = np.diff(self.indptr)
        if self.indptr.size != self.shape[0] // height + 1 or self.indptr[0] or np.any(steps < 0) or \
                self.indptr[-1] != self.indices.size or self.data.shape[0] != self.indices.size:
            raise ValueError(f"drjit.sparse.bsr_array(): 'indptr' must begin with 0, not decrease, and end with the "
                             f"number of blocks, found {self.indptr}.")
        self._rows = np.repeat(np.arange(self.shape[0] // height), steps)

    def _places(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return self._rows, self.indices

    def _like(self, data: Array) -> bsr_array:
        return bsr_array((data, self.indices, self.indptr), self.shape)

    def tocoo(self) -> coo_array:
        """The matrix of coordinates. Lazy; differentiable."""
        height, width = self.blocksize
        rows = self._rows[:, None, None] * height + np.arange(height)[:, None] + np.zeros(width, np.int64)
        columns = self.indices[:, None, None] * width + np.zeros((height, 1), np.int64) + np.arange(width)
        return coo_array((self.data.reshape(-1), (rows.ravel(), columns.ravel())), self.shape)

    @property
    def T(self) -> coo_array:
        """The transpose, of coordinates."""
        return self.tocoo().T

    def to_scipy(self) -> Any:
        """The matrix of SciPy in the same format. Evaluates; derivatives end here."""
        return _scipy().bsr_array((np.array(self.data), self.indices, self.indptr), shape=self.shape)


def from_scipy(matrix: Any) -> coo_array | csr_array | bsr_array:
    """The matrix of this module for one of SciPy: in the same format if that is COO, CSR or BSR, else as CSR."""
    format = getattr(matrix, "format", None)
    if format is None:
        raise TypeError(f"drjit.sparse.from_scipy(): 'matrix' must be a sparse matrix of SciPy, found {type(matrix)}.")
    if format == "coo":
        return coo_array((matrix.data, (matrix.row, matrix.col)), matrix.shape)
    if format == "bsr":
        return bsr_array((matrix.data, matrix.indices, matrix.indptr), matrix.shape)
    found = matrix.tocsr()
    return csr_array((found.data, found.indices, found.indptr), found.shape)
