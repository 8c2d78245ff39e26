"""Lookups as rows with structure: one node for each channel, whose expansion the text of a kernel is made from.

Tracing a lookup, and walking it at each launch, costs as much as a node or two, not as much as all corners of all
channels. What has derivatives, and lookups in scalars, are traced at once (:mod:`.grid`).

Beyond a border, texels of a row are zero. Since weights add up to one, another value is added with the weight of all
that is there, which is a channel of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

from drjit_core import (
    COMPUTES_IN,
    KIND,
    JitFlag,
    Node,
    WrapMode,
    cast,
    composed_row,
    literal,
    read_memory,
    state,
    traced_each,
    tracked,
)

from .grid import Colors, Grid, Texels, grid_of, ops

__all__ = ["INTERPOLATING", "LINEAR", "NEAREST", "SMOOTH", "lookup"]

_LITERAL, _BOUND = KIND["literal"], KIND["bound"]
NEAREST, LINEAR, SMOOTH, INTERPOLATING = range(4)
#: What lookups compute, by a number that is part of the program.
_METHODS: tuple[Callable[[Texels, Sequence[Node]], list[Node]], ...] = (
    Texels.nearest, Texels.linear, Texels.smooth, Texels.interpolating)
#: Rows by the number of dimensions, and by whether texels are codes of colors, which a table decodes.
_KINDS: dict[tuple[int, bool], int] = {}
#: What expansions are traced under: where a program has cleared one, lookups have none.
_FLAGS = int(JitFlag.PacketOps) | int(JitFlag.FastMath)


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
    if node.attr < channels:
        colors = Colors(memory[1], lambda table, code: read_memory(table, code, mask)) if decoded else None
        texels = channel = _Channel(grid, memory[0], mask, None, colors)
        channel.channel = node.attr
    (value,) = list[Node](_METHODS[method](texels, others[:dimension]))
    return value


def _again(source: Node, *operands: Node, attr: int, payload: tuple[int, ...], colors: Colors | None = None) -> Node:
    """A channel once more, of what may have derivatives."""
    dimension = (len(operands) - 1) // 2
    positions, sizes, mask = operands[:dimension], operands[dimension:-1], operands[-1]
    method, channels, _, *axes = payload
    if tracked(source) is not None:
        source = cast(source, COMPUTES_IN[source.type])
    shape, modes = (*(int(size.payload) for size in reversed(sizes)), channels), [WrapMode(mode) for mode in axes[::2]]
    grid = grid_of(shape, tuple(modes), positions[0].type, False)
    border = [0.0] * channels if WrapMode.Border in modes else None
    texels = Texels(grid, source, mask, border, colors)
    if _is_row(texels, positions):
        return _row(texels, method, positions, (attr,))[0]
    if attr == channels:
        texels, attr = _Outside(grid, grid.zero, mask), 0
    return _METHODS[method](texels, positions)[attr]


def _decoded_again(source: Node, table: Node, *operands: Node, attr: int, payload: tuple[int, ...]) -> Node:
    """The same, of colors."""
    return _again(source, *operands, attr=attr, payload=payload, colors=Colors(table))


def lookup(texels: Texels, method: int, positions: Sequence[Node]) -> list[Node]:
    """What a method computes of texels at positions."""
    grid, border = texels.grid, texels.border
    if not _is_row(texels, positions):
        return _METHODS[method](texels, positions)
    if border is None or not any(border):
        return _row(texels, method, positions, range(grid.channels))
    *values, outside = _row(texels, method, positions, range(grid.channels + 1))
    return [ops.fma(outside, literal(grid.type, color), value) if color else value
            for value, color in zip(values, border, strict=True)]


def _is_row(texels: Texels, positions: Sequence[Node]) -> bool:
    """Whether a lookup is a row: what has no derivatives, among others."""
    source = texels.source
    return state.flags & _FLAGS == _FLAGS and not texels.grid.static and source.kind != _LITERAL and \
        source.kind != _BOUND and tracked(source) is None and not any(
            tracked(position) is not None for position in positions)


def _row(texels: Texels, method: int, positions: Sequence[Node], channels: Iterable[int]) -> list[Node]:
    """Some channels, with zeros beyond borders; the one after the last is the weight of what is there."""
    grid, colors = texels.grid, texels.colors
    payload = method, grid.channels, int(grid.large), *grid.code
    memory = (texels.source,) if colors is None else (texels.source, colors.table)
    operands = *memory, *positions, *grid.counts, texels.mask
    found: list[Node] = traced_each(_KINDS[len(positions), colors is not None], grid.type, operands, channels, payload)
    return found


for _dimension in (1, 2, 3):
    _KINDS[_dimension, False] = composed_row(
        f"lookup{_dimension}", "A channel of a texture: texels, position, number of texels along each axis, mask.",
        _dimension, _dimension, 40 << _dimension, _expansion, _again)
    _KINDS[_dimension, True] = composed_row(
        f"decoded{_dimension}", "A channel of a texture of colors: codes, what they mean, and the same.",
        _dimension, _dimension, 50 << _dimension, functools.partial(_expansion, decoded=True), _decoded_again, 2)
