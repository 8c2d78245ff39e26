"""LLVM text of calls: the elements of a packet go through one target after the other.

Arguments and results lie in memory of the caller, a *slot* for each packet.  A table has an entry for each target: the
address of its function, and that of its record, which is to the function what the parameters are to a kernel.  The
caller's text says nothing of the number of targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.expand import Expanded
from ..codegen.program import Program
from ..ir.node import Node
from ..types import BOOL, UINT32
from .memory import stored_type
from .texts import zero

if TYPE_CHECKING:
    from .emit import Emitter

__all__ = ["call", "function", "name_of_function"]


def name_of_function(number: int) -> str:
    """The symbol of a kernel's function."""
    return f"target{number}"


def _slot_bytes(emitter: Emitter) -> int:
    return max(64, 8 * emitter.lanes)


def call(emitter: Emitter, node: Node) -> None:
    """Emit a call."""
    site = emitter.program.calls[node.id]
    number, uniform = emitter.place(node), not emitter.vectorized
    types, out, name = emitter.types(uniform), emitter.lines(False), f"%call{emitter.place(node)}"
    mask, words, size = types[BOOL], types[UINT32], _slot_bytes(emitter)
    assert node.d0 is not None and node.d1 is not None
    count = len(site.arguments) + len(site.results) + len(site.extras)
    emitter.prologue.append(f"{name}_slots = alloca [{max(count, 1) * size} x i8], align 64")

    def at(place: int) -> str:
        address = f"{name}_slot{place}_{len(out)}"
        out.append(f"{address} = getelementptr i8, ptr {name}_slots, i64 {place * size}")
        return address

    def put(place: int, type_: int, text: str) -> None:
        stored = stored_type(emitter, type_, uniform)
        if type_ == BOOL and text != "zeroinitializer":
            out.append(f"{name}_byte{place} = zext {mask} {text} to {stored}")
            text = f"{name}_byte{place}"
        out.append(f"store {stored} {text}, ptr {at(place)}, align 64")

    for place, value in enumerate(site.arguments):
        put(place, value.type, emitter.value(value, uniform))
    for place, (type_, _size) in enumerate(site.results, len(site.arguments)):
        stored = stored_type(emitter, type_, uniform)
        out.append(f"store {stored} {zero(stored)}, ptr {at(place)}, align 64")
    for place, value in enumerate(site.extras, len(site.arguments) + len(site.results)):
        put(place, value.type, emitter.value(value, uniform))

    table, limit = emitter.parameter(site.slot, "ptr"), emitter.parameter(site.slot + 1, "i32")
    if not uniform:
        limit = emitter.broadcast(limit, words)
    index = emitter.value(node.d0, uniform)
    out.append(f"{name}_known = icmp ult {words} {index}, {limit}")
    out.append(f"{name}_wanted = and {mask} {emitter.value(node.d1, uniform)}, {emitter.active_mask(uniform)}")
    out.append(f"{name}_all = and {mask} {name}_wanted, {name}_known")
    before, head, one, done = emitter.label(False), *(f"call{number}_{part}" for part in ("head", "one", "done"))
    bits = "i8" if uniform else f"i{emitter.lanes}"
    if uniform:
        out.append(f"br i1 {name}_all, label %{one}, label %{done}")
        emitter.open_block(one, False)
        out += [f"{name}_bits = zext i1 {name}_all to i8", f"{name}_index = zext i32 {index} to i64"]
    else:
        out.append(f"br label %{head}")
        emitter.open_block(head, False)
        out += [f"{name}_rest = phi {mask} [ {name}_all, %{before} ], [ {name}_next, %{one} ]",
                f"{name}_rest_bits = bitcast {mask} {name}_rest to {bits}",
                f"{name}_any = icmp ne {bits} {name}_rest_bits, 0",
                f"br i1 {name}_any, label %{one}, label %{done}"]
        emitter.open_block(one, False)
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
    out += [f"{name}_entry = getelementptr [2 x ptr], ptr {table}, i64 {name}_index",
            f"{name}_function = load ptr, ptr {name}_entry",
            f"{name}_record_at = getelementptr ptr, ptr {name}_entry, i64 1",
            f"{name}_record = load ptr, ptr {name}_record_at",
            f"call void {name}_function(ptr {name}_record, {bits} {name}_bits, ptr {name}_slots)",
            f"br label %{done if uniform else head}"]
    emitter.open_block(done, False)
    for i, (type_, _size) in enumerate(site.results):
        stored = stored_type(emitter, type_, uniform)
        loaded = f"{name}_{i}" + ("_byte" if type_ == BOOL else "")
        out.append(f"{loaded} = load {stored}, ptr {at(len(site.arguments) + i)}, align 64")
        if type_ == BOOL:
            out.append(f"{name}_{i} = icmp ne {stored} {loaded}, {zero(stored)}")
    emitter.define(node, name, uniform)


