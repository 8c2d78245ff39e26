"""Symbolic loops: the body is called once, with what stands for the state, and the loop becomes part of a kernel."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import (
    SymbolicValue,
    any_vertex,
    is_version,
    primal,
    repeat,
    repeated,
)

from .._access.lanes import note_version, with_lanes
from .._access.store import Journal, innermost_journal, store_result, store_same, traced
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe
from .._base.handle import views
from .._trees.pytree import TreeSpec, flatten_nodes
from .aliases import Aliases, defaults
from .attempts import retried
from .called import Call, filled
from .entries import Late
from .fields import EXCHANGED, OTHERWISE, SAME, NotPlain
from .given import Given
from .outside import NEVER, Variables, are_used, presumed, remember
from .places import Change, place_key, words_of
from .refilling import container_pairs, objects_of
from .shapes import Reshaped, Shapes
from .snapshot import Snapshot, snapshot
from .state import difference_of, mask_of, no_mask, shape_of
from .wording import Words, name_in_program, require_data, require_started, require_variables

__all__ = ["FUNCTION", "SymbolicLoop", "changed_size", "condition_of", "flattened", "require_tuple",
           "spent"]

FUNCTION = "drjit.while_loop"
_WORDS = Words(FUNCTION, "the body of this symbolic loop", "loop", "run the loop with mode='evaluated'")


_NOTHING: dict[int, Any] = {}
_EMPTY: list[Any] = []
#: No positions of memory that is known beforehand.
_NO_MEMORY: frozenset[int] = frozenset()


class SymbolicLoop:
    """A loop that is traced."""

    def __init__(self, given: Given, cond: Callable[..., Any], body: Callable[..., Any], names: Sequence[str],
                 label: str | None, strict: bool, max_iterations: int | None, late: Late | None) -> None:
        self.given = given
        self.nodes = self.given.nodes
        self.cond = cond
        self.body = body
        self.names = names
        self.label = label
        self.strict = strict
        self.max_iterations = max_iterations
        self.count = len(self.nodes)
        #: The structure of what the functions are given.
        self.spec = self.given.spec
        #: If any of the state is a tensor: those of one element have as many as the loop is wide.
        self.shapes = Shapes(self.spec, self.nodes) if self.spec.has_tensors() else None
        #: The shape of the condition.
        self.lanes: tuple[int, ...] = ()
        if not self.given.simple:  # which functions are given the class with
            given.lent = given.guessed = defaults(given)
        #: What the body knows before the loop, until it has been called.
        self.known = given.known_by(body, True) if given.simple else snapshot(None, body, (), True)
        #: Arrays that the body may change, and what is remembered if it does not: see :func:`presumed`.
        self.arrays: list[Any] = _EMPTY
        self.settings: tuple[Any, ...] = ()
        if self.known is not None:
            self.arrays, self.settings = presumed(self.known, self.given.leaves)
        self.journal = Journal(innermost_journal())
        #: What is no state, and changes all the same, if anything does.
        self.variables = None if late is None else self.others(late)
        #: What stands for arrays while a function is called: these, which of their components, and what all of these
        #: were and are.
        self.apart: list[tuple[ArrayBase, list[int], list[core.Node], list[core.Node]]] = _EMPTY
        #: Whether the condition knows nothing but arrays, which it is given.
        self.is_blind = self.given.simple and self.shapes is None and given.is_closed(cond)
        #: What the body returned, its leaves, and the call that it did so in.
        self.returned: Any = None
        self.final: list[Any]
        #: What the condition was.
        self.tested: core.Node
        self.called: Call
        #: Nodes of the state that stand for nothing, and those that others stand for: see :meth:`Call.join`.
        self.joined: dict[int, int] = _NOTHING

    def run(self) -> Any:
        """The state after the loop."""
        around = self.journal.around
        outermost = self.journal.outermost()
        if outermost.lent:  # in another trace of what is around this loop
            self.given.lent = outermost.lent.get(self.where(), self.given.lent)
        if self.given.lent:
            self.clear()
        if outermost.changing:
            self.expect_changes(outermost)
        while True:
            try:
                results = retried(self, _WORDS, around,
                                  "the state, and what the body of this symbolic loop computes and writes by index")
                break
            except (NotPlain, Reshaped):
                if self.given.lent:
                    outermost.lent = outermost.lent | {self.where(): self.given.lent}
                self.clear()
        if self.variables is not None and self.variables.first is not None and self.variables.first.is_narrow:
            raise self.variables.first.refusal()
        if around is not None:
            around.begun += 1
        if self.joined:
            results = [results[self.joined.get(position, position)] for position in range(len(results))]
        for position, node in enumerate(self.nodes):
            result = results[position]
            if is_version(primal(result)):
                note_version(result, node)
        if self.variables is not None:
            self.variables.lanes = self.lanes
            kept = {} if self.returned is None else {
                id(self.final[place]): self.given.leaves[place] for place, *_ in self.given.spec.positions()
                if self.final[place] is self.called.arrays[place]}
            self.variables.finish(results[self.count:], self.journal if around is None else None, self.called, kept)
            for position, (array, component) in self.variables.written.items():
                if results[position] is not self.nodes[position]:
                    store_result(array, component, spent(results[position], self.name_of(position)))
        if self.returned is None:  # it was never called
            return self.given.tree
        spec = None if self.shapes is None else self.shapes.after(results)
        try:
            found = filled(self.given, self.returned, self.final, self.called, self.nodes, results, None, spec)
        except BaseException:
            if self.variables is not None:
                self.variables.restore()
            raise
        self.returned = None
        return found

    def others(self, late: Late | None = None) -> Variables:
        """What is no state, and may change."""
        return Variables(_WORDS, (self.body,), self.journal, late, self.arrays, self.settings)

    def where(self) -> tuple[Any, ...]:
        """What tells that the loop is the same one in another trace of what is around it."""
        return self.code(), *self.journal.path()

    def code(self) -> Any:
        """What tells that the body is another time the same one."""
        return getattr(self.body, "__code__", self.body)

    def expect_changes(self, known: Journal) -> None:
        """Begin with what the body has changed in another trace of what is around this loop."""
        code = self.code()
        places = [change for (body, *_), change in known.changing.items() if body is code]
        if places:
            self.variables = self.variables or self.others()
            self.variables.expect(places)

    def clear(self) -> None:
        """Forget what else changes: it is found again."""
        if self.given.lent and self.arrays:
            self.variables = self.variables or self.others()
        if self.variables is not None:
            if self.given.lent:
                self.variables.leave_out(Aliases(self.given).covered(self.given.lent))
            self.variables.clear()

    def restart(self, around: Journal | None) -> None:
        """Begin again with what has been found."""
        if self.variables is None:
            return
        self.variables.presume()
        if around is not None:
            outermost = around.outermost()
            outermost.changing = outermost.changing | {
                (self.code(), *place_key(*change[:3])): change for change in self.variables.places()}

    def check_sizes(self) -> None:
        """Refuse state variables whose sizes do not go together."""
        _require_common_size(self.nodes, self.nodes, self.given.spec, self.names)

    def all_variables(self) -> list[core.Node]:
        """The state, and what else is known to change, or may do so."""
        if self.variables is not None:
            return [*self.nodes, *self.variables.initial]
        if not self.arrays:
            return self.nodes
        found = list(self.nodes)
        for array, _, positions in self.arrays:
            nodes = array._nodes()
            for position in positions:
                found.append(nodes[position])
        return found

    def attempt(self) -> list[core.Node]:
        """What the compiler makes of it; most loops have nothing to do with derivatives."""
        variables = self.all_variables()
        presumed_ = len(variables) - self.count if self.variables is None else self.variables.presumed
        memory = _NO_MEMORY if self.variables is None else self.variables.memory(self.count)
        if any_vertex():
            return repeat(variables, self.test, self.following, self.label, self.name_of, self.count,
                          self.max_iterations, _longest, presumed_, memory)
        functions: Any = self  # in the compiled form, the class derives from core.Functions
        return repeated(functions, variables, self.label, self.count, 0, True, True, presumed_, None, memory)

    # --- what the compiler calls -------------------------------------------------------------------------------------

    def test(self, variables: list[core.Node]) -> core.Node:
        """The condition, of what stands for the variables."""
        if self.is_blind and not self.given.lent:
            return self.tested_blindly(variables)
        self.begin(variables)
        try:
            call = self.call(variables, self.cond)
            presets, self.journal.entries = self.journal.entries, _NOTHING
            changes: list[Change] = []
            try:
                value = self.applied(self.cond, call)
                if self.given.fields is not None:
                    self.require_same_fields(call.arrays)
                if self.journal.entries:
                    self.require_pure(call)
                self.tested = test = condition_of(value)
                self.lanes = shape_of(value, self.given.spec)
                if self.shapes is not None:
                    self.shapes.note_condition(self.lanes)
            finally:
                if presets:
                    self.journal.entries = {**self.journal.entries, **presets}
                changes = call.leave()
            if changes:
                self.require_same_places(call, changes)
            if call.rekept:
                require_variables(FUNCTION, call)
            return with_lanes(test, test.size)
        finally:
            self.end()

    def tested_blindly(self, variables: list[core.Node]) -> core.Node:
        """The condition, if it has nothing but new arrays to look at, and to change."""
        self.journal.begin()
        try:
            arrays = self.given.spec.fresh(variables, self.given.leaves)
            value = self.cond(*self.given.made_of(arrays))
            if self.given.fields is not None:
                self.require_same_fields(arrays)
            if self.journal.entries:
                call = self.call(variables, self.cond)
                call.arrays = arrays
                self.require_pure(call)
            self.tested = test = condition_of(value)
            self.lanes = shape_of(value, self.given.spec)
            return with_lanes(test, test.size)
        finally:
            self.given.put()
            self.journal.roll_back()

    def require_pure(self, call: Call) -> None:
        """Refuse a condition that changes arrays which it has been given, or knew before."""
        for array, before, _ in self.journal.entries.values():
            if all(map(operator.is_, before, array._nodes())):
                continue
            place = call.original(array)
            if place >= 0 or call.places_of(array):
                name = name_in_program(array, (self.cond,)) if place < 0 else \
                    f"the state variable '{self.given.spec.paths(self.names)[place]}'"
                raise SymbolicValue(
                    f"{FUNCTION}(): the condition of this symbolic loop changes {name}. A condition only looks at what "
                    "it is given: change arrays in the body, or run the loop with mode='evaluated'.")

    def require_same_fields(self, arrays: list[Any]) -> None:
        """Refuse a condition that lets plain fields hold something else, given what they held."""
        fields = self.given.fields
        if fields is None or fields.changed(arrays) == SAME:
            return
        place = next(iter(fields.exchanged), -1)
        what = "the containers of the state" if place < 0 else \
            f"the state variable '{self.given.spec.paths(self.names)[place]}'"
        fields.restore()
        raise SymbolicValue(
            f"{FUNCTION}(): the condition of this symbolic loop changes {what}. A condition only looks at what it is "
            "given: change that in the body.")

    def require_same_places(self, call: Call, changes: Sequence[Change]) -> None:
        """Refuse a condition that has put arrays in places."""
        for change in changes:
            otherwise = "" if call.is_in_arguments(change) else ", or run the loop with mode='evaluated'"
            raise SymbolicValue(
                f"{FUNCTION}(): the condition of this symbolic loop changes "
                f"{words_of(change.container, change.kind, change.key)}. A condition only looks at what it is given: "
                f"change that in the body{otherwise}.")

    def following(self, variables: list[core.Node]) -> list[core.Node]:
        """The variables after an iteration."""
        self.begin(variables)
        try:
            if self.shapes is not None:
                region = core.innermost()
                assert region is not None
                region.asked = True  # their shapes tell how many elements there are
            call, journals = self.call(variables, self.body), traced
            journals.append(self.journal)
            try:
                results = self.called_body(call, variables)
            except BaseException:
                if self.given.fields is not None:
                    self.given.fields.restore()
                call.leave(None, (), True)
                raise
            finally:
                journals.remove(self.journal)
            self.called = call
            return results
        finally:
            self.end()

    def begin(self, variables: list[core.Node]) -> None:
        """Let what is no state have the values that it has in a trace."""
        self.journal.begin()
        self.journal.elsewhere = _EMPTY
        if self.variables is not None:
            self.variables.lanes = self.lanes
            try:
                self.variables.preset(variables[self.count:])
            except BaseException:
                self.end()
                raise
        elif self.arrays:
            self.presume(variables)

    def presume(self, variables: list[core.Node]) -> None:
        """Let arrays that the body may change hold what stands for them: the same values, told apart."""
        number, self.apart = self.count, []
        for array, _, positions in self.arrays:
            before = array._nodes()
            now = list(before)
            for position in positions:
                now[position] = variables[number]
                number += 1
            self.apart.append((array, positions, before, now))
            store_same(array, now)

    def end(self) -> None:
        """Let it have those of before."""
        if self.journal.entries:
            self.journal.roll_back()
        for array, _, before, now in self.apart:
            store_same(array, [before[position] if node is now[position] else node
                               for position, node in enumerate(array._nodes())])
        self.apart = _EMPTY
        if self.variables is not None:
            self.variables.restore()

    def call(self, variables: list[core.Node], function: Callable[..., Any]) -> Call:
        """What one of the user's functions is called with."""
        given, self.spec = variables, self.given.spec
        if len(given) > self.count:
            given = given[:self.count]
        if self.shapes is not None:
            given, self.spec = self.shapes.given(given)
        found = Call(self.given, given, function, self.spec, _NOTHING, self.journal,
                     self.known_before() if function is self.body else None, self.given.lent)
        if function is self.body:
            self.joined = found.join(given)
        return found

    def known_before(self) -> Snapshot | None:
        """What the body knows, if that is seen to be what it was before the loop."""
        known, self.known = self.known, None
        if known is None or not self.given.simple or self.given.lent or \
                self.variables is not None and self.variables.is_found_elsewhere():
            return None
        return None if not self.given.is_closed(self.cond) and known.changes() else known

    def applied(self, function: Callable[..., Any], call: Call) -> Any:
        """What a function of the user returns; sizes that do not go together may be due to shapes that were assumed."""
        try:
            return function(*call.tree)
        except SizeError:
            if self.shapes is not None:
                self.shapes.doubt()
            raise

    def called_body(self, call: Call, variables: list[core.Node]) -> list[core.Node]:
        """What the user's body returns, and what it has changed besides."""
        count, names, given = self.count, self.names, self.given
        if self.returned is not None and self.settings and not self.arrays:  # it may change what is not presumed
            remember(self.settings, NEVER)
        returned = require_tuple(self.applied(self.body, call), len(names))
        results, final, after = flattened(returned, self.spec, names)
        if given.fields is not None:
            self.require_plain(call, returned)
        if any_vertex():
            call.keep_derivatives(results, final)
        if self.shapes is not None:
            self.shapes.note_results(self.spec, after, names)
        _require_sizes(variables, results, given.spec, names)
        if len(given.spec.traced()) < len(final) and self.strict:
            _require_unchanged(given.leaves, final, given.spec, names)
        self.returned, self.final = returned, final
        if call.shared:
            call.require_shared(final, names, returned)
        if self.joined:
            self.joined = {k: other for k, other in self.joined.items() if results[k] is results[other]}
            for position in self.joined:
                results[position] = variables[position]
        if call.copies:
            call.objects = objects_of(returned, given.spec)
            call.settle()
            call.require_one_object()
        if call.held:
            call.require_in_place(returned)
        if self.journal.elsewhere:
            self.require_left_alone(call, [*results, self.tested])
        values = self.variables.settle() if self.variables is not None else ()
        changes = call.leave(returned, values)
        if call.snapshot is not None and (call.snapshot.data or call.snapshot.waiting or call.snapshot.begun or
                                          call.rekept):
            require_variables(FUNCTION, call)
            require_data(_WORDS, call.snapshot, (self.body,))
            require_started(_WORDS, call.snapshot)
        if call.snapshot is not None and call.snapshot.caches:
            call.snapshot.forget(_are_within, self.journal.entries)
        orders = _EMPTY if call.snapshot is None else call.snapshot.reordered
        if orders and self.variables is not None and self.variables.first is not None:
            raise SymbolicValue(
                f"{FUNCTION}(): the body of this symbolic loop changes the order of the entries of a "
                f"{type(orders[0][0]).__name__} in each iteration. Leave the order as it is, or {_WORDS.otherwise}.")
        if self.variables is None:
            if not changes and not orders and not call.copies and self.returns_all(call, final):
                if not self.arrays:
                    return results
                remember(self.settings)
                return results + variables[count:]
            self.variables = self.others()
            self.variables.lanes = self.lanes
            self.variables.stand(self.apart)
        kept = [final[place] is call.arrays[place] for place, _, _ in given.spec.positions()]
        self.variables.results = others = self.variables.found(call, kept, changes, self.journal, variables, final,
                                                               results, self.tested)
        return results + others

    def require_plain(self, call: Call, returned: Any) -> None:
        """Trace the loop again if the body has changed containers in another way than by exchanging the arrays in
        those that it has returned where they were."""
        given, fields = self.given, self.given.fields
        assert fields is not None
        found = fields.changed(call.arrays)
        if found == EXCHANGED:
            same = {id(before) for before, after, _ in container_pairs(given.tree, returned, given.spec)
                    if before is after}
            if [place for place in fields.exchanged if id(fields.where(place)[0]) not in same]:
                found = OTHERWISE
        if found == OTHERWISE:
            fields.restore()
            given.forget_fields()
            given.lent = given.guessed = defaults(given)
            self.is_blind = False
            raise NotPlain

    def require_left_alone(self, call: Call, results: list[core.Node]) -> None:
        """Refuse arrays that the body uses, and other threads, which it may have started, have changed meanwhile: once,
        and not in each iteration."""
        results += [node for array, *_ in self.journal.entries.values() for node in array._nodes()]
        for array, before in self.journal.elsewhere:
            if call.finds(array) and are_used([*before, *array._nodes()], results):
                raise SymbolicValue(
                    f"{FUNCTION}(): another thread changes {name_in_program(array, (self.body,))}, which the body of "
                    "this symbolic loop uses, while that is traced: once, and not in each iteration. Change it in the "
                    f"body itself or outside of the loop, or {_WORDS.otherwise}.")

    def returns_all(self, call: Call, final: list[Any]) -> bool:
        """Whether all arrays that the body has changed in place, or exchanged, are state, which it has returned, and
        finds nowhere else."""
        leaves = self.given.leaves
        for array, _, _ in self.journal.entries.values():
            place = call.original(array)
            if place < 0 or final[place] is not array or leaves[place]._o is not None or views(leaves[place]) or \
                    call.places_of(leaves[place]) or \
                    [leaf for leaf in leaves if leaf is leaves[place]][1:]:
                return False
        return True

    def name_of(self, position: int) -> str:
        """The name of a variable."""
        if position < self.count:
            return self.given.spec.node_paths(self.names)[position]
        self.variables = self.variables or self.others()
        return self.variables.name_of(position - self.count)


