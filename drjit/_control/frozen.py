"""Functions as they were when they were traced: what derivatives trace again.

Derivatives of a construct call the user's functions once more, later. Until then, a program goes on: variables that the
functions refer to get other values, arrays are changed in place. So the functions are copied, with the variables of
enclosing functions and of their module that they use, and with arrays of their own in them. Attributes of objects
are not copied, since that would make other objects of them: if one has changed, the derivative is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import drjit_core as core
from drjit_core import Node

from .._base.array import ArrayBase
from .._promotion.promote import wrap_like

__all__ = ["Frozen"]

_CONTAINERS = (list, tuple, dict)
#: Larger lists, tuples and dictionaries are not copied.
_ENTRIES = 256
#: So deep, containers are copied, and attributes looked at.
_DEPTH = 4
#: Modules whose variables are none of the user's.
_OWN = ("drjit", "drjit_core")
_EMPTY_CELL = CellType()


class Frozen:
    """Copies of functions; arrays in ``kept`` remain what they are (those that the functions write to)."""

    def __init__(self, function: str, functions: Sequence[Callable[..., Any]], kept: Sequence[Any]) -> None:
        self.function = function
        self.copies: dict[int, Any] = {id(array): array for array in kept}
        #: The originals, by whose ids copies are known, live until all is copied.
        self.originals: list[Any] = []
        self.modules = {id(found.__globals__) for found in map(_plain, functions) if found is not None
                        and found.__globals__.get("__name__", "").partition(".")[0] not in _OWN}
        self.names: set[str] = set()
        self.objects: list[Any] = []
        self.functions = [self.copied(entry, 0) for entry in functions]
        #: Attributes that the functions may use: the object, its attribute, the value and, of arrays, their nodes.
        self.attributes: list[tuple[Any, str, Any, list[Node]]] = []
        self.note_attributes()
        del self.copies, self.originals, self.modules, self.objects, self.names

    # --- copies ------------------------------------------------------------------------------------------------------

    def copied(self, value: Any, depth: int) -> Any:
        """A value as it is now."""
        known = self.copies.get(id(value), self)
        if known is not self:
            return known
        found = value
        if isinstance(value, ArrayBase):
            if value._dynamic:
                found = wrap_like(value, type(value), list(value._nodes()))
        elif value.__class__ is FunctionType:
            return self.copied_function(value, depth)
        elif value.__class__ is MethodType:
            found = MethodType(self.copied(value.__func__, depth), value.__self__)
            self.objects.append(value.__self__)
        elif value.__class__ is functools.partial:
            found = functools.partial(self.copied(value.func, depth),
                                      *[self.copied(entry, depth) for entry in value.args],
                                      **{key: self.copied(entry, depth) for key, entry in value.keywords.items()})
        elif value.__class__ in _CONTAINERS:
            if len(value) <= _ENTRIES and depth < _DEPTH:
                found = {key: self.copied(entry, depth + 1) for key, entry in value.items()} \
                    if value.__class__ is dict else value.__class__([self.copied(entry, depth + 1) for entry in value])
        else:
            self.objects.append(value)
        self.originals.append(value)
        self.copies[id(value)] = found
        return found

    def copied_function(self, function: FunctionType, depth: int) -> Any:
        """A function, with the variables that it uses."""
        names = _names(function.__code__)
        self.names |= names
        variables = function.__globals__
        cells = tuple([CellType() for _ in function.__closure__ or ()])
        ours = id(variables) in self.modules
        made = variables
        if ours:  # what the functions do not use need not be kept alive
            made = {name: entry for name, entry in variables.items() if name[:2] == "__"}
        found = FunctionType(function.__code__, made, function.__name__, function.__defaults__, cells)
        found.__kwdefaults__ = function.__kwdefaults__
        self.originals.append(function)
        self.copies[id(function)] = found  # functions may refer to themselves
        for cell, before in zip(cells, function.__closure__ or (), strict=True):
            if before != _EMPTY_CELL:
                cell.cell_contents = self.copied(before.cell_contents, depth)
        if ours:
            made |= {name: self.copied(variables[name], depth) for name in names if name in variables}
        return found

    # --- attributes --------------------------------------------------------------------------------------------------

    def note_attributes(self) -> None:
        """Remember the attributes of objects that the functions, and methods that they call, may use."""
        seen: set[int] = set()
        todo = [(value, 0) for value in self.objects]
        while todo:
            value, depth = todo.pop()
            attributes = getattr(value, "__dict__", None)
            if attributes.__class__ is not dict or id(value) in seen or isinstance(value, type):
                continue
            seen.add(id(value))
            names = self.names.union(*[_names(method.__code__) for method in _methods(type(value), self.names)])
            for name in names & attributes.keys():
                entry = attributes[name]
                self.attributes.append((value, name, entry, _nodes(entry)))
                if depth < _DEPTH:
                    todo.append((entry, depth + 1))

    def require_unchanged(self) -> None:
        """Refuse to trace the functions again if objects that they use have changed."""
        for value, name, before, nodes in self.attributes:
            now = value.__dict__.get(name)
            if now is not before or [node.id for node in nodes] != [node.id for node in _nodes(now)]:
                raise RuntimeError(
                    f"{self.function}(): the attribute '{name}' of an object of type {type(value).__name__} has "
                    "changed since this construct was traced, and a derivative of it, which traces its functions "
                    "again, would see what it is now. Compute derivatives before, or pass the attribute as an argument "
                    "or state.")


def _plain(function: Any) -> FunctionType | None:
    """The function in Python behind a method or partial application."""
    while isinstance(function, (MethodType, functools.partial)):
        function = function.__func__ if isinstance(function, MethodType) else function.func
    return function if function.__class__ is FunctionType else None


@functools.lru_cache(maxsize=1024)
def _names(code: CodeType) -> frozenset[str]:
    """The names of variables of the module, and attributes, that a function and those within it use."""
    return frozenset(code.co_names).union(*[_names(constant) for constant in code.co_consts
                                            if constant.__class__ is CodeType])


def _methods(kind: type, names: set[str]) -> Iterator[FunctionType]:
    """The methods of a class that some names may call, with those that these call."""
    todo, seen = sorted(names), set(names)
    while todo:
        name = todo.pop()
        method = next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)
        if method.__class__ is FunctionType:
            yield method
            more = _names(method.__code__) - seen
            seen |= more
            todo += sorted(more)


def _nodes(value: Any) -> list[Node]:
    """The values of an array, less what evaluation and derivatives do to them."""
    if isinstance(value, ArrayBase) and value._dynamic:
        return [core.primal(node) for node in value._nodes()]
    return []
