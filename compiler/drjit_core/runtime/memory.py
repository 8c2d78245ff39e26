"""Memory of this process: what the system gives of it, and how backends have it, see :mod:`.backend`."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Callable

from . import shortage
from .buffer import Buffer
from .elements import copied
from .heap import Block, Heap

__all__ = ["PACKET", "PADDING", "HostMemory", "System"]

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


class System:
    """Where heaps of this process have their memory from: blocks are aligned to cache lines, large ones ask for huge
    pages."""

    kind = "host memory"
    padding = PADDING

    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait = wait

    def request(self, capacity: int) -> tuple[int, int | mmap.mmap]:
        """New memory."""
        if capacity < _LARGE:
            base = _malloc(capacity + _ALIGNMENT)
            if not base:
                raise MemoryError
            return (base + _ALIGNMENT - 1) & -_ALIGNMENT, base
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
        return ((start + _HUGE_PAGE - 1) & -_HUGE_PAGE) + next(_colors) * _COLOR, region

    def free(self, base: int | mmap.mmap) -> None:
        """Give memory back."""
        if isinstance(base, int):
            _free(base)
        else:
            base.close()


def _release(block: Block) -> None:
    block.heap.release(block)


class HostMemory:
    """Buffers in blocks of a heap of this process.

    Where one function of another module does what is asked for, it stands here itself: a method that calls it would add
    to the cost of every launch.
    """

    is_host = True
    exchange = None
    heap: Heap
    release = staticmethod(_release)

    def wait(self, ticket: int | None = None, /) -> None:
        """Nothing runs, unless a backend says otherwise."""

    def is_done(self, ticket: int, /) -> bool:
        """Nothing runs."""
        return True

    def finish(self) -> bool:
        """Nothing runs."""
        return True

    def allocate(self, nbytes: int, /) -> Buffer:
        """A buffer of our own with undefined contents."""
        try:
            block = self.heap.allocate(nbytes)
        except (MemoryError, OverflowError):
            block = shortage.allocate(self.heap, nbytes)
        return Buffer(self, block.address, nbytes, block)

    def copy(self, source: Buffer, /) -> Buffer:
        """A buffer of our own with the contents of another."""
        result = self.allocate(source.nbytes)
        self.wait(max(result.ticket, source.ticket))
        ctypes.memmove(result.address, source.address, source.nbytes)
        return result

    def read(self, buffer: Buffer, offset: int, count: int, /) -> bytes:
        """Some bytes of a buffer once the launches that use it have ended."""
        self.wait(buffer.ticket)
        return copied(buffer.address + offset, count)

    def write(self, buffer: Buffer, offset: int, data: bytes | memoryview, /) -> None:
        """Replace bytes of a buffer once the launches that use its memory have ended."""
        self.wait(buffer.ticket)
        if data.__class__ is bytes:
            ctypes.memmove(buffer.address + offset, data, len(data))
        else:
            memoryview((ctypes.c_char * len(data)).from_address(buffer.address + offset)).cast("B")[:] = data

    def fill(self, buffer: Buffer, byte: int, /) -> None:
        """Set all bytes of a buffer once the launches that use its memory have ended."""
        self.wait(buffer.ticket)
        ctypes.memset(buffer.address, byte, buffer.nbytes)

    def host_address(self, buffer: Buffer, /) -> int:
        """The address of a buffer once the launches that use it have ended."""
        self.wait(buffer.ticket)
        return buffer.address

    def memory_statistics(self) -> dict[str, int]:
        """Those of the heap."""
        return self.heap.statistics()

    def flush_memory(self) -> None:
        """Return what the heap has cached."""
        self.heap.flush()
