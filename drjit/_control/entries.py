"""Variables of a loop that are no state: each stands for what is outside, and knows how that is changed in the end."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node

from .._access.store import Journal, owner_of, store, store_result, store_same
from .._base.array import ArrayBase
from .._base.handle import is_younger
from .._base.types import BOOL
from .._trees.contents import write_place
from .._trees.kinds import MISSING
from .._trees.pytree import TreeSpec, flatten_nodes
from .aliases import Made, leaf_at
from .called import Call
from .places import Change, is_kept_by_class, keep_new, reorder, words_of
from .refilling import become, container_pairs, refilled
from .wording import name_in_program

__all__ = ["Argument", "Array", "Filled", "First", "Identities", "Late", "Left", "Order", "Place", "PlaceOnce", "Spent"]


_LITERAL = core.KIND["literal"]


class Identities:
    """Which of the arrays that places hold after a loop are one."""

    def __init__(self, call: Call, kept: dict[int, Any], stands: set[int]) -> None:
        self.call, self.stands = call, stands
        #: The caller's arrays, by the ids of what stands for them, which the body returns where it has got that.
        self.kept = kept
        self.made = Made()
        #: Containers that are made for places, by those that iterations have left there, and those of before.
        self.containers: dict[Any, Any] = {}

    def own(self, leaf: Any) -> Any:
        """The caller's array that one is, or stands for, or the component of such; ``None`` if that is another one."""
        owner, _ = owner_of(leaf)
        if id(owner) in self.kept:
            return leaf_at(self.kept[id(owner)], owner, leaf)
        return None if id(owner) in self.stands or is_younger(owner, self.call.mark) else leaf


class Entry:
    """What is no state, and varies all the same: it has ``initial`` values, and others in a trace and after the loop.
    What belongs to nobody but the loop has nothing to do then."""

    initial: Sequence[Node] = ()
    #: The shape of the condition.
    lanes: tuple[int, ...] = ()

    def preset(self, formals: Sequence[Node]) -> None:
        """Let the variable have other values, or the same, told apart."""

    def restore(self) -> None:
        """Let it have those of before, unless somebody else has changed it."""

    def may_have_derivatives(self) -> bool:
        """Whether the array is of a package whose arrays have some."""
        return True

    def finish(self, results: Sequence[Node], outermost: Journal | None) -> None:
        """Let it have those that it has after the construct."""

    def name(self, functions: Sequence[Callable[..., Any]]) -> str:
        """What it is called."""
        raise NotImplementedError


class Array(Entry):
    """A component of an array from outside."""

    def __init__(self, array: ArrayBase, position: int, initial: Node, is_memory: bool = False) -> None:
        self.array, self.position = array, position
        #: Whether it is written to by index.
        self.is_memory = is_memory
        self.initial = [initial]
        #: What stands for it as long as functions are presumed to leave it alone.
        self.stand: Node | None = None
        #: Whether they do not.
        self.changes = False

    def preset(self, formals: Sequence[Node]) -> None:
        region = core.innermost()
        assert region is not None
        if formals[0].scope == region.id:
            store(self.array, formals, self.position)
        else:
            self.stand = formals[0]
            store_same(self.array, formals, self.position)

    def restore(self) -> None:
        if self.stand is not None and self.array._nodes()[self.position] is self.stand:
            store_same(self.array, self.initial, self.position)
        self.stand = None

    def may_have_derivatives(self) -> bool:
        return type(self.array)._record.diff

    def finish(self, results: Sequence[Node], outermost: Journal | None) -> None:
        if results[0] is not self.initial[0] and (outermost is None or not outermost.has_made(self.array)):
            store_result(self.array, self.position, results[0], None, self.lanes)

    def name(self, functions: Sequence[Callable[..., Any]]) -> str:
        return name_in_program(self.array, functions)


