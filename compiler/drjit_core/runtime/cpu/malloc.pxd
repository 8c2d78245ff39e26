cimport cython
from libc.stdint cimport int64_t, uint64_t

@cython.no_gc
cdef class Block:
    cdef public uint64_t address
    cdef public int64_t capacity
    cdef public object base
    cdef public int64_t ticket

cpdef int64_t size_class(int64_t nbytes) except -1
cpdef Block allocate(int64_t nbytes)
cpdef void release(Block block)
