"""What functions of symbolic constructs assign outside of themselves: variables of enclosing functions and of modules,
attributes of objects, and entries of containers.

A function that is traced again must find all of it as the first trace did, or what it assigns would be assigned twice.
"""

from __future__ import annotations

import dis
import functools
import sys
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from types import CellType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from drjit_core import SymbolicValue, closure_of, code_of, globals_of

from .._base.array import ArrayBase

__all__ = ["EMPTY_CELL", "ENTRIES_SEARCHED", "Variables", "assigned_by", "copy_of", "method_of", "refill"]

#: Lists, tuples and dictionaries of more entries are not looked through; and of more, not put back, nor what is in
#: buffers of sixteen times as many bytes.
ENTRIES_SEARCHED = 256
_ENTRIES_COPIED = 1 << 16
EMPTY_CELL = CellType()
#: So many functions, of those that traced functions call, are looked at.
_FUNCTIONS_SEARCHED = 64
#: Functions in containers of more entries are not found; and of so many objects, whatever is assigned.
_ENTRIES_CALLED, _OBJECTS_SEARCHED = 64, 4096
#: So deep, attributes of attributes and entries of containers are looked at.
_DEPTH = 4
#: Modules whose variables are none of the user's; and those whose functions assign nothing that is.
_OWN = frozenset(["drjit", "drjit_core"])
_LIBRARIES = _OWN | sys.stdlib_module_names - {"__main__"}
_MUTABLE = (list, dict, set, deque)
#: Methods that change containers, and functions that change what they are given.
_CHANGES = frozenset([
    "append", "appendleft", "extend", "extendleft", "insert", "pop", "popleft", "popitem", "remove", "discard", "add",
    "clear", "update", "setdefault", "sort", "reverse", "rotate", "move_to_end", "subtract", "difference_update",
    "intersection_update", "symmetric_difference_update", "fill", "put", "partition", "itemset", "byteswap",
    "heappush", "heappop", "heapify", "heapreplace", "heappushpop", "insort", "insort_left", "insort_right",
    "shuffle", "setitem", "delitem", "copyto", "place", "putmask", "put_along_axis", "fill_diagonal",
    "__setitem__", "__delitem__", *[f"__i{name}__" for name in ("add", "mul", "or", "and", "sub", "xor")]])
#: Functions that find attributes by names in texts.
_BY_NAME = frozenset(["getattr", "methodcaller", "attrgetter"])
#: Methods that are called where a class is.
_CONSTRUCTORS = ("__new__", "__init__", "__post_init__")
#: Methods that are called without being named.
_IMPLICIT = ("__call__", "__getitem__", "__setitem__", "__delitem__", "__setattr__", "__delattr__", "__iter__",
             "__next__", "__enter__", "__exit__", *[f"__i{name}__" for name in (
                 "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift",
                 "rshift")])
_MISSING: Any = object()
#: Classes of what has no parts.
_ATOMS = frozenset([int, float, bool, str, type(None), object])


class _Stores:
    """What a function assigns, together with those within it."""

    __slots__ = ("any", "attributes", "cells", "globals", "items", "names")

    def __init__(self, cells: frozenset[str], globals_: frozenset[str], attributes: frozenset[str], items: bool,
                 names: tuple[str, ...]) -> None:
        #: Names of variables of enclosing functions.
        self.cells = cells
        #: Names of variables of the module.
        self.globals = globals_
        #: Names of attributes.
        self.attributes = attributes
        #: Whether it changes entries of containers.
        self.items = items
        #: All names of variables of the module, and of attributes, that it uses.
        self.names = names
        #: Whether it assigns any of these.
        self.any = bool(cells or globals_ or attributes or items)


