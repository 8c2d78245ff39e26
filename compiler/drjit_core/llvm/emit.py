"""LLVM text of a module: a kernel, the function that combines its partial results, and the functions that it calls.

A kernel is a function over a block of the iteration space::

    void kernel(ptr parameters, i64 row_begin, i64 row_end, i64 begin, i64 end, i64 block, i32 worker)

Flat arrays are one row; ``begin`` is a multiple of the packet width, ``end`` that or the width of the kernel.  Uniform
values are computed in the entry block, packets in a loop; a kernel of width 1 is nothing but an entry block
(:mod:`.function`).

Memory of our own is padded to whole packets, so that plain loads and stores may run over the end; foreign memory is
accessed under the mask of active lanes, and so is everything with an effect (reductions, scatters, gathers, loops).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..codegen.linear import Function, Instruction, Linear
from ..codegen.linearize import linearize
from ..codegen.printers import Printers
from ..codegen.program import Program
from ..ops.products import OUTER, PRODUCT
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
    SEGMENT,
    UNDEFINED,
    VIEW,
)
from ..types import ReduceOp
from . import calls, control, expansions, jit, local, many, memory, outer, products, reduction, rows, short, values
from .function import FunctionEmitter
from .lines import ATTRIBUTES
from .module import ModuleContext

__all__ = ["COMBINE", "KERNEL", "ModuleEmitter", "emit", "exports", "packets_per_iteration", "register"]

#: Names of the functions in a kernel's module.
KERNEL, COMBINE = "kernel", "combine"
#: Packets an iteration: several hide the latency of instructions, as long as all values stay in registers and the
#: code stays small (see `packets_per_iteration`).
_REGISTERS, _MANY_PACKETS, _FEW_PACKETS = 28, 48, 160
_MOST_PACKETS = 4
_WIDEST = 16  #: Lanes of AVX-512, which has 32 registers.

#: Elementwise programs that are mostly one chain of operations, on processors with 32 registers: some values may be
#: spilled for the sake of more packets.  The work over that of the longest chain; and the most operations, and values
#: of all packets that live at once, for four and for two packets.  With one, two and four of them, gradients of 66
#: operations, 20 values alive, of 2M elements on two cores take 1.13 ms, 1.06, 0.94; of 149 operations, 60 alive, 8192
#: elements on one: 32 us, 29, 32; of 61 operations and a ratio of 2.6, 2M elements: 0.58 ms, 0.57, 0.55.
_CHAIN, _SPILLED = 2, ((4, 80, 80), (2, _FEW_PACKETS, 120))

#: Elements of packets in kernels that go over rows, at most: short ones would leave others empty.
_SHORT_ROW, _LONGEST_PACKET = 16, 32
#: Loops: values that live at once (those that do not change may be operands in memory), and the cost of an iteration
#: over that of its longest chain.
_REGISTERS_OF_LOOPS, _PARALLEL = 34, 4

_CONVERSIONS = (CAST, BITCAST)

#: What prints an instruction.
Printer = Callable[[FunctionEmitter, Instruction], None]


def register(kind: int, printer: Printer) -> None:
    """Say what prints a row that is registered, in kernels of either kind."""
    ModuleEmitter.printers[kind] = ModuleEmitter.printers_of_rows[kind] = printer


class ModuleEmitter:
    """Builds the text of a module."""

    #: What prints an instruction, by its kind.
    printers = Printers("LLVM", {
        LITERAL: values.literal, UNDEFINED: values.undefined, COUNTER: values.counter, EVALUATED: memory.load,
        LOCAL: local.allocate, CAST: values.conversion, BITCAST: values.conversion,
        ACCESS: memory.access, VIEW: short.view, GATHER: memory.gather, SCATTER: memory.scatter_in_region,
        FETCH: memory.fetch,
        LOOP: control.loop, COND: control.cond, CALL: calls.call, RESULT: control.result, PRODUCT: products.product,
        OUTER: outer.outer,
        **dict.fromkeys(range(FIRST_ELEMENTWISE, FIRST_EXPANDED), values.elementwise),
        **dict.fromkeys(range(FIRST_EXPANDED, len(OPS)), expansions.call)})

    #: The printers of kernels that go over rows.
    printers_of_rows = Printers("LLVM", {**printers, COUNTER: rows.counter, EVALUATED: rows.load, VIEW: rows.view,
                                         SEGMENT: rows.segment})

    def __init__(self, linear: Linear, lanes: int) -> None:
        self.linear = linear
        self.lanes = lanes
        self.context = ModuleContext(lanes, self.printers, self.printers_of_rows)
        #: What the kernel's blocks store, and the second function combines.
        self.accumulators: dict[int, reduction.Accumulator] = {}
        self.banks: Sequence[many.Bank] = ()

    def text(self) -> str:
        """The whole module."""
        kernel = self.linear.kernel
        lines = [self.kernel(kernel)]
        if kernel.reductions:
            lines.append(many.combine(self.context, self.accumulators, self.banks, kernel))
        targets = [*self.linear.targets, *self.linear.shared]
        lines += [calls.target(self.context, target) for target in targets]
        lines += self.context.helpers.values()
        if kernel.streaming:
            lines.append("!0 = !{i32 1}")
        if kernel.rare or any(target.rare for target in targets):
            # keeps LLVM from holding constants of these branches in registers
            lines += ['!1 = !{!"branch_weights", i32 1, i32 1000000}', '!2 = !{!"function_entry_count", i64 1000}',
                      '!3 = !{!"branch_weights", i32 1000, i32 1}']
        lines.append(ATTRIBUTES)
        return "\n".join(lines) + "\n"

    def kernel(self, function: Function) -> str:
        """The kernel: a loop over packets, after which accumulators are stored."""
        if function.domain is not None:
            return self.kernel_of_rows(function)
        emitter = FunctionEmitter(self.context, function)
        if emitter.vectorized and function.needs_mask:
            emitter.mask_elements()
        if function.reductions:
            emitter.parameter(1, "ptr")
        banks = many.banks_of(emitter, function.reductions)
        if banks is not None:
            self.banks, emitter.then = banks.banks, banks.add
            banks.begin()
        emitter.run(products.late(function))
        w = emitter.writer
        for store in function.stores:
            memory.store(emitter, store)
        for scatter in function.scatters:
            memory.scatter(emitter, scatter)
        rooms = function.rooms
        numbers = [number for number in range(len(function.reductions))
                   if number not in rooms and (banks is None or not banks.have(number))]
        self.accumulators = reduction.accumulators_of(emitter, function.reductions, numbers)
        if banks is not None:
            banks.end()
        if emitter.vectorized:
            following = w.add("%index", self.lanes)
            reduction.latch(w, list(self.accumulators.values()), following, self.lanes)
            entry, latch = emitter.entry.here, w.here
            emitter.head.append(f"%index = phi i64 [ %begin, %{entry} ], [ {following}, %{latch} ]")
            for accumulator in self.accumulators.values():
                emitter.head += accumulator.phis(entry, latch)
            w.line(f"br i1 {w(f'icmp ult i64 {following}, %end')}, label %packet, label %done"
                   f"{', !prof !3' if function.rare else ''}")
            w.open("done")
        for number, accumulator in self.accumulators.items():
            accumulator.store_partial(w, accumulator.total(w, accumulator.ends), 8 * number, function.partial_words)
        for bank in self.banks:
            bank.store_partials(w, function.partial_words)
        return self.ended(emitter)

    def kernel_of_rows(self, function: Function) -> str:
        """A kernel that goes over rows."""
        emitter = rows.RowsEmitter(self.context, function)
        emitter.run_rows()
        emitter.store_totals()
        self.accumulators = dict(sorted(emitter.accumulators.items()))
        return self.ended(emitter)

    def ended(self, emitter: FunctionEmitter) -> str:
        """The text of a kernel, after its last block."""
        function, w = emitter.function, emitter.writer
        outer.end(emitter)
        if function.streaming and jit.is_x86():
            w.run("llvm.x86.sse.sfence")
        w.line("ret void")
        return emitter.text(
            f"void @{KERNEL}(ptr noalias %parameters, i64 %row_begin, i64 %row_end, i64 %begin, i64 %end, i64 %block, "
            f"i32 %worker) #0{' !prof !2' if function.rare else ''}", "i64 %end")


def exports(program: Program) -> list[str]:
    """Names of the functions of a kernel's module that are called from outside, or by address."""
    return [KERNEL, *([COMBINE] if program.partial_words else []),
            *(calls.name_of_function(number) for number in range(len(program.functions))),
            *(calls.name_of_function(program.numbers[key], True) for key in program.shared)]


