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
from .registers import FALSE, TRUE, Registers
from .texts import Lines, T

__all__ = ["FALSE", "TRUE", "FunctionEmitter"]

#: Prefixes of the registers that parameters are loaded to, by the bits of their type.
_WORDS = {"8": "%h", "16": "%h", "32": "%r", "64": "%rd"}


class FunctionEmitter(Registers):
    """Builds the text of one function."""

    def __init__(self, module: ModuleContext, function: Function, lanes: int = 1, record: str = "") -> None:
        super().__init__(function.name, module.architecture)
        self.module = module
        self.function = function
        self.lanes = lanes
        #: Of the target of a call: the register with the address of its record.
        self.record = record
        self.variables: Lines = []  # shared and local memory
        self.prologue: Lines = []  # parameters
        self.entry: Lines = []  # what is the same in all elements
        self.body: Lines = []
        self.lines = self.entry
        self.names: dict[int, list[str]] = {}  # registers by instruction: one, or one a lane
        self.parameters: dict[tuple[int, str], str] = {}
        #: Masks of the elements that exist; within regions that is what branches are for.
        self.active = [TRUE] * lanes
        self.index = ""  # number of the thread's first element, 64 bits
        self.index32 = ""  # its lower half
        self.addresses: dict[tuple[str, int], str] = {}  # of the thread's first element, by base and size
        self.locals: dict[int, str] = {}  # addresses of local memory, by its (negative) number
        self.entries: dict[int, int] = {}  # the number of its entries
        self.arrays: set[int] = set()  # those that stand for arrays
        self.tables: dict[int, str] = {}  # addresses of tables of the block, by the parameter of what they stand for
        self.counters: dict[int, str] = {}  # of iterations, by loop
        self.block: Block = function.each

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
        """The value of an instruction in a lane, always in a register: masks that are known get one."""
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

    # --- masks -------------------------------------------------------------------------------------------------------

    def both(self, a: str, b: str) -> str:
        """The conjunction of two masks."""
        if a == TRUE or b == FALSE:
            return b
        if b == TRUE or a == FALSE:
            return a
        both = self.new(BOOL)
        self.lines.append(f"and.pred {both}, {a}, {b};")
        return both

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
