"""LLVM text of branches that few elements take: a call of a function, which computes packets, or one element
after the other.

All branches of one name share a function.  Elements of the last packet that do not exist may take part, since the
branch has no effects.  Values go through memory, so that little is left at the call.
"""

from __future__ import annotations

from ..codegen.linear import Function, Instruction
from ..types import BOOL
from .function import FunctionEmitter
from .module import ModuleContext

__all__ = ["branch"]

#: Texts of functions by the functions of the linear program, which live as long, and the number of lanes.
_texts: dict[tuple[Function, int], str] = {}


def branch(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A branch: its values are those that were there before, or what the function makes of the arguments."""
    function, uniform = instruction.function, instruction.uniform
    assert function is not None
    mask, *operands = instruction.operands
    before_values, arguments = operands[:len(function.results)], operands[len(function.results):]
    number, word = instruction.number, f"i{emitter.lanes}"
    out, types = emitter.lines, emitter.types(uniform)
    condition = emitter.value(mask, uniform)
    given, initial = emitter.values(arguments, uniform), emitter.values(before_values, uniform)
    before, name = emitter.label, f"%rare{number}"
    taken, done = f"rare{number}_taken", f"rare{number}_done"
    any_ = emitter.any_element(f"{name}_any", condition, uniform)
    out.append(f"br i1 {any_}, label %{taken}, label %{done}, !prof !1")
    emitter.open_block(taken)
    out.append(f"{name}_bits = {'zext' if uniform else 'bitcast'} {types[BOOL]} {condition} to {word}")
    memory = []
    for slot, (value, text) in enumerate(zip((*arguments, *before_values), (*given, *initial), strict=True)):
        memory.append(_scratch(emitter, slot))
        out.append(f"store {types[value.type]} {text}, ptr {memory[-1]}, align 64")
    if function.name not in emitter.module.helpers:
        emitter.module.helpers[function.name] = _text(emitter.module, function)
    addresses = ", ".join(f"ptr {address}" for address in memory)
    out.append(f"call void @{function.name}({word} {name}_bits, {addresses})")
    for position, (value, address) in enumerate(zip(before_values, memory[len(arguments):], strict=True)):
        out.append(f"{name}_{position}_new = load {types[value.type]}, ptr {address}, align 64")
    out.append(f"br label %{done}")
    emitter.open_block(done)
    emitter.define(instruction, name)
    for position, (value, start) in enumerate(zip(before_values, initial, strict=True)):
        out.append(f"{name}_{position} = phi {types[value.type]} [ {start}, %{before} ], "
                   f"[ {name}_{position}_new, %{taken} ]")


def _scratch(emitter: FunctionEmitter, slot: int) -> str:
    """Memory for a packet of any type."""
    name = f"%scratch{slot}"
    if name not in emitter.loaded:
        emitter.loaded.add(name)
        emitter.prologue.append(f"{name} = alloca [{8 * emitter.lanes} x i8], align 64")
    return name


def _text(module: ModuleContext, function: Function) -> str:
    """The text of a function of the mask's bits, and of addresses of arguments and values."""
    text = _texts.get((function, module.lanes))
    if text is None:
        assert BOOL not in {value.type for value in (*function.arguments, *function.results)}  # bits, if in memory
        text = (_of_packets if function.vectorized else _of_elements)(module, function)
        _texts[function, module.lanes] = text
    return text


def _of_packets(module: ModuleContext, function: Function) -> str:
    """The text of one that computes packets, of which those elements count that are in a mask."""
    emitter = FunctionEmitter(module, function, split=False)
    types, end = module.packets, []
    emitter.entry.append(f"%taken = bitcast i{module.lanes} %mask to {types[BOOL]}")
    for i, argument in enumerate(function.arguments):
        emitter.entry.append(f"%a{i} = load {types[argument.type]}, ptr %in{i}")
        emitter.define(argument, f"%a{i}")
    emitter.run()
    for i, result in enumerate(function.results):
        type_ = types[result.type]
        end += [f"%before{i} = load {type_}, ptr %out{i}",
                f"%after{i} = select {types[BOOL]} %taken, {type_} {emitter.value(result, False)}, {type_} %before{i}",
                f"store {type_} %after{i}, ptr %out{i}"]
    return emitter.text(_signature(module, function, "#0"), end=[*end, "ret void"])


def _of_elements(module: ModuleContext, function: Function) -> str:
    """The text of one that computes the elements of a mask one after the other."""
    lanes, scalars, word = module.lanes, module.scalars, f"i{module.lanes}"
    emitter = FunctionEmitter(module, function, split=False)
    body = emitter.entry
    body += ["br label %element", "element:", f"%rest = phi {word} [ %mask, %entry ], [ %next, %element ]",
             f"%number = call {word} @llvm.cttz.{word}({word} %rest, i1 true)",
             "%index = add i64 %number, 0" if lanes == 64 else f"%index = zext {word} %number to i64"]
    for i, argument in enumerate(function.arguments):
        type_ = scalars[argument.type]
        body.append(f"%at{i} = getelementptr {type_}, ptr %in{i}, i64 %index")
        body.append(f"%a{i} = load {type_}, ptr %at{i}")
        emitter.define(argument, f"%a{i}")
    emitter.run()
    for i, result in enumerate(function.results):
        type_ = scalars[result.type]
        body.append(f"%to{i} = getelementptr {type_}, ptr %out{i}, i64 %index")
        body.append(f"store {type_} {emitter.value(result, True)}, ptr %to{i}")
    body += [f"%less = sub {word} %rest, 1", f"%next = and {word} %rest, %less", f"%more = icmp ne {word} %next, 0",
             "br i1 %more, label %element, label %done", "done:", "ret void"]
    return emitter.text(_signature(module, function, "nounwind"))


def _signature(module: ModuleContext, function: Function, attributes: str) -> str:
    parameters = [f"i{module.lanes} %mask", *(f"ptr %in{i}" for i in range(len(function.arguments))),
                  *(f"ptr %out{i}" for i in range(len(function.results)))]
    return f"internal void @{function.name}({', '.join(parameters)}) noinline cold {attributes}"
