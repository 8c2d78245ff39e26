"""What the user's functions find, and may change, beside arrays: entries of lists and dictionaries, attributes of
objects, variables of enclosing functions and of modules.

A function is called once, and what it does to numbers, texts and the like is done then, as in any call. Arrays are
another matter: what it puts in a place stands for a value of each element. So the containers that functions were given,
or that they know, are remembered before a call, and compared after it (:class:`Snapshot`).

NumPy arrays, sets, and what else has a buffer that can be written to are neither: they hold data, as arrays do, but
know nothing of elements. A body that is traced is called once for all iterations, and would change them once, where
Python does it in each; that is refused.
Lists, dictionaries and queues of Python objects are what programs note things down in, once for each call. NumPy arrays
of Python objects are lists of these.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import threading
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import (
    AsyncGeneratorType,
    BuiltinMethodType,
    CellType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, NamedTuple, cast

import numpy as np

import drjit_core as core
from drjit_core import (
    any_vertex,
    closure_of,
    code_of,
    defaults_of,
    depend_on,
    further_of,
    globals_of,
    innermost,
    primal,
    tracked,
)

from .._base.array import ArrayBase
from .._base.handle import Handle
from .._trees.pytree import TreeSpec, flatten_nodes, is_pytree

__all__ = ["CELL", "CLASS", "DATA", "DICT", "FUNCTION", "GENERATOR", "LIST", "METHOD", "MISSING", "MODULE", "OBJECT",
           "PARTIAL", "REFERRING", "TUPLE", "VARIABLES", "Change", "Snapshot", "are_others", "attributes_of",
           "contents_of", "data_of", "difference_at", "entries_of", "has_array", "is_kept_by_class", "keep_new",
           "kind_at", "knows_nothing", "listed", "look_through", "names_of", "place_key", "read_place", "restore",
           "snapshot", "words_of", "write_place"]

#: What is in a place where nothing is.
MISSING: Any = type("_Missing", (), {"__repr__": lambda self: "nothing"})()
#: So many containers are looked at; a warning tells if there are more. So many variables of modules.
_MOST_CONTAINERS, _MOST_ENTRIES = 65536, 16384

#: What a class is: of no interest; a container whose entries are looked at; something that refers to others. (The last
#: ones: classes themselves; what holds data; modules; those variables of a module that a function uses; methods of
#: built-in types; generators; what only refers to others: views, iterators, weak references, results that are kept.)
_SKIPPED, _LIST, _TUPLE, _DICT, _OBJECT, _CELL, _FUNCTION, _METHOD, _PARTIAL, _CLASS, _DATA, _MODULE, _VARIABLES, \
    _BUILTIN, _GENERATOR, _REFERRING = range(16)
#: So many bytes of a buffer are remembered, and sets of so many entries.
_MOST_MEMBERS = 1024
_MOST_BYTES = 1 << 16
#: What other modules know of these, and what is where nothing is, as it is compiled.
OBJECT, CELL, _MISSING = _OBJECT, _CELL, MISSING
LIST, TUPLE, DICT, CLASS, MODULE, VARIABLES = _LIST, _TUPLE, _DICT, _CLASS, _MODULE, _VARIABLES
FUNCTION, METHOD, PARTIAL, DATA, GENERATOR, REFERRING = _FUNCTION, _METHOD, _PARTIAL, _DATA, _GENERATOR, _REFERRING
_kinds: dict[type, int] = {
    list: _LIST, tuple: _TUPLE, dict: _DICT, CellType: _CELL, FunctionType: _FUNCTION, MethodType: _METHOD,
    functools.partial: _PARTIAL, int: _SKIPPED, float: _SKIPPED, bool: _SKIPPED, str: _SKIPPED, type(None): _SKIPPED,
    BuiltinMethodType: _BUILTIN, MethodWrapperType: _BUILTIN,
    GeneratorType: _GENERATOR, CoroutineType: _GENERATOR, AsyncGeneratorType: _GENERATOR, ModuleType: _MODULE,
    bytes: _SKIPPED, complex: _SKIPPED, type: _CLASS, type(MISSING): _SKIPPED, ContextVar: _CELL,
    MappingProxyType: _REFERRING,
    frozenset: _REFERRING, functools._lru_cache_wrapper: _REFERRING, weakref.ProxyType: _REFERRING,
    weakref.CallableProxyType: _REFERRING, memoryview: _REFERRING}
_kinds.update(dict.fromkeys([type(view) for table in (dict[Any, Any](), OrderedDict[Any, Any]()) for view in (
    table.keys(), table.values(), table.items())], _REFERRING))
#: The modules whose classes, and their objects, are none of the user's.
_OURS = "drjit", "drjit_core"
_own: dict[str, bool] = {}
#: The flag of classes that are made when a program runs: those of programs without a module say ``builtins``, too.
_MADE = 1 << 9
#: What is known of other classes, as long as they live, by their ids.
_known: dict[int, _Class] = {}
#: Modules whose variables nobody changes.
_libraries: set[ModuleType] = set()
#: The warnings that have been given, by their places.
_warned: dict[Any, Any] = {}
#: Names of variables of its module that a function, and those within it, use: by the id of its code, which is slow to
#: compare.
_names: dict[int, tuple[CodeType, tuple[str, ...]]] = {}


class _Class:
    """What is known of a class."""

    __slots__ = ("bases", "is_users", "kind", "reference", "slots")

    def __init__(self, cls: type) -> None:
        self.reference = weakref.ref(cls, functools.partial(_forget, id(cls)))
        #: What it is, once an object of it has been seen.
        self.kind = -1
        self.slots = tuple([name for base in cls.__mro__ for name, entry in vars(base).items()
                            if name not in ("__dict__", "__weakref__") and _is_slot(base, name, entry)])
        #: The user's classes that objects of it may find attributes in, and whether it is one itself, but for those of
        #: libraries.
        self.bases: tuple[type, ...] = tuple([base for base in reversed(cls.__mro__[1:]) if _is_users(base)])
        self.is_users = _is_users(cls)


def _forget(number: int, reference: Any) -> None:
    _known.pop(number, None)


def _about(cls: type) -> _Class:
    found = _known.get(id(cls))
    if found is None:
        found = _known[id(cls)] = _Class(cls)
    return found


def _kind_of(cls: type, value: Any) -> int:
    """What an object of a class is."""
    kind = _kinds.get(cls)
    if kind is not None:
        return kind
    found = _about(cls)
    if found.kind < 0:
        found.kind = _new_kind(cls, value)
    return found.kind


def _new_kind(cls: type, value: Any) -> int:
    if issubclass(cls, (list, deque)):
        return _LIST
    if issubclass(cls, tuple):
        return _TUPLE
    if issubclass(cls, dict):
        return _DICT
    if issubclass(cls, type):
        return _CLASS
    if issubclass(cls, (np.ndarray, set)):
        return _DATA
    if issubclass(cls, (frozenset, weakref.ref)) or hasattr(cls, "__next__") and (
            cls.__module__ == "itertools" or cls.__module__ == "builtins" and not cls.__flags__ & _MADE):
        return _REFERRING
    if issubclass(cls, (ArrayBase, ModuleType)):
        return _SKIPPED
    if is_pytree(cls) or hasattr(cls, "__drjit_variables__"):
        return _OBJECT
    return _DATA if _buffer_of(value) is not None else _OBJECT if _is_not_ours(cls) else _SKIPPED


def _buffer_of(value: Any) -> memoryview | None:
    """The buffer of an object, if it has one that can be written to."""
    try:
        found = memoryview(value)
    except (TypeError, ValueError, BufferError):
        return None
    return None if found.readonly else found


def look_through(cls: type) -> None:
    """Let objects of a class of ours be functions of the user's, which are their ``__func__``, as those of methods."""
    _kinds[cls] = _METHOD


