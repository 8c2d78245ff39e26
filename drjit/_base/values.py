"""What a value is: a number, an integer, an array of NumPy. Nothing here imports NumPy."""

from __future__ import annotations

import enum
import math
import operator
import sys
from typing import Any

from drjit_core import TYPES, Extent

from .array import ArrayBase
from .errors import ArgumentError

__all__ = ["PYTHON_NUMBERS", "filled", "is_ndarray", "is_numpy_data", "is_real", "parse_shape", "plain_integer",
           "plain_scalar", "require_size", "scalar_type_of"]

#: The types of Python numbers, in order of promotion.
PYTHON_NUMBERS = {bool: 0, int: 1, float: 2}
_BY_NAME = {info.name: info.type for info in TYPES if info is not None and info.name != "pointer"}


def is_ndarray(value: object) -> bool:
    """Whether a value is a NumPy array."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_numpy_data(value: object) -> bool:
    """Whether a value is a NumPy array, or an entry of one that has fields."""
    return is_ndarray(value) or isinstance(value, getattr(sys.modules.get("numpy"), "void", ()))


def scalar_type_of(value: Any) -> int | None:
    """The scalar type of a NumPy array, or ``None`` if there is none for its elements."""
    return _BY_NAME.get(value.dtype.name)


def plain_scalar(value: Any) -> Any:
    """The Python number that a value is (a ``bool``, ``int`` or ``float``), NumPy scalars included, or ``None``."""
    if value.__class__ in PYTHON_NUMBERS:
        return value
    if value.__class__ is Extent:  # of a recording, of which it is a part then
        return value.pinned()
    numpy = sys.modules.get("numpy")
    if numpy is not None and (isinstance(value, numpy.generic) or isinstance(value, numpy.ndarray) and value.ndim == 0):
        if value.__class__ is not numpy.ndarray and getattr(value, "mask", False):
            return None  # numpy.ma.masked, whose value does not count
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return value if value.__class__ in PYTHON_NUMBERS else float(value) if isinstance(value, float) else int(value)
    return None


def filled(value: Any, number: int) -> Any:
    """A number, or what NumPy has of numbers, with another one everywhere; anything else, such as a member of an
    enumeration, as it is."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        if value.dtype.kind not in "biufc":
            return value
        return value.dtype.type(number) if isinstance(value, numpy.generic) else numpy.full_like(value, number)
    if isinstance(value, (int, float, complex)) and not isinstance(value, enum.Enum):
        return next(kind for kind in (bool, int, float, complex) if isinstance(value, kind))(number)
    return value


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


def real_number(value: Any) -> float | None:
    """The ``int`` or ``float`` that a number of Python or NumPy is, but no array; ``None`` for masks, too."""
    if type(value) is int or type(value) is float:
        return value
    numpy = sys.modules.get("numpy")
    found = plain_scalar(value) if numpy is not None and isinstance(value, numpy.number) else None
    return None if type(found) is bool else found


def is_real(value: Any) -> bool:
    """Whether an operand is a single real component: a Python number or a flat array."""
    if isinstance(value, ArrayBase):
        return not value._depth
    return plain_scalar(value) is not None


def require_size(function: str, name: str, size: int) -> None:
    """Refuse a number of elements that no array can have."""
    if size > sys.maxsize:
        raise ArgumentError(f"{function}(): '{name}' asks for {size} elements; an array has at most {sys.maxsize}.")


def parse_shape(shape: Any, function: str, name: str = "shape") -> int | tuple[int, ...]:
    """An argument ``shape``: one size, or a tuple of sizes."""
    try:
        sizes = tuple(operator.index(size) for size in (shape if isinstance(shape, (list, tuple)) else (shape,)))
    except TypeError:
        sizes = (-1,)
    if min(sizes, default=0) >= 0:
        require_size(function, name, max(math.prod(sizes), *sizes, 0))
        return sizes if isinstance(shape, (list, tuple)) else sizes[0]
    raise TypeError(f"{function}(): '{name}' must be an int or a sequence of ints, none of them negative; found "
                    f"{shape!r}.")
