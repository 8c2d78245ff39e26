"""LLVM text of local memory: entries on the stack, each of which is a packet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.linear import Instruction
from ..types import BOOL, UINT32
from .texts import zero

if TYPE_CHECKING:
    from .function import FunctionEmitter

__all__ = ["allocate", "read", "write"]


def _name(slot: int) -> str:
    return f"%local{-slot}"


def allocate(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Room for all entries, for the packet that is being computed."""
    assert instruction.access is not None
    type_, size = emitter.stored_type(instruction.type, not emitter.vectorized), instruction.node.size
    emitter.prologue.append(f"{_name(instruction.access.slot)} = alloca [{size} x {type_}], align 64")
    emitter.locals[instruction.access.slot] = size
    emitter.define(instruction, "")


def write(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A write to the entry that has the number of the iteration; what is beyond the last goes there."""
    access, out, name = instruction.access, emitter.lines, f"%v{instruction.number}"
    assert access is not None
    uniform, count = instruction.uniform, f"%loop{access.loop}_count"
    type_ = emitter.stored_type(instruction.type, uniform)
    value = emitter.value(instruction.operands[0], uniform)
    if instruction.type == BOOL:
        out.append(f"{name}_m = zext {emitter.types(uniform)[BOOL]} {value} to {type_}")
        value = f"{name}_m"
    last = emitter.locals[access.slot] - 1
    out += [f"{name}_inside = icmp ult i64 {count}, {last}",
            f"{name}_entry = select i1 {name}_inside, i64 {count}, i64 {last}",
            f"{name}_at = getelementptr inbounds {type_}, ptr {_name(access.slot)}, i64 {name}_entry",
            f"store {type_} {value}, ptr {name}_at, align {min(64, type_.info.size * max(1, type_.lanes))}"]


def read(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """What elements have in entries, each in its own; zero where the mask is not set."""
    access, (index, mask), uniform = instruction.access, instruction.operands, instruction.uniform
    assert access is not None and index.type == UINT32
    out, name, base = emitter.lines, f"%v{instruction.number}", _name(access.slot)
    type_, position = emitter.stored_type(instruction.type, uniform), emitter.value(index, uniform)
    condition, active = emitter.value(mask, uniform), emitter.active_mask(uniform)
    indices, value = emitter.types(uniform)[UINT32], f"{name}_m" if instruction.type == BOOL else name
    if active not in ("true", "splat (i1 true)"):
        out.append(f"{name}_k = and {emitter.types(uniform)[BOOL]} {condition}, {active}")
        condition = f"{name}_k"
    if uniform:
        out += [f"{name}_i = select i1 {condition}, i32 {position}, i32 0",
                f"{name}_at = getelementptr inbounds {type_}, ptr {base}, i32 {name}_i",
                f"{name}_r = load {type_}, ptr {name}_at, align {type_.info.size}",
                f"{value} = select i1 {condition}, {type_} {name}_r, {type_} {zero(type_)}"]
    else:
        lanes = emitter.lanes
        order = ", ".join(f"i32 {lane}" for lane in range(lanes))
        out += [f"{name}_row = mul {indices} {position}, {indices.splat(lanes)}",
                f"{name}_i = add {indices} {name}_row, <{order}>",
                f"{name}_at = getelementptr {type_.element}, ptr {base}, {indices} {name}_i",
                f"{value} = call {type_} @llvm.masked.gather.{type_.suffix}.v{lanes}p0({type_.of('ptr')} {name}_at, "
                f"i32 {type_.info.size}, {type_.mask} {condition}, {type_} {zero(type_)})"]
    if instruction.type == BOOL:
        out.append(f"{name} = icmp ne {type_} {value}, {type_.splat(0) if type_.lanes else '0'}")
    emitter.define(instruction, name)
