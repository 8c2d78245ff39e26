"""PTX text of loads, stores, gathers, and plain writes.

Memory of our own begins at a multiple of 256 bytes and is padded, so that neighbours may be loaded and stored as
vectors that run over the end.  What the program writes nowhere is read through the cache of what is constant
(``ld.global.nc``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.linear import Access, Instruction, Store
from ..codegen.program import ALIGNED, PERIODIC, REVERSED, SCALAR, UNALIGNED
from ..codegen.target import SHARED
from ..ops.reductions import EXCHANGES
from ..types import BOOL, UINT32, UINT64, ReduceOp
from . import atomics, checks, local
from .elements import address_of, as_byte, loaded, stored
from .texts import T

if TYPE_CHECKING:
    from .function import FunctionEmitter

__all__ = ["access", "fetch", "gather", "load", "scatter", "store", "view"]

#: Bytes that a thread loads or stores at once, and elements of such a vector, at most.
_VECTOR_BYTES, _VECTOR = 16, 4


def _own_address(emitter: FunctionEmitter, base: str, size: int) -> str:
    """Where the thread's first element lies."""
    known = emitter.addresses.get((base, size))
    if known is None:
        known = emitter.addresses[base, size] = address_of(
            emitter, base, *((emitter.index, UINT64) if emitter.function.wide else (emitter.index32, UINT32)), size)
    return known


def _offset(address: str, bytes_: int) -> str:
    return f"{address}+{bytes_}" if bytes_ else address


def _space(emitter: FunctionEmitter, slot: int) -> str:
    """Where to read the memory of a parameter."""
    return "global" if emitter.module.may_be_written(emitter.function, slot) else "global.nc"


# --- by position -----------------------------------------------------------------------------------------------------


