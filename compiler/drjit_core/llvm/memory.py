"""LLVM text of loads, stores, gathers and scatters."""

from __future__ import annotations

from ..codegen.linear import Instruction, Store
from ..codegen.program import ALIGNED, REVERSED, SCALAR, SHIFTED, UNALIGNED
from ..codegen.target import ATOMIC, PRIVATE
from ..ops.products import OUTER
from ..ops.reductions import EXCHANGES
from ..types import BOOL, INT32, INT64, TYPES, UINT32, UINT64, ReduceOp
from . import ahead, checks, local, one_element, outer, pieces
from .function import FunctionEmitter
from .neighbours import are_neighbours
from .texts import TypeText, constant
from .updates import Update, update_function
from .writer import Writer

__all__ = ["AHEAD", "ask_ahead", "fetch", "gather", "load", "reversed_packet", "scatter",
           "scatter_in_region", "store"]


def _alignment(emitter: FunctionEmitter, type_: int, access: int) -> int:
    size = TYPES[type_].size
    return min(emitter.alignment, emitter.lanes * size) if access == ALIGNED and emitter.alignment else size


def load(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Read an evaluated array: one element in the entry block, or a packet."""
    access, type_index = instruction.access, instruction.type
    assert access is not None
    base = emitter.parameter(access.slot, "ptr")
    type_ = emitter.stored_type(type_index, instruction.uniform)
    name = f"%v{instruction.number}"
    value = f"{name}_m" if type_index == BOOL else name
    align = _alignment(emitter, type_index, access.layout)
    out = emitter.lines
    if instruction.uniform:
        out.append(f"{value} = load {type_}, ptr {base}, align {align}")
    elif emitter.function.records:
        out.append(_gathered(emitter, value, type_, base, emitter.active_mask(False)))
    else:
        out.append(f"{name}_at = getelementptr inbounds {type_.element}, ptr {base}, i64 {emitter.index}")
        if access.layout == UNALIGNED:
            out.append(f"{value} = call {type_} @llvm.masked.load.{type_.suffix}.p0(ptr {name}_at, i32 {align}, "
                       f"{type_.mask} {emitter.active}, {type_} zeroinitializer)")
        else:
            out.append(f"{value} = load {type_}, ptr {name}_at, align {align}")
        ask_ahead(emitter, f"{name}_at", type_.info.size, AHEAD)
    if type_index == BOOL:
        out.append(f"{name} = icmp ne {type_} {value}, {type_.splat(0)}")
    emitter.define(instruction, name)


def ask_ahead(emitter: FunctionEmitter, at: str, size: int, distance: int) -> None:
    """Ask for what a later packet reads, if inputs come from memory: at an address, elements of some size."""
    if not emitter.function.streaming:
        return
    for line in range(0, size * emitter.lanes, _CACHE_LINE):
        emitter.lines.append(f"{at}_ahead{line} = getelementptr i8, ptr {at}, i64 {distance + line}")
        emitter.lines.append(f"call void @llvm.prefetch.p0(ptr {at}_ahead{line}, i32 0, i32 3, i32 1)")


#: Bytes between a packet and what is asked for ahead of it.  A chain of 8 multiply-adds of 16M floats: 7.4 ms without,
#: 5.7 with 1 KiB, 6.0 with 2 or 4.  In cache they gain nothing.
AHEAD, _CACHE_LINE = 1024, 64


def access(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Read neighbours of an array from some position on, forwards or backwards."""
    access, type_index, name, out = instruction.access, instruction.type, f"%v{instruction.number}", emitter.lines
    assert access is not None
    base, first = emitter.parameter(access.slot, "ptr"), emitter.parameter(access.first, "i64")
    type_, align = emitter.stored_type(type_index, instruction.uniform), TYPES[type_index].size
    value = f"{name}_m" if type_index == BOOL else name
    if instruction.uniform:
        out.append(f"{name}_at = getelementptr inbounds {type_.element}, ptr {base}, i64 {first}")
        out.append(f"{value} = load {type_}, ptr {name}_at, align {align}")
    else:
        position, mask, result = f"{name}_position", emitter.active, value
        if access.layout == REVERSED:
            out.append(f"{name}_last = sub i64 {first}, {emitter.index}")
            out.append(f"{position} = sub i64 {name}_last, {emitter.lanes - 1}")
            mask, result = f"{name}_mask", f"{name}_forwards"
            out.append(reversed_packet(mask, type_.mask, emitter.active, emitter.lanes))
        else:
            out.append(f"{position} = add i64 {first}, {emitter.index}")
        out.append(f"{name}_at = getelementptr {type_.element}, ptr {base}, i64 {position}")
        if access.layout == SHIFTED:
            out.append(f"{result} = load {type_}, ptr {name}_at, align {align}")
        else:
            out.append(f"{result} = call {type_} @llvm.masked.load.{type_.suffix}.p0(ptr {name}_at, i32 {align}, "
                       f"{type_.mask} {mask}, {type_} zeroinitializer)")
        if access.layout == REVERSED:
            out.append(reversed_packet(value, type_, result, emitter.lanes))
        ask_ahead(emitter, f"{name}_at", type_.info.size, -AHEAD if access.layout == REVERSED else AHEAD)
    if type_index == BOOL:
        out.append(f"{name} = icmp ne {type_} {value}, {'0' if instruction.uniform else type_.splat(0)}")
    emitter.define(instruction, name)


def reversed_packet(name: str, type_: object, packet: str, lanes: int) -> str:
    """Text of a packet in reverse order."""
    order = ", ".join(f"i32 {lane}" for lane in reversed(range(lanes)))
    return f"{name} = shufflevector {type_} {packet}, {type_} poison, <{lanes} x i32> <{order}>"


def store(emitter: FunctionEmitter, output: Store) -> None:
    """Write a value to the kernel's output for it."""
    name, type_index, uniform = f"%o{output.slot}", output.value.type, not emitter.vectorized
    base = emitter.parameter(output.slot, "ptr")
    value = emitter.value(output.value, uniform)
    out = emitter.lines
    type_ = emitter.stored_type(type_index, uniform)
    if type_index == BOOL:
        out.append(f"{name}_m = zext {type_.mask} {value} to {type_}")
        value = f"{name}_m"
    align = _alignment(emitter, type_index, SCALAR if uniform else ALIGNED)
    address = base
    if not uniform:
        address = f"{name}_at"
        out.append(f"{address} = getelementptr inbounds {type_.element}, ptr {base}, i64 {emitter.index}")
    hint = ", !nontemporal !0" if emitter.function.streaming and not uniform else ""
    out.append(f"store {type_} {value}, ptr {address}, align {align}{hint}")


def _extended_index(emitter: FunctionEmitter, name: str, index: Instruction, uniform: bool,
                    wide: bool) -> tuple[str, str]:
    """Type and name of an index as the address computation needs it.

    The computation sign-extends 32-bit indices, which is right, and much faster than to extend them explicitly, as long
    as the array has fewer than 2^31 elements.
    """
    value = emitter.value(index, uniform)
    types = emitter.types(uniform)
    if index.type == UINT32 and (wide or uniform):
        emitter.lines.append(f"{name}_i = zext {types[UINT32]} {value} to {types[UINT64]}")
        return types[UINT64], f"{name}_i"
    assert index.type in (UINT32, UINT64, INT32, INT64)
    return types[index.type], value


def _mask(emitter: FunctionEmitter, name: str, mask: Instruction, uniform: bool) -> str:
    """A mask, restricted to the elements that take part."""
    active = emitter.active_mask(uniform)
    value = emitter.value(mask, uniform)
    if value in ("true", "splat (i1 true)"):
        return active if active != "true" or uniform else value
    if active == "true":
        return value
    emitter.lines.append(f"{name}_k = and {emitter.types(uniform)[BOOL]} {value}, {active}")
    return f"{name}_k"


def gather(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Masked indirect read; lanes that are masked out yield zero and touch no memory."""
    access, (index, mask), uniform = instruction.access, instruction.operands, instruction.uniform
    assert access is not None
    if access.slot in emitter.locals:
        local.read(emitter, instruction)
        return
    base = emitter.parameter(access.slot, "ptr")
    name = f"%v{instruction.number}"
    type_ = emitter.stored_type(instruction.type, uniform)
    # one element for all lanes
    same = index.uniform and not uniform and not access.piece and not emitter.function.records
    index_type, position = _extended_index(emitter, name, index, uniform or same, access.wide)
    out = emitter.lines
    value = f"{name}_m" if instruction.type == BOOL else name
    zero = "zeroinitializer"
    condition = checks.within_bounds(emitter, access, index, name, _mask(emitter, name, mask, uniform), uniform)
    neighbours = not access.piece and not emitter.function.records and are_neighbours(emitter, index)
    if access.large and not uniform and not neighbours and not same:
        ahead.ask(emitter, name, base, type_, index, access.wide, False)
    if access.piece:
        start, count, *offsets = access.piece
        columns = pieces.gather(emitter, name, type_, base, (index_type, position), start, count, condition)
        for result, offset in zip((instruction, *instruction.results), offsets, strict=True):
            emitter.define(result, columns[offset])
        return
    if uniform:
        zero = constant(instruction.type, 0) if instruction.type != BOOL else "0"
        # without a branch: a lane that is masked out reads the parameters instead of the array
        out.append(f"{name}_e = getelementptr {type_.element}, ptr {base}, {index_type} {position}")
        out.append(f"{name}_at = select i1 {condition}, ptr {name}_e, ptr %parameters")
        out.append(f"{name}_r = load {type_}, ptr {name}_at, align 1")
        out.append(f"{value} = select i1 {condition}, {type_} {name}_r, {type_} {zero}")
    elif same:
        any_ = emitter.any_element(f"{name}_any", condition, False)
        out.append(f"{name}_e = getelementptr {type_.element}, ptr {base}, {index_type} {position}")
        out.append(f"{name}_at = select i1 {any_}, ptr {name}_e, ptr %parameters")
        out.append(f"{name}_r = load {emitter.stored_type(instruction.type, True)}, ptr {name}_at, align 1")
        emitter.splat(f"{name}_s", f"{name}_r", type_, out)
        out.append(f"{value} = select {type_.mask} {condition}, {type_} {name}_s, {type_} {zero}")
    elif neighbours:
        _packet_at(emitter, name, type_, base, (index_type, position))
        out.append(f"{value} = call {type_} @llvm.masked.load.{type_.suffix}.p0(ptr {name}_at, i32 {type_.info.size}, "
                   f"{type_.mask} {condition}, {type_} zeroinitializer)")
    else:
        bases = type_.of("ptr") if emitter.function.records else "ptr"
        out.append(f"{name}_at = getelementptr {type_.element}, {bases} {base}, {index_type} {position}")
        out.append(_gathered(emitter, value, type_, f"{name}_at", condition))
    if instruction.type == BOOL:
        out.append(f"{name} = icmp ne {type_} {value}, {type_.splat(0)}")
    emitter.define(instruction, name)


def _gathered(emitter: FunctionEmitter, name: str, type_: TypeText, addresses: str, condition: str) -> str:
    """Text of elements at addresses; of those that are masked out, which may be anywhere, zeros."""
    return (f"{name} = call {type_} @llvm.masked.gather.{type_.suffix}.v{emitter.lanes}p0({type_.of('ptr')} "
            f"{addresses}, i32 {type_.info.size}, {type_.mask} {condition}, {type_} zeroinitializer)")


def _packet_at(emitter: FunctionEmitter, name: str, type_: TypeText, base: str, index: tuple[str, str]) -> None:
    """The address of the first one of neighbours, given the indices of all."""
    index_type, positions = index
    element = "i64" if "i64" in index_type else "i32"
    emitter.lines += [f"{name}_first = extractelement {index_type} {positions}, i32 0",
                      f"{name}_at = getelementptr {type_.element}, ptr {base}, {element} {name}_first"]


# --- scatters --------------------------------------------------------------------------------------------------------


def scatter_in_region(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A write where it stands in a region."""
    name = f"%v{instruction.number}"
    if instruction.access is not None and instruction.access.slot in emitter.locals:
        local.write(emitter, instruction)
    else:
        scatter(emitter, instruction, name, True)
    emitter.define(instruction, name)


def scatter(emitter: FunctionEmitter, instruction: Instruction, name: str, in_region: bool = False) -> None:
    """Masked indirect write, plain or reducing, whose temporaries have a name.

    Plain writes of one packet happen in the order of its lanes; between packets there is none.
    """
    access, (value, index, mask, *offered), uniform = instruction.access, instruction.operands, instruction.uniform
    assert access is not None
    op, type_index = instruction.node.attr, instruction.type
    base = emitter.parameter(access.slot, "ptr")
    if value.kind == OUTER:
        outer.write(emitter, instruction, name, base, _mask(emitter, name, mask, uniform))
        return
    if one_element.is_count(emitter, instruction) or one_element.is_one(emitter, instruction):
        condition = checks.within_bounds(emitter, access, index, name, _mask(emitter, name, mask, False), False)
        base = _own_table(emitter, access.slot) if access.strategy == PRIVATE else base
        if one_element.is_count(emitter, instruction):
            one_element.add(emitter, instruction, name, base, condition)
        else:
            one_element.update(emitter, instruction, name, base,
                               _extended_index(emitter, name, index, True, access.wide), condition)
        return
    type_ = emitter.stored_type(type_index, uniform)
    index_type, position = _extended_index(emitter, name, index, uniform, access.wide)
    condition = checks.within_bounds(emitter, access, index, name, _mask(emitter, name, mask, uniform), uniform)
    if access.large and not uniform and not in_region and access.strategy != PRIVATE:
        ahead.ask(emitter, name, base, type_, index, access.wide, True)
    if access.piece:
        values = [emitter.value(each, False) for each in (value, *offered)]
        if op == ReduceOp.Add.value:
            base = _own_table(emitter, access.slot) if access.strategy == PRIVATE else base
            pieces.add(emitter, name, type_, base, (index_type, position), access.piece[0], values, condition)
            return
        pieces.scatter(emitter, name, type_, base, (index_type, position), access.piece[0], values, condition)
        return
    data = _as_stored(emitter, f"{name}_m", value, type_)
    out = emitter.lines
    if op == ReduceOp.Identity.value and not uniform and are_neighbours(emitter, index):
        _packet_at(emitter, name, type_, base, (index_type, position))
        out.append(f"call void @llvm.masked.store.{type_.suffix}.p0({type_} {data}, ptr {name}_at, "
                   f"i32 {type_.info.size}, {type_.mask} {condition})")
        return
    if op == ReduceOp.Identity.value and not uniform:
        out.append(f"{name}_at = getelementptr {type_.element}, ptr {base}, {index_type} {position}")
        out.append(f"call void @llvm.masked.scatter.{type_.suffix}.v{emitter.lanes}p0({type_} {data}, "
                   f"{type_.of('ptr')} {name}_at, i32 {type_.info.size}, {type_.mask} {condition})")
        return
    if access.strategy == PRIVATE:
        base = _own_table(emitter, access.slot)
    masked = condition not in ("true", "splat (i1 true)")
    helper = update_function(emitter.module.helpers, op, type_, index_type, access.strategy == ATOMIC, access.fetched,
                             masked)
    bits = ""
    if masked:
        bits = f", i1 {condition}"
        if not uniform:
            out.append(f"{name}_bits = bitcast {type_.mask} {condition} to i{emitter.lanes}")
            bits = f", i{emitter.lanes} {name}_bits"
    expected = "".join(f", {type_} {_as_stored(emitter, f'{name}_expected', operand, type_)}" for operand in offered)
    arguments = f"@{helper}(ptr {base}, {type_} {data}, {index_type} {position}{expected}{bits})"
    if not access.fetched:
        if in_region and masked and not uniform and op not in EXCHANGES:
            _full_in_place(emitter, name, op, access.strategy, (type_, data), (index_type, position), base, arguments)
        else:
            out.append(f"call void {arguments}")
        return
    found = f"{name}_found" + ("_m" if type_index == BOOL else "")
    out.append(f"{found} = call {type_} {arguments}")
    if type_index == BOOL:
        out.append(f"{name}_found = icmp ne {type_} {found}, {type_.splat(0)}")


def _as_stored(emitter: FunctionEmitter, name: str, value: Instruction, type_: TypeText) -> str:
    """A value as it is in memory, where masks are bytes; it gets a name if it is another one there."""
    data = emitter.value(value, not type_.lanes)
    if value.type != BOOL:
        return data
    emitter.lines.append(f"{name} = zext {type_.mask} {data} to {type_}")
    return name


def _full_in_place(emitter: FunctionEmitter, name: str, op: int, strategy: int, values: tuple[TypeText, str],
                   indices: tuple[str, str], base: str, otherwise: str) -> None:
    """Update memory where the packet is full, and call the function of a scatter where it is not.

    A loop that calls a function spills its state in each iteration: around nothing but additions to 1024 bins, such
    calls took half again as long as the loop without them.
    """
    w, (type_, data) = Writer(emitter.body, f"{name[1:]}."), values
    write = Update(w, op, type_, strategy == ATOMIC)
    full, partial, done = (w.label(label) for label in ("full", "partial", "done"))
    w.fork(w(f"icmp eq i{emitter.lanes} {name}_bits, -1"), full, partial)
    w.open(partial)
    w.line(f"call void {otherwise}")
    w.go(done)
    w.open(full)
    for lane, at in enumerate(write.places(base, *indices, emitter.lanes)):
        write(at, w(f"extractelement {type_} {data}, i32 {lane}"))
    w.go(done)
    w.open(done)


def fetch(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """What a scatter-reduction of the region has found."""
    emitter.define(instruction, f"{emitter.names[instruction.operands[0].number]}_found")


def _own_table(emitter: FunctionEmitter, slot: int) -> str:
    """Address of the worker's table, for the tables at a parameter (the next one is the size of a table)."""
    name = f"%table{slot}"
    if name not in emitter.loaded:
        emitter.loaded.add(name)
        tables, size = emitter.parameter(slot, "ptr"), emitter.parameter(slot + 1, "i64")
        emitter.prologue.append(f"{name}_worker = zext i32 %worker to i64")
        emitter.prologue.append(f"{name}_offset = mul i64 {name}_worker, {size}")
        emitter.prologue.append(f"{name} = getelementptr i8, ptr {tables}, i64 {name}_offset")
    return name
