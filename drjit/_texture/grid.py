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
from drjit_core import BAKED, KIND, SHAPE, TYPES, JitFlag, Node, VarType, WrapMode, cast, literal, read_element, tracked

from .._access.lanes import TRUE
from .._base.types import INT32, UINT32, UINT64

__all__ = ["METHODS", "Cell", "Colors", "Grid", "Method", "Texels", "grid_of", "ops", "products"]

class _Rows(Protocol):
    """The trace functions, for type checkers."""

    def __getattr__(self, name: str) -> Callable[..., Node]: ...


ops: _Rows = core.ops
_and: Callable[[Node, Node], Node] = ops.and_
_REPEAT, _CLAMP, _MIRROR, _BORDER = WrapMode.Repeat, WrapMode.Clamp, WrapMode.Mirror, WrapMode.Border
#: Sizes of different axes and meanings are different parameters.
_TAG = 64
_UINT8, _LITERAL = VarType.UInt8.value, KIND["literal"]
#: Of an axis with a border: how far numbers of texels are shifted, so that four around a position are positive.
_SHIFT = 2
#: Channels of textures of which four texels are a row.
_MOST_OF_ROW = 4


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
    #: Of four neighbours that an edge has pushed inwards: whether by one texel at least, and by two, to the right, and
    #: to the left. What is beyond the edge is the texel there.
    pushed: tuple[Node, ...] = ()


class _Axis:
    """The sizes of an axis: as literals, or what is computed of one that is not known."""

    __slots__ = ("doubled", "end", "fourth", "last", "least", "limit", "mode", "number", "real", "second", "single",
                 "upper", "whole")

    def __init__(self, grid: Grid, number: int, size: int, mode: WrapMode) -> None:
        def of(type_: int, value: float, use: int) -> Node:
            return grid.parameter(type_, value, _TAG + 8 * number + use)

        self.number, self.mode, self.single = number, mode, size < 2
        self.least = 1 if size < 2 else 2 if size < 4 else 4
        self.real = of(grid.type, size, 0)
        self.whole = of(UINT32, size, 1)
        self.last = of(UINT32, max(size - 1, 0), 2)
        self.doubled = of(UINT32, max(2 * size - 1, 0), 3)
        self.second = of(UINT32, max(size - 2, 0), 6)
        self.fourth = of(UINT32, max(size - 4, 0), 7)  # the last one that three others follow upon
        self.end = of(grid.type, size - 1, 6)
        self.upper = of(grid.type, size + (2 * _SHIFT if mode is _BORDER else 1), 7)
        self.limit = of(UINT32, {_MIRROR: 2 * size, _BORDER: size + _SHIFT + 1}.get(mode, size), 4)

    @classmethod
    def computed(cls, grid: Grid, number: int, size: Node, mode: WrapMode, least: int) -> _Axis:
        """An axis of so many texels at least: 1, if it has no more, 2 or 4."""
        self = cls.__new__(cls)
        self.number, self.mode, self.least, self.single = number, mode, least, least < 2
        self.whole, self.real = size, cast(size, grid.type)
        self.last, self.second = ops.sub(size, _whole(1)), ops.sub(size, _whole(min(least, 2)))
        self.fourth = ops.sub(size, _whole(least))
        self.end = ops.sub(self.real, grid.one)
        twice = ops.add(size, size)
        self.doubled = ops.sub(twice, _whole(1))
        border = mode is _BORDER
        self.upper = ops.add(self.real, grid.number(2 * _SHIFT if border else 1))
        self.limit = twice if mode is _MIRROR else ops.add(size, _whole(_SHIFT + 1)) if border else size
        return self


