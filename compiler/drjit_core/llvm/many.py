"""LLVM text of kernels with many reductions, such as the gradients of a hundred scalars: accumulators in memory.

What does not fit into registers lies on the stack anyway.  Here it does so on purpose: a value is added to its
accumulator as soon as it is there, instead of waiting for all others; and whatever is not done for each packet (the
beginning, the last packet, which may be incomplete, flushing, totals, the combination of blocks) is a loop over the
accumulators, and so is the text of one, however many there are.  Of a hundred gradients of single precision, that is a
third of the time and half of the compilation.  Results have the same bits as those of :mod:`.reduction`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from ..codegen.linear import Function, Instruction, Reduction
from ..ops.products import OUTER
from ..types import BOOL
from . import outer
from .function import FunctionEmitter
from .lines import Lines
from .reduction import FLUSHED_PACKETS, Accumulator, combine_accumulators, partial_stride
from .texts import TypeText, cast
from .writer import Writer

__all__ = ["Bank", "Banks", "banks_of", "combine"]

#: From so many reductions of one kind on, side by side, their accumulators are in memory.
MANY = 8


class Bank:
    """Reductions of one operator and type, the first of which has a number; their accumulators side by side.

    Arrays on the stack: ``sums`` are accumulators of packets, ``wides`` those of double precision, and ``saved`` is
    what the sums were before the last packet.
    """

    def __init__(self, emitter: FunctionEmitter, first: int, outputs: Sequence[Reduction]) -> None:
        self.emitter = emitter
        self.first = first
        self.outputs = outputs
        self.count = len(outputs)
        self.label = f"bank{first}"
        #: What has the texts of one of them.
        self.one = Accumulator(emitter, f"b{first}", outputs[0].op, outputs[0].type)

    def array(self, name: str, type_: TypeText) -> str:
        """Text of an array on the stack."""
        return f"%{self.label}_{name} = alloca [{self.count} x {type_}], align 64"

    def at(self, w: Writer, array: str, type_: TypeText, position: object) -> str:
        """The address of an entry of such an array."""
        return w.at(type_, f"%{self.label}_{array}", position)

    def folded(self, w: Writer, value: str, type_: TypeText, lanes: int) -> tuple[str, TypeText]:
        """A packet whose halves are combined until it has so many lanes, and its type."""
        lines, value, type_ = self.one.folded(value, "%" + w.name(), type_, lanes)
        for line in lines:
            w.line(line)
        return value, type_

    # --- text of the loop over packets -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Write what comes before the loop over packets: all accumulators are neutral."""
        emitter, one = self.emitter, self.one
        w = Writer(emitter.entry, f"{self.label}.start.")
        emitter.prologue += [self.array("sums", one.packet), self.array("saved", one.packet)]
        if one.flushed:
            emitter.prologue.append(self.array("wides", one.wide))

        def neutral(position: str, _: list[str]) -> None:
            w.store(one.packet, one.packet.splat(one.start), self.at(w, "sums", one.packet, position), 64)
            if one.flushed:
                w.store(one.wide, one.wide.splat("-0.0"), self.at(w, "wides", one.wide, position), 64)

        w.repeat(0, self.count, 1, [], neutral)

    def copy(self, source: str, target: str, mask: str | None) -> None:
        """Write what a packet that is not whole needs: accumulators are saved, or those of missing elements restored.
        """
        w, type_ = Writer(self.emitter.body, f"{self.label}.{source}."), self.one.packet

        def copy(position: str, _: list[str]) -> None:
            value = w.load(type_, self.at(w, source, type_, position), 64)
            at = self.at(w, target, type_, position)
            if mask is not None:
                value = w(f"select {type_.mask} {mask}, {type_} {w.load(type_, at, 64)}, {type_} {value}")
            w.store(type_, value, at, 64)

        w.repeat(0, self.count, 1, [], copy)

    def add(self, position: int, value: str) -> None:
        """Write what combines a packet with an accumulator."""
        one, w = self.one, Writer(self.emitter.lines, f"{self.label}.{position}.")
        if one.result != one.type:
            single = value
            value = w.named(lambda name: cast(name, single, self.emitter.packets[one.result], one.packet))
        at = self.at(w, "sums", one.packet, position)
        total = w.load(one.packet, at, 64)
        w.store(one.packet, one.combined(w, total, value, one.packet), at, 64)

    def flush(self) -> None:
        """Write what adds what packets have gathered to the accumulators of double precision."""
        one, w = self.one, Writer(self.emitter.body, f"{self.label}.flush.")

        def flush(position: str, _: list[str]) -> None:
            w.store(one.wide, self._flushed(w, position), self.at(w, "wides", one.wide, position), 64)
            w.store(one.packet, one.packet.splat(one.start), self.at(w, "sums", one.packet, position), 64)

        if one.flushed:
            w.repeat(0, self.count, 1, [], flush)

    def _flushed(self, w: Writer, position: str) -> str:
        """The sum of both accumulators."""
        one = self.one
        value, type_ = self.folded(w, w.load(one.packet, self.at(w, "sums", one.packet, position), 64), one.packet,
                                   one.wide.lanes)
        wide = w.load(one.wide, self.at(w, "wides", one.wide, position), 64)
        return w(f"fadd {one.wide} {wide}, {w(f'fpext {type_} {value} to {one.wide}')}")

    def store_partials(self, end: Lines, words: int) -> None:
        """Write what stores the totals among the partial results of the block, after the loop."""
        one, w = self.one, Writer(end, f"{self.label}.total.")

        def store(position: str, _: list[str]) -> None:
            value, type_ = (self._flushed(w, position), one.wide) if one.flushed else (
                w.load(one.packet, self.at(w, "sums", one.packet, position), 64), one.packet)
            value, type_ = self.folded(w, value, type_, 1)
            total = w(f"extractelement {type_} {value}, i32 0")
            offset = w.add(w.mul("%block", partial_stride(words)), w.add(w.mul(position, 8), 8 * self.first))
            w.store(type_.element, total, w.beyond("%p1", offset), 8)

        w.repeat(0, self.count, 1, [], store)

    # --- text of the second function ---------------------------------------------------------------------------------

    def combine(self, w: Writer, words: int, partials: str) -> None:
        """Write what reduces the partial results of all blocks and writes the outputs."""
        one, scalars = self.one, self.emitter.scalars
        last, stored = scalars[one.last], scalars[one.result]

        def write(position: str, _: list[str]) -> None:
            column = w.at("i64", partials, w.add(position, self.first))

            def add(block: str, totals: list[str]) -> list[str]:
                part = w.load(last, w.beyond(column, w.mul(block, partial_stride(words))), 8)
                return [one.combined(w, totals[0], part, last)]

            (total,) = w.repeat(0, "%blocks", 1, [(str(last), "-0.0" if one.flushed else one.start)], add)
            slot = w.load("i64", w.at("i64", f"@{self.label}_slots", position), 8)
            result = w.load("ptr", w.at("i64", "%parameters", slot), 8)
            w.store(stored, one.rounded(w, total), result, 1)

        w.repeat(0, self.count, 1, [], write)

    def slots(self) -> str:
        """Text of the table of where the outputs' addresses are found."""
        numbers = ", ".join(f"i64 {output.slot}" for output in self.outputs)
        return f"@{self.label}_slots = internal constant [{self.count} x i64] [{numbers}], align 8"


