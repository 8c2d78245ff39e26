"""Expressions whose types are known at runtime, as programs for type checkers.

An expression is evaluated, and becomes the line ``assert_type(<expression>, <its type>)``; one that raises becomes a
plain line, which a checker may object to.
"""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import drjit as dr
from drjit import llvm, scalar

ad = llvm.ad
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "@", "==", "!=", "<", ">="]
MODULES = {"llvm": llvm, "ad": ad, "scalar": scalar}
#: Types whose pairs are all tried.
CORE = ["llvm.Float", "llvm.Int", "llvm.UInt", "llvm.Bool", "llvm.Float64", "llvm.Int64", "llvm.Array3f", "llvm.Array3i",
        "llvm.Array3b", "llvm.ArrayXf", "llvm.Array33f", "llvm.Matrix3f", "llvm.Complex2f", "llvm.Quaternion4f",
        "llvm.TensorXf", "llvm.TensorXi"]
NUMBERS = {"True": "bool", "2": "int", "1.5": "float"}
HEAD = """\
from typing import Any, assert_type
import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import ad
"""


class Sample(NamedTuple):
    """An expression, and the annotation of its type: None if it raises."""

    text: str
    type: str | None


def annotation(value: Any) -> str:
    """How a program would write the type of a value."""
    if isinstance(value, tuple):
        return f"tuple[{', '.join(map(annotation, value))}]"
    if isinstance(value, list):
        return f"list[{annotation(value[0])}]" if value else "list[Any]"
    if isinstance(value, type):
        return f"type[{annotation_of(value)}]"
    return "None" if value is None else annotation_of(type(value))


def annotation_of(cls: type) -> str:
    module = cls.__module__.removeprefix("drjit.").replace("llvm.ad", "ad")
    return cls.__name__ if module == "builtins" else f"{module}.{cls.__name__}"


def names(package: str) -> list[str]:
    """The types of a package, without aliases and numbers of Python."""
    module = MODULES[package]
    return [f"{package}.{name}" for name in module.__all__ if isinstance(found := getattr(module, name), type)
            and issubclass(found, dr.ArrayBase) and found.__name__ == name and not name.startswith("Array0")
            and not (package == "scalar" and name.startswith("Tensor"))]


def variable(name: str) -> str:
    return name.replace(".", "_")


class Program:
    """Variables of some types, and samples."""

    def __init__(self, types: Iterable[str]) -> None:
        self.types = {name: getattr(MODULES[name.split(".")[0]], name.split(".")[1]) for name in types}
        self.names: dict[str, Any] = {"dr": dr, "llvm": llvm, "ad": ad, "scalar": scalar}
        for name, cls in self.types.items():
            value: Any = True if cls._kind == "b" else 1
            self.names[variable(name)] = cls([value]) if cls._special == "tensor" else cls(value)
        self.samples: list[Sample] = []

    def add(self, text: str) -> None:
        """Evaluate an expression."""
        try:
            found: str | None = annotation(eval(text, dict(self.names)))
        except Exception:
            found = None
        self.samples.append(Sample(text, found))

    def text(self) -> tuple[str, dict[int, Sample]]:
        """The program, and its samples by line."""
        lines = HEAD.splitlines()
        lines += [f"{variable(name)} = {name}(1)" for name in self.types]
        where = {}
        for sample in self.samples:
            lines.append(f"assert_type({sample.text}, {sample.type})" if sample.type else f"_ = {sample.text}")
            where[len(lines)] = sample
        return "\n".join(lines) + "\n", where


def operators(seed: int, count: int) -> Program:
    """All operators on all pairs of the core types, and on random pairs of all types."""
    choose = random.Random(seed)
    program = Program([*CORE, *(name for package in MODULES for name in names(package) if name not in CORE)])
    operands = [*map(variable, CORE), *NUMBERS]
    for a, b in itertools.product(operands, repeat=2):
        if a in NUMBERS and b in NUMBERS:
            continue
        for operator in OPERATORS:
            program.add(f"{a} {operator} {b}")
    everything = list(map(variable, program.types))
    for _ in range(count):
        a = choose.choice(everything)
        b = choose.choice([*NUMBERS, *choose.choices(everything, k=20)])
        program.add(f"{a} {choose.choice(OPERATORS)} {b}" if choose.random() < 0.5 else
                    f"{b} {choose.choice(OPERATORS)} {a}")
    for name in everything:
        for text in ("-{}", "+{}", "~{}", "abs({})", "{}[0]", "{}[:]", "{}.x", "{}.zyx", "{}.wx", "{}.real", "{}.imag", "{}.T",
                     "{}.array", "{}.shape", "{}.ndim", "len({})", "next(iter({}))", "{}[0, 0]", "dr.sum({})"):
            program.add(text.format(name))
    return program


#: Functions that are no mathematics.
LEFT_OUT = {"print", "eval", "schedule", "make_opaque", "set_label", "whos", "graphviz", "sync_thread", "set_backend",
            "set_expand_threshold", "set_flag", "set_log_level", "set_thread_count", "flush_kernel_cache",
            "flush_malloc_cache", "kernel_history", "kernel_history_clear", "flag", "has_backend", "log_level",
            "binary_search", "while_loop", "scatter", "scatter_add", "scatter_reduce", "expand_threshold", "thread_count",
            "assert_true", "assert_false", "assert_equal", "assert_allclose", "format", "copy", "shape", "width"}


def functions() -> Program:
    """All functions that take one to three arguments without further ado, on arguments of many types."""
    program = Program([*CORE, "llvm.Matrix4f", "llvm.Array2f", "ad.Float", "ad.Array3f", "scalar.Array3f", "scalar.Array3b",
                       "scalar.Matrix3f", "scalar.Complex2f", "llvm.Float16", "llvm.TensorXb", "llvm.Array33b"])
    operands = [*map(variable, program.types), *NUMBERS]
    few = ["llvm_Float", "llvm_Int", "llvm_Array3f", "llvm_Array3i", "llvm_Bool", "llvm_Array3b", "llvm_Complex2f",
           "llvm_Matrix3f", "llvm_Quaternion4f", "llvm_TensorXf", "ad_Float", "scalar_Array3f", *NUMBERS]
    fewer = ["llvm_Float", "llvm_Int", "llvm_Array3f", "llvm_Array3b", "llvm_Bool", *NUMBERS]
    for name in sorted(dr.__all__):
        function = getattr(dr, name)
        if name in LEFT_OUT or not inspect.isfunction(function) or function.__module__.startswith("drjit_core"):
            continue
        parameters = list(inspect.signature(function).parameters.values())
        needed = sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
        pools = {1: operands, 2: few, 3: fewer}.get(needed)
        if pools is None or any(p.kind is p.VAR_POSITIONAL for p in parameters) and not needed:
            continue
        for arguments in itertools.product(pools, repeat=needed):
            program.add(f"dr.{name}({', '.join(arguments)})")
    return program
