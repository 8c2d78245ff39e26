"""LLVM text of loads, stores, gathers and scatters."""

from __future__ import annotations

from ..codegen.linear import Access, Instruction, Store
from ..codegen.program import ALIGNED, REVERSED, SCALAR, SHIFTED, UNALIGNED
from ..codegen.target import ATOMIC, PRIVATE
from ..ops.reductions import COMPARE_EXCHANGE, EXCHANGE, EXCHANGES, name_of_update
from ..types import BOOL, INT32, INT64, TYPES, UINT32, UINT64, ReduceOp
from . import ahead, checks, counting, local, pieces
from .function import FunctionEmitter
from .lines import function_text
from .neighbours import are_neighbours
from .texts import ATOMIC_INSTRUCTIONS, TypeText, constant, is_instruction, update, zero

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
        ask_ahead(emitter, name, type_.info.size, AHEAD)
    if type_index == BOOL:
        out.append(f"{name} = icmp ne {type_} {value}, {type_.splat(0)}")
    emitter.define(instruction, name)


def ask_ahead(emitter: FunctionEmitter, name: str, size: int, distance: int) -> None:
    """Ask for what a later packet reads, if inputs come from memory; ``size`` is that of an element."""
    if not emitter.function.streaming:
        return
    for line in range(0, size * emitter.lanes, _CACHE_LINE):
        emitter.lines.append(f"{name}_ahead{line} = getelementptr i8, ptr {name}_at, i64 {distance + line}")
        emitter.lines.append(f"call void @llvm.prefetch.p0(ptr {name}_ahead{line}, i32 0, i32 3, i32 1)")


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
        ask_ahead(emitter, name, type_.info.size, -AHEAD if access.layout == REVERSED else AHEAD)
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
    if counting.is_count(emitter, instruction):
        condition = checks.within_bounds(emitter, access, index, name, _mask(emitter, name, mask, False), False)
        base = _own_table(emitter, access.slot) if access.strategy == PRIVATE else base
        counting.add(emitter, instruction, name, base, condition)
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
    if not uniform and access.strategy == PRIVATE:
        base = _own_table(emitter, access.slot)
    masked = condition not in ("true", "splat (i1 true)")
    helper = _scatter_helper(emitter, op, type_, index_type, access, masked)
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
    out, number, (type_, data), (index_type, position) = emitter.body, name[1:], values, indices
    full, partial, done = (f"{number}_{part}" for part in ("full", "partial", "done"))
    out.append(f"{name}_all = icmp eq i{emitter.lanes} {name}_bits, -1")
    out.append(f"br i1 {name}_all, label %{full}, label %{partial}")
    emitter.open_block(partial)
    out.append(f"call void {otherwise}")
    out.append(f"br label %{done}")
    emitter.open_block(full)
    wide, element, update, before = "64" if "i64" in index_type else "32", type_.element, _plain_update, full
    if strategy == ATOMIC:
        update = _atomic_update
    lanes = [f"_{number}_{lane}" for lane in range(emitter.lanes)]
    for lane, tag in enumerate(lanes):
        out.append(f"%index{tag} = extractelement {index_type} {position}, i32 {lane}")
        out.append(f"%at{tag} = getelementptr {element}, ptr {base}, i{wide} %index{tag}")
        if strategy == ATOMIC:
            out.append(f"call void @llvm.prefetch.p0(ptr %at{tag}, i32 1, i32 3, i32 1)")
    for lane, tag in enumerate(lanes):
        out.append(f"%value{tag} = extractelement {type_} {data}, i32 {lane}")
        out += update(op, type_, tag, f"%value{tag}", before)
        before = f"written{tag}"
    out.append(f"br label %{done}")
    emitter.open_block(done)


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