def _are_within(nodes: Sequence[core.Node]) -> bool:
    """Whether any of some values are part of the loop that is traced."""
    return bool([node for node in nodes if core.is_within(node)])


def spent(node: core.Node, name: str) -> core.Node:
    """What is left of an array of the state that iterations have written to, each in another array."""
    return core.unusable(primal(node), (
        f"this array has no value: it is the state variable '{name}' of a loop, which writes to it by index, and "
        "returns another array in its place, a copy or what a call has returned. Only the first iteration has written "
        "to this one. Use what the loop returns."))


def _longest(numbers: core.Node, others: list[core.Node]) -> int:
    """The largest number of iterations, or in a recording one that is less than twice as large, so that it is good for
    others, too; evaluates them, and others that the same loop computes."""
    if not numbers.size:
        return 0
    most = core.reduce(numbers, core.ReduceOp.Max.value)
    core.evaluate([most, *others])
    found, bound = core.read_size(most), 1
    if type(found) is int:
        return found
    while bound < found:
        bound *= 2
    return bound


def _require_unchanged(before: list[Any], after: list[Any], spec: TreeSpec, names: Sequence[str]) -> None:
    """Refuse changes of what symbolic loops do not track."""
    position = difference_of(before, after)
    if position >= 0:
        old, new = before[position], after[position]
        raise ArgumentError(
            f"{FUNCTION}(): the body of this loop changed the state variable '{spec.paths(names)[position]}' of type "
            f"{describe(old)} from {old!r} to {new!r}. Symbolic loops do not track Python objects: use a Dr.Jit array "
            "instead, or pass strict=False.")


