"""Tensors: arrays of any shape, held as one flat array in C order and a shape.

The contract with the factory stands in :mod:`drjit._types`.
"""

from __future__ import annotations

from typing import Any

from ._array import ArrayBase
from ._errors import describe

__all__ = ["TensorBase"]


class TensorBase(ArrayBase):
    """Behaviour of the tensor types."""

    __slots__ = ("__weakref__", "_n", "_o", "_s")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{describe(self)}.__init__(): tensors are not implemented yet.")
