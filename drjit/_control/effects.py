"""What the functions of a branch or call do besides returning something, and how that is joined: arguments that they
change, arrays from outside, and places.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import drjit_core as core
from drjit_core import is_version, primal

from .._access.lanes import masking
from .._access.store import Journal, overlap, owner_of, store_result, store_same
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._promotion.promote import wrap
from .._trees.contents import write_place
from .._trees.kinds import MISSING
from .._trees.pytree import TreeSpec
from .aliases import Aliases
from .called import Call
from .given import Given
from .places import (
    Change,
    are_others,
    difference_at,
    is_kept_by_class,
    is_spent,
    keep_new,
    place_key,
    reorder,
    restore,
    words_of,
)
from .refilling import as_left, become, refilled
from .results import Results, Returned, common_owner, kept_of
from .state import difference_of, is_made_of
from .wording import Words, place_in_program, place_in_words

__all__ = ["Effects", "Joint"]


_LITERAL = core.KIND["literal"]
#: What most constructs have no entries in: whoever adds the first one replaces it.
_EMPTY: list[Any] = []
_NOTHING: dict[Any, Any] = {}
_NONE: set[Any] = set()


class Effects(Returned):
    """What one function of a branch or call has returned, and done besides."""

    __slots__ = ("arrays", "call", "changed", "common", "contents", "fields", "held", "label", "left", "made", "orders",
                 "places", "shapes", "showing", "spent")

    def __init__(self, label: str, call_: Call, value: Any, shapes: tuple[Any, Any] | None = None,
                 found: Returned | None = None, like: TreeSpec | None = None) -> None:
        self.call = call_
        if found is None:
            self.take(self.call.given.function, value, self.call.given.spec if like is None else like)
        else:
            self.value, self.nodes, self.leaves, self.spec = value, found.nodes, found.leaves, found.spec
        self.showing = self.call.showing()
        if self.call.origins:
            call_.require_one_object()
        #: What messages call the function.
        self.label = label
        #: What it has left in arrays that it was given, or has changed, by their ids; unknown if it has changed none.
        self.left: dict[int, Sequence[core.Node]] | None = None
        #: If it was called for some elements, the shapes of tensors of these, and of all.
        self.shapes = shapes
        if shapes is not None:
            self.widen(*shapes)
        #: Arguments that it has changed in place, by the positions of nodes, and arrays from outside that have changed
        #: as a whole: these, components, and what they were and are.
        self.changed: dict[int, core.Node] = _NOTHING
        self.arrays: dict[Any, tuple[Any, int, core.Node, core.Node]] = _NOTHING
        #: Places that hold other arrays, and what they hold after it.
        self.places: dict[Any, Change] = _NOTHING
        #: Plain fields that hold other arrays, which it has made: these and their nodes, by the places of leaves.
        self.fields: dict[int, tuple[ArrayBase, list[core.Node]]] = _NOTHING
        self.contents: dict[Any, Returned] = _NOTHING
        #: Dictionaries with arrays whose entries are in another order after it, by their ids, with that.
        self.orders: dict[int, tuple[Any, list[Any]]] = _NOTHING
        #: Those of which nothing was there before, and which hold the same for all elements; or what nobody can use.
        self.common: set[Any] = _NONE
        self.spent: set[Any] = _NONE
        #: The arrays that it has made and put somewhere, and what these hold for those that have taken it, by ids.
        self.made: list[ArrayBase] = _EMPTY
        self.held: dict[int, Sequence[core.Node]] = _NOTHING

    def note(self, places: Sequence[Change], journal: Journal, since: int = -1) -> None:
        """Note places that hold other arrays. If the function was computed, what was made ``since`` a node of some id
        may have been made of the elements that it was called for."""
        known = self.call.snapshot
        if known is not None and known.reordered:
            self.orders = {id(table): (table, keys) for table, _, keys in known.reordered}
        if known is not None and known.caches:
            known.forget(functools.partial(self.depends, changed=self.call.changed_outside(journal), since=since),
                         journal.entries)
        if places:
            self.places = {place_key(*change[:3]): change for change in places}
            self.contents = {key: self.found(change.now) for key, change in self.places.items()}
            new = [key for key, change in self.places.items() if change.before is MISSING]
            if new:
                changed = self.call.changed_outside(journal)
                self.spent = {key for key in new if is_spent(self.places[key].now)}
                self.common = {key for key in new if not self.depends(self.contents[key].nodes, changed, since) and
                               not self.has_argument(self.contents[key].leaves)}
            self.made = self.call.made(places, journal)

    def note_fields(self) -> None:
        """Take what plain fields hold for what is in places of any kind."""
        fields = self.call.given.fields
        if self.fields and fields is not None:
            self.places, self.contents = dict(self.places), dict(self.contents)
            for place, (array, nodes) in self.fields.items():
                container, kind, key = fields.where(place)
                change = Change(container, kind, key, self.call.given.leaves[place], array)
                found = self.contents[place_key(container, kind, key)] = self.found(array)
                found.nodes = nodes
                self.places[place_key(container, kind, key)] = change
            self.fields = _NOTHING

    def field(self, place: int) -> Any:
        """What a plain field holds after it."""
        return self.fields[place][0] if place in self.fields else self.call.given.leaves[place]

    def depends(self, nodes: Sequence[core.Node], changed: Sequence[core.Node], since: int) -> bool:
        """Whether any of what the function has made depends on the elements that it was called for: on arguments, or
        arrays that may be the same, on what it has changed of arrays from outside, or on which elements read what is
        read by index."""
        if [node for node in nodes if node.kind == _LITERAL] and [node for node in changed if node.kind == _LITERAL]:
            return True  # constants leave no trace
        given = [*self.call.nodes, *self.call.given.nodes, *changed]
        if since >= 0:
            return is_made_of(nodes, [*given, *masking()], since)
        return bool([node for node in nodes if core.is_within(node)]) or is_made_of(nodes, given)

    def has_argument(self, leaves: Sequence[Any]) -> bool:
        """Whether any of some leaves is an argument, or part of one: constants leave no trace in what is made of them,
        and functions may have been given the caller's own."""
        given = [array for array in self.call.arrays if isinstance(array, ArrayBase)]
        return bool([leaf for leaf in leaves if isinstance(leaf, ArrayBase) and [
            array for array in given if overlap(leaf, array)]])

    def outlive(self, journal: Journal, since: int = -1) -> None:
        """Let arrays that the function has made, and put somewhere, have the derivatives that they have outside of its
        region; those that depend on the elements that it was called for have no value for others."""
        if not self.made:
            return
        self.held = {id(array): array._nodes() for array in self.made}
        changed = self.call.changed_outside(journal)
        for array in self.made:
            nodes = self.held[id(array)]
            if self.depends(nodes, changed, since):
                why = f"{self.label} of {self.call.given.function}() has made it, and others have not."
                store_same(array, [core.unusable(primal(node), f"this array has no value for all elements: {why}")
                                   for node in nodes])
            elif since < 0:
                store_same(array, list(map(core.outlived, nodes)))

    def found(self, value: Any) -> Returned:
        """What is found in a place."""
        found = Returned(self.call.given.function, value)
        if self.shapes is not None:
            found.widen(*self.shapes)
        return found

    def where(self, change: Change) -> str:
        """A place that it has changed, in words."""
        return place_in_words(change, _functions_of([self]))

    def left_in(self, array: Any) -> Sequence[core.Node] | None:
        """What the function has left in an array that it was given, or has changed or made."""
        if self.left is None:
            self.left = self.call.left()
        return self.left.get(id(array), self.held.get(id(array)))

    def note_arguments(self, aliases: Aliases) -> None:
        """Note what the function has left in arguments of which it was given others, with some of the elements."""
        assert self.left is not None
        for place, first, _ in self.call.given.spec.positions():
            owner, start, end = aliases.parts[place]
            changed = {k: self.changed[first + k - start] for k in range(start, end) if first + k - start in
                       self.changed}
            if changed:
                nodes = list(self.left.get(id(owner), owner._nodes()))
                self.left[id(owner)] = [changed.get(k, node) for k, node in enumerate(nodes)]

    def after(self, array: Any, nodes: Sequence[core.Node]) -> Sequence[core.Node]:
        """What an array holds after the function, given the nodes of before."""
        if not isinstance(array, ArrayBase):
            return nodes
        owner, first = owner_of(array)
        found = self.left_in(owner)
        return nodes if found is None else found[first:first + len(nodes)]

    def standing(self, key: Any, change: Change, call_: Call) -> Returned:
        """What a place holds after the function, which perhaps does not change it, as another call does."""
        own = self.contents.get(key)
        if own is None:
            place = call_.original(change.before)  # setters put arguments elsewhere
            value = change.before if place < 0 else self.call.arrays[place]
            for container, _, new in self.call.held:
                if container is change.container:
                    value = new.get(change.key, value)
            own = self.found(as_left(value, self.places, self.showing) if self.places or self.showing else value)
            own.nodes = [node for leaf, nodes in zip(own.leaves, own.segments(), strict=True)
                         for node in self.after(leaf, nodes)]
        return own


