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

from ..codegen.linear import Block, Function, Instruction, RowPass, Store
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
        #: Text of a unit, as far as it is finished; what stands before the loop of a pass; the loop.
        self.unit = Lines("unit")
        self.before = Lines()
        self.number = 0  # of the pass
        self.held: dict[str, str] = {}  # scalars of a row -> packets, in this pass
        self.offsets: dict[tuple[int, int], str] = {}  # of views, in this unit
        self.accumulators: dict[int, reduction.Accumulator] = {}  # of reductions of everything
        self.copy = 0
        super().__init__(module, function)
        self.alignment = 0
        self.prologue_of_unit()

    def enter(self, block: Block) -> None:
        """Print instructions of a block of the linear program from now on."""
        self.block = block
        self.copy = block.copy
        self.row = f"%row{block.copy}" if self.domain.columns else "%row"
        self.index = f"%index{self.number}_{block.copy}"
        if block.once:
            self.lines = self.entry
        else:
            self.lines = self.unit if block.is_row else self.body

    # --- units -------------------------------------------------------------------------------------------------------

    def prologue_of_unit(self) -> None:
        """Parameters of the domain, and the coordinates that a unit begins with."""
        domain, axes = self.domain, len(self.domain.extents)
        slot = self.function.axes
        #: Texts of the extents, outermost first; that of the outermost axis is not known.
        self.extents = ["", *(self.parameter(slot + axes - 1 - axis, "i64") for axis in range(1, axes))]
        #: Axes that units are counted along, and the coordinate along each axis (of columns, that of each copy).
        self.counted = axes - 2 if domain.columns else axes - 1
        self.parts = ""
        entry, rest = self.entry, "%begin"
        self.part = self.parameter(slot + axes, "i64")
        if domain.parts > 1:
            parts = self.parameter(slot + axes - 1, "i64")
            entry += [f"%first_row = udiv i64 %begin, {parts}", f"%first_part_0 = mul i64 %first_row, {parts}",
                      "%first_part = sub i64 %begin, %first_part_0"]
            rest = "%first_row"
            self.parts = parts
        for axis in range(self.counted - 1, 0, -1):
            extent = self.extents[axis]
            entry += [f"%start{axis}_q = udiv i64 {rest}, {extent}",
                      f"%start{axis}_p = mul i64 %start{axis}_q, {extent}",
                      f"%start{axis} = sub i64 {rest}, %start{axis}_p"]
            rest = f"%start{axis}_q"
        if self.counted:
            entry.append(f"%start0 = add i64 {rest}, 0")

    def head_of_unit(self, last: str) -> list[str]:
        """The first lines of a unit, given the label that the one before ends with."""
        domain, entry = self.domain, self.entry.label
        lines = [f"%this_unit = phi i64 [ %begin, %{entry} ], [ %next_unit, %{last} ]"]
        if domain.parts > 1:
            lines.append(f"%part = phi i64 [ %first_part, %{entry} ], [ %part_next, %{last} ]")
        lines += [f"%c{axis} = phi i64 [ %start{axis}, %{entry} ], [ %c{axis}_next, %{last} ]"
                  for axis in range(self.counted)]
        if domain.parts > 1:
            lines += ["%row_0 = sub i64 %this_unit, %part", f"%row = udiv i64 %row_0, {self.parts}"]
        else:
            lines.append("%row = add i64 %this_unit, 0")
        return lines

    def end_of_unit(self) -> list[str]:
        """Lines that count on."""
        lines, carry = ["%next_unit = add i64 %this_unit, 1"], ""
        if self.domain.parts > 1:
            lines += ["%part_more = add i64 %part, 1", f"%part_full = icmp eq i64 %part_more, {self.parts}",
                      "%part_next = select i1 %part_full, i64 0, i64 %part_more"]
            carry = "%part_full"
        for axis in range(self.counted - 1, -1, -1):
            if carry:
                lines += [f"%c{axis}_step = zext i1 {carry} to i64", f"%c{axis}_more = add i64 %c{axis}, %c{axis}_step"]
            else:
                lines.append(f"%c{axis}_more = add i64 %c{axis}, 1")
            if not axis:
                lines.append("%c0_next = add i64 %c0_more, 0")
                break
            lines += [f"%c{axis}_full = icmp eq i64 %c{axis}_more, {self.extents[axis]}",
                      f"%c{axis}_next = select i1 %c{axis}_full, i64 0, i64 %c{axis}_more"]
            carry = f"%c{axis}_full"
        return lines

    def coordinate(self, axis: int) -> str:
        """The coordinate of the row along an axis but the innermost."""
        return f"%r{self.copy}" if axis == self.counted else f"%c{axis}"

    def offset(self, access: Instruction) -> str:
        """Position of the first element of a view's row, before the packets of the row."""
        assert access.access is not None
        first, axes = access.access.first, len(self.domain.extents)
        key = (first, self.copy)
        known = self.offsets.get(key)
        if known is not None:
            return known
        name, out = f"%offset{first}_{self.copy}", self.unit if self.lines is self.unit else self.before
        moving = access.access.moving
        result = self.parameter(first, "i64")
        for axis in range(axes - 1):
            if moving >> axis & 1:
                stride = self.parameter(first + 1 + axis, "i64")
                out += [f"{name}_m{axis} = mul i64 {self.coordinate(axis)}, {stride}",
                        f"{name}_a{axis} = add i64 {result}, {name}_m{axis}"]
                result = f"{name}_a{axis}"
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
            packet = self.held[name] = f"{name}_row{self.number}"
            self.splat(packet, name, self.packets[instruction.type], self.before)
        return packet

    def lane(self) -> str:
        """Packet of the elements' positions."""
        name = f"%lane{self.number}_{self.copy}"
        if name not in self.loaded:
            self.loaded.add(name)
            wide = self.function.wide
            element, type_ = "i64" if wide else "i32", self.packets[UINT64 if wide else UINT32]
            first = self.index
            if not wide:
                first = f"{name}_narrow"
                self.body.append(f"{first} = trunc i64 {self.index} to i32")
            self.splat(f"{name}_all", first, type_, self.body)
            steps = ", ".join(f"{element} {k}" for k in range(self.lanes))
            self.body.append(f"{name} = add {type_} {name}_all, <{steps}>")
        return name

    # --- passes ------------------------------------------------------------------------------------------------------

    def print_blocks(self, blocks: tuple[Block, ...]) -> None:
        """Print the instructions of some blocks."""
        printers = self.module.printers_of_rows
        for block in blocks:
            self.enter(block)
            for instruction in block.instructions:
                printers[instruction.kind](self, instruction)

    def start_pass(self, number: int) -> None:
        """Begin with a pass over the packets of a row."""
        self.number = number
        self.held, self.before, self.body = {}, Lines(), Lines(f"pass{number}")
        column, mask = f"%column{number}", self.packets[BOOL]
        self.active = f"%active{number}"
        steps = ", ".join(f"i32 {k}" for k in range(self.lanes))
        wide = self.packets[UINT32]
        self.body += [f"{column}_next = add i64 {column}, {self.lanes}", f"%left{number} = sub i64 %limit, {column}",
                      f"%left{number}_c = call i64 @llvm.umin.i64(i64 %left{number}, i64 {self.lanes})",
                      f"%left{number}_32 = trunc i64 %left{number}_c to i32"]
        self.splat(f"%left{number}_all", f"%left{number}_32", wide, self.body)
        self.body.append(f"{self.active} = icmp ult {wide} <{steps}>, %left{number}_all")
        assert mask.lanes == self.lanes

    def run_rows(self) -> str:
        """Print all; the lines after the entry block."""
        function = self.function
        for instruction in function.once.instructions:
            self.enter(function.once)
            self.module.printers_of_rows[instruction.kind](self, instruction)
        if self.domain.columns:
            self.print_columns(function.passes[0])
        else:
            self.print_passes()
        end = self.end_of_unit()
        lines = ["br label %unit", "unit:", *self.head_of_unit(self.unit.label), *self.unit, *end,
                 "%more = icmp ult i64 %next_unit, %end", "br i1 %more, label %unit, label %done", "done:"]
        return "\n".join(lines)

    def print_passes(self) -> None:
        """Print the passes over rows."""
        function, domain = self.function, self.domain
        extent = self.extents[-1]
        self.unit[:] = [f"%base = mul i64 %row, {extent}"]
        start = "0"
        if domain.parts > 1:
            self.unit += [f"%start = mul i64 %part, {self.part}", f"%limit_0 = add i64 %start, {self.part}",
                          f"%limit = call i64 @llvm.umin.i64(i64 %limit_0, i64 {extent})"]
            start = "%start"
        else:
            self.unit.append(f"%limit = add i64 {extent}, 0")
        for number, passage in enumerate(function.passes):
            self.enter(passage.rows[0])
            self.number = number
            self.print_blocks(passage.rows)
            self.start_pass(number)
            column = f"%column{number}"
            self.body.append(f"%index{number}_0 = add i64 %base, {column}")
            self.print_blocks(passage.each)
            self.enter(passage.each[0])
            accumulators, totals = self.accumulators_of(passage)
            self.stores(passage.stores)
            for k, scatter in enumerate(passage.scatters):
                memory.scatter(self, scatter, f"%s{number}_{k}")
            self.finish_pass(start, accumulators, totals)
        assert function.last_row is not None
        self.enter(function.last_row)
        self.print_blocks((function.last_row,))
        for store in function.row_stores:
            self.store_of_row(store)

    def accumulators_of(self, passage: RowPass) -> tuple[list[reduction.Accumulator], list[reduction.Accumulator]]:
        """Emit the steps of a pass: the accumulators of reductions of rows, and those of reductions of everything."""
        accumulators, totals, values = [], [], []
        for segment in passage.segments:
            accumulators.append(reduction.Accumulator(self, f"_v{segment.number}", segment.node.attr, segment.type))
            values.append(self.value(segment.operands[0], False))
            self.names[segment.number] = f"%v{segment.number}"
        for number in passage.reductions:
            output = self.function.reductions[number]
            if output.value.kind == OUTER:
                continue  # what adds them up has done so
            totals.append(self.running_total(number))
            values.append(self.value(output.value, False))
        if values:
            reduction.accumulate(self, str(self.number), [*accumulators, *totals], values)
        return accumulators, totals

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
        whole = f"%full{self.number}"
        if whole not in self.loaded:
            self.loaded.add(whole)
            self.body.append(f"{whole} = icmp ule i64 %column{self.number}_next, %limit")
        return whole

    def finish_pass(self, start: str, accumulators: list[reduction.Accumulator],
                    totals: list[reduction.Accumulator]) -> None:
        """Put a pass together."""
        number, unit = self.number, self.unit
        column, after = f"%column{number}", f"after{number}"
        count, end = f"%count{number}", []
        if any(accumulator.flushed for accumulator in (*accumulators, *totals)):
            end.append(f"{count} = lshr i64 {column}_next, {self.lanes.bit_length() - 1}")
        flush, latch = reduction.latch([*accumulators, *totals], count, f"_{number}", self.body.label)
        phis = [f"{column} = phi i64 [ {start}, %{self.unit.label} ], [ {column}_next, %{latch} ]"]
        for accumulator in accumulators:
            phis += accumulator.phis(self.unit.label, latch, bool(flush))
        for total in totals:
            phis += total.phis(self.unit.label, latch, bool(flush), True)
        unit += [*self.before, f"br label %pass{number}", f"pass{number}:", *phis, *self.body, *end, *flush,
                 f"%more{number} = icmp ult i64 {column}_next, %limit",
                 f"br i1 %more{number}, label %pass{number}, label %{after}", f"{after}:"]
        unit.go_on(after)
        for accumulator in accumulators:
            lines, value = accumulator.total()
            unit += lines
            name = accumulator.name.replace("%sum_", "%")
            value = accumulator.rounded(Writer(unit, f"{name[1:]}."), value)
            unit.append(f"{name} = freeze {self.scalars[accumulator.result]} {value}")
        for total in totals:
            suffix = "_last" if flush else "_next"
            for part, type_, _ in total.parts():
                unit.append(f"store {type_} {part}{suffix}, ptr {part}_slot, align 64")

    def stores(self, outputs: list[Store]) -> None:
        """Write the packets of a row: the last one under a mask."""
        if not outputs:
            return
        number, out = self.number, self.body
        texts = []
        for store in outputs:
            name, type_index = f"%o{store.slot}_{number}", store.value.type
            base = self.parameter(store.slot, "ptr")
            value = self.value(store.value, False)
            type_ = self.stored_type(type_index, False)
            if type_index == BOOL:
                out.append(f"{name}_m = zext {self.packets[BOOL]} {value} to {type_}")
                value = f"{name}_m"
            out.append(f"{name}_at = getelementptr inbounds {type_.element}, ptr {base}, i64 {self.index}")
            texts.append((name, type_, value))
        streaming = self.function.streaming
        out += [f"br i1 {self.whole_packet()}, label %whole{number}, label %some{number}", f"whole{number}:"]
        for name, type_, value in texts:
            align = min(64, self.lanes * type_.info.size) if streaming else type_.info.size
            out.append(f"store {type_} {value}, ptr {name}_at, align {align}"
                       f"{', !nontemporal !0' if streaming else ''}")
        out += [f"br label %stored{number}", f"some{number}:"]
        for name, type_, value in texts:
            out.append(f"call void @llvm.masked.store.{type_.suffix}.p0({type_} {value}, ptr {name}_at, "
                       f"i32 {type_.info.size}, {type_.mask} {self.active})")
        out.append(f"br label %stored{number}")
        self.open_block(f"stored{number}")

    def store_of_row(self, store: Store) -> None:
        """Write what there is one of for each row."""
        name, type_index, out = f"%o{store.slot}", store.value.type, self.unit
        position = "%this_unit" if store.value.kind == SEGMENT else "%row"
        base = self.parameter(store.slot, "ptr")
        value = self.value(store.value, True)
        type_ = self.stored_type(type_index, True)
        if type_index == BOOL:
            out.append(f"{name}_m = zext i1 {value} to i8")
            value = f"{name}_m"
        out += [f"{name}_at = getelementptr inbounds {type_.element}, ptr {base}, i64 {position}",
                f"store {type_} {value}, ptr {name}_at, align {type_.info.size}"]

    # --- columns -----------------------------------------------------------------------------------------------------

    def print_columns(self, passage: RowPass) -> None:
        """Print the kernel that adds up columns: groups of rows, and in each the packets."""
        function, copies = self.function, len(passage.each)
        extent, inner = self.extents[-2], self.extents[-1]
        outer = self.unit
        unit = self.unit = Lines("group")
        unit += [f"%limit = add i64 {inner}, 0"]
        for copy in range(copies):
            unit += [f"%g{copy} = add i64 %this_group, {copy}", f"%valid{copy} = icmp ult i64 %g{copy}, %end_of_part",
                     f"%r{copy} = call i64 @llvm.umin.i64(i64 %g{copy}, i64 %last_row)",
                     f"%row{copy} = add i64 %first_of_unit, %r{copy}", f"%base{copy} = mul i64 %row{copy}, {inner}"]
        self.print_blocks(passage.rows)
        self.start_pass(0)
        count = len(passage.segments) // copies
        sums: list[list[str]] = [[] for _ in range(count)]  # of one row, two, four …, the largest first
        for copy, block in enumerate(passage.each):
            self.body.append(f"%index0_{copy} = add i64 %base{copy}, %column0")
            self.print_blocks((block,))
            for number in range(count):
                self.add_row(sums[number], copy, passage.segments[copy * count + number])
        outputs = {store.value.node.id: store for store in function.row_stores}
        for number, (value,) in enumerate(sums):
            self.add_to_sums(value, passage.segments[number], outputs)
        unit += [*self.before, "br label %pass0", "pass0:",
                 f"%column0 = phi i64 [ 0, %{self.unit.label} ], [ %column0_next, %{self.body.label} ]", *self.body,
                 "%more0 = icmp ult i64 %column0_next, %limit", "br i1 %more0, label %pass0, label %after0", "after0:",
                 f"%group_next = add i64 %this_group, {copies}",
                 "%groups_more = icmp ult i64 %group_next, %end_of_part",
                 "br i1 %groups_more, label %group, label %over", "over:"]
        part = "%part" if self.domain.parts > 1 else "0"
        outer[:] = [f"%first_of_unit = mul i64 %row, {extent}", f"%results = mul i64 %this_unit, {inner}",
                    f"%start_of_part = mul i64 {part}, {self.part}", f"%end_0 = add i64 %start_of_part, {self.part}",
                    f"%end_of_part = call i64 @llvm.umin.i64(i64 %end_0, i64 {extent})",
                    "%last_row = sub i64 %end_of_part, 1",
                    "br label %group", "group:",
                    "%this_group = phi i64 [ %start_of_part, %unit ], [ %group_next, %after0 ]",
                    "%is_first = icmp eq i64 %this_group, %start_of_part", *unit]
        outer.label, self.unit = "over", outer

    def add_row(self, sums: list[str], copy: int, segment: Instruction) -> None:
        """Combine the packet of a row with those before it, in pairs, pairs of pairs and so on: few are there at once,
        and the error of a sum grows with the logarithm of the rows."""
        op, packet = segment.node.attr, self.packets[segment.type]
        neutral = packet.splat(constant(segment.type, REDUCTIONS[op].identity(segment.type)))
        name = f"%in{segment.number}"
        self.body.append(f"{name} = select i1 %valid{copy}, {packet} {self.value(segment.operands[0], False)}, "
                         f"{packet} {neutral}")
        rows = copy + 1
        while rows % 2 == 0:
            rows //= 2
            self.body.append(update(op, f"{name}_{rows}", sums.pop(), name, packet))
            name = f"{name}_{rows}"
        sums.append(name)

    def add_to_sums(self, value: str, segment: Instruction, outputs: dict[int, Store]) -> None:
        """Combine the packets of several rows with the sums so far."""
        out, column = self.body, "%column0"
        op, type_index = segment.node.attr, segment.type
        store = outputs[segment.node.id]
        packet, start = self.packets[type_index], constant(type_index, REDUCTIONS[op].identity(type_index))
        neutral = packet.splat(start)
        base, stored = self.parameter(store.slot, "ptr"), self.stored_type(type_index, False)
        name = f"%o{store.slot}"
        out += [f"{name}_i = add i64 %results, {column}",
                f"{name}_at = getelementptr inbounds {stored.element}, ptr {base}, i64 {name}_i",
                f"{name}_old_0 = call {stored} @llvm.masked.load.{stored.suffix}.p0(ptr {name}_at, "
                f"i32 {stored.info.size}, {stored.mask} {self.active}, {stored} zeroinitializer)"]
        old = f"{name}_old_0"
        if type_index == BOOL:
            out.append(f"{name}_old_b = icmp ne {stored} {old}, {stored.splat(0)}")
            old = f"{name}_old_b"
        out += [f"{name}_old = select i1 %is_first, {packet} {neutral}, {packet} {old}",
                update(op, f"{name}_new", f"{name}_old", value, packet)]
        new = f"{name}_new"
        if type_index == BOOL:
            out.append(f"{name}_new_m = zext {packet} {new} to {stored}")
            new = f"{name}_new_m"
        out.append(f"call void @llvm.masked.store.{stored.suffix}.p0({stored} {new}, ptr {name}_at, "
                   f"i32 {stored.info.size}, {stored.mask} {self.active})")