class Grid:
    """The lookups in grids of a shape, at positions of a type."""

    __slots__ = ("axes", "channels", "code", "code_of_four", "codes", "counts", "half", "has_border", "has_neighbours",
                 "has_rows", "index", "large", "minus_half", "offsets", "one", "shifted", "static", "strides", "type",
                 "zero")

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
        #: What the program of a lookup follows from besides, and that of one of four texels along each axis.
        self.code, self.code_of_four = [
            (self.channels, int(self.large),
             *[number for axis in self.axes for number in (axis.mode.value, min(axis.least, most))])
            for most in (2, 4)]
        #: What rows compute that are the channels themselves, see :func:`drjit._texture.lookups.lookup`.
        self.codes = [channel << 9 for channel in range(self.channels)]
        #: Whether some texels may not exist, and whether the two around a position along X are neighbours in memory.
        self.has_border = _BORDER in modes
        self.has_neighbours = modes[0] is _CLAMP and sizes[0] > 1

    @classmethod
    def computed(cls, sizes: Sequence[Node], modes: Sequence[WrapMode], least: Sequence[int], channels: int,
                 type_: int, large: bool) -> Grid:
        """The lookups in grids of sizes that are not known."""
        self = cls.__new__(cls)
        self._begin(channels, type_, False, True, large)
        self.axes = [_Axis.computed(self, number, size, mode, few) for number, (size, mode, few)
                     in enumerate(zip(sizes, modes, least, strict=True))]
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
        #: Whether four neighbours are read together.
        self.has_rows = together and not static and channels <= _MOST_OF_ROW
        #: Distances of the channels of texels that are neighbours.
        self.offsets = [literal(self.index, channel, 1, known)
                        for channel in range((4 if self.has_rows else 2) * channels)]

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
        scaled = self._scaled(axis, position)
        if axis.mode is _CLAMP or axis.mode is _BORDER:
            scaled = self._limited(scaled, axis.upper)
        upper = ops.minimum(cast(scaled, UINT32), axis.limit)
        return Cell(upper, ops.sub(scaled, cast(upper, self.type)))

    def _scaled(self, axis: _Axis, position: Node) -> Node:
        return ops.fma(self._reduced(axis, position), axis.real, self.shifted if axis.mode is _BORDER else self.half)

    def _limited(self, value: Node, high: Node) -> Node:
        """A value from zero to a limit; where it is tracked, the derivative at zero counts, and that at the limit does
        not."""
        if tracked(value) is None:  # each is one instruction, which a minimum is not, and keeps NaN as well
            value = ops.select(ops.gt(self.zero, value), self.zero, value)
            return ops.select(ops.lt(high, value), high, value)
        return ops.select(ops.ge(value, high), high, ops.select(ops.lt(value, self.zero), self.zero, value))

    def inner_cell(self, axis: _Axis, position: Node) -> tuple[Corners, Node]:
        """The two texels around a position, and the fraction of the distance: of a clamped axis always neighbours."""
        if axis.mode is not _CLAMP or axis.single:  # as has_neighbours says of X
            cell = self.cell(axis, position)
            return self.corners(axis, cell.upper, (-1, 0)), cell.fraction
        scaled = self._limited(ops.fma(position, axis.real, self.minus_half), axis.end)
        lower = ops.minimum(cast(scaled, UINT32), axis.second)
        fraction = ops.sub(scaled, cast(lower, self.type))
        return Corners([lower, ops.add(lower, _whole(1))], [None, None], True), fraction

    def slope(self, axis: _Axis, position: Node, linear: bool) -> Node:
        """The derivative of a fraction by the position. Beyond the edges of what is constant there it is zero; at the
        lower one, the cell after it counts."""
        if axis.mode is not _CLAMP and axis.mode is not _BORDER:
            return axis.real
        if linear and axis.mode is _CLAMP and not axis.single:
            scaled, end = ops.fma(position, axis.real, self.minus_half), axis.end
        else:
            scaled, end = self._scaled(axis, position), axis.upper
        outside = ops.or_(ops.lt(scaled, self.zero), ops.ge(scaled, end))
        return ops.select(outside, self.zero, axis.real)

    def nearest(self, axis: _Axis, position: Node) -> Corners:
        """The texel that a position is in."""
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
        size, zero, one = cast(axis.whole, index.type), literal(index.type, 0), literal(index.type, 1)
        if axis.mode is _CLAMP or axis.mode is _BORDER:
            return cast(ops.minimum(ops.maximum(index, zero), ops.sub(size, one)), INT32)
        period = ops.add(size, size) if axis.mode is _MIRROR else size
        rest = ops.mod(index, period)  # of the sign of the index
        rest = ops.select(ops.lt(rest, zero), ops.add(rest, period), rest)
        if axis.mode is _MIRROR:
            rest = ops.minimum(rest, ops.sub(ops.sub(period, one), rest))
        return cast(rest, INT32)

    def row(self, axis: _Axis, upper: Node) -> Corners:
        """The four texels around a position, of a clamped axis that has as many."""
        first = ops.minimum(ops.sub(ops.maximum(upper, _whole(2)), _whole(2)), axis.fourth)
        pushed = (ops.lt(upper, _whole(2)), ops.lt(upper, _whole(1)), ops.ge(upper, axis.last),
                  ops.gt(upper, axis.last))
        return Corners([first] * 4, [None] * 4, True, pushed)

    def stencil(self, method: Method, positions: Sequence[Node], orders: Sequence[int],
                row: bool = False) -> tuple[list[Corners], list[list[Node]]]:
        """The texels along each axis, and their weights or derivatives of these by fractions. Along X these may be a
        :meth:`row`."""
        found = [method.along(self, axis, position, order, row and not axis.number)
                 for axis, position, order in zip(self.axes, positions, orders, strict=True)]
        return [corners for corners, _ in found], [weights for _, weights in found]

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
        indices, exist, neighbours, _ = corners[0]
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
            return [ops.add(first, offset) for offset in offsets[distance * count:(distance + 1) * count]]
        if count == 1:
            return [first]
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