class Variables:
    """What functions, and those that they call, may assign outside of themselves, and what that is now."""

    __slots__ = ("attributes", "cells", "containers", "globals")

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self.cells: list[tuple[str, CellType, Any]] = []
        self.globals: list[tuple[str, dict[str, Any], Any]] = []
        #: Attributes: what they are called, the object, the name, and the value.
        self.attributes: list[tuple[str, Any, str, Any]] = []
        #: Containers: what they are called, and a copy.
        self.containers: list[tuple[str, Any, Any]] = []
        seen, methods = set[Any](), set[int]()
        reached = [(function, given, _stores(function.__code__)) for function, given in _reached(functions)
                   if not _is_of_library(function)]
        together = _joined([stores for _, _, stores in reached])  # one function may assign what another one knows
        for function, given, stores in reached:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                if name in stores.cells and id(cell) not in seen:
                    seen.add(id(cell))
                    self.cells.append((name, cell, _MISSING if cell == EMPTY_CELL else cell.cell_contents))
            variables = function.__globals__
            for name in stores.globals:
                self.globals.append((name, variables, variables.get(name, _MISSING)))
            if together.attributes or together.items:
                known = dict(zip(function.__code__.co_varnames, given, strict=False)) if id(function) in methods else \
                    _known(function, given, stores.names)
                methods.add(id(function))
                for name, value in known.items():
                    if value.__class__ not in _ATOMS and id(value) not in seen:
                        self.add(name, value, together, 0, seen)

    def add(self, name: str, value: Any, stores: _Stores, depth: int, seen: set[Any]) -> None:
        """Note what functions may assign of an object that is known by a name, and of what that refers to."""
        if value.__class__ is ModuleType and _is_own_name(value.__name__) or isinstance(value, ArrayBase):
            return
        if isinstance(value, type):
            if not _is_plain(value) and id(value) not in seen:
                seen.add(id(value))
                self.attributes += [(f"{name}.{key}", value, key, _attribute(value, key)) for key in stores.attributes]
                if depth < _DEPTH:
                    for key in stores.names:
                        entry = _entry_of(value, key)
                        if entry is not None and entry.__class__ is not FunctionType:
                            self.add(f"{name}.{key}", entry, stores, depth + 1, seen)
            return
        if isinstance(value, (*_MUTABLE, tuple)) or _is_buffer(value):
            if id(value) in seen or len(seen) > _OBJECTS_SEARCHED:
                return
            seen.add(id(value))
            count = value.nbytes // 16 if hasattr(value, "nbytes") else _length(value)
            if stores.items and not isinstance(value, tuple) and count <= _ENTRIES_COPIED:
                self.containers.append((name, value, copy_of(value)))
            if depth < _DEPTH and isinstance(value, (list, dict, tuple, deque)) and count <= ENTRIES_SEARCHED:
                pairs = _dict_of(value).items(value) if isinstance(value, dict) else enumerate(_entries(value))
                for key, entry in list(pairs):
                    if entry.__class__ not in _ATOMS:
                        self.add(f"{name}[{key!r}]", entry, stores, depth + 1, seen)
            return
        cls = type(value)
        if cls.__module__ == "builtins" and getattr(value, "__dict__", None).__class__ is not dict or \
                _is_own_name(cls.__module__) or id(value) in seen or len(seen) > _OBJECTS_SEARCHED:
            return
        seen.add(id(value))
        own = getattr(value, "__dict__", None) or {}
        slots, _, cached = _members(cls, stores.names)
        for key in (*stores.attributes, *cached):
            if key in own:
                self.attributes.append((f"{name}.{key}", value, key, own[key]))
            elif not isinstance(_entry_of(cls, key), property):
                self.attributes.append((f"{name}.{key}", value, key, _attribute(value, key)))
        if id(cls) not in seen:
            self.add(f"type({name})", cls, stores, depth, seen)
        if depth < _DEPTH:
            for key in stores.names:
                if key in own and own[key].__class__ not in _ATOMS:
                    self.add(f"{name}.{key}", own[key], stores, depth + 1, seen)
            for key in slots:
                entry = _attribute(value, key)
                if entry.__class__ not in _ATOMS:
                    self.add(f"{name}.{key}", entry, stores, depth + 1, seen)

    def require_same(self, words: Any) -> None:
        """Refuse assignments of arrays that have nothing to do with the construct; others cannot be used afterwards."""
        for name, cell, before in self.cells:
            if cell != EMPTY_CELL and _is_other(cell.cell_contents, before):
                cell.cell_contents = before
                raise self.refusal(words, name)
        for name, variables, before in self.globals:
            if _is_other(variables.get(name), before):
                variables[name] = before
                raise self.refusal(words, name)
        for name, owner, key, before in self.attributes:
            if _is_other(_attribute(owner, key), before):
                _set_attribute(owner, key, before)
                raise self.refusal(words, name)
        for name, container, before in self.containers:
            if isinstance(container, (list, dict)) and _length(container) == len(before):
                for key, entry in list(before.items() if isinstance(before, dict) else enumerate(before)):
                    if _is_other(dict.get(container, key) if isinstance(container, dict) else
                                 list.__getitem__(container, key), entry):
                        refill(container, before)
                        raise self.refusal(words, f"{name}[{key!r}]")

    def put_back(self, arrays: bool) -> None:
        """Give all of it what it was: functions will be called again, or were left by an exception.

        After an exception only what are ``arrays``, or containers of some: numbers, texts and flags of a program's own
        remain as a Python function leaves them.
        """
        for _, cell, before in self.cells:
            now = _MISSING if cell == EMPTY_CELL else cell.cell_contents
            if now is not before and (not arrays or _has_arrays(now) or _has_arrays(before)):
                if before is _MISSING:
                    del cell.cell_contents
                else:
                    cell.cell_contents = before
        for name, variables, before in self.globals:
            now = variables.get(name, _MISSING)
            if now is not before and (not arrays or _has_arrays(now) or _has_arrays(before)):
                if before is _MISSING:
                    del variables[name]
                else:
                    variables[name] = before
        for _, owner, name, before in self.attributes:
            now = _attribute(owner, name)
            if now is not before and (not arrays or _has_arrays(now) or _has_arrays(before)):
                _set_attribute(owner, name, before)
        for _, container, before in self.containers:
            if not _same_entries(container, before) and (
                    not arrays or _has_arrays(container) or _has_arrays(before)):
                refill(container, before)

    @staticmethod
    def refusal(words: Any, name: str) -> SymbolicValue:
        """What is wrong with the user's function."""
        return SymbolicValue(
            f"{words.function}(): {words.traced} assigns an array to the variable '{name}', which was made outside: "
            f"that happens once, and not for each iteration. {words.remedy[0].upper()}{words.remedy[1:]}, or "
            f"{words.otherwise}.")