# --- printers --------------------------------------------------------------------------------------------------------


def load(emitter: RowsEmitter, instruction: Instruction) -> None:
    """Read an array in memory: a packet, one element for the row, or one for all."""
    access, type_index = instruction.access, instruction.type
    assert access is not None
    if access.layout != ROW:
        memory.load(emitter, instruction)
        return
    base, type_ = emitter.parameter(access.slot, "ptr"), emitter.stored_type(type_index, True)
    _load_scalar(emitter, instruction, base, type_, emitter.row)


def _load_scalar(emitter: RowsEmitter, instruction: Instruction, base: str, type_: TypeText, position: str) -> None:
    name, out = f"%v{instruction.number}", emitter.lines
    value = f"{name}_m" if instruction.type == BOOL else name
    out += [f"{name}_at = getelementptr inbounds {type_.element}, ptr {base}, i64 {position}",
            f"{value} = load {type_}, ptr {name}_at, align {type_.info.size}"]
    if instruction.type == BOOL:
        out.append(f"{name} = icmp ne i8 {value}, 0")
    emitter.define(instruction, name)


def counter(emitter: RowsEmitter, instruction: Instruction) -> None:
    """The position of the element, or of the row."""
    name, wide, type_ = f"%v{instruction.number}", emitter.function.wide, instruction.type
    if instruction.uniform:
        if type_ == UINT64:
            emitter.lines.append(f"{name} = add i64 {emitter.row}, 0")
        else:
            emitter.lines.append(f"{name} = trunc i64 {emitter.row} to i32")
    else:
        lane = emitter.lane()
        if (type_ == UINT64) == wide:
            name = lane
        else:
            source = emitter.packets[UINT32 if type_ == UINT64 else UINT64]
            cast = "zext" if type_ == UINT64 else "trunc"
            emitter.lines.append(f"{name} = {cast} {source} {lane} to {emitter.packets[type_]}")
    emitter.define(instruction, name)