class Banks:
    """All banks of a kernel, and what the kernel does for them."""

    def __init__(self, emitter: FunctionEmitter, banks: Sequence[Bank]) -> None:
        self.emitter = emitter
        self.banks = banks
        #: By the numbers of instructions, the accumulators that they are added to.
        self.adding: dict[int, list[tuple[Bank, int]]] = {}
        self.late: list[tuple[Bank, int, Instruction]] = []
        for bank in banks:
            emitter.module.helpers[bank.label] = bank.slots()
            for position, output in enumerate(bank.outputs):
                value = output.value
                if value.uniform or value.once:
                    self.late.append((bank, position, value))
                else:
                    self.adding.setdefault(value.number, []).append((bank, position))
        self.whole = ""

    def have(self, number: int) -> bool:
        """Whether a reduction is one of theirs."""
        return any(bank.first <= number < bank.first + bank.count for bank in self.banks)

    def begin(self) -> None:
        """Emit what comes before a packet."""
        emitter = self.emitter
        for bank in self.banks:
            bank.begin()
        self.whole = emitter.whole_packet()
        emitter.body.append(f"br i1 {self.whole}, label %saved, label %save")
        emitter.open_block("save")
        for bank in self.banks:
            bank.copy("sums", "saved", None)
        emitter.body.append("br label %saved")
        emitter.open_block("saved")

    def add(self, instruction: Instruction) -> None:
        """Emit what becomes of a value that has just been computed."""
        for bank, position in self.adding.get(instruction.number, ()):
            bank.add(position, self.emitter.value(instruction, False))

    def end(self) -> None:
        """Emit what comes after a packet: what is left to be added, and elements that do not exist."""
        emitter = self.emitter
        for bank, position, value in self.late:
            bank.add(position, emitter.value(value, False))
        emitter.body.append(f"br i1 {self.whole}, label %restored, label %restore")
        emitter.open_block("restore")
        mask = emitter.active_mask(False)
        for bank in self.banks:
            bank.copy("saved", "sums", mask)
        emitter.body.append("br label %restored")
        emitter.open_block("restored")
        if any(bank.one.flushed for bank in self.banks):
            emitter.body += [f"%packets = lshr i64 %end_of_packet, {emitter.lanes.bit_length() - 1}",
                             f"%packets_since = and i64 %packets, {FLUSHED_PACKETS - 1}",
                             "%flush_due = icmp eq i64 %packets_since, 0",
                             "br i1 %flush_due, label %flush_banks, label %flushed_banks"]
            emitter.open_block("flush_banks")
            for bank in self.banks:
                bank.flush()
            emitter.body.append("br label %flushed_banks")
            emitter.open_block("flushed_banks")


