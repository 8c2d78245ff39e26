"""What holds arrays: in itself, or in what it consists of and refers to.

Sets, views and iterators have no order or no end that could be rebuilt, and what attributes of objects mean is known to
their classes alone: these are neither trees nor leaves. Functions that do something with all arrays of a PyTree refuse
them, instead of passing them over; they need no more than that there is an array. Functions, classes and modules may
refer to arrays, and are leaves.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import CellType
from typing import Any

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .classes import children
from .contents import attributes_of, contents_of, parts_of
from .kinds import BUILTIN, FUNCTION, METHOD, OBJECT, PARTIAL, about, is_own, kind_at, refers

__all__ = ["are_same", "array_within", "beside_entries", "has_array", "passed_over"]

_FUNCTIONS = (FUNCTION, METHOD, PARTIAL, BUILTIN)
#: So many objects are looked at.
_MOST_OBJECTS = 65536


def _is_any(value: Any) -> bool:
    return isinstance(value, ArrayBase)


def array_within(leaf: Any, is_array: Callable[[Any], bool] = _is_any) -> bool:
    """Whether a leaf of a PyTree, which is no array, holds one: in itself, or in PyTrees, sets and the like that it
    holds."""
    return not is_own(leaf.__class__.__module__) and _holds(leaf, is_array, False)


def _is_traced(value: Any) -> bool:
    return isinstance(value, ArrayBase) and bool(value._dynamic)


def has_array(value: Any, is_array: Callable[[Any], bool] = _is_traced) -> bool:
    """Whether something is a traced array, or leads to one."""
    return is_array(value) if isinstance(value, ArrayBase) else _holds(value, is_array, True)


def _holds(whole: Any, is_array: Callable[[Any], bool], follows: bool) -> bool:
    """Whether an array is found in something, which ``follows`` functions and the attributes of other objects, too."""
    todo, seen = [whole], set[int]()
    while todo and len(seen) < _MOST_OBJECTS:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = kind_at(value)
        entries: list[Any]
        if isinstance(value, weakref.ref) or not follows and (
                kind in _FUNCTIONS or isinstance(value, functools._lru_cache_wrapper)):
            continue
        if kind == OBJECT and not follows and value is not whole:  # of objects that it refers to, PyTrees only
            entries = [entry for _, entry in children(value) or ()]
        else:
            entries = parts_of(value, kind)
            if about(type(value)).has_more:
                entries += attributes_of(value).values()
        for entry in entries:
            if is_array(entry):
                return True
            if refers(entry):
                todo.append(entry)
    return False


def are_same(value: Any, other: Any, around: Sequence[Any] = ()) -> bool:
    """Whether objects are one, or functions that are made of the same: of one code, with the same variables around it,
    methods of one object, and functions with the same arguments. They may refer to themselves."""
    if value is other or [each for each in around if each is value]:
        return True
    kind = kind_at(value)
    if kind not in _FUNCTIONS or type(value) is not type(other) or any(
            getattr(value, name, None) != getattr(other, name, None) for name in ("__code__", "__name__")):
        return False
    parts = [[contents_of(part) if type(part) is CellType else part for part in parts_of(each, kind)]
             for each in (value, other)]
    if len(parts[0]) != len(parts[1]):
        return False
    return not [pair for pair in zip(*parts, strict=True) if not are_same(pair[0], pair[1], (*around, value))]


def beside_entries(function: str, attributes: Iterable[tuple[type, dict[str, Any]]],
                   is_array: Callable[[Any], bool] = _is_any) -> None:
    """Raise if any of the ``attributes`` that containers of some classes have besides their entries holds an array."""
    for cls, found in attributes:
        for name, entry in found.items():
            if is_array(entry) or array_within(entry, is_array):
                raise ArgumentError(
                    f"{function}(): an object of type {describe(cls)} has the attribute '{name}', which holds arrays, "
                    "but attributes of lists, tuples and dictionaries are no part of a PyTree, so that they would be "
                    "passed over. Make them entries, or let the class be a data class, one with a DRJIT_STRUCT, or one "
                    "with __drjit_children__() and __drjit_rebuild__().")


def passed_over(function: str, leaf: Any, place: str) -> ArgumentError:
    """What is wrong with a leaf that holds arrays. ``place`` says where it is found, in words of the user."""
    return ArgumentError(
        f"{function}(): '{place}' is of type {describe(leaf)}, which holds arrays, but is no PyTree, so that they "
        "would be passed over. Pass lists, tuples or dictionaries of them, or let its class be a PyTree: a data class, "
        "one with a DRJIT_STRUCT, or one with __drjit_children__() and __drjit_rebuild__().")