def kind_at(value: Any) -> int:
    """What an object is: as its class says, but for NumPy arrays, which may be of objects."""
    kind = _kind_of(type(value), value)
    return _LIST if kind == _DATA and isinstance(value, np.ndarray) and value.dtype.char == "O" else kind


def _is_not_ours(cls: type) -> bool:
    """Whether a class is neither one of ours nor one of Python's."""
    return not (_is_own(str(cls.__module__)) or cls.__module__ == "builtins" and not cls.__flags__ & _MADE)


def _is_users(cls: type) -> bool:
    """Whether the attributes of a class are of interest, because it is the user's, and of no library."""
    return _is_not_ours(cls) and not _is_library(sys.modules.get(cls.__module__), str(cls.__module__))


def _is_library(module: ModuleType | None, name: str) -> bool:
    """Whether nobody changes the variables and classes of a module."""
    top = name.partition(".")[0]
    return top in _OURS or top in sys.stdlib_module_names or "site-packages" in (
        getattr(module, "__file__", None) or "")


def _is_own(module: str) -> bool:
    """Whether a module is none of the user's."""
    found = _own.get(module)
    if found is None:
        if len(_own) > _MOST_CONTAINERS:
            _own.clear()
        found = _own[module] = module.partition(".")[0] in _OURS
    return found


def _is_small(value: Any) -> bool:
    """Whether data that functions may change is remembered."""
    if isinstance(value, set):
        return len(value) <= _MOST_MEMBERS
    if isinstance(value, np.ndarray):
        return value.nbytes <= _MOST_BYTES and value.flags.writeable and not value.dtype.hasobject
    buffer = _buffer_of(value)
    return buffer is not None and buffer.nbytes <= _MOST_BYTES


