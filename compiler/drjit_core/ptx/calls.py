"""PTX text of functions and of their calls.

A function gets values one by one, masks and small types as words, and gives all its results in one piece, since PTX
permits one.  A table in memory tells the number of the function of each target, and where its record is; which
functions there may be is part of the program.  One is called directly, a few are chosen by comparisons, more by a table
of labels.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.linear import Function, Instruction
from ..codegen.records import ENTRY_WORDS
from ..types import BOOL, POINTER, UINT64
from .function import FALSE, TRUE, FunctionEmitter
from .module import ModuleContext
from .texts import Lines, T

__all__ = ["Callee", "call", "expansion", "function_of"]

#: From so many functions on, a call looks the label up instead of comparing numbers.
_COMPARED = 4
_Values = Sequence[tuple[int, str]]  # types and registers


class Callee:
    """A function of the module that can be called."""

    def __init__(self, name: str, types: Sequence[int], results: Sequence[int]) -> None:
        self.name = name
        self.types, self.results = types, results
        self.lines: Lines = []  # the text without the head

    @property
    def head(self) -> str:
        """What is declared."""
        given = ", ".join(f".param .b{_width(type_)} a{place}" for place, type_ in enumerate(self.types))
        returned = f"(.param .align 8 .b8 r[{8 * len(self.results)}]) " if self.results else ""
        return f".func {returned}{self.name} ({given})"

    def call(self, emitter: FunctionEmitter, arguments: _Values, results: _Values) -> None:
        """Text of a call."""
        out, after = emitter.lines, []
        out.append("{")
        for place, (type_, value) in enumerate(arguments):
            out.append(f".param .b{_width(type_)} x{place};")
            out += _give(emitter, type_, value, f"x{place}")
        if results:
            out.append(f".param .align 8 .b8 y[{8 * len(results)}];")
            for place, (type_, target) in enumerate(results):
                after += receive(emitter, type_, f"y+{8 * place}", target)
        given = f", ({', '.join(f'x{place}' for place in range(len(arguments)))})" if arguments else ""
        out += [f"call {'(y), ' if results else ''}{self.name}{given};", *after, "}"]


def _width(type_: int) -> int:
    """Bits of a parameter."""
    return max(32, T[type_].word)


def _give(emitter: FunctionEmitter, type_: int, value: str, name: str) -> Lines:
    """Text that stores an argument or a result."""
    t = T[type_]
    if t.word >= 32:
        return [f"st.param.b{t.word} [{name}], {value};"]
    word = emitter.register("%r")
    if type_ != BOOL:
        line = f"cvt.u32.u16 {word}, {value};"
    elif value in (TRUE, FALSE):
        line = f"mov.b32 {word}, {int(value == TRUE)};"
    else:
        line = f"selp.b32 {word}, 1, 0, {value};"
    return [line, f"st.param.b32 [{name}], {word};"]


def receive(emitter: FunctionEmitter, type_: int, name: str, target: str) -> Lines:
    """Text that loads an argument or a result."""
    t = T[type_]
    if t.word >= 32:
        return [f"ld.param.b{t.word} {target}, [{name}];"]
    word = emitter.register("%r")
    return [f"ld.param.b32 {word}, [{name}];",
            f"setp.ne.u32 {target}, {word}, 0;" if type_ == BOOL else f"cvt.u16.u32 {target}, {word};"]


def function_of(module: ModuleContext, function: Function, has_record: bool) -> Callee:
    """A function of the linear program."""
    given = [*function.arguments, *function.extras]
    callee = Callee(function.name, [*((POINTER,) if has_record else ()), *(value.type for value in given)],
                    [value.type for value in function.results])
    emitter = FunctionEmitter(module, function)
    if has_record:
        emitter.record = emitter.register("%rd")
        emitter.prologue += receive(emitter, POINTER, "a0", emitter.record)
    for place, value in enumerate(given, has_record):
        register = emitter.new(value.type)
        emitter.prologue += receive(emitter, value.type, f"a{place}", register)
        emitter.define(value, [register])
    if function.live is not None:
        emitter.define(function.live, [TRUE])
    emitter.run()
    for place, value in enumerate(function.results):
        emitter.lines += _give(emitter, value.type, emitter.value(value), f"r+{8 * place}")
    callee.lines = ["{", *emitter.declarations(), *emitter.variables, *emitter.prologue, *emitter.entry, *emitter.body,
                    "ret;", "}"]
    return callee


def expansion(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A call of a function that computes expansions."""
    assert instruction.function is not None
    callee = emitter.module.need(instruction.function)
    results = (instruction, *instruction.results)
    names: list[list[str]] = [[] for _ in results]
    for lane in emitter.each(instruction):
        found = [(result.type, emitter.new(result.type)) for result in results]
        callee.call(emitter, [(value.type, emitter.value(value, lane)) for value in instruction.operands], found)
        for place, (_, register) in enumerate(found):
            names[place].append(register)
    for result, registers in zip(results, names, strict=True):
        emitter.define(result, registers)