def assigned_by(functions: Sequence[Callable[..., Any]]) -> Variables | None:
    """What functions may assign outside of themselves; ``None`` if they assign nothing."""
    for function in functions:
        if type(function) is not FunctionType or not _assigns_nothing(function, 0, None):
            return Variables(functions) if _may_assign(functions) else None
    return None


def _may_assign(functions: Sequence[Callable[..., Any]]) -> bool:
    """Whether any of some functions, with those that they call, assigns anything."""
    known: dict[tuple[int, type], set[str]] = {}
    for function in functions:
        if function.__class__ is FunctionType and _assigns_nothing(function, 0, None):
            continue
        plain, given = _plain(function)
        key = id(plain), type(given[0]) if given else type(None)
        # a thousand instances have the same methods, but each may have functions of its own
        if given and key in known and _has_harmless(given[0], known[key]):
            continue
        names: set[str] = set()
        for each, _ in _reached((function,)):
            stores = _stores(each.__code__)
            if stores.any and not _is_of_library(each):
                return True
            names.update(stores.names)
        known[key] = names
    return False


def _has_harmless(owner: Any, names: Collection[str]) -> bool:
    """Whether attributes with some names cannot be called, nor have methods."""
    stores = _Stores(frozenset(), frozenset(), frozenset(), False, ())
    return not [name for name in names if not _is_harmless(_attribute(owner, name), stores, 0, set())]


# --- functions --------------------------------------------------------------------------------------------------------


