"""What the user's functions find, and may change, beside arrays: entries of lists and dictionaries, attributes of
objects, variables of enclosing functions and of modules.

A function is called once, and what it does to numbers, texts and the like is done then, as in any call. Arrays are
another matter: what it puts in a place stands for a value of each element. So the containers that functions were given,
or that they know, are remembered before a call, and compared after it (:class:`Snapshot`).

NumPy arrays, sets and byte arrays are neither: they hold data, as arrays do, but know nothing of elements. A body that
is traced is called once for all iterations, and would change them once, where Python does it in each; that is refused.
Lists, dictionaries and queues of Python objects are what programs note things down in, once for each call.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from types import CellType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from drjit_core import innermost

from .._base.array import ArrayBase
from .._trees.pytree import is_pytree

__all__ = ["CELL", "MISSING", "OBJECT", "Change", "Snapshot", "attributes_of", "has_array", "keep_new", "place_key",
           "read_place", "words_of", "write_place"]

#: What is in a place where nothing is.
MISSING: Any = type("_Missing", (), {"__repr__": lambda self: "nothing"})()
#: So many containers are looked at, and so many entries of each.
_MOST_CONTAINERS, _MOST_ENTRIES = 4096, 1024

#: What a class is: of no interest; a container whose entries are looked at; something that refers to others.
_SKIPPED, _LIST, _TUPLE, _DICT, OBJECT, CELL, _FUNCTION, _METHOD, _PARTIAL, _CLASS, _DATA, _MODULE = range(12)
#: So many bytes of a NumPy array or a byte array are remembered, and sets of so many entries.
_MOST_BYTES = 1 << 16
_kinds: dict[type, int] = {
    list: _LIST, tuple: _TUPLE, dict: _DICT, CellType: CELL, FunctionType: _FUNCTION, MethodType: _METHOD,
    functools.partial: _PARTIAL, int: _SKIPPED, float: _SKIPPED, bool: _SKIPPED, str: _SKIPPED, type(None): _SKIPPED,
    ModuleType: _MODULE, bytes: _SKIPPED, complex: _SKIPPED, type: _CLASS}
#: Those whose entries have names.
_NAMED = _DICT, OBJECT, _CLASS, _MODULE
_kinds[type(MISSING)] = _SKIPPED
#: The modules whose classes, and their objects, are none of the user's.
_OURS = "drjit", "drjit_core"
#: The flag of classes that are made when a program runs: those of programs without a module say ``builtins``, too.
_MADE = 1 << 9
#: The slots of classes of objects.
_slots: dict[type, tuple[str, ...]] = {}
#: Names of variables of its module that a function, and those within it, use.
_names: dict[CodeType, tuple[str, ...]] = {}


def _kind_of(cls: type) -> int:
    """What a class is."""
    found = _SKIPPED
    if issubclass(cls, list):
        found = _LIST
    elif issubclass(cls, tuple):
        found = _TUPLE
    elif issubclass(cls, dict):
        found = _DICT
    elif issubclass(cls, type):
        found = _CLASS
    elif issubclass(cls, (np.ndarray, set, bytearray)):
        found = _DATA
    elif not issubclass(cls, (ArrayBase, ModuleType)) and (not _is_ours(cls) or is_pytree(cls)):
        found = OBJECT
    _kinds[cls] = found
    return found


def _is_small(value: Any) -> bool:
    """Whether data that functions may change is remembered."""
    if isinstance(value, np.ndarray):
        return value.nbytes <= _MOST_BYTES and value.flags.writeable and not value.dtype.hasobject
    return len(value) <= (_MOST_ENTRIES if isinstance(value, set) else _MOST_BYTES)


def _is_ours(cls: type) -> bool:
    """Whether a class is none of the user's."""
    return str(cls.__module__).partition(".")[0] in _OURS or cls.__module__ == "builtins" and not cls.__flags__ & _MADE


_NOTHING: list[Any] = []


class Change(NamedTuple):
    """A place that has another content than before."""

    container: Any
    kind: int
    key: Any
    before: Any
    now: Any


