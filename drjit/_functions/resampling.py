"""Resampling and convolution along axes: weighted sums of neighbours.

An axis is a step of its own. The host computes the weights of the outputs along it, once, in double precision; they are
a table in memory, from which a kernel takes them. Away from the ends they repeat: of a long axis, the table holds the
first outputs, one period, and the last ones. Few taps are unrolled, many are a loop in the kernel.

Where there is much to do, the kernel goes over rows, along which weights and positions are views of the table. The
derivative of such sums is the sum with the transposed table: what each input is part of.

A convolution has the same weights everywhere: they are parameters of the kernel, and the table is that of the factors
which make their sum one at the ends. A large one of few taps is a sum of views, shifted against each other, of a copy
that goes on beyond the ends.

Resampling is that of Pillow's ``Image.resize`` (separable, with the support of the filter widened when there are fewer
outputs than inputs); conditions at the boundary are named as in SciPy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import COMPUTES_IN, SHAPE, Flow, Node, cast, counter, import_copy, literal, ops

from .._access.slicing import TRUE, Access, normalise_axes, positions, strided
from .._arrays.broadcasting import make
from .._base.arguments import require_mode
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.nodes import broadcast, index_type
from .._base.types import INT32, INT64, UINT64
from .._base.typing import ArrayT
from .._base.values import is_ndarray, parse_shape, plain_scalar
from .._promotion.promote import wrap
from .structure import Structure

__all__ = ["convolve", "resample"]

#: Up to this number of taps, a sum is unrolled; beyond, it is a loop.
_UNROLLED = 32
#: Sums of up to this number of taps read views of a padded copy, if there is so much to do, and rows are so long.
_LEAST_TAPS, _SHIFTED, _LARGE, _SHORT = 4, 64, 1 << 22, 16
#: Longer axes have a table of one period, if that saves at least half of it.
_LONG = 1024
#: So much is resampled by rows; with the whole table of a long axis, if so many rows share it.
_MANY, _SEVERAL = 1 << 15, 8
_TAG = 48

Filter = Callable[[float], float]
_Linear = Callable[[Node], Node]


# --- filters ---------------------------------------------------------------------------------------------------------


def _sinc(x: float) -> float:
    return math.sin(math.pi * x) / (math.pi * x) if x else 1.0


def _box(x: float) -> float:
    return 1.0 if -0.5 < x <= 0.5 else 0.0


def _linear(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _hamming(x: float) -> float:
    return _sinc(x) * (0.54 + 0.46 * math.cos(math.pi * x)) if abs(x) < 1 else 0.0


def _cubic(x: float) -> float:
    """Keys' kernel with a = -1/2 (Cubic convolution interpolation for digital image processing, 1981)."""
    x = abs(x)
    return (1.5 * x - 2.5) * x * x + 1 if x < 1 else ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0


def _lanczos(x: float) -> float:
    return _sinc(x) * _sinc(x / 3) if -3 <= x < 3 else 0.0


def _gaussian(x: float) -> float:
    """Standard deviation 1/2, lowered so that it is zero where it is cut off, at four standard deviations."""
    return math.exp(-2 * x * x) - math.exp(-8) if abs(x) < 2 else 0.0


#: The filters by name, with their radii.
_FILTERS: dict[str, tuple[Filter, float]] = {
    "box": (_box, 0.5), "linear": (_linear, 1.0), "hamming": (_hamming, 1.0), "cubic": (_cubic, 2.0),
    "lanczos": (_lanczos, 3.0), "gaussian": (_gaussian, 2.0)}


def _folded(index: Any, size: int, boundary: str) -> Any:
    """Positions beyond the ends of an axis as positions within."""
    import numpy

    if boundary == "nearest":
        return numpy.clip(index, 0, size - 1)
    if boundary == "wrap":
        return index % size
    if boundary == "reflect":  # d c b a | a b c d | d c b a
        index = index % (2 * size)
        return numpy.where(index < size, index, 2 * size - 1 - index)
    if size == 1:
        return index * 0
    index = index % (2 * size - 2)  # mirror: d c b | a b c d | c b a
    return numpy.where(index < size, index, 2 * size - 2 - index)


_BOUNDARIES = ("zero", "nearest", "wrap", "reflect", "mirror")


class _Table(NamedTuple):
    """Weights of the outputs along an axis, and the positions of their inputs."""

    rows: int  # number of outputs that the table is for
    edge: int  # those at either end with rows of their own, if the table is periodic; else 0
    period: int  # outputs, after which weights repeat
    step: int  # inputs, by which positions advance in a period
    taps: int
    weights: Any  # (taps, rows)
    index: Any  # (taps, rows), or (rows,): the first ones


class _Axis(NamedTuple):
    """What the table of an axis follows from."""

    inputs: int
    outputs: int
    filter: Filter
    radius: float  # of the support, in units of the argument of the filter
    scale: float  # units of that argument per input
    boundary: str
    normalize: bool
    flip: bool  # whether the argument is the position of the output less that of the input
    discrete: tuple[float, ...] = ()  # the weights of a kernel, in place of a filter


def _values(function: str, axis: _Axis, argument: Any) -> Any:
    """The values of the filter, from as few calls as there are different arguments."""
    import numpy

    distinct, inverse = numpy.unique(0.0 - argument if axis.flip else argument, return_inverse=True)
    found = numpy.empty(distinct.size)
    for k, x in enumerate(distinct.tolist()):
        value = plain_scalar(axis.filter(x))
        if value is None:
            raise TypeError(f"{function}(): 'filter' must return a number, found {describe(axis.filter(x))} for the "
                            f"argument {x}.")
        found[k] = value
    return found[inverse.reshape(-1)]


