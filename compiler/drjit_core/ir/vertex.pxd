cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from ..ops.derivatives cimport Rule
from .node cimport Node


cdef class Vertex:
    cdef public Rule rule
    cdef public int type
    cdef public bint sparse
    cdef public int64_t size
    cdef public int64_t id
    cdef public int64_t era
    cdef public int64_t scope
    cdef public int64_t member
    cdef public int64_t noted
    cdef public int64_t queued
    cdef public int64_t depended
    cdef public Vertex a
    cdef public Vertex b
    cdef public Vertex c
    cdef public Node x
    cdef public Node y
    cdef public Node z
    cdef public Node r
    cdef public object info
    cdef public Node gradient
    cdef public object pending
    cdef public object label
    cdef PyObject* older  # the list of all vertices that live
    cdef PyObject* younger

    cpdef list operands(self)
    cpdef release(self)


cpdef bint any_vertex() noexcept
cpdef void begin_era() noexcept
cpdef int64_t last_vertex() noexcept
cpdef Vertex new_vertex(Rule rule, int type_, int64_t size, Vertex a, Vertex b, Vertex c)
