"""Instructions of kernels that go over rows: passes over the packets of a row, and scalars before and after them."""

from __future__ import annotations

from ..ir.node import Node
from ..ir.region import arguments_of
from ..ops.table import (
    ACCESS,
    COND,
    EVALUATED,
    FIRST_ELEMENTWISE,
    FIRST_REGISTERED,
    IS_INDEXED,
    LITERAL,
    OPS,
    SCATTER,
    SEGMENT,
    VIEW,
)
from .builder import Builder
from .expand import Expanded
from .linear import Access, Block, Function, Instruction, Linear, Reduction, RowPass, Store
from .program import ALIGNED, ROW, Program

__all__ = ["RowsBuilder"]


class RowsBuilder(Builder):
    """Makes the instructions of a kernel that goes over rows.

    What there is one of for each row is a scalar, computed before the packets of the row; reductions of a row are known
    after a pass over these. What such results are needed for comes in a further pass, to which instructions that it has
    in common with earlier ones belong once more (with numbers of their own). A kernel that goes over columns works on
    several rows at once, whose instructions are copies of each other in the same way.
    """

    rows: tuple[Block, ...]
    each: tuple[Block, ...]
    copy = 0

    def __init__(self, linear: Linear, function: Function, expanded: Expanded, program: Program) -> None:
        super().__init__(linear, function, expanded, program)
        self.kernel: Program = program
        self.nodes = nodes = expanded.order
        self.count = len(nodes)
        self.copies = program.target.rows.together if program.domain.columns else 1
        self.pieces = {}
        #: In which pass each node is known for the first time; what there is one of for each row is known before it.
        self.passes = self._passes()
        #: In which pass outputs of all elements are written, and at whose end reductions of rows are known.
        self.outputs = {node.id: self.passes.get(node.id, 0) for node in program.stores if not program.has_rows(node)}
        self.segments = {node.id: self.passes[node.id] - 1 for node in nodes if node.kind == SEGMENT}
        #: Nodes -> the pass that they are kept from, the output in whose place.
        self.kept: dict[int, tuple[int, int]] = {}

    def build(self) -> None:
        """Make all instructions."""
        program, function = self.kernel, self.function
        function.domain, function.axes = program.domain, program.axes
        function.short_rows = program.target.has_short_rows(program.domain)
        function.needs_mask = True
        last = max([*self.outputs.values(), *self.segments.values(), 0,
                    *(self._pass_of(node) for node in (*program.reductions, *self.expanded.scatters))])
        if last:
            self._keep(last)
        for number in range(last + 1):
            self._add_pass(number)
        self.offset = 0
        self.rows = (Block(False, False, True),)
        for node in self.nodes:
            if program.has_rows(node) and self.passes[node.id] == last + 1 and node.kind != SEGMENT:
                self.add(node, None)
        function.last_row = self.rows[0]
        function.row_stores = [Store(self.at(node), program.slots[node.id]) for node in program.stores
                               if program.has_rows(node)]
        for instruction in function:
            instruction.last_use = max(instruction.last_use, instruction.number)
        self.count_live((last + 1) * self.copies * self.count)

    def _operands(self, node: Node) -> list[Node]:
        """What a node needs the values of; memory that is read at other positions is no operand."""
        if node.kind == VIEW or node.kind == ACCESS:
            assert node.d0 is not None
            return [node.d0] if node.d0.kind != EVALUATED else []
        if IS_INDEXED[node.kind] or FIRST_REGISTERED <= node.kind < FIRST_ELEMENTWISE:
            return arguments_of(node)
        operands = [d for d in (node.d0, node.d1, node.d2) if d is not None]
        if node.kind == COND:
            operands += node.payload.initial
        return operands

    def _passes(self) -> dict[int, int]:
        passes: dict[int, int] = {}
        for node in self.nodes:
            known = max((passes.get(self._of(operand).id, 0) for operand in self._operands(node)), default=0)
            passes[node.id] = known + (node.kind == SEGMENT)
        for id_, place in self.position.items():  # expansions have the place of their results
            passes[id_] = passes[self.nodes[place].id]
        return passes

    def _pass_of(self, output: Node) -> int:
        """In which pass a reduction of everything, or a write, takes place."""
        used = (output.d1, output.d2, output.d3) if output.kind == SCATTER else (output.d0,)
        return max(self.passes[operand.id] for operand in used if operand is not None)

    def _of(self, node: Node) -> Node:
        """The node that computes another one, which may be an expansion or a copy."""
        return self.nodes[self.position[node.id]]

    def _add_pass(self, number: int) -> None:
        program, function, nodes, count, copies = self.kernel, self.function, self.nodes, self.count, self.copies
        self.rows = tuple(Block(False, False, True, copy) for copy in range(copies))
        self.each = tuple(Block(False, False, False, copy) for copy in range(copies))
        wanted = self._wanted(number)
        done: list[Instruction] = []
        for copy in range(copies):
            self.copy = copy
            for node in nodes:
                if node.kind == SEGMENT:
                    continue
                if program.has_rows(node):  # once for each row, as soon as it is known
                    if self.passes[node.id] == number:
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
            done += [self._segment(node) for node in nodes if self.segments.get(node.id) == number]
        self.copy, self.offset = 0, number * copies * count
        kept = [Store(self.at(node), self.kept[node.id][1]) for node in nodes
                if self.kept.get(node.id, (-1,))[0] == number]
        given = {store.slot for store in kept}
        stores = [Store(self.at(node), program.slots[node.id]) for node in program.stores
                  if self.outputs.get(node.id) == number and program.slots[node.id] not in given]
        reductions = [k for k, node in enumerate(program.reductions) if self._pass_of(node) == number]
        scatters = [self.scatter(node, -1) for node in self.expanded.scatters if self._pass_of(node) == number]
        function.passes.append(RowPass(self.rows, self.each, done, [*kept, *stores], reductions, scatters))
        if not function.reductions:
            function.reductions = [None] * len(program.reductions)  # type: ignore[list-item]
        for k in reductions:
            node = program.reductions[k]
            function.reductions[k] = Reduction(self.at(node.d0), node.attr, node.type, program.slots[node.id])

    def _wanted(self, number: int) -> set[int]:
        """Ids of the nodes that a pass needs for its reductions, outputs and writes."""
        program = self.kernel
        roots = [node.d0 for node in self.nodes if self.segments.get(node.id) == number]
        roots += [node for node in program.stores if self.outputs.get(node.id) == number]
        roots += [node.d0 for node in program.reductions if self._pass_of(node) == number]
        roots += [operand for node in self.expanded.scatters if self._pass_of(node) == number
                  for operand in (node.d1, node.d2, node.d3)]
        wanted = {self._of(node).id for node in roots if node is not None}
        for node in reversed(self.nodes):
            if node.id in wanted and self.kept.get(node.id, (number,))[0] >= number:
                wanted.update(self._of(operand).id for operand in self._operands(node))
        return wanted

    def _keep(self, last: int) -> None:
        """Choose what is kept from one pass to the next, instead of computing it again, where the target
        says so.  They are written where an output of the kernel will stand.
        """
        program = self.kernel
        uses: dict[int, list[int]] = {}  # passes that need a node
        for number in range(last + 1):
            for id_ in self._wanted(number):
                uses.setdefault(id_, []).append(number)
        free, keep = [node for node in program.stores if node.id in self.outputs], program.target.rows.keep
        for node in program.order:
            found = uses.get(self._of(node).id, [0])
            if node.kind < FIRST_ELEMENTWISE or OPS[node.kind].cost < keep or program.has_rows(node) or \
                    len(found) < 2 or node.size == 1:
                continue
            for output in free:
                if output.type == node.type and (
                        self._of(output) is self._of(node) or self.outputs[output.id] >= found[-1]):
                    free.remove(output)
                    self.kept[self._of(node).id] = found[0], program.slots[output.id]
                    self.function.streaming = False
                    break

    def _segment(self, node: Node) -> Instruction:
        """A reduction of rows, in the copy that is being made."""
        segment = Instruction(self.position[node.id] + self.copy * self.count, node, (self.at(node.d0),), True)
        self.define(segment, False)
        segment.operands[0].last_use = max(segment.operands[0].last_use, self.last)
        return segment

    def block_of(self, instruction: Instruction) -> Block:
        """Which of the kernel's own blocks an instruction belongs to."""
        if not instruction.uniform:
            return self.each[self.copy]
        node = instruction.node
        if instruction.kind == VIEW or self.kernel.has_rows(node) and node.kind != LITERAL and \
                not instruction.operands or \
                any(not operand.once for operand in instruction.operands):
            return self.rows[self.copy]
        return self.function.once

    def add_leaf(self, node: Node, number: int, block: Block | None) -> None:
        """Append a leaf: one with an element for each row is a scalar."""
        if not self.kernel.has_rows(node) or node.kind == LITERAL:
            super().add_leaf(node, number, block)
            return
        instruction = Instruction(number, node, (), True)
        if node.kind == EVALUATED:
            instruction.access = Access(self.kernel.slots[node.id], ROW)
        self.append(instruction, block)

    def add_view(self, node: Node, number: int, block: Block | None) -> None:
        """Append a view."""
        program, source = self.kernel, node.d0
        assert source is not None
        layout = program.accesses[node.id]
        if node.id not in program.firsts:  # the element of the row
            self.known[number] = self.at(source)
            return
        instruction = Instruction(number, node, (), layout == ROW)
        self.append(instruction, block).access = Access(program.pointers[source.id], layout,
                                                        first=program.firsts[node.id], moving=program.moving[node.id])
