"""Positions of the elements of views: for reads by index, where a kernel cannot go over a view row by row.

The position of an element follows from its number by divisions: several times dearer than what rows do.
"""

from __future__ import annotations

import math
from typing import Any

from ..ir import build, trace
from ..ir.node import SHAPE, Node, forget
from ..math import floordiv
from ..ops.table import GATHER, VIEW
from ..types import BOOL, TYPES, UINT32, UINT64

__all__ = ["lower", "positions"]

#: Tags of literals: a view's base, and the extent and stride of its first axis.
_BASE, _AXIS = 16, 17


def positions(size: int, base: int, extents: tuple[int, ...], strides: tuple[int | None, ...],
              block: Node | None = None) -> Node:
    """Indices into an array of ``size`` elements, for each element of a view of it.

    Along an axis whose stride is ``None``, positions are those of ``block``.
    """
    count = math.prod(extents)
    scalar = UINT32 if max(count, size) <= 1 << 32 and (block is None or block.type != UINT64) else UINT64

    def number(value: int, tag: int) -> Node:  # negative ones wrap around
        return build.literal(scalar, value % (1 << TYPES[scalar].bits), 1, SHAPE, tag=tag)

    result: Node | None = None
    rest = build.counter(count, scalar)
    ops: Any = trace.ops
    for axis in range(len(extents) - 1, -1, -1):
        coordinate, stride = rest, strides[axis]
        if axis:
            extent = number(extents[axis], _AXIS + 2 * axis)
            rest = floordiv(rest, extent)
            coordinate = ops.sub(coordinate, ops.mul(rest, extent))
        if stride == 0:
            continue
        if stride is None:
            assert block is not None
            term = block if len(extents) == 1 else trace.gather(block, coordinate, build.literal(BOOL, True), True)
            term = trace.cast(term, scalar)
        else:
            term = coordinate if stride == 1 else ops.mul(coordinate, number(stride, _AXIS + 2 * axis + 1))
        result = term if result is None else ops.add(result, term)
    if result is None:
        return build.literal(scalar, base, count, SHAPE, tag=_BASE)
    return ops.add(result, number(base, _BASE)) if base else result


def lower(view: Node) -> None:
    """Make a view a read by index."""
    assert view.kind == VIEW and view.d0 is not None
    index = positions(view.d0.size, *view.payload)
    forget(view)
    view.kind, view.payload = GATHER, None
    view.d1, view.d2 = index, build.literal(BOOL, True)
