"""Errors name what the user typed, whatever function beneath has found them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["named"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
#: How messages begin: with a function of this package.
_FUNCTION = re.compile(r"drjit\.[\w.\[\]]+\(\)")
#: Classes that are made of a message alone.
_RENAMED = {TypeError, ValueError, IndexError, OverflowError, NotImplementedError}
_NUMPYS = {("numpy.exceptions", "AxisError"), ("numpy.linalg", "LinAlgError")}


def named(name: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Make the messages of a function's errors begin with a name, in place of that of a function of this package.

    Errors of other classes than Python's own and NumPy's pass as they are.

    >>> @dr.detail.named("model.pair")
    ... def pair(x, y):
    ...     raise ValueError(f"drjit.concat(): {x} does not go with {y}")
    >>> pair(1, 2)
    Traceback (most recent call last):
    ...
    ValueError: model.pair(): 1 does not go with 2
    """

    def decorated(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                return function(*args, **kwargs)
            except (TypeError, ValueError, IndexError, OverflowError, NotImplementedError) as error:
                text = str(error)
                better = _FUNCTION.sub(f"{name}()", text, count=1) if _FUNCTION.match(text) else f"{name}(): {text}"
                cls = type(error)
                if better == text or cls not in _RENAMED and (cls.__module__, cls.__name__) not in _NUMPYS:
                    raise
                raise cls(better).with_traceback(error.__traceback__) from None

        return called

    return decorated
