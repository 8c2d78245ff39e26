"""What is in an object, and how something else gets there: entries, attributes, variables, and data."""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import operator
import threading
import weakref
from collections import deque
from contextvars import Context, ContextVar
from types import CellType, CodeType, CoroutineType, GeneratorType, MappingProxyType, MethodType, ModuleType
from typing import Any, cast

from drjit_core import closure_of, defaults_of, further_of

from .._base.array import ArrayBase
from .._base.values import is_ndarray, is_numpy_data
from .classes import put_entry
from .kinds import (
    BUILTIN,
    CELL,
    CLASS,
    DATA,
    DICT,
    FUNCTION,
    GENERATOR,
    LIST,
    METHOD,
    MISSING,
    MODULE,
    OBJECT,
    PARTIAL,
    REFERRING,
    TUPLE,
    VALUE,
    about,
    buffer_of,
    is_library,
    kind_at,
)

__all__ = ["attributes_in_dict", "attributes_of", "contents_of", "data_of", "entries_of", "has_attribute", "is_small",
           "listed", "parts_of", "position_of", "read_place", "set_data", "share_attributes", "shown",
           "write_attribute", "write_place"]

#: Modules with more variables are not looked at.
_MOST_VARIABLES = 16384
#: So many bytes of a buffer are remembered, and sets of so many entries.
_MOST_BYTES, _MOST_MEMBERS = 1 << 16, 1024
#: Iterators of which neither they themselves nor those that they take entries from tell how far they are.
_HIDDEN: tuple[type, ...] = (
    itertools.combinations, itertools.combinations_with_replacement, itertools.cycle, itertools.permutations,
    itertools.product, type(itertools.tee(())[0]))


def listed(value: Any) -> list[Any]:
    """The entries of a list, a queue or a NumPy array of objects, whatever their classes make of it."""
    if isinstance(value, list):
        return list.__getitem__(value, slice(None))
    if is_ndarray(value):
        return [entry for field in _fields_of(value) for entry in field.ravel().tolist()]
    return list(deque.__iter__(value))


def _fields_of(array: Any, objects: bool = True) -> list[Any]:
    """The fields of a NumPy array that consist of objects, or of numbers: the array itself, if it has none."""
    if array.dtype.names is None or not objects and not array.dtype.hasobject:
        return [array] if array.dtype.hasobject == objects else []
    return [field for name in array.dtype.names for field in _fields_of(array[name], objects)]


def _entry_of(array: Any, key: int) -> tuple[Any, Any]:
    """The field and the index of an entry of such an array."""
    for field in _fields_of(array):
        if key < field.size:
            import numpy as np

            return field, np.unravel_index(key, field.shape)
        key -= field.size
    raise IndexError(key)


#: The attributes that classes do not keep where they keep others.
_NAMES = [(name, vars(type)[name]) for name in ("__name__", "__qualname__")]


def entries_of(container: Any, kind: int) -> dict[Any, Any]:
    """The entries of a dictionary, the attributes of an object or a class (with its names, and but for what Python
    notes there when it copies objects), the variables of a generator that waits, or those of a module that hold
    arrays."""
    if kind == DICT:
        return container if type(container) is dict else dict(container.items())
    if kind == CLASS:
        found: dict[Any, Any] = vars(container).copy()
        found.pop("__slotnames__", None)
        for name, attribute in _NAMES:
            found.setdefault(name, attribute.__get__(container))
        return found
    if kind == MODULE:
        return _module_variables(container)
    if kind == GENERATOR:
        return _variables_of(container)
    return attributes_of(container) if about(type(container)).slots else attributes_in_dict(container)


def attributes_in_dict(container: Any) -> dict[str, Any]:
    """The attributes of an object without slots."""
    own = getattr(container, "__dict__", None)
    return own if type(own) is dict else {}


def attributes_of(owner: Any) -> dict[str, Any]:
    """The attributes that are stored in an object, without calling anything."""
    own = getattr(owner, "__dict__", None)
    found = dict(own) if own.__class__ is dict else {}
    for name in about(type(owner)).slots:
        value = getattr(owner, name, MISSING)
        if value is not MISSING:
            found[name] = value
    return found


def _module_variables(module: ModuleType) -> dict[str, Any]:
    """The variables of a module that are arrays, or may hold some; none of those of libraries."""
    if is_library(module) or len(vars(module)) > _MOST_VARIABLES:
        return {}
    return {name: value for name, value in vars(module).items() if isinstance(value, ArrayBase) or not (
        name[:2] == "__" or callable(value) or kind_at(value) in (VALUE, MODULE))}