def banks_of(emitter: FunctionEmitter, outputs: Sequence[Reduction]) -> Banks | None:
    """The banks of a kernel's reductions, if there are many; their numbers are their places among the outputs."""
    if not emitter.vectorized or len(outputs) < MANY:
        return None
    banks = [Bank(emitter, first, run) for first, run in _runs(outputs)
             if len(run) >= MANY and run[0].type != BOOL and run[0].value.kind != OUTER]
    return Banks(emitter, banks) if banks else None


def _runs(outputs: Sequence[Reduction]) -> Iterator[tuple[int, list[Reduction]]]:
    """Reductions of one kind side by side, with the number of the first."""
    first = 0
    for _, group in itertools.groupby(outputs, _kind_of):
        run = list(group)
        yield first, run
        first += len(run)


def _kind_of(output: Reduction) -> tuple[int, int, bool]:
    return output.op, output.type, output.value.kind == OUTER


def combine(helpers: dict[str, str], accumulators: Mapping[int, Accumulator], banks: Sequence[Bank],
            function: Function) -> str:
    """The function that reduces the partial results of all blocks and writes the outputs."""
    w = Writer()
    w.combine()
    partials = w.parameter(1, "ptr")
    outputs, words = function.reductions, function.partial_words
    outer.combine(w, helpers, function, partials)
    for bank in banks:
        bank.combine(w, words, partials)
    if accumulators:
        combine_accumulators(w, accumulators, outputs, words, partials)
    w.end()
    return w.functions()
