"""Lookups as rows with structure: one node for each channel, whose expansion the text of a kernel is made from.

Tracing a lookup, and walking it at each launch, costs as much as a node or two, not as much as all corners of all
channels. Its derivatives by positions are such rows, too, whose weights are derived by the fraction along an axis;
those by texels are a write whose value is a row as well: it stands for additions of gradients, times weights, at all
corners. Lookups in scalars, and in texels that are all equal, are traced at once (:mod:`.grid`).

Beyond a border, texels are zero. Since weights add up to one, another value is added with the weight of all that is
there, which is a channel of its own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from drjit_core import (
    BAKED,
    COMPUTES_IN,
    KIND,
    Copy,
    Flow,
    JitFlag,
    Node,
    ReduceMode,
    ReduceOp,
    Vertex,
    WrapMode,
    accumulate,
    cast,
    composed_row,
    composed_write,
    literal,
    primal,
    product,
    read_memory,
    scatter,
    state,
    traced,
    traced_each,
    tracked,
)

from .._access.lanes import TRUE, begun, by_each_lane, with_lanes
from .._base.nodes import broadcast
from .._base.types import UINT32
from .._functions.structure import Structure
from .grid import METHODS, Colors, Grid, Texels, grid_of, ops, products

__all__ = ["INTERPOLATING", "LINEAR", "NEAREST", "SMOOTH", "lookup", "wanted"]

_NOWHERE = literal(UINT32, 0, 1, BAKED)
_LITERAL, _BOUND = KIND["literal"], KIND["bound"]
#: What lookups compute, by a number that is part of the program.
NEAREST, LINEAR, SMOOTH, INTERPOLATING = range(len(METHODS))
#: Rows by the number of dimensions, and by whether texels are codes of colors, which a table decodes.
_KINDS: dict[tuple[int, bool], int] = {}
#: The derivatives of the order zero alone.
_VALUES: Sequence[Sequence[int]] = ((),)
_AUTO, _EXPAND, _ADD = ReduceMode.Auto.value, ReduceMode.Expand.value, ReduceOp.Add.value
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
    modes = [WrapMode(mode) for mode in axes[::2]]
    grid = Grid.computed(others[dimension:], modes, axes[1::2], channels, node.type, bool(large))
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


#: Method, positions, codes of what is computed, gradients of that, mask, whether zeros say nothing, type of texels.
_Parts = tuple[int, Sequence[Node], Sequence[int], Sequence[Node], Node, bool, int]


def _parts_of(operands: Sequence[Node], payload: tuple[int, ...]) -> tuple[_Parts, Any]:
    """What a row of gradients and its payload tell: all that :func:`_updates` is given but for the grid, and what is
    known of that."""
    mask, *others = operands
    dimension, method, sparse, type_, channels, large, *rest = payload
    axes, codes = rest[:2 * dimension], rest[2 * dimension:]
    sizes, positions, gradients = others[:dimension], others[dimension:2 * dimension], others[2 * dimension:]
    modes = tuple(map(WrapMode, axes[::2]))
    return (method, positions, codes, gradients, mask, bool(sparse), type_), (sizes, modes, axes[1::2], channels, large)


def _expanded_updates(node: Node, operands: Sequence[Node]) -> Iterator[tuple[Node, Node, Node]]:
    parts, (sizes, modes, least, channels, large) = _parts_of(operands, node.payload)
    grid = Grid.computed(sizes, modes, least, channels, parts[1][0].type, bool(large))
    return _updates(grid, *parts, node.type)


def _added_again(memory: Node, operands: Sequence[Node], payload: tuple[int, ...], mode: int) -> Node:
    """A write of gradients once more, of what may have derivatives."""
    parts, (sizes, modes, _, channels, _) = _parts_of(operands, payload)
    shape = *(int(size.payload) for size in reversed(sizes)), channels
    return _with_gradients(grid_of(shape, modes, parts[1][0].type, False), *parts, mode, memory)


def _updates(grid: Grid, method: int, positions: Sequence[Node], codes: Sequence[int], gradients: Sequence[Node],
             wanted_: Node, sparse: bool, texel_type: int, type_: int) -> Iterator[tuple[Node, Node, Node]]:
    """The opposite of a lookup: what gradients of its results add to those of texels, which are in memory of a type, as
    numbers of the type of texels; where; and whether."""
    by_orders: dict[int, dict[int, Node]] = {}
    for code, gradient in zip(codes, gradients, strict=True):
        by_orders.setdefault(code & 511, {})[code >> 9] = gradient
    for code, by_channels in by_orders.items():
        orders = _orders(code, len(positions))
        for axis, position, order in zip(grid.axes, positions, orders, strict=True):
            for _ in range(order):
                slope = grid.slope(axis, position, method == LINEAR)
                by_channels = {channel: product(node, slope, sparse) for channel, node in by_channels.items()}
        corners, weights = grid.stencil(METHODS[method], positions, orders)
        for weight, (texel, exists) in zip(products(weights), grid.places(corners), strict=True):
            mask = wanted_ if exists is None else exists if wanted_ is TRUE else ops.and_(wanted_, exists)
            for channel, gradient in by_channels.items():
                part = product(gradient, weight, sparse)
                if part.type != texel_type or texel_type != type_:
                    part = cast(cast(part, texel_type), type_)
                yield part, texel[channel], mask


def _count(method: int, positions: Sequence[Node], codes: Sequence[int]) -> int:
    """The number of updates."""
    count: int = METHODS[method].texels ** len(positions) * len(codes)
    return count


def _with_gradients(grid: Grid, method: int, positions: Sequence[Node], codes: Sequence[int],
                    gradients: Sequence[Node], mask: Node, sparse: bool, type_: int, mode: int,
                    memory: Node) -> Node:
    """A new version of memory after the updates of :func:`_updates`: one row, if nothing has derivatives."""
    values, attached = [*positions, *gradients], tracked(memory) is not None
    for node in values:
        attached = attached or tracked(node) is not None
    if not _has_rows(grid):
        for part, index, wanted_ in _updates(grid, method, positions, codes, gradients, mask, sparse, type_,
                                             memory.type):
            memory = accumulate(memory, part, index, wanted_, mode)
        return memory
    if attached:
        version = _with_gradients(grid, method, [*map(primal, positions)], codes, [*map(primal, gradients)], mask,
                                  sparse, type_, mode, primal(memory))
        (version,) = Addition(grid, method, positions, codes, gradients, mask, sparse, type_, mode,
                              memory).attached([version])
        return version
    region = state.region
    if region is not None:
        mask = ops.and_(mask, region.live)
    row = traced(_GRADIENTS, memory.type, [mask, *grid.counts, *map(primal, values)], _count(method, positions, codes),
                 (len(positions), method, int(sparse), type_, *grid.code, *codes))
    return scatter(primal(memory), row, _NOWHERE, mask, _ADD, mode)


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
        program = grid.code if METHODS[method].spline is None else grid.code_of_four
        rows: list[Node] = traced_each(
            _KINDS[len(positions), colors is not None], grid.type, [*memory, *positions, *grid.counts, texels.mask],
            codes, (method, *program))
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
        grid, width = self.texels.grid, self.outputs[0][1]
        positions = self.operands[1:] if flow.again else self.positions
        part = flow.part(width) if flow.crosses and flow.part is not None and vertex.id <= flow.limit else None
        codes, gradients = [], []
        for place, gradient in self.received.items():
            code = self.codes[place]
            if code >> 9 < grid.channels:
                codes.append(code)
                gradients.append(gradient if part is None else ops.select(part, gradient, grid.zero))
        if not codes:
            return
        # where there are more gradients than texels, in tables of the threads
        count = _count(self.method, positions, codes)
        mode = _EXPAND if vertex.size <= min(_LARGEST_TABLE, 2 * width * count) else _AUTO
        flow.write(vertex, functools.partial(_with_gradients, grid, self.method, positions, codes, gradients,
                                             self.texels.mask, flow.sparse, vertex.type, mode))


class Addition(Structure):
    """Gradients that are added to those of texels; operands are the memory of these, the components of the position,
    and the gradients.

    The gradient of the memory is the same before and after, and what it says about gradients and position is a lookup
    in it, and the derivatives of that.
    """

    name, label = "Addition", "gradients of texels"

    def __init__(self, grid: Grid, method: int, positions: Sequence[Node], codes: Sequence[int],
                 gradients: Sequence[Node], mask: Node, sparse: bool, type_: int, mode: int, memory: Node) -> None:
        super().__init__([memory, *positions, *gradients])
        self.operands[0] = literal(memory.type, 0)  # which nobody reads
        self.grid, self.method, self.codes, self.mask = grid, method, codes, mask
        self.sparse, self.type, self.mode = sparse, type_, mode

    def nodes(self) -> list[Node]:
        """The values that the derivative needs: memory is not read."""
        return [*super().nodes()[1:], self.mask]

    def moved(self, copy: Copy) -> Structure:
        """A copy where other nodes and vertices stand for those that it has kept."""
        new: Any = super().moved(copy)
        new.mask = copy.node(self.mask)
        return new  # type: ignore[no-any-return]

    def _parts(self, flow: Flow) -> tuple[list[Node], list[Node]]:
        """Positions and gradients."""
        _, *operands = self.kept(flow)
        count = len(self.grid.axes)
        return operands[:count], operands[count:]

    def _said(self, value: Node, gradient: Node, positions: Sequence[Node]) -> Node:
        """A value, where a gradient counts: as a zero of a sparse one it does not, at positions that are not finite."""
        if not self.sparse:
            return value
        zero, infinity = self.grid.zero, self.grid.number(math.inf)
        counts, *more = [ops.lt(ops.abs(primal(position)), infinity) for position in positions]
        for each in more:
            counts = ops.and_(counts, each)
        return ops.select(ops.or_(counts, ops.neq(primal(gradient), zero)), value, zero)

    def reverse(self, flow: Flow) -> None:
        """Let the gradient flow to gradients, positions and memory."""
        positions, gradients = self._parts(flow)
        _, size = self.outputs[0]
        flow.give(self.vertices[0], self.received[0], size, True)
        flow.kernel_ends()
        texels = Texels(self.grid, broadcast(self.received[0], size), self.mask)
        count = len(positions)
        by_positions, by_gradients = self.vertices[1:count + 1], self.vertices[count + 1:]
        width = max([node.size for node in (*positions, *gradients, self.mask)])
        if any(vertex is not None and flow.takes(vertex) for vertex in by_gradients):
            found = _channels(texels, self.method, positions, self.codes)
            for vertex, value, gradient in zip(by_gradients, found, gradients, strict=True):
                if vertex is not None:
                    flow.bring(vertex, self._said(value, gradient, positions), width)
        for axis, vertex in enumerate(by_positions):
            if vertex is not None and flow.takes(vertex):
                slopes = _channels(texels, self.method, positions, [_once_more(code, axis) for code in self.codes])
                flow.bring(vertex, _sum_of_products(gradients, slopes, self.sparse), width)

    def forward(self, flow: Flow) -> None:
        """Let changes of gradients and positions flow to memory."""
        positions, gradients = self._parts(flow)
        count, (type_, size) = len(positions), self.outputs[0]
        memory, *changes = self.changes(flow)
        memory = literal(type_, 0, size) if memory is None else broadcast(memory, size)

        def added(codes: Sequence[int], parts: Sequence[Node], memory: Node) -> Node:
            return _with_gradients(self.grid, self.method, positions, codes, parts, self.mask, True, self.type,
                                   self.mode, memory)

        changed = [(code, self._said(change, gradient, positions)) for code, change, gradient in zip(
            self.codes, changes[count:], gradients, strict=True) if change is not None]
        if changed:
            memory = added([code for code, _ in changed], [change for _, change in changed], memory)
        for axis, change in enumerate(changes[:count]):
            if change is not None:
                memory = added([_once_more(code, axis) for code in self.codes],
                               [product(gradient, change, True) for gradient in gradients], memory)
        self.sent[0] = memory


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
#: Gradients of what a lookup computes, as they are added to those of texels.
_GRADIENTS = composed_write(
    "texel_gradients", "Gradients of a lookup by texels: mask, number of texels along each axis, position, gradients.",
    160, _expanded_updates, _added_again)
