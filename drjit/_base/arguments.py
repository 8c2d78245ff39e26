"""Checks of arguments: each returns what it was asked for, or raises an error that names function and argument."""

from __future__ import annotations

from typing import Any

from .array import ArrayBase
from .errors import ArgumentError, CountError, describe
from .typing import ArrayT
from .values import plain_integer, plain_scalar

__all__ = ["require_angle", "require_as_string", "require_bool", "require_count", "require_float", "require_integer",
           "require_label", "require_mode", "require_tensor"]


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
        raise CountError(f"{function}(): '{name}' must be an int >= {least}, found {found}.")
    return found


def require_float(function: str, name: str, value: Any) -> float:
    """An argument that must be a number of Python or NumPy."""
    found = plain_scalar(value)
    if found is None:
        raise TypeError(f"{function}(): '{name}' must be a number, found {describe(value)} ({value!r}).")
    return float(found)


def require_bool(function: str, name: str, value: Any) -> bool:
    """An argument that must be a ``bool``."""
    if value.__class__ is not bool:
        raise TypeError(f"{function}(): '{name}' must be a bool, found {describe(value)} ({value!r}).")
    return value


def require_as_string(function: str, value: Any) -> None:
    """The only argument of functions that show all variables, not those of an array."""
    if value.__class__ is not bool:
        raise TypeError(f"{function}(): 'as_string' must be a bool, found {describe(value)} ({value!r}); the function "
                        "takes no array, and shows all variables of the program.")


def require_label(function: str, value: Any) -> str | None:
    """The argument ``label``, which must be a string or ``None``."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{function}(): 'label' must be a str or None, found {describe(value)} ({value!r}).")
    return value


def require_mode(function: str, value: Any, modes: tuple[str, ...] = ("scalar", "symbolic", "evaluated")) -> str | None:
    """The argument ``mode``, which must be the name of a mode or ``None``."""
    if value is not None and not (isinstance(value, str) and value in modes):
        raise ArgumentError(f"{function}(): 'mode' must be {', '.join(map(repr, modes))} or None, found {value!r}.")
    return value


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
