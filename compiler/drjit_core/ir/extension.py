"""Loops, branches and calls that can compute the results of others besides their own.

A derivative repeats what it is the derivative of. Where one kernel would compute both, the later one computes the
results of the earlier one as well, which vanishes: planning finds that out (:mod:`drjit_core.passes.schedule`).

Local memory
------------
A ``LOCAL`` is memory that each element of a kernel has to itself, as long as the kernel computes it, of undefined
contents; formals and results of loops that stand for it have the payload :data:`.region.OWN`. Loops write to it, and
loops of the same kernel read it by index, each element what it has written itself. All elements that take part in a
write name the same entry, the number of the loop's iteration; a write beyond the last entry goes to the last, and
writes leave the entries of elements that do not take part undefined. So writes are plain stores, and reads hit the
cache.

It is no effect of a loop to write to its own local memory: such loops may be computed again, and are no barrier.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple
from weakref import ref

from ..ops.table import EVALUATED, RESULT, UNDEFINED
from .node import Node
from .region import Control, operands

__all__ = ["Extension", "depends", "take_over"]


class Extension(NamedTuple):
    """What a construct can do besides."""

    #: The construct whose results it can compute.
    of: Node
    #: Its own payload then, if that is another one.
    payload: Control | None
    #: The positions of these results among its own, by those that they have.
    places: Mapping[int, int]


def take_over(node: Node) -> list[Node]:
    """Let a construct compute the results of another one from now on; returns those that have no values yet."""
    control: Control = node.payload
    extension: Extension = control.extension
    before, payload = extension.of, extension.payload or control
    results = [result for reference in before.payload.outputs if (result := reference()) is not None
               and result.kind == RESULT and result.d0 is before]
    if results and payload is not control:
        payload.outputs = control.outputs
        node.payload = payload
    for result in results:
        result.d0, result.attr = node, extension.places[result.attr]
        payload.outputs.append(ref(result))
    payload.extension = None
    return results


def depends(node: Node, known: Collection[int]) -> bool:
    """Whether a construct that can be an extension must not be: it, or what it would compute, depends on one of both,
    perhaps by extensions that there are by now, or needs more for it than what is known by ids."""
    extension: Extension = node.payload.extension
    seen: set[int] = set()
    stack = list(operands(node))
    if extension.payload is not None:
        for value in (*extension.payload.inputs(), *extension.payload.sources()):
            if value.id not in known and value.kind > UNDEFINED and value.kind != EVALUATED:
                return True
            stack.append(value)
    while stack:
        value = stack.pop()
        if value is extension.of or value is node:
            return True
        if value.id not in seen and value.kind > UNDEFINED and value.kind != EVALUATED:
            seen.add(value.id)
            stack += operands(value)
    return False