def _require_sums(function: str, total: Any) -> None:
    if not (total != 0).all():
        raise ArgumentError(f"{function}(): the filter footprint is too small: the weights of some outputs sum to "
                            "zero.")


def _table(function: str, axis: _Axis) -> _Table:
    """The table of an axis along which is resampled."""
    import numpy

    common = math.gcd(axis.inputs, axis.outputs)
    period, step = axis.outputs // common, axis.inputs // common
    ratio, support = axis.inputs / axis.outputs, axis.radius / axis.scale
    edge = period * (math.ceil((support + 2) / step) + 1)
    if axis.outputs < max(_LONG, 2 * (2 * edge + period)):
        edge = 0
        outputs = numpy.arange(axis.outputs)
    else:
        outputs = numpy.concatenate([numpy.arange(edge + period), numpy.arange(axis.outputs - edge, axis.outputs)])
    center = (outputs + 0.5) * ratio
    first = numpy.floor(center - support + 0.5).astype(numpy.int64)
    last = numpy.floor(center + support + 0.5).astype(numpy.int64)
    if axis.boundary == "zero":
        first, last = numpy.maximum(first, 0), numpy.minimum(last, axis.inputs)
    taps = max(1, int((last - first).max()))
    index = first + numpy.arange(taps)[:, None]
    counts = index < last
    argument = ((index + 0.5 - center) * axis.scale)[counts]
    weights = numpy.zeros(index.shape)
    weights[counts] = _values(function, axis, argument)
    total = weights.sum(axis=0)
    _require_sums(function, total)
    weights /= total
    if axis.boundary != "zero":
        return _Table(outputs.size, edge, period, step, taps, weights, _folded(index, axis.inputs, axis.boundary))
    return _Table(outputs.size, edge, period, step, taps, *_within(first, weights, axis.inputs))


def _within(first: Any, weights: Any, size: int) -> tuple[Any, Any]:
    """Weights, and first positions, of windows of one length that lie within an axis: what goes beyond the support has
    the weight 0."""
    import numpy

    taps = len(weights)
    moved = numpy.minimum(first, max(0, size - taps))
    shift = first - moved
    if shift.any():
        source = numpy.arange(taps)[:, None] - shift
        weights = numpy.where(source >= 0, numpy.take_along_axis(weights, numpy.maximum(source, 0), axis=0), 0.0)
    return weights, moved


class _Sums(NamedTuple):
    """Weighted sums along an axis, with a row of the table for each output."""

    inputs: int
    weights: Any  # (taps, outputs)
    index: Any  # (taps, outputs), or (outputs,): the first ones

    def transposed(self) -> _Sums | None:
        """For each input, the sum of what it is part of; ``None`` if that is much more for some than for others."""
        import numpy

        taps, outputs = self.weights.shape
        index = self.index if self.index.ndim == 2 else self.index + numpy.arange(taps)[:, None]
        used = self.weights.T != 0  # in the order of the outputs
        inputs, weights = index.T[used], self.weights.T[used]
        order = numpy.argsort(inputs, kind="stable")
        inputs, weights = inputs[order], weights[order]
        places = numpy.nonzero(used)[0][order]
        counts = numpy.bincount(inputs, minlength=self.inputs)
        most = max(1, int(counts.max()))
        if most > _UNROLLED and most > 2 * inputs.size / self.inputs + 8:
            return None
        begins = numpy.cumsum(counts) - counts
        slots = numpy.arange(inputs.size) - begins[inputs]
        table = numpy.zeros((most, self.inputs))
        table[slots, inputs] = weights
        found = numpy.zeros((most, self.inputs), dtype=numpy.int64)
        found[slots, inputs] = places
        if outputs >= most and (places == found[0][inputs] + slots).all():
            return _Sums(outputs, *_within(found[0], table, outputs))
        return _Sums(outputs, table, found)


