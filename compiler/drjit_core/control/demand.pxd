cimport cython
from libc.stdint cimport int64_t

from ..ir.node cimport Node
from ..ir.region cimport Control, Region, is_local

cdef list IS_WRITE
cdef list _EMPTY
cdef int PHI, RESULT


cdef class Demand:
    cdef public set ids
    cdef public list nodes
    cdef public list captures
    cdef public bint writes
    cdef set _scopes
    cdef dict _formals
    cdef object _outside
    @cython.locals(node=Node, todo=list, is_own=cython.bint)
    cpdef _note(self, int64_t scope, list todo)
    @cython.locals(region=Region, number=cython.Py_ssize_t)
    cpdef list _result(self, Control control, Py_ssize_t position)
