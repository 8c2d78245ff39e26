"""Tracing a region again, with other operands: a branch that is known, an unrolled loop, other trace functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..context import current
from ..ir import trace
from ..ir.build import append, literal
from ..ir.expansion import TRACED
from ..ir.node import Node
from ..ir.region import Control, Region, arguments_of, memory_of, needed_for, operands
from ..ir.symbolic import Tracing, innermost, is_replaced, recompute
from ..ops.reductions import EXCHANGES
from ..ops.table import (
    BITCAST,
    CALL,
    CAST,
    COND,
    FETCH,
    FIRST_ELEMENTWISE,
    GATHER,
    LITERAL,
    LOCAL,
    LOOP,
    OPS,
    PACK,
    PHI,
    RESULT,
    SCATTER,
)
from ..types import BOOL

__all__ = ["AGAIN", "PLAIN", "ROWS", "Again", "Plain", "Rows", "TraceFunctions", "Values", "inline", "live_mask",
           "trace_again", "traced_again_by"]


_NOTHING: Mapping[int, Any] = {}


class Again(NamedTuple):
    """What is known of a loop that is traced again: one trace is enough if it is begun with that."""

    #: Positions of variables that the body leaves alone, and of those that are memory.
    same: frozenset[int]
    memory: frozenset[int]
    #: What it uses besides variables, which tells how wide it is; and whether it writes.
    captures: list[Any]
    writes: bool
    #: If it was wide only for the sake of what it writes: the widths of its writes before it was.
    single: Sequence[int]


class TraceFunctions(Protocol):
    """What traces the nodes of a region: elementwise rows by kind, and operations with structure."""

    def row(self, kind: int, operands: Sequence[Any]) -> Any:
        """An elementwise operation."""

    def cast(self, a: Any, type_: int) -> Any:
        """Conversion."""

    def bitcast(self, a: Any, type_: int) -> Any:
        """Reinterpretation."""

    def gather(self, source: Any, index: Any, mask: Any, harmless: bool) -> Any:
        """A read by index."""

    def scatter(self, target: Any, value: Any, index: Any, mask: Any, op: int, mode: int) -> Any:
        """A write by index."""

    def atomic(self, target: Any, value: Any, index: Any, mask: Any, op: int, mode: int,
               expected: Any = None) -> tuple[Any, Any]:
        """An update by index, of which is also wanted what it finds."""

    def while_loop(self, initial: Sequence[Any], condition: Any, body: Any, label: str | None, *,
                   trips: int, again: Again) -> list[Any]:
        """A loop."""

    def cond(self, mask: Any, arguments: Sequence[Any], true: Any, false: Any, label: str | None, *,
             memory: tuple[frozenset[int], frozenset[int]]) -> Any:
        """A branch: results, and new versions of arguments by position."""

    def call(self, index: Any, mask: Any, targets: Sequence[Any], arguments: Sequence[Any], label: str | None, *,
             memory: tuple[frozenset[int], frozenset[int]]) -> Any:
        """A call: results, and new versions of arguments by position."""


#: What traces elementwise rows, by kind.
_functions: dict[int, Callable[..., Node]] = {}


class Rows:
    """Trace functions on nodes: of what each element computes for itself."""

    def row(self, kind: int, operands: Sequence[Node]) -> Node:
        """An elementwise operation."""
        function = _functions.get(kind)
        if function is None:
            function = _functions[kind] = TRACED.get(kind) or getattr(trace.ops, OPS[kind].name)
        return function(*operands)

    cast = staticmethod(trace.cast)
    bitcast = staticmethod(trace.bitcast)

    def again(self, node: Node, operands: Sequence[Node]) -> Node:
        """What such a node computes, of other operands."""
        if node.kind == CAST:
            return trace.cast(operands[0], node.type)
        if node.kind == BITCAST:
            return trace.bitcast(operands[0], node.type)
        return self.row(node.kind, operands)


ROWS = Rows()


class Plain(Rows):
    """Trace functions on nodes.  Those of constructs are set by the modules that have them."""

    gather = staticmethod(trace.gather)
    scatter = staticmethod(trace.scatter)
    atomic: Callable[..., Any]
    while_loop: Callable[..., Any]
    cond: Callable[..., Any]
    call: Callable[..., Any]


#: What :func:`inline` traces with unless told otherwise.
PLAIN = Plain()


def inline(region: Region, actuals: Sequence[Any], *masks: Any, functions: TraceFunctions) -> list[Any]:
    """What a region computes, all parts of it, for other values of its formals and masks: results of the last part.

    It becomes part of the region that is being traced, if there is one.  Captures stand for themselves.
    """
    values = Values({}, region.formals, actuals)
    values.add(region.masks, masks)
    for part in region.parts:
        trace_again(part, values, functions)
    return [values[node] for node in region.results[-1]]


class Values:
    """What stands for the nodes of a region.

    If it is said which nodes are ``needed``, by their ids, others are not traced: they stand for anything.
    """

    __slots__ = ("found", "known", "memory", "needed")

    def __init__(self, outer: Mapping[int, Any], nodes: Sequence[Node], actuals: Sequence[Any],
                 needed: Collection[int] | None = None, memory: Mapping[int, Any] = _NOTHING) -> None:
        self.known = dict(outer)
        self.needed = needed
        #: What stands for nodes where they are accessed by index, if that is something else, by their ids.
        self.memory = memory
        #: What scatter-reductions have found, by their ids.
        self.found: dict[int, Any] = {}
        self.add(nodes, actuals)

    def inner(self, region: Region, actuals: Sequence[Any]) -> Values:
        """What stands for the nodes of a region within."""
        return Values(self.known, region.formals, actuals, self.needed, self.memory)

    def needs(self, node: Node) -> bool:
        """Whether a node is needed."""
        return self.needed is None or node.id in self.needed

    def accessed(self, node: Node) -> Any:
        """What stands for a node that is accessed by index."""
        found = self.memory.get(node.id)
        return self[node] if found is None or is_replaced(found) else found

    def initial(self, control: Control) -> list[Any]:
        """What stands for the values that the variables of a construct begin with."""
        return [literal(node.type, 0) if not self.needs(node) else self.accessed(node) if formal.payload else self[node]
                for node, formal in zip(control.initial, control.regions[0].formals, strict=True)]

    def of_all(self, nodes: Sequence[Node]) -> list[Any]:
        """What stands for several nodes."""
        return [self[node] if self.needs(node) else literal(node.type, 0) for node in nodes]

    def add(self, nodes: Sequence[Node], actuals: Sequence[Any]) -> None:
        """Let some values stand for nodes."""
        for node, actual in zip(nodes, actuals, strict=False):
            self.known[node.id] = actual

    def __getitem__(self, node: Node) -> Any:
        return self.known.get(node.id, node)


def trace_again(nodes: Sequence[Node], values: Values, functions: TraceFunctions) -> None:
    """Trace nodes again, in their order, with what stands for their operands."""
    if values.needed is not None:
        nodes = [node for node in nodes if node.id in values.needed]
    fetched = {node.d0.id for node in nodes if node.kind == FETCH and node.d0 is not None}
    fetched.update([node.id for node in nodes if node.kind == SCATTER and node.attr in EXCHANGES])
    for node in nodes:
        if node.id in fetched:
            assert node.d0 is not None
            value, *expected, index, mask = [values[operand] for operand in arguments_of(node)]
            found, values.known[node.id] = functions.atomic(values.accessed(node.d0), value, index, mask, node.attr,
                                                            node.payload, *expected)
            values.found[node.id] = found
        else:
            values.known[node.id] = _again(node, values, functions)


def _again(node: Node, values: Values, functions: TraceFunctions) -> Any:
    """Trace a node with other operands; of loops, branches and calls the list of their results."""
    kind = node.kind
    if kind >= FIRST_ELEMENTWISE:
        return functions.row(kind, [values[d] for d in (node.d0, node.d1, node.d2) if d is not None])
    if kind == PACK:
        return node  # its user sees through it
    return AGAIN[kind](node, values, functions)


def _fetch_again(node: Node, values: Values, functions: TraceFunctions) -> Any:
    assert node.d0 is not None
    return values.found[node.d0.id]


def _gather_again(node: Node, values: Values, functions: TraceFunctions) -> Any:
    assert node.d0 is not None and node.d1 is not None and node.d2 is not None
    harmless = node.d3 is None and node.d1.kind != LITERAL
    return functions.gather(values.accessed(node.d0), values[node.d1], values[node.d2], harmless)


def _scatter_again(node: Node, values: Values, functions: TraceFunctions) -> Any:
    assert node.d0 is not None and node.d1 is not None and node.d2 is not None and node.d3 is not None
    return functions.scatter(values.accessed(node.d0), values[node.d1], values[node.d2], values[node.d3], node.attr,
                             node.payload)


def _cast_again(node: Node, values: Values, functions: TraceFunctions) -> Any:
    assert node.d0 is not None
    return functions.cast(values[node.d0], node.type)


def _bitcast_again(node: Node, values: Values, functions: TraceFunctions) -> Any:
    assert node.d0 is not None
    return functions.bitcast(values[node.d0], node.type)


def _result_again(node: Node, values: Values, functions: TraceFunctions) -> Any:
    assert node.d0 is not None
    return values[node.d0][node.attr]


def _local_again(node: Node, values: Values, functions: TraceFunctions) -> Any:
    region = innermost()
    return append(LOCAL, node.type, node.size, None if region is None else region.live)


def traced_again_by(trace: Callable[..., Node]) -> Callable[[Node, Values, TraceFunctions], Any]:
    """The entry of :data:`AGAIN` for a row that a function traces, given the operands that the row has, ``attr`` and
    ``payload``."""
    def again(node: Node, values: Values, functions: TraceFunctions) -> Any:
        return trace(*map(values.accessed, memory_of(node)), *(values[operand] for operand in arguments_of(node)),
                     attr=node.attr, payload=node.payload)

    return again


def _loop_again(node: Node, values: Values, functions: TraceFunctions) -> list[Any]:
    loop = node.payload
    region = loop.region
    inner: Values

    def condition(variables: Sequence[Any]) -> Any:
        nonlocal inner
        inner = values.inner(region, variables)
        inner.known[region.masks[0].id] = live_mask()
        trace_again(region.parts[0], inner, functions)
        return inner[loop.condition]

    def body(variables: Sequence[Any]) -> list[Any]:
        inner.known[region.masks[1].id] = live_mask()
        trace_again(region.parts[1], inner, functions)
        return [inner[final] if values.needs(formal) else variable
                for final, formal, variable in zip(loop.finals, region.formals, variables, strict=True)]

    again = Again(frozenset([position for position, formal in enumerate(region.formals)
                             if loop.finals[position] is formal or not values.needs(formal)]),
                  _memory_of(region),
                  [values[capture] for capture in region.captures], region.writes, loop.single)
    return functions.while_loop(values.initial(loop), condition, body, loop.label, trips=loop.trips, again=again)


def _memory_of(region: Region) -> frozenset[int]:
    """The positions of formals that are memory."""
    return frozenset([position for position, formal in enumerate(region.formals) if formal.payload])


def _choice_again(node: Node, values: Values, functions: TraceFunctions) -> list[Any]:
    choice = node.payload
    assert node.d0 is not None

    def target(region: Region) -> Callable[[Sequence[Any]], list[Any]]:
        def trace(arguments: Sequence[Any]) -> list[Any]:
            inner = values.inner(region, arguments)
            inner.known[region.masks[0].id] = live_mask()
            trace_again(region.parts[0], inner, functions)
            return inner.of_all(region.results[0][:choice.count])

        return trace

    targets = [target(region) for region in choice.regions]
    arguments = values.initial(choice)
    memory = _memory_of(choice.regions[0]), frozenset(choice.memory_of)
    if node.kind == COND:
        true, false = targets
        results, versions = functions.cond(values[node.d0], arguments, true, false, choice.label, memory=memory)
    else:
        assert node.d1 is not None
        results, versions = functions.call(values[node.d0], values[node.d1], targets, arguments, choice.label,
                                           memory=memory)
    return [*results, *(versions.get(position, arguments[position]) for position in choice.memory_of)]


#: How a node of a region is traced again, by kinds: of elementwise rows nobody needs to say so.
AGAIN: dict[int, Callable[[Node, Values, TraceFunctions], Any]] = {
    GATHER: _gather_again, SCATTER: _scatter_again, FETCH: _fetch_again, CAST: _cast_again, BITCAST: _bitcast_again,
    LOOP: _loop_again, COND: _choice_again, CALL: _choice_again, RESULT: _result_again, LOCAL: _local_again}


def _recomputed(node: Node, region: Tracing, presumed: dict[int, Node]) -> Node | None:
    """What a value of a region is outside, if it is computed of nothing but what is presumed."""
    nodes = [each for each in needed_for(region.id, (), ((node,),))[0] if each.id not in presumed]
    masks = [each.id for each in nodes if each.kind == PHI and each.attr < 0]  # of elements that take part in reads
    nodes = [each for each in nodes if each.id not in masks]
    if [each for each in nodes if each.kind < FIRST_ELEMENTWISE and each.kind not in (CAST, BITCAST, GATHER) or
            each.kind != GATHER and [operand for operand in operands(each) if operand.id in masks]]:
        return None
    context = current()
    context.region, context.scope, inner = None, 0, (context.region, context.scope)
    try:
        values = Values(presumed, (), ())
        trace_again(nodes, values, PLAIN)
    finally:
        context.region, context.scope = inner
    found: Node = values[node]
    return None if found.scope else found


recompute.append(_recomputed)


def live_mask() -> Node:
    """The elements that take part in what is being traced."""
    region = innermost()
    return TRUE if region is None or region.live is None else region.live


TRUE = literal(BOOL, True)
