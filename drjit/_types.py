"""The factory of array types: a record says what a type is, the base class says how it behaves.

A concrete type such as ``drjit.llvm.Array3f`` is a bare class without behaviour: a record (backend, scalar type, kind,
static shape, differentiable), what follows from it as class attributes that the operators read, and one base class.
:func:`lookup` goes from a record to its class, :func:`retype` and :func:`reshape` to a relative of a class.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from drjit_core import TYPES, JitBackend, VarType

if TYPE_CHECKING:
    from ._array import ArrayBase

__all__ = ["BOOL", "FLOAT16", "FLOAT32", "FLOAT64", "INT32", "INT64", "UINT32", "UINT64", "Record", "install", "lookup",
           "reshape", "retype"]

BOOL, INT32, UINT32, INT64, UINT64 = (VarType[name].value for name in ("Bool", "Int32", "UInt32", "Int64", "UInt64"))
FLOAT16, FLOAT32, FLOAT64 = (VarType[name].value for name in ("Float16", "Float32", "Float64"))

#: Scalar type, names of the flat arrays (the first is canonical) and suffix of the nested ones.
_SCALARS: list[tuple[VarType, tuple[str, ...], str]] = [
    (VarType.Bool, ("Bool",), "b"),
    (VarType.Int8, ("Int8",), "i8"), (VarType.UInt8, ("UInt8",), "u8"),
    (VarType.Int16, ("Int16",), "i16"), (VarType.UInt16, ("UInt16",), "u16"),
    (VarType.Int32, ("Int", "Int32"), "i"), (VarType.UInt32, ("UInt", "UInt32"), "u"),
    (VarType.Int64, ("Int64",), "i64"), (VarType.UInt64, ("UInt64",), "u64"),
    (VarType.Float16, ("Float16",), "f16"), (VarType.Float32, ("Float", "Float32"), "f"),
    (VarType.Float64, ("Float64",), "f64"),
]

#: Static shapes of the nested types by the digits in their names; -1 is a dynamic size.
_SHAPES: dict[str, tuple[int, ...]] = {
    "0": (0,), "1": (1,), "2": (2,), "3": (3,), "4": (4,), "X": (-1,), "22": (2, 2), "33": (3, 3), "44": (4, 4),
}


class Record(NamedTuple):
    """What an array type is."""

    backend: JitBackend
    type: int  # scalar type of the elements
    kind: str  # "array"; matrices, complex numbers and quaternions have kinds of their own
    shape: tuple[int, ...]  # static sizes, outermost first, without the dynamic trailing dimension; () for flat arrays
    diff: bool = False

    def __str__(self) -> str:
        shape = ", ".join("*" if size < 0 else str(size) for size in (*self.shape, -1))
        lines = [f"type={TYPES[self.type].name}", f"backend={self.backend.name.lower()}", "is_jit=1"]
        if self.diff:
            lines.append("is_diff=1")
        if self.shape:
            lines.append("is_vector=1")
        lines.append(f"shape=({shape})")
        return "ArrayMeta[\n  " + ",\n  ".join(lines) + "\n]"


_classes: dict[Record, type[ArrayBase]] = {}


def lookup(record: Record) -> type[ArrayBase] | None:
    """The class of a record, or ``None`` if there is no such type."""
    return _classes.get(record)


def _retype(cls: type[ArrayBase], scalar: int) -> type[ArrayBase]:
    return _classes[cls._record._replace(type=scalar)]


def _reshape(cls: type[ArrayBase], shape: tuple[int, ...]) -> type[ArrayBase]:
    record = cls._record._replace(kind="array", shape=shape)
    found = _classes.get(record)
    return found if found is not None else _classes[record._replace(shape=(-1,) * len(shape))]


#: The type of the same kind and shape over another scalar type.
retype: Callable[[type[ArrayBase], int], type[ArrayBase]] = functools.cache(_retype)  # type: ignore[assignment]
#: The array type over the same scalar type with another static shape; a dynamically sized one where none exists.
reshape: Callable[[type[ArrayBase], tuple[int, ...]], type[ArrayBase]] = functools.cache(_reshape)  # type: ignore[assignment]


def _namespace(record: Record, module: str, name: str) -> dict[str, Any]:
    """Attributes of a concrete type: the record, and what the operators need of it without a call."""
    info = TYPES[record.type]
    floating = info.kind == "f"
    largest = math.ldexp(1 - 2.0**-53, 1024)  # of a Python float: an int beyond cannot become one
    return {
        "__slots__": (), "__module__": module, "__qualname__": name, "__meta__": str(record),
        "_record": record, "_type": record.type, "_kind": info.kind, "_name": f"{module}.{name}",
        # Python scalars that the operators may turn into a literal of this type without further ado.
        "_floating": floating,
        "_low": -largest if floating else info.minimum if info.kind != "b" else 1,
        "_high": largest if floating else info.maximum if info.kind != "b" else 0,
        "_depth": len(record.shape),
        "_size": record.shape[0] if record.shape else -1,  # of the outermost static dimension
        "_count": math.prod(record.shape) if -1 not in record.shape else -1,  # of components
    }


def install(namespace: dict[str, Any], backend: JitBackend) -> None:
    """Make the array types of a backend package in its module's namespace, and list them in its ``__all__``."""
    from ._flat import FlatArray
    from ._nested import NestedArray

    module = namespace["__name__"]
    names: list[str] = []

    def make(record: Record, name: str, base: type, aliases: tuple[str, ...] = ()) -> None:
        cls: Any = type(name, (base,), _namespace(record, module, name))
        _classes[record] = cls
        for alias in (name, *aliases):
            namespace[alias] = cls
            names.append(alias)
        # Masks come first, inner dimensions before outer ones.
        cls._mask = _classes[record._replace(type=BOOL)]
        cls._leaf = _classes[record._replace(shape=())]
        cls._value = (_classes[record._replace(shape=record.shape[1:])] if record.shape
                      else {"b": bool, "i": int, "u": int, "f": float}[cls._kind])

    for scalar, (name, *aliases), suffix in _SCALARS:
        make(Record(backend, scalar.value, "array", ()), name, FlatArray, tuple(aliases))
        for digits, shape in _SHAPES.items():
            make(Record(backend, scalar.value, "array", shape), f"Array{digits}{suffix}", NestedArray)
    namespace["__all__"] = sorted(names)
