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
from .module import ModuleContext
from .writer import Writer

__all__ = ["within_bounds"]


def within_bounds(emitter: FunctionEmitter, access: Access, index: Instruction, mask: str, uniform: bool) -> str:
    """The mask of an access without the lanes that are out of bounds, which are reported; without checks, the mask.

    Indices are compared as unsigned 64-bit numbers, signed ones sign-extended: negative ones are too large.
    """
    check = access.check
    if check is None:
        return mask
    types, w = emitter.types(uniform), emitter.writer
    wide, mask_type = types[UINT64], types[BOOL]
    limit = emitter.parameter(check.slot, "i64")
    if not uniform:
        limit = emitter.broadcast(limit, wide)
    position = emitter.value(index, uniform)
    if TYPES[index.type].bits < 64:
        extend = "sext" if TYPES[index.type].kind == "i" else "zext"
        position = w(f"{extend} {types[index.type]} {position} to {wide}")
    inside = w(f"icmp ult {wide} {position}, {limit}")
    allowed = w(f"and {mask_type} {mask}, {inside}")
    bad = w(f"xor {mask_type} {mask}, {allowed}")
    report = w.at("i64", emitter.parameter(emitter.function.report, "ptr"), REPORT_WORDS * check.number)
    function = _report_one(emitter.module) if uniform else _report_packet(emitter.module)
    if uniform:
        w.run(function, f"ptr {report}", f"i64 {position}", f"i64 {_count_of_uniform(emitter, bad)}")
    else:
        w.run(function, f"ptr {report}", f"{wide} {position}", f"{mask_type} {bad}")
    return allowed


def _count_of_uniform(emitter: FunctionEmitter, bad: str) -> str:
    """The number of bad lanes of a scalar access: the active ones in a loop over packets, else one a launch, or one a
    call of a function."""
    w = emitter.writer
    if emitter.vectorized and emitter.in_region:
        packet, word = emitter.packets[BOOL], f"i{emitter.lanes}"
        active = w(f"and {packet} {w.splat(packet, bad)}, {emitter.active_mask(False)}")
        ones = w.call(word, f"llvm.ctpop.{word}", f"{word} {emitter.bits_of(active)}")
        return w(_as_word(ones, emitter.lanes))
    if emitter.vectorized and emitter.function.live is None:  # a kernel: every block runs this: the first one reports
        bad = w(f"and i1 {bad}, {emitter.keep('first block', lambda: emitter.prologue('icmp eq i64 %begin, 0'))}")
    return w(f"zext i1 {bad} to i64")


def _as_word(name: str, bits: int) -> str:
    return f"zext i{bits} {name} to i64" if bits < 64 else f"add i64 {name}, 0"


def _report_one(module: ModuleContext) -> str:
    """The function that reports lanes at one position."""
    def write(w: Writer) -> None:
        w.leave(w("icmp eq i64 %count, 0"))
        before = w("atomicrmw add ptr %report, i64 %count monotonic, align 8")
        w.branch(w(f"icmp eq i64 {before}, 0"), lambda: w.store("i64", "%position", w.at("i64", "%report", 1), 8))

    return module.need_function("out_of_bounds", "ptr %report, i64 %position, i64 %count", write, attributes="#0")


def _report_packet(module: ModuleContext) -> str:
    """The function that reports some lanes of a packet."""
    wide, mask, bits = module.packets[UINT64], module.packets[BOOL], f"i{module.lanes}"

    def write(w: Writer) -> None:
        bad = w(f"bitcast {mask} %bad to {bits}")
        w.leave(w(f"icmp eq {bits} {bad}, 0"))
        number = w.call(bits, f"llvm.cttz.{bits}", f"{bits} {bad}", "i1 true")
        position = w(f"extractelement {wide} %positions, {bits} {number}")
        count = w(_as_word(w.call(bits, f"llvm.ctpop.{bits}", f"{bits} {bad}"), module.lanes))
        w.run(_report_one(module), "ptr %report", f"i64 {position}", f"i64 {count}")

    return module.need_function("out_of_bounds_packet", f"ptr %report, {wide} %positions, {mask} %bad", write,
                                attributes="#0")
