"""LLVM text of values that are computed element by element, and of those that are just there."""

from __future__ import annotations

from ..codegen.linear import Instruction
from ..ir.node import BAKED
from ..ops.table import CAST
from ..types import BOOL, TYPE_BITS
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
    function, types = texts.cast if instruction.kind == CAST else texts.bitcast, emitter.types(instruction.uniform)
    value = emitter.value(source, instruction.uniform)
    emitter.define(instruction, emitter.writer.named(
        lambda name: function(name, value, types[source.type], types[instruction.type])))


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
        value, w = emitter.parameter(slot, str(emitter.stored_type(node.type, True))), emitter.prologue
        if node.type == BOOL:
            type_ = emitter.stored_type(BOOL, instruction.uniform)
            value = w(f"icmp ne {type_} {value}, {zero(type_)}")
        emitter.define(instruction, value)


def counter(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """The position of the element."""
    if instruction.uniform:
        emitter.define(instruction, "0")
        return
    emitter.define(instruction, emitter.positions(instruction.type))
