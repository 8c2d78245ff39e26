"""What branches and calls have in common: functions of which each element takes one, and how their results are joined.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MethodType
from typing import Any

import drjit_core as core
from drjit_core import (
    Versions,
    adopt,
    any_vertex,
    choose,
    chosen,
    is_version,
    ops,
    primal,
)

from .._access.lanes import TRUE, fitting, masked_access, masking, written_apart, written_from
from .._access.store import Journal, innermost_journal, noted, overlap, owner_of, store, store_result, store_same
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe
from .._base.nodes import broadcast
from .._base.types import BOOL
from .._trees.contents import write_place
from .._trees.kinds import MISSING
from .._trees.pytree import TreeSpec, flatten_nodes
from .aliases import Aliases
from .attempts import retried
from .changed import changed_arrays, require_no_writes
from .given import Call, Given, as_left, become, containers_of, first_places, refilled
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
from .snapshot import Snapshot, is_closed, snapshot
from .state import difference_of, is_made_of
from .wording import (
    Words,
    name_in_program,
    place_in_program,
    place_in_words,
    require_data,
    require_variables,
)

__all__ = ["Effects", "Joint", "Results", "Returned", "SymbolicChoice", "argument_of", "blended", "called_directly",
           "invoked", "run_directly"]


_LITERAL = core.KIND["literal"]
#: What most constructs have no entries in: whoever adds the first one replaces it.
_EMPTY: list[Any] = []
_NOTHING: dict[Any, Any] = {}
_NONE: set[Any] = set()
_NO_PARTS: set[tuple[int, int]] = set()


class Results:
    """What the functions of a construct return: trees of one structure, in which shapes of tensors go together."""

    def __init__(self, function: str, names: Sequence[str] = (), strict: bool = True, otherwise: str = "",
                 fill: Callable[[Sequence[Returned]], None] | None = None, lanes: tuple[int, ...] = ()) -> None:
        self.function = function
        #: The shape of what decides.
        self.lanes = lanes
        self.names = names
        self.strict = strict
        #: What helps where Python objects differ.
        self.otherwise = otherwise
        #: What completes what functions have returned, before it is compared.
        self.fill = fill
        self.spec: TreeSpec | None = None
        self.leaves: Sequence[Any] = _EMPTY
        self.which = ""
        #: Of a symbolic call that is optimized: for which elements functions are called, whose results may be known;
        #: whether those of a branch may be.
        self.called: core.Node | None = None
        self.optimizes = False
        #: Whether each element is known to take one of the functions, if its index is none too large.
        self.every = True
        #: The results that all functions have returned, as far as they are literals.
        self.common: list[core.Node | None] = _EMPTY

    def root(self, value: Any) -> str | Sequence[str]:
        """What a result is called in messages."""
        children = self.spec.children if self.spec is not None and self.spec.cls is tuple else None
        if value.__class__ is not tuple or children is None or len(children) != len(value):
            return "result"
        return self.names if len(value) == len(self.names) else [f"result[{k}]" for k in range(len(value))]

    def complete(self, returned: Sequence[Returned], labels: Sequence[str]) -> None:
        """Compare what all functions have returned: trees of one structure."""
        if self.fill is not None:
            self.fill(returned)
        first = returned[0]
        self.spec, self.leaves, self.which = first.spec, first.leaves, labels[0]
        self.common = _EMPTY
        if self.called is not None or self.optimizes:
            for node in first.nodes:
                if node.kind == _LITERAL:
                    self.common = list(first.nodes)
                    break
        for number in range(1, len(returned)):
            self.compare(returned[number], labels[number])

    def compare(self, other: Returned, which: str) -> None:
        """Compare what a function has returned with what the first one has."""
        assert self.spec is not None
        if other.spec is not self.spec and other.spec != self.spec:
            root = self.root(other.value)
            difference = self.spec.difference(other.spec, root, True)
            if difference is not None:
                path, what, first, second = difference
                advice = " Convert one of them, so that both are of the same type." if what == "type" else ""
                raise ArgumentError(
                    f"{self.function}(): '{self.which}' and '{which}' must return values of the same types and "
                    f"structure, but the {what} of '{path}' is {first} in '{self.which}' and {second} in '{which}'."
                    f"{advice}")
            other.align(self.spec)
            self.spec = self.spec.joined(other.spec)
        if self.common:
            for position, node in enumerate(self.common):
                if node is not None and (node is not other.nodes[position] or node.kind != _LITERAL):
                    self.common[position] = None
        leaves = other.leaves
        if len(self.spec.traced()) == len(leaves):  # there is nothing but traced arrays
            return
        if self.strict:
            place = difference_of(self.leaves, leaves)
            if place >= 0:
                old, new = self.leaves[place], leaves[place]
                raise ArgumentError(
                    f"{self.function}(): '{self.which}' and '{which}' return different values of "
                    f"'{self.spec.paths(self.root(other.value))[place]}', a Python object of type {describe(old)} that "
                    f"is not tracked: {old!r} and {new!r}. Use a Dr.Jit array instead{self.otherwise}.")
        else:
            self.leaves = [old if isinstance(new, ArrayBase) and new._dynamic else new
                           for old, new in zip(self.leaves, leaves, strict=True)]

    def place(self, position: int) -> str:
        """The name of the result that a node is part of."""
        assert self.spec is not None
        names = self.names if self.spec.cls is tuple and self.spec.children is not None and \
            len(self.spec.children) == len(self.names) and self.names else "result"
        return self.spec.node_paths(names)[position]

    def rebuilt(self, nodes: list[core.Node], returned: Sequence[Returned] = (), calls: Sequence[Call] = (),
                made: dict[Any, Any] | None = None, given: Given | None = None) -> Any:
        """The tree of joined results; what all functions return of the caller's is the caller's, and what was ``made``
        for places, in which they have left it, too, is in these.

        Where all functions have returned the same literal, it is that. What they were ``given`` tells what is the
        caller's, instead of calls, if they have left that alone, and all else.
        """
        assert self.spec is not None
        for position, node in enumerate(self.common):
            if node is not None and node.kind == _LITERAL:
                nodes = nodes.copy()
                nodes[position] = node if self.called is None else _where(self.called, node, nodes[position].size)
        fresh = self.spec.fresh(nodes, self.leaves, self.lanes)
        if returned:
            positions = self.spec.positions()
            first = first_places(returned[0].leaves) if len(positions) > 1 else None
            for place, _, _ in positions:
                array = kept_of(place, returned, calls, given) if calls or given is not None else None
                if array is None and calls and made:
                    array = made.get(tuple([id(each.leaves[place]) for each in returned]))
                before = place if first is None else first[place]
                if array is not None:
                    fresh[place] = array
                elif before != place and not [each for each in returned
                                              if each.leaves[place] is not each.leaves[before]]:
                    fresh[place] = fresh[before]
        if self.spec.children is None:
            return fresh[0]
        values = [each.value for each in returned]
        if given is not None:
            if self.spec.is_flat and len(values) > 1 and values[0] is not values[1]:
                return tuple(fresh)
            calls = [Call(given, given.nodes, None, own_nodes=True)] * len(values)
        if not calls:
            return self.spec.rebuild(fresh) if not values or self.spec.is_flat else \
                refilled(values, self.spec, iter(fresh), _none, become)
        owned = [id(call_.own(value)) for call_, value in zip(calls, values, strict=True)]
        if self.spec.is_flat and any(map(owned[0].__ne__, owned)):
            return tuple(fresh)
        return refilled(values, self.spec, iter(fresh), functools.partial(_owner, calls), calls[0].become, made)


def kept_of(place: int, returned: Sequence[Returned], calls: Sequence[Call], given: Given | None = None) -> Any:
    """The caller's array that all functions have returned in one place, an argument or one from outside; ``None`` if
    that is something else. They were called with ``given`` arrays themselves, or else by ``calls``."""
    first, origin = returned[0], -1
    array, same = first.leaves[place], True
    for number, each in enumerate(returned):
        leaf = each.leaves[place]
        if given is None:
            called = calls[number]
            found = called.original(leaf)
        else:
            found = given.place_of(leaf)
        same = same and found < 0 and leaf is array
        if not same and (found < 0 or number and found != origin):
            return None
        origin = found
    if given is None:
        called = calls[len(returned) - 1]
        given = called.given
    return array if same else given.leaves[origin]


def _where(called: core.Node, result: core.Node, width: int) -> core.Node:
    """A literal that functions return, for those elements that they are called for, and zero for others."""
    found = core.literal(result.type, result.payload, width, result.attr)
    return core.ops.select(called, found, core.literal(result.type, 0))  # type: ignore[no-any-return]


class Returned:
    """What one function has returned."""

    __slots__ = ("given", "leaves", "nodes", "spec", "value")

    leaves: Sequence[Any]

    def __init__(self, function: str, value: Any, like: TreeSpec | None = None) -> None:
        self.take(function, value, like)
        #: The nodes of what the function was given, if it has done nothing besides.
        self.given: list[core.Node] = _EMPTY

    def take(self, function: str, value: Any, like: TreeSpec | None = None) -> None:
        """Look at a value, which is probably ``like`` another one."""
        self.value = value
        self.nodes, self.leaves, self.spec = flatten_nodes(value, function, like)

    def parts(self, position: int) -> tuple[TreeSpec, slice, slice]:
        """The structure of an entry of a tuple, and which of the leaves and nodes it has."""
        assert self.spec.children is not None
        spec, before = self.spec.children[position], TreeSpec(tuple, (), (), self.spec.children[:position])
        first, start = len(before.leaf_specs()), sum([entry[3] for entry in before.traced()])
        return spec, slice(first, first + len(spec.leaf_specs())), slice(start, start + sum(
            [entry[3] for entry in spec.traced()]))

    def entry(self, position: int) -> tuple[TreeSpec, Sequence[core.Node], Sequence[Any]]:
        """The structure of an entry of a tuple, its nodes and its leaves."""
        spec, leaves, nodes = self.parts(position)
        return spec, self.nodes[nodes], self.leaves[leaves]

    def replace(self, position: int, value: Any) -> None:
        """Put another value in the place of an entry of a tuple."""
        assert self.spec.children is not None
        _, leaves, nodes = self.parts(position)
        new, found, spec = flatten_nodes(value, "")
        self.value = (*self.value[:position], value, *self.value[position + 1:])
        self.leaves = [*self.leaves[:leaves.start], *found, *self.leaves[leaves.stop:]]
        self.nodes = [*self.nodes[:nodes.start], *new, *self.nodes[nodes.stop:]]
        self.spec = TreeSpec(tuple, (), (), (*self.spec.children[:position], spec, *self.spec.children[position + 1:]))

    def align(self, spec: TreeSpec) -> None:
        """Bring the entries of dictionaries into the order that a structure has, like this one but for shapes."""
        segments = self.segments()
        order, self.spec = spec.in_order(self.spec)
        self.leaves = [self.leaves[place] for place in order]
        self.nodes = [node for place in order for node in segments[place]]

    def widen(self, some: tuple[int, ...], all_: tuple[int, ...]) -> None:
        """Let tensors of some elements, for which the function was called, have the shape of tensors of all."""
        self.spec = self.spec.reshaped({k: all_ for k, _, shape, _, depth in self.spec.traced()
                                        if depth < 0 and shape == some})

    def unusable(self, why: str) -> Any:
        """Something like it that nobody can use, who are told ``why``."""
        nodes = [core.unusable(primal(node), f"this array has no value: {why}") for node in self.nodes]
        return self.spec.rebuild_nodes(nodes, self.leaves)

    def segments(self) -> list[Sequence[core.Node]]:
        """The nodes of each leaf."""
        counts = {place: count for place, _, _, count, _ in self.spec.traced()}
        found: list[Sequence[core.Node]] = []
        start = 0
        for place in range(len(self.leaves)):
            count = counts.get(place, 0)
            found.append(self.nodes[start:start + count])
            start += count
        return found


def _owner(calls: Sequence[Call], values: Sequence[Any], spec: TreeSpec) -> Any:
    """The container that all of several functions have returned; ``None`` if these are several."""
    containers = {id(value): value for value in [call_.own(value) for call_, value in zip(calls, values, strict=True)]}
    return containers.popitem()[1] if len(containers) == 1 else None


class Effects(Returned):
    """What one function of a branch or call has returned, and done besides."""

    __slots__ = ("arrays", "call", "changed", "common", "contents", "held", "label", "left", "made", "orders", "places",
                 "shapes", "showing", "spent")

    def __init__(self, label: str, call_: Call, value: Any, shapes: tuple[Any, Any] | None = None,
                 found: Returned | None = None) -> None:
        self.call = call_
        if found is None:
            self.take(self.call.given.function, value)
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
        if self.made:
            self.held = {id(array): array._nodes() for array in self.made}
        for array in self.made:
            nodes = self.held[id(array)]
            if self.depends(nodes, self.call.changed_outside(journal), since):
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

    __slots__ = ("arrays", "changed", "effects", "given", "lanes", "made", "new", "nodes", "orders", "places",
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
                where = place_in_words(change, _functions_of([each]))
                if change.now is MISSING:
                    if not keeps or [other for other in effects if key not in other.places or
                                     other.places[key].now is not MISSING]:
                        raise ArgumentError(f"{words.function}(): '{each.label}' removes {where}, which only some "
                                            "elements would have. Let it stay" + ", or remove it on both sides." * keeps
                                            + "." * (not keeps))
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
                        f"{words.function}(): '{each.label}' adds {where}, an argument, and others do not, so that its "
                        "structure would differ between elements. Add it before.")
                if is_new and len(having) == 1 and key in each.common:
                    self.new.append(change)
                    continue
                spent = [other.places[key] for other in having if key in other.spent]
                if spent:
                    self.new.append(spent[0])
                    continue
                if is_new:
                    self.new.append(change._replace(now=each.contents[key].unusable(
                        f"'{each.label}' of {words.function}() has put it in {where}, where nothing was, and other "
                        f"elements have nothing there. Put something there before the {words.noun}" +
                        ", or on both sides." * keeps + "." * (not keeps))))
                    continue
                self.places[key] = _Place(change._replace(before=each.call.caller_of(change)), words, [
                    (other, other.standing(key, change, each.call)) for other in effects], results, keeps)

    def before(self) -> list[core.Node]:
        """What all of it was."""
        found = [self.nodes[position] for position in self.changed]
        found += [before for *_, before in self.arrays.values()]
        return found + [node for place in self.places.values() for node in place.before]

    def after(self, number: int) -> list[core.Node]:
        """What all of it is after one of the functions."""
        each = self.effects[number]
        found = [each.changed.get(position, each.call.nodes[position]) for position in self.changed]
        for key, (array, position, before) in self.arrays.items():
            left = each.left_in(array)
            found.append(each.arrays[key][3] if key in each.arrays else before if left is None else left[position])
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
        found = _owner(self.calls, list(map(Change.original, self.changes, values)), spec)
        return found if self.keeps or found is values[-1] else None


class SymbolicChoice:
    """A branch or call that is traced into one construct of a kernel.

    What the functions change besides what they return is further results of it.
    """

    def __init__(self, words: Words, mask: core.Node, index: core.Node | None, label: str | None, labels: Sequence[str],
                 functions: list[Callable[..., Any]], named: bool, given: Given, names: str | Sequence[str],
                 results: Results) -> None:
        self.words = words
        #: Which elements take part, or take the first function; which function elements take, of a call.
        self.mask = mask
        self.index = index
        self.label = label
        #: What messages call the user's functions.
        self.labels = labels
        self.functions = functions
        #: Whether there are arguments with names: then what the functions are given is a pair.
        self.named = named
        self.given = given
        self.nodes = self.given.nodes
        self.names = names
        self.results = results
        self.count = len(self.nodes)
        #: The components of larger arrays that are arguments, see :meth:`Aliases.covered`.
        self.parts = Aliases(given).covered(parts) if (parts := self.given.parts()) else _NO_PARTS
        #: Arguments that the functions are given as they are, by position.
        self.known: dict[int, core.Node] = _NOTHING
        #: Arrays from outside that the functions write to by index: arrays, components and what these were.
        self.written: dict[Any, tuple[Any, int, core.Node]] = _NOTHING
        self.journal: Journal
        #: What the last function knows.
        self.snapshot: Snapshot | None = None
        #: What the functions have returned, and done besides; whether that is nothing.
        self.effects: list[Any] = _EMPTY
        self.plain = True
        #: What the functions change, if anything.
        self.joint: Joint | None = None

    def run(self) -> Any:
        """The results, joined."""
        around = innermost_journal()
        self.journal = Journal(around)
        values, versions = retried(self, self.words, around,
                                   "what decides, and what the functions compute and write by index")
        if around is not None:
            around.begun += 1
        for place, (array, position, initial) in enumerate(self.written.values()):
            version = versions.get(self.count + place)
            if version is not None and version is not initial and (
                    around is not None or not self.journal.has_made(array)):
                store_result(array, position, version)
        try:
            found = self.finish(values, versions)
        except BaseException:
            if self.joint is not None:
                self.joint.restore()
            raise
        self.effects = _EMPTY
        self.snapshot = None
        return found

    def clear(self) -> None:
        """Forget what else changes: it is found again."""
        self.written = _NOTHING

    def restart(self, around: Journal | None) -> None:
        """Begin again with what has been found."""

    def check_sizes(self) -> None:
        """Refuse results whose sizes do not go with that of what decides; arguments may have any."""
        decides = self.mask if self.index is None else self.index
        if self.results.spec is None or len(self.effects) < len(self.functions):
            return
        for position, nodes in enumerate(zip(*[effects.nodes for effects in self.effects], strict=False)):
            if len({decides.size, *[node.size for node in nodes if not is_version(primal(node))]} - {1}) > 1:
                raise _wrong_sizes(self.words, self.results, position, [*nodes, decides], self.index is None)

    def attempt(self) -> tuple[list[core.Node], Versions]:
        """The nodes of the results, and what arguments are after writes."""
        variables = self.nodes
        if self.written:
            variables = [*variables, *[initial for _, _, initial in self.written.values()]]
        if any_vertex():  # most have nothing to do with derivatives
            targets = [functools.partial(self.target, number) for number in range(len(self.functions))]
            return choose(self.words.function, self.mask, self.index, variables, targets, self.label, self.name_of,
                          self.count, self.joined)
        functions: Any = self  # in the compiled form, the class derives from core.Functions
        return chosen(functions, len(self.functions), self.mask, self.index, variables, self.label, self.count, True)

    # --- what the compiler calls -------------------------------------------------------------------------------------

    def target(self, number: int, formals: list[core.Node]) -> list[core.Node]:
        """What one of the functions returns for what stands for the arguments."""
        function, journal, given = self.functions[number], self.journal, self.given
        if not number:
            self.effects, self.snapshot, self.plain = [], None, True
            if self.written:
                for key in list(self.written)[len(formals) - self.count:]:  # of a trace that was given up
                    del self.written[key]
        journal.number = number
        journal.begin()
        try:
            nodes = formals
            if len(formals) > self.count:
                nodes = formals[:self.count]
                for (array, position, _), formal in zip(self.written.values(), formals[self.count:], strict=False):
                    store(array, [formal], position)
            if self.known:
                nodes = [self.known.get(position, formal) for position, formal in enumerate(nodes)]
            if given.plain and not self.written and given.is_apart() and is_closed(function):
                # who knows nothing but flat arrays has nothing but these to change
                nodes = given.lend(nodes, journal)
                returned = Returned(given.function, invoked(function, self.named, given.tree),
                                    self.effects[0].spec if self.effects else None)
                if not journal.entries and given.holds(nodes):
                    returned.given = nodes
                    self.effects.append(returned)
                    return _EMPTY
                called = Call(given, nodes, None, own_nodes=True)
                effects = Effects(self.labels[number], called, returned.value, None, returned)
                known = 0
            else:
                called = Call(given, nodes, function, None, _NOTHING, journal, self.known_by(function))
                known = len(journal.entries)
                try:
                    effects = Effects(self.labels[number], called, invoked(function, self.named, called.tree))
                except BaseException:
                    called.leave(None, (), self.results.strict)
                    raise
            places = called.leave(None, (), self.results.strict)
            self.snapshot = called.snapshot if called.same else None
            if called.snapshot is not None and (called.snapshot.data or called.snapshot.waiting or called.rekept):
                require_variables(self.words.function, called)
                require_data(self.words, called.snapshot, (function,))
            changed = called.changed() if journal.entries or journal.loans or called.copies else _NOTHING
            effects.note(places, journal)
            if effects.made:
                require_no_writes(self.words, effects.made)
                effects.outlive(journal)
            if changed or self.written or len(journal.entries) > known or self.parts:
                effects.left = called.left() | {key: array._nodes() for key, (array, *_) in journal.entries.items()}
                effects.changed, effects.arrays = changed, self.outside(number, called, effects.leaves, formals)
            self.effects.append(effects)
            self.plain = False
            return _EMPTY  # before all functions have been called, nobody knows what their results have in common
        finally:
            journal.roll_back()

    def known_by(self, function: Callable[..., Any]) -> Snapshot | None:
        """What a function knows, if that is part of what the last one did, which has changed nothing of it."""
        known = self.snapshot
        if known is None or not self.given.plain:
            return None
        if isinstance(function, MethodType):
            if id(function.__self__) not in known.seen:
                return None
            function = function.__func__
        return known if id(function) in known.seen else None

    def outside(self, number: int, called: Call, leaves: Sequence[Any],
                formals: Sequence[core.Node]) -> dict[Any, Any]:
        """The arrays from outside that a function has changed as a whole; writes by index make variables of them, as
        far as they are none."""
        known = called.own_arrays(self.journal, leaves)
        variables = formals[self.count:]
        changed: dict[Any, Any] = {}
        numbers = {key: number for number, key in enumerate(self.written)} if self.written else _NOTHING
        functions = (self.functions[number],)
        for array, position, initial, node in changed_arrays(self.words, self.journal, known, functions, called,
                                                             self.written, (), self.parts):
            key = id(array), position
            place = numbers.get(key, len(self.written))
            if place < len(variables) and node is variables[place]:
                continue
            if not is_version(primal(node)):
                changed[key] = array, position, initial, node
                continue
            self.written = self.written or {}
            self.written.setdefault(key, (array, position, primal(initial)))
            if place >= len(variables):
                adopt(place, primal(initial), primal(initial), primal(node))
        return changed

    def joined(self, number: int) -> list[core.Node]:
        """What a function returns, and what it has left of what any of them changes."""
        if not number:
            self.join()
        nodes: list[core.Node] = self.effects[number].nodes
        return nodes if self.joint is None else nodes + self.joint.after(number)

    def join(self) -> None:
        """Find out what the functions return, and change."""
        self.joint = None
        self.results.complete(self.effects, self.labels)
        if self.plain:
            return
        for number, returned in enumerate(self.effects):
            if not isinstance(returned, Effects):
                self.effects[number] = Effects(self.labels[number], Call(self.given, returned.given, None,
                                               own_nodes=True), returned.value, None, returned)
        for effects in self.effects:
            if effects.changed or effects.arrays or effects.places or effects.orders:
                with masked_access(TRUE):  # objects do not keep what they show meanwhile
                    self.joint = Joint(self.words, self.given, self.effects, self.results, self.nodes, False,
                                       self.index is None)
                break

    def name_of(self, position: int) -> str:
        """The name of an argument."""
        if position < self.count:
            return self.given.spec.node_paths(self.names)[position]
        array, *_ = list(self.written.values())[position - self.count]
        return name_in_program(array, self.functions)

    # --- afterwards --------------------------------------------------------------------------------------------------

    def finish(self, values: list[core.Node], versions: Versions) -> Any:
        """The results; what the functions have changed is what it has become."""
        joint = self.joint
        if self.plain:
            return self.results.rebuilt(values, self.effects, given=self.given if self.index is None else None)
        calls = [effects.call for effects in self.effects] if self.index is None else _EMPTY
        if joint is not None:
            count = len(self.effects[0].nodes)
            written = {position: version for position, version in versions.items()
                       if [effects for effects in self.effects if position in effects.changed]}  # and not a copy of it
            joint.write(map(self.taken, values[count:], joint.before()), written)
            values = values[:count]
        return self.results.rebuilt(values, self.effects, calls, None if joint is None else joint.made)

    def taken(self, node: core.Node, before: core.Node) -> core.Node:
        """What something is after a call, also in elements that call nothing."""
        if self.index is None or node is before:
            return node
        taken = ops.and_(self.mask, ops.lt(self.index, core.literal(self.index.type, len(self.functions))))
        return ops.select(taken, node, before)  # type: ignore[no-any-return]


def invoked(function: Callable[..., Any], named: bool, values: Any) -> Any:
    """What a function returns for arguments in order, or in order and by names."""
    return function(*values[0], **values[1]) if named else function(*values)


def run_directly(target: Callable[..., Any], named: bool, width: int, given: Given, lanes: tuple[int, ...]) -> Any:
    """What a function returns that all elements take, which does with its arguments what it likes.

    ``lanes`` is the shape of what decides.
    """
    found = _found_by_all(target, named, width, given)
    if width == 1:
        return found
    values, others, spec = flatten_nodes(found, given.function)
    wide = _of_all(values, width)
    if all(map(operator.is_, wide, values)):
        return found
    kept = {id(leaf) for leaf in given.leaves}
    leaves = [leaf if id(leaf) in kept else new
              for leaf, new in zip(others, spec.fresh(wide, others, lanes), strict=True)]
    return refilled([found], spec, iter(leaves), _first, become)


def called_directly(target: Callable[..., Any], label: str, named: bool, width: int, given: Given,
                    results: Results) -> Any:
    """What a call returns of which all elements take one function: new arrays and containers, as of any call. Whether
    the compiler knows the index makes no difference to what is one array."""
    returned = Returned(given.function, _found_by_all(target, named, width, given))
    results.complete([returned], [label])
    return results.rebuilt(_of_all(returned.nodes, width), [returned])


def _found_by_all(target: Callable[..., Any], named: bool, width: int, given: Given) -> Any:
    """What a function returns that all elements take; if it raises, it has changed nothing."""
    known = snapshot(None if given.plain else given.tree, target)
    with masked_access(core.literal(BOOL, True, width)), noted():
        try:
            return invoked(target, named, given.tree)
        except BaseException:
            if known is not None:
                inside = containers_of(given.tree)
                known.undo(lambda change: id(change.container) in inside)
            raise


def _of_all(values: Sequence[core.Node], width: int) -> list[core.Node]:
    """Results that all elements have: one of them each, but for what a region or memory keeps as it is."""
    return [value if width == 1 or value.scope or core.is_version(core.primal(value)) else broadcast(value, width)
            for value in values]


def _first(values: Sequence[Any], spec: TreeSpec) -> Any:
    return values[0]


def _none(values: Sequence[Any], spec: TreeSpec) -> Any:
    return None


def argument_of(value: core.Node, nodes: Sequence[core.Node]) -> int | None:
    """The position of the argument that a result of an evaluated function is, after writes by index if any."""
    return next((k for k, node in enumerate(nodes) if value is node or written_from(value, node)), None)


def blended(words: Words, mask: core.Node, position: int, yes: core.Node, no: core.Node, results: Results) -> core.Node:
    """A result where a mask is set, and another one elsewhere; or the last version, if by index was written."""
    if yes is no and (yes.size or mask.size < 2 or yes is not core.invalid(yes.type)) or written_from(yes, no):
        return yes
    if written_from(no, yes):
        return no
    if written_apart(yes, no):
        raise ArgumentError(f"{words.function}(): the functions write by index to different copies of one array, and "
                            f"return them as '{results.place(position)}'. Write to the array itself, or use "
                            "mode='symbolic'.")
    fits = fitting(mask, yes, no)
    if fits is None:
        raise _wrong_sizes(words, results, position, [yes, no, mask], True)
    return core.ops.select(fits, yes, no)  # type: ignore[no-any-return]


def _wrong_sizes(words: Words, results: Results, position: int, nodes: Sequence[core.Node],
                 branches: bool) -> SizeError:
    """What is wrong with a result whose sizes in all functions are those of the first nodes, and with what decides."""
    sizes = ", ".join(str(node.size) for node in nodes)
    return SizeError(f"{words.function}(): the sizes of the result '{results.place(position)}' do not go with that of "
                     f"the {'condition' if branches else 'index'}! (sizes: {sizes})")
