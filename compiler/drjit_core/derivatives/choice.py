"""Derivatives of branches and calls: regions that compute the derivatives of their functions.

The functions of a branch or call are traced of duals, whose operations leave vertices as everywhere; what the compiler
sees are the values. All of it is one operation of the graph around it, of the variables that the functions were given
and of those that they refer to. Its derivative is another branch or call by the same masks and indices: its functions
trace the original ones again, and let derivatives flow through what that leaves. Each element does so for itself;
gradients of single values are summed when the region has ended, and gradients of reads by index are scattered to arrays
that the region is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from weakref import ref

from ..context import state
from ..control.choice import Versions
from ..errors import NoDerivative
from ..ir.build import literal
from ..ir.dual import STRUCTURE, Scope, dual, primal, require_recording, tracked, vertex_of
from ..ir.extension import Extension
from ..ir.node import Node
from ..ir.region import Choice, Region
from ..ir.symbolic import innermost
from ..ir.vertex import HUB, LEAF, Vertex, last_vertex
from ..ops.table import LOOP, RESULT
from ..types import TYPES
from .flow import Flow, full
from .outside import hand_out
from .traversal import go_on, pull, push

__all__ = ["Function", "Tape", "Trace", "choose", "ends_of", "spread", "taped"]

#: A function of a branch or call, of nodes.
Function = Callable[[list[Node]], list[Node]]
#: What traces a branch or call: from arguments, functions, and names of the arguments, to results, and what arguments
#: are after writes.
Trace = Callable[[Sequence[Node], Sequence[Function], Callable[[int], str], bool], tuple[list[Node], Versions]]

#: Operations with structure that a region may be differentiated through.
_ALLOWED = {"gather", "cast", "identity", "output"}


class Tape(NamedTuple):
    """What a function has left in the graph of derivatives."""

    boundary: int  # older vertices are from outside
    leaves: dict[int, Vertex]  # by positions of arguments
    results: list[Vertex | None]


def choose(function: str, trace: Trace, given: Sequence[Node], targets: Sequence[Function],
           name_of: Callable[[int], str]) -> tuple[list[Node], Versions]:
    """The results of a branch or call, with their derivatives, and what arguments are after writes."""
    return _Choice(function, trace, given, targets, name_of).result()


class _Choice:
    """A branch or call: what its vertex knows about it."""

    #: Derivatives of it can be differentiated.
    again = True

    def __init__(self, name: str, trace: Trace, given: Sequence[Node], targets: Sequence[Function],
                 name_of: Callable[[int], str]) -> None:
        self.name = name
        self.trace = trace
        self.given = list(given)
        self.targets = list(targets)
        self.name_of = name_of
        #: Which derivatives are tracked while the functions run.
        self.scope = state.derivatives
        self.tapes: dict[int, Tape] = {}
        #: The variables that it depends on, and of which argument each is, if of any.
        self.inputs: list[Vertex] = []
        self.positions: list[int | None] = []
        #: Those that are read by index, by their places.
        self.read: list[int] = []
        #: Those that are used in another way: by themselves, or by what is read once more.
        self.direct: list[int] = []
        #: Positions of arguments that are written to by index, and not read.
        self.written: frozenset[int] = frozenset()
        self.outputs: list[Node] = []
        #: The branch or call itself, if it stands in no region and has no effects.
        self.node: Node | None = None
        #: Places of the results that are differentiable.
        self.places: set[int] = set()
        #: Gradients by the places of results: what reverse mode has brought, and what forward mode sends.
        self.received: dict[int, Node] = {}
        self.sent: dict[int, Node] = {}

    # --- tracing -----------------------------------------------------------------------------------------------------

    def result(self) -> tuple[list[Node], Versions]:
        """The results, and what arguments are after writes."""
        outputs, versions = self.trace([primal(node) for node in self.given],
                                       [self.recording(number) for number in range(len(self.targets))], self.name_of,
                                       False)
        self.places = places = {
            place for tape in self.tapes.values() for place, vertex in enumerate(tape.results)
            if vertex is not None and TYPES[outputs[place].type].kind == "f"}
        passed = {place: node for place in places if (node := self.passed(place, outputs[place])) is not None}
        places -= passed.keys()
        self.outputs = outputs
        outputs = [passed.get(place, node) for place, node in enumerate(outputs)]
        if not places:
            return outputs, versions
        self.written = versions.only_written
        self.node = _without_effects(outputs)
        require_recording(self.name)
        self.find_inputs(places)
        hub = Vertex(HUB, outputs[0].type, max(node.size for node in outputs), info=self)
        hub.label = self.name
        return [dual(node, Vertex(STRUCTURE["output"], node.type, node.size, hub, info=place)) if place in places else
                node for place, node in enumerate(outputs)], versions

    def passed(self, place: int, output: Node) -> Node | None:
        """The argument that all functions return as it is at some place, if it is the result: with its derivatives."""
        for position, node in enumerate(self.given):
            if primal(node) is output and all(tape.results[place] is tape.leaves.get(position)
                                              for tape in self.tapes.values()):
                return node
        return None

    def recording(self, number: int) -> Function:
        """One of the functions, which leaves a tape, and returns values."""
        def run(formals: list[Node]) -> list[Node]:
            found, tape = self.traced(number, formals)
            self.tapes[number] = tape
            hand_out([(vertex, leaf.gradient) for position, leaf in tape.leaves.items()
                      if leaf.gradient is not None and (vertex := tracked(self.given[position])) is not None], go_on)
            return [primal(node) for node in found]

        return run

    def traced(self, number: int, formals: Sequence[Node], *, again: bool = False) -> tuple[list[Node], Tape]:
        """What one of the functions returns, and its tape."""
        variables = [(position, None) for position, node in enumerate(self.given) if tracked(node) is not None]
        return taped(self.targets[number], formals[:len(self.given)], variables, self.scope, self.written, again=again)

    def find_inputs(self, places: Iterable[int]) -> None:
        """Find out what the results depend on."""
        arguments: set[int] = set()
        around: dict[int, Vertex] = {}
        read: set[int] = set()
        direct: set[int] = set()
        for tape in self.tapes.values():
            position_of = {leaf.id: position for position, leaf in tape.leaves.items()}
            for vertex, is_read, is_direct in ends_of(tape, places):
                position = position_of.get(vertex.id)
                if position is None:
                    around[vertex.id] = vertex
                else:
                    arguments.add(position)
                key = vertex.id if position is None else ~position
                if is_read:
                    read.add(key)
                if is_direct:
                    direct.add(key)
        self.positions = [*sorted(arguments), *[None] * len(around)]
        known = [tracked(self.given[position]) for position in sorted(arguments)]
        self.inputs = [*(vertex for vertex in known if vertex is not None), *around.values()]
        keys = [vertex.id if position is None else ~position
                for position, vertex in zip(self.positions, self.inputs, strict=True)]
        self.read = [place for place, key in enumerate(keys) if key in read]
        self.direct = [place for place, key in enumerate(keys) if key in direct]

    def uses(self, place: int) -> tuple[bool, bool]:
        """Whether an input is read by index, and whether it is used in another way."""
        return place in self.read, place in self.direct

    # --- what traversals ask for -------------------------------------------------------------------------------------

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow from the results to the variables."""
        gradients = {place: spread(gradient, self.outputs[place].size) for place, gradient in self.received.items()}
        memory = [flow.room(self.inputs[place]) for place in self.read]

        def gradient_of(number: int) -> Function:
            def run(formals: list[Node]) -> list[Node]:
                found, tape = self.traced(number, formals, again=True)
                ends = self.ends(tape)
                to = {ends[place].id: formal
                      for place, formal in zip(self.read, formals[len(self.given):], strict=True)}
                pairs = [(vertex, gradient) for place, gradient in gradients.items()
                         if (vertex := tape.results[place]) is not None]
                results = pull(pairs, ends, again=flow.again, memory=to)
                return [*(literal(end.type, 0) if result is None else result
                          for end, result in zip(ends, results, strict=True)), *self.besides(found, flow, memory)]

            return run

        results, versions = self.derive(flow, [gradient_of(number) for number in range(len(self.targets))], memory)
        for place in self.direct:
            flow.give(self.inputs[place], results[place], results[place].size, True)
        for number, place in enumerate(self.read):
            version = versions.get(len(self.given) + number)
            if version is not None:
                flow.give_scattered(self.inputs[place], version)

    def forward(self, flow: Flow) -> None:
        """Let changes flow from the variables to the results."""
        changes = [flow.change(vertex) for vertex in self.inputs]

        def change_of(number: int) -> Function:
            def run(formals: list[Node]) -> list[Node]:
                found, tape = self.traced(number, formals, again=True)
                pairs = [(end, change) for end, change in zip(self.ends(tape), changes, strict=True)
                         if change is not None]
                results = [vertex for vertex in tape.results if vertex is not None]
                moved = iter(push(pairs, results, again=flow.again, lanes=True))
                return [*(literal(node.type, 0) if vertex is None else next(moved) or literal(node.type, 0)
                          for node, vertex in zip(found, tape.results, strict=True)), *self.besides(found, flow, [])]

            return run

        results, _ = self.derive(flow, [change_of(number) for number in range(len(self.targets))], [])
        self.sent = {place: spread(results[place], self.outputs[place].size) for place in self.places}

    def derive(self, flow: Flow, targets: list[Function], memory: list[Node]) -> tuple[list[Node], Versions]:
        """Trace a derivative, with further arguments that are memory."""
        def name_of(position: int) -> str:
            return self.name_of(position) if position < len(self.given) else "a gradient"

        if flow.again:
            return choose(self.name, self.trace, [*self.given, *memory], targets, name_of)
        results, versions = self.trace([*(primal(node) for node in self.given), *memory], targets, name_of, False)
        if self.node is not None and not memory:
            _extend(self.node, self.outputs, results)
        return results, versions

    def besides(self, found: Sequence[Node], flow: Flow, memory: Sequence[Node]) -> list[Node]:
        """What a derivative returns after its own results: the original ones, in case that a kernel needs both."""
        return [] if self.node is None or flow.again or memory else [primal(node) for node in found]

    def ends(self, tape: Tape) -> list[Vertex]:
        """The variables, in a region."""
        return [vertex if position is None else tape.leaves[position]
                for position, vertex in zip(self.positions, self.inputs, strict=True)]


