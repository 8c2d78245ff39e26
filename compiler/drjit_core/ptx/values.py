"""PTX text of values that are computed element by element, and of those that are just there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..codegen.linear import Instruction
from ..ir.node import BAKED
from ..ops.table import CAST, KIND, LITERAL
from ..types import BOOL, FLOAT32, TYPE_BITS, UINT64
from . import texts
from .texts import TEXTS, T, Text, constant

if TYPE_CHECKING:
    from .function import FunctionEmitter

__all__ = ["conversion", "counter", "elementwise", "literal", "undefined"]

_DIV, _SQRT = KIND["div"], KIND["sqrt"]


def elementwise(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A row of the table."""
    operands = instruction.operands
    last = operands[-1].type
    text, names = TEXTS[instruction.kind << TYPE_BITS | last], []
    if instruction.kind == _DIV and last == FLOAT32 and _is_one(operands[0]):
        text, operands = _reciprocal(operands[1])
    for lane in emitter.each(instruction):
        values = [emitter.operand(operand, lane) for operand in operands]
        names.append(emitter.new(instruction.type))
        emitter.lines += text(emitter, names[-1], *values, T[last])
    emitter.define(instruction, names)


def _is_one(instruction: Instruction) -> bool:
    node = instruction.node
    return node.kind == LITERAL and node.attr == BAKED and node.payload == 1


def _reciprocal(divisor: Instruction) -> tuple[Text, tuple[Instruction, ...]]:
    """The reciprocal of an operand, and, if that is a root, of what it is of."""
    if divisor.kind == _SQRT:
        return texts.reciprocal_root, divisor.operands
    return texts.reciprocal, (divisor,)


def conversion(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A cast or a reinterpretation."""
    (source,) = instruction.operands
    function, names = texts.cast if instruction.kind == CAST else texts.bitcast, []
    for lane in emitter.each(instruction):
        value = emitter.operand(source, lane)
        names.append(emitter.new(instruction.type))
        emitter.lines += function(emitter, names[-1], value, T[source.type], T[instruction.type])
    emitter.define(instruction, names)


def undefined(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Anything."""
    _set(emitter, instruction, 0)


def literal(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A constant, or a parameter, which is loaded wherever it is used."""
    node = instruction.node
    if node.attr == BAKED:
        _set(emitter, instruction, node.payload)
        return
    assert instruction.access is not None
    if node.type != BOOL:
        emitter.define(instruction, ())
        return
    byte, mask = emitter.parameter(instruction.access.slot, "u8"), emitter.new(BOOL)
    emitter.prologue.append(f"setp.ne.u16 {mask}, {byte}, 0;")
    emitter.define(instruction, [mask])


def _set(emitter: FunctionEmitter, instruction: Instruction, value: Any) -> None:
    """A constant in a register: where operands may be immediate, the assembler sees that."""
    text = constant(instruction.type, value)
    if instruction.type != BOOL:
        register = emitter.new(instruction.type)
        emitter.prologue.append(emitter.move(instruction.type, register, text))
        text = register
    emitter.define(instruction, [text])


def counter(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """The position of the element."""
    if instruction.uniform:
        _set(emitter, instruction, 0)
        return
    wide, names = instruction.type == UINT64, []
    source, bits = (emitter.index, 64) if wide else (emitter.index32, 32)
    for lane in range(emitter.lanes):
        names.append(emitter.new(instruction.type))
        emitter.lines.append(f"add.u{bits} {names[-1]}, {source}, {lane};" if lane else
                             f"mov.b{bits} {names[-1]}, {source};")
    emitter.define(instruction, names)
