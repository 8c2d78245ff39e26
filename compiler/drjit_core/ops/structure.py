"""Rows with structure: leaves of the graph, memory, reductions, regions.

The emitter has a function for each, and they are described in :mod:`drjit_core.ir.node`.
"""

from __future__ import annotations

from .op import Op, Rows

__all__ = ["rows"]


def _structural(name: str, doc: str, arity: int = 0, cost: int = 0) -> Op:
    return Op(name, arity, "biuf", None, doc, cost=cost)


rows = Rows([
    # --- leaves ------------------------------------------------------------------------------------------------------
    _structural("invalid", "The array of size zero."),
    _structural("literal", "The same constant in every element; a kernel parameter unless baked in."),
    _structural("undefined", "Memory that has not been written yet."),
    _structural("evaluated", "The contents of a buffer.", cost=6),
    _structural("counter", "The position of the element: 0, 1, 2 …"),
    _structural("phi", "The value of a loop variable at the start of an iteration."),
    # --- memory, reductions, regions ---------------------------------------------------------------------------------
    _structural("gather", "Masked indirect read: source, index, mask.", 3, cost=30),
    _structural("scatter", "A new version of a target after a masked indirect write: target, value, index, mask.", 4),
    _structural("reduce", "Reduction of all elements to one.", 1),
    _structural("opaque", "The same values, in memory of their own.", 1),
    _structural("cast", "Conversion to another type.", 1, cost=1),
    _structural("bitcast", "Reinterpretation of the bits as another type of the same size.", 1),
    _structural("loop", "A region that is repeated while its condition holds in some element."),
    _structural("loop_result", "A loop variable after the loop.", 1),
    _structural("branch", "Part of an expansion that few elements need."),
    _structural("branch_result", "A value after a branch.", 1),
])
