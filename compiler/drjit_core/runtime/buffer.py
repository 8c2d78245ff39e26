"""Buffers: who owns the memory of an evaluated array.

A buffer is not a node: several nodes can stand for one buffer in the course of time (each write makes a new version),
but at any time at most one version of it can be written to.  ``read_only`` marks memory that others own (a shared
import), which is copied before any write; ``padded`` says that whole packets may run over the end; ``exported`` that
others were given a view of the memory, through which they may write to it.
"""

from __future__ import annotations

from typing import Any, NoReturn, SupportsIndex

__all__ = ["Buffer", "share", "view"]


class Buffer:
    """Memory of an array: a block of a backend's allocator, or one that a backend has for good."""

    __slots__ = ("__weakref__", "_block", "address", "backend", "exported", "mark", "nbytes", "padded", "read_only",
                 "ticket")

    def __init__(self, backend: Any, address: int, nbytes: int, block: Any = None) -> None:
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

    def __init__(self, backend: Any, address: int, nbytes: int, owner: Any) -> None:
        Buffer.__init__(self, backend, address, nbytes)
        self._owner = owner


class View(Buffer):
    """A part of another buffer, which it keeps alive: launches that use it use the memory of that one."""

    __slots__ = ("source",)

    def __init__(self, backend: Any, address: int, nbytes: int, source: Buffer) -> None:
        Buffer.__init__(self, backend, address, nbytes)
        self.source = source

    def __del__(self) -> None:
        self.source.ticket = max(self.source.ticket, self.ticket)


def share(backend: Any, address: int, nbytes: int, owner: Any) -> Buffer:
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
