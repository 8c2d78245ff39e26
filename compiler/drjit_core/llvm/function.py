"""LLVM text of one function of a linear program.

Values that are the same in every element (*uniform*: literals, arrays of one element, and what is computed from them)
are scalars, computed once in the entry block; everything else is a packet (``<16 x float>``).  What uses packets once
(a kernel does so in a loop) is a second block, ``packet``.  A function without packets has an entry block only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

from ..codegen.linear import Block, Function, Instruction
from ..types import BOOL, UINT8, UINT32, UINT64
from .module import ModuleContext
from .texts import TypeText, is_everywhere, vector
from .writer import Writer

__all__ = ["FunctionEmitter", "Names"]

#: Beyond this many packets of uniform values, they are broadcast where they are used: registers would not hold them.
_MAX_HELD_BROADCASTS = 12
#: Lines of a basic block before it is split.  Instruction selection takes time quadratic in the size of a block (1000
#: multiplications and additions: 82 ms in one block, 33 ms in blocks of 100); the branch that splits is always taken.
_LONGEST_BLOCK, _ALWAYS = 300, "%always"
#: How names of intrinsics call types.
_SUFFIXES = {"ptr": "p0", "half": "f16", "float": "f32", "double": "f64"}


class Names(dict[int, str]):
    """Names of values, some of which are written only when somebody asks for them."""

    def __init__(self) -> None:
        #: What writes values that nobody has asked for.
        self.waiting: dict[int, Callable[[], None]] = {}

    def __missing__(self, number: int) -> str:
        self.waiting.pop(number)()
        return self[number]

    def write(self, numbers: Iterable[int]) -> None:
        """Write those that nobody has asked for."""
        for number in numbers:
            if number in self.waiting:
                self.waiting.pop(number)()


class FunctionEmitter:
    """Builds the text of one function; the modules of this package write their instructions with its writers."""

    def __init__(self, module: ModuleContext, function: Function, split: bool = True) -> None:
        self.module = module
        self.function = function
        self.lanes = module.lanes
        self.vectorized = function.vectorized
        self.scalars = module.scalars
        self.packets = module.packets
        self.split = split  # whether long blocks are split
        self.prologue = Writer("p.", "entry")  # loads of parameters: before everything else
        self.entry = Writer("e.", "entry")
        self.head = ["br label %packet", "packet:"]  # what leads to the body, whose phis follow
        self.body = Writer("b.", "packet")
        self.names = Names()  # number of an instruction -> scalar or packet
        self.results: dict[int, list[str]] = {}  # of branches, calls, and scatter-reductions: all that they give
        self.counts: dict[int, str] = {}  # number of a loop -> number of the iteration
        self.courses: dict[int, int] = {}  # see :mod:`.neighbours`
        self.broadcasts: dict[str, str] = {}  # scalar -> packet
        self.active = ""  # mask of the elements that take part, if something needs it
        self.index = "%index"  # position of the first element of a packet
        self.aligned = True  # whether packets in memory of our own are aligned
        self.scalar_active = "true"  # the same for scalars: false only in a scalar loop that is over
        self.locals: dict[int, int] = {}  # entries of local memory, by its numbers
        self.stack: dict[int, str] = {}  # addresses of local memory, and of what stands for arrays, by their numbers
        self.live = ""  # mask of the elements that a function computes
        self.records = ""  # packet of the records of a function whose elements have one each
        self.kept: dict[Hashable, str] = {}  # what is written once, where it is needed first
        self.late = False  # whether some values are
        self.in_room: list[int] = []  # of :mod:`.products`: the numbers of the results of the last one
        self.then: Callable[[Instruction], None] | None = None  # what follows each instruction that is in no region
        #: Whether literals are loaded once: if there are too many, each is loaded where it is used.
        self.hold_literals = function.literals <= _MAX_HELD_BROADCASTS
        self.enter(function.each)

    # --- where text goes ---------------------------------------------------------------------------------------------

    def enter(self, block: Block) -> None:
        """Print instructions of a block of the linear program from now on."""
        self.block = block
        #: What writes its instructions, and their lines.
        self.writer = self.entry if block.once or not self.vectorized else self.body
        self.lines = self.writer.lines

    @property
    def in_region(self) -> bool:
        """Whether instructions go into a region of packets, which runs for some of them only, or repeatedly."""
        return self.block.is_region and not self.block.once

    def split_block(self) -> None:
        """Start a new basic block if the current one has become long."""
        if self.split and self.lines.length > _LONGEST_BLOCK:
            self.kept[_ALWAYS] = _ALWAYS
            self.writer.only_if(_ALWAYS, "never")

    def keep(self, what: Hashable, write: Callable[[], str]) -> str:
        """A value that is written where it is needed first."""
        name = self.kept.get(what)
        if name is None:
            name = self.kept[what] = write()
        return name

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
        if held is None:
            if len(self.broadcasts) >= _MAX_HELD_BROADCASTS or self.in_region:
                return self.body.splat(type_, name)
            held = self.broadcasts[name] = self.entry.splat(type_, name)
        return held

    def load_literal_here(self, literal: Instruction, uniform: bool) -> str:
        """Load a literal where it is used (instructions can broadcast an operand from memory)."""
        assert literal.access is not None
        w, type_ = self.writer, self.stored_type(literal.type, True)
        at = w(f"getelementptr inbounds i64, ptr %parameters, i64 {literal.access.slot}")
        value = self.from_memory(w.load(type_, at, 8), literal.type, True)
        return value if uniform else w.splat(self.packets[literal.type], value)

    def parameter(self, slot: int, type_: str) -> str:
        """Load a parameter at the start of the function: a scalar, or a packet where each element has its own.

        Negative ones are the addresses of what is on the stack.
        """
        return self.stack[slot] if slot < 0 else self.keep(slot, lambda: self._load_parameter(slot, type_))

    def _load_parameter(self, slot: int, type_: str) -> str:
        w, lanes = self.prologue, self.lanes
        if not self.records:
            return w.load(type_, w(f"getelementptr inbounds i64, ptr %parameters, i64 {slot}"), 8)
        records, values = f"<{lanes} x ptr>", f"<{lanes} x {type_}>"
        at = w(f"getelementptr inbounds i64, {records} {self.records}, i64 {slot}")
        return w.call(values, f"llvm.masked.gather.v{lanes}{_SUFFIXES.get(type_, type_)}.v{lanes}p0",
                      f"{records} {at}", "i32 8", f"<{lanes} x i1> {self.live}", f"{values} zeroinitializer")

    def positions(self, type_: int) -> str:
        """Packet of the elements' positions, as unsigned numbers of a type."""
        name, own = self.lane(), UINT64 if self.function.wide else UINT32
        if type_ == own:
            return name
        return self.writer(f"{'zext' if type_ == UINT64 else 'trunc'} {self.packets[own]} {name} to "
                           f"{self.packets[type_]}")

    def lane(self) -> str:
        """Positions as numbers that are wide enough."""
        return self.keep("lane", self.write_lane)

    def write_lane(self) -> str:
        """Write the positions of the packet that begins here."""
        w, wide = self.body, self.function.wide
        type_ = self.packets[UINT64 if wide else UINT32]
        first = w.splat(type_, self.index if wide else w(f"trunc i64 {self.index} to i32"))
        return w(f"add {type_} {first}, {vector(type_.element, range(self.lanes))}")

    # --- memory ------------------------------------------------------------------------------------------------------

    def to_memory(self, value: str, type_: int, uniform: bool) -> str:
        """A value as it is in memory: masks take a byte."""
        if type_ != BOOL:
            return value
        return self.writer(f"zext {self.types(uniform)[BOOL]} {value} to {self.stored_type(BOOL, uniform)}")

    def from_memory(self, value: str, type_: int, uniform: bool) -> str:
        """A value that has been read, as it is computed with."""
        if type_ != BOOL:
            return value
        stored = self.stored_type(BOOL, uniform)
        return self.writer(f"icmp ne {stored} {value}, {stored.splat(0)}")

    # --- masks -------------------------------------------------------------------------------------------------------

    def mask_elements(self) -> None:
        """Make the mask of the elements that exist: all, or fewer in the last packet."""
        type_, width = self.packets[UINT64 if self.function.wide else UINT32], self.parameter(0, "i64")
        if not self.function.wide:
            width = self.prologue(f"trunc i64 {width} to i32")
        limit, lane = self.broadcast(width, type_), self.lane()
        self.active = self.body(f"icmp ult {type_} {lane}, {limit}")

    def active_mask(self, uniform: bool) -> str:
        """Mask of the elements that take part: fewer than exist inside of regions."""
        if uniform or not self.vectorized:
            return self.scalar_active
        assert self.active
        return self.active

    def any_element(self, mask: str, uniform: bool) -> str:
        """Whether a mask is set in some element, as a scalar, which the mask may be itself."""
        if uniform:
            return mask
        type_ = self.packets[BOOL]
        return self.writer.call("i1", f"llvm.vector.reduce.or.{type_.suffix}", f"{type_} {mask}")

    def bits_of(self, mask: str) -> str:
        """The lanes of a packet of masks as the bits of an integer, as wide as there are lanes."""
        return self.writer(f"bitcast {self.packets[BOOL]} {mask} to i{self.lanes}")

    def taking_part(self, mask: Instruction, uniform: bool) -> str:
        """A mask, restricted to the elements that take part."""
        active, value = self.active_mask(uniform), self.value(mask, uniform)
        if is_everywhere(value):
            return active if active != "true" or uniform else value
        if active == "true":
            return value
        return self.writer(f"and {self.types(uniform)[BOOL]} {value}, {active}")

    def end_of_packet(self) -> str:
        """The position behind the packet."""
        return self.keep("end of packet", lambda: self.body.add("%index", self.lanes))

    def whole_packet(self) -> str:
        """Whether all elements of the packet exist, as a condition."""
        return self.keep("whole", lambda: self.body(
            f"icmp ule i64 {self.end_of_packet()}, {self.parameter(0, 'i64')}"))

    def set_active(self, mask: str, uniform: bool) -> None:
        """From now on, the elements of a mask take part."""
        if uniform:
            self.scalar_active = mask
        else:
            self.active = mask

    # --- instructions and blocks -------------------------------------------------------------------------------------

    def run(self, late: Collection[int] = ()) -> None:
        """Print what is in no region, in order, but what comes late: that when something needs it."""
        printers = self.module.printers
        once, each = self.function.once, self.function.each
        self.late = bool(late)

        def write(instruction: Instruction) -> None:
            printers[instruction.kind](self, instruction)
            if self.then is not None:
                for result in (instruction, *instruction.results):
                    self.then(result)

        for instruction in self.function.order:
            if instruction.number in late:
                self.names.waiting[instruction.number] = functools.partial(write, instruction)
                continue
            if instruction.once != self.block.once:
                self.enter(once if instruction.once else each)
            write(instruction)
        self.enter(self.function.each)
        self.names.write(list(self.names.waiting))

    def region(self, block: Block) -> None:
        """Print the instructions of a region, and stay in it."""
        printers = self.module.printers
        self.enter(block)
        for instruction in block.instructions:
            printers[instruction.kind](self, instruction)

    def text(self, signature: str, always: str = "") -> str:
        """The whole function.

        ``always`` is a parameter that is never zero, for branches that are always taken.
        """
        lines = ["entry:", *self.prologue.lines]
        if _ALWAYS in self.kept:
            lines.append(f"{_ALWAYS} = icmp ne {always}, 0")
        lines += self.entry.lines
        if self.vectorized:
            lines += [*self.head, *self.body.lines]
        if _ALWAYS in self.kept:
            lines += ["never:", "ret void"]
        return "\n".join([f"define {signature} {{", *lines, "}"])
