from libc.stdint cimport int64_t, uint64_t

from .buffer cimport Buffer
from .heap cimport Heap
from .walk cimport Walk


cdef class Entry:
    cdef readonly object kernel, course
    cdef public object plan  # the pass that it is, of a step
    cdef public bytes key
    cdef public object code  # what the addresses of its functions are those of; None if nobody knows
    cdef public Py_ssize_t count  # of parameters, behind which lie tables of calls; -1: all words are parameters
    cdef public tuple moves  # (word, another one, whose address it is)
    cdef public bint is_counted  # the next launch, already
    # how launches of so many units, of so many elements, go, and the bytes of their partial results
    cdef object shape
    cdef int64_t units, unit, partial_bytes
    cdef bint shape_for(self, int64_t units, int64_t unit) except -1


cdef class Native:
    cdef readonly object backend, target
    cdef Heap heap
    cdef dict numbers
    cdef int64_t number
    cdef object interrupt
    cdef bint may_launch(self) except -1
    cdef bint begin(self) except -1
    cdef int64_t look(self) except -1
    cdef Buffer allocate(self, int64_t nbytes)
    cdef Entry find(self, Walk walk, int64_t width, Py_ssize_t reductions)
    cdef Entry enter(self, object kernel, object course)
    cdef Entry enter_pass(self, object kernel, object plan)
    cdef bint use(self, Entry entry, int64_t width) except -1
    cdef int64_t launch(self, Entry entry, uint64_t* words, Py_ssize_t count, int64_t units, int64_t unit,
                        list keep) except -1
    cdef bint gather(self, object known) except -1
    cdef object gathered(self, object known)
    cdef uint64_t host_address(self, Buffer buffer) except? 0
