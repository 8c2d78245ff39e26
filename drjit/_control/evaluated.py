"""Loops that are evaluated: each iteration is a kernel of its own.

``select`` holds back the elements that have finished; or they are removed (``compress``), once a quarter of those that
are left has finished. Their results are written to arrays of all elements then, and the state of the others is gathered
into smaller ones, which is what the condition and the body are called with. What is read or written by index is memory
that all elements share, and stays as it is; the first iterations, which have all elements, tell which variables these
are.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import KIND, any_vertex, cast, literal, ops, primal

from .._access.lanes import (
    TRUE,
    Watch,
    elements,
    fitting,
    made_from,
    masked_access,
    masking,
    on_part,
    with_lanes,
    written_from,
)
from .._access.store import Journal, noted, overlap, store, store_result, store_same
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe
from .._base.nodes import broadcast
from .._base.types import BOOL, UINT32
from .._functions.ordering import set_positions
from .._trees.contents import read_place, write_place
from .._trees.kinds import MISSING
from .._trees.pytree import TreeSpec, flatten, flatten_nodes
from .aliases import Aliases, Made
from .called import Call, filled, keep_numbers
from .given import Given
from .iteration import FUNCTION, changed_size, condition_of, flattened, require_tuple, spent
from .places import Change, are_others, difference_at, is_kept_by_class, is_spent, place_key, reorder, restore, words_of
from .refilling import become, objects_of, refilled
from .shapes import changed_shape
from .snapshot import Snapshot, snapshot
from .state import difference_of, is_made_of, is_retracked, shape_of
from .wording import Words, require_variables

__all__ = ["Evaluated"]

_EVALUATED, _LITERAL = KIND["evaluated"], KIND["literal"]
_NO_CONFLICTS = core.ReduceMode.NoConflicts.value

#: What becomes of something that was changed, given what it is and what it was: the latter in lanes that take no part.
Join = Callable[[core.Node, core.Node], core.Node]

_MISFITS = (SizeError, *CORE_ERRORS)
_WORDS = Words(FUNCTION, "the body of this loop", "loop", "use a list")

#: What tells nothing to functions that are given all elements.
_ALL = contextlib.nullcontext()
#: Elements are removed when no more of them are left than this share; else all would be moved for the sake of a few.
_SHARE = 0.75


class _Objects:
    """The caller's arrays and containers: what becomes of them while a loop runs.

    The functions are given the caller's own arrays, as long as iterations return them and they have all elements. Their
    nodes are held by nothing else while the body runs, so that it writes to their memory in place.
    """

    def __init__(self, given: Given, names: Sequence[str], strict: bool) -> None:
        self.first = given
        self.given = given
        given.forget_fields()
        self.names = names
        self.strict = strict
        #: Later nodes have larger ids.
        self.since = core.nothing(BOOL).id
        self.last: tuple[Any, list[Any], Call] | None = None
        #: The caller's arrays that are given themselves, by their places.
        self.own = given.arrays()
        #: Places to which iterations have moved another of them, or one from outside, or the same as to another place:
        #: what elements that have left have there is apart.
        self.apart: set[int] = set()
        #: Whether functions rely on what is the same array elsewhere, so that no elements can be removed.
        self.shared = False
        #: Places of which iterations have returned the memory in another array, and those that have been written to
        #: since: they write to the caller's array, which nobody can use afterwards.
        self.copied: set[int] = set()
        self.spent: set[int] = set()
        #: The ids of their nodes before the body, by positions.
        self.numbers: dict[int, int] = {}
        #: Which variables are the caller's arrays still: iterations have returned what they were given.
        self.kept = [True] * len(given.leaves)
        #: The caller's containers that iterations have moved, see ``Call.moved``.
        self.moved: set[int] = set()
        #: What functions know, by their ids, as it is now.
        self.known: dict[int, Snapshot] = {}
        #: What places held before the loop.
        self.places: list[list[Change]] = []
        #: Places that hold an array of others, by their keys: with the mask of lanes that take part since, and what
        #: the others hold there.
        self.waiting: dict[Any, tuple[Change, core.Node, list[core.Node]]] = {}
        #: What these held before the loop.
        self.begun: dict[Any, Any] = {}
        #: The ids of containers that an iteration has put in several places.
        self.several: set[int] = set()
        #: What has been blended for places after an iteration, by the nodes: what is in several is one there.
        self.blends: dict[tuple[core.Node, ...], core.Node] = {}
        #: Places that held what nobody can use, and of which only some lanes have something since.
        self.lost: list[Change] = []
        #: Attributes that classes have computed of what some lanes have.
        self.forgotten: list[Change] = []
        #: The shape of the condition.
        self.lanes: tuple[int, ...] = ()
        self.width = 0

    def call(self, nodes: list[core.Node], function: Callable[..., Any],
             spec: TreeSpec | None = None) -> Call:
        """What a function is called with; ``spec`` tells the shapes of tensors."""
        found = Call(self.given, nodes, function, spec, self.own, None, self.known.get(id(function)))
        if found.snapshot is not None and self.given.plain and not found.snapshot.passed:
            self.known[id(function)] = found.snapshot
        return found

    def tested(self, call: Call, changes: list[Change], nodes: list[core.Node], journal: Journal,
               active: core.Node | None, join: Join) -> None:
        """Join what the condition has changed, which it is called with in lanes that are ``active``, all at first."""
        _require_same_state(call, changes)
        self.note_places(call, changes, TRUE if active is None else active, join, nodes, journal)
        if not journal.entries and not journal.writes:
            return
        if active is not None:
            _join_arrays(join, journal, set(), self.own_arrays(), self.lanes)
        for place, first, count in self.first.spec.positions():
            if place in self.own and place not in self.apart:
                nodes[first:first + count] = self.own[place]._nodes()

    def let_go(self, nodes: list[core.Node]) -> None:
        """Hold nothing of arrays that are given themselves."""
        first = self.first.nodes
        for position in self.own_positions():
            self.numbers[position] = primal(nodes[position]).id
            nodes[position] = TRUE
            if first[position].kind != _LITERAL and first[position].size:  # which errors ask for
                first[position] = literal(BOOL, True, first[position].size)

    def nodes_apart(self) -> list[core.Node]:
        """What arrays hold that are not the state, and are given to functions all the same."""
        return [node for place in self.apart if place in self.own for node in self.own[place]._nodes()]

    def release(self, removed: Sequence[bool]) -> None:
        """Give functions other arrays than the caller's, where nodes have fewer elements than these."""
        for place, first, count in self.first.spec.positions():
            if any(removed[first:first + count]):
                self.own.pop(place, None)

    def own_arrays(self) -> set[int]:
        """The ids of arrays that are given themselves."""
        return {id(array) for array in self.own.values()}

    def own_positions(self) -> list[int]:
        """The positions of the nodes of arrays that are given themselves, and are the state."""
        return [position for place, first, count in self.first.spec.positions() if place in self.own and
                place not in self.apart for position in range(first, first + count)]

    def returned(self, call: Call, value: Any, spec: TreeSpec, active: core.Node, journal: Journal, join: Join,
                 whole: Callable[[int, core.Node], core.Node]) -> tuple[list[core.Node], list[core.Node], TreeSpec]:
        """The nodes of the state before the body, the nodes of what it has returned, and the structure of that; what it
        has changed besides is joined. ``whole`` makes a node of all elements."""
        value = require_tuple(value, len(self.names))
        results, leaves, after = flattened(value, spec, self.names)
        call.require_shared(leaves, self.names)
        if call.copies:
            call.objects = objects_of(value, self.given.spec)
            call.settle()
            call.require_one_object()
        changed, before = call.changed(), list(call.nodes)
        given, own = {id(array): array for array in self.own.values()}, self.own_arrays()
        if any_vertex():
            call.keep_derivatives(results, leaves)
        for place, *_ in self.given.spec.positions():
            leaf = leaves[place]
            if leaf is not call.arrays[place] and id(leaf) not in given and (call.finds(leaf) or [
                    other for other in leaves if other is leaf][1:]):
                given[id(leaf)], self.shared = leaf, True
        last: set[int] = set()
        for place, first, count in self.given.spec.positions():
            array = self.own.get(place)
            if array is not None and place not in self.apart:
                before[first:first + count] = journal.before(array)
                for position in range(first, first + count):
                    if leaves[place] is array:
                        _require_size(active, before[position], results[position], spec, self.names, position)
            if array is not None and place in self.copied and [
                    k for k, node in enumerate(array._nodes(), first) if primal(node).id != self.numbers.get(k)]:
                self.spent.add(place)
            if leaves[place] is call.arrays[place]:
                continue
            if array is not None and place not in self.apart and not [
                    k for k, node in enumerate(array._nodes(), first)  # the same memory, as calls return it
                    if not (results[k] is node and made_from(node, self.numbers[k]))]:
                self.copied.add(place)
                self.kept[place] = False
                continue
            self.own.pop(place, None)
            if id(leaves[place]) in given:
                self.own[place] = given[id(leaves[place])]
                self.apart.add(place)
            for position in range(first, first + count) if self.kept[place] and array is None else ():
                if position in changed:
                    last.add(place)
                    store_result(self.first.leaves[place], position - first,
                                 whole(position, _blend(active, changed[position], before[position])), None,
                                 self.lanes, True)
            self.kept[place] = False
        if last and call.copies:
            call.write_back(last)
        if not self.given.plain:
            call.moved = self.moved
            if call.note_moved(value, call.tree):
                self.shared = True
                if not _is_set(active, max(self.width, active.size)):
                    raise ArgumentError(
                        f"{FUNCTION}(): the body of this loop returns a container that it knows otherwise as state, "
                        "which is another one for elements that take no part. Return a copy.")
        every = call.snapshot is not None and bool(call.snapshot.kept) and _is_set(active, max(self.width, active.size))
        changes = call.leave(value, (), False, every)
        sources = [*before, *call.changed_outside(journal)] if call.snapshot is not None else before
        made = call.made(changes, journal)
        _join_arrays(join, journal, {id(array) for array in (*call.arrays, *leaves)
                                     if isinstance(array, ArrayBase)}.difference(given), own, self.lanes)
        self.width = max(self.width, active.size)
        if not self.given.plain:
            self.require_same_objects(leaves, call.arrays, active)
        self.note_places(call, changes, active, join, sources, journal, leaves)
        for array in made:
            nodes = array._nodes()
            if is_made_of(nodes, [*sources, *masking()], self.since):  # else it is the same for all elements
                store_same(array, [join(node, literal(node.type, 0)) for node in nodes])
        for place, first, count in self.first.spec.positions():
            if place in self.own:
                results[first:first + count] = self.own[place]._nodes()
        self.last = value, leaves, call
        call.nodes = []
        if self.given.spec.holds_numbers():
            keep_numbers(self.given, leaves, call.arrays)
        if not self.given.plain:
            self.given = Given(FUNCTION, call.owner(value), self.first.spec)
            self.given.forget_fields()
            self.given.nodes = []
        return before, results, after

    def note_places(self, call: Call, changes: list[Change], active: core.Node, join: Join, nodes: Sequence[core.Node],
                    journal: Journal, leaves: Sequence[Any] = ()) -> None:
        """Join what a function has put in places, given the nodes of the state before it and of what it has changed,
        and the leaves of what it returned."""
        if call.snapshot is not None:
            for table, _, keys in call.snapshot.reordered:  # each iteration finds what the last one has left
                reorder(table, keys)
            if call.snapshot.waiting or call.rekept:
                require_variables(FUNCTION, call)
            if call.snapshot.caches:
                call.snapshot.forget(functools.partial(is_made_of, given=[*nodes, *masking()], since=self.since),
                                     journal.entries)
        changes = [change for change in changes if change.now is not change.before]  # which a class shows all the same
        if changes:
            self.places.insert(0, changes)
            changes = list({place_key(*change[:3]): change for change in changes}.values())
            put = [leaf for change in changes if change.now is not MISSING
                   for leaf in flatten_nodes(change.now, FUNCTION)[1] if isinstance(leaf, ArrayBase)]
            arrays = [*put, *[leaf for leaf in leaves if isinstance(leaf, ArrayBase)]]
            self.blends = {}
            nodes = [*nodes, *masking()]
            self.several = _in_several(changes)
            for change in changes:
                write_place(change.container, change.kind, change.key,
                            self.joined(call, change, active, join, arrays, nodes))
            for place, *_ in self.given.spec.positions() if leaves else ():
                if place not in self.own and [leaf for leaf in put if overlap(leaf, leaves[place])]:
                    self.own[place], self.shared = leaves[place], True  # of which it is given the same next time
                    self.apart.add(place)
        if call.snapshot is not None and not call.snapshot.same:
            self.known = {key: known for key, known in self.known.items() if known.refresh()}

    def joined(self, call: Call, change: Change, active: core.Node, join: Join, arrays: Sequence[Any],
               nodes: Sequence[core.Node]) -> Any:
        """What a place holds while the loop runs that a function has changed, given all ``arrays`` that it has put
        somewhere, and the nodes of the state before it: what it held before in lanes that take no part, or zeros if
        what is put in a new place depends on lanes.

        An array that is in other places, too, remains the same: what lanes hold that take no part is kept apart until
        the end. Something of another type can be there only if all lanes take part.
        """
        if change.now is MISSING or is_spent(change.now):
            return change.now
        new, leaves, spec = flatten_nodes(change.now, FUNCTION)
        if change.before is MISSING and is_kept_by_class(change):
            if is_made_of(new, nodes, self.since):
                self.forgotten.append(change)
            return change.now
        shared = bool([leaf for leaf in leaves if isinstance(leaf, ArrayBase) and (
            call.places_of(leaf) or call.original(leaf) >= 0 or
            len([array for array in arrays if overlap(array, leaf)]) > 1)]) or spec.children is not None and bool([
                number for number, container in change.containers().items() if number in self.several or
                call.finds(container)])
        key = place_key(*change[:3])
        if change.before is MISSING:
            if change.spent is not MISSING and not _is_set(active, self.width):
                self.lost.append(change)
            zeros = [literal(node.type, 0) if is_made_of([node], nodes, self.since) else node for node in new]
            is_one = shared and zeros != new and active.size == self.width
            self.shared = self.shared or is_one
            if zeros == new or _is_set(active, self.width):
                return change.now
            if is_one:
                self.waiting[key] = change, active, zeros
                return change.now
            return spec.rebuild_nodes([join(*pair) for pair in zip(new, zeros, strict=True)], leaves, self.lanes)
        where = words_of(change.container, change.kind, change.key)
        old, objects, before = flatten_nodes(change.before, FUNCTION)
        found = before.meeting(spec)
        if found is None:
            if before.cls is not spec.cls and (change.before is None or before.traced()) and \
                    not _is_set(active, self.width):
                raise ArgumentError(
                    "{}(): the body of this loop changes {} from {} to {}, which elements that have finished would "
                    "not have. Begin with what it becomes.".format(FUNCTION, *difference_at(where, before, spec)))
            return change.now
        if are_others(leaves, objects) and not _is_set(active, self.width):
            raise ArgumentError(
                f"{FUNCTION}(): the body of this loop puts another object, with arrays, in {where}, which elements "
                "that have finished would not have. Change what the object holds instead, or make its class a PyTree.")
        if all(map(operator.is_, leaves, objects)):
            return change.original(change.now)  # in another container
        _, mask, kept = self.waiting.pop(key, (change, TRUE, old))
        old = [self.blended(mask, each, rest) for each, rest in zip(old, kept, strict=True)]
        if shared:
            if active.size < self.width:
                raise ArgumentError(
                    f"{FUNCTION}(): the body of this loop puts an array in {where} that is in other places, too, but "
                    "only after elements that have finished were removed. Put a copy there, or use compress=False.")
            self.shared = True
            if not _is_set(active, self.width):
                self.waiting[key] = change, active, old
                self.begun.setdefault(key, change.before)
            return change.original(change.now)
        return found.rebuild_nodes([join(*pair) for pair in zip(new, old, strict=True)], leaves, self.lanes)

    def settle(self) -> None:
        """Let places have what lanes hold there that have taken no part since: one array where all lanes have one."""
        self.forget()
        made, found, containers = Made(), [], dict[Any, Any]()
        for key, (change, mask, kept) in self.waiting.items():
            nodes, leaves, spec = flatten_nodes(read_place(change.container, change.kind, change.key), FUNCTION)
            if change.before is MISSING and all(map(self.is_callers, leaves)):
                continue
            fresh = spec.fresh([_blend(mask, each, rest) for each, rest in zip(nodes, kept, strict=True)], leaves,
                               self.lanes)
            parts = [(place, (kept[first:first + count], nodes[first:first + count], [mask] * count))
                     for place, first, count in spec.positions()]
            for place, part in parts:
                made.note(leaves[place], fresh[place], *part)
            found.append((change, spec, leaves, fresh, parts, self.begun.get(key, MISSING)))
        for change, spec, leaves, fresh, parts, before in found:
            for place, part in parts:
                fresh[place] = made.find(leaves[place], fresh[place], *part)
            trees = [read_place(change.container, change.kind, change.key), *([] if before is MISSING else [before])]
            write_place(change.container, change.kind, change.key, fresh[0] if spec.children is None else refilled(
                trees, spec, iter(fresh), _kept, become, containers))
        for change in self.lost:
            write_place(*change[:3], change.spent)

    def blended(self, mask: core.Node, new: core.Node, old: core.Node) -> core.Node:
        """What :func:`_blend` tells, once for the same nodes."""
        key = mask, new, old
        if key not in self.blends:
            self.blends[key] = _blend(mask, new, old)
        return self.blends[key]

    def is_callers(self, leaf: Any) -> bool:
        """Whether a leaf is no array, or one of the caller's, or part of one: nothing was in a place before it."""
        if not isinstance(leaf, ArrayBase) or not leaf._dynamic:
            return True
        assert self.last is not None
        return self.last[2].finds(leaf) or bool([place for place, *_ in self.first.spec.positions() if
                                                 self.kept[place] and overlap(leaf, self.first.leaves[place])])

    def forget(self) -> None:
        """Let attributes that classes compute when they are asked for be computed again, if what they are depends on
        the lanes that take part."""
        for change in self.forgotten:
            if read_place(change.container, change.kind, change.key) is change.now:
                write_place(change.container, change.kind, change.key, MISSING)
        self.forgotten = []

    def require_same_objects(self, leaves: Sequence[Any], before: Sequence[Any], active: core.Node) -> None:
        """Refuse other objects as state that are no arrays, which elements that have finished would not have."""
        place = difference_of(before, leaves)
        if place < 0 or _is_set(active, self.width):
            return
        old, new = before[place], leaves[place]
        path = self.first.spec.paths(self.names)[place]
        if are_others([new], [old]):
            raise ArgumentError(
                f"{FUNCTION}(): the body of this loop returns another object, with arrays, as the state variable "
                f"'{path}', which elements that have finished would not have. Change what the object holds instead, or "
                "make its class a PyTree.")
        if self.strict:
            raise ArgumentError(
                f"{FUNCTION}(): the body of this loop changed the state variable '{path}' of type {describe(old)} from "
                f"{old!r} to {new!r}, also for elements that have finished: Python objects are not tracked. Use a "
                "Dr.Jit array instead, or pass strict=False.")

    def finish(self, nodes: Sequence[core.Node], spec: TreeSpec | None = None) -> Any:
        """The state after the loop."""
        self.settle()
        if self.last is None:
            return self.first.tree
        value, leaves, call = self.last
        arrays = [array if kept else None for array, kept in zip(call.arrays, self.kept, strict=True)]
        found = filled(self.first, value, leaves, call, self.first.nodes, nodes, arrays, spec)
        paths = self.first.spec.node_paths(self.names) if self.spent else []
        for place, first, count in self.first.spec.positions() if self.spent else ():
            if place in self.spent:
                for k in range(first, first + count):
                    store_result(self.first.leaves[place], k - first, spent(nodes[k], paths[k]))
        return found

    def undo(self) -> None:
        """Let places hold what they held before."""
        for changes in self.places:
            restore(changes)


