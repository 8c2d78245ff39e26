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
from ..codegen.program import ROW, STRIDED
from ..ops.products import OUTER
from ..ops.reductions import REDUCTIONS
from ..ops.table import SEGMENT
from ..types import UINT64
from . import memory, reduction
from .function import FunctionEmitter
from .module import ModuleContext
from .texts import TypeText, constant, update, vector
from .writer import Writer

__all__ = ["RowsEmitter", "load", "counter", "segment", "view"]


class RowsEmitter(FunctionEmitter):
    """Builds the text of a kernel that goes over rows."""

    def __init__(self, module: ModuleContext, function: Function) -> None:
        assert function.domain is not None
        self.domain = function.domain
        self.number = 0  # of the pass
        self.held: dict[str, str] = {}  # scalars of a row -> packets, in this pass
        self.lanes_of_copies: dict[int, str] = {}  # positions of the elements, by the copy, in this pass
        self.whole = ""  # whether all elements of the packet belong to the row, in this pass
        self.offsets: dict[tuple[int, int], str] = {}  # of views, in this unit
        self.accumulators: dict[int, reduction.Accumulator] = {}  # of reductions of everything
        self.slots: dict[reduction.Accumulator, list[str]] = {}  # where these are between rows
        self.copy = 0
        #: Of each copy: the row, its coordinate along the axis that is added up, its first element, that of the packet.
        self.rows: list[str] = []
        self.numbers: list[str] = []
        self.bases: list[str] = []
        self.indices: list[str] = []
        super().__init__(module, function)
        #: What stands before the loop over packets that is being written.
        self.before = Writer("r.")
        self.head, self.aligned = [], False  # what leads to the body is written there
        self.read_domain()

    def enter(self, block: Block) -> None:
        """Print instructions of a block of the linear program from now on."""
        self.block = block
        self.copy = block.copy
        if self.rows:
            self.row = self.rows[block.copy]
        if self.indices:
            self.index = self.indices[block.copy]
        self.writer = self.entry if block.once else self.body
        self.lines = self.writer.lines

    # --- units -------------------------------------------------------------------------------------------------------

    def read_domain(self) -> None:
        """Parameters of the domain, and what the first unit is."""
        domain, axes = self.domain, len(self.domain.extents)
        slot, w = self.function.axes, self.entry
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

    def run_rows(self) -> None:
        """Print all."""
        function, w = self.function, self.body
        for instruction in function.once.instructions:
            self.enter(function.once)
            self.module.printers_of_rows[instruction.kind](self, instruction)
        w.go("units")  # the end of the entry block, which still grows
        w.open("units")
        w.repeat("%begin", "%end", 1, [("i64", start) for start in self.first], self.print_unit)
        self.enter(function.each)

    def print_unit(self, unit: str, counts: list[str]) -> list[str]:
        """Print a unit, given its part and coordinates; those of the next one."""
        w, row = self.body, unit
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
        w = self.body
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
        w = self.body if self.block.is_row else self.before
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
            packet = self.held[name] = self.before.splat(self.packets[instruction.type], name)
        return packet

    def lane(self) -> str:
        """Positions as numbers that are wide enough."""
        found = self.lanes_of_copies.get(self.copy)
        if found is None:
            found = self.lanes_of_copies[self.copy] = self.write_lane()
        return found

    def address(self, store: Store, position: str) -> str:
        """Where an element of an output is."""
        type_ = self.stored_type(store.value.type, True)
        return self.body(f"getelementptr inbounds {type_.element}, ptr {self.parameter(store.slot, 'ptr')}, "
                         f"i64 {position}")

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
        function, w, extent = self.function, self.body, self.extents[-1]
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
        w, place = self.body, len(self.body.lines)
        self.held, self.lanes_of_copies, self.whole = {}, {}, ""

        def packet(column: str, _: list[str]) -> None:
            self.column, self.next_column = column, w.add(column, self.lanes)
            self.active = w.first_lanes(self.lanes, w.sub(self.limit, column))
            self.indices = [w.add(base, column) for base in self.bases]
            body()

        w.repeat(start, self.limit, self.lanes, [], packet)
        w.lines[place:place] = self.before.lines
        self.before.lines.clear()

    def print_pass(self, start: str, passage: RowPass) -> None:
        """Print a pass over the packets of a row, and what it has reduced."""
        w, before = self.body, self.body.here
        accumulators: list[reduction.Accumulator] = []
        totals: list[reduction.Accumulator] = []

        def packet() -> None:
            head = w.lines.start
            self.print_blocks(passage.each)
            self.enter(passage.each[0])
            self.accumulate(passage, accumulators, totals)
            self.stores(passage.stores)
            for scatter in passage.scatters:
                memory.scatter(self, scatter)
            every = [*accumulators, *totals]
            reduction.latch(w, every, self.next_column, self.lanes)
            w.lines[head:head] = [phi for accumulator in every for phi in accumulator.phis(before, w.here)]

        self.over_packets(start, packet)
        for segment, accumulator in zip(passage.segments, accumulators, strict=True):
            value = accumulator.rounded(w, accumulator.total(w, accumulator.ends))
            self.define(segment, w(f"freeze {self.scalars[accumulator.result]} {value}"))
        for total in totals:
            for (type_, *_), slot, value in zip(total.parts, self.slots[total], total.following, strict=True):
                w.store(type_, value, slot, 64)

    def accumulate(self, passage: RowPass, accumulators: list[reduction.Accumulator],
                   totals: list[reduction.Accumulator]) -> None:
        """Write the steps of a pass: the accumulators of reductions of rows, and those of reductions of everything."""
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
            reduction.accumulate(self, [*accumulators, *totals], values)

    def running_total(self, number: int) -> reduction.Accumulator:
        """The accumulator of a reduction of everything, which goes on from row to row in memory."""
        output = self.function.reductions[number]
        self.parameter(1, "ptr")
        accumulator = self.accumulators[number] = reduction.Accumulator(self, str(number), output.op, output.type)
        slots = self.slots[accumulator] = [self.prologue(f"alloca {type_}, align 64")
                                           for type_, *_ in accumulator.parts]
        accumulator.begins = []
        for (type_, start, _), slot in zip(accumulator.parts, slots, strict=True):
            self.entry.store(type_, start, slot, 64)
            accumulator.begins.append(self.before.load(type_, slot, 64))
        return accumulator

    def store_totals(self) -> None:
        """Write what stores the totals among the partial results of the block."""
        w, words = self.body, self.function.partial_words
        for number, accumulator in sorted(self.accumulators.items()):
            ends = [w.load(type_, slot, 64)
                    for (type_, *_), slot in zip(accumulator.parts, self.slots[accumulator], strict=True)]
            accumulator.store_partial(w, accumulator.total(w, ends), 8 * number, words)

    def whole_packet(self) -> str:
        """Whether all elements of the packet belong to the row, as a condition."""
        if not self.whole:
            self.whole = self.body(f"icmp ule i64 {self.next_column}, {self.limit}")
        return self.whole

    def stores(self, outputs: list[Store]) -> None:
        """Write the packets of a row: the last one under a mask."""
        if not outputs:
            return
        w, streaming, texts = self.body, self.function.streaming, []
        for store in outputs:
            type_index = store.value.type
            texts.append((self.stored_type(type_index, False),
                          self.to_memory(self.value(store.value, False), type_index, False),
                          self.address(store, self.index)))

        def whole() -> None:
            for type_, value, at in texts:
                w.store(type_, value, at, type_.alignment if streaming else type_.info.size, streaming)

        def some() -> None:
            for type_, value, at in texts:
                w.masked_store(type_, value, at, type_.info.size, self.active)

        w.branch(self.whole_packet(), whole, some)

    def store_of_row(self, store: Store) -> None:
        """Write what there is one of for each row."""
        type_index = store.value.type
        type_ = self.stored_type(type_index, True)
        value = self.to_memory(self.value(store.value, True), type_index, True)
        self.body.store(type_, value, self.address(store, self.unit if store.value.kind == SEGMENT else self.row),
                        type_.info.size)

    # --- columns -----------------------------------------------------------------------------------------------------

    def print_columns(self, passage: RowPass, unit: str) -> None:
        """Print what adds up the columns of a unit: groups of rows, and in each the packets."""
        w, copies = self.body, len(passage.each)
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
        op, packet, w = segment.node.attr, self.packets[segment.type], self.body
        neutral = packet.splat(constant(segment.type, REDUCTIONS[op].identity(segment.type)))
        value = w.either(valid, packet, self.value(segment.operands[0], False), neutral)
        rows = copy + 1
        while rows % 2 == 0:
            rows //= 2
            value = self.updated(op, sums.pop(), value, packet)
        sums.append(value)

    def updated(self, op: int, a: str, b: str, type_: TypeText) -> str:
        """Two packets combined."""
        return self.body.named(lambda name: update(op, name, a, b, type_))

    def add_to_sums(self, value: str, segment: Instruction, store: Store, is_first: str, position: str) -> None:
        """Combine the packets of several rows with the sums so far."""
        w, op, type_index = self.body, segment.node.attr, segment.type
        packet, stored = self.packets[type_index], self.stored_type(type_index, False)
        neutral = packet.splat(constant(type_index, REDUCTIONS[op].identity(type_index)))
        at = self.address(store, position)
        old = w.masked_load(stored, at, stored.info.size, self.active)
        old = self.from_memory(old, type_index, False)
        total = self.updated(op, w.either(is_first, packet, neutral, old), value, packet)
        w.masked_store(stored, self.to_memory(total, type_index, False), at, stored.info.size, self.active)


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
    w, type_ = emitter.body, emitter.stored_type(instruction.type, True)
    base = emitter.parameter(instruction.access.slot, "ptr")
    at = w(f"getelementptr inbounds {type_.element}, ptr {base}, i64 {position}")
    value = w.load(type_, at, type_.info.size)
    emitter.define(instruction, emitter.from_memory(value, instruction.type, True))


