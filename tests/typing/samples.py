"""Expressions whose types are known at runtime, as programs for type checkers.

An expression is evaluated, and becomes the line ``assert_type(<expression>, <its type>)``; one that raises becomes a
plain line, which a checker may object to.
"""

from __future__ import annotations

import enum
import inspect
import itertools
import random
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import drjit as dr
from drjit import llvm, scalar

ad = llvm.ad
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "@", "==", "!=", "<", ">="]
#: One of each kind that has rules of its own.
RULES = ["+", "*", "/", "//", "**", "&", "|", "@", "==", "<"]
MODULES = {"llvm": llvm, "ad": ad, "scalar": scalar}
#: Types whose pairs are all tried.
CORE = ["llvm.Float", "llvm.Int", "llvm.UInt", "llvm.Bool", "llvm.Float64", "llvm.Int64", "llvm.Array3f",
        "llvm.Array3i", "llvm.Array3b",
        "llvm.ArrayXf", "llvm.Array33f", "llvm.Matrix3f", "llvm.Complex2f", "llvm.Quaternion4f",
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
    if isinstance(value, enum.Enum):
        return f"dr.{type(value).__name__}"
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

    @classmethod
    def joined(cls, *programs: Program) -> Program:
        """One program with the samples of several."""
        result = cls(dict.fromkeys(name for program in programs for name in program.types))
        result.samples = [sample for program in programs for sample in program.samples]
        return result

    def text(self) -> tuple[str, dict[int, Sample]]:
        """The program, and its samples by line."""
        lines = HEAD.splitlines()
        where = {}
        for start in range(0, len(self.samples), 40):  # a checker looks back from each name to where it was bound
            part = self.samples[start:start + 40]
            used = {name for sample in part for name in re.findall(r"\w+", sample.text)}
            parameters = [f"{variable(name)}: {name}" for name in self.types if variable(name) in used]
            lines.append(f"def part_{start}({', '.join(parameters)}) -> None:")
            for sample in part:
                lines.append("    " + (f"assert_type({sample.text}, {sample.type})" if sample.type else sample.text))
                where[len(lines)] = sample
        return "\n".join(lines) + "\n", where


def operators(seed: int, pairs: int, types: int) -> Program:
    """Operators on all pairs of the core types, and on random pairs of all types; members of random types."""
    choose = random.Random(seed)
    program = Program([*CORE, *(name for package in MODULES for name in names(package) if name not in CORE)])
    for a, b in itertools.product([*map(variable, CORE), *NUMBERS], repeat=2):
        for operator in RULES if a not in NUMBERS or b not in NUMBERS else ():
            program.add(f"{a} {operator} {b}")
    everything = list(map(variable, program.types))
    for _ in range(pairs):
        operands = [choose.choice(everything), choose.choice([*NUMBERS, *choose.choices(everything, k=20)])]
        choose.shuffle(operands)
        program.add(f"{operands[0]} {choose.choice(OPERATORS)} {operands[1]}")
    for name in choose.sample(everything, types):
        for member in MEMBERS:
            program.add(member.format(name))
    for package, (name, arguments) in itertools.product(MODULES, GENERATORS.items()):
        for member in dir(getattr(MODULES[package], name)):
            if member.startswith("_") or member.isupper():
                continue
            text = f"{package}.{name}({arguments}).{member}"
            if inspect.isfunction(getattr(getattr(MODULES[package], name), member)):
                for call in (f"{text}()", f"{text}({package}.Float64)", f"{text}(7)"):
                    program.add(call)
            else:
                program.add(text)
    program.add("llvm.PCG32(3) - llvm.PCG32(3)")
    program.add("ad.PCG32(3) + 5")
    return program


#: Classes that are no arrays, and arguments to make them from.
GENERATORS = {"PCG32": "1", "Philox4x32": "1, 2"}
MEMBERS = ["-{}", "+{}", "~{}", "abs({})", "{}[0]", "{}[:]", "{}.x", "{}.zyx", "{}.wx", "{}.real", "{}.imag", "{}.T",
           "{}.array", "{}.ndim", "len({})", "next(iter({}))", "{}[0, 0]", "dr.sum({})", "dr.sin({})", "dr.mask_t({})"]
#: Functions that are no mathematics, or whose result depends on values.
LEFT_OUT = """
    print eval schedule make_opaque set_label whos whos_ad graphviz graphviz_ad sync_thread set_backend
    set_expand_threshold set_flag
    set_log_level set_thread_count flush_kernel_cache flush_malloc_cache kernel_history kernel_history_clear flag
    has_backend log_level binary_search while_loop if_stmt switch dispatch instance_array syntax hint scatter
    scatter_add scatter_reduce expand_threshold thread_count
    assert_true assert_false assert_equal assert_allclose format copy shape width replace_shape_t wrap"""
FURTHER = ["llvm.Matrix4f", "llvm.Array2f", "ad.Float", "ad.Array3f", "scalar.Array3f", "scalar.Array3b",
           "llvm.Float16", "scalar.Matrix3f", "scalar.Complex2f", "llvm.TensorXb", "llvm.Array33b"]
#: Types of the arguments of functions that take two, and three.
TWO = ["llvm.Float", "llvm.Int", "llvm.Array3f", "llvm.Array3i", "llvm.Bool", "llvm.Array3b", "llvm.Complex2f",
       "llvm.Matrix3f", "llvm.Quaternion4f", "llvm.TensorXf", "ad.Float", "scalar.Array3f"]
THREE = ["llvm.Float", "llvm.Int", "llvm.Array3f", "llvm.Array3b", "llvm.Bool"]


def functions(seed: int, count: int) -> Program:
    """Calls of functions that take one to three arguments, with arguments of many types."""
    choose = random.Random(seed)
    program = Program([*CORE, *FURTHER])
    pools = {number: [*map(variable, types), *NUMBERS] for number, types in ((1, program.types), (2, TWO), (3, THREE))}
    calls = []
    left_out = LEFT_OUT.split()
    for name in sorted(dr.__all__):
        function = getattr(dr, name)
        if name in left_out or not inspect.isfunction(function) or function.__module__.startswith("drjit_core"):
            continue
        parameters = inspect.signature(function).parameters.values()
        if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
            continue
        needed = sum(parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
                     for parameter in parameters)
        for arguments in itertools.product(pools.get(needed, ()), repeat=needed):
            calls.append(f"dr.{name}({', '.join(arguments)})")
    for call in choose.sample(calls, count):
        program.add(call)
    return program