class Spline(NamedTuple):
    """What the weights of four texels are, as polynomials from the highest power on: those of the outer ones, of the
    distance to the other side of the cell, and those of the inner ones, of the distance from them."""

    outer: tuple[float, ...]
    inner: tuple[float, ...]

    def weights(self, grid: Grid, fraction: Node, order: int) -> list[Node]:
        """The weights of texels, or their derivatives by the fraction."""
        outer, inner = self
        rest = ops.sub(grid.one, fraction)
        for _ in range(order):
            outer, inner = (tuple(c * (len(p) - 1 - k) for k, c in enumerate(p[:-1])) for p in (outer, inner))
        first, second, third, fourth = (_polynomial(grid, x, p) for x, p in (
            (rest, outer), (fraction, inner), (rest, inner), (fraction, outer)))
        return [ops.neg(first), second, ops.neg(third), fourth] if order % 2 else [first, second, third, fourth]


#: The uniform cubic B-spline, which does not pass through the texels.
SMOOTH = Spline((1 / 6, 0, 0, 0), (0.5, -1, 0, 2 / 3))
#: The cubic spline through the texels: E. Catmull and R. Rom, "A Class of Local Interpolating Splines" (1974).
INTERPOLATING = Spline((0.5, -0.5, 0, 0), (1.5, -2.5, 0, 1))


def _polynomial(grid: Grid, x: Node, coefficients: Sequence[float]) -> Node:
    """A polynomial, from the highest power on."""
    total: Node | None = None
    for value in coefficients:
        if total is None:
            total = grid.number(value)
        elif total is grid.one:
            total = ops.add(x, grid.number(value)) if value else x
        else:
            total = ops.fma(total, x, grid.number(value)) if value else ops.mul(total, x)
    return grid.zero if total is None else total


class Method(NamedTuple):
    """A way of interpolation: between the two texels around a position along each axis or the four nearest ones, with
    weights; or the one that it is in."""

    texels: int
    spline: Spline | None = None

    def along(self, grid: Grid, axis: _Axis, position: Node, order: int,
              row: bool = False) -> tuple[Corners, list[Node]]:
        """The texels along an axis, which may be a :meth:`~Grid.row`, and their weights, or derivatives of these by
        the fraction."""
        if self.texels == 1:
            return grid.nearest(axis, position), [grid.zero if order else grid.one]
        if self.spline is None:
            corners, fraction = grid.inner_cell(axis, position)
            if order:
                return corners, [grid.number(-1), grid.one] if order == 1 else [grid.zero, grid.zero]
            return corners, [ops.sub(grid.one, fraction), fraction]
        cell = grid.cell(axis, position)
        weights = self.spline.weights(grid, cell.fraction, order)
        if row and axis.mode is _CLAMP and axis.least == 4:
            return grid.row(axis, cell.upper), weights
        return grid.corners(axis, cell.upper, (-2, -1, 0, 1)), weights


#: The methods, by numbers that are part of programs.
METHODS = Method(1), Method(2), Method(4, SMOOTH), Method(4, INTERPOLATING)


