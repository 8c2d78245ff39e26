"""The stubs of the packages of array types: a class for each record, and the unions of what is compatible with it."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Sequence

from drjit._base import types
from drjit._base.records import TEXTURES, Record, parse
from drjit_core import TYPES

from . import base
from .records import (
    LISTED,
    PACKAGES,
    PYTHON,
    SCALARS,
    SLOTS,
    exists,
    fits,
    kind,
    leaf,
    letter,
    mask,
    plain,
    reduced,
    value,
)

__all__ = ["package_stub"]

_MARKERS = {package: "_" + package.replace(".ad", "ad").replace("scalar", "Scalar").upper() for package in PACKAGES}
_MARKERS["scalar"] = "_Scalar"
#: The packages whose arrays combine with those of a package, from which the result differs.
_BELOW = {"llvm": "_Scalar", "llvm.ad": "_LLVM", "cuda": "_Scalar", "cuda.ad": "_CUDA"}
_TAGS = {"llvm": "_OfLLVM", "llvm.ad": "_OfLLVMAD", "cuda": "_OfCUDA", "cuda.ad": "_OfCUDAAD"}
_RESULTS = {"llvm": "_OfLLVM", "llvm.ad": "_OfBothLLVM", "cuda": "_OfCUDA", "cuda.ad": "_OfBothCUDA"}


def _is_python(record: Record) -> bool:
    """Whether it is a flat type of the scalar package, that is, one of Python's."""
    return record.backend is types.SCALAR and record.kind == "array" and not record.shape


def _name(record: Record) -> str:
    """A type by its name within its package."""
    if _is_python(record):
        return PYTHON[letter(record)]
    return record.name if exists(record) else "Any"


def _compatible(record: Record) -> str:
    """The alias of what is compatible with a type."""
    return _name(record) if _is_python(record) else f"_{record.name}Cp"


def _fits(record: Record, scalar: int, package: str) -> str:
    return f"{fits(record)[0]}[{SCALARS[scalar]}, {package}]"


def _numbers(record: Record) -> str:
    return "complex" if record.kind == "complex" else PYTHON[letter(record)]


def _alias(record: Record, package: str) -> str:
    """The union of what is compatible with a type: arrays that fit, numbers, and sequences of components."""
    members = [_fits(record, record.type, _MARKERS[package]), _numbers(record)]
    if record.kind != "tensor" and record.shape:
        members.append(f"Sequence[{_compatible(value(record))}]")
    return f"_{record.name}Cp: TypeAlias = {' | '.join(members)}"


def _order(record: Record, package: str) -> str:
    """The union of the operands of comparisons."""
    top = "complex" if record.kind == "complex" else "float"
    members = [_fits(record, types.FLOAT64, _MARKERS[package]), top]
    if record.kind != "tensor" and record.shape:
        members.append("Sequence[AnyArray | complex]")
    return f"_{record.kind.capitalize()}{_digits(record)}Order: TypeAlias = {' | '.join(members)}"


def _digits(record: Record) -> str:
    return "".join("X" if size < 0 else str(size) for size in record.shape)


def _arguments(record: Record, package: str) -> dict[str, str]:
    """What stands for the type parameters."""
    def over(scalar: int) -> str:
        return _name(record._replace(type=scalar))

    below = _BELOW.get(package)
    shape = "_Fits" if not record.shape and record.kind == "array" else fits(record)[0]
    vector = record._replace(kind="array", shape=(3,))
    return {
        "SelfT": record.name, "SelfCpT": _compatible(record), "ValT": _name(value(record)),
        "ValCpT": _compatible(value(record)), "RedT": _name(reduced(record)), "PlainT": _name(plain(record)),
        "MaskT": _name(mask(record)), "_MaskCpT": _compatible(mask(record)),
        "_OrderCpT": f"_{record.kind.capitalize()}{_digits(record)}Order",
        "_BelowT": f"{shape}[_F64, {below}]" if below else "Never",
        "_BelowIntT": f"{shape}[_U64, {below}]" if below else "Never",
        "_LeafT": _name(leaf(record)), "_IntT": over(types.INT32), "_FloatT": over(types.FLOAT32),
        "_PowT": over(types.FLOAT64 if TYPES[record.type].size == 8 else types.FLOAT32),
        "_CountT": _name(reduced(record)._replace(type=types.UINT32)),
        "_EntryT": _name(value(value(record)) if value(record).shape else value(leaf(record))), "_VecT": _name(vector),
        "_FlatCpT": f"_FitsFlat[{SCALARS[record.type]}, {_MARKERS[package]}] | {_numbers(record)}",
    }


