"""LLVM text of local memory: entries on the stack.

Each entry is a packet. What stands for an array (see :mod:`drjit_core.passes.stack`) lies on the stack as the parts of
a packet's elements lie in the array. The address that it is accessed by is as far before as these are behind the part
of element 0, so that positions are those in an array.
"""

from __future__ import annotations

from ..codegen.linear import Instruction
from ..control.alike import NEIGHBOURS
from ..types import UINT32
from .function import FunctionEmitter
from .texts import vector, zero

__all__ = ["allocate", "read", "write"]


def allocate(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Room for all entries, for the packet that is being computed."""
    assert instruction.access is not None
    slot = instruction.access.slot
    if instruction.node.attr:
        emitter.stack[slot] = _array(emitter, instruction)
    else:
        type_, size = emitter.stored_type(instruction.type, not emitter.vectorized), instruction.node.size
        emitter.stack[slot] = emitter.prologue(f"alloca [{size} x {type_}], align 64")
        emitter.locals[slot] = size
    emitter.define(instruction, "")


def _array(emitter: FunctionEmitter, instruction: Instruction) -> str:
    """The address of room for the parts of a packet's elements, and what they begin with."""
    assert emitter.vectorized
    w, type_ = emitter.writer, emitter.stored_type(instruction.type, False)
    packets, entries = max(1, NEIGHBOURS // emitter.lanes), instruction.node.size
    memory = emitter.prologue(f"alloca [{entries * packets} x {type_}], align 64")
    first = emitter.index
    if packets > 1:  # several packets have their parts together
        first = w.and_(first, -NEIGHBOURS)
    array = w.beyond(memory, w.mul(first, -entries * type_.info.size))
    if instruction.operands:
        (content,) = instruction.operands
        value = emitter.to_memory(emitter.value(content, False), instruction.type, False)

        def fill(entry: str, _: list[str]) -> None:
            at = w(f"getelementptr inbounds {type_}, ptr {memory}, i64 {entry}")
            w.store(type_, value, at, type_.alignment)

        w.repeat(0, entries * packets, 1, [], fill)
    return array


def write(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A write to the entry that has the number of the iteration; what is beyond the last goes there."""
    access, uniform, w = instruction.access, instruction.uniform, emitter.writer
    assert access is not None
    count, type_ = emitter.counts[access.loop], emitter.stored_type(instruction.type, uniform)
    value = emitter.to_memory(emitter.value(instruction.operands[0], uniform), instruction.type, uniform)
    last = emitter.locals[access.slot] - 1
    entry = w.either(w(f"icmp ult i64 {count}, {last}"), "i64", count, last)
    at = w(f"getelementptr inbounds {type_}, ptr {emitter.stack[access.slot]}, i64 {entry}")
    w.store(type_, value, at, type_.alignment)


def read(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """What elements have in entries, each in its own; zero where the mask is not set."""
    access, (index, mask), uniform = instruction.access, instruction.operands, instruction.uniform
    assert access is not None and index.type == UINT32
    w, base, lanes = emitter.writer, emitter.stack[access.slot], emitter.lanes
    type_, position = emitter.stored_type(instruction.type, uniform), emitter.value(index, uniform)
    condition = emitter.taking_part(mask, uniform)
    if uniform:
        entry = w.either(condition, "i32", position, 0)
        value = w.load(type_, w(f"getelementptr inbounds {type_}, ptr {base}, i32 {entry}"), type_.info.size)
        value = w.either(condition, type_, value, zero(type_))
    else:
        indices = emitter.packets[UINT32]
        row = w(f"mul {indices} {position}, {indices.splat(lanes)}")
        entries = w(f"add {indices} {row}, {vector('i32', range(lanes))}")
        at = w(f"getelementptr {type_.element}, ptr {base}, {indices} {entries}")
        value = w.gathered(type_, at, type_.info.size, condition)
    emitter.define(instruction, emitter.from_memory(value, instruction.type, uniform))
