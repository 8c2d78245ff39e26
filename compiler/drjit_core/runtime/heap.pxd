cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

cdef class Heap

cdef enum:
    CLASSES = 256  # of sizes

@cython.no_gc
cdef class Block:
    cdef readonly Heap heap
    cdef public uint64_t address
    cdef public int64_t capacity
    cdef public object base
    cdef public int64_t ticket
    cdef int number  # of the size class
    cdef PyObject* next  # free block of that

@cython.final
cdef class Heap:
    cdef readonly object source
    cdef readonly int64_t padding
    cdef public object lock
    cdef PyObject* free[CLASSES]  # the first free block of each size class, which belongs to the list; NULL: none
    cdef int64_t _in_use
    cdef int64_t _peak
    cdef int64_t _cached
    cdef int64_t _allocations

    cpdef int64_t size_class(self, int64_t nbytes) except -1
    cpdef Block allocate(self, int64_t nbytes)
    cdef Block _taken(self, int number)
    cpdef void release(self, Block block)
