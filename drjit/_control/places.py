"""Places, and what has changed in them: entries of lists and dictionaries, attributes of objects, variables of
enclosing functions and of modules.

A function is called once, and what it does to numbers, texts and the like is done then, as in any call. Arrays are
another matter: what it puts in a place stands for a value of each element.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import primal

from .._base.array import ArrayBase
from .._trees.contents import write_place
from .._trees.holders import are_same, has_array
from .._trees.kinds import CELL, CLASS, DICT, GENERATOR, MISSING, MODULE, OBJECT
from .._trees.pytree import TreeSpec, children, construct, extras, flatten, flatten_nodes

__all__ = ["Change", "are_others", "difference_at", "is_kept_by_class", "is_spent", "keep_new", "place_key", "reorder",
           "restore", "unshared", "words_of"]


_NO_COPIES: dict[int, tuple[Any, Any]] = {}


class Change(NamedTuple):
    """A place that has another content than before."""

    container: Any
    kind: int
    key: Any
    before: Any
    now: Any
    #: The containers that those of ``now`` are copies of, by the ids of these, with the copies.
    copies: Mapping[int, tuple[Any, Any]] = _NO_COPIES
    #: What nobody can use that was there: functions find nothing before, but elements that take none lose it for good.
    spent: Any = MISSING

    def original(self, container: Any) -> Any:
        """What a container of ``now`` is a copy of."""
        return self.copies[id(container)][0] if id(container) in self.copies else container

    def containers(self, found: dict[int, Any] | None = None, value: Any = MISSING) -> dict[int, Any]:
        """The containers that the place holds now, or one of them, by ids."""
        found, value = {} if found is None else found, self.now if value is MISSING else value
        items = None if isinstance(value, ArrayBase) else children(value)
        if items is not None:
            original = self.original(value)
            found[id(original)] = original
            for _, entry in items:
                self.containers(found, entry)
        return found


def place_key(container: Any, kind: int, key: Any) -> tuple[Any, ...]:
    """What tells a place from others; a cell is known by several names, variables of modules are in dictionaries,
    and dictionaries may have attributes."""
    if kind == OBJECT and isinstance(container, dict):
        return id(container), key, kind
    return id(vars(container) if kind == MODULE else container), "" if kind == CELL else key


def unshared(value: Any, copies: dict[int, tuple[Any, Any]]) -> Any:
    """A tree in containers of its own, which hold what they do now whatever becomes of the others; one in several
    places if they are. These are noted, by the ids of both: the others, and what was made of them."""
    if isinstance(value, ArrayBase) or children(value) is None or flatten(value, "")[1].holds_objects():
        return value
    return _copied(value, copies)


def _copied(value: Any, copies: dict[int, tuple[Any, Any]]) -> Any:
    items = None if isinstance(value, ArrayBase) else children(value)
    if items is None:
        return value
    if id(value) not in copies:
        new: Any = {key: _copied(entry, copies) for key, entry in items}
        if value.__class__ is not dict:
            new = construct(value.__class__, new, extras(value))
        copies[id(value)] = copies[id(new)] = value, new
    return copies[id(value)][1]


def is_spent(value: Any) -> bool:
    """Whether something holds nothing but values of constructs that have ended, which nobody can use any more. What is
    beside such a value is there for each element."""
    nodes = flatten_nodes(value, "")[0] if has_array(value) else []
    return bool(nodes) and not [node for node in nodes if not core.has_ended(primal(node))]


def restore(changes: Sequence[Change]) -> None:
    """Let places hold what they held before: classes first, whose attributes objects show that have none; lists lose
    their last entries first, and then get those that they have lost in turn."""
    for change in changes:
        if change.kind == CLASS:
            write_place(*change[:4])
    for change in reversed(changes):
        if change.kind != CLASS and change.before is MISSING and change.spent is MISSING:
            write_place(*change[:4])
    for change in changes:
        if change.kind != CLASS and (change.before is not MISSING or change.spent is not MISSING):
            write_place(*change[:3], change.spent if change.before is MISSING else change.before)


def reorder(table: Any, keys: Sequence[Any]) -> None:
    """Let the entries of a dictionary be in an order; others follow."""
    known = set(keys)
    for key in [key for key in keys if key in table] + [key for key in table if key not in known]:
        if isinstance(table, OrderedDict):
            OrderedDict.move_to_end(table, key)
        else:
            dict.__setitem__(table, key, dict.pop(table, key))


def keep_new(change: Change) -> None:
    """Let a place that was not there before hold what a function has put in it, of which nobody knows what it is for
    other elements; of what a class computes when it is asked for, and keeps, only what depends on no region. What
    nobody can use remains so, since other elements may have had a value there."""
    if change.spent is not MISSING:
        write_place(*change[:3], change.spent)
    elif not is_kept_by_class(change) or not [node for node in flatten_nodes(change.now, "")[0] if node.scope]:
        write_place(change.container, change.kind, change.key, change.now)


def is_kept_by_class(change: Change) -> bool:
    """Whether a place is an attribute that a class computes when it is asked for, and keeps."""
    return change.kind == OBJECT and change.before is MISSING and hasattr(type(change.container), change.key)


def words_of(container: Any, kind: int, key: Any) -> str:
    """A place, in words."""
    if isinstance(container, ContextVar) or isinstance(key, ContextVar):
        return f"the context variable '{(key or container).name}'"
    if kind == CELL or kind == DICT and "__builtins__" in container:
        return f"the variable '{key}'" if key else "a variable of an enclosing function"
    if kind == GENERATOR:
        return f"the variable '{key}' of the generator '{container.__name__}'"
    if kind == OBJECT:
        return f"the attribute '{key}' of an object of type {type(container).__name__}"
    if kind in (CLASS, MODULE):
        what = "class" if kind == CLASS else "module"
        return f"the attribute '{key}' of the {what} {container.__name__}"
    return f"the entry {key!r} of a {type(container).__name__}"


def difference_at(where: str, first: TreeSpec, second: TreeSpec) -> tuple[str, str, str]:
    """How the structures of two values of a place, in words, differ: what it is that differs, and what it is in each.
    """
    difference = first.difference(second, "", True)
    assert difference is not None
    path, what, *values = difference
    part = f"'{path}' of " if path else ""
    return f"the {what} of {part}{where}", values[0], values[1]


def are_others(leaves: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether any of some leaves are other objects, which hold arrays: no element can choose between these."""
    return bool([leaf for leaf, other in zip(leaves, others, strict=False) if not isinstance(
        leaf, ArrayBase) and not are_same(leaf, other) and (has_array(leaf) or has_array(other))])
