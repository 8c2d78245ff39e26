"""Checks of arguments: each returns what it was asked for, or raises an error that names function and argument."""

from __future__ import annotations

from typing import Any

from .array import ArrayBase
from .errors import describe
from .typing import ArrayT
from .values import plain_integer, plain_scalar

__all__ = ["require_angle", "require_count", "require_float", "require_integer", "require_tensor"]


def require_integer(function: str, name: str, value: Any) -> int:
    """An argument that must be an integer, of Python or NumPy."""
    found = plain_integer(value)
    if found is None:
        raise TypeError(f"{function}(): '{name}' must be an int, found {describe(value)} ({value!r}).")
    return found


def require_count(function: str, name: str, value: Any, least: int = 0) -> int:
    """An argument that must be an integer not below a bound."""
    found = require_integer(function, name, value)
    if found < least:
        raise ValueError(f"{function}(): '{name}' must be an int >= {least}, found {found}.")
    return found


def require_float(function: str, name: str, value: Any) -> float:
    """An argument that must be a number of Python or NumPy."""
    found = plain_scalar(value)
    if found is None:
        raise TypeError(f"{function}(): '{name}' must be a number, found {describe(value)} ({value!r}).")
    return float(found)


def require_angle(function: str, name: str, value: Any) -> Any:
    """An argument that must be a number, or an array of floating-point numbers."""
    if isinstance(value, ArrayBase) and value._kind == "f":
        return value
    if isinstance(value, ArrayBase) or plain_scalar(value) is None:
        raise TypeError(f"{function}(): '{name}' must be an array of floating-point numbers or a number, found "
                        f"{describe(value)}.")
    return value


def require_tensor(function: str, value: ArrayT, name: str = "value") -> ArrayT:
    """An argument that must be a tensor."""
    if not isinstance(value, ArrayBase) or value._depth >= 0:
        raise TypeError(f"{function}(): '{name}' must be a tensor, found {describe(value)}.")
    return value
