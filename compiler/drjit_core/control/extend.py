"""Loops that do more than they were traced for: they count their iterations, and keep the state that each begins with.

The region is not traced once more: the new one has the same nodes, and a few of its own. What the loop computes is
computed by the new one from then on, so that both never run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from weakref import ref

from ..ir.build import append, bound, counter, literal, undefined
from ..ir.extents import size_of, sized_as
from ..ir.node import Node
from ..ir.region import Loop, Region
from ..ops.table import CAST, KIND, LITERAL, LOOP, PHI, RESULT, SCATTER
from ..types import BOOL, TYPES, UINT32, UINT64, ReduceMode, ReduceOp

__all__ = ["Counted", "loop_of", "most_iterations", "place"]

_ADD, _AND, _FMA, _LT, _LE, _GT, _GE = (KIND[name] for name in ("add", "and_", "fma", "lt", "le", "gt", "ge"))
#: Beyond so many iterations, that a loop takes no more is no reason to make room for all of them.
_MOST_KNOWN = 64


def loop_of(results: Sequence[Node]) -> Node | None:
    """The loop, outside of all regions, that some of its results tell, if it has no effects."""
    for node in results:
        if node.kind == RESULT:
            loop = node.d0
            return loop if loop is not None and loop.kind == LOOP and not loop.scope and not loop.payload.writes else \
                None
    return None


def place(iteration: Node, loop: Node, most: int) -> tuple[Node, ...]:
    """The operands of a multiply-add that tells where an element keeps something, of as many iterations at most."""
    width = size_of(loop)
    scalar = UINT32 if most * loop.size < 1 << 32 else UINT64
    if scalar != UINT32:
        iteration = append(CAST, scalar, iteration.size, iteration, scope=iteration.scope)
    return iteration, bound(scalar, width), counter(width, scalar)


class Counted:
    """A loop without effects that counts its iterations as well.

    ``most`` says for how many of them it keeps its variables, if it does.
    """

    def __init__(self, loop: Node, most: int | None = None) -> None:
        payload: Loop = loop.payload
        region = payload.region
        self.loop = loop
        formals, finals, initial = list(region.formals), list(payload.finals), list(payload.initial)
        iteration = self._formal(region, UINT32, loop.size, len(formals), memory=False)
        one = literal(UINT32, 1)
        formals.append(iteration)
        initial.append(literal(UINT32, 0))
        finals.append(append(_ADD, UINT32, loop.size, iteration, one, scope=region.id))
        if most is not None:
            inside = append(_LT, BOOL, loop.size, iteration, literal(UINT32, most), scope=region.id)
            live = region.masks[1]
            mask = append(_AND, BOOL, max(inside.size, live.size), inside, live, scope=region.id)
            factors = place(iteration, loop, most)
            index = append(_FMA, factors[1].type, loop.size, *factors, scope=region.id)
            for variable in region.formals:
                room = undefined(variable.type, max(most, 1) * size_of(loop))
                memory = self._formal(region, variable.type, room.size, len(formals), memory=True)
                sized_as(memory, (room,))
                formals.append(memory)
                initial.append(room)
                finals.append(append(SCATTER, variable.type, room.size, memory, variable, index, mask,
                                     ReduceOp.Identity.value, ReduceMode.NoConflicts.value, scope=region.id))
        self.node = append(LOOP, BOOL, loop.size, loop.d0, scope=loop.scope)
        self._become(formals, finals, initial)
        results = [append(RESULT, final.type, final.size if formal.payload else loop.size, self.node, attr=position,
                          payload=formal.payload) for position, (formal, final) in enumerate(
                              zip(formals, finals, strict=True)) if position >= len(region.formals)]
        #: How many iterations each element has taken; and what the variables were, if that is kept.
        self.number, self.kept = results[0], results[1:]
        self.node.payload.outputs += map(ref, results)

    @staticmethod
    def _formal(region: Region, type_: int, size: int, position: int, *, memory: bool) -> Node:
        return sized_as(append(PHI, type_, size, attr=position, payload=memory, scope=region.id), region.masks)

    def _become(self, formals: Sequence[Node], finals: Sequence[Node], initial: Sequence[Node]) -> None:
        before: Loop = self.loop.payload
        region = Region(before.region.id, formals, before.region.masks, (before.region.results[0], finals))
        self.node.payload = Loop((region,), initial, before.label, before.trips)

    def keep(self, positions: Collection[int]) -> None:
        """Keep some of the variables only."""
        payload: Loop = self.node.payload
        first = len(payload.initial) - len(self.kept)
        chosen = [*range(first), *(first + position for position in sorted(positions))]
        self._become(*([sequence[place_] for place_ in chosen]
                       for sequence in (payload.region.formals, payload.finals, payload.initial)))
        for number, position in enumerate(sorted(positions)):
            self.kept[position].attr = first + number
        self.node.payload.outputs += map(ref, [self.number, *(self.kept[position] for position in sorted(positions))])

    def take_over(self) -> list[Node]:
        """Compute the results of the loop from now on; returns those that exist and have not been evaluated."""
        results = [result for reference in self.loop.payload.outputs if (result := reference()) is not None
                   and result.kind == RESULT and result.d0 is self.loop]
        for result in results:
            result.d0 = self.node
            self.node.payload.outputs.append(ref(result))
        return results


def most_iterations(loop: Loop) -> int | None:
    """How many iterations a loop takes at most, if its condition tells: it compares a variable that grows steadily with
    a constant."""
    region, bounds, stack = loop.region, [], [loop.condition]
    while stack:
        test = stack.pop()
        if test.kind == _AND:
            stack += (test.d0, test.d1)
            continue
        found = _comparison(test, region.formals)
        if found is None:
            continue
        position, limit = found
        first, step = loop.initial[position], _step(loop.finals[position], region.formals[position])
        if step and first.kind == LITERAL and limit + step <= TYPES[first.type].maximum:  # else it may start over
            bounds.append(max(0, -(-(limit - first.payload) // step)))
    most = min(bounds, default=None)
    return most if most is not None and (most <= _MOST_KNOWN or loop.condition.kind != _AND) else None


def _comparison(test: Node, formals: Sequence[Node]) -> tuple[int, int] | None:
    """The variable that is compared with an upper limit, and the least value that is too large."""
    left, right = test.d0, test.d1
    if test.kind in (_GT, _GE):
        left, right = right, left
    elif test.kind not in (_LT, _LE):
        return None
    assert left is not None and right is not None
    if left.kind != PHI or right.kind != LITERAL or TYPES[right.type].kind not in "iu" or left not in formals:
        return None
    return formals.index(left), right.payload + (test.kind in (_LE, _GE))


def _step(final: Node, formal: Node) -> int:
    """What a variable grows by in each iteration; 0 if that is unknown, or it does not grow."""
    if final.kind == _ADD:
        for one, other in ((final.d0, final.d1), (final.d1, final.d0)):
            if one is formal and other is not None and other.kind == LITERAL and 0 < other.payload:
                return int(other.payload)
    return 0
