"""LLVM text of local memory: entries on the stack.

Each entry is a packet. What stands for an array (see :mod:`drjit_core.passes.stack`) lies on the stack as the parts of
a packet's elements lie in the array. The address that it is accessed by is as far before as these are behind the part
of element 0, so that positions are those in an array.
"""

from __future__ import annotations

from ..codegen.linear import Instruction
from ..control.alike import NEIGHBOURS
from ..types import BOOL, UINT32
from .function import FunctionEmitter, name_of_local
from .texts import zero

__all__ = ["allocate", "read", "write"]


def allocate(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Room for all entries, for the packet that is being computed."""
    assert instruction.access is not None
    if instruction.node.attr:
        _allocate_array(emitter, instruction)
        return
    type_, size = emitter.stored_type(instruction.type, not emitter.vectorized), instruction.node.size
    emitter.prologue.append(f"{name_of_local(instruction.access.slot)} = alloca [{size} x {type_}], align 64")
    emitter.locals[instruction.access.slot] = size
    emitter.define(instruction, "")


def _allocate_array(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Room for the parts of a packet's elements, and what they begin with."""
    assert instruction.access is not None and emitter.vectorized
    name, type_ = name_of_local(instruction.access.slot), emitter.stored_type(instruction.type, False)
    packets, entries, out = max(1, NEIGHBOURS // emitter.lanes), instruction.node.size, emitter.lines
    count = entries * packets
    emitter.prologue.append(f"{name} = alloca [{count} x {type_}], align 64")
    first = emitter.index
    if packets > 1:  # several packets have their parts together
        first = f"{name}_first"
        out.append(f"{first} = and i64 {emitter.index}, {-NEIGHBOURS}")
    out += [f"{name}_before = mul i64 {first}, {-entries * type_.info.size}",
            f"{name}_array = getelementptr i8, ptr {name}, i64 {name}_before"]
    if instruction.operands:
        (content,) = instruction.operands
        value = emitter.value(content, False)
        if instruction.type == BOOL:
            out.append(f"{name}_value = zext {emitter.types(False)[BOOL]} {value} to {type_}")
            value = f"{name}_value"
        before, fill, filled = emitter.label, f"fill{-instruction.access.slot}", f"filled{-instruction.access.slot}"
        out.append(f"br label %{fill}")
        emitter.open_block(fill)
        out += [f"{name}_entry = phi i64 [ 0, %{before} ], [ {name}_next, %{fill} ]",
                f"{name}_at = getelementptr inbounds {type_}, ptr {name}, i64 {name}_entry",
                f"store {type_} {value}, ptr {name}_at, align {min(64, type_.info.size * type_.lanes)}",
                f"{name}_next = add nuw nsw i64 {name}_entry, 1",
                f"{name}_more = icmp ult i64 {name}_next, {count}",
                f"br i1 {name}_more, label %{fill}, label %{filled}"]
        emitter.open_block(filled)
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
            f"{name}_at = getelementptr inbounds {type_}, ptr {name_of_local(access.slot)}, i64 {name}_entry",
            f"store {type_} {value}, ptr {name}_at, align {min(64, type_.info.size * max(1, type_.lanes))}"]


def read(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """What elements have in entries, each in its own; zero where the mask is not set."""
    access, (index, mask), uniform = instruction.access, instruction.operands, instruction.uniform
    assert access is not None and index.type == UINT32
    out, name, base = emitter.lines, f"%v{instruction.number}", name_of_local(access.slot)
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
