"""Stages: launches that were noted once, and can be launched again for other arrays, without a program.

A :class:`Stage` says what is launched in terms of *places*: of arrays that are there, of those that launches make, and
of numbers; and of numbers of sizes.  A :class:`Listener` notes stages while an evaluation takes the general way; who
listens says what is where: recipes by the structure of a graph (:mod:`.recipes`), recordings by their arguments
(:mod:`.recorder`).  :func:`run` launches them again, with all that is told, checked and booked meanwhile; where none of
that is wanted, the compiled form of :mod:`.recipes` has a faster way.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..codegen.program import Program
from ..codegen.records import layout_of, literal_bits
from ..codegen.signature import Slot, slots_of
from ..codegen.target import Target
from ..flags import KERNEL_HISTORY, LAUNCH_BLOCKING, state
from ..ir.node import Node
from ..ops.steps import Step
from ..ops.table import LITERAL, UNDEFINED
from ..types import TYPES
from . import bounds, history, steps
from .backend import Binding, KernelBackend, LoadedKernel
from .buffer import Buffer

__all__ = ["Listener", "Made", "Stage", "Tables", "note_releases", "run"]


class Made(NamedTuple):
    """An array that launches make."""

    place: int
    type: int
    size: int
    number: int  # of its size; -1 if that stays the same


class Tables(NamedTuple):
    """A scatter-reduction with tables."""

    slot: int  # the parameter with their address; the next one is the bytes of a table
    target: int  # place
    op: int
    result: int  # place of what the target contains afterwards


@dataclass(slots=True, eq=False)
class Stage:
    """One launch: of a kernel, of a step, or of neither, where there is only memory to be allocated."""

    kernel: LoadedKernel | None = None
    course: Any = None
    units: int = 1
    unit: int = 1
    width: int = -1  # number of the size that the units are; -1: they are always the same
    #: Parameters, as far as they are always the same; behind them, if there are calls, those of their targets, and the
    #: tables of the calls (see :class:`~drjit_core.codegen.records.Layout`).
    words: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # whose bits or address each word is; -1: none's
    count: int = 0  # parameters of the kernel itself
    firsts: list[int] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)
    moves: list[tuple[int, int]] = field(default_factory=list)
    functions: list[tuple[int, int, bool]] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)  # places
    slots: list[int] = field(default_factory=list)  # parameters with their addresses
    undefined: list[int] = field(default_factory=list)  # places of arrays without contents, which get memory before
    #: (Place of an array after a write, place of the one before), in order, if they have places of their own.
    written: list[tuple[int, int]] = field(default_factory=list)
    tables: list[Tables] = field(default_factory=list)
    # for people: numbers of arrays, and what debug mode checks
    arrays: tuple[int, int] = (0, 0)  # inputs, outputs
    accesses: list[bounds.Access] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)  # numbers of the sizes of what they access
    reports: list[tuple[int, int]] = field(default_factory=list)  # (parameter, number of accesses) of each part
    # of a step
    step: Step | None = None
    operands: list[int] = field(default_factory=list)  # places
    positions: list[int] = field(default_factory=list)  # of its results, which are the outputs
    releases: list[int] = field(default_factory=list)  # places that nothing needs afterwards
    loaded: Any = None  # what the compiled form has made of it

    def used(self) -> set[int]:
        """The places that it looks at."""
        found = {*self.outputs, *self.undefined, *self.operands, *self.places}
        for pair in self.written:
            found.update(pair)
        for each in self.tables:
            found.update((each.target, each.result))
        found.discard(-1)
        return found


def note_releases(stages: Sequence[Stage], kept: Iterable[int] = ()) -> set[int]:
    """Find out after which stage each place is needed no more, but those that are kept; returns all that are used."""
    known = set(kept)
    for stage in reversed(stages):
        used = stage.used()
        stage.releases = sorted(used - known)
        known |= used
    return known


class Listener:
    """Makes stages of the launches of an evaluation."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.made: list[Made] = []
        self._undefined: list[int] = []
        self._begun = Stage()

    # What is where.

    def place_of(self, node: Node) -> int:
        """The place of an array that is there, or of a write."""
        raise NotImplementedError

    def place_of_output(self, node: Node, program: Program | None) -> int:
        """The place of an array that a program, or a step, computes."""
        raise NotImplementedError

    def source_of(self, program: Program, slot: Slot) -> int:
        """The place whose bits or address a parameter is; -1 if it stays the same."""
        raise NotImplementedError

    def width_of(self, program: Program) -> int:
        """The number of the size that a program goes over, -1 if it stays the same; what was decided by sizes is
        noted."""
        raise NotImplementedError

    def writes_of(self, program: Program) -> list[tuple[int, int]]:
        """(Place of an array after a write, place of the one before), of what is written in place."""
        return []

    # Told by those who launch.

    def allocated(self, node: Node) -> None:
        """An array without contents has got memory."""
        self._undefined.append(self.place_of(node))

    def begin(self, program: Program, kernel: LoadedKernel) -> None:
        """A program is about to be launched."""
        layout = layout_of(program)
        width = self.width_of(program)
        stage = self._begun = Stage(kernel, kernel.course(program), program.units, program.unit, width)
        stage.words, stage.firsts, stage.links = layout.words, layout.firsts, layout.links
        stage.moves, stage.functions, stage.count = layout.moves, layout.functions, len(program.parameters)
        stage.places = [self.source_of(part, slot) for part in layout.parts for slot in slots_of(part)]
        stage.places += [-1] * (len(stage.words) - len(stage.places))
        outputs = [*program.stores, *program.reductions]
        stage.undefined, self._undefined = self._undefined, []
        stage.outputs = [self.place_of_output(node, program) for node in outputs]
        stage.slots = [program.slots[node.id] for node in outputs]
        stage.written = self.writes_of(program)
        stage.tables = [Tables(program.tables[node.id], self.place_of(node.d0), node.attr,  # type: ignore[arg-type]
                               self.place_of_output(node, program))
                        for node in program.scatters if node.id in program.tables]
        stage.arrays = len(program.inputs), len(outputs) + len(program.scatters)
        if program.checked:
            stage.accesses = bounds.accesses_of(program)
            stage.reports = [(first + slot, count) for first, (slot, count)
                             in zip(layout.firsts, bounds.parts_of(program), strict=True) if count]

    def end(self, program: Program) -> None:
        """A program has been launched, and its outputs are evaluated."""
        self.stages.append(self._begun)

    def begin_step(self, step: Step, operands: Sequence[Node], results: Sequence[Node]) -> None:
        """A step is about to be launched."""
        self._begun = Stage(step=step, undefined=self._undefined, positions=[node.attr for node in results],
                            operands=[self.place_of(node) for node in operands],
                            outputs=[self.place_of_output(node, None) for node in results])
        self._undefined = []

    def end_step(self, results: Sequence[Node]) -> None:
        """A step has been launched, and its results are evaluated."""
        self.stages.append(self._begun)


