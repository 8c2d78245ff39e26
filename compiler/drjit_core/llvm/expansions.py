"""LLVM text of expansions that a kernel has many of: a function of its module, and calls.

A function has packets as arguments and results, which are passed in registers, or is one of scalars, where all operands
are uniform.  LLVM inlines nothing of its own accord when it makes code, so that each is compiled once.
"""

from __future__ import annotations

from ..codegen.linear import Function, Instruction
from .function import FunctionEmitter
from .module import ModuleContext

__all__ = ["call"]


def call(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A call, which defines several results."""
    function, uniform = instruction.function, instruction.uniform
    assert function is not None
    w, types = emitter.writer, emitter.types(uniform)
    name = emitter.module.need(function.name, lambda: _text(emitter.module, function))
    arguments = [f"{types[operand.type]} {emitter.value(operand, uniform)}" for operand in instruction.operands]
    results = (instruction, *instruction.results)
    returned = _returned([types[result.type] for result in results])
    found = w.call(returned, name, *arguments)
    for place, result in enumerate(results):
        emitter.define(result, found if len(results) == 1 else w(f"extractvalue {returned} {found}, {place}"))
    emitter.split_block()


def _returned(types: list[str]) -> str:
    return types[0] if len(types) == 1 else f"{{ {', '.join(types)} }}"


def _text(module: ModuleContext, function: Function) -> str:
    """The text of a function."""
    uniform = not function.vectorized
    emitter = FunctionEmitter(module, function, split=False)
    types = emitter.types(uniform)
    for number, argument in enumerate(function.arguments):
        emitter.define(argument, f"%a{number}")
    emitter.run()
    values = [(types[result.type], emitter.value(result, uniform)) for result in function.results]
    returned, w = _returned([type_ for type_, _ in values]), emitter.writer
    found = values[0][1] if len(values) == 1 else "poison"
    if len(values) > 1:
        for place, (type_, value) in enumerate(values):
            found = w(f"insertvalue {returned} {found}, {type_} {value}, {place}")
    w.line(f"ret {returned} {found}")
    arguments = ", ".join(f"{types[argument.type]} %a{number}" for number, argument in enumerate(function.arguments))
    return emitter.text(f"internal {returned} @{function.name}({arguments}) noinline #0"
                        f"{' !prof !2' if function.rare else ''}")