def _assigns_nothing(function: Any, depth: int, seen: set[int] | None) -> bool:
    """Whether it is seen at once that a function, with those that it calls, assigns nothing: most do not."""
    stores, cells = _stores(code_of(function)), closure_of(function)
    if stores.any:
        return False
    if not depth and cells is None and not stores.names:
        return True
    if seen is None:
        seen = set()
    if id(function) in seen:
        return True
    seen.add(id(function))
    if len(seen) > _FUNCTIONS_SEARCHED:
        return False
    if cells is not None:
        for cell in cells:
            if cell != EMPTY_CELL and not _is_harmless(cell.cell_contents, stores, depth, seen):
                return False
    variables = globals_of(function)
    for name in stores.names:
        if name in variables and not _is_harmless(variables[name], stores, depth, seen):
            return False
    return True


def _is_harmless(value: Any, stores: _Stores, depth: int, seen: set[int]) -> bool:
    """Whether a function that knows a value, and uses some names, assigns nothing by that."""
    kind = type(value)
    if kind is FunctionType:
        return closure_of(value) is None and _is_of_library(value) or _assigns_nothing(value, depth + 1, seen)
    if kind is list or kind is tuple or kind is dict:
        if len(value) > _ENTRIES_CALLED or depth > _DEPTH:
            return True
        return not [entry for entry in (value.values() if kind is dict else value)
                    if not _is_harmless(entry, stores, depth + 1, seen)]
    known = _harmless.get(kind)
    if known is None:
        if len(_harmless) >= _MOST_KNOWN:
            _harmless.clear()
        known = _harmless[kind] = kind not in _CALLABLE and (
            issubclass(kind, (ArrayBase, type, ModuleType)) or _is_plain(kind))
    if known and isinstance(value, type) and not _is_plain(value):
        return _is_plain(type(value)) and not [name for name in stores.names if _functions_of(value, None, name)] and \
            not [name for name in _CONSTRUCTORS for function in _functions_of(value, None, name)
                 if not _assigns_nothing(function, depth + 1, seen)]
    return known


#: Whether functions that know objects of a class assign nothing by that.
_harmless: dict[type, bool] = {}
#: What is known of functions, by the ids of their code, which is kept alive.
_codes: dict[int, tuple[CodeType, _Stores]] = {}
_MOST_KNOWN = 4096


def _reached(functions: Sequence[Any]) -> list[tuple[FunctionType, tuple[Any, ...]]]:
    """Functions in Python, with the first arguments that they are given, and those that they call, as far as can be
    seen."""
    found: list[tuple[FunctionType, tuple[Any, ...]]] = []
    seen: set[tuple[int, int]] = set()
    for one in functions:
        queue, position, count = [one], 0, 0
        kinds: set[tuple[int, type]] = set()
        while position < len(queue) and position < _OBJECTS_SEARCHED and count < _FUNCTIONS_SEARCHED:
            function, given = _plain(queue[position])
            position += 1
            key = id(function), id(given[0]) if given else 0
            if function is None or key in seen:
                continue
            seen.add(key)
            found.append((function, given))
            if given:  # other objects of a class call the same, but for functions of their own
                kind = id(function), type(given[0])
                if kind in kinds and _has_harmless(given[0], _stores(function.__code__).names):
                    continue
                kinds.add(kind)
            count += 1
            _add_called(function, given, queue)
    return found


def _plain(function: Any) -> tuple[FunctionType | None, tuple[Any, ...]]:
    """The function in Python behind a method, a partial application, or an object that can be called, and what it is
    given first."""
    given: tuple[Any, ...] = ()
    while function.__class__ is not FunctionType:
        if function.__class__ is MethodType:
            function, given = function.__func__, (function.__self__, *given)
        elif isinstance(function, functools.partial):
            function, given = function.func, (*function.args, *given)
        else:
            method = method_of(type(function), "__call__")
            return method, (function, *given)
    return function, given


