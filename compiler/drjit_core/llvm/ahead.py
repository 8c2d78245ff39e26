"""LLVM text that asks for memory ahead: what later packets will read or write by index, in arrays beyond the cache.

The index of a later packet is computed for that: where it is read from memory, perhaps with a few operations on it.
What it is beyond the last element does not matter, since asking never fails.
"""

from __future__ import annotations

from ..codegen.linear import Instruction
from ..codegen.program import ALIGNED
from ..ops.table import CAST, EVALUATED, FIRST_ELEMENTWISE, FIRST_EXPANDED
from ..types import TYPE_BITS, UINT32, UINT64
from .function import FunctionEmitter
from .texts import TEXTS, TypeText

__all__ = ["ask"]

#: Elements between a packet and the one whose memory is asked for.
_DISTANCE = 128
#: Operations that an index may take, of what is read and of what is written. Reads of later packets begin while earlier
#: ones wait, writes after these. (4M lookups at random positions in 16 MiB of texels: 35 ms, 40 if these are asked for;
#: 1M gradients of such lookups, added to 12 MiB of texels: 19 ms, 15 if these are.)
_MOST = 6, 32


def ask(emitter: FunctionEmitter, base: str, type_: TypeText, index: Instruction, wide: bool, write: bool) -> None:
    """Ask for the elements that a later packet accesses, if its index is known by then."""
    if emitter.in_region or emitter.function.live is not None or index.uniform or emitter.function.domain is not None:
        return
    order: list[Instruction] = []
    if not _collect(index, order) or len(order) > _MOST[write] or (base, index.number) in emitter.kept:
        return
    emitter.kept[base, index.number] = ""  # further elements beside them are on their way as well
    w, types = emitter.writer, emitter.packets
    emitter.keep("later", lambda: _position(emitter))
    names = {each.number: _later(emitter, each) for each in order}
    position, index_type = names[index.number], types[index.type]
    if index.type == UINT32 and wide:
        index_type = types[UINT64]
        position = w(f"zext {types[UINT32]} {position} to {index_type}")
    at = w(f"getelementptr {type_.element}, ptr {base}, {index_type} {position}")
    for lane in range(emitter.lanes):
        place = w(f"extractelement {type_.of('ptr')} {at}, i32 {lane}")
        w.run("llvm.prefetch.p0", f"ptr {place}", f"i32 {int(write)}", "i32 3", "i32 1")


def _position(emitter: FunctionEmitter) -> str:
    """Where the later packet begins: at most at the last one."""
    w, width = emitter.prologue, emitter.parameter(0, "i64")
    last = w.and_(w.sub(width, 1), -emitter.lanes)
    return emitter.writer.minimum(emitter.writer.add("%index", _DISTANCE), last)


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
    return emitter.keep(("later", instruction.number), lambda: _write_later(emitter, instruction))


def _write_later(emitter: FunctionEmitter, instruction: Instruction) -> str:
    w, types = emitter.writer, emitter.packets
    type_ = types[instruction.type]
    if instruction.kind == EVALUATED:
        access = instruction.access
        assert access is not None
        base = emitter.parameter(access.slot, "ptr")
        at = w(f"getelementptr inbounds {type_.element}, ptr {base}, i64 {emitter.kept['later']}")
        return w.load(type_, at, type_.alignment)
    operands = [emitter.value(operand, False) if operand.uniform else _later(emitter, operand)
                for operand in instruction.operands]
    last = instruction.operands[-1].type
    if instruction.kind == CAST:
        return w.cast(operands[0], types[last], type_)
    return w.named(lambda name: TEXTS[instruction.kind << TYPE_BITS | last](name, *operands, types[last]))
