"""Lookups as rows with structure: one node for each channel, whose expansion the text of a kernel is made from.

Tracing a lookup, and walking it at each launch, costs as much as a node or two, not as much as all corners of all
channels. What has no row is traced at once (:mod:`.grid`): lookups that have derivatives, in scalars, beyond borders,
and of colors that are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drjit_core import (
    COMPUTES_IN,
    KIND,
    JitFlag,
    Node,
    WrapMode,
    cast,
    composed_row,
    read_memory,
    state,
    traced_each,
    tracked,
)

from .grid import Grid, Texels, grid_of

__all__ = ["INTERPOLATING", "LINEAR", "NEAREST", "SMOOTH", "lookup"]

_LITERAL, _BOUND = KIND["literal"], KIND["bound"]
NEAREST, LINEAR, SMOOTH, INTERPOLATING = range(4)
#: What lookups compute, by a number that is part of the program.
_METHODS: tuple[Callable[[Texels, Sequence[Node]], list[Node]], ...] = (
    Texels.nearest, Texels.linear, Texels.smooth, Texels.interpolating)
#: Rows by the number of dimensions.
_KINDS: dict[int, int] = {}
#: What expansions are traced under: where a program has cleared one, lookups have none.
_FLAGS = int(JitFlag.PacketOps) | int(JitFlag.FastMath)


class _Channel(Texels):
    """The contents of a grid, of which one channel is looked up where a kernel's text is made."""

    __slots__ = ("channel",)

    channel: int

    def read(self, positions: Sequence[Node], exists: Node | None) -> list[Node]:
        return [self.converted(read_memory(self.source, positions[self.channel], self.mask), self.channel)]


def _expansion(node: Node, operands: Sequence[Node]) -> Node:
    source, dimension = operands[0], (len(operands) - 2) // 2
    method, channels, large, *axes = node.payload
    modes, singles = [WrapMode(mode) for mode in axes[::2]], [bool(single) for single in axes[1::2]]
    grid = Grid.computed(operands[1 + dimension:-1], modes, singles, channels, node.type, bool(large))
    texels = _Channel(grid, source, operands[-1])
    texels.channel = node.attr
    (value,) = list[Node](_METHODS[method](texels, operands[1:1 + dimension]))
    return value


def _again(source: Node, *operands: Node, attr: int, payload: tuple[int, ...]) -> Node:
    """A channel once more, of what may have derivatives."""
    dimension = (len(operands) - 1) // 2
    positions, sizes, mask = operands[:dimension], operands[dimension:-1], operands[-1]
    method, channels, _, *modes = payload
    if tracked(source) is not None:
        source = cast(source, COMPUTES_IN[source.type])
    shape = *(int(size.payload) for size in reversed(sizes)), channels
    grid = grid_of(shape, tuple([WrapMode(mode) for mode in modes[::2]]), positions[0].type, False)
    return lookup(Texels(grid, source, mask), method, positions, (attr,))[0]


def lookup(texels: Texels, method: int, positions: Sequence[Node], channels: Sequence[int] | None = None) -> list[Node]:
    """What a method computes of texels at positions: some channels, or all."""
    grid, source = texels.grid, texels.source
    wanted = range(grid.channels) if channels is None else channels
    if state.flags & _FLAGS != _FLAGS or grid.static or texels.border is not None or texels.decode is not None or \
            source.kind == _LITERAL or source.kind == _BOUND or tracked(source) is not None or \
            any(tracked(position) is not None for position in positions):
        values = _METHODS[method](texels, positions)
        return [values[channel] for channel in wanted]
    payload = method, grid.channels, int(grid.large), *grid.code
    operands = source, *positions, *grid.counts, texels.mask
    found: list[Node] = traced_each(_KINDS[len(positions)], grid.type, operands, wanted, payload)
    return found


for _dimension in (1, 2, 3):
    _KINDS[_dimension] = composed_row(
        f"lookup{_dimension}", "A channel of a texture: texels, position, number of texels along each axis, mask.",
        _dimension, _dimension, 40 << _dimension, _expansion, _again)
