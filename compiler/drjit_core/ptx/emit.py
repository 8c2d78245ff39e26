"""PTX text of a module: a kernel, the one that combines its partial results, and the functions that they call.

A kernel gets one parameter, the words of the program as they are, of which more than fit are in memory; those that go
over rows get the number of units besides.  Each thread computes its elements and ends; only reductions and tables of
blocks, whose number has a limit, and rows are loops.  How many threads and blocks there are is part of the launch
(:class:`Module`), not of the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..codegen.linear import Function, Instruction, Linear
from ..codegen.linearize import linearize
from ..codegen.printers import Printers
from ..codegen.program import ALIGNED, SCALAR, Program
from ..codegen.target import SHARED, Target
from ..ops.table import (
    ACCESS,
    BITCAST,
    CALL,
    CAST,
    COND,
    COUNTER,
    EVALUATED,
    FETCH,
    FIRST_ELEMENTWISE,
    FIRST_EXPANDED,
    GATHER,
    LITERAL,
    LOCAL,
    LOOP,
    OPS,
    RESULT,
    SCATTER,
    UNDEFINED,
    VIEW,
)
from ..types import TYPES
from . import calls, control, elements, features, local, memory, reduction, rows, tables, values
from .calls import Callee
from .function import FunctionEmitter
from .reduction import BLOCK, COMBINE, WARP, WARPS, Accumulator, Flushes
from .texts import Lines

__all__ = ["COMBINE", "KERNEL", "MOST_BLOCKS", "Module", "Shape", "emit", "register"]

#: Name of the kernel.
KERNEL = "kernel"
#: Words that are passed as they are: up to 32,764 bytes from version 8.1 of PTX on, of which some are left.
_MOST_WORDS = 4000
#: Blocks of a kernel with reductions, at most: a number that is the same on every device, so that results are.
MOST_BLOCKS = 1024
#: Elements of a thread, bytes that it loads or stores at once, and registers that its values take, at most.
_LANES, _BYTES, _REGISTERS = 8, 16, 64
#: Rows of so many elements are for a block, shorter ones for a warp.
_LONG_ROW = 1024
#: Elements of each thread, at least, of a kernel whose blocks have tables: these are filled and merged.
_TURNS = 8

#: What prints an instruction.
Printer = Callable[[Any, Instruction], None]


class Shape(NamedTuple):
    """How many blocks a launch has, and how many threads along both axes of each."""

    blocks: int
    x: int
    y: int = 1


class Module(NamedTuple):
    """The text of a program, and what launches of it have to know."""

    text: str
    lanes: int  # elements of a thread; 0 if there is one thread
    rows: bool
    reductions: int
    words_in_memory: bool  # whether the parameter is the address of the words
    tables: bool = False  # whether blocks have tables of memory that they update

    def shape(self, width: int, units: int) -> Shape:
        """The launch of a kernel of some width, that of one element included."""
        if not self.lanes:
            return Shape(1, 1)
        if self.rows:
            shape = Shape(units, BLOCK) if width // units >= _LONG_ROW else Shape(-(-units // WARPS), WARP, WARPS)
        else:
            shape = Shape(-(-width // (self.lanes * BLOCK * (_TURNS if self.tables else 1))), BLOCK)
        if self.reductions or self.tables:
            return shape._replace(blocks=min(shape.blocks, MOST_BLOCKS))
        return shape

    def combine_shape(self) -> Shape:
        """The launch that combines partial results."""
        return Shape(self.reductions, WARP)

    def partial_bytes(self, width: int, units: int) -> int:
        """Bytes of partial results."""
        return reduction.partial_bytes(self.reductions, self.shape(width, units).blocks)


def register(kind: int, printer: Printer) -> None:
    """Say what prints a row that is registered, in kernels of either kind."""
    ModuleEmitter.printers[kind] = ModuleEmitter.printers_of_rows[kind] = printer


def _expanded(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A row with an expansion: a call, or its text."""
    (values.elementwise if instruction.function is None else calls.expansion)(emitter, instruction)


