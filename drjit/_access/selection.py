"""Parts of arrays and PyTrees along the elements."""

from __future__ import annotations

import operator
from typing import Any

from drjit_core import literal, schedule

from .._base.array import ArrayBase
from .._base.errors import BoundsError, describe
from .._base.types import SCALAR, lookup
from .._promotion.promote import wrap
from .._trees.pytree import transform
from .indirect import gather

__all__ = ["slice"]


def slice(value: Any, index: Any = 0) -> Any:
    """``value[..., index]``: the elements at some positions of all arrays of a PyTree.

    ``value`` is an array or a PyTree; tensors, and what is no array, are returned as they are. An array or sequence of
    integers as ``index`` gathers, see :func:`drjit.gather`: the result has the type of ``value``. A Python number
    removes the dimension: flat arrays become Python numbers, and nested ones arrays of :mod:`drjit.scalar`; negative
    positions count from the end. An array (or a component) of one element goes with any position beside larger ones.
    Python numbers evaluate the arrays, all at once. Raises an ``IndexError`` for a position that does not exist, a
    ``TypeError`` for other indices.

    >>> from drjit.llvm import Array2f, UInt
    >>> x = Array2f([1, 2, 3], [4, 5, 6])
    >>> dr.slice(x, 1), type(dr.slice(x, 1)).__module__
    ([2, 5], 'drjit.scalar')
    >>> dr.slice({"x": x, "name": "points"}, UInt(2, 0))["x"]
    [[3, 6],
     [1, 4]]
    """
    function = "drjit.slice"
    if isinstance(index, ArrayBase):
        if index._kind not in "iu":
            raise TypeError(f"{function}(): 'index' must be an integer or an array of integers, found "
                            f"{describe(index)}.")
        return transform(function, lambda leaf: _gathered(leaf, index), value)
    if not isinstance(index, bool):
        try:
            position = operator.index(index)
        except TypeError:
            if isinstance(index, (list, tuple, range)):
                return transform(function, lambda leaf: _gathered(leaf, index), value)
        else:
            pending: list[Any] = []
            transform(function, lambda leaf: pending.extend(leaf._nodes()) if _has_elements(leaf) else None, value)
            schedule([node for node in pending if not node.scope])
            return transform(function, lambda leaf: _element(leaf, position, function), value)
    raise TypeError(f"{function}(): 'index' must be an integer or an array of integers, found {describe(index)}.")


def _has_elements(leaf: Any) -> bool:
    """Whether a leaf is an array of a dynamic size."""
    return isinstance(leaf, ArrayBase) and leaf._depth >= 0 and leaf._dynamic


def _is_list(leaf: Any) -> bool:
    """Whether a leaf is an array of the scalar backend that has a number of elements of its own."""
    return isinstance(leaf, ArrayBase) and not leaf._dynamic and leaf._record.shape == (-1,) and not leaf._special


def _gathered(leaf: Any, index: Any) -> Any:
    if _has_elements(leaf) or _is_list(leaf):
        return gather(type(leaf), leaf, index)
    return leaf


def _element(leaf: Any, position: int, function: str) -> Any:
    if not _has_elements(leaf):
        return leaf[position] if _is_list(leaf) else leaf
    size = leaf._width(function)
    if not -size <= position < size:
        raise BoundsError(f"{function}(): position {position} is out of bounds (the array of type {leaf._name} is of "
                         f"size {size}).")
    if not leaf._depth:
        return leaf[position]
    flat: list[Any] = [wrap(leaf._leaf, [node]) for node in leaf._nodes()]
    numbers = [component[position if len(component) > 1 else 0] for component in flat]
    kind = lookup(leaf._record._replace(backend=SCALAR, diff=False))
    assert kind is not None
    return wrap(kind, [literal(leaf._type, number) for number in numbers])
