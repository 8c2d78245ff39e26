"""The compiled form of ``malloc.py``.

No Python code runs in the midst of an allocation that finds a free block, or of giving one back: they need no lock, and
finalisers put blocks where they belong at once.
"""

import ctypes
import itertools
import mmap
import threading

cimport cython
from libc.stdint cimport int64_t, uint64_t

from . import pool

PACKET = 64
PADDING = 8 * PACKET
_ALIGNMENT = 64
_LARGE = 1 << 20
_HUGE_PAGE = 1 << 21
_COLOR = 4096 * 5 + 64 * 9
_colors = itertools.cycle(range(32))

_malloc = ctypes.pythonapi.PyMem_RawMalloc
_malloc.restype, _malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_free = ctypes.pythonapi.PyMem_RawFree
_free.restype, _free.argtypes = None, [ctypes.c_void_p]

cdef int64_t _PADDING = PADDING


@cython.no_gc
@cython.freelist(256)
cdef class Block:
    """A piece of memory with its size class (see the plain form)."""

    def __init__(self, address, capacity, base):
        self.address = address
        self.capacity = capacity
        self.base = base
        self.ticket = 0


cdef dict _blocks = {}
_free_blocks = _blocks
_lock = threading.RLock()  # held while the system is asked for memory, or is given some
pool.hold_across_fork(_lock)
pool.keep_when_leaving(_free_blocks)
cdef int64_t _in_use = 0, _peak = 0, _cached = 0, _allocations = 0


cpdef int64_t size_class(int64_t nbytes) except -1:
    """Capacity for a request: a power of two or one of three steps between two of them."""
    cdef int64_t step = 64
    if nbytes < 0 or nbytes > <int64_t> 1 << 61:
        raise MemoryError
    nbytes += _PADDING
    while step << 3 <= nbytes:
        step <<= 1
    return (nbytes + step - 1) & -step


cpdef Block allocate(int64_t nbytes):
    """A block for ``nbytes`` and the padding behind them; its contents are undefined."""
    global _in_use, _peak, _cached, _allocations
    cdef int64_t capacity = size_class(nbytes)
    cdef list blocks = _blocks.get(capacity)
    cdef Block block
    if blocks:
        block = <Block> blocks.pop()
        _cached -= capacity
    else:
        with _lock:
            block = _from_system(capacity)
        _allocations += 1
    _in_use += capacity
    if _in_use > _peak:
        _peak = _in_use
    return block


cpdef void release(Block block):
    """Give a block back; safe in finalisers."""
    global _in_use, _cached
    cdef list blocks = _blocks.get(block.capacity)
    if blocks is None:
        blocks = _blocks[block.capacity] = []
    blocks.append(block)
    _in_use -= block.capacity
    _cached += block.capacity


def _from_system(capacity):
    try:
        return _request(capacity)
    except MemoryError:
        _flush_locked()
    try:
        return _request(capacity)
    except MemoryError:
        raise MemoryError(f"cannot allocate {capacity} bytes of host memory") from None


def _request(capacity):
    if capacity < _LARGE:
        base = _malloc(capacity + _ALIGNMENT)
        if not base:
            raise MemoryError
        return Block((base + _ALIGNMENT - 1) & -_ALIGNMENT, capacity, base)
    try:
        if hasattr(mmap, "MAP_PRIVATE"):  # the default, shared, would let a forked child write into our arrays
            region = mmap.mmap(-1, capacity + 2 * _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        else:
            region = mmap.mmap(-1, capacity + 2 * _HUGE_PAGE)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        region.madvise(mmap.MADV_HUGEPAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    address = (start + _HUGE_PAGE - 1) & -_HUGE_PAGE
    return Block(address + next(_colors) * _COLOR, capacity, region)


def _flush_locked():
    global _cached
    pool.wait()
    for blocks in list(_free_blocks.values()):
        while blocks:  # a block is no longer free when it goes, as an interrupt or a finaliser may come in between
            block = blocks.pop()
            _cached -= (<Block?> block).capacity
            if isinstance(block.base, int):
                _free(block.base)
            else:
                block.base.close()


def flush():
    """Return all cached blocks to the system."""
    with _lock:
        _flush_locked()


def statistics():
    """Bytes in use by arrays, their peak, bytes cached, and how often the system was asked for memory."""
    return {"in_use": _in_use, "peak": _peak, "cached": _cached, "allocations": _allocations}


def reset_peak():
    """Start a new measurement of the peak."""
    global _peak
    _peak = _in_use
