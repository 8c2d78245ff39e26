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
    types, out, helpers = emitter.types(uniform), emitter.lines, emitter.module.helpers
    if function.name not in helpers:
        text = _text(emitter.module, function)  # what it needs in turn comes first
        helpers[function.name] = text
    arguments = ", ".join(f"{types[operand.type]} {emitter.value(operand, uniform)}"
                          for operand in instruction.operands)
    results = (instruction, *instruction.results)
    names = [f"%v{result.number}" for result in results]
    returned = _returned([types[result.type] for result in results])
    if len(names) == 1:
        out.append(f"{names[0]} = call {returned} @{function.name}({arguments})")
    else:
        out.append(f"{names[0]}_results = call {returned} @{function.name}({arguments})")
        out += [f"{name} = extractvalue {returned} {names[0]}_results, {i}" for i, name in enumerate(names)]
    for result, name in zip(results, names, strict=True):
        emitter.define(result, name)
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
    returned = _returned([type_ for type_, _ in values])
    if len(values) == 1:
        end = [f"ret {returned} {values[0][1]}"]
    else:
        end, before = [], "poison"
        for i, (type_, value) in enumerate(values):
            end.append(f"%all{i} = insertvalue {returned} {before}, {type_} {value}, {i}")
            before = f"%all{i}"
        end.append(f"ret {returned} {before}")
    arguments = ", ".join(f"{types[argument.type]} %a{number}" for number, argument in enumerate(function.arguments))
    return emitter.text(f"internal {returned} @{function.name}({arguments}) noinline #0"
                        f"{' !prof !2' if function.rare else ''}", end=end)
