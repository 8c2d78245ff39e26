"""PTX text of range checks: debug mode compares indices with the size of the memory that they refer to.

Elements whose index is out of bounds take no part, and are counted in the report, of which two words belong to each
access; who counts the first one writes the position that it asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.linear import Access, Instruction
from ..codegen.program import REPORT_WORDS
from ..types import BOOL, TYPES

if TYPE_CHECKING:
    from .function import FunctionEmitter

__all__ = ["within_bounds"]


def within_bounds(emitter: FunctionEmitter, access: Access, index: Instruction, lane: int, mask: str,
                  uniform: bool) -> str:
    """The mask of an access without what is out of bounds; without checks, the mask.

    Indices are compared as unsigned 64-bit numbers, signed ones sign-extended: negative ones are too large.
    """
    check = access.check
    if check is None:
        return mask
    out, info, value = emitter.lines, TYPES[index.type], emitter.value(index, lane)
    limit, report = emitter.parameter(check.slot), emitter.parameter(emitter.function.report)
    mask = emitter.as_register(mask)
    position, old = emitter.registers("%rd", "%rd")
    inside, allowed, bad, first = (emitter.new(BOOL) for _ in range(4))
    if info.bits == 64:
        out.append(f"mov.b64 {position}, {value};")
    else:
        out.append(f"cvt.{'s64.s32' if info.kind == 'i' else 'u64.u32'} {position}, {value};")
    out += [f"setp.lt.u64 {inside}, {position}, {limit};", f"and.pred {allowed}, {inside}, {mask};",
            f"xor.pred {bad}, {mask}, {allowed};"]
    if uniform and emitter.function.vectorized and not emitter.record and not emitter.block.is_region:
        only = emitter.new(BOOL)  # the first thread reports what all of them see
        out += [f"setp.eq.u64 {only}, {emitter.index}, 0;", f"and.pred {bad}, {bad}, {only};"]
    at = 8 * REPORT_WORDS * check.number
    out += [f"mov.b64 {old}, 1;", f"@{bad} atom.relaxed.gpu.global.add.u64 {old}, [{report}+{at}], 1;",
            f"setp.eq.and.u64 {first}, {old}, 0, {bad};", f"@{first} st.global.u64 [{report}+{at + 8}], {position};"]
    return allowed
