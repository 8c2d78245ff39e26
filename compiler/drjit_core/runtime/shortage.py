"""What happens when memory runs out: a last attempt, then an exception that says what occupies it.

Nothing is recorded beforehand: the arrays are found through the garbage collector when it has come to this.
"""

from __future__ import annotations

import gc

from ..ir.labels import label_of
from ..ir.node import Node, live_nodes
from ..ops.table import EVALUATED
from ..types import TYPES
from .heap import Block, Heap

__all__ = ["allocate"]

#: Arrays that the message lists.
_LISTED = 5


def allocate(heap: Heap, nbytes: int) -> Block:
    """A block, after arrays in reference cycles are gone; the allocator has given back its free blocks already."""
    gc.collect()
    try:
        return heap.allocate(nbytes)
    except MemoryError:
        pass
    try:
        message = _describe(heap, nbytes)
    except MemoryError:  # not even that much is left
        message = f"cannot allocate {nbytes} bytes of {heap.source.kind}"
    raise MemoryError(message) from None


def _describe(heap: Heap, nbytes: int) -> str:
    arrays: dict[int, tuple[int, Node]] = {}  # by buffer: those that have memory of this heap, or of its device
    for node in live_nodes():
        buffer = node.payload if node.kind == EVALUATED else None
        if buffer is not None and buffer.backend.heap is heap:
            arrays[id(buffer)] = buffer.nbytes, node
    largest = sorted(arrays.values(), key=lambda entry: entry[0], reverse=True)[:_LISTED]
    in_use = heap.statistics()["in_use"]
    text = (f"cannot allocate {_bytes(nbytes)} ({nbytes} bytes) of {heap.source.kind}, although all unused memory was "
            f"given back to the system. There are {len(arrays)} evaluated arrays, and {_bytes(in_use)} in use.")
    if largest:
        text += " The largest: " + "; ".join(_line(size, node) for size, node in largest)
    return text


def _line(size: int, node: Node) -> str:
    label = label_of(node)
    shared = ", imported" if node.payload.read_only else ""
    return f"{_bytes(size)}: {TYPES[node.type].name}[{node.size}]" + (f" '{label}'" if label else "") + shared


def _bytes(number: int) -> str:
    power = min(max(number.bit_length() - 1, 0) // 10, 4)
    return f"{number / (1 << 10 * power):.4g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
