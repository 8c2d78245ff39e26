"""Functions by the names that earlier releases of Dr.Jit gave them, which programs still use."""

from __future__ import annotations

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


def all_nested(value: Any, /) -> Any:
    """Whether all elements are true: :func:`all` with ``axis=None``.

    >>> from drjit.llvm import Array2f
    >>> dr.all_nested(Array2f(1, 2) > 0)
    [True]
    """
    return reductions.all(value, axis=None)


def any_nested(value: Any, /) -> Any:
    """Whether any element is true: :func:`any` with ``axis=None``.

    >>> from drjit.llvm import Array2f
    >>> dr.any_nested(Array2f(1, 2) > 1)
    [True]
    """
    return reductions.any(value, axis=None)


def none_nested(value: Any, /) -> Any:
    """Whether no element is true: :func:`none` with ``axis=None``.

    >>> from drjit.llvm import Array2f
    >>> dr.none_nested(Array2f(1, 2) > 1)
    [False]
    """
    return reductions.none(value, axis=None)


def sum_nested(value: Any, /) -> Any:
    """The sum of all elements: :func:`sum` with ``axis=None``.

    >>> from drjit.llvm import Array2f
    >>> dr.sum_nested(Array2f([1, 2], 3))
    [9]
    """
    return reductions.sum(value, axis=None)


def prod_nested(value: Any, /) -> Any:
    """The product of all elements: :func:`prod` with ``axis=None``.

    >>> from drjit.llvm import Array2f
    >>> dr.prod_nested(Array2f([1, 2], 3))
    [18]
    """
    return reductions.prod(value, axis=None)


def min_nested(value: Any, /) -> Any:
    """The smallest element: :func:`min` with ``axis=None``.

    >>> from drjit.llvm import Array2f
    >>> dr.min_nested(Array2f([1, 2], 3))
    [1]
    """
    return reductions.min(value, axis=None)


def max_nested(value: Any, /) -> Any:
    """The largest element: :func:`max` with ``axis=None``.

    >>> from drjit.llvm import Array2f
    >>> dr.max_nested(Array2f([1, 2], 3))
    [3]
    """
    return reductions.max(value, axis=None)