class Snapshot:
    """What containers hold: those of some trees, and those that functions know.

    Nothing is copied but references: what a container held is compared by identity.
    """

    __slots__ = ("codes", "data", "entries", "seen")

    def __init__(self) -> None:
        #: NumPy arrays, sets and byte arrays, with copies.
        self.data: list[tuple[Any, Any]] = _NOTHING
        #: The containers, with their kinds and what they hold.
        self.entries: list[tuple[Any, int, Any]] = []
        self.seen: set[int] = set()
        #: The codes of the functions among them.
        self.codes: list[CodeType] = []

    def add_functions(self, functions: Iterable[Callable[..., Any]]) -> None:
        """Look at what functions know."""
        for function in functions:
            if function.__class__ is not FunctionType or function.__closure__ is not None or \
                    function.__defaults__ is not None or names_of(function.__code__):
                self.add(function)

    def add(self, value: Any) -> None:
        """Look at a value, and at all that it refers to."""
        todo = [value]
        seen = self.seen
        while todo:
            value = todo.pop()
            cls = value.__class__
            kind = _kinds.get(cls, -1)
            if kind < 0:
                kind = _kind_of(cls)
            if kind == _SKIPPED or id(value) in seen or kind == _MODULE and value in _libraries:
                continue
            if len(seen) >= _MOST_CONTAINERS:
                return
            seen.add(id(value))
            if kind == _TUPLE:
                self.entries.append((value, kind, value))
                todo.extend(_referring(value))
            elif kind == _LIST:
                held: Any = list.__getitem__(value, slice(None))
                self.entries.append((value, kind, held))
                todo.extend(_referring(held))
            elif kind == _DICT:
                held = dict(value.items())
                self.entries.append((value, kind, held))
                todo.extend(_referring(held.values()))
            elif kind == OBJECT:
                held = attributes_of(value)
                self.entries.append((value, kind, held))
                todo.extend(_referring(held.values()))
            elif kind == _CLASS:
                held = {} if _is_ours(value) else _class_attributes(value)
                if held:
                    self.entries.append((value, kind, held))
                    todo.extend(_referring(held.values()))
            elif kind == CELL:
                held = _contents(value)
                self.entries.append((value, kind, held))
                if held is not MISSING:
                    todo.append(held)
            elif kind == _FUNCTION:
                self.add_function(value, todo)
            elif kind == _METHOD:
                todo.extend((value.__self__, value.__func__))
            elif kind == _MODULE:
                held = _variables(value)
                if held:
                    self.entries.append((value, kind, held))
                    todo.extend(_referring(held.values()))
            elif kind == _DATA:
                if innermost() is not None and _is_small(value):
                    self.data = [*self.data, (value, value.copy())]
            else:
                todo.extend((value.func, *value.args, *value.keywords.values()))

    def add_function(self, function: FunctionType, todo: list[Any]) -> None:
        """Look at the variables that a function uses."""
        self.codes.append(function.__code__)
        variables = function.__globals__
        names = names_of(function.__code__)
        if function.__closure__ is not None:
            todo.extend(function.__closure__)
        if function.__defaults__ is not None:
            todo.append(function.__defaults__)
        if function.__kwdefaults__ is not None:
            todo.extend(function.__kwdefaults__.values())
        if not names or variables.get("__name__", "").partition(".")[0] in ("drjit", "drjit_core"):
            return
        held = {name: variables.get(name, MISSING) for name in names}  # no others are the function's
        if held:
            self.entries.append((variables, _DICT, held))
            todo.extend(_referring(held.values()))

    def arrays(self) -> dict[int, tuple[Any, int]]:
        """The arrays that containers hold, and in how many places, by their identity."""
        found: dict[int, tuple[Any, int]] = {}
        for _, kind, held in self.entries:
            values: Iterable[Any] = held.values() if kind in _NAMED else (held,) if kind == CELL else held
            for value in values:
                if isinstance(value, ArrayBase) and value._dynamic:
                    while value._o is not None:
                        value = value._o[0]
                    found[id(value)] = value, found.get(id(value), (value, 0))[1] + 1
        return found

    def restored(self) -> list[Any]:
        """NumPy arrays, sets and byte arrays that hold something else now; they get back what they held."""
        found = []
        for value, before in self.data:
            if isinstance(value, np.ndarray):
                if value.shape == before.shape and value.tobytes() != before.tobytes():
                    value[...] = before
                    found.append(value)
            elif value != before:
                value.clear()
                (value.update if isinstance(value, set) else value.extend)(before)
                found.append(value)
        return found

    def times(self, value: Any) -> int:
        """In how many places an object was."""
        return len(self.places(value))

    def places(self, value: Any) -> list[tuple[Any, int, Any]]:
        """The places in which an object was, but for those in tuples, which remain as they are."""
        found = []
        for container, kind, held in self.entries:
            if kind == _TUPLE:
                continue
            entries = (("", held),) if kind == CELL else held.items() if kind in _NAMED else enumerate(held)
            found += [(container, kind, key) for key, each in entries if each is value]
        return found

    def changes(self) -> list[Change]:
        """The places that hold something else now."""
        found: list[Change] = []
        for container, kind, held in self.entries:
            if kind == _LIST:
                now: Any = list.__getitem__(container, slice(None))
                if len(now) != len(held) or not _same(now, held):
                    _compare(container, kind, dict(enumerate(held)), dict(enumerate(now)), found)
            elif kind == _DICT:
                variables = "__builtins__" in container  # of a module, of which some are of interest
                if len(container) != len(held) and not variables or not _same_entries(container, held):
                    _compare(container, kind, held, {key: container.get(key, MISSING) for key in held}
                             if variables else dict(container.items()), found)
            elif kind == OBJECT:
                now = attributes_of(container)
                if len(now) != len(held) or not _same_entries(now, held):
                    _compare(container, kind, held, now, found)
            elif kind == _CLASS:
                now = _class_attributes(container)
                if len(now) != len(held) or not _same_entries(now, held):
                    _compare(container, kind, held, now, found)
            elif kind == _MODULE:
                if not _same_entries(vars(container), held):
                    _compare(container, kind, held, {name: vars(container).get(name, MISSING) for name in held}, found)
            elif kind == CELL:
                now = _contents(container)
                if now is not held:
                    found.append(Change(container, kind, "", held, now))
        return found


