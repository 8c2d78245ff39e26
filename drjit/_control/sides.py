"""Branches and calls that are evaluated: functions of which each lane takes one, computed one after the other.

Each finds the arguments, and all that was there before, as the first one does, but for what was written by index. What
they return and change is joined afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import drjit_core as core
from drjit_core import ops

from .._access.lanes import TRUE, fitting, masked_access, written_from
from .._access.store import Journal, noted, store
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError
from .._base.nodes import broadcast
from .._trees.pytree import TreeSpec
from .aliases import Aliases
from .choice import Results, Returned, adds, argument_of, became, blended, differing, invoked, other_objects
from .given import Call, Given, containers_of
from .outside import Words
from .places import MISSING, Change, are_others, is_kept_by_class, place_key, restore, words_of, write_place

__all__ = ["Sides", "evaluated"]

_NONE: set[int] = set()
_NOTHING: set[tuple[int, int]] = set()

#: What a function has made of something, given what it was and what it is: for the lanes that took the function.
Join = Callable[[core.Node, core.Node], core.Node]


class _Shared(Exception):
    """A function changes arguments that it finds elsewhere, too, of which it was given some elements: call it again."""

    def __init__(self, places: set[int]) -> None:
        super().__init__("arguments are known otherwise")
        self.places = places


class Sides:
    """What the functions of one construct have changed so far, joined."""

    def __init__(self, words: Words, given: Given, functions: Sequence[Callable[..., Any]], labels: Sequence[str],
                 named: bool, results: Results) -> None:
        self.words, self.given, self.functions, self.labels = words, given, functions, labels
        self.named, self.results = named, results
        #: The arguments as functions are given them: with what was written to them by index.
        self.nodes = list(given.nodes)
        #: The caller's arrays that functions are given themselves, where they are given all elements.
        self.own = given.arrays()
        #: Arguments, by the positions of nodes, arrays and places that were changed as a whole: what they are.
        self.arguments: dict[int, core.Node] = {}
        self.arrays: dict[tuple[int, int], tuple[Any, int, core.Node]] = {}
        self.places: dict[tuple[int, Any], tuple[Change, list[core.Node], Sequence[Any], TreeSpec]] = {}
        #: The labels of the functions that were called, and of those that have put something in a place.
        self.called: list[str] = []
        self.fillers: dict[tuple[int, Any], list[str]] = {}
        self.calls: list[Call] = []
        #: Whether what all functions return of the caller's is that; of calls, elements that take none have zeros.
        self.keeps = True
        self.returned: list[Returned] = []

    def call(self, number: int, nodes: Sequence[core.Node], join: Join,
             shapes: tuple[Any, Any] | None = None) -> dict[int, core.Node]:
        """Call a function; returns the nodes of the arguments that it has changed.

        If it is called for some elements only, ``shapes`` are those of tensors of these, and of all.
        """
        own = {place: self.own[place] for place, first, count in self.given.spec.positions()
               if place in self.own and nodes[first:first + count] == self.nodes[first:first + count]}
        aliases = None if shapes is None else Aliases(self.given)
        if aliases is not None and not self.given.lent:
            self.given.lent = {place for place in self.own if aliases.others(place)}
        try:
            call, returned, changes, changed, arrays = self.attempt(number, nodes, join, shapes, own, aliases)
        except _Shared as found:
            self.given.lent = self.given.lent | found.places
            call, returned, changes, changed, arrays = self.attempt(number, nodes, join, shapes, own, aliases)
        self.calls.append(call)
        self.called.append(self.labels[number])
        self.returned.append(returned)
        arrays |= became(call.arrays, self.given, changed) | became(self.given.leaves, self.given, changed)
        before = list(self.places)
        for change in changes:
            self.note_place(change, call, number, join, shapes, arrays)
        if arrays and before:
            self.note_kept(set(before).difference([place_key(*change[:3]) for change in changes]), arrays, join)
        return changed

    def attempt(self, number: int, nodes: Sequence[core.Node], join: Join, shapes: tuple[Any, Any] | None,
               own: Mapping[int, ArrayBase], aliases: Aliases | None) -> tuple[
                   Call, Returned, list[Change], dict[int, core.Node], dict[tuple[int, int], core.Node]]:
        """Call a function; returns the call, what that has returned, the places and arguments that it has changed, and
        what it has made of arrays from outside.

        A function that is called for some elements gets arrays of these. It is given the caller's own, which hold these
        meanwhile, where it is seen to find one elsewhere, too, and to change it.
        """
        function, lent = self.functions[number], _NONE if aliases is None else self.given.lent
        with noted() as journal:
            call = Call(self.given, nodes, function, None, own, journal if lent else None, None, lent)
            try:
                returned = Returned(self.words.function, invoked(function, self.named, call.tree))
            except SizeError:  # of some elements of an array and all of it, perhaps
                call.leave()
                if aliases is not None:
                    self.require_one_array(aliases, {place for place in self.own
                                                     if aliases.is_found(place, call.snapshot)})
                raise
            except BaseException:
                call.leave()
                raise
            if shapes is not None:
                returned.widen(*shapes)
            changes = call.leave()
            if aliases is not None:
                changed = call.changed()
                self.require_one_array(aliases, {
                    place for place, first, count in self.given.spec.positions() if place in self.own and (
                        not changed.keys().isdisjoint(range(first, first + count)) and
                        aliases.is_found(place, call.snapshot) or
                        place not in lent and place not in own and
                        aliases.is_changed(place, journal, self.given.nodes[first:first + count]))})
            known = call.own_arrays(journal, returned.leaves)
            known.difference_update([id(array) for array in own.values()])
            covered = aliases.covered(lent) if aliases is not None and lent else _NOTHING
            arrays = self.note_arrays(journal, known, covered, join)
            changed = call.changed()
            if aliases is not None and lent:
                aliases.give_back(lent, journal)
        return call, returned, changes, changed, arrays

    def require_one_array(self, aliases: Aliases, places: set[int]) -> None:
        """Let a function be called again, with the caller's own arrays in some places, if it has not been."""
        found = places.union(*[aliases.others(place) for place in places]).intersection(self.own)
        if not found <= self.given.lent:
            raise _Shared(found)

    def complete(self, number: int) -> list[core.Node]:
        """The nodes of what the last function has returned, which must be like what others have."""
        if len(self.returned) == 1:
            self.results.complete(self.returned, self.labels[number:])
        else:
            self.results.compare(self.returned[-1], self.labels[number])
        return self.returned[-1].nodes

    def note_arrays(self, journal: Journal, known: set[int], covered: set[tuple[int, int]],
                    join: Join) -> dict[tuple[int, int], core.Node]:
        """Note arrays from outside that were changed as a whole; the next function finds what they were before. Those
        ``covered`` are arguments.

        Returns what the function has made of them, by their identity and the position of the node.
        """
        changed: dict[tuple[int, int], core.Node] = {}
        for array, before, _ in list(journal.entries.values()):
            if id(array) in known:
                continue
            for position, (old, new) in enumerate(zip(before, array._nodes(), strict=True)):
                key = id(array), position
                if new is not old and key not in covered and not written_from(new, old):
                    _, _, so_far = self.arrays.get(key, (None, 0, old))
                    self.arrays[key] = array, position, join(so_far, new)
                    changed[key] = new
                    store(array, [old], position)
        return changed

    def note_kept(self, keys: set[tuple[int, Any]], arrays: Mapping[tuple[int, int], core.Node], join: Join) -> None:
        """Note of places that other functions exchange what the last one has made of the arrays that are there."""
        for key in keys:
            change, nodes, leaves, spec = self.places[key]
            now = None if change.before is MISSING else Returned(self.words.function, change.before)
            if now is not None and now.spec.meeting(spec) is not None:
                found = now.exchanged(arrays)
                nodes = [node if new is old else join(node, new)
                         for node, old, new in zip(nodes, now.nodes, found, strict=True)]
                self.places[key] = change, nodes, leaves, spec

    def note_place(self, change: Change, call: Call, number: int, join: Join, shapes: tuple[Any, Any] | None,
                   arrays: Mapping[tuple[int, int], core.Node]) -> None:
        """Note a place that holds other arrays."""
        key, function, label = place_key(*change[:3]), self.words.function, self.labels[number]
        first = call.caller_of(change)
        if first is MISSING and is_kept_by_class(change):
            write_place(change.container, change.kind, change.key, change.now)
            return
        if change.now is MISSING:
            raise ArgumentError(
                f"{function}(): '{label}' removes {words_of(change.container, change.kind, change.key)}, which only "
                "some elements would have. Let it stay.")
        now = Returned(function, change.now)
        now.nodes = now.exchanged(arrays)
        if shapes is not None:
            now.widen(*shapes)
        old, found = [core.literal(node.type, 0) for node in now.nodes], now.spec
        if key in self.places:
            change, old, leaves, before = self.places[key]
            both = before.meeting(now.spec)
            if both is None:
                raise differing(self.words, change, before, now.spec, self.fillers[key][-1], label)
            if are_others(leaves, now.leaves):
                raise other_objects(self.words, change, self.fillers[key][-1], label)
            found = both
        else:
            change, self.fillers[key] = change._replace(before=first), []
            outside = None if first is MISSING else Returned(function, first)
            both = None if outside is None else outside.spec.meeting(now.spec)
            if outside is not None and both is not None:
                found, old = both, outside.exchanged({at: node for at, (_, _, node) in self.arrays.items()} | became(
                    self.given.leaves, self.given, self.arguments))
        self.fillers[key].append(label)
        self.places[key] = change, [join(*pair) for pair in zip(old, now.nodes, strict=True)], now.leaves, found

    def require_all(self) -> None:
        """Refuse what only some of the functions have put in a place that held nothing of the kind before."""
        for key, (change, _, leaves, spec) in self.places.items():
            if len(self.fillers[key]) == len(self.returned):
                continue
            label = next(label for label in self.called if label not in self.fillers[key])
            if change.before is MISSING and self.calls[0].holds(change.container):
                raise adds(self.words, change, self.fillers[key][0])
            if change.before is MISSING:
                continue
            before = Returned(self.words.function, change.before)
            if before.spec.meeting(spec) is None:
                raise differing(self.words, change, spec, before.spec, self.fillers[key][0], label)
            if are_others(leaves, before.leaves):
                raise other_objects(self.words, change, self.fillers[key][0], label)
            inside = containers_of(change.before)
            for other, (within, *_) in self.places.items():
                if id(within.container) in inside and not set(self.fillers[key]).issuperset(self.fillers[other]):
                    raise ArgumentError(
                        f"{self.words.function}(): '{self.fillers[key][0]}' puts something else in "
                        f"{words_of(change.container, change.kind, change.key)}, and another function changes what the "
                        "container holds that is there before. Let it stay, and change what it holds instead.")

    def finish(self, values: Sequence[core.Node]) -> Any:
        """The results; what the functions have changed is what it has become."""
        self.require_all()
        for place, first, count in self.given.spec.positions():
            for position in range(first, first + count):
                node = self.arguments.get(position, self.nodes[position])
                if node is not self.given.nodes[position]:
                    self.results.store(self.given.leaves[place], position - first, node, position in self.arguments)
                    for call in self.calls[:1]:
                        if call.copies:
                            call.touched.add(place)
        for call in self.calls[:1]:
            call.write_back()
        for array, position, node in self.arrays.values():
            self.results.store(array, position, node, True)
        for change, nodes, leaves, spec in self.places.values():
            write_place(change.container, change.kind, change.key,
                        spec.rebuild_nodes(nodes, leaves, self.results.lanes))
        try:
            return self.results.rebuilt(values, self.returned, self.calls if self.keeps else ())
        except BaseException:
            restore([change for change, *_ in self.places.values()])
            raise


