"""Instructions of one function of the linear program, from the nodes of a program in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..ir.expansion import UPDATES
from ..ir.node import BAKED, Node
from ..ir.packets import place_among_neighbours
from ..ir.region import Cond, Region, all_operands, arguments_of, is_local, is_version, memory_of
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
    FIRST_REGISTERED,
    GATHER,
    KIND,
    LITERAL,
    LOCAL,
    LOOP,
    OPS,
    PACK,
    PHI,
    RESULT,
    SCATTER,
    UNDEFINED,
    VIEW,
)
from ..passes.domain import WIDE_EXTENT
from ..types import TYPES
from .expand import Call, Expanded
from .linear import Access, Block, CallSite, Function, Instruction, Linear, Reduction, Store
from .packets import Piece, added_pieces, pieces_of, written_pieces
from .program import SCALAR, SHIFTED, SPREAD, UNALIGNED, Program
from .target import PLAIN, SHARED, SUMMED

__all__ = ["BUILDERS", "Builder"]

_MUL_HI = KIND["mul_hi"]
#: Functions of branches that few elements take, by the regions of these, which live as long, and by whether they are
#: for one element.
_rare: dict[tuple[Region, bool], Function] = {}


def _function_from(linear: Linear, name: str, expanded: Expanded, formals: Iterable[Node], results: Iterable[Node],
                   uniform: bool) -> Function:
    """A function of an expansion."""
    function = Function(name, not uniform)
    builder = Builder(linear, function, expanded, None)
    function.arguments = [builder.formal(formal, uniform, uniform) for formal in formals]
    for node in expanded.order:
        builder.add(node, None)
    function.results = [builder.at(result) for result in results]
    builder.finish(len(expanded.order))
    return function


def _rare_function(linear: Linear, choice: Cond, uniform: bool) -> Function:
    """The function that computes the values of a rare branch from its arguments: of one element, or of a packet, unless
    it multiplies 64-bit words to their upper half, which no machine does for packets."""
    region = choice.regions[0]
    function = _rare.get((region, uniform))
    if function is None and not uniform and any(node.kind == _MUL_HI for node in region.nodes):
        function = _rare[region, uniform] = _rare_function(linear, choice, True)
    if function is None:
        formals, results = region.formals[choice.count:], region.results[0]
        types = "_".join(TYPES[node.type].name for node in (*formals, *results))
        function = _rare[region, uniform] = _function_from(
            linear, f"rare_{choice.rare}_{types}{'_of_one' * uniform}", Expanded.function(results, formals), formals,
            results, uniform)
    return function


class Builder:
    """Makes the instructions of one function."""

    def __init__(self, linear: Linear, function: Function, expanded: Expanded, program: Program | None) -> None:
        self.linear = linear
        self.function = function
        self.expanded = expanded
        self.program = program
        self.position = expanded.position
        self.known = function.instructions
        self.last = -1  # the largest number so far
        self.products: dict[tuple[int, ...], list[Node]] | None = None  # rows by product
        self.offset = 0  # what is added to the places of nodes: numbers of instructions that occur once more
        #: Scatter-reductions of which is wanted what they find.
        self.fetched = {node.d0.id for node in expanded.order if node.kind == FETCH and node.d0 is not None}
        #: The loops that formals belong to, by the numbers of these.
        self.loops: dict[int, Instruction] = {}
        #: Values of loops that are asked for when they have ended.
        self.asked = {(node.d0.id, node.attr) for node in expanded.order if node.kind == RESULT and node.d0 is not None}
        #: Reads of rows; checks look at each read by itself.
        self.pieces = pieces_of(expanded.order, program.target) if program is not None and function.vectorized and \
            not function.report and not function.records else {}
        #: The rows that writes are parts of.
        self.written: dict[int, Piece] = {}

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
        if node.kind == PACK or node.kind in UPDATES:
            return  # its user sees through it
        number = self.position[node.id] + self.offset
        if number in self.known:
            return
        kind = node.kind
        if self.expanded.expands(node):
            call = self.expanded.calls.get(node.id)
            if call is None:
                for part in self.expanded.parts[node.id]:  # in a region, whose order has no expansions
                    self.add(part, block)
            else:
                self.add_expansion_call(call, block)
            return
        special = BUILDERS.get(kind)
        if special is None and FIRST_REGISTERED <= kind < FIRST_ELEMENTWISE:
            special = Builder.add_structured
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
                uniform = not function.records
        elif node.kind == EVALUATED:
            assert self.program is not None
            layout = self.program.accesses[node.id]
            access = Access(self.program.slots[node.id], layout)
            uniform = layout == SCALAR and not function.records
            function.needs_mask |= layout == UNALIGNED
        elif node.kind == COUNTER:
            uniform = not function.vectorized
        elif node.kind == LOCAL:
            assert self.program is not None
            uniform = not function.vectorized
            access = Access(self.program.pointers[node.id])
        operands = () if node.d0 is None or node.kind != LOCAL or not node.attr else (self.at(node.d0),)
        self.append(Instruction(number, node, operands, uniform), block).access = access

    def add_access(self, node: Node, number: int, block: Block | None) -> None:
        """Append a part of an array."""
        program, source = self.program, node.d0
        assert program is not None and source is not None
        layout = program.accesses[node.id]
        self.append(Instruction(number, node, (), not self.function.vectorized), block).access = Access(
            program.pointers[source.id], layout, first=program.firsts[node.id])
        self.function.needs_mask |= layout != SHIFTED

    def add_view(self, node: Node, number: int, block: Block | None) -> None:
        """Append a view of short rows; others are for kernels that go over rows."""
        program, source = self.program, node.d0
        assert program is not None and source is not None
        layout = program.accesses[node.id]
        self.append(Instruction(number, node, (), False), block).access = Access(
            program.pointers[source.id], layout, first=program.firsts[node.id], short=program.short[node.id])
        self.function.needs_mask |= layout == SPREAD

    def add_gather(self, node: Node, number: int, block: Block | None) -> None:
        """Append a read by index."""
        source, operands = node.d0, (self.at(node.d1), self.at(node.d2))
        assert self.program is not None and source is not None
        piece = self.pieces.get(node.id)
        if piece is not None and not operands[0].uniform:
            self.add_rows(node, number, block, piece)
            return
        gather = self.append(Instruction(number, node, operands, self.is_uniform(operands, (source,), block)), block)
        gather.access = self.access_of(source)._replace(check=self.program.checks.get(node.id))
        self.function.needs_mask = True

    def is_uniform(self, operands: Sequence[Instruction], memory: Iterable[Node], block: Block | None) -> bool:
        """Whether what reads memory has the same result in all elements."""
        if not all(operand.uniform for operand in operands) or self.function.records:
            return False
        # what a function has written before is not there yet where it begins
        return not self.function.vectorized or not any(
            block is None and is_version(source) and source.kind != PHI or is_local(source) for source in memory)

    def access_of(self, memory: Node) -> Access:
        """How memory is read by index."""
        assert self.program is not None
        return Access(self.program.pointers[memory.id], SCALAR, memory.size >= WIDE_EXTENT,
                      large=self.program.asks_ahead(memory))

    def add_structured(self, node: Node, number: int, block: Block | None) -> None:
        """Append a row with structure about which there is nothing else to be said, whose operands are all but memory:
        that is in ``accesses``."""
        operands, memory = self.all_at(arguments_of(node)), memory_of(node)
        instruction = self.append(Instruction(number, node, operands, self.is_uniform(operands, memory, block)), block)
        instruction.accesses = tuple(map(self.access_of, memory))
        self.function.needs_mask |= not OPS[node.kind].speculable

    def add_product(self, node: Node, number: int, block: Block | None) -> None:
        """Append a row of a product, with all others that the program has of that as further results."""
        assert self.program is not None
        if self.products is None:
            self.products, self.function.products = {}, True
            if self.program.domain.is_flat:
                for each in self.expanded.order:
                    if each.kind == PRODUCT:
                        self.products.setdefault(_product_of(each), []).append(each)
        matrix, *values = all_operands(node)
        operands = self.all_at(values)
        uniform = self.is_uniform(operands, (matrix,), block)
        rows = self.products.get(_product_of(node), [node])
        first, *others = (Instruction(self.position[each.id] + self.offset, each, operands, uniform)
                          for each in (node, *(row for row in rows if row is not node)))
        self.append(first, block)
        first.results, first.accesses = tuple(others), (self.access_of(matrix),)
        for other in others:
            self.define(other, first.once)

    def add_outer(self, node: Node, number: int, block: Block | None) -> None:
        """Append the products of two vectors, which count for each element even if they are the same in all."""
        operands = self.all_at(all_operands(node))
        self.append(Instruction(number, node, operands, not self.function.vectorized), block)

    def add_rows(self, node: Node, number: int, block: Block | None, piece: Piece) -> None:
        """Append a read of pieces of rows, of which each element is a result."""
        assert self.program is not None and node.d0 is not None and node.d1 is not None
        operands = self.at(place_among_neighbours(node.d1).first), self.at(node.d2)
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
                               large=self.program.asks_ahead(node.d0), piece=(piece.start, piece.length, *offsets),
                               row=piece.row)
        self.function.needs_mask = True

    def add_scatter(self, node: Node, number: int, block: Block | None) -> None:
        """Append a write by index inside of a region."""
        for write in self.writes_of(node, number):
            self.append(write, block)

    def scatter(self, node: Node, number: int) -> Instruction:
        """A write by index."""
        program, target = self.program, node.d0
        assert program is not None and target is not None
        value, *expected, index, mask = self.all_at(arguments_of(node))
        operands = value, index, mask, *expected
        scatter = Instruction(number, node, operands, not self.function.vectorized)
        strategy = program.strategies.get(node.id, PLAIN)
        if not self.function.vectorized and strategy != SUMMED:
            strategy = PLAIN
        scatter.access = Access(program.pointers[node.id], SCALAR, target.size >= WIDE_EXTENT,
                                program.checks.get(node.id), strategy, node.id in self.fetched,
                                large=program.asks_ahead(target))
        if strategy == SHARED:
            scatter.access = scatter.access._replace(table=program.block_tables[program.pointers[node.id]])
        self.function.needs_mask = True
        if is_local(target):
            loop = self.loops[operands[1].number]
            loop.blocks[0].counts = True
            scatter.access = scatter.access._replace(loop=loop.number)
        return scatter

    def writes_of(self, node: Node, number: int) -> list[Instruction]:
        """A write by index; of those of a piece of a row one, at the last of them, with further values as operands."""
        piece = self.written.get(node.id)
        if piece is None:
            return [self.scatter(node, number)]
        first, *others = piece.accesses.values()
        assert first.d2 is not None
        row = self.at(place_among_neighbours(first.d2).first)
        if row.uniform:
            return [self.scatter(node, number)]
        if node.id != max(each.id for each in piece.accesses.values()):
            return []
        scatter = self.scatter(first, number)
        assert scatter.access is not None
        value, _, mask = scatter.operands
        scatter.operands = value, row, mask, *(self.at(other.d1) for other in others)
        scatter.access = scatter.access._replace(piece=(piece.start, piece.length), row=piece.row)
        return [scatter]

    def find_written(self, program: Program, writes: Sequence[Node], in_region: bool = False) -> None:
        """Note which of some writes are those of a piece of a row. In regions, additions to memory may be that to which
        nothing else is done."""
        if not self.function.vectorized or self.function.report:
            return
        if in_region:
            writes = self.expanded.all_writes([node for node in writes if node.id in program.alone])
        pieces = added_pieces([node for node in writes if node.id not in self.fetched], program.strategies,
                              program.pointers, program.target)
        if not in_region:
            pieces |= written_pieces(writes, program.pointers, program.target)
        self.written.update((node.id, piece) for piece in pieces.values() for node in piece.accesses.values())

    def scatters(self, program: Program) -> list[Instruction]:
        """The writes of a kernel."""
        self.find_written(program, self.expanded.scatters)
        return [write for node in self.expanded.scatters for write in self.writes_of(node, -1)]

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
            loop = self.at(control)
            if operand not in loop.asked:
                loop.asked += (operand,)
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
        alike: set[int] = set() if uniform else self.alike_in(node)
        condition.formals = [self.formal(formal, instruction.once, uniform or formal.id in alike)
                             for _, formal, _ in values]
        self.loops.update((formal.number, instruction) for formal in condition.formals)
        condition.mask = self.formal(region.masks[0], instruction.once, uniform)
        self.add_part(region.parts[0], condition)
        condition.results = (self.at(loop.condition),)
        body.mask = self.formal(region.masks[1], instruction.once, uniform)
        self.add_part(region.parts[1], body)
        body.results = self.all_at(final for _, _, final in values)
        self.used_until_here(*captures, *condition.formals, condition.mask, *condition.results, body.mask,
                             *body.results)
        self.function.needs_mask = True

    def alike_in(self, node: Node) -> set[int]:
        """Ids of the formals of a loop that have the same value in all elements that go on, such as a counter.

        Those that are done would keep an earlier one: so it must not be asked for when the loop has ended.
        """
        loop = node.payload
        finals = {formal.id: final for place, (initial, formal, final) in enumerate(
            zip(loop.initial, loop.region.formals, loop.finals, strict=True))
            if not formal.payload and (node.id, place) not in self.asked and self.at(initial).uniform}
        while finals:
            alike = set(finals)
            for inner in loop.region.nodes:
                if (inner.kind >= FIRST_ELEMENTWISE or inner.kind == CAST or inner.kind == BITCAST) and all(
                        self.is_alike(operand, alike) for operand in (inner.d0, inner.d1, inner.d2)
                        if operand is not None):
                    alike.add(inner.id)
            kept = {formal: final for formal, final in finals.items() if self.is_alike(final, alike)}
            if len(kept) == len(finals):
                break
            finals = kept
        return set(finals)

    def is_alike(self, node: Node, alike: set[int]) -> bool:
        """Whether a value is one of those, or comes from outside and is the same in all elements."""
        if node.id in alike:
            return True
        place = self.position[node.id]
        found = self.known.get(place + self.offset) or self.known.get(place)
        return found is not None and found.uniform

    def add_cond(self, node: Node, number: int, block: Block | None) -> None:
        """Append a branch: one that is rare by itself, any other one with its blocks."""
        choice: Cond = node.payload
        if choice.rare:
            operands = (self.at(node.d0), *self.all_at(choice.initial))
            rare = self.append(Instruction(number, node, operands, all(value.uniform for value in operands)), block)
            rare.function = _rare_function(self.linear, choice, rare.uniform)
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
        if self.program is not None and self.program.alone:
            self.find_written(self.program, nodes, True)
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
        call.site = CallSite(arguments, tuple(type_ for type_, _ in site.results), extras, site.slot,
                             site.functions, site.shared)
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
        if program.target.static_calls:
            function.places = tuple(program.parameters[program.slots[node.id]] for node in program.extras)

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
        function.reductions += [Reduction(self.at(node.d1), node.attr, node.type, program.pointers[node.id], node)
                                for node in program.sums]
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


def _product_of(node: Node) -> tuple[int, ...]:
    """What rows of one product have in common."""
    return (*(0 if d is None else d.id for d in (node.d0, node.d1, node.d2, node.d3)), node.scope, *node.payload)


def _varies(region: Region) -> bool:
    """Whether something in a region is never uniform where there are packets: what chooses by element, writes, and what
    elements have to themselves."""
    return any(node.kind in (COND, CALL, SCATTER, FETCH) or node.kind == LOOP and _varies(node.payload.region)
               or node.kind == GATHER and node.d0 is not None and is_local(node.d0) for node in region.nodes)


#: Kinds of which more is to be known than their operands; what is left are rows of the table, casts and copies, and
#: what is registered: :meth:`Builder.add_structured`.
BUILDERS: dict[int, Callable[[Builder, Node, int, Block | None], None]] = {
    **dict.fromkeys((LITERAL, EVALUATED, COUNTER, UNDEFINED, LOCAL), lambda self, *rest: self.add_leaf(*rest)),
    ACCESS: Builder.add_access, VIEW: lambda self, *rest: self.add_view(*rest),
    GATHER: Builder.add_gather, SCATTER: Builder.add_scatter, FETCH: Builder.add_fetch,
    RESULT: Builder.add_result, LOOP: Builder.add_loop, COND: Builder.add_cond, CALL: Builder.add_call,
    PRODUCT: Builder.add_product, OUTER: Builder.add_outer,
}
