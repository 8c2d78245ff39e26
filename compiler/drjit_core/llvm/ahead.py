"""LLVM text that asks for memory ahead: what later packets will read or write by index, in arrays beyond the cache.

The index of a later packet is computed for that: where it is read from memory, perhaps with a few operations on it.
What it is beyond the last element does not matter, since asking never fails.
"""

from __future__ import annotations

from ..codegen.linear import Instruction
from ..codegen.program import ALIGNED
from ..ops.table import CAST, EVALUATED, FIRST_ELEMENTWISE, FIRST_EXPANDED
from ..types import TYPE_BITS, TYPES, UINT32, UINT64
from . import texts
from .function import FunctionEmitter
from .texts import TEXTS, TypeText

__all__ = ["ask"]

#: Elements between a packet and the one whose memory is asked for.
_DISTANCE = 128
#: Operations that an index may take.
_MOST = 6


def ask(emitter: FunctionEmitter, name: str, base: str, type_: TypeText, index: Instruction, wide: bool,
        write: bool) -> None:
    """Ask for the elements that a later packet accesses, if its index is known by then."""
    if emitter.in_region or emitter.function.live is not None or index.uniform or emitter.function.domain is not None:
        return
    order: list[Instruction] = []
    if not _collect(index, order) or len(order) > _MOST:
        return
    if "%ahead" not in emitter.loaded:
        emitter.loaded.add("%ahead")
        width = emitter.parameter(0, "i64")
        emitter.prologue += [f"%last_element = sub i64 {width}, 1", f"%last_packet = and i64 %last_element, "
                             f"{-emitter.lanes}"]
        emitter.lines += [f"%index_later = add i64 %index, {_DISTANCE}",
                          "%ahead = call i64 @llvm.umin.i64(i64 %index_later, i64 %last_packet)"]
    names = {each.number: _later(emitter, each) for each in order}
    position, types, out = names[index.number], emitter.packets, emitter.lines
    index_type = types[index.type]
    if index.type == UINT32 and wide:
        out.append(f"{name}_later_i = zext {types[UINT32]} {position} to {types[UINT64]}")
        index_type, position = types[UINT64], f"{name}_later_i"
    pointers = type_.of("ptr")
    out.append(f"{name}_later = getelementptr {type_.element}, ptr {base}, {index_type} {position}")
    for lane in range(emitter.lanes):
        out.append(f"{name}_later{lane} = extractelement {pointers} {name}_later, i32 {lane}")
        out.append(f"call void @llvm.prefetch.p0(ptr {name}_later{lane}, i32 {int(write)}, i32 3, i32 1)")


def _collect(instruction: Instruction, order: list[Instruction]) -> bool:
    """List what computes a value, operands first; whether that can be done for later packets."""
    if instruction.uniform or instruction in order:
        return True
    if instruction.kind == EVALUATED:
        possible = instruction.access is not None and instruction.access.layout == ALIGNED
    else:
        possible = (instruction.kind == CAST or FIRST_ELEMENTWISE <= instruction.kind < FIRST_EXPANDED) and \
            all(_collect(operand, order) for operand in instruction.operands)
    order.append(instruction)
    return possible


def _later(emitter: FunctionEmitter, instruction: Instruction) -> str:
    """A value of a later packet."""
    name = f"%later{instruction.number}"
    if name in emitter.loaded:
        return name
    emitter.loaded.add(name)
    out, types = emitter.lines, emitter.packets
    type_ = types[instruction.type]
    if instruction.kind == EVALUATED:
        access = instruction.access
        assert access is not None
        base = emitter.parameter(access.slot, "ptr")
        out.append(f"{name}_at = getelementptr inbounds {type_.element}, ptr {base}, i64 %ahead")
        align = min(64, emitter.lanes * TYPES[instruction.type].size)
        out.append(f"{name} = load {type_}, ptr {name}_at, align {align}")
        return name
    operands = [emitter.value(operand, False) if operand.uniform else f"%later{operand.number}"
                for operand in instruction.operands]
    last = instruction.operands[-1].type
    if instruction.kind == CAST:
        out.append(texts.cast(name, operands[0], types[last], type_))
    else:
        out.append(TEXTS[instruction.kind << TYPE_BITS | last](name, *operands, types[last]))
    return name
