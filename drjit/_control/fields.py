"""Trees of plain fields: objects, lists and dictionaries that hold arrays, each in one place, and nothing else.

What functions do to such a tree is seen by looking at what its fields hold: nothing of the user's is called when a
field is read or assigned, and no array is in two of them. So what they hold need not be looked for, and functions which
know nothing but arrays and such trees can have changed nothing else.
"""

from __future__ import annotations

from abc import ABCMeta
from collections import deque
from collections.abc import Callable
from types import FunctionType, MemberDescriptorType
from typing import Any

from drjit_core import closure_of, code_of, defaults_of, globals_of

from .._base.array import ArrayBase
from .._base.handle import is_younger
from .._base.weak import remembered
from .._trees.classes import is_frozen
from .._trees.contents import attributes_in_dict, contents_of
from .._trees.kinds import DICT, LIST, MISSING, OBJECT, about, is_of_library, is_own
from .._trees.pytree import TreeSpec
from .closed import FINDS_CLASSES, called_by_operators, is_closed, is_harmless, names_of, sets_attributes

__all__ = ["EXCHANGED", "OTHERWISE", "SAME", "Fields", "NotPlain", "setters_of"]

#: What has become of fields: nothing, some hold other arrays, or more than that.
SAME, EXCHANGED, OTHERWISE = range(3)
#: Where objects of a class keep their fields: elsewhere than in plain attributes, in a dictionary, in slots; where
#: values do, of which nobody else knows the arrays.
_ELSEWHERE, _IN_DICT, _IN_SLOTS, _IN_VALUE = range(4)

_NOTHING: dict[int, Any] = {}


class NotPlain(Exception):
    """What has been taken for a tree of plain fields changes in another way: trace again."""


class _Holder:
    """A container of a tree, and what it held: arrays, of which the tree's leaves say more, and containers."""

    __slots__ = ("container", "keys", "kind", "places", "table", "values")

    def __init__(self, container: Any, kind: int, table: Any, keys: tuple[Any, ...]) -> None:
        self.container, self.kind, self.keys = container, kind, keys
        #: The list or dictionary that the fields are in; ``None`` if they are slots.
        self.table = table
        #: Which leaves the fields are, or -1; what they held if they are none.
        self.places: list[int] = []
        self.values: list[Any] = []


