"""Heaps: blocks of memory from some source, kept and used again by size class.

Fresh pages of a host are 50-100 times slower at first touch than the memory itself, and devices wait until all has run
when they are asked for memory: blocks go back to a cache, not to the source.  They are padded so that a packet may run
over the end of an array.

``release`` is called by finalisers, which may run anywhere: it only appends to a queue.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Protocol

__all__ = ["Block", "Heap"]


class Source(Protocol):
    """Where a heap has its memory from."""

    kind: str  # in words
    padding: int  # bytes behind the end of an array that kernels may touch

    def request(self, capacity: int) -> tuple[int, Any]:
        """The address of new memory, and what :meth:`free` wants of it; raises a ``MemoryError``."""

    def free(self, base: Any) -> None:
        """Give memory back."""

    def wait(self) -> None:
        """Wait until no launch uses memory any more."""


class Block:
    """A piece of memory with its size class; ``base`` is what the source gave.

    A later launch may use a block again before the launches that were given it earlier have run, because they run in
    order; the host and the source may not.
    """

    __slots__ = ("address", "base", "capacity", "heap", "ticket")

    def __init__(self, heap: Heap, address: int, capacity: int, base: Any) -> None:
        self.heap = heap
        self.address = address
        self.capacity = capacity
        self.base = base
        self.ticket = 0  # the last launch that uses the memory, when the block was given back


class Heap:
    """Memory of a source by size class."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.padding = source.padding
        self.lock = threading.RLock()  # a finaliser may allocate while its thread is in here
        self.free_blocks: dict[int, list[Block]] = {}
        self._released: deque[Block] = deque()
        self._in_use = self._peak = self._cached = self._allocations = 0

    def size_class(self, nbytes: int) -> int:
        """Capacity for a request: a power of two or one of three steps between two of them."""
        nbytes += self.padding
        step = 1 << max(nbytes.bit_length() - 3, 6)
        return (nbytes + step - 1) & -step

    def allocate(self, nbytes: int) -> Block:
        """A block for ``nbytes`` and the padding behind them; its contents are undefined."""
        capacity = self.size_class(nbytes)
        with self.lock:
            self._collect()
            blocks = self.free_blocks.get(capacity)
            if blocks:
                block = blocks.pop()
                self._cached -= capacity
            else:
                block = self._from_source(capacity)
                self._allocations += 1
            self._in_use += capacity
            if self._in_use > self._peak:
                self._peak = self._in_use
        return block

    def release(self, block: Block) -> None:
        """Give a block back; safe in finalisers, which may interrupt anything, and run when modules are torn down."""
        self._released.append(block)

    def _collect(self) -> None:
        """Move released blocks to the cache."""
        while self._released:
            block = self._released.popleft()
            blocks = self.free_blocks.get(block.capacity)
            if blocks is None:
                blocks = self.free_blocks[block.capacity] = []
            blocks.append(block)
            self._in_use -= block.capacity
            self._cached += block.capacity

    def _from_source(self, capacity: int) -> Block:
        try:
            return Block(self, *self._request(capacity))
        except MemoryError:
            self.flush()
        try:
            return Block(self, *self._request(capacity))
        except MemoryError:
            raise MemoryError(f"cannot allocate {capacity} bytes of {self.source.kind}") from None

    def _request(self, capacity: int) -> tuple[int, int, Any]:
        address, base = self.source.request(capacity)
        return address, capacity, base

    def flush(self) -> None:
        """Return all cached blocks to the source."""
        with self.lock:
            self.source.wait()
            self._collect()  # also what launches held that have ended
            for blocks in list(self.free_blocks.values()):
                while blocks:  # a block is no longer free when it goes: an interrupt or a finaliser may come in between
                    block = blocks.pop()
                    self._cached -= block.capacity
                    self.source.free(block.base)

    def statistics(self) -> dict[str, int]:
        """Bytes in use by arrays, their peak, bytes cached, and how often the source was asked for memory."""
        with self.lock:
            self._collect()
            return {"in_use": self._in_use, "peak": self._peak, "cached": self._cached,
                    "allocations": self._allocations}

    def reset_peak(self) -> None:
        """Start a new measurement of the peak."""
        with self.lock:
            self._collect()
            self._peak = self._in_use
