"""What an array holds is replaced here, and nowhere else.

Every change in place of an array that exists passes through :func:`store`: item assignment, components, scatters,
in-place operators, labels, evaluation that turns a literal into memory. An array that is a component of another one
(``v.x``), or the flat array of a tensor (``t.array``), holds nothing of its own: the change is made to its owner, and
shows in all of the owner's components that somebody holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from drjit_core import Node, schedule, write_element

from .._base.errors import SizeError
from .._base.nodes import broadcast
from .lanes import note_writes

__all__ = ["store", "store_element", "store_written"]


def store(array: Any, nodes: Sequence[Node], position: int | None = None) -> None:
    """Replace component nodes of an array in place: those from a position on, or all of them.

    The lists and nodes that the array held before are left as they are. Raises a ``SizeError``, before anything has
    changed, if a tensor would no longer have the number of elements that its shape says.
    """
    owner = array._o
    if owner is None and not array._depth:
        array._n = nodes[0]
        return
    while owner is not None:
        array, offset = owner
        position = offset + (position or 0)
        owner = array._o
    if array._depth < 0:
        _store_tensor(array, nodes[0])
        return
    if position is None:
        array._c = list(nodes)
    else:
        components = array._c.copy()  # whoever has the old list keeps it as it was
        components[position:position + len(nodes)] = nodes
        array._c = components
    _show(array)


def _store_tensor(tensor: Any, node: Node) -> None:
    count = math.prod(tensor._s)
    if node.size != count:
        if node.size != 1:
            raise SizeError(f"{tensor._name}: cannot replace the {count} elements of a tensor of the shape {tensor._s} "
                            f"by {node.size} ones in place.")
        node = broadcast(node, count) if count else tensor._n
    tensor._n = node
    view = tensor._v() if hasattr(tensor, "_v") else None
    if view is not None:
        view._n = node


def _show(array: Any) -> None:
    """Tell the components that somebody holds what they are now."""
    try:
        views = array._v
    except AttributeError:
        return
    for position, reference in list(views.items()):  # another thread may ask for a component meanwhile
        view = reference()
        if view is None:
            continue
        if view._depth:
            count = len(view._c)
            view._c = array._c[position * count:(position + 1) * count]
            _show(view)
        else:
            view._n = array._c[position]


def store_element(array: Any, position: int, value: Any) -> None:
    """Set one element of a flat array from the host; evaluates the array, and writes in place if nobody shares it."""
    # Written like this because a further holder of the node, such as a local variable, would cost a copy.
    store(array, [write_element(array._n, position, value)])


def store_written(array: Any, nodes: Sequence[Node], position: int | None = None) -> None:
    """Store the results of scatters, and see to it that those run with the next evaluation."""
    note_writes(nodes)
    schedule(nodes)
    store(array, nodes, position)
