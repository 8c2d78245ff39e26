"""LLVM text of kernels that go over rows.

A launch is cut into *units*: rows, parts of rows where these are few and long, or, where columns are added up, all rows
that become one.  For each unit come scalars of which there is one for a row, then passes over the packets of the row,
with a mask for its end; what a pass has reduced is a scalar of the row as well::

    unit:    coordinates, the row's scalars
    pass0:   packets … accumulators, outputs
    after0:  totals; scalars that follow from them
    pass1:   …

Coordinates are counted, not computed by divisions.  Whatever is the same for all packets of a row, such as the address
that a view begins at, stands before the loop over them.

Columns are added up eight rows at a time, packet by packet, in the row of sums itself, which stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable

from ..codegen.linear import Access, Block, Function, Instruction, RowPass, Store
from ..codegen.program import REVERSED, ROW, SHIFTED, SHIFTED_UNALIGNED, STRIDED
from ..ops.products import OUTER
from ..ops.reductions import REDUCTIONS
from ..ops.table import SEGMENT
from ..types import BOOL, TYPES, UINT32, UINT64
from . import memory, reduction
from .function import FunctionEmitter
from .lines import Lines
from .module import ModuleContext
from .texts import TypeText, constant, update
from .writer import Writer

__all__ = ["RowsEmitter", "load", "counter", "segment", "view"]


class RowsEmitter(FunctionEmitter):
    """Builds the text of a kernel that goes over rows."""

    def __init__(self, module: ModuleContext, function: Function) -> None:
        assert function.domain is not None
        self.domain = function.domain
        self.number = 0  # of the pass
        self.held: dict[str, str] = {}  # scalars of a row -> packets, in this pass
        self.positions: dict[int, str] = {}  # of the elements, by the copy, in this pass
        self.whole = ""  # whether all elements of the packet belong to the row, in this pass
        self.offsets: dict[tuple[int, int], str] = {}  # of views, in this unit
        self.steps: dict[int, str] = {}  # by the parameter of a stride, how far the lanes of a packet are apart
        self.accumulators: dict[int, reduction.Accumulator] = {}  # of reductions of everything
        self.copy = 0
        #: Of each copy: the row, its coordinate along the axis that is added up, its first element, that of the packet.
        self.rows: list[str] = []
        self.numbers: list[str] = []
        self.bases: list[str] = []
        self.indices: list[str] = []
        super().__init__(module, function)
        #: What stands before the loop over packets that is being written.
        self.before = Lines()
        self.writer, self.before_writer = Writer(self.body, "r."), Writer(self.before, "b.")
        self.once_writer = Writer(self.prologue, "o.")
        self.alignment = 0
        self.read_domain()

    def enter(self, block: Block) -> None:
        """Print instructions of a block of the linear program from now on."""
        self.block = block
        self.copy = block.copy
        if self.rows:
            self.row = self.rows[block.copy]
        if self.indices:
            self.index = self.indices[block.copy]
        self.lines = self.entry if block.once else self.body

    # --- units -------------------------------------------------------------------------------------------------------

    def read_domain(self) -> None:
        """Parameters of the domain, and what the first unit is."""
        domain, axes = self.domain, len(self.domain.extents)
        slot, w = self.function.axes, Writer(self.entry, "e.")
        #: Texts of the extents, outermost first; that of the outermost axis is not known.
        self.extents = ["", *(self.parameter(slot + axes - 1 - axis, "i64") for axis in range(1, axes))]
        #: Axes that units are counted along, and the coordinate along each axis (of columns, that of each copy).
        self.counted = axes - 2 if domain.columns else axes - 1
        self.part, self.parts = self.parameter(slot + axes, "i64"), ""
        coordinates: list[str] = []
        rest, first = "%begin", []
        if domain.parts > 1:
            self.parts = self.parameter(slot + axes - 1, "i64")
            rest, part = w.divided(rest, self.parts)
            first.append(part)
        for axis in range(self.counted - 1, 0, -1):
            rest, coordinate = w.divided(rest, self.extents[axis])
            coordinates.insert(0, coordinate)
        #: The part of the row, if rows have any, and the coordinates of the first unit.
        self.first = [*first, rest, *coordinates] if self.counted else first

    def run_rows(self) -> str:
        """Print all; the lines after the entry block."""
        function, w = self.function, self.writer
        for instruction in function.once.instructions:
            self.enter(function.once)
            self.module.printers_of_rows[instruction.kind](self, instruction)
        w.go("units")  # the end of the entry block, which still grows
        w.open("units")
        w.repeat("%begin", "%end", 1, [("i64", start) for start in self.first], self.print_unit)
        return w.functions()

    def print_unit(self, unit: str, counts: list[str]) -> list[str]:
        """Print a unit, given its part and coordinates; those of the next one."""
        w, row = self.writer, unit
        self.unit, self.this_part, self.coordinates = unit, "0", counts
        if self.parts:
            self.this_part, *self.coordinates = counts
            row = w.udiv(w.sub(unit, self.this_part), self.parts)
        if self.domain.columns:
            self.print_columns(self.function.passes[0], row)
        else:
            self.print_passes(row)
        part: list[str] = []
        following: list[str] = []
        carry, step = "", "1"
        if self.parts:
            carry, next_part = self.counted_on(self.this_part, step, self.parts)
            part.append(next_part)
        for axis in range(self.counted - 1, -1, -1):
            if carry:
                step = w(f"zext i1 {carry} to i64")
            if axis:
                carry, coordinate = self.counted_on(self.coordinates[axis], step, self.extents[axis])
            else:
                coordinate = w.add(self.coordinates[axis], step)
            following.insert(0, coordinate)
        return [*part, *following]

    def counted_on(self, value: str, step: str, limit: str) -> tuple[str, str]:
        """Whether a count begins again after a step of at most one, and what it is then."""
        w = self.writer
        more = w.add(value, step)
        full = w(f"icmp eq i64 {more}, {limit}")
        return full, w.either(full, "i64", 0, more)

    def coordinate(self, axis: int) -> str:
        """The coordinate of the row along an axis but the innermost."""
        return self.numbers[self.copy] if axis == self.counted else self.coordinates[axis]

    def offset(self, access: Instruction) -> str:
        """Position of the first element of a view's row, before the packets of the row."""
        assert access.access is not None
        first, axes = access.access.first, len(self.domain.extents)
        key = (first, self.copy)
        known = self.offsets.get(key)
        if known is not None:
            return known
        w = self.writer if self.block.is_row else self.before_writer
        result = self.parameter(first, "i64")
        for axis in range(axes - 1):
            if access.access.moving >> axis & 1:
                result = w.add(result, w.mul(self.coordinate(axis), self.parameter(first + 1 + axis, "i64")))
        self.offsets[key] = result
        return result

    # --- values ------------------------------------------------------------------------------------------------------

    def value(self, instruction: Instruction, uniform: bool) -> str:
        """Name of a value as a scalar, or as a packet."""
        if uniform or not instruction.uniform or instruction.once or self.in_region:
            return super().value(instruction, uniform)
        name = self.names[instruction.number]
        if not name.startswith("%"):
            return self.packets[instruction.type].splat(name)
        packet = self.held.get(name)
        if packet is None:
            packet = self.held[name] = self.before_writer.splat(self.packets[instruction.type], name)
        return packet

    def lane(self) -> str:
        """Packet of the elements' positions."""
        found = self.positions.get(self.copy)
        if found is None:
            w, wide = self.writer, self.function.wide
            element, type_ = ("i64", self.packets[UINT64]) if wide else ("i32", self.packets[UINT32])
            first = w.splat(type_, self.index if wide else w(f"trunc i64 {self.index} to i32"))
            steps = ", ".join(f"{element} {k}" for k in range(self.lanes))
            found = self.positions[self.copy] = w(f"add {type_} {first}, <{steps}>")
        return found

    def address(self, store: Store, position: str) -> str:
        """Where an element of an output is."""
        type_ = self.stored_type(store.value.type, True)
        return self.writer(f"getelementptr inbounds {type_.element}, ptr {self.parameter(store.slot, 'ptr')}, "
                           f"i64 {position}")

    def stored(self, value: str, type_index: int, uniform: bool) -> str:
        """A value as it is in memory: masks take a byte."""
        if type_index != BOOL:
            return value
        return self.writer(f"zext {self.types(uniform)[BOOL]} {value} to {self.stored_type(BOOL, uniform)}")

    # --- passes ------------------------------------------------------------------------------------------------------

    def print_blocks(self, blocks: tuple[Block, ...]) -> None:
        """Print the instructions of some blocks."""
        printers = self.module.printers_of_rows
        for block in blocks:
            self.enter(block)
            for instruction in block.instructions:
                printers[instruction.kind](self, instruction)

    def print_passes(self, row: str) -> None:
        """Print the passes over a row."""
        function, w, extent = self.function, self.writer, self.extents[-1]
        self.rows, self.bases = [row], [w.mul(row, extent)]
        start, self.limit = "0", extent
        if self.parts:
            start = w.mul(self.this_part, self.part)
            self.limit = w.minimum(w.add(start, self.part), extent)
        for self.number, passage in enumerate(function.passes):
            self.print_blocks(passage.rows)
            self.print_pass(start, passage)
        assert function.last_row is not None
        self.print_blocks((function.last_row,))
        for store in function.row_stores:
            self.store_of_row(store)

    def over_packets(self, start: str, body: Callable[[], None]) -> None:
        """Print a loop over the packets of a row; what it needs once stands before it."""
        w, place = self.writer, len(self.body)
        self.held, self.positions, self.whole = {}, {}, ""

        def packet(column: str, _: list[str]) -> None:
            self.column, self.next_column = column, w.add(column, self.lanes)
            self.active = w.first_lanes(self.lanes, w.sub(self.limit, column))
            self.indices = [w.add(base, column) for base in self.bases]
            body()

        w.repeat(start, self.limit, self.lanes, [], packet)
        self.body[place:place] = self.before
        self.before.clear()

    def print_pass(self, start: str, passage: RowPass) -> None:
        """Print a pass over the packets of a row, and what it has reduced."""
        w, number, before = self.writer, self.number, self.body.label
        accumulators: list[reduction.Accumulator] = []
        totals: list[reduction.Accumulator] = []
        suffix = "_next"

        def packet() -> None:
            nonlocal suffix
            head = self.body.start
            self.print_blocks(passage.each)
            self.enter(passage.each[0])
            self.accumulate(passage, accumulators, totals)
            self.stores(passage.stores)
            for k, scatter in enumerate(passage.scatters):
                memory.scatter(self, scatter, f"%s{number}_{k}")
            every, count = [*accumulators, *totals], ""
            if any(accumulator.flushed for accumulator in every):
                count = w(f"lshr i64 {self.next_column}, {self.lanes.bit_length() - 1}")
            flush, latch = reduction.latch(every, count, f"_{number}", self.body.label)
            if flush:
                suffix = "_last"
                self.body += flush
                self.body.go_on(latch)
            phis = [phi for accumulator in accumulators for phi in accumulator.phis(before, latch, bool(flush))]
            phis += [phi for total in totals for phi in total.phis(before, latch, bool(flush), True)]
            self.body[head:head] = phis

        self.over_packets(start, packet)
        for segment, accumulator in zip(passage.segments, accumulators, strict=True):
            lines, value = accumulator.total()
            self.body += lines
            self.define(segment, w(f"freeze {self.scalars[accumulator.result]} {accumulator.rounded(w, value)}"))
        for total in totals:
            for part, type_, _ in total.parts():
                w.store(type_, f"{part}{suffix}", f"{part}_slot", 64)

    def accumulate(self, passage: RowPass, accumulators: list[reduction.Accumulator],
                   totals: list[reduction.Accumulator]) -> None:
        """Emit the steps of a pass: the accumulators of reductions of rows, and those of reductions of everything."""
        values = []
        for segment in passage.segments:
            accumulators.append(reduction.Accumulator(self, f"_v{segment.number}", segment.node.attr, segment.type))
            values.append(self.value(segment.operands[0], False))
        for number in passage.reductions:
            output = self.function.reductions[number]
            if output.value.kind == OUTER:
                continue  # what adds them up has done so
            totals.append(self.running_total(number))
            values.append(self.value(output.value, False))
        if values:
            reduction.accumulate(self, str(self.number), [*accumulators, *totals], values)

    def running_total(self, number: int) -> reduction.Accumulator:
        """The accumulator of a reduction of everything, which goes on from row to row in memory."""
        output = self.function.reductions[number]
        self.parameter(1, "ptr")
        accumulator = reduction.Accumulator(self, str(number), output.op, output.type)
        self.accumulators[number] = accumulator
        for part, type_, start in accumulator.parts():
            self.prologue.append(f"{part}_slot = alloca {type_}, align 64")
            self.entry.append(f"store {type_} {start}, ptr {part}_slot, align 64")
            self.before.append(f"{part}_before = load {type_}, ptr {part}_slot, align 64")
        return accumulator

    def whole_packet(self) -> str:
        """Whether all elements of the packet belong to the row, as a condition."""
        if not self.whole:
            self.whole = self.writer(f"icmp ule i64 {self.next_column}, {self.limit}")
        return self.whole

    def stores(self, outputs: list[Store]) -> None:
        """Write the packets of a row: the last one under a mask."""
        if not outputs:
            return
        w, streaming, texts = self.writer, self.function.streaming, []
        for store in outputs:
            type_index = store.value.type
            texts.append((self.stored_type(type_index, False),
                          self.stored(self.value(store.value, False), type_index, False),
                          self.address(store, self.index)))

        def whole() -> None:
            for type_, value, at in texts:
                align = min(64, self.lanes * type_.info.size) if streaming else type_.info.size
                w.store(type_, value, at, align, streaming)

        def some() -> None:
            for type_, value, at in texts:
                w.masked_store(type_, value, at, type_.info.size, self.active)

        w.branch(self.whole_packet(), whole, some)

    def store_of_row(self, store: Store) -> None:
        """Write what there is one of for each row."""
        type_index = store.value.type
        type_ = self.stored_type(type_index, True)
        value = self.stored(self.value(store.value, True), type_index, True)
        self.writer.store(type_, value, self.address(store, self.unit if store.value.kind == SEGMENT else self.row),
                          type_.info.size)

    # --- columns -----------------------------------------------------------------------------------------------------

    def print_columns(self, passage: RowPass, unit: str) -> None:
        """Print what adds up the columns of a unit: groups of rows, and in each the packets."""
        w, copies = self.writer, len(passage.each)
        extent, self.limit = self.extents[-2], self.extents[-1]
        first, results = w.mul(unit, extent), w.mul(self.unit, self.limit)
        start = w.mul(self.this_part, self.part)
        end = w.minimum(w.add(start, self.part), extent)
        last = w.sub(end, 1)
        outputs = {store.value.node.id: store for store in self.function.row_stores}
        count = len(passage.segments) // copies

        def group(begin: str, _: list[str]) -> None:
            is_first = w(f"icmp eq i64 {begin}, {start}")
            self.numbers, valid = [], []
            for copy in range(copies):
                number = w.add(begin, copy)
                valid.append(w(f"icmp ult i64 {number}, {end}"))
                self.numbers.append(w.minimum(number, last))
            self.rows = [w.add(first, number) for number in self.numbers]
            self.bases = [w.mul(row, self.limit) for row in self.rows]
            self.print_blocks(passage.rows)

            def packet() -> None:
                sums: list[list[str]] = [[] for _ in range(count)]  # of one row, two, four …, the largest first
                for copy, block in enumerate(passage.each):
                    self.print_blocks((block,))
                    for number in range(count):
                        self.add_row(sums[number], copy, valid[copy], passage.segments[copy * count + number])
                for number, (value,) in enumerate(sums):
                    segment = passage.segments[number]
                    self.add_to_sums(value, segment, outputs[segment.node.id], is_first, w.add(results, self.column))

            self.over_packets("0", packet)

        w.repeat(start, end, copies, [], group)

    def add_row(self, sums: list[str], copy: int, valid: str, segment: Instruction) -> None:
        """Combine the packet of a row with those before it, in pairs, pairs of pairs and so on: few are there at once,
        and the error of a sum grows with the logarithm of the rows."""
        op, packet, w = segment.node.attr, self.packets[segment.type], self.writer
        neutral = packet.splat(constant(segment.type, REDUCTIONS[op].identity(segment.type)))
        value = w.either(valid, str(packet), self.value(segment.operands[0], False), neutral)
        rows = copy + 1
        while rows % 2 == 0:
            rows //= 2
            value = self.updated(op, sums.pop(), value, packet)
        sums.append(value)

    def updated(self, op: int, a: str, b: str, type_: TypeText) -> str:
        """Two packets combined."""
        return self.writer.named(lambda name: update(op, name, a, b, type_))

    def add_to_sums(self, value: str, segment: Instruction, store: Store, is_first: str, position: str) -> None:
        """Combine the packets of several rows with the sums so far."""
        w, op, type_index = self.writer, segment.node.attr, segment.type
        packet, stored = self.packets[type_index], self.stored_type(type_index, False)
        neutral = packet.splat(constant(type_index, REDUCTIONS[op].identity(type_index)))
        at = self.address(store, position)
        old = w.masked_load(stored, at, stored.info.size, self.active)
        if type_index == BOOL:
            old = w(f"icmp ne {stored} {old}, {stored.splat(0)}")
        total = self.updated(op, w.either(is_first, str(packet), neutral, old), value, packet)
        w.masked_store(stored, self.stored(total, type_index, False), at, stored.info.size, self.active)


