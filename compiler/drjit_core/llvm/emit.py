"""LLVM text of a kernel.

A kernel is a function over a block of the iteration space::

    void kernel(ptr parameters, i64 row_begin, i64 row_end, i64 begin, i64 end, i64 block, i32 worker)

Flat arrays are one row; ``begin`` is a multiple of the packet width, ``end`` that or the width of the kernel.  Values
that are the same in every element (*uniform*: literals, arrays of one element, and what is computed from them) are
scalars, computed once in the entry block; everything else is a packet (``<16 x float>``) computed in the loop over
packets.  A kernel of width 1 is nothing but an entry block.

Memory of our own is padded to whole packets, so that plain loads and stores may run over the end; foreign memory is
accessed under the mask of active lanes, and so is everything with an effect (reductions, scatters, gathers, loops).
"""

from __future__ import annotations

from typing import Any

from ..codegen.expand import Expanded
from ..codegen.program import UNALIGNED, Program
from ..ir.node import BAKED, Node
from ..ir.region import CONTROL
from ..ops.table import (
    BITCAST,
    BRANCH,
    BRANCH_RESULT,
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
    LOOP,
    OPAQUE,
    RESULT,
    SCATTER,
    UNDEFINED,
)
from ..types import TYPES, UINT32, UINT64
from . import calls, control, functions, jit, memory, rare, reduction, texts
from .texts import TEXTS, TypeText, constant

__all__ = ["COMBINE", "Emitter", "KERNEL", "emit", "exports"]

#: Names of the functions in a kernel's module.
KERNEL, COMBINE = "kernel", "combine"
#: Beyond this many packets of uniform values, they are broadcast where they are used: registers would not hold them.
_MAX_HELD_BROADCASTS = 12
#: Lines of a basic block before it is split.  Instruction selection takes time quadratic in the size of a block (1000
#: multiplications and additions: 82 ms in one block, 33 ms in blocks of 100); the branch that splits is always taken.
_LONGEST_BLOCK = 300
#: Packets an iteration: several hide the latency of instructions, as long as all values stay in registers and the
#: code stays small (see `packets_per_iteration`).
_REGISTERS, _MANY_PACKETS, _FEW_PACKETS = 28, 48, 160