def data_of(value: Any) -> Any:
    """What a set, a NumPy array or another object with a buffer holds."""
    if isinstance(value, set):
        return value.copy()
    return value.tobytes() if isinstance(value, np.ndarray) else memoryview(value).tobytes()


def _set_data(value: Any, before: Any) -> None:
    """Let such an object hold what it held."""
    if isinstance(value, set):
        value.clear()
        value.update(before)
    elif isinstance(value, np.ndarray):
        if value.nbytes == len(before):
            value[...] = np.frombuffer(before, value.dtype).reshape(value.shape)
    elif memoryview(value).nbytes == len(before):
        memoryview(value).cast("B")[:] = before
    else:
        del value[:]
        getattr(value, "frombytes", value.extend)(before)


_EMPTY: list[Any] = []


class Change(NamedTuple):
    """A place that has another content than before."""

    container: Any
    kind: int
    key: Any
    before: Any
    now: Any


class Snapshot:
    """What containers hold: those of a tree, and those that a function knows.

    Nothing is copied but references: what a container held is compared by identity.
    """

    __slots__ = ("codes", "data", "functions", "held", "more", "owners", "seen", "suspended", "traced", "waiting")

    def __init__(self) -> None:
        #: Whether data is looked at, and whether variables of generators are.
        self.traced = self.suspended = False
        #: Whether there is more than is looked at.
        self.more = False
        #: NumPy arrays, sets and other objects that hold data, with that.
        self.data: list[tuple[Any, Any]] = _EMPTY
        #: Generators that have changed variables which they use in the middle of an expression, and these.
        self.waiting: list[tuple[Any, str]] = _EMPTY
        #: Of each container: the container, what it is, the number of keys and values, and these in turn; of lists a
        #: copy, of cells the content.
        self.held: list[Any] = []
        self.seen: set[int] = set()
        #: The functions among them, and their codes; classes and modules, where functions find others by name.
        self.functions: list[FunctionType] = []
        self.codes: list[CodeType] = []
        self.owners: list[Any] = _EMPTY

    def add(self, value: Any) -> None:
        """Look at a value, and at all that it refers to."""
        todo = [value]
        seen = self.seen
        while todo:
            value = todo.pop()
            cls = type(value)
            about = None if cls in _kinds else _about(cls)
            kind = kind_at(value) if about is None or about.kind < 0 or about.kind == _DATA else about.kind
            count = len(seen)
            if kind == _SKIPPED or kind == _MODULE and value in _libraries:
                continue
            if count >= _MOST_CONTAINERS:
                self.more = True
                return
            seen.add(id(value))
            if len(seen) == count:  # it was there
                continue
            if kind == _CLASS:
                about = _about(value)
            if about is not None:
                for base in about.bases:  # which are looked at before what shows their attributes
                    if id(base) not in seen:
                        self.add(base)
                if about.is_users and kind == _CLASS:
                    self.add_class(value, todo)
                elif about.is_users and id(cls) not in seen:
                    self.add(cls)
            if kind == _CLASS:
                continue
            if kind == _OBJECT or kind == _DICT or kind == _MODULE:
                entries = entries_of(value, kind) if kind != _OBJECT or about is None or about.slots else \
                    attributes_in_dict(value)
                if kind == _MODULE and value not in _libraries:
                    self.owners = self.owners or []
                    self.owners.append(value)
                if entries:
                    self.add_entries(value, kind, entries, todo)
                elif kind != _MODULE:
                    self.held += (value, kind, 0)
            elif kind == _TUPLE:
                self.held += (value, kind, value)
                _push(list(value), todo)
            elif kind == _LIST:
                content = listed(value)
                self.held += (value, kind, content)
                _push(content, todo)
            elif kind == _CELL:
                content = contents_of(value)
                self.held += (value, kind, content)
                if _refers(content):
                    todo.append(content)
            elif kind == _FUNCTION:
                self.add_function(value, todo)
            elif kind == _METHOD:
                todo += (value.__self__, value.__func__)
            elif kind == _BUILTIN:
                todo.append(value.__self__)
            elif kind == _GENERATOR:
                entries, frame = entries_of(value, kind), _frame_of(value)
                copy = None if frame is None else frame.f_locals
                _push([each for each in gc.get_referents(value) if each is not copy], todo)
                if self.suspended:
                    self.add_entries(value, kind, entries, todo)
            elif kind == _REFERRING:
                _push(_referents(value), todo)
            elif kind == _DATA:
                if isinstance(value, set):
                    _push(list(value), todo)
                if self.traced and _is_small(value):
                    self.data = self.data or []
                    self.data.append((value, data_of(value)))
            else:
                todo += (value.func, *value.args, *value.keywords.values())

    def add_entries(self, container: Any, kind: int, entries: dict[Any, Any], todo: list[Any]) -> None:
        """Note what a container holds."""
        held = self.held
        held.append(container)
        held.append(kind)
        held.append(2 * len(entries))
        for key, value in entries.items():
            held.append(key)
            held.append(value)
            if _refers(value):
                todo.append(value)
            if kind == _DICT and _refers(key):
                todo.append(key)

    def add_class(self, cls: type, todo: list[Any]) -> None:
        """Note the attributes of a class; look at those that are no functions, and at methods that operators call."""
        held, entries = self.held, vars(cls)
        self.owners = self.owners or []
        self.owners.append(cls)
        held.append(cls)
        held.append(_CLASS)
        held.append(2 * len(entries))
        for key, value in entries.items():
            held.append(key)
            held.append(value)
            if (type(value) is FunctionType if key[:2] == "__" else _refers(value) and not callable(value)):
                todo.append(value)

    def add_function(self, function: FunctionType, todo: list[Any]) -> None:
        """Look at the variables that a function uses."""
        self.functions.append(function)
        self.codes.append(code_of(function))
        cells, defaults, variables = closure_of(function), defaults_of(function), globals_of(function)
        if cells is not None:
            todo += cells
        if defaults is not None:
            todo.append(defaults)
        further = further_of(function)
        if further is not None:
            todo += further
        names = names_of(code_of(function))
        if names and not _is_own(variables.get("__name__", "")):
            held = self.held
            held.append(variables)
            held.append(_VARIABLES)
            held.append(2 * len(names))
            for name in names:
                value = variables.get(name, _MISSING)
                held.append(name)
                held.append(value)
                if _refers(value):
                    todo.append(value)

    def add_named(self) -> None:
        """Look at methods and functions that others find by their names in classes and modules; and note what modules
        have by names that are used, whatever that is."""
        names: set[str] = set()
        codes = owners = 0
        while codes < len(self.codes) or owners < len(self.owners):
            for code in self.codes[codes:]:
                names.update(names_of(code))
            codes, owners = len(self.codes), len(self.owners)
            for owner in self.owners:
                entries = vars(owner)
                for name in names.intersection(entries):
                    for value in _functions_of(entries[name]):
                        self.add(value)
        for owner in self.owners:
            if type(owner) is ModuleType:
                variables = vars(owner)
                plain = [entry for name in names.intersection(variables) if kind_at(variables[name]) == _SKIPPED
                         and not isinstance(variables[name], ArrayBase) for entry in (name, variables[name])]
                self.held += (owner, _MODULE, len(plain), *plain)

    def constants(self, state: Sequence[Any]) -> list[tuple[ArrayBase, int, list[int]]]:
        """The arrays that containers hold of which components must be variables: in how many places they are, and which
        components. Those that are ``state`` otherwise must be if they are constants only."""
        arrays: dict[int, tuple[Any, int]] = {}
        array: Any
        for value in self.values():
            if not isinstance(value, Handle) or not value._dynamic:  # type: ignore[attr-defined]
                continue
            array = value
            while array._o is not None:
                array = array._o[0]
            known = arrays.get(id(array))
            arrays[id(array)] = array, 1 if known is None else known[1] + 1
        for leaf in state if arrays else ():
            if id(leaf) in arrays and not [node for node in _components(leaf) if primal(node).kind == _LITERAL]:
                del arrays[id(leaf)]
        if len(arrays) == 1:  # as most functions do
            ((array, count),) = arrays.values()
            if array._depth <= 0:
                return [(array, count, [0])] if _must_be_variable(array._n, {}) else []
        times: dict[int, int] = {}  # that a node is the content of an array, unless it is a constant in any case
        for array, _ in arrays.values():
            for node in (array._n,) if array._depth <= 0 else array._c:
                node = primal(node)
                if node.kind != _LITERAL:
                    times[node.id] = times.get(node.id, 0) + 1
        found: list[tuple[ArrayBase, int, list[int]]] = []
        for array, count in arrays.values():
            if array._depth <= 0:
                if _must_be_variable(array._n, times):
                    found.append((array, count, [0]))
                continue
            nodes = array._c
            width = max([node.size for node in nodes], default=0)  # narrower ones become as wide when written to
            positions = [place for place, node in enumerate(nodes) if node.size == width and _must_be_variable(
                node, times)]
            if positions:
                found.append((array, count, positions))
        return found

    def restored(self) -> list[Any]:
        """Data that is something else now; it gets back what it was."""
        found = []
        for value, before in self.data:
            if data_of(value) != before:
                _set_data(value, before)
                found.append(value)
        return found

    def places(self, sought: Any) -> list[tuple[Any, int, Any]]:
        """The places in which an object was, but for those in tuples, which remain as they are."""
        found: list[tuple[Any, int, Any]] = []
        held, position = self.held, 0
        while position < len(held):
            container, kind, values = held[position], held[position + 1], held[position + 2]
            position += 3
            if kind == _CELL:
                if values is sought:
                    found.append((container, kind, ""))
            elif kind == _LIST:
                for key, value in enumerate(values):
                    if value is sought:
                        found.append((container, kind, key))
            elif kind != _TUPLE:
                first, position = position, position + values
                for place in range(first, position, 2):
                    if held[place + 1] is sought:
                        found.append((container, _DICT if kind == _VARIABLES else kind, held[place]))
        return found

    def parts_of(self, owner: Any) -> list[tuple[int, int]]:
        """The parts of an array that are in any place: where their nodes begin among those of the array, and how many
        there are."""
        found: list[tuple[int, int]] = []
        for value in self.values():
            if isinstance(value, Handle):
                array: Any = value
                first = 0
                while array._o is not None:
                    array, offset = array._o
                    first += offset
                if array is owner:
                    found.append((first, len(value._nodes())))  # type: ignore[attr-defined]
        return found

    def values(self) -> list[Any]:
        """What is in all places."""
        found: list[Any] = []
        held, position = self.held, 0
        while position < len(held):
            kind, values = held[position + 1], held[position + 2]
            position += 3
            if kind == _CELL:
                found.append(values)
            elif kind == _LIST or kind == _TUPLE:
                found += values
            else:
                count = values
                found += held[position + 1:position + count:2]
                position += count
        return found

    def changes(self) -> list[Change]:
        """The places that hold something else now."""
        found: list[Change] = []
        held, position = self.held, 0
        while position < len(held):
            container, kind, before = held[position], held[position + 1], held[position + 2]
            position += 3
            if kind == _TUPLE:
                continue
            if kind == _CELL:
                now = contents_of(container)
                if now is not before:
                    found.append(Change(container, kind, "", before, now))
            elif kind == _LIST:
                now = listed(container)
                if not _same(now, before):
                    _compare(container, kind, dict(enumerate(before)), dict(enumerate(now)), found)
            else:
                first, position = position, position + before
                if kind == _VARIABLES or kind == _MODULE:  # some of those that there are
                    variables = vars(container) if kind == _MODULE else container
                    for place in range(first, position, 2):
                        now = variables.get(held[place], _MISSING)
                        if now is not held[place + 1]:
                            found.append(Change(container, _MODULE if kind == _MODULE else _DICT, held[place],
                                                held[place + 1], now))
                    continue
                entries = entries_of(container, kind)
                if not _same_entries(entries, held, first, position):
                    old = dict(zip(held[first:position:2], held[first + 1:position:2], strict=True))
                    if kind == _GENERATOR:
                        self.compare_variables(container, old, entries, found)
                    else:
                        _compare(container, kind, old, dict(entries), found)
        return found

    def compare_variables(self, generator: Any, before: dict[str, Any], now: dict[str, Any],
                          found: list[Change]) -> None:
        """Note the variables of a generator that hold arrays which may be computed of those that they held: others may
        be what they are, since they are forgotten."""
        for name, value in now.items():
            old = before.get(name)
            if value is old or not (has_array(old) and has_array(value)):
                continue
            (nodes, _, spec), (others, _, was) = flatten_nodes(value, ""), flatten_nodes(old, "")
            if was.meeting(spec) is None or self.traced and not depend_on(
                    [node for node in nodes if primal(node).kind != _LITERAL], others):
                continue
            found.append(Change(generator, _GENERATOR, name, old, value))
            held = [each for each in gc.get_referents(generator) if each is value]
            if len(held) > len([each for each in now.values() if each is value]):
                self.waiting = [*self.waiting, (generator, name)]

    def array_changes(self) -> list[Change]:
        """Those of them that have to do with arrays."""
        return [change for change in self.changes() if has_array(change.before) or has_array(change.now)]