def _compare(container: Any, kind: int, before: dict[Any, Any], now: dict[Any, Any], found: list[Change]) -> None:
    for key, value in before.items():
        other = now.get(key, MISSING)
        if other is not value:
            found.append(Change(container, kind, key, value, other))
    for key, value in now.items():
        if key not in before:
            found.append(Change(container, kind, key, MISSING, value))


def _referring(values: Any) -> list[Any]:
    """Those of some values that may refer to others, unless they are many."""
    if len(values) > _MOST_ENTRIES:
        return []
    return [value for value in values if _kinds.get(value.__class__, -1) != _SKIPPED]


def _same(now: list[Any], before: list[Any]) -> bool:
    return all(map(operator.is_, now, before))


def _same_entries(now: dict[Any, Any], before: dict[Any, Any]) -> bool:
    return all(now.get(key, MISSING) is value for key, value in before.items())


def attributes_of(owner: Any) -> dict[str, Any]:
    """The attributes that are stored in an object, without calling anything."""
    cls = owner.__class__
    if cls not in _slots:
        _slots[cls] = tuple([name for base in cls.__mro__ for name, entry in vars(base).items()
                             if entry.__class__ is MemberDescriptorType])
    own = getattr(owner, "__dict__", None)
    found = dict(own) if own.__class__ is dict else {}
    for name in _slots[cls]:
        value = getattr(owner, name, MISSING)
        if value is not MISSING:
            found[name] = value
    return found


def _class_attributes(cls: type) -> dict[str, Any]:
    """The attributes of a class that are arrays, or may hold some."""
    return {name: value for name, value in vars(cls).items() if isinstance(value, ArrayBase) or not (
        name[:2] == "__" or callable(value) or _kinds.get(value.__class__) == _SKIPPED)}


