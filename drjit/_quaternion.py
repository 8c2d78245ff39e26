"""Quaternions: four components, of i, j, k and the real part.

The contract with the factory stands in :mod:`drjit._types`.
"""

from __future__ import annotations

from ._nested import NestedArray

__all__ = ["QuaternionBase"]


class QuaternionBase(NestedArray):
    """Behaviour of the ``quaternion`` types."""

    __slots__ = ()