def _scatter_helper(emitter: FunctionEmitter, op: int, type_: TypeText, index_type: str, access: Access,
                    masked: bool) -> str:
    """Name of a function that updates memory element by element, added to the module if it is not there yet.

    If that is to be fetched, it returns the elements before their updates, and zero in lanes that are masked out.

    Lanes may coincide, so that they take turns.  Atomic updates are barriers to out-of-order execution: the cache lines
    of a whole packet are asked for before the first one.  A packet that is not full visits the lanes of its mask one
    after the other: those that are masked out touch no memory.
    """
    wide, lanes, element = "64" if "i64" in index_type else "32", type_.lanes, type_.element
    fetched, helpers = access.fetched, emitter.module.helpers
    kind = "atomic" if access.strategy == ATOMIC else "plain"
    name = f"scatter_{name_of_update(op)}_{kind}_{type_.info.name}_{wide}_{lanes}{'_masked' * masked}" \
           f"{'_fetch' * fetched}"
    if name in helpers:
        return name
    update = _atomic_update if kind == "atomic" else _plain_update
    text: list[str] = []
    for lane in range(lanes or 1):
        index = "%indices"
        if lanes:
            index = f"%index{lane}"
            text.append(f"{index} = extractelement {index_type} %indices, i32 {lane}")
        text.append(f"%at{lane} = getelementptr {element}, ptr %base, i{wide} {index}")
        if kind == "atomic":
            text.append(f"call void @llvm.prefetch.p0(ptr %at{lane}, i32 1, i32 3, i32 1)")
    before = "full"
    for lane in range(lanes or 1):
        value = "%values"
        if lanes:
            value = f"%value{lane}"
            text.append(f"{value} = extractelement {type_} %values, i32 {lane}")
            if op == COMPARE_EXCHANGE:
                text.append(f"%expected{lane} = extractelement {type_} %expected, i32 {lane}")
        text += update(op, type_, str(lane), value, before)
        before = f"written{lane}"
        if fetched and lanes:
            text.append(f"%found_to{lane} = insertelement {type_} {f'%found_to{lane - 1}' if lane else 'poison'}, "
                        f"{element} {_found(op, kind, type_, lane)}, i32 {lane}")
    parameters = f"ptr %base, {type_} %values, {index_type} %indices"
    if op == COMPARE_EXCHANGE:
        parameters += f", {type_} %expected{'' if lanes else '0'}"
    start = ["br label %full"]
    if masked and lanes:
        parameters += f", i{lanes} %mask"
        start = [f"%own_values = alloca {type_}, align 64", f"%own_indices = alloca {index_type}, align 64",
                 *([f"%own_found = alloca {type_}, align 64"] if fetched else []),
                 *([f"%own_expected = alloca {type_}, align 64"] if op == COMPARE_EXCHANGE else []),
                 f"%all = icmp eq i{lanes} %mask, -1", "br i1 %all, label %full, label %partial"]
    elif masked:
        parameters += ", i1 %mask"
        start = ["br i1 %mask, label %full, label %done"]
    result, none = ("void", "void") if not fetched else (str(type_), f"{type_} {zero(type_)}")
    last = f"%found_to{lanes - 1}" if lanes else _found(op, kind, type_, 0)
    found = "ret void" if not fetched else f"ret {type_} {last}"
    text = [*start, "full:", *text, found]
    if masked:
        text += _lanes_of_mask(type_, index_type, wide, kind == "atomic", update(op, type_, "", "%value", "update"),
                               _found(op, kind, type_, "") if fetched else "",
                               op == COMPARE_EXCHANGE) if lanes else ["done:", f"ret {none}"]
    helpers[name] = function_text(f"internal {result} @{name}({parameters}) #0", text)
    return name


def _found(op: int, kind: str, type_: TypeText, lane: int | str) -> str:
    """Name of the element before an update."""
    return f"%old{lane}" if kind == "plain" or is_instruction(op, type_) else f"%old_value{lane}"


def _lanes_of_mask(type_: TypeText, index_type: str, wide: str, ask: bool, update: list[str],
                   found: str, offered: bool) -> list[str]:
    """Text that does an update in every lane of a mask, after its cache line has been asked for.

    ``found`` is the name of what it finds, if that is to be returned.
    """
    element, bits = type_.element, f"i{type_.lanes}"
    text = ["partial:", f"%none = icmp eq {bits} %mask, 0", "br i1 %none, label %done, label %some", "some:",
            f"store {type_} %values, ptr %own_values, align 64",
            f"store {index_type} %indices, ptr %own_indices, align 64", f"%bits = zext {bits} %mask to i64"
            if type_.lanes < 64 else f"%bits = add {bits} %mask, 0"]
    if found:
        text.append(f"store {type_} zeroinitializer, ptr %own_found, align 64")
    if offered:
        text.append(f"store {type_} %expected, ptr %own_expected, align 64")
        update = [f"%expected_at = getelementptr {element}, ptr %own_expected, i64 %update_lane",
                  f"%expected_one = load {element}, ptr %expected_at", *update]
    before = "some"
    for step in ("ask", "update") if ask else ("update",):
        last = "written" if step == "update" and any(line == "written:" for line in update) else step
        text += [f"br label %{step}", f"{step}:",
                 f"%{step}_rest = phi i64 [ %bits, %{before} ], [ %{step}_next, %{last} ]",
                 f"%{step}_lane = call i64 @llvm.cttz.i64(i64 %{step}_rest, i1 true)",
                 f"%{step}_index_at = getelementptr i{wide}, ptr %own_indices, i64 %{step}_lane",
                 f"%{step}_index = load i{wide}, ptr %{step}_index_at"]
        address = "%at" if step == "update" else "%ask_at"
        text.append(f"{address} = getelementptr {element}, ptr %base, i{wide} %{step}_index")
        if step == "ask":
            text.append("call void @llvm.prefetch.p0(ptr %ask_at, i32 1, i32 3, i32 1)")
        else:
            text += [f"%value_at = getelementptr {element}, ptr %own_values, i64 %update_lane",
                     f"%value = load {element}, ptr %value_at", *update]
            if found:
                text += [f"%found_at = getelementptr {element}, ptr %own_found, i64 %update_lane",
                         f"store {element} {found}, ptr %found_at"]
        before = f"{step}_done"
        text += [f"%{step}_less = sub i64 %{step}_rest, 1", f"%{step}_next = and i64 %{step}_rest, %{step}_less",
                 f"%{step}_more = icmp ne i64 %{step}_next, 0",
                 f"br i1 %{step}_more, label %{step}, label %{before}", f"{before}:"]
    if not found:
        return [*text, "br label %done", "done:", "ret void"]
    return [*text, f"%all_found = load {type_}, ptr %own_found, align 64", "br label %done", "done:",
            f"%result = phi {type_} [ zeroinitializer, %partial ], [ %all_found, %{before} ]", f"ret {type_} %result"]


