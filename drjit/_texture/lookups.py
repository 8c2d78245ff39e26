"""Lookups as rows with structure: one node for each channel, whose expansion the text of a kernel is made from.

Tracing a lookup, and walking it at each launch, costs as much as a node or two, not as much as all corners of all
channels. Its derivatives by positions are such rows, too, whose weights are derived by the fraction along an axis;
those by texels are additions of weights to gradients: where these are linear, weights, and where they go, are rows of
their own, one for each corner. Lookups in scalars, and in texels that are all equal, are traced
at once (:mod:`.grid`).

Beyond a border, texels are zero. Since weights add up to one, another value is added with the weight of all that is
there, which is a channel of its own.
"""

from __future__ import annotations

import functools
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
    accumulate,
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

from .._access.lanes import TRUE, begun, by_each_lane, with_lanes
from .._base.nodes import broadcast
from .._base.types import BOOL
from .._functions.structure import Structure
from .grid import METHODS, Colors, Grid, Texels, grid_of, ops, products

__all__ = ["INTERPOLATING", "LINEAR", "NEAREST", "SMOOTH", "lookup", "wanted"]

_LITERAL, _BOUND = KIND["literal"], KIND["bound"]
#: What lookups compute, by a number that is part of the program.
NEAREST, LINEAR, SMOOTH, INTERPOLATING = range(len(METHODS))
#: Rows by the number of dimensions, and by whether texels are codes of colors, which a table decodes.
_KINDS: dict[tuple[int, bool], int] = {}
#: Rows of corners of lookups, by the number of dimensions: of what, is part of the program.
_CORNERS: dict[int, int] = {}
_WEIGHT, _TEXEL, _EXISTS = range(3)
#: The derivatives of the order zero alone.
_VALUES: Sequence[Sequence[int]] = ((),)
_AUTO, _EXPAND = ReduceMode.Auto.value, ReduceMode.Expand.value
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
    method, channels, large, *axes = node.payload
    modes, singles = [WrapMode(mode) for mode in axes[::2]], [bool(single) for single in axes[1::2]]
    grid = Grid.computed(others[dimension:], modes, singles, channels, node.type, bool(large))
    texels: Texels = _Outside(grid, grid.zero, mask)
    channel, orders = _decoded(node.attr, dimension)
    if channel < channels:
        colors = Colors(memory[1], lambda table, code: read_memory(table, code, mask)) if decoded else None
        texels = _Channel(grid, memory[0], mask, colors)
        texels.channel = channel
    (value,) = texels.interpolated(METHODS[method], others[:dimension], orders)
    return value


def _again(source: Node, *operands: Node, attr: int, payload: tuple[int, ...], colors: Colors | None = None) -> Node:
    """A channel once more, of what may have derivatives."""
    dimension = (len(operands) - 1) // 2
    positions, sizes, mask = operands[:dimension], operands[dimension:-1], operands[-1]
    method, channels, _, *axes = payload
    if tracked(source) is not None and not source.scope:
        source = cast(source, COMPUTES_IN[source.type])
    shape = *(int(size.payload) for size in reversed(sizes)), channels
    grid = grid_of(shape, tuple(map(WrapMode, axes[::2])), positions[0].type, False)
    (value,) = _channels(Texels(grid, source, mask, colors), method, positions, (attr,))
    return value


def _decoded_again(source: Node, table: Node, *operands: Node, attr: int, payload: tuple[int, ...]) -> Node:
    """A channel of colors once more, of what may have derivatives."""
    return _again(source, *operands, attr=attr, payload=payload, colors=Colors(table))


def _corner_expansion(node: Node, operands: Sequence[Node]) -> Node:
    dimension = len(operands) // 2
    what, channels, large, *axes = node.payload
    modes, singles = [WrapMode(mode) for mode in axes[::2]], [bool(single) for single in axes[1::2]]
    positions = operands[:dimension]
    grid = Grid.computed(operands[dimension:], modes, singles, channels, positions[0].type, bool(large))
    return _corner(grid, positions, what, node.attr)


