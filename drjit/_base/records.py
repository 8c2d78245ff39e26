"""Records: what an array type is, and how it is called."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from drjit_core import TYPES, JitBackend, VarType

__all__ = ["BFLOAT16", "BOOL", "FAMILIES", "FLAT", "FLOAT16", "FLOAT32", "FLOAT64", "GENERATORS", "INT32", "INT64",
           "MODULES", "NOT_LISTED", "SCALAR", "SUFFIX", "TEXTURES", "UINT32", "UINT64", "Record", "existing", "members",
           "parse"]

BOOL, INT32, UINT32, INT64, UINT64 = (VarType[name].value for name in ("Bool", "Int32", "UInt32", "Int64", "UInt64"))
BFLOAT16, FLOAT16, FLOAT32, FLOAT64 = (
    VarType[name].value for name in ("BFloat16", "Float16", "Float32", "Float64"))

#: The backend of ``drjit.scalar``: arrays of Python numbers, computed while tracing.
SCALAR = JitBackend.Invalid

MODULES: dict[tuple[JitBackend, bool], str] = {
    (SCALAR, False): "drjit.scalar", (JitBackend.LLVM, False): "drjit.llvm", (JitBackend.LLVM, True): "drjit.llvm.ad",
    (JitBackend.CUDA, False): "drjit.cuda", (JitBackend.CUDA, True): "drjit.cuda.ad",
}

#: Scalar type, names of the flat arrays (the first is canonical) and suffix of the other ones.
_SCALARS: list[tuple[VarType, tuple[str, ...], str]] = [
    (VarType.Bool, ("Bool",), "b"),
    (VarType.Int8, ("Int8",), "i8"), (VarType.UInt8, ("UInt8",), "u8"),
    (VarType.Int16, ("Int16",), "i16"), (VarType.UInt16, ("UInt16",), "u16"),
    (VarType.Int32, ("Int", "Int32"), "i"), (VarType.UInt32, ("UInt", "UInt32"), "u"),
    (VarType.Int64, ("Int64",), "i64"), (VarType.UInt64, ("UInt64",), "u64"),
    (VarType.BFloat16, ("BFloat16",), "bf16"), (VarType.Float16, ("Float16",), "f16"),
    (VarType.Float32, ("Float", "Float32"), "f"), (VarType.Float64, ("Float64",), "f64"),
]
FLAT = {alias: scalar.value for scalar, aliases, _ in _SCALARS for alias in aliases}
_FLAT_NAME = {scalar.value: aliases[0] for scalar, aliases, _ in _SCALARS}
_BY_SUFFIX = {suffix: scalar.value for scalar, _, suffix in _SCALARS}
SUFFIX = {scalar: suffix for suffix, scalar in _BY_SUFFIX.items()}

#: Prefix, kind, and static shapes by the digits in the name (-1 is a dynamic size), with the suffixes that a package
#: lists. Types over other scalars exist as well, since intermediate results have them, but are not listed.
_VECTOR, _NESTED, _FLOATS = "b i8 u8 i u i64 u64 bf16 f16 f f64", "b bf16 f16 f f64", "bf16 f16 f f64"
FAMILIES: list[tuple[str, str, dict[str, tuple[int, ...]], str]] = [
    ("Array", "array", {"0": (0,), "1": (1,), "2": (2,), "3": (3,), "4": (4,), "X": (-1,)}, _VECTOR),
    ("Array", "array", {"22": (2, 2), "33": (3, 3), "44": (4, 4), "34": (3, 4), "41": (4, 1), "43": (4, 3),
                        "334": (3, 3, 4), "441": (4, 4, 1), "443": (4, 4, 3), "444": (4, 4, 4)}, _NESTED),
    ("Matrix", "matrix", {"2": (2, 2), "3": (3, 3), "4": (4, 4), "34": (3, 3, 4), "41": (4, 4, 1), "43": (4, 4, 3),
                          "44": (4, 4, 4)}, _FLOATS),
    ("Complex", "complex", {"2": (2,)}, "f f64"),
    ("Quaternion", "quaternion", {"4": (4,)}, _FLOATS),
    ("Tensor", "tensor", {"X": ()}, _VECTOR),
]
_SHAPES = {(prefix, digits): (kind, shape) for prefix, kind, shapes, _ in FAMILIES for digits, shape in shapes.items()}
_STEMS = {found: prefix + digits for (prefix, digits), found in _SHAPES.items()}
_PATTERN = re.compile(r"(Array|Matrix|Complex|Quaternion|Tensor)([0-9X]+)(bf16|[biuf][0-9]*)")
NOT_LISTED = {"Int16", "UInt16"}
#: Classes of a package that are no arrays, see drjit._random.generators.
GENERATORS = ("PCG32", "Philox4x32")
#: Textures, which are no arrays either, see drjit._texture.texture: names, and the scalar types of their texels.
TEXTURES = {f"Texture{dimension}{suffix}": scalar.value for dimension in (1, 2, 3) for suffix, scalar in
            (("bf16", VarType.BFloat16), ("f16", VarType.Float16), ("f", VarType.Float32), ("f64", VarType.Float64),
             ("f8u", VarType.UInt8))}


class Record(NamedTuple):
    """What an array type is."""

    backend: JitBackend
    type: int  # scalar type of the elements
    kind: str  # "array", "matrix", "complex", "quaternion" or "tensor"
    shape: tuple[int, ...]  # static sizes, outermost first, without the dynamic trailing dimension; () for flat arrays
    diff: bool = False

    def __str__(self) -> str:
        lines = [f"type={TYPES[self.type].name}"]
        if self.backend is not SCALAR:
            lines += [f"backend={self.backend.name.lower()}", "is_jit=1"]
        if self.kind != "array":
            lines.append(f"is_{self.kind}=1")
        elif self.shape:
            lines.append("is_vector=1")
        if self.diff:
            lines.append("is_diff=1")
        sizes = self.shape if self.backend is SCALAR else (*self.shape, -1)
        if self.kind == "tensor" or 0 in self.shape:
            sizes = ()
        lines.append(f"shape=({', '.join('*' if size < 0 else str(size) for size in sizes)})")
        return "ArrayMeta[\n  " + ",\n  ".join(lines) + "\n]"

    @property
    def name(self) -> str:
        """The name of the type within its package."""
        if self.kind == "array" and not self.shape:
            return _FLAT_NAME[self.type]
        return _STEMS[self.kind, self.shape] + SUFFIX[self.type]


def parse(name: str, backend: JitBackend, diff: bool) -> Record | None:
    """The record of the type that has a name in a package, or ``None``."""
    if name in FLAT:
        return Record(backend, FLAT[name], "array", (), diff)
    match = _PATTERN.fullmatch(name)
    if match is None:
        return None
    prefix, digits, suffix = match.groups()
    found, scalar = _SHAPES.get((prefix, digits)), _BY_SUFFIX.get(suffix)
    return None if found is None or scalar is None else existing(Record(backend, scalar, *found, diff))


def existing(record: Record) -> Record | None:
    """The record itself, if there is such a type."""
    if record.kind == "array" and not record.shape:
        return record
    if (record.kind, record.shape) not in _STEMS:
        return None
    return record if record.kind in ("array", "tensor") or TYPES[record.type].kind == "f" else None


def members(cls: Any) -> list[str]:
    """The attributes of an array type that are for programs: no internals, and no components that it does not have.

    Combinations of components (``.zyx``) are left out, as there are hundreds.
    """
    components = "xyzw"[:max(cls._size, 0)] if cls._special in ("", "quaternion") else ""
    transposed = cls._special in ("matrix", "tensor")

    def listed(name: str) -> bool:
        if name.startswith("_"):
            return name.startswith("__")
        if not name.strip("xyzw"):
            return name in components and len(name) == 1
        return transposed or name not in ("T", "mT")

    return list(filter(listed, type.__dir__(cls)))
