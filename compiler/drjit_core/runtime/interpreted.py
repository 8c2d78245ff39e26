"""A backend without kernels: the interpreter of the graph, on memory of this process.

What is wanted is interpreted as it was traced, without planning, and stored in buffers.  Nothing runs later, and
nothing is written in place: a write makes a new array.
"""

from __future__ import annotations

from ..codegen.target import Limits
from ..ir import node as nodes
from ..ir.node import Node
from ..ir.region import CONTROL, operands
from ..ops.table import EVALUATED
from ..passes.order import post_order
from ..passes.schedule import add_results
from ..types import JitBackend
from .backend import bring
from .heap import Heap
from .memory import HostMemory, System

__all__ = ["Interpreted"]


class Interpreted(HostMemory):
    """Arrays that are computed by :class:`drjit_core.interpreter.Interpreter`."""

    name = "interpreter"
    where = JitBackend.LLVM.value  #: It stands in for the CPU.
    heap = Heap(System(lambda: None))
    recipes = None

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def evaluate(self, roots: list[Node], /) -> None:
        """Interpret nodes; of what writes, all results that somebody holds, as kernels have them, too."""
        from ..interpreter import Interpreter  # it needs NumPy, whose import takes longer than that of this project

        order = post_order(roots)
        for node in order:
            for operand in operands(node):
                if operand.kind == EVALUATED and operand.payload.backend is not self:
                    bring(self, operand)
        add_results([node for node in order if node.kind in CONTROL and node.payload.writes], roots)
        for root, values in zip(roots, Interpreter(self.read).run(roots), strict=True):
            buffer = self.allocate(values.nbytes)
            self.write(buffer, 0, values.data.cast("B"))
            nodes.forget(root)
            root.become_evaluated(buffer)

    def kernel_statistics(self) -> dict[str, int]:
        """There are no kernels."""
        return {}

    def crowded(self) -> bool:
        """There are no kernels."""
        return False

    def flush(self) -> None:
        """There are no kernels."""