class Fields:
    """The containers of a tree, and what functions have made of the arrays in them."""

    __slots__ = ("classes", "exchanged", "holders", "leaves", "owners")

    def __init__(self, leaves: list[Any]) -> None:
        self.leaves = leaves
        self.holders: list[_Holder] = []
        #: Of each leaf the container that it is a field of, and the number of the field; none of those in tuples.
        self.owners: list[Any] = [None] * len(leaves)
        #: The user's classes of the objects.
        self.classes: tuple[type, ...] = ()
        #: What fields hold that hold other arrays, by the places of leaves, since that was asked last.
        self.exchanged: dict[int, Any] = _NOTHING

    def add(self, value: Any, spec: TreeSpec, place: int, seen: set[int]) -> int:
        """Look at a tree whose leaves begin at a place; returns the place after it, or -1 if it is none of these."""
        entries = spec.children
        if entries is None:
            return place + 1
        cls = spec.cls
        values: Any = value
        if cls is tuple:
            for number, inner in enumerate(entries):
                place = place + 1 if inner.children is None else self.add(values[number], inner, place, seen)
                if place < 0:
                    return -1
            return place
        if id(value) in seen or spec.shape:
            return -1
        seen.add(id(value))
        table: Any = value
        keys = spec.keys
        kind = LIST if cls is list else DICT if cls is dict else OBJECT
        if kind == LIST:
            keys = tuple(range(len(entries)))
        elif kind == DICT:
            values = list(value.values())
        else:
            how = _kept_in(cls)
            if how == _IN_VALUE:
                keys = cls._dr_value
            elif how == _ELSEWHERE or not keys or how == _IN_SLOTS and set(about(cls).slots) != set(keys):
                return -1
            else:
                setters = setters_of(cls)
                if setters is None or not setters.isdisjoint(keys):
                    return -1
            table = attributes_in_dict(value) if how == _IN_DICT else None
            if table is not None and len(table) != len(keys):
                return -1
            values = [getattr(value, key, MISSING) for key in keys] if table is None else [
                table.get(key, MISSING) for key in keys]
            if about(cls).is_users and cls not in self.classes:
                self.classes = (*self.classes, cls)
            for base in about(cls).bases:
                if base not in self.classes:
                    self.classes = (*self.classes, base)
        holder = _Holder(value, kind, table, keys)
        self.holders.append(holder)
        for number, inner in enumerate(entries):
            entry = values[number]
            if inner.children is None:
                if entry is not self.leaves[place]:
                    return -1
                self.owners[place] = (holder, number)
                holder.places.append(place)
                place += 1
            else:
                holder.places.append(-1)
                place = self.add(entry, inner, place, seen)
                if place < 0:
                    return -1
            holder.values.append(entry)
        return place

    def put(self, arrays: list[Any]) -> None:
        """Let fields hold some arrays, of which there is one for each leaf."""
        for holder in self.holders:
            keys, table = holder.keys, holder.table
            for number, place in enumerate(holder.places):
                if place >= 0:
                    if table is None:
                        object.__setattr__(holder.container, keys[number], arrays[place])
                    else:
                        table[keys[number]] = arrays[place]

    def set(self, place: int, array: Any) -> None:
        """Let the field that a leaf is in hold an array."""
        holder, number = self.owners[place]
        if holder.table is None:
            object.__setattr__(holder.container, holder.keys[number], array)
        else:
            holder.table[holder.keys[number]] = array

    def where(self, place: int) -> tuple[Any, int, Any]:
        """The place of a leaf: a container, what it is, and the key."""
        holder, number = self.owners[place]
        return holder.container, holder.kind, holder.keys[number]

    def changed(self, arrays: list[Any]) -> int:
        """What has become of fields that held some arrays: nothing, others that are like them, or something else."""
        self.exchanged = _NOTHING
        for holder in self.holders:
            keys, table, kind = holder.keys, holder.table, holder.kind
            if table is not None and len(table) != len(keys) or kind == OBJECT and table is not None and \
                    attributes_in_dict(holder.container) is not table or kind == DICT and list(table) != list(keys):
                return OTHERWISE
            for number, place in enumerate(holder.places):
                if kind == LIST:
                    now = table[number]
                elif table is None:
                    now = getattr(holder.container, keys[number], MISSING)
                else:
                    now = table.get(keys[number], MISSING)
                if place < 0:
                    if now is not holder.values[number]:
                        return OTHERWISE
                elif now is not arrays[place]:
                    before = arrays[place]
                    if type(now) is not type(before) or now._o is not None or \
                            now._depth > 0 and len(now._c) != len(before._c):
                        return OTHERWISE
                    self.exchanged = self.exchanged or {}
                    self.exchanged[place] = now
        return EXCHANGED if self.exchanged else SAME

    def are_new(self, since: Any) -> bool:
        """Whether what fields hold that hold other arrays has been made since an array was, and is in one of them
        each."""
        found = set[int]()
        for array in self.exchanged.values():
            if id(array) in found or not is_younger(array, since):
                return False
            found.add(id(array))
        return True

    def restore(self) -> None:
        """Let everything be as it was, whatever has become of it."""
        for holder in self.holders:
            entries = dict(zip(holder.keys, holder.values, strict=True))
            if holder.kind == LIST:
                holder.container[:] = holder.values
            elif holder.kind == DICT:
                holder.container.clear()
                holder.container.update(entries)
            elif holder.table is None:
                for key, value in entries.items():
                    object.__setattr__(holder.container, key, value)
            else:
                holder.table.clear()
                holder.table.update(entries)
                object.__setattr__(holder.container, "__dict__", holder.table)

    def containers(self) -> list[int]:
        """The ids of the containers."""
        return [id(holder.container) for holder in self.holders]

    def entries(self) -> list[Any]:
        """What the containers held, as a :class:`Snapshot` notes it."""
        found: list[Any] = []
        for holder in self.holders:
            if holder.kind == LIST:
                found += holder.container, LIST, list(holder.values)
            else:
                found += holder.container, holder.kind, 2 * len(holder.keys)
                for key, value in zip(holder.keys, holder.values, strict=True):
                    found += key, value
        return found

    def is_all_of(self, function: Callable[..., Any]) -> bool:
        """Whether a function that knows nothing but its arguments uses nothing of the objects but their fields."""
        if not self.classes:
            return True
        if type(function) is not FunctionType:
            return False
        names = names_of(code_of(function))
        if not FINDS_CLASSES.isdisjoint(names):
            return False
        fields = {key for holder in self.holders if holder.kind == OBJECT for key in holder.keys}
        for cls in self.classes:
            if is_harmless(cls, function):
                continue
            if refers_to_users(function):  # which may do more to the objects
                return False
            entries = vars(cls)
            for name in names:
                if name in entries and name not in fields:
                    return False
            for name, entry in entries.items():
                for called in called_by_operators(entry) if name[:2] == "__" else ():
                    if not is_closed(called) or refers_to_users(called) or not FINDS_CLASSES.isdisjoint(names_of(
                            code_of(called))) and sets_attributes(code_of(called)):
                        return False
        return True


def refers_to_users(function: FunctionType) -> bool:
    """Whether a function refers to functions or classes that are no library's."""
    variables = globals_of(function)
    known = [variables.get(name) for name in names_of(code_of(function))]
    known += [*(defaults_of(function) or ()), *[contents_of(cell) for cell in closure_of(function) or ()]]
    for value in known:
        if type(value) is FunctionType and not is_of_library(value) or \
                isinstance(value, type) and about(value).is_users:
            return True
    return False


@remembered
def _kept_in(cls: type) -> int:
    """Where objects of a class keep their fields."""
    if is_own(cls.__module__):
        return _IN_VALUE if hasattr(cls, "_dr_value") else _ELSEWHERE
    if issubclass(cls, (list, tuple, dict, deque, type, ArrayBase)) or hasattr(cls, "__drjit_children__") or \
            hasattr(cls, "__getattr__") or type(cls) not in (type, ABCMeta) or \
            cls.__getattribute__ is not object.__getattribute__:
        return _ELSEWHERE
    slots = about(cls).slots
    return _IN_SLOTS if slots and not cls.__dictoffset__ else _IN_DICT if cls.__dictoffset__ and not slots else \
        _ELSEWHERE


@remembered
def setters_of(cls: type) -> frozenset[str] | None:
    """The fields of which objects of a class make something when they are assigned; ``None`` if that may be any."""
    if hasattr(cls, "__drjit_rebuild__"):
        return frozenset() if cls.__module__.partition(".")[0] == "drjit" else None
    if not is_frozen(cls) and cls.__setattr__ is not object.__setattr__:  # type: ignore[comparison-overlap]
        return None
    return frozenset([name for base in cls.__mro__ for name, value in vars(base).items()
                      if hasattr(type(value), "__set__") and type(value) is not MemberDescriptorType])