def _add_called(function: FunctionType, given: tuple[Any, ...], queue: list[Any]) -> None:
    """Append what a function may call: functions that it knows by a name, and methods of objects."""
    if _is_of_library(function):  # what @dr.syntax, or a decorator, puts around functions of the user's
        queue += [cell.cell_contents for cell in function.__closure__ or ()
                  if cell != EMPTY_CELL and cell.cell_contents.__class__ in _CALLABLE]
        return
    names = _stores(function.__code__).names
    todo, seen = [(value, 0) for value in _known(function, given, names).values()], set[int]()
    while todo:
        value, depth = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if value.__class__ in _CALLABLE:
            queue.append(value)
        elif value.__class__ is list or value.__class__ is tuple or value.__class__ is dict:
            if len(value) <= _ENTRIES_CALLED and depth < _DEPTH:
                todo += [(entry, depth + 1) for entry in (value.values() if value.__class__ is dict else value)]
        elif isinstance(value, type):
            if not _is_plain(value):
                for name in (*names, *_CONSTRUCTORS):  # what is made is new, and stands for the class
                    queue += _functions_of(value, value if name in _CONSTRUCTORS else None, name)
                queue += _functions_of(type(value), value, "__call__")
        elif not isinstance(value, (ArrayBase, ModuleType)) and not _is_plain(type(value)):
            slots, methods, _ = _members(type(value), names)
            own = getattr(value, "__dict__", None) or {}
            if depth < _DEPTH:
                todo += [(own[name], depth + 1) for name in names if name in own]
                todo += [(getattr(value, name, None), depth + 1) for name in slots]
            for name in methods:
                if name not in own:
                    queue += _functions_of(type(value), value, name)
                    if "super" in names:
                        for base in type(value).__mro__[1:]:
                            queue += _functions_of(base, value, name)


def _members(kind: type, names: tuple[str, ...]) -> tuple[list[str], list[str], list[str]]:
    """The names, of some, that are slots of a class; those of its methods and properties, with the names of methods
    that are called without being named; and those of cached properties."""
    found = _known_members.get((kind, names))
    if found is None:
        slots = [name for name in names if _entry_of(kind, name).__class__ is MemberDescriptorType]
        methods = [name for name in (*names, *_IMPLICIT) if _functions_of(kind, None, name) or isinstance(
            _entry_of(kind, name), property)]
        if len(_known_members) >= _MOST_KNOWN:
            _known_members.clear()
        cached = [name for name in names if isinstance(_entry_of(kind, name), functools.cached_property)]
        found = _known_members[kind, names] = slots, methods, cached
    return found


#: What has been found, which methods that are given to a class later do not change.
_known_members: dict[tuple[type, tuple[str, ...]], tuple[list[str], list[str], list[str]]] = {}


def _functions_of(kind: type, owner: Any, name: str) -> list[Any]:
    """What a class has under a name that may be called: of an object, or of the class itself."""
    entry = _entry_of(kind, name)
    if isinstance(entry, property):
        return [] if owner is None else [MethodType(each, owner) for each in (entry.fget, entry.fset, entry.fdel)
                                         if each.__class__ is FunctionType]
    if isinstance(entry, functools.cached_property):
        entry = entry.func
    elif isinstance(entry, staticmethod):
        return [entry.__func__]
    elif isinstance(entry, classmethod):
        entry, owner = entry.__func__, kind
    if entry.__class__ is not FunctionType:
        return []
    return [entry if owner is None else MethodType(entry, owner)]


def _known(function: FunctionType, given: tuple[Any, ...], names: Sequence[str]) -> dict[str, Any]:
    """What a function knows by names: variables of enclosing functions and of its module, and its first arguments."""
    code, variables = function.__code__, function.__globals__
    known = {name: variables[name] for name in names if name in variables}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if cell != EMPTY_CELL:
            known[name] = cell.cell_contents
    defaults = function.__defaults__ or ()
    known.update(zip(code.co_varnames[code.co_argcount - len(defaults):], defaults, strict=False))
    known |= function.__kwdefaults__ or {}
    known.update(zip(code.co_varnames, given, strict=False))
    return known


_CALLABLE = (FunctionType, MethodType, functools.partial)


def _stores(code: CodeType) -> _Stores:
    """What a function assigns."""
    known = _codes.get(id(code))
    if known is None:
        if len(_codes) >= _MOST_KNOWN:
            _codes.clear()
        known = _codes[id(code)] = code, _stores_of(code)
    return known[1]


