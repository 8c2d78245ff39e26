"""Complex numbers: two components, the real and the imaginary part.

The contract with the factory stands in :mod:`drjit._types`.
"""

from __future__ import annotations

from ._nested import NestedArray

__all__ = ["ComplexBase"]


class ComplexBase(NestedArray):
    """Behaviour of the ``complex`` types."""

    __slots__ = ()