def load(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """An array that is read by position, or one element."""
    access, type_ = instruction.access, instruction.type
    assert access is not None
    base, size, space = emitter.parameter(access.slot), T[type_].size, _space(emitter, access.slot)
    names = [emitter.new(type_) for _ in emitter.each(instruction)]
    emitter.define(instruction, names)
    if access.layout == SCALAR:
        emitter.lines += loaded(emitter, type_, names[0], base, space=space)
        return
    address = _own_address(emitter, base, size)
    if access.layout == ALIGNED and emitter.lanes > 1:
        _load_vectors(emitter, type_, names, address, space)
        return
    for lane, name in enumerate(names):
        guard = emitter.guard(emitter.active[lane]) if access.layout == UNALIGNED else ""
        emitter.lines += loaded(emitter, type_, name, _offset(address, lane * size), guard, space)


def _vectors(names: list[str], size: int) -> list[tuple[int, str]]:
    """Names in pieces that are accessed at once, and the bytes before each."""
    count = min(len(names), _VECTOR, _VECTOR_BYTES // size)
    return [(first * size, f"{{{', '.join(names[first:first + count])}}}") for first in range(0, len(names), count)]


def _load_vectors(emitter: FunctionEmitter, type_: int, names: list[str], address: str, space: str) -> None:
    t = T[type_]
    parts = [emitter.register("%h") for _ in names] if type_ == BOOL else names
    for offset, vector in _vectors(parts, t.size):
        emitter.lines.append(f"ld.{space}.v{vector.count(',') + 1}.{t.memory} {vector}, [{_offset(address, offset)}];")
    if type_ == BOOL:
        emitter.lines += [f"setp.ne.u16 {name}, {byte}, 0;" for name, byte in zip(names, parts, strict=True)]


def store(emitter: FunctionEmitter, output: Store) -> None:
    """An output: memory of our own, which is padded."""
    type_ = output.value.type
    t, base = T[type_], emitter.parameter(output.slot)
    if not emitter.function.vectorized:
        emitter.lines += stored(emitter, type_, base, emitter.value(output.value))
        return
    address = _own_address(emitter, base, t.size)
    if emitter.lanes == 1:
        emitter.lines += stored(emitter, type_, address, emitter.value(output.value))
        return
    values = [emitter.value(output.value, lane) for lane in range(emitter.lanes)]
    if type_ == BOOL:
        for lane, value in enumerate(values):
            values[lane], lines = as_byte(emitter, value)
            emitter.lines += lines
    for offset, vector in _vectors(values, t.size):
        emitter.lines.append(f"st.global.v{vector.count(',') + 1}.{t.memory} [{_offset(address, offset)}], {vector};")


def access(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Neighbours from some position on, forwards or backwards."""
    access, type_ = instruction.access, instruction.type
    assert access is not None
    base, first, size = emitter.parameter(access.slot), emitter.parameter(access.first), T[type_].size
    position = emitter.register("%rd")
    backwards = access.layout == REVERSED
    emitter.lines.append(f"mov.b64 {position}, {first};" if instruction.uniform else
                         f"{'sub' if backwards else 'add'}.u64 {position}, {first}, {emitter.index};")
    address, names = address_of(emitter, base, position, UINT64, size), []
    for lane in emitter.each(instruction):
        names.append(emitter.new(type_))
        guard = "" if instruction.uniform else emitter.guard(emitter.active[lane])
        emitter.lines += loaded(emitter, type_, names[-1], _offset(address, (-lane if backwards else lane) * size),
                                guard, _space(emitter, access.slot))
    emitter.define(instruction, names)


def view(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A view of short rows: a remainder of a number that is part of the program."""
    access, type_ = instruction.access, instruction.type
    assert access is not None
    base, period = emitter.parameter(access.slot), access.short.period
    first, outer, inner = (emitter.parameter(access.first + number) for number in range(3))
    names = []
    for lane in range(emitter.lanes):
        index, row, place, position = emitter.registers("%rd", "%rd", "%rd", "%rd")
        if emitter.function.wide:
            emitter.lines += [f"add.u64 {index}, {emitter.index}, {lane};", f"div.u64 {row}, {index}, {period};",
                              f"rem.u64 {place}, {index}, {period};"]
        else:
            narrow, quotient, rest = emitter.registers("%r", "%r", "%r")
            emitter.lines += [f"add.u32 {narrow}, {emitter.index32}, {lane};",
                              f"div.u32 {quotient}, {narrow}, {period};", f"rem.u32 {rest}, {narrow}, {period};",
                              f"cvt.u64.u32 {row}, {quotient};", f"cvt.u64.u32 {place}, {rest};"]
        if access.layout == PERIODIC:  # the same in each row
            emitter.lines.append(f"mad.lo.u64 {position}, {place}, {inner}, {first};")
        else:
            emitter.lines += [f"mad.lo.u64 {position}, {row}, {outer}, {first};",
                              f"mad.lo.u64 {position}, {place}, {inner}, {position};"]
        names.append(emitter.new(type_))
        emitter.lines += loaded(emitter, type_, names[-1],
                                address_of(emitter, base, position, UINT64, T[type_].size),
                                emitter.guard(emitter.active[lane]), _space(emitter, access.slot))
    emitter.define(instruction, names)


# --- by index --------------------------------------------------------------------------------------------------------


def gather(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A read by index, of one element or of a piece of a row."""
    access, (index, mask), type_ = instruction.access, instruction.operands, instruction.type
    assert access is not None
    if access.slot < 0:
        local.read(emitter, instruction)
        return
    base, names = emitter.parameter(access.slot), []
    if access.piece:
        _gather_pieces(emitter, instruction, access, base)
        return
    for lane in emitter.each(instruction):
        wanted = emitter.wanted(mask, lane, instruction.uniform)
        wanted = checks.within_bounds(emitter, access, index, lane, wanted, instruction.uniform)
        address = address_of(emitter, base, emitter.value(index, lane), index.type, T[type_].size)
        names.append(emitter.new(type_))
        emitter.lines += loaded(emitter, type_, names[-1], address, emitter.guard(wanted),
                                _space(emitter, access.slot))
    emitter.define(instruction, names)


def _gather_pieces(emitter: FunctionEmitter, instruction: Instruction, access: Access, base: str) -> None:
    """Neighbours of a row; the target has chosen them such that they are vectors, as the memory begins."""
    (index, mask), type_, t = instruction.operands, instruction.type, T[instruction.type]
    start, count, *offsets = access.piece
    found: list[list[str]] = [[] for _ in offsets]
    for lane in emitter.each(instruction):
        guard = emitter.guard(emitter.wanted(mask, lane))
        address = address_of(emitter, base, emitter.value(index, lane), index.type, t.size)
        names = [emitter.new(type_) for _ in range(count)]
        if guard:
            emitter.lines += [emitter.clear(type_, name) for name in names]
        emitter.lines.append(f"{guard}ld.{_space(emitter, access.slot)}.v{count}.{t.memory} {{{', '.join(names)}}}, "
                             f"[{_offset(address, start * t.size)}];")
        for place, offset in enumerate(offsets):
            found[place].append(names[offset])
    for result, results in zip((instruction, *instruction.results), found, strict=True):
        emitter.define(result, results)


def scatter(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A write by index."""
    access, (value, index, mask, *others) = instruction.access, instruction.operands
    op, type_ = instruction.node.attr, instruction.type
    assert access is not None
    if access.slot < 0:
        local.write(emitter, instruction)
        return
    size, found = T[type_].size, []
    base = emitter.tables[access.slot] if access.strategy == SHARED else emitter.parameter(access.slot)
    for lane in range(1 if instruction.uniform else emitter.lanes):
        wanted = emitter.both(emitter.value(mask, lane), emitter.active[lane])
        wanted = checks.within_bounds(emitter, access, index, lane, wanted, False)
        address = address_of(emitter, base, emitter.value(index, lane), index.type, size)
        data, more = emitter.value(value, lane), [emitter.value(other, lane) for other in others]
        if access.piece:
            start, count = access.piece
            emitter.lines.append(f"{emitter.guard(wanted)}st.global.v{count}.{T[type_].memory} "
                                 f"[{_offset(address, start * size)}], {{{', '.join((data, *more))}}};")
        elif op == ReduceOp.Identity.value:
            emitter.lines += stored(emitter, type_, address, data, emitter.guard(wanted))
        elif op in EXCHANGES:
            found.append(atomics.exchange(emitter, op, type_, address, data, wanted, more))
        else:
            found.append(atomics.update(emitter, op, type_, address, data, wanted, access))
    if access.fetched:
        emitter.define(instruction, found)


def fetch(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """What a scatter-reduction has found."""
    emitter.define(instruction, emitter.names[instruction.operands[0].number])
