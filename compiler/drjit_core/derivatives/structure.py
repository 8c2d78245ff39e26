"""Derivatives of operations with structure: memory, reductions, layouts, steps.

Each is a pair of functions.  ``forward(flow, vertex, gradients)`` gets the gradients of the operands (``None``: zero)
and returns that of the result; ``reverse(flow, vertex, gradient)`` gives each operand its part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..codegen.target import limits
from ..ir.build import counter, literal
from ..ir.node import Node
from ..ir.steps import step, transposed
from ..ir.symbolic import innermost, symbolic_error
from ..ir.trace import access, accumulate, cast, gather, ops, reduce, scatter, segment, view
from ..ir.vertex import Vertex
from ..ops.table import DUAL
from ..passes.positions import positions
from ..types import BOOL, UINT32, UINT64, ReduceMode, ReduceOp
from .flow import Flow, full
from .formulas import FORMULAS, masked, number, product

__all__ = ["STRUCTURE", "Gradients", "Structure"]

Gradients = Sequence[Node | None]
_ADD, _MUL, _MIN, _MAX, _IDENTITY = (op.value for op in (
    ReduceOp.Add, ReduceOp.Mul, ReduceOp.Min, ReduceOp.Max, ReduceOp.Identity))
_AUTO, _NO_CONFLICTS = ReduceMode.Auto.value, ReduceMode.NoConflicts.value


def _true() -> Node:
    return literal(BOOL, True)


def _added(a: Node | None, b: Node | None) -> Node | None:
    return b if a is None else a if b is None else ops.add(a, b)


def _times(gradient: Node, factor: Node) -> Node:
    """A gradient times a derivative, which may be a mask; zeros of the gradient stay zero."""
    return masked(factor, gradient) if factor.type == BOOL else product(gradient, factor, True)


# --- the same values, in another type or place ------------------------------------------------------------------------


def _identity_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    return gradients[0]


def _identity_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    flow.give(vertex.a, gradient, vertex.size, vertex.sparse)


def _cast_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    return None if gradients[0] is None else cast(gradients[0], vertex.type)


def _cast_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    assert vertex.a is not None
    flow.give(vertex.a, cast(gradient, vertex.a.type), vertex.size, vertex.sparse)


# --- reads and writes by index ---------------------------------------------------------------------------------------


def _gather_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    gradient, (index, mask, mode) = gradients[0], vertex.info
    if gradient is None:
        return None
    return masked(mask, gradient) if gradient.size == 1 else gather(gradient, index, mask, False, mode)


def _gather_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    index, mask, mode = vertex.info
    source = vertex.a
    assert source is not None
    if source.size == 1:
        flow.give(source, masked(mask, gradient), vertex.size, True)
    else:
        flow.scatter(source, gradient, index, mask, mode)


def _scatter_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    index, mask, op, mode, width, _, _ = vertex.info
    target, change, _ = gradients
    if op in (_IDENTITY, _ADD):
        if target is None:
            target = literal(vertex.type, 0, vertex.size)
        if change is None:
            if op == _ADD:
                return target
            change = literal(vertex.type, 0)
        # One for all that is written would be added once, where all have one place.
        return scatter(full(target, vertex.size), full(change, width), index, mask, op, mode)
    of_target, of_value = _scatter_factors(flow, vertex)
    result = literal(vertex.type, 0, vertex.size)
    if target is not None:
        result = _times(full(target, vertex.size), of_target)
    if change is None:
        return result
    return scatter(result, full(_times(change, of_value), width), index, mask, _ADD, _AUTO)


def _scatter_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    index, mask, op, mode, width, _, _ = vertex.info
    of_target, of_value = (None, None) if op in (_IDENTITY, _ADD) else _scatter_factors(flow, vertex)
    if vertex.a is not None:
        own = gradient
        if op == _IDENTITY:
            own = scatter(full(gradient, vertex.size), number(gradient, 0), index, mask, _IDENTITY, mode)
        elif of_target is not None:
            own = _times(gradient, of_target)
        flow.give(vertex.a, own, vertex.size, True)
    if vertex.b is not None:
        part = masked(mask, gradient) if gradient.size == 1 else gather(gradient, index, mask)
        if of_value is not None:
            part = _times(part, of_value)
        flow.give(vertex.b, part, width, True)


def _accumulate_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    index, mask, mode, width = vertex.info
    memory, change, _ = gradients
    memory = literal(vertex.type, 0, vertex.size) if memory is None else full(memory, vertex.size)
    if change is None:
        return memory
    return accumulate(memory, full(change, width) if innermost() is None else change, index, mask, mode)


def _accumulate_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    index, mask, mode, width = vertex.info
    flow.give(vertex.a, gradient, vertex.size, True)
    if vertex.b is not None:
        part = masked(mask, gradient) if gradient.size == 1 else gather(gradient, index, mask, False, mode)
        flow.give(vertex.b, part, width, True)


def _scatter_factors(flow: Flow, vertex: Vertex) -> tuple[Node, Node]:
    """The derivatives of a scatter-reduction by its target and by what is written, where the mask is set: factors, or
    masks of what the results are."""
    index, mask, op, mode, _, before, value = vertex.info
    _, _, _, r = flow.kept(vertex)

    def at(node: Node) -> Node:
        return gather(node, index, mask)

    if op in (_MIN, _MAX):
        return ops.eq(before, r), ops.eq(at(r), value)
    assert op == _MUL
    if flow.again:
        before, value = flow.differentiable(before, vertex.a), flow.differentiable(value, vertex.b)
    zero, one = number(value, 0), number(value, 1)
    of_target, of_value = ops.eq(before, zero), ops.eq(value, zero)
    zeros = scatter(ops.select(of_target, one, zero), ops.select(of_value, one, zero), index, mask, _ADD, mode)
    rest = scatter(ops.select(of_target, one, before), ops.select(of_value, one, value), index, mask, _MUL, mode)
    return _of_others(before, r, zeros, rest), _of_others(value, at(r), at(zeros), at(rest))


# --- reductions ------------------------------------------------------------------------------------------------------


def _reduced(vertex: Vertex, node: Node) -> Node:
    """A sum over what the reduction of a vertex reduces."""
    if vertex.rule.name == "reduce":
        return reduce(node, _ADD)
    return _segments(node, _ADD, *vertex.info[1:])


def _segments(node: Node, op: int, outer: int, extent: int, inner: int, part: int) -> Node:
    """A sum or product along the middle one of three axes, of so many elements at a time: in a pass of its own, or by
    writes, in recordings for example, where there are no such passes."""
    found = segment(node, op, outer, extent, inner, part)
    if found is not None:
        return found
    parts = -(-extent // part)
    scalar = UINT32 if node.size < 1 << 32 else UINT64
    index = counter(node.size, scalar, node.where)
    inside, row, blocks, length = (literal(scalar, value) for value in (inner, extent * inner, parts, part))
    block = ops.floordiv(ops.floordiv(ops.mod(index, row), inside), length)
    target = ops.mul(ops.add(ops.mul(ops.floordiv(index, row), blocks), block), inside)
    neutral = literal(node.type, 1 if op == _MUL else 0, outer * parts * inner)
    return scatter(neutral, node, ops.add(target, ops.mod(index, inside)), _true(), op, _AUTO)


def _expanded(vertex: Vertex, node: Node) -> Node:
    """What belongs to a result of a reduction, beside each of the elements that were reduced to it."""
    if node.size == 1:
        return node
    if vertex.rule.name == "reduce":  # in a region, in which each element has a gradient of its own
        raise symbolic_error(node, "backward", "it needs the values of all elements")
    _, outer, extent, inner, part = vertex.info
    if extent % part == 0:
        shape = [(outer * (extent // part), inner), (part, 0), (inner, 1)]
        return _viewed(node, 0, [axis for axis in shape if axis[0] > 1])
    blocks = -(-extent // part)
    count = outer * extent * inner
    scalar = UINT32 if count <= 1 << 32 else UINT64

    def word(value: int) -> Node:
        return literal(scalar, value)

    place = counter(count, scalar, node.where)
    row = FORMULAS.floordiv(place, word(inner))
    line = FORMULAS.floordiv(row, word(extent))
    block = FORMULAS.floordiv(ops.sub(row, ops.mul(line, word(extent))), word(part))
    column = ops.sub(place, ops.mul(row, word(inner)))
    index = ops.add(ops.mul(ops.add(ops.mul(line, word(blocks)), block), word(inner)), column)
    return gather(node, index, _true(), True)


def _viewed(node: Node, base: int, axes: Sequence[tuple[int, int]]) -> Node:
    """Elements of an array, by extents and strides (see :func:`drjit_core.ir.trace.view`)."""
    if not axes:
        return access(node, base, 1, 1)
    extents, strides = tuple(extent for extent, _ in axes), tuple(stride for _, stride in axes)
    found = view(node, base, extents, strides)
    if found is not None:
        return found
    return gather(node, positions(node.size, base, extents, strides), _true(), True)


def _factor(vertex: Vertex, x: Node, r: Node) -> Node:
    """The derivative of a reduction by its elements: a factor, or a mask of those that are the result."""
    op = vertex.info if vertex.rule.name == "reduce" else vertex.info[0]
    beside = _expanded(vertex, r)
    if op in (_MIN, _MAX):
        return ops.eq(x, beside)  # type: ignore[no-any-return]
    assert op == _MUL
    if x.kind == DUAL:  # for derivatives of higher order, zeros are factors like others
        return _others(vertex, x)
    one, zero = number(x, 1), number(x, 0)
    is_zero = ops.eq(x, zero)
    rest = ops.select(is_zero, one, x)
    others = reduce(rest, _MUL) if vertex.rule.name == "reduce" else _segments(rest, _MUL, *vertex.info[1:])
    zeros = _expanded(vertex, _reduced(vertex, ops.select(is_zero, one, zero)))
    return _of_others(x, beside, zeros, _expanded(vertex, others))


def _others(vertex: Vertex, x: Node) -> Node:
    """The product of all factors but each, as a product of two running ones."""
    outer, extent, inner, part = (1, x.size, 1, x.size) if vertex.rule.name == "reduce" else vertex.info[1:]
    whole = -(-extent // part) * part
    factors = x
    if whole != extent:  # the last part is filled up with ones
        index, mask = _resized(x.where, outer, whole, extent, inner)
        factors = ops.select(mask, gather(x, index, mask), number(x, 1))
    before, behind = (_scan(factors, (_MUL, 1, reverse), (outer * whole // part, part, inner)) for reverse in (0, 1))
    others: Node = ops.mul(before, behind)
    return gather(others, *_resized(x.where, outer, extent, whole, inner)) if whole != extent else others


def _resized(where: int, outer: int, extent: int, source: int, inner: int) -> tuple[Node, Node]:
    """Where the elements of an array of three axes come from, whose middle one had another extent, and whether they do.
    """
    size = outer * max(extent, source) * inner
    scalar = UINT32 if size < 1 << 32 else UINT64
    index = counter(outer * extent * inner, scalar, where)
    inside, row, length = (literal(scalar, value) for value in (inner, extent * inner, source))
    place = ops.floordiv(ops.mod(index, row), inside)
    origin = ops.mul(ops.add(ops.mul(ops.floordiv(index, row), length), place), inside)
    return ops.add(origin, ops.mod(index, inside)), ops.lt(place, length)


def _of_others(x: Node, whole: Node, zeros: Node, rest: Node) -> Node:
    """The product of all factors but ``x``, given that of all, how many of them are zero, and the product of those that
    are not."""
    zero = number(x, 0)
    is_zero = ops.eq(x, zero)
    only = ops.and_(is_zero, ops.eq(zeros, number(x, 1)))
    return ops.select(only, rest, ops.select(is_zero, zero, ops.div(whole, x)))  # type: ignore[no-any-return]


def _reduction_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    gradient, operand = gradients[0], vertex.a
    if gradient is None or operand is None:
        return None
    if vertex.x is not None:
        x, _, _, r = flow.kept(vertex)
        gradient = _times(gradient, _factor(vertex, x, r))
    if vertex.rule.name == "reduce" and gradient.size == 1:
        return ops.mul(gradient, literal(gradient.type, operand.size))  # type: ignore[no-any-return]
    return _reduced(vertex, full(gradient, operand.size))


def _reduction_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    operand = vertex.a
    assert operand is not None
    gradient = _expanded(vertex, gradient)
    if vertex.x is None:
        flow.give(operand, gradient, operand.size, vertex.sparse)
    else:
        x, _, _, r = flow.kept(vertex)
        flow.give(operand, _times(gradient, _factor(vertex, x, r)), operand.size, True)


# --- layouts ---------------------------------------------------------------------------------------------------------


def _layout(vertex: Vertex) -> tuple[int, list[tuple[int, int]]]:
    """Where a view begins, and the extents and strides of its axes in C order."""
    name, info = vertex.rule.name, vertex.info
    if name == "access":
        first, stride, size = info
        return first, [(size, stride)] if size > 1 else []
    if name == "view":
        base, extents, strides = info
        return base, list(zip(extents, strides, strict=True))
    rows, columns, column, target, base, *rest = info.options
    axes = [(target, rows, 1), (1, columns, column)]
    axes += [(rest[k + 2], rest[k], rest[k + 1]) for k in range(0, len(rest), 3)]
    return base, [(extent, stride) for _, extent, stride in sorted(axes, reverse=True)]


def _layout_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    gradient = gradients[0]
    if gradient is None or gradient.size == 1:
        return gradient
    if vertex.rule.name == "transpose":
        return step("transpose", (gradient,), [(vertex.type, vertex.size)], vertex.info.options)[0]
    return _viewed(gradient, *_layout(vertex))


def _layout_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    source = vertex.a
    assert source is not None
    give_view(flow, source, gradient, vertex.size, *_layout(vertex), sparse=vertex.sparse)


def give_view(flow: Flow, source: Vertex, gradient: Node, width: int, base: int, axes: list[tuple[int, int]],
              *, sparse: bool) -> None:
    """Give a vertex the gradient of a view of it."""
    if source.size == 1:
        flow.give(source, gradient, width, sparse)
        return
    axes = list(axes)
    for number_ in range(len(axes) - 1, -1, -1):  # an element that is repeated gets the sum
        extent, stride = axes[number_]
        if stride:
            continue
        del axes[number_]
        if gradient.size == 1:
            gradient = ops.mul(gradient, literal(gradient.type, extent))
            continue
        outer = math.prod(extent for extent, _ in axes[:number_])
        inner = math.prod(extent for extent, _ in axes[number_:])
        gradient = reduce(gradient, _ADD) if outer * inner == 1 else \
            _segments(gradient, _ADD, outer, extent, inner, extent)
    count = math.prod(extent for extent, _ in axes)
    if count == source.size:
        inverse = _inverse(axes, count)
        if inverse is not None:
            if gradient.size != 1:
                gradient = _permuted(gradient, axes) or _viewed(gradient, *inverse)
            flow.give(source, gradient, source.size, sparse)
            return
    extents, strides = tuple(extent for extent, _ in axes), tuple(stride for _, stride in axes)
    if axes:
        index = positions(source.size, base, extents, strides)
    else:
        index = literal(UINT32 if source.size <= 1 << 32 else UINT64, base)
    # what is of one element is the same one for all elements of a region
    flow.scatter(source, gradient, index, _true(), _NO_CONFLICTS if axes and _is_injective(axes) else _AUTO)


def _inverse(axes: Sequence[tuple[int, int]], count: int) -> tuple[int, list[tuple[int, int]]] | None:
    """The view that leads back from one that has each element once; ``None`` if there is none."""
    steps, following = [], count
    for extent, stride in axes:  # the stride of the axis in the view itself
        following //= extent
        steps.append((abs(stride), extent, following, stride < 0))
    base, expected, found = 0, 1, []
    for distance, extent, own, reversed_ in sorted(steps):
        if distance != expected:
            return None
        expected *= extent
        found.append((extent, -own if reversed_ else own))
        base += own * (extent - 1) if reversed_ else 0
    return base, found[::-1]


def _permuted(gradient: Node, axes: Sequence[tuple[int, int]]) -> Node | None:
    """The way back of a transposition, as a step where that pays."""
    if any(stride < 0 for _, stride in axes):
        return None
    order = sorted(range(len(axes)), key=lambda number: -axes[number][1])
    return transposed(gradient, [extent for extent, _ in axes], order, *limits(gradient.where).tracing.copies)


def _is_injective(axes: Sequence[tuple[int, int]]) -> bool:
    """Whether all elements of a view are different ones (a sufficient condition)."""
    reach = 0
    for stride, extent in sorted((abs(stride), extent) for extent, stride in axes):
        if stride <= reach:
            return False
        reach += stride * (extent - 1)
    return True


# --- steps -----------------------------------------------------------------------------------------------------------


def _scan_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    if gradients[0] is None:
        return None
    gradient, op = full(gradients[0], vertex.size), vertex.info.options[0]
    if op == _ADD:
        return _scanned(vertex, gradient)
    if op in (_MIN, _MAX):
        index, mask = _winners(vertex)
        return gather(gradient, index, mask)
    assert op == _MUL
    x, _, _, r = flow.kept(vertex)
    if x.kind == DUAL:  # for derivatives of higher order, as in `_factor`
        gradient = _chained(vertex, x, ops.mul(_before(vertex, x), gradient), vertex.info.options[2])
        return _neighbours(vertex, gradient, False) if vertex.info.options[1] else gradient
    is_zero, rest, one_zero = _zeros_of_scan(vertex, x)
    usual = ops.mul(r, _scanned(vertex, masked(is_zero, ops.div(gradient, x), inverted=True)))
    at_zero = ops.mul(rest, _scanned(vertex, masked(is_zero, gradient)))
    return ops.add(usual, masked(one_zero, at_zero))  # type: ignore[no-any-return]


def _scan_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    assert vertex.a is not None
    gradient, op = full(gradient, vertex.size), vertex.info.options[0]
    if op == _ADD:
        flow.give(vertex.a, _scanned(vertex, gradient, back=True), vertex.size, vertex.sparse)
        return
    if op in (_MIN, _MAX):
        flow.scatter(vertex.a, gradient, *_winners(vertex))
        return
    assert op == _MUL
    x, _, _, r = flow.kept(vertex)
    if x.kind == DUAL:  # for derivatives of higher order, as in `_factor`
        if vertex.info.options[1]:
            gradient = _neighbours(vertex, gradient, True)
        gradient = _chained(vertex, _neighbours(vertex, x, True), gradient, not vertex.info.options[2])
        flow.give(vertex.a, ops.mul(_before(vertex, x), gradient), vertex.size, True)
        return
    is_zero, rest, one_zero = _zeros_of_scan(vertex, x)
    usual = ops.div(_scanned(vertex, product(gradient, r, vertex.sparse), back=True), x)
    at_zero = _scanned(vertex, masked(one_zero, product(gradient, rest, vertex.sparse)), back=True)
    # of two zeros only the first is the only one of any prefix
    exclusive = vertex.info.options[1]
    before = _scanned(vertex, ops.select(is_zero, number(x, 1), number(x, 0)))
    first = ops.eq(before, number(x, 0 if exclusive else 1))
    flow.give(vertex.a, ops.select(is_zero, masked(first, at_zero), usual), vertex.size, True)


def _scanned(vertex: Vertex, node: Node, op: int = _ADD, *, back: bool = False) -> Node:
    """A scan like that of a vertex, by another operation, or in the other direction."""
    _, exclusive, reverse = vertex.info.options
    return _scan(node, (op, exclusive, 1 - reverse if back else reverse), vertex.info.extents)


def _scan(node: Node, options: tuple[int, int, int], extents: tuple[int, ...]) -> Node:
    """A running reduction. Options: operator, exclusive, reverse."""
    return step("scan", (node,), [(node.type, node.size)], options, extents)[0]


def _before(vertex: Vertex, x: Node) -> Node:
    """The product of what comes before each factor of a running product."""
    return _scan(x, (_MUL, 1, vertex.info.options[2]), vertex.info.extents)


def _chained(vertex: Vertex, factors: Node, values: Node, reverse: bool) -> Node:
    """The recurrence ``result[k] = values[k] + factors[k] * result[k - 1]`` along the axis of a scan.

    It is right beside any number of zeros and made of operations that have derivatives themselves, for derivatives of
    higher order; in as many rounds as the logarithm of the length.
    """
    _, length, _ = vertex.info.with_sizes(values.size)
    distance = 1
    while distance < length:
        values = ops.fma(factors, _shifted(vertex, values, distance, reverse), values)
        if 2 * distance < length:
            factors = ops.mul(factors, _shifted(vertex, factors, distance, reverse))
        distance *= 2
    return values


def _neighbours(vertex: Vertex, node: Node, behind: bool) -> Node:
    """The elements that a scan meets right before its elements, or right behind them; zero where there is none."""
    return _shifted(vertex, node, 1, bool(vertex.info.options[2]) != behind)


def _shifted(vertex: Vertex, node: Node, distance: int, reverse: bool) -> Node:
    """What stands at a distance before each element along the axis of a scan, or behind it; zero where nothing does."""
    _, length, stride = vertex.info.with_sizes(node.size)
    scalar = UINT32 if node.size < 1 << 31 else UINT64
    index, offset = counter(node.size, scalar, node.where), literal(scalar, distance * stride)
    place = ops.mod(ops.floordiv(index, literal(scalar, stride)), literal(scalar, length))
    if reverse:
        return gather(node, ops.add(index, offset), ops.lt(place, literal(scalar, length - distance)))
    return gather(node, ops.sub(index, offset), ops.ge(place, literal(scalar, distance)))


def _winners(vertex: Vertex) -> tuple[Node, Node]:
    """Where each running extremum comes from, the first one of equals, and where it is an element at all."""
    op, exclusive, reverse = vertex.info.options
    x, before = vertex.x, vertex.r
    assert x is not None and before is not None
    if not exclusive:
        before = step("scan", (x,), [(x.type, x.size)], (op, 1, reverse), vertex.info.extents)[0]
    wins = ops.gt(x, before) if op == _MAX else ops.lt(x, before)
    # Places are counted in the direction of the scan, from 1: the largest is the latest, and 0 is none.
    scalar = UINT32 if x.size < 1 << 32 else UINT64
    place, one, size = counter(x.size, scalar, x.where), literal(scalar, 1), literal(scalar, x.size)
    found = _scanned(vertex, masked(wins, ops.sub(size, place) if reverse else ops.add(place, one)), _MAX)
    return ops.sub(size, found) if reverse else ops.sub(found, one), ops.gt(found, literal(scalar, 0))


def _zeros_of_scan(vertex: Vertex, x: Node) -> tuple[Node, Node, Node]:
    """Where factors are zero; the running products of the others; and which products have a single zero."""
    zero, one = number(x, 0), number(x, 1)
    is_zero = ops.eq(x, zero)
    count = _scanned(vertex, ops.select(is_zero, one, zero))
    return is_zero, _scanned(vertex, ops.select(is_zero, one, x), _MUL), ops.eq(count, one)


def _order(vertex: Vertex) -> Node:
    """Where each element of a sorted array was."""
    x = vertex.x
    assert x is not None
    _, descending = vertex.info.options
    rows, length, _ = vertex.info.with_sizes(x.size)
    places = step("sort", (x,), [(UINT32, x.size)], (1, descending), vertex.info.extents)[0]
    if rows == 1:
        return places
    row = FORMULAS.floordiv(counter(x.size, UINT32, x.where), literal(UINT32, length))
    return ops.fma(row, literal(UINT32, length), places)  # type: ignore[no-any-return]


def _sort_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    gradient = gradients[0]
    if gradient is None or gradient.size == 1:
        return gradient
    return gather(gradient, _order(vertex), _true(), True)


def _sort_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    assert vertex.a is not None
    if gradient.size == 1:
        flow.give(vertex.a, gradient, vertex.size, vertex.sparse)
    else:
        flow.scatter(vertex.a, gradient, _order(vertex), _true(), _NO_CONFLICTS)


class _Product:
    """A product of matrices, as its step says it (see :data:`drjit_core.ops.steps.STEPS`)."""

    def __init__(self, vertex: Vertex) -> None:
        (self.rows, self.columns, self.length, self.first_base, self.second_base, row, column, row_2, column_2,
         *batch) = vertex.info.options
        self.first, self.second = (row, column), (row_2, column_2)
        self.batch = [tuple(batch[k:k + 3]) for k in range(0, len(batch), 3)]

    def batches(self) -> int:
        return math.prod(extent for extent, _, _ in self.batch)


def _multiply(a: Node, b: Node, size: int, type_: int, options: Sequence[int]) -> Node:
    return step("matmul", (a, b), [(type_, size)], tuple(options))[0]


def _matmul_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    x, y, _, _ = flow.kept(vertex)
    first, second, _ = gradients
    result, size, type_, options = None, vertex.size, vertex.type, vertex.info.options
    if first is not None and vertex.a is not None:
        result = _multiply(full(first, vertex.a.size), y, size, type_, options)
    if second is not None and vertex.b is not None:
        result = _added(result, _multiply(x, full(second, vertex.b.size), size, type_, options))
    return result


def _matmul_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    x, y, _, _ = flow.kept(vertex)
    p = _Product(vertex)
    gradient = full(gradient, vertex.size)
    size = p.rows * p.columns
    # the batch in the gradient, in C order
    own, following = [], p.batches() * size
    for extent, _, _ in p.batch:
        following //= extent
        own.append(following)
    if vertex.a is not None:  # gradient @ second.T
        batch = [number_ for (extent, _, other), distance in zip(p.batch, own, strict=True)
                 for number_ in (extent, distance, other)]
        part = _multiply(gradient, y, p.batches() * p.rows * p.length, vertex.type,
                         (p.rows, p.length, p.columns, 0, p.second_base, p.columns, 1, p.second[1], p.second[0],
                          *batch))
        axes = [(extent, stride) for extent, stride, _ in p.batch] + [(p.rows, p.first[0]), (p.length, p.first[1])]
        give_view(flow, vertex.a, part, part.size, p.first_base, [axis for axis in axes if axis[0] > 1], sparse=False)
    if vertex.b is not None:  # first.T @ gradient
        batch = [number_ for (extent, other, _), distance in zip(p.batch, own, strict=True)
                 for number_ in (extent, other, distance)]
        part = _multiply(x, gradient, p.batches() * p.length * p.columns, vertex.type,
                         (p.length, p.columns, p.rows, p.first_base, 0, p.first[1], p.first[0], p.columns, 1, *batch))
        axes = [(extent, stride) for extent, _, stride in p.batch] + [(p.length, p.second[0]),
                                                                     (p.columns, p.second[1])]
        give_view(flow, vertex.b, part, part.size, p.second_base, [axis for axis in axes if axis[0] > 1], sparse=False)


# --- what has more operands or results than a vertex -----------------------------------------------------------------


def _output_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    assert vertex.a is not None
    return vertex.a.info.sent.get(vertex.info)  # type: ignore[no-any-return]


def _output_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    assert vertex.a is not None
    vertex.a.info.received[vertex.info] = gradient
    vertex.a.sparse = vertex.a.sparse or vertex.sparse


def _join_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    first, second, third = gradients
    return _added(_added(first, second), third)


def _join_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    for operand in (vertex.a, vertex.b, vertex.c):
        flow.give(operand, gradient, vertex.size, vertex.sparse)


class Structure(NamedTuple):
    """The two directions of an operation."""

    forward: Callable[[Flow, Vertex, Gradients], Node | None]
    reverse: Callable[[Flow, Vertex, Node], None]


_reduction = Structure(_reduction_forward, _reduction_reverse)
_layouts = Structure(_layout_forward, _layout_reverse)
#: By the names of the rules in :data:`drjit_core.ir.dual.STRUCTURE`.
STRUCTURE: dict[str, Structure] = {
    "identity": Structure(_identity_forward, _identity_reverse), "cast": Structure(_cast_forward, _cast_reverse),
    "gather": Structure(_gather_forward, _gather_reverse), "scatter": Structure(_scatter_forward, _scatter_reverse),
    "accumulate": Structure(_accumulate_forward, _accumulate_reverse),
    "reduce": _reduction, "segment": _reduction,
    "access": _layouts, "view": _layouts, "transpose": _layouts,
    "scan": Structure(_scan_forward, _scan_reverse), "sort": Structure(_sort_forward, _sort_reverse),
    "matmul": Structure(_matmul_forward, _matmul_reverse), "output": Structure(_output_forward, _output_reverse),
    "join": Structure(_join_forward, _join_reverse),
}
