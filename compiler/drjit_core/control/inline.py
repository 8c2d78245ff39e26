"""Tracing a region again, with other operands: a branch that is known, an unrolled loop, other trace functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..ir import trace
from ..ir.build import append, literal
from ..ir.expansion import TRACED
from ..ir.node import Node
from ..ir.region import Region
from ..ir.symbolic import innermost
from ..ops.reductions import COMPARE_EXCHANGE, EXCHANGES
from ..ops.table import (
    BITCAST,
    CALL,
    CAST,
    COND,
    FETCH,
    FIRST_ELEMENTWISE,
    GATHER,
    LOCAL,
    LOOP,
    OFFER,
    OPS,
    RESULT,
    SCATTER,
)
from ..types import BOOL

__all__ = ["ROWS", "Rows", "TraceFunctions", "inline", "live_mask"]


class TraceFunctions(Protocol):
    """What traces the nodes of a region: elementwise rows by kind, and operations with structure."""

    def row(self, kind: int, operands: Sequence[Any]) -> Any:
        """An elementwise operation."""

    def cast(self, a: Any, type_: int) -> Any:
        """Conversion."""

    def bitcast(self, a: Any, type_: int) -> Any:
        """Reinterpretation."""

    def gather(self, source: Any, index: Any, mask: Any) -> Any:
        """A read by index."""

    def scatter(self, target: Any, value: Any, index: Any, mask: Any, op: int, mode: int) -> Any:
        """A write by index."""

    def atomic(self, target: Any, value: Any, index: Any, mask: Any, op: int, mode: int,
               expected: Any = None) -> tuple[Any, Any]:
        """An update by index, of which is also wanted what it finds."""

    def while_loop(self, initial: Sequence[Any], condition: Any, body: Any, label: str | None) -> list[Any]:
        """A loop."""

    def cond(self, mask: Any, arguments: Sequence[Any], true: Any, false: Any, label: str | None) -> Any:
        """A branch: results, and new versions of arguments by position."""

    def call(self, index: Any, mask: Any, targets: Sequence[Any], arguments: Sequence[Any], label: str | None) -> Any:
        """A call: results, and new versions of arguments by position."""


class Rows:
    """Trace functions on nodes: of what each element computes for itself."""

    def row(self, kind: int, operands: Sequence[Node]) -> Node:
        """An elementwise operation."""
        function: Callable[..., Node] = TRACED.get(kind) or getattr(trace.ops, OPS[kind].name)
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


def inline(region: Region, actuals: Sequence[Any], *masks: Any, functions: TraceFunctions) -> list[Any]:
    """What a region computes, all parts of it, for other values of its formals and masks: results of the last part.

    It becomes part of the region that is being traced, if there is one.  Captures stand for themselves.
    """
    values = _Values({}, region, actuals, masks)
    for part in region.parts:
        _trace_again(part, values, functions)
    return [values[node] for node in region.results[-1]]


class _Values:
    """What stands for the nodes of a region."""

    def __init__(self, outer: dict[int, Any], region: Region, actuals: Sequence[Any], masks: Sequence[Any]) -> None:
        self.known = dict(outer)
        #: What scatter-reductions have found, by their ids.
        self.found: dict[int, Any] = {}
        self.known.update((formal.id, actual) for formal, actual in zip(region.formals, actuals, strict=True))
        self.known.update((formal.id, actual) for formal, actual in zip(region.masks, masks, strict=False))

    def __getitem__(self, node: Node) -> Any:
        return self.known.get(node.id, node)


def _trace_again(nodes: Sequence[Node], values: _Values, functions: TraceFunctions) -> None:
    fetched = {node.d0.id for node in nodes if node.kind == FETCH and node.d0 is not None}
    fetched.update(node.id for node in nodes if node.kind == SCATTER and node.attr in EXCHANGES)
    for node in nodes:
        if node.id in fetched:
            target, value, index, mask = (values[d] for d in (node.d0, node.d1, node.d2, node.d3) if d is not None)
            expected = None
            if node.attr == COMPARE_EXCHANGE:
                assert node.d1 is not None and node.d1.d0 is not None and node.d1.d1 is not None
                expected, value = values[node.d1.d0], values[node.d1.d1]
            found, values.known[node.id] = functions.atomic(target, value, index, mask, node.attr, node.payload,
                                                            expected)
            values.found[node.id] = found
        else:
            values.known[node.id] = _again(node, values, functions)


def _again(node: Node, values: _Values, functions: TraceFunctions) -> Any:
    """Trace a node with other operands; of loops, branches and calls the list of their results."""
    kind = node.kind
    if kind == LOOP:
        return _loop_again(node, values, functions)
    if kind == FETCH:
        assert node.d0 is not None
        return values.found[node.d0.id]
    operands = [values[d] for d in (node.d0, node.d1, node.d2, node.d3) if d is not None]
    if kind >= FIRST_ELEMENTWISE:
        return functions.row(kind, operands)
    if kind == GATHER:
        return functions.gather(*operands[:3])
    if kind == OFFER:
        return operands[1]  # the exchange makes an offer of its own
    if kind == SCATTER:
        target, value, index, mask = operands
        return functions.scatter(target, value, index, mask, node.attr, node.payload)
    if kind == CAST:
        return functions.cast(operands[0], node.type)
    if kind == BITCAST:
        return functions.bitcast(operands[0], node.type)
    if kind == RESULT:
        return operands[0][node.attr]
    if kind == LOCAL:
        region = innermost()
        return append(LOCAL, node.type, node.size, None if region is None else region.live)
    assert kind in (COND, CALL), f"{node!r} in a region"
    return _choice_again(node, operands, values, functions)


def _loop_again(node: Node, values: _Values, functions: TraceFunctions) -> list[Any]:
    loop = node.payload
    region = loop.region
    inner: _Values

    def condition(variables: Sequence[Any]) -> Any:
        nonlocal inner
        inner = _Values(values.known, region, variables, (live_mask(),))
        _trace_again(region.parts[0], inner, functions)
        return inner[loop.condition]

    def body(variables: Sequence[Any]) -> list[Any]:
        inner.known[region.masks[1].id] = live_mask()
        _trace_again(region.parts[1], inner, functions)
        return [inner[final] for final in loop.finals]

    return functions.while_loop([values[value] for value in loop.initial], condition, body, loop.label)


def _choice_again(node: Node, operands: Sequence[Any], values: _Values, functions: TraceFunctions) -> list[Any]:
    choice = node.payload

    def target(region: Region) -> Callable[[Sequence[Any]], list[Any]]:
        def trace(arguments: Sequence[Any]) -> list[Any]:
            inner = _Values(values.known, region, arguments, (live_mask(),))
            _trace_again(region.parts[0], inner, functions)
            return [inner[result] for result in region.results[0][:choice.count]]

        return trace

    targets = [target(region) for region in choice.regions]
    arguments = [values[value] for value in choice.initial]
    if node.kind == COND:
        true, false = targets
        results, versions = functions.cond(operands[0], arguments, true, false, choice.label)
    else:
        results, versions = functions.call(operands[0], operands[1], targets, arguments, choice.label)
    return [*results, *(versions.get(position, arguments[position]) for position in choice.memory_of)]


def live_mask() -> Node:
    """The elements that take part in what is being traced."""
    region = innermost()
    return TRUE if region is None or region.live is None else region.live


TRUE = literal(BOOL, True)