# --- the state -------------------------------------------------------------------------------------------------------


def require_tuple(result: Any, count: int) -> tuple[Any, ...]:
    """What the body returned: as many state variables as there are."""
    if type(result) is not tuple:
        if count == 1 and result is not None:
            return (result,)
        raise TypeError(f"{FUNCTION}(): 'body' must return a tuple of {count} state variable{'s' * (count != 1)}, "
                        f"found {describe(result)}.")
    if len(result) != count:
        raise ArgumentError(f"{FUNCTION}(): 'body' must return {count} state variables, found {len(result)}.")
    return result


def flattened(result: Any, before: TreeSpec,
              names: Sequence[str]) -> tuple[list[core.Node], list[Any], TreeSpec]:
    """Nodes, leaves and structure of what the body returned, if that is a state like the one before.

    Tensors may have other shapes, if these go together.
    """
    result = require_tuple(result, len(names))
    nodes, leaves, spec = flatten_nodes(result, FUNCTION, before)
    if spec is before or spec == before:
        return nodes, leaves, spec
    difference = before.difference(spec, names, True)
    if difference is not None:
        place, what, first, second = difference
        advice = " Convert it in the body, or begin with what it becomes." if what == "type" else ""
        raise ArgumentError(f"{FUNCTION}(): the body of this loop changed the {what} of the state variable '{place}' "
                            f"from {first} to {second}.{advice}")
    # the same up to the order of the keys of dictionaries
    return flatten_nodes(before.rebuild(before.aligned(spec, leaves)), FUNCTION)