def share_attributes(stand: Any, original: Any) -> bool:
    """Let an object have the attributes of another one: the same ones, if it has no others, which is returned."""
    own, mine = [getattr(each, "__dict__", None) for each in (original, stand)]
    shares = type(own) is dict and type(mine) is dict and not [
        name for name, value in mine.items() if own.get(name, MISSING) is not value]
    if shares:
        stand.__dict__ = own
    known = attributes_of(stand)
    for name, value in attributes_of(original).items():
        if name not in known:
            object.__setattr__(stand, name, value)
    return shares


def contents_of(cell: Any) -> Any:
    """What is in a variable of an enclosing function, or of a context."""
    try:
        return cell.cell_contents if type(cell) is CellType else cell.get()
    except (ValueError, LookupError):
        return MISSING


def _frame_of(generator: Any) -> Any:
    """The frame of a generator or a coroutine that waits."""
    prefix = {GeneratorType: "gi", CoroutineType: "cr"}.get(type(generator), "ag")
    return None if getattr(generator, f"{prefix}_running") else getattr(generator, f"{prefix}_frame")


def _variables_of(generator: Any, name: str = "", value: Any = MISSING) -> dict[str, Any]:
    """The variables of a generator that are its own, of which one gets another value if there is one."""
    frame = _frame_of(generator)
    if frame is None:
        return {}
    variables, code = frame.f_locals, frame.f_code
    found = {name: value for name, value in variables.items() if name not in code.co_freevars + code.co_cellvars}
    if value is not MISSING:  # which cannot be put there
        variables[name] = value
    if type(variables) is dict:  # a copy that the frame keeps, before Python 3.13
        if value is not MISSING:
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
        variables.clear()
    return found


def position_of(iterator: Any) -> tuple[CodeType | None, Any, list[Any]]:
    """How far an iterator is: where a generator waits, how many entries are left, or what is counted next; ``None`` if
    nobody can tell; and the values of its variables."""
    if isinstance(iterator, itertools.count):
        return None, None if any(isinstance(each, ArrayBase) for each in gc.get_referents(iterator)) else \
            repr(iterator), []
    if isinstance(iterator, _HIDDEN):
        return None, None, []
    if kind_at(iterator) != GENERATOR:
        return None, operator.length_hint(iterator, -1) if hasattr(iterator, "__length_hint__") else -1, []
    frame = _frame_of(iterator)
    return (None, -1, []) if frame is None else (frame.f_code, frame.f_lasti, list(_variables_of(iterator).values()))


def parts_of(value: Any, kind: int) -> list[Any]:
    """What something consists of, or refers to, but for classes and modules."""
    if kind == FUNCTION:
        return [*(closure_of(value) or ()), *(defaults_of(value) or ()), *(further_of(value) or ())]
    if kind == METHOD:
        return [value.__self__, value.__func__]
    if kind == PARTIAL:
        return [value.func, *value.args, *value.keywords.values()]
    if kind == BUILTIN:
        return [value.__self__]
    if kind == REFERRING:
        return _referents(value)
    if kind == GENERATOR:
        frame = _frame_of(value)
        copy = None if frame is None else frame.f_locals
        found = [each for each in gc.get_referents(value) if each is not copy]
        if type(copy) is dict:
            copy.clear()
        return found
    if kind == CELL:
        return [contents_of(value)]
    if kind == LIST:
        return listed(value)
    if kind == TUPLE or kind == DATA:
        return list(value) if kind == TUPLE or isinstance(value, set) else []
    if kind != DICT and kind != OBJECT:
        return []
    entries = entries_of(value, kind)
    return [*entries.values(), *[key for key in entries if type(key) is not str]]


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
        return list(value.values()) if "__module__" in value else gc.get_referents(value)  # of a class, or of a mapping
    if isinstance(value, memoryview):
        return [value.obj]
    if isinstance(value, frozenset):
        return list(value)
    if isinstance(value, functools._lru_cache_wrapper):
        found: list[Any] = []
        for each in gc.get_referents(value):
            for kept in each.values() if type(each) is dict and each is not vars(value) else [each]:
                found += gc.get_referents(kept) if type(kept).__name__ == "_lru_list_elem" else [kept]
        return found
    return gc.get_referents(value)


# --- places -----------------------------------------------------------------------------------------------------------