class ModuleEmitter:
    """Builds the text of a module."""

    #: What prints an instruction, by its kind.
    printers = Printers("PTX", {
        LITERAL: values.literal, UNDEFINED: values.undefined, COUNTER: values.counter, EVALUATED: memory.load,
        LOCAL: local.allocate, CAST: values.conversion, BITCAST: values.conversion, ACCESS: memory.access,
        VIEW: memory.view, GATHER: memory.gather, SCATTER: memory.scatter, FETCH: memory.fetch,
        LOOP: control.loop, COND: control.cond, CALL: calls.call, RESULT: control.result,
        **dict.fromkeys(range(FIRST_ELEMENTWISE, FIRST_EXPANDED), values.elementwise),
        **dict.fromkeys(range(FIRST_EXPANDED, len(OPS)), _expanded)})

    #: The printers of kernels that go over rows.
    printers_of_rows = Printers("PTX", {**printers, COUNTER: rows.counter, EVALUATED: rows.load, VIEW: rows.view})

    def __init__(self, linear: Linear, target: Target) -> None:
        self.linear = linear
        self.architecture = target.features
        self.callees: dict[str, Callee] = {}  # in the order of their definitions
        self.targets: dict[int, Callee] = {}  # those of calls, by number
        kernel = linear.kernel
        self.words_in_memory = kernel.parameters > _MOST_WORDS
        self.lanes = _lanes_of(linear, target.traffic)
        #: Where anything is written by index, other parameters may hold the same address.
        self.writes = any(function.written for function in (kernel, *linear.targets))
        self.kept = rows.kept_slots(kernel.passes)
        self.accumulators: list[Accumulator] = []
        shared = target.shared
        self.table_size = shared.size if shared is not None else 0
        self.has_tables = any(scatter.access is not None and scatter.access.strategy == SHARED
                              for scatter in kernel.scatters)

    @property
    def parameter_list(self) -> str:
        """What a kernel gets."""
        return f".param .align 8 .b8 p[{8 * (1 if self.words_in_memory else self.linear.kernel.parameters)}]"

    def may_be_written(self, function: Function, slot: int) -> bool:
        """Whether the memory of a parameter may be, while the kernel runs."""
        return self.writes or function is self.linear.kernel and slot in self.kept

    def need(self, function: Function) -> Callee:
        """The function of an expansion or of a rare branch."""
        callee = self.callees.get(function.name)
        if callee is None:
            callee = calls.function_of(self, function, False)
            self.callees[function.name] = callee
        return callee

    def text(self) -> str:
        """The whole module."""
        kernel = self.linear.kernel
        for number in _order_of_calls(self.linear):
            function = self.linear.targets[number]
            self.targets[number] = self.callees[function.name] = calls.function_of(self, function, True)
        lines = self.kernel_of_rows(kernel) if kernel.domain is not None else self.kernel(kernel)
        if kernel.reductions:
            slots = [output.slot for output in kernel.reductions]
            lines += reduction.combine(self, self.accumulators, slots)
        functions = [line for callee in self.callees.values() for line in (callee.head, *callee.lines)]
        return "\n".join([*features.head(self.architecture), *functions, *lines]) + "\n"

    def kernel(self, function: Function) -> Lines:
        """A kernel of flat arrays."""
        emitter = FunctionEmitter(self, function, max(1, self.lanes))
        self.accumulators = [Accumulator(emitter, output.op, output.type) for output in function.reductions]
        flushes = Flushes(emitter, self.accumulators, emitter.lanes)
        tables_ = tables.tables_of(emitter, function.scatters, self.table_size)
        head, begin, end, tid = self._elements(emitter, flushes) if function.vectorized else ([], [], [], "")
        for accumulator in self.accumulators:
            head += accumulator.begin()
        if tables_:
            head += tables.begin(emitter, tables_, tid)
        emitter.run()
        for store in function.stores:
            memory.store(emitter, store)
        for scatter in function.scatters:
            memory.scatter(emitter, scatter)
        for output, accumulator in zip(function.reductions, self.accumulators, strict=True):
            for lane in range(emitter.lanes):
                emitter.lines += accumulator.add(emitter.operand(output.value, lane), emitter.active[lane])
        body = emitter.body if function.vectorized else []
        last: Lines = tables.end(emitter, tables_, tid) if tables_ else []
        if self.accumulators and function.vectorized:
            last += reduction.block(emitter, self.accumulators, tid)
        elif self.accumulators:
            for number, accumulator in enumerate(self.accumulators):
                total = accumulator.total(last)
                last += elements.stored(emitter, accumulator.last, f"{emitter.parameter(1)}+{8 * number}", total)
        threads = BLOCK if function.vectorized else 1
        return [f".visible .entry {KERNEL} ({self.parameter_list})", f".maxntid {threads}, 1, 1", "{",
                *emitter.declarations(), *emitter.variables, *emitter.prologue, *head, *emitter.entry, *begin, *body,
                *end, *last, "ret;", "}"]

    def _elements(self, emitter: FunctionEmitter, flushes: Flushes) -> tuple[Lines, Lines, Lines, str]:
        """Which elements a thread computes: text before everything, before and after its elements, and its number."""
        function, lanes = emitter.function, emitter.lanes
        wide, loop = function.wide, bool(function.reductions) or self.has_tables
        tid, block, threads, over = emitter.registers("%r", "%r", "%r", "%p")
        index, index32 = emitter.index, emitter.index32 = emitter.registers("%rd", "%r")
        width = emitter.parameter(0, "u64" if wide or loop else "u32")
        head = [f"mov.u32 {tid}, %tid.x;", f"mov.u32 {block}, %ctaid.x;", f"mov.u32 {threads}, %ntid.x;"]
        if wide:
            own = emitter.register("%rd")
            head += [f"mul.wide.u32 {index}, {block}, {threads};", f"cvt.u64.u32 {own}, {tid};",
                     f"add.u64 {index}, {index}, {own};", f"mul.lo.u64 {index}, {index}, {lanes};",
                     f"cvt.u32.u64 {index32}, {index};"]
        else:
            head.append(f"mad.lo.u32 {index32}, {block}, {threads}, {tid};")
            if lanes > 1:
                head.append(f"mul.lo.u32 {index32}, {index32}, {lanes};")
            head.append(f"cvt.u64.u32 {index}, {index32};")
        begin = [f"setp.ge.u64 {over}, {index}, {width};" if wide or loop else
                 f"setp.ge.u32 {over}, {index32}, {width};", f"@{over} bra $done;"]
        end: Lines = ["$done:"]
        if loop:
            blocks, stride = emitter.registers("%r", "%rd")
            head += [f"mov.u32 {blocks}, %nctaid.x;", f"mul.lo.u32 {blocks}, {blocks}, {threads};",
                     f"mul.wide.u32 {stride}, {blocks}, {lanes};", *flushes.begin()]
            begin = ["$again:", *begin]
            end = [*flushes.latch(), f"add.u64 {index}, {index}, {stride};", f"cvt.u32.u64 {index32}, {index};",
                   "bra $again;", "$done:"]
        if lanes > 1 and function.needs_mask:
            count = emitter.parameter(0)
            for lane in range(1, lanes):
                place, active = emitter.registers("%rd", "%p")
                emitter.body += [f"add.u64 {place}, {index}, {lane};", f"setp.lt.u64 {active}, {place}, {count};"]
                emitter.active[lane] = active
        return head, begin, end, tid

    def kernel_of_rows(self, function: Function) -> Lines:
        """A kernel that goes over rows."""
        emitter = rows.RowsEmitter(self, function)
        body = emitter.text()
        self.accumulators = emitter.totals
        del emitter.flushes  # which know it
        return [f".visible .entry {KERNEL} ({self.parameter_list}, .param .u64 units)", f".maxntid {BLOCK}, 1, 1", "{",
                *emitter.declarations(), *emitter.variables, *emitter.prologue, *body, "ret;", "}"]


