"""What a GPU's kernels are before anything is compiled: for :mod:`..null`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from ...codegen.program import Program
from ...codegen.steps import Call, Pass
from ...codegen.target import Target
from ...ir.node import Node
from ...ops.table import OPS
from ...ptx.emit import MOST_BLOCKS, emit
from ...ptx.reduction import partial_bytes
from ...ptx.steps import LAUNCHES
from ...types import JitBackend
from .target import LIMITS, target_of

__all__ = ["PTXTexts"]


class Course(NamedTuple):
    """What launches depend on besides parameters and width."""

    single: bool = False


class PTXTexts:
    """Texts for one architecture, see :class:`..null.Texts`."""

    language = JitBackend.CUDA
    limits = LIMITS

    def __init__(self, architecture: int) -> None:
        self._target = target_of(architecture)

    def target(self) -> Target:
        """What programs are assembled for."""
        return self._target

    def text_of(self, program: Program, /) -> str:
        """The text of a program."""
        return emit(program).text

    def operations_of(self, program: Program, /) -> int:
        """Number of operations for one element; 0 if constants are stored, and nothing is computed."""
        return len(program.order) if program.computes() else 0

    def work_of(self, program: Program, /) -> int:
        """Cost of one element, relative to an addition."""
        return sum(OPS[node.kind].cost for node in program.order)

    def partial_bytes(self, words: int, work: int, width: int, unit: int, /) -> int:
        """Bytes of partial results of a kernel: as many as the largest number of blocks writes."""
        return partial_bytes(words, min(width, MOST_BLOCKS))

    def course_of(self, program: Program, /) -> Course:
        """Nothing."""
        return Course()

    def fill_tables(self, backend: Any, target: Target, memory: Node, op: int, /) -> NoReturn:
        """There are no tables."""
        raise NotImplementedError("scatter-reductions have no tables on this backend")

    merge_tables: Any = fill_tables

    def passes(self, call: Call, /) -> Iterable[Pass]:
        """What a step takes to run."""
        return LAUNCHES[call.step.name](call)
