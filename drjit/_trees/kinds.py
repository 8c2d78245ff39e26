"""What an object is: its *content*, by its class, and whether it has *attributes* besides.

Lists, queues, tuples and dictionaries have entries, variables and bound methods refer to something, NumPy arrays and
sets are data, numbers and texts are values. A class that is derived from any of these adds attributes; of others,
attributes are all that there is.
"""

from __future__ import annotations

import functools
import operator
import sys
import weakref
from collections import OrderedDict, defaultdict, deque
from contextvars import Context, ContextVar
from types import (
    AsyncGeneratorType,
    BuiltinMethodType,
    CellType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from .._base.array import DERIVED, ArrayBase
from .._base.handle import Handle
from .._base.values import is_ndarray, is_numpy_data
from .._base.weak import note
from .classes import is_pytree

__all__ = ["BUILTIN", "CELL", "CLASS", "DATA", "DICT", "FUNCTION", "GENERATOR", "LIST", "METHOD", "MISSING",
           "MODULE", "OBJECT", "PARTIAL", "REFERRING", "TUPLE", "VALUE", "VARIABLES", "About", "about", "buffer_of",
           "hides", "is_installed", "is_library", "is_of_library", "is_own", "kind_at", "look_through", "refers"]

#: What is in a place where nothing is.
MISSING: Any = type("_Missing", (), {"__repr__": lambda self: "nothing"})()
#: A value, which is what it is; containers of entries; an object, which has attributes only; variables of functions
#: and contexts; functions, methods and functions with some arguments; classes; what holds data; modules; those
#: variables of a module that a function uses; methods of built-in types; generators; what only refers to others: views,
#: iterators, weak references, results that are kept.
VALUE, LIST, TUPLE, DICT, OBJECT, CELL, FUNCTION, METHOD, PARTIAL, CLASS, DATA, MODULE, VARIABLES, BUILTIN, GENERATOR, \
    REFERRING = range(16)
#: What objects of a class are, and of those that are derived from some, of which the first one counts.
_exactly: dict[type, int] = {
    CellType: CELL, ContextVar: CELL, FunctionType: FUNCTION, MethodType: METHOD, BuiltinMethodType: BUILTIN,
    MethodWrapperType: BUILTIN, GeneratorType: GENERATOR, CoroutineType: GENERATOR, AsyncGeneratorType: GENERATOR,
    ModuleType: MODULE, Context: DICT, type(MISSING): VALUE,
    **dict.fromkeys([MappingProxyType, functools._lru_cache_wrapper, weakref.ProxyType, weakref.CallableProxyType,
                     memoryview, *[type(view) for table in (dict[Any, Any](), OrderedDict[Any, Any]()) for view in (
                         table.keys(), table.values(), table.items())]], REFERRING)}
_derived: dict[type, int] = {
    list: LIST, deque: LIST, tuple: TUPLE, dict: DICT, type: CLASS, functools.partial: PARTIAL, set: DATA,
    frozenset: REFERRING, weakref.ref: REFERRING, ArrayBase: VALUE, ModuleType: VALUE}
#: The flag of classes that are made when a program runs: those of programs without a module say ``builtins``, too.
_MADE = 1 << 9
_about: dict[int, About] = {}
#: Whether modules are libraries, whose variables nobody changes.
_libraries: dict[int, bool] = {}
#: Whether packages that have been installed use Dr.Jit, by their names.
_programs: dict[str, bool] = {}
#: The modules whose classes, and their objects, are none of the user's; whether modules are, by their names.
_OURS = "drjit", "drjit_core"
_own: dict[str, bool] = {}
_MOST_NAMES = 65536


class About:
    """What is known of a class."""

    __slots__ = ("asks", "assigns", "bases", "has_more", "is_users", "keeps", "kind", "slots")

    def __init__(self, cls: type) -> None:
        #: What the content of its objects is, once one has been seen.
        self.kind = _exactly.get(cls, -1)
        #: The attributes that have places of their own, but for what arrays consist of.
        slots = [name for base in cls.__mro__ for name, entry in vars(base).items()
                 if name not in ("__dict__", "__weakref__") and _is_slot(base, name, entry) and not (
                     issubclass(cls, ArrayBase) and is_own(str(base.__module__)))]
        self.slots = (*slots, *(["default_factory"] if issubclass(cls, defaultdict) else []))
        #: Whether its objects have attributes besides their content.
        self.has_more = self.kind < 0 and bool(cls.__dictoffset__ or self.slots) and \
            not is_own(str(cls.__module__)) and not issubclass(cls, (type, ModuleType, classmethod, staticmethod))
        #: The user's classes that objects of it may find attributes in, or it itself, and whether it is one itself, but
        #: for those of libraries.
        around: Any = type(cls)
        self.bases: tuple[type, ...] = tuple([base for base in (*reversed(around.__mro__), *reversed(cls.__mro__[1:]))
                                              if _is_users(base)])
        self.is_users = _is_users(cls)
        #: Whether its objects decide what becomes of arrays that others are made of, such as views.
        self.assigns = hasattr(cls, "__drjit_assign__")
        #: Whether its objects ask others for attributes whose names they know.
        self.asks = issubclass(cls, (operator.attrgetter, operator.methodcaller))
        #: Whether its objects keep variables that are no places, as optimisers do.
        self.keeps = hasattr(cls, "__drjit_variables__")


def about(cls: type) -> About:
    """What is known of a class."""
    found = _about.get(id(cls))
    return note(_about, cls, About(cls)) if found is None else found


def kind_at(value: Any) -> int:
    """What the content of an object is: as its class says, but for NumPy arrays, which may be of objects."""
    known = about(type(value))
    if known.kind < 0:
        known.kind = _kind_of(type(value), value)
        known.has_more = known.has_more and known.kind != OBJECT
    return LIST if known.kind == DATA and is_ndarray(value) and value.dtype.hasobject else known.kind


def hides(value: Any) -> bool:
    """Whether an object with entries or attributes has a content which is no place."""
    kind = kind_at(value)
    return kind == LIST and is_ndarray(value) or about(type(value)).has_more and kind in (
        VALUE, PARTIAL, DATA, REFERRING)


def _kind_of(cls: type, value: Any) -> int:
    for base, kind in _derived.items():
        if issubclass(cls, base):
            return kind
    if is_numpy_data(value):
        return DATA
    if is_pytree(cls) or hasattr(cls, "__drjit_variables__"):
        return OBJECT
    if type(cls.__hash__) is WrapperDescriptorType and cls.__hash__ is not object.__hash__ and _is_hashable(value):
        return VALUE  # which is told from others by something that no attribute shows
    if hasattr(cls, "__next__") and (
            cls.__module__ == "itertools" or cls.__module__ == "builtins" and not cls.__flags__ & _MADE):
        return REFERRING
    return DATA if _has_buffer(value) else OBJECT if _is_not_ours(cls) else VALUE


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _has_buffer(value: Any) -> bool:
    """Whether objects like one have a buffer, be it closed."""
    try:
        memoryview(value)
    except TypeError:
        return False
    except (BufferError, ValueError):
        pass
    return True


def buffer_of(value: Any) -> memoryview | None:
    """The buffer of an object, if it has one that can be written to."""
    try:
        found = memoryview(value)
    except (TypeError, ValueError, BufferError):
        return None
    return None if found.readonly else found


def refers(value: Any) -> bool:
    """Whether something may refer to other objects."""
    cls = type(value)
    if cls is str or cls is int or cls is float or cls is bool or value is None:
        return False
    return not isinstance(value, Handle) or bool(DERIVED) and about(cls).has_more


def look_through(cls: type) -> None:
    """Let objects of a class of ours be functions of the user's, which are their ``__func__``, as those of methods."""
    about(cls).kind = METHOD


if type(look_through) is not FunctionType:  # the compiled form: functions of ours show nothing of the user's
    _exactly[type(look_through)] = VALUE


def _is_slot(cls: type, name: str, entry: Any) -> bool:
    """Whether an entry of a class is an attribute that its instances store: compiled classes describe what is in their
    ``__slots__`` as others do properties. Those of Python have members that are no attributes, but their content."""
    kind, slots = entry.__class__, vars(cls).get("__slots__")
    return slots is not None and (kind is MemberDescriptorType or kind is GetSetDescriptorType and name in slots)


def _is_not_ours(cls: type) -> bool:
    """Whether a class is neither one of ours nor one of Python's."""
    return not (is_own(str(cls.__module__)) or cls.__module__ == "builtins" and not cls.__flags__ & _MADE)


def _is_users(cls: type) -> bool:
    """Whether the attributes of a class are of interest, because it is the user's, and of no library."""
    return _is_not_ours(cls) and not _is_of_library(sys.modules.get(cls.__module__), str(cls.__module__))


def is_library(module: ModuleType) -> bool:
    """Whether nobody changes the variables of a module."""
    found = _libraries.get(id(module))
    return note(_libraries, module, _is_of_library(module, module.__name__)) if found is None else found


def is_of_library(function: FunctionType) -> bool:
    """Whether a function is a variable of Python's own library, NumPy or ours by its own name, which nobody changes.
    Those of other libraries may know settings."""
    module = sys.modules.get(function.__module__)
    return module is not None and is_library(module) and not is_installed(module) and vars(module).get(
        function.__name__) is function


def _is_of_library(module: ModuleType | None, name: str) -> bool:
    """Whether a module of some name is none of the user's: a package that has been installed and uses Dr.Jit is."""
    package = name.partition(".")[0]
    place = getattr(module, "__dict__", {}).get("__file__")  # a module may answer for any name
    return is_own(name) or package in sys.stdlib_module_names or "site-packages" in (place or "") and not _is_program(
        package)


def _is_program(package: str) -> bool:
    """Whether some module of a package refers to Dr.Jit, or to what is in there."""
    found = _programs.get(package)
    if found is None:
        # of the values of other packages no attribute is asked for: some warn then
        modules = [module for name, module in list(sys.modules.items())
                   if name.partition(".")[0] == package and isinstance(module, ModuleType)]
        found = _programs[package] = any(
            is_own(str(getattr(value, "__name__" if type(value) is ModuleType else "__module__", "")))
            for module in modules for value in list(vars(module).values())
            if issubclass(type(value), (ModuleType, type, FunctionType)) or is_own(type(value).__module__))
    return found


def is_installed(module: ModuleType) -> bool:
    """Whether a module is of a library that is neither Python's own, nor NumPy, nor ours."""
    package = module.__name__.partition(".")[0]
    return is_library(module) and not (is_own(package) or package == "numpy" or package in sys.stdlib_module_names)


def is_own(module: str) -> bool:
    """Whether a module is one of ours."""
    found = _own.get(module)
    if found is None:
        if len(_own) > _MOST_NAMES:
            _own.clear()
        found = _own[module] = module.partition(".")[0] in _OURS
    return found
