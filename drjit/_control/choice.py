"""What branches and calls have in common: functions of which each element takes one, and how their results are joined.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import (
    Differentiable,
    IncompatibleSizes,
    NoDerivative,
    SymbolicValue,
    Versions,
    call,
    choose,
    cond,
    innermost,
    tracked,
)

from .._access.lanes import masked_access, note_version, written_apart, written_from
from .._access.store import Buffers, Journal, innermost_journal, journal_of, store, store_written
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe, user_part
from .._base.nodes import broadcast
from .._base.types import BOOL
from .._trees.pytree import TreeSpec, flatten, flatten_nodes
from .assigned import Variables, assigned_by
from .frozen import Frozen
from .outside import (
    Again,
    Captured,
    TracedAgain,
    Wider,
    Words,
    captured_earlier,
    name_in_program,
    require_no_leftovers,
    variables_of,
    widened,
)
from .state import arguments, equal

__all__ = ["Results", "SymbolicChoice", "argument_of", "arrays_of", "blended", "invoked", "nodes_of", "run_directly",
           "store_arguments", "written"]


_NONE: frozenset[int] = frozenset()
_EMPTY: list[Any] = []


class Results:
    """What the functions of a construct return: trees of one structure."""

    def __init__(self, function: str, names: Sequence[str] = (), strict: bool = True, otherwise: str = "") -> None:
        self.function = function
        self.names = names
        self.strict = strict
        #: What helps where Python objects differ.
        self.otherwise = otherwise
        self.spec: TreeSpec | None = None
        self.leaves: list[Any] = _EMPTY
        self.nodes: list[core.Node] = _EMPTY
        self.which = ""

    def root(self, value: Any) -> str | Sequence[str]:
        """What a result is called in messages."""
        children = self.spec.children if self.spec is not None and self.spec.cls is tuple else None
        if value.__class__ is not tuple or children is None or len(children) != len(value):
            return "result"
        return self.names if len(value) == len(self.names) else [f"result[{k}]" for k in range(len(value))]

    def add(self, value: Any, which: str) -> list[core.Node]:
        """The nodes of what one of the functions returned, which must be like what the others did."""
        nodes, leaves, spec = flatten_nodes(value, self.function)
        if self.spec is None:
            self.spec, self.which, self.nodes = spec, which, nodes
            for entry in spec.traced():  # arrays of the result need not live on: their nodes do
                leaves[entry[0]] = None
            self.leaves = leaves
            return nodes
        if spec is not self.spec and spec != self.spec:
            root = self.root(value)
            difference = self.spec.difference(spec, root)
            if difference is not None:
                place, what, first, second = difference
                raise ArgumentError(
                    f"{self.function}(): '{self.which}' and '{which}' must return values of the same types and "
                    f"structure, but the {what} of '{place}' is {first} in '{self.which}' and {second} in '{which}'."
                    f"{_advice(what, first, second)}")
            leaves = list(self.spec.aligned(spec, leaves))
            nodes, _, _ = flatten_nodes(self.spec.rebuild(leaves), self.function)
        if len(spec.traced()) == len(leaves):  # there is nothing but traced arrays
            return nodes
        if self.strict:
            for position, (old, new) in enumerate(zip(self.leaves, leaves, strict=True)):
                if not (isinstance(new, ArrayBase) and new._dynamic or old is new or equal(old, new)):
                    place = self.spec.paths(self.root(value))[position]
                    raise ArgumentError(
                        f"{self.function}(): '{self.which}' and '{which}' return different values of '{place}', a "
                        f"Python object of type {describe(old)} that is not tracked: {old!r} and {new!r}. Use a Dr.Jit "
                        f"array instead{self.otherwise}.")
        else:
            self.leaves = [old if isinstance(new, ArrayBase) and new._dynamic else new
                           for old, new in zip(self.leaves, leaves, strict=True)]
        return nodes

    def place(self, position: int) -> str:
        """The name of the result that a node is part of."""
        assert self.spec is not None
        names = self.names if self.spec.cls is tuple and self.spec.children is not None and \
            len(self.spec.children) == len(self.names) and self.names else "result"
        return self.spec.node_paths(names)[position]

    def rebuilt(self, nodes: Sequence[core.Node]) -> Any:
        """The tree of joined results."""
        assert self.spec is not None
        return self.spec.rebuild_nodes(nodes, self.leaves)


def _advice(what: str, first: str, second: str) -> str:
    if what != "type":
        return ""
    return " Convert one of them, so that both are of the same type."


class SymbolicChoice:
    """A branch or call that is traced, perhaps several times, into one construct of a kernel.

    Writes by index to arrays from outside become part of it.
    """

    def __init__(self, words: Words, mask: core.Node, index: core.Node | None, label: str | None, labels: Sequence[str],
                 functions: list[Callable[..., Any]], named: bool, nodes: list[core.Node], leaves: list[Any],
                 spec: TreeSpec, names: str | Sequence[str], results: Results) -> None:
        self.words = words
        #: Which elements take part, or take the first function; which function elements take, of a call.
        self.mask = mask
        self.index = index
        self.label = label
        #: What messages call the user's functions.
        self.labels = labels
        #: These; once they are traced, copies of them for derivatives.
        self.functions = functions
        #: Whether there are arguments with names: then what the functions are given is a pair.
        self.named = named
        self.nodes = nodes
        self.leaves = leaves
        self.spec = spec
        self.names = names
        self.results = results
        self.count = len(nodes)
        #: Arrays from outside that the functions write to.
        self.captured: list[Captured] = []
        #: One for each function.
        self.journals: list[Journal] = []
        #: Arguments that the functions themselves have written to, and not copies of them.
        self.in_place: frozenset[int] = _NONE
        self.frozen: Frozen | None = None
        #: What functions may assign to, while they are traced.
        self.variables: Variables | None = None

    def run(self) -> Any:
        """The results, joined."""
        around = innermost_journal()
        if around is not None:
            self.captured = captured_earlier(around)
        buffers = Buffers() if around is None else around.buffers
        self.journals = [journal_of(around, buffers, number) for number in range(len(self.functions))]
        targets = [_Target(self, number) for number in range(len(self.functions))]
        while True:
            try:
                values, versions = self.chosen(targets)
            except Again as request:
                self.put_back(False)
                self.captured = request.captured
                continue
            except Wider as request:
                if around is not None:
                    raise
                self.put_back(False)
                request.widen()
                self.captured = []
                for journal in self.journals:
                    journal.inner, journal.earlier = [], []
                continue
            except SymbolicValue:
                wide = widened(self.journals, around, self.nodes, self.leaves)
                if wide is None:
                    raise
                self.put_back(False)
                self.nodes = wide
                continue
            except IncompatibleSizes as error:
                if user_part(error) is not None:
                    raise
                widths = list(dict.fromkeys([size for size in error.sizes if size != 1]))
                raise SizeError(
                    f"{self.words.function}(): what decides, and what the functions compute and write by index, have "
                    f"incompatible sizes! (sizes: {', '.join(map(str, widths))}) All of it must be as wide as the "
                    f"{self.words.noun}; {self.words.otherwise} otherwise.") from None
            break
        self.variables = None
        for node in values:
            if tracked(node) is not None:
                self.frozen = Frozen(self.words.function, self.functions, [entry.array for entry in self.captured])
                self.functions = self.frozen.functions
                break
        if around is not None:
            around.add_inner([(weakref.ref(entry.array), entry.position) for entry in self.captured])
        found = self.results.rebuilt(values)
        if versions:
            store_arguments(self.leaves, self.nodes, [
                versions[position] if position in versions and position in self.in_place else node
                for position, node in enumerate(self.nodes)])
            _store([None if around is None and buffers.own(entry.array) else entry for entry in self.captured],
                   self.count, versions)
        return found

    def chosen(self, targets: list[_Target]) -> tuple[list[core.Node], Versions]:
        """The nodes of the results, and what arguments are after writes."""
        if self.variables is None:
            self.variables = assigned_by(self.functions)
        try:
            variables = variables_of(self.nodes, self.captured)
            try:  # most have nothing to do with derivatives
                return self.traced(variables, targets, self.name_of, True)
            except Differentiable:
                pass
            return choose(self.words.function, self.traced, variables, targets, self.name_of)
        except TracedAgain:
            self.put_back(False)
            raise
        except NoDerivative:
            self.put_back(False)
            raise
        except BaseException:
            self.put_back(True)
            raise

    def put_back(self, arrays: bool) -> None:
        """Give what functions assign what it was, perhaps only if these are ``arrays``."""
        if self.variables is not None:
            self.variables.put_back(arrays)

    def traced(self, values: Sequence[core.Node], targets: Sequence[Callable[[list[core.Node]], list[core.Node]]],
               name_of: Callable[[int], str], gives_way: bool) -> tuple[list[core.Node], Versions]:
        """What the compiler makes of functions of nodes: of these, or of those that compute their derivatives."""
        if self.index is None:
            return cond(self.mask, values, targets[0], targets[1], self.label, name_of, self.count, gives_way)
        return call(self.index, self.mask, targets, values, self.label, name_of, self.count, gives_way)

    def target(self, number: int, formals: list[core.Node]) -> list[core.Node]:
        """What one of the functions returns for what stands for the arguments, perhaps again for a derivative."""
        function, journal = self.functions[number], self.journals[number]
        variables: Variables | None = None
        if not number:  # perhaps it is traced again
            self.results.spec = None
            self.in_place = _NONE
            self.put_back(False)
        if self.frozen is not None:
            self.frozen.require_unchanged()
            variables = assigned_by((function,))
        try:
            journal.begin()
            if self.captured:
                for (array, position, *_), formal in zip(self.captured, formals[self.count:], strict=True):
                    store(array, [formal], position)
            given = formals[:self.count] if self.captured else formals
            before = arguments(self.words.function, self.spec, given, self.leaves)
            arrays = arrays_of(before, self.spec, self.words.function)
            found = self.results.add(invoked(function, self.named, before), self.labels[number])
            self.note_in_place(arrays, formals)
            del before, arrays
            if journal.entries or journal.attributes:
                require_no_leftovers(self.words, journal, self.captured, formals[self.count:], (function,))
            return found
        finally:
            journal.roll_back()
            if variables is not None:
                variables.put_back(False)

    def note_in_place(self, arrays: Sequence[Any], formals: list[core.Node]) -> None:
        """Note which arguments one of the functions has written to by index."""
        region = innermost()
        if region is not None and region.latest:
            after = nodes_of(arrays)
            self.in_place |= {position for position, (old, new) in enumerate(zip(formals, after, strict=False))
                              if new is not old}

    def name_of(self, position: int) -> str:
        """The name of an argument."""
        if position < self.count:
            return self.spec.node_paths(self.names)[position]
        return name_in_program(self.captured[position - self.count].array, self.functions)


class _Target:
    """One of the functions of a branch or call, of nodes."""

    def __init__(self, choice: SymbolicChoice, number: int) -> None:
        self.choice = choice
        self.number = number

    def __call__(self, formals: list[core.Node]) -> list[core.Node]:
        return self.choice.target(self.number, formals)


def invoked(function: Callable[..., Any], named: bool, values: Any) -> Any:
    """What a function returns for arguments in order, or in order and by names."""
    return function(*values[0], **values[1]) if named else function(*values)


def run_directly(function: str, target: Callable[..., Any], named: bool, width: int, nodes: list[core.Node],
                 leaves: list[Any], spec: TreeSpec) -> Any:
    """What a function returns that all elements take; its writes by index to the arguments reach the caller's arrays.
    """
    with masked_access(core.literal(BOOL, True, width)):
        before = arguments(function, spec, nodes, leaves)
        arrays = arrays_of(before, spec, function)
        found = invoked(target, named, before)
        store_arguments(leaves, nodes, written(nodes, nodes_of(arrays)))
    if width == 1:
        return found
    values, others, spec = flatten_nodes(found, function)
    return spec.rebuild_nodes([value if value.scope or core.is_version(core.primal(value)) else
                               broadcast(value, width) for value in values], others)


def arrays_of(given: Any, spec: TreeSpec, function: str) -> Sequence[Any]:
    """The arrays that a function is given: it may put others in their places."""
    return given if spec.is_flat else flatten(given, function)[0]


def nodes_of(arrays: Sequence[Any]) -> list[core.Node]:
    """What arrays that a function was given are now."""
    return flatten_nodes(tuple(arrays), "")[0]


def argument_of(value: core.Node, nodes: Sequence[core.Node]) -> int | None:
    """The position of the argument that a result of an evaluated function is, after writes by index if any."""
    return next((k for k, node in enumerate(nodes) if value is node or written_from(value, node)), None)


def written(before: Sequence[core.Node], after: Sequence[core.Node]) -> list[core.Node]:
    """What arguments are after an evaluated function: those that it has written to by index are other versions."""
    return [new if written_from(new, old) else old for old, new in zip(before, after, strict=True)]


def store_arguments(leaves: Sequence[Any], before: Sequence[core.Node], after: Sequence[core.Node]) -> None:
    """Give the caller's arrays what functions have written to them by index; in the order of their nodes."""
    start = 0
    for leaf in leaves:
        if isinstance(leaf, ArrayBase) and leaf._dynamic:
            count = len(leaf._nodes())
            for position in range(start, start + count):
                if after[position] is not before[position]:
                    store_written(leaf, [after[position]], position - start)
                    note_version(after[position], before[position])
            start += count


