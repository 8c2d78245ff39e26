"""Tracing products of a matrix in memory and a vector of values, and sums of products of two vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..context import current
from ..ops.products import OUTER, PRODUCT
from ..ops.table import REDUCE
from ..types import BOOL, COMPUTES_IN, UINT32, ReduceMode, ReduceOp
from . import verify
from .build import append, counter, literal
from .extents import has_places
from .node import BAKED, Node
from .region import all_operands
from .structured import traced, traced_each
from .trace import ops, scatter

__all__ = ["add_outer_sums", "add_products", "other_row", "outer_products", "outer_sums", "products",
           "require_matrix", "row_of_product"]

TRUE = literal(BOOL, True)
#: Distances in memory, which may be negative, are added modulo this.
_WORD = 1 << 32


def row_of_product(matrix: Node, *values: Node, attr: int = 0, payload: Any = None) -> Node:
    """One component of a product; operands have no derivatives."""
    return traced(PRODUCT, values[0].type, [matrix, *values], attr, payload)


def products(matrix: Node, values: Sequence[Node], rows: int, offset: int, down: int, right: int) -> list[Node]:
    """The product of a matrix and a vector.

    The element of the matrix in row ``i`` and column ``k`` is at ``offset + i * down + k * right``. The values are of
    the type that elements of the matrix are computed in; nothing has a derivative. Rows of one product that a kernel
    wants are computed together, whatever else is traced between them. Raises an ``IndexError`` if memory ends before.
    """
    require_matrix("products", matrix, rows, len(values), offset, down, right)
    return traced_each(PRODUCT, values[0].type, [matrix, *values], range(rows), (offset, down, right))


def require_matrix(function: str, memory: Node, rows: int, columns: int, offset: int, down: int, right: int) -> None:
    """Raise an ``IndexError`` if a matrix is not all within its memory."""
    corners = [offset + row * down + column * right for row in (0, rows - 1) for column in (0, columns - 1)]
    if rows * columns and not has_places(memory, min(corners), max(corners)):
        raise IndexError(f"{function}(): a matrix of {rows} rows and {columns} columns, at places {min(corners)} to "
                         f"{max(corners)}, is not all within its memory, an array of size {memory.size}")


def other_row(node: Node, row: int) -> Node:
    """Another component of the product that a node is one of."""
    if node.kind != PRODUCT:  # there are no elements
        return node
    return append(PRODUCT, node.type, node.size, node.d0, node.d1, node.d2, node.d3, row, node.payload, node.scope)


def outer_sums(left: Sequence[Node], right: Sequence[Node]) -> Node:
    """A matrix, row by row: the products of each component of one vector with each of another one, added up over all
    elements. The values are of single or double precision; nothing has a derivative, and this is no part of a region.
    """
    return _sums(outer_products(TRUE, *left, *right, attr=len(left)))


def add_outer_sums(target: Node, left: Sequence[Node], right: Sequence[Node], mask: Node, offset: int, down: int,
                   across: int) -> Node:
    """A new version of a target, to a part of which :func:`outer_sums` have been added: to the element of row ``i`` and
    column ``k`` at ``offset + i * down + k * across``, by the elements whose mask is set.

    In a region, these are some of those that take part. The values are of the type of the target, and nothing has a
    derivative. Raises an ``IndexError`` if that ends before.
    """
    require_matrix("add_outer_sums", target, len(left), len(right), offset, down, across)
    if len(right) == 1 or across != 1 and down == 1:  # the elements of a row are neighbours
        left, right, down, across = right, left, across, down
    region = current().region
    if region is not None:
        assert region.live is not None
        mask = ops.and_(mask, region.live)
    products = outer_products(mask, *left, *right, attr=len(left), payload=(down, across))
    return add_products(target, products, literal(UINT32, offset, 1, BAKED), mask)


def add_products(target: Node, products: Node, index: Node, mask: Node) -> Node:
    """A new version of a target after a write of products: in a region, a scatter."""
    add = ReduceOp.Add.value
    if products.kind != OUTER:  # no element takes part
        return target
    if current().region is not None:
        return scatter(target, products, index, mask, add, ReduceMode.Auto.value)
    (down, across), (before, *values) = products.payload, all_operands(products)
    sums = _sums(outer_products(ops.and_(before, mask), *values, attr=products.attr))
    columns = literal(UINT32, sums.size // products.attr)
    position = counter(sums.size, UINT32, sums.where)
    row = ops.floordiv(position, columns)
    column = ops.sub(position, ops.mul(row, columns))
    steps = [ops.mul(place, literal(UINT32, step % _WORD)) for place, step in ((row, down), (column, across))]
    return scatter(target, sums, ops.add(index, ops.add(*steps)), TRUE, add, ReduceMode.NoConflicts.value)


def outer_products(mask: Node, *values: Node, attr: int = 0, payload: Any = None) -> Node:
    """Products of two vectors, the first of which has so many components."""
    return traced(OUTER, values[0].type, [mask, *values], attr, payload)


def _sums(products: Node) -> Node:
    return append(REDUCE, products.type, products.attr * (len(all_operands(products)) - 1 - products.attr), products,
                  attr=ReduceOp.Add.value)


def _check(node: Node, values: list[Node]) -> None:
    verify.require(all(value.type == COMPUTES_IN[values[0].type] == node.type for value in values[1:]), node,
                   "multiplies values of a type that the matrix is not computed in")
    offset, down, right = node.payload
    last = offset + node.attr * down + (len(values) - 2) * right
    first = offset + node.attr * down
    verify.require(all(0 <= at < values[0].size for at in (first, last)), node, "reads beyond the matrix")


def _check_outer(node: Node, values: list[Node]) -> None:
    verify.require(node.type == COMPUTES_IN[node.type], node, "is not of a type that is computed in")
    verify.require(0 < node.attr < len(values) - 1, node, "has no second vector")
    verify.require((node.scope != 0) <= (node.payload is not None), node, "is part of a region, and of no write")


verify.CHECKS[PRODUCT] = _check
verify.CHECKS[OUTER] = _check_outer
