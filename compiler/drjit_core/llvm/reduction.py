"""LLVM text of reductions: an accumulator per block, and a second function that combines the blocks in their order.

Partial results lie at ``partials + block * stride + 8 * number``; the stride is a multiple of a cache line.  As blocks
depend on the width alone, the result has the same bits in every run.

Sums of single precision are *flushed* every few packets: what a packet has gathered is added to a second accumulator of
double precision, which is what blocks store. So the error does not grow with the number of elements (of 16M elements of
0.1, it is one unit in the last place; with one accumulator a lane and block, a thousand), and costs nothing, because
the loop waits for memory. Half precision is accumulated in single precision, and flushed likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..codegen.linear import Reduction
from ..ops.reductions import REDUCTIONS
from ..types import BOOL, COMPUTES_IN, FLOAT32, FLOAT64, UINT8, ReduceOp
from .function import FunctionEmitter
from .texts import TypeText, accumulation, cast, constant
from .writer import Writer

__all__ = ["Accumulator", "FLUSHED_PACKETS", "accumulate", "combine_accumulators", "latch", "partial_stride"]

#: Packets between two flushes, a power of two.
FLUSHED_PACKETS = 8
#: Lanes of a flushed accumulator: one register of eight doubles, to which a packet is folded first.
_FLUSHED_LANES = 8


def partial_stride(words: int) -> int:
    """Bytes of partial results that one block writes."""
    return (8 * words + 63) & ~63


class Accumulator:
    """The running result of one reduction in a loop over packets.

    ``tag`` makes the names of its values unique.
    """

    def __init__(self, emitter: FunctionEmitter, tag: str, op: int, type_: int) -> None:
        self.emitter = emitter
        self.op = op
        self.result = type_
        #: Of what packets are added up, and of what is known in the end.
        self.type = COMPUTES_IN[type_]
        self.flushed = op == ReduceOp.Add.value and self.type == FLOAT32
        self.last = FLOAT64 if self.flushed else self.type
        self.packet: TypeText = emitter.packets[self.type]
        self.name = f"%sum{tag}"
        #: Names of what is there after the loop, without and with double precision.
        self.ends = f"{self.name}_next", f"{self.name}_wide"
        self.start = constant(self.type, REDUCTIONS[op].identity(self.type))
        lanes = min(_FLUSHED_LANES, emitter.lanes)
        self.wide = TypeText(emitter.packets[FLOAT64].info, lanes)

    def step(self, d: str, a: str, b: str, t: TypeText) -> str:
        """Text that combines ``b`` into ``a``."""
        return accumulation(self.op, d, a, b, t)

    def combined(self, w: Writer, a: str, b: str, t: TypeText) -> str:
        """``b`` combined into ``a``."""
        return w.named(lambda name: self.step(name, a, b, t))

    def neutralized(self, value: str) -> str:
        """Text that replaces the elements of a packet that take no part by neutral ones, as ``<name>_some``."""
        packet = self.packet
        return (f"{self.name}_some = select {packet.mask} {self.emitter.active_mask(False)}, {packet} {value}, "
                f"{packet} {packet.splat(self.start)}")

    def parts(self) -> list[tuple[str, TypeText, str]]:
        """Names, types and neutral values of what is carried from packet to packet."""
        parts = [(self.name, self.packet, self.packet.splat(self.start))]
        if self.flushed:
            parts.append((f"{self.name}_wide", self.wide, self.wide.splat("-0.0")))
        return parts

    def phis(self, entry: str, latch: str, flushing: bool, goes_on: bool = False) -> list[str]:
        """The accumulator's phi instructions in the loop over packets, which begins with neutral values, or goes on."""
        suffix = "_last" if flushing else "_next"
        return [f"{part} = phi {type_} [ {f'{part}_before' if goes_on else start}, %{entry} ], "
                f"[ {part}{suffix}, %{latch} ]" for part, type_, start in self.parts()]

    def flush(self, suffix: str, wide: str) -> list[str]:
        """Text that adds what packets have gathered to the accumulator of double precision, as ``<name>_wide<suffix>``.
        """
        name, packet = self.name, self.ends[0] if suffix == "_end" else f"{self.name}_next"
        lines, value, _ = self.folded(packet, f"{name}_f{suffix}", self.packet, self.wide.lanes)
        single = TypeText(self.packet.info, self.wide.lanes)
        return [*lines, f"{name}_wide{suffix}_in = fpext {single} {value} to {self.wide}",
                f"{name}_wide{suffix} = fadd {self.wide} {wide}, {name}_wide{suffix}_in"]

    def folded(self, value: str, name: str, type_: TypeText, lanes: int) -> tuple[list[str], str, TypeText]:
        """Text that combines the halves of a packet until it has so many lanes; the result's name and type."""
        lines: list[str] = []
        while type_.lanes > lanes:
            half = type_.lanes // 2
            smaller = TypeText(type_.info, half)
            names = []
            for part in range(2):
                chosen = ", ".join(f"i32 {part * half + lane}" for lane in range(half))
                names.append(f"{name}_{half}_{part}")
                lines.append(f"{names[-1]} = shufflevector {type_} {value}, {type_} poison, <{half} x i32> <{chosen}>")
            value, type_ = f"{name}_{half}", smaller
            lines.append(self.step(value, names[0], names[1], smaller))
        return lines, value, type_

    def total(self) -> tuple[list[str], str]:
        """Text that reduces the accumulators to one element, after the loop; its name, of the type ``last``."""
        name = self.name
        if self.flushed:
            lines = self.flush("_end", self.ends[1])
            value, type_ = f"{name}_wide_end", self.wide
        else:
            lines, value, type_ = [], self.ends[0], self.packet
        more, value, type_ = self.folded(value, f"{name}_t", type_, 1)
        return [*lines, *more, f"{name}_total = extractelement {type_} {value}, i32 0"], f"{name}_total"

    def rounded(self, w: Writer, value: str) -> str:
        """The result of a total."""
        if self.last == self.result:
            return value
        scalars = self.emitter.scalars
        return w.named(lambda name: cast(name, value, scalars[self.last], scalars[self.result]))

    def store_partial(self, number: int, words: int) -> list[str]:
        """Text that stores the total among the partial results of the block."""
        lines, value = self.total()
        name, stored = self.name, self.emitter.scalars[UINT8 if self.type == BOOL else self.last]
        if self.type == BOOL:
            lines.append(f"{value}_m = zext i1 {value} to i8")
            value += "_m"
        return [*lines, f"{name}_offset_0 = mul i64 %block, {partial_stride(words)}",
                f"{name}_offset = add i64 {name}_offset_0, {8 * number}",
                f"{name}_at = getelementptr i8, ptr %p1, i64 {name}_offset",
                f"store {stored} {value}, ptr {name}_at, align 8"]


