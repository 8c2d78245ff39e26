"""The stubs of public functions, from their signatures at runtime and, where types depend on arguments, from patterns.

The names, the order and the defaults of parameters are always those of the function. Their types are its annotations;
a pattern replaces those that the annotations cannot express, because the result depends on several arguments. The
function of a row of the op table needs no entry here: its pattern follows from the row.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import drjit
from drjit._base import typing as _typing
from drjit_core import FUNCTIONS, Op

from . import base
from .records import PACKAGES

__all__ = ["function_stubs"]

_SEVEN = ", ".join(base.SEVEN)


def _array(*names: str, cls: str = "ArrayBase", parameters: Sequence[str] = base.SEVEN) -> str:
    """An array where only some of the parameters of its class count."""
    return f"{cls}[{', '.join(name if name in names else 'Any' for name in parameters)}]"


#: Abbreviations in patterns.
_SHORT = {
    "Array": f"ArrayBase[{_SEVEN}]", "Reduced": _array("RedT"), "Masked": _array("MaskT"), "Valued": _array("ValT"),
    "Plain": _array("PlainT"), "Entries": "Sequence[Any]", "Operand": "AnyArray | float",
    "Argument": "AnyArray | float | _NumPyArray",
    "Mask": "_MaskCpT | bool", "Choice": "AnyArray | bool",
    "Selected": _array("SelfT", "SelfCpT", "_MaskCpT", cls="_Array", parameters=base.COMMON),
}
#: Types of parameters by name, where the function has no annotation that says more than ``Any``.
_PARAMETERS = {
    "axis": "int | tuple[int, ...] | EllipsisType | None", "mode": 'Literal["symbolic", "evaluated"] | None',
    "shape": "int | Sequence[int]", "active": "AnyArray | Sequence[bool] | bool",
}

# A pattern is a list of overloads, `types -> result`: types of the first parameters, in order; `name: type` stands for
# a parameter by its name, which then has no default unless `= …` follows.
_BINARY = ["Array, SelfCpT -> SelfT", "SelfCpT, Array -> SelfT"]
_WEAK = ["_Chooses[Any, _R, Any], int -> _R", "int, _Chooses[Any, _R, Any] -> _R",
         "_WithFloat[_R, Any], _Numbers -> _R", "_Numbers, _WithFloat[_R, Any] -> _R"]
_FLAT = ["_AnyFlat, AnyArray -> Any", "AnyArray, _AnyFlat -> Any"]  # a nested array over other scalars
_FOREIGN_PAIR = ["_NumPyArray, Argument -> Any", "Operand, _NumPyArray -> Any"]
_NUMBERS = {"i": "int", "f": "float"}
_DEFAULT_AXIS = "axis: EllipsisType = ..., keepdims: Literal[False] = ..."


def _reduction(numbers: list[str]) -> list[str]:
    return [f"Reduced, {_DEFAULT_AXIS} -> RedT", "_Tensor[T] -> T", "_HasLeaf[_R], axis: None -> _R", *numbers,
            "AnyArray | Entries -> Any"]


_REDUCE = _reduction(["int -> int", "float -> float"])
_AVERAGE = _reduction(["float -> float"])
_TEST = [f"Reduced, {_DEFAULT_AXIS} -> RedT", "_Tensor[T] -> T", "_HasLeaf[_R], axis: None -> _R", "bool -> bool",
         "AnyArray | Entries -> Any"]
_LENGTH = [f"Reduced, {_DEFAULT_AXIS} -> RedT", "_Tensor[T] -> T", "AnyArray | Entries -> Any"]
_DOT = [*(f"{pair} -> RedT" for pair in ("Array, SelfCpT", "SelfCpT, Array")),
        "AnyArray | Entries, AnyArray | Entries -> Any"]
_TERNARY = ["Array, SelfCpT, SelfCpT -> SelfT", "SelfCpT, Array, SelfCpT -> SelfT",
            "int, int, _Chooses[Any, _R, Any] -> _R", "_Chooses[Any, _R, Any], int, int -> _R",
            "int, int, Array -> SelfT", "float, float, _WithFloat[_R, Any] -> _R", "float, float, Array -> SelfT",
            "_WithFloat[_R, Any], float, float -> _R", "int, int, int -> int", "float, float, float -> float",
            "Argument, Argument, Argument -> Any"]
_REAL = ["ArrayT -> ArrayT", "float -> float"]
_OF_ENTRIES = ["_Matrices[Any, Any, Any, Any, _R] -> _R"]
_FOREIGN = "_NumPyArray -> Any"
_ANGLE = ["_WithFloat[_R, Any] -> _R", "ArrayT -> ArrayT", "float -> float", _FOREIGN]
_TYPE = "{0} | type[{0}] -> type[{1}]"

_PATTERNS: dict[str, list[str]] = {
    "lerp": ["Array, SelfCpT, int -> SelfT", "_WithFloat[_R, Any], _Numbers, float -> _R",
             *(pattern for pattern in _TERNARY if pattern != "int, int, int -> int")],
    "power": ["_Chooses[T, Any, Any], bool -> T", "_Chooses[Any, _R, Any], int -> _R", "float, _PowerOf[_R] -> _R",
              *_BINARY, "_WithFloat[_R, Any], float -> _R", *_FLAT, "float, float -> float", *_FOREIGN_PAIR],
    "step": ["_HasInt[_R], float -> _R", "float, _HasInt[_R] -> _R", "AnyArray, AnyArray -> Any",
             "float, float -> int"],
    "mul_wide": ["AnyArray, AnyArray | int -> Any", "int, AnyArray -> Any", "int, int -> int"],
    "abs": [_FOREIGN, "SupportsAbs[T] -> T"],
    "select": [
        "_Chooses[T, Any, Any], bool, bool -> T", "_Chooses[Any, _R, Any], int, int -> _R",
        "_Chooses[Any, Any, _R], float, float -> _R",
        "Mask, Selected, SelfCpT -> SelfT", "Mask, SelfCpT, Selected -> SelfT",
        "Mask, _WeakMask[_R, _MaskCpT], int -> _R", "Mask, int, _WeakMask[_R, _MaskCpT] -> _R",
        "Mask, _WithFloat[_R, _MaskCpT], float -> _R", "Mask, float, _WithFloat[_R, _MaskCpT] -> _R",
        "bool, int, int -> int", "bool, float, float -> float",
        "Choice, AnyArray, Operand -> Any", "Choice, Operand, AnyArray -> Any", "Choice, T, T -> T"],
    "rad2deg": _ANGLE, "deg2rad": _ANGLE,
    **dict.fromkeys(["sum", "prod", "min", "max", "reduce"], _REDUCE),
    **dict.fromkeys(["mean", "var", "std"], _AVERAGE),
    **dict.fromkeys(["all", "any", "none"], _TEST),
    "count": [f"_Counts[_R], {_DEFAULT_AXIS} -> _R", "bool -> int", "AnyArray | Entries -> Any"],
    "norm": _LENGTH, "squared_norm": _LENGTH, "dot": _DOT, "abs_dot": _DOT, "unit_angle": _DOT,
    "cross": _BINARY, "normalize": ["ArrayT -> ArrayT"],
    "det": _OF_ENTRIES, "trace": _OF_ENTRIES, "frob": _OF_ENTRIES,
    "diag": ["_Matrices[Any, Any, _R, Any, Any] -> _R", "AnyArray -> Any"],
    "arange": ["type[T], size: int -> T", "type[T], start: int, stop: int, step: int = ... -> T"],
    "reshape": ["type[T], value: Any, shape: int | Sequence[int], order: str = ..., shrink: bool = ... -> T",
                "value: T, shape: int | Sequence[int], order: str = ..., shrink: bool = ... -> T"],
    # Those of the scalar backend, whose flat type is a number, have another type of any length.
    "ravel": ["_HasLeaf[bool] | _HasLeaf[int] | _HasLeaf[float] -> Any", "_HasLeaf[_R] -> _R"],
    "linear_to_srgb": _REAL, "srgb_to_linear": _REAL,
    "matmul": ["_Matrices[SelfT, SelfCpT, Any, Any, Any], SelfCpT -> SelfT",
               "_Matrices[Any, Any, ValT, ValCpT, Any], ValCpT -> ValT", "Operand, Operand -> Any"],
    "real": ["_HasReal[_R] -> _R"], "imag": ["_HasImag[_R] -> _R"],
    "arg": ["_WithFloat[_R, Any] -> _R", "float -> float", "SupportsAbs[T] -> T"],
    "sphdir": ["per Array3: Flat, Flat | float -> Array3", "per Array3: float, Flat -> Array3", "Any, Any -> Any"],
    "sh_eval": ["Valued -> list[ValT]"],
    "matrix_to_quat": ["per Quaternion4: Matrix3 | Matrix4 -> Quaternion4"],
    "quat_to_euler": ["per Quaternion4: Quaternion4 -> Array3"],
    "euler_to_quat": ["per Quaternion4: Array3 -> Quaternion4"],
    "quat_apply": ["per Quaternion4: Quaternion4, Array3 -> Array3"],
    "transform_decompose": ["per Quaternion4: Matrix4 -> tuple[Matrix3, Quaternion4, Array3]"],
    "transform_compose": ["per Quaternion4: Matrix3, Quaternion4, Array3 -> Matrix4"],
    "value_t": ["_Tensor[Any] | type[_Tensor[Any]] -> Any", _TYPE.format("Valued", "ValT"), "object -> Any"],
    "mask_t": [_TYPE.format("Masked", "MaskT"), "object -> Any"],
    "array_t": [_TYPE.format("Plain", "PlainT"), "object -> Any"],
}



def _of_row(row: Op) -> list[str]:
    """The pattern of an elementwise function."""
    numbers = [_NUMBERS[letter] for letter in "if" if letter in row.accepts]
    if row.result == "mask":
        return ["Masked -> MaskT", "float -> bool", _FOREIGN]
    if row.result == "pair":
        return ["ArrayT -> tuple[ArrayT, ArrayT]", "float -> tuple[float, float]", "_NumPyArray -> tuple[Any, Any]"]
    if row.arity == 1:
        return ["ArrayT -> ArrayT", *(f"{number} -> {number}" for number in numbers), _FOREIGN]
    if row.arity == 2:
        weak = _WEAK if "float" in numbers else []
        return [*_BINARY, *weak, *_FLAT, *(f"{number}, {number} -> {number}" for number in numbers), *_FOREIGN_PAIR]
    return _TERNARY


def _overloads(name: str) -> list[str]:
    """The pattern of a function, or none if its annotations say everything."""
    return _PATTERNS.get(name) or (_of_row(FUNCTIONS[name]) if name in FUNCTIONS else [])


#: Functions whose ways to be called share no parameters: they sort out their arguments, and the pattern names them all.
_SORTED_OUT = {"arange", "reshape"}


# --- text ------------------------------------------------------------------------------------------------------------


def _split(text: str) -> list[str]:
    """The parts between commas that are not inside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _expand(text: str) -> str:
    """A pattern without abbreviations."""
    return re.sub(r"\b[A-Z]\w*", lambda match: _SHORT.get(match[0], match[0]), text)