class Emitter:
    """Builds the text of one kernel.  :mod:`memory`, :mod:`control` and :mod:`reduction` emit their nodes with it."""

    def __init__(self, program: Program, expanded: Expanded, lanes: int) -> None:
        self.program = program
        self.expanded = expanded
        self.lanes = lanes
        self.vectorized = program.width != 1
        self.scalars = texts.make_type_texts(0)
        self.packets = texts.make_type_texts(lanes)
        self.entry: list[str] = []
        self.body: list[str] = []
        self.entry_block, self.body_block = "entry", "packet"
        self.region = 0  # depth of nested loops: what is uniform there is not moved to the entry
        self.names: dict[int, str] = {}  # position -> scalar or packet
        self.uniform: dict[int, bool] = {}  # position -> whether the name is a scalar
        self.broadcasts: dict[str, str] = {}  # scalar -> packet
        self.active: str | None = None  # mask of the elements that take part, once something needs it
        self.scalar_active = "true"  # the same for scalars: false only in a scalar loop that is over
        self.prologue: list[str] = []  # loads of parameters: before everything else
        self.loaded: set[str] = set()  # parameters and positions that have been emitted
        self.helpers: dict[str, str] = {}  # functions that the kernel calls, by name
        self.functions: dict[tuple[Any, ...], str] = {}  # names of those that are expansions
        #: Scatter-reductions of which is wanted what they find.
        self.fetched = {node.d0.id for node in program.order if node.kind == FETCH and node.d0 is not None}
        self.rare = False  # whether there are branches that are hardly ever taken
        self.labels = 0
        #: Whether literals are loaded once: if there are too many, each is loaded where it is used.
        self.hold_literals = sum(n.kind == LITERAL and n.attr != BAKED for n in program.order) <= _MAX_HELD_BROADCASTS
        self.block_start = {id(self.entry): 0, id(self.body): 0}  # line at which the current block starts

    # --- names and operands ------------------------------------------------------------------------------------------

    def types(self, uniform: bool) -> list[TypeText]:
        """Texts of types for scalars or packets."""
        return self.scalars if uniform else self.packets

    def lines(self, uniform: bool) -> list[str]:
        """Where the instructions of a value go."""
        return self.entry if not self.vectorized or (uniform and not self.region) else self.body

    def place(self, node: Node) -> int:
        """Position of a node in the order of emission."""
        return self.expanded.position[node.id]

    def is_uniform(self, node: Node) -> bool:
        """Whether a node has been emitted as a scalar."""
        return self.uniform[self.place(node)]

    def value(self, node: Node, uniform: bool) -> str:
        """Name of a node's value as a scalar, or as a packet (broadcasting a scalar)."""
        place = self.place(node)
        name = self.names[place]
        if not name:  # a literal that is loaded where it is used
            return self.load_literal_here(self.expanded.order[place], uniform)
        if uniform or not self.uniform[place]:
            return name
        type_ = self.packets[node.type]
        if not name.startswith("%"):
            return type_.splat(name)
        return self.broadcast(name, type_)

    def broadcast(self, name: str, type_: TypeText) -> str:
        """Packet with a scalar in every lane."""
        held = self.broadcasts.get(name)
        if held is not None:
            return held
        hold = len(self.broadcasts) < _MAX_HELD_BROADCASTS and not self.region
        if hold:
            self.broadcasts[name] = packet = f"{name}_all"
            out = self.entry
        else:
            self.labels += 1
            packet, out = f"{name}_all{self.labels}", self.body
        self.splat(packet, name, type_, out)
        return packet

    def splat(self, packet: str, name: str, type_: TypeText, out: list[str]) -> None:
        """Text that puts a scalar into every lane of a packet."""
        scalar = self.scalars[type_.info.type]
        out.append(f"{packet}_0 = insertelement {type_} poison, {scalar} {name}, i32 0")
        out.append(f"{packet} = shufflevector {type_} {packet}_0, {type_} poison, <{self.lanes} x i32> zeroinitializer")

    def load_literal_here(self, node: Node, uniform: bool) -> str:
        """Load a literal where it is used (instructions can broadcast an operand from memory)."""
        self.labels += 1
        name, info, out = f"%l{self.labels}", TYPES[node.type], self.lines(uniform)
        memory_type = "i8" if info.kind == "b" else self.scalars[node.type]
        out.append(f"{name}_at = getelementptr inbounds i64, ptr %parameters, i64 {self.program.slots[node.id]}")
        out.append(f"{name} = load {memory_type}, ptr {name}_at, align 8")
        if info.kind == "b":
            out.append(f"{name}_b = icmp ne i8 {name}, 0")
            name += "_b"
        if uniform:
            return name
        self.splat(f"{name}_all", name, self.packets[node.type], out)
        return f"{name}_all"

    def split_block(self, uniform: bool) -> None:
        """Start a new basic block if the current one has become long."""
        out = self.lines(uniform)
        if len(out) - self.block_start[id(out)] > _LONGEST_BLOCK:
            self.labels += 1
            self.loaded.add("%always")
            out.append(f"br i1 %always, label %part{self.labels}, label %never")
            self.open_block(f"part{self.labels}", uniform)

    def define(self, node: Node, name: str, uniform: bool) -> None:
        """Record the value of a node."""
        place = self.place(node)
        self.names[place] = name
        self.uniform[place] = uniform

    def parameter(self, slot: int, type_: str) -> str:
        """Load a parameter at the start of the kernel."""
        name = f"%p{slot}"
        if name not in self.loaded:
            self.loaded.add(name)
            self.prologue.append(f"{name}_at = getelementptr inbounds i64, ptr %parameters, i64 {slot}")
            self.prologue.append(f"{name} = load {type_}, ptr {name}_at, align 8")
        return name

    def active_mask(self, uniform: bool) -> str:
        """Mask of the elements that take part: all, fewer in the last packet, fewer yet inside a loop."""
        if uniform or not self.vectorized:
            return self.scalar_active
        if self.active is None:
            element = "i64" if self.program.wide else "i32"
            width = self.parameter(0, "i64")
            type_ = self.packets[UINT64 if self.program.wide else UINT32]
            if not self.program.wide:
                self.prologue.append("%width32 = trunc i64 %p0 to i32")
                width = "%width32"
            limit = self.broadcast(width, type_)
            lane = self.lane()
            assert self.region == 0
            self.body.append(f"%active = icmp ult <{self.lanes} x {element}> {lane}, {limit}")
            self.active = "%active"
        return self.active

    def lane(self) -> str:
        """Packet of the elements' positions."""
        if "%lane" not in self.loaded:
            self.loaded.add("%lane")
            element = "i64" if self.program.wide else "i32"
            type_ = f"<{self.lanes} x {element}>"
            if not self.program.wide:
                self.body.append("%index32 = trunc i64 %index to i32")
            name = "%index" if self.program.wide else "%index32"
            steps = ", ".join(f"{element} {i}" for i in range(self.lanes))
            self.body.append(f"%lane_0 = insertelement {type_} poison, {element} {name}, i32 0")
            self.body.append(f"%lane_1 = shufflevector {type_} %lane_0, {type_} poison, "
                             f"<{self.lanes} x i32> zeroinitializer")
            self.body.append(f"%lane = add {type_} %lane_1, <{steps}>")
        return "%lane"

    def label(self, uniform: bool) -> str:
        """The block that instructions are being added to (for phi instructions)."""
        return self.entry_block if self.lines(uniform) is self.entry else self.body_block

    def open_block(self, label: str, uniform: bool) -> None:
        """Start a block."""
        out = self.lines(uniform)
        out.append(f"{label}:")
        self.block_start[id(out)] = len(out)
        if out is self.entry:
            self.entry_block = label
        else:
            self.body_block = label

    # --- nodes -------------------------------------------------------------------------------------------------------

    def node(self, node: Node) -> None:
        """Emit one node, unless a region has done so already."""
        place = self.place(node)
        if place in self.names:
            return
        kind = node.kind
        if kind >= FIRST_EXPANDED:
            call = self.expanded.calls.get(node.id)
            if call is not None:
                functions.call(self, call)
                return
            for part in self.expanded.parts[node.id]:  # in a region, whose order has no expansions
                self.node(part)
        elif kind >= FIRST_ELEMENTWISE:
            self.elementwise(node, place)
        elif kind == LITERAL:
            if node.attr == BAKED:
                self.define(node, constant(node.type, node.payload), True)
            else:
                self.define(node, self.load_literal(node) if self.hold_literals else "", True)
        elif kind == EVALUATED:
            memory.load(self, node)
        elif kind == COUNTER:
            self.counter(node)
        elif kind == UNDEFINED:
            self.define(node, constant(node.type, 0), True)
        elif kind == GATHER:
            memory.gather(self, node)
        elif kind == LOOP:
            control.loop(self, node)
        elif kind == BRANCH:
            rare.branch(self, node)
        elif kind == BRANCH_RESULT:
            assert node.d0 is not None
            self.define(node, rare.result(self, node.d0, node.attr), self.is_uniform(node.d0))
        elif kind == COND:
            control.cond(self, node)
        elif kind == CALL:
            calls.call(self, node)
        elif kind == RESULT:
            control.result(self, node)
        elif kind == SCATTER:  # in a region
            memory.scatter(self, node)
            self.define(node, "", False)
        elif kind == FETCH:
            memory.fetch(self, node)
        elif kind == OPAQUE:
            assert node.d0 is not None
            self.define(node, self.names[self.place(node.d0)], self.is_uniform(node.d0))
        elif kind == CAST or kind == BITCAST:
            self.conversion(node, place)
        else:
            raise AssertionError(f"{node!r} has no text of its own")

    def elementwise(self, node: Node, place: int) -> None:
        """Emit a row of the table."""
        operands = [d for d in (node.d0, node.d1, node.d2) if d is not None]
        uniform = all(self.is_uniform(d) for d in operands)
        names = [self.value(d, uniform) for d in operands]
        last = operands[-1].type
        name = f"%v{place}"
        self.lines(uniform).append(TEXTS[node.kind << 4 | last](name, *names, self.types(uniform)[last]))
        self.define(node, name, uniform)
        self.split_block(uniform)

    def conversion(self, node: Node, place: int) -> None:
        """Emit a cast or a reinterpretation."""
        source = node.d0
        assert source is not None
        uniform = self.is_uniform(source)
        types = self.types(uniform)
        function = texts.cast if node.kind == CAST else texts.bitcast
        name = f"%v{place}"
        self.lines(uniform).append(function(name, self.value(source, uniform), types[source.type], types[node.type]))
        self.define(node, name, uniform)

    def load_literal(self, node: Node) -> str:
        """Load a literal that is a parameter."""
        info = TYPES[node.type]
        if info.kind != "b":
            return self.parameter(self.program.slots[node.id], self.scalars[node.type])
        byte = self.parameter(self.program.slots[node.id], "i8")
        self.prologue.append(f"{byte}_b = icmp ne i8 {byte}, 0")
        return f"{byte}_b"

    def counter(self, node: Node) -> None:
        """Emit the position of the element."""
        if not self.vectorized:
            self.define(node, "0", True)
            return
        name, place = self.lane(), self.place(node)
        if (node.type == UINT64) != self.program.wide:
            instruction = "zext" if node.type == UINT64 else "trunc"
            source = self.packets[UINT32 if node.type == UINT64 else UINT64]
            self.body.append(f"%v{place} = {instruction} {source} {name} to {self.packets[node.type]}")
            name = f"%v{place}"
        self.define(node, name, False)

    def needs_mask(self, node: Node) -> bool:
        """Whether a node must not be computed for elements beyond the last."""
        return node.kind == GATHER or node.kind in CONTROL or self.program.accesses.get(node.id) == UNALIGNED

    # --- the whole ---------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """The text of the module."""
        program = self.program
        if self.vectorized and (program.scatters or program.reductions or any(map(self.needs_mask, program.order))):
            self.active_mask(False)
        for node in self.expanded.order:
            self.node(node)
        for node in program.stores:
            memory.store(self, node)
        for node in program.scatters:
            memory.scatter(self, node)
        accumulators = [reduction.accumulate(self, number, node) for number, node in enumerate(program.reductions)]
        lines = [f"define void @{KERNEL}(ptr noalias %parameters, i64 %row_begin, i64 %row_end, i64 %begin, i64 %end, "
                 f"i64 %block, i32 %worker) #0{' !prof !2' if self.rare else ''} {{", "entry:"]
        lines += self.prologue
        if "%always" in self.loaded:
            lines.append("%always = icmp ne i64 %end, 0")
        lines += self.entry
        if self.vectorized:
            lines += ["br label %packet", "packet:",
                      f"%index = phi i64 [ %begin, %{self.entry_block} ], [ %index_next, %{self.body_block} ]"]
            lines += [accumulator.phi(self.entry_block, self.body_block) for accumulator in accumulators]
            lines += self.body
            lines += [f"%index_next = add i64 %index, {self.lanes}", "%more = icmp ult i64 %index_next, %end",
                      f"br i1 %more, label %packet, label %done{', !prof !3' if self.rare else ''}", "done:"]
        for accumulator in accumulators:
            lines += accumulator.finish(self)
        if program.streaming and jit.is_x86():
            lines.append("call void @llvm.x86.sse.sfence()")
        lines.append("ret void")
        if "%always" in self.loaded:
            lines += ["never:", "ret void"]
        lines.append("}")
        if accumulators:
            lines += reduction.combine(self, accumulators)
        for number, function in enumerate(program.functions.values()):
            lines.append(calls.function(self, function, number))
        lines += self.helpers.values()
        if program.streaming:
            lines.append("!0 = !{i32 1}")
        if self.rare:  # keeps LLVM from holding constants of these branches in registers
            lines += ['!1 = !{!"branch_weights", i32 1, i32 1000000}', '!2 = !{!"function_entry_count", i64 1000}',
                      '!3 = !{!"branch_weights", i32 1000, i32 1}']
        lines.append('attributes #0 = { nounwind "frame-pointer"="none" "prefer-vector-width"="512" '
                     '"min-legal-vector-width"="512" }')
        return "\n".join(lines) + "\n"


