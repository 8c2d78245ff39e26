"""Tracing products of a matrix in memory and a vector of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops.products import PRODUCT
from ..types import COMPUTES_IN
from . import verify
from .node import Node
from .structured import traced

__all__ = ["products", "row_of_product"]


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


def _check(node: Node, values: list[Node]) -> None:
    verify.require(all(value.type == COMPUTES_IN[values[0].type] == node.type for value in values[1:]), node,
                   "multiplies values of a type that the matrix is not computed in")
    offset, down, right = node.payload
    last = offset + node.attr * down + (len(values) - 2) * right
    first = offset + node.attr * down
    verify.require(all(0 <= at < values[0].size for at in (first, last)), node, "reads beyond the matrix")


verify.CHECKS[PRODUCT] = _check
