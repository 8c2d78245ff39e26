"""Lists, dictionaries and objects in the state of a loop, or among the arguments of a branch.

Functions are called with copies of them. What they return of these is the caller's container again, with what it has
become, as it would be in a plain Python loop: who else holds it sees the change, too. A derivative calls the functions
once more, and meanwhile the containers are what they were before the construct.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .._base.array import ArrayBase
from .._trees.pytree import TreeSpec, children, is_pytree
from .assigned import copy_of, refill

__all__ = ["Containers", "containers_of"]

#: Which container something is, a negative number if it is none of the caller's, and what is known of its entries.
_Links = tuple[int, Mapping[Any, "_Links"]]


def containers_of(tree: Any, spec: TreeSpec) -> Containers | None:
    """The containers in a PyTree of some structure that functions may change; ``None`` if there are none."""
    return Containers(tree) if _may_change(spec) else None


def _may_change(spec: TreeSpec) -> bool:
    if spec.children is None:
        return False
    if spec.cls is not tuple and spec.prototype is None:  # objects of the traversal protocol make others
        return True
    return any(entry.children is not None and _may_change(entry) for entry in spec.children)


class Containers:
    """The caller's containers, and which of them functions return.

    A loop has one function, which is called for one iteration or several: what it returns must be in the same place. A
    branch has two: what they return in one place must be the same.
    """

    def __init__(self, tree: Any) -> None:
        self.originals: list[Any] = []
        self.numbers: dict[int, int] = {}
        #: Where in the tree they are.
        self.places = self.numbered(tree)
        #: Whether one of them is in several places.
        self.shared = len(self.numbers) < _count(self.places)
        #: Where they are in what the functions have returned; ``None`` before they have been called.
        self.found: _Links | None = None
        #: What the construct has changed, and what was there before: a derivative calls the functions again.
        self.changes: list[tuple[Any, Any]] = []

    def numbered(self, value: Any) -> _Links:
        """Give the containers in a PyTree numbers."""
        number = -1
        if _is_node(value) and value.__class__ is not tuple:
            number = self.numbers.setdefault(id(value), len(self.originals))
            if number == len(self.originals):
                self.originals.append(value)
        return number, {key: self.numbered(child) for key, child in _items(value) if _is_node(child)}

    # --- while functions are called ----------------------------------------------------------------------------------

    def wrapped(self, function: Callable[..., Any], loop: bool = False) -> Callable[..., Any]:
        """A function that notes which of the containers that it was given it returns."""
        def run(*given: Any) -> Any:
            copies: dict[int, Any] = {}
            given = self.linked(given, self.places, copies)
            numbers = {id(copy): number for number, copy in copies.items()}
            returned = self.called(function, given)
            root = (returned,) if loop and returned.__class__ is not tuple else returned
            links = _links_of(root, numbers)
            self.found = _common(links, self.found or (self.places if loop else links))
            return returned

        return run

    def unlinked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that returns none of them, such as the condition of a loop."""
        return lambda *given: self.called(function, given)

    def called(self, function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        """Call a function, for which the containers are what they were before the construct, if it is known already."""
        if not self.changes:
            return function(*given)
        with self.restored():
            return function(*given)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """For a while, the containers are what they were before the construct."""
        now = [(container, _exchanged(container, before)) for container, before in self.changes]
        try:
            yield
        finally:
            for container, entries in now:
                _exchanged(container, entries)

    def linked(self, value: Any, places: _Links, copies: dict[int, Any]) -> Any:
        """What functions are given, where a container of the caller's is one object wherever it is."""
        number, entries = places
        if number in copies:
            return copies[number]
        if self.shared:
            items = dict(_items(value))
            new = {key: self.linked(items[key], entry, copies) for key, entry in entries.items()}
            value = _with_entries(value, {key: entry for key, entry in new.items() if entry is not items[key]})
        else:
            for key, child in _items(value):
                if key in entries:
                    self.linked(child, entries[key], copies)
        if number >= 0:
            copies[number] = value
        return value

    # --- after all ---------------------------------------------------------------------------------------------------

    def kept(self, result: Any) -> Any:
        """The result of the construct, with the caller's containers, in which is what they have become."""
        if self.found is not None:
            result = self.filled(result, self.found)
        self.originals.clear()  # a derivative, which calls the functions again, needs their places only
        self.numbers.clear()
        return result

    def filled(self, value: Any, links: _Links) -> Any:
        number, entries = links
        items = dict(_items(value))
        new = {key: self.filled(items[key], entry) for key, entry in entries.items() if key in items}
        if number < 0:
            return _with_entries(value, {key: entry for key, entry in new.items() if entry is not items[key]})
        original = self.originals[number]
        before = dict(_items(original))
        items |= new
        if original.__class__ in (list, dict) and items.keys() != before.keys():
            self.changes.append((original, _exchanged(
                original, [*items.values()] if original.__class__ is list else items)))
            return original
        changed = {key: entry for key, entry in items.items() if not _is_same(before[key], entry)}
        if changed:
            self.changes.append((original, copy_of(original) if original.__class__ in (list, dict) else
                                 {key: before[key] for key in changed}))
        return _with_entries(original, changed)


def _exchanged(container: Any, entries: Any) -> Any:
    """Put all entries in a list or dictionary, or some attributes in an object; what they were."""
    if container.__class__ in (list, dict):
        before = copy_of(container)
        refill(container, entries)
        return before
    before = {name: getattr(container, name) for name in entries}
    _with_entries(container, entries)
    return before


def _items(value: Any) -> list[tuple[Any, Any]]:
    return children(value) or []


def _is_node(value: Any) -> bool:
    """Whether something is an inner node of PyTrees that has entries of its own to be changed."""
    cls = value.__class__
    return not isinstance(value, (ArrayBase, type)) and is_pytree(cls) and not hasattr(cls, "__drjit_children__")


def _count(links: _Links) -> int:
    return (links[0] >= 0) + sum(map(_count, links[1].values()))


def _links_of(value: Any, numbers: Mapping[int, int]) -> _Links:
    """Which containers are in a PyTree, by their ids."""
    return numbers.get(id(value), -1), {key: _links_of(child, numbers) for key, child in _items(value)
                                        if _is_node(child)}


def _common(first: _Links, second: _Links) -> _Links:
    """What two PyTrees have in the same places."""
    return first[0] if first[0] == second[0] else -1, {
        key: _common(entry, second[1][key]) for key, entry in first[1].items() if key in second[1]}


def _is_same(before: Any, now: Any) -> bool:
    """Whether an array has the contents that another one has: it remains the object that it is."""
    return before is now or isinstance(before, ArrayBase) and before.__class__ is now.__class__ and \
        before._dynamic and all(map(operator.is_, before._nodes(), now._nodes()))


def _with_entries(value: Any, entries: Mapping[Any, Any]) -> Any:
    """A container with other entries in some places; tuples become other ones."""
    if not entries:
        return value
    if value.__class__ is tuple:
        return tuple([entries.get(key, entry) for key, entry in enumerate(value)])
    if value.__class__ is list or value.__class__ is dict:
        for key, entry in entries.items():
            value[key] = entry
    else:
        frozen = getattr(getattr(value, "__dataclass_params__", None), "frozen", False)
        for key, entry in entries.items():
            (object.__setattr__ if frozen else setattr)(value, key, entry)
    return value
