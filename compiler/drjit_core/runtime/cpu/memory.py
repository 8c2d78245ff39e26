"""Memory of this process, as backends have it, see :mod:`..backend`."""

from __future__ import annotations

import ctypes

from ..backend import Backend, Limits
from ..buffer import Buffer
from . import malloc, pool, shortage
from .target import CPU_TARGET

__all__ = ["HostMemory"]


class HostMemory:
    """Buffers in blocks of the allocator; the host waits for the pool's launches that use them.

    Where one function of another module does what is asked for, it stands here itself: a method that calls it would add
    to the cost of every launch.
    """

    is_host = True
    limits = Limits(malloc.PADDING, malloc.PACKET, CPU_TARGET.local)
    release = staticmethod(malloc.release)
    wait = staticmethod(pool.wait)
    is_done = staticmethod(pool.is_done)
    finish = staticmethod(pool.finish)

    def allocate(self: Backend, nbytes: int, /) -> Buffer:
        """A buffer of our own with undefined contents."""
        try:
            block = malloc.allocate(nbytes)
        except (MemoryError, OverflowError):
            block = shortage.allocate(nbytes)
        return Buffer(self, block.address, nbytes, block)

    def copy(self: Backend, source: Buffer, /) -> Buffer:
        """A buffer of our own with the contents of another."""
        result = self.allocate(source.nbytes)
        pool.wait(max(result.ticket, source.ticket))
        ctypes.memmove(result.address, source.address, source.nbytes)
        return result

    def read(self, buffer: Buffer, offset: int, count: int, /) -> bytes:
        """Some bytes of a buffer once the launches that use it have ended."""
        pool.wait(buffer.ticket)
        return ctypes.string_at(buffer.address + offset, count)

    def write(self, buffer: Buffer, offset: int, data: bytes | memoryview, /) -> None:
        """Replace bytes of a buffer once the launches that use its memory have ended."""
        pool.wait(buffer.ticket)
        memoryview((ctypes.c_char * len(data)).from_address(buffer.address + offset)).cast("B")[:] = data

    def fill(self, buffer: Buffer, byte: int, /) -> None:
        """Set all bytes of a buffer once the launches that use its memory have ended."""
        pool.wait(buffer.ticket)
        ctypes.memset(buffer.address, byte, buffer.nbytes)

    def host_address(self, buffer: Buffer, /) -> int:
        """The address of a buffer once the launches that use it have ended."""
        pool.wait(buffer.ticket)
        return buffer.address
