"""What is neither a tree nor a leaf: it holds arrays, but not as a PyTree does.

Sets, views and iterators have no order or no end that could be rebuilt, and what attributes of objects mean is known to
their classes alone. Functions that do something with all arrays of a PyTree refuse them, instead of passing them over;
they need no more than that there is an array. Functions, classes and modules may refer to arrays, and are leaves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from gc import get_referents
from types import GeneratorType, MappingProxyType
from typing import Any, cast
from weakref import WeakKeyDictionary

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.values import is_ndarray
from .classes import children

__all__ = ["HOLDERS", "array_within", "passed_over"]

#: What shows the objects that others hold, by base classes; the first one that fits counts. Others may be added.
HOLDERS: dict[type, Callable[[Any], Iterable[Any]]] = {
    set: list, frozenset: list, MappingProxyType: lambda value: list(value.values()), GeneratorType: get_referents,
    **dict.fromkeys([type(view) for table in (dict[Any, Any](), OrderedDict[Any, Any]()) for view in (
        table.keys(), table.values(), table.items())], list)}
#: What has been found of classes, as long as these live.
_holders: WeakKeyDictionary[type, Callable[[Any], Iterable[Any]] | None] = WeakKeyDictionary()
_OURS = "drjit", "drjit_core"


def _attributes(value: Any) -> Iterable[Any]:
    """What is stored in an object, without calling anything."""
    own = getattr(value, "__dict__", None)
    found = list(own.values()) if own.__class__ is dict else []
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        found += [getattr(value, name, None) for name in ((slots,) if isinstance(slots, str) else slots)
                  if not name.startswith("__")]
    return found


def _holder_of(cls: type) -> Callable[[Any], Iterable[Any]] | None:
    """What shows the objects that those of a class hold, if they may hold arrays."""
    found = _holders.get(cls, False)
    if found is False:
        found = next((show for base, show in HOLDERS.items() if issubclass(cls, base)), None)
        if found is None and not issubclass(cls, (type, ArrayBase)) and cls.__module__.partition(".")[0] not in _OURS:
            if cls.__module__ in ("builtins", "itertools"):
                found = get_referents if hasattr(cls, "__next__") else None
            else:
                found = _attributes
        _holders[cls] = found
    return cast("Callable[[Any], Iterable[Any]] | None", found)


def array_within(leaf: Any, is_array: Callable[[Any], bool] = lambda value: isinstance(value, ArrayBase)) -> bool:
    """Whether a leaf, which is no array, holds one: in itself, or in PyTrees, sets and the like that it holds."""
    show = _holder_of(leaf.__class__)
    if show is None and not is_ndarray(leaf):
        return False
    todo, seen = [leaf], set[int]()
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        show = _holder_of(value.__class__)
        entries: Iterable[Any]
        if is_ndarray(value):
            entries = value.ravel().tolist() if value.dtype.char == "O" else ()
        elif show is None or show is _attributes and value is not leaf:  # of objects that it refers to, PyTrees only
            entries = [entry for _, entry in children(value) or ()]
        else:
            entries = show(value)
        for entry in entries:
            if is_array(entry):
                return True
            todo.append(entry)
    return False


def passed_over(function: str, leaf: Any, place: str) -> ArgumentError:
    """What is wrong with a leaf that holds arrays. ``place`` says where it is found, in words of the user."""
    return ArgumentError(
        f"{function}(): '{place}' is of type {describe(leaf)}, which holds arrays, but is no PyTree, so that they "
        "would be passed over. Pass lists, tuples or dictionaries of them, or let its class be a PyTree: a data class, "
        "one with a DRJIT_STRUCT, or one with __drjit_children__() and __drjit_rebuild__().")
