"""The compiled form of ``buffer.py``."""

cimport cython
from libc.stdint cimport int64_t, uint64_t

from .heap cimport Block


@cython.no_gc
@cython.freelist(1024)
cdef class Buffer:
    """Memory of an array: a block of a backend's allocator, or one that a backend has for good."""

    def __init__(self, backend, address, nbytes, block=None):
        self.backend = backend
        self.address = address
        self.nbytes = nbytes
        self.padded = True
        self._block = block
        self.ticket = block.ticket if block is not None else 0

    def __dealloc__(self):
        cdef object block = self._block
        if block is None:
            return
        if type(block) is Block:
            (<Block> block).ticket = self.ticket
            (<Block> block).heap.release(<Block> block)
        else:
            block.ticket = self.ticket
            self.backend.release(block)

    def __reduce_ex__(self, protocol):
        raise TypeError("cannot pickle or copy the memory of an array: its address means nothing elsewhere; pickle the "
                        "array, which goes by value")


cdef class Borrowed(Buffer):
    """Memory that belongs to somebody else, who lives at least as long.

    The owner may refer to the array: the collector of cycles knows buffers of this class only.
    """

    def __init__(self, backend, address, nbytes, owner):
        Buffer.__init__(self, backend, address, nbytes)
        self._owner = owner


@cython.no_gc
cdef class View(Buffer):
    """A part of another buffer, which it keeps alive: launches that use it use the memory of that one."""

    def __init__(self, backend, address, nbytes, Buffer source):
        Buffer.__init__(self, backend, address, nbytes)
        self.source = source

    def __dealloc__(self):
        if self.source is not None:
            self.source.ticket = max(self.source.ticket, self.ticket)


def share(backend, address, nbytes, owner):
    """A buffer over memory that ``owner`` keeps alive."""
    cdef Borrowed result = Borrowed(backend, address, nbytes, owner)
    result.padded = False
    result.read_only = True
    return result


def view(Buffer source, offset, nbytes):
    """A buffer over a part of another one, which it keeps alive; whole packets may run over its end as well."""
    cdef View result = View(source.backend, source.address + <uint64_t> offset, nbytes, source)
    result.ticket = source.ticket
    return result