def _corner(grid: Grid, positions: Sequence[Node], what: int, number: int) -> Node:
    """Of a corner of a linear lookup, X changing first: its weight, the number of its texel, or whether that exists."""
    corners, weights = grid.stencil(METHODS[LINEAR], positions, (0,) * len(positions))
    sides = [number >> axis & 1 for axis in range(len(positions))]
    if what == _WEIGHT:
        return products([[along[side]] for along, side in zip(weights, sides, strict=True)])[0]
    texel, exists = grid.texel(corners, sides)
    return texel if exists is None or what == _TEXEL else exists


def _corner_again(*operands: Node, attr: int, payload: tuple[int, ...]) -> Node:
    """What there is of a corner once more, of positions that may have derivatives."""
    dimension = len(operands) // 2
    positions, sizes = operands[:dimension], operands[dimension:]
    what, channels, _, *axes = payload
    shape = *(int(size.payload) for size in reversed(sizes)), channels
    grid = grid_of(shape, tuple(map(WrapMode, axes[::2])), positions[0].type, False)
    plain = [primal(position) for position in positions]
    if what != _WEIGHT or all(tracked(position) is None for position in positions):
        return _corners(grid, plain, what, (attr,))[0]
    return _corner(grid, positions, what, attr)


def _corners(grid: Grid, positions: Sequence[Node], what: int, numbers: Iterable[int]) -> list[Node]:
    """What there is of some corners, see :func:`_corner`."""
    type_ = grid.type if what == _WEIGHT else grid.index if what == _TEXEL else BOOL
    rows: list[Node] = traced_each(_CORNERS[len(positions)], type_, [*positions, *grid.counts], numbers,
                                   (what, *grid.code))
    return rows


#: The numbers of the corners of linear lookups by their count, and of those that are the first of two neighbours.
_ALL, _FIRST = ({count: tuple(range(0, count, step)) for count in (2, 4, 8)} for step in (1, 2))


def _linear_corners(grid: Grid, positions: Sequence[Node]) -> list[tuple[Node, list[Node], Node | None]]:
    """Of each corner of a linear lookup its weight, where the channels of its texel are, and whether that exists."""
    together, numbers = grid.has_neighbours, _ALL[1 << len(positions)]
    weights = _corners(grid, positions, _WEIGHT, numbers)
    texels = _corners(grid, positions, _TEXEL, _FIRST[len(numbers)] if together else numbers)
    exist = _corners(grid, positions, _EXISTS, numbers) if grid.has_border else None
    found = []
    for number in numbers:
        places = grid.positions(texels[number >> 1], number & 1) if together else grid.positions(texels[number])
        found.append((weights[number], places, None if exist is None else exist[number]))
    return found


def wanted(mask: Node, positions: Sequence[Node], source: Node) -> Node:
    """A mask of lookups in texels, without the lanes of constructs that take no part."""
    if not begun:
        return mask
    width = max(mask.size, *[position.size for position in positions])
    return with_lanes(mask, width) if width != 1 else by_each_lane(mask, source)


def lookup(texels: Texels, border: Sequence[float] | None, method: int, positions: Sequence[Node],
           orders: Sequence[Sequence[int]] = _VALUES) -> list[list[Node]]:
    """What a method computes of texels at positions: for each of some derivatives by the position, which say how often
    each axis is derived by, all channels."""
    channels, has_border = texels.grid.channels, border is not None and any(border)
    if orders is _VALUES and not has_border:
        return [_channels(texels, method, positions, texels.grid.codes)]
    count = channels + has_border
    codes = [_derived(channel, entry) for entry in orders for channel in range(count)]
    values = _channels(texels, method, positions, codes)
    found = [values[first:first + count] for first in range(0, len(values), count)]
    if not has_border:
        return found
    assert border is not None
    return [[ops.fma(outside, literal(outside.type, color), value) if color else value
             for value, color in zip(parts, border, strict=True)] for *parts, outside in found]


# What a row computes is a number: that of the channel, the one after the last being the weight of what is beyond
# borders, and for each axis how often it is derived by.


def _derived(channel: int, orders: Sequence[int]) -> int:
    return channel << 9 | sum([order << 3 * axis for axis, order in enumerate(orders)])


def _decoded(code: int, dimension: int) -> tuple[int, list[int]]:
    return code >> 9, _orders(code, dimension)


def _orders(code: int, dimension: int) -> list[int]:
    return [code >> 3 * axis & 7 for axis in range(dimension)]


