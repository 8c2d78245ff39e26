"""Functions by the names that earlier releases of Dr.Jit gave them, which programs still use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import reductions
from .elementwise import FUNCTIONS

__all__ = ["all_nested", "any_nested", "max_nested", "min_nested", "none_nested", "prod_nested", "sqr", "sum_nested"]


def sqr(arg: Any, /) -> Any:
    """The square: see :func:`square`, which is its name today.

    >>> from drjit.llvm import Float
    >>> dr.sqr(Float(3))
    [9]
    """
    return FUNCTIONS["square"](arg)


def _nested(function: Callable[..., Any], what: str, argument: str, result: str) -> Callable[[Any], Any]:
    """A reduction of all elements, whatever the dimensions."""
    def nested(value: Any, /) -> Any:
        return function(value, axis=None)

    name = f"{function.__name__}_nested"
    nested.__module__, nested.__name__, nested.__qualname__ = "drjit", name, name
    nested.__doc__ = f"""{what}: :func:`{function.__name__}` with ``axis=None``.

    >>> from drjit.llvm import Array2f
    >>> dr.{name}({argument})
    {result}
    """
    return nested


all_nested = _nested(reductions.all, "Whether all elements are true", "Array2f(1, 2) > 0", "[True]")
any_nested = _nested(reductions.any, "Whether any element is true", "Array2f(1, 2) > 1", "[True]")
none_nested = _nested(reductions.none, "Whether no element is true", "Array2f(1, 2) > 1", "[False]")
sum_nested = _nested(reductions.sum, "The sum of all elements", "Array2f([1, 2], 3)", "[9]")
prod_nested = _nested(reductions.prod, "The product of all elements", "Array2f([1, 2], 3)", "[18]")
min_nested = _nested(reductions.min, "The smallest element", "Array2f([1, 2], 3)", "[1]")
max_nested = _nested(reductions.max, "The largest element", "Array2f([1, 2], 3)", "[3]")
