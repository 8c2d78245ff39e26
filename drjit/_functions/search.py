"""Searches in sorted ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.values import plain_scalar
from .elementwise import minimum, select

__all__ = ["binary_search"]


def binary_search(start: int, end: int, pred: Callable[[Any], Any]) -> Any:
    """The first index from ``start`` to ``end`` that no longer satisfies a predicate.

    ``pred`` maps an index (first an ``int``, then an array of what it returned before) to a mask or a ``bool``. It must
    be true up to some index and false from there on; ``end`` itself is the answer if it is always true. It is traced
    ``floor(log2(end - start) + 1)`` times. Returns an array of integers, or an ``int`` if ``pred`` returns ``bool``.
    Raises a ``TypeError`` if ``start`` or ``end`` is no ``int``, or the predicate returns anything else. Evaluates
    nothing.

    >>> from drjit.llvm import Float
    >>> data, wanted = Float(1, 3, 5, 7, 9), Float(4, 8)
    >>> dr.binary_search(0, 5, lambda index: dr.gather(Float, data, index) < wanted)
    [2, 4]
    """
    function = "drjit.binary_search"
    for name, value in (("start", start), ("end", end)):
        if plain_scalar(value).__class__ is not int:
            raise TypeError(f"{function}(): '{name}' must be an int, found {describe(value)}.")
    if not callable(pred):
        raise TypeError(f"{function}(): 'pred' must be a function, found {describe(pred)}.")
    first: Any = plain_scalar(start)
    last: Any = plain_scalar(end)
    for _ in range((last - first).bit_length() if first < last else 0):
        middle = (first + last) >> 1
        above = pred(middle)
        if above.__class__ is not bool and not (isinstance(above, ArrayBase) and above._kind == "b"):
            raise TypeError(f"{function}(): 'pred' must return a mask or a bool, found {describe(above)}.")
        first, last = select(above, minimum(middle + 1, last), first), select(above, last, middle)
    return first