def taped(function: Function, formals: Sequence[Node], variables: Iterable[tuple[int, Vertex | None]],
          scope: Scope | None, written: Iterable[int], *, again: bool) -> tuple[list[Node], Tape]:
    """What a function of the user's returns for formals of a region, and its tape.

    ``variables`` are the positions of those that derivatives are tracked for, each with its vertex if that is known;
    ``scope`` says which derivatives are. ``again``: it is called for its derivative, and does nothing besides; what it
    writes to the formals at positions ``written``, it has written before.
    """
    region = innermost()
    assert region is not None
    region.differentiates = True
    region.repeats |= again
    if again:
        region.done |= {primal(formals[position]).id for position in written}
    boundary, inside, leaves = last_vertex(), list(formals), {}
    before, state.derivatives = state.derivatives, scope
    try:
        for position, known in variables:
            formal = formals[position]
            leaf = vertex_of(formal) or known or Vertex(LEAF, formal.type, formal.size)
            inside[position], leaves[position] = dual(primal(formal), leaf), leaf
        found = function(inside)
        return found, Tape(boundary, leaves, [tracked(node) for node in found])
    finally:
        state.derivatives = before


def _without_effects(results: Sequence[Node]) -> Node | None:
    """The branch or call that some of its results tell, if it stands in no region and writes nothing; what its
    functions return as it is is no result of it."""
    choice = next((node.d0 for node in results if node.kind == RESULT), None)
    if choice is None or choice.kind == LOOP or choice.scope or choice.payload.writes or any(
            node.kind == RESULT and node.d0 is not choice for node in results):
        return None
    return choice


