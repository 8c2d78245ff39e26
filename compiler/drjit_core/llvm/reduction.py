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
from .texts import TypeText, accumulation, constant
from .writer import Writer

__all__ = ["Accumulator", "accumulate", "accumulators_of", "combine_accumulators", "flush_is_due", "latch",
           "partial_stride"]

#: Packets between two flushes, a power of two.
_FLUSHED_PACKETS = 8
#: Lanes of a flushed accumulator: one register of eight doubles, to which a packet is folded first.
_FLUSHED_LANES = 8


def partial_stride(words: int) -> int:
    """Bytes of partial results that one block writes."""
    return (8 * words + 63) & ~63


class Accumulator:
    """The running result of one reduction in a loop over packets.

    ``tag`` makes the names of its phis unique.
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
        self.start = constant(self.type, REDUCTIONS[op].identity(self.type))
        self.wide = TypeText(emitter.packets[FLOAT64].info, min(_FLUSHED_LANES, emitter.lanes))
        #: What is carried from packet to packet: types, neutral values, and the names of phis.
        self.parts = [(self.packet, self.packet.splat(self.start), f"%sum{tag}")]
        if self.flushed:
            self.parts.append((self.wide, self.wide.splat("-0.0"), f"%sum{tag}_wide"))
        #: Of each part: what it begins with, what it is after a packet, and what goes to the next one.
        self.begins = [start for _, start, _ in self.parts]
        self.ends = self.following = [name for _, _, name in self.parts]

    def combined(self, w: Writer, a: str, b: str, t: TypeText) -> str:
        """``b`` combined into ``a``."""
        return w.named(lambda name: accumulation(self.op, name, a, b, t))

    def folded(self, w: Writer, value: str, type_: TypeText, lanes: int) -> tuple[str, TypeText]:
        """A packet whose halves are combined until it has so many lanes, and its type."""
        return w.folded(value, type_, lanes, lambda low, high, half: self.combined(w, low, high, half))

    def neutralized(self, w: Writer, value: str) -> str:
        """A packet whose elements that take no part are neutral."""
        packet = self.packet
        return w(f"select {packet.mask} {self.emitter.active_mask(False)}, {packet} {value}, "
                 f"{packet} {packet.splat(self.start)}")

    def phis(self, entry: str, latch: str) -> list[str]:
        """Text of the phis in the loop over packets, between blocks."""
        return [f"{name} = phi {type_} [ {begin}, %{entry} ], [ {following}, %{latch} ]" for (type_, _, name), begin,
                following in zip(self.parts, self.begins, self.following, strict=True)]

    def flush(self, w: Writer, packet: str, wide: str) -> str:
        """What packets have gathered, added to the accumulator of double precision."""
        value, type_ = self.folded(w, packet, self.packet, self.wide.lanes)
        return w(f"fadd {self.wide} {wide}, {w(f'fpext {type_} {value} to {self.wide}')}")

    def total(self, w: Writer, ends: Sequence[str]) -> str:
        """The accumulators, as they are after the loop, reduced to one element, of the type ``last``."""
        value, type_ = (self.flush(w, *ends), self.wide) if self.flushed else (ends[0], self.packet)
        value, type_ = self.folded(w, value, type_, 1)
        return w(f"extractelement {type_} {value}, i32 0")

    def rounded(self, w: Writer, value: str) -> str:
        """The result of a total."""
        scalars = self.emitter.scalars
        return value if self.last == self.result else w.cast(value, scalars[self.last], scalars[self.result])

    def store_partial(self, w: Writer, total: str, number: object, words: int) -> None:
        """Store a total among the partial results of the block."""
        stored = self.emitter.scalars[UINT8 if self.type == BOOL else self.last]
        if self.type == BOOL:
            total = w(f"zext i1 {total} to i8")
        offset = w.add(w.mul("%block", partial_stride(words)), number)
        w.store(stored, total, w.beyond(self.emitter.parameter(1, "ptr"), offset), 8)


def accumulate(emitter: FunctionEmitter, accumulators: list[Accumulator], values: list[str]) -> None:
    """Write the steps of a packet. Elements that do not exist are looked for in the last packet alone: a mask of every
    packet takes as many instructions as the rest of a sum, and a tenth of its time."""
    w = emitter.writer
    packets = [value if a.result == a.type else w.cast(value, emitter.packets[a.result], a.packet)
               for a, value in zip(accumulators, values, strict=True)]
    whole, before, last, added = emitter.whole_packet(), w.here, w.label("last"), w.label("added")
    w.fork(whole, added, last)
    w.open(last)
    some = [a.neutralized(w, value) for a, value in zip(accumulators, packets, strict=True)]
    w.go(added)
    w.open(added)
    given = [w.phi(a.packet, (all_, before), (those, last))
             for a, all_, those in zip(accumulators, packets, some, strict=True)]
    for a, packet in zip(accumulators, given, strict=True):
        (_, _, name), *rest = a.parts
        a.ends = a.following = [a.combined(w, name, packet, a.packet), *(wide for _, _, wide in rest)]


def flush_is_due(w: Writer, index: str, lanes: int) -> str:
    """Whether it is time to flush, behind a packet of so many elements that ends at an index."""
    packets = w(f"lshr i64 {index}, {lanes.bit_length() - 1}")
    return w(f"icmp eq i64 {w.and_(packets, _FLUSHED_PACKETS - 1)}, 0")


def latch(w: Writer, accumulators: Sequence[Accumulator], index: str, lanes: int) -> None:
    """Write what ends an iteration: the accumulators are flushed if it is time."""
    flushed = [accumulator for accumulator in accumulators if accumulator.flushed]
    if not flushed:
        return
    before, flush, go_on = w.here, w.label("flush"), w.label("latch")
    w.fork(flush_is_due(w, index, lanes), flush, go_on)
    w.open(flush)
    wides = {accumulator: accumulator.flush(w, *accumulator.ends) for accumulator in flushed}
    w.go(go_on)
    w.open(go_on)
    for accumulator in accumulators:
        after = [accumulator.parts[0][1], wides[accumulator]] if accumulator.flushed else accumulator.ends
        accumulator.following = [w.phi(type_, (end, before), (value, flush)) for (type_, *_), end, value in
                                 zip(accumulator.parts, accumulator.ends, after, strict=True)]


def accumulators_of(emitter: FunctionEmitter, outputs: Sequence[Reduction],
                    numbers: Sequence[int]) -> dict[int, Accumulator]:
    """Write the steps of some of a kernel's reductions in its loop over packets; returns their accumulators."""
    result = {number: Accumulator(emitter, str(number), outputs[number].op, outputs[number].type) for number in numbers}
    if result:
        accumulate(emitter, list(result.values()), emitter.values([outputs[number].value for number in numbers], False))
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
