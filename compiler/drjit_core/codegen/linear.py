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
loop                 initial values; two blocks, condition and body, whose formals and masks are values
branch               mask, initial values, which its two blocks use as they are
rare branch          mask, values, arguments; ``function``, which computes new values from the arguments
call                 index, mask, arguments, extra arguments; ``site``
expansion call       values; ``function``, of which the instruction is the first result, and ``results``, the others
result               the loop's formal, or the branch, rare branch or call that it belongs to (``node.attr`` says where)
===================  ================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..ir.node import BAKED, Node
from ..ir.packets import place_in_row
from ..ir.region import Cond, Region
from ..ops.table import (
    ACCESS,
    CALL,
    COND,
    COUNTER,
    EVALUATED,
    FETCH,
    FIRST_EXPANDED,
    GATHER,
    LITERAL,
    LOOP,
    OFFER,
    OPS,
    RESULT,
    SCATTER,
    SEGMENT,
    UNDEFINED,
    VIEW,
)
from ..passes.domain import WIDE_EXTENT, Domain, strides_in
from ..types import TYPES
from .expand import Call, Expanded
from .packets import Piece, pieces_of, written_pieces
from .program import ALIGNED, PLAIN, ROW, SCALAR, SHIFTED, UNALIGNED, Check, Program, is_large

__all__ = ["Access", "Block", "CallSite", "Function", "Instruction", "Linear", "Reduction", "Store", "linearize"]

#: Rows that a kernel that goes over columns adds up at once.
COLUMN_ROWS = 8


class Access(NamedTuple):
    """How an instruction gets at a parameter, or at memory whose address is one."""

    slot: int  # the parameter
    layout: int = SCALAR  # of what is read by position, see the constants of :mod:`.program`
    wide: bool = False  # whether indices need 64 bits
    check: Check | None = None  # the comparison of indices with the size of the memory
    strategy: int = PLAIN  # of a scatter-reduction: ATOMIC, PLAIN or PRIVATE
    fetched: bool = False  # of a scatter-reduction: whether what it finds is wanted
    first: int = 0  # of a part of an array: the parameter with the position of its first element
    large: bool = False  # whether the memory is asked for ahead
    piece: tuple[int, ...] = ()  # of rows: first offset and length, and the offset that each result has in the piece


class CallSite(NamedTuple):
    """The parts of a call: in memory, arguments are followed by results and those by extra arguments."""

    arguments: tuple[Instruction, ...]
    results: tuple[int, ...]  # types
    extras: tuple[Instruction, ...]
    slot: int  # parameter with the address of the table of targets; the next one is their number


class Instruction:
    """One value, or one effect."""

    __slots__ = ("access", "blocks", "function", "kind", "last_use", "node", "number", "once", "operands", "results",
                 "site", "type", "uniform")

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
        self.site: CallSite | None = None
        self.function: Function | None = None
        self.blocks: tuple[Block, ...] = ()
        self.results: tuple[Instruction, ...] = ()

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

    __slots__ = ("copy", "formals", "instructions", "is_region", "is_row", "mask", "once", "results")

    def __init__(self, once: bool, is_region: bool, is_row: bool = False, copy: int = 0) -> None:
        self.once = once  # whether it runs once, or is within what does
        self.is_row = is_row  # whether it runs for each row, or is within what does
        self.copy = copy  # which of the rows that are worked on together it is about
        self.is_region = is_region  # whether it is part of a loop or branch, not one of the function's own
        self.instructions: list[Instruction] = []
        self.formals: list[Instruction] = []
        self.mask: Instruction | None = None  # the elements that take part
        self.results: tuple[Instruction, ...] = ()  # a condition, the state after an iteration, what a branch computes


class Store(NamedTuple):
    """An output: a value, and the parameter with the address that it is written to."""

    value: Instruction
    slot: int


class Reduction(NamedTuple):
    """An output of one element: what is reduced, how, to which type, and where the result goes."""

    value: Instruction
    op: int
    type: int
    slot: int


