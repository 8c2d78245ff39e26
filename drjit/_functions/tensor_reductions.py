"""Reductions of tensors along any of their axes.

All elements to one is the reduction of the flat array. Along some axes, runs of adjacent ones are reduced one after
the other, each as a *segment*: a reduction of an array of three axes along the middle one, which is part of a kernel
that goes over rows. Where the result has few elements of many each, parts come first, for the sake of threads;
several rows of a few elements are taken for one, so that packets are full; and rows of up to four elements are read
column by column. In symbolic loops and recordings, which have no segments, each element of the result is a short,
unrolled chain of reads, or a loop over them in the kernel, in several interleaved parts. The order of operations
follows from the shape alone, so that results are the same in every run.

``mode="symbolic"`` combines the elements with those of the result by atomic updates instead, as the reference says.
Nothing is evaluated here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import COMPUTES_IN, SHAPE, Node, ReduceOp, cast, literal, ops

from .._access.slicing import TRUE, Access, contiguous_strides, positions, strided
from .._base.nodes import depending_on
from .._base.types import UINT32, UINT64

__all__ = ["reduce_axes", "result_shape"]

_AUTO = core.ReduceMode.Auto.value
Combine = Callable[[Node, Node], Node]


def result_shape(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """The shape that is left of a reduction."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keepdims or axis not in axes)


def reduce_axes(op: ReduceOp, combine: Combine, node: Node, shape: tuple[int, ...], axes: Sequence[int],
                symbolic: bool = False) -> Node:
    """The reduction of a tensor's node along some axes, in C order of those that are kept."""
    count, extent, runs = _runs(shape, tuple(axes))
    if not count:
        return core.nothing_of(node)
    if not extent:
        return depending_on(node, literal(node.type, core.REDUCTIONS[op.value].empty(node.type), count))
    if extent == 1:
        return core.unless_nan(node, op.value) if axes or not shape else node
    if count == 1 and not symbolic:
        return core.reduce(node, op.value)
    if node.kind == core.KIND["literal"]:
        single = core.reduce(literal(node.type, node.payload, extent, node.attr), op.value)
        if single.kind == node.kind:  # its value may not be known while a program is recorded
            return literal(node.type, single.payload, count, single.attr)
    if symbolic:
        return _scattered(op, node, shape, [axis for axis in range(len(shape)) if axis not in axes], count)
    for outer, extent, inner in runs:
        node = _reduce_run(op, combine, node, outer, extent, inner)
    return node


@functools.lru_cache(maxsize=4096)
def _runs(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, list[tuple[int, int, int]]]:
    """How many results there are, and of how many elements each; and what is reduced one after the other, each the
    middle axis of three."""
    count = math.prod([size for axis, size in enumerate(shape) if axis not in axes])
    sizes, runs = list(shape), []
    for axis in reversed(axes):
        if sizes[axis] > 1:
            first = axis
            while first - 1 in axes:  # a run of adjacent axes is one long one
                first -= 1
            runs.append((math.prod(sizes[:first]), math.prod(sizes[first:axis + 1]), math.prod(sizes[axis + 1:])))
            sizes[first:axis + 1] = [1] * (axis + 1 - first)
    return count, math.prod([shape[axis] for axis in axes]), runs


