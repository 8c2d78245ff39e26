"""Products of matrices and cooperative vectors."""

from __future__ import annotations

from typing import Any

from drjit_core import BAKED, COMPUTES_IN, Node, cast, gather, literal, ops

from .._access.lanes import TRUE
from .._base.errors import describe
from .._base.types import UINT32, relative
from .vector import CoopVec
from .views import MatrixView

__all__ = ["matvec"]


def matvec(A: MatrixView, x: CoopVec[Any], b: MatrixView | None = None, /, transpose: bool = False) -> CoopVec[Any]:
    """The product ``A @ x``, or ``A @ x + b``, of a matrix and a cooperative vector: another cooperative vector.

    ``A`` and ``b`` (a column) are views of buffers of any layout, of the scalar type of ``x``: any of half, single and
    double precision. With ``transpose``, the transposed matrix is meant; so it is of a view that is transposed itself.
    Products of half precision are summed in single precision, and rounded once.

    Derivatives flow from and to ``x``, and the buffers, in both modes; gradients of buffers of half precision are
    summed in single precision, too. The product is traced, and part of the kernel that needs it; in loops, calls and
    frozen functions as well.

    Raises a ``TypeError`` for what are no views and no vector, a ``RuntimeError`` for shapes or types that do not fit.

    >>> from drjit.llvm import Float, TensorXf
    >>> A, b = dr.nn.pack(TensorXf([1, 2, 3, 4], (2, 2)), Float(5, 6))
    >>> list(dr.nn.matvec(A, dr.nn.CoopVec(Float(1, 0), 1), b))
    [[8, 7], [13, 10]]
    """
    function = "drjit.nn.matvec"
    if not isinstance(A, MatrixView) or not isinstance(x, CoopVec) or not (b is None or isinstance(b, MatrixView)):
        raise TypeError(f"{function}(): the arguments are a view of a matrix, a cooperative vector, and a view of a "
                        f"vector or None, found {describe(A)}, {describe(x)} and {describe(b)}; drjit.nn.view() and "
                        "drjit.nn.pack() make views.")
    matrix = A.T if transpose else A
    rows, columns, _, _ = matrix._steps
    nodes = x._nodes()
    for name, found in (("matrix", A), ("bias", b)):
        if found is not None and (found._buffer._type != nodes[0].type or found._buffer._kind != "f"):
            raise RuntimeError(f"{function}(): the {name} has elements of the type {describe(found._buffer)}, the "
                               f"cooperative vector of the type {describe(x.type)}; both must be one type of "
                               "floating-point numbers.")
    if columns != len(nodes):
        raise RuntimeError(f"{function}(): a matrix of {rows} rows and {columns} columns"
                           f"{' (transposed)' if matrix._transpose else ''} does not go with a cooperative vector of "
                           f"{len(nodes)} components.")
    if b is not None and b._steps[:2] != (rows, 1):
        raise RuntimeError(f"{function}(): the bias of a product with {rows} rows has the shape ({rows}, 1), found "
                           f"{b._steps[:2]}.")
    arrays = [found._buffer for found in (A, b) if found is not None]
    diff = x.type._record.diff or any(array._record.diff for array in arrays)
    leaf = relative(x.type, x.type._record.backend, diff)
    if any(array._record.backend is not leaf._record.backend for array in arrays):
        raise RuntimeError(f"{function}(): the arguments belong to different backends.")
    return CoopVec._made(leaf, _product(matrix, nodes, b))


def _read(found: MatrixView, row: int, column: int) -> Node:
    """An element of a matrix, in the type that is computed in."""
    _, _, down, right = found._steps
    source = found._buffer._n
    index = literal(UINT32, found._offset + row * down + column * right, 1, BAKED)
    return cast(gather(source, index, TRUE), COMPUTES_IN[source.type])


def _product(matrix: MatrixView, nodes: list[Node], bias: MatrixView | None) -> list[Node]:
    rows, columns, _, _ = matrix._steps
    type_ = nodes[0].type
    wide = [cast(node, COMPUTES_IN[type_]) for node in nodes]
    result = []
    for row in range(rows):
        total = _read(bias, row, 0) if bias is not None else None
        for column in range(columns):
            weight = _read(matrix, row, column)
            total = ops.mul(weight, wide[column]) if total is None else ops.fma(weight, wide[column], total)
        assert total is not None
        result.append(cast(total, type_))
    return result


def _matmul(self: MatrixView, arg: Any, /) -> Any:
    return matvec(self, arg) if isinstance(arg, CoopVec) else NotImplemented


MatrixView.__matmul__ = _matmul  # type: ignore[operator]
