"""What branches and calls have in common: functions of which each element takes one.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import drjit_core as core
from drjit_core import Versions, adopt, any_vertex, choose, chosen, is_version, ops, primal

from .._access.lanes import TRUE, masked_access
from .._access.store import Journal, innermost_journal, noted, store, store_result
from .._base.handle import Handle
from .._base.nodes import broadcast
from .._base.types import BOOL
from .._trees.pytree import TreeSpec, flatten_nodes
from .aliases import Aliases
from .attempts import retried
from .called import Call
from .changed import changed_arrays, require_no_writes
from .closed import is_closed
from .effects import Effects, Joint
from .fields import EXCHANGED, OTHERWISE, SAME
from .given import Given
from .refilling import become, containers_of, refilled
from .results import Results, Returned, wrong_sizes
from .snapshot import Snapshot, snapshot
from .wording import Words, name_in_program, require_data, require_variables

__all__ = ["SymbolicChoice", "called_directly", "invoked", "run_directly"]


#: What most constructs have no entries in: whoever adds the first one replaces it.
_EMPTY: list[Any] = []
_NOTHING: dict[Any, Any] = {}
_NO_PARTS: set[tuple[int, int]] = set()


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
                raise wrong_sizes(self.words, self.results, position, [*nodes, decides], self.index is None)

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
            like = self.effects[0].spec if self.effects else None
            exchanged, fields = SAME, given.fields
            if fields is not None or not self.written and given.simple and given.is_apart() and \
                    is_closed(function):  # who knows nothing but arrays has nothing but these to change
                nodes = given.lend(nodes, journal)
                mark, knows = None, None
                if fields is not None:
                    mark, knows = Handle(), self.known_besides(function)
                try:
                    value = invoked(function, self.named, given.tree)
                    returned = Returned(given.function, value, given.spec if like is None else like)
                except BaseException:
                    if fields is not None:
                        fields.restore()
                    if knows is not None:
                        knows.undo()
                    raise
                same = knows is None or knows.is_unchanged()
                if fields is not None:
                    exchanged = fields.changed(given.leaves)
                if same and exchanged == SAME and not self.written and not journal.entries and given.holds(nodes):
                    returned.given = nodes
                    self.snapshot = knows
                    self.effects.append(returned)
                    return _EMPTY
                called = Call(given, nodes, None, known=knows, own_nodes=True)
                called.mark = mark
                if exchanged == EXCHANGED and fields is not None and not (same and fields.are_new(mark)):
                    exchanged = OTHERWISE
                if exchanged == OTHERWISE:
                    called.note_fields(knows)
                effects = Effects(self.labels[number], called, returned.value, None, returned)
                if exchanged == EXCHANGED and fields is not None:
                    effects.fields = {place: (array, array._nodes()) for place, array in fields.exchanged.items()}
                known = 0
            else:
                called = Call(given, nodes, function, None, _NOTHING, journal, self.known_by(function))
                known = len(journal.entries)
                try:
                    value = invoked(function, self.named, called.tree)
                    effects = Effects(self.labels[number], called, value, None, None, like)
                except BaseException:
                    called.leave(None, (), self.results.strict)
                    raise
            places = called.leave(None, (), self.results.strict)
            self.snapshot = called.snapshot if called.same and not called.noted else None
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
            given.put()
            journal.roll_back()

    def known_by(self, function: Callable[..., Any]) -> Snapshot | None:
        """What a function knows, if that is part of what the last one did, which has changed nothing of it."""
        known = self.snapshot
        if known is None or not self.given.simple:
            return None
        if isinstance(function, MethodType):
            if id(function.__self__) not in known.seen:
                return None
            function = function.__func__
        return known if id(function) in known.seen else None

    def known_besides(self, function: Callable[..., Any]) -> Snapshot | None:
        """What a function knows besides plain fields; of a branch, with what the other one knows."""
        known = self.known_by(function)
        if known is not None or self.given.is_closed(function):
            return known
        if self.index is not None or self.given.fields is None:
            return self.given.known_by(function)
        return snapshot((*self.functions, *self.given.fields.classes), None)

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
        if [effects for effects in self.effects if effects.places]:
            for effects in self.effects:
                effects.note_fields()
        for effects in self.effects:
            if effects.changed or effects.arrays or effects.places or effects.orders or effects.fields:
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
            return self.results.rebuilt(values, self.effects, (), None, self.given if self.index is None else None)
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