def _reduce_run(op: ReduceOp, combine: Combine, node: Node, outer: int, extent: int, inner: int) -> Node:
    """The reduction of the middle axis of three."""
    if extent == 1:
        return node
    if outer * inner == 1:
        return core.reduce(node, op.value)
    segment = _segments(op, node, outer, extent, inner)
    if segment is not None:
        return segment
    if op in (ReduceOp.Min, ReduceOp.Max) and core.tracked(node) is not None:
        return _extreme(op, combine, node, outer, extent, inner)
    numbers = core.limits(node.where).tracing.reductions
    if extent <= numbers.unrolled:
        parts = [strided(node, (outer, inner), (extent * inner, 1), k * inner) for k in range(extent)]
        while len(parts) > 1:  # pairwise, for the sake of accuracy
            parts = [combine(*parts[k:k + 2]) if k + 1 < len(parts) else parts[k] for k in range(0, len(parts), 2)]
        return core.unless_nan(parts[0], op.value)
    if core.state.recording is not None and core.tracked(node) is not None:
        return _halved(op, combine, node, outer, extent, inner)
    parts_wanted = max(1, min(extent // numbers.unrolled, numbers.parallel // (outer * inner)))
    node = _looped(op, combine, node, outer, extent, inner, parts_wanted)
    return _reduce_run(op, combine, node, outer, parts_wanted, inner)


def _extreme(op: ReduceOp, combine: Combine, node: Node, outer: int, extent: int, inner: int) -> Node:
    """The least or largest entry along the middle axis of three, of which all that are equal to it have a part in its
    derivative, as where rows are reduced by kernels."""
    value = core.primal(node)
    found = _reduce_run(op, combine, value, outer, extent, inner)
    equal = ops.eq(value, strided(found, (outer, extent, inner), (inner, 0, 1)))
    total = _reduce_run(ReduceOp.Add, ops.add, ops.select(equal, node, literal(node.type, 0)), outer, extent, inner)
    vertex = core.tracked(total)
    return found if vertex is None else core.dual(found, vertex)


def _halved(op: ReduceOp, combine: Combine, node: Node, outer: int, extent: int, inner: int) -> Node:
    """The reduction of the middle axis of three by halves, where loops would have no derivatives."""
    odd: list[Node] = []
    while extent > 1:
        half, strides = extent // 2, (extent * inner, inner, 1)
        if extent % 2:
            odd.append(strided(node, (outer, 1, inner), strides, 2 * half * inner))
        node = combine(strided(node, (outer, half, inner), strides),
                       strided(node, (outer, half, inner), strides, half * inner))
        extent = half
    for part in odd:
        node = combine(node, part)
    return core.unless_nan(node, op.value)


def _segments(op: ReduceOp, node: Node, outer: int, extent: int, inner: int) -> Node | None:
    """The reduction of the middle axis of three in kernels that go over rows, or ``None`` in regions and recordings.

    Where there are few results of many elements each, parts of them come first, for the sake of threads.
    """
    type_, numbers = node.type, core.limits(node.where).tracing.reductions
    node = cast(node, COMPUTES_IN[type_])
    if inner == 1 and extent <= numbers.short and outer >= numbers.parallel:  # rows would leave most of a packet empty
        return None
    if inner == 1:
        part = extent
        if outer < numbers.results:
            part = -(-max(numbers.part, extent * outer // numbers.results) // 64) * 64
    else:
        group = _grouped(extent, inner, numbers)
        if group > 1:  # several rows beside each other, so that packets are full
            parts = _segments(op, node, outer, extent // group, group * inner)
            result = None if parts is None else _segments(op, parts, outer, group, inner)
            return None if result is None else cast(result, type_)
        part = max(numbers.rows, numbers.elements // inner)
    result = core.segment(node, op.value, outer, extent, inner, part if 2 * part <= extent else extent)
    if result is not None and 2 * part <= extent:
        result = _segments(op, result, outer, -(-extent // part), inner)
    return None if result is None else cast(result, type_)


def _grouped(extent: int, inner: int, numbers: Any) -> int:
    """How many rows of a few elements are taken for one."""
    if inner >= numbers.narrow or extent < numbers.rows:
        return 1
    return next((group for group in range(numbers.narrow // inner * 4, 1, -1) if not extent % group), 1)


def _looped(op: ReduceOp, combine: Combine, node: Node, outer: int, extent: int, inner: int, parts: int) -> Node:
    """The reduction of a tensor (outer, extent, inner) to (outer, parts, inner).

    Part ``p`` takes the entries ``p``, ``p + parts``, …, so that neighbours read what lies side by side.
    """
    def parameter(value: int, tag: int) -> Node:
        return literal(scalar, value, 1, SHAPE, tag=tag)

    sizes = (outer, parts, inner)
    scalar = UINT32 if node.size + parts * inner <= 1 << 32 else UINT64
    position = cast(positions(Access(0, sizes, (extent * inner, inner, 1)), node.size), scalar)
    entry = cast(positions(Access(0, sizes, (0, 1, 0)), node.size), scalar)
    limit, step, stride = parameter(extent, 40), parameter(parts, 41), parameter(parts * inner, 42)
    start = literal(node.type, core.REDUCTIONS[op.value].identity(node.type), outer * parts * inner)
    return core.while_loop(
        [entry, position, start], lambda state: ops.lt(state[0], limit),
        lambda state: [ops.add(state[0], step), ops.add(state[1], stride),
                       combine(state[2], core.gather(node, state[1], TRUE, harmless=True))],
        trips=-(-extent // parts))[2]


def _scattered(op: ReduceOp, node: Node, shape: tuple[int, ...], kept: Sequence[int], count: int) -> Node:
    strides = dict(zip(kept, contiguous_strides([shape[axis] for axis in kept]), strict=True))
    index = positions(Access(0, shape, tuple(strides.get(axis, 0) for axis in range(len(shape)))), node.size)
    boolean = core.TYPES[node.type].kind == "b"
    if boolean:  # atomic updates are defined for words
        node = ops.select(node, literal(UINT32, 1), literal(UINT32, 0))
    identity = core.REDUCTIONS[op.value].identity(node.type) if not boolean else int(op is ReduceOp.And)
    target = core.opaque(literal(node.type, identity, count))
    result = core.scatter(target, node, index, TRUE, op.value, _AUTO, harmless=True)
    core.schedule([result])
    return ops.neq(result, literal(UINT32, 0)) if boolean else result
