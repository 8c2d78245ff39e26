"""What functions of constructs are given: the arguments of branches and calls, the state of loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterator, Sequence
from types import TracebackType
from typing import Any

import drjit_core as core
from drjit_core import traced_elsewhere

from .._access.store import Journal, noted, owner_of, settled, store_same
from .._base.array import DERIVED, ArrayBase
from .._base.handle import is_flat
from .._trees.classes import is_copied
from .._trees.kinds import about
from .._trees.pytree import TreeSpec, flatten_nodes
from .closed import is_closed
from .fields import Fields, setters_of
from .snapshot import Snapshot, snapshot

__all__ = ["Given", "as_before", "first_places", "place_among", "places_of"]

#: What most calls have no entries in: whoever adds the first one replaces it.
_NOTHING: dict[Any, Any] = {}
_EMPTY: list[Any] = []
_NONE: set[int] = set()
#: Among so few leaves, one is looked for.
_FEW = 48


class Given:
    """The arguments of a construct: a tree of arrays and other objects."""

    __slots__ = ("adorned", "apart", "fields", "function", "guessed", "leaves", "lent", "nodes", "numbers", "plain",
                 "simple", "spec", "tree")

    def __init__(self, function: str, tree: Any, spec: TreeSpec | None = None) -> None:
        self.function = function
        self.tree = tree
        self.nodes, self.leaves, self.spec = flatten_nodes(tree, function)
        if traced_elsewhere(self.nodes) is not None:
            for place, *_ in self.spec.positions():
                settled(self.leaves[place])
            self.nodes, self.leaves, self.spec = flatten_nodes(tree, function)
        if spec is not None and self.spec != spec and spec.difference(self.spec, "", True) is None:
            order, self.spec = spec.in_order(self.spec)
            self.leaves = [self.leaves[place] for place in order]
            self.nodes = flatten_nodes(tuple(self.leaves), function)[0]
        #: The places of arrays that functions are given themselves, because they find them elsewhere, too, and change
        #: them in place.
        self.lent: set[int] = _NONE
        #: Those of which that is presumed, until a function has been called.
        self.guessed: set[int] = _NONE
        #: The places of leaves by their ids, once they have been asked for.
        self.numbers: dict[int, int] = _NOTHING
        #: Whether there is nothing but arrays that are apart, see :meth:`is_apart`; -1 as long as nobody has asked.
        self.apart = -1
        #: Whether any array has attributes; whether there is nothing but arrays, which have none.
        self.adorned = bool(DERIVED) and bool([leaf for leaf in self.leaves if isinstance(leaf, ArrayBase) and about(
            type(leaf)).has_more])
        self.plain = self.spec.is_flat and len(self.spec.traced()) == len(self.leaves) and not self.adorned
        #: What the arrays are in, if that is nothing but tuples and plain fields, which takes no search for who holds
        #: these.
        self.fields: Fields | None = None
        #: Whether there is nothing but arrays, or arrays in such a tree.
        self.simple = self.plain
        if not self.plain and not self.adorned and self.spec.cls is tuple:
            self.find_fields()

    def find_fields(self) -> None:
        """See whether there is nothing but plain fields, and each array once."""
        if len(self.spec.traced()) < len(self.leaves) or self.spec.has_tensors():
            return
        fields = Fields(self.leaves)
        if fields.add(self.tree, self.spec, 0, set()) < 0:
            return
        self.fields, self.simple = fields, True
        if not self.is_apart():
            self.forget_fields()

    def forget_fields(self) -> None:
        """Take the tree for one of any kind."""
        self.fields, self.simple, self.apart = None, self.plain, -1

    def put(self) -> None:
        """Let fields hold what they held."""
        if self.fields is not None:
            self.fields.put(self.leaves)

    def made_of(self, arrays: list[Any]) -> tuple[Any, ...]:
        """The arguments, of simple ones, with other arrays: fields hold these until they get others."""
        if self.fields is None:
            return tuple(arrays)
        self.fields.put(arrays)
        return _with_arrays(self.tree, self.spec, arrays, 0)

    def known_by(self, function: Callable[..., Any], data: bool = False) -> Snapshot | None:
        """What a function knows besides arguments, of simple ones: what it finds by way of their classes, too."""
        if self.fields is None or not self.fields.classes or is_closed(function) and self.fields.is_all_of(function):
            return snapshot(None, function, (), data)
        return snapshot(self.fields.classes, function, (), data)

    def is_closed(self, function: Callable[..., Any]) -> bool:
        """Whether a function knows nothing but arguments, of simple ones, and what never changes."""
        return is_closed(function) and (self.fields is None or self.fields.is_all_of(function))

    def place_of(self, leaf: Any) -> int:
        """The first place of a leaf; -1 if it has none."""
        if len(self.leaves) <= _FEW:
            return place_among(self.leaves, leaf)
        self.numbers = self.numbers or places_of(self.leaves)
        return self.numbers.get(id(leaf), -1)

    def is_own(self) -> bool:
        """Whether functions can be given the arrays themselves: all of what they get is the caller's own."""
        return self.simple or not self.spec.holds_numbers() and not self.spec.holds_copies()

    def is_apart(self) -> bool:
        """Whether there is nothing but arrays, each once, which are no tensors, and no parts of others."""
        if self.apart < 0:
            self.apart = self.simple and not self.spec.has_tensors()
            for place, leaf in enumerate(self.leaves if self.apart else _EMPTY):
                if leaf._o is not None or self.place_of(leaf) != place:
                    self.apart = False
        return bool(self.apart)

    def holds(self, nodes: Sequence[core.Node]) -> bool:
        """Whether arrays, which are no tensors, hold some nodes."""
        position = 0
        for leaf in self.leaves:
            if is_flat(leaf):
                if leaf._n is not nodes[position]:
                    return False
                position += 1
                continue
            for node in leaf._c:
                if position >= len(nodes) or node is not nodes[position]:
                    return False
                position += 1
        return position == len(nodes)

    def parts(self) -> list[int]:
        """The places of arrays that are parts of others."""
        return [] if self.is_apart() else [place for place, *_ in self.spec.traced()
                                           if getattr(self.leaves[place], "_o", None) is not None]

    def lend(self, nodes: list[core.Node], journal: Journal, places: Container[int] | None = None,
             like: Sequence[Any] = ()) -> list[core.Node]:
        """Let the arrays, or those in some places, have other nodes until a journal gives them back what they held;
        returns the nodes, of which what is the same array twice, or part of another, has the same. Tensors have
        the shapes of those that they are ``like``; those of flat arrays that have one, one dimension."""
        if places is None and self.is_apart():
            journal.lend(self.leaves, nodes)
            return nodes
        shared = False
        for place, first, count in self.spec.positions():
            if places is not None and place not in places:
                continue
            array = self.leaves[place]
            shared = not journal.note(array) or shared
            if like and array._depth < 0:
                array._s = like[place]._s
            elif like and array._o is not None:
                tensor = owner_of(array)[0]
                if tensor._depth < 0 and nodes[first].size != math.prod(tensor._s):
                    tensor._s = (nodes[first].size,)
            store_same(array, nodes[first:first + count])
        if not shared:
            return nodes
        found = list(nodes)
        for place, first, count in self.spec.positions():
            if places is None or place in places:
                found[first:first + count] = self.leaves[place]._nodes()
        return found

    def arrays(self, shared: bool = False) -> dict[int, ArrayBase]:
        """The arrays by their places, but for those of objects that functions are given copies of, unless these can
        have ``shared`` ones."""
        copied = _copied(self.spec, itertools.count(), shared) if self.spec.holds_copies() else _NONE
        found = {place: self.leaves[place] for place, *_ in self.spec.traced() if place not in copied}
        for place, first, count in self.spec.positions():
            nodes = self.nodes[first:first + count]
            if place in found and [node for node in nodes if not node.size]:
                store_same(found[place], nodes)  # which are told apart
        return found


