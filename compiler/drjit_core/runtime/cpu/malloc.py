"""The allocator: blocks of host memory, kept and used again by size class.

Fresh pages are 50-100 times slower at first touch than the memory itself, so that blocks go back to a cache, not to the
system.  Blocks are aligned to cache lines, and padded so that a packet may run over the end of an array; large ones
ask for huge pages.

``release`` is called by finalisers, which may run anywhere: it only appends to a queue.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import threading
from collections import deque
from collections.abc import Callable

from . import pool

__all__ = ["Block", "allocate", "flush", "release", "statistics"]

#: Elements of the widest packet, and bytes beyond the end of an array that a kernel may therefore touch.
PACKET = 64
PADDING = 8 * PACKET
_ALIGNMENT = 64
_LARGE = 1 << 20
_HUGE_PAGE = 1 << 21
#: Large blocks start at different distances from a huge page: arrays that are read side by side would otherwise meet in
#: the same sets of the caches and the same banks of memory.
_COLOR = 4096 * 5 + 64 * 9
_colors = itertools.cycle(range(32))

_malloc = ctypes.pythonapi.PyMem_RawMalloc
_malloc.restype, _malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_free = ctypes.pythonapi.PyMem_RawFree
_free.restype, _free.argtypes = None, [ctypes.c_void_p]


class Block:
    """A piece of memory with its size class; ``base`` is what the system gave.

    A later launch may use a block again before the launches that were given it earlier have run, because they run in
    order; the host and the system may not.
    """

    __slots__ = ("address", "base", "capacity", "ticket")

    def __init__(self, address: int, capacity: int, base: int | mmap.mmap) -> None:
        self.address = address
        self.capacity = capacity
        self.base = base
        self.ticket = 0  # the last launch that uses the memory, when the block was given back


_free_blocks: dict[int, list[Block]] = {}
_released: deque[Block] = deque()
_lock = threading.RLock()  # a finaliser may allocate while its thread is in here
pool.hold_across_fork(_lock)
pool.keep_when_leaving(_free_blocks, _released)
_in_use = _peak = _cached = _allocations = 0


def size_class(nbytes: int) -> int:
    """Capacity for a request: a power of two or one of three steps between two of them."""
    nbytes += PADDING
    step = 1 << max(nbytes.bit_length() - 3, 6)
    return (nbytes + step - 1) & -step


def allocate(nbytes: int) -> Block:
    """A block for ``nbytes`` and the padding behind them; its contents are undefined."""
    global _in_use, _peak, _cached, _allocations
    capacity = size_class(nbytes)
    with _lock:
        _collect()
        blocks = _free_blocks.get(capacity)
        if blocks:
            block = blocks.pop()
            _cached -= capacity
        else:
            block = _from_system(capacity)
            _allocations += 1
        _in_use += capacity
        if _in_use > _peak:
            _peak = _in_use
    return block


def release(block: Block, append: Callable[[Block], None] = _released.append) -> None:
    """Give a block back; safe in finalisers, which may interrupt anything, and run when modules are torn down."""
    append(block)


def _collect() -> None:
    """Move released blocks to the cache."""
    global _in_use, _cached
    while _released:
        block = _released.popleft()
        blocks = _free_blocks.get(block.capacity)
        if blocks is None:
            blocks = _free_blocks[block.capacity] = []
        blocks.append(block)
        _in_use -= block.capacity
        _cached += block.capacity


def _from_system(capacity: int) -> Block:
    try:
        return _request(capacity)
    except MemoryError:
        _flush_locked()
    try:
        return _request(capacity)
    except MemoryError:
        raise MemoryError(f"cannot allocate {capacity} bytes of host memory") from None


def _request(capacity: int) -> Block:
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


def _flush_locked() -> None:
    global _cached
    _collect()
    pool.wait()
    for blocks in list(_free_blocks.values()):
        while blocks:  # a block is no longer free when it goes, as an interrupt or a finaliser may come in between
            block = blocks.pop()
            _cached -= block.capacity
            if isinstance(block.base, int):
                _free(block.base)
            else:
                block.base.close()


def flush() -> None:
    """Return all cached blocks to the system."""
    with _lock:
        _flush_locked()


def statistics() -> dict[str, int]:
    """Bytes in use by arrays, their peak, bytes cached, and how often the system was asked for memory."""
    with _lock:
        _collect()
        return {"in_use": _in_use, "peak": _peak, "cached": _cached, "allocations": _allocations}


def reset_peak() -> None:
    """Start a new measurement of the peak."""
    global _peak
    with _lock:
        _collect()
        _peak = _in_use
