"""LLVM text of reductions: an accumulator per block, and a second function that combines the blocks in their order.

Partial results lie at ``partials + block * stride + 8 * number``; the stride is a multiple of a cache line.  As blocks
depend on the width alone, the result has the same bits in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.linear import Reduction
from ..ops.reductions import REDUCTIONS
from ..types import BOOL, FLOAT16, FLOAT32, UINT8
from .texts import HORIZONTAL, TypeText, accumulation, constant

if TYPE_CHECKING:
    from .function import FunctionEmitter

__all__ = ["Accumulator", "accumulate", "combine", "partial_stride"]


def partial_stride(count: int) -> int:
    """Bytes of partial results that one block writes."""
    return (8 * count + 63) & ~63


class Accumulator:
    """The running result of one reduction; half precision is accumulated in single precision."""

    def __init__(self, emitter: FunctionEmitter, number: int, output: Reduction) -> None:
        self.number = number
        self.output = output
        self.op = output.op
        self.type = FLOAT32 if output.type == FLOAT16 else output.type
        self.packet: TypeText = emitter.packets[self.type]
        self.scalar: TypeText = emitter.scalars[self.type]
        self.name = f"%sum{number}"
        self.start = constant(self.type, REDUCTIONS[self.op].identity(self.type))

    def step(self, d: str, a: str, b: str, t: TypeText) -> str:
        """Text that combines ``b`` into ``a``."""
        return accumulation(self.op, d, a, b, t)

    def phi(self, entry: str, body: str) -> str:
        """The accumulator's phi instruction in the loop over packets."""
        start = self.packet.splat(self.start)
        return f"{self.name} = phi {self.packet} [ {start}, %{entry} ], [ {self.name}_next, %{body} ]"

    def finish(self, emitter: FunctionEmitter) -> list[str]:
        """Reduce the packet to one element and store it among the partial results."""
        name, packet, scalar = self.name, self.packet, self.scalar
        stored = emitter.scalars[UINT8 if self.type == BOOL else self.type]
        kind = packet.info.kind
        value = f"{name}_total"
        # where the order shows, the intrinsic begins with a number and goes on in the order of the lanes
        start = f"{scalar} {self.start}, " if kind in REDUCTIONS[self.op].rounds else ""
        lines = [f"{value} = call {scalar} @llvm.vector.reduce.{HORIZONTAL[self.op][kind]}.{packet.suffix}("
                 f"{start}{packet} {name}_next)"]
        if self.type == BOOL:
            lines.append(f"{value}_m = zext i1 {value} to i8")
            value += "_m"
        stride = partial_stride(len(emitter.function.reductions))
        offset = f"{name}_offset"
        lines += [f"{offset}_0 = mul i64 %block, {stride}", f"{offset} = add i64 {offset}_0, {8 * self.number}",
                  f"{name}_at = getelementptr i8, ptr %p1, i64 {offset}",
                  f"store {stored} {value}, ptr {name}_at, align 8"]
        return lines


def accumulate(emitter: FunctionEmitter, number: int, output: Reduction) -> Accumulator:
    """Emit the step of a reduction in the loop over packets."""
    assert emitter.vectorized
    accumulator = Accumulator(emitter, number, output)
    emitter.parameter(1, "ptr")
    value = emitter.value(output.value, False)
    out, name, packet = emitter.lines, accumulator.name, accumulator.packet
    if output.type == FLOAT16:
        out.append(f"{name}_wide = fpext {emitter.packets[FLOAT16]} {value} to {packet}")
        value = f"{name}_wide"
    out.append(f"{name}_in = select {packet.mask} {emitter.active_mask(False)}, {packet} {value}, "
               f"{packet} {packet.splat(accumulator.start)}")
    out.append(accumulator.step(f"{name}_next", name, f"{name}_in", packet))
    return accumulator


def combine(accumulators: list[Accumulator]) -> str:
    """The function that reduces the partial results of all blocks and writes the outputs."""
    lines = ["define void @combine(ptr noalias %parameters, i64 %blocks) #0 {", "entry:",
             "%partials_at = getelementptr inbounds i64, ptr %parameters, i64 1",
             "%partials = load ptr, ptr %partials_at, align 8", "br label %next", "next:",
             "%block = phi i64 [ 0, %entry ], [ %block_next, %next ]"]
    for a in accumulators:
        lines.append(f"{a.name} = phi {a.scalar} [ {a.start}, %entry ], [ {a.name}_next, %next ]")
    stride = partial_stride(len(accumulators))
    lines.append(f"%offset = mul i64 %block, {stride}")
    for a in accumulators:
        name = a.name
        stored = "i8" if a.type == BOOL else a.scalar
        lines += [f"{name}_offset = add i64 %offset, {8 * a.number}",
                  f"{name}_at = getelementptr i8, ptr %partials, i64 {name}_offset",
                  f"{name}_in{'_m' if a.type == BOOL else ''} = load {stored}, ptr {name}_at, align 8"]
        if a.type == BOOL:
            lines.append(f"{name}_in = icmp ne i8 {name}_in_m, 0")
        lines.append(a.step(f"{name}_next", name, f"{name}_in", a.scalar))
    lines += ["%block_next = add i64 %block, 1", "%more = icmp ult i64 %block_next, %blocks",
              "br i1 %more, label %next, label %done", "done:"]
    for a in accumulators:
        name, value, stored = a.name, f"{a.name}_next", str(a.scalar)
        if a.output.type == FLOAT16:
            lines.append(f"{name}_half = fptrunc float {value} to half")
            value, stored = f"{name}_half", "half"
        elif a.type == BOOL:
            lines.append(f"{name}_byte = zext i1 {value} to i8")
            value, stored = f"{name}_byte", "i8"
        lines += [f"{name}_result_at = getelementptr inbounds i64, ptr %parameters, i64 {a.output.slot}",
                  f"{name}_result = load ptr, ptr {name}_result_at, align 8",
                  f"store {stored} {value}, ptr {name}_result, align 1"]
    return "\n".join([*lines, "ret void", "}"])