# --- printers --------------------------------------------------------------------------------------------------------


def load(emitter: RowsEmitter, instruction: Instruction) -> None:
    """Read an array in memory: a packet, one element for the row, or one for all."""
    access = instruction.access
    assert access is not None
    if access.layout != ROW:
        memory.load(emitter, instruction)
    else:
        _load_scalar(emitter, instruction, emitter.row)


def _load_scalar(emitter: RowsEmitter, instruction: Instruction, position: str) -> None:
    assert instruction.access is not None
    w, type_ = emitter.writer, emitter.stored_type(instruction.type, True)
    base = emitter.parameter(instruction.access.slot, "ptr")
    at = w(f"getelementptr inbounds {type_.element}, ptr {base}, i64 {position}")
    value = w.load(type_, at, type_.info.size)
    emitter.define(instruction, w(f"icmp ne i8 {value}, 0") if instruction.type == BOOL else value)


def counter(emitter: RowsEmitter, instruction: Instruction) -> None:
    """The position of the element, or of the row."""
    w, wide, type_ = emitter.writer, emitter.function.wide, instruction.type
    if instruction.uniform:
        name = emitter.row if type_ == UINT64 else w(f"trunc i64 {emitter.row} to i32")
    else:
        name = emitter.lane()
        if (type_ == UINT64) != wide:
            source, operation = (UINT32, "zext") if type_ == UINT64 else (UINT64, "trunc")
            name = w(f"{operation} {emitter.packets[source]} {name} to {emitter.packets[type_]}")
    emitter.define(instruction, name)


