"""What a value is: a number, an integer, an array of NumPy. Nothing here imports NumPy."""

from __future__ import annotations

import operator
import sys
from typing import Any

from drjit_core import TYPES

from .array import ArrayBase

__all__ = ["PYTHON_NUMBERS", "is_ndarray", "is_real", "parse_shape", "plain_integer", "plain_scalar", "scalar_type_of"]

#: The types of Python numbers, in order of promotion.
PYTHON_NUMBERS = {bool: 0, int: 1, float: 2}
_BY_NAME = {info.name: info.type for info in TYPES if info is not None and info.name != "pointer"}


def is_ndarray(value: object) -> bool:
    """Whether a value is a NumPy array."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def scalar_type_of(value: Any) -> int | None:
    """The scalar type of a NumPy array, or ``None`` if there is none for its elements."""
    return _BY_NAME.get(value.dtype.name)


def plain_scalar(value: Any) -> Any:
    """The Python number that a value is (a ``bool``, ``int`` or ``float``), NumPy scalars included, or ``None``."""
    if value.__class__ in PYTHON_NUMBERS:
        return value
    numpy = sys.modules.get("numpy")
    if numpy is not None and (isinstance(value, numpy.generic) or isinstance(value, numpy.ndarray) and value.ndim == 0):
        if value.__class__ is not numpy.ndarray and getattr(value, "mask", False):
            return None  # numpy.ma.masked, whose value does not count
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return value if value.__class__ in PYTHON_NUMBERS else float(value) if isinstance(value, float) else int(value)
    return None


def plain_integer(value: Any) -> int | None:
    """The Python integer that a value is (of Python or NumPy, but no ``bool`` and no array), or ``None``."""
    if value.__class__ is int:
        return value
    if isinstance(value, (bool, ArrayBase)) or type(value).__name__ in ("bool_", "bool", "ndarray"):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def is_real(value: Any) -> bool:
    """Whether an operand is a single real component: a Python number or a flat array."""
    if isinstance(value, ArrayBase):
        return not value._depth
    return plain_scalar(value) is not None


def parse_shape(shape: Any, function: str, name: str = "shape") -> int | tuple[int, ...]:
    """An argument ``shape``: one size, or a tuple of sizes."""
    try:
        if isinstance(shape, (list, tuple)):
            sizes = tuple(operator.index(size) for size in shape)
            if min(sizes, default=0) >= 0:
                return sizes
        elif operator.index(shape) >= 0:
            return operator.index(shape)
    except TypeError:
        pass
    raise TypeError(f"{function}(): '{name}' must be an int or a sequence of ints, none of them negative; found "
                    f"{shape!r}.")