class Pass(NamedTuple):
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

    def __init__(self, name: str, vectorized: bool) -> None:
        self.name = name
        self.vectorized = vectorized  # whether there are packets; else all is uniform
        #: All instructions by number: formals of regions, and further results of a call, are in no block's list.
        self.instructions: dict[int, Instruction] = {}
        #: The instructions that are in no region, in order; each is in one of two blocks.
        self.order: list[Instruction] = []
        self.once, self.each = Block(True, False), Block(False, False)
        # What it gets: values, the mask of elements that take part, and values whose places its parameters say.
        self.arguments: list[Instruction] = []
        self.live: Instruction | None = None
        self.extras: list[Instruction] = []
        # What it gives: values (of a kernel: written to memory), writes after everything else, reductions.
        self.results: list[Instruction] = []
        self.stores: list[Store] = []
        self.scatters: list[Instruction] = []
        self.reductions: list[Reduction] = []
        # Of a kernel that goes over rows:
        self.domain: Domain | None = None
        self.axes = 0  # see :class:`.program.Program`
        self.moving: dict[int, int] = {}  # views -> axes but the innermost, as bits, along which their rows differ
        self.passes: list[Pass] = []
        self.last_row: Block | None = None  # for each row, after all passes
        self.row_stores: list[Store] = []  # outputs of one element for each row
        self.wide = False  # positions of elements need 64 bits
        self.streaming = False  # more is read and written than the cache holds
        self.report = 0  # parameter with the address of the report, if indices are checked
        self.needs_mask = False  # something must not happen for elements beyond the last
        self.literals = 0  # number of literals that are parameters
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
        #: Targets of calls.
        self.targets: list[Function] = []
        #: Functions that compute expansions, by what they follow from; in the order of their first calls.
        self.expansions: dict[tuple[object, ...], Function] = {}


#: Functions of branches that few elements take, by the regions of these, which live as long.
_rare: dict[Region, Function] = {}


def linearize(program: Program) -> Linear:
    """The linear program of a kernel."""
    linear = Linear()
    linear.kernel = _function_of(linear, "kernel", program)
    linear.targets = [_function_of(linear, f"target{number}", target)
                      for number, target in enumerate(program.functions.values())]
    return linear


def _function_of(linear: Linear, name: str, program: Program) -> Function:
    """The kernel's function, or that of a target."""
    expanded = Expanded(program)
    function = Function(name, program.width != 1)
    function.wide, function.streaming, function.report = program.wide, program.streaming, program.report
    if not program.domain.is_flat:
        _RowsBuilder(linear, function, expanded, program).build()
        return function
    builder = _Builder(linear, function, expanded, program)
    builder.add_arguments()
    for node in expanded.order:
        builder.add(node, None)
    builder.add_outputs()
    builder.finish(len(expanded.order))
    return function


def _function_from(linear: Linear, name: str, expanded: Expanded, formals: Iterable[Node], results: Iterable[Node],
                   uniform: bool) -> Function:
    """A function of an expansion."""
    function = Function(name, not uniform)
    builder = _Builder(linear, function, expanded, None)
    function.arguments = [builder.formal(formal, uniform, uniform) for formal in formals]
    for node in expanded.order:
        builder.add(node, None)
    function.results = [builder.at(result) for result in results]
    builder.finish(len(expanded.order))
    return function


def _rare_function(linear: Linear, choice: Cond) -> Function:
    """The function that computes the values of a rare branch from its arguments, for one element."""
    region = choice.regions[0]
    function = _rare.get(region)
    if function is None:
        formals, results = region.formals[choice.count:], region.results[0]
        types = "_".join(TYPES[node.type].name for node in (*formals, *results))
        function = _rare[region] = _function_from(linear, f"rare_{choice.rare}_{types}",
                                                  Expanded.function(results, formals), formals, results, True)
    return function


