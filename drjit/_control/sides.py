"""Branches and calls that are evaluated: functions of which each lane takes one, computed one after the other.

Each finds the arguments, and all that was there before, as the first one does, but for what was written by index. What
they return and change is joined afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import drjit_core as core
from drjit_core import ops, primal

from .._access.lanes import TRUE, Watch, fitting, masked_access, written_from
from .._access.store import Journal, noted, store
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError
from .._base.nodes import broadcast
from .._trees.contents import write_place
from .._trees.kinds import MISSING
from .._trees.pytree import TreeSpec
from .aliases import Aliases
from .called import Call
from .choice import invoked
from .effects import Effects, Joint
from .given import Given
from .places import is_kept_by_class, place_key
from .results import Results, argument_of, blended
from .snapshot import snapshot
from .state import is_retracked
from .wording import Words, require_variables

__all__ = ["Sides", "evaluated"]

_NONE: set[int] = set()
_NOTHING: set[tuple[int, int]] = set()

#: What a function has made of something, given what it was and what it is: for the lanes that took the function.
Join = Callable[[core.Node, core.Node], core.Node]


class _Otherwise(Exception):
    """A function must be given the caller's own arrays in other places: call it again. Perhaps that is why it raised a
    ``misfit``."""

    def __init__(self, lent: set[int], misfit: SizeError | None) -> None:
        super().__init__("arguments are known otherwise")
        self.lent, self.misfit = lent, misfit


class Sides:
    """What the functions of one construct have changed so far."""

    def __init__(self, words: Words, given: Given, functions: Sequence[Callable[..., Any]], labels: Sequence[str],
                 named: bool, results: Results) -> None:
        self.words, self.given, self.functions, self.labels = words, given, functions, labels
        given.forget_fields()
        self.named, self.results = named, results
        #: Later nodes have larger ids.
        self.since = core.nothing(core.VarType.Bool.value).id
        #: The arguments as functions are given them: with what was written to them by index.
        self.nodes = list(given.nodes)
        #: The caller's arrays that functions are given themselves, where they are given all elements.
        self.own = given.arrays()
        #: What the functions have done that were called, and how it is joined.
        self.effects: list[Effects] = []
        self.joins: list[Join] = []

    def call(self, number: int, nodes: list[core.Node], join: Join,
             shapes: tuple[Any, Any] | None = None, watch: Watch | None = None) -> dict[int, core.Node]:
        """Call a function; returns the nodes of the arguments that it has changed.

        If it is called for some elements only, ``shapes`` are those of tensors of these, and of all, and what it
        accesses by index is watched. Arguments that it finds elsewhere, too, have these elements there: if it turns out
        that it relies on all of them, it is called again.
        """
        own = {place: self.own[place] for place, first, count in self.given.spec.positions()
               if place in self.own and nodes[first:first + count] == self.nodes[first:first + count]}
        aliases = None if shapes is None else Aliases(self.given)
        tried: list[set[int]] = []
        if aliases is not None:
            known = snapshot(None, self.functions[number])
            self.given.lent = {place for place in self.own if aliases.others(place) or
                               place not in own and aliases.is_found(place, known)}
        while True:
            try:
                effects = self.attempt(number, nodes, shapes, own, aliases, watch)
                break
            except _Otherwise as found:
                if found.lent in tried:
                    raise found.misfit or self.refusal(number, found.lent ^ self.given.lent) from None
                tried.append(self.given.lent)
                self.given.lent = found.lent
        self.effects.append(effects)
        self.joins.append(join)
        changed = effects.changed
        effects.changed = {}
        for position, node in changed.items():
            if written_from(node, nodes[position]):
                self.nodes[position] = node
            else:
                effects.changed[position] = node
        effects.call.nodes = self.nodes
        return changed

    def attempt(self, number: int, nodes: list[core.Node], shapes: tuple[Any, Any] | None,
                own: Mapping[int, ArrayBase], aliases: Aliases | None, watch: Watch | None) -> Effects:
        """Call a function; returns what it has returned and done besides.

        A function that is called for some elements gets arrays of these. It is given the caller's own, which hold these
        meanwhile, where it is seen to find one elsewhere, too.
        """
        function, lent = self.functions[number], _NONE if aliases is None else self.given.lent
        with noted() as journal:
            call = Call(self.given, nodes, function, self.structure(nodes), own, journal if lent else None, None, lent)
            try:
                effects = Effects(self.labels[number], call, invoked(function, self.named, call.tree), shapes)
            except SizeError as misfit:  # of some elements of an array and all of it, perhaps
                call.leave(None, (), self.results.strict)
                if aliases is not None and watch is not None:
                    self.require_all(aliases, set(self.given.lent), misfit)
                    self.require_one_array(aliases, {place for place in self.own
                                                     if aliases.is_found(place, call.snapshot)}, misfit)
                raise
            except BaseException:
                call.leave(None, (), self.results.strict)
                raise
            effects.note(call.leave(None, (), self.results.strict), journal, self.since)
            effects.outlive(journal, self.since)
            if call.snapshot is not None and (call.snapshot.waiting or call.rekept):
                require_variables(self.words.function, call)
            if aliases is not None and watch is not None:
                self.require_all(aliases, {place for place, first, count in self.given.spec.positions() if [
                    node for node in nodes[first:first + count] if watch.accessed(primal(node).id)]})
                changed = call.changed()
                self.require_one_array(aliases, {
                    place for place, first, count in self.given.spec.positions()
                    if place in self.own and place not in own and (
                        not changed.keys().isdisjoint(range(first, first + count)) and
                        aliases.is_found(place, call.snapshot) or
                        place not in lent and
                        aliases.is_changed(place, journal, self.given.nodes[first:first + count]))})
            known = call.own_arrays(journal, effects.leaves)
            known.difference_update([id(array) for array in own.values()])
            covered = aliases.covered(lent) if aliases is not None and lent else _NOTHING
            effects.left = {id(array): array._nodes() for array, before, _ in journal.entries.values()
                            if not all(map(written_from, array._nodes(), before))}
            effects.arrays = _undone(journal, known, covered, {id(array) for array in own.values()})
            effects.changed = call.changed()
            if aliases is not None:
                effects.note_arguments(aliases)
            if aliases is not None and lent:
                aliases.give_back(lent, journal)
            for change in list(effects.places.values()):
                key = place_key(*change[:3])
                if key in effects.common and is_kept_by_class(change) and call.caller_of(change) is MISSING:
                    write_place(change.container, change.kind, change.key, change.now)
                    del effects.places[key]
        return effects

    def structure(self, nodes: Sequence[core.Node]) -> TreeSpec:
        """That of arguments of which a function is given other nodes: some elements of tensors are in one dimension."""
        return self.given.spec.reshaped({
            place: (nodes[first].size,) for place, first, _ in self.given.spec.positions()
            if self.given.leaves[place]._depth < 0 and nodes[first].size != self.given.nodes[first].size})

    def require_one_array(self, aliases: Aliases, places: set[int], misfit: SizeError | None = None) -> None:
        """Let a function be called again, with the caller's own arrays in some places, if it has not been."""
        found = places.union(*[aliases.others(place) for place in places]).intersection(self.own)
        if not found <= self.given.lent:
            raise _Otherwise(self.given.lent | found, misfit)

    def require_all(self, aliases: Aliases, places: set[int], misfit: SizeError | None = None) -> None:
        """Let a function be called again that is to find all elements of arguments where it finds these elsewhere."""
        found = {place for place in places & self.given.lent if not aliases.others(place)}
        if found:
            raise _Otherwise(self.given.lent - found, misfit)

    def refusal(self, number: int, places: set[int]) -> ArgumentError:
        """What is wrong with a function that changes arguments, of which it was given some elements, and relies on all
        of these elsewhere."""
        path = self.given.spec.paths(("args", "kwargs") if self.named else "args")[min(places)]
        return ArgumentError(
            f"{self.words.function}(): '{self.labels[number]}' changes the argument '{path}' in place, of which an "
            "evaluated call gives it only the elements that take it, and uses all of them where it finds the array "
            "elsewhere. Refer to the array in the function instead of passing it, or use mode='symbolic'.")

    def complete(self, number: int) -> list[core.Node]:
        """The nodes of what the last function has returned, which must be like what others have."""
        if len(self.effects) == 1:
            self.results.complete(self.effects, self.labels[number:])
        else:
            self.results.compare(self.effects[-1], self.labels[number])
        return self.effects[-1].nodes

    def finish(self, values: list[core.Node], keeps: bool) -> Any:
        """The results; what the functions have changed is what it has become. Whether what all of them return of the
        caller's is that (``keeps``): of calls, elements that take none have zeros."""
        joint = Joint(self.words, self.given, self.effects, self.results, self.nodes, True, keeps)
        before, found = joint.before(), list[core.Node]()
        for old, *values_ in zip(before, *map(joint.after, range(len(self.joins))), strict=True):
            changed = [(join, now) for join, now in zip(self.joins, values_, strict=True) if now is not old]
            so_far = old
            if keeps and len(changed) == len(self.joins):  # nothing is left of what it was
                so_far = changed.pop(0)[1]
            for join, now in changed:
                so_far = join(so_far, now)
            found.append(so_far)
        joint.write(iter(found), {position: node for position, node in enumerate(self.nodes)
                                  if node is not self.given.nodes[position]}, True)
        try:
            return self.results.rebuilt(values, self.effects, [each.call for each in self.effects] if keeps else (),
                                        joint.made)
        except BaseException:
            joint.restore()
            raise


