"""PTX text of one function of a linear program: a thread computes ``lanes`` neighbouring elements.

Values that are the same in all elements are computed once, before those of the elements; everything else once for each
lane.  Registers are the thread's own and may be written again, so that there is nothing to blend: within regions the
masks of elements are branches, and so ``true``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.linear import Block, Function, Instruction
from ..types import BOOL
from .module import ModuleContext
from .texts import REGISTERS, Lines, T, zero

__all__ = ["FALSE", "TRUE", "FunctionEmitter"]

#: Masks that are known.
TRUE, FALSE = "true", "false"
#: Prefixes of the registers that parameters are loaded to, by the bits of their type.
_WORDS = {"8": "%h", "16": "%h", "32": "%r", "64": "%rd"}


class FunctionEmitter:
    """Builds the text of one function."""

    def __init__(self, module: ModuleContext, function: Function, lanes: int = 1, record: str = "") -> None:
        self.module = module
        self.function = function
        self.lanes = lanes
        self.architecture = module.architecture
        #: Of the target of a call: the register with the address of its record.
        self.record = record
        self.counts: dict[str, int] = {}  # of registers, by prefix
        self.variables: Lines = []  # shared and local memory
        self.prologue: Lines = []  # parameters
        self.entry: Lines = []  # what is the same in all elements
        self.body: Lines = []
        self.lines = self.entry
        self.names: dict[int, list[str]] = {}  # registers by instruction: one, or one a lane
        self.parameters: dict[tuple[int, str], str] = {}
        self.labels = 0
        #: Masks of the elements that exist; within regions that is what branches are for.
        self.active = [TRUE] * lanes
        self.index = ""  # number of the thread's first element, 64 bits
        self.index32 = ""  # its lower half
        self.addresses: dict[tuple[str, int], str] = {}  # of the thread's first element, by base and size
        self.locals: dict[int, str] = {}  # addresses of local memory, by its (negative) number
        self.entries: dict[int, int] = {}  # the number of its entries
        self.arrays: set[int] = set()  # those that stand for arrays
        self.counters: dict[int, str] = {}  # of iterations, by loop
        self.block: Block = function.each

    # --- registers ---------------------------------------------------------------------------------------------------

    def register(self, prefix: str) -> str:
        """A new register."""
        number = self.counts[prefix] = self.counts.get(prefix, 0) + 1
        return f"{prefix}{number}"

    def registers(self, *prefixes: str) -> list[str]:
        """Several of them."""
        return [self.register(prefix) for prefix in prefixes]

    def new(self, type_: int) -> str:
        """A new register for a value of some type."""
        return self.register(T[type_].prefix)

    def declarations(self) -> Lines:
        """What all registers are."""
        return [f".reg .{REGISTERS[prefix]} {prefix}<{count + 1}>;" for prefix, count in self.counts.items()]

    def label(self, name: str) -> str:
        """A new label."""
        self.labels += 1
        return f"${self.function.name}_{name}{self.labels}"

    # --- values ------------------------------------------------------------------------------------------------------

    def define(self, instruction: Instruction, names: Sequence[str]) -> None:
        """Note where the value of an instruction is: in one register, or in one for each lane."""
        self.names[instruction.number] = list(names)

    def value(self, instruction: Instruction, lane: int = 0) -> str:
        """The register of a value; literals that are parameters are loaded where they are used."""
        names = self.names[instruction.number]
        if names:
            return names[lane] if len(names) > 1 else names[0]
        assert instruction.access is not None
        name = self.new(instruction.type)
        self.lines.append(self.load_word(instruction.access.slot, T[instruction.type].memory, name))
        return name

    def operand(self, instruction: Instruction, lane: int = 0) -> str:
        """The same, for instructions that take registers only: masks that are known get one."""
        value = self.value(instruction, lane)
        return self.as_register(value) if instruction.type == BOOL else value

    def each(self, instruction: Instruction) -> range:
        """The lanes that an instruction is printed for."""
        return range(1 if instruction.uniform else self.lanes)

    def parameter(self, slot: int, type_: str = "u64") -> str:
        """A parameter, loaded before everything else."""
        key = slot, type_
        name = self.parameters.get(key)
        if name is None:
            name = self.parameters[key] = self.register(_WORDS[type_[1:]])
            self.prologue.append(self.load_word(slot, type_, name, self.prologue))
        return name

    def load_word(self, slot: int, type_: str, name: str, lines: Lines | None = None) -> str:
        """Text that loads a parameter, or a word of the record."""
        if self.record:
            return f"ld.global.nc.{type_} {name}, [{self.record}+{8 * slot}];"
        if not self.module.words_in_memory:
            return f"ld.param.{type_} {name}, [p+{8 * slot}];"
        key = -1, "words"
        words = self.parameters.get(key)
        if words is None:
            words = self.parameters[key] = self.register("%rd")
            self.prologue.insert(0, f"ld.param.u64 {words}, [p];")
        return f"ld.global.nc.{type_} {name}, [{words}+{8 * slot}];"

    def move(self, type_: int, target: str, source: str) -> str:
        """Text that sets a register."""
        if type_ == BOOL and source in (TRUE, FALSE):
            return f"setp.{'eq' if source == TRUE else 'ne'}.u32 {target}, 0, 0;"
        return f"mov.{T[type_].declared} {target}, {source};"

    def clear(self, type_: int, target: str) -> str:
        """Text that sets a register to zero."""
        return self.move(type_, target, zero(type_))

    # --- masks -------------------------------------------------------------------------------------------------------

    def as_register(self, mask: str) -> str:
        """A mask in a register."""
        if mask not in (TRUE, FALSE):
            return mask
        register = self.new(BOOL)
        self.lines.append(self.move(BOOL, register, mask))
        return register

    def both(self, a: str, b: str) -> str:
        """The conjunction of two masks."""
        if a == TRUE or b == FALSE:
            return b
        if b == TRUE or a == FALSE:
            return a
        both = self.new(BOOL)
        self.lines.append(f"and.pred {both}, {a}, {b};")
        return both

    def guard(self, mask: str) -> str:
        """What stands before an instruction that some elements take part in."""
        return "" if mask == TRUE else f"@{self.as_register(mask)} "

    def skip(self, mask: str, label: str) -> None:
        """Text that leads those elements to a label that a mask is not set for."""
        if mask != TRUE:
            self.lines.append(f"@!{self.as_register(mask)} bra {label};" if mask != FALSE else f"bra {label};")

    def wanted(self, mask: Instruction, lane: int, uniform: bool = False) -> str:
        """The mask of an access, of the elements that exist; what is the same in all is done whatever there are."""
        return self.both(self.value(mask, lane), TRUE if uniform else self.active[lane])

    # --- blocks ------------------------------------------------------------------------------------------------------

    def enter(self, block: Block) -> None:
        """Go on with a block of the function's own."""
        self.block = block
        self.lines = self.entry if block.once or not self.function.vectorized else self.body

    def run(self) -> None:
        """Print all instructions."""
        once, each = self.function.once, self.function.each
        for instruction in self.function.order:
            self.enter(once if instruction.once else each)
            self.print(instruction)
        self.enter(each)

    def region(self, block: Block) -> None:
        """Print those of a region."""
        self.block = block
        for instruction in block.instructions:
            self.print(instruction)

    def print(self, instruction: Instruction) -> None:
        """Print an instruction."""
        self.module.printers[instruction.kind](self, instruction)