def exports(program: Program) -> list[str]:
    """Names of the functions of a kernel's module that are called from outside, or by address."""
    return [KERNEL, *([COMBINE] if program.reductions else []),
            *(calls.name_of_function(number) for number in range(len(program.functions)))]


def packets_per_iteration(program: Program, expanded: Expanded) -> int:
    """How many registers a packet of the text spans: 4, 2 or 1.

    LLVM splits wide vectors into registers and interleaves them, which hides latencies.  The more values are live at
    once, and the longer the program, the less it pays and the more it costs to compile.
    """
    order, position = expanded.order, expanded.position
    operations = len(order)
    if operations > _FEW_PACKETS or program.strategies or expanded.calls or any(node.kind in CONTROL for node in order):
        return 1
    last_use: dict[int, int] = {}
    for place, node in enumerate(order):
        for operand in (node.d0, node.d1, node.d2):
            if operand is not None and operand.id in position:
                last_use[position[operand.id]] = place
    for node in program.stores:
        last_use[position[node.id]] = max(last_use.get(position[node.id], 0), position[node.id])
    ends = [0] * (operations + 1)
    live = most = 0
    size = 4
    for place, node in enumerate(order):
        if node.kind == LITERAL:
            continue
        size = max(size, TYPES[node.type].size)
        live += 1
        most = max(most, live)
        ends[last_use.get(place, operations)] += 1
        live -= ends[place]
    packets = 4 if operations <= _MANY_PACKETS else 2
    registers = size // 4 * most + len(program.reductions)
    while packets > 1 and packets * registers > _REGISTERS:
        packets //= 2
    return packets


def emit(program: Program, lanes: int) -> str:
    """LLVM text of a kernel for a machine with registers of ``lanes`` elements."""
    expanded = Expanded(program)
    return Emitter(program, expanded, lanes * packets_per_iteration(program, expanded)).run()