def _structure(record: Record) -> tuple[str, list[str]]:
    """The suffix of the base class, and its further parameters."""
    if record.kind == "tensor":
        return "Tensor", []
    if record.kind != "array" or not record.shape:
        return "", []
    if len(record.shape) > 1:
        return ("Rows", ["_FlatCpT"]) if kind(record) == "Float" else ("", [])
    return ("", []) if kind(record) == "Mask" else ("Vector", ["_FlatCpT"])


def _level(record: Record) -> str:
    """Which operations with a flat array a type takes part in."""
    if record.kind == "matrix":
        return ""
    return {"f": "Pow", "b": "Mask"}.get(letter(record), "Int")


def _bases(record: Record, package: str) -> Iterator[str]:
    arguments = _arguments(record, package)
    own = [*base.COMMON, *base.EXTRA[kind(record)]]
    if not record.shape and record.kind == "array":
        values = [*(arguments[name] for name in own), _TAGS[package]]
        yield f"{base.flat_class(record.type)}[{', '.join(values)}]"
    else:
        suffix, more = _structure(record)
        yield f"_{kind(record)}{suffix}[{', '.join(arguments[name] for name in [*own, *more])}]"
    if _has_components(record):
        yield f"_Components{record.shape[0]}"
    for shape in fits(record):
        yield f"{shape}[{SCALARS[record.type]}, {_MARKERS[package]}]"
    if package in _RESULTS:
        results = [_name(record._replace(type=max(record.type, scalar))) for scalar in SLOTS]
        yield f"_With{_level(record)}[{_RESULTS[package]}, {', '.join(results)}]"


def _has_components(record: Record) -> bool:
    return record.kind in ("array", "quaternion") and bool(record.shape) and 0 < record.shape[0] < 5


def _class(record: Record, package: str) -> Iterator[str]:
    head = f"class {record.name}({', '.join(_bases(record, package))}):"
    body = ""
    if _has_components(record):
        parts = (record._replace(kind="array", shape=(size, *record.shape[1:])) for size in (2, 3, 4))
        found = [f"_v{part.shape[0]}: {_name(part)}" for part in parts if exists(part)]
        body = "; ".join(found)
    yield head if body else f"{head} ..."
    if body:
        yield f"    {body}"


# --- classes that are no arrays --------------------------------------------------------------------------------------

_SCALAR_NAMES = {"uint32": types.UINT32, "uint64": types.UINT64, "bfloat16": types.BFLOAT16, "float16": types.FLOAT16,
                 "float32": types.FLOAT32, "float64": types.FLOAT64}
#: Members that return numbers, which say in their names how many, and of which type.
_DRAW = re.compile(r"(?:next|prev)_(\w+?\d\d)(?:x(\d))?(?:_normal|_bounded)?")
#: Types of parameters, by name.
_PARAMETERS = {"dtype": "type[T]", "mask": "AnyArray | bool"}
#: Properties that hold 32-bit words, and how many.
_WORDS = {"counter": 4, "seed": 2}
_OPERATORS = ("__add__", "__sub__", "__iadd__", "__isub__")


def _member_type(name: str, flat: Record) -> str | None:
    """The type of what a member returns, by its name."""
    match = _DRAW.fullmatch(name)
    if match:
        scalar, size = match.groups()
        return _name(flat._replace(type=_SCALAR_NAMES[scalar], shape=(int(size),) if size else ()))
    if name in ("state", "inc"):
        return _name(flat._replace(type=types.UINT64))
    return "T" if name.startswith(("next_float", "prev_float")) else None


def _other_class(name: str, cls: type, package: str) -> Iterator[str]:
    """The stub of a class that is no array, such as a random number generator: its public members."""
    flat = Record(PACKAGES[package][0], types.UINT32, "array", (), PACKAGES[package][1])
    yield f"class {name}:"
    yield base.doc(cls)
    for member_name in ("__init__", *(name for name in dir(cls) if not name.startswith("_"))):
        member = getattr(cls, member_name)
        found = _member_type(member_name, flat)
        if isinstance(member, property):
            if member_name in _WORDS:
                found = _name(flat._replace(shape=(_WORDS[member_name],)))
            assert member.fget is not None
            found = found or str(inspect.signature(member.fget).return_annotation)
            yield f"    @property\n    def {member_name}(self) -> {found}:\n{base.doc(member, '        ')}"
            if member.fset:
                yield f"    @{member_name}.setter\n    def {member_name}(self, value: AnyArray | int) -> None: ..."
        elif inspect.isfunction(member):
            parameters = [str(_typed(parameter)) for parameter in inspect.signature(member).parameters.values()]
            found = found or str(inspect.signature(member).return_annotation)
            yield f"    def {member_name}({', '.join(parameters)}) -> {found}:"
            yield base.doc(member, "        ") or "        ..."
    for operator in (operator for operator in _OPERATORS if operator in vars(cls.__mro__[1])):
        if operator == "__sub__":
            steps = _name(flat._replace(type=types.INT64))
            yield f"    @overload\n    def __sub__(self, other: Self, /) -> {steps}: ..."
            yield "    @overload"
        yield f"    def {operator}(self, other: AnyArray | int, /) -> Self: ..."


