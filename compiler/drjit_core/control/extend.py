"""Loops that do more than they were traced for: they count their iterations, and keep the state that each begins with.

The region is not traced once more: the new one has the same nodes, and a few of its own. A program has one of both
loops only; where that is not sure, the region is made anew.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from weakref import ref

from ..codegen.target import limits
from ..ir.build import append, bound, counter, literal, new_formal, undefined
from ..ir.dual import primal
from ..ir.extension import Extension
from ..ir.extents import size_of, sized_as
from ..ir.node import Node
from ..ir.region import OWN, Control, Loop, Region
from ..ir.symbolic import innermost
from ..ir.trace import gather, ops
from ..ops.table import CAST, DUAL, KIND, LITERAL, LOCAL, LOOP, PHI, RESULT, SCATTER
from ..types import BOOL, TYPES, UINT32, UINT64, ReduceMode, ReduceOp
from .inline import TRUE
from .rewrite import Rewriter

__all__ = ["Counted", "construct_of", "fits", "most_iterations", "pruned"]

_ADD, _AND, _FMA, _LT, _LE, _GT, _GE = (KIND[name] for name in ("add", "and_", "fma", "lt", "le", "gt", "ge"))
_IDENTITY, _NO_CONFLICTS = ReduceOp.Identity.value, ReduceMode.NoConflicts.value
#: Beyond so many iterations, that a loop takes no more is no reason to make room for all of them.
_MOST_KNOWN = 64


def construct_of(results: Sequence[Node], given: Iterable[Node]) -> Node | None:
    """The loop, branch or call that all of some results are of, but for those that it was given, if it has no effects
    and stands where the program is being traced."""
    known = [primal(node) for node in given if node.kind == RESULT or node.kind == DUAL]
    found: Node | None = None
    for node in results:
        if node.kind == RESULT and not [other for other in known if other is node]:
            if found is not None and node.d0 is not found:
                return None
            found = node.d0
    region = innermost()
    if found is None or found.scope != (0 if region is None else region.id):
        return None
    control: Control = found.payload
    return None if control.writes else found


def _entries(most: int) -> int:
    """Entries of local memory for so many iterations: one more at least, for what is beyond; few kernels differ."""
    return 1 << most.bit_length()


def fits(loop: Node, most: int) -> bool:
    """Whether the variables of so many iterations are kept in local memory."""
    count, local = _bytes(loop.payload.region.formals, most), limits(loop.where).local
    return count <= local.array and _together.bytes() + count <= local.together


def _bytes(formals: Iterable[Node], most: int) -> int:
    """Bytes of local memory for some variables of so many iterations, for each element."""
    return _entries(most) * sum(TYPES[formal.type].size for formal in formals)


class _Together(threading.local):
    """The bytes of local memory that there are, for each element, in loops of a thread that are still there."""

    def __init__(self) -> None:
        self._loops: dict[int, tuple[ref[Node], int]] = {}

    def bytes(self) -> int:
        """How many there are."""
        return sum([count for _, count in list(self._loops.values())])

    def add(self, loop: Node, count: int) -> None:
        """Count the bytes of a loop, until it is gone; or as many as it has now."""
        loops, number = self._loops, loop.id
        loops[number] = ref(loop, lambda _: loops.pop(number, None)), count


_together = _Together()


def pruned(loop: Loop, positions: Collection[int]) -> tuple[Loop, list[int]]:
    """A loop of the same nodes that computes some of the variables, and those that these and the condition need; and
    the positions that its variables had."""
    before, kept, more = loop.region, set(positions), True
    while more:
        finals = [loop.finals[position] for position in sorted(kept)]
        region = Region(before.id, before.formals, before.masks, (before.results[0], finals))
        used = {position for position, formal in enumerate(before.formals) if formal in region.used}
        more = not used <= kept
        kept |= used
    found = sorted(kept)
    region.formals = tuple([before.formals[position] for position in found])
    return Loop((region,), [loop.initial[position] for position in found], loop.label, loop.trips), found


class Counted:
    """A loop without effects that counts its iterations as well.

    ``most`` says for how many of them it keeps some of its variables, if it does (by ``positions``): in local memory,
    as far as that is not too much, and not forbidden (``apart``). ``anew``: another loop has the nodes already.
    """

    def __init__(self, loop: Node, most: int | None = None, positions: Collection[int] = (), *, apart: bool = False,
                 anew: bool = False) -> None:
        payload: Loop = loop.payload
        region = Rewriter({}).region(payload.region) if anew else payload.region
        self.loop = loop
        self.most = most
        entries = 0 if most is None else _entries(most)
        self.local = not apart and most is not None and fits(loop, most)
        formals, finals, initial = list(region.formals), list(region.results[1]), list(payload.initial)
        iteration = self._formal(region, UINT32, loop.size, len(formals), memory=False)
        formals.append(iteration)
        initial.append(literal(UINT32, 0))
        finals.append(append(_ADD, UINT32, loop.size, iteration, literal(UINT32, 1), scope=region.id))
        if most is not None:
            index, mask = iteration, region.masks[1]
            if not self.local:
                inside = append(_LT, BOOL, loop.size, iteration, literal(UINT32, most), scope=region.id)
                mask = append(_AND, BOOL, max(inside.size, mask.size), inside, mask, scope=region.id)
                factors = self._factors(iteration)
                index = append(_FMA, factors[1].type, loop.size, *factors, scope=region.id)
            for position in sorted(positions):
                variable = region.formals[position]
                if self.local:
                    room, kind = append(LOCAL, variable.type, entries, loop.d0, scope=loop.scope), OWN
                else:
                    room, kind = undefined(variable.type, max(most, 1) * size_of(loop), loop.where), True
                memory = self._formal(region, variable.type, room.size, len(formals), memory=kind)
                if not self.local:
                    sized_as(memory, (room,))
                formals.append(memory)
                initial.append(room)
                finals.append(append(SCATTER, variable.type, room.size, memory, variable, index, mask, _IDENTITY,
                                     _NO_CONFLICTS, scope=region.id))
        self.node = append(LOOP, BOOL, loop.size, loop.d0, scope=loop.scope, where=loop.where)
        self._become(region, formals, finals, initial)
        results = []
        for place in range(len(region.formals), len(formals)):
            formal, final = formals[place], finals[place]
            results.append(append(RESULT, final.type, final.size if formal.payload else loop.size, self.node, None,
                                  None, None, place, formal.payload, loop.scope))
        #: How many iterations each element has taken; and what the variables were, as far as that is kept, by their
        #: positions.
        self.number = results[0]
        self.kept: dict[int, Node] = {position: results[1 + k] for k, position in enumerate(sorted(positions))}
        self.node.payload.outputs += map(ref, results)
        if self.local:
            _together.add(self.node, _bytes(results[1:], most or 0))

    @staticmethod
    def _formal(region: Region, type_: int, size: int, position: int, *, memory: int) -> Node:
        return sized_as(new_formal(type_, size, position, memory, region.id), region.masks)

    def _factors(self, iteration: Node) -> tuple[Node, Node, Node]:
        """Operands of the multiply-add that tells where an element keeps something."""
        assert self.most is not None
        width = size_of(self.loop)
        scalar = UINT32 if self.most * self.loop.size < 1 << 32 else UINT64
        if scalar != UINT32:
            iteration = append(CAST, scalar, iteration.size, iteration, scope=iteration.scope)
        return iteration, bound(scalar, width), counter(width, scalar, self.loop.where)

    def _become(self, region: Region, formals: Sequence[Node], finals: Sequence[Node],
                initial: Sequence[Node]) -> None:
        before: Loop = self.loop.payload
        self.node.payload = loop = Loop((Region(region.id, formals, region.masks, (region.results[0], finals)),),
                                        initial, before.label, before.trips)
        loop.extension = Extension(self.loop, None, {place: place for place in range(len(before.initial))})

    def state(self, iteration: Node) -> dict[int, Node]:
        """What the variables were at the beginning of an iteration, as far as that is kept, by positions."""
        index = iteration if self.local else ops.fma(*self._factors(iteration))
        return {position: gather(version, index, TRUE) for position, version in self.kept.items()}

    def keep(self, positions: Collection[int]) -> None:
        """Keep some of the variables only."""
        if len(positions) == len(self.kept):
            return
        payload: Loop = self.node.payload
        first = len(payload.initial) - len(self.kept)
        self.kept, before = {position: self.kept[position] for position in sorted(positions)}, list(self.kept)
        chosen = [*range(first), *[first + before.index(position) for position in self.kept]]
        self._become(payload.region, *[[sequence[place] for place in chosen]
                                       for sequence in (payload.region.formals, payload.finals, payload.initial)])
        for number, version in enumerate(self.kept.values()):
            version.attr = first + number
        if self.local:
            _together.add(self.node, _bytes(self.kept.values(), self.most or 0))
        self.node.payload.outputs += map(ref, [self.number, *self.kept.values()])


def most_iterations(loop: Loop) -> int | None:
    """How many iterations a loop takes at most, if its condition tells: it compares a variable that grows steadily with
    a constant."""
    region, bounds, stack = loop.region, [], [loop.condition]
    while stack:
        test = stack.pop()
        if test.kind == _AND:
            stack += [operand for operand in (test.d0, test.d1) if operand is not None]
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
            if one is formal and other is not None and other.kind == LITERAL and other.payload > 0:
                return int(other.payload)
    return 0
