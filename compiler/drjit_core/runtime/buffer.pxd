cimport cython
from libc.stdint cimport int64_t, uint64_t

@cython.no_gc
cdef class Buffer:
    cdef public object backend
    cdef public uint64_t address
    cdef public int64_t nbytes
    cdef public bint padded
    cdef public bint read_only
    cdef public bint exported
    cdef public object _block
    cdef public int64_t ticket
    cdef public int64_t mark
    cdef object __weakref__

cdef class Borrowed(Buffer):
    cdef object _owner

@cython.no_gc
cdef class View(Buffer):
    cdef Buffer source
