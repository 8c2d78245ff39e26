"""Tracing rows with structure that are registered (:func:`drjit_core.ops.table.register`), and what is known of their
derivatives where these are recorded.

Such a row reads memory, if any, and computes each element of its result from the same element of all other operands.
Its trace function takes what its users have, and ends with :func:`traced`; where derivatives flow, with
:func:`differentiable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..context import current
from ..errors import NoDerivative, SymbolicValue
from ..ops.derivatives import Rule
from ..ops.table import BOUND, KIND, LITERAL, MEMORY_OPERANDS, OPS
from .build import append_each, broadcast_size_of, invalid, literal, sized_by
from .dual import STRUCTURE, derived, tracked
from .node import Node
from .region import is_local
from .symbolic import call_site, require_memory
from .trace import constant_memory, opaque

__all__ = ["READS", "differentiable", "has_derivative", "traced", "traced_each"]

#: Of the rows that have a derivative, by their names: how many of the first operands are memory.
READS: dict[str, int] = {}
#: Operands that a vertex has.
_MOST = 3


def traced(kind: int, type_: int, operands: Sequence[Node], attr: int = 0, payload: Any = None) -> Node:
    """What a row computes of values, where none has a derivative.

    In a region, a row that must not be computed when nobody asked is for the elements that take part.
    """
    return traced_each(kind, type_, operands, (attr,), payload)[0]


def traced_each(kind: int, type_: int, operands: Sequence[Node], attrs: Iterable[int],
                payload: Any = None) -> list[Node]:
    """Several nodes that differ in their ``attr``, see :func:`traced`."""
    row, count, context = OPS[kind], MEMORY_OPERANDS[kind], current()
    size, region = broadcast_size_of(row.word, operands[count:]), context.region
    if not size:
        return [invalid(type_) for _ in attrs]
    used = list(operands)
    for place in range(count):
        source = used[place]
        if source.scope:
            require_memory(row.word, source)
        if not source.size:
            return [sized_by(literal(type_, 0, size), *operands[count:]) for _ in attrs]
        if source.kind == BOUND or source.kind == LITERAL:
            source = opaque(source) if region is None else constant_memory(region, source)
        if is_local(source):
            raise SymbolicValue(f"{call_site(row.word)}(): local memory cannot be read by a {row.word}: gather from it")
        used[place] = source
    if region is not None and not row.speculable:
        assert region.live is not None
        used.append(region.live)
    return append_each(kind, type_, size, used, attrs, payload)


def has_derivative(name: str) -> None:
    """Note that derivatives flow through a row that is registered; in which way,
    :func:`drjit_core.derivatives.structured.register` says."""
    STRUCTURE[name] = Rule(name, ())
    READS[name] = MEMORY_OPERANDS[KIND[name]]


def differentiable(kind: int, value: Node, operands: Sequence[Node]) -> Node:
    """The result of a row whose operands may be duals: a dual, if a derivative flows to it.

    A vertex has three operands; where there are more, each three have one, and the changes of all of them add up.
    """
    name = OPS[kind].name
    places = [place for place, operand in enumerate(operands) if tracked(operand) is not None]
    if places and name not in STRUCTURE:
        raise NoDerivative(f"the row '{name}' has no derivative: one that is registered needs one "
                           "(drjit_core.derivatives.structured.register), or is traced without differentiable()")
    parts = []
    for first in range(0, len(places), _MOST):
        some = places[first:first + _MOST]
        info = *some, *[-1] * (_MOST - len(some)), *operands
        parts.append(derived(name, value, [operands[place] for place in some], info))
    while len(parts) > 1:
        parts = [derived("join", value, parts[:_MOST]), *parts[_MOST:]]
    return parts[0] if parts else value