def _once_more(code: int, axis: int) -> int:
    """The derivative by an axis; the fourth one is zero, and stands for all further ones."""
    return code if code >> 3 * axis & 4 else code + (1 << 3 * axis)


def _channels(texels: Texels, method: int, positions: Sequence[Node], codes: Sequence[int]) -> list[Node]:
    """Some channels or derivatives, of what may have derivatives itself."""
    plain = [primal(position) for position in positions]
    if method == NEAREST:
        positions = plain
    source = texels.source
    attached = tracked(source) is not None
    for position in positions:
        attached = attached or tracked(position) is not None
    texels = texels.of(primal(source))
    values = _plain(texels, method, plain, codes)
    return Lookup(texels, method, plain, codes, [source, *positions]).attached(values) if attached else values


def _has_rows(grid: Grid) -> bool:
    """Whether lookups are traced as rows."""
    return state.flags & _FLAGS == _FLAGS and not grid.static


def _plain(texels: Texels, method: int, positions: Sequence[Node], codes: Sequence[int]) -> list[Node]:
    """Some channels or derivatives, with zeros beyond borders."""
    grid, colors, kind = texels.grid, texels.colors, texels.source.kind
    if _has_rows(grid) and kind != _LITERAL and kind != _BOUND:
        memory = (texels.source,) if colors is None else (texels.source, colors.table)
        rows: list[Node] = traced_each(
            _KINDS[len(positions), colors is not None], grid.type, [*memory, *positions, *grid.counts, texels.mask],
            codes, (method, *grid.code))
        return rows
    values: dict[int, list[Node]] = {}
    found = []
    for code in codes:
        channel, orders = _decoded(code, len(positions))
        if channel == grid.channels:
            outside = _Outside(grid, grid.zero, texels.mask)
            found += outside.interpolated(METHODS[method], positions, orders)
            continue
        if code & 511 not in values:
            values[code & 511] = texels.interpolated(METHODS[method], positions, orders)
        found.append(values[code & 511][channel])
    return found