class _Builder:
    """Makes the instructions of one function."""

    def __init__(self, linear: Linear, function: Function, expanded: Expanded, program: Program | None) -> None:
        self.linear = linear
        self.function = function
        self.expanded = expanded
        self.program = program
        self.position = expanded.position
        self.known = function.instructions
        self.last = -1  # the largest number so far
        self.offset = 0  # what is added to the places of nodes: numbers of instructions that occur once more
        #: Scatter-reductions of which is wanted what they find.
        self.fetched = {node.d0.id for node in expanded.order if node.kind == FETCH and node.d0 is not None}
        #: Reads of rows; checks look at each read by itself.
        self.pieces = pieces_of(expanded.order) if function.vectorized and not function.report else {}

    def at(self, node: Node | None) -> Instruction:
        """The instruction that computes a node."""
        assert node is not None
        place = self.position[node.id]
        return self.known.get(place + self.offset) or self.known[place]

    def all_at(self, nodes: Iterable[Node]) -> tuple[Instruction, ...]:
        """The instructions that compute some nodes."""
        return tuple([self.at(node) for node in nodes])

    # --- instructions ------------------------------------------------------------------------------------------------

    def add(self, node: Node, block: Block | None) -> None:
        """Append a node to a block (``None``: to one of the function's own), unless a region has it already."""
        number = self.position[node.id] + self.offset
        if number in self.known:
            return
        kind = node.kind
        if kind >= FIRST_EXPANDED:
            call = self.expanded.calls.get(node.id)
            if call is None:
                for part in self.expanded.parts[node.id]:  # in a region, whose order has no expansions
                    self.add(part, block)
            else:
                self.add_expansion_call(call, block)
            return
        special = _SPECIAL.get(kind)
        if special is not None:
            special(self, node, number, block)
            return
        uniform, operands = True, []
        for d in (node.d0, node.d1, node.d2):
            if d is None:
                break
            operand = self.at(d)
            uniform = uniform and operand.uniform
            operands.append(operand)
        self.append(Instruction(number, node, tuple(operands), uniform), block)

    def append(self, instruction: Instruction, block: Block | None) -> Instruction:
        """Append an instruction to a block, and note that it uses its operands."""
        function, number = self.function, instruction.number
        if block is None:
            block = self.block_of(instruction)
            function.order.append(instruction)
        block.instructions.append(instruction)
        instruction.once = block.once
        self.known[number] = instruction
        if number > self.last:
            self.last = number
        for operand in instruction.operands:
            if operand.last_use < number:
                operand.last_use = number
        return instruction

    def block_of(self, instruction: Instruction) -> Block:
        """Which of the function's own blocks an instruction belongs to."""
        function = self.function
        return function.once if instruction.uniform or not function.vectorized else function.each

    def define(self, instruction: Instruction, once: bool) -> None:
        """Note where a value is to be found that is in no block's list."""
        instruction.once = once
        self.known[instruction.number] = instruction
        if instruction.number > self.last:
            self.last = instruction.number

    def formal(self, node: Node, once: bool, uniform: bool, *operands: Instruction) -> Instruction:
        """A value that a block begins with."""
        formal = Instruction(self.position[node.id] + self.offset, node, operands, uniform)
        self.define(formal, once)
        return formal

    def add_leaf(self, node: Node, number: int, block: Block | None) -> None:
        """Append a literal, an input, the position of the element, or something undefined."""
        function, uniform = self.function, True
        access = None
        if node.kind == LITERAL:
            if node.attr != BAKED:
                assert self.program is not None
                access = Access(self.program.slots[node.id])
                function.literals += 1
        elif node.kind == EVALUATED:
            assert self.program is not None
            layout = self.program.accesses[node.id]
            access = Access(self.program.slots[node.id], layout)
            uniform = layout == SCALAR
            function.needs_mask |= layout == UNALIGNED
        elif node.kind == COUNTER:
            uniform = not function.vectorized
        self.append(Instruction(number, node, (), uniform), block).access = access

    def add_access(self, node: Node, number: int, block: Block | None) -> None:
        """Append a part of an array."""
        program, source = self.program, node.d0
        assert program is not None and source is not None
        layout = program.accesses[node.id]
        self.append(Instruction(number, node, (), not self.function.vectorized), block).access = Access(
            program.pointers[source.id], layout, first=program.firsts[node.id])
        self.function.needs_mask |= layout != SHIFTED

    def add_view(self, node: Node, number: int, block: Block | None) -> None:
        """Append a view."""
        raise AssertionError("views are for kernels that go over rows")

    def add_gather(self, node: Node, number: int, block: Block | None) -> None:
        """Append a read by index."""
        source, operands = node.d0, (self.at(node.d1), self.at(node.d2))
        assert self.program is not None and source is not None
        piece = self.pieces.get(node.id)
        if piece is not None and not operands[0].uniform:
            self.add_rows(node, number, block, piece)
            return
        gather = self.append(Instruction(number, node, operands, all(operand.uniform for operand in operands)), block)
        gather.access = Access(self.program.pointers[source.id], SCALAR, source.size >= WIDE_EXTENT,
                               self.program.checks.get(node.id), large=is_large(source))
        self.function.needs_mask = True

    def add_rows(self, node: Node, number: int, block: Block | None, piece: Piece) -> None:
        """Append a read of pieces of rows, of which each element is a result."""
        assert self.program is not None and node.d0 is not None and node.d1 is not None
        place = place_in_row(node.d1)
        assert place is not None
        operands = self.at(place.first), self.at(node.d2)
        gather, *others = (Instruction(self.position[each.id], each, operands, False)
                           for each in piece.accesses.values())
        if gather.node is not node:
            raise AssertionError(f"{node!r} is not the first read of its row")
        self.append(gather, block)
        for other in others:
            self.define(other, gather.once)
        gather.results = tuple(others)
        offsets = (offset - piece.start for offset in piece.accesses)
        gather.access = Access(self.program.pointers[node.d0.id], SCALAR, node.d0.size >= WIDE_EXTENT,
                               large=is_large(node.d0), piece=(piece.start, piece.length, *offsets))
        self.function.needs_mask = True

    def add_scatter(self, node: Node, number: int, block: Block | None) -> None:
        """Append a write by index inside of a region."""
        self.append(self.scatter(node, number), block)

    def scatter(self, node: Node, number: int) -> Instruction:
        """A write by index."""
        program, target = self.program, node.d0
        assert program is not None and target is not None
        operands = self.all_at(operand for operand in (node.d1, node.d2, node.d3) if operand is not None)
        if operands[0].kind == OFFER:
            expected, value = operands[0].operands
            operands = value, *operands[1:], expected
        scatter = Instruction(number, node, operands, not self.function.vectorized)
        strategy = program.strategies.get(node.id, PLAIN) if self.function.vectorized else PLAIN
        scatter.access = Access(program.pointers[node.id], SCALAR, target.size >= WIDE_EXTENT,
                                program.checks.get(node.id), strategy, node.id in self.fetched, large=is_large(target))
        self.function.needs_mask = True
        return scatter

    def scatters(self, program: Program) -> list[Instruction]:
        """The writes of a kernel, of which those of a piece of a row are one, with the further values as operands."""
        pieces = written_pieces(program.scatters, program.pointers) if self.function.vectorized and \
            not self.function.report else {}
        parts = {node.id for piece in pieces.values() for node in piece.accesses.values()}
        found = []
        for node in program.scatters:
            piece = pieces.get(node.id)
            if piece is None:
                if node.id not in parts:
                    found.append(self.scatter(node, -1))
                continue
            first, *others = piece.accesses.values()
            scatter = self.scatter(first, -1)
            assert first.d2 is not None and scatter.access is not None
            place = place_in_row(first.d2)
            assert place is not None
            if not self.at(place.first).uniform:
                value, _, mask = scatter.operands
                scatter.operands = value, self.at(place.first), mask, *(self.at(other.d1) for other in others)
                scatter.access = scatter.access._replace(piece=(piece.start, piece.length))
                found.append(scatter)
            else:
                found += (scatter, *(self.scatter(other, -1) for other in others))
        return found

    def add_offer(self, node: Node, number: int, block: Block | None) -> None:
        """Append what a compare-and-exchange has to do, which is part of that."""
        operands = self.at(node.d0), self.at(node.d1)
        self.append(Instruction(number, node, operands, all(operand.uniform for operand in operands)), block)

    def add_fetch(self, node: Node, number: int, block: Block | None) -> None:
        """Append what a scatter-reduction has found."""
        scatter = self.at(node.d0)
        self.append(Instruction(number, node, (scatter,), scatter.uniform), block)

    def add_result(self, node: Node, number: int, block: Block | None) -> None:
        """Append a result of a construct with regions."""
        assert node.d0 is not None
        control = node.d0
        if control.kind == LOOP and not node.payload:
            operand = self.at(control.payload.region.formals[node.attr])
        else:
            operand = self.at(control)
        self.append(Instruction(number, node, (operand,), operand.uniform), block)

    # --- regions -----------------------------------------------------------------------------------------------------

    def add_loop(self, node: Node, number: int, block: Block | None) -> None:
        """Append a loop and its blocks."""
        loop = node.payload
        region = loop.region
        values = [(initial, formal, final) for initial, formal, final
                  in zip(loop.initial, region.formals, loop.finals, strict=True) if not formal.payload]
        captures = self.all_at(region.needed())
        initial = self.all_at(value for value, _, _ in values)
        # arguments of functions are packets, whatever their size
        uniform = not self.function.vectorized or (
            node.size == 1 and all(value.uniform for value in (*initial, *captures)) and not _varies(region))
        instruction = self.append(Instruction(number, node, initial, uniform), block)
        condition, body = instruction.blocks = Block(instruction.once, True), Block(instruction.once, True)
        condition.formals = [self.formal(formal, instruction.once, uniform) for _, formal, _ in values]
        condition.mask = self.formal(region.masks[0], instruction.once, uniform)
        self.add_part(region.parts[0], condition)
        condition.results = (self.at(loop.condition),)
        body.mask = self.formal(region.masks[1], instruction.once, uniform)
        self.add_part(region.parts[1], body)
        body.results = self.all_at(final for _, _, final in values)
        self.used_until_here(*captures, *condition.formals, condition.mask, *condition.results, body.mask,
                             *body.results)
        self.function.needs_mask = True

    def add_cond(self, node: Node, number: int, block: Block | None) -> None:
        """Append a branch: one that is rare by itself, any other one with its blocks."""
        choice: Cond = node.payload
        if choice.rare:
            operands = (self.at(node.d0), *self.all_at(choice.initial))
            rare = self.append(Instruction(number, node, operands, all(value.uniform for value in operands)), block)
            rare.function = _rare_function(self.linear, choice)
            self.function.rare = True
            return
        values = [self.at(initial) for initial, formal in zip(choice.initial, choice.regions[0].formals, strict=True)
                  if not formal.payload]
        uniform = not self.function.vectorized
        instruction = self.append(Instruction(number, node, (self.at(node.d0), *values), uniform), block)
        instruction.blocks = tuple(Block(instruction.once, True) for _ in choice.regions)
        for region, inner in zip(choice.regions, instruction.blocks, strict=True):
            inner.mask = self.formal(region.masks[0], instruction.once, uniform)
            self.add_part(region.parts[0], inner)
            inner.results = self.all_at(region.results[0][:choice.count])
        self.used_until_here(*instruction.operands, *(result for inner in instruction.blocks
                                                      for result in inner.results))
        self.function.needs_mask = True

    def add_part(self, nodes: Sequence[Node], block: Block) -> None:
        """Append a part of a region."""
        for node in nodes:
            self.add(node, block)

    def used_until_here(self, *values: Instruction) -> None:
        """Note that values are needed by the end of a region."""
        for value in values:
            value.last_use = max(value.last_use, self.last)

    def add_call(self, node: Node, number: int, block: Block | None) -> None:
        """Append a call, whose targets are functions of their own."""
        assert self.program is not None
        site = self.program.calls[node.id]
        arguments, extras = self.all_at(site.arguments), self.all_at(site.extras)
        operands = (self.at(node.d0), self.at(node.d1), *arguments, *extras)
        call = self.append(Instruction(number, node, operands, not self.function.vectorized), block)
        call.site = CallSite(arguments, tuple(type_ for type_, _ in site.results), extras, site.slot)
        self.function.needs_mask = True

    def add_expansion_call(self, call: Call, block: Block | None) -> None:
        """Append a call of a function that computes expansions; each of its results is an instruction."""
        operands = self.all_at(call.operands)
        uniform = all(operand.uniform for operand in operands)
        expansions, key = self.linear.expansions, (uniform, *call.function)
        function = expansions.get(key)
        if function is None:
            rows = "_".join(OPS[node.kind].name for node in call.nodes)
            formals, results, expanded = call.body()
            function = _function_from(self.linear, f"{rows}_{len(expansions)}", expanded, formals, results, uniform)
            expansions[key] = function
        first, *others = (Instruction(self.position[node.id] + self.offset, node, operands, uniform)
                          for node in call.nodes)
        self.append(first, block)
        first.results = tuple(others)
        for other in others:
            self.define(other, first.once)
        first.function = function
        self.function.rare |= function.rare

    # --- the whole ---------------------------------------------------------------------------------------------------

    def add_arguments(self) -> None:
        """What a target gets from its caller."""
        function, program = self.function, self.program
        assert program is not None
        if not program.is_function:
            return
        uniform = not function.vectorized
        function.arguments = [self.formal(node, uniform, uniform) for node in program.arguments]
        assert program.live is not None
        function.live = self.formal(program.live, uniform, uniform)
        for node in program.extras:
            extra = self.formal(node, uniform, uniform)
            extra.access = Access(program.slots[node.id])
            function.extras.append(extra)

    def add_outputs(self) -> None:
        """What a kernel writes, or a target returns."""
        function, program = self.function, self.program
        assert program is not None
        if program.is_function:
            function.results = [self.at(node) for node in program.stores]
            return
        function.stores = [Store(self.at(node), program.slots[node.id]) for node in program.stores]
        function.scatters = self.scatters(program)
        function.reductions = [Reduction(self.at(node.d0), node.attr, node.type, program.slots[node.id])
                               for node in program.reductions]
        if function.reductions:
            function.needs_mask = True

    def finish(self, count: int) -> None:
        """Note what lives to the end, and count what lives at once."""
        function = self.function
        for scatter in function.scatters:
            for operand in scatter.operands:
                operand.last_use = count
        for value in (*(reduction.value for reduction in function.reductions), *function.results):
            value.last_use = count
        self.count_live(count)

    def count_live(self, count: int) -> None:
        """Count how many values live at once, of those with numbers below a bound."""
        function = self.function
        ends, live, most, types = [0] * (count + 1), 0, 0, set()
        for number in range(count):
            instruction = self.known.get(number)
            if instruction is None or instruction.kind == LITERAL:
                continue
            types.add(instruction.type)
            live += 1
            if live > most:
                most = live
            ends[instruction.last_use] += 1
            live -= ends[number]
        function.most_live = most
        function.largest = max((TYPES[type_].size for type_ in types), default=0)


