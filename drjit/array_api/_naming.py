"""Errors of methods name the method, whatever function of the namespace has found them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["named"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
#: The beginning of a message: a function of the namespace.
_FUNCTION = re.compile(r"drjit\.array_api\.[\w.]+\(\)")


def named(name: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Make the messages of a function's errors begin with what the user typed."""

    def decorated(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                return function(*args, **kwargs)
            except (TypeError, ValueError, IndexError, OverflowError, NotImplementedError) as error:
                text = str(error)
                better = _FUNCTION.sub(f"{name}()", text, count=1)
                if better == text:
                    raise
                raise type(error)(better).with_traceback(error.__traceback__) from None

        return called

    return decorated
