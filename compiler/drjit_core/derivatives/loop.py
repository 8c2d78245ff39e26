"""Derivatives of loops.

As in :mod:`.choice`, the body is traced of duals, whose vertices tell what depends on what; the compiler sees the
values, and the loop is one operation of the graph around it. Forward mode is a loop over the state and its changes.
Reverse mode depends on what the body does with the gradients of the state:

* *Sums.* If each variable that is differentiated is only added to (``total += f(i, x)``), its gradient is the same in
  each iteration. Then the loop runs once more, in its own direction, and adds up what flows to other variables.
* Otherwise, iterations are visited from the last to the first one. The loop writes its state to memory, one entry for
  each iteration, which the loop over gradients reads: it becomes a loop that does so, if it has not been evaluated yet,
  or else runs once more. The length of the memory is what the user says, what the condition tells, or else what the
  loop turns out to take. Within other loops, branches and calls there is no such memory: there, the state is computed
  again for each iteration.

What flows to variables that all iterations share is added up in the state of the loop over gradients, and summed once
when that has ended; gradients of reads by index are scattered to arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..context import state
from ..control.extend import Counted, fits, loop_of, most_iterations
from ..control.loop import while_loop
from ..errors import NoDerivative, SymbolicValue
from ..ir.build import literal
from ..ir.deferred import assume_not
from ..ir.dual import STRUCTURE, dual, primal, require_recording, tracked
from ..ir.extension import Extension, take_over
from ..ir.node import Node
from ..ir.region import is_version
from ..ir.symbolic import call_site, innermost
from ..ir.trace import ops, reduce
from ..ir.vertex import HUB, Vertex
from ..ops.table import GATHER, RESULT
from ..types import TYPES, UINT32, ReduceOp
from .choice import Tape, ends_of, spread, taped
from .flow import Flow
from .traversal import pull, push

__all__ = ["Longest", "repeat"]

Condition = Callable[[list[Node]], Node]
Body = Callable[[list[Node]], list[Node]]
#: Evaluates numbers of iterations, and values besides, and returns the largest of the numbers.
Longest = Callable[[Node, list[Node]], int]


class _Again(Exception):
    """The body makes more of the state differentiable than was known."""


def repeat(given: Sequence[Node], condition: Condition, body: Body, label: str | None, name_of: Callable[[int], str],
           variables: int, bound: int | None, longest: Longest) -> list[Node]:
    """The state after a loop, with its derivatives; ``bound`` says how many iterations there are at most."""
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
        #: How many iterations there are at most, if that is known by now.
        self.found: int | None = None
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
        #: The loop itself, if it has no effects and stands in no region; by positions of the state, its variables.
        self.node: Node | None = None
        #: How often iterations have been visited from the last to the first.
        self.visits = 0
        self.places: dict[int, int] = {}
        #: The widths of the results.
        self.widths: list[int] = []
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
        if not self.changed:
            return [self.given[position] if position in self.unchanged else node
                    for position, node in enumerate(outputs)]
        require_recording(self.name)
        self.widths = [node.size for node in outputs]
        self.node = loop_of(outputs)
        if self.node is not None:
            self.places = {position: node.attr for position, node in enumerate(outputs) if node.d0 is self.node}
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
        hub.label = "drjit.while_loop" + ("" if self.label is None else f": {self.label}")
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
        for position in self.changed:
            if self.tape.leaves[position].gradient is not None:
                raise SymbolicValue(
                    f"{call_site('while_loop')}(): a traversal in the body of this symbolic loop has let derivatives "
                    f"flow to the state variable {self.name_of(position)!r}, and they would have to go on to what it "
                    "was computed from in the iteration before. Use drjit.detach() before its derivative is tracked "
                    "anew, or mode='evaluated'.")
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
        self.extend(results)
        for position, change in zip(order, results[count:], strict=True):
            self.sent[position] = spread(change, self.widths[position])

    # --- reverse mode ------------------------------------------------------------------------------------------------

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow from the results to the variables."""
        gradients = {position: spread(gradient, self.widths[position])
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
        self.extend(results)
        return results[count:end], results[end:]

    def reverse_general(self, flow: Flow, gradients: dict[int, Node], totals: list[Node],
                        memory: list[Node]) -> tuple[dict[int, Node], list[Node], list[Node]]:
        """Gradients of initial values and of shared variables, from the last iteration to the first."""
        if flow.again:
            return self.backwards(flow, *self.recomputed(flow), gradients, totals, memory)
        loop, places = self.without_effects(flow)
        most = self.most(loop)
        if most is None or innermost() is not None and not fits(loop.payload, most):
            return self.backwards(flow, *self.recomputed(flow), gradients, totals, memory)
        counted = Counted(loop, most, anew=self.visits > 0 or innermost() is not None)
        self.visits += 1
        found = self.visited(flow, counted, places, gradients, totals, memory)
        if found is None:
            counted = Counted(loop, most, apart=True, anew=True)
            found = self.visited(flow, counted, places, gradients, totals, memory)
            assert found is not None
        if not counted.local:
            take_over(counted.node)
        return found

    def visited(self, flow: Flow, counted: Counted, places: dict[int, int], gradients: dict[int, Node],
                totals: list[Node], memory: list[Node]) -> tuple[dict[int, Node], list[Node], list[Node]] | None:
        """Likewise, given a loop that keeps the state; ``None`` if the kernels of both loops are not as wide, which
        those that share local memory are."""
        number = counted.number
        sure = most_iterations(counted.loop.payload)
        if self.bound is not None and (sure is None or sure > self.bound):
            limit = literal(UINT32, self.bound)
            missing = ops.gt(number, limit)
            gradients = {position: ops.select(missing, literal(node.type, math.nan), node)
                         for position, node in gradients.items()}
            number = ops.minimum(number, limit)
            if innermost() is None and state.recording is None:
                assume_not(reduce(missing, ReduceOp.Or.value), self.too_many())

        def state_of(iteration: Node) -> list[Node]:
            before = counted.state(iteration)
            return [before[places[position]] if position in places else primal(node)
                    for position, node in enumerate(self.given)]

        results = self.backwards(flow, number, state_of, gradients, totals, memory)
        read: set[int] = set()
        for node in (*results[0].values(), *results[1], *results[2]):
            if node.kind == RESULT and node.d0 is not None:
                read.update(source.id for source in node.d0.payload.sources())
                if counted.local and node.d0.size != counted.node.size:
                    return None
        counted.keep([place for place, version in enumerate(counted.kept) if version.id in read])
        return results

    def too_many(self) -> str:
        """What is wrong if some element takes more iterations than there may be."""
        label = "" if self.label is None else f" '{self.label}'"
        return (f"drjit.while_loop(): elements of the symbolic loop{label} took more iterations than "
                f"max_iterations={self.bound}, and their gradients are NaN: there is room for the state of so many "
                "iterations only. Use a larger bound, or none, so that an evaluation finds out how many there are.")

    def without_effects(self, flow: Flow) -> tuple[Node, dict[int, int]]:
        """A loop that computes the state and does nothing else, and which of its variables it is, by positions."""
        if self.node is not None:
            return self.node, self.places
        results = self.loop(flow, [], self.test_again, lambda formals: self.traced(formals, again=True)[0])
        loop = loop_of(results)
        assert loop is not None, "a loop writes once more what it has written"
        return loop, {position: node.attr for position, node in enumerate(results) if node.d0 is loop}

    def most(self, loop: Node) -> int | None:
        """How many iterations there are at most: that is known, or else an evaluation finds out, outside of regions."""
        if self.bound is not None:
            return self.bound
        if self.found is None:
            self.found = most_iterations(loop.payload)
        if self.found is None and innermost() is None:
            counted = Counted(loop)
            self.found = self.longest(counted.number, take_over(counted.node))
        return self.found

    def backwards(self, flow: Flow, number: Node, state_of: Callable[[Node], list[Node]], gradients: dict[int, Node],
                  totals: list[Node], memory: list[Node]) -> tuple[dict[int, Node], list[Node], list[Node]]:
        """Likewise, given the numbers of iterations, and what the state was at the beginning of one."""
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
        return dict(zip(order, results[1:first], strict=True)), results[first:last], results[last:end]

    def counted(self, flow: Flow, more: Callable[[list[Node]], Node] | None = None) -> list[Node]:
        """The state after the loop, and the number of iterations; ``more`` may end it earlier."""
        count = len(self.given)

        def condition(formals: list[Node]) -> Node:
            test = self.test_again(formals[:count])
            return test if more is None else ops.and_(test, more(formals))

        def body(formals: list[Node]) -> list[Node]:
            return [*self.traced(formals, again=True)[0], ops.add(formals[count], literal(UINT32, 1))]

        return self.loop(flow, [literal(UINT32, 0)], condition, body)

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


    def extend(self, results: Sequence[Node]) -> None:
        """Let a loop over the state and more compute what this one does, if a kernel would compute both."""
        before = self.node
        if before is None or before.scope:
            return
        loop = loop_of(results)  # one that is a derivative has duals as results
        if loop is None:
            return
        places = {attr: results[position].attr for position, attr in self.places.items()
                  if results[position].d0 is loop}
        if len(places) == len(self.places):
            loop.payload.extension = Extension(before, None, places)


def _loop(flow: Flow, given: Sequence[Node], condition: Condition, body: Body, label: str | None,
          name_of: Callable[[int], str]) -> list[Node]:
    """A loop of a derivative, which is differentiable in turn if that is asked for."""
    if flow.again:  # which needs no memory, and so no bound: its own state is computed again
        return repeat(given, condition, body, label, name_of, len(given), None, lambda number, others: 0)

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
