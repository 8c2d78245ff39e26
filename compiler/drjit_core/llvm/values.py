"""LLVM text of values that are computed element by element, and of those that are just there."""

from __future__ import annotations

from ..codegen.linear import Instruction
from ..ir.node import BAKED
from ..ops.table import CAST
from ..types import BOOL, TYPE_BITS, TYPES, UINT32, UINT64
from . import texts
from .function import FunctionEmitter
from .texts import TEXTS, constant, zero

__all__ = ["conversion", "counter", "elementwise", "literal", "undefined"]


def elementwise(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A row of the table."""
    operands, uniform, known = instruction.operands, instruction.uniform, emitter.names
    last = operands[-1].type
    name = known[instruction.number] = f"%v{instruction.number}"
    names = []
    for operand in operands:
        value = known[operand.number]  # in most cases it is the operand
        names.append(value if value and (uniform or not operand.uniform) else emitter.value(operand, uniform))
    types = emitter.scalars if uniform else emitter.packets
    emitter.lines.append(TEXTS[instruction.kind << TYPE_BITS | last](name, *names, types[last]))
    emitter.split_block()


def conversion(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A cast or a reinterpretation."""
    (source,) = instruction.operands
    types = emitter.types(instruction.uniform)
    function = texts.cast if instruction.kind == CAST else texts.bitcast
    name, value = f"%v{instruction.number}", emitter.value(source, instruction.uniform)
    emitter.lines.append(function(name, value, types[source.type], types[instruction.type]))
    emitter.define(instruction, name)


def undefined(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Anything."""
    emitter.define(instruction, constant(instruction.type, 0))


def literal(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A constant, or a parameter: one that is not held has no name, and is loaded wherever it is used."""
    node = instruction.node
    if node.attr == BAKED:
        emitter.define(instruction, constant(node.type, node.payload))
    elif not emitter.hold_literals and instruction.uniform:
        emitter.define(instruction, "")
    else:
        assert instruction.access is not None
        slot = instruction.access.slot
        if TYPES[node.type].kind != "b":
            emitter.define(instruction, emitter.parameter(slot, str(emitter.scalars[node.type])))
            return
        byte, type_ = emitter.parameter(slot, "i8"), emitter.stored_type(BOOL, instruction.uniform)
        emitter.prologue.append(f"{byte}_b = icmp ne {type_} {byte}, {zero(type_)}")
        emitter.define(instruction, f"{byte}_b")


def counter(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """The position of the element."""
    if instruction.uniform:
        emitter.define(instruction, "0")
        return
    name, wide = emitter.lane(), emitter.function.wide
    if (instruction.type == UINT64) != wide:
        cast = "zext" if instruction.type == UINT64 else "trunc"
        source = emitter.packets[UINT32 if instruction.type == UINT64 else UINT64]
        emitter.lines.append(f"%v{instruction.number} = {cast} {source} {name} to {emitter.packets[instruction.type]}")
        name = f"%v{instruction.number}"
    emitter.define(instruction, name)