def _in_several(changes: Sequence[Change]) -> set[int]:
    """The ids of the containers that are in several of some places."""
    known, several = set[int](), set[int]()
    for change in changes:
        found = change.containers().keys() if change.now is not MISSING else set[int]()
        several |= found & known
        known |= found
    return several


def _kept(values: Sequence[Any], spec: TreeSpec) -> Any:
    """The container that has been in a place all the time."""
    return values[0] if len(values) > 1 and values[0] is values[1] else None


def _blend(mask: core.Node, new: core.Node, old: core.Node) -> core.Node:
    """What an array is that was changed as a whole, where a mask is set: if it has an element for each lane, of those
    that are given to what runs or of all."""
    if new is old or written_from(new, old):
        return new
    fits = fitting(mask, new, old)
    return new if fits is None else core.blend(fits, [new], [old])[0]


def _join_arrays(join: Join, journal: Journal, known: set[int], own: set[int], lanes: tuple[int, ...]) -> None:
    """Let arrays from outside that a function has changed be what they were in lanes that take no part, and those of
    the state (``own``) have derivatives as before."""
    for array, before, _ in list(journal.entries.values()):
        if id(array) not in known:
            for position, (old, new) in enumerate(zip(before, array._nodes(), strict=True)):
                if is_retracked(new, old):
                    if id(array) in own:
                        store(array, [old], position)
                    continue  # as a whole
                found = join(new, old)
                if found is not new:
                    store_result(array, position, found, None, lanes, True)