def condition_of(value: Any) -> core.Node:
    mask = mask_of(value)
    if mask is not None:
        return mask
    if value.__class__ is bool:
        raise ArgumentError(f"{FUNCTION}(): 'cond' must return a one-dimensional mask array, found bool: that makes a "
                            "Python loop, which is mode='scalar'.")
    raise ArgumentError(f"{FUNCTION}(): 'cond' must return a one-dimensional mask array or a bool, found "
                        f"{no_mask(value)}")


def _require_sizes(before: Sequence[core.Node], after: Sequence[core.Node], spec: TreeSpec,
                   names: Sequence[str]) -> None:
    """Refuse state variables that the body made wider or narrower than they were, but for broadcasts, or to be of sizes
    that do not go together."""
    wide: core.Node | None = None
    for position, new in enumerate(after):
        old = before[position]
        if new is old or new.size == 1:
            continue
        if new.size != old.size and old.size != 1:
            raise changed_size(old, new, spec.node_paths(names)[position])
        if not is_version(primal(new)):
            if wide is not None and wide.size != new.size:
                _require_common_size([wide, new], after, spec, names)
            wide = new


def changed_size(old: core.Node, new: core.Node, name: str) -> SizeError:
    return SizeError(f"{FUNCTION}(): the body of this loop changed the size of the state variable '{name}' from "
                     f"{old.size} to {new.size}.")


def _require_common_size(nodes: Sequence[core.Node], state: Sequence[core.Node], spec: TreeSpec,
                         names: Sequence[str]) -> None:
    """Refuse state variables, some of the state, whose sizes do not go together."""
    wide: core.Node | None = None
    for node in nodes:
        if node.size != 1:
            if wide is None:
                wide = node
            elif node.size != wide.size:
                paths = spec.node_paths(names)
                first, second = [paths[list(state).index(entry)] for entry in (wide, node)]
                raise SizeError(f"{FUNCTION}(): the state variables '{first}' and '{second}' have incompatible "
                                f"sizes! (sizes: {wide.size}, {node.size})")
