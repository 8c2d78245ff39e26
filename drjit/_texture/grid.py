"""Lookups in a grid of texels, on nodes: which texels are around a position, their weights, and sums of both.

Positions are in units of the whole grid, one node for each axis, the last axis of the memory first (X, Y, Z). Along an
axis of ``n`` texels, the centre of texel ``i`` is at ``(i + 1/2) / n``. Positions are reduced to one period while they
are floating-point numbers, so that huge ones keep the right texel. Conversions of NaN to unsigned integers give the
largest one, which every wrapping takes to a texel that exists: no read needs a check.

A cell is given by the number ``j`` of its upper corner: it lies between the texels ``j - 1`` and ``j``, of which one
may be beyond an edge. The sizes of the grid are parameters of kernels; what is part of the program is the number of
channels, so that those of one texel are read together.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import drjit_core as core
from drjit_core import BAKED, SHAPE, JitFlag, Node, ReduceMode, VarType, WrapMode, cast, literal, read_element, tracked

from .._access.lanes import TRUE
from .._base.types import INT32, UINT32, UINT64

__all__ = ["Cell", "Colors", "Grid", "Texels", "grid_of", "interpolating_weights", "ops", "spline_weights"]



class _Rows(Protocol):
    """The trace functions, for type checkers."""

    def __getattr__(self, name: str) -> Callable[..., Node]: ...


ops: _Rows = core.ops
_and: Callable[[Node, Node], Node] = ops.and_
_REPEAT, _CLAMP, _MIRROR, _BORDER = WrapMode.Repeat, WrapMode.Clamp, WrapMode.Mirror, WrapMode.Border
#: Sizes of different axes and meanings are different parameters.
_TAG = 64
_UINT8 = VarType.UInt8.value
_AUTO, _EXPAND = ReduceMode.Auto.value, ReduceMode.Expand.value
#: Elements of textures whose gradients may be added up in tables, of which each thread has one: 64 MiB of single
#: precision. (4 million updates of 4 channels took 6 times as long as atomic ones.)
_LARGEST_TABLE = 1 << 24
#: Of an axis with a border: how far numbers of texels are shifted, so that four around a position are positive.
_SHIFT = 2

Weights = list[Node]


@functools.cache
def _whole(value: int) -> Node:
    """A number of texels that is part of the program."""
    return literal(UINT32, value, 1, BAKED)


class Cell(NamedTuple):
    """Where a position is along an axis."""

    upper: Node  # the number of the texel after it, which may be one beyond the edge
    fraction: Node  # of the distance from the texel before it to that


class Corners(NamedTuple):
    """Texels along an axis, and which of them exist, if some may not."""

    indices: list[Node]
    exist: list[Node | None]
    neighbours: bool = False  # whether each follows upon the one before it


class _Axis:
    """The sizes of an axis: as literals, or what is computed of one that is not known."""

    __slots__ = ("doubled", "end", "last", "limit", "mode", "number", "real", "second", "single", "upper", "whole")

    def __init__(self, grid: Grid, number: int, size: int, mode: WrapMode) -> None:
        def of(type_: int, value: float, use: int) -> Node:
            return grid.parameter(type_, value, _TAG + 8 * number + use)

        self.number, self.mode, self.single = number, mode, size < 2
        self.real = of(grid.type, size, 0)
        self.whole = of(UINT32, size, 1)
        self.last = of(UINT32, max(size - 1, 0), 2)
        self.doubled = of(UINT32, max(2 * size - 1, 0), 3)
        self.second = of(UINT32, max(size - 2, 0), 6)
        self.end = of(grid.type, size - 1, 6)
        self.upper = of(grid.type, size + (2 * _SHIFT if mode is _BORDER else 1), 7)
        self.limit = of(UINT32, {_MIRROR: 2 * size, _BORDER: size + _SHIFT + 1}.get(mode, size), 4)

    @classmethod
    def computed(cls, grid: Grid, number: int, size: Node, mode: WrapMode, single: bool) -> _Axis:
        """An axis of at least one texel; whether of more is known."""
        self = cls.__new__(cls)
        self.number, self.mode, self.single = number, mode, single
        self.whole, self.real = size, cast(size, grid.type)
        self.last, self.second = ops.sub(size, _whole(1)), ops.sub(size, _whole(1 if single else 2))
        self.end = ops.sub(self.real, grid.one)
        twice = ops.add(size, size)
        self.doubled = ops.sub(twice, _whole(1))
        border = mode is _BORDER
        self.upper = ops.add(self.real, grid.number(2 * _SHIFT if border else 1))
        self.limit = twice if mode is _MIRROR else ops.add(size, _whole(_SHIFT + 1)) if border else size
        return self


class Grid:
    """The lookups in grids of a shape, at positions of a type."""

    __slots__ = ("axes", "channels", "code", "counts", "half", "index", "large", "minus_half", "offsets", "one",
                 "shifted", "static", "strides", "type", "zero")

    def __init__(self, shape: tuple[int, ...], modes: tuple[WrapMode, ...], type_: int, static: bool,
                 together: bool) -> None:
        self._begin(shape[-1], type_, static, together, math.prod(shape) >= 1 << 32)
        sizes = shape[-2::-1]
        self.axes = [_Axis(self, number, size, mode) for number, (size, mode)
                     in enumerate(zip(sizes, modes, strict=True))]
        strides = [math.prod(sizes[:number]) for number in range(len(sizes))]
        self.strides = [self.parameter(self.index, stride, _TAG + 8 * number + 5)
                        for number, stride in enumerate(strides)]
        #: What is to be known of axes by whoever computes with numbers of texels that are not: those, and all else.
        self.counts = [axis.whole for axis in self.axes]
        self.code = tuple([number for axis in self.axes for number in (axis.mode.value, int(axis.single))])

    @classmethod
    def computed(cls, sizes: Sequence[Node], modes: Sequence[WrapMode], singles: Sequence[bool], channels: int,
                 type_: int, large: bool) -> Grid:
        """The lookups in grids of sizes that are not known."""
        self = cls.__new__(cls)
        self._begin(channels, type_, False, True, large)
        self.axes = [_Axis.computed(self, number, size, mode, single) for number, (size, mode, single)
                     in enumerate(zip(sizes, modes, singles, strict=True))]
        stride = self._wide(_whole(1))
        self.strides = []
        for size in sizes:
            self.strides.append(stride)
            stride = ops.mul(stride, self._wide(size)) if self.strides[1:] else self._wide(size)
        return self

    def _begin(self, channels: int, type_: int, static: bool, together: bool, large: bool) -> None:
        self.type, self.static, self.channels, self.large = type_, static, channels, large
        self.zero, self.one, self.half = [literal(type_, value, 1, BAKED) for value in (0.0, 1.0, 0.5)]
        self.minus_half, self.shifted = literal(type_, -0.5, 1, BAKED), literal(type_, _SHIFT + 0.5, 1, BAKED)
        self.index = UINT64 if large else UINT32
        known = BAKED if together and 2 * channels <= core.LONGEST_ROW else None
        #: Distances of the channels of two texels that are neighbours.
        self.offsets = [literal(self.index, channel, 1, known) for channel in range(2 * channels)]

    def parameter(self, type_: int, value: float, tag: int) -> Node:
        """A number that follows from the shape."""
        return literal(type_, value) if self.static else literal(type_, value, 1, SHAPE, tag=tag)

    def number(self, value: float) -> Node:
        """A number that is part of the program."""
        return literal(self.type, value, 1, BAKED)

    # --- along an axis -----------------------------------------------------------------------------------------------

    def _reduced(self, axis: _Axis, position: Node) -> Node:
        """A position within the first period of the texture."""
        if axis.mode is _REPEAT:
            return ops.sub(position, ops.floor(position))
        if axis.mode is _MIRROR:
            half = ops.floor(ops.mul(position, self.half))
            return ops.sub(position, ops.add(half, half))
        return position

    def cell(self, axis: _Axis, position: Node) -> Cell:
        """The cell that a position is in; beyond the edges of what is constant there, the outermost one."""
        scaled = ops.fma(self._reduced(axis, position), axis.real, self.shifted if axis.mode is _BORDER else self.half)
        if axis.mode is _CLAMP or axis.mode is _BORDER:
            scaled = self._limited(scaled, self.zero, axis.upper)
        upper = ops.minimum(cast(scaled, UINT32), axis.limit)
        return Cell(upper, ops.sub(scaled, cast(upper, self.type)))

    def _limited(self, value: Node, low: Node, high: Node) -> Node:
        """A value within limits; where it is tracked, the derivative at the lower one counts, and that at the upper one
        is zero."""
        if tracked(value) is None:
            return ops.minimum(ops.maximum(value, low), high)
        return ops.select(ops.ge(value, high), high, ops.select(ops.lt(value, low), low, value))

    def inner_cell(self, axis: _Axis, position: Node) -> tuple[Corners, Node]:
        """The two texels around a position, and the fraction of the distance: of a clamped axis always neighbours."""
        if axis.mode is not _CLAMP or axis.single:
            cell = self.cell(axis, position)
            return self.corners(axis, cell.upper, (-1, 0)), cell.fraction
        scaled = self._limited(ops.fma(position, axis.real, self.minus_half), self.zero, axis.end)
        lower = ops.minimum(cast(scaled, UINT32), axis.second)
        fraction = ops.sub(scaled, cast(lower, self.type))
        return Corners([lower, ops.add(lower, _whole(1))], [None, None], True), fraction

    def nearest(self, axis: _Axis, position: Node) -> Corners:
        """The texel that a position is in."""
        position = core.primal(position)
        scaled = ops.mul(self._reduced(axis, position), axis.real)
        if axis.mode is _BORDER:
            whole = self._border_cell(axis, scaled)
            return Corners([ops.minimum(whole, axis.last)], [ops.lt(whole, axis.whole)])
        if axis.mode is _MIRROR:
            whole = ops.minimum(cast(scaled, UINT32), axis.doubled)
            return Corners([ops.minimum(whole, ops.sub(axis.doubled, whole))], [None])
        scaled = ops.maximum(scaled, self.zero)
        whole = ops.select(ops.eq(scaled, scaled), cast(scaled, UINT32), _whole(0))
        return Corners([ops.minimum(whole, axis.last)], [None])

    def _border_cell(self, axis: _Axis, scaled: Node) -> Node:
        """The texel that a scaled position is in; the largest number if it is outside."""
        inside = _and(ops.ge(scaled, self.zero), ops.lt(scaled, axis.real))
        return ops.select(inside, cast(scaled, UINT32), literal(UINT32, (1 << 32) - 1, 1, BAKED))

    def corners(self, axis: _Axis, upper: Node, offsets: Sequence[int]) -> Corners:
        """The texels at some distances from the upper corner of a cell, which are from -2 to 1."""
        if axis.mode is _BORDER:
            return self._bordered(axis, upper, offsets)
        if axis.single:
            return Corners([_whole(0)] * len(offsets), [None] * len(offsets))
        place = {_REPEAT: self._repeated, _MIRROR: self._mirrored, _CLAMP: self._clamped}[axis.mode]
        return Corners([place(axis, upper, offset) for offset in offsets], [None] * len(offsets))

    def _bordered(self, axis: _Axis, upper: Node, offsets: Sequence[int]) -> Corners:
        places = [ops.sub(upper, _whole(_SHIFT - offset)) for offset in offsets]  # below zero: a large number
        return Corners([ops.minimum(place, axis.last) for place in places],
                       [ops.lt(place, axis.whole) for place in places])

    def _clamped(self, axis: _Axis, upper: Node, offset: int) -> Node:
        if offset < 0:
            return ops.minimum(ops.sub(ops.maximum(upper, _whole(-offset)), _whole(-offset)), axis.last)
        return ops.minimum(ops.add(upper, _whole(offset)), axis.last)

    def _repeated(self, axis: _Axis, upper: Node, offset: int) -> Node:
        index = ops.select(ops.ge(upper, axis.whole), ops.sub(upper, axis.whole), upper)
        if offset < 0:
            low = ops.lt(index, _whole(-offset))
            return ops.sub(ops.select(low, ops.add(index, axis.whole), index), _whole(-offset))
        if not offset:
            return index
        index = ops.add(index, _whole(offset))
        return ops.select(ops.ge(index, axis.whole), ops.sub(index, axis.whole), index)

    def _mirrored(self, axis: _Axis, upper: Node, offset: int) -> Node:
        """The texel that a number from -2 to 2 * n + 1 stands for."""
        if offset < 0:  # -1 and -2 are the texels 0 and 1
            low = ops.sub(_whole(-offset - 1), upper)
            index = ops.select(ops.lt(upper, _whole(-offset)), low, ops.sub(upper, _whole(-offset)))
        else:
            index = ops.add(upper, _whole(offset))
            beyond = ops.sub(index, ops.add(axis.doubled, _whole(1)))
            index = ops.select(ops.gt(index, axis.doubled), beyond, index)
        return ops.minimum(index, ops.sub(axis.doubled, index))

    def wrapped(self, axis: _Axis, index: Node) -> Node:
        """The texel that any signed integer stands for."""
        size, zero, one = cast(axis.whole, INT32), literal(INT32, 0), literal(INT32, 1)
        if axis.mode is _CLAMP or axis.mode is _BORDER:
            return ops.minimum(ops.maximum(index, zero), ops.sub(size, one))
        period = ops.add(size, size) if axis.mode is _MIRROR else size
        rest = ops.mod(index, period)  # of the sign of the index
        rest = ops.select(ops.lt(rest, zero), ops.add(rest, period), rest)
        return ops.minimum(rest, ops.sub(ops.sub(period, one), rest)) if axis.mode is _MIRROR else rest

    # --- texels ------------------------------------------------------------------------------------------------------

    def places(self, corners: Sequence[Corners]) -> Iterator[tuple[list[Node], Node | None]]:
        """Where the channels of each texel are in memory that axes with these corners have in common, and whether it
        exists, if it may not; X changes first. Of texels that are neighbours along X, positions are neighbours."""
        rows: list[tuple[Node | None, Node | None]] = [(None, None)]
        for number in range(len(corners) - 1, 0, -1):
            along = [(ops.mul(self._wide(index), self.strides[number]), exists)
                     for index, exists in zip(corners[number].indices, corners[number].exist, strict=True)]
            rows = [(index if row is None else ops.add(row, index), _both(known, exists))
                    for row, known in rows for index, exists in along]
        indices, exist, neighbours = corners[0]
        for row, known in rows:
            first: Node | None = None
            for number, (place, exists) in enumerate(zip(indices, exist, strict=True)):
                if first is None or not neighbours:
                    texel = self._wide(place)
                    first = texel if row is None else ops.add(row, texel)
                yield self.positions(first, number if neighbours else 0), _both(known, exists)

    def _wide(self, index: Node) -> Node:
        return cast(index, UINT64) if self.large else index

    def positions(self, texel: Node, distance: int = 0) -> list[Node]:
        """Where the channels of a texel are in memory, or those of one at a distance."""
        count, offsets = self.channels, self.offsets
        first = texel if count == 1 else ops.mul(texel, offsets[count])
        if distance:
            return [ops.add(first, offset) for offset in offsets[count:2 * count]]
        return [first, *[ops.add(first, offset) for offset in offsets[1:count]]]


def _both(one: Node | None, other: Node | None) -> Node | None:
    return other if one is None else one if other is None else _and(one, other)


def grid_of(shape: tuple[int, ...], modes: tuple[WrapMode, ...], type_: int, static: bool) -> Grid:
    """The grid of a shape (channels last), with a mode for each axis (X first); ``static`` if positions are numbers."""
    return _grid(shape, modes, type_, static, core.flag(JitFlag.PacketOps))


_grid = functools.lru_cache(maxsize=256)(Grid)


def _gathered(table: Node, code: Node) -> Node:
    return core.gather(table, code, TRUE, True)


class Colors(NamedTuple):
    """What codes of sRGB colors mean: a table, and how it is read. Each fourth channel is linear."""

    table: Node
    read: Callable[[Node, Node], Node] = _gathered

    def decoded(self, grid: Grid, code: Node, channel: int) -> Node:
        """A texel in the type of the result."""
        if channel % 4 == 3:
            return ops.mul(cast(code, grid.type), grid.number(1 / 255))
        if grid.static:
            return literal(grid.type, read_element(self.table, int(code.payload)))
        return cast(self.read(self.table, cast(code, UINT32)), grid.type)


class Texels:
    """The contents of a grid, and a mask of the lookups that are wanted."""

    __slots__ = ("border", "colors", "grid", "mask", "mode", "source")

    def __init__(self, grid: Grid, source: Node, mask: Node, border: Sequence[float] | None = None,
                 colors: Colors | None = None) -> None:
        self.grid, self.source, self.mask, self.border, self.colors = grid, source, mask, border, colors
        self.mode = _AUTO

    def _choose_mode(self, positions: Sequence[Node], corners: int) -> None:
        """How gradients of texels are added up: where there are more of them than texels, in tables of the threads."""
        width = max(node.size for node in positions)
        if self.source.size <= min(_LARGEST_TABLE, 2 * width * corners * self.grid.channels):
            self.mode = _EXPAND

    def read(self, positions: Sequence[Node], exists: Node | None) -> list[Node]:
        """The channels of a texel, which are at some positions in memory."""
        grid, source, mask = self.grid, self.source, self.mask
        type_, found = grid.type, []
        if exists is not None:
            mask = exists if mask is TRUE else _and(mask, exists)
        for channel, position in enumerate(positions):
            if grid.static:
                value = literal(source.type, read_element(source, int(position.payload)))
            else:
                value = core.gather(source, position, mask, False, self.mode)
            value = self.converted(value, channel)
            if exists is not None:
                assert self.border is not None
                scale = 255 if source.type == _UINT8 and self.colors is None else 1
                value = ops.select(exists, value, literal(type_, self.border[channel] * scale))
            found.append(value)
        return found

    def converted(self, value: Node, channel: int) -> Node:
        """A texel in the type of the result."""
        grid = self.grid
        return cast(value, grid.type) if self.colors is None else self.colors.decoded(grid, value, channel)

    def _finished(self, values: list[Node]) -> list[Node]:
        """Values of lookups: zero where these are not wanted."""
        if self.source.type == _UINT8 and self.colors is None:
            values = [ops.mul(value, self.grid.number(1 / 255)) for value in values]
        if self.mask is not TRUE:
            zero = self.grid.number(0)
            values = [ops.select(self.mask, value, zero) for value in values]
        return values

    # --- lookups -----------------------------------------------------------------------------------------------------

    def nearest(self, positions: Sequence[Node]) -> list[Node]:
        """The texel that a position is in."""
        grid = self.grid
        self._choose_mode(positions, 1)
        corners = [grid.nearest(axis, position) for axis, position in zip(grid.axes, positions, strict=True)]
        (place,) = grid.places(corners)
        return self._finished(self.read(*place))

    def linear(self, positions: Sequence[Node]) -> list[Node]:
        """Multilinear interpolation."""
        grid = self.grid
        self._choose_mode(positions, 2**len(positions))
        found = [grid.inner_cell(axis, position) for axis, position in zip(grid.axes, positions, strict=True)]
        one = grid.one
        weights: list[Node] = []
        for _, fraction in reversed(found):
            pair = ops.sub(one, fraction), fraction
            weights = list(pair) if not weights else [ops.mul(outer, inner) for outer in weights for inner in pair]
        total: list[Node] = []
        for weight, place in zip(weights, grid.places([corners for corners, _ in found]), strict=True):
            texel = self.read(*place)
            total = [ops.fma(value, weight, sum_) for value, sum_ in zip(texel, total, strict=True)] if total else \
                [ops.mul(value, weight) for value in texel]
        return self._finished(total)

    def fetch(self, positions: Sequence[Node]) -> list[list[Node]]:
        """The texels that linear interpolation is between."""
        grid = self.grid
        corners = [grid.corners(axis, grid.cell(axis, position).upper, (-1, 0))
                   for axis, position in zip(grid.axes, positions, strict=True)]
        return [self._finished(self.read(*place)) for place in grid.places(corners)]

    def smooth(self, positions: Sequence[Node]) -> list[Node]:
        """The uniform cubic B-spline."""
        (values,) = self.spline(positions, spline_weights, 0).values()
        return values

    def interpolating(self, positions: Sequence[Node]) -> list[Node]:
        """The cubic spline through the texels."""
        (values,) = self.spline(positions, interpolating_weights, 0).values()
        return values

    def spline(self, positions: Sequence[Node], weights: Callable[[Grid, Node, int], Weights],
               order: int) -> dict[tuple[int, ...], list[Node]]:
        """Sums over the four texels along each axis that are the nearest ones, with weights that follow from the
        fraction: the interpolant, and its derivatives up to an order, by how often each axis is derived by."""
        grid = self.grid
        self._choose_mode(positions, 4**len(positions))
        cells = [grid.cell(axis, position) for axis, position in zip(grid.axes, positions, strict=True)]
        corners = [grid.corners(axis, cell.upper, (-2, -1, 0, 1)) for axis, cell in zip(grid.axes, cells, strict=True)]
        factors = [[weights(grid, cell.fraction, k) for k in range(order + 1)] for cell in cells]
        rows: dict[tuple[int, ...], list[list[Node]]] = {(): [self.read(*place) for place in grid.places(corners)]}
        for number in range(len(cells)):
            following: dict[tuple[int, ...], list[list[Node]]] = {}
            for orders, values in rows.items():
                for k in range(order + 1 - sum(orders)):
                    following[*orders, k] = [_weighted(values[first:first + 4], factors[number][k])
                                             for first in range(0, len(values), 4)]
            rows = following
        found = {}
        for orders, (sums,) in rows.items():
            finished = self._finished(sums)
            for axis, k in zip(grid.axes, orders, strict=True):  # last: half precision must hold what is between
                for _ in range(k):
                    finished = [ops.mul(value, axis.real) for value in finished]
            found[orders] = finished
        return found


def _weighted(rows: Sequence[Sequence[Node]], weights: Weights) -> list[Node]:
    """The weighted sum of rows of values."""
    total = [ops.mul(value, weights[0]) for value in rows[0]]
    for row, weight in zip(rows[1:], weights[1:], strict=True):
        total = [ops.fma(value, weight, sum_) for value, sum_ in zip(row, total, strict=True)]
    return total


def _polynomial(grid: Grid, x: Node, coefficients: Sequence[float]) -> Node:
    """A polynomial, from the highest coefficient on."""
    first, *rest = [grid.number(value) for value in coefficients]
    total = first
    for k, value in enumerate(rest):
        total = ops.fma(total, x, value) if k or coefficients[0] != 1 else ops.add(x, value)
    return total


def spline_weights(grid: Grid, fraction: Node, order: int) -> Weights:
    """The weights of the uniform cubic B-spline, or their derivatives."""
    rest = ops.sub(grid.number(1), fraction)
    if order == 2:
        return [rest, _polynomial(grid, fraction, (3, -2)), _polynomial(grid, fraction, (-3, 1)), fraction]
    if order == 1:
        half = grid.number(0.5)
        inner = [ops.mul(_polynomial(grid, x, (1.5, -2)), x) for x in (fraction, rest)]
        return [ops.neg(ops.mul(ops.mul(rest, rest), half)), inner[0], ops.neg(inner[1]),
                ops.mul(ops.mul(fraction, fraction), half)]
    sixth = grid.number(1 / 6)

    def inside(x: Node) -> Node:
        square = ops.mul(x, x)
        return ops.fma(square, _polynomial(grid, x, (0.5, -1)), grid.number(2 / 3))

    def outside(x: Node) -> Node:
        return ops.mul(ops.mul(ops.mul(x, x), x), sixth)

    return [outside(rest), inside(fraction), inside(rest), outside(fraction)]


def interpolating_weights(grid: Grid, fraction: Node, order: int) -> Weights:
    """The weights of the cubic spline through the texels: E. Catmull and R. Rom, "A Class of Local Interpolating
    Splines" (1974)."""
    assert not order
    square = ops.mul(fraction, fraction)
    rest = ops.sub(grid.one, fraction)
    inner = [ops.fma(ops.mul(x, x), _polynomial(grid, x, (1.5, -2.5)), grid.one) for x in (fraction, rest)]
    return [ops.mul(ops.mul(ops.mul(rest, rest), fraction), grid.minus_half), inner[0], inner[1],
            ops.mul(ops.mul(square, rest), grid.minus_half)]