def call(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Each thread calls the target of its element."""
    site, (target, wanted, *_) = instruction.site, instruction.operands
    assert site is not None and emitter.lanes == 1
    out, done = emitter.lines, emitter.label("called")
    results = [(type_, emitter.new(type_)) for type_ in site.results]
    out += [emitter.clear(type_, register) for type_, register in results]
    table, limit = emitter.parameter(site.slot), emitter.parameter(site.slot + 1, "u32")
    index, unknown, entry, number, record = emitter.value(target), *emitter.registers("%p", "%rd", "%rd", "%rd")
    emitter.skip(emitter.wanted(wanted, 0, instruction.uniform and emitter.function.vectorized), done)
    out += [f"setp.ge.u32 {unknown}, {index}, {limit};", f"@{unknown} bra {done};",
            f"mad.wide.u32 {entry}, {index}, {8 * ENTRY_WORDS}, {table};"]
    if len(site.functions) > 1:
        out.append(f"ld.global.nc.u64 {number}, [{entry}];")
    out.append(f"ld.global.nc.u64 {record}, [{entry}+8];")
    arguments = [(value.type, emitter.value(value)) for value in site.arguments]
    extras = [(value.type, emitter.value(value)) for value in site.extras]
    first = len(site.arguments) + len(site.results)
    labels = [emitter.label("target") for _ in site.functions]
    if len(site.functions) > _COMPARED:
        _choose(emitter, site.functions, number, labels)
    for place, function in enumerate(site.functions):
        callee, places = emitter.module.targets[function], emitter.module.linear.targets[function].places
        if len(site.functions) > _COMPARED:
            out.append(f"{labels[place]}:")
        elif place < len(site.functions) - 1:
            out += [f"setp.ne.u64 {unknown}, {number}, {function};", f"@{unknown} bra {labels[place]};"]
        callee.call(emitter, [(UINT64, record), *arguments, *(extras[at - first] for at in places)], results)
        if place < len(site.functions) - 1:
            out.append(f"bra {done};")
            if len(site.functions) <= _COMPARED:
                out.append(f"{labels[place]}:")
    out.append(f"{done}:")
    emitter.define(instruction, [register for _, register in results])


def _choose(emitter: FunctionEmitter, functions: Sequence[int], number: str, labels: Sequence[str]) -> None:
    """Go to one of several labels: by a table, in which numbers that lie between have the first one."""
    low, high = min(functions), max(functions)
    by_number = dict(zip(functions, labels, strict=True))
    place, table = emitter.register("%r"), emitter.label("table")
    listed = ", ".join(by_number.get(each, labels[0]) for each in range(low, high + 1))
    emitter.lines += [f"cvt.u32.u64 {place}, {number};", f"sub.u32 {place}, {place}, {low};",
                      f"{table}: .branchtargets {listed};", f"brx.idx {place}, {table};"]
