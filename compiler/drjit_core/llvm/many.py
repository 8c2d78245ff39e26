"""LLVM text of kernels with many reductions, such as the gradients of a hundred scalars: accumulators in memory.

What does not fit into registers lies on the stack anyway.  Here it does so on purpose: a value is added to its
accumulator as soon as it is there, instead of waiting for all others; and whatever is not done for each packet (the
beginning, the last packet, which may be incomplete, flushing, totals, the combination of blocks) is a loop over the
accumulators, and so is the text of one, however many there are.  Of a hundred gradients of single precision, that is a
third of the time and half of the compilation.  Results have the same bits as those of :mod:`.reduction`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..codegen.linear import Instruction, Reduction
from ..ops.products import OUTER
from ..types import BOOL
from .function import FunctionEmitter
from .lines import function_text
from .reduction import FLUSHED_PACKETS, Accumulator, combine_accumulators, partial_stride
from .texts import TypeText, cast

__all__ = ["Bank", "Banks", "banks_of", "combine"]

#: From so many reductions of one kind on, side by side, their accumulators are in memory.
MANY = 8


def _loop(label: str, before: str, count: int | str, lines: Iterable[str],
          phis: Sequence[str] = ()) -> tuple[list[str], str]:
    """Text that repeats some lines, which use the position ``%<label>_i``; and the label that it ends in."""
    name = f"%{label}_i"
    return [f"br label %{label}", f"{label}:", f"{name} = phi i64 [ 0, %{before} ], [ {name}_next, %{label} ]", *phis,
            *lines, f"{name}_next = add i64 {name}, 1", f"{name}_more = icmp ult i64 {name}_next, {count}",
            f"br i1 {name}_more, label %{label}, label %{label}_end", f"{label}_end:"], f"{label}_end"


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

    def at(self, name: str, array: str, type_: TypeText, position: str) -> str:
        """Text of an address."""
        return f"{name} = getelementptr inbounds {type_}, ptr %{self.label}_{array}, i64 {position}"

    # --- text of the loop over packets -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Text before the loop over packets: all accumulators are neutral."""
        emitter, one = self.emitter, self.one
        label = f"{self.label}_start"
        lines = [self.at(f"%{label}_at", "sums", one.packet, f"%{label}_i"),
                 f"store {one.packet} {one.packet.splat(one.start)}, ptr %{label}_at, align 64"]
        arrays = [self.array("sums", one.packet), self.array("saved", one.packet)]
        if one.flushed:
            arrays.append(self.array("wides", one.wide))
            lines += [self.at(f"%{label}_wide_at", "wides", one.wide, f"%{label}_i"),
                      f"store {one.wide} {one.wide.splat('-0.0')}, ptr %{label}_wide_at, align 64"]
        text, end = _loop(label, emitter.entry.label, self.count, lines)
        emitter.prologue += arrays
        emitter.entry += text
        emitter.entry.go_on(end)

    def copies(self, suffix: str, source: str, target: str, mask: str | None) -> list[str]:
        """Text in a packet that is not whole: accumulators are saved, or those of missing elements restored."""
        label, one = f"{self.label}_{suffix}", self.one
        lines = [self.at(f"%{label}_from", source, one.packet, f"%{label}_i"),
                 self.at(f"%{label}_to", target, one.packet, f"%{label}_i"),
                 f"%{label}_new = load {one.packet}, ptr %{label}_from, align 64"]
        value = f"%{label}_new"
        if mask is not None:
            lines += [f"%{label}_old = load {one.packet}, ptr %{label}_to, align 64",
                      f"{value}_some = select {one.packet.mask} {mask}, {one.packet} %{label}_old, {one.packet} "
                      f"{value}"]
            value += "_some"
        lines.append(f"store {one.packet} {value}, ptr %{label}_to, align 64")
        text, end = _loop(label, self.emitter.label, self.count, lines)
        self.emitter.body.label = end
        return text

    def add(self, position: int, value: str) -> None:
        """Emit what combines a packet with an accumulator."""
        out, one, name = self.emitter.lines, self.one, f"%{self.label}_{position}"
        if one.result != one.type:
            out.append(cast(f"{name}_single", value, self.emitter.packets[one.result], one.packet))
            value = f"{name}_single"
        out += [self.at(f"{name}_at", "sums", one.packet, str(position)),
                f"{name}_sum = load {one.packet}, ptr {name}_at, align 64",
                one.step(f"{name}_next", f"{name}_sum", value, one.packet),
                f"store {one.packet} {name}_next, ptr {name}_at, align 64"]

    def flush(self) -> list[str]:
        """Text that adds what packets have gathered to the accumulators of double precision."""
        label, one = f"{self.label}_flush", self.one
        if not one.flushed:
            return []
        folded, wide, name = self._flushed(label)
        lines = [*folded, f"store {one.wide} {name}, ptr {wide}, align 64",
                 f"store {one.packet} {one.packet.splat(one.start)}, ptr %{label}_at, align 64"]
        text, end = _loop(label, self.emitter.body.label, self.count, lines)
        self.emitter.body.label = end
        return text

    def _flushed(self, label: str) -> tuple[list[str], str, str]:
        """Text of what the sum of both accumulators is; the address of the second one, and the name of the sum."""
        one, name = self.one, f"%{label}"
        folded, value, type_ = one.folded(f"{name}_sum", f"{name}_f", one.packet, one.wide.lanes)
        return [self.at(f"{name}_at", "sums", one.packet, f"{name}_i"),
                f"{name}_sum = load {one.packet}, ptr {name}_at, align 64", *folded,
                self.at(f"{name}_wide_at", "wides", one.wide, f"{name}_i"),
                f"{name}_wide = load {one.wide}, ptr {name}_wide_at, align 64",
                f"{name}_wide_in = fpext {type_} {value} to {one.wide}",
                f"{name}_wide_sum = fadd {one.wide} {name}_wide, {name}_wide_in"], f"{name}_wide_at", \
            f"{name}_wide_sum"

    def store_partials(self, before: str, words: int) -> tuple[list[str], str]:
        """Text after the loop that stores the totals among the partial results of the block, and its last label."""
        label, one = f"{self.label}_total", self.one
        name = f"%{label}"
        if one.flushed:
            lines, _, value = self._flushed(label)
            folded, value, type_ = one.folded(value, f"{name}_t", one.wide, 1)
        else:
            lines = [self.at(f"{name}_at", "sums", one.packet, f"{name}_i"),
                     f"{name}_sum = load {one.packet}, ptr {name}_at, align 64"]
            folded, value, type_ = one.folded(f"{name}_sum", f"{name}_t", one.packet, 1)
        lines += [*folded, f"{name}_value = extractelement {type_} {value}, i32 0",
                  f"{name}_row = mul i64 %block, {partial_stride(words)}",
                  f"{name}_column = mul i64 {name}_i, 8", f"{name}_here = add i64 {name}_row, {name}_column",
                  f"{name}_offset = add i64 {name}_here, {8 * self.first}",
                  f"{name}_to = getelementptr i8, ptr %p1, i64 {name}_offset",
                  f"store {type_.element} {name}_value, ptr {name}_to, align 8"]
        return _loop(label, before, self.count, lines)

    # --- text of the second function ---------------------------------------------------------------------------------

    def combine(self, before: str, words: int) -> tuple[list[str], str]:
        """Text that reduces the partial results of all blocks and writes the outputs."""
        one, label = self.one, f"{self.label}_combine"
        scalars = self.emitter.scalars
        last, stored = scalars[one.last], scalars[one.result]
        name, inner = f"%{label}", f"{label}_block"
        block, start = f"%{inner}_i", "-0.0" if one.flushed else one.start
        blocks, end = _loop(inner, label, "%blocks", [
            f"{name}_row = mul i64 {block}, {partial_stride(words)}",
            f"{name}_from = getelementptr i8, ptr {name}_column, i64 {name}_row",
            f"{name}_in = load {last}, ptr {name}_from, align 8",
            one.step(f"{name}_next", f"{name}_sum", f"{name}_in", last),
        ], [f"{name}_sum = phi {last} [ {start}, %{label} ], [ {name}_next, %{inner} ]"])
        rounding, value = one.rounded(f"{name}_next")
        lines = [f"br label %{label}", f"{label}:", f"{name}_i = phi i64 [ 0, %{before} ], [ {name}_i_next, %{end} ]",
                 f"{name}_place = add i64 {name}_i, {self.first}",
                 f"{name}_column = getelementptr i64, ptr %partials, i64 {name}_place", *blocks, *rounding,
                 f"{name}_slot_at = getelementptr i64, ptr @{self.label}_slots, i64 {name}_i",
                 f"{name}_slot = load i64, ptr {name}_slot_at, align 8",
                 f"{name}_result_at = getelementptr inbounds i64, ptr %parameters, i64 {name}_slot",
                 f"{name}_result = load ptr, ptr {name}_result_at, align 8",
                 f"store {stored} {value}, ptr {name}_result, align 1",
                 f"{name}_i_next = add i64 {name}_i, 1", f"{name}_more = icmp ult i64 {name}_i_next, {self.count}",
                 f"br i1 {name}_more, label %{label}, label %{label}_done", f"{label}_done:"]
        return lines, f"{label}_done"

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
            emitter.body += bank.copies("save", "sums", "saved", None)
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
            emitter.body += bank.copies("restore", "saved", "sums", mask)
        emitter.body.append("br label %restored")
        emitter.open_block("restored")
        if any(bank.one.flushed for bank in self.banks):
            emitter.body += [f"%packets = lshr i64 %end_of_packet, {emitter.lanes.bit_length() - 1}",
                             f"%packets_since = and i64 %packets, {FLUSHED_PACKETS - 1}",
                             "%flush_due = icmp eq i64 %packets_since, 0",
                             "br i1 %flush_due, label %flush_banks, label %flushed_banks"]
            emitter.open_block("flush_banks")
            for bank in self.banks:
                emitter.body += bank.flush()
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


def combine(accumulators: Mapping[int, Accumulator], banks: Sequence[Bank], outputs: Sequence[Reduction], words: int,
            first: Sequence[str] = ()) -> str:
    """The function that reduces the partial results of all blocks and writes the outputs; ``first`` is what it begins
    with."""
    lines = ["entry:", "%partials_at = getelementptr inbounds i64, ptr %parameters, i64 1",
             "%partials = load ptr, ptr %partials_at, align 8", *first]
    label = "entry"
    for bank in banks:
        text, label = bank.combine(label, words)
        lines += text
    if accumulators:
        lines += combine_accumulators(accumulators, outputs, words, label)
    return function_text("void @combine(ptr noalias %parameters, i64 %blocks) #0", [*lines, "ret void"])
