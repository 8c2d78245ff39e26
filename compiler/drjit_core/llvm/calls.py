"""LLVM text of calls: the elements of a packet go through one target after the other.

Arguments and results lie in memory of the caller, a *slot* for each packet.  A table has an entry for each target: the
address of its function, that of its record, which is to the function what the parameters are to a kernel, and the
address of another form of the function, which takes elements of all targets that share it: a packet of records, and
gathers what it needs of them.  The caller's text says nothing of the number of targets.
"""

from __future__ import annotations

from ..codegen.linear import Function, Instruction
from ..codegen.records import ENTRY_WORDS
from ..types import BOOL, UINT32
from .function import FunctionEmitter
from .module import ModuleContext
from .texts import zero

__all__ = ["call", "name_of_function", "target"]

#: The elements of a packet are taken target by target where there are no more of these, as far as the number of
#: elements of the first one tells. 1M elements on one thread, a function of 30 literals: of two targets a packet 4.9 ms
#: (together 13.9), of sixteen 51.4 (20.9); of one literal and one array: 2.6 (4.1), 15.7 (4.5).
_FEW_TARGETS = 5


def name_of_function(number: int, records: bool = False) -> str:
    """The symbol of a kernel's function, or of that which takes several records."""
    return f"{'shared' if records else 'target'}{number}"


def _slot_bytes(emitter: FunctionEmitter) -> int:
    return max(64, 8 * emitter.lanes)


