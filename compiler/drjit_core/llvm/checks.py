"""LLVM text of range checks: debug mode compares indices with the size of the memory that they refer to.

Lanes whose index is out of bounds are masked out, and reported.  A report has two words for each access: how many lanes
were out of bounds, and the position that the first of them asked for.  Who raises the number from zero writes the
position, so that threads need no lock; the host reads both when the launch has ended.
"""

from __future__ import annotations

from ..codegen.linear import Access, Instruction
from ..codegen.program import REPORT_WORDS
from ..types import BOOL, TYPES, UINT64
from .function import FunctionEmitter
from .writer import Writer

__all__ = ["within_bounds"]

_REPORT_ONE, _REPORT_PACKET = "out_of_bounds", "out_of_bounds_packet"


def within_bounds(emitter: FunctionEmitter, access: Access, index: Instruction, name: str, mask: str,
                  uniform: bool) -> str:
    """The mask of an access without the lanes that are out of bounds, which are reported; without checks, the mask.

    Indices are compared as unsigned 64-bit numbers, signed ones sign-extended: negative ones are too large.
    """
    check = access.check
    if check is None:
        return mask
    types, out = emitter.types(uniform), emitter.lines
    wide, mask_type = types[UINT64], types[BOOL]
    limit = emitter.parameter(check.slot, "i64")
    if not uniform:
        limit = emitter.broadcast(limit, wide)
    position = emitter.value(index, uniform)
    if TYPES[index.type].bits < 64:
        extend = "sext" if TYPES[index.type].kind == "i" else "zext"
        out.append(f"{name}_position = {extend} {types[index.type]} {position} to {wide}")
        position = f"{name}_position"
    out.append(f"{name}_inside = icmp ult {wide} {position}, {limit}")
    out.append(f"{name}_allowed = and {mask_type} {mask}, {name}_inside")
    out.append(f"{name}_bad = xor {mask_type} {mask}, {name}_allowed")
    report = emitter.parameter(emitter.function.report, "ptr")
    out.append(f"{name}_report = getelementptr i64, ptr {report}, i64 {REPORT_WORDS * check.number}")
    _helpers(emitter)
    if uniform:
        out.append(f"{name}_count = {_count_of_uniform(emitter, name, out)}")
        out.append(f"call void @{_REPORT_ONE}(ptr {name}_report, i64 {position}, i64 {name}_count)")
    else:
        out.append(f"call void @{_REPORT_PACKET}(ptr {name}_report, {wide} {position}, {mask_type} {name}_bad)")
    return f"{name}_allowed"


def _count_of_uniform(emitter: FunctionEmitter, name: str, out: list[str]) -> str:
    """The number of bad lanes of a scalar access: the active ones in a loop over packets, else one a launch, or one a
    call of a function."""
    bad = f"{name}_bad"
    if emitter.vectorized and emitter.in_region:
        packet = emitter.packets[BOOL]
        emitter.splat(f"{name}_everywhere", bad, packet, out)
        out.append(f"{name}_active = and {packet} {name}_everywhere, {emitter.active_mask(False)}")
        out.append(f"{name}_bits = bitcast {packet} {name}_active to i{emitter.lanes}")
        out.append(f"{name}_ones = call i{emitter.lanes} @llvm.ctpop.i{emitter.lanes}(i{emitter.lanes} {name}_bits)")
        return _as_word(f"{name}_ones", emitter.lanes)
    if emitter.vectorized and emitter.function.live is None:  # a kernel: every block runs this: the first one reports
        if "%first_block" not in emitter.loaded:
            emitter.loaded.add("%first_block")
            emitter.prologue.append("%first_block = icmp eq i64 %begin, 0")
        out.append(f"{bad}_once = and i1 {bad}, %first_block")
        bad += "_once"
    return f"zext i1 {bad} to i64"


def _as_word(name: str, bits: int) -> str:
    return f"zext i{bits} {name} to i64" if bits < 64 else f"add i64 {name}, 0"


def _helpers(emitter: FunctionEmitter) -> None:
    """Add the functions that write a report to the module."""
    if _REPORT_ONE in emitter.module.helpers:
        return
    w = Writer()
    w.function(f"internal void @{_REPORT_ONE}(ptr %report, i64 %position, i64 %count)")
    w.leave(w("icmp eq i64 %count, 0"))
    before = w("atomicrmw add ptr %report, i64 %count monotonic, align 8")
    w.branch(w(f"icmp eq i64 {before}, 0"), lambda: w.store("i64", "%position", w.at("i64", "%report", 1), 8))
    w.end()
    emitter.module.helpers[_REPORT_ONE] = w.functions()
    if emitter.vectorized:
        emitter.module.helpers[_REPORT_PACKET] = _report_packet(emitter.lanes, *(
            str(emitter.packets[type_]) for type_ in (UINT64, BOOL)))


def _report_packet(lanes: int, wide: str, mask: str) -> str:
    """The function that reports some lanes of a packet."""
    w, bits = Writer(), f"i{lanes}"
    w.function(f"internal void @{_REPORT_PACKET}(ptr %report, {wide} %positions, {mask} %bad)")
    bad = w(f"bitcast {mask} %bad to {bits}")
    w.leave(w(f"icmp eq {bits} {bad}, 0"))
    number = w.call(bits, f"llvm.cttz.{bits}", f"{bits} {bad}", "i1 true")
    position = w(f"extractelement {wide} %positions, {bits} {number}")
    count = w(_as_word(w.call(bits, f"llvm.ctpop.{bits}", f"{bits} {bad}"), lanes))
    w.run(_REPORT_ONE, "ptr %report", f"i64 {position}", f"i64 {count}")
    w.end()
    return w.functions()
