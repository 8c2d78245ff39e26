"""Lookups as rows with structure: one node for each channel, whose expansion the text of a kernel is made from.

Tracing a lookup, and walking it at each launch, costs as much as a node or two, not as much as all corners of all
channels. Its derivatives by positions are such rows, too, whose weights are derived by the fraction along an axis; those
by texels are additions of weights to gradients. Lookups in scalars, and in texels that are all equal, are traced at once
(:mod:`.grid`).

Beyond a border, texels are zero. Since weights add up to one, another value is added with the weight of all that is
there, which is a channel of its own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence

from drjit_core import (
    COMPUTES_IN,
    KIND,
    Copy,
    Flow,
    JitFlag,
    Node,
    ReduceMode,
    Vertex,
    WrapMode,
    cast,
    composed_row,
    literal,
    primal,
    product,
    read_memory,
    state,
    traced_each,
    tracked,
)

from .._access.lanes import TRUE
from .._base.nodes import broadcast
from .._functions.structure import Structure
from .grid import METHODS, Colors, Grid, Texels, grid_of, ops, products

__all__ = ["INTERPOLATING", "LINEAR", "NEAREST", "SMOOTH", "lookup"]

_LITERAL, _BOUND = KIND["literal"], KIND["bound"]
#: What lookups compute, by a number that is part of the program.
NEAREST, LINEAR, SMOOTH, INTERPOLATING = range(len(METHODS))
#: Rows by the number of dimensions, and by whether texels are codes of colors, which a table decodes.
_KINDS: dict[tuple[int, bool], int] = {}
#: What expansions are traced under: where a program has cleared one, lookups have none.
_FLAGS = int(JitFlag.PacketOps) | int(JitFlag.FastMath)
#: Elements of textures whose gradients may be added up in tables, of which each thread has one: 64 MiB of single
#: precision. (4 million updates of 4 channels took 6 times as long as atomic ones.)
_LARGEST_TABLE = 1 << 24


class _Channel(Texels):
    """The contents of a grid, of which one channel is looked up where a kernel's text is made."""

    __slots__ = ("channel",)

    channel: int

    def read(self, positions: Sequence[Node], exists: Node | None) -> list[Node]:
        value = self.converted(read_memory(self.source, positions[self.channel], self.mask), self.channel)
        return [value if exists is None else ops.select(exists, value, self.grid.zero)]


class _Outside(Texels):
    """What is 0 where there are texels, and 1 beyond the border."""

    __slots__ = ()

    def read(self, positions: Sequence[Node], exists: Node | None) -> list[Node]:
        assert exists is not None
        return [ops.select(exists, self.grid.zero, self.grid.one)]


def _expansion(node: Node, operands: Sequence[Node], decoded: bool = False) -> Node:
    memory, others, mask = operands[:1 + decoded], operands[1 + decoded:-1], operands[-1]
    dimension = len(others) // 2
    method, channels, large, *rest = node.payload
    orders, axes = rest[:dimension], rest[dimension:]
    modes, singles = [WrapMode(mode) for mode in axes[::2]], [bool(single) for single in axes[1::2]]
    grid = Grid.computed(others[dimension:], modes, singles, channels, node.type, bool(large))
    texels: Texels = _Outside(grid, grid.zero, mask)
    if node.attr < channels:
        colors = Colors(memory[1], lambda table, code: read_memory(table, code, mask)) if decoded else None
        texels = channel = _Channel(grid, memory[0], mask, colors)
        channel.channel = node.attr
    (value,) = texels.interpolated(METHODS[method], others[:dimension], orders)
    return value


def _again(source: Node, *operands: Node, attr: int, payload: tuple[int, ...], colors: Colors | None = None) -> Node:
    """A channel once more, of what may have derivatives."""
    dimension = (len(operands) - 1) // 2
    positions, sizes, mask = operands[:dimension], operands[dimension:-1], operands[-1]
    method, channels, _, *rest = payload
    orders, modes = rest[:dimension], [WrapMode(mode) for mode in rest[dimension::2]]
    if tracked(source) is not None:
        source = cast(source, COMPUTES_IN[source.type])
    shape = *(int(size.payload) for size in reversed(sizes)), channels
    grid = grid_of(shape, tuple(modes), positions[0].type, False)
    (value,) = _channels(Texels(grid, source, mask, colors), method, positions, orders, (attr,))
    return value


