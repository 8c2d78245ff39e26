"""Which arguments of a construct are one array with others: the same, a component of it (``v`` and ``v.x``), or a
tensor and its flat array; and where functions find it otherwise.

What is changed in place shows in all of these. A function that is given the caller's own arrays, which hold for that
time what stands for them (:meth:`drjit._control.given.Given.lend`), finds that by itself, wherever it finds them.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from drjit_core import Node

from .._access.store import Journal, extent_of, owner_of, store_same
from .._base.array import ArrayBase
from .._base.handle import views

if TYPE_CHECKING:
    from .given import Given
    from .snapshot import Snapshot

__all__ = ["Aliases", "Made", "defaults", "leaf_at"]


def defaults(given: Given) -> set[int]:
    """The places of arrays that are attributes of the classes of objects which they are given in: what these hold if
    nobody has said otherwise."""
    found: set[int] = set()
    todo, classes = [given.spec], set[type]()
    while todo:
        spec = todo.pop()
        if spec.children is not None:
            todo += spec.children
            if spec.cls not in (list, tuple, dict):
                classes.update(spec.cls.__mro__)
    arrays = {id(value) for cls in classes for value in vars(cls).values() if isinstance(value, ArrayBase)}
    if arrays:
        found.update([place for place, *_ in given.spec.positions() if id(given.leaves[place]) in arrays])
    return found


class Made:
    """Arrays that are made for places after a construct, where functions have left others: one for what is one, and is
    the same for all elements."""

    def __init__(self) -> None:
        #: By the ids of what functions have left: the new arrays, and what tells what these are for the elements.
        self.known: dict[int, list[tuple[Any, tuple[Sequence[Node], ...]]]] = {}

    def note(self, leaf: Any, made: Any, *nodes: Sequence[Node]) -> None:
        """Note an array that was made in the place of another one, which is what some ``nodes`` tell."""
        self.known.setdefault(id(leaf), []).append((made, nodes))

    def find(self, leaf: Any, made: Any, *nodes: Sequence[Node]) -> Any:
        """The first array that was made in the place of one, or of what that is part of, if it is the same; the one
        that was ``made`` for it, if there is none."""
        owner, first = owner_of(leaf)
        for array, start in ((owner, first), (leaf, 0)):
            for other, known in self.known.get(id(array), ()):
                if not [part for whole, part in zip(known, nodes, strict=True) if not _are_same(
                        whole[start:start + len(part)], part)]:
                    found = leaf_at(other, array, leaf)
                    if found is not None:
                        return found
        return made


def _are_same(some: Sequence[Node], others: Sequence[Node]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def leaf_at(whole: Any, owner: Any, part: Any) -> Any:
    """What is in an array where another one, the owner, has a part; ``None`` if that cannot be told."""
    if part is owner:
        return whole
    for position, view in views(owner):
        found = leaf_at(whole.array if owner._depth < 0 else whole[position], view, part)
        if found is not None:
            return found
    return None


class Aliases:
    """The arguments by the arrays that hold their contents."""

    def __init__(self, given: Given) -> None:
        self.given = given
        #: Of the place of each array: what holds its contents, and which nodes of that are its own.
        self.parts: dict[int, tuple[Any, int, int]] = {}
        for place, *_ in given.spec.positions():
            self.parts[place] = extent_of(given.leaves[place])
        #: The places of arrays, by the identity of what holds their contents.
        self.places: dict[int, list[int]] = {}
        for place, (owner, *_) in self.parts.items():
            self.places.setdefault(id(owner), []).append(place)

    def others(self, place: int) -> list[int]:
        """The places of other arguments that are the same array as one, part of it, or what it is part of."""
        owner, start, end = self.parts[place]
        return [other for other in self.places[id(owner)] if other != place and
                self.parts[other][1] < end and start < self.parts[other][2]]

    def is_found(self, place: int, known: Snapshot | None) -> bool:
        """Whether a function finds an argument, or any of it, among what it is ``known`` to refer to."""
        return known is not None and bool(known.places(self.given.leaves[place]))

    def is_changed(self, place: int, journal: Journal, before: Sequence[Node]) -> bool:
        """Whether an argument itself was changed, and not what stands for it, given what it held ``before``."""
        owner, start, end = self.parts[place]
        return id(owner) in journal.entries and bool([
            old for old, new in zip(before, owner._nodes()[start:end], strict=True) if old is not new])

    def give_back(self, places: Collection[int], journal: Journal) -> None:
        """Let arguments hold what they did before they were lent."""
        for owner, start, end in [self.parts[place] for place in places]:
            _, before, shape = journal.entries[id(owner)]
            if shape is not None:
                owner._s = shape
            if owner._depth > 0:
                store_same(owner, before[start:end], start)
            else:
                store_same(owner, before)

    def covered(self, places: Collection[int]) -> set[tuple[int, int]]:
        """The components of arrays that arguments are, by the arrays' identities."""
        return {(id(owner), position) for owner, start, end in [self.parts[place] for place in places]
                for position in range(start, end)}
