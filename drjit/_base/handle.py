"""What is common to all array objects: how they come into being, and how components and their owners find each other.

Arrays that are results are made by :func:`fresh`, and whoever asks for them stores their nodes at once; ``__init__`` is
for users. An array whose component somebody has asked for is its *owner* and knows it, but does not hold it. (The
compiled form calls the type's own slot, and keeps the memory of arrays that have died.)
"""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import Any

from drjit_core import primal, vertex_of

__all__ = ["Handle", "add_view", "adopt", "count_holders", "flat_component", "fresh", "fresh_array", "held", "is_flat",
           "is_younger", "live_arrays", "view_at", "views"]

_ages = itertools.count()


class Handle:
    """The slots that all arrays have (see :mod:`drjit._base.array`)."""

    __slots__ = ("__weakref__", "_age", "_o", "_v")

    #: How many there were before.
    _age: int
    _o: Any
    #: Components that somebody may hold, by position; not set as long as none has been asked for.
    _v: dict[int, weakref.ref[Any]]

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return fresh_array(cls)


def fresh(cls: Any) -> Any:
    """An object of a class without contents."""
    return fresh_array(cls) if issubclass(cls, Handle) else object.__new__(cls)


def fresh_array(cls: Any) -> Any:
    """A new array of an array type, without a node."""
    array = object.__new__(cls)
    array._age = next(_ages)
    return array


def is_younger(array: Any, other: Any) -> bool:
    """Whether an array was made after another one."""
    return bool(array._age > other._age)


def held(array: Any) -> Any:
    """The node of an array that is known to be flat, or a tensor."""
    return array._n


def is_flat(array: Any) -> bool:
    """Whether an array is a flat one: neither nested nor a tensor."""
    return not array._depth


def view_at(owner: Handle, position: int) -> Any:
    """The component at a position, if somebody holds it, else ``None``."""
    try:
        reference = owner._v.get(position)
    except AttributeError:
        return None
    view = None if reference is None else reference()
    return view if view is not None and view._o is not None else None  # else it has been made into something else


def flat_component(array: Handle, position: int) -> Any:
    """The component of a nested array at a position, if components are flat and there is one, else ``None``."""
    cls: Any = type(array)
    value: Any = cls._value
    if not issubclass(value, Handle) or value._depth or cls._size <= position:
        return None
    result = fresh_array(value)
    result._n = array._c[position]  # type: ignore[attr-defined]
    add_view(array, position, result, position)
    return result


def add_view(owner: Handle, position: int, view: Any, offset: int) -> None:
    """Note that an array is the component at a position, whose nodes begin at an offset among the owner's."""
    try:
        known = owner._v
    except AttributeError:
        known = owner._v = {}
    view._o = (owner, offset)
    known[position] = weakref.ref(view)


def views(owner: Handle) -> list[tuple[int, Any]]:
    """The components that somebody holds, with their positions."""
    try:
        known = list(owner._v.items())
    except AttributeError:
        return []
    found = [(position, reference()) for position, reference in known]
    return [(position, view) for position, view in found if view is not None and view._o is not None]


def live_arrays() -> list[Any]:
    """All arrays that there are, found by a search through all objects of the process."""
    return [each for each in gc.get_objects() if issubclass(type(each), Handle)]


def count_holders(found: dict[int, int]) -> None:
    """Count how many arrays hold each of some nodes, components of others aside, by the nodes' ids: values, of duals,
    whose vertices are counted by the complements of their ids."""
    found.update(dict.fromkeys(found, 0))
    for array in live_arrays():
        if getattr(array, "_o", array) is None:
            for node in getattr(array, "_c", None) or [getattr(array, "_n", None)]:
                if node is not None:
                    vertex = vertex_of(node)
                    for number in (primal(node).id,) if vertex is None else (primal(node).id, ~vertex.id):
                        if number in found:
                            found[number] += 1


def adopt(cls: type) -> None:
    """Tell of an array type of the library's own, whose instances hold nothing but nodes, a shape and an owner."""