def knows_nothing(function: Callable[..., Any]) -> bool:
    """Whether a function is seen to refer to nothing but its arguments."""
    return type(function) is FunctionType and closure_of(function) is None and defaults_of(function) is None and \
        further_of(function) is None and not names_of(code_of(function))


def snapshot(tree: Any, function: Callable[..., Any] | None, apart: Sequence[Any] = (),
             data: bool = False) -> Snapshot | None:
    """What is held by the containers of a tree, but for some, and by those that a function knows; ``None`` if there are
    none. Arrays of NumPy and other ``data`` belong to it where something is traced, or will be."""
    if tree is None and (function is None or knows_nothing(function)):
        return None
    found = Snapshot()
    found.suspended, found.traced = True, data or innermost() is not None
    if apart:
        found.seen.update([id(each) for each in apart])
    if tree is not None:
        found.add(tree)
    if function is not None:
        found.add(function)
    if found.owners:
        found.add_named()
    if found.more:
        file, number = core.user_line() or ("<unknown>", 0)
        warnings.warn_explicit(
            f"The functions of a loop, branch or call refer to more than {_MOST_CONTAINERS} lists, dictionaries and "
            "objects. Not all are looked at, so that what they do to the others may be lost: keep the data in arrays, "
            "or pass what changes as an argument.", RuntimeWarning, file, number, registry=_warned)
    return found if found.held or found.data else None


