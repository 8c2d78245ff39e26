"""Buffers: who owns the memory of an evaluated array.

A buffer is not a node: several nodes can stand for one buffer in the course of time (each write makes a new version),
but at any time at most one version of it can be written to.  ``read_only`` marks memory that others own (a shared
import), which is copied before any write; ``padded`` says that whole packets may run over the end; ``exported`` that
others were given a view of the memory, through which they may write to it.
"""

from __future__ import annotations

import ctypes
from typing import Any, NoReturn, SupportsIndex

from . import malloc, pool, shortage

__all__ = ["Buffer", "allocate", "share"]


class Buffer:
    """Memory of an array: allocated here, or borrowed from an owner that it keeps alive."""

    __slots__ = ("__weakref__", "_block", "_owner", "address", "exported", "nbytes", "padded",
                 "read_only", "ticket")

    def __init__(self, address: int, nbytes: int, block: malloc.Block | None, owner: Any) -> None:
        self.address = address
        self.nbytes = nbytes
        self.padded = block is not None
        self.read_only = block is None
        self.exported = False
        self._block = block
        self._owner = owner
        #: The last launch that uses the memory; the host waits for it before it touches the memory.
        self.ticket = block.ticket if block is not None else 0

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("cannot pickle or copy the memory of an array: its address means nothing elsewhere; pickle the "
                        "array, which goes by value")

    def __del__(self, release: Any = malloc.release) -> None:
        block = self._block
        if block is not None:
            block.ticket = self.ticket
            release(block)
        elif self._owner.__class__ is self.__class__:  # a view: launches that use it use the memory of its owner
            self._owner.ticket = max(self._owner.ticket, self.ticket)


def allocate(nbytes: int) -> Buffer:
    """A buffer of our own with undefined contents."""
    try:
        block = malloc.allocate(nbytes)
    except MemoryError:
        block = shortage.allocate(nbytes)
    return Buffer(block.address, nbytes, block, None)


def share(address: int, nbytes: int, owner: Any) -> Buffer:
    """A buffer over memory that ``owner`` keeps alive."""
    return Buffer(address, nbytes, None, owner)


def view(source: Buffer, offset: int, nbytes: int) -> Buffer:
    """A buffer over a part of another one, which it keeps alive; whole packets may run over its end as well."""
    result = Buffer(source.address + offset, nbytes, None, source)
    result.padded = True
    result.read_only = False
    result.ticket = source.ticket
    return result


def copy(source: Buffer) -> Buffer:
    """A buffer of our own with the contents of another."""
    result = allocate(source.nbytes)
    pool.wait(max(result.ticket, source.ticket))
    ctypes.memmove(result.address, source.address, source.nbytes)
    return result
