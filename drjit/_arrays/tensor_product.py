"""Matrix products of tensors, by the rules of NumPy: the last two axes are matrices, the others are broadcast."""

from __future__ import annotations

import math
from typing import Any

import drjit_core as core
from drjit_core import SHAPE, Node, literal, ops

from .._access.slicing import TRUE, Access, broadcast_shapes, contiguous_strides, positions
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, SizeError, translate
from .._base.types import UINT32
from .._promotion.promote import plain_scalar
from .tensor import make, promote

__all__ = ["tensor_matmul"]


def tensor_matmul(function: str, left: Any, right: Any) -> Any:
    """``left @ right`` with a tensor among them; vectors are rows on the left, columns on the right."""
    cls, ((a, a_shape), (b, b_shape)) = promote(function, (left, right))
    if not a_shape or not b_shape:
        if not any(plain_scalar(value) is not None or _is_single(value) for value in (left, right)):
            raise SizeError(f"{function}(): matrix products need at least one dimension, found the shapes {a_shape} "
                            f"and {b_shape}.")
        return left * right
    rows, columns = (1, *a_shape) if len(a_shape) == 1 else a_shape, (*b_shape, 1) if len(b_shape) == 1 else b_shape
    extent = rows[-1]
    if extent != columns[-2]:
        raise SizeError(f"{function}(): operands have incompatible shapes: {a_shape} and {b_shape} (the inner "
                        f"dimensions {extent} and {columns[-2]} differ).")
    batch = broadcast_shapes(function, [rows[:-2], columns[:-2]])
    sizes = (*batch, rows[-2], columns[-1])
    shape = (*batch, *(rows[-2:-1] if len(a_shape) > 1 else ()), *(columns[-1:] if len(b_shape) > 1 else ()))
    count = math.prod(sizes)
    if not count:
        return make(cls, core.invalid(cls._type), shape)
    if not extent:
        return make(cls, literal(cls._type, 0, count), shape)
    first = positions(Access(0, sizes, (*_batch_strides(rows, batch), extent, 0)), a.size)
    second = positions(Access(0, sizes, (*_batch_strides(columns, batch), 0, 1)), b.size)
    try:
        return make(cls, _product(a, b, first, second, extent, columns[-1], count), shape)
    except CORE_ERRORS as error:
        raise translate(error, function) from error


def _is_single(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._depth == 0 and value._nodes()[0].size == 1


def _batch_strides(shape: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    strides = contiguous_strides(shape)[:-2]
    own = tuple(0 if size == 1 else stride for size, stride in zip(shape, strides, strict=False))
    return (0,) * (len(batch) - len(own)) + own


def _product(a: Node, b: Node, first: Node, second: Node, extent: int, columns: int, count: int) -> Node:
    scalar = max(first.type, second.type)
    step = literal(scalar, columns, 1, SHAPE, tag=43)
    limit = literal(UINT32, extent, 1, SHAPE, tag=44)
    one, start = literal(scalar, 1), literal(a.type, 0, count)
    return core.while_loop(
        [literal(UINT32, 0), core.cast(first, scalar), core.cast(second, scalar), start],
        lambda state: ops.lt(state[0], limit),
        lambda state: [ops.add(state[0], literal(UINT32, 1)), ops.add(state[1], one), ops.add(state[2], step),
                       ops.fma(core.gather(a, state[1], TRUE), core.gather(b, state[2], TRUE), state[3])])[3]