def evaluated(words: Words, given: Given, masks: Sequence[core.Node], functions: Sequence[Callable[..., Any]],
              labels: Sequence[str], named: bool, results: Results, call: bool = False) -> Any:
    """Compute all functions for all lanes, and join them; those of a ``call`` may take none."""
    sides = Sides(words, given, functions, labels, named, results)
    with noted(), masked_access(TRUE):  # which is the scope of what is known of versions
        for number, mask in enumerate(masks):
            def join(before: core.Node, now: core.Node, mask: core.Node = mask) -> core.Node:
                return _selected(mask, now, before)

            with masked_access(mask, some=False):
                changed = sides.call(number, sides.nodes, join)
            for position, node in changed.items():
                before = sides.nodes[position]
                if written_from(node, before):
                    sides.nodes[position] = node
                else:
                    sides.arguments[position] = join(sides.arguments.get(position, before), node)
        results.complete(sides.returned, labels)
        sides.keeps = not call
        found = [returned.nodes for returned in sides.returned]
        if call:
            joined = [_result(words, masks, position, values, given, results)
                      for position, values in enumerate(zip(*found, strict=True))]
        else:
            joined = [blended(words, masks[0], position, yes, no, results)
                      for position, (yes, no) in enumerate(zip(*found, strict=True))]
        return sides.finish(joined)


def _result(words: Words, masks: Sequence[core.Node], position: int, values: Sequence[core.Node], given: Given,
            results: Results) -> core.Node:
    """A result of all functions: that of each where it was chosen, or an argument that some have written to."""
    which = {argument_of(value, given.nodes) for value in values}
    memory = len(which) == 1 and None not in which and not all(value in given.nodes for value in values)
    found = values[0] if memory else core.literal(values[0].type, 0)
    for mask, value in zip(masks, values, strict=True):
        found = blended(words, mask, position, value, found, results)
    return found


def _selected(mask: core.Node, now: core.Node, before: core.Node) -> core.Node:
    """What something is where a mask is set, and what it was elsewhere; what has no element for each lane is changed
    if any lane takes part."""
    if now is before:
        return now
    fits = fitting(mask, now, before)
    if fits is None:
        fits = core.reduce(mask, core.ReduceOp.Or.value)
        if before.size == 1 != now.size:
            before = broadcast(before, now.size)
    return ops.select(fits, now, before)  # type: ignore[no-any-return]