def segment(emitter: RowsEmitter, instruction: Instruction) -> None:
    """The result of a reduction, which the pass before has defined."""
    raise AssertionError("reductions of rows are printed with their passes")


def view(emitter: RowsEmitter, instruction: Instruction) -> None:
    """Read an array at regular distances."""
    access, type_index, name, out = instruction.access, instruction.type, f"%v{instruction.number}", emitter.lines
    assert access is not None
    base = emitter.parameter(access.slot, "ptr")
    offset = emitter.offset(instruction)
    if instruction.uniform:
        _load_scalar(emitter, instruction, base, emitter.stored_type(type_index, True), offset)
        return
    type_, align, column = emitter.stored_type(type_index, False), TYPES[type_index].size, f"%column{emitter.number}"
    value = f"{name}_m" if type_index == BOOL else name
    if access.layout in (SHIFTED, SHIFTED_UNALIGNED):
        out += [f"{name}_i = add i64 {offset}, {column}",
                f"{name}_at = getelementptr {type_.element}, ptr {base}, i64 {name}_i"]
        if access.layout == SHIFTED:
            out.append(f"{value} = load {type_}, ptr {name}_at, align {align}")
        else:
            out.append(_masked_load(value, type_, f"{name}_at", align, emitter.active))
    elif access.layout == REVERSED:
        mask = f"{name}_mask"
        out += [f"{name}_last = sub i64 {offset}, {column}", f"{name}_i = sub i64 {name}_last, {emitter.lanes - 1}",
                f"{name}_at = getelementptr {type_.element}, ptr {base}, i64 {name}_i",
                memory.reversed_packet(mask, type_.mask, emitter.active, emitter.lanes),
                _masked_load(f"{name}_forwards", type_, f"{name}_at", align, mask),
                memory.reversed_packet(value, type_, f"{name}_forwards", emitter.lanes)]
    else:
        _strided(emitter, instruction, base, offset, type_, value)
    if access.layout != STRIDED and access.moving:  # else it stays in the cache
        memory.ask_ahead(emitter, name, type_.info.size, -memory.AHEAD if access.layout == REVERSED else memory.AHEAD)
    if type_index == BOOL:
        out.append(f"{name} = icmp ne {type_} {value}, {type_.splat(0)}")
    emitter.define(instruction, name)


