"""Arrays as values: what pickles hold of them, and copies that share memory with nobody.

A pickle holds the type of an array, by its public name, and a state, a dictionary:

``format``
    Version of the layout, :data:`FORMAT`. Others raise when they are read.
``elements``
    Type of the elements as in NumPy's array interface: kind (``bf``: bfloat16), and size in bytes.
``entries``
    One per distinct node. ``None`` is an empty array; a tuple of size and number a literal, of whatever size; bytes (or
    another buffer) elements in memory, little-endian.
``positions``
    Entries of the components, if they are not the entries themselves in their order.
``shape``
    Of tensors.
``attributes``
    What an instance of a class that a program derived from an array type has beyond that.

So literals stay literals, components of one element stay that, and a component that stands at several places is stored
once. All else becomes independent: arrays that share memory, and a component (``v.x``) and the array that it refers to,
do not share after a round trip. Labels, which belong to listings of this process, stay behind.
"""

from __future__ import annotations

import copy
import ctypes
import struct
import sys
from typing import Any

from drjit_core import (
    KIND,
    TYPES,
    Node,
    evaluate,
    followed,
    from_memory,
    host_view,
    import_copy,
    invalid,
    literal,
    primal,
    read_bytes,
    symbolic_error,
    unshared,
)

from .._access.store import store_same
from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.links import links
from .._base.nodes import pack
from .._base.types import require_backend

__all__ = ["FORMAT", "array_state", "independent", "restore_array"]

FORMAT = 1
_LITERAL, _INVALID = KIND["literal"], KIND["invalid"]


# --- writing ---------------------------------------------------------------------------------------------------------


def array_state(array: ArrayBase, protocol: int) -> dict[str, Any]:
    """What a pickle holds of an array; evaluates it and waits for the result."""
    nodes = [primal(node) for node in array._nodes()]
    for node in nodes:
        if node.scope:
            raise symbolic_error(node, f"{array._name}.__reduce_ex__", "a pickle holds the values of an array")
    state: dict[str, Any] = {"format": FORMAT, "elements": _elements(array)}
    if not array._dynamic and array._depth > 0:
        state["entries"] = [_little_endian(pack(nodes), TYPES[array._type].size)]
    else:
        evaluate(nodes)
        distinct: dict[int, int] = {}
        positions = [distinct.setdefault(node.id, len(distinct)) for node in nodes]
        found = {node.id: node for node in nodes}
        state["entries"] = [_entry(found[number], protocol) for number in distinct]
        if len(distinct) < len(positions):
            state["positions"] = positions
    if array._depth < 0:
        state["shape"] = array.shape
    attributes = getattr(array, "__dict__", None)
    if attributes:
        state["attributes"] = attributes
    return state


def _elements(array: ArrayBase) -> str:
    info = TYPES[array._type]
    return f"{info.kind if info.code else info.name[:2]}{info.size}"


def _entry(node: Node, protocol: int) -> Any:
    if node.kind == _INVALID:
        return None
    if node.kind == _LITERAL:
        return (node.size, node.payload)
    size = TYPES[node.type].size
    if protocol < 5 or sys.byteorder != "little":
        return _little_endian(read_bytes(node), size)
    from pickle import PickleBuffer

    node, address, owner = host_view(node)
    memory: Any = (ctypes.c_char * (node.size * size)).from_address(address)
    # Pickles with buffers of their own may be written later: as long as the node is held here, too, writes to the array
    # go elsewhere.
    memory._node, memory._owner = node, owner
    return PickleBuffer(memoryview(memory).cast("B").toreadonly())


def _little_endian(data: bytes, size: int) -> bytes:
    if sys.byteorder == "little" or size == 1:
        return data
    swapped = bytearray(len(data))
    for position in range(size):
        swapped[position::size] = data[size - 1 - position::size]
    return bytes(swapped)


# --- reading ---------------------------------------------------------------------------------------------------------


def restore_array(array: ArrayBase, state: Any) -> None:
    """Give a new array what a pickle holds of it; raises a ``ValueError`` if that is nothing it could have held, and a
    ``RuntimeError`` where its backend is not available."""
    require_backend(type(array), f"{array._name}.__setstate__")
    form = state.get("format") if isinstance(state, dict) else None
    if form != FORMAT:
        found = "none at all" if form is None else f"{form!r}"
        raise ValueError(f"{array._name}: cannot restore this array: its pickle has a format that this version of the "
                         f"package does not know (expected {FORMAT}, found {found}).")
    if state.get("elements") != _elements(array):
        raise ValueError(f"{array._name}: cannot restore this array: its pickle has elements of the type "
                         f"{state.get('elements')!r}, expected {_elements(array)!r}.")
    try:
        nodes = _nodes(array, state)
    except (KeyError, IndexError, TypeError, struct.error) as error:
        raise ValueError(f"{array._name}: cannot restore this array: its pickle is damaged "
                         f"({describe(error)}: {error}).") from error
    target: Any = array
    target._o = None
    if array._depth < 0:
        target._s = tuple(state["shape"])
    elif array._depth > 0:
        target._c = nodes  # which tells that it is nested
    store_same(array, nodes)
    if "attributes" in state:
        target.__dict__.update(state["attributes"])


def _nodes(array: ArrayBase, state: dict[str, Any]) -> list[Node]:
    """The component nodes that a pickle describes."""
    info, entries = TYPES[array._type], state["entries"]
    if not array._dynamic and array._depth > 0:
        data = _little_endian(bytes(entries[0]), info.size)
        nodes = [literal(array._type, value) for value in from_memory(info, data)]
    else:
        nodes = [_node(array._type, entry, array._where) for entry in entries]
        if "positions" in state:
            nodes = [nodes[position] for position in state["positions"]]
    expected = 1 if array._depth <= 0 else array._count if array._count >= 0 else len(nodes)
    if len(nodes) != expected:
        raise IndexError(f"{len(nodes)} components instead of {expected}")
    if array._depth < 0:
        count = 1
        for size in state["shape"]:
            count *= size
        if count != nodes[0].size:
            raise IndexError(f"{nodes[0].size} elements and the shape {state['shape']}")
    return nodes


def _node(type_: int, entry: Any, where: int) -> Node:
    if entry is None:
        return invalid(type_)
    if isinstance(entry, tuple):
        size, value = entry
        return literal(type_, value, size)
    view = memoryview(entry)
    size = TYPES[type_].size
    if view.nbytes % size:
        raise IndexError(f"{view.nbytes} bytes of elements that take {size} each")
    return import_copy(type_, view if sys.byteorder == "little" else _little_endian(bytes(view), size),
                       where)


# --- copies ----------------------------------------------------------------------------------------------------------


def independent(array: ArrayBase, memo: dict[int, Any]) -> Any:
    """An array with the same values, which no other array, no view and no library can change.

    Evaluates nothing. Memory of this package alone is shared until one of its arrays is written to; what was imported
    from, or handed to, others is copied. ``memo`` is that of :func:`copy.deepcopy`: what the attributes of an instance
    of a derived class refer to, possibly the array itself, is copied once.
    """
    cls = type(array)
    result: Any = cls.__new__(cls)
    nodes = [unshared(node) for node in followed(array._nodes())]
    result._o = None
    if array._depth > 0:
        result._c = nodes
    else:
        result._n = nodes[0]
        if array._depth < 0:
            result._s = array.shape
    attributes = getattr(array, "__dict__", None)
    if attributes:
        memo[id(array)] = result
        result.__dict__.update(copy.deepcopy(attributes, memo))
    return result


links.array_state = array_state
links.restore_array = restore_array
links.independent = independent