def _must_be_variable(node: core.Node, times: dict[int, int]) -> bool:
    """Whether what is computed with a node would not tell what it is computed of: a constant, the contents of several
    arrays (so many ``times``), or what may turn out to have derivatives, of which it was not known then; or if it has,
    what is a variable around this construct, which probably changes it."""
    value = primal(node)
    return value.kind == _LITERAL or times.get(value.id, 1) > 1 or any_vertex() and core.is_float(node.type) and (
        value.kind == _PHI or tracked(node) is None)


_LITERAL, _PHI = core.KIND["literal"], core.KIND["phi"]


def _components(array: Any) -> list[core.Node]:
    """The nodes of an array that is no view."""
    return [array._n] if array._depth <= 0 else array._c


def entries_of(container: Any, kind: int) -> dict[Any, Any]:
    """The entries of a dictionary, the attributes of an object or a class, or those of a module that hold arrays."""
    if kind == _DICT:
        return container if type(container) is dict else dict(container.items())
    if kind == _CLASS:
        return dict(vars(container))
    if kind == _MODULE:
        return _module_variables(container)
    if kind == _GENERATOR:
        return _variables_of(container)
    return attributes_of(container) if _slots_of(type(container)) else attributes_in_dict(container)


def attributes_in_dict(container: Any) -> dict[str, Any]:
    """The attributes of an object without slots."""
    own = getattr(container, "__dict__", None)
    return own if type(own) is dict else {}


