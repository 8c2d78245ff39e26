"""Views of flat arrays while a frozen function is recorded: of whatever size the arrays of a call are.

There sizes are numbers that know how they follow from those of the arguments (:mod:`drjit_core.ir.extents`). Reading
such a number as an ordinary one would make the recording good for arrays of that size only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node, counter, gather, innermost, ops, state

from .._base.nodes import broadcast, index_type
from .._base.types import UINT32
from .lanes import TRUE

__all__ = ["alike", "are_extents", "joined", "repeated", "reversed_", "sliced", "tiled"]


def are_extents(*nodes: Node, least: int = 2) -> bool:
    """Whether the sizes of some nodes, with so many elements at least, are to be treated as such numbers."""
    return state.recording is not None and innermost() is None and not any(
        node.scope or node.size < least for node in nodes)


def alike(array: Any, function: str) -> list[Node]:
    """The components of an array, which are all as wide as each other."""
    nodes: list[Node] = array._nodes()
    if len({node.size for node in nodes}) == 1 and are_extents(*nodes):
        return nodes
    width = array._width(function)
    return [broadcast(node, width) if node.size else node for node in nodes]


def reversed_(node: Node) -> Node:
    """The elements in reverse order."""
    size: Any = core.size_of(node)
    return _taken(node, size - 1, -1, size)


def _taken(node: Node, start: Any, step: int, count: Any) -> Node:
    """So many elements at equal distances."""
    scalar = index_type(node.size)
    index = counter(count, scalar, node.where)
    if step != 1:  # negative steps wrap around
        index = ops.mul(index, core.literal(scalar, step % (1 << (32 if scalar == UINT32 else 64))))
    if start.__class__ is not int or start:
        index = ops.add(index, core.bound(scalar, start))
    return gather(node, index, TRUE, harmless=True)


def tiled(node: Node, count: int) -> Node:
    """Copies one after the other."""
    size: Any = core.size_of(node)
    scalar = index_type(node.size * count)
    return gather(node, ops.mod(counter(size * count, scalar, node.where), core.bound(scalar, size)), TRUE,
                  harmless=True)


def repeated(node: Node, count: int) -> Node:
    """Each element several times."""
    size: Any = core.size_of(node)
    scalar = index_type(node.size * count)
    return gather(node, core.floordiv(counter(size * count, scalar, node.where), core.literal(scalar, count)), TRUE,
                  harmless=True)


def sliced(node: Node, key: slice) -> Node | None:
    """The elements of a slice; ``None`` where there are none."""
    size: Any = core.size_of(node)
    step = 1 if key.step is None else key.step.__index__()
    first, last = (0, size) if step > 0 else (size - 1, -1)
    if not step:
        return None
    bounds = []
    for value, default in ((key.start, first), (key.stop, last)):
        found: Any = default
        if value is not None:
            found = value.__index__()
            least = 0 if step > 0 else -1
            if found < 0:
                found = size + found
                if found < least:
                    found = least
            if step > 0 and found >= size:
                found = size
            elif step < 0 and found > size - 1:
                found = size - 1
        bounds.append(found)
    start, stop = bounds
    distance = stop - start if step > 0 else start - stop
    if not distance > 0:
        return None
    if step == 1 and stop is size and start.__class__ is int and not start:  # the whole array, whatever its size
        return node
    count = (distance + (abs(step) - 1)) // abs(step)
    return _taken(node, start, step, count)


def joined(nodes: Sequence[Node]) -> Node:
    """The elements of several nodes, one after the other."""
    total: Any = 0
    places = []
    for node in nodes:
        places.append(total)
        total = total + core.size_of(node)
    scalar = index_type(sum(node.size for node in nodes))
    result = core.undefined(nodes[0].type, total)
    for node, place in zip(nodes, places, strict=True):
        index = counter(core.size_of(node), scalar, node.where)
        if place is not places[0]:
            index = ops.add(index, core.bound(scalar, place))
        result = core.scatter(result, node, index, TRUE, core.ReduceOp.Identity.value, core.ReduceMode.Auto.value,
                              harmless=True)
    core.schedule([result])
    return result