def _with_arrays(value: tuple[Any, ...], spec: TreeSpec, arrays: list[Any], place: int) -> tuple[Any, ...]:
    """A tuple with other arrays, from a place on; what else is in it is the same."""
    found = []
    for entry, inner in zip(value, spec.children or (), strict=True):
        if inner.children is None:
            found.append(arrays[place])
            place += 1
        else:
            found.append(_with_arrays(entry, inner, arrays, place) if inner.cls is tuple else entry)
            place += len(inner.traced())
    return tuple(found)


def place_among(leaves: Sequence[Any], leaf: Any) -> int:
    """The first place of a leaf among some; -1 if it has none."""
    for place, each in enumerate(leaves):
        if each is leaf:
            return place
    return -1


def places_of(leaves: Sequence[Any]) -> dict[int, int]:
    """The first place of each leaf, by its id."""
    found: dict[int, int] = {}
    for place, leaf in enumerate(leaves):
        found.setdefault(id(leaf), place)
    return found


def first_places(leaves: Sequence[Any]) -> list[int]:
    """The first place of each leaf."""
    if len(leaves) <= _FEW:
        return [place_among(leaves, leaf) for leaf in leaves]
    known = places_of(leaves)
    return [known[id(leaf)] for leaf in leaves]


def _copied(spec: TreeSpec, places: Iterator[int], shared: bool, copied: bool = False) -> set[int]:
    """The places of leaves of objects that functions are given copies of, but for those with ``shared`` arrays."""
    if spec.children is None:
        place = next(places)
        return {place} if copied else set()
    copied = copied or is_copied(spec.prototype) and not (shared and hasattr(spec.prototype, "__drjit_origin__"))
    return set().union(*[_copied(entry, places, shared, copied) for entry in spec.children])


class as_before:
    """Let a tree be as it was if a construct raises, whatever the setters of its objects do, and if it has ``several``
    iterations, whatever the first ones have done."""

    __slots__ = ("given", "noted", "snapshot", "tree")

    def __init__(self, given: Given, several: bool = False) -> None:
        self.given = given
        self.tree = None if given.spec.is_flat or not (several or _runs_code(given.spec)) else given.tree

    def __enter__(self) -> None:
        if self.tree is not None:
            self.snapshot, self.noted = snapshot(self.tree, None), noted()
            self.noted.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self.tree is not None:
            self.noted.__exit__(kind, error, traceback)
            if kind is not None and self.snapshot is not None:
                self.snapshot.undo(lambda change: True)


def _runs_code(spec: TreeSpec) -> bool:
    """Whether something of the user's is called when entries of a tree are assigned."""
    if spec.children is None:
        return False
    cls = spec.cls
    return cls is not list and cls is not tuple and cls is not dict and _has_setters(cls, spec.keys) or \
        bool([entry for entry in spec.children if _runs_code(entry)])


def _has_setters(cls: type, fields: tuple[Any, ...]) -> bool:
    """Whether objects of a class make something of what is assigned to fields, or of others that are like them."""
    found = setters_of(cls)
    return found is None or not found.isdisjoint(fields)
