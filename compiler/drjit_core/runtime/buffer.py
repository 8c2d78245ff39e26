"""Buffers: who owns the memory of an evaluated array.

A buffer is not a node: several nodes can stand for one buffer in the course of time (each write makes a new version),
but at any time at most one version of it can be written to.  ``read_only`` marks memory that others own (a shared
import), which is copied before any write; ``padded`` says that whole packets may run over the end; ``exported`` that
others were given a view of the memory, through which they may write to it.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol, SupportsIndex

from .heap import Heap

__all__ = ["Buffer", "Memory", "share", "view"]


class Memory(Protocol):
    """Where arrays live: what a backend is to those who access memory."""

    @property
    def name(self) -> str:
        """Name, for messages and for :func:`.backends.on_backend`."""

    @property
    def where(self) -> int:
        """The nodes that it evaluates: those that belong to a :class:`JitBackend`, as a bit."""

    @property
    def is_host(self) -> bool:
        """Whether its memory is that of this process, which the host may access in place."""

    @property
    def heap(self) -> Heap | None:
        """Which its memory comes from, if it has one."""

    def allocate(self, nbytes: int, /) -> Buffer:
        """A buffer with undefined contents; raises a ``MemoryError`` that says what occupies the memory."""

    def release(self, block: Any, /) -> None:
        """Take the memory of a buffer back.  Finalisers call this: it may interrupt anything."""

    def copy(self, source: Buffer, /) -> Buffer:
        """A buffer of its own with the contents of another one."""

    def read(self, buffer: Buffer, offset: int, count: int, /) -> bytes:
        """Some bytes of a buffer, once the launches that use it have ended.  Raises a ``RuntimeError`` if there are no
        contents."""

    def write(self, buffer: Buffer, offset: int, data: bytes | memoryview, /) -> None:
        """Replace some bytes of a buffer, after the launches that use it."""

    def fill(self, buffer: Buffer, byte: int, /) -> None:
        """Set all bytes of a buffer, after the launches that use it."""

    def host_address(self, buffer: Buffer, /) -> int:
        """Where the host may read and write the contents of a buffer, from now on until the next launch that uses it;
        waits for the last one.  Raises a ``RuntimeError`` if there is no such place: unless it ``is_host``."""

    def memory_statistics(self) -> dict[str, int]:
        """Bytes ``in_use`` by arrays, their ``peak``, bytes ``cached``, and ``allocations``, which asked the system."""

    def flush_memory(self) -> None:
        """Return memory that no array uses to the system."""

    def wait(self, ticket: int | None = None, /) -> None:
        """Wait for a launch, or for all of them."""

    def is_done(self, ticket: int, /) -> bool:
        """Whether a launch has finished."""


class Buffer:
    """Memory of an array: a block of a backend's allocator, or one that a backend has for good."""

    __slots__ = ("__weakref__", "_block", "address", "backend", "exported", "mark", "nbytes", "padded", "read_only",
                 "ticket")

    def __init__(self, backend: Memory, address: int, nbytes: int, block: Any = None) -> None:
        self.backend = backend
        self.address = address
        self.nbytes = nbytes
        self.padded = True
        self.read_only = False
        self.exported = False
        self._block = block
        #: For whoever asks, while the lock of :mod:`.exclusion` is held, whether some nodes share memory.
        self.mark = 0
        #: The last launch that uses the memory; the host waits for it before it touches the memory.
        self.ticket: int = block.ticket if block is not None else 0

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("cannot pickle or copy the memory of an array: its address means nothing elsewhere; pickle the "
                        "array, which goes by value")

    def __del__(self) -> None:
        block = self._block
        if block is not None:
            block.ticket = self.ticket
            self.backend.release(block)


class Borrowed(Buffer):
    """Memory that belongs to somebody else, who lives at least as long.

    The owner may refer to the array: in the compiled form, the collector of cycles knows buffers of this class only.
    """

    __slots__ = ("_owner",)

    def __init__(self, backend: Memory, address: int, nbytes: int, owner: Any) -> None:
        Buffer.__init__(self, backend, address, nbytes)
        self._owner = owner


class View(Buffer):
    """A part of another buffer, which it keeps alive: launches that use it use the memory of that one."""

    __slots__ = ("source",)

    def __init__(self, backend: Memory, address: int, nbytes: int, source: Buffer) -> None:
        Buffer.__init__(self, backend, address, nbytes)
        self.source = source

    def __del__(self) -> None:
        self.source.ticket = max(self.source.ticket, self.ticket)


def share(backend: Memory, address: int, nbytes: int, owner: Any) -> Buffer:
    """A buffer over memory that ``owner`` keeps alive."""
    result = Borrowed(backend, address, nbytes, owner)
    result.padded = False
    result.read_only = True
    return result


def view(source: Buffer, offset: int, nbytes: int) -> Buffer:
    """A buffer over a part of another one, which it keeps alive; whole packets may run over its end as well."""
    result = View(source.backend, source.address + offset, nbytes, source)
    result.ticket = source.ticket
    return result
