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
    function, uniform, w = instruction.function, instruction.uniform, emitter.writer
    assert function is not None
    mask, *operands = instruction.operands
    before_values, arguments = operands[:len(function.results)], operands[len(function.results):]
    word, types = f"i{emitter.lanes}", emitter.types(uniform)
    condition = emitter.value(mask, uniform)
    given, initial = emitter.values(arguments, uniform), emitter.values(before_values, uniform)
    before, taken, done = w.here, w.label("rare"), w.label("done")
    w.line(f"br i1 {emitter.any_element(condition, uniform)}, label %{taken}, label %{done}, !prof !1")
    w.open(taken)
    bits = w(f"zext i1 {condition} to {word}") if uniform else emitter.bits_of(condition)
    memory = []
    for slot, (value, text) in enumerate(zip((*arguments, *before_values), (*given, *initial), strict=True)):
        memory.append(_scratch(emitter, slot))
        w.store(types[value.type], text, memory[-1], 64)
    name = emitter.module.need(function.name, lambda: _text(emitter.module, function))
    w.run(name, f"{word} {bits}", *(f"ptr {address}" for address in memory))
    found = [w.load(types[value.type], address, 64)
             for value, address in zip(before_values, memory[len(arguments):], strict=True)]
    w.go(done)
    w.open(done)
    emitter.results[instruction.number] = [
        w.phi(types[value.type], (start, before), (new, taken))
        for value, start, new in zip(before_values, initial, found, strict=True)]
    emitter.define(instruction, "")


def _scratch(emitter: FunctionEmitter, slot: int) -> str:
    """Memory for a packet of any type."""
    return emitter.keep(("scratch", slot), lambda: emitter.prologue(f"alloca [{8 * emitter.lanes} x i8], align 64"))


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
    types, w = module.packets, emitter.entry
    mask = types[BOOL]
    taken = w(f"bitcast i{module.lanes} %mask to {mask}")
    for i, argument in enumerate(function.arguments):
        emitter.define(argument, w(f"load {types[argument.type]}, ptr %in{i}"))
    emitter.run()
    w = emitter.body
    for i, result in enumerate(function.results):
        type_ = types[result.type]
        before = w(f"load {type_}, ptr %out{i}")
        after = w(f"select {mask} {taken}, {type_} {emitter.value(result, False)}, {type_} {before}")
        w.line(f"store {type_} {after}, ptr %out{i}")
    w.line("ret void")
    return emitter.text(_signature(module, function, "#0"))


def _of_elements(module: ModuleContext, function: Function) -> str:
    """The text of one that computes the elements of a mask one after the other."""
    lanes, scalars, word = module.lanes, module.scalars, f"i{module.lanes}"
    emitter = FunctionEmitter(module, function, split=False)
    w = emitter.entry

    def element(rests: list[str]) -> tuple[str, list[str]]:
        number = w.call(word, f"llvm.cttz.{word}", f"{word} {rests[0]}", "i1 true")
        index = w.add(number, 0) if lanes == 64 else w(f"zext {word} {number} to i64")
        for i, argument in enumerate(function.arguments):
            type_ = scalars[argument.type]
            emitter.define(argument, w(f"load {type_}, ptr {w.at(type_, f'%in{i}', index)}"))
        emitter.run()
        for i, result in enumerate(function.results):
            type_ = scalars[result.type]
            to = w.at(type_, f"%out{i}", index)
            w.line(f"store {type_} {emitter.value(result, True)}, ptr {to}")
        less = w(f"sub {word} {rests[0]}, 1")
        following = w(f"and {word} {rests[0]}, {less}")
        return w(f"icmp eq {word} {following}, 0"), [following]

    w.until([(word, "%mask")], element)
    w.line("ret void")
    return emitter.text(_signature(module, function, "nounwind"))


def _signature(module: ModuleContext, function: Function, attributes: str) -> str:
    parameters = [f"i{module.lanes} %mask", *(f"ptr %in{i}" for i in range(len(function.arguments))),
                  *(f"ptr %out{i}" for i in range(len(function.results)))]
    return f"internal void @{function.name}({', '.join(parameters)}) noinline cold {attributes}"