def _compare(container: Any, kind: int, before: dict[Any, Any], now: dict[Any, Any], found: list[Change]) -> None:
    for key, value in before.items():
        other = now[key] if key in now else _shown(container, kind, key, found)
        if other is not value:
            found.append(Change(container, kind, key, value, other))
    for key, value in now.items():
        if key not in before:
            found.append(Change(container, kind, key, _shown(container, kind, key, found), value))


def _shown(container: Any, kind: int, key: Any, changes: Sequence[Change] = ()) -> Any:
    """What a place shows that holds nothing of its own, before some changes: an object the attribute of its class, and
    a class that of one that it is derived from, unless that is computed when it is asked for."""
    if kind == _OBJECT and key in _slots_of(type(container)):
        return _MISSING
    if kind == _OBJECT or kind == _CLASS:
        for cls in type(container).__mro__ if kind == _OBJECT else container.__mro__[1:]:
            value = vars(cls).get(key, _MISSING)
            for change in changes:
                if change.container is cls and change.key == key:
                    value = change.before
            if value is not _MISSING:
                return _MISSING if hasattr(type(value), "__get__") else value
    return _MISSING


def _refers(value: Any) -> bool:
    """Whether something may refer to other objects."""
    cls = type(value)
    return not (cls is str or cls is int or cls is float or cls is bool or value is None or isinstance(value, Handle)) \
        and _kinds.get(cls, _OBJECT) != _SKIPPED


def _push(values: list[Any], todo: list[Any]) -> None:
    """Add those of some values that may refer to others."""
    for value in values:
        if _refers(value):
            todo.append(value)


def _same(now: list[Any], before: list[Any]) -> bool:
    if len(now) != len(before):
        return False
    for position, value in enumerate(now):  # noqa: SIM110  (compiled)
        if value is not before[position]:
            return False
    return True


def _same_entries(now: dict[Any, Any], held: list[Any], first: int, end: int) -> bool:
    """Whether keys and values are those of before, in the same order."""
    if 2 * len(now) != end - first:
        return False
    for key, value in now.items():
        if value is not held[first + 1] or key is not held[first]:
            return False
        first += 2
    return True


def _slots_of(cls: type) -> tuple[str, ...]:
    return _about(cls).slots


def _is_slot(cls: type, name: str, entry: Any) -> bool:
    """Whether an entry of a class is an attribute that its instances store: compiled classes describe what is in their
    ``__slots__`` as others do properties."""
    kind = entry.__class__
    return kind is MemberDescriptorType or kind is GetSetDescriptorType and name in vars(cls).get("__slots__", ())


def attributes_of(owner: Any) -> dict[str, Any]:
    """The attributes that are stored in an object, without calling anything."""
    own = getattr(owner, "__dict__", None)
    found = dict(own) if own.__class__ is dict else {}
    for name in _slots_of(type(owner)):
        value = getattr(owner, name, _MISSING)
        if value is not _MISSING:
            found[name] = value
    return found


