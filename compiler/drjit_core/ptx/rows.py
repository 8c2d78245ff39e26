"""PTX text of kernels that go over rows: a *team* of threads works on one unit after the other.

A team is a warp, or a block, as the launch says: threads of one ``tid.y``.  Each pass over a row is a loop in which a
thread takes every so-manieth element; what it reduces is reduced by the team, and known to all of its threads.  Where
columns are reduced, a thread adds up one column after the other, some rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..codegen.linear import Block, Function, Instruction, RowPass
from ..codegen.program import REVERSED, ROW, SHIFTED, SHIFTED_UNALIGNED
from ..ops.table import SEGMENT
from ..types import UINT64
from . import elements, memory
from .function import TRUE, FunctionEmitter
from .module import ModuleContext
from .reduction import WARP, Accumulator, Flushes, block, block_total, reduced_by_warp
from .texts import Lines, T

__all__ = ["RowsEmitter", "counter", "load", "view"]


class RowsEmitter(FunctionEmitter):
    """Builds the text of a kernel that goes over rows."""

    unit: str  # number of what the team works on
    row: str  # of the row; of several, those of copies are at other places
    part: str  # number of elements of a part of a row
    part_number: str
    column: str  # place of the element in its row
    place: str  # of the row among those that become one
    extents: list[str]  # of axes, but the outermost

    def __init__(self, module: ModuleContext, function: Function) -> None:
        super().__init__(module, function)
        assert function.domain is not None
        self.domain = function.domain
        self.tid, self.ntid, self.team, self.teams = self.registers("%r", "%r", "%r", "%r")
        self.each_unit: Lines = []
        self.coordinates: list[str] = []
        self.totals = [Accumulator(self, output.op, output.type) for output in function.reductions]
        self.flushes = Flushes(self, self.totals, 1)

    def enter(self, block: Block) -> None:
        """Go on with a block of the kernel."""
        self.block = block
        self.lines = self.entry if block.once else self.each_unit

    def print_all(self, block: Block) -> None:
        """Print the instructions of a block."""
        self.enter(block)
        for instruction in block.instructions:
            self.print(instruction)

    def print(self, instruction: Instruction) -> None:
        """Print an instruction."""
        self.module.printers_of_rows[instruction.kind](self, instruction)

    # --- units -------------------------------------------------------------------------------------------------------

    def text(self) -> Lines:
        """All of the kernel but parameters and declarations."""
        function = self.function
        self.print_all(function.once)
        self._begin_unit()
        if self.domain.columns:
            self._columns(function.passes[0])
        else:
            self._passes()
        tid, number, blocks, stride, limit, done = self.registers("%r", "%r", "%r", "%rd", "%rd", "%p")
        head = [f"mov.u32 {self.tid}, %tid.x;", f"mov.u32 {self.ntid}, %ntid.x;", f"mov.u32 {self.team}, %tid.y;",
                f"mov.u32 {self.teams}, %ntid.y;", f"mov.u32 {number}, %ctaid.x;", f"mov.u32 {blocks}, %nctaid.x;",
                f"mad.lo.u32 {tid}, {self.team}, {self.ntid}, {self.tid};",
                f"mad.lo.u32 {number}, {number}, {self.teams}, {self.team};", f"cvt.u64.u32 {self.unit}, {number};",
                f"mul.wide.u32 {stride}, {blocks}, {self.teams};", f"ld.param.u64 {limit}, [units];"]
        for accumulator in self.totals:
            head += accumulator.begin()
        last = block(self, self.totals, tid) if self.totals else []
        return [*head, *self.entry, *self.flushes.begin(), "$unit:", f"setp.ge.u64 {done}, {self.unit}, {limit};",
                f"@{done} bra $done;", *self.each_unit, f"add.u64 {self.unit}, {self.unit}, {stride};", "bra $unit;",
                "$done:", *last]

    def _begin_unit(self) -> None:
        """Which row, or part of it, a unit is, and the coordinates of that."""
        axes, slot, out = len(self.domain.extents), self.function.axes, self.each_unit
        self.extents = ["", *(self.parameter(slot + axes - 1 - axis) for axis in range(1, axes))]
        self.part, self.unit, self.row, self.part_number = self.parameter(slot + axes), *self.registers(
            "%rd", "%rd", "%rd")
        if self.domain.parts > 1:
            parts = self.parameter(slot + axes - 1)
            out += [f"div.u64 {self.row}, {self.unit}, {parts};", f"rem.u64 {self.part_number}, {self.unit}, {parts};"]
        else:
            out.append(f"mov.b64 {self.row}, {self.unit};")
        rest, counted = self.row, axes - 2 if self.domain.columns else axes - 1
        self.coordinates = [self.register("%rd") for _ in range(counted)]
        for axis in range(counted - 1, 0, -1):
            quotient = self.register("%rd")
            out += [f"rem.u64 {self.coordinates[axis]}, {rest}, {self.extents[axis]};",
                    f"div.u64 {quotient}, {rest}, {self.extents[axis]};"]
            rest = quotient
        if counted:
            out.append(f"mov.b64 {self.coordinates[0]}, {rest};")

    def _part_of(self, extent: str) -> tuple[str, str]:
        """Append text of where a part begins and ends."""
        start, end = self.registers("%rd", "%rd")
        if self.domain.parts > 1:
            self.each_unit += [f"mul.lo.u64 {start}, {self.part_number}, {self.part};",
                               f"add.u64 {end}, {start}, {self.part};", f"min.u64 {end}, {end}, {extent};"]
        else:
            self.each_unit += [f"mov.b64 {start}, 0;", f"mov.b64 {end}, {extent};"]
        return start, end

    def offset(self, instruction: Instruction) -> str:
        """Append text of the position that a view of the row begins at."""
        access = instruction.access
        assert access is not None
        first, position = access.first, self.register("%rd")
        self.lines.append(f"mov.b64 {position}, {self.parameter(first)};")
        for axis in range(len(self.domain.extents) - 1):
            if access.moving >> axis & 1:
                coordinate = self.coordinates[axis] if axis < len(self.coordinates) else self.place
                self.lines.append(f"mad.lo.u64 {position}, {coordinate}, {self.parameter(first + 1 + axis)}, "
                                  f"{position};")
        return position

    # --- rows --------------------------------------------------------------------------------------------------------

    def _passes(self) -> None:
        function, out, base = self.function, self.each_unit, self.register("%rd")
        out.append(f"mul.lo.u64 {base}, {self.row}, {self.extents[-1]};")
        start, end = self._part_of(self.extents[-1])
        for one in function.passes:
            self._pass(one, base, start, end)
        assert function.last_row is not None
        self.print_all(function.last_row)
        self.lines = out
        if function.row_stores:
            first = self.register("%p")
            out.append(f"setp.eq.u32 {first}, {self.tid}, 0;")
            for store in function.row_stores:
                type_, position = store.value.type, self.unit if store.value.kind == SEGMENT else self.row
                address = elements.address_of(self, self.parameter(store.slot), position, UINT64, T[type_].size)
                out += elements.stored(self, type_, address, self.value(store.value), f"@{first} ")

    def _pass(self, one: RowPass, base: str, start: str, end: str) -> None:
        """A loop over the elements of a row, and what is known after it."""
        out = self.each_unit
        for each in one.rows:
            self.print_all(each)
        self.lines = out
        self.column, self.index, self.index32, step, over = self.registers("%rd", "%rd", "%r", "%rd", "%p")
        again, after = self.label("pass"), self.label("after")
        sums = [Accumulator(self, segment.node.attr, segment.type) for segment in one.segments]
        flushes = Flushes(self, sums, 1)
        for accumulator in sums:
            out += accumulator.begin()
        out += [*flushes.begin(), f"cvt.u64.u32 {self.column}, {self.tid};",
                f"add.u64 {self.column}, {self.column}, {start};", f"cvt.u64.u32 {step}, {self.ntid};",
                f"{again}:", f"setp.ge.u64 {over}, {self.column}, {end};", f"@{over} bra {after};",
                f"add.u64 {self.index}, {base}, {self.column};", f"cvt.u32.u64 {self.index32}, {self.index};"]
        self.addresses = {}
        for each in one.each:
            self.print_all(each)
        self.lines = out
        for segment, accumulator in zip(one.segments, sums, strict=True):
            out += accumulator.add(self.operand(segment.operands[0]), TRUE)
        for number in one.reductions:
            out += self.totals[number].add(self.operand(self.function.reductions[number].value), TRUE)
        for store in one.stores:
            memory.store(self, store)
        for scatter in one.scatters:
            memory.scatter(self, scatter)
        out += [*flushes.latch(), *(self.flushes.latch() if one.reductions else ()),
                f"add.u64 {self.column}, {self.column}, {step};", f"bra {again};", f"{after}:"]
        for segment, accumulator in zip(one.segments, sums, strict=True):
            self.define(segment, [self._known_to_all(accumulator)])

    def _known_to_all(self, accumulator: Accumulator) -> str:
        """Append text of what the team has reduced; the register with that."""
        out, op, type_ = self.each_unit, accumulator.op, accumulator.last
        total = accumulator.total(out)
        out += reduced_by_warp(self, op, type_, total)
        alone, known, single = self.label("alone"), self.new(type_), self.register("%p")
        lines, of_block = block_total(self, op, type_, total, self.tid)
        out += [self.move(type_, known, total), f"setp.le.u32 {single}, {self.ntid}, {WARP};",
                f"@{single} bra {alone};", *lines, self.move(type_, known, of_block), f"{alone}:"]
        return accumulator.rounded(out, known)

    # --- columns -----------------------------------------------------------------------------------------------------

    def _columns(self, one: RowPass) -> None:
        """A loop over columns, and in it one over rows, some at a time; what is beyond the last row is read again, and
        not added."""
        out, copies, row = self.each_unit, len(one.each), self.row
        extent, width = self.extents[-2:]
        first, results, last, group, step = self.registers("%rd", "%rd", "%rd", "%rd", "%rd")
        out += [f"mul.lo.u64 {first}, {row}, {extent};", f"mul.lo.u64 {results}, {self.unit}, {width};"]
        start, end = self._part_of(extent)
        self.column, over, more = self.registers("%rd", "%p", "%p")
        again, after, rows = self.label("column"), self.label("after"), self.label("rows")
        count = len(one.segments) // copies
        sums = [Accumulator(self, segment.node.attr, segment.type) for segment in one.segments[:count]]
        flushes = Flushes(self, sums, copies)
        out += [f"sub.u64 {last}, {end}, 1;", f"cvt.u64.u32 {self.column}, {self.tid};",
                f"cvt.u64.u32 {step}, {self.ntid};", f"{again}:", f"setp.ge.u64 {over}, {self.column}, {width};",
                f"@{over} bra {after};"]
        for accumulator in sums:
            out += accumulator.begin()
        out += [*flushes.begin(), f"mov.b64 {group}, {start};", f"{rows}:"]
        for copy in range(copies):
            valid = self._row_of_columns(copy, (group, first, width), (end, last))
            self.print_all(one.rows[copy])
            self.print_all(one.each[copy])
            self.lines = out
            for number, accumulator in enumerate(sums):
                segment = one.segments[copy * count + number]
                out += accumulator.add(self.operand(segment.operands[0]), valid)
        self.row = row
        out += [*flushes.latch(), f"add.u64 {group}, {group}, {copies};", f"setp.lt.u64 {more}, {group}, {end};",
                f"@{more} bra {rows};"]
        self._store_columns(zip(one.segments[:count], sums, strict=True), results)
        out += [f"add.u64 {self.column}, {self.column}, {step};", f"bra {again};", f"{after}:"]

    def _row_of_columns(self, copy: int, place: tuple[str, str, str], bounds: tuple[str, str]) -> str:
        """Append text of one of the rows that are worked on together; the mask of whether there is one."""
        (group, first, width), (end, last) = place, bounds
        number, valid, self.row, self.place = self.registers("%rd", "%p", "%rd", "%rd")
        self.index, self.index32, self.addresses = *self.registers("%rd", "%r"), {}
        self.each_unit += [f"add.u64 {number}, {group}, {copy};", f"setp.lt.u64 {valid}, {number}, {end};",
                           f"min.u64 {self.place}, {number}, {last};", f"add.u64 {self.row}, {first}, {self.place};",
                           f"mad.lo.u64 {self.index}, {self.row}, {width}, {self.column};",
                           f"cvt.u32.u64 {self.index32}, {self.index};"]
        return valid

    def _store_columns(self, found: Iterable[tuple[Instruction, Accumulator]], results: str) -> None:
        """Append text that stores what a column has become."""
        out = self.each_unit
        outputs = {store.value.node.id: store for store in self.function.row_stores}
        for segment, accumulator in found:
            result = accumulator.rounded(out, accumulator.total(out))
            position = self.register("%rd")
            out.append(f"add.u64 {position}, {results}, {self.column};")
            address = elements.address_of(self, self.parameter(outputs[segment.node.id].slot), position, UINT64,
                                        T[segment.type].size)
            out += elements.stored(self, segment.type, address, result)


def load(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """An array that is read by position; one element for each row."""
    assert isinstance(emitter, RowsEmitter) and instruction.access is not None
    if instruction.access.layout != ROW:
        memory.load(emitter, instruction)
        return
    address = elements.address_of(emitter, emitter.parameter(instruction.access.slot), emitter.row, UINT64,
                                T[instruction.type].size)
    _read(emitter, instruction, address)


def _read(emitter: FunctionEmitter, instruction: Instruction, address: str) -> None:
    result = emitter.new(instruction.type)
    emitter.lines += elements.loaded(emitter, instruction.type, result, address)
    emitter.define(instruction, [result])


def counter(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """The position of the element, or of the row."""
    assert isinstance(emitter, RowsEmitter)
    result, source = emitter.new(instruction.type), emitter.row if instruction.uniform else emitter.index
    emitter.lines.append(f"mov.b64 {result}, {source};" if instruction.type == UINT64 else
                         f"cvt.u32.u64 {result}, {source};")
    emitter.define(instruction, [result])


def view(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A view: of the same element of a row, of neighbours, or of elements at a distance."""
    assert isinstance(emitter, RowsEmitter) and instruction.access is not None
    access, position = instruction.access, emitter.offset(instruction)
    if not instruction.uniform:
        if access.layout in (SHIFTED, SHIFTED_UNALIGNED):
            emitter.lines.append(f"add.u64 {position}, {position}, {emitter.column};")
        elif access.layout == REVERSED:
            emitter.lines.append(f"sub.u64 {position}, {position}, {emitter.column};")
        else:
            stride = emitter.parameter(access.first + len(emitter.domain.extents))
            emitter.lines.append(f"mad.lo.u64 {position}, {emitter.column}, {stride}, {position};")
    _read(emitter, instruction, elements.address_of(emitter, emitter.parameter(access.slot), position, UINT64,
                                                  T[instruction.type].size))


def kept_slots(passes: Sequence[RowPass]) -> set[int]:
    """Parameters of the memory that passes write, and later ones read."""
    return {store.slot for one in passes for store in one.stores}
