"""Symbolic loops: the body is traced once and becomes a region of the graph.

The caller provides flat state; structure, labels and evaluation modes are the array layer's work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from ..context import current
from ..errors import IncompatibleSizes, SymbolicValue
from ..flags import OPTIMIZE_LOOPS
from ..ir.build import append, broadcast_size_of, invalid, nothing, where_of
from ..ir.deferred import BORROWED, hand_over
from ..ir.dual import primal
from ..ir.extents import common_size, size_of
from ..ir.labels import are_any, copy_labels
from ..ir.node import Node
from ..ir.region import Loop, MemoryAsValue, Region, is_local, is_version, needed_for, operands, origin_of
from ..ir.symbolic import call_site, innermost, scope_of_all
from ..ir.trace import is_simpler
from ..ops.table import BITCAST, CALL, CAST, COND, EVALUATED, FIRST_ELEMENTWISE, LITERAL, LOOP, PHI
from ..types import BOOL, TYPES
from .alike import check_alike
from .construct import Construct, Functions, Traced, raised_here, results_of, written_widths
from .demand import is_of_sizes
from .hoist import hoisted
from .inline import MAKERS, Again, computed_of
from .source import Source, depending

__all__ = ["MASKS", "repeated", "while_loop"]

_NONE: frozenset[int] = frozenset()
_EMPTY: list[Source] = []
#: Positions of the formals that are masks: of the elements that the condition is computed for, and the body.
MASKS = -1, -2


def while_loop(initial: Sequence[Node], condition: Callable[[list[Node]], Node],
               body: Callable[[list[Node]], list[Node]], label: str | None = None,
               name_of: Callable[[int], str] | None = None, variables: int = sys.maxsize,
               trips: int = 0, together: bool = False, differentiates: bool = False, presumed: int = 0,
               again: Again | None = None, memory: frozenset[int] = _NONE) -> list[Node]:
    """``while condition(*variables): variables = body(*variables)`` for every element, as part of the kernel.

    Both functions are called with nodes and return nodes of the same types.  They are called once, or again when it
    turns out that the loop is wider than its initial values; that some variables do not change and are better used
    directly (``JitFlag.OptimizeLoops``); or that some are *memory*: they are read or written by index, and have a size
    of their own.  Of what is in memory, the body must return a version that its writes have made.  The condition must
    not write.  ``name_of`` gives the names of variables by their positions, if a message needs one; from the position
    ``variables`` on they are arrays of the caller's that the body writes to, and it says which (``the array 'x'``).

    A body that writes to anything but its variables is an error here: the array layer, which knows what belongs to
    whom, passes such memory as variables.

    Where variables, or what the functions compute, have no elements, the loop has none: nothing happens, and the
    functions tell what they would have changed.

    In a region, a loop runs for the elements that take part, and its results depend on which; unless it has
    ``trips``: the caller vouches for it that the loop ends after about so many iterations, and writes nothing, whatever
    the region around it computes; 0 if nobody knows.

    A loop of one element whose body writes several values at once gets as many elements.  Elements know nothing of each
    other; if the caller means them ``together``, so that an iteration reads what the one before has written, what
    cannot be seen to do so is refused.

    The last variables, so many as are ``presumed``, are arrays of the caller's that the body perhaps changes. As long
    as it does not, it may look at their elements.

    Operations on duals are recorded if the loop ``differentiates``: by variables of the body's own, which no result is
    differentiated by. Others are :func:`drjit_core.derivatives.of_loops.repeat`'s work.

    If it is traced ``again``, that says what is known of it; positions of ``memory`` may be known by themselves.
    """
    return repeated(_Pair(condition, body, name_of), initial, label, variables, trips, together, differentiates,
                    presumed, again, memory)


def repeated(functions: Functions, initial: Sequence[Node], label: str | None = None, variables: int = sys.maxsize,
             trips: int = 0, together: bool = False, differentiates: bool = False, presumed: int = 0,
             again: Again | None = None, memory: frozenset[int] = _NONE) -> list[Node]:
    """:func:`while_loop`, whose condition and body are methods."""
    loop = _Loop(functions, initial, label, variables, trips, together, differentiates)
    if presumed:
        loop.presumed = frozenset(range(len(initial) - presumed, len(initial)))
    if memory:
        loop.memory |= memory
    if again is not None:
        loop.assume(again)
    return loop.trace()


class _Pair(Functions):
    """A condition and a body, and what messages call variables."""

    __slots__ = ("body", "condition", "names")

    def __init__(self, condition: Callable[[list[Node]], Node], body: Callable[[list[Node]], Sequence[Node]],
                 names: Callable[[int], str] | None) -> None:
        self.condition, self.body, self.names = condition, body, names

    def test(self, variables: list[Node]) -> Node:
        return self.condition(variables.copy())

    def following(self, variables: list[Node]) -> list[Node]:
        return list(self.body(variables.copy()))

    def name_of(self, position: int) -> str | None:
        return None if self.names is None else self.names(position)


class _Loop(Construct):
    """A loop that is being traced."""

    OUTSIDE = ("the body of a symbolic loop writes to an array that is not among its state variables. What a loop "
               "within it gets as state and writes to is another array than what was there before: pass the array in "
               "the state of the outer loop too, and return it from its body, or let the inner loop write to it "
               "without getting it as state.")
    AS_VALUE = ("the body of a symbolic loop writes to {} by index, and computes with all of its elements; there, only "
                "accesses by index know what they find. Use drjit.gather(), or run the loop with mode='evaluated'.")
    LOOKED_AT = ("the body of a symbolic loop looks at elements of {}, and changes it. What it finds then is what was "
                 "there before the loop, also in later iterations. Compute with the array, or use drjit.gather(); or "
                 "run the loop with mode='evaluated'.")
    READ_BEFORE = ("a symbolic loop within another one writes to {} by index, and reads what was there before it "
                   "began; symbolic loops make no copies of arrays. Read it before the inner loop, or run the outer "
                   "one with mode='evaluated'.")
    SAME_ARRAY = ("two state variables of a symbolic loop within another one are the same array, and {} is written to "
                  "by index; symbolic loops make no copies of arrays. Copy it before the outer loop, or run that with "
                  "mode='evaluated'.")

    def __init__(self, functions: Functions, initial: Sequence[Node], label: str | None, variables: int, trips: int,
                 together: bool, differentiates: bool) -> None:
        self.set_up("while_loop", "loop", functions, initial, label, variables, differentiates)
        self.trips = trips
        self.defers = not trips
        self.together = together
        self.note_local()
        #: Positions of variables that the body has changed once: whether it does may depend on their width.
        self.changed = _NONE
        #: Whether a trace refers to what stands for variables that are constant.
        self.kept = False
        #: Positions of variables that the body has given the literal that they are.
        self.reassigned = _NONE
        #: Whether it is wide only for the sake of what it writes.
        self.uniform = False
        #: The widths of writes in the body before it was.
        self.single: list[int] = []
        #: How wide the first trace is at least; 0 if nothing is known of that.
        self.least = 0
        #: What went wrong with sizes that may have been those of variables that are left alone.
        self.misfit: Exception | None = None
        #: How wide the loop was in that trace.
        self.misfitting = 0
        # Of a trace:
        self.size = 0
        self.variables: list[Node]
        self.test: Node
        self.results: list[Node]

    def note_local(self) -> None:
        """Note which variables are memory in any case."""
        for i, value in enumerate(self.given):
            if is_local(value):
                self.memory |= {i}

    def assume(self, again: Again) -> None:
        """Begin with what is known of the loop."""
        self.memory |= again.memory
        self.constant = again.same if current().flags & OPTIMIZE_LOOPS else again.same & again.memory
        outer = innermost()
        live = None if outer is None else outer.live
        if outer is not None and outer.uniform:
            return  # how wide it is depends on which of its writes are meant for each element
        values = [*self.but(self.memory, self.given), *again.captures]
        try:
            self.least = broadcast_size_of("while_loop", values)
        except IncompatibleSizes:
            return
        if again.writes and live is not None and live.size > 1:
            self.least = max(self.least, live.size)
        elif again.single and self.least > 1:
            self.uniform, self.single = True, list(again.single)
        if self.least > 1:
            self.wide = common_size(self.least, (*values, live))

    def trace(self) -> list[Node]:
        """Trace until nothing new turns out; returns what the variables are after the loop."""
        try:
            return self.repeat()
        finally:
            self.misfit = None  # its frames lead back to this one

    def repeat(self) -> list[Node]:
        # Zero stands for a trace that finds out which variables are left alone, or are memory: their sizes do not
        # matter. In it, each variable has its own size.
        size = self.width()
        outer = innermost()
        if not self.least and size == 1 and outer is not None and not outer.cautious and outer.live is not None and \
                not outer.uniform and not self.trips:  # probably it is as wide as what is around it
            outer.relied = True
            self.least, self.wide = outer.live.size, common_size(outer.live.size, (outer.live,))
        if size and self.least > size:
            size = self.least
        probed, narrowed, grown, known = not size, False, self.least > 1, False
        region: Region
        while True:
            again, known = not known, False
            if again:
                self.attempt(size)
                if self.finds_memory():
                    size = self.width() if size else 0
                    continue
                if self.failure is None and self.settles():
                    continue
                if self.failure is not None:
                    if not self.tries_again(size, probed or size <= 1):
                        probed, size = True, 0
                    continue
                self.add_borrowed()
                if self.borrowed:
                    self.results += [self.traced[0].latest[formal.id] for formal in self.variables[len(self.given):]]
                unchanged = self.unchanged()
                one = self.traced[0]
                if one.latest:
                    self.check_versions(one)
                self.check_memory(unchanged)
            apart = self.constant | self.memory if self.constant and self.memory else self.constant or self.memory
            if not size:
                self.constant = self.constant - self.but_arrays(self.constant) | self.but_arrays(unchanged)
                size = self.width(strict=True)
                continue
            fresh = unchanged - self.constant if self.constant else unchanged
            if fresh and not current().flags & OPTIMIZE_LOOPS:
                fresh &= self.memory
            # The caller's arrays come last: whether a write to them remains may depend on what else is constant.
            fresh = self.but_arrays(fresh) or fresh
            try:
                if again or fresh or self.kept:
                    region = self.region(fresh)
            except MemoryAsValue as error:
                alone = frozenset([origin_of(error.node, self.traced[0].region.id).attr]) & fresh
                self.constant |= alone  # what is read by index and left alone is an array from outside
                if alone or self.has_deferred():  # what is left alone within is taken for used
                    continue
                raise self.used_as_value(error.node) from None
            try:
                needed = self.needed(region, apart)
                if not needed:
                    alone = self.left_alone(unchanged)
                    if not alone:
                        return self.of_nothing(unchanged)
                    self.constant |= alone
                    size = self.width(strict=True)
                    continue
            except IncompatibleSizes:
                if probed or size <= 1:
                    if self.misfit is not None:  # it knows where
                        raise self.misfit from None
                    raise
                probed, size = True, 0
                continue
            if region.writes and outer is not None and outer.live is not None:  # each element that takes part writes
                needed = max(needed, outer.live.size)
            if needed != size:
                values = [*self.but(apart, self.initial), self.test, *self.but(apart, self.results)]
                self.uniform = needed > size == broadcast_size_of("while_loop", values) == 1 and \
                    (outer is None or outer.live is None or outer.live.size == 1)
                if self.uniform:
                    self.single = self.traced[0].region.widths
                if not self.uniform and self.leaves_trace(needed):
                    return self.finish(self.region(), needed)
                grown = True
                size, self.wide = needed, common_size(needed, (
                    *values, *written_widths(region), None if outer is None else outer.live))
            elif fresh:
                if self.leaves_trace(size):
                    return self.finish(self.region(), size)
                self.constant |= fresh
                known = not self.uses(region, fresh) or self.puts_in(region, fresh)
            elif self.constant and not self.constant <= unchanged:
                self.changed |= self.constant - unchanged
                self.constant -= self.changed
            else:
                # Variables that turned out to be left alone may have made it wider than what remains. What the body
                # captures proves the contrary if it was there before, and is no constant: these may be as wide as the
                # variables they were made from. So may be what follows from a size alone, if the body asked for one:
                # a counter that it makes is the one that was there before.
                found = outer.live.size if region.writes and outer is not None and outer.live is not None else 1
                for i in range(len(self.initial)):
                    value = self.initial[i]
                    if value.size > found and i not in apart:
                        found = value.size
                entering = self.called[0].masks[0] if self.called else None
                asked = entering is not None and self.called[0].region.asked
                for value in region.captures:
                    if grown or value.kind == EVALUATED or value.kind != LITERAL and entering is not None and \
                            value.id < entering.id and not (asked and is_of_sizes(value)):
                        found = max(found, value.size)
                if found == size or narrowed:
                    if (self.kept or self.has_deferred()) and not self.leaves_trace(size):
                        continue
                    return self.finish(region, size)
                if not self.traced[0].region.asked and self.leaves_trace(size):
                    return self.finish(region, size)
                size, narrowed, self.wide = found, True, common_size(found, (
                    *self.but(apart, self.initial), *region.captures, None if outer is None else outer.live))

    def tries_again(self, size: int, probed: bool) -> bool:
        """Whether what was raised in a trace of a size may be due to what is known of variables, which changes. If not,
        it may be due to their width, unless that has been ``probed``; else it is raised."""
        if self.relied():
            return True
        written = self.constant & self.written_or_reassigned(self.traced[0].region.outside)
        if written and isinstance(self.failure, RuntimeError):
            # it may be due to a variable that is a literal now, and which functions write to by index; or to memory
            # that they did not write to where a mask was known
            self.failure = None
            self.changed |= written
            self.constant -= written
            return True
        assert self.failure is not None
        if probed or not (_about_sizes(self.failure) or self.may_be_narrower(self.failure)):
            # of two refusals, the first is the one that the user knows, unless the loop is not as wide as it was then;
            # other exceptions, such as the caller's request for another trace, say what they say
            if self.misfit is not None and not _about_sizes(self.misfit) and size in (0, self.misfitting) and \
                    isinstance(self.failure, RuntimeError):
                self.failure = self.misfit
            self.fail()
        # what does not go together may be the size of a variable that is left alone, or memory
        self.misfit, self.misfitting, self.failure = self.failure, size, None
        return False

    def settles(self) -> bool:
        """Whether it has turned out which arrays from outside are variables, which takes another trace."""
        if self.traced is not self.called:
            return False
        (traced,) = self.called
        if traced.region.read:
            self.check_read(traced, traced.region.read)
            traced.region.again |= not traced.region.perhaps_read.isdisjoint([
                *[before.id for _, before, *_ in traced.adopted],
                *[self.variables[i].id for i in self.presumed if self.results[i] is not self.variables[i]]])
        if traced.region.measured and self.is_wider(traced):
            traced.region.again = True
        presumed, self.presumed = self.presumed, _NONE
        if not presumed:
            return self.adopts()
        first = len(self.given) - len(presumed)
        same: dict[int, Node] = {}
        for i in presumed:
            stand = self.variables[i]
            self.stands[stand.id] = self.results[i] is not stand
            if self.results[i] is stand:
                same[stand.id] = traced.results[i] = self.given[i]
            elif is_version(self.results[i]):
                self.memory |= {i}
        self.constant |= frozenset([i for i in presumed if self.results[i] is self.variables[i]])
        if self.adopts():
            return True
        if len(same) == len(presumed):
            if put_back(same, traced, self.test, self.results[:first]):
                self.variables[first:] = self.results[first:] = self.given[first:]
                return False
            outer = innermost()
            if outer is not None and outer.defers:
                self.kept = True
                return False
        return True

    def is_wider(self, traced: Traced) -> bool:
        """Whether arrays from outside have another number of elements after an iteration than the program has found."""
        changed = [(before, after) for _, before, _, after in traced.adopted]
        changed += [(self.variables[i], self.results[i]) for i in self.presumed]
        return bool([before for before, after in changed
                     if before.size != after.size and before.id in traced.region.measured])

    def check_read(self, traced: Traced, read: frozenset[int]) -> None:
        """Refuse to change arrays from outside whose elements the program has looked at."""
        for number, before, *_ in traced.adopted:
            if before.id in read:
                raise self.refusal(self.LOOKED_AT.format(self.name(self.first_array + number)))
        for i in self.presumed:
            if self.variables[i].id in read and self.results[i] is not self.variables[i]:
                raise self.refusal(self.LOOKED_AT.format(self.name(i)))

    def unchanged(self) -> frozenset[int]:
        """Positions of variables that the body leaves alone, or gives the literal that they are, and has never changed.
        """
        found = []
        for i, variable in enumerate(self.variables):
            result = self.results[i]
            if result is variable:
                found.append(i)
            elif result.kind == LITERAL and result is self.initial[i]:
                self.reassigned |= {i}
                found.append(i)
        if not found:
            return _NONE
        return frozenset(found) - self.changed if self.changed else frozenset(found)

    def written_or_reassigned(self, outside: frozenset[int]) -> frozenset[int]:
        """Positions of memory that was written to as an array from outside, of all if that is not known, and of
        variables that the body has given the literal that they are."""
        if not outside:
            return self.reassigned
        written = frozenset([i for i in self.memory if primal(self.given[i]).id in outside])
        return self.reassigned | (written or self.memory)

    def uses(self, region: Region, positions: frozenset[int]) -> bool:
        """Whether the functions do more with some variables than leave them alone; if they do not, the region that was
        traced has these no more."""
        traced = self.traced[0]
        if self.statements or traced.adopted or traced.latest:
            return True
        for i in positions:
            variable = self.variables[i]
            if variable in region.used:
                return True
        region.formals = tuple(self.but(self.constant, self.variables))
        return False

    def puts_in(self, region: Region, positions: frozenset[int]) -> bool:
        """Let what some variables are, which the functions leave alone, be in their place in the region that was
        traced, and what is computed of them alone be computed outside: whether that is all that another trace would
        do, since nothing that varies would be simpler."""
        traced = self.traced[0]
        if traced.region.taped or self.statements or traced.adopted or traced.latest or self.has_deferred() or \
                current().recording is not None:
            return False
        stands: dict[int, Node] = {}
        scope, differ = region.id, False
        for i in positions:
            formal, value = self.variables[i], self.given[i]
            if self.results[i] is not formal or formal.payload or value.size != formal.size and value.size != 1:
                return False
            differ = differ or value.kind == LITERAL or value.size != formal.size
            stands[formal.id] = value
        values = set(stands.values())
        if len(values) < len(stands) or region.recorded and not region.recorded.isdisjoint(
                [value.id for value in values]):
            return False
        users, choices, labelled = [], [], are_any()
        for part in region.parts:
            for node in part:
                if node.kind < FIRST_ELEMENTWISE and node.kind != CAST and node.kind != BITCAST:
                    if not stands.keys().isdisjoint([operand.id for operand in operands(node)]):
                        if differ or not _takes_as_arguments(node, stands):
                            return False
                        choices.append(node)
                    continue
                a, b, c, varies, size = node.d0, node.d1, node.d2, False, 1
                x = None if a is None else stands.get(a.id, a)
                y = None if b is None else stands.get(b.id, b)
                z = None if c is None else stands.get(c.id, c)
                if x is a and y is b and z is c:
                    continue
                for operand in (x, y, z):
                    if operand is not None:
                        varies, size = varies or operand.scope == scope, max(size, operand.size)
                if varies:
                    if size != node.size or is_simpler(node.kind, x, y, z, size):
                        return False
                    users.append((node, x, y, z))
                    continue
                value = computed_of(node, [operand for operand in (x, y, z) if operand is not None])
                if value in values:
                    return False
                if labelled:
                    copy_labels(value, node)
                values.add(value)
                stands[node.id] = value
        if self.test.id in stands:
            return False
        for i, result in enumerate(self.results):
            if result.id in stands and i not in positions:
                return False
        for node, x, y, z in users:
            node.d0, node.d1, node.d2 = x, y, z
        for node in choices:
            node.payload.initial = tuple([stands.get(value.id, value) for value in node.payload.initial])
        for i in positions:
            self.variables[i] = self.results[i] = traced.results[i] = self.given[i]
        alone = self.constant
        region.set_up(scope, self.but(alone, self.variables), region.masks,
                      ((self.test,), self.but(alone, self.results)))
        return True

    def but_arrays(self, positions: frozenset[int]) -> frozenset[int]:
        """Positions of variables, without those of the caller's arrays."""
        if not positions or self.first_array >= len(self.given):
            return positions
        return frozenset([i for i in positions if i < self.first_array])

    def may_be_narrower(self, failure: Exception) -> bool:
        """Whether a refusal of the library's may be due to variables of one element that were made wider for the sake
        of others, which are memory as it may turn out; what is wrong with a type is so in any width."""
        if not isinstance(failure, RuntimeError) or isinstance(failure, TypeError) or failure.__cause__ is not None:
            return False  # or a construct within has passed on what a function of the user's has raised
        return raised_here(failure) and any(
            value.size == 1 for value in self.but(self.constant | self.memory, self.initial))

    def nothing(self, value: Node) -> Node:
        """A node of its own stands for a variable without elements, which tells whether the body leaves it alone."""
        return nothing(value.type)

    def left_alone(self, unchanged: frozenset[int]) -> frozenset[int]:
        """Positions of variables without elements that the body leaves alone: they say nothing of its width."""
        return frozenset([i for i in unchanged - self.constant if not self.initial[i].size])

    def of_nothing(self, unchanged: frozenset[int]) -> list[Node]:
        """What the variables are after a loop without elements: what the body changes has none, either."""
        alone = unchanged | self.constant | self.memory
        return [value if i in alone else invalid(value.type) for i, value in enumerate(self.given)]

    def width(self, strict: bool = False) -> int:
        """Common size of the variables that have a value for each element; 0 if there is none.  If they have no
        elements, one is traced."""
        try:
            apart = self.constant | self.memory if self.constant and self.memory else self.constant or self.memory
            if self.presumed:
                apart = apart | self.presumed
            return broadcast_size_of("while_loop", self.but(apart, self.initial)) or 1
        except IncompatibleSizes:
            if strict:
                raise
            return 0

    def needed(self, region: Region, apart: frozenset[int]) -> int:
        """The number of elements of what it begins with, of what an iteration makes of that, and of what it writes."""
        if region.writes:
            return broadcast_size_of("while_loop", [*self.but(apart, self.initial), self.test, *self.but(
                apart, self.results), *written_widths(region)])
        size = self.test.size
        for i in range(len(self.initial)):
            before, after = self.initial[i], self.results[i]
            if (before.size != 1 and before.size != size or after.size != 1 and after.size != size) and i not in apart:
                if size != 1:
                    raise IncompatibleSizes("while_loop", tuple([node.size for node in (
                        *self.but(apart, self.initial), self.test, *self.but(apart, self.results))]))
                size = broadcast_size_of("while_loop", (before, after))
        return size

    def but(self, left_out: frozenset[int], nodes: Sequence[Node]) -> Sequence[Node]:
        return nodes if not left_out else [node for i, node in enumerate(nodes) if i not in left_out]

    def attempt(self, size: int) -> None:
        """Trace condition and body once."""
        sources = self.recall(size or 1, self.uniform) if self.called else _EMPTY
        self.begin()
        self.kept = False
        traced = self.enter(size, size or 1, MASKS)
        traced.region.uniform, traced.region.single = self.uniform, self.single
        traced.source = sources[0] if sources else None
        self.variables = traced.formals
        if self.run(traced):
            self.results = traced.results[:]
        elif sources:  # the user's functions know what is wrong, and where
            self.forget("what they left cannot be traced again")
            self.attempt(size)
            return
        if not sources and self.failure is None:
            self.called, self.size, self.stands = self.traced, size, {}

    def trace_into(self, traced: Traced) -> None:
        """Trace the condition, then the body."""
        region, (entering, live), source = traced.region, traced.masks, traced.source
        region.entering = region.live = entering
        if source is None:
            self.test = self.functions.test(self.variables)
            if self.differentiates:
                self.test = primal(self.test)
        else:
            values = source.values(region, self.variables, traced.masks)
            (self.test,) = source.trace(0, values)
        _check_condition(self.test)
        region.live = live
        if source is None:
            traced.results = self.values(self.functions.following(self.variables), self.differentiates)
        else:
            traced.results = source.trace(1, values)
        self.check_results(traced.results, len(region.adopted))
        scope_of_all((self.test,))
        traced.test = self.test

    def source_of(self, traced: Traced) -> Source:
        assert traced.test is not None
        return Source(traced.region.id, traced.formals[:len(self.given)], traced.masks, traced.lent, traced.statements,
                      ((traced.test,), traced.results), traced.latest.values(), self.size, True, self.stands)

    def check_results(self, results: Sequence[Node], adopted: int) -> None:
        """Refuse results that are no state, followed by arrays that have just turned out to be."""
        if len(results) != len(self.given) + adopted:
            raise ValueError(f"while_loop(): the body returned {len(results) - adopted} variables, the loop has "
                             f"{len(self.given)}")
        for i, before in enumerate(self.given):
            after = results[i]
            if before.type != after.type:
                raise TypeError(f"while_loop(): the type of state variable {i} changed from {TYPES[before.type].name} "
                                f"to {TYPES[after.type].name} in the loop's body")

    def check_versions(self, traced: Traced) -> None:
        """Refuse older versions of what was written to: regions make no copies of memory."""
        for i, formal in enumerate(self.variables):
            result = self.results[i]
            if formal.id in traced.latest and result is not traced.latest[formal.id] and (
                    result is formal or is_version(result) and origin_of(result, traced.region.id) is formal):
                raise SymbolicValue(
                    f"{call_site('while_loop')}(): the body of a symbolic loop writes by index to {self.name(i)}, or "
                    "to a copy of it, but returns an older copy, without that write; symbolic loops keep no older "
                    "contents of arrays. Return the array that was written to, or run the loop with "
                    "mode='evaluated'.")

    def check_memory(self, unchanged: frozenset[int]) -> None:
        """Refuse memory that the body gives other values than by writes."""
        traced = self.traced[0]
        id_ = traced.region.id
        for i in self.memory - unchanged if self.memory else ():
            formal, result = self.variables[i], self.results[i]
            origin = origin_of(result, id_)
            if origin is formal and is_version(result):
                continue
            if origin.kind == PHI and origin.scope == id_ and 0 <= origin.attr < self.first_array:
                raise self.exchanged(i, origin)
            raise NotImplementedError(
                f"{call_site('while_loop')}(): {self.name(i)} is accessed by index and given "
                "other values in one symbolic loop; only writes by index can change such a variable. Run the "
                "loop with mode='evaluated'.")
        if self.test.scope == id_ and is_version(self.test):
            raise self.used_as_value(self.test)
        for i, result in enumerate(self.results):
            if result.scope == id_ and is_version(result) and i not in self.memory:
                origin = origin_of(result, id_)
                raise self.exchanged(i, origin) if origin.attr < self.first_array else self.used_as_value(result)

    def exchanged(self, position: int, formal: Node) -> NotImplementedError:
        """What is wrong with a body that returns another variable, its formal, in the place of one."""
        return NotImplementedError(
            f"{call_site('while_loop')}(): the body of a symbolic loop returns {self.name(formal.attr)} in the place "
            f"of {self.name(position)}, and accesses elements of them by index. Which of these arrays is which would "
            "depend on the number of iterations, which nobody knows before the loop has run. Keep both in one array, "
            "one behind the other, and exchange the positions at which they begin; or run the loop with "
            "mode='evaluated'.")

    def used_as_value(self, version: Node) -> SymbolicValue:
        """What is wrong with a body that computes with the elements of what it writes to by index."""
        return self.refusal(self.AS_VALUE, origin_of(version, version.scope))

    def name(self, position: int) -> str:
        name = super().name(position)
        return name if position >= self.first_array else f"the state variable '{name}'"

    def region(self, alone: frozenset[int] = _NONE) -> Region:
        """The region that was traced, without the results of variables that are left alone."""
        traced = self.traced[0]
        left_out = self.constant
        return Region(traced.region.id, self.but(left_out, self.variables), traced.masks,
                      ((self.test,), self.but(left_out | alone if alone else left_out, self.results)))

    def finish(self, region: Region, size: int) -> list[Node]:
        """Make the loop's node, and those of its results."""
        left_out = self.constant
        initial = self.but(left_out, self.initial)
        if self.uniform and self.together:
            for formal in region.formals:
                if formal.payload and formal.attr != BORROWED:
                    check_alike(region, size_of(region.masks[0]), self.name(formal.attr), formal)
        if self.test.kind == LITERAL and not self.test.payload:
            return list(self.given)
        if not initial:
            hand_over(self.statements)
            return list(self.given)
        outer = innermost()
        deferred = outer is not None and outer.deferred and self.traced is self.called
        self.check_memory_of((region,), initial, deferred)
        mask = None if outer is None else outer.live
        used = [*initial, *region.captures, *region.sources]
        scope = scope_of_all(used)
        if mask is not None:
            if self.trips and not scope:
                mask = None
            elif size in (1, mask.size) or mask.size == 1:
                scope = scope_of_all((mask,))
            elif scope:
                raise IncompatibleSizes("while_loop", (mask.size, size))
            else:
                mask = None  # of another width, and independent: a loop before the enclosing one
        if region.accesses and current().flags & OPTIMIZE_LOOPS and not deferred:
            region = hoisted(region, initial, mask)
            used = [*initial, *region.captures, *region.sources]
        loop = Loop((region,), initial, self.label, self.trips, self.single if self.uniform else ())
        outputs = results_of(append(LOOP, BOOL, size, mask, None, None, None, 0, loop, scope,
                                         where_of("while_loop", used)))
        if left_out:
            results = iter(outputs)
            outputs = [value if i in left_out else next(results) for i, value in enumerate(self.initial)]
        if deferred:
            outputs = [self.given[i] if self.results[i] is variable else outputs[i]
                       for i, variable in enumerate(self.variables)]
        if not self.statements:
            return outputs
        self.settle(outputs[len(self.given):])
        return outputs[:len(self.given)]


