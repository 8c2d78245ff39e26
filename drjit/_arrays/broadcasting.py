"""Tensors as operands: promotion, broadcasting, and elementwise operations with a tensor among their arguments.

Operands of one shape, and those with a single element, take part as they are; others are read through computed indices
(:mod:`drjit._access.slicing`). Flat arrays count as tensors of one dimension, those with a single element as scalars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node, cast, literal, ops

from .._access import slicing
from .._access.slicing import TRUE, broadcast_shapes, contiguous_strides, expand, positions
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, describe, translate
from .._base.nodes import broadcast
from .._base.types import BOOL, retype
from .._base.values import is_ndarray, plain_scalar, scalar_type_of
from .._promotion.promote import common_package, scalar_literal, scalar_type, weak_rank

__all__ = ["Shape", "combine", "concatenate", "make", "operand", "prepare", "promote", "tensor_select", "traced",
           "transposed"]

_new = object.__new__
_IDENTITY, _AUTO = core.ReduceOp.Identity.value, core.ReduceMode.Auto.value
Shape = tuple[int, ...]


def make(cls: type[ArrayBase], node: Node, shape: Shape) -> Any:
    """A tensor of a type from its node and shape."""
    tensor: Any = _new(cls)
    tensor._n, tensor._s, tensor._o = node, shape, None
    return tensor


def operand(function: str, cls: type[ArrayBase], value: Any) -> tuple[Node, Shape]:
    """The node (of the scalar type of ``cls``) and the shape of an argument of an elementwise operation."""
    if isinstance(value, ArrayBase):
        if value._special != "tensor" and value._depth:
            raise ArgumentError(f"{function}(): incompatible arguments: {value._name} cannot be combined with tensors; "
                                f"convert it to {cls._name} first.")
        node = value._nodes()[0]
        shape = value._s if value._special == "tensor" else (node.size,)  # type: ignore[attr-defined]
        return cast(node, cls._type), shape
    number = plain_scalar(value)
    if number is not None:
        return scalar_literal(cls, number, function), ()
    try:
        tensor: Any = cls(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"{function}(): could not convert an argument of type '{describe(value)}' to {cls._name}: "
                            f"{error}") from error
    return tensor._n, tensor._s


def _align(function: str, found: Sequence[tuple[Node, Shape]]) -> tuple[list[Node], Shape]:
    """Nodes broadcast to a common shape, which is returned as well; those of size 1 are left alone."""
    first = found[0][1]
    if all(shape == first for _, shape in found):
        return [node for node, _ in found], first
    shape = broadcast_shapes(function, [shape for _, shape in found])
    if not math.prod(shape):
        return [core.invalid(node.type) for node, _ in found], shape
    return [expand(node, own, shape) for node, own in found], shape


def promote(function: str, args: Sequence[Any], mask: Any = None) -> tuple[type[ArrayBase], list[tuple[Node, Shape]]]:
    """Arguments, one of them a tensor, as nodes of their promoted type, with shapes; a ``mask`` comes first."""
    values = [*args] if mask is None else [*args, mask]
    arrays = [value for value in values if isinstance(value, ArrayBase)]
    cls = common_package(function, arrays, next(type(a) for a in arrays if a._special == "tensor"))
    inner: list[ArrayBase] = []
    rank, scalar = -1, BOOL
    for number, value in enumerate(args):
        if is_ndarray(value) and value.ndim:
            scalar = max(scalar, _scalar_of(function, value))
        else:
            rank = max(rank, weak_rank(value, function, inner, number + 1))
    cls = retype(cls, scalar_type(max((a._type for a in inner), default=BOOL), scalar, rank))
    found = [operand(function, cls, value) for value in args]
    if mask is not None:
        found.insert(0, operand(function, cls._mask_type, mask))
    return cls, found


def prepare(function: str, args: Sequence[Any], mask: Any = None) -> tuple[type[ArrayBase], list[Node], Shape]:
    """Promote and broadcast arguments, one of them a tensor; a ``mask`` takes part in broadcasting, and comes first."""
    cls, found = promote(function, args, mask)
    nodes, shape = _align(function, found)
    return cls, nodes, shape


def _scalar_of(function: str, value: Any) -> int:
    found = scalar_type_of(value)
    if found is None:
        raise ArgumentError(f"{function}(): arrays of type '{describe(value)}' with elements of type '{value.dtype}' "
                            "are not supported.")
    return found


def combine(function: str, trace: Callable[..., Node], args: Sequence[Any], mask: bool = False) -> Any:
    """An elementwise operation with arguments of different types or shapes, one of them a tensor."""
    cls, nodes, shape = prepare(function, args)
    return traced(function, cls._mask_type if mask else cls, trace, nodes, shape)


def traced(function: str, cls: type[ArrayBase], trace: Callable[..., Node], nodes: list[Node], shape: Shape) -> Any:
    try:
        node = trace(*nodes)
    except CORE_ERRORS as error:
        raise translate(error, function) from error
    return make(cls, node, shape)


def tensor_select(function: str, mask: Any, first: Any, second: Any) -> Any:
    """``dr.select`` with a tensor among its arguments."""
    if mask.__class__ is bool or not isinstance(mask, ArrayBase):
        cls, nodes, shape = prepare(function, (first, second))
        node = nodes[0 if mask else 1]
        return make(cls, broadcast(node, math.prod(shape)) if node.size else node, shape)
    cls, nodes, shape = prepare(function, (first, second), mask)
    return traced(function, cls, ops.select, nodes, shape)


def concatenate(nodes: Sequence[Node]) -> Node:
    """The elements of several nodes of one type, one after the other."""
    type_ = nodes[0].type
    nodes = [node for node in nodes if node.size]
    if len(nodes) < 2:
        return nodes[0] if nodes else core.invalid(type_)
    total = sum(node.size for node in nodes)
    first = nodes[0]
    if first.kind == core.KIND["literal"] and all(
            node.kind == first.kind and math.copysign(1, node.payload) == math.copysign(1, first.payload)
            and node.payload == first.payload for node in nodes):
        return literal(type_, first.payload, total, first.attr)
    result, start = core.undefined(type_, total), 0
    for node in nodes:
        access = slicing.Access(start, (node.size,), (1,))
        result = core.scatter(result, node, positions(access, total), TRUE, _IDENTITY, _AUTO)
        start += node.size
    core.schedule([result])
    return result


def transposed(node: Node, shape: Shape, axes: Shape) -> tuple[Node, Shape]:
    """The node and the shape of a tensor whose axes have been put into another order."""
    strides = contiguous_strides(shape)
    sizes = tuple(shape[axis] for axis in axes)
    return slicing.strided(node, sizes, [strides[axis] for axis in axes]), sizes
