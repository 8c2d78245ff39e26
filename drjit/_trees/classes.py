"""The classes whose instances are inner nodes of PyTrees, and how such a node is taken apart and made.

They are lists, tuples, dictionaries, ``collections.deque``, ``types.SimpleNamespace``, the subclasses of these (such as
named tuples, ordered dictionaries and those with defaults), data classes, classes of the package attrs, and classes
that join by annotation or by protocol. Any other object is a leaf. Containers are made anew as what they are: of the
same class, with the same attributes, defaults and largest lengths.

Numbers, texts, functions and other leaves without arrays are passed on untouched. What is neither tree nor leaf, sets,
views, iterators and objects that hold arrays, would be passed over where a function does something with all arrays,
such as ``dr.grad`` or ``dr.eval``, and is refused there (:mod:`.holders`); so are arrays that are attributes of
containers.

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
import inspect
import typing
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.weak import note

__all__ = ["Kind", "attributes", "children", "construct", "extras", "field_types", "is_copied", "is_foreign_array",
           "is_frozen", "is_pytree", "kind_of", "put_entry", "sole_array"]


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


class Kind(NamedTuple):
    """How containers of some sort are taken apart, and made from a class, keys with entries, and what is no entry."""

    children: Callable[[Any], list[tuple[Any, Any]]]
    construct: Callable[[Any, dict[Any, Any], tuple[Any, ...]], Any]
    extras: Callable[[Any], tuple[Any, ...]] = lambda value: ()


class _Attributes(dict[str, Any]):
    """The attributes of a container, which take no part in comparisons."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Attributes)

    def __hash__(self) -> int:  # type: ignore[override]
        return 1


def _attributes(value: Any) -> tuple[Any, ...]:
    found = getattr(value, "__dict__", None)
    return (_Attributes(found),) if found else ()


def _with_attributes(result: Any, extras: tuple[Any, ...]) -> Any:
    for attributes in extras:
        if attributes.__class__ is _Attributes:
            result.__dict__.update(attributes)
    return result


def _make_dict(cls: Any, items: dict[Any, Any], extras: tuple[Any, ...]) -> Any:
    result = cls.__new__(cls)
    if issubclass(cls, defaultdict):
        result.default_factory = extras[0]
    for key, entry in items.items():
        put_entry(result, key, entry)
    return _with_attributes(result, extras)


def _make_list(cls: Any, items: dict[Any, Any], extras: tuple[Any, ...]) -> Any:
    result = cls.__new__(cls)
    list.extend(result, items.values())
    return _with_attributes(result, extras)


def _make_deque(cls: Any, items: dict[Any, Any], extras: tuple[Any, ...]) -> Any:
    result = cls.__new__(cls)
    deque.__init__(result, items.values(), extras[0])
    return _with_attributes(result, extras)


def _make_tuple(cls: Any, items: dict[Any, Any], extras: tuple[Any, ...]) -> Any:
    try:
        result = tuple.__new__(cls, items.values())
    except TypeError:  # a class of C that is made otherwise
        result = cls(tuple(items.values()))
    return _with_attributes(result, extras)


def _make_object(cls: Any, items: dict[Any, Any], extras: tuple[Any, ...]) -> Any:
    result = cls.__new__(cls)
    for name, entry in items.items():
        object.__setattr__(result, name, entry)  # also of frozen ones
    return result


def _enumerated(value: Any) -> list[tuple[Any, Any]]:
    return list(enumerate(value))


#: The kinds of containers by their base classes; the first one that fits counts. Others may be added.
KINDS: dict[type, Kind] = {
    list: Kind(_enumerated, _make_list, _attributes),
    tuple: Kind(_enumerated, _make_tuple, _attributes),
    dict: Kind(lambda value: list(dict.items(value)), _make_dict,
               lambda value: (*((value.default_factory,) if isinstance(value, defaultdict) else ()),
                              *_attributes(value))),
    deque: Kind(_enumerated, _make_deque, lambda value: (value.maxlen, *_attributes(value))),
    SimpleNamespace: Kind(lambda value: list(vars(value).items()), _make_object),
}
_ATTRS = Kind(lambda value: [(field.name, getattr(value, field.name)) for field in value.__attrs_attrs__], _make_object)
#: What has been found out about classes, as long as they live, by their ids.
_kinds: dict[int, Kind | None] = {}


