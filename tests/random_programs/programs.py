"""Values and programs: what they are, how one is printed, run, and made smaller.

This module is run by whatever implementation of ``drjit`` there is: it uses public names only, and imports nothing of
the project.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["SCALARS", "Info", "Program", "Raised", "Step", "Value", "build", "components", "extract", "info_of",
           "lane_of", "listed_types", "namespace", "perform", "run", "shrink"]

#: Suffix of a scalar type: name of the flat array, NumPy's name, name in ``VarType``.
SCALARS = {"b": ("Bool", "bool"), "i8": ("Int8", "int8"), "u8": ("UInt8", "uint8"), "i": ("Int", "int32"),
           "u": ("UInt", "uint32"), "i64": ("Int64", "int64"), "u64": ("UInt64", "uint64"),
           "f16": ("Float16", "float16"), "f": ("Float", "float32"), "f64": ("Float64", "float64")}
_FLAT = {name: suffix for suffix, (name, _) in SCALARS.items()} | {
    "Int32": "i", "UInt32": "u", "Float32": "f", "Int16": "i16", "UInt16": "u16"}
_PATTERN = re.compile(r"(Array|Matrix|Complex|Quaternion|Tensor)([0-9X]+)([biuf][0-9]*)")
_PYTHON = {"bool": "b", "int": "i", "float": "f64"}
_TYPES = Path(__file__).parent.parent / "data" / "array_types.json"


class Info(NamedTuple):
    """What the name of a type says: kind (flat, nested, matrix, complex, quaternion, tensor, python), scalar type, and
    static shape (-1 where it is dynamic)."""

    name: str
    kind: str
    scalar: str
    shape: tuple[int, ...] = ()

    @property
    def letter(self) -> str:
        """Kind of the scalar type: b, i, u or f."""
        return self.scalar[0]

    @property
    def dtype(self) -> str:
        """NumPy's name of the scalar type."""
        return SCALARS[self.scalar][1]

    @property
    def count(self) -> int:
        """Number of components; -1 if it is dynamic."""
        return int(np.prod(self.shape)) if -1 not in self.shape else -1

    def over(self, scalar: str) -> str:
        """Name of the type of this kind and shape over another scalar type."""
        if self.kind == "flat":
            return SCALARS[scalar][0]
        return self.name[:len(self.name) - len(self.scalar)] + scalar


@cache
def info_of(name: str) -> Info:
    """What the name of a type says."""
    if name in _FLAT:
        return Info(name, "flat", _FLAT[name])
    if name in _PYTHON:
        return Info(name, "python", _PYTHON[name])
    match = _PATTERN.fullmatch(name)
    if match is None:
        return Info(name, "other", "i")
    family, digits, scalar = match.groups()
    sizes = tuple(-1 if digit == "X" else int(digit) for digit in digits)
    if family == "Matrix":
        sizes = (sizes[0], *sizes)
    kind = "nested" if family == "Array" else family.lower()
    return Info(name, kind, scalar, () if kind == "tensor" else sizes)


@cache
def listed_types() -> tuple[str, ...]:
    """Names of the types that every package has."""
    names = json.loads(_TYPES.read_text("utf-8"))["llvm"]
    return tuple(sorted({name for name in names if info_of(name).kind != "other"} - {"Int32", "UInt32", "Float32"}))


# --- values -----------------------------------------------------------------------------------------------------------


class Value(NamedTuple):
    """An array as data: its components in memory order, the shape of a tensor, whether single elements are literals."""

    type: str
    parts: tuple[Any, ...]  # NumPy arrays; the number itself for Python's types
    shape: tuple[int, ...] | None = None
    literal: bool = False

    def source(self) -> str:
        """The expression that makes it."""
        info = info_of(self.type)
        if info.kind == "python":
            return repr(self.parts[0])
        flat = "T." + SCALARS[info.scalar][0]
        leaves = [f"{flat}({', '.join(repr(x) for x in part.tolist())})" for part in self.parts]
        if info.kind == "tensor":
            return f"T.{self.type}({leaves[0]}, shape={self.shape})"
        if info.kind == "flat":
            return leaves[0]
        entries = _group(leaves, info.shape, lambda items: f"[{', '.join(items)}]")
        return f"T.{self.type}({'[' + ', '.join(entries) + ']' if -1 in info.shape else ', '.join(entries)})"


def _group(items: list[Any], shape: tuple[int, ...], join: Callable[[list[Any]], Any]) -> list[Any]:
    """Items in memory order, joined along all dimensions but the outermost."""
    for size in reversed(shape[1:]):
        items = [join(items[k:k + size]) for k in range(0, len(items), size)]
    return items


class Raised(NamedTuple):
    """An exception in place of a value."""

    name: str
    message: str


def build(package: Any, value: Value, opaque: Callable[[Any], Any]) -> Any:
    """The array that a value describes, of a package of types. ``opaque`` is ``dr.make_opaque``."""
    info = info_of(value.type)
    if info.kind == "python":
        return value.parts[0]
    cls = getattr(package, value.type)
    leaf = getattr(package, SCALARS[info.scalar][0])
    if isinstance(leaf, type) and leaf in (bool, int, float):  # the scalar backend
        parts: list[Any] = [part.tolist()[0] if value.shape is None else part.tolist() for part in value.parts]
    else:
        parts = [leaf(part.tolist()[0]) if value.literal and part.size == 1 else leaf(part) for part in value.parts]
        if not value.literal:
            opaque([part for part in parts if len(part) == 1])
    if info.kind == "tensor":
        return cls(parts[0], shape=value.shape)
    if info.kind == "flat":
        return parts[0]
    entries = _group(parts, info.shape, list)
    return cls(entries) if -1 in info.shape else cls(*entries)


