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

from ..codegen.target import limits
from ..control.choice import Joined, Targets, Versions, chosen
from ..control.construct import Functions
from ..errors import NoDerivative
from ..ir.build import literal
from ..ir.dual import dual, primal, tracked, vertex_of
from ..ir.node import Node
from ..ir.region import Choice, Region
from ..ir.trace import opaque, ops
from ..ir.vertex import Vertex
from ..types import IS_FLOAT, UINT32
from .flow import Flow
from .outside import hand_out
from .tape import Copy, Function, Recorded, Tape, spread, taped
from .traversal import go_on

__all__ = ["choose"]

#: What there is no derivative of: what depends on it, and what is to be raised, with which message.
_Refused = tuple[Vertex, type[Exception], str]
#: What a derivative computes with a copy of a tape and memory: results, and what memory is after that.
_Results = Callable[[Copy, list[Node]], tuple[list[Node], list[Node]]]


def choose(function: str, mask: Node, index: Node | None, given: Sequence[Node], targets: Sequence[Function],
           label: str | None, name_of: Callable[[int], str], count: int,
           joined: Joined | None = None) -> tuple[list[Node], Versions]:
    """The results of a branch or call (which has an index), with their derivatives, and what arguments are after
    writes; see :func:`drjit_core.control.choice.cond`."""
    return _Choice(function, given, index, mask, label, count, len(targets)).result(Targets(targets, joined, name_of))


class _Recording(Functions):
    """Functions that leave tapes; their values are known when all have been called."""

    __slots__ = ("choice", "functions", "refused")

    def __init__(self, choice: _Choice, functions: Functions) -> None:
        self.choice, self.functions = choice, functions
        #: What there are no derivatives of, by the numbers of functions.
        self.refused: dict[int, list[_Refused]] = {}

    def target(self, number: int, formals: list[Node]) -> list[Node]:
        self.choice.tapes[number], self.refused[number] = self.choice.recorded(self.functions, number, formals)
        return []

    def joined(self, number: int) -> list[Node]:
        tape = self.choice.tapes[number]
        more = self.functions.joined(number)
        if more:
            tape.add(more)
        return self.choice.completed(tape, self.refused[number])

    def name_of(self, position: int) -> str | None:
        return self.functions.name_of(position)


class _Derivative(Functions):
    """Functions of a derivative, with further arguments that are memory: copies of tapes, through which derivatives
    flow to some ``places``. They return what ``results_of`` these it is told, and then, if that ``extends`` it, what
    the original ones do; what memory is after that is in ``versions``, by their numbers."""

    __slots__ = ("choice", "extends", "places", "results_of", "versions")

    def __init__(self, choice: _Choice, places: Iterable[int], extends: bool, results_of: _Results) -> None:
        self.choice, self.places, self.extends, self.results_of = choice, sorted(places), extends, results_of
        self.versions: dict[int, list[Node]] = {}

    def target(self, number: int, formals: list[Node]) -> list[Node]:
        tape = self.choice.tapes[number]
        wanted = tape.values if self.extends else []
        copy = Copy(self.choice, tape, formals, self.places, wanted)
        results, self.versions[number] = self.results_of(copy, formals[len(self.choice.given):])
        return results + [copy.values[node] for node in wanted]

    def name_of(self, position: int) -> str | None:
        return "an argument" if position < len(self.choice.given) else "a gradient"


