"""Functions as they were when they were traced: what derivatives trace again.

Derivatives of a construct call the user's functions once more, later. Until then, a program goes on: variables that the
functions refer to get other values, arrays are changed in place. So the functions are copied, with their defaults, the
variables of enclosing functions and of their module that they use, and with arrays and containers of their own in them.
Other objects are not copied, since that would make other objects of them: if an attribute that the functions, or
methods of it, may use has changed, the derivative is refused.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import CellType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import drjit_core as core
from drjit_core import Node

from .._base.array import ArrayBase
from .._promotion.promote import wrap_like
from .containers import Containers

__all__ = ["Frozen"]

_CONTAINERS = (list, tuple, dict)
#: Containers of what cannot change.
_PLAIN = (set, bytearray, deque)
#: Entries of larger lists, tuples and dictionaries are not copied, nor arrays of NumPy of more bytes.
_ENTRIES = 256
_BYTES = 1 << 16
#: So deep, containers are copied, and attributes looked at.
_DEPTH = 4
#: Modules whose variables are none of the user's.
_OWN = ("drjit", "drjit_core")
#: The package of constructs, whose objects keep what they have found in one trace for the next.
_CONSTRUCTS = __name__.rpartition(".")[0]
#: Methods that are called without being named.
_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift",
              "rshift")
_IMPLICIT = frozenset([f"__{name}__" for name in (
    "call", "getitem", "contains", "iter", "next", "len", "bool", "int", "float", "index", "enter", "exit", "neg",
    "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge", *_OPERATORS, *[f"r{name}" for name in _OPERATORS])])
_EMPTY_CELL = CellType()
_MISSING: Any = object()


class Frozen:
    """Copies of functions; arrays in ``kept`` remain what they are (those that the functions write to)."""

    def __init__(self, function: str, functions: Sequence[Callable[..., Any]], kept: Sequence[Any]) -> None:
        self.function = function
        self.kept = {id(array): array for array in kept}
        self.copies: dict[int, Any] = dict(self.kept)
        #: The originals, by whose ids copies are known, live until all is copied.
        self.originals: list[Any] = []
        #: The modules whose variables are copied, by the ids of their dictionaries.
        self.modules: set[int] = set()
        self.add_modules(functions)
        #: Variables that several functions share, by the ids of the original ones. Those that are part of the state of
        #: a construct remain what they are: the construct sets them in each trace.
        self.cells: dict[int, CellType] = {}
        self.add_state(functions, set())
        #: The names of variables and attributes that the functions, and the methods that they call, use.
        self.names: set[str] = set(_IMPLICIT)
        self.objects: list[Any] = []
        self.functions = [self.copied(entry, 0) for entry in functions]
        #: Attributes that the functions may use: the object, its attribute, the value, and what it consists of.
        self.attributes: list[tuple[Any, str, Any, list[Any]]] = []
        #: What the construct changes itself is what it was while functions are called.
        self.containers = [value for value in self.objects if isinstance(value, Containers)]
        self.note_attributes()
        del self.copies, self.originals, self.modules, self.objects, self.names, self.cells

    def add_modules(self, functions: Iterable[Any]) -> None:
        """Note in which modules functions stand that are the user's."""
        for function in map(_plain, functions):
            if function is not None and not _is_own(function.__globals__.get("__name__", "")):
                self.modules.add(id(function.__globals__))

    def add_state(self, functions: Iterable[Any], seen: set[int]) -> None:
        """Note which variables of enclosing functions the constructs that call functions have as state."""
        for function in functions:
            if function.__class__ is not FunctionType or id(function) in seen:
                continue
            seen.add(id(function))
            self.cells |= {id(cell): cell for cell in function.__dict__.get("state_cells", ())}
            if _is_own(function.__globals__.get("__name__", "")):
                self.add_state([cell.cell_contents for cell in function.__closure__ or () if cell != _EMPTY_CELL], seen)

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
            else:
                found = type(value)(value)
        elif value.__class__ is FunctionType:
            return self.copied_function(value, depth)
        elif value.__class__ is MethodType:
            found = MethodType(self.copied(value.__func__, depth), value.__self__)
            self.objects.append(value.__self__)
        elif value.__class__ is functools.partial:
            found = functools.partial(self.copied(value.func, depth),
                                      *[self.copied(entry, depth) for entry in value.args],
                                      **{key: self.copied(entry, depth) for key, entry in value.keywords.items()})
        elif isinstance(value, _CONTAINERS):
            found = self.copied_container(value, depth)
        elif isinstance(value, _PLAIN) or _is_small_ndarray(value):
            found = copy.copy(value)
        elif value.__class__ is not ModuleType or not _is_own(value.__name__):
            self.objects.append(value)
        self.originals.append(value)
        self.copies[id(value)] = found
        return found

    def copied_container(self, value: Any, depth: int) -> Any:
        """A list, tuple or dictionary, or an instance of a class derived from one, with copies of its entries."""
        if len(value) > _ENTRIES or depth >= _DEPTH:
            return value if isinstance(value, tuple) else copy.copy(value)
        if isinstance(value, tuple):
            return tuple.__new__(type(value), [self.copied(entry, depth + 1) for entry in value])
        found = copy.copy(value)
        for key, entry in list(value.items() if isinstance(value, dict) else enumerate(value)):
            found[key] = self.copied(entry, depth + 1)
        return found

    def copied_function(self, function: FunctionType, depth: int) -> Any:
        """A function, with the variables that it uses."""
        names = set(_names(function.__code__))
        self.names |= names
        variables = function.__globals__
        if _is_own(variables.get("__name__", "")):  # what @dr.syntax puts around functions of the user's
            self.add_modules(cell.cell_contents for cell in function.__closure__ or () if cell != _EMPTY_CELL)
        cells = tuple([self.cells.get(id(cell)) or CellType() for cell in function.__closure__ or ()])
        new = [(cell, before) for cell, before in zip(cells, function.__closure__ or (), strict=True)
               if id(before) not in self.cells]
        self.cells |= {id(before): cell for cell, before in new}
        ours = id(variables) in self.modules
        made = variables
        if ours:  # what the functions do not use need not be kept alive
            made = {name: entry for name, entry in variables.items() if name[:2] == "__"}
        found = FunctionType(function.__code__, made, function.__name__, None, cells)
        self.originals.append(function)
        self.copies[id(function)] = found  # functions may refer to themselves
        found.__dict__.update(function.__dict__)
        if function.__defaults__ is not None:
            found.__defaults__ = tuple([self.copied(entry, depth) for entry in function.__defaults__])
        if function.__kwdefaults__ is not None:
            found.__kwdefaults__ = {name: self.copied(entry, depth) for name, entry in function.__kwdefaults__.items()}
        for cell, before in new:
            if before != _EMPTY_CELL:
                cell.cell_contents = self.copied(before.cell_contents, depth)
        if ours:
            made |= {name: self.copied(variables[name], depth) for name in names if name in variables}
        return found

    # --- attributes --------------------------------------------------------------------------------------------------

    def note_attributes(self) -> None:
        """Remember the attributes of objects that the functions, and methods that they call, may use."""
        count = 0
        while count != len(self.names):  # methods that were found may use more
            count = len(self.names)
            self.attributes.clear()
            seen: set[int] = set()
            classes: dict[type, list[str]] = {}
            todo = [(value, 0) for value in self.objects]
            while todo:
                value, depth = todo.pop()
                cls = value if isinstance(value, type) else type(value)
                attributes = getattr(value, "__dict__", None)
                if id(value) in seen or attributes is None and cls.__module__ == "builtins" or \
                        issubclass(cls, ArrayBase) or cls.__module__.startswith(_CONSTRUCTS):
                    continue
                seen.add(id(value))
                if cls not in classes:
                    classes[cls] = _class_attributes(cls, self.names)
                own = self.names & attributes.keys() if attributes is not None and value is not cls else ()
                for name in (*classes[cls], *own):
                    entry = _stored(value, name)
                    parts = self.parts(entry)
                    if entry is _MISSING or any(map(_is_leftover, parts)):
                        continue
                    self.attributes.append((value, name, entry, parts))
                    if depth < _DEPTH:
                        todo += [(part, depth + 1) for part in (entry, *parts)]

    def parts(self, value: Any, depth: int = 0) -> list[Any]:
        """What a value consists of: entries of containers; nodes of an array, less what evaluation and derivatives do
        to it, unless it is one that the functions write to."""
        if isinstance(value, ArrayBase):
            looked_at = value._dynamic and id(value) not in self.kept
            return [core.primal(node) for node in value._nodes()] if looked_at else []
        if isinstance(value, _CONTAINERS) and len(value) <= _ENTRIES and depth < _DEPTH:
            entries = [*value, *value.values()] if isinstance(value, dict) else list(value)
            return [part for entry in entries for part in (entry, *self.parts(entry, depth + 1))]
        return []

    def require_unchanged(self) -> None:
        """Refuse to trace the functions again if objects that they use have changed."""
        with ExitStack() as stack:
            for containers in self.containers:
                stack.enter_context(containers.restored())
            self.compare()

    def compare(self) -> None:
        for value, name, before, parts in self.attributes:
            now = _stored(value, name)
            if now is not before or [*map(id, self.parts(now))] != [*map(id, parts)]:
                owner = f"class {value.__name__}" if isinstance(value, type) else \
                    f"an object of type {type(value).__name__}"
                raise RuntimeError(
                    f"{self.function}(): the attribute '{name}' of {owner} has changed since this construct was "
                    "traced, and a derivative of it, which traces its functions again, would see what it is now. "
                    "Compute derivatives before, or pass the attribute as an argument or state.")