class Joint:
    """What the functions of a branch or call change besides what they return: arguments, arrays from outside, and
    places, of which each element has what the function has left that it took.

    What only some functions put in a new place for their elements can be used by nobody afterwards. Places hold an
    array that all functions have left there (``keeps``), unless elements may take none. Functions may have been
    ``computed``, one after the other.
    """

    __slots__ = ("arrays", "changed", "effects", "fields", "given", "lanes", "made", "new", "nodes", "orders", "places",
                 "removed", "spent")

    def __init__(self, words: Words, given: Given, effects: Sequence[Effects], results: Results,
                 nodes: Sequence[core.Node], computed: bool, keeps: bool) -> None:
        self.given, self.effects, self.lanes, self.nodes = given, effects, results.lanes, nodes
        #: What is made for places, by the ids of what functions have left there.
        self.made: dict[Any, Any] = {}
        #: Arguments, by the positions of nodes; arrays; places.
        changed = [item for each in effects for item in each.changed.items()]
        #: Arguments that nobody can use after one of the functions, by the positions of nodes: nobody can then.
        self.spent = {position: node for position, node in changed if core.is_unusable(primal(node))}
        self.changed: list[int] = sorted({position for position, node in changed if position not in self.spent and (
            computed or not is_version(primal(node)))})
        self.arrays: dict[Any, tuple[Any, int, core.Node]] = {}
        self.places: dict[Any, _Place] = {}
        #: Plain fields that some functions let hold other arrays: the places of leaves, their first nodes, and how
        #: many they have.
        exchanged = {place for each in effects for place in each.fields}
        self.fields = [each for each in given.spec.positions() if each[0] in exchanged] if exchanged else _EMPTY
        #: New places that hold what one function has put there for all elements, since it depends on none; or what
        #: nobody can use.
        self.new: list[Change] = []
        #: Places that all functions have removed.
        self.removed: list[Change] = []
        #: Dictionaries whose entries are in another order after all functions, with that.
        self.orders: list[tuple[Any, list[Any]]] = []
        for number, (table, keys) in {key: value for each in effects for key, value in each.orders.items()}.items():
            if [each for each in effects if number not in each.orders or each.orders[number][1] != keys]:
                label = next(each.label for each in effects if number in each.orders)
                name, cls = place_in_program(table, _functions_of(effects)), type(table).__name__
                raise ArgumentError(
                    f"{words.function}(): '{label}' changes the order of the entries of "
                    f"{f'a {cls}' if name is None else f'the {cls} {name!r}'}, which only some elements would have. "
                    "Let it be as it is, or the same for all.")
            self.orders.append((table, keys))
        for each in effects:
            for key, (array, position, before, _) in each.arrays.items():
                self.arrays[key] = array, position, array._nodes()[position] if computed else before
            for key, change in each.places.items():
                if key in self.places:
                    continue
                if change.now is MISSING:
                    if not keeps or [other for other in effects if key not in other.places or
                                     other.places[key].now is not MISSING]:
                        raise ArgumentError(f"{words.function}(): '{each.label}' removes {each.where(change)}, which "
                                            "only some elements would have. Let it stay" +
                                            (", or remove it on both sides." if keeps else "."))
                    if change not in self.removed:
                        self.removed.append(change)
                    continue
                having = [other for other in effects if key in other.places]
                is_new = change.before is MISSING and len(having) < len(effects)
                if is_new and is_kept_by_class(change):
                    if key in each.common:
                        self.new.append(change)
                    continue  # others compute it when they ask for it
                if is_new and each.call.holds(change.container):
                    raise ArgumentError(
                        f"{words.function}(): '{each.label}' adds {each.where(change)}, an argument, and others do "
                        "not, so that its structure would differ between elements. Add it before.")
                if is_new and len(having) == 1 and key in each.common:
                    self.new.append(change)
                    continue
                spent = [other.places[key] for other in having if key in other.spent]
                if spent:
                    self.new.append(spent[0])
                    continue
                if is_new:
                    self.new.append(change._replace(now=each.contents[key].unusable(
                        f"'{each.label}' of {words.function}() has put it in {each.where(change)}, where nothing was, "
                        f"and other elements have nothing there. Put something there before the {words.noun}" +
                        ", or on both sides." * keeps + "." * (not keeps))))
                    continue
                self.places[key] = _Place(change._replace(before=each.call.caller_of(change)), words, [
                    (other, other.standing(key, change, each.call)) for other in effects], results, keeps)

    def before(self) -> list[core.Node]:
        """What all of it was."""
        found = [self.nodes[position] for position in self.changed]
        found += [before for *_, before in self.arrays.values()]
        for _, first, count in self.fields:
            found += self.nodes[first:first + count]
        return found + [node for place in self.places.values() for node in place.before]

    def after(self, number: int) -> list[core.Node]:
        """What all of it is after one of the functions."""
        each = self.effects[number]
        found = [each.changed.get(position, each.call.nodes[position]) for position in self.changed]
        for key, (array, position, before) in self.arrays.items():
            left = each.left_in(array)
            found.append(each.arrays[key][3] if key in each.arrays else before if left is None else left[position])
        for field, first, count in self.fields:
            found += each.fields[field][1] if field in each.fields else [
                each.changed.get(position, each.call.nodes[position]) for position in range(first, first + count)]
        for place in self.places.values():
            found += place.nodes(place.after[number])
        return found

    def write(self, values: Iterator[core.Node], versions: Mapping[int, core.Node], whole: bool = False) -> None:
        """Let all of it be what it has become, and arguments the last versions after writes by index."""
        call_ = self.effects[0].call
        for place, first, count in self.given.spec.positions():
            for position in range(first, first + count):
                node = next(values) if position in self.changed else self.spent.get(position, versions.get(position))
                if node is not None:
                    store_result(self.given.leaves[place], position - first, node, None, self.lanes,
                                 whole and position in self.changed)
                    if call_.copies:
                        call_.touched.add(place)
        if call_.touched:
            call_.write_back(call_.touched)
            call_.touched = set()
        for array, position, _ in self.arrays.values():
            store_result(array, position, next(values), None, self.lanes, whole)
        for place, _, count in self.fields:
            leaf = wrap(type(self.given.leaves[place]), [next(values) for _ in range(count)])
            self.made[tuple([id(each.field(place)) for each in self.effects])] = leaf
            self.given.fields.set(place, leaf)  # type: ignore[union-attr]
        for entry in self.places.values():
            entry.write([next(values) for _ in entry.before], self.made)
        for change in self.new:
            keep_new(change)
        for change in reversed(self.removed):  # lists lose their last entries first
            write_place(change.container, change.kind, change.key, MISSING)
        for table, keys in self.orders:
            reorder(table, keys)

    def restore(self) -> None:
        """Let places hold what they held before."""
        self.given.put()
        restore([*self.removed, *[place.change for place in self.places.values()]])


