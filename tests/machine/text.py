"""Reads PTX: as much of it as kernels are made of, and nothing else, so that a misspelling is an error."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

__all__ = ["BITS", "Function", "Instruction", "parse"]

#: NumPy's names of the types in instructions.
DTYPES = {"s8": "i1", "u8": "u1", "b8": "u1", "s16": "i2", "u16": "u2", "b16": "u2", "s32": "i4", "u32": "u4",
          "b32": "u4", "s64": "i8", "u64": "u8", "b64": "u8", "f16": "f2", "f32": "f4", "f64": "f8", "pred": "?"}
BITS = {name: 1 if name == "pred" else int(name[1:]) for name in DTYPES}

_FUNCTION = re.compile(r"(?:\.visible \.entry|\.func)\s*(?:\((.*?)\))?\s*([\w$]+)\s*\((.*)\)$")
_PARAMETER = re.compile(r"\s*\.param (?:\.align \d+ )?\.(\w+) (\w+)(?:\[(\d+)\])?$")
_REGISTERS = re.compile(r"\.reg \.(\w+) (%[a-z]+)<(\d+)>;$")
_VARIABLE = re.compile(r"\.(local|shared) \.align (\d+) \.b8 (\w+)\[(\d+)\];$")
_BRANCHES = re.compile(r"(\$\w+): \.branchtargets (.*);$")
_INSTRUCTION = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.]*)\s*(.*);$")
_DIRECTIVES = (".version ", ".target ", ".address_size ")
_MOST_THREADS = re.compile(r"\.maxntid (\d+), 1, 1$")
_DECLARED = re.compile(r"\.param (?:\.align \d+ )?\.\w+ (\w+)(?:\[\d+\])?;$")
_NAME = re.compile(r"\b[a-z]\w*")


class Instruction(NamedTuple):
    """One line."""

    guard: str  # the predicate that it asks, or nothing
    negated: bool
    opcode: str
    operands: list[str]
    line: str


class Function:
    """A kernel, or what it calls."""

    def __init__(self, name: str, parameters: list[str], results: list[str]) -> None:
        self.name, self.parameters, self.results = name, parameters, results
        self.registers: dict[str, tuple[str, int]] = {}  # types and numbers by prefix
        self.code: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.branches: dict[str, list[str]] = {}
        self.variables: dict[str, tuple[str, int]] = {}  # space and offset
        self.bytes = {"local": 0, "shared": 0}
        self.given = 0  # bytes of the parameters of a kernel
        self.most_threads = 1024  # of a block
        self.steps: list[Any] = []  # what the machine makes of the code
        self.plain: list[list[Any]] = []
        self._types: dict[str, str] = {}  # of registers

    def type_of(self, register: str) -> str:
        """The type that a register is declared as."""
        type_ = self._types.get(register)
        if type_ is None:
            match = re.fullmatch(r"(%[a-z]+)(\d+)", register)
            if match is None or match[1] not in self.registers or int(match[2]) >= self.registers[match[1]][1]:
                raise SyntaxError(f"{self.name}: {register} is not declared")
            type_ = self._types[register] = self.registers[match[1]][0]
        return type_


def _operands(text: str) -> list[str]:
    if "{" not in text and "(" not in text:
        return [each for each in map(str.strip, text.split(",")) if each]
    found, depth, start = [], 0, 0
    for place, letter in enumerate(text + ","):
        depth += (letter in "{[(") - (letter in "}])")
        if letter == "," and not depth:
            if text[start:place].strip():
                found.append(text[start:place].strip())
            start = place + 1
    return found


def _parameters(text: str | None) -> list[str]:
    found = []
    for each in filter(None, (text or "").split(",")):
        match = _PARAMETER.match(each)
        if match is None:
            raise SyntaxError(each)
        found.append(match[2])
    return found


def _bytes(parameter: str) -> int:
    match = _PARAMETER.match(parameter)
    assert match is not None
    return int(match[1][1:]) // 8 * int(match[3] or 1)


def _renamed(text: str, names: dict[str, str]) -> str:
    return _NAME.sub(lambda name: names.get(name[0], name[0]), text) if names else text


def parse(text: str) -> dict[str, Function]:
    """The functions of a module, by name."""
    functions: dict[str, Function] = {}
    current: Function | None = None
    scopes, inner = 0, dict[str, str]()  # what is declared in a block within a function has a name of its own
    for line in map(str.strip, text.splitlines()):
        if line.startswith((".visible .entry", ".func")):
            match = _FUNCTION.match(line)
            if match is None:
                raise SyntaxError(line)
            current = functions[match[2]] = Function(match[2], _parameters(match[3]), _parameters(match[1]))
            current.given = sum(_bytes(each) for each in filter(None, (match[3] or "").split(",")))
        elif line in ("{", "}"):
            scopes, inner = scopes + 1, {}
        elif line.startswith(_DIRECTIVES) or not line:
            continue
        elif current is None:
            raise SyntaxError(line)
        elif match := _MOST_THREADS.match(line):
            current.most_threads = int(match[1])
        elif match := _REGISTERS.match(line):
            current.registers[match[2]] = match[1], int(match[3])
        elif match := _VARIABLE.match(line):
            at = (current.bytes[match[1]] + 15) & -16
            current.variables[match[3]] = match[1], at
            current.bytes[match[1]] = at + int(match[4])
        elif match := _BRANCHES.match(line):
            current.branches[match[1]] = _operands(match[2])
        elif line.endswith(":"):
            if line[:-1] in current.labels:
                raise SyntaxError(f"{line} stands there twice")
            current.labels[line[:-1]] = len(current.code)
        elif match := _DECLARED.match(line):
            inner[match[1]] = f"{match[1]}_{scopes}"
        elif match := _INSTRUCTION.match(line):
            current.code.append(Instruction(match[2] or "", match[1] == "!", match[3],
                                            _operands(_renamed(match[4], inner)), line))
        else:
            raise SyntaxError(line)
    return functions
