"""Branches of expansions that few elements take."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..flags import state
from ..ir.build import append, broadcast_size, new_formal, where_of
from ..ir.expansion import expanding
from ..ir.node import Node, remember, remembered
from ..ir.region import Cond, Region
from ..ir.symbolic import Tracing, close, open_, scope_of
from ..ir.trace import ops
from ..ops.table import COND, FIRST_EXPANDED, LITERAL, RESULT
from ..types import BOOL

__all__ = ["rarely"]

Branch = Callable[..., Sequence[Node]]

#: The two regions of a branch by its name, and by the types of values and arguments.
_regions: dict[tuple[str, tuple[int, ...], tuple[int, ...], int], tuple[Region, Region]] = {}


def rarely(name: str, mask: Node, values: Sequence[Node], arguments: Sequence[Node], branch: Branch) -> list[Node]:
    """``branch(*arguments)`` where the mask is set, else the values.

    A packet in which no element has the mask set skips the branch, which therefore may cost much.  Its result must
    follow from name, arguments and their types alone: it is a ``COND`` whose regions are traced once, and which a
    backend makes one function of (:attr:`drjit_core.ir.region.Cond.rare`).  Where there is no text to be made, both
    sides are computed, or only the usual one (:func:`drjit_core.ir.expansion.expanding`).
    """
    if mask.kind == LITERAL:
        return list(branch(*arguments) if mask.payload else values)
    if state.branches == "usual":
        return list(values)
    if state.branches == "both":
        return [ops.select(mask, other, value) for other, value in zip(branch(*arguments), values, strict=True)]
    given = tuple(argument.id for argument in arguments)
    keys = [(name, mask.id, value.id, given, state.mode) for value in values]
    found = [node for key in keys if (node := remembered(key)) is not None]
    if len(found) == len(values):
        return found
    size = broadcast_size(name, mask, *values, *arguments)
    choice = Cond(_regions_of(name, values, arguments, branch), (*values, *arguments), None, len(values), (), name)
    node = append(COND, BOOL, size, mask, payload=choice, scope=scope_of(mask, *choice.initial),
                  where=where_of(name, choice.initial))
    results = [append(RESULT, value.type, size, node, attr=i, payload=False) for i, value in enumerate(values)]
    for key, result in zip(keys, results, strict=True):
        remember(key, result)
    return results


def _regions_of(name: str, values: Sequence[Node], arguments: Sequence[Node], branch: Branch) -> tuple[Region, Region]:
    """The region of the branch, and the one that passes the values on; the formals of both are values and arguments."""
    flags = state.flags  # those of expansions
    key = name, tuple(value.type for value in values), tuple(argument.type for argument in arguments), flags
    found = _regions.get(key)
    if found is None:
        count = len(values)
        types = (*key[1], *key[2])
        taken = _trace(types, flags, lambda formals: branch(*formals[count:]))
        # it has no regions within, and what it captures are constants: a function can be made of it by itself
        assert all(node.kind < FIRST_EXPANDED for node in taken.nodes), f"{name} needs another expansion"
        assert all(capture.kind == LITERAL for capture in taken.captures) and not taken.sources
        found = _regions.setdefault(key, (taken, _trace(types, flags, lambda formals: formals[:count])))
    return found


def _trace(types: Sequence[int], flags: int, function: Callable[[list[Node]], Sequence[Node]]) -> Region:
    """What a function computes of some values, of which nothing is known but their types."""
    with expanding("both", flags):
        tracing = Tracing(None, None)
        formals = [new_formal(type_, 1, i, False, tracing.id) for i, type_ in enumerate(types)]
        live = new_formal(BOOL, 1, -1, False, tracing.id)
        open_(tracing)
        try:
            results = function(formals)
        finally:
            close(tracing)
        return Region(tracing.id, formals, (live,), (results,))
