"""Products of a matrix in memory and a vector of values, and the sums that are their derivatives by the matrix: rows of
the op table with any number of operands."""

from __future__ import annotations

from .op import MANY, MASK, MEMORY, VALUE
from .structure import structural
from .table import register

__all__ = ["OUTER", "PRODUCT"]

#: One component of the product: ``attr`` is the row of the matrix, ``payload`` where its first element is in memory,
#: and what lies between rows and between columns; the values are of the type that the matrix is computed in.
PRODUCT: int = register(structural(
    "product", (MEMORY, VALUE), "The product of a row of a matrix in memory with a vector: matrix, components.",
    cost=200, result="own", needs_memory=True)._replace(accepts="f", arity=MANY)).kind

#: The products of each component of a vector, ``attr`` operands, with each of another one, the others; of those
#: elements whose mask, the first operand, is set.  Nobody has them for one element: a reduction adds them up over all
#: of them, or in a region, a scatter adds them to memory, where ``payload`` says how far rows and columns are apart.
OUTER: int = register(structural(
    "outer", (MASK, VALUE), "The products of all components of two vectors, which are added up: mask, one, the other.",
    cost=1000)._replace(accepts="f", arity=MANY)).kind
