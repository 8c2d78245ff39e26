"""The linear program, between the graph and a backend's text: emitters print it, instruction by instruction.

A :class:`Linear` is a module: a kernel, and the functions that it needs.  A :class:`Function` is a sequence of
instructions, expansions in place of the rows that have one; what has regions (loops, branches) owns *blocks* with
instructions of their own.  Everything is decided here that follows from the program alone, whatever prints it: which
values are *uniform* (equal in all elements, so that one scalar does) and which *vary*, which instructions run once and
which for every packet of elements, where a value is used last, and what the whole needs (a mask of elements, how many
values live at once).  Numbers of registers and lanes are the backends' business.

References lead to what came before, and from what has blocks into these, never in circles: a linear program goes with
the last who holds it, and takes its nodes along, of which planning counts the holders.

===================  ================================================================================================
instruction          operands; what else it has
===================  ================================================================================================
literal, input       none; ``access`` says which parameter holds the value or the address, unless it is part of the text
row of the table     values
access               none; ``access``, whose ``first`` is the parameter with the first position
view                 none; ``access``, whose ``first`` is the parameter with the base, which strides follow
segment              the packets that are reduced, row by row or column by column
gather               index, mask; ``access``
scatter              value, index, mask, and what a compare-and-exchange expects; ``access``
fetch                the scatter
registered row       all operands but memory; ``accesses``
loop                 initial values; two blocks, condition and body, whose formals and masks are values; ``asked``,
                     the formals that are asked for when it has ended
branch               mask, initial values, which its two blocks use as they are
rare branch          mask, values, arguments; ``function``, which computes new values from the arguments
call                 index, mask, arguments, extra arguments; ``site``
expansion call       values; ``function``, of which the instruction is the first result, and ``results``, the others
result               the loop's formal, or the branch, rare branch or call that it belongs to (``node.attr`` says where)
===================  ================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..ir.node import Node
from ..ops.table import COND, OPS
from ..passes.domain import Domain
from ..types import TYPES
from .partials import Room
from .program import SCALAR, Check, Short
from .target import PLAIN, Rooms

__all__ = ["Access", "Block", "CallSite", "Function", "Instruction", "Linear", "Reduction", "RowPass", "Store"]


class Access(NamedTuple):
    """How an instruction gets at a parameter, or at memory whose address is one."""

    slot: int  # the parameter; for local memory, minus its number
    layout: int = SCALAR  # of what is read by position, see the constants of :mod:`.program`
    wide: bool = False  # whether indices need 64 bits
    check: Check | None = None  # the comparison of indices with the size of the memory
    strategy: int = PLAIN  # of a scatter-reduction, see the constants of :mod:`.target`
    fetched: bool = False  # of a scatter-reduction: whether what it finds is wanted
    first: int = 0  # of a part of an array: the parameter with the position of its first element
    large: bool = False  # whether the memory is asked for ahead
    short: Short = Short(0)  # of a view of short rows
    loop: int = -1  # of a write to local memory: the loop whose iterations number the entries
    piece: tuple[int, ...] = ()  # of rows: first offset and length, and the offset that each result has in the piece
    row: int = 0  # of a piece: the number of elements of the row
    table: int = 0  # of a scatter-reduction that is SHARED: the parameter with the number of elements of the memory
    moving: int = 0  # of a view in a kernel that goes over rows: the axes, as bits, along which its rows differ


class CallSite(NamedTuple):
    """The parts of a call: in memory, arguments are followed by results and those by extra arguments."""

    arguments: tuple[Instruction, ...]
    results: tuple[int, ...]  # types
    extras: tuple[Instruction, ...]
    slot: int  # parameter with the address of the table of targets; the next one is their number
    functions: tuple[int, ...]  # which the targets may be, of those of the linear program
    shared: bool  # whether elements of several targets may be taken together


class Instruction:
    """One value, or one effect."""

    __slots__ = ("access", "accesses", "asked", "blocks", "function", "kind", "last_use", "node", "number", "once",
                 "operands", "results", "site", "type", "uniform")

    def __init__(self, number: int, node: Node, operands: tuple[Instruction, ...], uniform: bool) -> None:
        self.number = number  # place in the function: instructions with larger numbers come later
        self.node = node
        self.kind = node.kind
        self.type = node.type
        self.operands = operands
        self.uniform = uniform
        self.once = True  # whether it runs once, not for each packet
        #: The largest number of an instruction that uses the value: that of the instruction itself if none does. What
        #: a loop needs from outside, and what it hands from one iteration to the next, lives until the loop ends. A
        #: value that is stored is so as soon as it is there; one that is reduced or scattered lives to the end.
        self.last_use = number
        self.access: Access | None = None
        self.accesses: tuple[Access, ...] = ()  # to each of the operands that are memory, of a row that is registered
        self.site: CallSite | None = None
        self.function: Function | None = None
        self.blocks: tuple[Block, ...] = ()
        self.results: tuple[Instruction, ...] = ()
        self.asked: tuple[Instruction, ...] = ()

    @property
    def is_rare(self) -> bool:
        """Whether this is a branch that hardly any element takes."""
        return self.kind == COND and self.function is not None

    def __repr__(self) -> str:
        operands = ", ".join(f"v{operand.number}" for operand in self.operands)
        return (f"v{self.number}: {'' if self.uniform else 'packet of '}{TYPES[self.type].name} = "
                f"{OPS[self.kind].word}({operands})")


class Block:
    """Instructions in order: those of a function that run once, those that run for each packet, or of a region.

    In kernels that go over rows there are also those that run for each row, and several of either kind.
    """

    __slots__ = ("copy", "counts", "formals", "instructions", "is_region", "is_row", "mask", "once", "results")

    def __init__(self, once: bool, is_region: bool, is_row: bool = False, copy: int = 0) -> None:
        self.once = once  # whether it runs once, or is within what does
        self.is_row = is_row  # whether it runs for each row, or is within what does
        self.copy = copy  # which of the rows that are worked on together it is about
        self.is_region = is_region  # whether it is part of a loop or branch, not one of the function's own
        self.instructions: list[Instruction] = []
        self.counts = False  # of a loop: whether something in it is numbered by iterations
        self.formals: list[Instruction] = []
        self.mask: Instruction | None = None  # the elements that take part
        self.results: tuple[Instruction, ...] = ()  # a condition, the state after an iteration, what a branch computes


class Store(NamedTuple):
    """An output: a value, and the parameter with the address that it is written to."""

    value: Instruction
    slot: int


class Reduction(NamedTuple):
    """An output of one element, or a matrix: what is reduced, how, to which type, and where the result goes; what is
    added to memory instead has a ``write``."""

    value: Instruction
    op: int
    type: int
    slot: int
    write: Node | None = None


class RowPass(NamedTuple):
    """One pass over the packets of a row, or over those of several rows together, and what comes before it.

    What a later pass needs of an earlier one is computed again, but for what there is one of for each row.
    """

    rows: tuple[Block, ...]  # for each row (one, but for kernels that go over columns)
    each: tuple[Block, ...]
    segments: list[Instruction]  # reductions that are known when it ends
    stores: list[Store]
    reductions: list[int]  # of the kernel's: those of which it adds up the packets
    scatters: list[Instruction]


class Function:
    """A kernel's body, a target of its calls, or what computes an expansion or a rare branch."""

    def __init__(self, name: str, vectorized: bool, records: bool = False) -> None:
        self.name = name
        self.vectorized = vectorized  # whether there are packets; else all is uniform
        self.records = records  # whether each element has parameters of its own, so that what these hold varies
        #: All instructions by number: formals of regions, and further results of a call, are in no block's list.
        self.instructions: dict[int, Instruction] = {}
        #: The instructions that are in no region, in order; each is in one of two blocks.
        self.order: list[Instruction] = []
        self.once, self.each = Block(True, False), Block(False, False)
        # What it gets: values, the mask of elements that take part, and values whose places its parameters say.
        self.arguments: list[Instruction] = []
        self.live: Instruction | None = None
        self.extras: list[Instruction] = []
        self.places: tuple[int, ...] = ()  # of these, see :class:`CallSite`, where functions know them
        self.parameters = 0  # how many there are
        #: Those with addresses of memory that is written by index, here or in other functions of the kernel.
        self.written: frozenset[int] = frozenset()
        # What it gives: values (of a kernel: written to memory), writes after everything else, reductions.
        self.results: list[Instruction] = []
        self.stores: list[Store] = []
        self.scatters: list[Instruction] = []
        self.reductions: list[Reduction] = []
        self.partial_words = 0  # what a block of the kernel leaves of them, see :mod:`.partials`
        self.layout: Rooms | None = None  # of those that are matrices, of which there are the rooms, by their numbers
        self.rooms: dict[int, Room] = {}
        # Of a kernel that goes over rows:
        self.domain: Domain | None = None
        self.short_rows = False  # see :meth:`.target.Target.has_short_rows`
        self.axes = 0  # see :class:`.program.Program`
        self.passes: list[RowPass] = []
        self.last_row: Block | None = None  # for each row, after all passes
        self.row_stores: list[Store] = []  # outputs of one element for each row
        self.wide = False  # positions of elements need 64 bits
        self.streaming = False  # see :class:`.program.Program`
        self.report = 0  # parameter with the address of the report, if indices are checked
        self.needs_mask = False  # something must not happen for elements beyond the last
        self.literals = 0  # number of literals that are parameters
        self.products = False  # there are products with vectors
        self.rare = False  # there are branches that hardly any element takes, or in functions that are called
        self.most_live = 0  # the greatest number of values at once, literals aside: what an instruction uses and makes
        self.largest = 0  # bytes of the largest type of an element

    def __iter__(self) -> Iterator[Instruction]:
        """All instructions, in order."""
        return iter(self.instructions.values())


class Linear:
    """A kernel and its functions."""

    def __init__(self) -> None:
        self.kernel: Function
        #: Targets of calls, and once more those that take elements of several targets together.
        self.targets: list[Function] = []
        self.shared: list[Function] = []
        #: Functions that compute expansions, by what they follow from; in the order of their first calls.
        self.expansions: dict[tuple[object, ...], Function] = {}
