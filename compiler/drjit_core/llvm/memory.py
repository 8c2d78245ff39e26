"""LLVM text of loads, stores, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable

from ..codegen.linear import Access, Instruction, Store
from ..codegen.program import ALIGNED, REVERSED, SCALAR, SHIFTED, UNALIGNED
from ..codegen.target import ATOMIC, PRIVATE
from ..ops.products import OUTER
from ..ops.reductions import EXCHANGES
from ..types import BOOL, INT32, INT64, UINT32, UINT64, ReduceOp
from . import ahead, checks, local, one_element, outer, pieces
from .function import FunctionEmitter
from .neighbours import are_neighbours
from .texts import TypeText, is_everywhere, zero
from .updates import Update, update_function

__all__ = ["AHEAD", "access", "ask_ahead", "fetch", "gather", "load", "neighbours", "scatter", "scatter_in_region",
           "store"]


def _alignment(emitter: FunctionEmitter, type_: TypeText, layout: int) -> int:
    return type_.alignment if layout == ALIGNED and emitter.aligned else type_.info.size


def load(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Read an evaluated array: one element in the entry block, or a packet."""
    access, type_index, uniform, w = instruction.access, instruction.type, instruction.uniform, emitter.writer
    assert access is not None
    base, type_ = emitter.parameter(access.slot, "ptr"), emitter.stored_type(type_index, uniform)
    align = _alignment(emitter, type_, access.layout)
    if uniform:
        value = w.load(type_, base, align)
    elif emitter.function.records:
        value = w.gathered(type_, base, type_.info.size, emitter.active_mask(False))
    else:
        at = w(f"getelementptr inbounds {type_.element}, ptr {base}, i64 {emitter.index}")
        value = w.masked_load(type_, at, align, emitter.active) if access.layout == UNALIGNED else \
            w.load(type_, at, align)
        ask_ahead(emitter, at, type_.info.size, AHEAD)
    emitter.define(instruction, emitter.from_memory(value, type_index, uniform))


def ask_ahead(emitter: FunctionEmitter, at: str, size: int, distance: int) -> None:
    """Ask for what a later packet reads, if inputs come from memory: at an address, elements of some size."""
    if not emitter.function.streaming:
        return
    w = emitter.writer
    for line in range(0, size * emitter.lanes, _CACHE_LINE):
        w.run("llvm.prefetch.p0", f"ptr {w.beyond(at, distance + line)}", "i32 0", "i32 3", "i32 1")


#: Bytes between a packet and what is asked for ahead of it.  A chain of 8 multiply-adds of 16M floats: 7.4 ms without,
#: 5.7 with 1 KiB, 6.0 with 2 or 4.  In cache they gain nothing.
AHEAD, _CACHE_LINE = 1024, 64