class _RowsBuilder(_Builder):
    """Makes the instructions of a kernel that goes over rows.

    What there is one of for each row is a scalar, computed before the packets of the row; reductions of a row are known
    after a pass over these. What such results are needed for comes in a further pass, to which instructions that it has
    in common with earlier ones belong once more (with numbers of their own). A kernel that goes over columns works on
    several rows at once, whose instructions are copies of each other in the same way.
    """

    rows: tuple[Block, ...]
    each: tuple[Block, ...]
    copy = 0
    kept: dict[int, tuple[int, int]]  # nodes -> the pass that they are kept from, the output in whose place

    def build(self) -> None:
        """Make all instructions."""
        program, function = self.program, self.function
        assert program is not None
        function.domain, function.axes, function.needs_mask = program.domain, program.axes, True
        self.pieces = {}
        nodes = self.expanded.order
        count = len(nodes)
        passes = self._passes(nodes)
        outputs = {node.id: passes.get(node.id, 0) for node in program.stores if not program.has_rows(node)}
        copies = COLUMN_ROWS if program.domain.columns else 1
        segments = {node.id: passes[node.id] - 1 for node in nodes if node.kind == SEGMENT}
        self.kept: dict[int, tuple[int, int]] = {}
        last = max([*outputs.values(), *segments.values(), 0, *(
            passes.get(operand.id, 0) for node in (*program.reductions, *program.scatters)
            for operand in (node.d0, node.d1, node.d2, node.d3)[node.kind == SCATTER:] if operand is not None)])
        if last:
            self._keep(passes, segments, outputs, last)
        for number in range(last + 1):
            self._add_pass(number, copies, passes, nodes, segments, outputs)
        self.offset = 0
        self.rows = (Block(False, False, True),)
        for node in nodes:
            if self._is_of_row(node) and passes[node.id] == last + 1 and node.kind != SEGMENT:
                self.add(node, None)
        function.last_row = self.rows[0]
        function.row_stores = [Store(self.at(node), program.slots[node.id]) for node in program.stores
                               if program.has_rows(node)]
        for instruction in function:
            instruction.last_use = max(instruction.last_use, instruction.number)
        self.count_live((last + 1) * copies * count)

    def _is_of_row(self, node: Node) -> bool:
        assert self.program is not None
        return self.program.has_rows(node)

    def _operands(self, node: Node) -> list[Node]:
        if node.kind == VIEW or node.kind == ACCESS:  # memory that is read at other positions is no operand
            assert node.d0 is not None
            return [node.d0] if node.d0.kind != EVALUATED else []
        operands = [d for d in (node.d0, node.d1, node.d2) if d is not None]
        if node.kind == GATHER or node.kind == ACCESS:  # of which there is memory
            operands = operands[1:]
        elif node.kind == COND:
            operands += node.payload.initial
        return operands

    def _passes(self, nodes: Sequence[Node]) -> dict[int, int]:
        """In which pass each node is known for the first time; those of a row are known before it."""
        passes: dict[int, int] = {}
        for node in nodes:
            known = max((passes.get(self._of(operand).id, 0) for operand in self._operands(node)), default=0)
            passes[node.id] = known + (node.kind == SEGMENT)
        for id_, place in self.position.items():  # expansions have the place of their results
            passes[id_] = passes[nodes[place].id]
        return passes

    def _of(self, node: Node) -> Node:
        return self.expanded.order[self.position[node.id]]

    def _add_pass(self, number: int, copies: int, passes: dict[int, int], nodes: Sequence[Node],
                  segments: dict[int, int], outputs: dict[int, int]) -> None:
        program, function, count = self.program, self.function, len(nodes)
        assert program is not None
        self.rows = tuple(Block(False, False, True, copy) for copy in range(copies))
        self.each = tuple(Block(False, False, False, copy) for copy in range(copies))
        ends = [node for node in nodes if segments.get(node.id) == number]
        stores = [node for node in program.stores if outputs.get(node.id) == number]
        reductions = [k for k, node in enumerate(program.reductions) if passes[node.d0.id] == number]  # type: ignore[union-attr]
        scatters = [node for node in program.scatters if number == max(
            passes[operand.id] for operand in (node.d1, node.d2, node.d3) if operand is not None)]
        wanted = self._wanted([node for node in (
            *(node.d0 for node in ends), *stores, *(program.reductions[k].d0 for k in reductions),
            *(operand for node in scatters for operand in (node.d1, node.d2, node.d3))) if node is not None], number)
        done: list[Instruction] = []
        for copy in range(copies):
            self.copy = copy
            for node in nodes:
                if node.kind == SEGMENT:
                    continue
                if self._is_of_row(node):  # once for each row, as soon as it is known
                    if passes[node.id] == number:
                        self.offset = copy * count if copies > 1 else 0
                        self.add(node, None)
                elif node.size == 1 and self.position[node.id] in self.known:
                    continue
                elif node.id in wanted and self.kept.get(node.id, (number,))[0] < number:
                    self.offset = number * count
                    again = Instruction(self.position[node.id] + self.offset, node, (), False)
                    again.kind, again.access = EVALUATED, Access(self.kept[node.id][1], ALIGNED)
                    self.append(again, None)
                elif node.id in wanted or node.size == 1:
                    self.offset = (number * copies + copy) * count if node.size != 1 else 0
                    self.add(node, None)
            self.offset = (number * copies + copy) * count
            done += [self._segment(node, copy, count) for node in ends]
        self.copy, self.offset = 0, number * copies * count
        kept = [Store(self.at(node), self.kept[node.id][1]) for node in nodes
                if self.kept.get(node.id, (-1,))[0] == number]
        given = {store.slot for store in kept}
        function.passes.append(Pass(self.rows, self.each, done, [*kept, *(
            Store(self.at(node), program.slots[node.id]) for node in stores if program.slots[node.id] not in given)],
            reductions, [self.scatter(node, -1) for node in scatters]))
        if not function.reductions:
            function.reductions = [None] * len(program.reductions)  # type: ignore[list-item]
        for k in reductions:
            node = program.reductions[k]
            function.reductions[k] = Reduction(self.at(node.d0), node.attr, node.type, program.slots[node.id])

    def _wanted(self, roots: Iterable[Node], number: int) -> set[int]:
        """Ids of the nodes that a pass needs for some others."""
        wanted = {self._of(node).id for node in roots}
        for node in reversed(self.expanded.order):
            if node.id in wanted and self.kept.get(node.id, (number,))[0] >= number:
                wanted.update(self._of(operand).id for operand in self._operands(node))
        return wanted

    def _keep(self, passes: dict[int, int], segments: dict[int, int], outputs: dict[int, int], last: int) -> None:
        """Choose what is kept from one pass to the next, instead of computing it again: dear values, such as an
        exponential.  They are written where an output of the kernel will stand, whose row is in the cache.
        """
        program, nodes = self.program, self.expanded.order
        assert program is not None
        uses: dict[int, list[int]] = {}  # passes that need a node
        for number in range(last + 1):
            roots = [node.d0 for node in nodes if segments.get(node.id) == number]
            roots += [node for node in program.stores if outputs.get(node.id) == number]
            roots += [node.d0 for node in program.reductions if passes[node.d0.id] == number]  # type: ignore[union-attr]
            roots += [operand for node in program.scatters for operand in (node.d1, node.d2, node.d3)
                      if operand is not None and passes[operand.id] <= number]
            for id_ in self._wanted([node for node in roots if node is not None], number):
                uses.setdefault(id_, []).append(number)
        free = [node for node in program.stores if node.id in outputs]
        for node in program.order:
            found = uses.get(self._of(node).id, [0])
            if node.kind < FIRST_EXPANDED or program.has_rows(node) or len(found) < 2 or node.size == 1:
                continue
            for output in free:
                if output.type == node.type and (self._of(output) is self._of(node) or outputs[output.id] >= found[-1]):
                    free.remove(output)
                    self.kept[self._of(node).id] = found[0], program.slots[output.id]
                    self.function.streaming = False
                    break

    def _segment(self, node: Node, copy: int, count: int) -> Instruction:
        segment = Instruction(self.position[node.id] + copy * count, node, (self.at(node.d0),), True)
        self.define(segment, False)
        segment.operands[0].last_use = max(segment.operands[0].last_use, self.last)
        return segment

    def block_of(self, instruction: Instruction) -> Block:
        """Which of the kernel's own blocks an instruction belongs to."""
        if not instruction.uniform:
            return self.each[self.copy]
        node = instruction.node
        assert self.program is not None
        if instruction.kind == VIEW or self.program.has_rows(node) and node.kind != LITERAL and \
                not instruction.operands or \
                any(not operand.once for operand in instruction.operands):
            return self.rows[self.copy] if len(self.rows) > 1 else self.rows[0]
        return self.function.once

    def add_leaf(self, node: Node, number: int, block: Block | None) -> None:
        """Append a leaf: one with an element for each row is a scalar."""
        if not self._is_of_row(node) or node.kind == LITERAL:
            super().add_leaf(node, number, block)
            return
        instruction = Instruction(number, node, (), True)
        if node.kind == EVALUATED:
            assert self.program is not None
            instruction.access = Access(self.program.slots[node.id], ROW)
        self.append(instruction, block)

    def add_view(self, node: Node, number: int, block: Block | None) -> None:
        """Append a view."""
        program, source = self.program, node.d0
        assert program is not None and source is not None
        layout = program.accesses[node.id]
        if node.id not in program.firsts:  # the element of the row
            self.known[number] = self.at(source)
            return
        steps = strides_in(program.domain, *node.payload[1:])
        self.function.moving[node.id] = sum((stride != 0) << axis for axis, stride in enumerate(steps[:-1]))
        instruction = Instruction(number, node, (), layout == ROW)
        self.append(instruction, block).access = Access(program.pointers[source.id], layout,
                                                        first=program.firsts[node.id])


def _varies(region: Region) -> bool:
    """Whether something in a region is never uniform where there are packets: what chooses by element, and writes."""
    return any(node.kind in (COND, CALL, SCATTER, FETCH) or node.kind == LOOP and _varies(node.payload.region)
               for node in region.nodes)


#: Kinds of which more is to be known than their operands; what is left are rows of the table, casts and copies.
_SPECIAL: dict[int, Callable[[_Builder, Node, int, Block | None], None]] = {
    **dict.fromkeys((LITERAL, EVALUATED, COUNTER, UNDEFINED), lambda self, *rest: self.add_leaf(*rest)),
    ACCESS: _Builder.add_access, VIEW: lambda self, *rest: self.add_view(*rest),
    GATHER: _Builder.add_gather, SCATTER: _Builder.add_scatter, FETCH: _Builder.add_fetch, OFFER: _Builder.add_offer,
    RESULT: _Builder.add_result, LOOP: _Builder.add_loop, COND: _Builder.add_cond, CALL: _Builder.add_call,
}
