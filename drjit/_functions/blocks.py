"""Reductions of blocks: of so many elements, one after the other, each to one."""

from __future__ import annotations

from functools import reduce
from typing import Any, Literal

from drjit_core import COMPUTES_IN, REDUCTIONS, ReduceOp, cast, unless_nan

from .._arrays.tensor import TensorBase
from .._base.arguments import require_count
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.types import SCALAR
from .._base.typing import T
from .._promotion.promote import wrap
from .._rules.combine import COMBINE
from .._trees.pytree import is_pytree, transform
from .tensor_reductions import reduce_axes

__all__ = ["block_reduce", "block_sum"]

_MODES = (None, "evaluated", "symbolic")


def block_reduce(op: ReduceOp, value: T, block_size: int, mode: Literal["evaluated", "symbolic"] | None = None) -> T:
    """The reduction of each block of ``block_size`` elements along the trailing dimension.

    The result has one element for each block; the number of elements must be a multiple of ``block_size``. Components
    of one element, which stand for as many as there are, stay as they are. PyTrees are traversed: arrays of dynamic
    size are reduced, everything else stays as it is. Minimum and maximum ignore NaN, and are those of nothing in blocks
    where there is nothing else. Sums of half precision are accumulated in higher precision; results are bitwise the
    same in every run, with any number of threads.

    ``mode="symbolic"`` combines elements with those of the result by atomic updates (:func:`scatter_reduce`), whose
    order is not defined; other modes fuse with what computes ``value``.

    Raises a ``TypeError`` where the operation is not defined for the elements, for tensors (reshape them, and reduce
    along axes), for a ``mode`` of another name and a block size that is no int; a ``ValueError`` if that is not
    positive, a ``RuntimeError`` if the number of elements is no multiple of it. Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> dr.block_reduce(dr.ReduceOp.Max, Float(1, 5, 2, 4, 3, 6), 3)
    [5, 6]
    """
    result: T = _block_reduce("drjit.block_reduce", op, value, block_size, mode)
    return result


def block_sum(value: T, block_size: int, mode: Literal["evaluated", "symbolic"] | None = None) -> T:
    """The sum of each block: :func:`block_reduce` with ``ReduceOp.Add``.

    >>> from drjit.llvm import Float
    >>> dr.block_sum(Float(1, 2, 3, 4, 5, 6), 2)
    [3, 7, 11]
    """
    result: T = _block_reduce("drjit.block_sum", ReduceOp.Add, value, block_size, mode)
    return result


def _block_reduce(function: str, op: ReduceOp, value: Any, block_size: Any, mode: Any) -> Any:
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{function}(): 'op' must be a drjit.ReduceOp, found {describe(op)} ({op!r}).")
    if op.value not in REDUCTIONS:
        raise ArgumentError(f"{function}(): {op} is no operation of reductions.")
    if mode not in _MODES:
        raise ArgumentError(f"{function}(): 'mode' must be 'evaluated', 'symbolic' or None, found {mode!r}.")
    length = require_count(function, "block_size", block_size, 1)

    def visit(leaf: Any) -> Any:
        return _reduce_blocks(function, op, leaf, length, mode) if isinstance(leaf, ArrayBase) else leaf

    if isinstance(value, ArrayBase):
        return visit(value)
    return transform(function, visit, value) if is_pytree(type(value)) else value


def _reduce_blocks(function: str, op: ReduceOp, array: Any, length: int, mode: str | None) -> Any:
    if isinstance(array, TensorBase):
        raise ArgumentError(f"{function}(): 'value' is a tensor ({describe(array)}), which has no blocks: reshape it, "
                            "and reduce it along axes.")
    numbers = not array._dynamic and array._record.backend is SCALAR and array._record.shape == (-1,)
    if not array._dynamic and not numbers:
        return array
    if array._kind not in REDUCTIONS[op.value].accepts:
        raise ArgumentError(f"{function}(): {op} is not defined for the elements of {describe(array)}.")
    nodes = array._nodes()
    size = len(nodes) if numbers else array._width(function)
    if size % length and (numbers or size > 1):
        raise SizeError(f"{function}(): {describe(array)} has {size} elements, which is no multiple of 'block_size' "
                        f"({length}).")
    combine = COMBINE[op]
    try:
        if numbers:
            wide = COMPUTES_IN[array._type] if REDUCTIONS[op.value].rounds else array._type
            blocks = [[cast(node, wide) for node in nodes[first:first + length]] for first in range(0, size, length)]
            return wrap(type(array), [cast(unless_nan(reduce(combine, block), op.value), array._type)
                                      for block in blocks])
        return wrap(type(array), [
            unless_nan(node, op.value) if node.size <= 1 else
            reduce_axes(op, combine, node, (size // length, length), (1,), mode == "symbolic") for node in nodes])
    except CORE_ERRORS as error:
        raise translate(error, function) from None
