"""Where the user's program stands, and what its functions consist of, as the interpreter knows them.

``frames.pyx`` is the compiled form, which asks the interpreter without going through attributes.
"""

from __future__ import annotations

import sys
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

__all__ = ["closure_of", "code_of", "defaults_of", "further_of", "globals_of", "is_internal", "keyword_defaults_of",
           "names_nothing", "user_place"]

#: Frames of these packages are not the user's, nor are those of the module by which they enter contexts.
_INTERNAL = ("drjit_core", "drjit", "contextlib")

#: Whether modules are none of the user's, by their names.
_is_internal: dict[str, bool] = {}
_MOST_MODULES = 1024


def is_internal(frame: FrameType) -> bool:
    """Whether a frame belongs to this project, not to its user."""
    name = frame.f_globals.get("__name__", "")
    found = _is_internal.get(name)
    if found is None:
        if len(_is_internal) >= _MOST_MODULES:
            _is_internal.clear()
        found = _is_internal[name] = name.partition(".")[0] in _INTERNAL
    return found


def user_place() -> tuple[CodeType, int] | None:
    """Where the innermost frame that is the user's stands: its code, and the position of an instruction in that."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and is_internal(frame):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def code_of(function: FunctionType) -> CodeType:
    """The code of a function in Python."""
    return function.__code__


def closure_of(function: FunctionType) -> tuple[CellType, ...] | None:
    """The cells of the variables that it has from functions around it."""
    return function.__closure__


def defaults_of(function: FunctionType) -> tuple[Any, ...] | None:
    """The values of parameters that may be left out."""
    return function.__defaults__


def globals_of(function: FunctionType) -> dict[str, Any]:
    """The variables of its module."""
    return function.__globals__


def keyword_defaults_of(function: FunctionType) -> dict[str, Any] | None:
    """The values of parameters that may be left out and are given by name only."""
    return function.__kwdefaults__


def further_of(function: FunctionType) -> tuple[Any, ...] | None:
    """What else it refers to, if it does: the values of keywords that may be left out, and its attributes."""
    return tuple([each for each in (function.__kwdefaults__, function.__dict__) if each]) or None


def names_nothing(code: CodeType) -> bool:
    """Whether a function, and those within it, use no variable of a module and no attribute."""
    return not code.co_names and all(names_nothing(constant) for constant in code.co_consts
                                     if constant.__class__ is CodeType)