class Texels:
    """The contents of a grid, and a mask of the lookups that are wanted. Nothing in there has derivatives."""

    __slots__ = ("colors", "grid", "mask", "source")

    def __init__(self, grid: Grid, source: Node, mask: Node, colors: Colors | None = None) -> None:
        self.grid, self.source, self.mask, self.colors = grid, source, mask, colors

    def of(self, source: Node) -> Texels:
        """The same with another source."""
        return self if source is self.source else Texels(self.grid, source, self.mask, self.colors)

    def read(self, positions: Sequence[Node], exists: Node | None) -> list[Node]:
        """The channels of a texel, which are at some positions in memory; zero if it does not exist."""
        grid, source, mask = self.grid, self.source, self.mask
        if exists is not None:
            mask = exists if mask is TRUE else _and(mask, exists)
        found = []
        for channel, position in enumerate(positions):
            if grid.static:
                value = literal(source.type, read_element(source, int(position.payload)))
            else:
                value = core.gather(source, position, mask, False)
            value = self.converted(value, channel)
            found.append(value if exists is None else ops.select(exists, value, grid.zero))
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
            values = [ops.select(self.mask, value, self.grid.zero) for value in values]
        return values

    def fetch(self, positions: Sequence[Node], border: Sequence[float] | None) -> list[list[Node]]:
        """The texels that linear interpolation is between, which may have derivatives here."""
        grid, found = self.grid, []
        scale = 255 if self.source.type == _UINT8 and self.colors is None else 1
        corners = [grid.corners(axis, grid.cell(axis, core.primal(position)).upper, (-1, 0))
                   for axis, position in zip(grid.axes, positions, strict=True)]
        for place, exists in grid.places(corners):
            values = self.read(place, exists)
            if border is not None and any(border):
                assert exists is not None
                values = [ops.select(exists, value, grid.number(color * scale))
                          for value, color in zip(values, border, strict=True)]
            found.append(self._finished(values))
        return found

    def _as_unknown(self, values: list[Node], weights: Sequence[Sequence[Node]]) -> list[Node]:
        """Sums of texels that are known, whose products with weights are zero if they are: NaN where a weight is."""
        for weight, *_ in weights:
            values = [ops.select(ops.eq(weight, weight), value, self.grid.number(math.nan)) for value in values]
        return values

    def interpolated(self, method: Method, positions: Sequence[Node], orders: Sequence[int]) -> list[Node]:
        """What is between texels, derived by each axis so many times."""
        grid = self.grid
        has_rows = grid.has_rows and TYPES[self.source.type].size >= 4
        corners, weights = grid.stencil(method, positions, orders, has_rows)
        places = grid.places(corners)
        if method.texels == 1 and any(orders):
            values = [grid.zero] * grid.channels
        elif method.texels == 1:
            values = self.read(*next(places))
        elif method.spline is None:
            values = _weighted([self.read(*place) for place in places], products(weights))
        else:  # axis after axis, which is less to do for four texels
            rows = [self.read(*place) for place in places]
            if corners[0].pushed:
                rows = [values for first in range(0, len(rows), 4)
                        for values in _in_place(rows[first:first + 4], corners[0].pushed)]
            for factors in weights:
                rows = [_weighted(rows[first:first + 4], factors) for first in range(0, len(rows), 4)]
            (values,) = rows
        if method.texels > 1 and (grid.static or self.source.kind == _LITERAL):
            values = self._as_unknown(values, weights)
        values = self._finished(values)
        for axis, position, order in zip(grid.axes, positions, orders, strict=True):
            if order:
                slope = grid.slope(axis, position, method.spline is None)
                for _ in range(order):  # last: half precision must hold what is between
                    values = [ops.mul(value, slope) for value in values]
        return values


def _in_place(row: list[list[Node]], pushed: Sequence[Node]) -> list[list[Node]]:
    """The values of four texels, given those of neighbours that edges may have pushed inwards, see :class:`Corners`."""
    def chosen(mask: Node, number: int, other: int) -> list[Node]:
        return [ops.select(mask, value, own) for value, own in zip(row[other], row[number], strict=True)]

    right, far_right, left, far_left = pushed
    for mask, numbers, step in ((right, (1, 2, 3), -1), (far_right, (2, 3), -1), (left, (0, 1, 2), 1),
                                (far_left, (0, 1), 1)):
        moved = {number: chosen(mask, number, number + step) for number in numbers}
        row = [moved.get(number, values) for number, values in enumerate(row)]
    return row


def products(weights: Sequence[Sequence[Node]]) -> list[Node]:
    """The weights of texels, given those along each axis; X changes first."""
    found: list[Node] = []
    for along in reversed(weights):
        found = [ops.mul(outer, inner) for outer in found for inner in along] if found else list(along)
    return found


def _weighted(rows: Sequence[Sequence[Node]], weights: Sequence[Node]) -> list[Node]:
    """The weighted sum of rows of values."""
    total = [ops.mul(value, weights[0]) for value in rows[0]]
    for row, weight in zip(rows[1:], weights[1:], strict=True):
        total = [ops.fma(value, weight, sum_) for value, sum_ in zip(row, total, strict=True)]
    return total