class Place(Entry):
    """What is in a place of an object."""

    initial: list[Node]

    def __init__(self, change: Change, function: str) -> None:
        self.change, self.function = change, function
        #: What it holds before, in this trace and outside.
        nodes, self.originals, self.spec = flatten_nodes(change.before, function)
        self.before, self.initial = list(nodes), list(nodes)
        #: What stands for the leaves, and those that there are afterwards.
        self.stands: list[Any] = []
        self.leaves = self.originals
        #: The trees that it holds at first in this trace, and after an iteration.
        self.tree: Any = None
        self.left_tree: Any = None
        #: The nodes that these have at first.
        self.formals: Sequence[Node] = ()
        #: The nodes that these have after an iteration, by itself, and of all that do the same; what else is known.
        self.now: Sequence[Node] = ()
        self.last: Sequence[Node] = ()
        self.identities: Identities
        #: The arrays that are made for it.
        self.fresh: list[Any] = []
        #: The structure afterwards: tensors of one element may have become wider, as wide as the lanes.
        self.found = self.spec

    def may_have_derivatives(self) -> bool:
        return bool([leaf for leaf in self.originals if isinstance(leaf, ArrayBase) and type(leaf)._record.diff])

    def look_back(self, journal: Journal, entries: Mapping[tuple[int, int], Any]) -> None:
        """See what the arrays were that have been changed in place since, or for which something stands."""
        first = 0
        for place, _, _, count, _ in self.spec.traced():
            owner, start = owner_of(self.originals[place])
            noted = journal.entries.get(id(owner))
            if noted is not None:
                self.initial[first:first + count] = self.before[first:first + count] = noted[1][start:start + count]
            for k in range(first, first + count):
                entry = entries.get((id(owner), start + k - first))
                if entry is not None and self.before[k] is entry.stand:
                    self.initial[k] = entry.initial[0]
            first += count

    def preset(self, formals: Sequence[Node]) -> None:
        self.stands, self.formals = self.spec.fresh(formals, self.originals, self.lanes), formals
        self.tree = self.spec.rebuild(self.stands)
        self.write(self.tree)

    def restore(self) -> None:
        self.write(self.change.before)

    def write(self, value: Any) -> None:
        """Put something in the place."""
        write_place(self.change.container, self.change.kind, self.change.key, value)

    def after(self, value: Any) -> list[Node] | None:
        """What the place holds after an iteration, unless that is of another structure."""
        self.left_tree = value
        self.now, self.leaves, spec = flatten_nodes(value, self.function)
        found = self.spec.meeting(spec)
        if found is None:
            return None
        self.found = found
        return self.now

    def holds(self) -> Iterator[tuple[ArrayBase, ArrayBase, ArrayBase, Sequence[Node]]]:
        """The arrays before, outside and in this trace, those after an iteration, and the nodes of before."""
        first, before = 0, self.formals or self.before
        for place, _, _, count, _ in self.spec.traced():
            yield (self.originals[place], self.stands[place] if self.stands else self.originals[place],
                   self.leaves[place], before[first:first + count])
            first += count

    def left(self) -> Iterator[tuple[ArrayBase, int, Node, Node]]:
        """Components of arrays that were changed in place before others came into their places: what they were, and
        what they are."""
        first = 0
        for original, stand, _, before in self.holds():
            if not [leaf for leaf in self.leaves if leaf is stand]:
                for k, node in enumerate(stand._nodes()):
                    if node is not before[k]:
                        yield original, k, self.initial[first + k], node
            first += len(before)

    def prepare(self, results: Sequence[Node], last: Sequence[Node], identities: Identities) -> None:
        """Make arrays of what it holds after the loop, given what it holds after an iteration."""
        self.last, self.identities = last, identities
        self.fresh, first = self.found.fresh(results, self.leaves, self.lanes), 0
        for place, _, _, count, _ in self.spec.traced():
            part, leaf = slice(first, first + count), self.leaves[place]
            if self.stands and leaf is self.stands[place]:
                identities.kept[id(leaf)] = self.originals[place]
            else:
                identities.made.note(leaf, self.fresh[place], self.initial[part], last[part])
            first += count

    def finish(self, results: Sequence[Node], outermost: Journal | None) -> None:
        fresh = self.fresh
        kept = bool(self.stands)
        first = 0
        for place, _, _, count, _ in self.spec.traced():
            if kept and self.leaves[place] is self.stands[place]:
                for k in range(count):
                    store_result(self.originals[place], k, results[first + k], fresh[place])
                fresh[place] = self.originals[place]
            else:
                kept = kept and self.spec.children is not None
                fresh[place] = self.shared(place, slice(first, first + count))
            first += count
        if self.spec.children is not None or not kept:
            self.write(self.rebuilt(fresh))

    def rebuilt(self, leaves: Sequence[Any]) -> Any:
        """The tree that it holds with other leaves: the caller's containers, where an iteration leaves them; others are
        one in several places if they are for all elements."""
        if self.found.children is None:
            return leaves[0]
        before = self.change.before if self.tree is None else self.tree
        own = {id(stand): container for stand, container, _ in container_pairs(before, self.change.before, self.spec)}

        def owner(values: Sequence[Any], spec: TreeSpec) -> Any:
            left, before = values
            return before if own.get(id(self.change.original(left)), MISSING) is before else None

        return refilled([self.left_tree, self.change.before], self.found, iter(leaves), owner, become,
                        self.identities.containers)

    def shared(self, place: int, part: slice) -> Any:
        """The array that it holds afterwards: that of another place, if all elements have one in both."""
        return self.identities.made.find(self.leaves[place], self.fresh[place], self.initial[part], self.last[part])

    def name(self, functions: Sequence[Callable[..., Any]]) -> str:
        return words_of(self.change.container, self.change.kind, self.change.key)