# --- launching again -------------------------------------------------------------------------------------------------


def run(backend: KernelBackend, stages: Sequence[Stage], nodes: list[Any], sizes: Sequence[int]) -> None:
    """Launch stages for nodes, by their places, and sizes, by their numbers.  The caller holds the lock."""
    target = backend.target()
    for stage in stages:
        for place in stage.undefined:
            node: Node = nodes[place]
            if node.kind == UNDEFINED:
                node.become_evaluated(_memory(backend, node))
        if stage.step is not None:
            _run_step(backend, stage, nodes)
        elif stage.kernel is not None:
            _run_kernel(backend, target, stage, stage.kernel, nodes, sizes)
        for place in stage.releases:
            nodes[place] = None


def _memory(backend: KernelBackend, node: Node) -> Buffer:
    return backend.allocate(node.size * TYPES[node.type].size)


def _run_step(backend: KernelBackend, stage: Stage, nodes: list[Any]) -> None:
    """Run a step."""
    assert stage.step is not None
    results = {position: steps.Stored(nodes[place].type, nodes[place].size, _memory(backend, nodes[place]))
               for position, place in zip(stage.positions, stage.outputs, strict=True)}
    operands = [nodes[place] for place in stage.operands]
    steps.run(backend, stage.step, [steps.Stored(node.type, node.size, node.payload) for node in operands], results)
    for position, place in zip(stage.positions, stage.outputs, strict=True):
        nodes[place].become_evaluated(results[position].buffer)


