"""Tracing nodes of a region again, with other operands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ..ir import trace
from ..ir.build import append, literal
from ..ir.dual import primal
from ..ir.expansion import TRACED
from ..ir.labels import are_any, copy_labels
from ..ir.node import Node
from ..ir.products import add_products, other_row, outer_products, row_of_product
from ..ir.region import CONTROL, Control, Region, all_operands, arguments_of, memory_of
from ..ir.symbolic import innermost, is_replaced
from ..ops.products import OUTER, PRODUCT
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
    RESULT,
    SCATTER,
)
from ..types import BOOL

__all__ = ["AGAIN", "MAKERS", "WRITES", "Again", "Values", "computed_of", "inline", "live_mask", "trace_again",
           "traced_again_by"]


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


#: What traces loops, branches, calls, and updates of which is wanted what they find (``FETCH``), by kinds: the modules
#: that have these functions set them.
MAKERS: dict[int, Callable[..., Any]] = {}
#: By kind of rows that stand for updates (:data:`drjit_core.ir.expansion.UPDATES`): what traces such a write again, of
#: memory and operands that may have derivatives, the mask first, and of the payload of the row, and the mode.
WRITES: dict[int, Callable[[Node, Sequence[Node], Any, int], Node]] = {}
#: What traces elementwise rows, by kind.
_functions: dict[int, Callable[..., Node]] = {}


def computed_of(node: Node, operands: Sequence[Node]) -> Node:
    """What each element of a node computes for itself, of other operands."""
    kind = node.kind
    if kind == CAST:
        return trace.cast(operands[0], node.type)
    if kind == BITCAST:
        return trace.bitcast(operands[0], node.type)
    function = _functions.get(kind)
    if function is None:
        function = _functions[kind] = TRACED.get(kind) or getattr(trace.ops, OPS[kind].name)
    return function(*operands)


def inline(region: Region, actuals: Sequence[Any], *masks: Any) -> list[Any]:
    """What a region computes, all parts of it, for other values of its formals and masks: results of the last part.

    It becomes part of the region that is being traced, if there is one.  Captures stand for themselves.
    """
    values = Values({}, region.formals, actuals)
    values.add(region.masks, masks)
    for part in region.parts:
        trace_again(part, values)
    return [values[node] for node in region.results[-1]]


class Values:
    """What stands for the nodes of a region.

    If it is said which nodes are ``needed``, by their ids, others are not traced: they stand for anything.
    """

    __slots__ = ("found", "known", "memory", "needed", "products")

    def __init__(self, outer: Mapping[int, Any], nodes: Sequence[Node], actuals: Sequence[Any],
                 needed: Collection[int] | None = None, memory: Mapping[int, Any] = _NOTHING) -> None:
        self.known = dict(outer)
        self.needed = needed
        #: What stands for nodes where they are accessed by index, if that is something else, by their ids.
        self.memory = memory
        #: What scatter-reductions have found, by their ids.
        self.found: dict[int, Any] = {}
        #: A row of each product that has been traced again.
        self.products: dict[Any, Node] = {}
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
        for position in range(min(len(nodes), len(actuals))):
            node = nodes[position]
            self.known[node.id] = actuals[position]

    def __getitem__(self, node: Node) -> Any:
        return self.known.get(node.id, node)


def trace_again(nodes: Sequence[Node], values: Values) -> None:
    """Trace nodes again, in their order, with what stands for their operands; they are called what they were."""
    if values.needed is not None:
        nodes = [node for node in nodes if node.id in values.needed]
    fetched = {node.d0.id for node in nodes if node.kind == FETCH and node.d0 is not None}
    fetched.update([node.id for node in nodes if node.kind == SCATTER and node.attr in EXCHANGES])
    labelled = are_any()
    for node in nodes:
        if node.id in fetched:
            assert node.d0 is not None
            value, *expected, index, mask = [values[operand] for operand in arguments_of(node)]
            found, values.known[node.id] = MAKERS[FETCH](values.accessed(node.d0), value, index, mask, node.attr,
                                                         node.payload, *expected)
            values.found[node.id] = found
        else:
            values.known[node.id] = _again(node, values)
        if labelled and node.kind not in CONTROL:
            new = primal(values[node])
            if new.kind == node.kind and new is not node:  # and not simplified to something else
                copy_labels(new, node)


def _again(node: Node, values: Values) -> Any:
    """Trace a node with other operands; of loops, branches and calls the list of their results."""
    kind = node.kind
    if kind >= FIRST_ELEMENTWISE or kind == CAST or kind == BITCAST:
        return computed_of(node, [values[d] for d in (node.d0, node.d1, node.d2) if d is not None])
    if kind == PACK or kind in WRITES:
        return node  # its user sees through it
    again = AGAIN.get(kind)
    if again is None:
        raise NotImplementedError(f"the row '{OPS[kind].name}' cannot be traced again, as loops, branches and calls "
                                  "do: one that is registered needs an entry of drjit_core.control.inline.AGAIN")
    return again(node, values)


def _fetch_again(node: Node, values: Values) -> Any:
    assert node.d0 is not None
    return values.found[node.d0.id]


def _gather_again(node: Node, values: Values) -> Any:
    assert node.d0 is not None and node.d1 is not None and node.d2 is not None
    harmless = node.d3 is None and node.d1.kind != LITERAL
    return trace.gather(values.accessed(node.d0), values[node.d1], values[node.d2], harmless)


def _scatter_again(node: Node, values: Values) -> Any:
    assert node.d0 is not None and node.d1 is not None and node.d2 is not None and node.d3 is not None
    if node.d1.kind == OUTER:
        return add_products(values.accessed(node.d0), values[node.d1], values[node.d2], values[node.d3])
    updated_again = WRITES.get(node.d1.kind)
    if updated_again is not None:
        found = [values[operand] for operand in (node.d3, *all_operands(node.d1)[1:])]
        return updated_again(values.accessed(node.d0), found, node.d1.payload, node.payload)
    return trace.scatter(values.accessed(node.d0), values[node.d1], values[node.d2], values[node.d3], node.attr,
                         node.payload)


def _result_again(node: Node, values: Values) -> Any:
    assert node.d0 is not None
    return values[node.d0][node.attr]


def _local_again(node: Node, values: Values) -> Any:
    region = innermost()
    return append(LOCAL, node.type, node.size, None if region is None else region.live)


def traced_again_by(trace: Callable[..., Node]) -> Callable[[Node, Values], Any]:
    """The entry of :data:`AGAIN` for a row that a function traces, given the operands that the row has, ``attr`` and
    ``payload``."""
    def again(node: Node, values: Values) -> Any:
        return trace(*map(values.accessed, memory_of(node)), *(values[operand] for operand in arguments_of(node)),
                     attr=node.attr, payload=node.payload)

    return again


def _product_again(node: Node, values: Values) -> Any:
    """A row of a product: what stands for its many operands is looked up for one of them only."""
    key = (*[operand and operand.id for operand in (node.d0, node.d1, node.d2, node.d3)], *node.payload)
    row = values.products.get(key)
    if row is None:
        row = values.products[key] = _row_again(node, values)
    return other_row(row, node.attr)


_row_again = traced_again_by(row_of_product)


def _loop_again(node: Node, values: Values) -> list[Any]:
    loop = node.payload
    region = loop.region
    inner: Values

    def condition(variables: Sequence[Any]) -> Any:
        nonlocal inner
        inner = values.inner(region, variables)
        inner.known[region.masks[0].id] = live_mask()
        trace_again(region.parts[0], inner)
        return inner[loop.condition]

    def body(variables: Sequence[Any]) -> list[Any]:
        inner.known[region.masks[1].id] = live_mask()
        trace_again(region.parts[1], inner)
        return [inner[final] if values.needs(formal) else variable
                for final, formal, variable in zip(loop.finals, region.formals, variables, strict=True)]

    again = Again(frozenset([position for position, formal in enumerate(region.formals)
                             if loop.finals[position] is formal or not values.needs(formal)]),
                  _memory_of(region),
                  [values[capture] for capture in region.captures], region.writes, loop.single)
    found: list[Any] = MAKERS[LOOP](values.initial(loop), condition, body, loop.label, trips=loop.trips, again=again)
    return found


def _memory_of(region: Region) -> frozenset[int]:
    """The positions of formals that are memory."""
    return frozenset([position for position, formal in enumerate(region.formals) if formal.payload])


def _choice_again(node: Node, values: Values) -> list[Any]:
    choice = node.payload
    assert node.d0 is not None

    def target(region: Region) -> Callable[[Sequence[Any]], list[Any]]:
        def trace(arguments: Sequence[Any]) -> list[Any]:
            inner = values.inner(region, arguments)
            inner.known[region.masks[0].id] = live_mask()
            trace_again(region.parts[0], inner)
            return inner.of_all(region.results[0][:choice.count])

        return trace

    targets = [target(region) for region in choice.regions]
    arguments = values.initial(choice)
    memory = _memory_of(choice.regions[0]), frozenset(choice.memory_of)
    if node.kind == COND:
        made = MAKERS[COND](values[node.d0], arguments, *targets, choice.label, memory=memory)
    else:
        assert node.d1 is not None
        made = MAKERS[CALL](values[node.d0], values[node.d1], targets, arguments, choice.label, memory=memory)
    results, versions = made
    return [*results, *(versions.get(position, arguments[position]) for position in choice.memory_of)]


#: How a node of a region is traced again, by kinds: of elementwise rows nobody needs to say so.
AGAIN: dict[int, Callable[[Node, Values], Any]] = {
    GATHER: _gather_again, SCATTER: _scatter_again, FETCH: _fetch_again, LOOP: _loop_again, COND: _choice_again,
    CALL: _choice_again, RESULT: _result_again, LOCAL: _local_again, PRODUCT: _product_again,
    OUTER: traced_again_by(outer_products)}


def live_mask() -> Node:
    """The elements that take part in what is being traced."""
    region = innermost()
    return TRUE if region is None or region.live is None else region.live


TRUE = literal(BOOL, True)
