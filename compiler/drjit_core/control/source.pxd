cimport cython
from libc.stdint cimport int64_t

from ..ir.node cimport Node
from ..ir.symbolic cimport Tracing
from .inline cimport Values, trace_again


@cython.freelist(8)
cdef class Source:
    cdef public int64_t id
    cdef public list formals
    cdef public list masks
    cdef public dict lent
    cdef public list statements
    cdef public int64_t width
    cdef public bint repeats
    cdef public list results
    cdef public list parts
    cdef public int64_t first
    cdef public list before
    cdef public dict aliases
    cdef public dict apart
    cpdef Values values(self, Tracing region, object formals, object masks)
    cpdef list trace(self, Py_ssize_t part, Values values)
    cpdef bint tells(self, int64_t width) except -1
