"""The classes whose instances are inner nodes of PyTrees, and how such a node is taken apart and made.

They are lists, tuples, dictionaries, data classes, and classes that join by annotation or by protocol. Subclasses of
the containers (named tuples are some), and any other object, are leaves that are passed on untouched.

A class takes part

- as a data class: its fields are the children, and go to its constructor when it is rebuilt;
- by a dictionary ``DRJIT_STRUCT`` from the names of its fields to their types. Its constructor must work without
  arguments; the fields are set afterwards. Attributes that the dictionary does not name get their defaults;
- by the traversal protocol, two methods. ``__drjit_children__()`` returns a dictionary of children, by any keys.
  ``__drjit_rebuild__(children)`` returns an object like this one with other children, which has the same keys and, as a
  rule, the same types. Arrays outside of this package join by it, and so do objects whose constructor needs arguments.
  What changes arrays in place (``dr.make_opaque``, ``dr.scatter``) changes the arrays that ``__drjit_children__``
  returns, so these must be the object's own.

Classes of the first two kinds know the types of their fields, so that ``dr.zeros(cls, n)`` can create them.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

from .._base.array import ArrayBase
from .._base.errors import describe

__all__ = ["children", "construct", "field_types", "is_foreign_array", "is_pytree", "sole_array"]


def field_types(cls: type) -> dict[str, Any] | None:
    """Names and types of the fields of a data class or of a class with a ``DRJIT_STRUCT``; ``None`` for others."""
    struct = getattr(cls, "DRJIT_STRUCT", None)
    if struct.__class__ is dict:
        return struct
    if not dataclasses.is_dataclass(cls):
        return None
    try:
        hints = typing.get_type_hints(cls)
    except NameError as error:
        raise TypeError(f"{describe(cls)}: the types of the fields of this data class are not known: its module has no "
                        f"name {error.name!r}, which an annotation refers to.") from error
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def is_pytree(cls: type) -> bool:
    """Whether instances of a class are inner nodes of PyTrees."""
    return cls in (list, tuple, dict) or getattr(cls, "DRJIT_STRUCT", None).__class__ is dict or \
        hasattr(cls, "__dataclass_fields__") or hasattr(cls, "__drjit_children__")


def children(value: Any) -> list[tuple[Any, Any]] | None:
    """Keys (positions, dictionary keys, field names) and children of a node of a PyTree; ``None`` for leaves."""
    cls = value.__class__
    if cls is list or cls is tuple:
        return list(enumerate(value))
    if cls is dict:
        return list(value.items())
    if isinstance(value, (ArrayBase, type)):
        return None
    if hasattr(cls, "__drjit_children__"):
        items = value.__drjit_children__()
        if not isinstance(items, dict):
            raise TypeError(f"{describe(value)}.__drjit_children__() must return a dictionary of children, found "
                            f"{describe(items)}.")
        return list(items.items())
    struct = getattr(cls, "DRJIT_STRUCT", None)
    if struct.__class__ is dict:
        return [(name, getattr(value, name)) for name in struct]
    if hasattr(cls, "__dataclass_fields__"):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(cls)]
    return None


def is_foreign_array(value: Any) -> bool:
    """Whether a value is an array of another package, which has joined by the protocol, speaks DLPack, and tells the
    namespace that makes such arrays."""
    return all(hasattr(value.__class__, name) for name in ("__drjit_children__", "__dlpack__", "__array_namespace__"))


def sole_array(value: Any) -> Any:
    """The array that an array of another package consists of, which has joined by the protocol; other values as they
    are."""
    if isinstance(value, ArrayBase) or not hasattr(value.__class__, "__drjit_children__"):
        return value
    items = value.__drjit_children__()
    first = next(iter(items.values()), None) if len(items) == 1 else None
    return first if isinstance(first, ArrayBase) else value


def construct(cls: Any, items: dict[str, Any]) -> Any:
    """An object of a class with a ``DRJIT_STRUCT``, or of a data class, with the given fields."""
    if getattr(cls, "DRJIT_STRUCT", None).__class__ is dict:
        try:
            result = cls()
        except TypeError as error:
            raise TypeError(f"{describe(cls)}: classes in PyTrees must be constructible without arguments.") from error
        for name, child in items.items():
            setattr(result, name, child)
        return result
    later = {field.name for field in dataclasses.fields(cls) if not field.init}
    result = cls(**{name: child for name, child in items.items() if name not in later})
    for name in later & items.keys():
        object.__setattr__(result, name, items[name])  # also of frozen ones
    return result