def kind_of(cls: type) -> Kind | None:
    """The kind of a class, if it is one of containers, of which neither fields nor the protocol say what is in them.
    (Tuples of C that programs cannot make, or that have more fields than entries, like ``time.struct_time``, are
    none.)"""
    if id(cls) not in _kinds:
        found = next((kind for base, kind in KINDS.items() if issubclass(cls, base)), None)
        if found is None and hasattr(cls, "__attrs_attrs__"):
            found = _ATTRS
        if hasattr(cls, "n_sequence_fields") and not _is_made_of_entries(cls) or _says_itself(cls):
            found = None
        note(_kinds, cls, found)
    return _kinds[id(cls)]


def _says_itself(cls: type) -> bool:
    """Whether a class joins by its fields, or by the protocol, whatever it is derived from."""
    return getattr(cls, "DRJIT_STRUCT", None).__class__ is dict or hasattr(cls, "__dataclass_fields__") or \
        hasattr(cls, "__drjit_children__")


def put_entry(container: Any, key: Any, entry: Any) -> None:
    """Put an entry into a list, a queue or a dictionary, whatever its class makes of that."""
    kinds: tuple[Any, ...] = (OrderedDict, dict, list, deque)
    next(kind for kind in kinds if isinstance(container, kind)).__setitem__(container, key, entry)


def is_frozen(cls: type) -> bool:
    """Whether nobody assigns to fields of a data class, or of a class of attrs."""
    return getattr(getattr(cls, "__dataclass_params__", None), "frozen", False) or \
        getattr(cls.__setattr__, "__name__", "") == "_frozen_setattrs"


def is_copied(value: Any) -> bool:
    """Whether functions get copies of an object that joins by the protocol: it knows itself how it becomes like another
    one, or keeps its children in something else than attributes."""
    return hasattr(value, "__drjit_assign__") or hasattr(value, "__drjit_variables__")


def _is_made_of_entries(cls: Any) -> bool:
    """Whether a class of named tuples that are made in C makes one from any entries, and has nothing else."""
    try:
        return cls.n_fields == cls.n_sequence_fields == len(cls(range(cls.n_fields)))  # type: ignore[no-any-return]
    except TypeError:
        return False


def extras(value: Any) -> tuple[Any, ...]:
    """What a container has besides entries: attributes, a default, a largest length."""
    kind = kind_of(value.__class__)
    return () if kind is None else kind.extras(value)


def attributes(extras_: tuple[Any, ...]) -> dict[str, Any]:
    """The attributes among what a container has besides entries."""
    return next((each for each in extras_ if each.__class__ is _Attributes), {})


def is_pytree(cls: type) -> bool:
    """Whether instances of a class are inner nodes of PyTrees."""
    return kind_of(cls) is not None or _says_itself(cls)


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
    kind = kind_of(cls)
    if kind is not None:
        return kind.children(value)
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


def construct(cls: Any, items: dict[Any, Any], more: tuple[Any, ...] = ()) -> Any:
    """An object of a class with a ``DRJIT_STRUCT``, or of a data class, with the given fields; or a container with the
    given entries, and what else it has."""
    if getattr(cls, "DRJIT_STRUCT", None).__class__ is dict:
        try:
            result = cls()
        except TypeError as error:
            raise TypeError(f"{describe(cls)}: classes in PyTrees must be constructible without arguments.") from error
        for name, child in items.items():
            setattr(result, name, child)
        return result
    kind = kind_of(cls)
    if kind is not None:
        return kind.construct(cls, items, more)
    later = {field.name for field in dataclasses.fields(cls) if not field.init}
    given = {name: child for name, child in items.items() if name not in later}
    try:
        result = cls(**given)
    except TypeError as error:
        try:
            inspect.signature(cls).bind(**given)
        except TypeError as reason:
            raise TypeError(f"{describe(cls)}: data classes in PyTrees must be constructible with their fields alone "
                            f"({reason}).") from error
        raise
    for name in later & items.keys():
        object.__setattr__(result, name, items[name])  # also of frozen ones
    return result
