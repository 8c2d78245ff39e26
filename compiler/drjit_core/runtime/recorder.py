"""Recording: what a program launches is noted in terms of its arguments.

A :class:`Recorder` listens while a function of arrays is traced and evaluated, and makes :mod:`.stages` of its
launches: arrays are places (of arguments, of what was captured, of what launches allocate), sizes and scalars are
expressions over the arguments (:mod:`drjit_core.ir.extents`), and what was decided by a size is a guard.

Arguments that are literals become constants of unknown value, so that nothing is decided by them.  Contents of arrays
decide nothing either: reading them while recording is refused, but for numbers of elements that launches find, which
replays read as well, before they go on.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..codegen.program import Program
from ..codegen.records import literal_bits
from ..codegen.signature import Role, Slot
from ..codegen.target import Target
from ..ir import build
from ..ir.extents import Content, Expression, Extent, Guard, Operation, Size, Terms, Value, words
from ..ir.holders import held_elsewhere
from ..ir.node import SHAPE, Node, new_id, new_node
from ..ir.region import CONTROL, arguments_of
from ..ir.symbolic import call_site
from ..ir.vertex import last_vertex
from ..ops import semantics
from ..ops.steps import STEPS, Step
from ..ops.table import (
    ACCESS,
    BOUND,
    COUNTER,
    DUAL,
    EVALUATED,
    FETCH,
    FIRST_ELEMENTWISE,
    INVALID,
    IS_INDEXED,
    LITERAL,
    REDUCE,
    RESULT,
    SCATTER,
    UNDEFINED,
)
from ..types import TYPES, UINT64
from . import bounds
from .backend import KernelBackend, LoadedKernel
from .buffer import Buffer
from .stages import Facts, Listener, Made, Stage, Tables, facts_of

__all__ = ["Constant", "HostCall", "Reading", "Recorder"]


class _Places:
    """The places of buffers, which may go, and leave their identities to others."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Buffer], int]] = {}

    def get(self, buffer: Buffer) -> int | None:
        """The place of a buffer, if it has one."""
        found = self._known.get(id(buffer))
        return found[1] if found is not None and found[0]() is buffer else None

    def __setitem__(self, buffer: Buffer, place: int) -> None:
        self._known[id(buffer)] = weakref.ref(buffer), place


class Constant(NamedTuple):
    """A result that is a literal."""

    type: int
    value: int  # number of a term
    size: int  # number of a term
    attr: int


class Reading(NamedTuple):
    """Replays read a number of elements, which launches have found, before they go on."""

    stage: int  # how many stages there are before
    place: int
    value: int  # what there was


class HostCall(NamedTuple):
    """Replays call a function of the host, which looks at arrays and makes others, before they go on."""

    stage: int  # how many stages there are before
    function: Callable[[Sequence[Node]], Sequence[Node]]
    operands: tuple[int, ...]  # places
    results: tuple[tuple[int, int, int], ...]  # (place, type, size)


