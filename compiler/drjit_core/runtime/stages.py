"""Stages: launches that were noted once, and can be launched again for other arrays, without a program.

A :class:`Stage` says what is launched in terms of *places*: of arrays that are there, of those that launches make, and
of numbers; and of numbers of sizes.  A :class:`Listener` notes stages while an evaluation takes the general way; who
listens says what is where: recipes by the structure of a graph (:mod:`.recipes`), recordings by their arguments
(:mod:`.recorder`).  :mod:`.relaunch` launches them again, with all that is told, checked and booked meanwhile; where
none of that is wanted, the compiled form of :mod:`.recipes` has a faster way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..codegen.program import Program
from ..codegen.records import Layout, layout_of
from ..codegen.signature import Decision, Slot, decisions_of, slots_of
from ..ir.node import Node
from ..ir.region import CONTROL
from ..ops.steps import Step
from ..ops.table import ACCESS, COUNTER, EVALUATED, SCATTER, UNDEFINED
from . import bounds
from .backend import LoadedKernel

__all__ = ["Facts", "Listener", "Made", "Stage", "Tables", "facts_of", "leaves_of", "note_releases", "place_tables"]


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


class Facts(NamedTuple):
    """What a recording has to know of a program besides its parameters; of some nodes, or of their places."""

    is_flat: bool
    leaves: list[Any] | None  # what has as many elements as it goes over; None: it is for arrays of these sizes
    decisions: list[Decision]  # what was decided by sizes
    targets: list[Any]  # what it writes to in place
    writes: list[Any]  # what becomes of that
    sensitive: bool  # whether it depends on there being one thread, or several

    def having(self, found: Callable[[Any], Any]) -> Facts:
        """The same with something else in the place of each node."""
        return Facts(self.is_flat, None if self.leaves is None else [found(node) for node in self.leaves],
                     [decision if decision.memory is None else decision._replace(memory=found(decision.memory))
                      for decision in self.decisions],
                     [found(node) for node in self.targets], [found(node) for node in self.writes], self.sensitive)

    def used(self) -> set[Any]:
        """All that it is about."""
        return {*(self.leaves or ()), *self.targets, *self.writes,
                *(decision.memory for decision in self.decisions if decision.memory is not None)}


def leaves_of(order: Iterable[Node], width: int) -> list[Node]:
    """What gives a flat program its width."""
    return [node for node in order if node.size == width and (
        node.kind in (EVALUATED, COUNTER, ACCESS) or node.kind <= UNDEFINED)]


def facts_of(program: Program) -> Facts:
    """What is to be known of a program."""
    targets: list[Node] = []
    for node in (*program.scatters, *program.order):
        if node.kind == SCATTER:
            target = node
            while target.kind == SCATTER:
                assert target.d0 is not None
                target = target.d0
            if node.id not in program.tables:
                targets.append(target)
        elif node.kind in CONTROL and node.payload.writes:
            targets += [memory for memory in node.payload.memory() if memory.id not in program.tables]
    is_flat = program.domain.is_flat
    return Facts(
        is_flat, leaves_of(program.order, program.width) if is_flat and not program.short else None,
        list(decisions_of(program)), targets, [*program.scatters, *(node for node, *_ in program.tabled)],
        any(getattr(each, "strategies", None) for each in bounds.with_targets(program)))  # what is alike has none


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
    facts: Facts | None = None  # of a recipe, by places

    def described(self) -> tuple[Any, ...]:
        """What is equal for two stages that launch the same for arguments of any size."""
        free = {*self.slots, *(self.firsts if self.width >= 0 else ()), *(slot for slot, _ in self.reports)}
        words = [word for position, word in enumerate(self.words) if position not in free and (
            position >= len(self.places) or self.places[position] < 0)]
        return (id(self.kernel), self.units if self.width < 0 else None, self.unit, self.width, words, self.places,
                self.count, self.firsts, self.links, self.moves, self.functions, self.outputs, self.slots,
                self.undefined, self.written, self.tables, self.step, self.operands, self.positions)

    def used(self) -> set[int]:
        """The places that it looks at."""
        found = {*self.outputs, *self.undefined, *self.operands, *self.places}
        for pair in self.written:
            found.update(pair)
        for each in self.tables:
            found.update((each.target, each.result))
        if self.facts is not None:
            found |= self.facts.used()
        found.discard(-1)
        return found


def place_tables(kernel: LoadedKernel, layout: Layout | Stage, words: Any, keep: list[Any]) -> None:
    """Finish parameters and the tables of calls behind them, where a launch will find them; ``keep`` gets what must
    live as long."""
    for word, other in layout.links:
        words[word] = words[other]
    for word, number, several in layout.functions:
        words[word] = kernel.function_address(number, several)
    kernel.place(words, layout.moves, keep)


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
        stage.tables = [Tables(program.tables[node.id], self.place_of(memory), op, self.place_of_output(node, program))
                        for node, memory, op in program.tabled]
        stage.arrays = len(program.inputs), len(outputs) + len(program.scatters)
        if program.checked:
            stage.accesses = bounds.accesses_of(program)
            stage.reports = [(first + slot, count) for first, (slot, count)
                             in zip(layout.firsts, bounds.parts_of(program), strict=True) if count]

    def end(self) -> None:
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