def _stores_of(code: CodeType) -> _Stores:
    cells, variables, attributes, items, in_place = set[str](), set[str](), set[str](), False, False
    own = code.co_varnames[0] if code.co_name == "__init__" and code.co_argcount else None
    loaded: Any = None
    for entry in dis.get_instructions(code):
        what = entry.opname
        before, loaded = loaded, entry.argval if what.startswith("LOAD_FAST") else None
        if what in ("STORE_DEREF", "DELETE_DEREF"):
            if entry.argval in code.co_freevars:
                cells.add(entry.argval)
        elif what in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            variables.add(entry.argval)
        elif what in ("STORE_ATTR", "DELETE_ATTR"):
            if own is None or own not in (before, before[-1] if before.__class__ is tuple else None):
                attributes.add(entry.argval)  # and no attribute of a new object
        elif what.startswith("INPLACE_") or what == "BINARY_OP" and entry.argrepr.endswith("="):
            in_place = True
        elif what in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"):
            items = True
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if constant.__class__ is CodeType:
            inner = _stores(constant)
            cells |= inner.cells & set(code.co_freevars)
            variables |= inner.globals
            attributes |= inner.attributes
            items |= inner.items
            names |= dict.fromkeys(inner.names)
    texts = [each for each in code.co_consts if isinstance(each, str) and each.isidentifier()]
    if not _BY_NAME.isdisjoint(names):
        names |= dict.fromkeys(texts)
    items |= not _CHANGES.isdisjoint(names) or in_place and bool(cells or variables or attributes)
    if not {"setattr", "delattr"}.isdisjoint(names) or own is None and \
            not {"__setattr__", "__delattr__"}.isdisjoint(names):
        attributes |= set(texts)
    return _Stores(frozenset(cells), frozenset(variables), frozenset(attributes), items, tuple(names))


def _joined(stores: Sequence[_Stores]) -> _Stores:
    """What several functions assign."""
    names: dict[str, None] = {}
    attributes, items = set[str](), False
    for each in stores:
        names |= dict.fromkeys(each.names)
        attributes |= each.attributes
        items |= each.items
    found = _Stores(frozenset(), frozenset(), frozenset(attributes), items, tuple(names))
    found.any = True
    return found


def method_of(kind: type, name: str) -> FunctionType | None:
    """A method of a class that is written in Python."""
    found = _entry_of(kind, name)
    return found if found.__class__ is FunctionType else None


def _entry_of(kind: type, name: str) -> Any:
    """What a class, or one that it derives from, has under a name."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def _is_of_library(function: FunctionType) -> bool:
    """Whether a function assigns nothing of the user's by itself, but may call functions that it has been given."""
    return _root_of(function.__globals__.get("__name__", "")) in _LIBRARIES


def _is_own_name(module: Any) -> bool:
    """Whether a module is none of the user's; classes may say anything, also nothing, about theirs."""
    return _root_of(module) in _OWN


def _root_of(module: Any) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""


def _is_plain(kind: type) -> bool:
    """Whether no method of a class assigns anything of the user's."""
    return _root_of(kind.__module__) in _LIBRARIES


# --- values -----------------------------------------------------------------------------------------------------------


def _attribute(owner: Any, name: str) -> Any:
    """An attribute that is stored in an object, without calling anything; ``_MISSING`` if there is none."""
    own = getattr(owner, "__dict__", None)
    if own is not None and name in own:
        return own[name]
    if isinstance(owner, type):
        return _MISSING
    if _entry_of(type(owner), name).__class__ is MemberDescriptorType:
        return getattr(owner, name, _MISSING)
    return _MISSING


def _set_attribute(owner: Any, name: str, value: Any) -> None:
    """Store an attribute, or remove it, without calling anything."""
    if isinstance(owner, type):
        if value is _MISSING:
            type.__delattr__(owner, name)
        else:
            type.__setattr__(owner, name, value)
        return
    slot = _entry_of(type(owner), name)
    if slot.__class__ is MemberDescriptorType:
        if value is _MISSING:
            slot.__delete__(owner)
        else:
            slot.__set__(owner, value)
    elif value is _MISSING:
        owner.__dict__.pop(name, None)
    else:
        owner.__dict__[name] = value