def _store(captured: Sequence[Captured | None], count: int, versions: dict[int, core.Node]) -> None:
    """Give arrays from outside what was written to them."""
    for number, entry in enumerate(captured):
        result = versions.get(count + number)
        if entry is not None and result is not None and result is not entry.initial:
            before = entry.array._nodes()[entry.position]
            store_written(entry.array, [result], entry.position)
            note_version(result, before)


def blended(words: Words, mask: core.Node, position: int, yes: core.Node, no: core.Node, results: Results) -> core.Node:
    """A result where a mask is set, and another one elsewhere; or the last version, if by index was written."""
    if yes is no or written_from(yes, no):
        return yes
    if written_from(no, yes):
        return no
    if written_apart(yes, no):
        raise ArgumentError(f"{words.function}(): the functions write by index to different copies of one array, and "
                            f"return them as '{results.place(position)}'. Write to the array itself, or use "
                            "mode='symbolic'.")
    if len({size for size in (mask.size, yes.size, no.size) if size != 1}) > 1:
        raise SizeError(f"{words.function}(): the sizes of the result '{results.place(position)}' do not go with that "
                        f"of the condition! (sizes: {yes.size}, {no.size}, {mask.size})")
    return core.ops.select(mask, yes, no)  # type: ignore[no-any-return]
