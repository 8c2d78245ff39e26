"""Derivatives of loops.

As in :mod:`.choice`, the body is traced of duals, whose vertices tell what depends on what; the compiler sees the
values, and the loop is one operation of the graph around it. Forward mode is a loop over the state and its changes.
Reverse mode depends on what the body does with the gradients of the state:

* *Sums.* If each variable that is differentiated is only added to (``total += f(i, x)``), its gradient is the same in
  each iteration. Then the loop runs once more, in its own direction, and adds up what flows to other variables.
* Otherwise, iterations are visited from the last to the first one. A loop over the state writes it to memory, one
  entry for each iteration, which the loop over gradients reads. Its length is what the user says, or else what the
  loop turns out to take. Within other loops, branches and calls there is no such memory: there, the state is computed
  again for each iteration.

What flows to variables that all iterations share is added up in the state of the loop over gradients, and summed once
when that has ended; gradients of reads by index are scattered to arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..context import state
from ..control.construct import Differentiable
from ..control.loop import while_loop
from ..errors import NoDerivative
from ..ir.build import counter, literal, undefined
from ..ir.dual import STRUCTURE, dual, primal, require_recording, tracked
from ..ir.node import Node
from ..ir.region import is_version
from ..ir.symbolic import innermost
from ..ir.trace import cast, gather, ops, scatter
from ..ir.vertex import HUB, Vertex
from ..ops.table import GATHER, RESULT
from ..types import BOOL, TYPES, UINT32, UINT64, ReduceMode, ReduceOp
from .choice import Tape, ends_of, spread, taped
from .flow import Flow
from .traversal import pull, push

__all__ = ["Longest", "repeat"]

Condition = Callable[[list[Node]], Node]
Body = Callable[[list[Node]], list[Node]]
#: Evaluates numbers of iterations, and returns the largest.
Longest = Callable[[Node], int]

_TRUE = literal(BOOL, True)
_IDENTITY, _NO_CONFLICTS = ReduceOp.Identity.value, ReduceMode.NoConflicts.value


class _Again(Exception):
    """The body makes more of the state differentiable than was known."""


def repeat(given: Sequence[Node], condition: Condition, body: Body, label: str | None, name_of: Callable[[int], str],
           variables: int, bound: int | None, longest: Longest) -> list[Node]:
    """The state after a loop, with its derivatives; ``bound`` says how many iterations there are at most."""
    for node in given:
        if tracked(node) is not None:
            break
    else:  # most loops have none; the body may refer to what has some
        try:
            return while_loop(given, condition, body, label, name_of, variables, together=True, gives_way=True)
        except Differentiable:
            pass
    return _Repetition(given, condition, body, label, name_of, variables, bound, longest).result()


class _Repetition:
    """A loop: what its vertex knows about it."""

    #: Derivatives of it can be differentiated.
    again = True
    name = "while_loop"

    def __init__(self, given: Sequence[Node], condition: Condition, body: Body, label: str | None,
                 name_of: Callable[[int], str], variables: int, bound: int | None, longest: Longest) -> None:
        self.given = list(given)
        self.condition = condition
        self.body = body
        self.label = label
        self.name_of = name_of
        self.variables = variables
        self.bound = bound
        self.longest = longest
        #: How many iterations there turned out to be, and how wide the loop is.
        self.found: tuple[int, int] | None = None
        #: Which derivatives are tracked while the body runs.
        self.scope = state.derivatives
        #: Positions of the state that is differentiated.
        self.positions = {position for position, node in enumerate(given) if tracked(node) is not None}
        #: Those of them that the body leaves alone: variables that all iterations share.
        self.unchanged: set[int] = set()
        self.tape: Tape | None = None
        #: The variables that it depends on: initial values by position, and those that iterations share, with their
        #: positions if they have one.
        self.initial: list[tuple[int, Vertex]] = []
        self.shared: list[Vertex] = []
        self.shared_positions: list[int | None] = []
        #: Those of the latter that are read by index.
        self.read: list[int] = []
        #: Those of them that are used in another way.
        self.direct: list[int] = []
        #: Positions of the state that is written to by index.
        self.written: list[int] = []
        self.outputs: list[Node] = []
        #: Gradients by the places of results: what reverse mode has brought, and what forward mode sends.
        self.received: dict[int, Node] = {}
        self.sent: dict[int, Node] = {}

    @property
    def inputs(self) -> list[Vertex]:
        """All variables that it depends on."""
        return [*(vertex for _, vertex in self.initial), *self.shared]

    def uses(self, place: int) -> tuple[bool, bool]:
        """Whether an input is read by index, and whether it is used in another way."""
        place -= len(self.initial)
        return place in self.read, place < 0 or place in self.direct

    # --- tracing -----------------------------------------------------------------------------------------------------

    def result(self) -> list[Node]:
        """The state after the loop."""
        plain = [primal(node) for node in self.given]
        while True:
            try:
                outputs = while_loop(plain, self.test, self.recorded, self.label, self.name_of, self.variables,
                                     together=True)
            except _Again:
                continue
            break
        self.outputs = outputs
        if not self.changed:
            return [self.given[position] if position in self.unchanged else node
                    for position, node in enumerate(outputs)]
        require_recording(self.name)
        tape = self.tape
        assert tape is not None
        if _reads_what_it_writes(outputs):
            raise NoDerivative("there is no derivative of a symbolic loop that reads by index what it writes")
        self.initial = [(position, vertex) for position in self.changed
                        if (vertex := tracked(self.given[position])) is not None]
        inner = {tape.leaves[position].id for position in self.changed}
        place_of = {tape.leaves[position].id: position for position in self.unchanged}
        found = [entry for entry in ends_of(tape, self.changed) if entry[0].id not in inner]
        self.shared = [vertex for vertex, _, _ in found]
        self.shared_positions = [place_of.get(vertex.id) for vertex in self.shared]
        self.read = [place for place, (_, read, _) in enumerate(found) if read]
        self.direct = [place for place, (_, _, direct) in enumerate(found) if direct]
        self.written = [position for position, node in enumerate(outputs) if is_version(node)]
        hub = Vertex(HUB, outputs[0].type, outputs[self.changed[0]].size, info=self)
        return [dual(node, Vertex(STRUCTURE["output"], node.type, node.size, hub, info=position))
                if position in self.changed else self.given[position] if position in self.unchanged else node
                for position, node in enumerate(outputs)]

    @property
    def changed(self) -> list[int]:
        """Positions of the state that is differentiated, and that the body changes."""
        return sorted(self.positions - self.unchanged)

    def test(self, formals: list[Node]) -> Node:
        """The condition, of values."""
        region = innermost()
        assert region is not None
        region.differentiates = True
        return primal(self.condition(formals))

    def recorded(self, formals: list[Node]) -> list[Node]:
        """The body, which leaves a tape, and returns values."""
        found, self.tape = self.traced(formals)
        more = {position for position, vertex in enumerate(self.tape.results)
                if vertex is not None and TYPES[found[position].type].kind == "f"}
        same = {position for position in self.positions - self.unchanged
                if self.tape.results[position] is self.tape.leaves[position] and tracked(self.given[position])}
        if same or not more <= self.positions:
            self.positions |= more
            self.unchanged |= same
            raise _Again
        return [primal(node) for node in found]

    def traced(self, formals: Sequence[Node], *, again: bool = False) -> tuple[list[Node], Tape]:
        """What the body returns, and its tape."""
        variables = [(position, tracked(self.given[position]) if position in self.unchanged else None)
                     for position in sorted(self.positions)]
        return taped(self.body, formals[:len(self.given)], variables, self.scope, self.written, again=again)

    # --- forward mode ------------------------------------------------------------------------------------------------

    def forward(self, flow: Flow) -> None:
        """Let changes flow from the variables to the results."""
        count, order = len(self.given), self.changed
        initial = {position: flow.change(vertex) for position, vertex in self.initial}
        shared = [flow.change(vertex) for vertex in self.shared]
        changes = [initial.get(position) or literal(self.given[position].type, 0) for position in order]

        def body(formals: list[Node]) -> list[Node]:
            found, tape = self.traced(formals, again=True)
            pairs = [(tape.leaves[position], change)
                     for position, change in zip(order, formals[count:], strict=True)]
            pairs += [(end, change) for end, change in zip(self.ends(tape), shared, strict=True) if change is not None]
            moved = iter(push(pairs, [vertex for position in order if (vertex := tape.results[position]) is not None],
                              again=flow.again, lanes=True))
            return [*found, *(literal(self.given[position].type, 0) if tape.results[position] is None else
                              next(moved) or literal(self.given[position].type, 0) for position in order)]

        results = self.loop(flow, changes, lambda formals: self.test_again(formals[:count]), body)
        for position, change in zip(order, results[count:], strict=True):
            self.sent[position] = spread(change, self.outputs[position].size)

    # --- reverse mode ------------------------------------------------------------------------------------------------

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow from the results to the variables."""
        gradients = {position: spread(gradient, self.outputs[position].size)
                     for position, gradient in self.received.items()}
        assert self.tape is not None
        totals = [literal(self.shared[place].type, 0) for place in self.direct]
        memory = [flow.room(self.shared[place]) for place in self.read]
        leaves = {self.tape.leaves[position].id for position in self.changed}
        if all(_is_sum(self.tape.results[position], self.tape.leaves[position].id, leaves)
               for position in self.changed):
            totals, memory = self.reverse_sum(flow, gradients, totals, memory)
        else:
            gradients, totals, memory = self.reverse_general(flow, gradients, totals, memory)
        for position, vertex in self.initial:
            gradient = gradients.get(position)
            if gradient is not None:
                flow.give(vertex, gradient, gradient.size, True)
        for place, total in zip(self.direct, totals, strict=True):
            flow.give(self.shared[place], total, total.size, True)
        for place, version in zip(self.read, memory, strict=True):
            flow.give_scattered(self.shared[place], version)

    def flowing(self, flow: Flow, formals: Sequence[Node], gradients: dict[int, Node], totals: Sequence[Node],
                memory: Sequence[Node]) -> tuple[list[Node], dict[int, Node], list[Node], list[Node]]:
        """One iteration: the next state; gradients of the one before; what has flown to shared variables."""
        found, tape = self.traced(formals, again=True)
        order = self.changed
        ends = self.ends(tape)
        to = {ends[place].id: version for place, version in zip(self.read, memory, strict=True)}
        pairs = [(vertex, gradient) for position, gradient in gradients.items()
                 if (vertex := tape.results[position]) is not None]
        results = pull(pairs, [*(tape.leaves[position] for position in order), *ends], again=flow.again, memory=to)
        before = {position: literal(self.given[position].type, 0) if result is None else result
                  for position, result in zip(order, results, strict=False)}
        parts = [results[len(order) + place] for place in self.direct]
        totals = [total if part is None else ops.add(total, part) for total, part in zip(totals, parts, strict=True)]
        return found, before, totals, [to[ends[place].id] for place in self.read]

    def reverse_sum(self, flow: Flow, gradients: dict[int, Node], totals: list[Node],
                    memory: list[Node]) -> tuple[list[Node], list[Node]]:
        """Gradients of shared variables, if the gradients of the state are the same in each iteration."""
        count, end = len(self.given), len(self.given) + len(totals)

        def body(formals: list[Node]) -> list[Node]:
            found, _, sums, versions = self.flowing(flow, formals, gradients, formals[count:end], formals[end:])
            return [*found, *sums, *versions]

        results = self.loop(flow, [*totals, *memory], lambda formals: self.test_again(formals[:count]), body)
        return results[count:end], results[end:]

    def reverse_general(self, flow: Flow, gradients: dict[int, Node], totals: list[Node],
                        memory: list[Node]) -> tuple[dict[int, Node], list[Node], list[Node]]:
        """Gradients of initial values and of shared variables, from the last iteration to the first."""
        if innermost() is not None or flow.again:
            number, state_of = self.recomputed(flow)
            return self.backwards(flow, number, state_of, gradients, totals, memory)[1]
        entries: set[int] | None = None
        while True:  # once more if some of the state is not needed
            number, state_of, stored = self.stored(flow, entries)
            at_once = gradients
            if self.bound is not None:
                missing = ops.gt(number, literal(UINT32, self.bound))
                at_once = {position: ops.select(missing, literal(node.type, math.nan), node)
                           for position, node in gradients.items()}
                number = ops.minimum(number, literal(UINT32, self.bound))
            sources, results = self.backwards(flow, number, state_of, at_once, totals, memory)
            used = {position for position, version in stored.items() if version.id in sources}
            if len(used) == len(stored):
                return results
            entries = used

    def backwards(self, flow: Flow, number: Node, state_of: Callable[[Node], list[Node]], gradients: dict[int, Node],
                  totals: list[Node], memory: list[Node]) -> tuple[
                      set[int], tuple[dict[int, Node], list[Node], list[Node]]]:
        """The loop from the last iteration to the first: ids of what it reads by index, and its results."""
        order = self.changed
        now = [gradients.get(position) or literal(self.given[position].type, 0) for position in order]
        first, last = 1 + len(order), 1 + len(order) + len(totals)
        end = last + len(memory)
        written = [primal(self.given[position]) for position in self.written]

        def condition(formals: list[Node]) -> Node:
            return ops.gt(formals[0], literal(UINT32, 0))  # type: ignore[no-any-return]

        def body(formals: list[Node]) -> list[Node]:
            iteration = ops.sub(formals[0], literal(UINT32, 1))
            variables = state_of(iteration)
            for position, formal in zip(self.written, formals[end:], strict=True):
                variables[position] = formal
            found, before, sums, versions = self.flowing(
                flow, variables, dict(zip(order, formals[1:first], strict=True)), formals[first:last],
                formals[last:end])
            return [iteration, *(before[position] for position in order), *sums, *versions,
                    *(found[position] for position in self.written)]

        results = _loop(flow, [number, *now, *totals, *memory, *written], condition, body, self.label, str)
        sources = {source.id for node in map(primal, results) if node.kind == RESULT and node.d0 is not None
                   for source in node.d0.payload.sources()}
        return sources, (dict(zip(order, results[1:first], strict=True)), results[first:last], results[last:end])

    def counted(self, flow: Flow, more: Callable[[list[Node]], Node] | None = None) -> list[Node]:
        """The state after the loop, and the number of iterations; ``more`` may end it earlier."""
        count = len(self.given)

        def condition(formals: list[Node]) -> Node:
            test = self.test_again(formals[:count])
            return test if more is None else ops.and_(test, more(formals))

        def body(formals: list[Node]) -> list[Node]:
            return [*self.traced(formals, again=True)[0], ops.add(formals[count], literal(UINT32, 1))]

        return self.loop(flow, [literal(UINT32, 0)], condition, body)

    def stored(self, flow: Flow, needed: set[int] | None) -> tuple[Node, Callable[[Node], list[Node]], dict[int, Node]]:
        """The numbers of iterations; what the state was at the beginning of one; and where it is, by positions."""
        bound, width = self.bound, self.outputs[self.changed[0]].size
        if bound is None:
            if self.found is None:
                number = self.counted(flow)[-1]
                self.found = self.longest(number), number.size
            bound, width = self.found
        scalar = UINT32 if bound * width < 1 << 32 else UINT64
        lane = counter(width, scalar)

        def place(iteration: Node) -> Node:
            return ops.fma(cast(iteration, scalar), literal(scalar, width), lane)  # type: ignore[no-any-return]

        kept = [position for position, node in enumerate(self.given)
                if position not in self.written and self.outputs[position] is not primal(node) and
                (needed is None or position in needed)]
        room = [undefined(self.given[position].type, max(bound, 1) * width) for position in kept]
        count = len(self.given)

        def condition(formals: list[Node]) -> Node:
            return self.test_again(formals[:count])

        def body(formals: list[Node]) -> list[Node]:
            iteration = formals[count]
            inside = ops.lt(iteration, literal(UINT32, bound))
            versions = [scatter(version, formals[position], place(iteration), inside, _IDENTITY, _NO_CONFLICTS)
                        for position, version in zip(kept, formals[count + 1:], strict=True)]
            return [*self.traced(formals, again=True)[0], ops.add(iteration, literal(UINT32, 1)), *versions]

        results = self.loop(flow, [literal(UINT32, 0), *room], condition, body)
        entries = dict(zip(kept, results[count + 1:], strict=True))

        def state_of(iteration: Node) -> list[Node]:
            index = place(iteration)
            return [gather(entries[position], index, _TRUE) if position in entries else primal(node)
                    for position, node in enumerate(self.given)]  # of what is not needed, anything

        return results[count], state_of, entries

    def recomputed(self, flow: Flow) -> tuple[Node, Callable[[Node], list[Node]]]:
        """Likewise, where there is no memory: it is computed again for each iteration."""
        count = len(self.given)
        number = self.counted(flow)[-1]

        def state_of(iteration: Node) -> list[Node]:
            return self.counted(flow, lambda formals: ops.lt(formals[count], iteration))[:count]

        return number, state_of

    # --- loops -------------------------------------------------------------------------------------------------------

    def any_name(self, position: int) -> str:
        """The name of a variable, of this loop or one for its derivatives."""
        return self.name_of(position) if position < len(self.given) else "a gradient"

    def ends(self, tape: Tape) -> list[Vertex]:
        """The variables that iterations share, in a region."""
        return [vertex if position is None else tape.leaves[position]
                for position, vertex in zip(self.shared_positions, self.shared, strict=True)]

    def test_again(self, formals: Sequence[Node]) -> Node:
        """The condition, once more."""
        region = innermost()
        assert region is not None
        region.repeats = True
        return self.test([primal(formal) for formal in formals])

    def loop(self, flow: Flow, further: Sequence[Node], condition: Condition, body: Body) -> list[Node]:
        """A loop over the state and more."""
        given = self.given if flow.again else [primal(node) for node in self.given]
        return _loop(flow, [*given, *further], condition, body, self.label, self.any_name)


