"""LLVM text of reductions: an accumulator per block, and a second function that combines the blocks in their order.

Partial results lie at ``partials + block * stride + 8 * number``; the stride is a multiple of a cache line.  As blocks
depend on the width alone, the result has the same bits in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.node import Node
from ..ir.trace import reduction_identity
from ..types import BOOL, FLOAT16, FLOAT32, TYPES, UINT8, ReduceOp
from .texts import TypeText

if TYPE_CHECKING:
    from .emit import Emitter

__all__ = ["Accumulator", "accumulate", "combine", "partial_stride"]


def partial_stride(count: int) -> int:
    """Bytes of partial results that one block writes."""
    return (8 * count + 63) & ~63


class Accumulator:
    """The running result of one reduction; half precision is accumulated in single precision."""

    def __init__(self, emitter: Emitter, number: int, node: Node) -> None:
        self.number = number
        self.node = node
        self.op = node.attr
        self.type = FLOAT32 if node.type == FLOAT16 else node.type
        self.packet: TypeText = emitter.packets[self.type]
        self.scalar: TypeText = emitter.scalars[self.type]
        self.name = f"%sum{number}"
        self.start = _identity(self.op, self.type)

    def step(self, d: str, a: str, b: str, t: TypeText) -> str:
        """Text that combines ``b`` into ``a``."""
        op, kind = ReduceOp(self.op).name, t.info.kind
        if op in ("Add", "Mul"):
            return f"{d} = {'f' if kind == 'f' else ''}{op.lower()} {t} {a}, {b}"
        if op in ("And", "Or"):
            return f"{d} = {op.lower()} {t} {a}, {b}"
        compare = "olt" if op == "Min" else "ogt"
        if kind == "f":  # a comparison with NaN is false: NaN does not enter the result
            return f"{d}_c = fcmp {compare} {t} {b}, {a}\n{d} = select {t.mask} {d}_c, {t} {b}, {t} {a}"
        name = ("s" if kind == "i" else "u") + op.lower()
        return f"{d} = call {t} @llvm.{name}.{t.suffix}({t} {a}, {t} {b})"

    def phi(self, entry: str, body: str) -> str:
        """The accumulator's phi instruction in the loop over packets."""
        start = self.packet.splat(self.start)
        return f"{self.name} = phi {self.packet} [ {start}, %{entry} ], [ {self.name}_next, %{body} ]"

    def finish(self, emitter: Emitter) -> list[str]:
        """Reduce the packet to one element and store it among the partial results."""
        name, packet, scalar = self.name, self.packet, self.scalar
        stored = emitter.scalars[UINT8 if self.type == BOOL else self.type]
        op, kind = ReduceOp(self.op).name, self.packet.info.kind
        value = f"{name}_total"
        if op in ("Add", "Mul") and kind == "f":
            start = "-0.0" if op == "Add" else "1.0"
            lines = [f"{value} = call {scalar} @llvm.vector.reduce.f{op.lower()}.{packet.suffix}({scalar} {start}, "
                     f"{packet} {name}_next)"]
        else:
            prefix = "f" if kind == "f" else "" if op in ("Add", "Mul", "And", "Or") else "s" if kind == "i" else "u"
            lines = [f"{value} = call {scalar} @llvm.vector.reduce.{prefix}{op.lower()}.{packet.suffix}("
                     f"{packet} {name}_next)"]
        if self.type == BOOL:
            lines.append(f"{value}_m = zext i1 {value} to i8")
            value += "_m"
        stride = partial_stride(len(emitter.program.reductions))
        offset = f"{name}_offset"
        lines += [f"{offset}_0 = mul i64 %block, {stride}", f"{offset} = add i64 {offset}_0, {8 * self.number}",
                  f"{name}_at = getelementptr i8, ptr %p1, i64 {offset}",
                  f"store {stored} {value}, ptr {name}_at, align 8"]
        return lines


def _identity(op: int, type_: int) -> str:
    info = TYPES[type_]
    if op == ReduceOp.Add.value and info.kind == "f":
        return "-0.0"  # the sum of no numbers is 0, but that of negative zeros is -0
    value = reduction_identity(op, type_)
    if info.kind == "f":
        return {float("inf"): _INFINITY, float("-inf"): _NEGATIVE_INFINITY}.get(value, f"{float(value)}")
    return ("true" if value else "false") if info.kind == "b" else str(value)


_INFINITY, _NEGATIVE_INFINITY = "0x7FF0000000000000", "0xFFF0000000000000"


def accumulate(emitter: Emitter, number: int, node: Node) -> Accumulator:
    """Emit the step of a reduction in the loop over packets."""
    operand = node.d0
    assert operand is not None and emitter.vectorized
    accumulator = Accumulator(emitter, number, node)
    emitter.parameter(1, "ptr")
    value = emitter.value(operand, False)
    out, name, packet = emitter.body, accumulator.name, accumulator.packet
    if node.type == FLOAT16:
        out.append(f"{name}_wide = fpext {emitter.packets[FLOAT16]} {value} to {packet}")
        value = f"{name}_wide"
    out.append(f"{name}_in = select {packet.mask} {emitter.active_mask(False)}, {packet} {value}, "
               f"{packet} {packet.splat(accumulator.start)}")
    out.append(accumulator.step(f"{name}_next", name, f"{name}_in", packet))
    return accumulator


def combine(emitter: Emitter, accumulators: list[Accumulator]) -> list[str]:
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
        slot = emitter.program.slots[a.node.id]
        name, value, stored = a.name, f"{a.name}_next", str(a.scalar)
        if a.node.type == FLOAT16:
            lines.append(f"{name}_half = fptrunc float {value} to half")
            value, stored = f"{name}_half", "half"
        elif a.type == BOOL:
            lines.append(f"{name}_byte = zext i1 {value} to i8")
            value, stored = f"{name}_byte", "i8"
        lines += [f"{name}_result_at = getelementptr inbounds i64, ptr %parameters, i64 {slot}",
                  f"{name}_result = load ptr, ptr {name}_result_at, align 8",
                  f"store {stored} {value}, ptr {name}_result, align 1"]
    return [*lines, "ret void", "}"]
