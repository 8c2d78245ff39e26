"""Derivatives of loops.

As in :mod:`.of_choices`, the body is traced of duals, whose vertices tell what depends on what; the compiler sees the
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
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..context import state
from ..control.extend import Counted, construct_of, fits, most_iterations, pruned
from ..control.loop import while_loop
from ..control.source import times_held
from ..errors import NoDerivative, SymbolicValue
from ..ir.build import append, literal, where_of
from ..ir.deferred import assume_not
from ..ir.dual import primal, refuse_for, tracked, vertex_of
from ..ir.extension import take_over
from ..ir.node import Node
from ..ir.region import Control, Loop, operands
from ..ir.symbolic import Tracing, call_site, innermost, undo_writes, writes_so_far
from ..ir.trace import opaque, ops, reduce
from ..ir.vertex import Vertex
from ..ops.table import LITERAL, LOOP, RESULT
from ..types import BOOL, IS_FLOAT, UINT32, ReduceOp
from .flow import Flow
from .outside import LOOKED, hand_out
from .tape import Copy, Function, Recorded, Tape, spread, taped
from .traversal import go_on

__all__ = ["Longest", "repeat"]

#: Operations that may add to a variable.
_SUMS = ("add", "sub", "fma", "accumulate")

Condition = Callable[[list[Node]], Node]
#: Evaluates numbers of iterations, and values besides, and returns the largest of the numbers.
Longest = Callable[[Node, list[Node]], int]


def repeat(given: Sequence[Node], condition: Condition, body: Function, label: str | None,
           name_of: Callable[[int], str], variables: int, bound: int | None, longest: Longest | None = None,
           presumed: int = 0, memory: frozenset[int] = frozenset()) -> list[Node]:
    """The state after a loop, with its derivatives; ``bound`` says how many iterations there are at most. Where nobody
    knows that, and there is nothing to find it out, derivatives compute the state once more for each iteration."""
    return _Repetition(given, label, variables, bound, longest).result(condition, body, name_of, presumed, memory)


class _Repetition(Recorded):
    """A loop: what its vertex knows about it."""

    repeats = True
    FIELDS = (*Recorded.FIELDS, "label", "variables", "bound", "longest", "found", "chosen", "same", "test", "visits")

    def __init__(self, given: Sequence[Node], label: str | None, variables: int, bound: int | None,
                 longest: Longest | None) -> None:
        super().__init__("while_loop", given)
        self.label = label
        self.variables = variables
        self.bound = bound
        self.longest = longest
        #: How many iterations there are at most, if that is known by now.
        self.found: int | None = None
        #: Positions of the state that is differentiated.
        self.chosen: set[int] = set()
        #: Positions of variables that may have derivatives and are left alone.
        self.same: set[int] = set()
        #: The condition.
        self.test: Node
        #: When it has been evaluated: a loop that computes those of its variables that are needed.
        self.pruned: Loop | None = None
        #: How often iterations have been visited from the last to the first.
        self.visits = 0

    @property
    def tape(self) -> Tape:
        """What the body has left."""
        return self.tapes[0]

    # --- recording ---------------------------------------------------------------------------------------------------

    def has_elements(self) -> bool:
        """Whether the loop is as wide as to have any."""
        return self.widths[self.changed[0]] > 0

    def result(self, condition: Condition, body: Function, name_of: Callable[[int], str],
               presumed: int = 0, memory: frozenset[int] = frozenset()) -> list[Node]:
        """The state after the loop."""
        def test(formals: list[Node]) -> Node:
            _differentiate()
            self.test = primal(condition(formals))
            return self.test

        def recorded(formals: list[Node]) -> list[Node]:
            self.record(body, formals, name_of)
            return self.tape.values

        outputs = while_loop([primal(node) for node in self.given], test, recorded, self.label, name_of,
                             self.variables, together=True, presumed=presumed, memory=memory)
        found = [self.given[position] if position in self.same else node for position, node in enumerate(outputs)]
        if not self.changed:
            return found
        return self.results(outputs, found, "drjit.while_loop" + ("" if self.label is None else f": {self.label}"))

    def record(self, body: Function, formals: list[Node], name_of: Callable[[int], str]) -> None:
        """The body is called, and leaves a tape, of all variables that derivatives may turn out to flow to."""
        region = innermost()
        assert region is not None
        scope = state.derivatives
        records = scope is None or scope.records
        del self.given[len(formals):]  # of a call before, which has turned out to have more variables
        self.tapes[0], refused = tape, _ = taped(body, formals, {
            position: tracked(node) for position, node in enumerate(self.given)
            if IS_FLOAT[node.type] and (records or vertex_of(node) is not None)})
        self.demands = []
        self.same = {position for position, leaf in tape.leaves.items() if tape.vertices[position] is leaf and
                     tape.values[position] is formals[position] and vertex_of(self.given[position]) is not None}
        tape.vertices = []
        stands = [primal(stand) for _, stand in tape.adopted.values()]
        self.add_adopted(region, tape)
        self.chosen = chosen = self.differentiated(tape)
        unchanged = chosen & self.same
        self.changed = self.places = sorted(chosen - unchanged)
        if region.looked and self.looks_back(region, tape):
            raise NoDerivative(LOOKED)
        for position in self.changed:
            leaf = tape.leaves[position]
            if leaf.id in region.reached if leaf.id <= tape.boundary else leaf.gradient is not None:
                raise SymbolicValue(
                    f"{call_site('while_loop')}(): a traversal in the body of this symbolic loop has let derivatives "
                    f"flow to the state variable {name_of(position)!r}, and they would have to go on to what it "
                    "was computed from in the iteration before. Use drjit.detach() before its derivative is tracked "
                    "anew, or mode='evaluated'.")
        hand_out([(vertex, gradient) for position in sorted(unchanged)
                  if (gradient := tape.leaves[position].gradient) is not None and
                  (vertex := tracked(self.given[position])) is not None], go_on)
        self.refuse(tape, refused)
        if len(chosen) < len(tape.leaves):
            tape.keep_leaves({position: leaf for position, leaf in tape.leaves.items() if position in chosen})
        tape.keep(self.changed)
        try:
            tape.ends(self.changed)
            if self.changed and (region.latest or region.outside or stands) and self.reads_written(formals, stands):
                raise NoDerivative("there is no derivative of a symbolic loop that reads by index what it writes")
        except NoDerivative as error:
            refuse_for(NoDerivative, str(error), self.outer(tape, tape.leaves.values()))
            self.changed = self.places = []

    def looks_back(self, region: Tracing, tape: Tape) -> bool:
        """Whether iterations find gradients that depend on those before: what these have added, or not, to a variable
        that is another one in each."""
        if not region.looked.isdisjoint(region.reached):
            return True
        return bool([leaf for position, leaf in tape.leaves.items() if leaf.id in region.looked and (
            leaf.gradient is not None or position in self.changed and
            (vertex := vertex_of(self.given[position])) is not None and vertex.gradient is not None)])

    def add_adopted(self, region: Tracing, tape: Tape) -> None:
        """Make variables of arrays from outside that have turned out to be some.

        The vertices that these have outside, and those of what they were presumed to be, stand for them in the tape:
        the program has found them under no other name, or else the body is called again.
        """
        if not tape.adopted:
            return
        count = len(self.given)
        found = {position: vertex for position, (_, stand) in enumerate(tape.adopted.values(), count)
                 if (vertex := vertex_of(stand)) is not None}
        self.adopt()
        if not found:
            return
        held = dict.fromkeys([~vertex.id for vertex in found.values()], -1)
        for vertex in found.values():
            others = [each for each in found.values() if each is vertex]
            region.again |= len(others) > 1 or vertex.id <= tape.boundary and times_held(~vertex.id, held) > 1
        stood = {vertex.id for vertex in found.values()}
        tape.keep_leaves({position: leaf for position, leaf in tape.leaves.items() if leaf.id not in stood} | found)

    def reads_written(self, formals: Sequence[Node], stands: Sequence[Node]) -> bool:
        """Whether derivatives need what the body writes by index."""
        (_, demand), = self.recordings()
        return demand.writes or _made_of(demand.captures, stands, formals)

    def differentiated(self, tape: Tape) -> set[int]:
        """Positions of the state that is differentiated: initial values are, or what it becomes depends on what is."""
        found = {position for position in tape.leaves if tracked(self.given[position]) is not None}
        results = {position: vertex for position in tape.leaves if (vertex := tape.results[position]) is not None}
        reached = tape.reached(results.values())
        while True:
            live = {tape.leaves[position].id for position in found}
            for vertex in reached:
                if tape.is_outside(vertex) or [operand for operand in vertex.operands() if operand.id in live]:
                    live.add(vertex.id)
            more = {position for position, vertex in results.items() if vertex.id in live}
            if more <= found:
                return found
            found |= more

    def let_go(self, control: Control | None) -> None:
        super().let_go(control)
        if control is not None:
            assert isinstance(control, Loop)
            needed = {place: self.attributes[place] for place in self.needed() if place in self.attributes}
            self.pruned, positions = pruned(control, needed.values())
            self.attributes = {place: positions.index(attribute) for place, attribute in needed.items()}

    def moved(self, copy: Copy) -> Recorded:
        new = super().moved(copy)
        assert isinstance(new, _Repetition)
        new.pruned = None
        return new

    # --- what is asked of it -----------------------------------------------------------------------------------------

    def demanded(self) -> list[Node]:
        return [self.test]

    def outer(self, tape: Tape, vertices: Iterable[Vertex]) -> list[Vertex]:
        if not [vertex for vertex in vertices if tape.positions.get(vertex.id, -1) in (-1, *self.chosen)]:
            return []  # derivatives of what does not become state that is differentiated
        initial = [tracked(self.given[position]) for position in self.chosen]
        return [*[vertex for vertex in initial if vertex is not None],
                *[vertex for vertex in (*vertices, *tape.reached(tape.at(self.chosen)))
                  if vertex.id not in tape.positions and tape.is_outside(vertex)]]

    # --- in regions --------------------------------------------------------------------------------------------------

    def test_again(self, formals: Sequence[Node]) -> Node:
        """The condition, once more."""
        test: Node = Copy(self, self.tape, formals, (), [self.test]).values[self.test]
        return test

    def iterated(self, flow: Flow, formals: Sequence[Node], places: Sequence[int] = ()) -> tuple[Copy, list[Node]]:
        """The body once more, and the state after it, as far as it is needed; derivatives flow at some places."""
        tape = self.tape
        if flow.again:
            places = self.changed
        wanted = range(len(self.given)) if self.extends() else self.needed()
        wanted = [position for position in wanted
                  if position in self.changed or tape.values[position] is not tape.formals[position]]
        copy = Copy(self, tape, formals, places, [tape.values[position] for position in wanted])
        found = list(formals[:len(self.given)])
        for position in wanted:
            found[position] = copy.value(position)
        return copy, found

    # --- forward mode ------------------------------------------------------------------------------------------------

    def flow_on(self, flow: Flow) -> None:
        order = self.changed
        if not self.has_elements():
            self.sent = {position: literal(self.given[position].type, 0) for position in order}
            return
        first = len(self.initial)
        initial = {position: flow.change(vertex) for position, vertex in zip(self.initial, self.inputs, strict=False)}
        shared = [(vertex, flow.change(vertex)) for vertex in self.at(range(first, len(self.inputs)))]
        changes = [initial.get(position) or self.zero(position) for position in order]

        def change(copy: Copy, formals: list[Node]) -> list[Node]:
            own = [(copy.leaves[place], formal) for place, formal in zip(order, formals, strict=True)]
            moved = self.moving(copy, [*own, *shared], flow.again)
            return [moved.get(place) or literal(self.given[place].type, 0) for place in order]

        for position, result in zip(order, self.beside(flow, changes, order, change), strict=True):
            self.sent[position] = spread(result, self.widths[position])

    # --- reverse mode ------------------------------------------------------------------------------------------------

    def flow_back(self, flow: Flow) -> None:
        if not self.has_elements():
            for vertex in self.inputs:
                flow.give(vertex, literal(vertex.type, 0), 0, True)
            return
        gradients = {position: spread(gradient, self.widths[position])
                     for position, gradient in self.received.items()}
        read, direct = self.receiving(flow)
        totals = [literal(vertex.type, 0) for vertex in direct]
        memory = [flow.room(vertex) for vertex in read]
        if not [position for position in self.changed if not self.is_sum(position)]:
            totals, memory = self.reverse_sum(flow, gradients, totals, memory)
        else:
            gradients, totals, memory = self.reverse_general(flow, gradients, totals, memory)
        for k, position in enumerate(self.initial):
            gradient = gradients.get(position)
            if gradient is not None:
                flow.give(self.inputs[k], gradient, gradient.size, True)
        for k, vertex in enumerate(direct):
            flow.give(vertex, totals[k], totals[k].size, True)
        for k, vertex in enumerate(read):
            flow.give_scattered(vertex, memory[k])

    def is_memory(self, position: int) -> bool:
        """Whether a variable that changes is an array that gradients are added up in: no other writes have derivatives.
        """
        return bool(self.tape.formals[position].payload)

    def zero(self, position: int) -> Node:
        """What a change of a variable begins with."""
        node = self.given[position]
        return opaque(literal(node.type, 0, node.size)) if self.is_memory(position) else literal(node.type, 0)

    def is_sum(self, position: int) -> bool:
        """Whether a variable is one to which only is added what depends on none of those that are differentiated."""
        vertex, leaf = self.tape.results[position], self.tape.leaves[position]
        leaves = {self.tape.leaves[each].id for each in self.changed}
        while vertex is not None and vertex is not leaf:
            if vertex.rule.name not in _SUMS:
                return False
            inner = [operand for operand in (vertex.a, vertex.b, vertex.c) if operand is not None and
                     [each for each in self.tape.reached([operand]) if each.id in leaves]]
            name = vertex.rule.name
            if len(inner) != 1 or not (name == "add" or name == "fma" and vertex.c is inner[0] or
                                       name in ("sub", "accumulate") and vertex.a is inner[0]):
                return False
            vertex = inner[0]
        return vertex is not None

    def visit(self, flow: Flow, copy: Copy, gradients: Mapping[int, Node], totals: list[Node],
              memory: list[Node]) -> tuple[dict[int, Node], list[Node], list[Node]]:
        """One iteration: gradients of the state before it; what has flown to shared variables."""
        order, (read, direct) = self.changed, self.receiving(flow)
        results, versions = self.flowing(flow, copy, gradients, [copy.leaves[position] for position in order],
                                         read, direct, memory)
        before = {position: results[k] or literal(self.given[position].type, 0) for k, position in enumerate(order)}
        sums = []
        for k, total in enumerate(totals, len(order)):
            sums.append(total if results[k] is None else ops.add(total, results[k]))
        return before, sums, versions

    def reverse_sum(self, flow: Flow, gradients: dict[int, Node], totals: list[Node],
                    memory: list[Node]) -> tuple[list[Node], list[Node]]:
        """Gradients of shared variables, if the gradients of the state are the same in each iteration."""
        count = len(totals)

        def gradient(copy: Copy, formals: list[Node]) -> list[Node]:
            _, sums, versions = self.visit(flow, copy, gradients, formals[:count], formals[count:])
            return [*sums, *versions]

        results = self.beside(flow, [*totals, *memory], sorted(gradients), gradient)
        return results[:count], results[count:]

    def reverse_general(self, flow: Flow, gradients: dict[int, Node], totals: list[Node],
                        memory: list[Node]) -> tuple[dict[int, Node], list[Node], list[Node]]:
        """Gradients of initial values and of shared variables, from the last iteration to the first."""
        if self.test.kind == LITERAL and not self.test.payload:
            return gradients, totals, memory  # it was known that there is no iteration
        if flow.again:
            return self.backwards(flow, *self.recomputed(flow), gradients, totals, memory)
        loop, places = self.without_effects(flow, gradients)
        most, region = self.most(loop), innermost()
        if most is None or region is not None and not fits(loop, most):
            return self.backwards(flow, *self.recomputed(flow), gradients, totals, memory)
        demand = self.tape.demand(self.changed)
        needed = {places[position] for position, formal in enumerate(self.tape.formals)
                  if formal.id in demand.ids and position in places}
        counted = Counted(loop, most, needed, anew=self.visits > 0 or region is not None)
        self.visits += 1
        before = None if region is None else writes_so_far(region)
        found = self.visited(flow, counted, places, gradients, totals, memory)
        if found is None and region is not None:
            undo_writes(region, before)
            return self.backwards(flow, *self.recomputed(flow), gradients, totals, memory)
        if found is None:
            counted = Counted(loop, most, needed, apart=True, anew=True)
            found = self.visited(flow, counted, places, gradients, totals, memory)
            assert found is not None
        if not counted.local:
            take_over(counted.node)
        return found

    def visited(self, flow: Flow, counted: Counted, places: dict[int, int], gradients: dict[int, Node],
                totals: list[Node], memory: list[Node]) -> tuple[dict[int, Node], list[Node], list[Node]] | None:
        """What :meth:`reverse_general` returns, of a loop that keeps the state; ``None`` if the kernels of both loops
        are not as wide, which those that share local memory are."""
        number = counted.number
        sure = most_iterations(counted.loop.payload)
        if self.bound is not None and (sure is None or sure > self.bound):
            limit = literal(UINT32, self.bound)
            missing = ops.gt(number, limit)
            gradients = {position: node if self.is_memory(position) else ops.select(
                missing, literal(node.type, math.nan), node) for position, node in gradients.items()}
            number = ops.minimum(number, limit)
            if innermost() is None and state.recording is None:
                assume_not(reduce(missing, ReduceOp.Or.value), self.too_many(), gradients.values())

        def state_of(iteration: Node) -> list[Node]:
            before = counted.state(iteration)
            return [before.get(places.get(position, -1)) or primal(node) for position, node in enumerate(self.given)]

        results = self.backwards(flow, number, state_of, gradients, totals, memory)
        read: set[int] = set()
        for node in (*results[0].values(), *results[1], *results[2]):
            if node.kind == RESULT and node.d0 is not None:
                read.update(source.id for source in node.d0.payload.sources())
                if counted.local and node.d0.size != counted.node.size:
                    return None
        counted.keep([place for place, version in counted.kept.items() if version.id in read])
        return results

    def too_many(self) -> str:
        """What is wrong if some element takes more iterations than there may be."""
        label = "" if self.label is None else f" '{self.label}'"
        return (f"drjit.while_loop(): elements of the symbolic loop{label} took more iterations than "
                f"max_iterations={self.bound}, and their gradients are NaN: there is room for the state of so many "
                "iterations only. Use a larger bound, or none, so that an evaluation finds out how many there are.")

    def without_effects(self, flow: Flow, gradients: Mapping[int, Node]) -> tuple[Node, dict[int, int]]:
        """A loop that computes the state and does nothing else, and which of its variables it is, by positions.

        It is as wide as the loop over gradients will be, which reads what this one keeps.
        """
        if self.node is not None:
            return self.node, self.attributes
        if self.pruned is not None:
            rest = self.pruned
            where = where_of("while_loop", (*rest.initial, *rest.region.captures, *rest.region.sources))
            return append(LOOP, BOOL, self.widths[self.changed[0]], payload=rest, where=where), self.attributes
        region = innermost()
        live = None if region is None else region.live
        beside = [node for position, node in gradients.items() if not self.is_memory(position)]
        width = max([node.size for node in (live, *beside) if node is not None], default=1)
        values, formals = self.tape.values, self.tape.formals
        is_wide = [position for position in self.needed() if self.given[position].size == width and
                   values[position] is not formals[position] and values[position].kind != LITERAL]
        results = self.loop(flow, [], lambda formals: self.iterated(flow, formals)[1]) if is_wide else \
            self.counted(flow, width=width)
        loop = construct_of(results, self.given)
        assert loop is not None, "what writes is needed"
        return loop, {position: node.attr for position, node in enumerate(results) if node.d0 is loop}

    def most(self, loop: Node) -> int | None:
        """How many iterations there are at most: that is known, or else an evaluation finds out, outside of regions."""
        if self.bound is not None:
            return self.bound
        if self.found is None:
            self.found = most_iterations(loop.payload)
        if self.found is None and self.longest is not None and innermost() is None:
            counted = Counted(loop)
            self.found = self.longest(counted.number, take_over(counted.node))
        return self.found

    def backwards(self, flow: Flow, number: Node, state_of: Callable[[Node], list[Node]], gradients: dict[int, Node],
                  totals: list[Node], memory: list[Node]) -> tuple[dict[int, Node], list[Node], list[Node]]:
        """What :meth:`reverse_general` returns, of numbers of iterations, and what the state was at the beginning of
        one."""
        order = self.changed
        now = [gradients.get(position) or literal(self.given[position].type, 0) for position in order]
        first, last = 1 + len(order), 1 + len(order) + len(totals)

        def condition(formals: list[Node]) -> Node:
            return ops.gt(formals[0], literal(UINT32, 0))  # type: ignore[no-any-return]

        def body(formals: list[Node]) -> list[Node]:
            iteration = ops.sub(formals[0], literal(UINT32, 1))
            before, sums, versions = self.visit(
                flow, Copy(self, self.tape, state_of(iteration), order),
                dict(zip(order, formals[1:first], strict=True)), formals[first:last], formals[last:])
            return [iteration, *(before[position] for position in order), *sums, *versions]

        results = _loop(flow, [number, *now, *totals, *memory], condition, body, self.label, str, self.bound)
        return dict(zip(order, results[1:first], strict=True)), results[first:last], results[last:]

    def counted(self, flow: Flow, more: Callable[[list[Node]], Node] | None = None, width: int = 1) -> list[Node]:
        """The state after the loop, and the number of iterations; ``more`` may end it earlier."""
        count = len(self.given)

        def body(formals: list[Node]) -> list[Node]:
            return [*self.iterated(flow, formals)[1], ops.add(formals[count], literal(UINT32, 1))]

        return self.loop(flow, [literal(UINT32, 0, width)], body, more)

    def recomputed(self, flow: Flow) -> tuple[Node, Callable[[Node], list[Node]]]:
        """The numbers of iterations, and what the state was at the beginning of one, computed again for each."""
        count = len(self.given)
        number = self.counted(flow)[-1]

        def state_of(iteration: Node) -> list[Node]:
            return self.counted(flow, lambda formals: ops.lt(formals[count], iteration))[:count]

        return number, state_of

    # --- loops -------------------------------------------------------------------------------------------------------

    def loop(self, flow: Flow, further: Sequence[Node], body: Function,
             more: Callable[[list[Node]], Node] | None = None) -> list[Node]:
        """A loop over the state and more, as long as the original one, and perhaps shorter."""
        given = self.given if flow.again else [primal(node) for node in self.given]

        def condition(formals: list[Node]) -> Node:
            test = self.test_again(formals)
            return test if more is None else ops.and_(test, more(formals))

        return _loop(flow, [*given, *further], condition, body, self.label, lambda position: (
            "a variable" if position < len(given) else "a gradient"), self.bound)

    def beside(self, flow: Flow, further: Sequence[Node], places: Sequence[int],
               results_of: Callable[[Copy, list[Node]], list[Node]]) -> list[Node]:
        """What becomes of further variables in a loop over the state and these, in whose iterations derivatives flow to
        some places; it computes what the original loop does, if a kernel would compute both."""
        count = len(self.given)

        def body(formals: list[Node]) -> list[Node]:
            copy, found = self.iterated(flow, formals, places)
            return [*found, *results_of(copy, formals[count:])]

        results = self.loop(flow, further, body)
        extended = self.extended(results, [*self.given, *further])
        if extended is not None:
            loop, extension = extended
            loop.payload.extension = extension
        return results[count:]


def _made_of(nodes: Iterable[Node], origins: Sequence[Node], formals: Sequence[Node]) -> bool:
    """Whether any of some values was computed of arrays while a region was traced, as its formals tell: outside."""
    first = min([formal.id for formal in formals], default=0)
    todo, seen = list(nodes) if origins else [], {origin.id for origin in origins}
    while todo:
        node = todo.pop()
        if node.id not in seen and node.id > first:
            seen.add(node.id)
            found = operands(node)
            if any(operand is origin for operand in found for origin in origins):
                return True
            todo += found
    return False


def _differentiate() -> None:
    """Let operations on duals be recorded in the region that is being traced."""
    region = innermost()
    assert region is not None
    region.differentiates = True


def _loop(flow: Flow, given: Sequence[Node], condition: Condition, body: Function, label: str | None,
          name_of: Callable[[int], str], bound: int | None) -> list[Node]:
    """A loop of a derivative, which is differentiable in turn if that is asked for."""
    if flow.again:
        return repeat(given, condition, body, label, name_of, len(given), bound)

    def values(formals: list[Node]) -> list[Node]:
        _differentiate()
        return [primal(node) for node in body(formals)]

    return while_loop([primal(node) for node in given], condition, values, label, name_of, together=True)