def _textures(names: Sequence[str], module: object, package: str) -> Iterator[str]:
    """The stubs of textures: what they have in common is a base class, and the types of their texels are their own."""
    cls = getattr(module, names[0])
    yield f"class _Texture:\n{base.doc(cls)}\n    IsTexture: bool"
    for name in ("__init__", *(name for name in dir(cls) if not name.startswith("_"))):
        member = getattr(cls, name)
        if isinstance(member, property) and member.fget is not None:
            returned = inspect.signature(member.fget).return_annotation
            yield f"    @property\n    def {name}(self) -> {returned}:\n{base.doc(member, '        ')}"
        elif inspect.isroutine(member):
            signature = inspect.signature(member.__func__ if inspect.ismethod(member) else member)
            parameters = ["cls" if p.name == "cls" else str(_typed(p)) for p in signature.parameters.values()]
            yield "    @classmethod" if inspect.ismethod(member) else ""
            yield f"    def {name}({', '.join(parameters)}) -> {signature.return_annotation}:"
            yield base.doc(member, "        ") or "        ..."
    for name in names:
        record = getattr(module, name)._record
        flat = record._replace(shape=() if record.backend is not types.SCALAR else (-1,))
        yield f"class {name}(_Texture):"
        yield f"    def value(self) -> {_name(flat)}: ..."
        yield f"    def tensor(self) -> {_name(record._replace(kind='tensor', shape=()))}: ..."


def _typed(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter with the type that its name says; defaults beyond a number are left to the source."""
    annotation = _PARAMETERS.get(parameter.name, parameter.annotation)
    if parameter.name == "self":
        annotation = parameter.empty
    return parameter.replace(annotation=_Text(annotation) if isinstance(annotation, str) else annotation)


class _Text(str):
    """An annotation that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _wrapped(names: Sequence[str]) -> Iterator[str]:
    """The lines of an import."""
    line = "   "
    for name in names:
        if len(line) + len(name) > 116:
            yield line
            line = "   "
        line += f" {name},"
    yield line


def package_stub(package: str) -> str:
    """The stub of a package of array types."""
    backend, diff = PACKAGES[package]
    records = LISTED[package]
    lines: list[str] = []
    for record in records:
        lines += _class(record, package)
    module = importlib.import_module(f"drjit.{package}")
    others = [name for name in types._listed(backend) if parse(name, backend, diff) is None]
    textures = [name for name in others if name in TEXTURES]
    for name in others:
        if name not in textures:
            lines += _other_class(name, getattr(module, name), package)
    lines += filter(None, _textures(textures, module, package))
    lines += ["", "# Aliases."]
    for name in types._listed(backend):
        found = parse(name, backend, diff)
        if found is not None and (found.name != name or _is_python(found)):
            lines.append(f"{name}: TypeAlias = {_name(found)}")
    lines += ["", "# What is compatible with a type, and what it can be compared with."]
    lines += [_alias(record, package) for record in records]
    lines += dict.fromkeys(_order(record, package) for record in records)
    text = "\n".join(lines) + "\n"
    private = [name for name in base.private_names() if f"{name}[" in text or f"{name}," in text or f" {name}" in text]
    head = [base.HEADER + "from collections.abc import Sequence",
            "from typing import Any, Never, NoReturn, Self, TypeAlias, overload", "",
            "from drjit import (", *_wrapped(["AnyArray", "FilterMode", "T", "WrapMode", *private]), ")", ""]
    if not diff and backend is not types.SCALAR:
        head.insert(-1, "from . import ad as ad")
    for name in sorted({*module.__all__} - {*types._listed(backend)}):  # what modules define that need no stub
        head.insert(-1, f"from {getattr(module, name).__module__} import {name} as {name}")
    return "\n".join(head) + "\n" + text


def auto_stub(diff: bool) -> str:
    """The stub of ``drjit.auto``, whose types are those of the LLVM backend to a type checker."""
    package = "drjit.llvm.ad" if diff else "drjit.llvm"
    names = sorted([*types._listed(PACKAGES["llvm.ad" if diff else "llvm"][0]), "Event"])
    head = "# Generated by `python -m conformance.stubs`, do not edit.\n"
    if not diff:
        head += "from . import ad as ad\n"
    lines = [f"    {name} as {name}," for name in names]
    return "\n".join([f"{head}from {package} import (", *lines, ")"]) + "\n"