def _functions_of(value: Any) -> tuple[Any, ...]:
    """The functions of what a class or a module has by some name."""
    cls = type(value)
    if cls is staticmethod or cls is classmethod:
        return (value.__func__,)
    return (value.fget, value.fset, value.fdel) if cls is property else (value,)


def _module_variables(module: ModuleType) -> dict[str, Any]:
    """The variables of a module that are arrays, or may hold some; none of those of libraries."""
    if _is_library(module, module.__name__):
        _libraries.add(module)
        return {}
    if len(vars(module)) > _MOST_ENTRIES:
        return {}
    return {name: value for name, value in vars(module).items() if isinstance(value, ArrayBase) or not (
        name[:2] == "__" or callable(value) or _kind_of(type(value), value) in (_SKIPPED, _MODULE))}


def listed(value: Any) -> list[Any]:
    """The entries of a list, a queue or a NumPy array of objects, whatever their classes make of it."""
    if isinstance(value, list):
        return list.__getitem__(value, slice(None))
    return value.ravel().tolist() if isinstance(value, np.ndarray) else list(deque.__iter__(value))


def _frame_of(generator: Any) -> Any:
    """The frame of a generator or a coroutine that waits."""
    prefix = {GeneratorType: "gi", CoroutineType: "cr"}.get(type(generator), "ag")
    return None if getattr(generator, f"{prefix}_running") else getattr(generator, f"{prefix}_frame")


def _variables_of(generator: Any) -> dict[str, Any]:
    """The variables of a generator that are its own."""
    frame = _frame_of(generator)
    if frame is None:
        return {}
    code = frame.f_code
    return {name: value for name, value in frame.f_locals.items() if name not in code.co_freevars + code.co_cellvars}


def _set_variable(generator: Any, name: str, value: Any) -> None:
    """Let a variable of a generator hold something."""
    frame = _frame_of(generator)
    if frame is not None and value is not _MISSING:  # which cannot be put there
        variables = frame.f_locals
        variables[name] = value
        if type(variables) is dict:  # a copy, before Python 3.13
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def _referents(value: Any) -> list[Any]:
    """What is referred to by something that refers to others, but is no place for them."""
    if isinstance(value, weakref.ref):
        return [value()]
    if isinstance(value, (weakref.ProxyType, weakref.CallableProxyType)):
        try:
            return [cast(MethodType, value.__sizeof__).__self__]
        except ReferenceError:
            return []
    if isinstance(value, MappingProxyType):
        return list(value.values())
    if isinstance(value, memoryview):
        return [value.obj]
    if isinstance(value, functools._lru_cache_wrapper):
        found: list[Any] = []
        for each in gc.get_referents(value):
            found += each.values() if type(each) is dict and each is not vars(value) else [each]
        return found
    return gc.get_referents(value)


def contents_of(cell: Any) -> Any:
    """What is in a variable of an enclosing function, or of a context."""
    try:
        return cell.get() if isinstance(cell, ContextVar) else cell.cell_contents
    except (ValueError, LookupError):
        return _MISSING


def names_of(code: CodeType) -> tuple[str, ...]:
    """The names, of attributes or variables of its module, that a function uses, and those within it."""
    known = _names.get(id(code))
    if known is not None and known[0] is code:
        return known[1]
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if constant.__class__ is CodeType:
            names.update(dict.fromkeys(names_of(constant)))
    if len(_names) > _MOST_CONTAINERS:
        _names.clear()
    found = tuple(names)
    _names[id(code)] = code, found
    return found


def place_key(container: Any, kind: int, key: Any) -> tuple[int, Any]:
    """What tells a place from others; a cell is known by several names."""
    return id(container), "" if kind == _CELL else key


def read_place(container: Any, kind: int, key: Any) -> Any:
    """What is in a place."""
    if kind == _CELL:
        return contents_of(container)
    if kind == _LIST and isinstance(container, np.ndarray):
        return container[np.unravel_index(key, container.shape)]
    if kind == _GENERATOR:
        return _variables_of(container).get(key, _MISSING)
    return getattr(container, key, _MISSING) if kind in (_OBJECT, _CLASS, _MODULE) else container[key]