def _variables(module: ModuleType) -> dict[str, Any]:
    """The variables of a module that are arrays, or may hold some; none of those of libraries."""
    top = module.__name__.partition(".")[0]
    if top in _OURS or top in sys.stdlib_module_names or "site-packages" in (getattr(module, "__file__", None) or ""):
        _libraries.add(module)
        return {}
    if len(vars(module)) > _MOST_ENTRIES:
        return {}
    return {name: value for name, value in vars(module).items() if isinstance(value, ArrayBase) or not (
        name[:2] == "__" or callable(value) or _kinds.get(value.__class__) in (_SKIPPED, _MODULE))}


#: Modules whose variables nobody changes.
_libraries: set[ModuleType] = set()


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def names_of(code: CodeType) -> tuple[str, ...]:
    """The names, of attributes or variables of its module, that a function uses, and those within it."""
    found = _names.get(code)
    if found is None:
        names = dict.fromkeys(code.co_names)
        for constant in code.co_consts:
            if constant.__class__ is CodeType:
                names.update(dict.fromkeys(names_of(constant)))
        if len(_names) > _MOST_CONTAINERS:
            _names.clear()
        found = _names[code] = tuple(names)
    return found


def place_key(container: Any, kind: int, key: Any) -> tuple[int, Any]:
    """What tells a place from others; a cell is known by several names."""
    return id(container), "" if kind == CELL else key


def read_place(container: Any, kind: int, key: Any) -> Any:
    """What is in a place."""
    if kind == CELL:
        return _contents(container)
    return getattr(container, key, MISSING) if kind in (OBJECT, _CLASS, _MODULE) else container[key]


def write_place(container: Any, kind: int, key: Any, value: Any) -> None:
    """Put something in a place, or nothing."""
    if kind == _LIST:
        if value is MISSING:
            if key < len(container):
                list.__delitem__(container, key)
        elif key < len(container):
            list.__setitem__(container, key, value)
        else:
            list.append(container, value)
    elif kind == _DICT:
        if value is MISSING:
            container.pop(key, None)
        else:
            container[key] = value
    elif kind == CELL:
        if value is MISSING:
            del container.cell_contents
        else:
            container.cell_contents = value
    elif kind == _CLASS:
        if value is not MISSING:
            type.__setattr__(container, key, value)
        elif key in vars(container):
            type.__delattr__(container, key)
    elif value is MISSING:
        if hasattr(container, key):
            object.__delattr__(container, key)
    else:
        object.__setattr__(container, key, value)  # the class may be frozen


def keep_new(change: Change) -> None:
    """Let a place that was not there before hold what a function has put in it, of which nobody knows what it is for
    other elements; but for what a class computes when it is asked for, and keeps."""
    if change.kind != OBJECT or not hasattr(type(change.container), change.key):
        write_place(change.container, change.kind, change.key, change.now)


def words_of(container: Any, kind: int, key: Any) -> str:
    """A place, in words."""
    if kind == CELL or kind == _DICT and "__builtins__" in container:
        return f"the variable '{key}'" if key else "a variable of an enclosing function"
    if kind == OBJECT:
        return f"the attribute '{key}' of an object of type {type(container).__name__}"
    if kind in (_CLASS, _MODULE):
        what = "class" if kind == _CLASS else "module"
        return f"the attribute '{key}' of the {what} {container.__name__}"
    return f"the entry {key!r} of a {type(container).__name__}"


def has_array(value: Any, depth: int = 0) -> bool:
    """Whether something is a traced array, or a container with some."""
    if isinstance(value, ArrayBase):
        return bool(value._dynamic)
    kind = _kinds.get(value.__class__, -1)
    if kind < 0:
        kind = _kind_of(value.__class__)
    if depth > 8:
        return False
    entries: Sequence[Any] = ()
    if kind in (_LIST, _TUPLE):
        entries = list(value)
    elif kind == _DICT:
        entries = list(value.values())
    elif kind == OBJECT:
        entries = list(attributes_of(value).values())
    return len(entries) <= _MOST_ENTRIES and any(has_array(entry, depth + 1) for entry in entries)
