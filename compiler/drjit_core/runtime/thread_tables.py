"""Scatter-reductions with a table per thread: two kernels around the one that updates the tables.

The first fills the tables with the neutral element, the second merges them into the target.  Neither is launched here.
"""

from __future__ import annotations

from typing import Any

from ..codegen.program import Program
from ..ir import build, trace
from ..ir.node import Node
from ..math import COMBINE
from ..ops.reductions import REDUCTIONS
from ..passes.schedule import Kernel
from ..types import TYPES
from .buffer import view

__all__ = ["ThreadTables"]


class ThreadTables:
    """The tables of one scatter-reduction, which are parts of one array and begin at multiples of a packet."""

    __slots__ = ("count", "node", "stride", "tables", "whole")

    def __init__(self, node: Node, count: int, packet: int) -> None:
        self.node = node
        self.count = count
        self.stride = (node.size + packet - 1) // packet * packet  # elements
        neutral = build.literal(node.type, REDUCTIONS[node.attr].identity(node.type), self.stride * count)
        self.whole = trace.opaque(neutral)
        self.tables: list[Node] = []

    def fill(self) -> Kernel:
        """The kernel that fills the tables."""
        kernel = Kernel(0, self.whole.size)
        kernel.outputs.append(self.whole)
        return kernel

    def bind(self, program: Program) -> None:
        """Enter the tables, which have been filled, among the parameters of the program that updates them."""
        node, buffer = self.node, self.whole.payload
        nbytes, size = self.stride * TYPES[node.type].size, node.size * TYPES[node.type].size
        slot = program.tables[node.id]
        program.parameters[slot:slot + 2] = buffer.address, nbytes
        program.inputs.append(self.whole)
        self.tables = [build.evaluated(node.type, node.size, view(buffer, thread * nbytes, size))
                       for thread in range(self.count)]

    def merge(self) -> tuple[Node, Kernel]:
        """What the target contains after the updates, and the kernel that computes it."""
        node = self.node
        reduction, combine = REDUCTIONS[node.attr], COMBINE[node.attr]
        neutral = build.literal(node.type, reduction.identity(node.type))
        result: Any = node.d0
        for table in self.tables:
            combined = combine(result, table)
            if reduction.ignores_nan(node.type):  # NaN in the target as well, but only if there was any update
                combined = trace.ops.select(trace.ops.neq(table, neutral), combined, result)
            result = combined
        kernel = Kernel(0, node.size)
        kernel.outputs.append(result)
        return result, kernel
