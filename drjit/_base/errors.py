"""Exceptions of the array layer, and the translation of the compiler's own.

Whoever reads these messages wrote the user's code: they name the function of theirs (``drjit.llvm.Float.__add__()``,
``drjit.gather()``), the argument, what was found and what was expected.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from drjit_core import IncompatibleSizes, UnsupportedType, is_internal

__all__ = ["CORE_ERRORS", "ArgumentError", "ComponentError", "SizeError", "describe", "translate", "user_part"]

#: What tracing raises when operands do not fit together.
CORE_ERRORS = (IncompatibleSizes, UnsupportedType)


class ArgumentError(TypeError, RuntimeError):
    """An argument of an unsupported type; a ``RuntimeError`` too, which is what existing programs catch."""


class SizeError(RuntimeError):
    """Arrays whose sizes do not go together."""


class ComponentError(AttributeError, RuntimeError):
    """A component such as ``.x`` that a type lacks.

    An ``AttributeError``, so that ``hasattr`` is false; a ``RuntimeError`` too, which is what existing programs catch.
    """


def describe(value: Any) -> str:
    """Name the type of a value the way its user writes it: ``drjit.llvm.Float``, ``int``, ``numpy.ndarray``."""
    cls = value if isinstance(value, type) else type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def translate(error: IncompatibleSizes | UnsupportedType, function: str) -> Exception:
    """The exception for the user, given the compiler's; raise it ``from`` the original."""
    if not function.endswith(")"):
        function += "()"
    if isinstance(error, IncompatibleSizes):
        sizes = ", ".join(map(str, error.sizes))
        return SizeError(f"{function}: operands have incompatible sizes! (sizes: {sizes})")
    return ArgumentError(f"{function}: operation not supported for this type (elements of type {error.type_name}).")


def user_part(error: BaseException) -> TracebackType | None:
    """The traceback of an exception from the user's first frame on, or ``None`` if none of theirs is in it."""
    traceback = error.__traceback__
    while traceback is not None and is_internal(traceback.tb_frame):
        traceback = traceback.tb_next
    return traceback