def accumulate(emitter: FunctionEmitter, label: str, accumulators: list[Accumulator], values: list[str]) -> None:
    """Emit the steps of a packet. Elements that do not exist are looked for in the last packet alone: a mask of every
    packet takes as many instructions as the rest of a sum, and a tenth of its time."""
    out = emitter.lines
    packets = []
    for accumulator, value in zip(accumulators, values, strict=True):
        packets.append(value)
        if accumulator.result != accumulator.type:
            packets[-1] = f"{accumulator.name}_single"
            out.append(cast(packets[-1], value, emitter.packets[accumulator.result], accumulator.packet))
    whole, before = emitter.whole_packet(), emitter.label
    out.append(f"br i1 {whole}, label %added{label}, label %last{label}")
    emitter.open_block(f"last{label}")
    out += [accumulator.neutralized(value) for accumulator, value in zip(accumulators, packets, strict=True)]
    out.append(f"br label %added{label}")
    emitter.open_block(f"added{label}")
    out += [f"{a.name}_in = phi {a.packet} [ {value}, %{before} ], [ {a.name}_some, %last{label} ]"
            for a, value in zip(accumulators, packets, strict=True)]
    out += [a.step(f"{a.name}_next", a.name, f"{a.name}_in", a.packet) for a in accumulators]


def latch(accumulators: list[Accumulator], count: str, label: str, before: str) -> tuple[list[str], str]:
    """Text at the end of an iteration that flushes the accumulators if it is time, and the label that it ends in.

    ``count`` is the number of packets so far, this one included; ``label`` makes labels unique; ``before`` is the label
    of the block that the text goes on with.
    """
    flushed = [accumulator for accumulator in accumulators if accumulator.flushed]
    if not flushed:
        return [], before
    lines = [f"%since{label} = and i64 {count}, {FLUSHED_PACKETS - 1}", f"%due{label} = icmp eq i64 %since{label}, 0",
             f"br i1 %due{label}, label %flush{label}, label %latch{label}", f"flush{label}:"]
    for accumulator in flushed:
        lines += accumulator.flush("_due", f"{accumulator.name}_wide")
    lines += [f"br label %latch{label}", f"latch{label}:"]
    for accumulator in accumulators:
        name, packet = accumulator.name, accumulator.packet
        if accumulator.flushed:
            lines += [f"{name}_last = phi {packet} [ {name}_next, %{before} ], "
                      f"[ {packet.splat(accumulator.start)}, %flush{label} ]",
                      f"{name}_wide_last = phi {accumulator.wide} [ {name}_wide, %{before} ], "
                      f"[ {name}_wide_due, %flush{label} ]"]
        else:
            lines.append(f"{name}_last = phi {packet} [ {name}_next, %{before} ], [ {name}_next, %flush{label} ]")
    return lines, f"latch{label}"


def accumulators_of(emitter: FunctionEmitter, outputs: Sequence[Reduction],
                    numbers: Sequence[int]) -> dict[int, Accumulator]:
    """Emit the steps of some of a kernel's reductions in its loop over packets; returns their accumulators."""
    result = {number: Accumulator(emitter, str(number), outputs[number].op, outputs[number].type) for number in numbers}
    if result:
        accumulate(emitter, "", list(result.values()),
                   [emitter.value(outputs[number].value, False) for number in numbers])
    return result


def combine_accumulators(w: Writer, accumulators: Mapping[int, Accumulator], outputs: Sequence[Reduction], words: int,
                         partials: str) -> None:
    """Reduce the partial results of accumulators, all of them at once."""
    types = [(a, "i8" if a.type == BOOL else str(a.emitter.scalars[a.last])) for a in accumulators.values()]
    results = [w.parameter(outputs[number].slot, "ptr") for number in accumulators]

    def add(block: str, totals: list[str]) -> list[str]:
        row, found = w.mul(block, partial_stride(words)), []
        for (number, (a, stored)), total in zip(zip(accumulators, types, strict=True), totals, strict=True):
            part = w.load(stored, w.beyond(partials, w.add(row, 8 * number)), 8)
            if a.type == BOOL:
                part = w(f"icmp ne i8 {part}, 0")
            found.append(a.combined(w, total, part, a.emitter.scalars[a.last]))
        return found

    starts = [(str(a.emitter.scalars[a.last]), "-0.0" if a.flushed else a.start) for a, _ in types]
    for (a, stored), total, result in zip(types, w.repeat(0, "%blocks", 1, starts, add), results, strict=True):
        if a.type == BOOL:
            w.store(stored, w(f"zext i1 {total} to i8"), result, 1)
        else:
            w.store(a.emitter.scalars[a.result], a.rounded(w, total), result, 1)