def _undone(journal: Journal, known: set[int], covered: set[tuple[int, int]], own: set[int]) -> dict[
        Any, tuple[Any, int, core.Node, core.Node]]:
    """Arrays from outside that were changed as a whole, which get back what they held: components, and what they were
    and became. Those ``covered`` are arguments."""
    found: dict[Any, tuple[Any, int, core.Node, core.Node]] = {}
    for array, before, _ in list(journal.entries.values()):
        for position, (old, new) in enumerate(zip(before, array._nodes(), strict=True)):
            key = id(array), position
            if id(array) in known or new is old or key in covered or written_from(new, old):
                continue
            is_whole = is_retracked(new, old)
            if not is_whole:
                found[key] = array, position, old, new
            if not is_whole or id(array) in own:
                store(array, [old], position)
    return found


def evaluated(words: Words, given: Given, masks: Sequence[core.Node], functions: Sequence[Callable[..., Any]],
              labels: Sequence[str], named: bool, results: Results, call: bool = False) -> Any:
    """Compute all functions for all lanes, and join them; those of a ``call`` may take none."""
    sides = Sides(words, given, functions, labels, named, results)
    with noted(), masked_access(TRUE):  # which is the scope of what is known of versions
        for number, mask in enumerate(masks):
            def join(before: core.Node, now: core.Node, mask: core.Node = mask) -> core.Node:
                return _selected(mask, now, before)

            with masked_access(mask, some=False):
                sides.call(number, sides.nodes, join)
        results.complete(sides.effects, labels)
        found = [effects.nodes for effects in sides.effects]
        if call:
            joined = [_result(words, masks, position, values, given, results)
                      for position, values in enumerate(zip(*found, strict=True))]
        else:
            joined = [blended(words, masks[0], position, yes, no, results)
                      for position, (yes, no) in enumerate(zip(*found, strict=True))]
        return sides.finish(joined, not call)


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