def _is_own(module: str) -> bool:
    return module.partition(".")[0] in _OWN


def _plain(function: Any) -> FunctionType | None:
    """The function in Python behind a method, a partial application, or an object that can be called."""
    while isinstance(function, (MethodType, functools.partial)):
        function = function.__func__ if isinstance(function, MethodType) else function.func
    if function.__class__ is not FunctionType:
        function = vars(type(function)).get("__call__")
    return function if function.__class__ is FunctionType else None


def _is_small_ndarray(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.nbytes <= _BYTES


def _names(code: CodeType) -> Iterator[str]:
    """The names of variables of the module, and attributes, that a function and those within it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if constant.__class__ is CodeType:
            yield from _names(constant)
        elif constant.__class__ is str and constant.isidentifier():  # of getattr()
            yield constant


def _class_attributes(cls: type, names: set[str]) -> list[str]:
    """Those of some names that are attributes of a class, or slots of its instances, and no methods.

    Names that methods use, as far as they may be called by names, are added to the names.
    """
    entries: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):  # without object
        entries.update(base.__dict__)
    todo, found, seen = names & entries.keys(), [], set[str]()
    while todo:
        name = todo.pop()
        seen.add(name)
        function = _function_of(entries[name])
        if function is None:
            found.append(name)
        elif function.__class__ is FunctionType:
            names.update(_names(function.__code__))
            todo = (names & entries.keys()) - seen
    return found


def _function_of(entry: Any) -> Any:
    """The function behind what a class says under a name; ``None`` if that is a value, or a slot of instances."""
    if isinstance(entry, property):
        return entry.fget
    if isinstance(entry, functools.cached_property):
        return entry.func
    if isinstance(entry, (staticmethod, classmethod)):
        return entry.__func__
    return entry if hasattr(type(entry), "__get__") and entry.__class__ is not MemberDescriptorType else None


def _stored(owner: Any, name: str) -> Any:
    """An attribute as it is stored, in an object or its class, without calling anything."""
    attributes = getattr(owner, "__dict__", {})
    if name in attributes and not isinstance(owner, type):
        return attributes[name]
    for base in owner.__mro__ if isinstance(owner, type) else type(owner).__mro__:
        if name in base.__dict__:
            entry = base.__dict__[name]
            if entry.__class__ is MemberDescriptorType and not isinstance(owner, type):  # of __slots__
                return getattr(owner, name, _MISSING)
            return entry
    return _MISSING


def _is_leftover(part: Any) -> bool:
    """Whether something is a value of a region that was traced: the functions have put it there themselves."""
    return isinstance(part, Node) and part.scope != 0 and part.scope not in core.state.open