def _takes_as_arguments(node: Node, stands: dict[int, Node]) -> bool:
    """Whether what uses some nodes, given by their ids, is a branch or call whose arguments they are, and nothing else:
    its functions know formals, whatever these stand for, if it is still not one value in two places."""
    if node.kind != COND and node.kind != CALL:
        return False
    choice = node.payload
    others = [node.d0, node.d1, node.d2, *choice.memory(), *choice.sources(),
              *[capture for region in choice.regions for capture in region.captures]]
    if not stands.keys().isdisjoint([other.id for other in others if other is not None]):
        return False
    return len({stands.get(value.id, value) for value in choice.initial}) == len(set(choice.initial))


def put_back(stands: dict[int, Node], traced: Traced, test: Node, results: Sequence[Node]) -> bool:
    """Let what was told apart, given by its ids, be what it stands for wherever a region uses it: whether that is all
    that another trace would do, since nothing that is computed of it would be known or simpler."""
    scope, outside = traced.region.id, [test, *results]
    for part in needed_for(scope, [*traced.formals, *traced.masks], ((test,), [*results, *traced.latest.values()])):
        for node in part:
            if node.kind < FIRST_ELEMENTWISE:
                outside += [operand for operand in operands(node) if operand.scope != scope]
                continue
            a, b, c = node.d0, node.d1, node.d2
            a = None if a is None else stands.get(a.id, a)
            b = None if b is None else stands.get(b.id, b)
            c = None if c is None else stands.get(c.id, c)
            if a is not node.d0 or b is not node.d1 or c is not node.d2:
                if b is not None and is_simpler(node.kind, a, b, c, node.size):
                    return False
                node.d0, node.d1, node.d2 = a, b, c
            for operand in (a, b, c):
                if operand is not None and operand.scope != scope:
                    outside.append(operand)
    return not depending(outside, scope, stands, min(stands))


def _about_sizes(error: BaseException | None) -> bool:
    """Whether operands did not go together, as the array layer's exceptions say in their context."""
    return error is not None and (isinstance(error, IncompatibleSizes) or _about_sizes(error.__context__))


def _check_condition(test: Node) -> None:
    if test.type != BOOL:
        raise TypeError(f"while_loop(): the condition must be a mask, found {TYPES[test.type].name}")


MAKERS[LOOP] = while_loop
