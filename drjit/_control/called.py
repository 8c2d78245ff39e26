"""Calls of functions of constructs: what these are given, and what they do to it.

A function gets arrays of its own in place of those that it was given, and the caller's lists, dictionaries and objects,
in which such arrays stand for the caller's as long as it runs. Afterwards everything is as it was before, and the call
tells what has changed (:class:`Call`): arrays that were changed in place, and places that hold others. What becomes of
that, the construct decides, and writes it back when it is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import drjit_core as core

from .._access.store import Journal, owner_of, store, store_result
from .._base.array import ArrayBase
from .._base.errors import ArgumentError
from .._base.handle import Handle, held, is_younger
from .._trees.classes import is_copied
from .._trees.contents import attributes_in_dict, attributes_of, share_attributes, write_place
from .._trees.holders import has_array
from .._trees.kinds import MISSING, OBJECT, about, is_own
from .._trees.pytree import TreeSpec, children, construct, extras, flatten
from .given import Given, place_among, places_of
from .places import Change, place_key, words_of
from .refilling import become, container_pairs, containers_of, items_of, refilled, write_entries
from .snapshot import Snapshot, snapshot
from .state import copies, is_retracked

__all__ = ["Call", "filled", "keep_numbers"]

#: What most calls have no entries in: whoever adds the first one replaces it.
_NOTHING: dict[Any, Any] = {}
_EMPTY: list[Any] = []
_NONE: set[int] = set()
_NO_NODES: dict[int, int] = {}
#: Among so few leaves, one is looked for.
_FEW = 48


class Call:
    """One call of a function; ``spec`` is the structure of the arguments if tensors have other shapes than before.

    Of some arrays, by the places of leaves, it is given the caller's ``own``. If there is a ``journal``, which gives
    them back what they held, it is given those that are ``lent``, or all that it can be given if that is ``None``: so
    it finds one array wherever it is one. What the function knows may be ``known`` already. If the caller's arrays
    hold what stands for them already, their ``own_nodes``, it is given these.
    """

    __slots__ = ("adorned", "arrays", "attributes", "copies", "exchanges", "given", "held", "inside", "mark", "moved",
                 "noted", "nodes", "numbered", "numbers", "objects", "origins", "owned", "rekept", "same", "shared",
                 "snapshot", "stands", "touched", "tree")

    def __init__(self, given: Given, nodes: list[core.Node], function: Callable[..., Any] | None,
                 spec: TreeSpec | None = None, own: Mapping[int, ArrayBase] = _NOTHING, journal: Journal | None = None,
                 known: Snapshot | None = None, lent: set[int] | None = None, own_nodes: bool = False) -> None:
        self.given = given
        self.nodes = nodes
        #: The places of arrays, by their ids, and of which list that is.
        self.numbers: dict[int, int] = _NOTHING
        self.numbered: list[Any] = _EMPTY
        #: Whether what the function knows is as it was before.
        self.same = True
        #: The ids of the caller's containers, once they have been asked for.
        self.inside: set[int] | None = None
        #: The places of leaves of the arguments that are others after the construct.
        self.touched: set[int] = _NONE
        #: Optimisers and the like that the function has changed, which it finds elsewhere than among its arguments.
        self.rekept: list[Any] = _EMPTY
        #: Objects that join by the protocol, as the function has returned them, if any do.
        self.objects: list[Any] = _EMPTY
        #: The arrays that the function was given, where others are in their places now.
        self.stands: list[Any] = _EMPTY
        #: What the caller's containers held, and objects that had to be copied, with what they are copies of.
        self.held: list[tuple[Any, dict[Any, Any], dict[Any, Any]]] = _EMPTY
        self.copies: list[tuple[Any, Any, int, int]] = _EMPTY
        #: Objects that join by the protocol, and have other children as long as the function runs, with the attributes
        #: of before.
        self.exchanges: list[tuple[Any, dict[str, Any]]] = _EMPTY
        #: What objects that had to be copied share elements with: that, how often it had been written to, the object,
        #: the place of its first leaf, and how many it has.
        self.origins: list[tuple[Any, int, Any, int, int]] = _EMPTY
        #: The caller's tuples, objects and arrays that others stand for, by the ids of these.
        self.owned: dict[int, Any] = _NOTHING
        #: The attributes of objects that others share which stand for these, and others of which copies have some, with
        #: what these are copies of and had at first.
        self.attributes: list[Any] = _EMPTY
        self.adorned: list[tuple[Any, Any, dict[str, Any]]] = _EMPTY
        #: The caller's containers, by their ids, that iterations have returned in other places: elements that have left
        #: before have others there.
        self.moved: set[int] = _NONE
        #: Leaves that are in a container which is there before, and where they are in that.
        self.shared: list[tuple[int, int]] = _EMPTY
        self.tree: Any
        self.arrays: list[Any]
        if known is None and function is not None and given.fields is not None:  # before these hold other arrays
            known = given.known_by(function)
        if own_nodes:
            self.tree, self.arrays = self.given.tree, self.given.leaves
        elif journal is not None and lent is None and self.given.is_own():
            self.tree, self.arrays = self.given.tree, self.given.leaves
            self.nodes = self.given.lend(nodes, journal)
        else:
            self.make(self.given.spec if spec is None else spec, own, journal, lent)
        #: What is held by what the function knows; copies are looked at by their leaves.
        self.snapshot = known
        if known is None and given.simple:
            if function is not None and given.fields is None:
                self.snapshot = given.known_by(function)
        elif known is None:
            self.snapshot = snapshot((self.tree, *self.attributes) if self.attributes else self.tree, function,
                                     [copy for copy, *_ in self.copies] if self.copies else _EMPTY)
        if self.snapshot is not None and self.snapshot.kept:
            for copy, original, *_ in self.copies:
                if id(original) in self.snapshot.seen and hasattr(copy, "__drjit_variables__"):
                    self.snapshot.keep(copy)
        #: Whether the snapshot knows of plain fields, too.
        self.noted = False
        #: Arrays that are younger have been made by the function.
        self.mark: Any = None if self.snapshot is None else Handle()

    def make(self, spec: TreeSpec, own: Mapping[int, ArrayBase], journal: Journal | None,
             lent: set[int] | None) -> None:
        """Make arrays that stand for the caller's, and what they are in."""
        given = self.given
        self.arrays = spec.fresh(self.nodes, given.leaves)
        if not given.plain and spec.holds_numbers():
            self.arrays = copies(given.function, spec, self.nodes, given.leaves)
        for place, array in own.items():
            self.arrays[place] = array
        if journal is not None and (lent is None or lent):
            lent = set(given.arrays(True)) if lent is None else lent
            self.nodes = given.lend(self.nodes, journal, lent, self.arrays)
            for place in lent:
                self.arrays[place] = given.leaves[place]
        if given.adorned:
            self.owned = {}
            for array, original in zip(self.arrays, given.leaves, strict=True):
                if array is not original and isinstance(array, ArrayBase) and about(type(original)).has_more:
                    if not share_attributes(array, original) or about(type(original)).slots:
                        self.adorned = [*self.adorned, (array, original, attributes_of(array))]
                    self.owned[id(array)] = original
        if spec.is_flat:
            self.tree = tuple(self.arrays)
        elif given.simple:
            self.tree = given.made_of(self.arrays)
        else:
            self.held, self.copies, self.owned, self.shared, self.touched = [], [], dict(self.owned), [], set()
            self.tree = self.exchanged(given.tree, spec, iter(range(len(self.arrays))), {})
        if given.lent:
            first: dict[int, int] = {}
            self.shared = self.shared + [(place, first[id(given.leaves[place])]) for place in sorted(given.lent) if
                                         first.setdefault(id(given.leaves[place]), place) != place]

    def note_fields(self, known: Snapshot | None) -> None:
        """Take plain fields for places of any kind, besides what the function is known to know."""
        self.noted, self.snapshot = True, Snapshot() if known is None else known
        assert self.given.fields is not None
        self.snapshot.add_entries_of(self.given.fields.entries())

    def exchanged(self, value: Any, spec: TreeSpec, leaves: Iterator[int],
                  seen: dict[int, tuple[Any, int, int]]) -> Any:
        """What stands for a part of the arguments, given the places of its leaves."""
        if spec.children is None:
            return self.arrays[next(leaves)]
        known = seen.get(id(value))
        if known is not None:  # the same container once more
            found, first, count = known
            self.shared += [(next(leaves), first + k) for k in range(count)]
            return found
        items, new, own = items_of(value), {}, {}
        first = last = -1
        entries = dict(items)
        for key, inner in zip(spec.keys if issubclass(spec.cls, dict) else entries, spec.children, strict=True):
            entry, count = entries[key], len(inner.leaf_specs())
            places = list(itertools.islice(leaves, count))
            first, last = places[0] if places and first < 0 else first, places[-1] if places else last
            new[key] = self.exchanged(entry, inner, iter(places), seen)
            if inner.children is None:
                own[key] = places[0]
        if issubclass(spec.cls, tuple):
            found = construct(spec.cls, new)
            self.owned[id(found)] = value
            if spec.cls is not tuple:
                share_attributes(found, value)
            return found
        found, new = value, {key: new[key] for key in entries}
        if spec.prototype is not None:
            found = value.__drjit_rebuild__(new)
            self.note_joined(found, first, last - first + 1)
            if not is_copied(value):
                found = self.exchanged_object(value, found)
            else:
                self.copies.append((found, value, first, last - first + 1))
                if hasattr(value, "__drjit_origin__"):
                    self.origins = [*self.origins, (*value.__drjit_origin__(), value, first, last - first + 1)]
                self.owned[id(found)] = value
                if not is_own(type(value).__module__):
                    self.adorn(found, value)
        else:
            write_entries(value, new)
            now = dict(items_of(value))
            for key, place in own.items():  # properties may have made others of them
                self.arrays[place] = now[key]
            self.held.append((value, dict(items), now))
        seen[id(value)] = found, first, last - first + 1
        return found

    def note_joined(self, found: Any, first: int, count: int) -> None:
        """Note which arrays that are one at several places of an object are one in that which has been made of it."""
        before = self.given.leaves[first:first + count]
        if len(set(map(id, before))) == count:
            return
        places = {id(array): first + k for k, array in reversed(list(enumerate(self.arrays[first:first + count])))}
        for k, array in enumerate(flatten(found, self.given.function)[0]):
            other = places.get(id(array), first + k)
            if other != first + k and before[k] is before[other - first]:
                self.shared.append((first + k, other))

    def exchanged_object(self, value: Any, other: Any) -> Any:
        """Let an object that joins by the protocol be like another one, with other children, as long as the function
        runs, which may find it elsewhere, too; returns it."""
        before = attributes_of(value)
        become(value, other)
        others = {name: before.get(name, MISSING) for name, entry in attributes_of(value).items()
                  if entry is not before.get(name, MISSING)}
        self.exchanges = [*self.exchanges, (value, others)]
        return value

    def adorn(self, stand: Any, original: Any) -> None:
        """Let an object that joins by the protocol have the attributes of the one that it stands for."""
        if share_attributes(stand, original):
            self.attributes = [*self.attributes, original.__dict__]
            self.owned[id(original.__dict__)] = original
        else:
            self.adorned = [*self.adorned, (stand, original, attributes_of(stand))]

    def settle_attributes(self) -> str:
        """See what has become of attributes, others than children, that objects do not share with those that they stand
        for: numbers and the like remain what the function has made of them; returns one that holds another array."""
        adorned, self.adorned = self.adorned, _EMPTY
        inside = set(map(id, self.arrays)) | set(map(id, self.stands))
        for stand, original, before in adorned:
            shared = attributes_in_dict(original) if attributes_in_dict(stand) is attributes_in_dict(original) else {}
            for name, value in attributes_of(stand).items():
                old = before.get(name, MISSING)
                if value is old or name in shared or not inside.isdisjoint(
                        [id(leaf) for each in (old, value) for leaf in flatten(each, "")[0]]):
                    continue
                if has_array(old) or has_array(value):
                    return words_of(original, OBJECT, name)
                write_place(original, OBJECT, name, value)
        return ""

    def spec(self) -> TreeSpec:
        """The structure of what the function is called with, in which tensors may have other shapes."""
        _, spec = flatten(self.tree, self.given.function)
        before = self.given.spec
        return spec if spec == before or before.difference(spec, "", True) is not None else before.in_order(spec)[1]

    def require_one_object(self) -> None:
        """Refuse changes of elements that an object, of which the function has a copy, shares with others that it
        finds."""
        known = set(map(id, self.snapshot.showing)) if self.snapshot is not None else _NONE
        self.settle()
        changed = self.changed()
        nodes = {place: node for place, node, _ in self.given.spec.positions()}
        for origin, writes, original, first, count in self.origins:
            others = [other for root, _, other, *_ in self.origins if root is origin and other is not original]
            is_one = original is origin and self.arrays[first] is self.given.leaves[first]
            if (others or id(origin) in known and not is_one) and (origin.__drjit_origin__()[1] != writes or [
                    place for place in range(first, first + count) if nodes[place] in changed]):
                raise ArgumentError(
                    f"{self.given.function}(): a function changes elements of '{self.given.spec.paths('args')[first]}' "
                    "in place, and finds them in another array, too: the same one, or a view. Pass a copy, or refer to "
                    "the array instead of passing it.")

    def settle(self) -> None:
        """See which arrays objects hold now that were copied."""
        if self.copies:
            arrays, self.stands = self.arrays.copy(), self.stands or self.arrays
            for copy, _, first, count in self.copies:
                leaves, _ = flatten(copy, self.given.function)
                if len(leaves) == count:
                    arrays[first:first + count] = leaves
            for place, first in self.shared:
                if self.arrays[place] is self.arrays[first]:
                    arrays[place] = arrays[first]
            self.arrays = arrays

    def join(self, given: Sequence[core.Node]) -> dict[int, int]:
        """Let what is in one container that is given twice be one array in both places. Of the nodes that the function
        is ``given`` returns those that stand for nothing, since it finds others in their places, and which ones, by
        positions."""
        if self.shared:
            starts = {place: (first, count) for place, first, count in self.given.spec.positions()}
            self.arrays, self.nodes = self.arrays.copy(), self.nodes.copy()
            for place, other in self.shared:
                self.arrays[place] = self.arrays[other]
                if place in starts:
                    (first, count), (start, _) = starts[place], starts[other]
                    self.nodes[first:first + count] = self.nodes[start:start + count]
        if self.nodes is given:
            return _NO_NODES
        numbers: dict[int, int] = {}
        for k, node in enumerate(given):
            numbers.setdefault(id(node), k)
        return {k: numbers[id(node)] for k, node in enumerate(self.nodes) if node is not given[k]}

    def changed(self) -> dict[int, core.Node]:
        """The arrays that were changed in place: what they are, by the positions of their nodes.

        Derivatives that are enabled or disabled for what the function was given are so within: elements that take no
        part have them, or not, as before.
        """
        found, first = _NOTHING, 0
        for place, _, _, count, depth in self.given.spec.traced():
            array = self.arrays[place]
            same = self.arrays is self.given.leaves or type(array) is type(self.given.leaves[place])
            if same and depth <= 0:
                if held(array) is not self.nodes[first] and not is_retracked(held(array), self.nodes[first]):
                    found = found or {}
                    found[first] = held(array)
            elif same or isinstance(array, ArrayBase) and array._dynamic:
                for k, node in enumerate((held(array),) if (depth if same else array._depth) <= 0 else array._c):
                    if k < count and node is not self.nodes[first + k] and \
                            not is_retracked(node, self.nodes[first + k]):
                        found = found or {}
                        found[first + k] = node
            first += count
        return found

    def keep_derivatives(self, results: list[core.Node], leaves: Sequence[Any]) -> None:
        """Let the nodes of arrays that are state, and returned, have derivatives as before the function."""
        for place, first, count in self.given.spec.positions():
            if leaves[place] is self.arrays[place]:
                for position in range(first, first + count):
                    if is_retracked(results[position], self.nodes[position]):
                        results[position] = self.nodes[position]

    def changed_outside(self, journal: Journal) -> list[core.Node]:
        """What arrays hold that the function knew, and has changed."""
        return [new for array, before, _ in journal.entries.values() if self.finds(array)
                for old, new in zip(before, array._nodes(), strict=True) if new is not old]

    def left(self) -> dict[int, Sequence[core.Node]]:
        """What the caller's arrays hold that the function is given itself, by their ids, if it leaves them alone."""
        given = self.given
        own = given.spec.positions() if self.tree is given.tree else ()
        return {id(given.leaves[place]): self.nodes[first:first + count] for place, first, count in own}

    def leave(self, returned: Any = None, values: Sequence[Any] = (), counts: bool = False,
              every: bool = False) -> list[Change]:
        """Let everything be as it was; returns the places that hold other arrays than before, but for those of
        containers that were ``returned``, unless these are from outside, and of those in ``values`` of places.

        Numbers, texts and the like remain what the function has made of them, unless those in the arguments ``count``,
        too; and so do optimisers that it finds elsewhere, if ``every`` element takes part.
        """
        if self.copies:
            self.settle()
        if not self.noted:
            self.given.put()
        changes: list[Change] = _EMPTY
        refused = self.settle_attributes() if self.adorned else ""
        if self.snapshot is not None:
            changes = self.snapshot.undo(self.is_in_arguments if counts else None)
            if self.snapshot.kept and not every:
                self.rekept = self.snapshot.rekept()
            self.same = self.snapshot.same
            if changes and self.owned:
                changes = self.of_owners(changes)
        for container, before, new in reversed(self.held):
            now = dict(items_of(container))
            write_entries(container, {key: before[key] for key, stand in new.items() if now.get(key) is stand})
        for value, before in reversed(self.exchanges):
            for name, entry in before.items():
                write_place(value, OBJECT, name, entry)
        if refused:
            raise ArgumentError(
                f"{self.given.function}(): a function changes {refused}, which is state, and no entry or child of it. "
                "Let __drjit_children__() return that, too, or keep it elsewhere.")
        if changes and returned is not None:
            inside, kept = containers_of(returned) - self.moved, containers_of(values)
            changes = [change for change in changes if not self.is_entry(change) or
                       id(change.container) not in kept and (
                           id(change.container) not in inside or self.is_outside(change.container))]
        return changes

    def is_entry(self, change: Change) -> bool:
        """Whether a place in a container of a tree is one of those that the tree has, and no attribute besides."""
        if change.kind != OBJECT or [value for value, names in self.exchanges
                                     if value is change.container and change.key in names]:
            return True
        return bool([key for key, entry in items_of(change.container) if key == change.key or
                     entry is change.before and has_array(entry)])

    def of_owners(self, changes: Sequence[Change]) -> list[Change]:
        """Changes of attributes of objects that stand for others, which share them, as those of these."""
        found: dict[Any, Change] = {}
        for change in changes:
            owner = self.owned.get(id(change.container))
            if owner is not None:
                change = change._replace(container=owner, kind=OBJECT)
            found.setdefault(place_key(*change[:3]), change)
        return list(found.values())

    def is_in_arguments(self, change: Change) -> bool:
        """Whether a place is an entry of one of the containers that are arguments."""
        return self.holds(change.container) and self.is_entry(change)

    def note_moved(self, value: Any, before: Any) -> bool:
        """See which of the caller's containers are in other places of what was returned than of what was given, or
        come from outside; returns whether any are new that do."""
        items, found = children(value), False
        if items is not None:
            if value is not before and id(value) not in self.moved:
                found = self.is_outside(value)
                if found or self.holds(value):
                    self.moved.add(id(value))
            known = dict(items_of(before)) if before.__class__ is value.__class__ else {}
            for key, entry in items:
                found = self.note_moved(entry, known.get(key)) or found
        return found

    def exchanged_in(self) -> set[int]:
        """The ids of the caller's containers in which the function has put something else than it was given."""
        found = set()
        for container, _, new in self.held:
            now = dict(items_of(container))
            if [key for key, stand in new.items() if now.get(key) is not stand]:
                found.add(id(container))
        return found

    def require_in_place(self, returned: Any) -> None:
        """Refuse containers that the function changes, and returns in the place of others, or where it returns one in
        the places of several: later iterations would change those."""
        changed = self.exchanged_in()
        if not changed:
            return
        self.moved = set()
        self.note_moved(returned, self.tree)
        places: dict[int, set[int]] = {}
        for given, found, _ in container_pairs(self.tree, returned, self.given.spec):
            places.setdefault(id(found), set()).add(id(given))
        joined = self.moved.union(*[several for several in places.values() if len(several) > 1])
        self.moved = _NONE
        if not changed.isdisjoint(joined):
            raise ArgumentError(
                f"{self.given.function}(): the body of this symbolic loop changes containers of the state, which "
                "change places: another one in each iteration. Give the body copies, or run the loop with "
                "mode='evaluated'.")

    def caller_of(self, change: Change) -> Any:
        """What the caller had in a place where an array of the function's stood before it changed that."""
        for container, before, new in self.held:
            if container is change.container and new.get(change.key, self) is change.before:
                return before[change.key]
        place = self.original(change.before)  # setters put them elsewhere
        return change.before if place < 0 else self.given.leaves[place]

    def own(self, container: Any) -> Any:
        """The caller's container that one stands for; others as they are."""
        return self.given.tree if container is self.tree else self.owned.get(id(container), container)

    def become(self, owner: Any, other: Any) -> Any:
        """Let an object be like another one that a function has returned, if it is the caller's; returns what it is."""
        if not is_copied(owner):
            return become(owner, other)
        for _, original, first, count in self.copies:
            if original is owner:
                return become(owner, other) if self.touched.intersection(range(first, first + count)) else owner
        return other

    def write_back(self, places: set[int]) -> None:
        """Tell the caller's objects that others stand for of arrays of theirs that have changed, in some places."""
        for _, original, first, count in self.copies:
            if places.intersection(range(first, first + count)):
                _, spec = flatten(original, self.given.function)
                become(original, spec.rebuild(self.given.leaves[first:first + count]))

    def holds(self, container: Any) -> bool:
        """Whether a container is one of the caller's, and part of the arguments."""
        if self.tree is self.given.tree:
            self.inside = self.inside or containers_of(self.tree)
        elif self.inside is None:
            self.inside = {id(entry) for entry, *_ in (*self.held, *self.exchanges)}
            if self.given.fields is not None:
                self.inside.update(self.given.fields.containers())
        return id(container) in self.inside

    def showing(self) -> dict[int, Any]:
        """What objects that the function knows show now, others by the ids of these."""
        if self.snapshot is None or not self.snapshot.showing:
            return _NOTHING
        return {id(value): value.__drjit_rebuild__(dict(items_of(value))) for value in self.snapshot.showing}

    def owner(self, value: Any) -> Any:
        """A tree that the function returned, with the caller's objects where others stand for them."""
        found = self.own(value)
        items = children(value)
        if items is None:
            return found
        if found is not value:  # with the caller's arrays, and what else is known by now
            if isinstance(value, tuple):
                return found
            (arrays, _), (leaves, spec) = [flatten(each, self.given.function) for each in (found, value)]
            return become(found, spec.rebuild([array if isinstance(leaf, ArrayBase) else leaf for array, leaf
                                               in zip(arrays, leaves, strict=True)]))
        new = {key: self.owner(entry) for key, entry in items}
        changed = {key: new[key] for key, entry in items if new[key] is not entry}
        if not changed or hasattr(value, "__drjit_children__"):
            return value
        if isinstance(value, tuple):
            return construct(value.__class__, new, extras(value))
        write_entries(value, changed)
        return value

    def finds(self, value: Any) -> bool:
        """Whether the function may find a container or an array, or part of it, besides what it is given."""
        if isinstance(value, ArrayBase):
            return bool(self.places_of(value))
        return self.snapshot is not None and id(value) in self.snapshot.seen

    def is_outside(self, container: Any) -> bool:
        """Whether the function finds a container of the caller's that is no part of the arguments."""
        return self.finds(container) and not self.holds(self.own(container))

    def made(self, changes: Sequence[Change], journal: Journal) -> list[ArrayBase]:
        """The arrays that the function has made, and put in places, or in objects that it has put there. They hold what
        it has left in them, whatever becomes of others that it has changed."""
        values = [change.now for change in changes if has_array(change.now)]
        put = snapshot(values, None) if values else None
        found: dict[int, ArrayBase] = {}
        for value in put.values() if put is not None else ():
            if isinstance(value, ArrayBase) and value._dynamic:
                array = owner_of(value)[0]
                if is_younger(array, self.mark):
                    found[id(array)] = array
                    journal.entries.pop(id(array), None)
        return list(found.values())

    def own_arrays(self, journal: Journal, returned: Sequence[Any]) -> set[int]:
        """The ids of arrays that are none from outside: those that the function was given, and has made and returned.
        """
        found = {id(array) for array in (*self.arrays, *self.stands) if isinstance(array, ArrayBase)}
        found.update([id(leaf) for leaf in returned if id(leaf) in journal.entries and not self.finds(leaf)])
        return found

    def places_of(self, array: Any) -> list[tuple[Any, int, Any]]:
        """The places in which an array was, or any of it, of those that the function may find besides what it is given.
        """
        return _EMPTY if self.snapshot is None else self.snapshot.places(array)

    def original(self, array: Any) -> int:
        """The place among the leaves of the argument that an array stands for; -1 if it is none."""
        if not isinstance(array, ArrayBase):
            return -1
        if self.arrays is self.given.leaves:
            return self.given.place_of(array)
        if len(self.arrays) <= _FEW:
            return place_among(self.arrays, array)
        if self.numbered is not self.arrays:
            self.numbered, self.numbers = self.arrays, places_of(self.arrays)
        return self.numbers.get(id(array), -1)

    def require_shared(self, leaves: Sequence[Any], names: Sequence[str], returned: Any = None) -> None:
        """Refuse what is no longer the same array in several places, as it was before, or container, if what was
        ``returned`` is given."""
        apart = [pair for pair in self.shared if leaves[pair[0]] is not leaves[pair[1]]]
        known: dict[int, tuple[Any, int]] = {}
        changed = _NONE if returned is None else self.exchanged_in()
        for given, found, place in container_pairs(self.tree, returned, self.given.spec) if changed else ():
            before, first = known.setdefault(id(given), (found, place))
            if before is not found and id(given) in changed:
                apart.append((place, first))
        if apart:
            paths, (place, first) = self.given.spec.paths(names), apart[0]
            raise ArgumentError(
                f"{self.given.function}(): '{paths[first]}' and '{paths[place]}' are one array, or in one container, "
                "which is given twice, and are two afterwards: what changes one of them in place would change the "
                "other one in the first iteration only. Pass copies, so that they are two before, too.")