def segment(emitter: RowsEmitter, instruction: Instruction) -> None:
    """The result of a reduction, which the pass before has defined."""
    raise AssertionError("reductions of rows are printed with their passes")


def view(emitter: RowsEmitter, instruction: Instruction) -> None:
    """Read an array at regular distances."""
    access, type_index, w = instruction.access, instruction.type, emitter.writer
    assert access is not None
    offset = emitter.offset(instruction)
    if instruction.uniform:
        _load_scalar(emitter, instruction, offset)
        return
    base, type_ = emitter.parameter(access.slot, "ptr"), emitter.stored_type(type_index, False)
    align, ahead = TYPES[type_index].size, memory.AHEAD
    if access.layout in (SHIFTED, SHIFTED_UNALIGNED):
        at = w.at(type_.element, base, w.add(offset, emitter.column))
        value = w.load(type_, at, align) if access.layout == SHIFTED else w.masked_load(type_, at, align,
                                                                                        emitter.active)
    elif access.layout == REVERSED:
        lanes, ahead = range(emitter.lanes - 1, -1, -1), -ahead
        at = w.at(type_.element, base, w.sub(w.sub(offset, emitter.column), emitter.lanes - 1))
        mask = w.shuffle(emitter.packets[BOOL], emitter.active, "poison", lanes)
        value = w.shuffle(type_, w.masked_load(type_, at, align, mask), "poison", lanes)
    else:
        at, value = "", _strided(emitter, access, base, offset, type_)
    if access.layout != STRIDED and access.moving:  # else it stays in the cache
        memory.ask_ahead(emitter, at, type_.info.size, ahead)
    emitter.define(instruction, w(f"icmp ne {type_} {value}, {type_.splat(0)}") if type_index == BOOL else value)


def _strided(emitter: RowsEmitter, access: Access, base: str, offset: str, type_: TypeText) -> str:
    """Read elements at some distance of each other."""
    w, slot = emitter.writer, access.first + len(emitter.domain.extents)
    stride = emitter.parameter(slot, "i64")
    wide, lanes = emitter.packets[UINT64], emitter.lanes
    steps = emitter.steps.get(slot)
    if steps is None:
        numbers = ", ".join(f"i64 {k}" for k in range(lanes))
        all_ = emitter.once_writer.splat(wide, stride)
        steps = emitter.steps[slot] = emitter.once_writer(f"mul {wide} {all_}, <{numbers}>")
    first = w.at(type_.element, base, w.add(offset, w.mul(emitter.column, stride)))
    at = w(f"getelementptr {type_.element}, ptr {first}, {wide} {steps}")
    return w.call(str(type_), f"llvm.masked.gather.{type_.suffix}.v{lanes}p0", f"{type_.of('ptr')} {at}",
                  f"i32 {type_.info.size}", f"{type_.mask} {emitter.active}", f"{type_} zeroinitializer")