class Lookup(Structure):
    """Channels of a lookup, whose operands are the texels and the components of the position."""

    name = label = "texture"

    def __init__(self, texels: Texels, method: int, positions: Sequence[Node], codes: Sequence[int],
                 operands: list[Node]) -> None:
        super().__init__(operands)
        self.method, self.codes = method, codes
        #: Without derivatives.
        self.texels, self.positions = texels, positions

    def uses(self, place: int) -> tuple[bool, bool]:
        """Texels are read by index, components of the position are not."""
        vertex = self.inputs[place]
        return vertex is self.vertices[0], vertex in self.vertices[1:]

    def nodes(self) -> list[Node]:
        """The values that the derivative needs."""
        return [*super().nodes(), self.texels.mask]

    def moved(self, copy: Copy) -> Structure:
        """A copy of the lookup where other nodes and vertices stand for those that it has kept."""
        new = super().moved(copy)
        assert isinstance(new, Lookup)
        source, *new.positions = [primal(node) for node in new.operands]
        new.texels = Texels(self.texels.grid, source, copy.node(self.texels.mask), self.texels.colors)
        return new

    def _at(self, flow: Flow, codes: Sequence[int]) -> list[Node]:
        """Other results of the same lookup."""
        if not flow.again:
            return _plain(self.texels, self.method, self.positions, codes)
        source, *positions = self.operands
        return _channels(self.texels.of(source), self.method, positions, codes)

    def _slopes(self, flow: Flow, axes: Iterable[int], places: Iterable[int]) -> list[list[Node]]:
        """The derivatives of some results by axes."""
        codes = [self.codes[place] for place in places]
        found = self._at(flow, [_once_more(code, axis) for axis in axes for code in codes])
        return [found[first:first + len(codes)] for first in range(0, len(found), len(codes))]

    def forward(self, flow: Flow) -> None:
        """Let changes of texels and positions flow to the results."""
        (by_texels, *by_positions), grid = self.changes(flow), self.texels.grid
        sent: dict[int, Node] = {}
        if by_texels is not None:
            flow.kernel_ends()
            places = [place for place, code in enumerate(self.codes) if code >> 9 < grid.channels]
            changed = Texels(grid, broadcast(by_texels, self.texels.source.size), self.texels.mask)
            positions = self.operands[1:] if flow.again else self.positions
            found = _channels(changed, self.method, positions, [self.codes[place] for place in places])
            sent = dict(zip(places, found, strict=True))
        changes = {axis: change for axis, change in enumerate(by_positions) if change is not None}
        slopes = self._slopes(flow, changes, range(len(self.codes)))
        for change, found in zip(changes.values(), slopes, strict=True):
            for place, slope in enumerate(found):
                part = product(change, slope, True)
                sent[place] = part if place not in sent else ops.add(sent[place], part)
        self.sent = sent

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow to texels and positions."""
        by_texels, *by_positions = self.vertices
        takers = {axis: vertex for axis, vertex in enumerate(by_positions) if vertex is not None and flow.takes(vertex)}
        if takers:
            gradients = self.received.values()
            for vertex, slopes in zip(takers.values(), self._slopes(flow, takers, self.received), strict=True):
                flow.bring(vertex, _sum_of_products(gradients, slopes, flow.sparse), self.outputs[0][1])
        if by_texels is not None and flow.takes(by_texels):
            self._add_up(flow, by_texels)

    def _add_up(self, flow: Flow, vertex: Vertex) -> None:
        """Add gradients, times weights, to those of texels."""
        flow.kernel_ends()
        grid, wanted_, width = self.texels.grid, self.texels.mask, self.outputs[0][1]
        positions = self.operands[1:] if flow.again else self.positions
        part = flow.part(width) if flow.crosses and flow.part is not None and vertex.id <= flow.limit else None
        by_orders: dict[int, dict[int, Node]] = {}
        for place, gradient in self.received.items():
            channel, orders = self.codes[place] >> 9, self.codes[place] & 511
            if part is not None:
                gradient = ops.select(part, gradient, grid.zero)
            if channel < grid.channels:
                by_orders.setdefault(orders, {})[channel] = gradient
        sparse, parts = flow.sparse, []
        for orders, gradients in by_orders.items():
            if orders:
                gradients = self._sloped(gradients, positions, orders, sparse)
            for weight, texel, exists in self._corners(grid, positions, orders):
                mask = wanted_ if exists is None else exists if wanted_ is TRUE else ops.and_(wanted_, exists)
                for channel, gradient in gradients.items():
                    parts.append((product(gradient, weight, sparse), texel[channel], mask))
        if not parts:
            return
        # where there are more gradients than texels, in tables of the threads
        mode = _EXPAND if vertex.size <= min(_LARGEST_TABLE, 2 * width * len(parts)) else _AUTO
        flow.write(vertex, functools.partial(_with_parts, parts, vertex.type, mode))

    def _sloped(self, gradients: dict[int, Node], positions: Sequence[Node], orders: int,
                sparse: bool) -> dict[int, Node]:
        """The gradients of channels of derivatives, times those of fractions by positions."""
        grid = self.texels.grid
        for axis, position, order in zip(grid.axes, positions, _orders(orders, len(positions)), strict=True):
            for _ in range(order):
                slope = grid.slope(axis, position, self.method == LINEAR)
                gradients = {channel: product(node, slope, sparse) for channel, node in gradients.items()}
        return gradients

    def _corners(self, grid: Grid, positions: Sequence[Node],
                 orders: int) -> Iterable[tuple[Node, list[Node], Node | None]]:
        """The weights of all corners, where the channels of their texels are, and whether these exist."""
        if self.method == LINEAR and not orders and _has_rows(grid) and (
                positions is self.positions or all(tracked(position) is None for position in positions)):
            return _linear_corners(grid, positions)
        corners, weights = grid.stencil(METHODS[self.method], positions, _orders(orders, len(positions)))
        return [(weight, *place) for weight, place in zip(products(weights), grid.places(corners), strict=True)]


def _with_parts(parts: Sequence[tuple[Node, Node, Node]], type_: int, mode: int, memory: Node) -> Node:
    """A new version of memory, to which parts are added as numbers of a type, each given with its place and a mask."""
    for part, index, mask in parts:
        if part.type != type_ or type_ != memory.type:
            part = cast(cast(part, type_), memory.type)
        memory = accumulate(memory, part, index, mask, mode)
    return memory


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
    _CORNERS[_dimension] = composed_row(
        f"corner{_dimension}", "A corner of a linear lookup: position, number of texels along each axis.",
        _dimension, _dimension, 10 * _dimension, _corner_expansion, _corner_again, 0)