def filled(given: Given, returned: Any, leaves: Sequence[Any], call: Call, before: Sequence[core.Node],
           after: Sequence[core.Node], stands: Sequence[Any] | None = None, spec: TreeSpec | None = None) -> Any:
    """What a loop's body returned, with what the loop has made of it: the caller's arrays where it was given those
    that stand for them, and has returned the same; others elsewhere. ``spec`` tells the shapes of tensors."""
    shaped = given.spec if spec is None else spec
    fresh = shaped.fresh(after, leaves)
    if stands is None:
        stands = call.arrays
    others = _NONE
    for place, first, count in given.spec.positions():
        if call.copies and (leaves[place] is not stands[place] or
                            list(after[first:first + count]) != list(before[first:first + count])):
            call.touched.add(place)
        if leaves[place] is not stands[place]:
            if call.copies and given.leaves[place]._nodes() != given.nodes[first:first + count]:
                others = {*others, place}  # which the first iteration has changed
            continue
        array = given.leaves[place]
        for position in range(first, first + count):
            if after[position] is not before[position] or before[position] is not given.nodes[position]:
                store_result(array, position - first, after[position], fresh[place])
        fresh[place] = array
    if not given.plain and given.spec.holds_numbers():
        for place in keep_numbers(given, leaves, stands):
            fresh[place] = given.leaves[place]
    for place, first in call.shared:
        if given.leaves[place] is given.leaves[first]:  # before the first iteration, too
            fresh[place] = fresh[first]
    if others:
        call.write_back(others)
    if given.spec.is_flat:
        for place, entry in enumerate(fresh):
            if entry is not given.leaves[place]:
                return tuple(fresh)
        return given.tree
    return _filled(returned, given.spec, iter(fresh), given.tree, call, iter(call.objects))


def keep_numbers(given: Given, leaves: Sequence[Any], stands: Sequence[Any]) -> list[int]:
    """Let arrays of numbers be what a function has made of the copies that it was given; returns the places of
    those that it has returned."""
    found = []
    for place, (leaf, array) in enumerate(zip(leaves, given.leaves, strict=True)):
        if leaf is stands[place] and isinstance(array, ArrayBase) and not array._dynamic:
            store(array, leaf._nodes())
            found.append(place)
    return found


def _filled(value: Any, spec: TreeSpec, leaves: Iterator[Any], before: Any, call: Call,
            objects: Iterator[Any]) -> Any:
    """A tree that a function returned, with other leaves: in the same containers, unless these stand for others."""
    def owner(values: Sequence[Any], spec: TreeSpec) -> Any:
        value, before = values
        if spec.prototype is not None:
            return call.own(next(objects, value))
        if issubclass(spec.cls, tuple):
            return before
        has_moved = before is not value or id(value) in call.moved  # it has changed places with others
        return None if has_moved and (call.holds(value) or call.is_outside(value)) else value

    return refilled([value, before], spec, leaves, owner, call.become)
