"""The compiled form of ``heap.py``.

No Python code runs in the midst of an allocation that finds a free block, or of giving one back: they need no lock, and
finalisers put blocks where they belong at once.
"""

import threading

cimport cython
from libc.stdint cimport int64_t, uint64_t


@cython.no_gc
@cython.freelist(256)
cdef class Block:
    """A piece of memory with its size class (see the plain form)."""

    def __init__(self, Heap heap not None, address, capacity, base):
        self.heap = heap
        self.address = address
        self.capacity = capacity
        self.base = base
        self.ticket = 0


@cython.final
cdef class Heap:
    """Memory of a source by size class."""

    def __init__(self, source):
        self.source = source
        self.padding = source.padding
        self.lock = threading.RLock()  # held while the source is asked for memory, or is given some
        self.free_blocks = {}

    cpdef int64_t size_class(self, int64_t nbytes) except -1:
        """Capacity for a request: a power of two or one of three steps between two of them."""
        cdef int64_t step = 64
        if nbytes < 0 or nbytes > <int64_t> 1 << 61:
            raise MemoryError
        nbytes += self.padding
        while step << 3 <= nbytes:
            step <<= 1
        return (nbytes + step - 1) & -step

    cpdef Block allocate(self, int64_t nbytes):
        """A block for ``nbytes`` and the padding behind them; its contents are undefined."""
        cdef int64_t capacity = self.size_class(nbytes)
        cdef list blocks = self.free_blocks.get(capacity)
        cdef Block block
        if blocks:
            block = <Block> blocks.pop()
            self._cached -= capacity
        else:
            with self.lock:
                block = _from_source(self, capacity)
            self._allocations += 1
        self._in_use += capacity
        if self._in_use > self._peak:
            self._peak = self._in_use
        return block

    cpdef void release(self, Block block):
        """Give a block back; safe in finalisers."""
        cdef list blocks = self.free_blocks.get(block.capacity)
        if blocks is None:
            blocks = self.free_blocks[block.capacity] = []
        blocks.append(block)
        self._in_use -= block.capacity
        self._cached += block.capacity

    def flush(self):
        """Return all cached blocks to the source."""
        with self.lock:
            self.source.wait()
            for blocks in list(self.free_blocks.values()):
                while blocks:  # a block is no longer free when it goes: an interrupt or a finaliser may come in between
                    block = blocks.pop()
                    self._cached -= (<Block?> block).capacity
                    self.source.free(block.base)

    def statistics(self):
        """Bytes in use by arrays, their peak, bytes cached, and how often the source was asked for memory."""
        return {"in_use": self._in_use, "peak": self._peak, "cached": self._cached, "allocations": self._allocations}

    def reset_peak(self):
        """Start a new measurement of the peak."""
        self._peak = self._in_use


cdef Block _from_source(Heap heap, int64_t capacity):
    try:
        return _request(heap, capacity)
    except MemoryError:
        heap.flush()
    try:
        return _request(heap, capacity)
    except MemoryError:
        raise MemoryError(f"cannot allocate {capacity} bytes of {heap.source.kind}") from None


cdef Block _request(Heap heap, int64_t capacity):
    address, base = heap.source.request(capacity)
    return Block(heap, address, capacity, base)
