"""What functions that are traced change besides what they return: the bodies of loops, branches, and what calls call.

Arrays from outside, places in objects that hold arrays, and arguments that are changed in place, are variables of the
construct, as far as they change. The functions are called once, so that most of this is known only afterwards: the
compiler traces again what they have left, with the variables that there turned out to be.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import drjit_core as core
from drjit_core import (
    Node,
    SymbolicValue,
    adopt,
    depend_on,
    is_version,
    late_formal,
    late_variable,
    ops,
    primal,
    vertex_of,
)

from .._access.store import Journal, extent_of, overlap, owner_of, store_same
from .._base.array import ArrayBase
from .._base.handle import count_holders
from .._base.types import BOOL
from .._trees.contents import read_place
from .._trees.holders import has_array
from .._trees.kinds import MISSING
from .._trees.pytree import flatten_nodes
from .aliases import Aliases
from .called import Call
from .changed import changed_arrays, require_no_writes
from .entries import Argument, Array, Filled, First, Identities, Late, Left, Order, Place, PlaceOnce, Spent
from .first import FirstCall
from .places import Change, are_others, difference_at, is_kept_by_class, is_spent, keep_new, place_key, words_of
from .refilling import container_pairs, containers_of
from .shapes import Reshaped
from .snapshot import Snapshot
from .wording import Words, place_in_words

__all__ = ["NEVER", "Variables", "presumed", "remember"]

core.count_holders[0] = count_holders


#: How many times functions have changed no constants from outside, by what tells what they do; that they know too many
#: counts as often enough.
_harmless: dict[tuple[Any, ...], float] = {}
#: So many are remembered. So often is enough, and so many components of arrays are presumed at most.
_MOST_SETTINGS, _ENOUGH, _MOST_PRESUMED = 4096, 8, 256
#: How many times it is if they have changed any.
NEVER = float("-inf")


def presumed(known_by: Snapshot | None,
             state: Sequence[Any]) -> tuple[list[tuple[ArrayBase, int, list[int]]], tuple[Any, ...]]:
    """The arrays that a function refers to which hold constants, also if they are ``state``, or are equal; in how many
    places they are, and which of their components do. Then what tells what the function does.

    What is computed with a constant is often known at once, and would not tell what it is computed of. So these are
    variables of a loop, and presumed to stay as they are, until the body has been called: it tells which it changes.
    That takes as long as the trace of a small loop, so a body that has changed none of them several times, and never
    any, is expected to go on like that; one that does not is called once more.
    """
    if known_by is None:
        return _NOTHING
    # recordings of one program are alike: they presume always
    settings = known_by.settings() if core.current().recording is None else ()
    if settings and _harmless.get(settings, 0) >= _ENOUGH:
        return [], settings
    found = known_by.constants(state)
    if not found:
        return _NOTHING
    if sum([len(positions) for _, _, positions in found]) > _MOST_PRESUMED:
        remember(settings, _ENOUGH)
        return [], settings
    return found, settings


#: The usual case.
_NONE: set[tuple[int, int]] = set()
_NO_PLACES: set[int] = set()
_NOTHING: tuple[list[tuple[ArrayBase, int, list[int]]], tuple[Any, ...]] = [], ()


def remember(settings: tuple[Any, ...], times: float = 1) -> None:
    """Note that functions have changed nothing so many times, or that they have, by what tells what they do."""
    if not settings:  # nobody asks
        return
    if len(_harmless) > _MOST_SETTINGS:
        _harmless.clear()
    _harmless[settings] = _harmless.get(settings, 0) + times


class Begun:
    """What was the same array, or part of it, when the body was called, and what is afterwards."""

    def __init__(self, call: Call, aliases: Aliases, journal: Journal, returned: Sequence[Any],
                 places: Mapping[Any, Place], stands: Mapping[Any, Sequence[Node]]) -> None:
        self.call, self.journal, self.places = call, journal, places
        given = call.given
        #: The ids of containers that places hold.
        self.inside = set().union(*[containers_of(place.change.before) for place in places.values()])
        #: Arguments: the caller's arrays, what stands for them, and what is returned in their places.
        self.arguments = [(given.leaves[place], call.arrays[place], returned[place])
                          for place, *_ in given.spec.positions()]
        #: What components of arrays were, if that is something else than outside.
        self.nodes = {key: nodes[0] for key, nodes in stands.items() if len(nodes) == 1}
        for place, first, _ in given.spec.positions():
            if place in given.lent:
                owner, start, end = aliases.parts[place]
                self.nodes |= {(id(owner), k): call.nodes[first + k - start] for k in range(start, end)}

    def is_changed(self, array: Any) -> bool:
        """Whether an array was changed in place."""
        owner, start, end = extent_of(array)
        entry = self.journal.entries.get(id(owner))
        return entry is not None and bool([k for k in range(start, end) if owner._nodes()[k] is not self.nodes.get(
            (id(owner), k), entry[1][k])])

    def is_known(self, array: Any) -> bool:
        """Whether an array, or part of it, was there before."""
        return bool(self.call.places_of(array) or [
            stand for _, stand, _ in self.arguments if overlap(stand, array)])

    def names(self, array: Any, entry: Place) -> list[Any]:
        """Arrays that were one with what a place held: what stands for them."""
        found = [stand for leaf, stand, _ in self.arguments if overlap(leaf, array)]
        for other in self.places.values():
            found += [stand for original, stand, *_ in other.holds()
                      if not (other is entry and original is array) and overlap(original, array)]
        return found + self.elsewhere(array)

    def later(self, array: Any, entry: Place) -> list[Any]:
        """What stands for arrays that are one with what a place holds afterwards."""
        found = [stand for leaf, stand, result in self.arguments
                 if overlap(result, array) or result is stand and overlap(leaf, array)]
        for other in self.places.values():
            found += [stand for original, stand, leaf, _ in other.holds()
                      if not (other is entry and leaf is array) and (
                          overlap(leaf, array) or leaf is stand and overlap(original, array))]
        return found + self.elsewhere(array)

    def elsewhere(self, array: Any) -> list[Any]:
        """The array, if it is found in places that do not change."""
        return [array for container, kind, key in self.call.places_of(array)
                if id(container) not in self.inside and place_key(container, kind, key) not in self.places][:1]


def are_used(nodes: Sequence[Node], results: Sequence[Node]) -> bool:
    """Whether any of some results are nodes, or may be computed of these."""
    own = {primal(node).id for node in nodes}
    return bool([node for node in results if primal(node).id in own]) or depend_on(results, nodes)


def _changing(formals: Sequence[Node], results: Sequence[Node]) -> list[Node]:
    """The formals that become something else in an iteration."""
    return [formal for formal, result in zip(formals, results, strict=False) if formal is not result]


class Variables:
    """Variables of a loop that are no state, in the order in which they were found."""

    def __init__(self, words: Words, functions: Sequence[Callable[..., Any]], journal: Journal,
                 late: Late | None = None, arrays: Sequence[tuple[ArrayBase, int, list[int]]] = (),
                 settings: tuple[Any, ...] = ()) -> None:
        self.words, self.journal = words, journal
        #: Arrays that the functions may change, and then must not have taken for constants: see :func:`presumed`.
        self.arrays, self.settings = arrays, settings
        self.functions = functions
        self.late = late
        #: The shape of the condition.
        self.lanes: tuple[int, ...] = ()
        self.clear()

    def leave_out(self, state: Container[tuple[int, int]]) -> None:
        """Presume nothing of components that are state, where functions are given what these are part of."""
        self.arrays = [(array, count, [position for position in positions if (id(array), position) not in state])
                       for array, count, positions in self.arrays]

    def clear(self) -> None:
        """Begin again."""
        self.entries: dict[Any, Any] = {}
        self.initial: list[Node] = []
        #: State that is written to by index, and returned as another array: the caller's arrays, by position, which
        #: nobody can use afterwards.
        self.written: dict[int, tuple[ArrayBase, int]] = {}
        #: Places that were not there before.
        self.new: list[Change] = []
        #: What a first call has left, if the body may find what it has put in new places: it is called again.
        self.first: FirstCall | None = None
        #: What all of them are after an iteration.
        self.results: Sequence[Node] = ()
        #: What places hold after an iteration that are known to change.
        self.settled: dict[Any, Sequence[Node]] = {}
        for array, _, positions in self.arrays:
            nodes = self.journal.before(array)
            for position in positions:
                self.entries[id(array), position] = Array(array, position, nodes[position])
                self.initial.append(nodes[position])
        #: How many variables, the last ones, are presumed to stay as they are.
        self.presumed = len(self.initial)

    def stand(self, apart: Iterable[tuple[ArrayBase, list[int], list[Node], list[Node]]]) -> None:
        """Tell for what components of arrays something else stands in the trace: for those in some positions, of which
        all that they were and are is given."""
        self.initial = []
        for array, positions, before, now in apart:
            for position in positions:
                entry = self.entries[id(array), position]
                entry.initial, entry.stand = [before[position]], now[position]
                self.initial.append(before[position])

    def places(self) -> list[Change]:
        """The places that are known to change."""
        return [entry.change for entry in self.entries.values() if entry.__class__ is Place]

    def expect(self, places: Iterable[Change]) -> None:
        """Begin with places that changed in another trace of what is around the construct."""
        own, initial = self.entries, self.initial
        self.entries, self.initial = {}, []
        for change in places:
            now = read_place(change.container, change.kind, change.key)
            if now is not MISSING and has_array(now):
                entry = Place(change._replace(before=now, now=now), self.words.function)
                self.entries[place_key(*change[:3])] = entry
                self.initial += entry.initial
        self.entries |= own
        self.initial += initial

    def presume(self) -> None:
        """Begin with what has been found, and presume of the others once more that they stay as they are."""
        last = [(id(array), position) for array, _, positions in self.arrays for position in positions
                if not self.entries[id(array), position].changes]
        self.entries |= {key: self.entries.pop(key) for key in last}
        self.initial = [node for entry in self.entries.values() for node in entry.initial]
        self.presumed = len(last)

    def memory(self, first: int) -> frozenset[int]:
        """The positions of those that are known to be written to by index, if that of the first one is given."""
        found = []
        for entry in self.entries.values():
            if entry.__class__ is Array and entry.is_memory:
                found.append(first)
            first += len(entry.initial)
        return frozenset(found)

    def preset(self, formals: Sequence[Node]) -> None:
        """Let all of them have the values that they have in a trace."""
        while len(self.initial) > len(formals):  # which knows nothing of the last ones
            _, entry = self.entries.popitem()
            del self.initial[len(self.initial) - len(entry.initial):]
        position = 0
        for entry in self.entries.values():
            count, entry.lanes = len(entry.initial), self.lanes
            entry.preset(formals[position:position + count])
            position += count

    def settle(self) -> list[Any]:
        """See what places hold that are known to change; returns the values."""
        values = []
        self.settled = {}
        for key, entry in self.entries.items():
            if entry.__class__ in (Place, Filled):
                change: Change = entry.change
                value = read_place(change.container, change.kind, change.key)
                self.settled[key] = self.place(change._replace(now=value), key)[1]
                values.append(value)
        return values

    def is_found_elsewhere(self) -> bool:
        """Whether places hold other arrays than before while the functions run."""
        return bool([entry for entry in self.entries.values() if isinstance(entry, Place)])

    def restore(self) -> None:
        """Let places hold what they held before."""
        for entry in reversed(self.entries.values()):
            entry.restore()

    def finish(self, results: Sequence[Node], outermost: Journal | None, call: Call, kept: dict[int, Any]) -> None:
        """Let all of them have the values that they have after the construct: after a call of the body, which returns
        what stands for the caller's arrays where it has got it, if these are ``kept``."""
        position, identities = 0, Identities(call, kept, self.known(call))
        for entry in self.entries.values():
            part, entry.lanes = slice(position, position + len(entry.initial)), self.lanes
            if isinstance(entry, Place):
                entry.prepare(results[part], self.results[part], identities)
            position = part.stop
        position = 0
        for entry in self.entries.values():
            count = len(entry.initial)
            entry.finish(results[position:position + count], outermost)
            position += count
        for change in self.new:
            keep_new(change)

    def name_of(self, number: int) -> str:
        """What messages call the variable of a number."""
        for entry in self.entries.values():
            if number < len(entry.initial):
                return str(entry.name(self.functions))
            number -= len(entry.initial)
        raise IndexError(number)

    def found(self, call: Call, kept: Sequence[bool], changes: Sequence[Change], journal: Journal,
              variables: Sequence[Node], returned: Sequence[Any], values: list[Node], test: Node) -> list[Node]:
        """What all of them are after the body, those included that it changes without being known to: the formals of
        all ``variables``, and the ``values`` of the state afterwards, are given."""
        formals, state = variables[len(values):], [*values, test]
        after: dict[Any, Sequence[Node]] = {}
        position, stands = 0, dict[Any, Sequence[Node]]()
        key: Any
        for key, entry in self.entries.items():
            count = len(entry.initial)
            stands[key] = formals[position:position + count]
            position += count
        new: dict[Any, Any] = {}
        kept_new: list[Change] = []
        spent: list[Change] = []
        stood, lost = self.containers(changes)
        for change in changes:
            key = place_key(*change[:3])
            if key in self.settled:
                continue
            if id(change.container) in lost:  # another call tells by which name the body has found the container
                self.call_again()
                continue
            if id(change.container) in stood:
                if stood[id(change.container)][1] is change.container:
                    continue  # which the place keeps, and what it holds
                change = self.changed_before(call, change, stood)
                key = "once", *place_key(*change[:3])
            if change.before is MISSING:  # a new place, with what an iteration has put in it
                if not is_spent(change.now):
                    kept_new.append(change)
                elif key not in self.entries:
                    spent.append(change)
                continue
            before = call.caller_of(change)
            if before is not change.before:
                key, change = ("once", *key), change._replace(before=before)
            entry, after[key] = self.place(change, key)
            if key not in self.entries:
                if call.snapshot is not None and call.snapshot.showing and [
                        leaf for leaf in entry.originals if isinstance(leaf, ArrayBase) and call.original(leaf) < 0 and
                        not call.places_of(leaf)]:
                    raise self.refusal(entry)  # a view shows what has been changed since
                entry.look_back(journal, self.entries)
                new[key] = entry
        after |= self.settled
        found = {place_key(*change[:3]): flatten_nodes(change.now, self.words.function) for change in kept_new}
        if self.first is not None:
            self.first.require_one_array(journal)
        made = call.made(changes, journal)
        require_no_writes(self.words, made)
        known = self.known(call) | self.replaced(call, after, new)
        aliases = Aliases(call.given) if journal.entries or call.given.lent else None
        lent = aliases.covered(call.given.lent) if aliases is not None and call.given.lent else _NONE
        for array, position, initial, node in changed_arrays(self.words, journal, known, self.functions, call,
                                                             self.entries, returned, lent):
            key = id(array), position
            after[key] = [node]
            if key not in self.entries:
                new[key] = Array(array, position, initial, is_version(primal(node)))
        changed = call.changed()
        all_results = [*state, *changed.values(), *[node for nodes in after.values() for node in nodes]]
        if changed or journal.entries:
            aliases = aliases or Aliases(call.given)
            self.require_one_array(call, aliases, kept, changed, journal, all_results, formals)
        places = {key: entry for key, entry in {**self.entries, **new}.items() if entry.__class__ is Place}
        if places:
            self.require_apart(Begun(call, aliases or Aliases(call.given), journal, returned, places, stands), after,
                               [*state, *changed.values()])
        self.arguments(call, kept, changed, after, new, returned, journal, all_results)
        if self.late is not None and self.late.nodes:
            after["late",] = self.late.nodes
            if ("late",) not in self.entries:
                new["late",] = self.late
        for key in list(self.entries)[-self.presumed:] if self.presumed else ():
            entry = self.entries[key]
            entry.changes = key in after and after[key][0] is not entry.stand
        if self.presumed:
            self.learn(new.values())
        results: list[Node] = []
        for key, own in stands.items():
            results += after.get(key, own) if key[0] != "once" or key not in after else [
                ops.select(stands["first",][0], *pair) for pair in zip(after[key], own, strict=True)]
        if new:
            (first,) = stands.get(("first",), (None,))
            results += self.added(new, after, first)
        changing = self.changing(formals, results)
        all_changing = [*changing, *_changing(variables, values)]
        sought = {key: (change, found[key][0]) for key, change in zip(found, kept_new, strict=True)
                  if (are_used(all_changing, found[key][0]) if is_kept_by_class(change) else
                      not call.holds(change.container))}
        self.keep(made, changing)
        self.new = [change for change in kept_new if place_key(*change[:3]) not in sought]
        stands |= {key: entry.stood for key, entry in new.items()}
        if self.first is not None:
            return self.first.joined(variables, stands, values, test, results, bool(
                spent or [change for change, _ in sought.values() if not is_kept_by_class(change)]))
        left: dict[Any, Left] = {place_key(*change[:3]): Spent(change) for change in spent}
        for order in call.snapshot.reordered if call.snapshot is not None else ():
            left["order", id(order[0])] = Order(*order)
        if sought or left:
            self.first = FirstCall(self.words, self.entries, sought, left, variables, stands, [*values, test], results,
                                   changing)
            self.initial = [node for entry in self.entries.values() for node in entry.initial]
            raise core.Restart
        return results

    def containers(self, changes: Sequence[Change]) -> tuple[dict[int, tuple[Any, Any, Place]], set[int]]:
        """What containers stand for in places that get others, by ids, with those, and these places; and the ids of
        those that places lose which the body has found to change."""
        stood = {id(stand): (own, left, entry) for entry in self.entries.values() if entry.__class__ is Place and
                 entry.spec.children is not None and entry.tree is not None
                 for (stand, own, _), (_, left, _) in zip(
                     container_pairs(entry.tree, entry.change.before, entry.spec),
                     container_pairs(entry.tree, entry.left_tree, entry.spec), strict=True)}
        lost = set[int]()
        for change in changes:
            if change.before is not MISSING and place_key(*change[:3]) not in self.entries and has_array(change.before):
                lost |= containers_of(change.before) - change.containers().keys()
        return stood, lost

    def changed_before(self, call: Call, change: Change, stood: Mapping[int, tuple[Any, Any, Place]]) -> Change:
        """A change of a container that a place has got another one for since: the first iteration changes the
        caller's."""
        own, left, entry = stood[id(change.container)]
        if MISSING in (change.before, change.now) or call.finds(left) or \
                len([other for _, other, _ in stood.values() if other is left]) > 1:
            raise SymbolicValue(
                f"{self.words.function}(): {self.words.traced} changes a {type(own).__name__} that is in "
                f"{words_of(*entry.change[:3])}, and puts another one there, which is elsewhere, too, or has other "
                f"entries. Put a copy there, or {self.words.otherwise}.")
        return change._replace(container=own, before=read_place(own, change.kind, change.key))

    def call_again(self) -> None:
        """Another trace is to call the body."""
        region = core.innermost()
        assert region is not None
        region.again = True

    def changing(self, formals: Sequence[Node], results: Sequence[Node]) -> list[Node]:
        """What stands for those that change."""
        region = core.innermost()
        assert region is not None
        return _changing(formals, results) + [stand for _, _, stand, _ in region.adopted]

    def keep(self, made: Sequence[ArrayBase], stands: Sequence[Node]) -> None:
        """Let arrays that the body has made, and put in places, be what they are outside, with their derivatives, if
        they are computed of nothing but what stays as it is."""
        for array in made:
            store_same(array, [late_formal(node) if are_used(stands, (node,)) else core.outlived(node)
                               for node in array._nodes()])

    def learn(self, new: Iterable[Any]) -> None:
        """Remember whether the functions change any of the arrays that they are presumed to leave alone."""
        if [entry for entry in new if entry.__class__ is Place and entry.before != entry.initial]:
            return
        changed = [entry for entry in list(self.entries.values())[-self.presumed:] if entry.changes]
        remember(self.settings, NEVER if changed else 1)

    def known(self, call: Call) -> set[int]:
        """Arrays that a call has been given, and those that stand in places."""
        stands = [stand for entry in self.entries.values() if isinstance(entry, Place) for stand in entry.stands]
        return {id(array) for array in (*call.arrays, *call.stands, *stands) if isinstance(array, ArrayBase)}

    def replaced(self, call: Call, after: dict[Any, Sequence[Node]], new: dict[Any, Any]) -> set[int]:
        """Note arrays that are changed in place, and then replaced by others: the first iteration changes those of the
        caller.  Returns their ids, and those of arrays that the function has made instead of them."""
        found = set[int]()
        for entry in [*self.entries.values(), *new.values()]:
            if isinstance(entry, Place):
                found |= {id(leaf) for leaf in entry.leaves if not call.places_of(leaf)}
            if entry.__class__ is Place:
                for array, position, initial, node in entry.left():
                    found.add(id(array))
                    self.note_once(array, position, initial, node, after, new)
        return found

    def require_apart(self, begun: Begun, after: Mapping[Any, Sequence[Node]],
                      state: Sequence[Node]) -> None:
        """Refuse that arrays change in place which are one with others in some iterations only: those in places that
        hold others afterwards, and are known otherwise before or then.

        What stands for a place in the trace is apart from all others. That is right in all iterations if nothing of it
        changes in place, or if what the place holds before is not used.
        """
        region = core.innermost()
        assert region is not None
        for key, entry in begun.places.items():
            others = [*state, *[node for place, nodes in after.items() if place != key for node in nodes]]
            for original, stand, leaf, formals in entry.holds():
                names, later = begun.names(original, entry), begun.later(leaf, entry)
                moved, is_changed = leaf is not stand and begun.is_known(leaf), begun.is_changed(stand)
                if moved and is_changed:
                    raise self.refusal(entry)
                if not names and not later or not (is_changed or [
                        each for each in (original, *(leaf,)[:moved], *names, *later) if begun.is_changed(each)]):
                    region.again |= bool(names) and not entry.stands  # what was read where is known in another trace
                elif not entry.stands and (names or [node for node in formals if node.kind == _LITERAL]):
                    region.again = True
                elif is_changed or are_used(formals, others if leaf is stand else [*others, *after[key]]) or \
                        depend_on(after[key], formals):
                    raise self.refusal(entry)

    def refusal(self, entry: Place) -> SymbolicValue:
        """What is wrong with a change in place of what a place holds in some iterations."""
        return SymbolicValue(
            f"{self.words.function}(): {self.words.traced} changes an array in place that is in "
            f"{words_of(*entry.change[:3])} in some iterations only, and elsewhere, too. Put a copy there, or "
            f"{self.words.otherwise}.")

    def note_once(self, array: ArrayBase, position: int, initial: Node, node: Node, after: dict[Any, Sequence[Node]],
                  new: dict[Any, Any]) -> None:
        """Note a component of an array that the first iteration changes."""
        key = "once", id(array), position
        after[key] = [node]
        if key not in self.entries:
            new[key] = Argument(array, position, initial)

    def place(self, change: Change, key: Any) -> tuple[Place, list[Node]]:
        """A place, and what it holds now."""
        entry = self.entries.get(key) or self.new_place(change, key)
        now = None if change.now is MISSING else entry.after(change.now)
        if now is not None and are_others(entry.leaves, entry.originals):
            raise SymbolicValue(
                f"{self.words.function}(): {self.words.traced} puts another object, with arrays, in "
                f"{words_of(change.container, change.kind, change.key)}, where each element would have its own. Change "
                "what the object holds instead, or make its class a PyTree.")
        if now is None:
            words, where = self.words, place_in_words(change, self.functions)
            does = f"removes {where}"
            if change.now is not MISSING:
                spec = flatten_nodes(change.now, words.function)[2]
                does = "changes {} from {} to {}".format(*difference_at(where, entry.spec, spec))
            raise SymbolicValue(
                f"{words.function}(): {words.traced} {does}, which elements without an iteration would not have. "
                "Begin with what it becomes.")
        return entry, now

    def new_place(self, change: Change, key: Any) -> Place:
        """A place that turns out to be a variable."""
        entry = (PlaceOnce if key[0] == "once" else Place)(change, self.words.function)
        if self.presumed:
            region, several = core.innermost(), {id(array) for array, count, _ in self.arrays if count > 1}
            if region is not None and [array for array in entry.originals if id(array) in several]:
                region.again = True  # the body may have found the array at any of these
        return entry

    def require_one_array(self, call: Call, aliases: Aliases, kept: Sequence[bool], changed: dict[int, Node],
                          journal: Journal, results: Sequence[Node],
                          formals: Sequence[Node]) -> None:
        """Begin again if an argument that is changed in place is also another one, or known to the function otherwise:
        it is to find one array everywhere.

        That is so in all iterations if what the function returns is the same array again.
        """
        given = call.given
        nodes = {place: range(first, first + count) for place, first, count in given.spec.positions()}
        lent = set(given.lent)
        guessed, given.guessed = given.guessed, _NO_PLACES
        for (place, first, count), is_kept in zip(given.spec.positions(), kept, strict=True):
            array = given.leaves[place]
            if place in given.lent:
                if is_kept:
                    continue
                if place in guessed:
                    lent.remove(place)
                    continue
                places = [words_of(container, kind, key) for container, kind, key in call.places_of(array)
                          if not call.holds(container)]
                others = aliases.others(place)
                if others and not places and {id(given.leaves[other]) for other in others} == {id(array)} and not [
                        k for k in range(first, first + count) if k in changed and core.is_version(primal(changed[k]))]:
                    continue  # another one is in its place everywhere, see Call.require_shared()
                raise SymbolicValue(
                    f"{self.words.function}(): {self.words.traced} changes an array of the state in place, returns "
                    f"another one, and finds the first one in {places[0] if places else 'another place'}, too. Pass a "
                    "copy.")
            outside = self.outside(aliases, place, given.nodes[first:first + count], formals)
            direct = aliases.is_changed(place, journal, outside)
            if not direct and changed.keys().isdisjoint(nodes[place]):
                continue
            others = [other for other in aliases.others(place) if direct or
                      not changed.keys().isdisjoint(nodes[other]) or
                      are_used([call.nodes[position] for position in nodes[other]], results[len(call.nodes):]) or
                      depend_on(results, [call.nodes[position] for position in nodes[other]])]
            if others or direct or are_used(outside, results) and aliases.is_found(place, call.snapshot):
                lent.update((place, *others))
        if lent != given.lent:
            given.lent = lent
            raise Reshaped

    def outside(self, aliases: Aliases, place: int, nodes: Sequence[Node], formals: Sequence[Node]) -> list[Node]:
        """What an argument itself holds while what stands for it is given: the nodes of before, or other formals."""
        owner, start, _ = aliases.parts[place]
        found, position = list(nodes), 0
        for key, entry in self.entries.items():
            if key[0] == id(owner) and start <= key[1] < start + len(found):
                found[key[1] - start] = formals[position]
            position += len(entry.initial)
        return found

    def arguments(self, call: Call, kept: Sequence[bool], changed: dict[int, Node],
                  after: dict[Any, Sequence[Node]], new: dict[Any, Any], returned: Sequence[Any],
                  journal: Journal, results: Sequence[Node]) -> None:
        """Note arguments that are changed in place, but not returned: the first iteration changes those of the caller.
        The second one must not change others of the caller's, which are returned in their places.
        """
        for (place, first, count), is_kept in zip(call.given.spec.positions(), kept, strict=True):
            memory = [k for k in range(first, first + count) if k in changed and (
                core.is_version(primal(changed[k])) or core.is_unusable(primal(changed[k])))]
            own = [k for k in range(first, first + count) if k in changed and k not in memory]
            if not is_kept and self.comes_back_changed(call, place, returned, bool(own), journal, results,
                                                       call.nodes[first:first + count]):
                raise SymbolicValue(
                    f"{self.words.function}(): {self.words.traced} changes arrays of the state in place, which change "
                    f"places: another one in each iteration. Give the body copies, or {self.words.otherwise}.")
            if not is_kept:
                self.written |= {position: (call.given.leaves[place], position - first) for position in memory}
                for position in own:
                    self.note_once(call.given.leaves[place], position - first, call.given.nodes[position],
                                   changed[position], after, new)
        if any(key[0] == "once" for key in after):
            first_key = ("first",)
            after[first_key] = [core.literal(BOOL, False)]
            if first_key not in self.entries:
                new[first_key] = First()

    def comes_back_changed(self, call: Call, place: int, returned: Sequence[Any], changed: bool, journal: Journal,
                           results: Sequence[Node], before: Sequence[Node]) -> bool:
        """Whether an array that is returned in the place of another one, which held something ``before``, is also known
        otherwise, and changes by one name while it is read by another one: not if the other one had the same names."""
        array, stand = returned[place], call.arrays[place]
        if call.original(array) >= 0 or [other for leaf, other in zip(returned, call.arrays, strict=True)
                                         if leaf is array and other is not stand]:
            return changed
        return call.finds(array) and (changed or id(owner_of(array)[0]) in journal.entries and depend_on(
            results, before, max([primal(node).id for node in array._nodes()], default=0)))

    def added(self, new: dict[Any, Any], after: dict[Any, Sequence[Node]], first: Node | None) -> list[Node]:
        """Make new variables of what has been found; ``first`` stands for whether an iteration is the first one, if
        that was a variable before."""
        region = core.innermost()
        assert region is not None
        results: list[Node] = []
        if ("first",) in new:
            first = late_formal(core.literal(BOOL, True))
        for key, entry in new.items():
            entry.stood = []
            stands = entry.before if isinstance(entry, Place) else entry.initial
            for initial, stand, node in zip(entry.initial, stands, after[key], strict=True):
                number = len(self.initial)
                if key == ("first",):
                    assert first is not None
                    stand = first
                elif key == ("late",):
                    stand = late_variable(initial)
                elif key[0] == "once":
                    assert first is not None
                    stand = late_variable(initial)
                    node = ops.select(first, node, stand)
                elif stand is not initial:
                    pass
                elif not core.is_version(primal(node)):  # what was read before is not seen any more
                    region.again |= initial.kind == _LITERAL
                elif initial.kind == _OPAQUE:
                    region.again |= _may_have_been_read(initial, region.live)
                before = initial
                if core.is_version(primal(node)):
                    before, stand = primal(initial), primal(stand)
                elif region.entries is not None and core.is_float(node.type) and vertex_of(stand) is None:
                    region.again |= entry.may_have_derivatives()
                adopt(number, before, stand, primal(node))
                entry.stood.append(stand)
                self.initial.append(initial)
                results.append(node)
            self.entries[key] = entry
        self.presumed = 0
        return results


_LITERAL, _OPAQUE, _EVALUATED = core.KIND["literal"], core.KIND["opaque"], core.KIND["evaluated"]


def _may_have_been_read(memory: Node, live: Node | None) -> bool:
    """Whether values of what was a constant before a write may have been used, which nobody sees any more."""
    return memory.d0 is not None and memory.d0.kind == _LITERAL and (
        memory.size == 1 or live is None or live.size == 1 or memory.size == live.size)