class _Choice(Recorded):
    """A branch or call: what its vertex knows about it."""

    FIELDS = (*Recorded.FIELDS, "label", "count", "number", "first", "types")

    def __init__(self, name: str, given: Sequence[Node], index: Node | None, mask: Node, label: str | None,
                 count: int, number: int) -> None:
        super().__init__(name, given, (mask,) if index is None else (index, mask))
        self.label = label
        self.count = count
        #: How many functions there are.
        self.number = number
        #: The types of the results; after the first ones there is what memory is afterwards that changes.
        self.first = 0
        self.types: list[int] = []

    def traced(self, given: list[Node], functions: Functions) -> tuple[list[Node], Versions]:
        """What the compiler makes of the functions, or of those that compute their derivatives."""
        *index, mask = self.deciding
        return chosen(functions, self.number, mask, index[0] if index else None, given, self.label, self.count)

    # --- recording ---------------------------------------------------------------------------------------------------

    def result(self, functions: Functions) -> tuple[list[Node], Versions]:
        """The results, and what arguments are after writes."""
        outputs, versions = self.traced([primal(node) for node in self.given], _Recording(self, functions))
        count = len(outputs)
        outputs = outputs + [versions.get(position, primal(self.given[position])) for position in self.changed]
        places = {place for tape in self.tapes.values() for place, vertex in enumerate(tape.results)
                  if vertex is not None and IS_FLOAT[outputs[place].type]}
        passed = {place: node for place, output in enumerate(outputs)
                  if (node := self.passed(place, output)) is not None}
        self.places = sorted(places - passed.keys())
        self.first = count
        found = [passed.get(place, node) for place, node in enumerate(outputs)]
        if not self.places:
            return found[:count], versions
        for tape in self.tapes.values():
            tape.vertices = []
        self.types = [node.type for node in outputs]
        found = self.results(outputs, found, self.name)
        for position, node in zip(self.changed, found[count:], strict=True):
            if position in versions:
                versions[position] = node
        return found[:count], versions

    def recorded(self, functions: Functions, number: int, formals: list[Node]) -> tuple[Tape, list[_Refused]]:
        """A function is called, and leaves a tape; also what there are no derivatives of."""
        known: dict[int, Vertex | None] = {
            position: vertex for position, node in enumerate(self.given)
            if (vertex := tracked(node)) is not None or position in self.changed}
        inside = list(formals)
        for position, node in enumerate(self.given):  # what is not tracked may be returned as it is
            vertex = vertex_of(node)
            if vertex is not None and position not in known:
                inside[position] = dual(formals[position], vertex)
        tape, refused = taped(lambda formals: functions.target(number, formals), inside, known)
        hand_out([(vertex, leaf.gradient) for position, leaf in tape.leaves.items()
                  if leaf.gradient is not None and (vertex := known[position]) is not None], go_on)
        if isinstance(functions, _Derivative) and self.changed:
            tape.add(functions.versions[number])
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
        return tape.values[:len(tape.values) - len(self.changed)]

    def passed(self, place: int, output: Node) -> Node | None:
        """The argument that all functions return as it is at some place, if it is the result: with its derivatives."""
        for position, node in enumerate(self.given):
            if primal(node) is output:
                for tape in self.tapes.values():
                    vertex = tape.vertices[place]
                    if vertex is None or vertex is not tape.leaves.get(position, vertex_of(node)):
                        break
                else:
                    return node
        return None

    # --- what is asked of it -----------------------------------------------------------------------------------------

    def outer(self, tape: Tape, vertices: Iterable[Vertex]) -> list[Vertex]:
        found = [tracked(self.given[tape.positions[vertex.id]]) if vertex.id in tape.positions else vertex
                 for vertex in vertices]
        return [vertex for vertex in found if vertex is not None]

    def flow_back(self, flow: Flow) -> None:
        gradients = {place: spread(gradient, self.widths[place]) for place, gradient in self.received.items()}
        read, direct = self.receiving(flow)
        memory = [flow.room(vertex) for vertex in read]

        def gradient(copy: Copy, versions: list[Node]) -> tuple[list[Node], list[Node]]:
            results, versions = self.flowing(flow, copy, gradients, (), read, direct, versions)
            return [results[k] or literal(vertex.type, 0) for k, vertex in enumerate(direct)], versions

        results, versions = self.other(flow, gradient, gradients, memory)
        for vertex, place in self.sums():
            if vertex is not None and place in gradients:
                flow.give(vertex, gradients[place], gradients[place].size, True)
        for k, vertex in enumerate(direct):
            flow.give(vertex, results[k], results[k].size, True)
        for position, vertex in enumerate(read, len(self.given)):
            if position in versions:
                flow.give_scattered(vertex, versions[position])

    def flow_on(self, flow: Flow) -> None:
        changes = [(vertex, flow.change(vertex)) for vertex in self.at(range(len(self.initial), len(self.inputs)))]
        places = [place for place in self.places if place < self.first]
        sums = [(position, place, flow.change(vertex)) for position, (vertex, place) in zip(
            self.changed, self.sums(), strict=True) if place in self.places]
        memory = [opaque(literal(self.types[place], 0, self.widths[place])) if before is None else before
                  for _, place, before in sums]

        def change(copy: Copy, versions: list[Node]) -> tuple[list[Node], list[Node]]:
            own = [(copy.leaves[position], version) for (position, _, _), version in zip(sums, versions, strict=True)]
            moved = self.moving(copy, [*own, *changes], flow.again)
            return ([moved.get(place) or literal(self.types[place], 0) for place in places],
                    [moved.get(place) or version for (_, place, _), version in zip(sums, versions, strict=True)])

        results, versions = self.other(flow, change, self.places, memory)
        self.sent = {place: spread(result, self.widths[place]) for place, result in zip(places, results, strict=False)}
        for k, (_, place, _) in enumerate(sums):
            self.sent[place] = versions.get(len(self.given) + k, memory[k])

    def sums(self) -> list[tuple[Vertex | None, int]]:
        """Of arrays that gradients are added up in, which may be variables that derivatives flow to, and the places
        among the results of what they are afterwards."""
        known = dict(zip(self.initial, self.inputs, strict=False))
        return [(known.get(position), place) for place, position in enumerate(self.changed, self.first)]

    def other(self, flow: Flow, results_of: _Results, places: Iterable[int],
              memory: list[Node]) -> tuple[list[Node], Versions]:
        """Trace a derivative; its results may be followed by the original ones, in case that a kernel needs both."""
        extends = self.extends() and not memory
        functions = _Derivative(self, places, extends, results_of)
        if flow.again:
            *index, mask = self.deciding
            choice = _Choice(self.name, [*self.given, *memory], index[0] if index else None, mask, self.label,
                             self.count, self.number)
            choice.changed = list(range(len(self.given), len(choice.given)))
            return choice.result(functions)
        given = [*[primal(node) for node in self.given], *memory]
        if memory and len(self.deciding) == 2 and self.number <= limits(memory[0].where).tracing.targets:
            return self.one_by_one(functions, 0, given)
        results, versions = self.traced(given, functions)
        if extends:
            self.extend(results, given)
        return results, versions

    def one_by_one(self, functions: _Derivative, number: int, given: list[Node]) -> tuple[list[Node], Versions]:
        """The derivative of a call, from a function on, as branches within each other: what these add to memory may
        wait for the end of the kernel, or go to tables of the threads."""
        index, mask = self.deciding
        results: list[Node] = []

        def target(formals: list[Node]) -> list[Node]:
            results[:] = functions.target(number, formals)
            return list(results)

        def others(formals: list[Node]) -> list[Node]:
            if number + 1 < self.number:
                return self.one_by_one(functions, number + 1, formals)[0]
            return [literal(node.type, 0) for node in results]

        here = ops.and_(mask, ops.eq(index, literal(UINT32, number)))
        branches = Targets((target, others), None, lambda position: functions.name_of(position) or "")
        return chosen(branches, 2, here, None, given, self.label, self.count)

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