def call(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A call."""
    site, (target, wanted, *_) = instruction.site, instruction.operands
    assert site is not None
    number, uniform = instruction.number, instruction.uniform
    types, out, name = emitter.types(uniform), emitter.lines, f"%call{number}"
    mask, words, size = types[BOOL], types[UINT32], _slot_bytes(emitter)
    count = len(site.arguments) + len(site.results) + len(site.extras)
    shared = site.shared and not uniform
    emitter.prologue.append(f"{name}_slots = alloca [{max(count + shared, 1) * size} x i8], align 64")

    def at(place: int) -> str:
        address = f"{name}_slot{place}_{len(out)}"
        out.append(f"{address} = getelementptr i8, ptr {name}_slots, i64 {place * size}")
        return address

    def put(place: int, type_: int, text: str) -> None:
        stored = emitter.stored_type(type_, uniform)
        if type_ == BOOL and text != "zeroinitializer":
            out.append(f"{name}_byte{place} = zext {mask} {text} to {stored}")
            text = f"{name}_byte{place}"
        out.append(f"store {stored} {text}, ptr {at(place)}, align 64")

    for place, value in enumerate(site.arguments):
        put(place, value.type, emitter.value(value, uniform))
    for place, type_ in enumerate(site.results, len(site.arguments)):
        stored = emitter.stored_type(type_, uniform)
        out.append(f"store {stored} {zero(stored)}, ptr {at(place)}, align 64")
    for place, value in enumerate(site.extras, len(site.arguments) + len(site.results)):
        put(place, value.type, emitter.value(value, uniform))

    table, limit = emitter.parameter(site.slot, "ptr"), emitter.parameter(site.slot + 1, "i32")
    if not uniform:
        limit = emitter.broadcast(limit, words)
    index = emitter.value(target, uniform)
    out.append(f"{name}_known = icmp ult {words} {index}, {limit}")
    out.append(f"{name}_wanted = and {mask} {emitter.value(wanted, uniform)}, {emitter.active_mask(uniform)}")
    out.append(f"{name}_all = and {mask} {name}_wanted, {name}_known")
    before, head, one, done = emitter.label, *(f"call{number}_{part}" for part in ("head", "one", "done"))
    single, several = (f"call{number}_{part}" for part in ("single", "several"))
    bits = "i8" if uniform else f"i{emitter.lanes}"
    if uniform:
        out.append(f"br i1 {name}_all, label %{one}, label %{done}")
        emitter.open_block(one)
        out += [f"{name}_bits = zext i1 {name}_all to i8", f"{name}_index = zext i32 {index} to i64"]
    else:
        out.append(f"br label %{head}")
        emitter.open_block(head)
        more = f", [ {name}_left, %{several} ]" if shared else ""
        out += [f"{name}_rest = phi {mask} [ {name}_all, %{before} ], [ {name}_next, %{single if shared else one} ]"
                f"{more}",
                f"{name}_rest_bits = bitcast {mask} {name}_rest to {bits}",
                f"{name}_any = icmp ne {bits} {name}_rest_bits, 0",
                f"br i1 {name}_any, label %{one}, label %{done}"]
        emitter.open_block(one)
        out += [f"{name}_first = call {bits} @llvm.cttz.{bits}({bits} {name}_rest_bits, i1 true)",
                f"{name}_target = extractelement {words} {index}, {bits} {name}_first",
                f"{name}_targets_0 = insertelement {words} poison, i32 {name}_target, i32 0",
                f"{name}_targets = shufflevector {words} {name}_targets_0, {words} poison, "
                f"<{emitter.lanes} x i32> zeroinitializer",
                f"{name}_same = icmp eq {words} {index}, {name}_targets",
                f"{name}_now = and {mask} {name}_rest, {name}_same",
                f"{name}_bits = bitcast {mask} {name}_now to {bits}",
                f"{name}_others = xor {mask} {name}_now, {mask.splat('true')}",
                f"{name}_next = and {mask} {name}_rest, {name}_others",
                f"{name}_index = zext i32 {name}_target to i64"]
    out.append(f"{name}_entry = getelementptr [{ENTRY_WORDS} x ptr], ptr {table}, i64 {name}_index")
    if shared:
        out += [f"{name}_shared_at = getelementptr ptr, ptr {name}_entry, i64 2",
                f"{name}_shared = load ptr, ptr {name}_shared_at",
                *_popcount(f"{name}_count", f"{name}_bits", bits),
                *_popcount(f"{name}_rest_count", f"{name}_rest_bits", bits),
                f"{name}_many = mul i32 {name}_count, {_FEW_TARGETS}",
                f"{name}_are_few = icmp uge i32 {name}_many, {name}_rest_count",
                f"{name}_is_own = icmp eq ptr {name}_shared, null",
                f"{name}_is_single = or i1 {name}_are_few, {name}_is_own",
                f"br i1 {name}_is_single, label %{single}, label %{several}"]
        emitter.open_block(several)
        _several_targets(emitter, name, table, index, at(count))
        out.append(f"br label %{head}")
        emitter.open_block(single)
    out += [f"{name}_function = load ptr, ptr {name}_entry",
            f"{name}_record_at = getelementptr ptr, ptr {name}_entry, i64 1",
            f"{name}_record = load ptr, ptr {name}_record_at",
            f"call void {name}_function(ptr {name}_record, {bits} {name}_bits, ptr {name}_slots)",
            f"br label %{done if uniform else head}"]
    emitter.open_block(done)
    for i, type_ in enumerate(site.results):
        stored = emitter.stored_type(type_, uniform)
        loaded = f"{name}_{i}" + ("_byte" if type_ == BOOL else "")
        out.append(f"{loaded} = load {stored}, ptr {at(len(site.arguments) + i)}, align 64")
        if type_ == BOOL:
            out.append(f"{name}_{i} = icmp ne {stored} {loaded}, {zero(stored)}")
    emitter.define(instruction, name)


def _popcount(name: str, word: str, bits: str) -> list[str]:
    return [f"{name}_w = zext {bits} {word} to i32", f"{name} = call i32 @llvm.ctpop.i32(i32 {name}_w)"]


def _several_targets(emitter: FunctionEmitter, name: str, table: str, index: str, memory: str) -> None:
    """Text of the call of a function with all elements whose targets share it, and of the mask of what is left."""
    lanes, mask, words = emitter.lanes, emitter.packets[BOOL], emitter.packets[UINT32]
    pointers, bits = f"<{lanes} x ptr>", f"i{lanes}"
    gather = f"call {pointers} @llvm.masked.gather.v{lanes}p0.v{lanes}p0({pointers}"
    emitter.lines += [
        f"{name}_indices = zext {words} {index} to <{lanes} x i64>",
        f"{name}_entries = getelementptr [{ENTRY_WORDS} x ptr], ptr {table}, <{lanes} x i64> {name}_indices",
        f"{name}_functions_at = getelementptr ptr, {pointers} {name}_entries, i64 2",
        f"{name}_functions = {gather} {name}_functions_at, i32 8, {mask} {name}_rest, {pointers} zeroinitializer)",
        f"{name}_shared_0 = insertelement {pointers} poison, ptr {name}_shared, i32 0",
        f"{name}_shared_all = shufflevector {pointers} {name}_shared_0, {pointers} poison, "
        f"<{lanes} x i32> zeroinitializer",
        f"{name}_equal = icmp eq {pointers} {name}_functions, {name}_shared_all",
        f"{name}_together = and {mask} {name}_rest, {name}_equal",
        f"{name}_records_at = getelementptr ptr, {pointers} {name}_entries, i64 1",
        f"{name}_records = {gather} {name}_records_at, i32 8, {mask} {name}_together, {pointers} zeroinitializer)",
        f"store {pointers} {name}_records, ptr {memory}, align 64",
        f"{name}_together_bits = bitcast {mask} {name}_together to {bits}",
        f"call void {name}_shared(ptr {memory}, {bits} {name}_together_bits, ptr {name}_slots)",
        f"{name}_apart = xor {mask} {name}_together, {mask.splat('true')}",
        f"{name}_left = and {mask} {name}_rest, {name}_apart"]


def target(module: ModuleContext, function: Function) -> str:
    """The text of a target's function; what it needs in turn is entered among the helpers of the module."""
    emitter = FunctionEmitter(module, function)
    uniform, size = not emitter.vectorized, _slot_bytes(emitter)
    types, out = emitter.types(uniform), emitter.lines
    mask, bits = types[BOOL], "i8" if uniform else f"i{emitter.lanes}"
    live = "%live"
    emitter.prologue.append(f"{live} = {'trunc i8' if uniform else f'bitcast {bits}'} %bits to {mask}")
    if function.records:
        emitter.prologue.append(f"%records = load <{emitter.lanes} x ptr>, ptr %parameters, align 64")
    emitter.set_active(live, uniform)

    def load(place: str, type_: int, name: str) -> str:
        stored = emitter.stored_type(type_, uniform)
        out.append(f"{name}_offset = mul i64 {place}, {size}")
        out.append(f"{name}_at = getelementptr i8, ptr %slots, i64 {name}_offset")
        value = f"{name}_byte" if type_ == BOOL else name
        out.append(f"{value} = load {stored}, ptr {name}_at, align 64")
        if type_ == BOOL:
            out.append(f"{name} = icmp ne {stored} {value}, {zero(stored)}")
        return name

    for place, argument in enumerate(function.arguments):
        emitter.define(argument, load(str(place), argument.type, f"%argument{place}"))
    assert function.live is not None
    emitter.define(function.live, live)
    for extra in function.extras:
        assert extra.access is not None
        offset = emitter.parameter(extra.access.slot, "i64")
        emitter.define(extra, load(offset, extra.type, f"%v{extra.number}"))
    emitter.run()
    for i, result in enumerate(function.results):
        stored, type_ = emitter.stored_type(result.type, uniform), types[result.type]
        value, before = emitter.value(result, uniform), load(str(len(function.arguments) + i), result.type,
                                                             f"%before{i}")
        out.append(f"%after{i} = select {mask} {live}, {type_} {value}, {type_} {before}")
        after = f"%after{i}"
        if result.type == BOOL:
            out.append(f"{after}_byte = zext {mask} {after} to {stored}")
            after += "_byte"
        out.append(f"store {stored} {after}, ptr %before{i}_at, align 64")
    return emitter.text(f"void @{function.name}(ptr noalias %parameters, {bits} %bits, ptr %slots) #0", f"{bits} %bits",
                        ["ret void"])
