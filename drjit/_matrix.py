"""Matrices: square, row-major, with the products and quotients of linear algebra.

The contract with the factory stands in :mod:`drjit._types`.
"""

from __future__ import annotations

from ._nested import NestedArray

__all__ = ["MatrixBase"]


class MatrixBase(NestedArray):
    """Behaviour of the ``matrix`` types."""

    __slots__ = ()
