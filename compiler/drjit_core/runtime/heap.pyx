"""The compiled form of ``heap.py``.

No Python code runs in the midst of an allocation that finds a free block, or of giving one back: they need no lock, and
finalisers put blocks where they belong at once.
"""

import threading

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
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
        self.number = _number_of(self.capacity)


cdef inline int _number_of(int64_t capacity) noexcept:
    """The number of a size class: four times how often its quarter has been doubled, and how many of that there are."""
    cdef int64_t step = 64
    cdef int number = 0
    while step << 3 <= capacity:
        step <<= 1
        number += 4
    return number + <int> (capacity // step)


@cython.final
cdef class Heap:
    """Memory of a source by size class."""

    def __init__(self, source):
        self.source = source
        self.padding = source.padding
        self.lock = threading.RLock()  # held while the source is asked for memory, or is given some

    @property
    def free_blocks(self):
        """For tests: the blocks that are free, by capacity."""
        cdef int number
        cdef Block block
        cdef PyObject* place
        found = {}
        for number in range(CLASSES):
            place = self.free[number]
            while place != NULL:
                block = <Block> place
                found.setdefault(block.capacity, []).append(block)
                place = block.next
        return found

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
        cdef int number = _number_of(capacity)
        cdef Block block
        if self.free[number] != NULL:
            block = self._taken(number)
        else:
            with self.lock:
                block = _from_source(self, capacity)
            self._allocations += 1
        self._in_use += capacity
        if self._in_use > self._peak:
            self._peak = self._in_use
        return block

    cdef Block _taken(self, int number):
        """The free block of a size class that was given back last."""
        cdef Block block = <Block> self.free[number]
        self.free[number] = block.next
        Py_DECREF(block)  # the list's
        self._cached -= block.capacity
        return block

    cpdef void release(self, Block block):
        """Give a block back; safe in finalisers."""
        Py_INCREF(block)
        block.next = self.free[block.number]
        self.free[block.number] = <PyObject*> block
        self._in_use -= block.capacity
        self._cached += block.capacity

    def flush(self):
        """Return all cached blocks to the source."""
        cdef int number
        with self.lock:
            self.source.wait()
            for number in range(CLASSES):
                while self.free[number] != NULL:
                    # a block is no longer free when it goes: an interrupt or a finaliser may come in between
                    self.source.free(self._taken(number).base)

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