def _functions_of(effects: Sequence[Effects]) -> list[Callable[..., Any]]:
    """The functions that are known to those of a construct, these included."""
    found: list[Callable[..., Any]] = []
    for each in effects:
        if each.call.snapshot is not None:
            found += each.call.snapshot.functions
    return found


class _Place:
    """A place that some of the functions change: its content is a result of all."""

    def __init__(self, change: Change, words: Words, found: Sequence[tuple[Effects, Returned]],
                 results: Results, keeps: bool) -> None:
        self.change, self.keeps, self.every, first = change, keeps, results.every, found[0][0].label
        self.calls = [effects.call for effects, _ in found]
        #: What containers there are copies of.
        self.changes = [effects.places.get(place_key(*change[:3]), change) for effects, _ in found]
        #: What it holds after each function.
        self.after = [each for _, each in found]
        self.spec, self.lanes = self.after[0].spec, results.lanes
        key = place_key(*change[:3])
        put = [(effects.label, each) for effects, each in found if key in effects.places]
        #: What is no array, and need not be the same, is what the last function has put there.
        self.last = put[-1][1].leaves
        #: What must be the same: all in arguments; elsewhere, what functions have put there.
        alike = [(effects.label, each) for effects, each in found] if found[0][0].call.is_in_arguments(change) else put
        for effects, each in found:
            spec = self.spec.meeting(each.spec)
            if spec is None:
                where = place_in_words(change, _functions_of([each for each, _ in found]))
                what, one, other = difference_at(where, self.spec, each.spec)
                raise ArgumentError(
                    f"{words.function}(): {what} would differ between elements: it is {one} after '{first}', and "
                    f"{other} after '{effects.label}'. Let all functions put something of one type and structure "
                    "there, or begin with what it becomes.")
            if are_others(each.leaves, self.after[0].leaves):
                raise ArgumentError(
                    f"{words.function}(): {words_of(change.container, change.kind, change.key)} would be another "
                    f"object in each element: one with arrays after '{first}', and another one after "
                    f"'{effects.label}'. Change what the object holds instead, or make its class a PyTree.")
            self.spec = spec
        for label, each in alike if results.strict else ():
            place = difference_of(alike[0][1].leaves, each.leaves)
            if place >= 0:
                one, other = (leaves[place] for leaves in (alike[0][1].leaves, each.leaves))
                path = self.spec.paths("")[place]
                part = f"'{path}' of " if path else ""
                where = words_of(change.container, change.kind, change.key)
                raise ArgumentError(
                    f"{words.function}(): {part}{where} would differ between elements, and is a Python object of type "
                    f"{describe(one)} that is not tracked: it is {one!r} after '{alike[0][0]}', and {other!r} after "
                    f"'{label}'. Use a Dr.Jit array instead{results.otherwise}.")
        #: What it held before, as far as that is known.
        before = None if change.before is MISSING else Returned(words.function, change.before)
        if before is not None and before.spec.meeting(self.spec) is None:
            before = None
        #: Leaves that are one of the caller's arrays after all of them, by place.
        self.kept: dict[int, Any] = {}
        for place, *_ in self.spec.traced():
            array = kept_of(place, self.after, self.calls)
            if array is not None and (keeps or before is not None and before.leaves[place] is array):
                self.kept[place] = array
        self.before = self.nodes(before) if before is not None else \
            [core.literal(node.type, 0) for node in self.nodes(self.after[0])]

    def nodes(self, value: Returned) -> list[core.Node]:
        """The nodes of what it holds, but for arrays of the caller's."""
        return [node for place, nodes in enumerate(value.segments()) if place not in self.kept for node in nodes]

    def write(self, nodes: Sequence[core.Node], made: dict[Any, Any]) -> None:
        """Put in what it holds after the construct: one array, or container, in several places, if all functions have
        left one there, and elements that take none have the same."""
        left, all_nodes = iter(nodes), list[core.Node]()
        for place, segment in enumerate(self.after[0].segments()):
            all_nodes += segment if place in self.kept else [next(left) for _ in segment]
        leaves, before = self.spec.fresh(all_nodes, self.last, self.lanes), iter(self.before)
        for place, _, _, count, _ in self.spec.traced():
            if place in self.kept:
                leaves[place] = self.kept[place]
                continue
            own = [id(next(before)) for _ in range(count)]
            key = (*[id(each.leaves[place]) for each in self.after], *([] if self.keeps else own))
            leaves[place] = made.setdefault(key, leaves[place])
        write_place(*self.change[:3], self.rebuilt(leaves, made) if self.every or self.change.spent is MISSING else
                    self.change.spent)

    def rebuilt(self, leaves: list[Any], made: dict[Any, Any]) -> Any:
        """The tree that it holds with other leaves."""
        if self.spec.children is None:
            return leaves[0]
        values = [each.value for each in self.after]
        if not self.keeps:
            values.append(self.change.before)
        return refilled(values, self.spec, iter(leaves), self.owner, become, made)

    def owner(self, values: Sequence[Any], spec: TreeSpec) -> Any:
        """The container that all functions have left in the place of some, and elements that take none have there."""
        found = common_owner(self.calls, list(map(Change.original, self.changes, values)), spec)
        return found if self.keeps or found is values[-1] else None