def counter(emitter: RowsEmitter, instruction: Instruction) -> None:
    """The position of the element, or of the row."""
    if not instruction.uniform:
        name = emitter.positions(instruction.type)
    else:
        name = emitter.row if instruction.type == UINT64 else emitter.body(f"trunc i64 {emitter.row} to i32")
    emitter.define(instruction, name)


def segment(emitter: RowsEmitter, instruction: Instruction) -> None:
    """The result of a reduction, which the pass before has defined."""
    raise AssertionError("reductions of rows are printed with their passes")


def view(emitter: RowsEmitter, instruction: Instruction) -> None:
    """Read an array at regular distances."""
    access, type_index = instruction.access, instruction.type
    assert access is not None
    offset = emitter.offset(instruction)
    if instruction.uniform:
        _load_scalar(emitter, instruction, offset)
        return
    base, type_ = emitter.parameter(access.slot, "ptr"), emitter.stored_type(type_index, False)
    if access.layout == STRIDED:
        value = _strided(emitter, access, base, offset, type_)
    else:
        value = memory.neighbours(emitter, access, base, type_, offset, emitter.column, not access.moving)
    emitter.define(instruction, emitter.from_memory(value, type_index, False))


def _strided(emitter: RowsEmitter, access: Access, base: str, offset: str, type_: TypeText) -> str:
    """Read elements at some distance of each other."""
    w, slot, wide = emitter.body, access.first + len(emitter.domain.extents), emitter.packets[UINT64]
    stride = emitter.parameter(slot, "i64")

    def multiples() -> str:
        all_ = emitter.prologue.splat(wide, stride)
        return emitter.prologue(f"mul {wide} {all_}, {vector('i64', range(emitter.lanes))}")

    steps = emitter.keep(("steps", slot), multiples)
    first = w.at(type_.element, base, w.add(offset, w.mul(emitter.column, stride)))
    return w.gathered(type_, w(f"getelementptr {type_.element}, ptr {first}, {wide} {steps}"), type_.info.size,
                      emitter.active)