def _decoded_again(source: Node, table: Node, *operands: Node, attr: int, payload: tuple[int, ...]) -> Node:
    """The same, of colors."""
    return _again(source, *operands, attr=attr, payload=payload, colors=Colors(table))


def lookup(texels: Texels, border: Sequence[float] | None, method: int, positions: Sequence[Node],
           orders: Sequence[int] = (0, 0, 0)) -> list[Node]:
    """What a method computes of texels at positions, derived by each axis so many times."""
    grid, orders = texels.grid, orders[:len(positions)]
    if border is None or not any(border):
        return _channels(texels, method, positions, orders, range(grid.channels))
    *values, outside = _channels(texels, method, positions, orders, range(grid.channels + 1))
    return [ops.fma(outside, literal(grid.type, color), value) if color else value
            for value, color in zip(values, border, strict=True)]


def _channels(texels: Texels, method: int, positions: Sequence[Node], orders: Sequence[int],
              channels: Sequence[int]) -> list[Node]:
    """Some channels, with zeros beyond borders; the one after the last is the weight of what is there."""
    grid, source = texels.grid, texels.source
    if method == NEAREST:
        positions = [primal(position) for position in positions]
    plain = Texels(grid, primal(source), texels.mask, texels.colors)
    places = [primal(position) for position in positions]
    if _is_row(plain):
        found = _row(plain, method, places, orders, channels)
    else:
        values = plain.interpolated(METHODS[method], places, orders)
        if grid.channels in channels:
            values += _Outside(grid, grid.zero, texels.mask).interpolated(METHODS[method], places, orders)
        found = [values[channel] for channel in channels]
    if tracked(source) is None and all([tracked(position) is None for position in positions]):
        return found
    return Lookup(texels, method, positions, orders, channels).attached(found)


def _is_row(texels: Texels) -> bool:
    kind = texels.source.kind
    return state.flags & _FLAGS == _FLAGS and not texels.grid.static and kind != _LITERAL and kind != _BOUND


def _row(texels: Texels, method: int, positions: Sequence[Node], orders: Sequence[int],
         channels: Iterable[int]) -> list[Node]:
    grid, colors = texels.grid, texels.colors
    payload = method, grid.channels, int(grid.large), *orders, *grid.code
    memory = (texels.source,) if colors is None else (texels.source, colors.table)
    operands = *memory, *positions, *grid.counts, texels.mask
    found: list[Node] = traced_each(_KINDS[len(positions), colors is not None], grid.type, operands, channels, payload)
    return found


