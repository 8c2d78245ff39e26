"""PTX text of loops and branches: those of each thread.

What a loop hands from one iteration to the next are registers, which the end of the body moves to; threads leave when
they are done.  Whatever waits for its neighbours again does so where the assembler sees that the paths join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.linear import Instruction
from ..ops.table import LOOP, PHI
from .function import TRUE

if TYPE_CHECKING:
    from .function import FunctionEmitter

__all__ = ["cond", "loop", "result"]


def loop(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A loop, which elements that take no part do not enter."""
    condition_block, body_block = instruction.blocks
    formals, outer_block, active = condition_block.formals, emitter.block, emitter.active
    assert emitter.lanes == 1 or instruction.uniform
    assert condition_block.mask is not None and body_block.mask is not None
    head, done = emitter.label("loop"), emitter.label("done")
    for formal, start in zip(formals, instruction.operands, strict=True):
        register = emitter.new(formal.type)
        emitter.lines.append(emitter.move(formal.type, register, emitter.value(start)))
        emitter.define(formal, [register])
    count = ""
    if condition_block.counts:
        count = emitter.counters[instruction.number] = emitter.register("%r")
        emitter.lines.append(f"mov.b32 {count}, 0;")
    emitter.skip(TRUE if instruction.uniform else active[0], done)
    emitter.lines.append(f"{head}:")
    emitter.active = [TRUE] * emitter.lanes
    emitter.define(condition_block.mask, [TRUE])
    emitter.region(condition_block)
    emitter.skip(emitter.value(condition_block.results[0]), done)
    emitter.define(body_block.mask, [TRUE])
    emitter.region(body_block)
    _move_all(emitter, [(formal.type, emitter.names[formal.number][0], emitter.value(final))
                        for formal, final in zip(formals, body_block.results, strict=True)])
    if count:
        emitter.lines.append(f"add.u32 {count}, {count}, 1;")
    emitter.lines += [f"bra {head};", f"{done}:"]
    emitter.active, emitter.block = active, outer_block


def _move_all(emitter: FunctionEmitter, moves: list[tuple[int, str, str]]) -> None:
    """Set registers, all at once: what is overwritten, and needed, is saved first."""
    targets = {target for _, target, _ in moves}
    late = []
    for type_, target, source in moves:
        if source == target:
            continue
        if source in targets:
            saved = emitter.new(type_)
            emitter.lines.append(emitter.move(type_, saved, source))
            source = saved
        late.append(emitter.move(type_, target, source))
    emitter.lines += late


def cond(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A branch; elements that do not exist take neither side."""
    if instruction.is_rare:
        _rare(emitter, instruction)
        return
    assert emitter.lanes == 1
    chosen, outer_block, active = emitter.value(instruction.operands[0]), emitter.block, emitter.active
    otherwise, done = emitter.label("else"), emitter.label("join")
    results = [(value.type, emitter.new(value.type)) for value in instruction.blocks[0].results]
    if active[0] != TRUE:
        emitter.lines += [emitter.clear(type_, register) for type_, register in results]
        emitter.skip(active[0], done)
    emitter.active = [TRUE]
    emitter.skip(chosen, otherwise)
    for side, block in enumerate(instruction.blocks):
        assert block.mask is not None
        emitter.define(block.mask, [TRUE])
        emitter.region(block)
        emitter.lines += [emitter.move(type_, register, emitter.value(value))
                          for (type_, register), value in zip(results, block.results, strict=True)]
        emitter.lines += [f"bra {done};", f"{otherwise}:"] if not side else [f"{done}:"]
    emitter.block, emitter.active = outer_block, active
    emitter.define(instruction, [register for _, register in results])


def result(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A value after a loop, a branch or a call; there is no text of what is memory."""
    (operand,) = instruction.operands
    if instruction.node.payload or operand.kind == LOOP:
        return
    names = emitter.names[operand.number]
    if operand.kind != PHI:  # of a loop, it is that of a formal
        lanes, at = len(emitter.each(operand)) if operand.is_rare else 1, instruction.node.attr
        names = names[at * lanes:(at + 1) * lanes]
    emitter.define(instruction, names)


def _rare(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A call of a function, by those threads whose element needs it."""
    function, (mask, *operands) = instruction.function, instruction.operands
    assert function is not None
    count = len(function.results)
    before, arguments = operands[:count], operands[count:]
    callee, names = emitter.module.need(function), []
    for lane in emitter.each(instruction):
        results = [(value.type, emitter.new(value.type)) for value in before]
        emitter.lines += [emitter.move(type_, register, emitter.value(value, lane))
                          for (type_, register), value in zip(results, before, strict=True)]
        done = emitter.label("usual")
        emitter.skip(emitter.value(mask, lane), done)
        callee.call(emitter, [(value.type, emitter.value(value, lane)) for value in arguments], results)
        emitter.lines.append(f"{done}:")
        names.append([register for _, register in results])
    emitter.define(instruction, [each[place] for place in range(count) for each in names])
