"""PTX text of local memory: entries that each thread has to itself.

What stands for an array (see :mod:`drjit_core.passes.stack`) is accessed by positions in that, where sixteen neighbours
have their parts interleaved: they are turned back into the entries of the element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.linear import Instruction
from ..control.alike import NEIGHBOURS
from ..types import BOOL, INT32, UINT32, ReduceOp
from . import elements
from .texts import T, accumulation

if TYPE_CHECKING:
    from .function import FunctionEmitter

__all__ = ["allocate", "read", "write"]

_SHIFT = NEIGHBOURS.bit_length() - 1


def allocate(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Room for all entries; what stands for an array has contents that it begins with."""
    assert instruction.access is not None and emitter.lanes == 1
    slot, count, type_ = instruction.access.slot, instruction.node.size, instruction.type
    size = T[type_].size
    name, base = f"local{-slot}", emitter.register("%rd")
    emitter.variables.append(f".local .align 8 .b8 {name}[{count * size}];")
    emitter.prologue.append(f"mov.u64 {base}, {name};")
    emitter.locals[slot], emitter.entries[slot] = base, count
    if instruction.node.attr:
        emitter.arrays.add(slot)
    if not instruction.operands:
        return
    value, again = emitter.value(instruction.operands[0]), emitter.label("fill")
    number, address, more = emitter.registers("%r", "%rd", "%p")
    emitter.lines += [f"mov.b32 {number}, 0;", f"{again}:", f"mad.wide.u32 {address}, {number}, {size}, {base};",
                      *elements.stored(emitter, type_, address, value, space="local"),
                      f"add.u32 {number}, {number}, 1;", f"setp.lt.u32 {more}, {number}, {count};",
                      f"@{more} bra {again};"]


def _entry(emitter: FunctionEmitter, slot: int, index: Instruction, size: int) -> str:
    """The address of an entry, by its position in the array that it stands for."""
    position, first, address = emitter.registers("%rd", "%rd", "%rd")
    narrow = index.type in (UINT32, INT32)
    emitter.lines += [f"{'cvt.u64.u32' if narrow else 'mov.b64'} {position}, {emitter.value(index)};",
                      f"shr.u64 {position}, {position}, {_SHIFT};", f"shr.u64 {first}, {emitter.index}, {_SHIFT};",
                      f"mul.lo.u64 {first}, {first}, {emitter.entries[slot]};",
                      f"sub.u64 {position}, {position}, {first};",
                      f"mad.lo.u64 {address}, {position}, {size}, {emitter.locals[slot]};"]
    return address


def write(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A write: to the entry that has the number of the iteration, or to one of an array; what is beyond the last
    iteration goes to the last entry."""
    access, (value, index, mask, *_) = instruction.access, instruction.operands
    assert access is not None
    op, type_, size, out = instruction.node.attr, instruction.type, T[instruction.type].size, emitter.lines
    if access.loop >= 0:
        entry, address = emitter.registers("%r", "%rd")
        out += [f"min.u32 {entry}, {emitter.counters[access.loop]}, {emitter.entries[access.slot] - 1};",
                f"mad.wide.u32 {address}, {entry}, {size}, {emitter.locals[access.slot]};",
                *elements.stored(emitter, type_, address, emitter.value(value), space="local")]
        return
    guard, address = emitter.guard(emitter.wanted(mask, 0)), _entry(emitter, access.slot, index, size)
    new = emitter.value(value)
    if op != ReduceOp.Identity.value:
        old, data = emitter.new(type_), emitter.as_register(new) if type_ == BOOL else new
        new = emitter.new(type_)
        out += elements.loaded(emitter, type_, old, address, guard, "local")
        out += accumulation(emitter, op, new, old, data, T[type_])
        if access.fetched:
            emitter.define(instruction, [old])
    out += elements.stored(emitter, type_, address, new, guard, "local")


def read(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A read of an entry; zero where the mask is not set."""
    access, (index, mask), type_ = instruction.access, instruction.operands, instruction.type
    assert access is not None
    size, result = T[type_].size, emitter.new(type_)
    wanted = emitter.wanted(mask, 0, instruction.uniform)
    if access.slot in emitter.arrays:
        address = _entry(emitter, access.slot, index, size)
    else:
        address = emitter.register("%rd")
        emitter.lines.append(f"mad.wide.u32 {address}, {emitter.value(index)}, {size}, {emitter.locals[access.slot]};")
    emitter.lines += elements.loaded(emitter, type_, result, address, emitter.guard(wanted), "local")
    emitter.define(instruction, [result])