def _is_set(active: core.Node, width: int) -> bool:
    """Whether a mask of some of the lanes, or of all, is set for all."""
    if active.size < width:
        return False
    every = core.reduce(active, core.ReduceOp.And.value)
    core.evaluate((every,))
    return bool(core.read_element(every, 0))


class _State:
    """Lets the condition join the kernel that computes the state, as long as it does not read that on the host.

    What it read would be computed in a kernel of its own then, and with it much of the rest, which is computed later.
    """

    def __init__(self, nodes: Sequence[core.Node]) -> None:
        core.evaluate(nodes)
        self.is_read = False
        self.pending: list[core.Node] = []

    def prepare(self, nodes: Sequence[core.Node]) -> None:
        """What must be done before the condition is called."""
        if self.is_read:
            core.evaluate(nodes)
        self.pending = [primal(node) for node in nodes if primal(node).kind != _EVALUATED]

    def check(self) -> None:
        """Find out whether the condition has read any of the state."""
        self.is_read = self.is_read or bool([
            node for node in self.pending if node.kind == _EVALUATED])
        self.pending = []


class Evaluated:
    """A loop that keeps elements that have finished, or removes them (``compress``).

    ``nodes`` is the state of the elements that are left, ``lanes`` tells which ones these are.
    """

    def __init__(self, given: Given, cond: Callable[..., Any], body: Callable[..., Any], names: Sequence[str],
                 compress: bool, first: Any, strict: bool) -> None:
        self.objects = _Objects(given, names, strict)
        self.nodes, self.spec = list(given.nodes), given.spec
        self.state = _State(self.nodes)
        self.cond, self.body, self.names = cond, body, names
        #: What the program has found to be the condition at first, if it has.
        self.first = first
        self.tensors = [leaf for leaf in given.leaves if isinstance(leaf, ArrayBase) and leaf._depth < 0]
        self.compress = compress
        self.width = self.left = 0
        self.lanes: core.Node = TRUE
        #: Which variables are memory that all elements share, by what they belong to.
        self.shared = self.spec.shared_nodes() if compress else set[int]()
        #: What variables of the state are elements of, see :class:`drjit._access.lanes.Part`.
        self.elements: dict[int, tuple[core.Node, core.Node]] = {}
        #: Which variables are memory that all elements share; not known before some iteration.
        self.memory: list[bool] | None = None
        #: Since elements were removed first: which variables have a value for each of those that are left,
        self.own: list[bool] = []
        #: which of them have changed, and what all elements have, as far as they have finished.
        self.changed: list[bool] = []
        self.whole: list[core.Node] = []

    def run(self) -> Any:
        """The state after the loop."""
        with noted():
            try:
                return self.objects.finish(self.repeated(), self.spec)
            except BaseException as error:
                self.objects.undo()
                if isinstance(error, _MISFITS) and self.left != self.width and str(self.width) in str(error) and \
                        "(compress=True)" not in str(error):  # it says so, once
                    paths = self.spec.node_paths(self.names)
                    tables = [repr(paths[k]) for k, node in enumerate(self.whole)
                              if node.size == self.width and not self.own[k]]
                    also = "" if not tables else (
                        f" State variables that are read or written by index ({', '.join(tables)}) have all elements, "
                        "too, and cannot be computed with as well.")
                    raise SizeError(
                        f"{error} This loop removes elements that have finished (compress=True), of which {self.left} "
                        f"are left: pass arrays of all {self.width} elements to it as state variables, instead of "
                        f"referring to them, or use compress=False.{also}") from error
                raise

    def repeated(self) -> list[core.Node]:
        """The nodes of the state after the loop."""
        active = self.test()
        active = with_lanes(active, active.size)
        self.width = self.left = active.size
        if self.compress and (self.width < 2 or self.width >= 1 << 32 or [
                leaf for leaf in self.tensors if len(leaf._s) > 1] or self.is_shared()):
            # whoever computes with tensors of several dimensions relies on their shape, and who finds an array in
            # several places on what it holds
            self.compress = False
        if self.compress:
            self.lanes = core.counter(self.width, UINT32)
        while True:
            number = core.reduce(cast(active, UINT32), core.ReduceOp.Add.value) if self.compress else \
                core.reduce(active, core.ReduceOp.Or.value) if active.size else literal(BOOL, False)
            core.evaluate((*self.nodes, *self.objects.nodes_apart(), active, number))
            left = int(core.read_element(number, 0))
            if not left:
                return self.all_elements()
            if self.memory is not None and max(left, 2) <= _SHARE * self.left and not self.objects.shared:
                active = self.remove(active, left)
            self.step(active)
            active = ops.and_(active, self.test(active))

    def part(self) -> Any:
        """What tells functions that they are given some elements."""
        return on_part(self.lanes, self.width, self.elements) if self.compress else _ALL

    def is_shared(self) -> bool:
        """Whether any of the state that elements would be removed from is the same array as another part of it, or
        found by the functions otherwise."""
        first = self.objects.first
        aliases, known = Aliases(first), (snapshot(None, self.cond), snapshot(None, self.body))
        for place, start, count in first.spec.positions():
            if self.width in [node.size for node in self.nodes[start:start + count]] and (
                    aliases.others(place) or [True for found in known if aliases.is_found(place, found)]):
                return True
        return False

    def call(self, function: Callable[..., Any]) -> Call:
        """What a function is called with; tensors of one element may have become wider."""
        return self.objects.call(self.nodes, function, self.spec if self.tensors and not self.compress else None)

    def test(self, active: core.Node | None = None) -> core.Node:
        """For which of the elements that are left the condition holds; what it has changed is joined where those are
        ``active`` that it is computed for, all at first."""
        self.state.prepare(self.nodes)
        with self.part(), noted() as journal:
            call = self.call(self.cond)
            changes: list[Change] = []
            try:
                value, self.first = self.cond(*call.tree) if self.first is None else self.first, None
                test = condition_of(value)
                self.objects.lanes = shape_of(value, self.spec)
                del value
            finally:
                changes = call.leave()
            self.objects.tested(call, changes, self.nodes, journal, active,
                                functools.partial(self.join, TRUE if active is None else active))
        self.state.check()
        if self.compress and self.left not in (test.size, 0) and test.size != 1:
            raise SizeError(f"{FUNCTION}(): 'cond' returned {test.size} elements, for {self.left} of {self.width}!")
        return test

    def step(self, active: core.Node) -> None:
        """An iteration."""
        names, old_spec = self.names, self.spec
        watch = Watch(self.nodes) if self.compress else None
        with self.part(), masked_access(active), _ALL if watch is None else watch, noted() as journal:
            numbers = [primal(node).id for node in self.nodes] if self.compress else []
            call = self.call(self.body)
            if self.compress:
                old_spec = call.spec()
            self.objects.let_go(self.nodes)
            try:
                before, results, after = self.objects.returned(
                    call, self.body(*call.tree), old_spec, active, journal, functools.partial(self.join, active),
                    self.all_of)
            except BaseException:
                call.leave()
                raise
            del call
            if watch is not None:
                if after != old_spec:
                    _joined(self.spec, old_spec, after, names, flat=True)
                self.note_memory(before, results, [
                    bool(watch.accessed(old)) or made_from(new, old) or position in self.shared
                    for position, (old, new) in enumerate(zip(numbers, results, strict=True))])
            self.nodes = _blended(active, before, results, self.spec, names, self.objects.own_positions())
        if self.tensors and not self.compress:  # those of one element may have become wider
            first = self.objects.first
            self.spec = flatten(_joined(first.spec, old_spec, after, names).rebuild_nodes(
                self.nodes, first.leaves, self.objects.lanes), FUNCTION)[1]

    def note_memory(self, before: Sequence[core.Node], results: list[core.Node], memory: list[bool]) -> None:
        """See which variables are memory that all elements share, and which ones an iteration has changed."""
        for position, (old, new) in enumerate(zip(before, results, strict=True)):
            if self.own and self.own[position] and memory[position]:
                raise ArgumentError(
                    f"{FUNCTION}(): the body of this loop reads or writes the state variable "
                    f"'{self.spec.node_paths(self.names)[position]}' by index, but only after elements that have "
                    "finished were removed from it. Read an array from outside instead, or use compress=False.")
            if self.own and not (new is old or written_from(new, old)):
                self.changed[position] = True
                if old.size == 1:  # one for all so far
                    self.own[position], self.whole[position] = True, broadcast(old, self.width)
                    if new.size == self.width:  # the caller's own array, which has been joined
                        self.whole[position], results[position] = new, elements(new, self.lanes, self.elements)
                    self.objects.release(self.own)
        if self.memory is None and not any(
                accessed and new is not old and not written_from(new, old) and self.width in (old.size, new.size)
                for accessed, old, new in zip(memory, before, results, strict=True)):
            # what is computed with, and read by index, cannot be both; perhaps it was the same as something else
            self.memory = memory

    def join(self, active: core.Node, new: core.Node, old: core.Node) -> core.Node:
        """What something from outside has become that was changed as a whole, where a mask is set: it has an element
        for each lane, or for each of those that are left."""
        if self.left == self.width or new is old or written_from(new, old):
            return _blend(active, new, old)
        if new.size != self.width and old.size in (1, self.width) and new.size in (1, self.left):
            return core.scatter(broadcast(old, self.width), new, self.lanes, active, 0, _NO_CONFLICTS)
        return _blend(active, new, old)

    def all_of(self, position: int, node: core.Node) -> core.Node:
        """The node of a variable with all elements, given that of those that are left."""
        if not self.own or not self.own[position]:
            return node
        return core.scatter(self.whole[position], node, self.lanes, TRUE, 0, _NO_CONFLICTS)

    def remove(self, active: core.Node, left: int) -> core.Node:
        """Remove the elements that have finished, given how many have not; returns which take part then."""
        kept = set_positions(active)
        following = literal(BOOL, True, left)
        if left == 1:  # with another one, since one value would stand for all elements
            place = int(core.read_element(kept, 0))
            following = ops.eq(core.counter(2, UINT32), literal(UINT32, 0))
            kept = ops.select(following, literal(UINT32, place), literal(UINT32, 0 if place else 1))
            core.evaluate((kept, following))
            left = 2
        if not self.own:
            assert self.memory is not None
            self.own = [node.size == self.width and not memory
                        for node, memory in zip(self.nodes, self.memory, strict=True)]
            self.changed = [False] * len(self.nodes)
            self.whole = self.nodes.copy()
        else:
            self.finish(ops.inv(active))
        self.objects.forget()
        self.objects.release(self.own)
        self.nodes = [elements(node, kept, self.elements) if own else node
                      for own, node in zip(self.own, self.nodes, strict=True)]
        self.lanes = core.gather(self.lanes, kept, TRUE)
        self.left = left
        core.evaluate([*self.nodes, *self.whole, self.lanes])
        return following

    def finish(self, mask: core.Node) -> None:
        """Write the state of some of the elements that are left to the arrays of all."""
        for position, node in enumerate(self.nodes):
            if self.own[position] and self.changed[position]:
                self.whole[position] = core.scatter(self.whole[position], node, self.lanes, mask,
                                                    core.ReduceOp.Identity.value, core.ReduceMode.NoConflicts.value)

    def all_elements(self) -> list[core.Node]:
        """The state of all elements at the end."""
        if self.left == self.width:
            return self.nodes
        self.finish(TRUE)
        nodes = [whole if own else node
                 for own, node, whole in zip(self.own, self.nodes, self.whole, strict=True)]
        core.evaluate(nodes)
        return nodes


