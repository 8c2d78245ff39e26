"""Products: of matrices, of matrices and vectors, of vectors, and of tensors.

Which of them it is follows from the leading static dimensions, see :func:`drjit.matmul`; those of tensors follow the
rules of NumPy: the last two axes are matrices, the others are broadcast.
"""

from __future__ import annotations

import math
from typing import Any

import drjit_core as core
from drjit_core import SHAPE, Node, cast, literal, ops

from .._access.slicing import TRUE, Access, broadcast_shapes, contiguous_strides, positions
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.types import UINT32, lookup, reshape, retype
from .._base.values import is_real, plain_scalar
from .._promotion.promote import common_package, operands, wrap
from .._rules import matrix as rules
from .broadcasting import make, promote

__all__ = ["is_square", "matmul_operator", "product", "tensor_matmul"]


def matmul_operator(left: Any, right: Any) -> Any:
    """``left @ right``, where one operand is a matrix or a nested array."""
    for value in (left, right):
        if not isinstance(value, ArrayBase) and plain_scalar(value) is None:
            return NotImplemented
    array = left if isinstance(left, ArrayBase) else right
    return product(f"{array._name}.__matmul__", left, right)


def product(function: str, left: Any, right: Any) -> Any:
    """The product of two operands by the rules of :func:`matmul`."""
    for value in (left, right):
        if not isinstance(value, ArrayBase) and plain_scalar(value) is None:
            raise TypeError(f"{function}(): unsupported operand of type '{describe(value)}' (expected a Dr.Jit array "
                            "or a Python number).")
        if getattr(value, "_special", "") in ("complex", "quaternion"):
            raise TypeError(f"{function}(): complex numbers and quaternions have no matrix product (found "
                            f"{describe(left)} and {describe(right)}); use '*'.")
    if any(isinstance(value, ArrayBase) and value._depth < 0 for value in (left, right)):
        return tensor_matmul(function, left, right)
    if is_real(left) or is_real(right):
        if isinstance(left, ArrayBase) and isinstance(right, ArrayBase) and left._depth == right._depth:
            return _flat_dot(function, left, right)
        return left * right
    a, b = left._static_shape(), right._static_shape()
    size = a[0]
    matrices = (is_square(left), is_square(right))
    if size != b[0] or not all(len(shape) == 1 or square for shape, square in zip((a, b), matrices, strict=True)):
        raise ArgumentError(f"{function}(): incompatible operands: {left._name} and {right._name} have the leading "
                            f"static dimensions {a[:2]} and {b[:2]}.")
    try:
        return _static_product(function, left, right, size, matrices)
    except CORE_ERRORS as error:
        raise translate(error, function) from error


def _flat_dot(function: str, left: ArrayBase, right: ArrayBase) -> Any:
    cls, (a, b) = operands(function, (left, right))
    try:
        return wrap(cls, [core.reduce(ops.mul(a[0], b[0]), core.ReduceOp.Add.value)])
    except CORE_ERRORS as error:
        raise translate(error, function) from error


def _static_product(function: str, left: ArrayBase, right: ArrayBase, size: int, matrices: tuple[bool, bool]) -> Any:
    """The product of two operands with the leading dimensions ``(size, size)`` or ``(size,)``."""
    scalar = max(left._type, right._type)
    package = common_package(function, (left, right), type(left))
    a, b = ([cast(node, scalar) if node.type != scalar else node for node in array._nodes()] for array in (left, right))
    # Entries of several components: an operand whose entries are single components goes with each of them.
    inner = tuple(array._static_shape()[1 + matrix:] for array, matrix in zip((left, right), matrices, strict=True))
    if inner[0] and inner[1] and inner[0] != inner[1]:
        raise ArgumentError(f"{function}(): the entries of {left._name} and {right._name} differ in shape.")
    entry = inner[0] or inner[1]
    count = 1
    for extent in entry:
        count *= extent
    parts = [rules.multiply(a[k::count] if inner[0] else a, b[k::count] if inner[1] else b, size)
             for k in range(count)]
    nodes = [node for components in zip(*parts, strict=True) for node in components]
    if matrices == (False, False):
        shape: tuple[int, ...] = entry
    elif matrices == (True, True):
        shape = (size, size, *entry)
        if "matrix" in (left._special, right._special):
            found = lookup(package._record._replace(type=scalar, kind="matrix", shape=shape))
            if found is not None:
                return wrap(found, nodes)
    else:
        shape = (size, *entry)
    return wrap(reshape(retype(package._plain, scalar), shape), nodes)


def is_square(array: ArrayBase) -> bool:
    shape = array._static_shape()
    return len(shape) >= 2 and shape[0] == shape[1]


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
