"""Hints about how elements are distributed among the threads of a device."""

from __future__ import annotations

from typing import Any

from .._base.arguments import require_integer
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, RangeError, describe
from .._base.types import UINT32
from .._base.typing import T
from .._promotion.promote import wrap_like
from .._trees.pytree import leaves, transform

__all__ = ["reorder_threads"]

#: The most bits of a key that a GPU looks at.
_BITS = 16


def reorder_threads(key: ArrayBase, num_bits: int, value: T) -> T:
    """Ask for elements of equal keys to be computed next to each other; returns ``value`` as it is.

    A GPU can shuffle its threads by the lowest ``num_bits`` (at most 16) of ``key``, an array of 32-bit unsigned
    integers, when a kernel computes what depends on the returned value. Here, kernels run on the CPU, and nothing
    happens. ``value`` is a PyTree with at least one array; containers are new ones. Raises a ``TypeError`` for other
    types of arguments, and a ``ValueError`` for other numbers of bits. Evaluates nothing; differentiable.

    >>> from drjit.llvm import Float, UInt32
    >>> x = dr.reorder_threads(UInt32(3, 1, 2), 2, Float(1, 2, 3))
    >>> x
    [1, 2, 3]
    """
    function = "drjit.reorder_threads"
    if not (isinstance(key, ArrayBase) and not key._depth and key._dynamic and key._type == UINT32):
        raise ArgumentError(f"{function}(): 'key' must be a flat array of 32-bit unsigned integers, found "
                            f"{describe(key)}.")
    if not 0 <= require_integer(function, "num_bits", num_bits) <= _BITS:
        raise RangeError(f"{function}(): 'num_bits' must be at most {_BITS}, found {num_bits}.")
    if not any(isinstance(leaf, ArrayBase) and leaf._dynamic for leaf in leaves(value, function)):
        raise ArgumentError(f"{function}(): 'value' must be an array or a PyTree with at least one array, found "
                            f"{describe(value)}.")
    result: T = transform(function, _same, value)
    return result


def _same(leaf: Any) -> Any:
    return wrap_like(leaf, type(leaf), leaf._nodes()) if isinstance(leaf, ArrayBase) and leaf._dynamic else leaf