def _is_buffer(value: Any) -> bool:
    """Whether something is an array of numbers that is no array of this package."""
    numpy = sys.modules.get("numpy")
    return isinstance(value, (bytearray, array)) or numpy is not None and isinstance(value, numpy.ndarray)


def _entries(container: Any) -> list[Any]:
    """What is in a list, tuple or queue, whatever its class says."""
    kind = list if isinstance(container, list) else tuple if isinstance(container, tuple) else deque
    return list(kind.__iter__(container))


def _dict_of(container: dict[Any, Any]) -> type[dict[Any, Any]]:
    """The class of Python's whose methods tell and change a dictionary; those in order keep it for themselves."""
    return OrderedDict if isinstance(container, OrderedDict) else dict


def _length(container: Any) -> int:
    kinds: tuple[Any, ...] = (*_MUTABLE, tuple)
    for kind in kinds:
        if isinstance(container, kind):
            return int(kind.__len__(container))
    return len(container)


def copy_of(container: Any) -> Any:
    if isinstance(container, dict):
        return dict(_dict_of(container).items(container))
    if isinstance(container, set):
        return set(set.__iter__(container))
    return container[:] if isinstance(container, (bytearray, array)) else \
        _entries(container) if isinstance(container, (list, deque)) else container.copy()


def _same_entries(container: Any, before: Any) -> bool:
    """Whether a container has the same entries, in the same order, as a copy of it."""
    if isinstance(container, (bytearray, array)):
        return bool(container == before)
    if not isinstance(container, _MUTABLE):
        return container.shape != before.shape or bool(container.tobytes() == before.tobytes())
    if _length(container) != len(before):
        return False
    if isinstance(container, set):
        return set.__eq__(container, before)
    if isinstance(container, dict):
        for (key, value), (other, entry) in zip(_dict_of(container).items(container), before.items(), strict=True):
            if key is not other or value is not entry:
                return False
        return True
    return list(map(id, _entries(container))) == list(map(id, before))


def refill(container: Any, before: Any) -> None:
    """Give a container the entries of a copy of it, whatever its class has in place of the methods of Python's; other
    threads, which may read it, see no empty one in between."""
    if isinstance(container, list):
        list.__setitem__(container, slice(None), before)
    elif isinstance(container, set):
        set.intersection_update(container, before)
        set.update(container, before)
    elif isinstance(container, deque):
        deque.clear(container)
        deque.extend(container, before)
    elif isinstance(container, dict):
        kind = _dict_of(container)
        for key in set(kind.keys(container)).difference(before):
            kind.pop(container, key, None)
        for key, value in before.items():
            kind.__setitem__(container, key, value)
        if list(kind.keys(container)) != list(before):  # the order is another one, too
            for key, value in before.items():
                kind.pop(container, key)
                kind.__setitem__(container, key, value)
    elif isinstance(container, (bytearray, array)):
        container[:] = before
    else:
        container[...] = before


def _has_arrays(value: Any) -> bool:
    """Whether a value is an array, or a container with some."""
    if isinstance(value, (list, tuple, dict, set, deque)):
        if len(value) <= ENTRIES_SEARCHED:
            for entry in value.values() if isinstance(value, dict) else value:
                if isinstance(entry, ArrayBase):
                    return True
        return False
    return isinstance(value, ArrayBase)


def _is_other(now: Any, before: Any) -> bool:
    """Whether an array has been assigned, or a tuple with some, that has nothing to do with an open region."""
    if now is before:
        return False
    if isinstance(now, ArrayBase) and isinstance(before, ArrayBase):
        return not sum([node.scope for node in now._nodes()])
    if now.__class__ is tuple and before.__class__ is tuple:
        for entry, other in zip(now, before, strict=False):
            if _is_other(entry, other):
                return True
    return False