def write_place(container: Any, kind: int, key: Any, value: Any) -> None:
    """Put something in a place, or nothing."""
    if kind == _LIST:
        sequence: Any = list if isinstance(container, list) else deque
        if isinstance(container, np.ndarray):
            container[np.unravel_index(key, container.shape)] = value
        elif value is _MISSING:
            if key < len(container):
                sequence.__delitem__(container, key)
        elif key < len(container):
            sequence.__setitem__(container, key, value)
        else:
            sequence.append(container, value)
    elif kind == _DICT:
        if value is _MISSING:
            container.pop(key, None)
        else:
            container[key] = value
    elif isinstance(container, ContextVar):
        if value is not _MISSING:  # which cannot be put there
            container.set(value)
    elif kind == _CELL:
        if value is _MISSING:
            del container.cell_contents
        else:
            container.cell_contents = value
    elif kind == _GENERATOR:
        _set_variable(container, key, value)
    elif kind == _CLASS:
        if value is not _MISSING and value is not _shown(container, kind, key):
            type.__setattr__(container, key, value)
        elif key in vars(container):
            type.__delattr__(container, key)
    elif value is _MISSING or kind == _OBJECT and value is _shown(container, kind, key):
        if key in attributes_of(container):
            _owner_of_attributes(container).__delattr__(container, key)
    else:  # the class may be frozen
        _owner_of_attributes(container).__setattr__(container, key, value)


def _owner_of_attributes(container: Any) -> Any:
    """The class that sets attributes of an object, whatever its own class makes of that."""
    return threading.local if isinstance(container, threading.local) else object


def restore(changes: Sequence[Change]) -> None:
    """Let places hold what they held before: classes first, whose attributes objects show that have none; lists lose
    their last entries first, and then get those that they have lost in turn."""
    for change in changes:
        if change.kind == _CLASS:
            write_place(*change[:4])
    for change in reversed(changes):
        if change.kind != _CLASS and change.before is _MISSING:
            write_place(*change[:4])
    for change in changes:
        if change.kind != _CLASS and change.before is not _MISSING:
            write_place(*change[:4])


def keep_new(change: Change) -> None:
    """Let a place that was not there before hold what a function has put in it, of which nobody knows what it is for
    other elements; of what a class computes when it is asked for, and keeps, only what depends on no region."""
    if not is_kept_by_class(change) or not [node for node in flatten_nodes(change.now, "")[0] if node.scope]:
        write_place(change.container, change.kind, change.key, change.now)


def is_kept_by_class(change: Change) -> bool:
    """Whether a place is an attribute that a class computes when it is asked for, and keeps."""
    return change.kind == _OBJECT and change.before is _MISSING and hasattr(type(change.container), change.key)


def words_of(container: Any, kind: int, key: Any) -> str:
    """A place, in words."""
    if isinstance(container, ContextVar):
        return f"the context variable '{container.name}'"
    if kind == _CELL or kind == _DICT and "__builtins__" in container:
        return f"the variable '{key}'" if key else "a variable of an enclosing function"
    if kind == _GENERATOR:
        return f"the variable '{key}' of the generator '{container.__name__}'"
    if kind == _OBJECT:
        return f"the attribute '{key}' of an object of type {type(container).__name__}"
    if kind in (_CLASS, _MODULE):
        what = "class" if kind == _CLASS else "module"
        return f"the attribute '{key}' of the {what} {container.__name__}"
    return f"the entry {key!r} of a {type(container).__name__}"


def difference_at(change: Change, first: TreeSpec, second: TreeSpec) -> tuple[str, str, str]:
    """How the structures of two values of a place differ: what it is that differs, and what it is in each."""
    where, difference = words_of(change.container, change.kind, change.key), first.difference(second, "", True)
    assert difference is not None
    path, what, *values = difference
    part = f"'{path}' of " if path else ""
    return f"the {what} of {part}{where}", values[0], values[1]


def are_others(leaves: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether any of some leaves are other objects, which hold arrays: no element can choose between these."""
    return bool([leaf for leaf, other in zip(leaves, others, strict=False) if leaf is not other and not isinstance(
        leaf, ArrayBase) and (has_array(leaf) or has_array(other))])


def has_array(value: Any) -> bool:
    """Whether something is a traced array, or a container with some."""
    if isinstance(value, ArrayBase):
        return bool(value._dynamic)
    todo, seen = [value], set[int]()
    while todo:
        value = todo.pop()
        kind = kind_at(value)
        if kind == _SKIPPED or id(value) in seen or len(seen) >= _MOST_CONTAINERS:
            continue
        seen.add(id(value))
        entries: list[Any] = []
        if kind == _LIST:
            entries = listed(value)
        elif kind == _TUPLE:
            entries = list(value)
        elif kind == _DICT:
            entries = list(value.values())
        elif kind == _OBJECT:
            entries = list(attributes_of(value).values())
        elif kind == _REFERRING and not isinstance(value, weakref.ref) or isinstance(value, set):
            entries = list(value) if isinstance(value, set) else _referents(value)
        for entry in entries:
            if not isinstance(entry, ArrayBase):
                todo.append(entry)
            elif entry._dynamic:
                return True
    return False


if type(restore) is not FunctionType:  # the compiled form: functions of ours show nothing of the user's
    _kinds.setdefault(type(restore), _SKIPPED)
