cimport cython

from drjit_core.ir.symbolic cimport Tracing, innermost
from drjit._base.handle cimport Handle


cdef dict _NOTHING
cdef list _EMPTY


@cython.freelist(16)
cdef class Buffers:
    cdef public dict arrays
    cdef public dict made


@cython.freelist(16)
cdef class Journal:
    cdef public Buffers buffers
    cdef public tuple path
    cdef public Py_ssize_t made
    cdef public dict entries
    cdef public dict attributes
    cdef public dict writes
    cdef public bint narrow
    cdef public list inner
    cdef public list earlier
    @cython.locals(region=Tracing)
    cpdef begin(self)
    cpdef roll_back(self)


@cython.locals(region=Tracing)
cpdef innermost_journal()
cpdef Journal journal_of(Journal around, Buffers buffers, Py_ssize_t number=*)
