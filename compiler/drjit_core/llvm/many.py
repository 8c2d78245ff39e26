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
from .module import ModuleContext
from .reduction import Accumulator, combine_accumulators, flush_is_due, partial_stride
from .texts import TypeText
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
        self.arrays: dict[str, str] = {}
        #: What has the texts of one of them.
        self.one = Accumulator(emitter, f"b{first}", outputs[0].op, outputs[0].type)

    def array(self, name: str, type_: TypeText) -> None:
        """Make room for an array on the stack."""
        self.arrays[name] = self.emitter.prologue(f"alloca [{self.count} x {type_}], align 64")

    def at(self, w: Writer, array: str, type_: TypeText, position: object) -> str:
        """The address of an entry of such an array."""
        return w.at(type_, self.arrays[array], position)

    # --- text of the loop over packets -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Write what comes before the loop over packets: all accumulators are neutral."""
        one, w = self.one, self.emitter.entry
        self.array("sums", one.packet)
        self.array("saved", one.packet)
        if one.flushed:
            self.array("wides", one.wide)

        def neutral(position: str, _: list[str]) -> None:
            w.store(one.packet, one.packet.splat(one.start), self.at(w, "sums", one.packet, position), 64)
            if one.flushed:
                w.store(one.wide, one.wide.splat("-0.0"), self.at(w, "wides", one.wide, position), 64)

        w.repeat(0, self.count, 1, [], neutral)

    def copy(self, source: str, target: str, mask: str | None) -> None:
        """Write what a packet that is not whole needs: accumulators are saved, or those of missing elements restored.
        """
        w, type_ = self.emitter.body, self.one.packet

        def copy(position: str, _: list[str]) -> None:
            value = w.load(type_, self.at(w, source, type_, position), 64)
            at = self.at(w, target, type_, position)
            if mask is not None:
                value = w(f"select {type_.mask} {mask}, {type_} {w.load(type_, at, 64)}, {type_} {value}")
            w.store(type_, value, at, 64)

        w.repeat(0, self.count, 1, [], copy)

    def add(self, position: int, value: str) -> None:
        """Write what combines a packet with an accumulator."""
        one, w = self.one, self.emitter.writer
        if one.result != one.type:
            value = w.cast(value, self.emitter.packets[one.result], one.packet)
        at = self.at(w, "sums", one.packet, position)
        total = w.load(one.packet, at, 64)
        w.store(one.packet, one.combined(w, total, value, one.packet), at, 64)

    def flush(self) -> None:
        """Write what adds what packets have gathered to the accumulators of double precision."""
        one, w = self.one, self.emitter.body

        def flush(position: str, _: list[str]) -> None:
            w.store(one.wide, one.flush(w, *self._ends(w, position)), self.at(w, "wides", one.wide, position), 64)
            w.store(one.packet, one.packet.splat(one.start), self.at(w, "sums", one.packet, position), 64)

        if one.flushed:
            w.repeat(0, self.count, 1, [], flush)

    def _ends(self, w: Writer, position: str) -> list[str]:
        """What both accumulators hold, or the one that there is."""
        return [w.load(type_, self.at(w, array, type_, position), 64)
                for array, (type_, *_) in zip(("sums", "wides"), self.one.parts, strict=False)]

    def store_partials(self, w: Writer, words: int) -> None:
        """Write what stores the totals among the partial results of the block, after the loop."""
        one = self.one

        def store(position: str, _: list[str]) -> None:
            total = one.total(w, self._ends(w, position))
            one.store_partial(w, total, w.add(w.mul(position, 8), 8 * self.first), words)

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
            emitter.module.need(bank.label, bank.slots)
            for position, output in enumerate(bank.outputs):
                value = output.value
                if value.uniform or value.once:
                    self.late.append((bank, position, value))
                else:
                    self.adding.setdefault(value.number, []).append((bank, position))

    def have(self, number: int) -> bool:
        """Whether a reduction is one of theirs."""
        return any(bank.first <= number < bank.first + bank.count for bank in self.banks)

    def begin(self) -> None:
        """Write what comes before a packet."""
        for bank in self.banks:
            bank.begin()
        self._unless_whole("sums", "saved", None)

    def _unless_whole(self, source: str, target: str, mask: str | None) -> None:
        """Copy accumulators if some elements of the packet do not exist."""
        w = self.emitter.body
        copy, done = w.label("copy"), w.label("done")
        w.fork(self.emitter.whole_packet(), done, copy)
        w.open(copy)
        for bank in self.banks:
            bank.copy(source, target, mask)
        w.go(done)
        w.open(done)

    def add(self, instruction: Instruction) -> None:
        """Write what becomes of a value that has just been computed."""
        for bank, position in self.adding.get(instruction.number, ()):
            bank.add(position, self.emitter.value(instruction, False))

    def end(self) -> None:
        """Write what comes after a packet: what is left to be added, and elements that do not exist."""
        emitter, w = self.emitter, self.emitter.body
        for bank, position, value in self.late:
            bank.add(position, emitter.value(value, False))
        self._unless_whole("saved", "sums", emitter.active_mask(False))
        if any(bank.one.flushed for bank in self.banks):
            done = w.label("done")
            w.only_if(flush_is_due(w, emitter.end_of_packet(), emitter.lanes), done)
            for bank in self.banks:
                bank.flush()
            w.go(done)
            w.open(done)


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


def combine(module: ModuleContext, accumulators: Mapping[int, Accumulator], banks: Sequence[Bank],
            function: Function) -> str:
    """The function that reduces the partial results of all blocks and writes the outputs."""
    w = Writer()
    w.combine()
    partials = w.parameter(1, "ptr")
    outputs, words = function.reductions, function.partial_words
    outer.combine(w, module, function, partials)
    for bank in banks:
        bank.combine(w, words, partials)
    if accumulators:
        combine_accumulators(w, accumulators, outputs, words, partials)
    w.end()
    return w.functions()