class Lookup(Structure):
    """Channels of a lookup, whose operands are the texels and the components of the position."""

    name = label = "texture"

    def __init__(self, texels: Texels, method: int, positions: Sequence[Node], orders: Sequence[int],
                 channels: Sequence[int]) -> None:
        super().__init__([texels.source, *positions])
        self.grid, self.mask, self.colors = texels.grid, texels.mask, texels.colors
        self.method, self.orders, self.channels = method, orders, channels

    def uses(self, place: int) -> tuple[bool, bool]:
        """Texels are read by index, components of the position are not."""
        vertex = self.inputs[place]
        return vertex is self.vertices[0], vertex in self.vertices[1:]

    def nodes(self) -> list[Node]:
        """The values that the derivative needs."""
        return [*super().nodes(), self.mask]

    def moved(self, copy: Copy) -> Structure:
        """A copy of the lookup where other nodes and vertices stand for those that it has kept."""
        new = super().moved(copy)
        assert isinstance(new, Lookup)
        new.mask = copy.node(self.mask)
        return new

    def _at(self, source: Node, positions: Sequence[Node], orders: Sequence[int], places: Iterable[int]) -> list[Node]:
        """Some results, derived by each axis so many times, of other texels."""
        texels = Texels(self.grid, source, self.mask, self.colors)
        return _channels(texels, self.method, positions, orders, [self.channels[place] for place in places])

    def _once_more(self, axis: int) -> list[int]:
        """How often each axis is derived by, once more by one of them."""
        return [order + (number == axis) for number, order in enumerate(self.orders)]

    def forward(self, flow: Flow) -> None:
        """Let changes of texels and positions flow to the results."""
        (source, *positions), (by_texels, *by_positions) = self.kept(flow), self.changes(flow)
        places = range(len(self.channels))
        sent: dict[int, Node] = {}
        if by_texels is not None:
            flow.kernel_ends()
            of_texels = [place for place in places if self.channels[place] < self.grid.channels]
            found = self._at(broadcast(by_texels, source.size), positions, self.orders, of_texels)
            sent = dict(zip(of_texels, found, strict=True))
        for axis, change in enumerate(by_positions):
            if change is not None:
                for place, slope in enumerate(self._at(source, positions, self._once_more(axis), places)):
                    part = product(change, slope, True)
                    sent[place] = part if place not in sent else ops.add(sent[place], part)
        self.sent = sent

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow to texels and positions."""
        source, *positions = self.kept(flow)
        by_texels, *by_positions = self.vertices
        width = self.outputs[0][1]
        for axis, vertex in enumerate(by_positions):
            if vertex is not None and flow.takes(vertex):
                slopes = self._at(source, positions, self._once_more(axis), self.received)
                flow.bring(vertex, _sum_of_products(self.received.values(), slopes, flow.sparse), width)
        if by_texels is not None and flow.takes(by_texels):
            self._add_up(flow, by_texels, positions, width)

    def _add_up(self, flow: Flow, vertex: Vertex, positions: Sequence[Node], width: int) -> None:
        """Add gradients, times weights, to those of texels."""
        flow.kernel_ends()
        grid, gradients = self.grid, dict(self.received)
        if flow.crosses and flow.part is not None and vertex.id <= flow.limit:
            gradients = {place: ops.select(flow.part(width), node, grid.zero) for place, node in gradients.items()}
        corners, weights = grid.stencil(METHODS[self.method], positions, self.orders)
        for axis, position, order in zip(grid.axes, positions, self.orders, strict=True):
            for _ in range(order):
                slope = grid.slope(axis, position, self.method == LINEAR)
                gradients = {place: product(node, slope, flow.sparse) for place, node in gradients.items()}
        count = math.prod(map(len, weights)) * len(gradients)
        # where there are more gradients than texels, in tables of the threads
        mode = ReduceMode.Expand if vertex.size <= min(_LARGEST_TABLE, 2 * width * count) else ReduceMode.Auto
        for weight, (texel, exists) in zip(products(weights), grid.places(corners), strict=True):
            mask = self.mask if exists is None else exists if self.mask is TRUE else ops.and_(self.mask, exists)
            for place, gradient in gradients.items():
                if self.channels[place] < grid.channels:
                    part = cast(product(gradient, weight, flow.sparse), vertex.type)
                    flow.scatter(vertex, part, texel[self.channels[place]], mask, mode.value)


def _sum_of_products(gradients: Iterable[Node], slopes: Iterable[Node], sparse: bool) -> Node:
    total: Node | None = None
    for gradient, slope in zip(gradients, slopes, strict=True):
        if total is not None and not sparse:
            total = ops.fma(gradient, slope, total)
        else:
            part = product(gradient, slope, sparse)
            total = part if total is None else ops.add(total, part)
    assert total is not None
    return total


for _dimension in (1, 2, 3):
    _KINDS[_dimension, False] = composed_row(
        f"lookup{_dimension}", "A channel of a texture: texels, position, number of texels along each axis, mask.",
        _dimension, _dimension, 40 << _dimension, _expansion, _again)
    _KINDS[_dimension, True] = composed_row(
        f"decoded{_dimension}", "A channel of a texture of colors: codes, what they mean, and the same.",
        _dimension, _dimension, 50 << _dimension, functools.partial(_expansion, decoded=True), _decoded_again, 2)
