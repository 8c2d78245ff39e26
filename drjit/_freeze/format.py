"""The format of files of frozen functions: names in it, and values by name, as JSON, which nothing is executed for.

Classes and functions go by their names, and are looked for among those of this package, or, where arguments are
objects, among what the process has imported already.
"""

from __future__ import annotations

import enum
import importlib
import sys
from collections.abc import Sequence
from typing import Any, TypeGuard

import drjit_core as core
from drjit_core import BACKWARD, FORWARD_MODE

from .._trees.kinds import CELL, CLASS, DICT, LIST, MISSING, MODULE, OBJECT, TUPLE, VARIABLES
from .plan import CODES, OWNER

__all__ = ["ANY", "ARRAY", "CONTAINER", "CONTAINERS", "CONTENT", "EQUAL", "FLAT", "FORMAT", "KNOWN", "MODES", "NESTED",
           "EXACT", "NUMBER", "NUMBERS", "PART", "SAME", "TENSOR", "Refused", "found_by_name", "is_ours", "module_of",
           "name_of", "own_by_name", "read", "read_shape", "version", "written", "written_shape"]

#: What the file is, and the version of its format.
FORMAT = b"F\x03"
ANY, FLAT, TENSOR, NESTED, ARRAY, CONTAINER, KNOWN, PART, SAME, EQUAL, CONTENT, NUMBERS, NUMBER, EXACT = range(
    len(CODES))
CONTAINERS = {"list": LIST, "tuple": TUPLE, "dict": DICT, "object": OBJECT, "variable": OWNER, "cell": CELL,
              "class": CLASS, "module": MODULE, "variables": VARIABLES}
MODES = {"backward": BACKWARD, "forward": FORWARD_MODE}
_PLAIN = (type(None), bool, int, str)
#: Packages of which classes and functions may be looked for by name.
_OURS = ("drjit", "drjit_core", "builtins", "collections")


def version() -> str:
    """The version of this package."""
    return str(sys.modules["drjit"].__version__)


class Refused(Exception):
    """What cannot be written, and where."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'a call'} {reason}")


# --- values by name, and as JSON --------------------------------------------------------------------------------------

def _name_of(value: Any) -> list[str] | None:
    """Where a class or function is found by its name, or an object of ours that is the value of a variable."""
    module, name = module_of(value), getattr(value, "__qualname__", None)
    if name is None and is_ours(module) and "__reduce__" in vars(type(value)):
        name = value.__reduce__()
        if isinstance(name, tuple) and len(name[1]) == 1:  # made by its name
            name = name[1][0]
    if not isinstance(name, str) or _found(module, name) is not value:
        return None
    return [module, name]


def module_of(value: Any) -> str:
    """The module of a class or function, or of the class of an object."""
    module = getattr(value, "__module__", None)
    return module if isinstance(module, str) else type(value).__module__


def _found(module: str, name: str) -> Any:
    """What has a name in a module that has been imported; ``MISSING`` if there is none. (No code runs for that, but
    that of this package, some of whose types are made when they are asked for.)"""
    found: Any = sys.modules.get(module)
    for part in name.split(".") if found is not None else ():
        found = getattr(found, part, MISSING) if is_ours(module) else vars(found).get(part, MISSING) \
            if hasattr(found, "__dict__") else MISSING
    return MISSING if found is None else found


def is_ours(module: str) -> bool:
    return module.partition(".")[0] in _OURS


def name_of(value: Any, path: str, ours: bool = True) -> list[str]:
    """The name of a class or function, if it has one."""
    name = _name_of(value)
    if name is None:
        raise Refused(path, f"refers to {value!r}, which has no name in a module")
    if ours and not is_ours(name[0]):
        raise Refused(path, f"is of the type {'.'.join(name)}, or refers to it: functions that have been loaded make "
                             "only arrays, numbers, texts, tuples, lists and dictionaries")
    return name


def _is_scalar(value: Any) -> TypeGuard[Any]:
    """Whether a value is a number of NumPy."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "generic", ()))


def written(value: Any, path: str) -> Any:
    """A value that is no container and no array."""
    cls = type(value)
    if cls in _PLAIN:
        return value
    if cls is float or cls is complex:
        return core.number_in(value)
    if value is MISSING:
        return {"missing": True}
    if value is Ellipsis:
        return {"ellipsis": True}
    if cls is bytes:
        return {"bytes": value.hex()}
    if cls is tuple:
        return {"tuple": [written(entry, path) for entry in value]}
    if cls is frozenset or cls is set:
        return {cls.__name__: sorted((written(entry, path) for entry in value), key=repr)}
    if isinstance(value, enum.Enum) and is_ours(cls.__module__):
        return {"enum": [name_of(cls, path), value.name]}
    if _is_scalar(value):
        return {"scalar": [value.dtype.str, value.tobytes().hex()]}
    if isinstance(value, type) or callable(value) or isinstance(_name_of(value), list):
        return {"named": name_of(value, path)}
    raise Refused(path, f"is an object of the type {cls.__name__}, which a file cannot hold")


def found_by_name(name: Sequence[str]) -> Any:
    """What a name means in this process."""
    module, qualified = name
    if module not in sys.modules and module.partition(".")[0] == "drjit":
        importlib.import_module(module)
    return _found(module, qualified)


def own_by_name(name: Sequence[str]) -> Any:
    """What a name of the library stands for, which must be there."""
    found = found_by_name(name) if is_ours(name[0]) else MISSING
    if found is MISSING:
        raise ValueError(f"there is no {'.'.join(name)}")
    return found


def read(value: Any) -> Any:
    """The value again."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "missing":
        return MISSING
    if kind == "ellipsis":
        return Ellipsis
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind in ("tuple", "set", "frozenset"):
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](map(read, content))
    if kind == "enum":
        return own_by_name(content[0])[content[1]]
    if kind == "scalar":
        import numpy as np

        return np.frombuffer(bytes.fromhex(content[1]), np.dtype(content[0]))[0]
    if kind == "named":
        return own_by_name(content)
    return core.number_from(value)


def written_shape(shape: Any) -> Any:
    """The shape of an array, or how many nodes it has."""
    return list(shape) if isinstance(shape, tuple) else shape


def read_shape(shape: Any) -> Any:
    """The shape again."""
    return tuple(shape) if isinstance(shape, list) else shape