class Recorder(Listener):
    """Listens to the evaluations of this thread.

    Places are those of the arguments, in their order, and behind them of all else: captured arrays, numbers, and what
    the launches make.
    """

    def __init__(self, arguments: Sequence[Node], backend: KernelBackend, target: Target,
                 donated: Container[int] = (), presumes: bool = False) -> None:
        super().__init__()
        self.backend = backend
        self.target = target
        #: Whether some program depends on there being one thread, or several.
        self.sensitive = False
        #: Derivatives of what was there before are no part of the recording.
        self.last_vertex = last_vertex()
        #: The ids of vertices at which derivatives have begun to flow forward, and of those beyond the boundary of a
        #: scope that some have flowed to, or could have.
        self.started: set[int] = set()
        self.reached: set[int] = set()
        #: What was decided by sizes; extents add to it.
        self.guards: list[Guard] = []
        #: Numbers of elements, for nodes whose size follows from the arguments.
        self.sizes: dict[int, Expression] = {}
        #: The expressions that replays evaluate.
        self.terms = Terms()
        #: What the host does between launches.
        self.pauses: list[Reading | HostCall] = []
        self.numbers: list[tuple[int, int, int]] = []  # (place, type, term) of numbers that are parameters
        self.captured: dict[int, Node] = {}  #: Captured arrays, by place: inputs of each replay.
        self.extents: list[Expression | None] = [None] * len(arguments)  # numbers of elements, by place
        self._values: dict[int, Expression] = {}  # of constants of unknown value
        self._places = _Places()
        self._own: set[int] = set()  # places of what the launches allocate, and may write to
        self._outputs: list[tuple[Node, int]] = []  # of what is being launched
        self._width: Expression = 1
        self._facts: Facts  # of what is being launched
        self._held: list[Node] = []  # makes them be copied before they are written to
        self._arguments: dict[int, int] = {}  # node id -> place
        #: Arguments that are written to in place, and what became of those that may be.
        self.written: set[int] = set()
        self._donated: list[weakref.ref[Node]] = []
        self._arguments_at_hand = [(node.type, node.size) for node in arguments]
        #: What numbers of elements are presumed to be that are plain numbers: the sizes of arguments that have as many,
        #: or else of what has been computed.
        self._presumed: dict[int, list[Expression]] = {}
        self._presumes = presumes
        self._relied_on: set[int] = set()
        for number, node in enumerate(arguments):
            self.presume(node.size, Size(number))
        #: What the function gets for its arguments, and what was given, by the ids of that.
        self.given: dict[int, Node] = {}
        self.actuals = self._given(arguments, donated)

    def _given(self, arguments: Sequence[Node], donated: Container[int]) -> list[Any]:
        """What the function gets for its arguments: nodes of their own, as others mean the arrays at hand."""
        actuals: list[Any] = []
        arrays: dict[int, Node] = {}
        memory = Counter(node.payload for node in arguments if node.kind == EVALUATED) if donated else {}
        for number, node in enumerate(arguments):
            actual = node
            if node.kind == LITERAL:
                actual = self.number(node.type, node.payload, Value(number))
                actual.size = node.size
            elif node.kind != INVALID:
                known = arrays.get(node.id)
                actual = known or build.evaluated(node.type, node.size, node.payload, node.where)
                if known is None:
                    arrays[node.id] = actual
                    self._arguments[actual.id] = number
                    self.extents[number] = Size(number)
            if node.size > 1:
                self.sizes.setdefault(actual.id, Size(number))
            self.given[actual.id] = node
            if number not in donated:
                actuals.append(actual)
                continue
            actuals.append([actual])
            if node.kind == EVALUATED and memory[node.payload] == 1 and not (
                    node.payload.read_only or node.payload.exported):
                self._donated.append(weakref.ref(actual))
                self._places[node.payload] = number
                self._own.add(number)
        return actuals

    def presume(self, size: int, expression: Expression) -> None:
        """Let a plain number be an expression. If others have the same value, they must have that in each replay."""
        if self._presumes and size > 1:
            known = self._presumed.setdefault(size, [])
            if expression not in known:
                known.append(expression)
                if size in self._relied_on:
                    self._unified((known[0], expression))

    def _presume_of(self, size: int) -> Expression:
        """What a plain number is presumed to be."""
        known = self._presumed.get(size)
        if not known:
            return size
        if size not in self._relied_on:
            self._relied_on.add(size)
            self._unified(known)
        return known[0]

    @property
    def argument_sizes(self) -> list[int]:
        """How large the arguments at hand are."""
        return [size for _, size in self._arguments_at_hand]

    def take_back(self) -> None:
        """Copy what the function has kept of its arguments: two nodes of one buffer would not know of each other."""
        for reference in self._donated:
            kept = reference()
            if kept is not None and kept.kind == EVALUATED:
                kept.payload = kept.payload.backend.copy(kept.payload)
        self.actuals = list(dict.fromkeys(each for each in self.actuals if isinstance(each, Node)))
        while self.actuals:
            if self.actuals[-1].id in self._arguments and held_elsewhere(self.actuals[-1]):
                buffer = self.actuals[-1].payload
                self.actuals[-1].payload = buffer.backend.copy(buffer)
            self.actuals.pop()

    def _new(self, size: Expression | None) -> int:
        self.extents.append(size)
        return len(self.extents) - 1

    def _made(self, node: Node) -> int:
        """The place of an array that a launch, or nobody but its memory, makes."""
        size = self.sizes.get(node.id)
        if size is None:
            size = self._presume_of(node.size)
        place = self._new(size)
        self._own.add(place)
        self.made.append(Made(place, node.type, node.size, self._number(size)))
        return place

    def _number(self, size: Expression) -> int:
        """The number of a size, -1 if it stays the same."""
        return -1 if isinstance(size, int) else self.terms.number(size)

    # Asked by those who make leaves, and by whoever wants to know a size.

    def number(self, type_: int, value: Any, expression: Expression) -> Node:
        """A constant of unknown value."""
        node: Node = new_node(Node)
        node.kind, node.type, node.size, node.id = BOUND, type_, 1, new_id()
        node.d0 = node.d1 = node.d2 = node.d3 = None
        node.attr, node.where, node.payload, node.scope = 0, 0, semantics.normalise(type_, value), 0
        self._values[node.id] = expression
        return node

    def scalar(self, node: Node) -> Any:
        """The value of an argument that is a literal, as a number that remembers that."""
        expression = self._values.get(node.id)
        return node.payload if expression is None else Extent(node.payload, expression, self.guards)

    def extent(self, node: Node) -> Any:
        """Number of elements of a node; an :class:`Extent` if it follows from the arguments."""
        if node.size <= 1:
            return node.size
        expression = self.expression(node)
        return node.size if isinstance(expression, int) else Extent(node.size, expression, self.guards)

    def common_extent(self, size: int, nodes: Iterable[Node]) -> Any:
        """The number of elements of those nodes that have so many, as :meth:`extent` gives it."""
        expression = self._unified([self.expression(node) for node in nodes if node.size == size] or [size])
        return size if isinstance(expression, int) else Extent(size, expression, self.guards)

    def expression(self, node: Node) -> Expression:
        """The expression of a node's number of elements: that of the leaves that have as many."""
        if node.kind == DUAL and node.d0 is not None:
            node = node.d0
        found = self.sizes.get(node.id)
        if found is not None or node.size <= 1:
            return node.size if found is None else found
        leaves: list[Expression] = []
        inner: list[int] = []  # ids of what has the same expression, since guards say that those of leaves are equal
        stack, seen, size, all_follow = [node], {node.id}, node.size, True
        while stack:
            part = stack.pop()
            known = self.sizes.get(part.id)
            if known is not None:
                leaves.append(known)
            elif part.kind == EVALUATED:
                place = self._places.get(part.payload)
                known = None if place is None else self.extents[place]
                leaves.append(part.size if known is None else known)
            elif part.kind <= UNDEFINED or part.kind in (COUNTER, ACCESS, REDUCE):
                leaves.append(self._presume_of(part.size))
            else:
                inner.append(part.id)
                operands = [operand for operand in _sized_alike(part) if operand is not None and operand.size == size]
                all_follow = all_follow and bool(operands)
                for operand in operands:
                    if operand.id not in seen:
                        seen.add(operand.id)
                        stack.append(operand)
        result = self.sizes[node.id] = self._unified(leaves) if leaves else self._fixed(size)
        if all_follow:
            self.sizes.update(dict.fromkeys(inner, result))
        return result

    def _fixed(self, size: int) -> Expression:
        """A size of which is not known what it follows from: nothing but arguments of these sizes will do."""
        if size in self._presumed:
            return self._presume_of(size)
        for number, (_, found) in enumerate(self._arguments_at_hand):
            if found > 1:
                self.guards.append(Guard(Size(number), found, found, f"{words(Size(number))} == {found}"))
        return size

    def _unified(self, expressions: Iterable[Expression]) -> Expression:
        """One of several expressions that have the same value now, which becomes a guard."""
        different = list(dict.fromkeys(expressions))
        if len(different) == 1:
            return different[0]
        different.sort(key=lambda expression: isinstance(expression, int))  # one that is known for all arguments
        first = different[0]
        for other in different[1:]:
            equal = f"{words(first)} == {words(other)}"
            self.guards.append(Guard(Operation(operator.sub, (first, other)), 0, 0, equal))
        return first

    def read(self, node: Node, value: int) -> Extent:
        """A number of elements that was read from an evaluated node."""
        self.pauses.append(Reading(len(self.stages), self.place_of(node), value))
        return Extent(value, Content(len(self.pauses) - 1), self.guards)

    def called(self, function: Callable[[Sequence[Node]], Sequence[Node]], operands: Sequence[Node],
               results: Sequence[Node]) -> None:
        """A function of the host has looked at evaluated arrays, and made others in memory of their own: replays call
        it again, for arrays of these sizes."""
        for node in operands:
            size = self.expression(node)
            if not isinstance(size, int):
                self.guards.append(Guard(size, node.size, node.size, f"{words(size)} == {node.size}"))
            self._fixed(node.size)
        places = []
        for node in results:
            place = self._places[node.payload] = self._new(node.size)
            self._own.add(place)
            places.append((place, node.type, node.size))
        self.pauses.append(HostCall(len(self.stages), function, tuple(map(self.place_of, operands)), tuple(places)))

    # Told by those who evaluate.

    def require(self, backend: Any) -> None:
        """Raise if something is to be done on another backend than that of the recording."""
        if backend is not self.backend:
            raise RuntimeError(
                f"{call_site('eval')}(): this program is being recorded for the backend '{self.backend.name}', and "
                f"evaluates arrays of the backend '{backend.name}': a replay launches on one backend only. Evaluate "
                "these arrays outside, or record each part by itself.")

    def keep(self, node: Node) -> None:
        """An array has been imported: a constant, which must not change."""
        self._held.append(node)

    def allocated(self, node: Node) -> None:
        """An array without contents has got memory."""
        self.require(node.payload.backend)
        place = self._places[node.payload] = self._made(node)
        self._undefined.append(place)

    def place_of(self, node: Node) -> int:
        """The place of an evaluated node; one that is not known is captured."""
        place = self._arguments.get(node.id)
        if place is None:
            place = self._places.get(node.payload)
        if place is None:
            place = self._places[node.payload] = self._new(node.size)
            self.captured[place] = node
        return place

    def place_of_output(self, node: Node, program: Program | None) -> int:
        """A place for what is computed."""
        if program is None or node.id in program.tables:
            return self._computed(node, self.expression(node))
        return self._computed(node, self._width if program.domain.is_flat else node.size)

    def _computed(self, node: Node, size: Expression) -> int:
        """A place for what is computed, which has some size unless it is one element."""
        self.sizes[node.id] = node.size if node.size == 1 or node.kind == REDUCE else size
        place = self._made(node)
        self._outputs.append((node, place))
        return place

    def source_of(self, program: Program, slot: Slot) -> int:
        """The place whose bits or address a parameter is; -1 if it stays the same."""
        role, node = slot.role, slot.node
        if node is None:
            return -1
        if role is Role.LITERAL or role is Role.INPUT or role is Role.MEMORY:
            return self._source(node)
        if role is Role.LIMIT and node.d0 is not None:
            size = self.expression(node.d0)
            return -1 if isinstance(size, int) else self._parameter(UINT64, size)
        return -1

    def _source(self, node: Node) -> int:
        """The place whose bits or address a literal or an array is; -1 if it stays the same."""
        if node.kind == EVALUATED:
            return self.place_of(node)
        value = self._values.get(node.id)
        if value is None:
            return -1
        if isinstance(value, Value) and self._arguments_at_hand[value.argument][0] == node.type:
            return value.argument
        return self._parameter(node.type, value)

    def _parameter(self, type_: int, value: Expression) -> int:
        """The place of a number."""
        term = self.terms.number(value)
        for place, other, known in self.numbers:
            if (other, known) == (type_, term):
                return place
        self.numbers.append((self._new(None), type_, term))
        return self.numbers[-1][0]

    def width_of(self, program: Program) -> int:
        """The number of the size that a program goes over; guards are noted."""
        return self._enter_facts(program.target, self._facts, program.units * program.unit)

    def _enter_facts(self, target: Target, facts: Facts, size: int) -> int:
        """Begin with a program that goes over some number of elements, of which something is known; returns the number
        of the width."""
        self._refuse_foreign_writes(facts.targets)
        self.sensitive = self.sensitive or facts.sensitive
        self._require_target(target)
        width: Expression = 1
        if facts.leaves is None:  # views were traced before, of arrays of these sizes
            width = self._fixed(size)
        elif size > 1:
            width = self._unified([self.expression(node) for node in facts.leaves] or [self._presume_of(size)])
        for decision in facts.decisions:
            quantity = width if decision.memory is None else self.expression(decision.memory)
            if not isinstance(quantity, int):
                self.guards.append(Guard(quantity, decision.low, decision.high, f"{decision.what}: {words(quantity)}"))
        self._width = width
        return self._number(width)

    def _require_target(self, target: Target) -> None:
        """Let the recording be good for nothing if programs are for something else than when it began."""
        if target is not self.target and target != self.target:
            reason = "the number of threads, or what else it runs on, has changed while it was recorded"
            self.guards.append(Guard(0, 1, 1, reason))

    def begin_known(self, target: Target, stage: Stage, facts: Facts, sources: Iterable[tuple[int, Node]],
                    outputs: Sequence[Node], tables: Iterable[tuple[int, Node, int, Node]] = ()) -> None:
        """A kernel is about to be launched of which there is no program: what :meth:`begin` notes of one.

        The ``stage`` has what does not depend on where arrays are; ``sources`` are parameters, and the nodes that these
        are the bits or the addresses of; ``tables`` are as in stages.
        """
        stage.width = self._enter_facts(target, facts, stage.units * stage.unit)
        stage.places = [-1] * len(stage.words)
        for number, node in sources:
            stage.places[number] = self._source(node)
        stage.undefined, self._undefined = self._undefined, []
        stage.outputs = [self._computed(node, self._width if facts.is_flat else node.size) for node in outputs]
        stage.tables = [Tables(slot, self.place_of(memory), op, self._computed(node, self.expression(node)))
                        for slot, memory, op, node in tables]
        self._begun = stage
        self._note_writes(facts)

    def begin_again(self, target: Target, known: Stage, facts: Facts, units: int, nodes: Mapping[int, Node]) -> None:
        """The kernel of a stage of a recipe is about to be launched, over so many units, for nodes by their places."""
        parameters = list(known.words)
        if known.width >= 0:
            for first in known.firsts:
                parameters[first] = units
        sources = []
        for number, place in enumerate(known.places):
            if place >= 0:
                node = nodes[place]
                sources.append((number, node))
                if node.kind == LITERAL:
                    parameters[number] = literal_bits(node.type, node.payload)
        stage = Stage(known.kernel, known.course, units, known.unit, words=parameters, count=known.count,
                      firsts=known.firsts, links=known.links, moves=known.moves, functions=known.functions,
                      slots=known.slots, arrays=known.arrays)
        self.begin_known(target, stage, facts.having(nodes.__getitem__), sources,
                         [nodes[place] for place in known.outputs],
                         [(each.slot, nodes[each.target], each.op, nodes[each.result]) for each in known.tables])

    def begin(self, program: Program, kernel: LoadedKernel) -> None:
        """A program is about to be launched."""
        self._facts = facts_of(program)
        super().begin(program, kernel)
        if program.checked:
            self._begun.limits = [self._number(self.expression(check.access.d0))
                                  for each in bounds.with_targets(program) for check in each.checks.values()]
        self._note_writes(self._facts)
        del self._facts  # planning asks who holds nodes

    def _note_writes(self, facts: Facts) -> None:
        for node in facts.writes:
            self.sizes.setdefault(node.id, self.expression(node))

    def end(self) -> None:
        """A program has been launched, and its outputs are evaluated."""
        super().end()
        self._note_outputs()

    def begin_step(self, step: Step, operands: Sequence[Node], results: Sequence[Node]) -> None:
        """A step is about to be launched."""
        if not STEPS[step.name].ragged:
            self._guard_extents(step, operands, self.expression(operands[0]))
        super().begin_step(step, operands, results)

    def _guard_extents(self, step: Step, operands: Sequence[Node], size: Expression) -> None:
        """Let operands have the sizes that the extents of a step follow from, ``size`` that of the first one."""
        if 0 not in step.extents or len(operands) > 1:  # nobody knows what they follow from
            for node in operands:
                self._fixed(node.size)
        elif not isinstance(size, int):
            known = math.prod(extent for extent in step.extents if extent)
            if known > 1:
                self.guards.append(Guard(Operation(operator.mod, (size, known)), 0, 0,
                                         f"{words(size)} is a multiple of {known}"))

    def end_step(self, results: Sequence[Node]) -> None:
        """A step has been launched, and its results are evaluated."""
        super().end_step(results)
        self._note_outputs()

    def _note_outputs(self) -> None:
        for node, place in self._outputs:
            self._places[node.payload] = place
        self._outputs.clear()  # planning asks who holds nodes

    def finish(self) -> None:
        """The program has been recorded: what has got memory after the last launch gets it then."""
        if self._undefined:
            self.stages.append(Stage(undefined=self._undefined))

    def _refuse_foreign_writes(self, targets: Iterable[Node]) -> None:
        """Writing in place to what others see would happen again with each replay."""
        for target in targets:
            place = self._places.get(target.payload) if target.kind == EVALUATED else None
            if place is not None and place < len(self._arguments_at_hand) and place in self._own:
                self.written.add(place)
            elif target.kind == EVALUATED and place not in self._own:
                raise RuntimeError(
                    f"{call_site('eval')}(): this program is being recorded, and writes to an array that is neither "
                    f"one of its arguments nor made by it, {TYPES[target.type].name}[{target.size}]: each replay would "
                    "do so again. Pass the array as an argument, and return what becomes of it.")

    def refuse_host(self) -> None:
        """Raise, since the host wants to look at memory."""
        raise RuntimeError(
            f"{call_site('freeze')}(): this program is being recorded, and looks at the contents of an array: a replay "
            "would not do so. What it does must not depend on them: use dr.select, symbolic loops and branches, or "
            "look at the contents outside.")

    def result(self, node: Node) -> int | Constant | Node:
        """A result of the recorded function: a place, or a number; what is a node is the same each time."""
        if node.kind == EVALUATED:
            place = self.place_of(node)
            return node if place in self.captured else place
        if node.kind == LITERAL or node.kind == BOUND:
            size, value = self.expression(node), self._values.get(node.id, node.payload)
            if node.kind == LITERAL and isinstance(size, int):
                return node
            return Constant(node.type, self.terms.number(value), self.terms.number(size),
                            SHAPE if node.kind == BOUND else node.attr)
        return node  # without elements


def _sized_alike(node: Node) -> Sequence[Node | None]:
    """The operands that give a node its number of elements: those that have as many."""
    if node.kind >= FIRST_ELEMENTWISE:
        return node.d0, node.d1, node.d2
    if node.kind == SCATTER:
        return [node.d0]
    if IS_INDEXED[node.kind]:
        return arguments_of(node)
    if node.kind == FETCH:  # of a scatter-reduction, whose width it has
        assert node.d0 is not None
        return [node.d0.d1, node.d0.d2, node.d0.d3]
    if node.kind == RESULT and node.payload:
        assert node.d0 is not None
        return [node.d0.payload.origin(node.attr)]
    if node.kind in CONTROL:
        return [node.d0, node.d1, *node.payload.values()]
    return [node.d0, node.d1, node.d2, node.d3]