def _run_kernel(backend: KernelBackend, target: Target, stage: Stage, kernel: LoadedKernel, nodes: list[Any],
                sizes: Sequence[int]) -> None:
    """Launch a kernel."""
    flags, keep = state.flags, list[Any]()
    units = stage.units if stage.width < 0 else sizes[stage.width]
    width = units * stage.unit
    tables = [backend.fill_tables(target, nodes[each.target], each.op) for each in stage.tables]
    kernel.reuse(width)
    words, used = array("Q", stage.words), list[Buffer]()
    if stage.width >= 0:
        for first in stage.firsts:
            words[first] = units
    for number, place in enumerate(stage.places):
        if place < 0:
            continue
        node = nodes[place]
        if node.kind == LITERAL:
            words[number] = literal_bits(node.type, node.payload)
        else:
            used.append(node.payload)
            words[number] = node.payload.address
    keep += [buffer for buffer in used if buffer.read_only]  # not from the allocator
    outputs = [(nodes[place], _memory(backend, nodes[place])) for place in stage.outputs]
    for slot, (_, buffer) in zip(stage.slots, outputs, strict=True):
        words[slot] = buffer.address
        used.append(buffer)
    if kernel.reductions:
        partials = backend.allocate(kernel.partial_bytes(units, stage.unit))
        words[1] = partials.address
        used.append(partials)
    for each, filled in zip(stage.tables, tables, strict=True):
        words[each.slot], words[each.slot + 1] = filled.words
        used.append(filled.whole.payload)
    report: bounds.Report | None = None
    if stage.accesses:
        report = bounds.Report(backend, [access._replace(size=sizes[number]) if number >= 0 else access
                                         for access, number in zip(stage.accesses, stage.limits, strict=True)])
        for number, address in zip([slot for slot, _ in stage.reports], report.parts(stage.reports), strict=True):
            words[number] = address
        keep.append(report)
    for number, other in stage.links:
        words[number] = words[other]
    for number, function, records in stage.functions:
        words[number] = kernel.function_address(function, records)
    base = words.buffer_info()[0]
    for number, other in stage.moves:
        words[number] = base + words.itemsize * other
    keep.append(words)
    launched = kernel.launch(Binding(words.tolist()[:stage.count], units, stage.unit), stage.course, keep,
                             flags & KERNEL_HISTORY != 0)
    history.tell(kernel, True, width, *stage.arrays, 0.0)
    try:
        _commit(outputs, used, report, backend.submit(launched))
    except BaseException:
        if launched.begun:  # it was interrupted (Ctrl-C) when the kernel had been submitted, which uses this memory
            _commit(outputs, used, report, backend.submitted())
        raise
    for each, filled in zip(stage.tables, tables, strict=True):
        nodes[each.result].become_evaluated(backend.merge_tables(target, filled))
    if flags & LAUNCH_BLOCKING:
        backend.wait()
    if flags & KERNEL_HISTORY:
        history.record(backend, kernel, True, launched, width, *stage.arrays, 0.0)


def _commit(outputs: Sequence[tuple[Node, Buffer]], used: Sequence[Buffer], report: bounds.Report | None,
            ticket: int) -> None:
    """Note that a launch uses some buffers, and may report something, and that its outputs have values; may be
    repeated."""
    if report is not None:
        bounds.expect(report, ticket)
    for buffer in used:
        buffer.ticket = ticket
    for node, buffer in outputs:
        node.become_evaluated(buffer)
