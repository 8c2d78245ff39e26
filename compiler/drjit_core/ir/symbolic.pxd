cimport cython
from libc.stdint cimport int64_t

from ..context cimport Context, current
from .frames cimport is_internal, user_place
from .node cimport Node

cdef long long SYMBOLIC_SCOPE
cdef Py_ssize_t _REMEMBERED


@cython.freelist(16)
cdef class Tracing:
    cdef public int64_t id
    cdef public object noun
    cdef public object label
    cdef public tuple place
    cdef public object functions
    cdef public Py_ssize_t variables
    cdef public bint open
    cdef public Tracing outer
    cdef public list initial
    cdef public object journal
    cdef public bint differentiates
    cdef public bint taped
    cdef public dict entries
    cdef public list refused
    cdef public Node live
    cdef public Node entering
    cdef public bint uniform
    cdef public bint apart
    cdef public list widths
    cdef public list single
    cdef public frozenset by_index
    cdef public bint asked
    cdef public frozenset measured
    cdef public frozenset read
    cdef public frozenset perhaps_read
    cdef public bint again
    cdef public bint defers
    cdef public bint deferred
    cdef public bint relied
    cdef public bint cautious
    cdef public dict constants
    cdef public list adopted
    cdef public frozenset reached
    cdef public frozenset looked
    cdef public dict roots
    cdef public dict latest
    cdef public frozenset outside
    cdef public dict borrowed
    cdef public list statements


@cython.locals(context=Context)
cpdef open_(Tracing region)
@cython.locals(context=Context, outer=Tracing, oldest=Tracing, place=cython.Py_ssize_t)
cpdef close(Tracing region)
cdef dict _known, _NOTHING
cdef list _closed
cdef list _EMPTY
cdef frozenset _NONE
cpdef Tracing innermost()
cpdef require_open(Node node)
@cython.locals(region=Tracing)
cdef Tracing _elsewhere(int64_t number)
@cython.locals(region=Tracing)
cpdef object seen_here(object vertex)
@cython.locals(node=Node)
cpdef Node traced_elsewhere(object nodes)
cpdef bint is_unusable(Node node) except -1
@cython.locals(node=Node, scope=int64_t, context=Context)
cpdef int64_t scope_of_all(object nodes) except -1
@cython.locals(context=Context, region=Tracing)
cpdef replace_version(Node target, Node version)
@cython.locals(context=Context, region=Tracing)
cpdef int64_t size_for_program(Node node) except -1
