"""PyTrees: lists, tuples, dictionaries, data classes and classes with a ``DRJIT_STRUCT`` annotation, nested at will.

Operations reach the arrays within through :func:`leaves`, and rebuild such a structure through :func:`transform`.
Subclasses of the containers, and any other object, are leaves that are passed on untouched. A structure that contains
itself raises a ``RecursionError``.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator
from typing import Any

from ._array import ArrayBase
from ._errors import describe

__all__ = ["children", "field_types", "is_pytree", "leaves", "transform"]


def field_types(cls: type) -> dict[str, Any] | None:
    """Names and types of the fields of a data class or of a class with a ``DRJIT_STRUCT``; ``None`` for others."""
    struct = getattr(cls, "DRJIT_STRUCT", None)
    if struct.__class__ is dict:
        return struct
    if dataclasses.is_dataclass(cls):
        hints = typing.get_type_hints(cls)
        return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    return None


def is_pytree(cls: type) -> bool:
    """Whether instances of a class are inner nodes of PyTrees."""
    return cls in (list, tuple, dict) or field_types(cls) is not None


def children(value: Any) -> list[tuple[Any, Any]] | None:
    """Keys (positions, dictionary keys, field names) and children of a node of a PyTree; ``None`` for leaves."""
    cls = value.__class__
    if cls is list or cls is tuple:
        return list(enumerate(value))
    if cls is dict:
        return list(value.items())
    if isinstance(value, (ArrayBase, type)):
        return None
    fields = getattr(cls, "DRJIT_STRUCT", None) or getattr(cls, "__dataclass_fields__", None)
    return [(name, getattr(value, name)) for name in fields] if fields.__class__ is dict else None


def _cycle(function: str, value: Any) -> RecursionError:
    return RecursionError(f"{function}(): the PyTree contains itself: a {describe(value)} is its own descendant.")


def leaves(value: Any, function: str) -> Iterator[Any]:
    """All leaves of a PyTree, arrays or not, in order."""
    if isinstance(value, ArrayBase):
        yield value
        return
    yield from _leaves(value, function, set())


def _leaves(value: Any, function: str, path: set[int]) -> Iterator[Any]:
    items = children(value)
    if items is None:
        yield value
        return
    if id(value) in path:
        raise _cycle(function, value)
    path.add(id(value))
    for _, child in items:
        yield from _leaves(child, function, path)
    path.discard(id(value))


def transform(function: str, visit: Callable[..., Any], value: Any, *others: Any) -> Any:
    """A new PyTree whose leaves are ``visit(leaf, *leaves of the others)``; the others must have the same structure."""
    return _transform(function, visit, value, others, set(), "")


def _transform(function: str, visit: Callable[..., Any], value: Any, others: tuple[Any, ...], path: set[int],
               where: str) -> Any:
    items = children(value)
    if items is None:
        return visit(value, *others)
    if id(value) in path:
        raise _cycle(function, value)
    path.add(id(value))
    parallel = [_matching(function, value, items, other, where) for other in others]
    result = {key: _transform(function, visit, child, tuple(other[key] for other in parallel), path,
                              f"{where}[{key!r}]") for key, child in items}
    path.discard(id(value))
    return rebuild(value, result)


def _matching(function: str, value: Any, items: list[tuple[Any, Any]], other: Any, where: str) -> dict[Any, Any]:
    found = dict(children(other) or ()) if other.__class__ is value.__class__ else None
    if found is None or found.keys() != {key for key, _ in items}:
        raise TypeError(f"{function}(): the structures of the arguments differ{f' at {where}' if where else ''}: found "
                        f"{describe(value)} and {describe(other)}"
                        + (" with other entries." if found is not None else "."))
    return found


def rebuild(value: Any, items: dict[Any, Any]) -> Any:
    """An object like a node of a PyTree with other children."""
    cls = value.__class__
    if cls is dict:
        return items
    if cls in (list, tuple):
        return cls(items.values())
    try:
        result = cls()
    except TypeError as error:
        raise TypeError(f"{describe(cls)}: classes in PyTrees must be constructible without arguments.") from error
    for name, child in items.items():
        setattr(result, name, child)
    return result
