"""What functions of loops, branches and calls leave when they are called on duals, and copies of that.

A function of the user's is called once.  It leaves nodes of a region, and vertices: a *tape*.  A derivative of the
construct needs both in a region of its own: there, the nodes are traced again, as far as they are needed, and vertices
like those of the tape refer to the new ones.  So a derivative is that of what was traced, whatever the program has
changed since, and what the function does besides is not done again.

A vertex of many operands (a construct within, a custom operation) has an object that knows about it, which is *moved*:
another one like it refers to the new nodes and vertices.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from weakref import ref

from ..control.demand import Demand
from ..control.extend import construct_of
from ..control.inline import Values, trace_again
from ..errors import NoDerivative
from ..ir.build import literal, resize
from ..ir.dual import STRUCTURE, dual, is_recorded, primal, recorded_in, refuse_for, tracked, vertex_of
from ..ir.extension import Extension
from ..ir.node import Node
from ..ir.region import CONTROL, Control, needed_for, operands
from ..ir.structured import READS
from ..ir.symbolic import Tracing, innermost
from ..ir.vertex import HUB, LEAF, Vertex, last_vertex
from ..ops.table import EVALUATED, IS_WRITE, LITERAL, PHI
from .flow import Flow, full
from .traversal import CONSUMED, depending, pull_along, push

__all__ = ["Copy", "Function", "Recorded", "Tape", "spread", "taped", "traced_within"]

#: A function of a loop, branch or call, of nodes.
Function = Callable[[list[Node]], list[Node]]

#: Operations with structure that a region may be differentiated through.
_ALLOWED = {"accumulate", "gather", "cast", "identity", "join", "output"}
_NOTHING: dict[int, Any] = {}
_number = operator.itemgetter(0)
_id = operator.attrgetter("id")
#: Arrays of so many elements are held all the same: to find out what is needed takes some 20 us.
_FEW = 4096


class Tape:
    """What a function has left in the graph, and in that of derivatives."""

    def __init__(self, region: Tracing, boundary: int, formals: Sequence[Node], leaves: dict[int, Vertex],
                 found: Sequence[Node]) -> None:
        self.scope = region.id
        #: Older vertices are from outside.
        self.boundary = boundary
        #: Arrays from outside that turned out to be variables, by numbers, with what stood for them (duals); and what
        #: stood for all variables, these included.
        self.adopted: dict[int, tuple[Node, Node]] = _NOTHING
        self.formals = [primal(formal) for formal in formals]
        if region.adopted:
            self.adopted = {number: (before, stand) for number, before, stand, _ in sorted(region.adopted, key=_number)}
            self.formals += [primal(stand) for _, stand in self.adopted.values()]
        self.masks = [mask for mask in (region.entering, region.live) if mask is not None]
        #: By positions of variables, the vertices that they had.
        self.keep_leaves(leaves)
        #: What it returned: values, and vertices of those that derivatives are tracked of; all vertices that they have.
        self.values = [primal(node) for node in found]
        self.results = [tracked(node) for node in found]
        self.vertices = [vertex_of(node) for node in found]
        #: What derivatives need besides, as far as that was asked for.
        self.demands: dict[Any, Demand] = {}

    def add(self, nodes: Sequence[Node]) -> None:
        """Add further results."""
        self.values += [primal(node) for node in nodes]
        self.results += [tracked(node) for node in nodes]
        self.vertices += [vertex_of(node) for node in nodes]

    # --- vertices ----------------------------------------------------------------------------------------------------

    def is_outside(self, vertex: Vertex) -> bool:
        """Whether a vertex is no part of the tape: it is from outside, or what an earlier traversal has left of one."""
        return vertex.id <= self.boundary or vertex.rule is CONSUMED

    def is_end(self, vertex: Vertex) -> bool:
        """Whether derivatives end at a vertex: outside, or at a variable."""
        return self.is_outside(vertex) or vertex.id in self.positions

    def keep_leaves(self, leaves: dict[int, Vertex]) -> None:
        """Let only some variables, by their positions, have derivatives."""
        self.leaves = leaves
        self.positions = {leaf.id: position for position, leaf in leaves.items()}
        self._orders: dict[tuple[int, ...], list[Vertex]] = {}
        self._inputs: dict[tuple[int, ...], list[tuple[Vertex, bool, bool]]] = {}

    def keep(self, places: Collection[int]) -> None:
        """Let results have derivatives only at some places, and there only if they depend on anything outside."""
        flowing = {vertex.id for vertex in self.order(self.there(places))}
        self.results = [vertex if vertex is not None and place in places and (
            vertex.id in flowing or self.is_end(vertex)) else None for place, vertex in enumerate(self.results)]

    def there(self, places: Iterable[int]) -> tuple[int, ...]:
        """Those of some places whose results have vertices."""
        return tuple([place for place in places if self.results[place] is not None])

    def reached(self, vertices: Iterable[Vertex]) -> list[Vertex]:
        """All vertices that some depend on, up to where derivatives end, in the order of their making."""
        found: list[Vertex] = []
        seen: set[int] = set()
        todo = list(vertices)
        while todo:
            vertex = todo.pop()
            if vertex.id not in seen:
                seen.add(vertex.id)
                found.append(vertex)
                if not self.is_end(vertex):
                    todo += vertex.operands()
        if len(found) > 1:
            found.sort(key=_id)
        return found

    def at(self, places: Iterable[int]) -> list[Vertex]:
        """The vertices of results."""
        return [vertex for place in places if (vertex := self.results[place]) is not None]

    def order(self, places: tuple[int, ...]) -> list[Vertex]:
        """The vertices of the tape along which derivatives flow to some results, in the order of their making."""
        if places not in self._orders:
            reached = self.reached(self.at(places))
            ends = {vertex.id for vertex in reached if self.is_end(vertex)}
            self._orders[places] = [vertex for vertex in depending(reached, ends) if vertex.id not in ends]
        return self._orders[places]

    def ends(self, places: Iterable[int]) -> list[tuple[Vertex, bool, bool]]:
        """The variables that results depend on, and whether by reads by index, and otherwise."""
        key = self.there(places)
        if key not in self._inputs:
            self._inputs[key] = self._ends_of(key)
        return self._inputs[key]

    def _ends_of(self, places: tuple[int, ...]) -> list[tuple[Vertex, bool, bool]]:
        order, found = self.order(places), {}
        live = {vertex.id for vertex in order}
        for vertex in self.at(places):
            if vertex.id not in live and self.is_end(vertex):
                found[vertex.id] = vertex, False, True
        for vertex in order:
            rule = vertex.rule
            if rule is HUB:
                for place, operand in enumerate(vertex.info.inputs):
                    by_index, is_direct = vertex.info.uses(place)
                    self._note_end(operand, by_index, is_direct, live, found)
                continue
            if not rule.partials and rule.name and rule.name not in _ALLOWED and rule.name not in READS:
                raise NoDerivative(f"there is no derivative of a {rule.name} in a symbolic branch or call")
            for place, entry in enumerate((vertex.a, vertex.b, vertex.c)):
                if entry is not None:
                    by_index = _is_read(vertex, place)
                    self._note_end(entry, by_index, not by_index, live, found)
        return list(found.values())

    def _note_end(self, operand: Vertex, is_read: bool, is_direct: bool, live: set[int],
                  found: dict[int, tuple[Vertex, bool, bool]]) -> None:
        """Note how an operation uses an operand, if derivatives end there."""
        if operand.id in live:
            if is_read:
                raise NoDerivative("there is no derivative of a read by index of what a symbolic loop, branch or call "
                                   "has computed itself; compute it before")
        elif self.is_end(operand):
            if operand.id in found:
                _, before, also = found[operand.id]
                is_read, is_direct = is_read or before, is_direct or also
            found[operand.id] = operand, is_read, is_direct

    # --- nodes -------------------------------------------------------------------------------------------------------

    def demand(self, places: Iterable[int], wanted: Sequence[Node] = (), repeats: bool = False) -> Demand:
        """What derivatives of some results need of the region, and some values; ``repeats``: of a loop's, whose
        variables become what the function returned."""
        there = self.there(places)
        key = there, tuple([node.id for node in wanted]), repeats
        if key not in self.demands:
            roots = [*wanted, *_kept_by(self.order(there))]
            finals, apart = {}, []
            for position in range(min(len(self.formals), len(self.values))):
                formal, value = self.formals[position], self.values[position]
                if repeats:
                    finals[formal.id] = value
                if formal.scope != self.scope and formal is not value:
                    apart.append(formal.id)
            self.demands[key] = Demand(self.scope, roots, finals, apart)
        return self.demands[key]


def _kept_by(vertices: Iterable[Vertex]) -> list[Node]:
    """The nodes that derivatives of operations need."""
    found = []
    for vertex in vertices:
        found += [node for node in (vertex.x, vertex.y, vertex.z, vertex.r) if node is not None]
        if vertex.rule is HUB:
            found += vertex.info.nodes()
        elif vertex.info.__class__ is tuple:
            found += [primal(entry) for entry in vertex.info if isinstance(entry, Node)]
    return found


def traced_within(nodes: Sequence[Node], scope: int, stands: Sequence[tuple[Node, Node]]) -> list[Node] | None:
    """What nodes of a region that was traced before are in the one that is being traced, with their derivatives, given
    what stands for others; ``None`` if that is not known, because they write."""
    region = innermost()
    assert region is not None
    values = Values({primal(node).id: primal(stand) for node, stand in stands}, (), ())
    vertices = {vertex.id: other for node, stand in stands
                if (vertex := vertex_of(node)) is not None and (other := vertex_of(stand)) is not None}
    ends = [vertex for node in nodes if (vertex := tracked(node)) is not None]
    recorded = [vertex for vertex in recorded_in(scope, ends) if vertex.id not in vertices]
    roots = [primal(node) for node in (*nodes, *_kept_by(recorded))]
    found = [node for node in needed_for(scope, (), (roots,))[0] if node.id not in values.known]
    if [node for node in found if IS_WRITE[node.kind] or node.kind in CONTROL and node.payload.writes]:
        return None
    values.known |= {node.id: region.live for node in found if node.kind == PHI}
    trace_again([node for node in found if node.kind != PHI], values)
    moved = Moved(scope, values, vertices)
    for vertex in recorded:
        vertices[vertex.id] = moved.copied(vertex)
    return [moved.node(node) for node in nodes]


def _is_read(vertex: Vertex, place: int) -> bool:
    """Whether an operation reads an operand by index."""
    name = vertex.rule.name
    if name == "gather":
        return vertex.a is not None and vertex.a.size != 1
    return name in READS and 0 <= vertex.info[place] < READS[name]


class Moved:
    """Vertices that were recorded in one region, in another one: like them, of the nodes that stand for what they keep.
    """

    def __init__(self, scope: int, values: Values, vertices: dict[int, Vertex]) -> None:
        self.scope = scope
        #: What stands for nodes, and for vertices by their ids.
        self.values, self._vertices = values, vertices

    def is_outside(self, vertex: Vertex) -> bool:
        """Whether a vertex is what it is in any region."""
        return vertex.scope != self.scope

    def copied(self, vertex: Vertex) -> Vertex:
        """A vertex like another one."""
        info = vertex.info
        if vertex.rule is HUB:
            info = info.moved(self)
        elif info.__class__ is tuple:
            info = tuple([self.node(entry) if isinstance(entry, Node) else entry for entry in info])
        a, b, c = vertex.a, vertex.b, vertex.c
        new = Vertex(vertex.rule, vertex.type, vertex.size, a and self._known(a), b and self._known(b),
                     c and self._known(c), info)
        x, y, z, r = vertex.x, vertex.y, vertex.z, vertex.r
        if x is not None:
            new.x = self.values[x]
        if y is not None:
            new.y = self.values[y]
        if z is not None:
            new.z = self.values[z]
        if r is not None:
            new.r = self.values[r]
        if vertex.label is not None:
            new.label = vertex.label
        return new

    def _known(self, vertex: Vertex) -> Vertex | None:
        found = self._vertices.get(vertex.id)
        return vertex if found is None and self.is_outside(vertex) else found

    def vertex(self, vertex: Vertex) -> Vertex:
        """What stands for a vertex; where no derivatives flow, one that has nothing to do with any other."""
        return self._known(vertex) or self._vertices.setdefault(
            vertex.id, Vertex(LEAF, vertex.type, vertex.size))

    def node(self, node: Node) -> Node:
        """What stands for a value, which may be a dual."""
        value: Node = self.values[primal(node)]
        vertex = vertex_of(node)
        if vertex is None:
            return value
        found = self._known(vertex)
        return value if found is None else node if found is vertex and value is primal(node) else dual(value, found)


class Copy(Moved):
    """What a tape of a construct is in the region that is being traced.

    ``formals`` are the new ones; derivatives flow to the results at some ``places``, and some values are ``wanted``
    besides.
    """

    def __init__(self, construct: Recorded, tape: Tape, formals: Sequence[Node], places: Sequence[int],
                 wanted: Sequence[Node] = ()) -> None:
        region = innermost()
        assert region is not None and region.live is not None
        region.differentiates = True
        self.tape = tape
        demand, mask, width = tape.demand(places, wanted), tape.masks[-1], region.live.size
        self.values = Values(construct.nodes_around, tape.formals, [primal(formal) for formal in formals], demand.ids)
        self.values.add(tape.masks, [region.live] * len(tape.masks))
        before = mask.size
        if width != before > 1:
            self.values.known |= {node.id: resize(node, width) for node in demand.captures
                                  if node.kind == LITERAL and node.size == before}
        trace_again(demand.nodes, self.values)
        #: The vertices of variables by their positions, if derivatives flow there: new ones, where variables change.
        self.leaves = construct.vertices_of_variables()
        self._vertices = dict(construct.vertices_around)
        for position, leaf in tape.leaves.items():
            if position in construct.changed and places:
                self.leaves[position] = vertex_of(formals[position]) or Vertex(LEAF, leaf.type, leaf.size)
            if position in self.leaves:
                self._vertices[leaf.id] = self.leaves[position]
        #: Those of the operations, in the order of their making.
        self.vertices: list[Vertex] = []
        for vertex in tape.order(tape.there(places)):
            self._vertices[vertex.id] = new = self.copied(vertex)
            self.vertices.append(new)
        #: The vertices of the results, by their places.
        self.results = {place: self.vertex(end) for place in places if (end := tape.results[place]) is not None}

    def is_outside(self, vertex: Vertex) -> bool:
        return self.tape.is_outside(vertex)

    def value(self, place: int) -> Node:
        """A result that was wanted, with its derivative if one flows there."""
        value: Node = self.values[self.tape.values[place]]
        vertex = self.results.get(place)
        return value if vertex is None else dual(value, vertex)


class Recorded:
    """A loop, a branch or a call whose functions have left tapes: what its vertex knows about it."""

    #: Derivatives of it can be differentiated.
    again = True
    #: Its attributes, but for those of a traversal.
    FIELDS = tuple([  # noqa: C409  (of any length: classes that derive have more)
        "name", "given", "deciding", "tapes", "demands", "places", "widths", "changed", "initial", "inputs",
        "positions", "read", "direct", "attributes", "nodes_around", "vertices_around", "keys"])
    #: Whether the functions find in variables what they have returned before.
    repeats = False

    def __init__(self, name: str, given: Sequence[Node], deciding: Sequence[Node] = ()) -> None:
        self.name = name
        #: Its variables, which may be duals; and masks and indices.
        self.given = list(given)
        self.deciding = deciding
        #: What the functions have left that are called, by their numbers; what derivatives need of these regions.
        self.tapes: dict[int, Tape] = {}
        self.demands: list[Demand] = []
        #: The places of the results that are differentiable, and the sizes of all.
        self.places: list[int] = []
        self.widths: list[int] = []
        #: Positions of variables that change from one region to the next, which are those of iterations, and of those
        #: that the first inputs are initial values of.
        self.changed: list[int] = []
        self.initial: list[int] = []
        #: The vertices that it depends on, and for each of them the position of the variable that it belongs to, if
        #: there is one and it does not change.
        self.inputs: list[Vertex] = []
        self.positions: list[int | None] = []
        #: Inputs that are read by index, by their places, and those that are used in another way: by themselves, or by
        #: what is read once more; but for initial values of variables that change.
        self.read: list[int] = []
        self.direct: list[int] = []
        #: The construct itself, if it has no effects, and the positions that its results have there, by their places.
        self.reference: Callable[[], Node | None] | None = None
        self.attributes: dict[int, int] = {}
        #: The construct while a derivative is traced, which may compute these results as well, and replaces it then.
        self.node: Node | None = None
        #: Gradients by the places of results: what reverse mode has brought, and what forward mode sends.
        self.received: dict[int, Node] = {}
        self.sent: dict[int, Node] = {}
        #: What stands for the nodes and vertices from outside that the tapes refer to, by ids, if it has been moved.
        self.nodes_around: Mapping[int, Node] = _NOTHING
        self.vertices_around: Mapping[int, Vertex] = _NOTHING
        #: The ids of the inputs before.
        self.keys: list[int] = []

    # --- recording ---------------------------------------------------------------------------------------------------

    def results(self, outputs: Sequence[Node], found: Sequence[Node], label: str) -> list[Node]:
        """What the construct has made, with derivatives at some places: all of it is one operation, unless nobody asks
        for these."""
        self.find_inputs()
        if not is_recorded(self.name, self.inputs):
            return list(found)
        self.adopt()
        self.widths = [node.size for node in outputs]
        self.refer_to(outputs)
        first = outputs[self.places[0]]
        hub = Vertex(HUB, first.type, first.size, info=self)
        hub.label = label
        return [dual(node, Vertex(STRUCTURE["output"], node.type, node.size, hub, info=place))
                if place in self.places else node for place, node in enumerate(found)]

    def find_inputs(self) -> None:
        """Find out what the results depend on."""
        given, changed = self.given, self.changed
        initial = {position: vertex for position in changed if (vertex := tracked(given[position])) is not None}
        found: dict[int, tuple[Vertex, bool, bool]] = {}
        for tape in self.tapes.values():
            for vertex, read, direct in tape.ends(self.places):
                position = tape.positions.get(vertex.id)
                if position in changed:
                    continue
                key, outside = vertex.id, vertex
                if position is not None:
                    key, outside = ~position, tracked(given[position])  # type: ignore[assignment]
                if key in found:
                    _, before, also = found[key]
                    read, direct = read or before, direct or also
                found[key] = outside, read, direct
        self.initial, self.inputs = list(initial), list(initial.values())
        self.positions, self.read, self.direct = [None] * len(initial), [], []
        for key, (vertex, read, direct) in found.items():
            if read:
                self.read.append(len(self.inputs))
            if direct:
                self.direct.append(len(self.inputs))
            self.inputs.append(vertex)
            self.positions.append(~key if key < 0 else None)

    def adopt(self) -> None:
        """Make variables of arrays from outside that have turned out to be some."""
        origins: dict[int, Node] = {}
        count = len(self.given)
        for tape in self.tapes.values():
            if tape.adopted:
                origins |= {number: before for number, (before, _) in tape.adopted.items()}
        if not origins:
            return
        for tape in self.tapes.values():
            tape.formals = [*tape.formals[:count], *[primal(tape.adopted[number][1] if number in tape.adopted else
                                                            origins[number]) for number in sorted(origins)]]
            tape.adopted = _NOTHING
        self.given += [origins[number] for number in sorted(origins)]

    def refer_to(self, outputs: Sequence[Node]) -> None:
        """Refer to the construct that has computed results; when that has been evaluated, let go what is not needed, if
        it may be large."""
        node = construct_of(outputs, self.given)
        if node is None:
            self.let_go(None)
            return
        self.attributes = {place: output.attr for place, output in enumerate(outputs) if output.d0 is node}
        if not [value for value in operands(node) if value.size > _FEW]:
            self.reference = lambda: node
            return
        self.reference = ref(node, _letting_go(ref(self), None if node.scope else node.payload))

    def let_go(self, control: Control | None) -> None:
        """Hold no more than derivatives need of what the functions were given and have left. ``control`` is what the
        construct was, if it stood in no region."""
        needed = set(self.needed())
        for position, node in enumerate(self.given):
            if position not in needed:
                self.given[position] = literal(node.type, 0, node.size)  # for which nobody asks
        for tape in self.tapes.values():
            tape.formals = [formal if position in needed or formal.scope else literal(formal.type, 0, formal.size)
                            for position, formal in enumerate(tape.formals)]
            tape.values = [value if position in needed else tape.formals[position]
                           for position, value in enumerate(tape.values)] if self.repeats else []
            tape.demands = {}

    def derive(self, flow: Flow, trace: Callable[[Flow], None]) -> None:
        """Trace a derivative, which may compute the results of the construct as well if that has not been evaluated."""
        self.node = None if self.reference is None or flow.again else self.reference()
        try:
            trace(flow)
        finally:
            self.node = None

    def extends(self) -> bool:
        """Whether the derivative that is being traced may compute the results of the construct as well."""
        return self.node is not None and not self.node.scope

    def extended(self, results: Sequence[Node], given: Sequence[Node],
                 first: int = 0) -> tuple[Node, Extension] | None:
        """The derivative that some results are of, and what it can compute, if all results of the construct are among
        them, ``first`` that of the first place."""
        derivative = construct_of(results, given) if self.extends() else None
        if self.node is None or derivative is None:
            return None
        places = {attribute: results[first + place].attr for place, attribute in self.attributes.items()
                  if results[first + place].d0 is derivative}
        return (derivative, Extension(self.node, None, places)) if len(places) == len(self.attributes) else None

    # --- what a construct tells about itself --------------------------------------------------------------------------

    def demanded(self) -> list[Node]:
        """What derivatives need of the region besides what derivatives of results do."""
        return []

    def recordings(self) -> list[tuple[Tape, Demand]]:
        """What its functions have left, and what its derivatives need of that."""
        tapes = list(self.tapes.values())
        if not self.demands:
            self.demands = [tape.demand(self.places, self.demanded(), self.repeats) for tape in tapes]
        return list(zip(tapes, self.demands, strict=True))

    def outer(self, tape: Tape, vertices: Iterable[Vertex]) -> list[Vertex]:
        """What stands outside for vertices at which derivatives end."""
        raise NotImplementedError

    def uses(self, place: int) -> tuple[bool, bool]:
        """Whether an input is read by index, and whether it is used in another way."""
        return place in self.read, place < len(self.initial) or place in self.direct

    def vertices_of_variables(self) -> dict[int, Vertex]:
        """The inputs that belong to variables which do not change, by positions: what they have in all regions."""
        return {position: self.inputs[place] for place, position in enumerate(self.positions) if position is not None}

    # --- traversals --------------------------------------------------------------------------------------------------

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow from the results to the variables."""
        self.derive(flow, self.flow_back)

    def forward(self, flow: Flow) -> None:
        """Let changes flow from the variables to the results."""
        self.derive(flow, self.flow_on)

    def flow_back(self, flow: Flow) -> None:
        """Trace a construct that lets gradients flow from the results to the variables."""
        raise NotImplementedError

    def flow_on(self, flow: Flow) -> None:
        """Trace a construct that lets changes flow from the variables to the results."""
        raise NotImplementedError

    def at(self, places: Iterable[int]) -> list[Vertex]:
        """Inputs, each of them once."""
        found: dict[int, Vertex] = {}
        for place in places:
            vertex = self.inputs[place]
            found[vertex.id] = vertex
        return list(found.values())

    def receiving(self, flow: Flow) -> tuple[list[Vertex], list[Vertex]]:
        """The inputs that derivatives flow to: those that are read by index, and those that are used in another way."""
        return ([vertex for vertex in self.at(self.read) if flow.takes(vertex)],
                [vertex for vertex in self.at(self.direct) if flow.takes(vertex)])

    def flowing(self, flow: Flow, copy: Copy, gradients: Mapping[int, Node], further: Sequence[Vertex],
                read: list[Vertex], direct: list[Vertex],
                memory: Sequence[Node]) -> tuple[list[Node | None], list[Node]]:
        """The gradients of some vertices and of inputs (see :meth:`receiving`), and versions of the memory for those
        that are ``read`` by index, given gradients of results: in a region."""
        to = {vertex.id: memory[position] for position, vertex in enumerate(read)}
        pairs = [(vertex, gradients[place]) for place, vertex in copy.results.items() if place in gradients]
        results = pull_along(copy.vertices, pairs, [*further, *direct, *read], flow.again, to)
        return results[:len(further) + len(direct)], [to[vertex.id] for vertex in read]

    def moving(self, copy: Copy, changes: Iterable[tuple[Vertex, Node | None]], again: bool) -> dict[int, Node]:
        """The changes of results, given those of vertices: in a region."""
        pairs = [(vertex, change) for vertex, change in changes if change is not None]
        moved = push(pairs, list(copy.results.values()), again, True)
        return {place: change for k, place in enumerate(copy.results) if (change := moved[k]) is not None}

    def refuse(self, tape: Tape, refused: Iterable[tuple[Vertex, type[Exception], str]]) -> None:
        """Raise what is wrong with operations that some vertices depend on, if anything outside is differentiated by
        them, or by variables of the function's own; or leave that to the region around this one."""
        for vertex, kind, message in refused:
            reached = tape.reached([vertex])
            if [entry for entry in reached if entry.rule is LEAF and not tape.is_end(entry)]:
                raise kind(message)
            refuse_for(kind, message, self.outer(tape, [entry for entry in reached if tape.is_end(entry)]))

    # --- what it is elsewhere -----------------------------------------------------------------------------------------

    def needed(self) -> list[int]:
        """Positions of the variables whose values its derivatives need."""
        found: set[int] = set()
        for tape, demand in self.recordings():
            found.update([position for position, formal in enumerate(tape.formals) if formal.id in demand.ids])
        return sorted(found)

    def captures(self) -> list[Node]:
        """The values of regions around that they need besides, or what may be some, as the tapes refer to them."""
        return list({node.id: node for _, demand in self.recordings() for node in demand.captures
                     if node.scope or node.kind not in (LITERAL, EVALUATED)}.values())

    def nodes(self) -> list[Node]:
        """All values from outside that they need."""
        return [*[primal(self.given[position]) for position in self.needed()], *self.deciding,
                *[self.nodes_around.get(node.id, node) for node in self.captures()]]

    def moved(self, copy: Copy) -> Recorded:
        """What was recorded, in another region: a copy of the tape that it is part of says what stands for what."""
        new, needed = self.__class__.__new__(self.__class__), set(self.needed())
        for name in self.FIELDS:
            setattr(new, name, getattr(self, name))
        new.reference = new.node = None
        new.given = [copy.node(node) if position in needed else literal(node.type, 0, node.size)
                     for position, node in enumerate(self.given)]
        new.deciding = [copy.node(node) for node in self.deciding]
        new.inputs = [copy.vertex(vertex) for vertex in self.inputs]
        new.keys = self.keys or [vertex.id for vertex in self.inputs]
        new.vertices_around = dict(zip(new.keys, new.inputs, strict=True))
        new.nodes_around = {node.id: copy.values[self.nodes_around.get(node.id, node)] for node in self.captures()}
        new.received, new.sent = {}, {}
        return new