def _expected(lane: str) -> str:
    """Name of the element that a compare-and-exchange expects to find."""
    return f"%expected{lane}" if lane else "%expected_one"


def _plain_update(op: int, type_: TypeText, lane: str, value: str, block: str) -> list[str]:
    """Update of the element at ``%at<lane>`` by a value, without regard to other threads."""
    element, align = type_.element, type_.info.size
    if op == ReduceOp.Identity.value:
        return [f"store {element} {value}, ptr %at{lane}, align {align}"]
    old, new = f"%old{lane}", f"%new{lane}"
    if op == EXCHANGE:
        return [f"{old} = load {element}, ptr %at{lane}, align {align}",
                f"store {element} {value}, ptr %at{lane}, align {align}"]
    if op == COMPARE_EXCHANGE:
        bits = f"i{8 * align}"
        return [f"{old} = load {element}, ptr %at{lane}, align {align}",
                f"%old_bits{lane} = bitcast {element} {old} to {bits}",
                f"%expected_bits{lane} = bitcast {element} {_expected(lane)} to {bits}",
                f"%same{lane} = icmp eq {bits} %old_bits{lane}, %expected_bits{lane}",
                f"{new} = select i1 %same{lane}, {element} {value}, {element} {old}",
                f"store {element} {new}, ptr %at{lane}, align {align}"]
    return [f"{old} = load {element}, ptr %at{lane}, align {align}",
            update(op, new, old, value, TypeText(type_.info, 0)),
            f"store {element} {new}, ptr %at{lane}, align {align}"]


def _atomic_update(op: int, type_: TypeText, lane: str, value: str, block: str) -> list[str]:
    """Atomic update of the element at ``%at<lane>`` by a value; what has no instruction needs a loop of
    compare-and-exchange.

    ``block`` is the label of the block that the text becomes part of.
    """
    info = type_.info
    element, align, at = type_.element, info.size, f"%at{lane}"
    if op in EXCHANGES:  # what programs synchronise by: other memory is ordered with it
        bits = f"i{8 * align}"
        text = [f"%new_bits{lane} = bitcast {element} {value} to {bits}"]
        if op == EXCHANGE:
            text.append(f"%old{lane} = atomicrmw xchg ptr {at}, {bits} %new_bits{lane} acq_rel, align {align}")
        else:
            text += [f"%expected_bits{lane} = bitcast {element} {_expected(lane)} to {bits}",
                     f"%pair{lane} = cmpxchg ptr {at}, {bits} %expected_bits{lane}, {bits} %new_bits{lane} "
                     f"acq_rel acquire, align {align}",
                     f"%old{lane} = extractvalue {{ {bits}, i1 }} %pair{lane}, 0"]
        return [*text, f"%old_value{lane} = bitcast {bits} %old{lane} to {element}"]
    if not is_instruction(op, type_):
        bits = f"i{info.bits}"
        entry = f"%{block}"
        return [f"%start{lane} = load atomic {bits}, ptr {at} monotonic, align {align}", f"br label %attempt{lane}",
                f"attempt{lane}:",
                f"%old{lane} = phi {bits} [ %start{lane}, {entry} ], [ %found{lane}, %attempt{lane} ]",
                f"%old_value{lane} = bitcast {bits} %old{lane} to {element}",
                update(op, f"%new_value{lane}", f"%old_value{lane}", value, TypeText(info, 0)),
                f"%new{lane} = bitcast {element} %new_value{lane} to {bits}",
                f"%pair{lane} = cmpxchg ptr {at}, {bits} %old{lane}, {bits} %new{lane} monotonic monotonic, "
                f"align {align}",
                f"%found{lane} = extractvalue {{ {bits}, i1 }} %pair{lane}, 0",
                f"%success{lane} = extractvalue {{ {bits}, i1 }} %pair{lane}, 1",
                f"br i1 %success{lane}, label %written{lane}, label %attempt{lane}", f"written{lane}:"]
    instruction = ATOMIC_INSTRUCTIONS[op][info.kind]
    return [f"%old{lane} = atomicrmw {instruction} ptr {at}, {element} {value} monotonic, align {align}"]
