"""What an array is made of: a data type, and tensors of one shape, one of each part of its elements.

Elements of real, integer and Boolean types have one part, complex ones two, the real and the imaginary part. The class
that users see (:mod:`._array`) stands above the functions, which make its instances by :func:`wrap`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import drjit as dr

from . import _dtypes as dtypes
from ._dtypes import DType

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["Storage", "constant", "default_dtype", "expanded", "part_of_constant", "wrap"]


class Storage:
    """The data of an array, which functions read."""

    __slots__ = ("__weakref__", "_dtype", "_parts")

    #: The class of arrays, which registers itself.
    final: type[Array]

    def __init__(self, dtype: DType, parts: tuple[Any, ...]) -> None:
        self._dtype = dtype
        self._parts = parts

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._parts[0].shape  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._parts[0].shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._parts[0].shape)


def wrap(dtype: DType, *parts: Any) -> Array:
    """An array of a data type, given a tensor for each part of its elements."""
    return Storage.final(dtype, parts)


def constant(dtype: DType, number: complex, shape: tuple[int, ...] = ()) -> Array:
    """An array whose elements are all the same number."""
    if dtype.kind == "c":
        return wrap(dtype, part_of_constant(dtype.part, number.real, shape),
                    part_of_constant(dtype.part, number.imag, shape))
    return wrap(dtype, part_of_constant(dtype, number, shape))


def part_of_constant(dtype: DType, number: Any, shape: tuple[int, ...] = ()) -> Any:
    """A tensor of a real type whose elements are all the same number."""
    return dr.full(dtype.tensor, number, shape)


def expanded(part: Any, shape: tuple[int, ...]) -> Any:
    """A tensor broadcast to a shape."""
    if part.shape == shape:
        return part
    if dr.is_mask_v(part):
        return part | dr.zeros(type(part), shape)
    # Not +0, which would turn -0 into +0.
    return part + dr.full(type(part), -0.0 if dr.is_float_v(part) else 0, shape)


def default_dtype(number: Any) -> DType:
    """The type of an array that is made of a Python number."""
    if isinstance(number, bool):
        return dtypes.bool
    if isinstance(number, int):
        return dtypes.DEFAULT_INT
    return dtypes.DEFAULT_FLOAT if isinstance(number, float) else dtypes.DEFAULT_COMPLEX