def function(caller: Emitter, program: Program, number: int) -> str:
    """The text of a target's function; what it needs in turn is entered among the helpers of the kernel."""
    from .emit import Emitter

    emitter = Emitter(program, Expanded(program), caller.lanes)
    emitter.helpers, emitter.functions = caller.helpers, caller.functions
    uniform, size = not emitter.vectorized, _slot_bytes(emitter)
    types, out = emitter.types(uniform), emitter.lines(False)
    mask, bits = types[BOOL], "i8" if uniform else f"i{emitter.lanes}"
    live = "%live"
    out.append(f"{live} = {'trunc i8' if uniform else f'bitcast {bits}'} %bits to {mask}")
    if uniform:
        emitter.scalar_active = live
    else:
        emitter.active = live

    def load(place: str, type_: int, name: str) -> str:
        stored = stored_type(emitter, type_, uniform)
        out.append(f"{name}_offset = mul i64 {place}, {size}")
        out.append(f"{name}_at = getelementptr i8, ptr %slots, i64 {name}_offset")
        value = f"{name}_byte" if type_ == BOOL else name
        out.append(f"{value} = load {stored}, ptr {name}_at, align 64")
        if type_ == BOOL:
            out.append(f"{name} = icmp ne {stored} {value}, {zero(stored)}")
        return name

    for slot, node in enumerate(program.arguments):
        emitter.define(node, load(str(slot), node.type, f"%argument{slot}"), uniform)
    assert program.live is not None
    emitter.define(program.live, live, uniform)
    for node in program.extras:
        offset = emitter.parameter(program.slots[node.id], "i64")
        emitter.define(node, load(offset, node.type, f"%v{emitter.place(node)}"), uniform)
    for node in emitter.expanded.order:
        emitter.node(node)
    for i, node in enumerate(program.stores):
        stored, type_ = stored_type(emitter, node.type, uniform), types[node.type]
        value, before = emitter.value(node, uniform), load(str(len(program.arguments) + i), node.type, f"%before{i}")
        out.append(f"%after{i} = select {mask} {live}, {type_} {value}, {type_} {before}")
        after = f"%after{i}"
        if node.type == BOOL:
            out.append(f"{after}_byte = zext {mask} {after} to {stored}")
            after += "_byte"
        out.append(f"store {stored} {after}, ptr %before{i}_at, align 64")
    caller.rare |= emitter.rare
    lines = [f"define void @{name_of_function(number)}(ptr noalias %parameters, {bits} %bits, ptr %slots) #0 {{",
             "entry:", *emitter.prologue]
    if "%always" in emitter.loaded:
        lines.append(f"%always = icmp ne {bits} %bits, 0")
    lines += emitter.entry
    if not uniform:
        lines += ["br label %packet", "packet:", *emitter.body]
    lines.append("ret void")
    if "%always" in emitter.loaded:
        lines += ["never:", "ret void"]
    return "\n".join([*lines, "}"])
