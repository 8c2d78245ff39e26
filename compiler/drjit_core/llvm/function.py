"""LLVM text of one function of a linear program.

Values that are the same in every element (*uniform*: literals, arrays of one element, and what is computed from them)
are scalars, computed once in the entry block; everything else is a packet (``<16 x float>``).  What uses packets once
(a kernel does so in a loop) is a second block, ``packet``.  A function without packets has an entry block only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..codegen.linear import Block, Function, Instruction
from ..types import BOOL, TYPES, UINT8, UINT32, UINT64
from .lines import Lines, function_text
from .module import ModuleContext
from .texts import TypeText

__all__ = ["FunctionEmitter", "name_of_local"]

#: Beyond this many packets of uniform values, they are broadcast where they are used: registers would not hold them.
_MAX_HELD_BROADCASTS = 12
#: Lines of a basic block before it is split.  Instruction selection takes time quadratic in the size of a block (1000
#: multiplications and additions: 82 ms in one block, 33 ms in blocks of 100); the branch that splits is always taken.
_LONGEST_BLOCK = 300
#: How names of intrinsics call types.
_SUFFIXES = {"ptr": "p0", "half": "f16", "float": "f32", "double": "f64"}


def name_of_local(slot: int) -> str:
    """Where local memory is, whose negative slot is known."""
    return f"%local{-slot}"


class FunctionEmitter:
    """Builds the text of one function; the modules of this package print their instructions with it."""

    def __init__(self, module: ModuleContext, function: Function, split: bool = True) -> None:
        self.module = module
        self.function = function
        self.lanes = module.lanes
        self.vectorized = function.vectorized
        self.scalars = module.scalars
        self.packets = module.packets
        self.split = split  # whether long blocks are split
        self.prologue = Lines("entry")  # loads of parameters: before everything else
        self.entry = Lines("entry")
        self.phis: list[str] = []  # the head of the block for packets
        self.body = Lines("packet")
        self.names: dict[int, str] = {}  # number of an instruction -> scalar or packet
        self.courses: dict[int, int] = {}  # see :mod:`.neighbours`
        self.broadcasts: dict[str, str] = {}  # scalar -> packet
        self.active = ""  # mask of the elements that take part, if something needs it
        self.index = "%index"  # position of the first element of a packet
        self.alignment = 64  # bytes that packets in memory of our own are aligned to; 0: as their elements are
        self.scalar_active = "true"  # the same for scalars: false only in a scalar loop that is over
        self.locals: dict[int, int] = {}  # entries of local memory, by its numbers
        self.loaded: set[str] = set()  # parameters and positions that have been emitted
        self.then: Callable[[Instruction], None] | None = None  # what follows each instruction that is in no region
        self.labels = 0
        #: Whether literals are loaded once: if there are too many, each is loaded where it is used.
        self.hold_literals = function.literals <= _MAX_HELD_BROADCASTS
        self.enter(function.each)

    # --- where text goes ---------------------------------------------------------------------------------------------

    def enter(self, block: Block) -> None:
        """Print instructions of a block of the linear program from now on."""
        self.block = block
        #: Where its instructions go.
        self.lines = self.entry if block.once or not self.vectorized else self.body

    @property
    def in_region(self) -> bool:
        """Whether instructions go into a region of packets, which runs for some of them only, or repeatedly."""
        return self.block.is_region and not self.block.once

    @property
    def label(self) -> str:
        """The basic block that instructions are being added to (for phi instructions)."""
        return self.lines.label

    def open_block(self, label: str) -> None:
        """Start a basic block."""
        self.lines.open(label)

    def split_block(self) -> None:
        """Start a new basic block if the current one has become long."""
        out = self.lines
        if self.split and out.length > _LONGEST_BLOCK:
            self.labels += 1
            self.loaded.add("%always")
            out.append(f"br i1 %always, label %part{self.labels}, label %never")
            out.open(f"part{self.labels}")

    # --- names and operands ------------------------------------------------------------------------------------------

    def types(self, uniform: bool) -> list[TypeText]:
        """Texts of types for scalars or packets."""
        return self.scalars if uniform else self.packets

    def stored_type(self, type_: int, uniform: bool) -> TypeText:
        """Text of a value's type in memory: masks take a byte."""
        return self.types(uniform)[UINT8 if type_ == BOOL else type_]

    def define(self, instruction: Instruction, name: str) -> None:
        """Record the name of a value."""
        self.names[instruction.number] = name

    def value(self, instruction: Instruction, uniform: bool) -> str:
        """Name of a value as a scalar, or as a packet (broadcasting a scalar)."""
        name = self.names[instruction.number]
        if not name:  # a literal that is loaded where it is used
            return self.load_literal_here(instruction, uniform)
        if uniform or not instruction.uniform:
            return name
        type_ = self.packets[instruction.type]
        if not name.startswith("%"):
            return type_.splat(name)
        return self.broadcast(name, type_)

    def values(self, instructions: Sequence[Instruction], uniform: bool) -> list[str]:
        """Names of several values."""
        return [self.value(instruction, uniform) for instruction in instructions]

    def broadcast(self, name: str, type_: TypeText) -> str:
        """Packet with a scalar in every lane."""
        held = self.broadcasts.get(name)
        if held is not None:
            return held
        if len(self.broadcasts) < _MAX_HELD_BROADCASTS and not self.in_region:
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

    def load_literal_here(self, literal: Instruction, uniform: bool) -> str:
        """Load a literal where it is used (instructions can broadcast an operand from memory)."""
        assert literal.access is not None
        self.labels += 1
        name, info, out = f"%l{self.labels}", TYPES[literal.type], self.lines
        memory_type = "i8" if info.kind == "b" else self.scalars[literal.type]
        out.append(f"{name}_at = getelementptr inbounds i64, ptr %parameters, i64 {literal.access.slot}")
        out.append(f"{name} = load {memory_type}, ptr {name}_at, align 8")
        if info.kind == "b":
            out.append(f"{name}_b = icmp ne i8 {name}, 0")
            name += "_b"
        if uniform:
            return name
        self.splat(f"{name}_all", name, self.packets[literal.type], out)
        return f"{name}_all"

    def parameter(self, slot: int, type_: str) -> str:
        """Load a parameter at the start of the function: a scalar, or a packet where each element has its own.

        Negative ones are the addresses of what is on the stack.
        """
        if slot < 0:
            return f"{name_of_local(slot)}_array"
        name = f"%p{slot}"
        if name not in self.loaded:
            self.loaded.add(name)
            if self.function.records:
                records, values = f"<{self.lanes} x ptr>", f"<{self.lanes} x {type_}>"
                suffix = f"v{self.lanes}{_SUFFIXES.get(type_, type_)}"
                self.prologue.append(f"{name}_at = getelementptr inbounds i64, {records} %records, i64 {slot}")
                self.prologue.append(f"{name} = call {values} @llvm.masked.gather.{suffix}.v{self.lanes}p0({records} "
                                     f"{name}_at, i32 8, <{self.lanes} x i1> %live, {values} zeroinitializer)")
            else:
                self.prologue.append(f"{name}_at = getelementptr inbounds i64, ptr %parameters, i64 {slot}")
                self.prologue.append(f"{name} = load {type_}, ptr {name}_at, align 8")
        return name

    def lane(self) -> str:
        """Packet of the elements' positions."""
        if "%lane" not in self.loaded:
            self.loaded.add("%lane")
            element = "i64" if self.function.wide else "i32"
            type_ = f"<{self.lanes} x {element}>"
            if not self.function.wide:
                self.body.append("%index32 = trunc i64 %index to i32")
            name = "%index" if self.function.wide else "%index32"
            steps = ", ".join(f"{element} {i}" for i in range(self.lanes))
            self.body.append(f"%lane_0 = insertelement {type_} poison, {element} {name}, i32 0")
            self.body.append(f"%lane_1 = shufflevector {type_} %lane_0, {type_} poison, "
                             f"<{self.lanes} x i32> zeroinitializer")
            self.body.append(f"%lane = add {type_} %lane_1, <{steps}>")
        return "%lane"

    # --- masks -------------------------------------------------------------------------------------------------------

    def mask_elements(self) -> None:
        """Make the mask of the elements that exist: all, or fewer in the last packet."""
        element = "i64" if self.function.wide else "i32"
        width = self.parameter(0, "i64")
        type_ = self.packets[UINT64 if self.function.wide else UINT32]
        if not self.function.wide:
            self.prologue.append("%width32 = trunc i64 %p0 to i32")
            width = "%width32"
        limit = self.broadcast(width, type_)
        lane = self.lane()
        self.body.append(f"%active = icmp ult <{self.lanes} x {element}> {lane}, {limit}")
        self.active = "%active"

    def active_mask(self, uniform: bool) -> str:
        """Mask of the elements that take part: fewer than exist inside of regions."""
        if uniform or not self.vectorized:
            return self.scalar_active
        assert self.active
        return self.active

    def any_element(self, name: str, mask: str, uniform: bool) -> str:
        """Whether a mask is set in some element: a scalar is so itself, for a packet of them there is text."""
        if uniform:
            return mask
        type_ = self.packets[BOOL]
        self.lines.append(f"{name} = call i1 @llvm.vector.reduce.or.{type_.suffix}({type_} {mask})")
        return name

    def whole_packet(self) -> str:
        """Whether all elements of the packet exist, as a condition."""
        if "%whole" not in self.loaded:
            self.loaded.add("%whole")
            self.body += [f"%end_of_packet = add i64 %index, {self.lanes}",
                          f"%whole = icmp ule i64 %end_of_packet, {self.parameter(0, 'i64')}"]
        return "%whole"

    def set_active(self, mask: str, uniform: bool) -> None:
        """From now on, the elements of a mask take part."""
        if uniform:
            self.scalar_active = mask
        else:
            self.active = mask

    # --- instructions and blocks -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Print what is in no region, in order."""
        printers = self.module.printers
        once, each = self.function.once, self.function.each
        for instruction in self.function.order:
            if instruction.once != self.block.once:
                self.enter(once if instruction.once else each)
            printers[instruction.kind](self, instruction)
            if self.then is not None:
                for result in (instruction, *instruction.results):
                    self.then(result)
        self.enter(self.function.each)

    def region(self, block: Block) -> None:
        """Print the instructions of a region, and stay in it."""
        printers = self.module.printers
        self.enter(block)
        for instruction in block.instructions:
            printers[instruction.kind](self, instruction)

    def text(self, signature: str, always: str = "", end: Sequence[str] = ()) -> str:
        """The whole function.

        ``always`` is a parameter that is never zero, for branches that are always taken.  The lines ``end`` follow.
        """
        lines = ["entry:", *self.prologue]
        splits = "%always" in self.loaded
        if splits:
            lines.append(f"%always = icmp ne {always}, 0")
        lines += self.entry
        if self.vectorized:
            lines += ["br label %packet", "packet:", *self.phis, *self.body]
        lines += end
        if splits:
            lines += ["never:", "ret void"]
        return function_text(signature, lines)