class Filled(Place):
    """A place that is new, as a first call of the body has filled it. What that has left is there at first, if it
    depends on no iteration. What a class computes when it is asked for is not left behind: elements without an
    iteration have none."""

    def __init__(self, change: Change, function: str, changing: Sequence[Node]) -> None:
        super().__init__(change._replace(before=change.now), function)
        self.is_kept = is_kept_by_class(change)
        region = core.innermost()
        assert region is not None
        varying = [node for node in self.initial if node.scope == region.id or _is_made_of(node, changing)]
        self.depends = bool(varying)
        self.initial = [core.literal(node.type, 0) if node in varying else node for node in self.initial]

    def restore(self) -> None:
        self.write(self.change.spent)

    def does(self, noun: str) -> str:
        """What a body does that leaves it, in a construct."""
        return filling(self.change, noun)

    def finish(self, results: Sequence[Node], outermost: Journal | None) -> None:
        if self.change.spent is not MISSING or all(map(operator.is_, results, self.initial)):
            keep_new(self.change)
        elif not self.is_kept:
            first = 0
            for place, _, _, count, _ in self.spec.traced():
                self.fresh[place] = self.shared(place, slice(first, first + count))
                first += count
            self.write(self.rebuilt(self.fresh))

    def rebuilt(self, leaves: Sequence[Any]) -> Any:
        return refilled([self.left_tree], self.found, iter(leaves), lambda *_: None, become, self.identities.containers)

    def shared(self, place: int, part: slice) -> Any:
        """Nothing was there before: what all iterations put there of the caller's is that for all elements."""
        own = self.identities.own(self.leaves[place]) if all(
            map(operator.is_, self.now[part], self.last[part])) else None
        return super().shared(place, part) if own is None else own


def _is_made_of(node: Node, changing: Sequence[Node]) -> bool:
    """Whether something that belongs to no region is what a variable is before a loop that ``changing`` ones stand for,
    or is computed of it; of what is computed of constants, another call of the body tells."""
    values = [core.primal(each) for each in changing]
    return core.primal(node) in values or core.depend_on([node], [each for each in values if each.kind != _LITERAL])


class PlaceOnce(Place):
    """What the first iteration puts in a place of a container that it was given; later ones are given others."""

    def preset(self, formals: Sequence[Node]) -> None:
        pass

    def restore(self) -> None:
        pass


class Argument(Array):
    """An argument that the first iteration changes in place; later ones are given other arrays."""

    def preset(self, formals: Sequence[Node]) -> None:
        pass

    def finish(self, results: Sequence[Node], outermost: Journal | None) -> None:
        super().finish(results, None)

    def name(self, functions: Sequence[Callable[..., Any]]) -> str:
        return "an argument that is changed in place"


class First(Entry):
    """Whether an iteration is the first one."""

    def __init__(self) -> None:
        self.initial = [core.literal(BOOL, True)]

    def name(self, functions: Sequence[Callable[..., Any]]) -> str:
        return "whether an iteration is the first one"


class Left(Entry):
    """What an iteration leaves, and later ones find."""

    def finish(self, results: Sequence[Node], outermost: Journal | None) -> None:
        self.preset(())

    def does(self, noun: str) -> str:
        """What a body does that leaves it, in a construct."""
        return f"changes {self.name(())}"


class Order(Left):
    """The order of the entries of a dictionary."""

    def __init__(self, table: Any, before: Sequence[Any], after: Sequence[Any]) -> None:
        self.table, self.before, self.after = table, before, after

    def preset(self, formals: Sequence[Node]) -> None:
        reorder(self.table, self.after)

    def restore(self) -> None:
        reorder(self.table, self.before)

    def name(self, functions: Sequence[Callable[..., Any]]) -> str:
        return f"the order of the entries of a {type(self.table).__name__}"


class Spent(Left):
    """A place that was new, and holds what nobody can use any more."""

    def __init__(self, change: Change) -> None:
        self.change = change

    def preset(self, formals: Sequence[Node]) -> None:
        write_place(*self.change[:3], self.change.now)

    def restore(self) -> None:
        write_place(*self.change[:3], self.change.spent)

    def name(self, functions: Sequence[Callable[..., Any]]) -> str:
        return words_of(*self.change[:3])

    def does(self, noun: str) -> str:
        return filling(self.change, noun)


def filling(change: Change, noun: str) -> str:
    """What a body does that puts an array in a new place."""
    return f"puts an array in {words_of(*change[:3])}, where nothing is before the {noun}"


class Late(Entry):
    """A value that the body of a loop computes, of which nobody knew what it would be."""

    def __init__(self) -> None:
        self.spec: TreeSpec | None = None
        self.nodes: list[Node] = []
        self.leaves: list[Any] = []
        self.value: Any = None

    def found(self, value: Any, function: str) -> None:
        """It has turned out."""
        self.nodes, self.leaves, self.spec = flatten_nodes(value, function)
        self.initial = [core.literal(node.type, 0) for node in self.nodes]

    def finish(self, results: Sequence[Node], outermost: Journal | None) -> None:
        assert self.spec is not None
        self.value = self.spec.rebuild_nodes(results, self.leaves, self.lanes)

    def name(self, functions: Sequence[Callable[..., Any]]) -> str:
        return "the value that is returned"
