"""What the stubs need to know about the array types: which exist, which are made from others, which fit into which."""

from __future__ import annotations

from drjit._base import types
from drjit._base.records import _SCALARS, _STEMS, NOT_LISTED, Record, parse
from drjit_core import TYPES, JitBackend

__all__ = ["FITS", "LISTED", "PACKAGES", "PYTHON", "SCALARS", "SLOTS", "exists", "fits", "kind", "leaf", "letter",
           "mask", "package_of", "plain", "reduced", "shape_class", "value"]

#: Packages of array types, each after those whose arrays it combines with and whose results it then has.
PACKAGES: dict[str, tuple[JitBackend, bool]] = {
    "scalar": (JitBackend.Invalid, False), "llvm": (JitBackend.LLVM, False), "llvm.ad": (JitBackend.LLVM, True),
    "cuda": (JitBackend.CUDA, False), "cuda.ad": (JitBackend.CUDA, True),
}
_NAMES = {key: name for name, key in PACKAGES.items()}
PYTHON = {"b": "bool", "i": "int", "u": "int", "f": "float"}

#: Scalar types in the order of promotion: number and name of the class that stands for it.
SCALARS: dict[int, str] = {scalar.value: "_B" if info.kind == "b" else
                           f"_{info.kind.upper()}{'' if info.code else 'B'}{8 * info.size}"
                           for scalar, _, _ in _SCALARS for info in [TYPES[scalar.value]]}
#: Those of which vectorised packages list flat arrays.
SLOTS = [scalar.value for scalar, names, _ in _SCALARS if names[0] not in NOT_LISTED]


def _listed(package: str) -> dict[Record, str]:
    backend, diff = PACKAGES[package]
    records = [parse(name, backend, diff) for name in types._listed(backend)]
    return {record: record.name for record in records
            if record is not None and not (backend is types.SCALAR and not record.shape and record.kind == "array")}


#: Records and names of the types of a package; the flat types of ``drjit.scalar`` are Python's, and left out.
LISTED: dict[str, dict[Record, str]] = {package: _listed(package) for package in PACKAGES}


def package_of(record: Record) -> str:
    """The package that a type belongs to."""
    return _NAMES[record.backend, record.diff]


def exists(record: Record) -> bool:
    """Whether a package lists the type."""
    return record in LISTED[package_of(record)]


def letter(record: Record) -> str:
    """Kind of the scalar type: b, i, u or f."""
    return TYPES[record.type].kind


def kind(record: Record) -> str:
    """Name of the kind of behaviour: Mask, Integer, Float, Matrix, Complex or Quaternion."""
    if record.kind in ("array", "tensor"):
        return {"b": "Mask", "f": "Float"}.get(letter(record), "Integer")
    return record.kind.capitalize()


# --- types that follow from a type -----------------------------------------------------------------------------------


def mask(record: Record) -> Record:
    """The type of comparisons."""
    return record._replace(kind="tensor" if record.kind == "tensor" else "array", type=types.BOOL)


def leaf(record: Record) -> Record:
    """The flat type."""
    return record._replace(kind="array", shape=())


def value(record: Record) -> Record:
    """The type of an entry: a flat type of the scalar package stands for a Python number."""
    if record.kind == "tensor":
        return record
    if not record.shape:
        return record._replace(backend=types.SCALAR, diff=False)
    return record._replace(kind="array", shape=record.shape[1:])


def reduced(record: Record) -> Record:
    """The type of a sum."""
    return record if record.kind == "tensor" or not record.shape else value(record)


def plain(record: Record) -> Record:
    """The type of ``.array``."""
    if record.kind != "tensor":
        return record._replace(kind="array")
    return record._replace(kind="array", shape=(-1,) if record.backend is types.SCALAR else ())


# --- shapes, and which of them broadcast to which --------------------------------------------------------------------


def shape_class(kind: str, shape: tuple[int, ...]) -> str:
    """Name of the class of what can be broadcast to a shape."""
    stem = _STEMS.get((kind, shape), "Flat")
    return f"_Fits{stem}"


#: Kinds and shapes of all types, flat ones first.
SHAPES: list[tuple[str, tuple[int, ...]]] = [("array", ()), *_STEMS]


def _broadcasts(source: tuple[str, tuple[int, ...]], target: tuple[str, tuple[int, ...]]) -> bool:
    """Whether operands of a shape may be combined with another one, whose shape the result has."""
    (source_kind, own), (target_kind, other) = source, target
    if source == target or source_kind != "array":
        return False
    if target_kind == "matrix":  # that an array of its shape fits as well is in `also_fits`, as its rows do not
        return not own
    if target_kind != "array":
        return not own or own == other
    if other == (-1,):
        return len(own) < 2
    return len(own) < len(other) and other[len(other) - len(own):] == own


def _covers(source: tuple[str, tuple[int, ...]]) -> list[tuple[str, tuple[int, ...]]]:
    """The nearest shapes that a shape broadcasts to."""
    above = [target for target in SHAPES if _broadcasts(source, target)]
    return [target for target in above if not any(_broadcasts(other, target) for other in above)]


#: By class of a shape, in an order such that each stands after those that it refers to.
FITS: dict[str, list[str]] = {}
for _shape in sorted(SHAPES, key=lambda shape: sum(_broadcasts(shape, other) for other in SHAPES)):
    FITS[shape_class(*_shape)] = [shape_class(*other) for other in _covers(_shape)]


def fits(record: Record) -> list[str]:
    """The classes that say what a type can be broadcast to."""
    found = [shape_class(record.kind, record.shape)]
    if record.kind == "array" and ("matrix", record.shape) in _STEMS:
        found.append(shape_class("matrix", record.shape))
    return found
