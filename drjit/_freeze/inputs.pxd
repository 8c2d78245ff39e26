cimport cython

from drjit_core.ir.dual cimport primal, tracked, vertex_of
from drjit._trees.kinds cimport id, kind_at

cdef int CELL, CLASS, DATA, DICT, LIST, MODULE, OBJECT, REFERRING, TUPLE, VARIABLES
cdef int _EVALUATED, _LITERAL, _UNDEFINED


cdef class Inputs:
    cdef public str reason
    cdef public object snapshot
    cdef public list tree
    cdef public dict _made
    cdef public dict _installed
    cdef public dict _replaced
    cdef public list _items
    cdef public dict _words
    cdef public object function
    cdef public list variables
    cdef public object holders
    cdef public list containers
    cdef public dict _numbers
    cdef public list arrays
    cdef public dict _spans
    cdef public dict data
    cdef public list _large
    cdef public list _drawn
    cdef public list waiting
    cdef public Py_ssize_t own
    cdef public object names
    cdef public list around
    cdef public list steps_before
    cdef public list nodes
    cdef public tuple described
    cdef public bytes flags
    cdef public object parts
    cdef public object key

    @cython.locals(position=cython.Py_ssize_t, content=object, kind=cython.int, held=list)
    cpdef Py_ssize_t number(self, object container) except -2
    cdef object _part(self, object container, int kind, list items)
    cdef object _token(self, object value)
    cdef object _described(self, object array)