def _masked_load(name: str, type_: TypeText, address: str, align: int, mask: str) -> str:
    return (f"{name} = call {type_} @llvm.masked.load.{type_.suffix}.p0(ptr {address}, i32 {align}, "
            f"{type_.mask} {mask}, {type_} zeroinitializer)")


def _strided(emitter: RowsEmitter, instruction: Instruction, base: str, offset: str, type_: TypeText,
             value: str) -> None:
    """Read elements at some distance of each other."""
    assert instruction.access is not None
    name, out = f"%v{instruction.number}", emitter.lines
    slot = instruction.access.first + len(emitter.domain.extents)
    stride = emitter.parameter(slot, "i64")
    wide, lanes = emitter.packets[UINT64], emitter.lanes
    steps = f"%steps{slot}"
    if steps not in emitter.loaded:
        emitter.loaded.add(steps)
        emitter.prologue.append(f"{steps}_one = insertelement {wide} poison, i64 {stride}, i32 0")
        emitter.prologue.append(f"{steps}_all = shufflevector {wide} {steps}_one, {wide} poison, "
                                f"<{lanes} x i32> zeroinitializer")
        numbers = ", ".join(f"i64 {k}" for k in range(lanes))
        emitter.prologue.append(f"{steps} = mul {wide} {steps}_all, <{numbers}>")
    out += [f"{name}_c = mul i64 %column{emitter.number}, {stride}", f"{name}_f = add i64 {offset}, {name}_c",
            f"{name}_first = getelementptr {type_.element}, ptr {base}, i64 {name}_f",
            f"{name}_at = getelementptr {type_.element}, ptr {name}_first, {wide} {steps}",
            f"{value} = call {type_} @llvm.masked.gather.{type_.suffix}.v{lanes}p0({type_.of('ptr')} {name}_at, "
            f"i32 {type_.info.size}, {type_.mask} {emitter.active}, {type_} zeroinitializer)"]