def _order_of_calls(linear: Linear) -> list[int]:
    """The targets of calls, those that others call first."""
    order: list[int] = []
    for number in range(len(linear.targets)):
        _visit(linear, number, order)
    return order


def _visit(linear: Linear, number: int, order: list[int]) -> None:
    """Append a target to those that were visited, behind those that it calls."""
    if number not in order:
        for instruction in linear.targets[number]:
            if instruction.site is not None:
                for callee in instruction.site.functions:
                    _visit(linear, callee, order)
        order.append(number)


def _lanes_of(linear: Linear, traffic: int) -> int:
    """How many neighbouring elements a thread computes; 0 if there is one element.

    There are several for the sake of longer loads and stores.  What computes for longer than memory takes gains nothing
    by them, and its text is that many times as long.
    """
    kernel = linear.kernel
    if not kernel.vectorized:
        return 0
    if kernel.domain is not None or linear.targets:
        return 1
    accesses = vectors = cost = 0
    nbytes = sum(TYPES[store.value.type].size for store in kernel.stores)
    for instruction in kernel:
        if instruction.blocks or instruction.site is not None or instruction.kind == LOCAL:
            return 1
        if instruction.uniform:
            continue
        if instruction.access is None or instruction.kind == LITERAL:
            cost += OPS[instruction.kind].cost
        else:
            accesses += 1
            nbytes += TYPES[instruction.type].size
            vectors += instruction.kind == EVALUATED and instruction.access.layout in (ALIGNED, SCALAR)
    accesses += len(kernel.stores) + len(kernel.scatters)
    vectors += len(kernel.stores)
    if 2 * vectors <= accesses or kernel.scatters:
        return 1
    largest = max(kernel.largest, *(TYPES[store.value.type].size for store in kernel.stores), 1)
    lanes, alive = min(_LANES, _BYTES // largest), kernel.most_live * max(1, largest // 4)
    of_memory = lanes * traffic * nbytes // (8 * max(1, cost))
    return 1 << max(1, min(lanes, of_memory, _REGISTERS // max(1, alive))).bit_length() - 1


def emit(program: Program) -> Module:
    """The PTX of a program, for the architecture that its target tells (:attr:`..codegen.target.Target.features`)."""
    linear = linearize(program)
    module = ModuleEmitter(linear, program.target)
    text = module.text()
    module.accumulators.clear()  # which know their emitters: nodes would wait for the collector of cycles
    return Module(text, module.lanes, linear.kernel.domain is not None, len(linear.kernel.reductions),
                  module.words_in_memory, module.has_tables)
