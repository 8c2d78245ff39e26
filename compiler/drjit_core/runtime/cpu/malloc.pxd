cimport cython
from libc.stdint cimport int64_t, uint64_t

@cython.no_gc
cdef class Block:
    cdef public uint64_t address
    cdef public int64_t capacity
    cdef public object base
    cdef public int64_t ticket

cdef int64_t _in_use
cdef int64_t _peak
cdef int64_t _cached
cdef int64_t _allocations

@cython.locals(step=int64_t)
cpdef int64_t size_class(int64_t nbytes)
@cython.locals(capacity=int64_t, block=Block, blocks=list)
cpdef Block allocate(int64_t nbytes)
@cython.locals(block=Block, blocks=list)
cdef void _collect()