def _letting_go(own: ref[Recorded], control: Control | None) -> Callable[[object], None]:
    """What happens when a construct is gone: on its own, since it must not hold that."""
    def end(_: object) -> None:
        recorded = own()
        if recorded is not None:
            recorded.let_go(control)

    return end


def spread(gradient: Node, size: int) -> Node:
    """A gradient with an element for each of a result; in regions, each element has its own anyway."""
    return full(gradient, size) if innermost() is None else gradient


def taped(function: Function, formals: Sequence[Node],
          variables: Mapping[int, Vertex | None]) -> tuple[Tape, list[tuple[Vertex, type[Exception], str]]]:
    """Call a function of the user's; what it leaves, and what there are no derivatives of: vertices that it depends on,
    and what is to be raised.  ``variables`` have, by their positions, vertices outside, or may turn out to have some.
    """
    region = innermost()
    assert region is not None
    region.differentiates, region.taped, region.entries = True, True, {}
    boundary, inside, leaves = last_vertex(), list(formals), {}
    for position, vertex in variables.items():
        formal = formals[position]
        leaves[position] = leaf = Vertex(LEAF, formal.type, formal.size)
        inside[position] = dual(formal, leaf)
        region.entries[leaf.id] = vertex
    found = function(inside)
    for position, leaf in leaves.items():
        leaf.size = formals[position].size  # which may have turned out to be memory
    return Tape(region, boundary, formals, leaves, found), region.refused
