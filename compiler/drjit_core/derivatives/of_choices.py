"""Derivatives of branches and calls: regions that compute the derivatives of their functions.

The functions of a branch or call are traced of duals, whose operations leave vertices as everywhere; what the compiler
sees are the values. All of it is one operation of the graph around it, of the variables that the functions were given
and of those that they refer to. Its derivative is another branch or call by the same masks and indices: its functions
are copies of what the original ones have left (see :mod:`.tape`), through which derivatives flow. Each element does so
for itself; gradients of single values are summed when the region has ended, and gradients of reads by index are
scattered to arrays that the region is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from weakref import ref

from ..control.choice import Joined, Versions, call, cond
from ..errors import NoDerivative
from ..ir.build import literal
from ..ir.dual import dual, primal, tracked, vertex_of
from ..ir.node import Node
from ..ir.region import Choice, Region
from ..ir.vertex import Vertex
from ..types import TYPES
from .flow import Flow
from .outside import hand_out
from .tape import Copy, Function, Recorded, Tape, spread, taped
from .traversal import go_on

__all__ = ["choose"]

#: What there is no derivative of: what depends on it, and what is to be raised, with which message.
_Refused = tuple[Vertex, type[Exception], str]


def choose(function: str, mask: Node, index: Node | None, given: Sequence[Node], targets: Sequence[Function],
           label: str | None, name_of: Callable[[int], str], count: int,
           joined: Joined | None = None) -> tuple[list[Node], Versions]:
    """The results of a branch or call (which has an index), with their derivatives, and what arguments are after
    writes; see :func:`drjit_core.control.choice.cond`."""
    return _Choice(function, given, [mask] if index is None else [index, mask], label, count).result(
        targets, name_of, joined)


class _Choice(Recorded):
    """A branch or call: what its vertex knows about it."""

    def __init__(self, name: str, given: Sequence[Node], deciding: Sequence[Node], label: str | None,
                 count: int) -> None:
        super().__init__(name, given, deciding)
        self.label = label
        self.count = count
        #: How many functions there are.
        self.functions = 0
        #: The types of the results.
        self.types: list[int] = []

    def traced(self, given: Sequence[Node], targets: Sequence[Function], name_of: Callable[[int], str],
               joined: Joined | None = None) -> tuple[list[Node], Versions]:
        """What the compiler makes of the functions, or of those that compute their derivatives."""
        if len(self.deciding) == 1:
            return cond(self.deciding[0], given, targets[0], targets[1], self.label, name_of, self.count, False, joined)
        index, mask = self.deciding
        return call(index, mask, targets, given, self.label, name_of, self.count, False, joined)

    # --- recording ---------------------------------------------------------------------------------------------------

    def result(self, targets: Sequence[Function], name_of: Callable[[int], str],
               joined: Joined | None) -> tuple[list[Node], Versions]:
        """The results, and what arguments are after writes."""
        refused: dict[int, list[_Refused]] = {}

        def recorded(number: int) -> Function:
            def run(formals: list[Node]) -> list[Node]:
                self.tapes[number], refused[number] = tape, _ = self.recorded(targets[number], formals)
                return self.completed(tape, refused[number]) if joined is None else []

            return run

        def further(number: int) -> list[Node]:
            tape = self.tapes[number]
            tape.add(joined(number) if joined is not None else ())
            return self.completed(tape, refused[number])

        self.functions = len(targets)
        outputs, versions = self.traced([primal(node) for node in self.given],
                                        [recorded(number) for number in range(len(targets))], name_of,
                                        None if joined is None else further)
        places = {place for tape in self.tapes.values() for place, vertex in enumerate(tape.results)
                  if vertex is not None and TYPES[outputs[place].type].kind == "f"}
        passed = {place: node for place, output in enumerate(outputs)
                  if (node := self.passed(place, output)) is not None}
        self.places = sorted(places - passed.keys())
        found = [passed.get(place, node) for place, node in enumerate(outputs)]
        if not self.places:
            return found, versions
        for tape in self.tapes.values():
            tape.vertices = []
        self.types = [node.type for node in outputs]
        return self.results(outputs, found, self.name), versions

    def recorded(self, function: Function, formals: list[Node]) -> tuple[Tape, list[_Refused]]:
        """A function is called, and leaves a tape; also what there are no derivatives of."""
        known = {position: vertex for position, node in enumerate(self.given) if (vertex := tracked(node)) is not None}
        inside = list(formals)
        for position, node in enumerate(self.given):  # what is not tracked may be returned as it is
            vertex = vertex_of(node)
            if vertex is not None and position not in known:
                inside[position] = dual(formals[position], vertex)
        tape, refused = taped(function, inside, known)
        hand_out([(known[position], leaf.gradient) for position, leaf in tape.leaves.items()
                  if leaf.gradient is not None], go_on)
        return tape, refused

    def completed(self, tape: Tape, refused: list[_Refused]) -> list[Node]:
        """The values of what a function has returned; derivatives of it are possible."""
        self.refuse(tape, refused)
        tape.keep(range(len(tape.results)))
        try:
            tape.ends(range(len(tape.results)))
        except NoDerivative as error:
            self.refuse(tape, [(vertex, NoDerivative, str(error)) for vertex in tape.at(range(len(tape.results)))])
            tape.keep(())
        return tape.values

    def passed(self, place: int, output: Node) -> Node | None:
        """The argument that all functions return as it is at some place, if it is the result: with its derivatives."""
        if any(tape.vertices[place] is None for tape in self.tapes.values()):
            return None
        for position, node in enumerate(self.given):
            if primal(node) is output and all(
                    tape.vertices[place] is tape.leaves.get(position, vertex_of(node)) for tape in self.tapes.values()):
                return node
        return None

    # --- what is asked of it -----------------------------------------------------------------------------------------

    def outer(self, tape: Tape, vertices: Iterable[Vertex]) -> list[Vertex]:
        found = [tracked(self.given[tape.positions[vertex.id]]) if vertex.id in tape.positions else vertex
                 for vertex in vertices]
        return [vertex for vertex in found if vertex is not None]

    def flow_back(self, flow: Flow) -> None:
        gradients = {place: spread(gradient, self.widths[place]) for place, gradient in self.received.items()}
        (read, direct), count = self.receiving(flow), len(self.given)
        memory = [flow.room(vertex) for vertex in read]

        def gradient(copy: Copy, versions: Sequence[Node]) -> list[Node]:
            results, _ = self.flowing(flow, copy, gradients, (), versions)
            return [result or literal(vertex.type, 0) for vertex, result in zip(direct, results, strict=True)]

        results, versions = self.other(flow, gradient, gradients, memory)
        for vertex, result in zip(direct, results, strict=False):
            flow.give(vertex, result, result.size, True)
        for position, vertex in enumerate(read, count):
            if position in versions:
                flow.give_scattered(vertex, versions[position])

    def flow_on(self, flow: Flow) -> None:
        changes = [(vertex, flow.change(vertex)) for vertex in self.at(range(len(self.inputs)))]

        def change(copy: Copy, _: Sequence[Node]) -> list[Node]:
            moved = self.moving(copy, changes, again=flow.again)
            return [moved.get(place) or literal(self.types[place], 0) for place in self.places]

        results, _ = self.other(flow, change, self.places, [])
        self.sent = {place: spread(result, self.widths[place])
                     for place, result in zip(self.places, results, strict=False)}

    def other(self, flow: Flow, results_of: Callable[[Copy, Sequence[Node]], list[Node]], places: Iterable[int],
              memory: list[Node]) -> tuple[list[Node], Versions]:
        """Trace a derivative, with further arguments that are memory: what copies of tapes tell, through which
        derivatives flow to some places; and then the original results, in case that a kernel needs both."""
        count, ordered = len(self.given), sorted(places)

        def function(number: int) -> Function:
            def run(formals: list[Node]) -> list[Node]:
                tape = self.tapes[number]
                wanted = tape.values if self.extends() and not memory else []
                copy = Copy(self, tape, formals, ordered, wanted)
                return [*results_of(copy, formals[count:]), *[copy.values[node] for node in wanted]]

            return run

        def name_of(position: int) -> str:
            return "an argument" if position < count else "a gradient"

        targets = [function(number) for number in range(self.functions)]
        if flow.again:
            return _Choice(self.name, [*self.given, *memory], self.deciding, self.label, self.count).result(
                targets, name_of, None)
        given = [*(primal(node) for node in self.given), *memory]
        results, versions = self.traced(given, targets, name_of)
        if not memory:
            self.extend(results, given)
        return results, versions

    def extend(self, results: Sequence[Node], given: Sequence[Node]) -> None:
        """Let a derivative compute the last of its results only if a kernel would compute the original ones as well."""
        count = len(results) - len(self.widths)
        found = self.extended(results, given, count)
        if found is None:
            return
        derivative, extension = found
        own = [result for result in results[:count] if result.d0 is derivative]
        if not own:
            return
        whole: Choice = derivative.payload
        regions = [Region(region.id, region.formals, region.masks, [region.results[0][:len(own)]])
                   for region in whole.regions]
        derivative.payload = part = type(whole)(regions, whole.initial, whole.label, len(own), ())
        part.outputs = [ref(result) for result in own]
        part.extension = extension._replace(payload=whole)
