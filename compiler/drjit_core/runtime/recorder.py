"""Recording: what a program launches is noted in terms of its arguments.

A :class:`Recorder` listens while a function of arrays is traced and evaluated.  Each launch becomes one whose
parameters can be bound anew: addresses are *variables* (arguments, what was captured, what launches allocate), sizes
and scalars are expressions over the arguments (:mod:`drjit_core.ir.extents`), and what was decided by a size is a
guard.

Arguments that are literals become constants of unknown value, so that nothing is decided by them.  Contents of arrays
decide nothing either: reading them while recording is refused.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..codegen.program import Program
from ..codegen.signature import Role, Slot, decisions_of, slots_of
from ..codegen.target import Target
from ..ir import build
from ..ir.extents import Expression, Extent, Guard, Operation, Size, Value, words
from ..ir.holders import held_elsewhere
from ..ir.node import SHAPE, Node, new_id, new_node
from ..ir.region import CONTROL, arguments_of
from ..ir.symbolic import call_site
from ..ir.vertex import last_vertex
from ..ops import semantics
from ..ops.steps import Step
from ..ops.table import (
    ACCESS,
    BOUND,
    COUNTER,
    EVALUATED,
    FETCH,
    INVALID,
    IS_INDEXED,
    LITERAL,
    RESULT,
    SCATTER,
    UNDEFINED,
)
from ..types import TYPES, UINT64
from . import bounds
from .backend import LoadedKernel
from .buffer import Buffer

__all__ = ["Address", "Array", "CallWords", "Constant", "Made", "Number", "RecordedLaunch", "RecordedStep", "Recorder",
           "Tables", "Words"]


class Address(NamedTuple):
    """The address of a variable."""

    variable: int


class Number(NamedTuple):
    """The bits of a number."""

    type: int
    expression: Expression


class Words(NamedTuple):
    """The parameters of a kernel or of a target of a call: values that stay, and what is entered by position."""

    words: list[int]
    sources: list[tuple[int, Address | Number]]
    key: bytes
    links: list[tuple[int, int]]
    calls: list[CallWords]


class CallWords(NamedTuple):
    """The table of a call, by its targets."""

    slot: int
    targets: list[Words]


class Made(NamedTuple):
    """A variable that a launch allocates, and where its address goes (nowhere, for memory without contents)."""

    variable: int
    type: int
    size: Expression
    slot: int


class Tables(NamedTuple):
    """A scatter-reduction with tables: its target, and the variable that gets the result."""

    slot: int
    target: int
    op: int
    type: int
    size: Expression
    result: int


class RecordedLaunch:
    """One launch, in terms of variables."""

    __slots__ = ("accesses", "bound", "course", "functions", "inputs", "kernel", "limits", "made", "outputs",
                 "releases", "reports", "shared", "tables", "unit", "used", "width")

    def __init__(self, kernel: LoadedKernel, program: Program, width: Expression, bound: Words) -> None:
        self.kernel = kernel
        self.width = width
        self.bound = bound
        self.course, self.unit = kernel.course(program), program.unit
        self.functions, self.shared = dict.fromkeys(program.functions), program.shared
        self.reports = bounds.parts_of(program)
        self.accesses = bounds.accesses_of(program)
        self.limits: list[Expression] = []  # sizes of what the accesses read and write
        self.inputs = len(program.inputs)
        self.outputs = len(program.stores) + len(program.reductions) + len(program.scatters)
        self.made: list[Made] = []
        self.tables: list[Tables] = []
        self.used: list[int] = []  # variables
        self.releases: list[int] = []  # those that nothing needs afterwards


class RecordedStep:
    """A step, in terms of variables."""

    __slots__ = ("made", "operands", "releases", "results", "step", "used")

    def __init__(self, step: Step, operands: list[Array], undefined: list[Made]) -> None:
        self.step = step
        self.operands = operands
        self.made = undefined
        self.results: dict[int, Array] = {}  # by position
        self.used: list[int] = []  # variables
        self.releases: list[int] = []  # those that nothing needs afterwards


class Array(NamedTuple):
    """A result that is a variable."""

    variable: int
    type: int
    size: Expression


class Constant(NamedTuple):
    """A result that is a literal."""

    type: int
    value: Expression
    size: Expression
    attr: int


class Recorder:
    """Listens to the evaluations of this thread."""

    def __init__(self, arguments: Sequence[Node], target: Target) -> None:
        self._target = target
        #: Derivatives of what was there before are no part of the recording.
        self.last_vertex = last_vertex()
        #: What was decided by sizes; extents add to it.
        self.guards: list[Guard] = []
        #: Numbers of elements, for nodes whose size follows from the arguments.
        self.sizes: dict[int, Expression] = {}
        self.launches: list[RecordedLaunch | RecordedStep] = []
        #: Captured arrays, which are inputs of each replay.
        self.captured: dict[int, Node] = {}
        self._values: dict[int, Expression] = {}  # of constants of unknown value
        self._variables: weakref.WeakKeyDictionary[Buffer, int] = weakref.WeakKeyDictionary()
        self.extents: list[Expression] = []  # numbers of elements of the variables
        self._own: set[int] = set()  # variables that the launches allocate, and may write to
        self.undefined: list[Made] = []
        self._held: list[Node] = []  # makes them be copied before they are written to
        self._begun: RecordedLaunch | None = None
        self._step: RecordedStep | None = None
        self._arguments: dict[int, int] = {}  # node id -> variable
        self.actuals = self._given(arguments)
        #: The arguments, by the ids of what the function gets for them.
        self.given = {actual.id: node for actual, node in zip(self.actuals, arguments, strict=True)}
        #: Variables of the arguments, -1 for those that are not in memory.
        self.inputs = [self._arguments.get(actual.id, -1) for actual in self.actuals]

    def _given(self, arguments: Sequence[Node]) -> list[Node]:
        """What the function gets for its arguments: nodes of their own, as others mean the arrays at hand."""
        actuals: list[Node] = []
        arrays: dict[int, Node] = {}
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
                    self._arguments[actual.id] = len(self.extents)
                    self.extents.append(Size(number))
            if node.size > 1:
                self.sizes.setdefault(actual.id, Size(number))
            actuals.append(actual)
        return actuals

    def take_back(self) -> None:
        """Copy what the function has kept of its arguments: two nodes of one buffer would not know of each other."""
        self.actuals = list(dict.fromkeys(self.actuals))
        while self.actuals:
            if self.actuals[-1].id in self._arguments and held_elsewhere(self.actuals[-1]):
                buffer = self.actuals[-1].payload
                self.actuals[-1].payload = buffer.backend.copy(buffer)
            self.actuals.pop()

    def _variable(self, buffer: Buffer, size: Expression) -> int:
        variable = self._variables[buffer] = len(self.extents)
        self.extents.append(size)
        return variable

    # Asked by those who make leaves, and by whoever wants to know a size.

    def number(self, type_: int, value: Any, expression: Expression) -> Node:
        """A constant of unknown value."""
        node: Node = new_node(Node)
        node.kind, node.type, node.size, node.id = BOUND, type_, 1, new_id()
        node.d0 = node.d1 = node.d2 = node.d3 = None
        node.attr, node.where, node.payload, node.scope = 0, 0, semantics.normalise(type_, value), 0
        self._values[node.id] = expression
        return node

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
        found = self.sizes.get(node.id)
        if found is not None or node.size <= 1:
            return node.size if found is None else found
        leaves: list[Expression] = []
        stack, seen = [node], {node.id}
        while stack:
            part = stack.pop()
            known = self.sizes.get(part.id)
            if known is not None:
                leaves.append(known)
            elif part.kind == EVALUATED:
                variable = self._variables.get(part.payload)
                leaves.append(part.size if variable is None else self.extents[variable])
            elif part.kind <= UNDEFINED or part.kind == COUNTER or part.kind == ACCESS:
                leaves.append(part.size)
            else:
                for operand in _sized_alike(part, node.size):
                    if operand.id not in seen:
                        seen.add(operand.id)
                        stack.append(operand)
        result = self.sizes[node.id] = self._unified(leaves) if leaves else self._fixed(node.size)
        return result

    def _fixed(self, size: int) -> Expression:
        """A size of which is not known what it follows from: nothing but arguments of these sizes will do."""
        for number, node in enumerate(self.actuals):
            if node.size > 1:
                reason = f"{words(Size(number))} == {node.size}"
                self.guards.append(Guard(Size(number), node.size, node.size, reason))
        return size

    def _unified(self, expressions: Iterable[Expression]) -> Expression:
        """One of several expressions that have the same value now, which becomes a guard."""
        different = list(dict.fromkeys(expressions))
        different.sort(key=lambda expression: isinstance(expression, int))  # one that is known for all arguments
        first = different[0]
        for other in different[1:]:
            equal = f"{words(first)} == {words(other)}"
            self.guards.append(Guard(Operation(operator.sub, (first, other)), 0, 0, equal))
        return first

    # Told by those who evaluate.

    def keep(self, node: Node) -> None:
        """An array has been imported: a constant, which must not change."""
        self._held.append(node)

    def allocated(self, node: Node) -> None:
        """An array without contents has got memory."""
        size = self.sizes.get(node.id, node.size)
        variable = self._variable(node.payload, size)
        self._own.add(variable)
        self.undefined.append(Made(variable, node.type, size, 0))

    def begin(self, program: Program, kernel: LoadedKernel) -> None:
        """A program is about to be launched."""
        self._refuse_foreign_writes(program)
        if program.target != self._target:
            reason = "the number of threads, or what else it runs on, has changed while it was recorded"
            self.guards.append(Guard(0, 1, 1, reason))
        width: Expression = 1
        if not program.domain.is_flat or program.short:  # views were traced before, of arrays of these sizes
            width = self._fixed(program.units * program.unit)
        elif program.width > 1:
            width = self._unified([self.expression(node) for node in program.order if node.size == program.width and (
                node.kind in (EVALUATED, COUNTER, ACCESS) or node.kind <= UNDEFINED)] or [program.width])
        for decision in decisions_of(program):
            quantity = width if decision.memory is None else self.expression(decision.memory)
            if not isinstance(quantity, int):
                self.guards.append(Guard(quantity, decision.low, decision.high, f"{decision.what}: {words(quantity)}"))
        launch = self._begun = RecordedLaunch(kernel, program, width, self._words(program))
        launch.used = sorted({self._input(node) for node in program.inputs})
        for node in (*program.stores, *program.reductions):
            self.sizes[node.id] = 1 if node.size == 1 else width if program.domain.is_flat else node.size
        for each in bounds.with_targets(program):
            launch.limits += (self.expression(check.access.d0) for check in each.checks.values())
        for node in program.scatters:
            self.sizes[node.id] = self.expression(node)
            if node.id in program.tables:
                assert node.d0 is not None
                launch.tables.append(Tables(program.tables[node.id], self._input(node.d0), node.attr, node.type,
                                             self.sizes[node.id], -1))

    def end(self, program: Program) -> None:
        """A program has been launched, and its outputs are evaluated."""
        launch = self._begun
        assert launch is not None
        launch.made, self.undefined = self.undefined, []
        for node in (*program.stores, *program.reductions):
            size = self.sizes[node.id]
            launch.made.append(Made(self._new(node, size), node.type, size, program.slots[node.id]))
        merged = [node for node in program.scatters if node.id in program.tables]
        launch.tables = [tables._replace(result=self._new(node, tables.size))
                         for node, tables in zip(merged, launch.tables, strict=True)]
        launch.used = sorted({*launch.used, *(made.variable for made in launch.made)})
        self.launches.append(launch)
        self._begun = None

    def begin_step(self, step: Step, operands: Sequence[Node], results: Sequence[Node]) -> None:
        """A step is about to be launched."""
        sizes = [self.expression(node) for node in operands]
        if 0 not in step.extents or len(operands) > 1:  # nobody knows what its extents follow from
            for node in operands:
                self._fixed(node.size)
        elif not isinstance(sizes[0], int):
            known = math.prod(extent for extent in step.extents if extent)
            if known > 1:
                self.guards.append(Guard(Operation(operator.mod, (sizes[0], known)), 0, 0,
                                         f"{words(sizes[0])} is a multiple of {known}"))
        for node in results:
            self.sizes[node.id] = self.expression(node)
        self._step = RecordedStep(step, [Array(self._input(node), node.type, size)
                                         for node, size in zip(operands, sizes, strict=True)], [])

    def end_step(self, results: Sequence[Node], positions: Sequence[int]) -> None:
        """A step has been launched, and its results, with these positions, are evaluated."""
        launch = self._step
        assert launch is not None
        launch.made, self.undefined = self.undefined, []
        for node, position in zip(results, positions, strict=True):
            size = self.sizes[node.id]
            launch.results[position] = Array(self._new(node, size), node.type, size)
        launch.used = sorted({array.variable for array in (*launch.operands, *launch.results.values())} |
                             {made.variable for made in launch.made})
        self.launches.append(launch)
        self._step = None

    def _new(self, node: Node, size: Expression) -> int:
        variable = self._variable(node.payload, size)
        self._own.add(variable)
        return variable

    # How parameters are bound.

    def _input(self, node: Node) -> int:
        """The variable of an evaluated node; one that is not known is captured."""
        variable = self._arguments.get(node.id)
        if variable is None:
            variable = self._variables.get(node.payload)
        if variable is None:
            variable = self._variable(node.payload, node.size)
            self.captured[variable] = node
        return variable

    def _words(self, program: Program) -> Words:
        sources: list[tuple[int, Address | Number]] = []
        result = list(program.parameters)
        for number, slot in enumerate(slots_of(program)):
            source = self._source(program, slot)
            if source is not None:
                sources.append((number, source))
                result[number] = 0
        calls = [CallWords(site.slot, [self._words(target) for target in site.programs])
                 for site in program.calls.values()]
        return Words(result, sources, program.key, program.links, calls)

    def _source(self, program: Program, slot: Slot) -> Address | Number | None:
        role, node = slot.role, slot.node
        if role is Role.LITERAL:
            assert node is not None
            value = self._values.get(node.id)
            return None if value is None else Number(node.type, value)
        if role is Role.INPUT or role is Role.MEMORY:
            assert node is not None
            return Address(self._input(node))
        if role is Role.LIMIT:
            assert node is not None and node.d0 is not None
            size = self.expression(node.d0)
            return None if isinstance(size, int) else Number(UINT64, size)
        return None

    def _refuse_foreign_writes(self, program: Program) -> None:
        """Writing in place to what others see would happen again with each replay."""
        written: list[Node] = []
        for node in (*program.scatters, *program.order):
            if node.kind == SCATTER:
                target = node
                while target.kind == SCATTER:
                    assert target.d0 is not None
                    target = target.d0
                if node.id not in program.tables:
                    written.append(target)
            elif node.kind in CONTROL and node.payload.writes:
                written += [initial for initial, formal in zip(node.payload.initial, node.payload.regions[0].formals,
                                                               strict=True) if formal.payload]
        for target in written:
            if target.kind == EVALUATED and self._variables.get(target.payload) not in self._own:
                raise RuntimeError(
                    f"{call_site('eval')}(): this program is being recorded, and writes to an array that is neither "
                    f"one of its arguments nor made by it, {TYPES[target.type].name}[{target.size}]: each replay would "
                    "do so again. Pass the array as an argument, and return what becomes of it.")

    def refuse_host(self) -> None:
        """Raise, since the host wants to look at memory."""
        raise RuntimeError(
            f"{call_site('eval')}(): this program is being recorded, and looks at the contents of an array: a replay "
            "would not do so. What it does must not depend on them: use dr.select, symbolic loops and branches, or "
            "look at the contents outside.")

    def result(self, node: Node) -> Array | Constant | Node:
        """A result of the recorded function."""
        if node.kind == EVALUATED:
            variable = self._input(node)
            return node if variable in self.captured else Array(variable, node.type, self.extents[variable])
        if node.kind == LITERAL or node.kind == BOUND:
            size, value = self.expression(node), self._values.get(node.id, node.payload)
            if node.kind == LITERAL and isinstance(size, int):
                return node
            return Constant(node.type, value, size, SHAPE if node.kind == BOUND else node.attr)
        return node  # without elements


def _sized_alike(node: Node, size: int) -> list[Node]:
    """The operands that give a node its number of elements."""
    if node.kind == SCATTER:
        operands = [node.d0]
    elif IS_INDEXED[node.kind]:
        operands = [*arguments_of(node)]
    elif node.kind == FETCH:  # of a scatter-reduction, whose width it has
        assert node.d0 is not None
        operands = [node.d0.d1, node.d0.d2, node.d0.d3]
    elif node.kind == RESULT and node.payload:
        assert node.d0 is not None
        operands = [node.d0.payload.origin(node.attr)]
    elif node.kind in CONTROL:
        operands = [node.d0, node.d1, *node.payload.values()]
    else:
        operands = [node.d0, node.d1, node.d2, node.d3]
    return [operand for operand in operands if operand is not None and operand.size == size]