def access(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Read neighbours of an array from some position on, forwards or backwards."""
    access, type_index, uniform, w = instruction.access, instruction.type, instruction.uniform, emitter.writer
    assert access is not None
    base, first = emitter.parameter(access.slot, "ptr"), emitter.parameter(access.first, "i64")
    type_ = emitter.stored_type(type_index, uniform)
    if uniform:
        at = w(f"getelementptr inbounds {type_.element}, ptr {base}, i64 {first}")
        value = w.load(type_, at, type_.info.size)
    else:
        value = neighbours(emitter, access, base, type_, first, emitter.index)
    emitter.define(instruction, emitter.from_memory(value, type_index, uniform))


def neighbours(emitter: FunctionEmitter, access: Access, base: str, type_: TypeText, first: str, index: str,
               stays: bool = False) -> str:
    """Read elements that lie side by side, so many further on, or, backwards, before a position as the packet begins in
    the array or row; ``stays`` says that the cache has them by then."""
    w, size, ahead = emitter.writer, type_.info.size, AHEAD
    if access.layout == REVERSED:
        backwards, ahead = range(emitter.lanes - 1, -1, -1), -AHEAD
        at = w.at(type_.element, base, w.sub(w.sub(first, index), emitter.lanes - 1))
        mask = w.shuffle(emitter.packets[BOOL], emitter.active, "poison", backwards)
        value = w.shuffle(type_, w.masked_load(type_, at, size, mask), "poison", backwards)
    else:
        at = w.at(type_.element, base, w.add(first, index))
        value = w.load(type_, at, size) if access.layout == SHIFTED else w.masked_load(type_, at, size, emitter.active)
    if not stays:
        ask_ahead(emitter, at, size, ahead)
    return value


def store(emitter: FunctionEmitter, output: Store) -> None:
    """Write a value to the kernel's output for it."""
    type_index, uniform, w = output.value.type, not emitter.vectorized, emitter.writer
    at, type_ = emitter.parameter(output.slot, "ptr"), emitter.stored_type(type_index, uniform)
    value = emitter.to_memory(emitter.value(output.value, uniform), type_index, uniform)
    align = _alignment(emitter, type_, SCALAR if uniform else ALIGNED)
    if not uniform:
        at = w(f"getelementptr inbounds {type_.element}, ptr {at}, i64 {emitter.index}")
    w.store(type_, value, at, align, emitter.function.streaming and not uniform)


def _extended_index(emitter: FunctionEmitter, index: Instruction, uniform: bool, wide: bool) -> tuple[str, str]:
    """Type and name of an index as the address computation needs it.

    The computation sign-extends 32-bit indices, which is right, and much faster than to extend them explicitly, as long
    as the array has fewer than 2^31 elements.
    """
    value, types = emitter.value(index, uniform), emitter.types(uniform)
    if index.type == UINT32 and (wide or uniform):
        return types[UINT64], emitter.writer(f"zext {types[UINT32]} {value} to {types[UINT64]}")
    assert index.type in (UINT32, UINT64, INT32, INT64)
    return types[index.type], value


def gather(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Masked indirect read; lanes that are masked out yield zero and touch no memory."""
    access, (index, mask), uniform = instruction.access, instruction.operands, instruction.uniform
    assert access is not None
    if access.slot in emitter.locals:
        local.read(emitter, instruction)
        return
    w, base, type_ = emitter.writer, emitter.parameter(access.slot, "ptr"), emitter.stored_type(instruction.type,
                                                                                                uniform)
    # one element for all lanes
    same = index.uniform and not uniform and not access.piece and not emitter.function.records
    index_type, position = _extended_index(emitter, index, uniform or same, access.wide)
    condition = checks.within_bounds(emitter, access, index, emitter.taking_part(mask, uniform), uniform)
    side_by_side = not access.piece and not emitter.function.records and are_neighbours(emitter, index)
    if access.large and not uniform and not side_by_side and not same:
        ahead.ask(emitter, base, type_, index, access.wide, False)
    if access.piece:
        start, count, *offsets = access.piece
        columns = pieces.gather(emitter, type_, base, (index_type, position), start, count, condition)
        for result, offset in zip((instruction, *instruction.results), offsets, strict=True):
            emitter.define(result, columns[offset])
        return
    size = type_.info.size
    if uniform or same:  # without a branch: what is masked out reads the parameters instead of the array
        any_ = emitter.any_element(condition, uniform)
        at = w(f"getelementptr {type_.element}, ptr {base}, {index_type} {position}")
        at = w.either(any_, "ptr", at, "%parameters")
        value = w.load(type_.element, at, 1)
        if same:
            value = w.splat(type_, value)
        value = w(f"select {type_.mask} {condition}, {type_} {value}, {type_} {zero(type_)}")
    elif side_by_side:
        value = w.masked_load(type_, _packet_at(emitter, type_, base, (index_type, position)), size, condition)
    else:
        bases = type_.of("ptr") if emitter.function.records else "ptr"
        at = w(f"getelementptr {type_.element}, {bases} {base}, {index_type} {position}")
        value = w.gathered(type_, at, size, condition)
    emitter.define(instruction, emitter.from_memory(value, instruction.type, uniform))


def _packet_at(emitter: FunctionEmitter, type_: TypeText, base: str, index: tuple[str, str]) -> str:
    """The address of the first one of neighbours, given the indices of all."""
    (index_type, positions), w = index, emitter.writer
    first = w(f"extractelement {index_type} {positions}, i32 0")
    return w(f"getelementptr {type_.element}, ptr {base}, {'i64' if 'i64' in index_type else 'i32'} {first}")


# --- scatters --------------------------------------------------------------------------------------------------------


def scatter_in_region(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A write where it stands in a region."""
    if instruction.access is not None and instruction.access.slot in emitter.locals:
        local.write(emitter, instruction)
    else:
        scatter(emitter, instruction, True)
    emitter.define(instruction, "")


def scatter(emitter: FunctionEmitter, instruction: Instruction, in_region: bool = False) -> None:
    """Masked indirect write, plain or reducing.

    Plain writes of one packet happen in the order of its lanes; between packets there is none.
    """
    access, (value, index, mask, *offered), uniform = instruction.access, instruction.operands, instruction.uniform
    assert access is not None
    op, type_index, w = instruction.node.attr, instruction.type, emitter.writer
    base = emitter.parameter(access.slot, "ptr")
    if value.kind == OUTER:
        outer.write(emitter, instruction, base, emitter.taking_part(mask, uniform))
        return
    is_count = one_element.is_count(emitter, instruction)
    if is_count or one_element.is_one(emitter, instruction):
        condition = checks.within_bounds(emitter, access, index, emitter.taking_part(mask, False), False)
        base = _own_table(emitter, access.slot) if access.strategy == PRIVATE else base
        if is_count:
            one_element.add(emitter, instruction, base, condition)
        else:
            one_element.update(emitter, instruction, base, _extended_index(emitter, index, True, access.wide),
                               condition)
        return
    type_ = emitter.stored_type(type_index, uniform)
    index_type, position = _extended_index(emitter, index, uniform, access.wide)
    condition = checks.within_bounds(emitter, access, index, emitter.taking_part(mask, uniform), uniform)
    if access.large and not uniform and not in_region and access.strategy != PRIVATE:
        ahead.ask(emitter, base, type_, index, access.wide, True)
    if access.piece:
        values = emitter.values((value, *offered), False)
        if op == ReduceOp.Add.value:
            base = _own_table(emitter, access.slot) if access.strategy == PRIVATE else base
            pieces.add(emitter, type_, base, (index_type, position), access.piece[0], values, condition)
            return
        pieces.scatter(emitter, type_, base, (index_type, position), access.piece[0], values, condition)
        return
    data, size = emitter.to_memory(emitter.value(value, uniform), value.type, uniform), type_.info.size
    if op == ReduceOp.Identity.value and not uniform:
        if are_neighbours(emitter, index):
            w.masked_store(type_, data, _packet_at(emitter, type_, base, (index_type, position)), size, condition)
        else:
            at = w(f"getelementptr {type_.element}, ptr {base}, {index_type} {position}")
            w.scattered(type_, data, at, size, condition)
        return
    if access.strategy == PRIVATE:
        base = _own_table(emitter, access.slot)
    masked = not is_everywhere(condition)
    helper = update_function(emitter.module, op, type_, index_type, access.strategy == ATOMIC, access.fetched,
                             masked)
    arguments = [f"ptr {base}", f"{type_} {data}", f"{index_type} {position}"]
    bits = ""
    if masked:
        bits = f"i1 {condition}" if uniform else f"i{emitter.lanes} {emitter.bits_of(condition)}"
    arguments += [f"{type_} {emitter.to_memory(emitter.value(operand, uniform), operand.type, uniform)}"
                  for operand in offered]
    arguments += [bits] if masked else []
    if access.fetched:
        found = w.call(type_, helper, *arguments)
        emitter.results[instruction.number] = [emitter.from_memory(found, type_index, uniform)]
    elif in_region and masked and not uniform and op not in EXCHANGES:
        _full_in_place(emitter, op, access.strategy, (type_, data), (index_type, position), base, bits,
                       lambda: w.run(helper, *arguments))
    else:
        w.run(helper, *arguments)


def _full_in_place(emitter: FunctionEmitter, op: int, strategy: int, values: tuple[TypeText, str],
                   indices: tuple[str, str], base: str, bits: str, call: Callable[[], None]) -> None:
    """Update memory where the packet is full, and call the function of a scatter where it is not.

    A loop that calls a function spills its state in each iteration: around nothing but additions to 1024 bins, such
    calls took half again as long as the loop without them.
    """
    w, (type_, data) = emitter.writer, values
    write = Update(w, op, type_, strategy == ATOMIC)
    full, partial, done = (w.label(label) for label in ("full", "partial", "done"))
    w.fork(w(f"icmp eq {bits}, -1"), full, partial)
    w.open(partial)
    call()
    w.go(done)
    w.open(full)
    for lane, at in enumerate(write.places(base, *indices, emitter.lanes)):
        write(at, w(f"extractelement {type_} {data}, i32 {lane}"))
    w.go(done)
    w.open(done)


def fetch(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """What a scatter-reduction of the region has found."""
    emitter.define(instruction, emitter.results[instruction.operands[0].number][0])


def _own_table(emitter: FunctionEmitter, slot: int) -> str:
    """Address of the worker's table, for the tables at a parameter (the next one is the size of a table)."""
    def write() -> str:
        tables, size, w = emitter.parameter(slot, "ptr"), emitter.parameter(slot + 1, "i64"), emitter.prologue
        return w.beyond(tables, w.mul(w("zext i32 %worker to i64"), size))

    return emitter.keep(("table", slot), write)
