"""Buffers: who owns the memory of an evaluated array.

A buffer is not a node: several nodes can stand for one buffer in the course of time (each write makes a new version),
but at any time at most one version of it can be written to.  ``read_only`` marks memory that others own (a shared
import), which is copied before any write; ``padded`` says that whole packets may run over the end; ``exported`` that
others were given a view of the memory, through which they may write to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

if TYPE_CHECKING:
    from .backend import Backend

__all__ = ["Buffer", "share", "view"]


class Buffer:
    """Memory of an array: a block of a backend's allocator, or borrowed from an owner that it keeps alive.

    ``read_only`` and ``padded`` follow from that: memory with neither owner nor block is the backend's own.
    """

    __slots__ = ("__weakref__", "_block", "_owner", "address", "backend", "exported", "nbytes", "padded", "read_only",
                 "ticket")

    def __init__(self, backend: Backend, address: int, nbytes: int, block: Any = None, owner: Any = None) -> None:
        self.backend = backend
        self.address = address
        self.nbytes = nbytes
        self.padded = owner is None
        self.read_only = owner is not None
        self.exported = False
        self._block = block
        self._owner = owner
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
        elif self._owner.__class__ is self.__class__:  # a view: launches that use it use the memory of its owner
            self._owner.ticket = max(self._owner.ticket, self.ticket)


def share(backend: Backend, address: int, nbytes: int, owner: Any) -> Buffer:
    """A buffer over memory that ``owner`` keeps alive."""
    return Buffer(backend, address, nbytes, None, _FOR_GOOD if owner is None else owner)


#: Stands for the owner of memory that lives for good.
_FOR_GOOD = object()


def view(source: Buffer, offset: int, nbytes: int) -> Buffer:
    """A buffer over a part of another one, which it keeps alive; whole packets may run over its end as well."""
    result = Buffer(source.backend, source.address + offset, nbytes, None, source)
    result.padded = True
    result.read_only = False
    result.ticket = source.ticket
    return result