def _sums(axis: _Axis, table: _Table) -> _Sums:
    """The table of an axis with all its rows."""
    import numpy

    if not table.edge:
        return _Sums(axis.inputs, table.weights, table.index)
    outputs = numpy.arange(axis.outputs)
    number = outputs // table.period
    within = (outputs >= table.edge) & (outputs < axis.outputs - table.edge)
    row = numpy.where(within, table.edge + outputs - number * table.period,
                      numpy.where(outputs < table.edge, outputs, outputs - (axis.outputs - table.rows)))
    shift = numpy.where(within, (number - table.edge // table.period) * table.step, 0)
    return _Sums(axis.inputs, table.weights[:, row], table.index[..., row] + shift)


class _Kernel(NamedTuple):
    """Weights that are the same for all outputs, and what they are multiplied by for each."""

    reach: int  # of the first tap, before the output
    weights: list[float]
    factors: Any  # of the first outputs, of those between, and of the last ones; None if they are one
    edge: int  # number of the first and of the last outputs; 0 if each output has a factor of its own


def _kernel(function: str, axis: _Axis) -> _Kernel:
    """The weights along an axis on which is convolved."""
    import numpy

    size, support = axis.inputs, math.floor(axis.radius / axis.scale)
    reach = max(size - 1, 0) if axis.boundary == "zero" else math.inf  # beyond, a filter meets zeros only
    if axis.discrete:
        taps = len(axis.discrete)
        offsets = numpy.arange(-(taps // 2), taps - taps // 2)
        weights = numpy.array(axis.discrete[::-1])[abs(offsets) <= reach]
        offsets = offsets[abs(offsets) <= reach]
        support = int(abs(offsets).max(initial=0))
    else:
        support = int(min(support, reach))
        offsets = numpy.arange(-support, support + 1)
        weights = _values(function, axis, offsets * axis.scale)
    used = numpy.flatnonzero(weights)
    if used.size:
        offsets, weights = offsets[used[0]:used[-1] + 1], weights[used[0]:used[-1] + 1]
    factors, edge = None, 0
    if axis.normalize and axis.boundary != "zero":
        _require_sums(function, weights.sum())
        weights = weights / weights.sum()
    elif axis.normalize:
        edge = support + 1 if size > max(_LONG, 4 * support + 4) else 0
        outputs = numpy.arange(size) if not edge else numpy.concatenate(
            [numpy.arange(edge + 1), numpy.arange(size - edge, size)])
        before = numpy.concatenate([[0.0], numpy.cumsum(weights)])
        low, high = (numpy.clip(bound - outputs - offsets[0], 0, weights.size) for bound in (0, size))
        total = before[high] - before[low]
        _require_sums(function, numpy.where(abs(total) < 1e-12 * abs(weights).sum(), 0, total))
        factors = 1 / total
    return _Kernel(-int(offsets[0]), weights.tolist(), factors, edge)


_known_table = functools.lru_cache(maxsize=32)(_table)
_known_kernel = functools.lru_cache(maxsize=32)(_kernel)


# --- tracing ---------------------------------------------------------------------------------------------------------


def _memory(values: Any, type_: int) -> Node:
    """A table in memory."""
    import numpy

    flat = numpy.ascontiguousarray(values.reshape(-1), dtype=core.TYPES[type_].name)
    return import_copy(type_, flat, 0) if flat.size > 1 else literal(type_, flat.item(), 1, SHAPE, tag=_TAG + 8)


def _filtered(node: Node, outer: int, inner: int, axis: _Axis, table: _Table, looped: bool) -> Node:
    """The sums along the middle axis of three."""
    state = core.state
    if table.taps <= _SHIFTED and outer * axis.outputs * inner * table.taps >= _MANY and \
            axis.outputs * inner >= _SHORT and (not table.edge or outer * inner >= _SEVERAL) and \
            state.region is None and state.recording is None and not node.scope and not looped:
        sums = _sums(axis, table)
        back = None if core.tracked(node) is None else sums.transposed()
        if back is not None:
            return _Weighted.of(node, functools.partial(_by_rows, outer, inner, sums),
                                functools.partial(_by_rows, outer, inner, back))
        if core.tracked(node) is None:
            return _by_rows(outer, inner, sums, node)
    return _by_index(node, outer, inner, axis, table, looped)


def _by_rows(outer: int, inner: int, sums: _Sums, node: Node) -> Node:
    """The sums along the middle axis of three, as rows that differ in weights and in where their inputs begin."""
    import numpy

    taps, outputs = sums.weights.shape
    # short rows of what lies behind the axis are part of it
    unit, behind = (inner, 1) if inner < _SHORT else (1, inner)
    sizes, count = (outer, outputs * unit, behind), outer * outputs * inner
    scalar = index_type(max(count, node.size))
    bits = 64 if scalar == UINT64 else 32

    def parameter(value: int, tag: int) -> Node:
        return literal(scalar, value % (1 << bits), 1, SHAPE, tag=_TAG + tag)

    def table(values: Any, type_: int) -> Node:
        return _memory(numpy.repeat(values, unit, axis=-1) if unit > 1 else values, type_)

    def along(values: Node, tap: int) -> Node:
        return strided(values, sizes, (0, 1, 0), tap * outputs * unit) if values.size > 1 else values

    weights, windows = table(sums.weights, node.type), sums.index.ndim == 1
    distances = table(((sums.index - numpy.arange(outputs)) * inner) % (1 << bits), scalar)
    start = counter(count, scalar)
    if outer > 1 and sums.inputs != outputs:
        moved = ops.mul(counter(outer, scalar), parameter((sums.inputs - outputs) * inner, 2))
        start = ops.add(start, strided(moved, sizes, (1, 0, 0)))
    if windows:
        start = ops.add(start, along(distances, 0))
    skips, none = bool((sums.weights == 0).any()), literal(node.type, 0)
    total: Node | None = None
    for tap in range(taps):
        place = ops.add(start, parameter(tap * inner, 20 + tap) if windows else along(distances, tap))
        weight, value = along(weights, tap), core.gather(node, place, TRUE, harmless=True)
        if skips:  # so that infinities outside of the support do not enter
            value = ops.select(ops.neq(weight, none), value, none)
        total = ops.mul(weight, value) if total is None else ops.fma(weight, value, total)
    assert total is not None
    return total


class _Weighted(Structure):
    """Weighted sums of an array: what computes them, and what computes their derivative, which is linear as well."""

    name = label = "weighted sum"

    def __init__(self, node: Node, apply: _Linear, transposed: _Linear) -> None:
        super().__init__([node])
        self.operands = []  # nothing depends on their values
        self.apply, self.transposed = apply, transposed

    @classmethod
    def of(cls, node: Node, apply: _Linear, transposed: _Linear) -> Node:
        """The sums of an array, and the vertex of those of one that tracks derivatives."""
        found = apply(core.primal(node))
        if core.tracked(node) is None:
            return found
        (result,) = cls(node, apply, transposed).attached([found])
        return result

    def _again(self, flow: Flow, node: Node, size: int, apply: _Linear, transposed: _Linear) -> Node:
        node = broadcast(node, size)
        return self.of(node if flow.again else core.primal(node), apply, transposed)

    def forward(self, flow: Flow) -> None:
        """Let changes flow to the sums."""
        change = flow.change(self.inputs[0])
        if change is not None:
            self.sent[0] = self._again(flow, change, self.inputs[0].size, self.apply, self.transposed)

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow to the inputs."""
        (vertex,), (_, width) = self.inputs, self.outputs[0]
        if not flow.takes(vertex):
            return
        gradient = self.received[0]
        if flow.crosses and flow.part is not None and vertex.id <= flow.limit:  # samples without a part are not summed
            gradient = ops.select(flow.part(width), gradient, literal(gradient.type, 0))
        flow.bring(vertex, self._again(flow, gradient, width, self.transposed, self.apply), vertex.size)


def _by_index(node: Node, outer: int, inner: int, axis: _Axis, table: _Table, looped: bool) -> Node:
    """The sums along the middle axis of three, from elements and weights that are read by index."""
    sizes = (outer, axis.outputs, inner)
    count = math.prod(sizes)
    scalar = index_type(max(count, node.size, table.taps * table.rows))

    def parameter(value: int, tag: int) -> Node:
        return literal(scalar, value % (1 << (64 if scalar == UINT64 else 32)), 1, SHAPE, tag=_TAG + tag)

    output = cast(positions(Access(0, sizes, (0, 1, 0)), axis.outputs), scalar)
    row, shift = output, None
    if table.edge:
        edge, period = parameter(table.edge, 0), parameter(table.period, 1)
        end = parameter(axis.outputs - table.edge, 2)
        number = core.floordiv(output, period)
        within = ops.and_(ops.ge(output, edge), ops.lt(output, end))
        row = ops.select(within, ops.add(edge, ops.sub(output, ops.mul(number, period))),
                         ops.select(ops.lt(output, edge), output,
                                    ops.sub(output, parameter(axis.outputs - table.rows, 3))))
        shift = ops.select(within, ops.mul(ops.sub(number, parameter(table.edge // table.period, 4)),
                                           parameter(table.step, 5)), literal(scalar, 0))
    base: Node | None = None
    if outer > 1 or inner > 1:
        base = cast(positions(Access(0, sizes, (axis.inputs * inner, 0, 1)), node.size), scalar)
    weights = _memory(table.weights, node.type)
    index = _memory(table.index, scalar)
    windows = table.index.ndim == 1
    first = core.gather(index, row, TRUE, harmless=True) if windows else None
    if first is not None and shift is not None:
        first = ops.add(first, shift)
    skips = bool((table.weights == 0).any())
    stride, rows = parameter(inner, 6), parameter(table.rows, 7)

    def weighted(tap: Node, entry: Node, total: Node | None) -> Node:
        """One more tap; ``entry`` is its place in the table."""
        if first is not None:
            place = ops.add(first, tap)
        else:
            place = core.gather(index, entry, TRUE, harmless=True)
            place = place if shift is None else ops.add(place, shift)
        if inner > 1:
            place = ops.mul(place, stride)
        if base is not None:
            place = ops.add(place, base)
        weight = core.gather(weights, entry, TRUE, harmless=True)
        value = core.gather(node, place, TRUE, harmless=True)
        if skips:  # so that infinities outside of the support do not enter
            value = ops.select(ops.neq(weight, literal(node.type, 0)), value, literal(node.type, 0))
        return ops.mul(weight, value) if total is None else ops.fma(weight, value, total)  # type: ignore[no-any-return]

    if table.taps <= _UNROLLED and not looped:
        total, entry = None, row
        for tap in range(table.taps):
            total = weighted(literal(scalar, tap), entry, total)
            entry = ops.add(entry, rows)
        assert total is not None
        return total
    one, limit = literal(scalar, 1), parameter(table.taps, 9)
    return _loop(
        [literal(scalar, 0, count), row, literal(node.type, 0, count)], limit,
        lambda state: [ops.add(state[0], one), ops.add(state[1], rows), weighted(state[0], state[1], state[2])],
        table.taps, node)[2]


def _loop(initial: list[Node], limit: Node, step: Callable[[list[Node]], list[Node]], taps: int,
          source: Node) -> list[Node]:
    """A loop over taps, whose number the first variable counts up to a limit; with derivatives by what it reads."""
    def more(state: list[Node]) -> Node:
        return ops.lt(state[0], limit)  # type: ignore[no-any-return]

    if core.tracked(source) is None:
        return core.while_loop(initial, more, step, trips=taps)
    return core.repeat(initial, more, step, None, lambda position: f"variable {position}", len(initial), taps,
                       lambda number, others: taps)


class _Ends:
    """The inputs that outputs along an axis read, at its ends by the condition at the boundary."""

    def __init__(self, axis: _Axis, kernel: _Kernel, scalar: int) -> None:
        self.axis, self.scalar, self.reach, self.taps = axis, scalar, kernel.reach, len(kernel.weights)
        self.bits = 64 if scalar == UINT64 else 32
        self.signed = INT64 if self.bits == 64 else INT32
        #: Whether what lies beyond an end is found by one reflection.
        self.reflects_once = max(self.reach, self.taps - self.reach) < axis.inputs

    def parameter(self, value: int, tag: int, of: int | None = None) -> Node:
        """A number that follows from sizes; negative ones wrap around."""
        of = self.scalar if of is None else of
        return literal(of, value if of == self.signed else value % (1 << self.bits), 1, SHAPE, tag=_TAG + tag)

    def folded(self, table: Any) -> Node:
        """Positions beyond the ends as positions within, in memory."""
        return _memory(_folded(table, self.axis.inputs, self.axis.boundary), self.scalar)

    def input(self, place: Node) -> tuple[Node, Node]:
        """The position within that a position along the axis stands for, and whether there is one.

        Unless the axis reflects more than once.
        """
        size, boundary = self.axis.inputs, self.axis.boundary
        if boundary == "zero":
            return place, ops.lt(place, self.parameter(size, 10))
        zero, end = literal(self.signed, 0), self.parameter(size - 1, 11, self.signed)
        at = cast(place, self.signed)
        before, after = ops.lt(at, zero), ops.gt(at, end)
        if boundary == "nearest":
            at = ops.select(before, zero, ops.select(after, end, at))
        elif boundary == "wrap":
            length = self.parameter(size, 14, self.signed)
            at = ops.select(before, ops.add(at, length), ops.select(after, ops.sub(at, length), at))
        else:  # the sum of a place and its mirror image
            low, high = (-1, 2 * size - 1) if boundary == "reflect" else (0, 2 * size - 2)
            at = ops.select(before, ops.sub(self.parameter(low, 15, self.signed), at),
                            ops.select(after, ops.sub(self.parameter(high, 16, self.signed), at), at))
        return cast(at, self.scalar), TRUE


def _weight(type_: int, weight: float, tap: int) -> Node:
    return literal(type_, weight, 1, SHAPE, tag=_TAG + 20 + tap)


def _factors(ends: _Ends, kernel: _Kernel, type_: int, output: Node) -> Node:
    """What the sums of some outputs along an axis are multiplied by."""
    row = output
    if kernel.edge:
        size = ends.axis.inputs
        row = ops.select(ops.lt(output, ends.parameter(size - kernel.edge, 2)),
                         ops.minimum(output, ends.parameter(kernel.edge, 0)),
                         ops.sub(output, ends.parameter(size - 2 * kernel.edge - 1, 3)))
    return core.gather(_memory(kernel.factors, type_), row, TRUE, harmless=True)


def _leaves_out(axis: _Axis, kernel: _Kernel) -> bool:
    """Whether the product of a weight and what lies beyond an end, where nothing is, would not be zero."""
    return axis.boundary == "zero" and not all(map(math.isfinite, kernel.weights))


def _convolved(node: Node, outer: int, inner: int, axis: _Axis, kernel: _Kernel, looped: bool) -> Node:
    """The convolution along the middle axis of three."""
    taps = len(kernel.weights)
    state = core.state
    plain = state.region is None and state.recording is None and not node.scope and not looped
    if _LEAST_TAPS <= taps <= _SHIFTED and node.size * taps >= _LARGE and axis.inputs * inner >= _SHORT and plain \
            and not _leaves_out(axis, kernel):
        along: _Linear = functools.partial(_shifted, outer, inner, axis, kernel)
    else:
        along = functools.partial(_gathered, outer, inner, axis, kernel, looped)
    if core.tracked(node) is not None and plain and taps and node.size * taps >= _MANY:
        if axis.boundary in ("zero", "wrap"):
            return _Weighted.of(node, along, functools.partial(_correlated, outer, inner, axis, kernel))
        if outer * inner >= _SEVERAL:
            back = _kernel_sums(axis, kernel).transposed()
            if back is not None:
                return _Weighted.of(node, along, functools.partial(_by_rows, outer, inner, back))
    return along(node)


def _correlated(outer: int, inner: int, axis: _Axis, kernel: _Kernel, node: Node) -> Node:
    """What the convolution along the middle axis of three is the transposed operation of, where elements beyond the
    ends are none or those at the other end: that by the reversed kernel."""
    taps = len(kernel.weights)
    if kernel.factors is not None:
        scalar = index_type(node.size)
        output = cast(positions(Access(0, (outer, axis.inputs, inner), (0, 1, 0)), axis.inputs), scalar)
        node = ops.mul(node, _factors(_Ends(axis, kernel, scalar), kernel, node.type, output))
    reverse = _Kernel(taps - 1 - kernel.reach, kernel.weights[::-1], None, 0)
    return _convolved(node, outer, inner, axis, reverse, False)


def _kernel_sums(axis: _Axis, kernel: _Kernel) -> _Sums:
    """The sums of a convolution as a table with a row for each output."""
    import numpy

    size, taps = axis.inputs, len(kernel.weights)
    index = numpy.arange(size) + numpy.arange(taps)[:, None] - kernel.reach
    weights = numpy.broadcast_to(numpy.array(kernel.weights)[:, None], index.shape)
    return _Sums(size, weights, _folded(index, size, axis.boundary))


def _shifted(outer: int, inner: int, axis: _Axis, kernel: _Kernel, node: Node) -> Node:
    """The convolution as a sum of views of a copy that goes on beyond the ends."""
    size, taps, type_ = axis.inputs, len(kernel.weights), node.type
    extent = size + taps - 1
    scalar = index_type(outer * extent * inner)
    ends = _Ends(axis, kernel, scalar)
    # short rows of what lies behind the axis are part of it
    unit, behind = (inner, 1) if inner < _SHORT else (1, inner)

    def along(count: int, elements: int) -> Node:
        """Positions along the axis, as many times each as are part of it."""
        number = counter(max(count * unit, elements), scalar)
        return core.floordiv(number, ends.parameter(unit, 6)) if unit > 1 else number

    def repeated(values: Node, count: int) -> Node:
        """What differs along the axis only, for each element."""
        sizes, strides = [count * unit], [1]
        if outer > 1:
            sizes, strides = [outer, *sizes], [0, *strides]
        if behind > 1:
            sizes, strides = [*sizes, behind], [*strides, 0]
        return strided(values, sizes, strides)

    # where an element of the copy comes from: as many elements away as its row has moved, and as the element in the row
    table = along(extent, outer)
    if ends.reflects_once or axis.boundary == "zero":
        place, exists = ends.input(ops.sub(table, ends.parameter(kernel.reach, 12)))
    else:
        import numpy

        known = ends.folded(numpy.arange(extent) - kernel.reach)
        place, exists = core.gather(known, table, ops.lt(table, ends.parameter(extent, 17)), harmless=True), TRUE
    distance = repeated(ops.mul(ops.sub(place, table), ends.parameter(inner, 18)), extent)
    if exists is not TRUE:
        exists = repeated(exists, extent)
    source = ops.add(counter(outer * extent * inner, scalar), distance)
    if outer > 1:
        moved = ops.mul(counter(table.size, scalar), ends.parameter((size - extent) * inner, 19))
        source = ops.add(source, strided(moved, (outer, extent * inner), (1, 0)))
    padded = core.gather(node, source, exists, harmless=True)

    total: Node | None = None
    for k, weight in enumerate(kernel.weights):
        if weight:
            tap = strided(padded, (outer, size * inner), (extent * inner, 1), k * inner)
            factor = _weight(type_, weight, k)
            total = ops.mul(factor, tap) if total is None else ops.fma(factor, tap, total)
    assert total is not None
    if kernel.factors is None:
        return total
    return ops.mul(total, repeated(_factors(ends, kernel, type_, along(size, 0)), size))  # type: ignore[no-any-return]


def _gathered(outer: int, inner: int, axis: _Axis, kernel: _Kernel, looped: bool, node: Node) -> Node:
    """The convolution as a sum of elements that are read by index."""
    size = axis.inputs
    sizes, taps, type_ = (outer, size, inner), len(kernel.weights), node.type
    scalar = index_type(max(node.size, size + 2 * taps))
    ends = _Ends(axis, kernel, scalar)
    output = cast(positions(Access(0, sizes, (0, 1, 0)), size), scalar)
    base: Node | None = None
    if outer > 1 or inner > 1:
        base = cast(positions(Access(0, sizes, (size * inner, 0, 1)), node.size), scalar)
    stride = ends.parameter(inner, 6)
    folded: Node | None = None
    if axis.boundary != "zero" and not ends.reflects_once:
        import numpy

        folded = ends.folded(numpy.arange(size)[:, None] + numpy.arange(taps) - kernel.reach)

    leaves_out = _leaves_out(axis, kernel)

    def factors(tap: Node, weight: Node) -> tuple[Node, Node]:
        """The weight of a tap, and what it reads."""
        mask = TRUE
        if folded is not None:
            place = core.gather(folded, ops.add(ops.mul(output, ends.parameter(taps, 13)), tap), TRUE, harmless=True)
        else:
            place, mask = ends.input(ops.sub(ops.add(output, tap), ends.parameter(kernel.reach, 12)))
        if inner > 1:
            place = ops.mul(place, stride)
        if leaves_out:
            weight = ops.select(mask, weight, literal(type_, 0))
        return weight, core.gather(node, place if base is None else ops.add(place, base), mask, harmless=True)

    if taps <= _UNROLLED and not (looped and taps):
        total: Node | None = None
        for k, weight in enumerate(kernel.weights):
            if weight:
                factor, found = factors(literal(scalar, k), _weight(type_, weight, k))
                total = ops.mul(factor, found) if total is None else ops.fma(factor, found, total)
        if total is None:
            total = literal(type_, 0, node.size)
    else:
        import numpy

        one, limit = literal(scalar, 1), ends.parameter(taps, 9)
        weights = _memory(numpy.array(kernel.weights), type_)

        def step(state: list[Node]) -> list[Node]:
            weight, found = factors(state[0], core.gather(weights, state[0], TRUE, harmless=True))
            none = literal(type_, 0)
            return [ops.add(state[0], one), ops.fma(weight, ops.select(ops.neq(weight, none), found, none), state[1])]

        total = _loop([literal(scalar, 0, node.size), literal(type_, 0, node.size)], limit, step, taps, node)[1]
    if kernel.factors is None:
        return total
    return ops.mul(total, _factors(ends, kernel, type_, output))  # type: ignore[no-any-return]


def _convolved_scalars(nodes: list[Node], axis: _Axis, kernel: _Kernel) -> list[Node]:
    """The convolution of an array of the scalar backend."""
    size, type_ = axis.inputs, nodes[0].type
    result = []
    for output in range(size):
        total = literal(type_, 0)
        for k, weight in enumerate(kernel.weights):
            place = output + k - kernel.reach
            if axis.boundary != "zero":
                place = int(_folded(place, size, axis.boundary))
            if weight and 0 <= place < size:
                total = ops.fma(literal(type_, weight), nodes[place], total)
        if kernel.factors is not None:
            row = output if not kernel.edge else min(output, kernel.edge) if output < size - kernel.edge else \
                output - size + len(kernel.factors)
            total = ops.mul(total, literal(type_, float(kernel.factors[row])))
        result.append(total)
    return result


def _filtered_scalars(nodes: list[Node], axis: _Axis, table: _Table) -> list[Node]:
    """The sums of an array of the scalar backend."""
    result = []
    for output in range(axis.outputs):
        row, shift = output, 0
        if table.edge and output >= table.edge:
            if output < axis.outputs - table.edge:
                row = table.edge + output % table.period
                shift = (output // table.period - table.edge // table.period) * table.step
            else:
                row = output - (axis.outputs - table.rows)
        total = literal(nodes[0].type, 0)
        for tap in range(table.taps):
            place = table.index[row] + tap if table.index.ndim == 1 else table.index[tap, row]
            if table.weights[tap, row]:
                total = ops.fma(literal(nodes[0].type, float(table.weights[tap, row])), nodes[int(place) + shift],
                                total)
        result.append(total)
    return result


def _apply(function: str, source: Any, axes: Sequence[tuple[int, _Axis]], cached: bool, convolves: bool,
           mode: str | None) -> Any:
    """Filter an array along some axes, one after the other; weights of named filters are remembered."""
    type_ = source._type
    single = COMPUTES_IN[type_]
    prepare: Any = (_known_kernel if cached else _kernel) if convolves else _known_table if cached else _table
    along: Any = _convolved if convolves else _filtered
    along_scalars: Any = _convolved_scalars if convolves else _filtered_scalars
    tables = [(number, axis, prepare(function, axis)) for number, axis in axes if axis.inputs and axis.outputs]
    try:
        if not source._dynamic:
            nodes = [cast(node, single) for node in source._nodes()]
            for _, axis, table in tables:
                nodes = along_scalars(nodes, axis, table)
            return wrap(type(source), [cast(node, type_) for node in nodes])
        shape, node = list(source.shape), cast(source._n, single)
        for number, axis, table in tables:
            outer, inner = math.prod(shape[:number]), math.prod(shape[number + 1:])
            if outer * inner:
                node = along(node, outer, inner, axis, table, mode == "symbolic")
            shape[number] = axis.outputs
        for number, axis in axes:
            shape[number] = axis.outputs
        node = cast(node, type_) if math.prod(shape) else core.nothing_of(cast(node, type_))
        if mode == "evaluated":
            core.evaluate([node])
    except CORE_ERRORS as error:
        raise translate(error, function) from None
    return make(type(source), node, tuple(shape)) if source._depth < 0 else wrap(type(source), [node])


# --- public functions ------------------------------------------------------------------------------------------------


def _require_source(function: str, source: Any) -> None:
    if not isinstance(source, ArrayBase) or source._kind != "f" or source._special not in ("", "tensor") or \
            source._depth > 0 and source._record.shape != (-1,) or source._depth > 0 and source._dynamic:
        raise TypeError(f"{function}(): 'source' must be a tensor or an array of one dimension with floating-point "
                        f"elements, found {describe(source)}.")


def _choose_filter(function: str, chosen: Any) -> tuple[Filter, float | None]:
    """The filter and its radius, which is None of those that the caller wrote."""
    if isinstance(chosen, str):
        if chosen not in _FILTERS:
            raise ArgumentError(f"{function}(): 'filter' must be one of {', '.join(map(repr, _FILTERS))}, or a "
                                f"function, found {chosen!r}.")
        return _FILTERS[chosen]
    if not callable(chosen):
        raise TypeError(f"{function}(): 'filter' must be the name of a filter or a function, found {describe(chosen)}.")
    return chosen, None


def _require_radius(function: str, radius: Any) -> float:
    number = plain_scalar(radius)
    if number is None or not 0 < number < math.inf:
        raise ArgumentError(f"{function}(): 'filter_radius' must be a positive number, found {radius!r}.")
    return float(number)


def _require_boundary(function: str, boundary: Any) -> None:
    if boundary not in _BOUNDARIES:
        raise ArgumentError(f"{function}(): 'boundary' must be one of {', '.join(map(repr, _BOUNDARIES))}, found "
                            f"{boundary!r}.")


def resample(source: ArrayT, shape: Sequence[int], filter: str | Callable[[float], float] = "cubic",
             filter_radius: float | None = None, boundary: str = "zero", mode: str | None = None) -> ArrayT:
    """A tensor or flat array with another resolution: more or fewer elements along some axes, at the same extent.

    ``shape`` is that of the result, with as many axes as ``source`` has; those whose size stays the same are left
    alone. Each other axis is filtered: an output is the mean of the inputs around it, weighted by a function of their
    distance, in units of inputs or of outputs, whichever are farther apart.

    ``filter`` is ``'box'`` (nearest neighbours, or means of equal weights), ``'linear'``, ``'hamming'`` (for
    downsampling), ``'cubic'`` (of radius 2), ``'lanczos'`` (a windowed sinc of radius 3) or ``'gaussian'`` (with a
    standard deviation of 1/2, up to four of them). Cubic and Lanczos have negative weights: results may leave the range
    of the input. Or it is a function of a ``float`` that returns one, and ``filter_radius`` says up to which distance
    it counts; it is called here, once for each weight. ``boundary`` says what lies beyond the ends: nothing
    (``'zero'``: the weights of what exists sum to one), the outermost element (``'nearest'``), the other end
    (``'wrap'``), or the mirror image, with the outermost element twice (``'reflect'``) or once (``'mirror'``).

    Elements are floating-point numbers, else a ``TypeError`` is raised; half precision is summed in single precision.
    Also raises a ``TypeError`` for other filters, and if some output has no input in its support, a ``RuntimeError``
    for another number of axes. The results are those of Pillow's ``Image.resize``. Evaluates nothing, unless ``mode``
    is ``'evaluated'``; with ``'symbolic'``, the weighted sum is a loop in the kernel, however short it is.

    >>> from drjit.llvm import Float, TensorXf
    >>> dr.resample(Float(1, 2, 4), [6], filter="linear")
    [1, 1.25, 1.75, 2.5, 3.5, 4]
    >>> image = dr.zeros(TensorXf, (480, 640, 3))
    >>> dr.resample(image, (240, 320, 3)).shape
    (240, 320, 3)
    >>> dr.resample(Float(1, 2, 4), [6], filter=lambda x: max(0, 1 - abs(x)), filter_radius=1)
    [1, 1.25, 1.75, 2.5, 3.5, 4]
    """
    function = "drjit.resample"
    _require_source(function, source)
    sizes = parse_shape(shape, function)
    wanted = sizes if isinstance(sizes, tuple) else (sizes,)
    found = source.shape
    if len(wanted) != len(found):
        raise SizeError(f"{function}(): 'source' and 'shape' must have the same number of axes, found the shapes "
                        f"{found} and {wanted}.")
    chosen, radius = _choose_filter(function, filter)
    if radius is None:
        if filter_radius is None:
            raise ArgumentError(f"{function}(): 'filter_radius' is needed where 'filter' is a function.")
        radius = _require_radius(function, filter_radius)
    elif filter_radius is not None:
        raise ArgumentError(f"{function}(): 'filter_radius' must be None where 'filter' is the name of a filter.")
    _require_boundary(function, boundary)
    require_mode(function, mode, ("symbolic", "evaluated"))
    axes = []
    for number, (inputs, outputs) in enumerate(zip(found, wanted, strict=True)):
        if inputs != outputs:
            if not inputs:
                raise SizeError(f"{function}(): axis {number} has no elements, of which {outputs} could be made.")
            scale = min(1.0, outputs / inputs) if outputs else 1.0
            axes.append((number, _Axis(inputs, outputs, chosen, radius, scale, boundary, True, False)))
    if not axes:
        return type(source)(source)
    axes.sort(key=lambda entry: entry[1].outputs / entry[1].inputs)  # what becomes smaller first
    result: ArrayT = _apply(function, source, axes, isinstance(filter, str), False, mode)
    return result


def _discrete(function: str, chosen: Any) -> tuple[float, ...] | None:
    """The weights of a kernel that is given as a sequence; ``None`` for other filters."""
    if isinstance(chosen, ArrayBase):
        if any(core.tracked(node) is not None for node in chosen._nodes()):
            raise ArgumentError(f"{function}(): 'filter' tracks derivatives, which there are none of by the weights of "
                                "a kernel; pass dr.detach(filter).")
        chosen = chosen.tolist() if chosen._depth <= 1 else None
    elif is_ndarray(chosen):
        chosen = chosen.tolist()
    if not isinstance(chosen, list | tuple | range):
        return None
    weights = [plain_scalar(weight) for weight in chosen]
    if not weights or None in weights:
        raise ArgumentError(f"{function}(): a discrete 'filter' must be a sequence of one or more numbers, found "
                            f"{chosen!r}.")
    return tuple([float(weight) for weight in weights])


def convolve(source: ArrayT, filter: str | Callable[[float], float] | Sequence[float] | ArrayBase,
             filter_radius: float | None = None, axis: int | Sequence[int] | None = None, boundary: str = "zero",
             normalize: bool | None = None, mode: str | None = None) -> ArrayT:
    """A tensor or flat array convolved with a filter of one dimension along one or several axes, or all of them (None).

    ``filter`` is a sequence or array of numbers, a discrete kernel with its centre in the middle (the right one of
    two), as of ``numpy.convolve(source, filter, "same")``. Or it is the name of one of the filters of :func:`resample`,
    stretched by ``filter_radius`` (a ``'gaussian'`` has the standard deviation ``filter_radius / 2``; by default it is
    as wide as there), or a function of a ``float``, the distance in elements, that returns one and counts up to
    ``filter_radius``. Discrete kernels have no radius.

    With ``normalize``, the weights of each output are divided by their sum, so that constants stay what they are up to
    the boundary; without, they are the values of the filter. By default, all but discrete kernels are normalised.
    ``boundary`` and ``mode`` are those of :func:`resample`.

    Elements are floating-point numbers, else a ``TypeError`` is raised, as for other filters, and for kernels that
    track derivatives, which there are none of by them; half precision is summed in single precision. Evaluates nothing,
    unless ``mode`` is ``'evaluated'``, and the array that is the kernel.

    >>> from drjit.llvm import Float
    >>> dr.convolve(Float(0, 0, 3, 0, 0), "linear", 2)
    [0, 0.75, 1.5, 0.75, 0]
    >>> dr.convolve(Float(1, 2, 4, 8), [1, 0, -1])
    [2, 3, 6, -4]
    >>> dr.convolve(Float(1, 2, 4, 8), lambda x: x, 1, normalize=False)
    [-2, -3, -6, 4]
    """
    function = "drjit.convolve"
    _require_source(function, source)
    _require_boundary(function, boundary)
    require_mode(function, mode, ("symbolic", "evaluated"))
    weights = _discrete(function, filter)
    if weights is not None:
        if filter_radius is not None:
            raise ArgumentError(f"{function}(): 'filter_radius' must be None where 'filter' is a sequence.")
        form: tuple[Filter, float, float] = (_box, 0.0, 1.0)
    else:
        chosen, radius = _choose_filter(function, filter)
        if radius is not None:
            form = chosen, radius, 1.0 if filter_radius is None else 1 / _require_radius(function, filter_radius)
        elif filter_radius is None:
            raise ArgumentError(f"{function}(): 'filter_radius' is needed where 'filter' is a function.")
        else:
            form = chosen, _require_radius(function, filter_radius), 1.0
    flips = weights is None and not isinstance(filter, str)
    normalized = weights is None if normalize is None else bool(normalize)
    shape = source.shape
    numbers = range(len(shape)) if axis is None else normalise_axes(function, axis, len(shape))
    axes = [(number, _Axis(shape[number], shape[number], form[0], form[1], form[2], boundary, normalized, flips,
                           weights or ()))
            for number in numbers]
    result: ArrayT = _apply(function, source, axes, not flips, True, mode)
    return result