def shown(container: Any, kind: int, key: Any, before: Any = ()) -> Any:
    """What a place shows that holds nothing of its own: an object the attribute of its class, and a class that of one
    that it is derived from or of its own class, unless that is computed when it is asked for. ``before`` are changes
    since."""
    if kind == OBJECT and key in about(type(container)).slots:
        return MISSING
    if kind == OBJECT or kind == CLASS:
        for cls in type(container).__mro__ if kind == OBJECT else (*container.__mro__[1:], *type(container).__mro__):
            value = vars(cls).get(key, MISSING)
            for change in before:
                if change.container is cls and change.key == key:
                    value = change.before
            if value is not MISSING:
                return MISSING if hasattr(type(value), "__get__") else value
    return MISSING


def read_place(container: Any, kind: int, key: Any) -> Any:
    """What is in a place."""
    if kind == CELL:
        return contents_of(container)
    if kind == LIST and is_ndarray(container):
        field, index = _entry_of(container, key)
        return field[index]
    if kind == GENERATOR:
        return _variables_of(container).get(key, MISSING)
    return getattr(container, key, MISSING) if kind in (OBJECT, CLASS, MODULE) else container[key]


def write_place(container: Any, kind: int, key: Any, value: Any) -> None:
    """Put something in a place, or nothing."""
    if kind == LIST:
        sequence: Any = list if isinstance(container, list) else deque
        if is_ndarray(container):
            field, index = _entry_of(container, key)
            field[index] = value
        elif value is MISSING:
            if key < len(container):
                sequence.__delitem__(container, key)
        elif key < len(container):
            sequence.__setitem__(container, key, value)
        else:
            sequence.append(container, value)
    elif kind == DICT and not isinstance(container, Context):
        if value is MISSING:
            container.pop(key, None)
        else:
            put_entry(container, key, value)
    elif kind == DICT or isinstance(container, ContextVar):
        if value is MISSING:  # which nobody can put there
            value = None
        container.run(key.set, value) if kind == DICT else container.set(value)
    elif kind == CELL:
        if value is MISSING:
            del container.cell_contents
        else:
            container.cell_contents = value
    elif kind == GENERATOR:
        _variables_of(container, key, value)
    elif kind == CLASS:
        if value is not MISSING and value is not shown(container, kind, key):
            type.__setattr__(container, key, value)
        elif key in vars(container):
            type.__delattr__(container, key)
    elif value is MISSING or kind == OBJECT and value is shown(container, kind, key):
        if key in attributes_of(container):
            _owner_of_attributes(container).__delattr__(container, key)
    else:  # the class may be frozen
        _owner_of_attributes(container).__setattr__(container, key, value)


def write_attribute(container: Any, kind: int, key: str, value: Any) -> None:
    """Let an object or a class have an attribute of its own, also if its class shows the same."""
    if kind == CLASS:
        type.__setattr__(container, key, value)
    elif isinstance(container, _local):
        _local.__setattr__(container, key, value)
    else:  # the class may be frozen
        _set_attribute(container, key, value)


_local, _set_attribute = threading.local, object.__setattr__


def has_attribute(container: Any, kind: int, key: str) -> bool:
    """Whether an object or a class has an attribute of its own."""
    return key in (entries_of(container, kind) if kind == CLASS else attributes_of(container))


def _owner_of_attributes(container: Any) -> Any:
    """The class that sets attributes of an object, whatever its own class makes of that."""
    return threading.local if isinstance(container, threading.local) else object


# --- data -------------------------------------------------------------------------------------------------------------


def is_small(value: Any) -> bool:
    """Whether data that functions may change is remembered."""
    if isinstance(value, set):
        return len(value) <= _MOST_MEMBERS
    if is_numpy_data(value):
        return value.nbytes <= _MOST_BYTES and value.flags.writeable and bool(_fields_of(value, False))
    buffer = buffer_of(value)
    return buffer is not None and buffer.nbytes <= _MOST_BYTES


def data_of(value: Any) -> Any:
    """What a set, a NumPy array or another object with a buffer holds."""
    if isinstance(value, set):
        return value.copy()
    if is_numpy_data(value):
        return tuple([field.tobytes() for field in _fields_of(value, False)])
    return memoryview(value).tobytes()


def set_data(value: Any, before: Any) -> None:
    """Let such an object hold what it held."""
    if isinstance(value, set):
        value.clear()
        value.update(before)
    elif is_numpy_data(value):
        import numpy as np

        for field, content in zip(_fields_of(value, False), before, strict=True):
            if field.nbytes == len(content):
                held = np.frombuffer(content, field.dtype).reshape(field.shape)
                for name in field.dtype.names or () if isinstance(field, np.void) else (...,):
                    field[name] = held[name]
    elif memoryview(value).nbytes == len(before):
        memoryview(value).cast("B")[:] = before
    else:
        del value[:]
        getattr(value, "frombytes", value.extend)(before)
