"""Parts of arrays and PyTrees along the elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from drjit_core import literal, schedule

from .._base.array import ArrayBase
from .._base.backends import computing
from .._base.errors import ArgumentError, BoundsError, describe
from .._base.nodes import broadcast, elements_of, short_positions
from .._base.types import SCALAR, UINT32, Record, lookup, relative
from .._base.values import parse_shape
from .._promotion.promote import wrap
from .._trees.pytree import transform
from .indirect import gather
from .slicing import parse_slice, positions

__all__ = ["slice", "slice_index"]


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


def slice_index(dtype: type[ArrayBase], shape: Sequence[int], indices: Sequence[Any]) -> tuple[tuple[int, ...], Any]:
    """Shape of, and positions of the elements selected by, a slice expression of a tensor of a given shape.

    ``dtype`` is a flat array type of unsigned 32-bit integers, and that of the positions. ``indices`` is a tuple of
    what stands in brackets: integers, slices, integer arrays, ``None`` or an ellipsis. Raises a ``TypeError`` for
    others, an ``IndexError`` for an integer beyond the shape. Evaluates nothing, unless ``dtype`` is
    ``drjit.scalar.ArrayXu``.

    >>> from drjit.llvm import UInt
    >>> dr.slice_index(UInt, shape=(10, 1), indices=(slice(0, 10, 2), 0))
    ((5,), [0, 2, 4, 6, 8])
    """
    function = "drjit.slice_index"
    flat = dtype
    if isinstance(dtype, type) and issubclass(dtype, ArrayBase) and getattr(dtype, "_record", None) == \
            Record(SCALAR, UINT32, "array", (-1,)):
        flat = relative(dtype._leaf, computing(indices if isinstance(indices, (tuple, list)) else ()), False)
    if not isinstance(flat, type) or not issubclass(flat, ArrayBase) or not hasattr(flat, "_record") or \
            flat._depth or flat._type != UINT32 or not flat._dynamic:
        raise ArgumentError(f"{function}(): 'dtype' must be a flat array type of unsigned 32-bit integers, found "
                        f"{describe(dtype)}.")
    parsed = parse_shape(shape, function)
    sizes = parsed if isinstance(parsed, tuple) else (parsed,)
    keys = tuple(indices) if isinstance(indices, list) else indices
    if flat is not dtype and isinstance(keys, tuple):
        keys = tuple(flat(key) if isinstance(key, ArrayBase) and not key._dynamic else key for key in keys)
    access, result = parse_slice(function, sizes, keys)
    node = short_positions(positions(access, math.prod(sizes)))
    if flat is not dtype:
        nodes = elements_of(broadcast(node, access.shape_size))
        return result, wrap(dtype, nodes)
    return result, wrap(dtype, [broadcast(node, access.shape_size)])