def components(value: Any, depth: int) -> list[Any]:
    """The flat arrays (or numbers) that an array of a depth is made of."""
    if not depth:
        return [value]
    return [leaf for k in range(len(value)) for leaf in components(value[k], depth - 1)]


def extract(result: Any) -> Value:
    """The data of a result: an array, or a Python number (others are taken for their text)."""
    name = type(result).__name__
    info = info_of(name)
    if info.kind == "python":
        return Value(name, (result,))
    if info.kind == "other":
        return Value(name, (repr(result),))
    if info.kind == "tensor":
        array, shape = result.array, tuple(result.shape)
        part = np.array(list(array), info.dtype) if type(array).__module__ == "drjit.scalar" else array.numpy()
        return Value(name, (part,), shape)
    leaves = components(result, len(info.shape))
    return Value(name, tuple(np.array([leaf], info.dtype) if type(leaf).__name__ in _PYTHON else leaf.numpy()
                             for leaf in leaves))


def lane_of(value: Value, lane: int) -> Value:
    """One element of each component."""
    if value.shape is not None or info_of(value.type).kind == "python":
        return value
    return value._replace(parts=tuple(part[lane:lane + 1] if part.size > 1 else part for part in value.parts))


# --- programs ---------------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """A line of source, with what it does and the names that it uses."""

    target: str
    op: str
    text: str
    uses: tuple[str, ...]


class Program(NamedTuple):
    """Inputs by name, and the steps in order."""

    seed: int
    lanes: bool
    inputs: dict[str, Value]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = [f"# seed {self.seed}{', lanes' if self.lanes else ''}", "import drjit as dr",
                 "from drjit import llvm as T", "inf, nan = dr.inf, dr.nan"]
        lines += [f"{name} = {value.source()}" for name, value in self.inputs.items()]
        return "\n".join(lines + [step.text for step in self.steps]) + "\n"

    @property
    def width(self) -> int:
        """Number of elements of the widest input."""
        return max((part.size for value in self.inputs.values() for part in value.parts
                    if value.shape is None and isinstance(part, np.ndarray)), default=1)

    def at(self, lane: int) -> Program:
        """The program for one element of the inputs."""
        return self._replace(inputs={name: lane_of(value, lane) for name, value in self.inputs.items()})

    def without(self, position: int) -> Program:
        """The program without a step and without all that needs it, and without inputs that are then unused."""
        lost, steps = {self.steps[position].target}, []
        for step in self.steps[:position] + self.steps[position + 1:]:
            if lost.isdisjoint(step.uses):
                steps.append(step)
            else:
                lost.add(step.target)
        return self._replace(steps=tuple(steps))._pruned()

    def _pruned(self) -> Program:
        used = {name for step in self.steps for name in step.uses}
        return self._replace(inputs={name: value for name, value in self.inputs.items() if name in used})

    def with_input(self, position: int, value: Value) -> Program:
        """The program with the result of a step as an input."""
        steps = self.steps[:position] + self.steps[position + 1:]
        return self._replace(inputs=self.inputs | {self.steps[position].target: value}, steps=steps)._pruned()


def perform(step: Step, names: dict[str, Any]) -> Any:
    """Run one step; returns its result, or the exception as :class:`Raised`."""
    try:
        exec(compile(step.text, "<step>", "exec"), names)
    except Exception as error:
        return Raised(type(error).__name__, str(error))
    return names[step.target]


def namespace(api: Any, package: Any) -> dict[str, Any]:
    """What steps may name besides values."""
    return {"dr": api, "T": package, "inf": float("inf"), "nan": float("nan")}


def run(program: Program, api: Any, package: Any, lane: int | None = None,
        after: Callable[[Any], None] | None = None) -> dict[str, Any]:
    """Run a program; the results of all steps by name. ``after`` is called with each of them."""
    names = namespace(api, package)
    for name, value in (program if lane is None else program.at(lane)).inputs.items():
        names[name] = build(package, value, api.make_opaque)
    results: dict[str, Any] = {}
    for step in program.steps:
        results[step.target] = result = perform(step, names)
        if isinstance(result, Raised):
            names.pop(step.target, None)
        elif after is not None:
            after(result)
    return results


def shrink(program: Program, fails: Callable[[Program], bool], value_of: Callable[[str], Value | None]) -> Program:
    """A smaller program that still fails: steps are left out, or become inputs with the value they have."""
    lanes = range(program.width if program.width > 1 else 0)
    single = next((lane for lane in lanes if fails(program.at(lane))), None)
    if single is not None:
        return shrink(program.at(single), fails, lambda name: (value := value_of(name)) and lane_of(value, single))
    progress = True
    while progress:
        progress = False
        for position in reversed(range(len(program.steps))):
            candidates = [program.without(position)]
            value = value_of(program.steps[position].target)
            if value is not None:
                candidates.append(program.with_input(position, value))
            for candidate in candidates:
                if candidate.steps and fails(candidate):
                    program, progress = candidate, True
                    break
            if progress:
                break
    return program