def _extend(before: Node, outputs: Sequence[Node], results: Sequence[Node]) -> None:
    """Let a derivative compute the last of its results only if a kernel would compute the original ones as well."""
    derivative, count = _without_effects(results), len(results) - len(outputs)
    if derivative is None:
        return
    places = {output.attr: result.attr for output, result in zip(outputs, results[count:], strict=True)
              if output.d0 is before and result.d0 is derivative}
    own = [result for result in results[:count] if result.d0 is derivative]
    if not own or len(places) != before.payload.count:
        return
    whole: Choice = derivative.payload
    regions = [Region(region.id, region.formals, region.masks, [region.results[0][:len(own)]])
               for region in whole.regions]
    derivative.payload = part = type(whole)(regions, whole.initial, whole.label, len(own), ())
    part.outputs = [ref(result) for result in own]
    part.extension = Extension(before, whole, places)


def spread(gradient: Node, size: int) -> Node:
    """A gradient with an element for each of a result; in regions, each element has its own anyway."""
    return full(gradient, size) if innermost() is None else gradient


def ends_of(tape: Tape, places: Iterable[int]) -> list[tuple[Vertex, bool, bool]]:
    """The variables that results depend on, and whether by reads by index, and otherwise."""
    leaves = {leaf.id for leaf in tape.leaves.values()}
    found: dict[int, tuple[Vertex, bool, bool]] = {}
    seen: set[int] = set()
    todo = [(vertex, False, True) for place in places if (vertex := tape.results[place]) is not None]
    while todo:
        vertex, is_read, is_direct = todo.pop()
        if vertex.id in leaves or vertex.id <= tape.boundary:
            _, before, also = found.get(vertex.id, (vertex, False, False))
            found[vertex.id] = vertex, is_read or before, is_direct or also
            continue
        if is_read:
            raise NoDerivative("there is no derivative of a read by index of what a symbolic loop, branch or call has "
                               "computed itself; compute it before")
        if vertex.id in seen:
            continue
        seen.add(vertex.id)
        rule = vertex.rule
        if rule is HUB:
            todo += [(operand, *vertex.info.uses(place)) for place, operand in enumerate(vertex.info.inputs)]
            continue
        if not rule.partials and rule.name and rule.name not in _ALLOWED:
            raise NoDerivative(f"there is no derivative of a {rule.name} in a symbolic branch or call")
        reads = rule.name == "gather"
        todo += [(operand, reads and operand.size != 1, not reads or operand.size == 1)
                 for operand in vertex.operands()]
    return list(found.values())
