"""Single elements of flat arrays that are set from the host.

Who holds a node is counted here: this is no room, since compiled code holds what it passes on.
"""

from __future__ import annotations

from typing import Any

from drjit_core import (
    counter,
    innermost,
    is_version,
    literal,
    ops,
    origin_of,
    replace_elements,
    scatter,
    size_for_program,
    vertex_of,
    write_element,
)

from .._base.nodes import index_type
from .lanes import TRUE, WATCHES, note_origin, note_read
from .store import store, store_written

__all__ = ["store_element"]


def store_element(array: Any, position: int, value: Any) -> None:
    """Set one element of a flat array from the host; evaluates the array, and writes in place if nobody shares it.

    In a symbolic loop it becomes a write of the kernel, by each of the lanes that take part; but an element of a state
    variable that has one for each lane is written by its own.
    """
    region = innermost()
    if region is not None and region.live is not None:
        node = array._n
        scalar = index_type(node.size)
        new, index = literal(node.type, value), literal(scalar, position)
        if node.scope and not is_version(node):
            result = ops.select(ops.eq(counter(node.size, scalar), index), new, node)
            replace_elements(node, result)
            store(array, [result])
            return
        mask, origin = TRUE, origin_of(node, region.id)
        if origin.scope == region.id and origin.attr < region.variables and node.size == size_for_program(region.live):
            mask = ops.eq(counter(node.size, scalar), index)
        store_written(array, [scatter(node, new, index, mask, 0, 0)])
        return
    if vertex_of(array._n) is not None:  # what the other elements depend on goes on to count
        node = array._n
        store_written(array, [
            scatter(node, literal(node.type, value), literal(index_type(node.size), position), TRUE, 0, 0)])
        return
    if WATCHES:
        note_read(array._n)
    # Written like this because a further holder of the node, such as a local variable, would cost a copy.
    number = array._n.id
    node = write_element(array._n, position, value)
    if node.id != number:
        note_origin(node, number)
    store(array, [node], None, True)
