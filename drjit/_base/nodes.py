"""Functions of single nodes: their elements as Python numbers, and other widths and types."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from drjit_core import (
    BAKED,
    KIND,
    SHAPE,
    TYPES,
    IncompatibleSizes,
    JitFlag,
    Node,
    cast,
    counter,
    flag,
    from_memory,
    gather,
    is_version,
    literal,
    ops,
    read_bytes,
    read_element,
    size_of,
    state,
    to_memory,
)

from .types import BOOL, INT64, UINT32, UINT64

__all__ = ["C_TYPES", "as_literal", "broadcast", "depending_on", "elements_of", "exact_size", "index_node",
           "index_type", "number_of", "pack", "short_positions", "values", "values_at", "without_widening"]

_LITERAL, _DUAL, _CAST = KIND["literal"], KIND["dual"], KIND["cast"]

#: The types of :mod:`ctypes` by the code of an element's type.
C_TYPES: dict[str, Any] = {
    "?": ctypes.c_bool, "b": ctypes.c_int8, "B": ctypes.c_uint8, "h": ctypes.c_int16, "H": ctypes.c_uint16,
    "i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64, "f": ctypes.c_float,
    "d": ctypes.c_double, "e": ctypes.c_uint16, "": ctypes.c_uint16,
}


def exact_size(node: Node) -> int:
    """How many elements a node has, where something is decided by that: a program that is being recorded is good for
    this size only."""
    if state.recording is not None:
        int(size_of(node))
    return node.size


def broadcast(node: Node, size: int) -> Node:
    """A node of size 1 repeated to a given size."""
    if node.size == size:
        return node
    if not node.size:
        raise IncompatibleSizes("broadcast", (0, size))
    if node.kind == _LITERAL:
        return literal(node.type, node.payload, size, node.attr)
    if node.scope and not is_version(node):  # it has no memory to read from
        scalar = index_type(size)
        every = ops.lt(counter(size, scalar), literal(scalar, size, 1, SHAPE))
        return ops.select(every, node, literal(node.type, 0))  # type: ignore[no-any-return]
    return gather(node, literal(UINT32, 0, size), literal(BOOL, True), harmless=True)


def depending_on(nothing: Node, found: Node) -> Node:
    """What an operation makes of an array without elements: a literal, which depends on it as far as derivatives go."""
    if nothing.kind != _DUAL:
        return found
    none = gather(nothing, literal(UINT32, 0, found.size), literal(BOOL, False))
    return ops.add(found, none)  # type: ignore[no-any-return]


def number_of(node: Node) -> Any:
    """The only element of a node as a Python number."""
    return node.payload if node.kind == _LITERAL else read_element(node, 0)


def values(node: Node, looks: bool = True) -> list[Any]:
    """All elements as Python numbers, which the program ``looks`` at; evaluates the node and waits for it."""
    size = node.size
    if not size:
        return []
    if node.kind == _LITERAL:
        return [node.payload] * size
    return _numbers(node.type, read_bytes(node, looks=looks))


def _numbers(type_: int, data: bytes) -> list[Any]:
    """The elements that bytes in memory stand for, as Python numbers."""
    return list(from_memory(TYPES[type_], data))


def values_at(node: Node, positions: Sequence[int | None]) -> dict[int, Any]:
    """Elements of a node at some ascending positions, ``None`` aside, as Python numbers: neighbours are read at once.

    The only element of a node stands at all of them. Evaluates the node and waits for it.
    """
    wanted = [position for position in positions if position is not None]
    if node.size == 1 or node.kind == _LITERAL:
        return dict.fromkeys(wanted, number_of(node)) if wanted else {}
    found: dict[int, Any] = {}
    start = 0
    for end in range(1, len(wanted) + 1):
        if end == len(wanted) or wanted[end] != wanted[end - 1] + 1:
            part = wanted[start:end]
            found.update(zip(part, _numbers(node.type, read_bytes(node, part[0], len(part))), strict=True))
            start = end
    return found


def elements_of(node: Node, looks: bool = True) -> list[Node]:
    """Literals with the elements of a node, which the program ``looks`` at; evaluates it."""
    return [literal(node.type, value) for value in values(node, looks)]


def pack(nodes: Sequence[Node]) -> bytes:
    """The numbers that nodes hold in the memory layout of their type."""
    return to_memory(TYPES[nodes[0].type], map(number_of, nodes)) if nodes else b""


def as_literal(node: Node) -> Node:
    """A node of one element as a literal."""
    return node if node.kind == KIND["literal"] else literal(node.type, read_element(node, 0))


def index_type(size: int) -> int:
    """The scalar type of positions in an array of a size: 32-bit unsigned integers, the largest of which is none, or
    64-bit ones beyond their range."""
    return UINT32 if size < 1 << 32 else UINT64


def index_node(node: Node, size: int, multiplied: bool = False) -> Node:
    """Indices as positions in an array of a size, see :func:`index_type`; in 64 bits where they are checked, so that
    none wraps around before that, also if it is going to be ``multiplied``, and reports tell what it was."""
    if flag(JitFlag.Debug):
        if multiplied and index_type(size) == UINT32:
            return cast(short_positions(node), UINT64)
        return cast(node, INT64 if TYPES[node.type].kind == "i" else UINT64)
    return cast(node, UINT64) if index_type(size) == UINT64 else short_positions(node)


def short_positions(node: Node) -> Node:
    """Indices in 32 bits. What does not fit becomes the largest number, as in conversions of floating-point numbers:
    cut off, it might be a position that exists."""
    node = without_widening(node)
    if TYPES[node.type].bits == 64 and not TYPES[node.type].is_float:
        node = ops.minimum(cast(node, UINT64), literal(UINT64, (1 << 32) - 1, 1, BAKED))
    return cast(node, UINT32)


def without_widening(node: Node) -> Node:
    """Integers, before they were converted to 64 bits from unsigned ones of fewer."""
    if node.kind == _CAST and TYPES[node.type].bits == 64:
        narrow = node.d0
        assert narrow is not None
        if TYPES[narrow.type].kind == "u" and TYPES[narrow.type].bits < 64 and not TYPES[node.type].is_float:
            return narrow
    return node
