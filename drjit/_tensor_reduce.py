"""Reductions of tensors along any of their axes.

All elements to one is the reduction of the flat array. Along some axes, each element of the result is either computed
by a short, unrolled chain of reads, or, if there is more to reduce than :data:`UNROLLED`, the elements are combined
with those of the result by atomic updates. Nothing is evaluated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import drjit_core as core
from drjit_core import Node, ReduceOp, cast, literal, ops

from ._slicing import TRUE, Access, contiguous_strides, positions, strided
from ._types import UINT32

__all__ = ["UNROLLED", "reduce_axes", "result_shape"]

#: Up to this number of elements, a reduction reads them one after the other: deterministic, and without atomics.
UNROLLED = 16

_AUTO = core.ReduceMode.Auto.value


def result_shape(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """The shape that is left of a reduction."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keepdims or axis not in axes)


def reduce_axes(op: ReduceOp, combine: Callable[[Node, Node], Node], node: Node, shape: tuple[int, ...],
                axes: Sequence[int], symbolic: bool = False) -> Node:
    """The reduction of a tensor's node along some axes, in C order of those that are kept."""
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    count, extent = math.prod(shape[axis] for axis in kept), math.prod(shape[axis] for axis in axes)
    if not count:
        return core.invalid(node.type)
    if not extent:
        return literal(node.type, core.reduction_identity(op.value, node.type), count)
    if extent == 1:
        return node
    if count == 1 and not symbolic:
        return core.reduce(node, op.value)
    if node.kind == core.KIND["literal"]:
        single = core.reduce(literal(node.type, node.payload, extent, node.attr), op.value)
        return literal(node.type, single.payload, count, single.attr)
    if extent <= UNROLLED and not symbolic:
        return _unrolled(combine, node, shape, axes, kept)
    return _scattered(op, node, shape, axes, kept, count)


def _unrolled(combine: Callable[[Node, Node], Node], node: Node, shape: tuple[int, ...], axes: Sequence[int],
              kept: Sequence[int]) -> Node:
    strides = contiguous_strides(shape)
    bases = [0]
    for axis in axes:
        bases = [base + k * strides[axis] for base in bases for k in range(shape[axis])]
    sizes, steps = [shape[axis] for axis in kept], [strides[axis] for axis in kept]
    parts = [strided(node, sizes, steps, base) for base in bases]
    while len(parts) > 1:  # pairwise, for the sake of accuracy
        parts = [combine(*parts[k:k + 2]) if k + 1 < len(parts) else parts[k] for k in range(0, len(parts), 2)]
    return parts[0]


def _scattered(op: ReduceOp, node: Node, shape: tuple[int, ...], axes: Sequence[int], kept: Sequence[int],
               count: int) -> Node:
    strides = dict(zip(kept, contiguous_strides([shape[axis] for axis in kept]), strict=True))
    index = positions(Access(0, shape, tuple(strides.get(axis, 0) for axis in range(len(shape)))), node.size)
    type_, boolean = node.type, core.TYPES[node.type].kind == "b"
    if boolean:  # atomic updates are defined for words
        node = ops.select(node, literal(UINT32, 1), literal(UINT32, 0))
    identity = core.reduction_identity(op.value, node.type) if not boolean else int(op is ReduceOp.And)
    target = core.opaque(literal(node.type, identity, count))
    result = core.scatter(target, node, cast(index, UINT32) if node.size <= 1 << 32 else index, TRUE, op.value, _AUTO)
    core.schedule([result])
    return ops.neq(result, literal(UINT32, 0)) if boolean else cast(result, type_)
