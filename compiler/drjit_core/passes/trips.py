"""How often loops repeat, where that is easily seen: those that count to a number."""

from __future__ import annotations

from ..ir.node import Node
from ..ir.region import Loop
from ..ops.table import KIND, LITERAL, PHI
from ..types import TYPES

__all__ = ["trips_of"]

_ADD, _AND, _LT, _LE, _GT, _GE = [KIND[name] for name in ("add", "and_", "lt", "le", "gt", "ge")]


def trips_of(loop: Loop) -> int:
    """About how often a loop repeats at most, as a power of two unless its maker knew; 0 if nobody knows.

    Recipes are for all loops of a structure that repeat about as often: hence the power of two.
    """
    if loop.trips:
        return loop.trips
    found, conditions = 0, [loop.regions[0].results[0][0]]
    while conditions:
        node = conditions.pop()
        if node.kind == _AND:
            conditions += [operand for operand in (node.d0, node.d1) if operand is not None]
            continue
        bound = 0
        if node.kind == _LT or node.kind == _LE:
            bound = _count(loop, node.d0, node.d1, node.kind == _LE)
        elif node.kind == _GT or node.kind == _GE:
            bound = _count(loop, node.d1, node.d0, node.kind == _GE)
        if bound and (not found or bound < found):
            found = bound
    return found and 1 << (found - 1).bit_length()


def _count(loop: Loop, counter: Node | None, limit: Node | None, reaches: bool) -> int:
    """How many steps a variable takes to a limit, which it may reach, if it always makes the same ones, and cannot wrap
    around."""
    region = loop.regions[0]
    if counter is None or limit is None or counter.kind != PHI or counter.scope != region.id or \
            limit.kind != LITERAL or TYPES[limit.type].kind not in "iu":
        return 0
    position = 0
    for formal in region.formals:
        if formal is counter:
            break
        position += 1
    else:  # a variable of a loop around this one, or a mask
        return 0
    final, initial, info = region.results[1][position], loop.initial[position], TYPES[limit.type]
    if final.kind != _ADD or final.d0 is None or final.d1 is None:
        return 0
    step = final.d1 if final.d0 is counter else final.d0
    if step.kind != LITERAL or (final.d0 is not counter and final.d1 is not counter):
        return 0
    if initial.kind != LITERAL and info.kind == "i":
        return 0
    first = int(initial.payload) if initial.kind == LITERAL else 0
    last, length = int(limit.payload) + reaches, int(step.payload)
    most = (1 << info.bits - (info.kind == "i")) - 1
    if not (first >= 0 and 0 < length <= most and last - 1 + length <= most):
        return 0
    return max(1, (last - first + length - 1) // length)
