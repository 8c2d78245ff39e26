"""Tracing products of a matrix in memory and a vector of values, and sums of products of two vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops.products import OUTER, PRODUCT
from ..ops.table import REDUCE
from ..types import COMPUTES_IN, ReduceOp
from . import verify
from .build import append
from .node import Node
from .structured import traced

__all__ = ["outer_sums", "products", "row_of_product"]


def row_of_product(matrix: Node, *values: Node, attr: int = 0, payload: Any = None) -> Node:
    """One component of a product; operands have no derivatives."""
    return traced(PRODUCT, values[0].type, [matrix, *values], attr, payload)


def products(matrix: Node, values: Sequence[Node], rows: int, offset: int, down: int, right: int) -> list[Node]:
    """The product of a matrix and a vector.

    The element of the matrix in row ``i`` and column ``k`` is at ``offset + i * down + k * right``. The values are of
    the type that elements of the matrix are computed in; nothing has a derivative. Rows of one product that a kernel
    wants are computed together, whatever else is traced between them.
    """
    return [row_of_product(matrix, *values, attr=row, payload=(offset, down, right)) for row in range(rows)]


def outer_sums(left: Sequence[Node], right: Sequence[Node]) -> Node:
    """A matrix, row by row: the products of each component of one vector with each of another one, added up over all
    elements. The values are of single or double precision; nothing has a derivative, and this is no part of a region.
    """
    products = traced(OUTER, left[0].type, [*left, *right], len(left))
    return append(REDUCE, products.type, len(left) * len(right), products, attr=ReduceOp.Add.value)


def _check(node: Node, values: list[Node]) -> None:
    verify.require(all(value.type == COMPUTES_IN[values[0].type] == node.type for value in values[1:]), node,
                   "multiplies values of a type that the matrix is not computed in")
    offset, down, right = node.payload
    last = offset + node.attr * down + (len(values) - 2) * right
    first = offset + node.attr * down
    verify.require(all(0 <= at < values[0].size for at in (first, last)), node, "reads beyond the matrix")


def _check_outer(node: Node, values: list[Node]) -> None:
    verify.require(node.type == COMPUTES_IN[node.type], node, "is not of a type that is computed in")
    verify.require(0 < node.attr < len(values), node, "has no second vector")
    verify.require(node.scope == 0, node, "is part of a region")


verify.CHECKS[PRODUCT] = _check
verify.CHECKS[OUTER] = _check_outer
