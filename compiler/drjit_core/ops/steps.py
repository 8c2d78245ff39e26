"""Steps: what a fused kernel cannot do, such as scans and sorts.  Floor 0.

A step reads arrays that are in memory, and computes one or more others by a few launches of its own.  In the graph,
each of its results is a node of the kind ``STEP``, whose payload is the :class:`Step`; equal steps of equal operands
are one.

One row here says what there is.  By its name, :data:`drjit_core.interpreter.steps.MEANINGS` has what it computes, on
NumPy arrays, and each backend has the launches (:data:`drjit_core.llvm.steps.LAUNCHES`); a test compares the three.
"""

from __future__ import annotations

from typing import NamedTuple

from ..types import KernelType

__all__ = ["STEPS", "Step", "StepRow"]


class Step(NamedTuple):
    """Which step, with all that does not follow from its operands.  Immutable: part of the key of value numbering."""

    name: str
    #: What its launches are other code for: operators, directions, modes.
    options: tuple[int | str, ...] = ()
    #: Numbers of elements.  One may be 0: what the size of the first operand leaves, so that a recording of the step is
    #: good for operands of other sizes.
    extents: tuple[int, ...] = ()

    def with_sizes(self, size: int) -> tuple[int, ...]:
        """The extents, for a first operand of some size."""
        known = 1
        for extent in self.extents:
            known *= extent or 1
        return tuple([extent or size // known for extent in self.extents])


class StepRow(NamedTuple):
    """What is known about one step, whatever runs it."""

    name: str
    operands: int  # at least 1, at most 3
    results: int
    type: KernelType  # of its entries in the kernel history
    doc: str
    #: Whether any size of the first operand goes with the extents: what they tell of may be incomplete.
    ragged: bool = False


#: The steps by name.
STEPS: dict[str, StepRow] = {row.name: row for row in (
    StepRow("scan", 1, 1, KernelType.BlockPrefixReduce,
            "Running reduction along the middle one of three extents. Options: operator, exclusive, reverse.", True),
    StepRow("extremum", 1, 1, KernelType.BlockReduce,
            "Positions of the smallest elements, or of the largest ones (option), along the middle one of three "
            "extents: the first ones of equals, without NaN."),
    StepRow("count", 1, 2, KernelType.Compress,
            "Of the set elements of a mask, how many come before each chunk, and how many there are. Extents: elements "
            "of a chunk, 0.", True),
    StepRow("compress", 2, 1, KernelType.Compress,
            "Positions of the set elements of a mask, given what 'count' says of its chunks. Extents: those of "
            "'count'.", True),
    StepRow("sort", 1, 1, KernelType.MkPerm,
            "Each row in order (extents: rows, length, 1), or the positions of its elements in order. Options: whether "
            "positions are wanted, descending. Stable; NaN comes last, or first in descending order; zeros are equal."),
    StepRow("matmul", 2, 1, KernelType.BatchedGemm,
            "Products of matrices. Options: rows and columns of the result, elements of a sum; where the operands "
            "begin; distances of rows and of columns of the first, and of the second operand; for each dimension of "
            "the batch, extent and distances. The result is in C order."),
    StepRow("transpose", 1, 1, KernelType.Memcpy,
            "A copy in C order of what is contiguous along another axis. Options: that axis' extent and the last "
            "one's; distance of elements of the latter in the source, of the former in the result; where the source "
            "begins; for each of the other axes, extent and distances in source and result."),
)}
