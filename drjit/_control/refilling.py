"""Trees of arrays that functions of constructs have returned, or left somewhere, with other leaves: in the containers
that these are in.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .._base.array import ArrayBase
from .._trees.classes import is_copied, kind_of, put_entry
from .._trees.contents import attributes_of
from .._trees.kinds import is_own
from .._trees.pytree import TreeSpec, children, construct, extras, fields_at_once
from .places import Change

__all__ = ["as_left", "become", "container_pairs", "containers_of", "items_of", "objects_of", "refilled",
           "write_entries"]

_NOTHING: dict[Any, Any] = {}


def container_pairs(before: Any, after: Any, spec: TreeSpec, first: int = 0) -> Iterator[tuple[Any, Any, int]]:
    """The containers of a tree that can change, those that another tree has in their places, and where their leaves
    begin."""
    if spec.children is None:
        return
    given, found = dict(items_of(before)), dict(items_of(after))
    if given and not issubclass(spec.cls, tuple):
        yield before, after, first
    for key, inner in zip(spec.keys if issubclass(spec.cls, dict) else given, spec.children, strict=False):
        yield from container_pairs(given[key], found[key], inner, first)
        first += len(inner.leaf_specs())


def as_left(value: Any, places: Mapping[tuple[int, Any], Change], showing: Mapping[int, Any]) -> Any:
    """A tree as a function has left it, which has changed places, of which some are in the tree, and what objects
    show."""
    items = None if isinstance(value, ArrayBase) else children(value)
    if items is None or hasattr(value, "__drjit_children__"):
        return showing.get(id(value), value)
    new = {key: as_left(places[id(value), key].now if (id(value), key) in places else entry, places, showing)
           for key, entry in items}
    if all(new[key] is entry for key, entry in items):
        return value
    return new if value.__class__ is dict else construct(value.__class__, new, extras(value))


#: The container that stands for those which functions have returned, in one place each, given its structure; ``None``:
#: a new one.
Owner = Callable[[Sequence[Any], TreeSpec], Any]


def refilled(values: Sequence[Any], spec: TreeSpec, leaves: Iterator[Any], owner: Owner,
             become: Callable[[Any, Any], Any], made: dict[Any, Any] | None = None) -> Any:
    """A tree that one or several functions returned, with other leaves; trees of other classes are looked at no more.

    It has the containers of the ``owner``; objects that join by the protocol ``become`` like others. Two places have
    one container if each function has one there: what has been ``made`` is known by those, and by what it is.
    """
    if spec.children is None:
        return next(leaves)
    made = {} if made is None else made
    keys, entries = spec.keys or range(len(spec.children)), list[Any]()
    for position, inner in enumerate(spec.children):
        entries.append(next(leaves) if inner.children is None else refilled(
            _entries(values, keys[position]), inner, leaves, owner, become, made))
    container = owner(values, spec)
    if spec.cls is tuple:
        if container.__class__ is not tuple or len(container) != len(entries):
            return tuple(entries)
        for position, entry in enumerate(container):
            if entry is not entries[position]:
                return tuple(entries)
        return container
    new = dict(zip(keys, entries, strict=True))
    if issubclass(spec.cls, dict):  # whose entries may be in another order
        new = {key: new[key] for key, _ in items_of(values[0])}
    if issubclass(spec.cls, tuple):
        same = container.__class__ is spec.cls and len(container) == len(new) and \
            all(map(operator.is_, container, new.values()))
        return container if same else construct(spec.cls, new, extras(values[0]) if spec.shape else ())
    key = tuple(map(id, values))
    if key in made:
        return made[key][0]
    if id(container) in made:
        container = None
    if spec.prototype is not None:
        now = dict(items_of(container)) if container is not None and not is_copied(container) else _NOTHING
        if now and now.keys() == new.keys() and all(map(operator.is_, now.values(), new.values())):
            return container
        # with what other attributes the caller's object has by now
        like = values[0] if container is None or is_own(spec.cls.__module__) else container
        found = like.__drjit_rebuild__(new)
        found = found if container is None else become(container, found)
    elif container is None:
        found = new if spec.cls is dict else construct(spec.cls, new, extras(values[0]) if spec.shape else ())
    else:
        now, found = dict(items_of(container)), container
        write_entries(container, {key: entry for key, entry in new.items() if now.get(key) is not entry})
    made[key] = made[id(found)] = found, values  # which keeps them, and their identities
    return found


def _entries(values: Sequence[Any], key: Any) -> list[Any]:
    """What trees have for a key; nothing where they are not of the first one's class, or have no such key."""
    cls = type(values[0])
    names, found = fields_at_once(cls), list[Any]()
    for value in values:
        if type(value) is not cls:
            found.append(None)
        elif cls is tuple or cls is list:
            found.append(value[key] if key < len(value) else None)
        elif names is not None:
            found.append(getattr(value, key) if key in names else None)
        else:
            found.append(dict(items_of(value)).get(key))
    return found


def objects_of(value: Any, spec: TreeSpec) -> list[Any]:
    """The objects in a tree that join by the protocol, in the order in which :func:`filled` comes by them."""
    if spec.children is None or not spec.holds_objects():
        return []
    items = dict(items_of(value))
    found = [each for key, inner in zip(spec.keys if issubclass(spec.cls, dict) else items, spec.children, strict=True)
             for each in objects_of(items[key], inner)]
    return found if spec.prototype is None else [*found, value]


def become(owner: Any, other: Any) -> Any:
    """Let an object that joins by the traversal protocol be like another one; returns it."""
    assign = getattr(owner, "__drjit_assign__", None)
    if assign is not None:
        assign(other)
    else:
        for name, value in attributes_of(other).items():
            object.__setattr__(owner, name, value)
    return owner


def containers_of(value: Any, found: set[int] | None = None) -> set[int]:
    """The ids of the containers of a tree, with those that were found before."""
    found = set() if found is None else found
    items = children(value)
    if items is not None and not isinstance(value, ArrayBase):
        found.add(id(value))
        for _, entry in items:
            containers_of(entry, found)
    return found


def items_of(value: Any) -> list[tuple[Any, Any]]:
    """Keys and children of a container; nothing of others."""
    names = fields_at_once(type(value))
    return children(value) or [] if names is None else [(name, getattr(value, name)) for name in names]


def write_entries(container: Any, entries: dict[Any, Any]) -> None:
    """Put values in a list, a dictionary, or the fields of an object."""
    cls = type(container)
    if cls is list or cls is dict:
        for key, entry in entries.items():
            container[key] = entry
    elif isinstance(container, list | dict | deque) and kind_of(cls) is not None:
        for key, entry in entries.items():
            put_entry(container, key, entry)
    else:
        for key, entry in entries.items():
            try:
                setattr(container, key, entry)
            except AttributeError:  # nobody assigns to fields of its class, or to this one
                object.__setattr__(container, key, entry)