def _require_same_state(call: Call, changes: Sequence[Change]) -> None:
    """Refuse a condition that puts something else in containers of the state, which the body would not be given."""
    for change in changes:
        if change.now is not change.before and call.is_in_arguments(change):
            raise ArgumentError(
                f"{FUNCTION}(): the condition of this loop changes "
                f"{words_of(change.container, change.kind, change.key)}, which is state. A condition only looks at "
                "what it is given: change that in the body.")


def _joined(first: TreeSpec, before: TreeSpec, after: TreeSpec, names: Sequence[str], flat: bool = False) -> TreeSpec:
    """The structure of a state, given those at first, before an iteration, and of what the body returned.

    Tensors of one element get the shape of others, ``flat`` ones of one dimension.
    """
    found = before.joined(after)
    leaves = zip(first.leaf_specs(), before.leaf_specs(), found.leaf_specs(), strict=True)
    for position, (start, old, new) in enumerate(leaves):
        if old.shape != new.shape and (math.prod(old.shape) != 1 or flat and len(new.shape) > 1 or
                                       old.shape != start.shape and math.prod(new.shape) == 1):
            raise changed_shape(before.paths(names)[position], old.shape, after.leaf_specs()[position].shape)
    return found


def _blended(active: core.Node, before: Sequence[core.Node], results: Sequence[core.Node], spec: TreeSpec,
             names: Sequence[str], joined: Sequence[int]) -> list[core.Node]:
    """The state with its new values where elements are active, the old ones elsewhere; some is joined already."""
    found, changed = list(results), []
    for position, (old, new) in enumerate(zip(before, results, strict=True)):
        if new is not old and position not in joined and not written_from(new, old):
            _require_size(active, old, new, spec, names, position)
            changed.append(position)
    values = core.blend(active, [results[position] for position in changed], [before[position] for position in changed])
    for position, value in zip(changed, values, strict=True):
        found[position] = value
    return found


def _require_size(active: core.Node, old: core.Node, new: core.Node, spec: TreeSpec, names: Sequence[str],
                  position: int) -> None:
    """Refuse a new value of a variable that is wider or narrower than the old one, but for broadcasts."""
    if new is old or written_from(new, old):
        return
    if new.size not in (1, old.size) and old.size != 1:
        raise changed_size(old, new, spec.node_paths(names)[position])
    if (old.size != active.size or new.size != active.size) and len({active.size, old.size, new.size} - {1}) > 1:
        raise SizeError(f"{FUNCTION}(): the state variable '{spec.node_paths(names)[position]}' has a size that "
                        f"does not go with that of the condition! (sizes: {old.size}, {active.size})")