def packets_per_iteration(linear: Linear, lanes: int) -> int:
    """How many registers a packet of the text spans: 4, 2 or 1.

    LLVM splits wide vectors into registers and interleaves them, which hides latencies.  The more values are live at
    once, and the longer the program, the less it pays and the more it costs to compile.
    """
    kernel = linear.kernel
    operations = len(kernel.instructions)
    if linear.expansions:
        return 1
    if operations > _FEW_PACKETS:
        return 2 if lanes >= _WIDEST and _is_of_products(kernel) else 1
    if any(instruction.blocks for instruction in kernel.order):
        return _packets_of_loops(kernel)
    if any(instruction.site is not None or instruction.access is not None and instruction.access.piece
           for instruction in kernel.order) or any(
            scatter.node.attr != ReduceOp.Identity.value or scatter.access is not None and scatter.access.piece
            for scatter in kernel.scatters):
        return 1  # rows hide latencies by themselves: 4M `Array4f` from 64 KiB take 7.6 ms, with four registers 8.9
    packets = _MOST_PACKETS if operations <= _MANY_PACKETS else 2
    live = kernel.most_live
    if kernel.domain is not None and kernel.domain.columns:
        rows = len(kernel.passes[0].rows)
        live += rows.bit_length() * len(kernel.row_stores)  # sums of one row, two, four … and of all
    registers = max(1, kernel.largest // 4) * live + len(kernel.reductions)
    while packets > 1 and packets * registers > _REGISTERS:
        packets //= 2
    if lanes >= _WIDEST and packets < _MOST_PACKETS and kernel.domain is None:
        packets = max(packets, _packets_of_chain(kernel, registers))
    if kernel.domain is not None:
        while packets > 1 and packets * lanes > (_SHORT_ROW if kernel.short_rows else _LONGEST_PACKET):
            packets //= 2
    return packets


def _is_of_products(kernel: Function) -> bool:
    """Whether a program is products with vectors for the most part, and what is done with these element by element.

    With two registers, each element of a matrix is read once for both: from the second cache, where all matrices do not
    fit into the first. A network of four layers of 64, 256k samples, took 0.066 s of processor time so, else 0.074.
    """
    products = any(instruction.kind == PRODUCT for instruction in kernel.order)
    return products and kernel.domain is None and kernel.largest <= 4 and not kernel.scatters and not any(
        instruction.blocks or instruction.site is not None or instruction.kind == OUTER
        for instruction in kernel.order)


def _packets_of_chain(kernel: Function, registers: int) -> int:
    """Registers of a packet where most operations wait for each other, so that waiting costs more than spilling.

    The processor looks ahead by as many operations as a packet or two of a long program have.
    """
    work = 0
    lengths: dict[int, int] = {}
    for instruction in kernel.order:
        if instruction.uniform or not instruction.operands:
            continue
        if not (FIRST_ELEMENTWISE <= instruction.kind < FIRST_EXPANDED or instruction.kind in _CONVERSIONS):
            return 1
        cost = OPS[instruction.kind].cost
        work += cost
        lengths[instruction.number] = cost + max(lengths.get(operand.number, 0) for operand in instruction.operands)
    if kernel.scatters or work > _CHAIN * max(lengths.values(), default=0):
        return 1
    return next((packets for packets, operations, values in _SPILLED
                 if len(kernel.instructions) <= operations and packets * registers <= values), 1)


def _packets_of_loops(kernel: Function) -> int:
    """Registers that a packet spans where there are loops: 2 if most of the time is spent waiting for results, else 1.

    The processor overlaps neighbouring packets, but for those whose loops it has to leave first. Two registers do not
    cost twice the time as long as the operations of an iteration form long chains; otherwise it is lost that a wider
    packet takes as many iterations as the slowest of its elements.
    """
    work = chain = 0
    for instruction in kernel:
        if instruction.site is not None or instruction.kind == SCATTER:
            return 1  # taken element by element, or target by target
        if instruction.kind != LOOP or instruction.uniform:
            continue
        lengths: dict[int, int] = {}
        for block in instruction.blocks:
            for inner in block.instructions:
                if not inner.uniform:
                    cost = OPS[inner.kind].cost
                    work += cost
                    lengths[inner.number] = cost + max(
                        (lengths.get(operand.number, 0) for operand in inner.operands), default=0)
        chain += max(lengths.values(), default=0)
    fits = kernel.most_live <= _REGISTERS_OF_LOOPS and kernel.largest <= 4  # larger types span two registers anyway
    return 2 if chain and fits and work <= _PARALLEL * chain else 1


def emit(program: Program, lanes: int) -> str:
    """LLVM text of a kernel for a machine with registers of ``lanes`` elements."""
    linear = linearize(program)
    return ModuleEmitter(linear, lanes * packets_per_iteration(linear, lanes)).text()
