"""What branches and calls have in common: functions of which each element takes one, and how their results are joined.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import IncompatibleSizes, Node, Versions

from .._access.lanes import masked_access, note_version, written_apart, written_from
from .._access.store import Buffers, innermost_journal, store, store_written
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe, user_part
from .._base.nodes import broadcast
from .._base.types import BOOL
from .._trees.pytree import TreeSpec, flatten_nodes
from .frozen import Frozen
from .outside import Again, Captured, Wider, Words, captured_earlier, journal_of, name_in_program, require_no_leftovers
from .state import arguments, equal

__all__ = ["Invoke", "Results", "Trace", "Traced", "argument_of", "blended", "run_directly", "store_arguments",
           "traced", "written"]

#: A function of the compiler: from argument nodes, functions of nodes, names and number of the user's arguments, to the
#: results, and what arguments are after writes.
Trace = Callable[[list[Node], list[Callable[[list[Node]], list[Node]]], Callable[[int], str], int],
                 tuple[list[Node], Versions]]
#: Calls one of the user's functions with what the arguments are.
Invoke = Callable[[Callable[..., Any], Any], Any]
#: One of the user's functions, and the name that messages call it by.
Traced = tuple[str, Callable[..., Any]]


class Results:
    """What the functions of a construct return: trees of one structure."""

    def __init__(self, function: str, names: Sequence[str] = (), strict: bool = True, otherwise: str = "") -> None:
        self.function = function
        self.names = names
        self.strict = strict
        #: What helps where Python objects differ.
        self.otherwise = otherwise
        self.spec: TreeSpec | None = None
        self.leaves: list[Any] = []
        self.nodes: list[Node] = []
        self.which = ""

    def root(self, value: Any) -> str | Sequence[str]:
        """What a result is called in messages."""
        if self.names and value.__class__ is tuple and len(value) == len(self.names):
            return self.names
        return "result" if value.__class__ is not tuple else [f"result[{k}]" for k in range(len(value))]

    def add(self, value: Any, which: str) -> list[Node]:
        """The nodes of what one of the functions returned, which must be like what the others did."""
        nodes, leaves, spec = flatten_nodes(value, self.function)
        if self.spec is None:
            self.spec, self.which, self.nodes = spec, which, nodes
            # arrays of the result need not live on: their nodes do
            self.leaves = [None if isinstance(leaf, ArrayBase) and leaf._dynamic else leaf for leaf in leaves]
            return nodes
        if spec != self.spec:
            root = self.root(value)
            difference = self.spec.difference(spec, root)
            if difference is not None:
                place, what, first, second = difference
                raise ArgumentError(
                    f"{self.function}(): {self.which} and {which} must return values of the same types and structure, "
                    f"but the {what} of '{place}' is {first} in {self.which} and {second} in {which}."
                    f"{_advice(what, first, second)}")
            leaves = list(self.spec.aligned(spec, leaves))
            nodes, _, _ = flatten_nodes(self.spec.rebuild(leaves), self.function)
        if self.strict:
            for position, (old, new) in enumerate(zip(self.leaves, leaves, strict=True)):
                if not (isinstance(new, ArrayBase) and new._dynamic or old is new or equal(old, new)):
                    place = self.spec.paths(self.root(value))[position]
                    raise ArgumentError(
                        f"{self.function}(): {self.which} and {which} return different values of '{place}', a Python "
                        f"object of type {describe(old)} that is not tracked: {old!r} and {new!r}. Use a Dr.Jit array "
                        f"instead{self.otherwise}.")
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

    def rebuilt(self, nodes: Sequence[Node]) -> Any:
        """The tree of joined results."""
        assert self.spec is not None
        return self.spec.rebuild_nodes(nodes, self.leaves)


def _advice(what: str, first: str, second: str) -> str:
    if what != "type":
        return ""
    return " Convert one of them, so that both are of the same type."


def traced(words: Words, trace: Trace, invoke: Invoke, functions: Sequence[Traced], nodes: list[Node],
           leaves: list[Any], spec: TreeSpec, names: Sequence[str], results: Results) -> Any:
    """Trace functions of the arguments into one construct of a kernel; returns the results, joined.

    Writes by index to arrays from outside become part of it.
    """
    around = innermost_journal()
    captured = [] if around is None else captured_earlier(around)
    buffers = Buffers() if around is None else around.buffers
    journals = [journal_of(around, buffers, number) for number in range(len(functions))]
    count = len(nodes)
    originals = [original for _, original in functions]
    labels = [which for which, _ in functions]
    frozen: Frozen | None = None
    in_place = set[int]()  # arguments that the functions themselves have written to, and not copies of them

    def name_of(position: int) -> str:
        if position < count:
            return spec.node_paths(names)[position]
        return name_in_program(captured[position - count].array, originals)

    def note_in_place(before: Any, formals: list[Node]) -> None:
        region = core.innermost()
        if region is not None and region.latest:
            after = flatten_nodes(before, words.function)[0]
            in_place.update(k for k, (old, new) in enumerate(zip(formals, after, strict=False)) if new is not old)

    def target(number: int) -> Callable[[list[Node]], list[Node]]:
        which, journal = labels[number], journals[number]

        def run(formals: list[Node]) -> list[Node]:
            if not number:  # perhaps it is traced again
                results.spec = None
                in_place.clear()
            original = originals[number]
            if frozen is not None:
                frozen.require_unchanged()
            with journal:
                journal.begin()
                for (array, position, *_), formal in zip(captured, formals[count:], strict=True):
                    store(array, [formal], position)
                before = arguments(words.function, spec, formals[:count], leaves)
                found = results.add(invoke(original, before), which)
                note_in_place(before, formals)
                del before
                require_no_leftovers(words, journal, captured, formals[count:], (original,))
                return found

        return run

    while True:
        try:
            values, versions = core.choose(
                words.function, lambda values, targets, name_of: trace(values, targets, name_of, count),
                [*nodes, *(entry.initial for entry in captured)],
                [target(number) for number in range(len(functions))], name_of)
        except Again as request:
            captured = request.captured
            continue
        except Wider as request:
            if around is not None:
                raise
            request.widen()
            captured = []
            for journal in journals:
                journal.inner, journal.earlier = [], []
            continue
        except IncompatibleSizes as error:
            if user_part(error) is not None:
                raise
            widths = list(dict.fromkeys(size for size in error.sizes if size != 1))
            raise SizeError(
                f"{words.function}(): what decides, and what the functions compute and write by index, have "
                f"incompatible sizes! (sizes: {', '.join(map(str, widths))}) All of it must be as wide as the "
                f"{words.noun}; {words.otherwise} otherwise.") from None
        break
    if any(core.tracked(node) is not None for node in values):
        frozen = Frozen(words.function, originals, [entry.array for entry in captured])
        originals = frozen.functions
    if around is not None:
        around.inner.append([(weakref.ref(entry.array), entry.position) for entry in captured])
    found = results.rebuilt(values)
    store_arguments(leaves, nodes, [versions[position] if position in versions and position in in_place else node
                                    for position, node in enumerate(nodes)])
    _store([None if around is None and buffers.own(entry.array) else entry for entry in captured], count, versions)
    return found


def run_directly(function: str, invoke: Callable[[Any], Any], width: int, nodes: list[Node], leaves: list[Any],
                 spec: TreeSpec) -> Any:
    """What a function returns that all elements take; its writes by index to the arguments reach the caller's arrays.
    """
    with masked_access(core.literal(BOOL, True, width)):
        before = arguments(function, spec, nodes, leaves)
        found = invoke(before)
        store_arguments(leaves, nodes, written(nodes, flatten_nodes(before, function)[0]))
    if width == 1:
        return found
    values, others, spec = flatten_nodes(found, function)
    return spec.rebuild_nodes([value if value.scope or core.is_version(core.primal(value)) else
                               broadcast(value, width) for value in values], others)


def argument_of(value: Node, nodes: Sequence[Node]) -> int | None:
    """The position of the argument that a result of an evaluated function is, after writes by index if any."""
    return next((k for k, node in enumerate(nodes) if value is node or written_from(value, node)), None)


def written(before: Sequence[Node], after: Sequence[Node]) -> list[Node]:
    """What arguments are after an evaluated function: those that it has written to by index are other versions."""
    return [new if written_from(new, old) else old for old, new in zip(before, after, strict=True)]


def store_arguments(leaves: Sequence[Any], before: Sequence[Node], after: Sequence[Node]) -> None:
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


def _store(captured: Sequence[Captured | None], count: int, versions: dict[int, Node]) -> None:
    """Give arrays from outside what was written to them."""
    for number, entry in enumerate(captured):
        result = versions.get(count + number)
        if entry is not None and result is not None and result is not entry.initial:
            before = entry.array._nodes()[entry.position]
            store_written(entry.array, [result], entry.position)
            note_version(result, before)


def blended(words: Words, mask: Node, position: int, yes: Node, no: Node, results: Results) -> Node:
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
