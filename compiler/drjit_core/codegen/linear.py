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
    UNDEFINED,
)
from ..passes.domain import WIDE_EXTENT
from ..types import TYPES
from .expand import Call, Expanded
from .packets import Piece, pieces_of, written_pieces
from .program import PLAIN, SCALAR, SHIFTED, UNALIGNED, Check, Program, is_large

__all__ = ["Access", "Block", "CallSite", "Function", "Instruction", "Linear", "Reduction", "Store", "linearize"]

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
    """Instructions in order: those of a function that run once, those that run for each packet, or of a region."""

    __slots__ = ("formals", "instructions", "is_region", "mask", "once", "results")

    def __init__(self, once: bool, is_region: bool) -> None:
        self.once = once  # whether it runs once, or is within what does
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
        #: Scatter-reductions of which is wanted what they find.
        self.fetched = {node.d0.id for node in expanded.order if node.kind == FETCH and node.d0 is not None}
        #: Reads of rows; checks look at each read by itself.
        self.pieces = pieces_of(expanded.order) if function.vectorized and not function.report else {}

    def at(self, node: Node | None) -> Instruction:
        """The instruction that computes a node."""
        assert node is not None
        return self.known[self.position[node.id]]

    def all_at(self, nodes: Iterable[Node]) -> tuple[Instruction, ...]:
        """The instructions that compute some nodes."""
        return tuple([self.at(node) for node in nodes])

    # --- instructions ------------------------------------------------------------------------------------------------

    def add(self, node: Node, block: Block | None) -> None:
        """Append a node to a block (``None``: to one of the function's own), unless a region has it already."""
        number = self.position[node.id]
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
        known, position, uniform, operands = self.known, self.position, True, []
        for d in (node.d0, node.d1, node.d2):
            if d is None:
                break
            operand = known[position[d.id]]
            uniform = uniform and operand.uniform
            operands.append(operand)
        self.append(Instruction(number, node, tuple(operands), uniform), block)

    def append(self, instruction: Instruction, block: Block | None) -> Instruction:
        """Append an instruction to a block, and note that it uses its operands."""
        function, number = self.function, instruction.number
        if block is None:
            block = function.once if instruction.uniform or not function.vectorized else function.each
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

    def define(self, instruction: Instruction, once: bool) -> None:
        """Note where a value is to be found that is in no block's list."""
        instruction.once = once
        self.known[instruction.number] = instruction
        if instruction.number > self.last:
            self.last = instruction.number

    def formal(self, node: Node, once: bool, uniform: bool, *operands: Instruction) -> Instruction:
        """A value that a block begins with."""
        formal = Instruction(self.position[node.id], node, operands, uniform)
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
        first, *others = (Instruction(self.position[node.id], node, operands, uniform) for node in call.nodes)
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


def _varies(region: Region) -> bool:
    """Whether something in a region is never uniform where there are packets: what chooses by element, and writes."""
    return any(node.kind in (COND, CALL, SCATTER, FETCH) or node.kind == LOOP and _varies(node.payload.region)
               for node in region.nodes)


#: Kinds of which more is to be known than their operands; what is left are rows of the table, casts and copies.
_SPECIAL: dict[int, Callable[[_Builder, Node, int, Block | None], None]] = {
    LITERAL: _Builder.add_leaf, EVALUATED: _Builder.add_leaf, COUNTER: _Builder.add_leaf, UNDEFINED: _Builder.add_leaf,
    ACCESS: _Builder.add_access, GATHER: _Builder.add_gather, SCATTER: _Builder.add_scatter, FETCH: _Builder.add_fetch,
    OFFER: _Builder.add_offer, RESULT: _Builder.add_result, LOOP: _Builder.add_loop, COND: _Builder.add_cond,
    CALL: _Builder.add_call,
}