def _families(pattern: str) -> Iterator[str]:
    """A pattern for each package and each floating-point type over which it has a type of a given stem."""
    stem, _, rest = pattern.removeprefix("per ").partition(": ")
    for package in PACKAGES:
        module = __import__(f"drjit.{package}", fromlist=["*"])
        for suffix in ("bf16", "f16", "f", "f64"):
            if f"{stem}{suffix}" not in module.__all__:
                continue
            flat = {"bf16": "BFloat16", "f16": "Float16", "f": "Float", "f64": "Float64"}[suffix]
            if package == "scalar" and "Flat" in rest:
                continue  # numbers, whatever their type
            rest_here = re.sub(r"\bFlat\b", f"{package}.{flat}", rest)
            yield re.sub(r"\b(Array|Matrix|Quaternion)(\d)\b", rf"{package}.\1\g<2>{suffix}", rest_here)


def _default(value: Any) -> str:
    if value is ... or isinstance(value, enum.Enum):
        return "..."
    return repr(value)


def _annotation(value: Any, name: str) -> str:
    text = "Any" if value is inspect.Parameter.empty else value if isinstance(value, str) else value.__name__
    return _PARAMETERS.get(name, text) if text in ("Any", "str | None") else text


def _parameters(function: Callable[..., Any], types: list[str]) -> str:
    """The parameters of an overload."""
    pattern = dict(part.split(": ", 1) for part in types if re.match(r"\w+: ", part))
    positional = [part for part in types if not re.match(r"\w+: ", part)]
    parameters = inspect.signature(function).parameters
    if types and function.__name__ in _SORTED_OUT:
        named = [("dtype", text) for text in positional] + list(pattern.items())
        return ", ".join(f"{name}: {text}" for name, text in named)
    result: list[str] = []
    kinds = [parameter.kind for parameter in parameters.values()]
    required = True
    for position, (name, parameter) in enumerate(parameters.items()):
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.KEYWORD_ONLY not in kinds[:position] \
                and parameter.VAR_POSITIONAL not in kinds:
            result.append("*")
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD \
            else ""
        if position < len(positional):
            text = f"{name}: {positional[position]}"
        elif name in pattern:
            text = f"{name}: {pattern[name]}"
        else:
            text = f"{name}: {_annotation(parameter.annotation, name)}"
            if parameter.default is not parameter.empty:
                text += f" = {_default(parameter.default)}"
        if not stars and parameter.kind is not parameter.KEYWORD_ONLY:
            if not required and " = " not in text:  # after one with a default: by its name only
                result.append("*")
                kinds = [parameter.KEYWORD_ONLY, *kinds]
            required = required and " = " not in text
        result.append(f"{stars}{text}")
        if parameter.kind is parameter.POSITIONAL_ONLY and kinds[position + 1:position + 2] != [parameter.kind]:
            result.append("/")
    return ", ".join(result)


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    patterns = [part for pattern in _overloads(name)
                for part in (_families(pattern) if pattern.startswith("per ") else [_expand(pattern)])]
    text = base.doc(function)
    if not patterns:
        annotation = _annotation(inspect.signature(function).return_annotation, "")
        yield f"def {name}({_parameters(function, [])}) -> {annotation}:"
        yield text or "    ..."
        return
    for pattern in patterns:
        types, _, result = pattern.rpartition(" -> ")
        if len(patterns) > 1:
            yield "@overload"
        yield f"def {name}({_parameters(function, _split(types))}) -> {result}:" + ("" if text else " ...")
        if text:
            yield text
        text = ""


