"""Coordinates of grids, searches in sorted ranges, and copies of PyTrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from .._access.indirect import gather
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.types import UINT32, retype
from .._base.typing import ArrayT, T
from .._promotion.promote import plain_scalar
from .._trees.pytree import transform
from .creation import arange
from .elementwise import minimum, select

__all__ = ["binary_search", "copy", "meshgrid"]


def meshgrid(*args: ArrayT, indexing: Literal["xy", "ij"] = "xy") -> tuple[ArrayT, ...]:
    """Coordinates of all points of a grid, flattened, given those along each of its axes.

    ``args`` are flat arrays of one type. The last axis is the fastest with ``indexing='ij'``; ``'xy'``, the default,
    exchanges the roles of the first two. Returns a tuple of one array per axis, whose size is the product of the sizes.
    """
    function = "drjit.meshgrid"
    if indexing not in ("xy", "ij"):
        raise ValueError(f"{function}(): 'indexing' must be 'xy' or 'ij', found {indexing!r}.")
    if not args:
        return ()
    cls: Any = type(args[0])
    if not issubclass(cls, ArrayBase) or not cls._dynamic or cls._depth or any(type(arg) is not cls for arg in args):
        raise ArgumentError(f"{function}(): the arguments must be flat dynamic arrays of one type, found "
                            f"{', '.join(describe(arg) for arg in args)}.")
    order = list(range(len(args)))
    if indexing == "xy" and len(args) > 1:
        order[:2] = [1, 0]
    total = 1
    for arg in args:
        total *= len(arg)
    if not total:
        return tuple(cls() for _ in args)
    result: list[Any] = [None] * len(args)
    index = arange(retype(cls, UINT32), total)
    for position in reversed(order):
        size = len(args[position])
        outer = index // size
        result[position] = gather(cls, args[position], index - outer * size)
        index = outer
    return tuple(result)


def binary_search(start: int, end: int, pred: Callable[[Any], Any]) -> Any:
    """The first index from ``start`` to ``end`` that no longer satisfies a predicate.

    ``pred`` maps an index (first an ``int``, then an array of what it returned before) to a mask or a ``bool``. It must
    be true up to some index and false from there on; ``end`` itself is the answer if it is always true. It is traced
    ``floor(log2(end - start) + 1)`` times. Returns an array of integers, or an ``int`` if ``pred`` returns ``bool``.
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


def copy(arg: T, /) -> T:
    """A deep copy of a PyTree: its containers are made anew, arrays are copied, other objects are passed on."""
    return transform("drjit.copy", lambda leaf: type(leaf)(leaf) if isinstance(leaf, ArrayBase) else leaf, arg)
