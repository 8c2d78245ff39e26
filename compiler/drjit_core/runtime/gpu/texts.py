"""What a GPU's kernels are before anything is compiled: for :mod:`..null`."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from ...codegen.program import Program
from ...codegen.records import layout_of
from ...codegen.steps import Call, Pass
from ...codegen.target import Target
from ...ir.node import Node
from ...ops.table import OPS
from ...ptx.emit import emit
from ...ptx.steps import LAUNCHES
from ...types import JitBackend
from .target import LIMITS, target_of

__all__ = ["PTXTexts", "laid_out"]


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
        return 8 * words * min(width, 1024)

    def course_of(self, program: Program, /) -> Course:
        """Nothing."""
        return Course()

    def names(self, program: Program, /) -> list[str]:
        """Names of the functions that calls may reach."""
        return [self.name_of(number, False) for number in range(len(program.functions))]

    def name_of(self, number: int, records: bool, /) -> str:
        """Name of a function that calls reach, by its number; each element calls one by itself."""
        return f"target{number}"

    def fill_calls(self, program: Program, addresses: Mapping[str, int], keep: list[Any], /) -> None:
        """Make the tables of calls, which have numbers of functions, in memory of this process."""
        words = array("Q", layout_of(program).words)
        laid_out(program, words, words.buffer_info()[0])
        keep.append(words)

    def fill_tables(self, backend: Any, target: Target, memory: Node, op: int, /) -> NoReturn:
        """There are no tables."""
        raise NotImplementedError("scatter-reductions have no tables on this backend")

    merge_tables: Any = fill_tables

    def passes(self, call: Call, /) -> Iterable[Pass]:
        """What a step takes to run."""
        return LAUNCHES[call.step.name](call)


def laid_out(bound: Program, words: Any, base: int) -> None:
    """Fill words with parameters, records and tables as they are to lie at an address; parameters get theirs."""
    layout = layout_of(bound)
    for word, source in layout.links:
        words[word] = words[source]
    for word, place in layout.moves:
        words[word] = base + 8 * place
    for word, number, several in layout.functions:
        words[word] = 0 if several else number
    for site in bound.calls.values():
        bound.parameters[site.slot] = words[site.slot]
