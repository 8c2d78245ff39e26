"""Scatter-reductions with a table per thread: two kernels around the one that updates the tables.

The first fills the tables with the neutral element, the second merges them into the target.
"""

from __future__ import annotations

from typing import Any

from ...codegen.target import Target
from ...ir import build, trace
from ...ir.node import Node
from ...math import COMBINE
from ...ops.reductions import REDUCTIONS
from ...passes.domain import flat
from ...passes.schedule import Kernel
from ...types import TYPES
from ..backend import KernelBackend
from ..buffer import Buffer, view
from ..launch import launch
from ..memory import PACKET

__all__ = ["ThreadTables", "filled_tables", "merged_tables"]


class ThreadTables:
    """The tables of one scatter-reduction, which are parts of one array and begin at multiples of a packet."""

    __slots__ = ("count", "op", "stride", "target", "whole")

    def __init__(self, target: Node, op: int, count: int, packet: int) -> None:
        self.target = target
        self.op = op
        self.count = count
        self.stride = (target.size + packet - 1) // packet * packet  # elements
        neutral = build.literal(target.type, REDUCTIONS[op].identity(target.type), self.stride * count)
        self.whole = trace.opaque(neutral)

    def fill(self) -> Kernel:
        """The kernel that fills the tables."""
        kernel = Kernel(0, flat(self.whole.size))
        kernel.outputs.append(self.whole)
        return kernel

    @property
    def words(self) -> tuple[int, int]:
        """What the kernel that updates the tables gets, once they have been filled: address, and bytes of a table."""
        return self.whole.payload.address, self.stride * TYPES[self.target.type].size

    def merge(self) -> tuple[Node, Kernel]:
        """What the target contains after the updates, and the kernel that computes it."""
        target, buffer, size = self.target, self.whole.payload, self.target.size * TYPES[self.target.type].size
        stride, reduction, combine = self.words[1], REDUCTIONS[self.op], COMBINE[self.op]
        neutral = build.literal(target.type, reduction.identity(target.type))
        result: Any = target
        for thread in range(self.count):
            table = build.evaluated(target.type, target.size, view(buffer, thread * stride, size))
            combined = combine(result, table)
            if reduction.ignores_nan(target.type):  # NaN in the target as well, but only if there was any update
                combined = trace.ops.select(trace.ops.neq(table, neutral), combined, result)
            result = combined
        kernel = Kernel(0, flat(target.size))
        kernel.outputs.append(result)
        return result, kernel


def filled_tables(backend: KernelBackend, target: Target, memory: Node, op: int) -> ThreadTables:
    """The tables of a scatter-reduction to some memory, filled with the neutral element."""
    tables = ThreadTables(memory, op, target.threads, PACKET)
    launch(backend, target, tables.fill())
    return tables


def merged_tables(backend: KernelBackend, target: Target, tables: ThreadTables) -> Buffer:
    """What the memory contains when tables that have been updated are merged into it."""
    result, merge = tables.merge()
    launch(backend, target, merge)
    return result.payload  # type: ignore[no-any-return]
