"""Elements of flat arrays that are set from the host.

Who holds a node is counted here: this is no room, since compiled code holds what it passes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drjit_core import (
    KIND,
    counter,
    evaluation_lock,
    innermost,
    is_version,
    literal,
    ops,
    primal,
    rewritten,
    scatter,
    set_element,
    state,
    vertex_of,
)

from .._base.nodes import index_type
from .lanes import TRUE, WATCHES, note_origin, note_read, with_lanes
from .store import sole_owners, store, store_written

__all__ = ["store_by", "store_element"]

_PHI = KIND["phi"]


def store_element(array: Any, position: int, value: Any) -> None:
    """Set one element of a flat array from the host; evaluates the array, and writes in place if nobody shares it.

    In a symbolic loop, branch or call it becomes a write of the kernel, by each of the lanes that take part; but what
    is computed there has an element for each lane, which is written by its own.
    """
    region = innermost()
    if region is not None and region.live is not None:
        node, before = array._n, primal(array._n)
        scalar = index_type(node.size)
        new, index = literal(node.type, value), literal(scalar, position)
        if node.scope and not is_version(before) and before.kind != _PHI:
            store(array, [ops.select(ops.eq(counter(node.size, scalar), index), new, node)])
            return
        store_written(array, [scatter(node, new, index, TRUE, 0, 0)])
        return
    mask = with_lanes(TRUE, 1)
    # What the other elements depend on goes on to count; perhaps no lane takes part; and what is recorded is launched.
    if mask is not TRUE or state.recording is not None or vertex_of(array._n) is not None:
        node = array._n
        store_written(array, [
            scatter(node, literal(node.type, value), literal(index_type(node.size), position), mask, 0, 0)])
        return
    store_by(array, set_element(position, value))


def store_by(array: Any, write: Callable[[Any, int], None]) -> None:
    """Write to the memory of a flat array or a tensor without derivatives, outside of constructs and recordings; in
    place if nobody shares it."""
    if WATCHES:
        note_read(array._n)
    with evaluation_lock:  # threads may write to other elements of the same array
        owners = sole_owners(array)
        # Written like this because a further holder of the node, such as a local variable, would cost a copy.
        number = array._n.id
        node = rewritten(array._n, write, owners)
        if node.id != number:
            note_origin(node, number)
        store(array, [node], None, True)