# --- the public package ----------------------------------------------------------------------------------------------

_IMPORTS = """\
import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import EllipsisType, ModuleType
from typing import Any, ClassVar, Generic, Literal, Never, Protocol, SupportsAbs, TypeAlias, overload

from typing_extensions import Buffer, TypeVar, TypeVarTuple
"""
_MODULES = ["auto", "cuda", "detail", "llvm", "opt", "random", "scalar"]


#: Special methods of generic classes that checkers have to know.
_SPECIAL = "__init__", "__len__", "__getitem__", "__setitem__"


def _class(name: str, cls: type) -> list[str]:
    """The stub of a class that programs derive from, or that is generic."""
    parameters = ", ".join(parameter.__name__ for parameter in getattr(cls, "__parameters__", ()))
    lines = [f"class {name}(Generic[{parameters}]):" if parameters else f"class {name}:",
             f'    """{_first_line(cls)}"""']
    for method, function in vars(cls).items():
        if inspect.isfunction(function) and (not method.startswith("_") or parameters and method in _SPECIAL):
            lines += [f"    {line}" for line in _function(method, function)]
    return lines


def _first_line(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


def function_stubs() -> str:
    """The stub of ``drjit``."""
    core: list[str] = []
    constants: list[str] = []
    classes: list[str] = []
    functions: list[str] = []
    names: list[str] = sorted(drjit.__all__)  # type: ignore[attr-defined]  # the stub has none
    for name in names:
        found = getattr(drjit, name)
        if inspect.isfunction(found) and found.__module__.startswith("drjit_core"):
            core.append(name)
        elif inspect.isfunction(found):
            functions += _function(name, found)
        elif inspect.isclass(found) and found.__module__.startswith("drjit_core"):
            core.append(name)
        elif inspect.isclass(found) and found is not drjit.ArrayBase:
            classes += _class(name, found)
        elif name not in _MODULES and not hasattr(_typing, name):
            constants.append(f"{name}: {'None' if found is None else type(found).__name__}")
    lines = [base.HEADER + _IMPORTS, "from drjit_core import ("]
    lines += [f"    {name} as {name}," for name in core]
    lines += [")", "", "from . import " + ", ".join(f"{name} as {name}" for name in _MODULES),
              "from .random import Generator", "", "__version__: str"]
    lines += [*constants, "", *base.class_stubs(), "", *classes, *functions]
    return "\n".join(lines) + "\n"