def _loop(flow: Flow, given: Sequence[Node], condition: Condition, body: Body, label: str | None,
          name_of: Callable[[int], str]) -> list[Node]:
    """A loop of a derivative, which is differentiable in turn if that is asked for."""
    if flow.again:  # which needs no memory, and so no bound: its own state is computed again
        return repeat(given, condition, body, label, name_of, len(given), None, lambda number: 0)

    def values(formals: list[Node]) -> list[Node]:
        region = innermost()
        assert region is not None
        region.differentiates = True
        return [primal(node) for node in body(formals)]

    return while_loop([primal(node) for node in given], condition, values, label, name_of, together=True)


def _is_sum(vertex: Vertex | None, leaf: int, leaves: set[int]) -> bool:
    """Whether a result is a variable to which only is added what depends on no variable of the state."""
    while vertex is not None and vertex.id != leaf:
        operands = [(operand, _depends(operand, leaves)) for operand in (vertex.a, vertex.b, vertex.c)
                    if operand is not None]
        inner = [operand for operand, depends in operands if depends]
        name = vertex.rule.name
        if len(inner) != 1 or vertex.size != inner[0].size or not (
                name == "add" or name == "sub" and vertex.a is inner[0] or name == "fma" and vertex.c is inner[0]):
            return False
        vertex = inner[0]
    return vertex is not None


def _depends(vertex: Vertex, leaves: set[int]) -> bool:
    """Whether a vertex depends on any of some leaves."""
    seen: set[int] = set()
    todo = [vertex]
    first = min(leaves, default=0)
    while todo:
        vertex = todo.pop()
        if vertex.id in leaves:
            return True
        if vertex.id not in seen and vertex.id >= first:
            seen.add(vertex.id)
            todo += vertex.operands()
    return False


def _reads_what_it_writes(outputs: Sequence[Node]) -> bool:
    """Whether the loop that has some results reads by index what it writes by index."""
    for node in outputs:
        if node.kind == RESULT and node.payload and node.d0 is not None:
            region = node.d0.payload.region
            return any(reader.kind == GATHER and reader.d0 is not None and reader.d0.scope == region.id
                       for reader in region.nodes)
    return False
