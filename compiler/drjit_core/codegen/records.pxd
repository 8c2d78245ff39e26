cimport cython
from libc.stdint cimport int64_t

from ..ir.node cimport Node
from ..ir.region cimport Region, in_record

cdef int BAKED, EVALUATED, FIRST_ELEMENTWISE, FIRST_REGISTERED, LITERAL, PACK
cdef list IS_POINTWISE, MEMORY_OPERANDS
cdef int64_t WIDE_EXTENT


cdef class Alike:
    cdef public object key
    cdef public list parameters
    cdef public tuple links
    cdef public dict calls


cdef class Model:
    cdef public Region region
    cdef public Py_ssize_t count
    cdef public object key
    cdef public int64_t large
    cdef public bint static
    cdef public list parameters
    cdef public list captures
    cdef public list sources
    @cython.locals(model=Region, partner=dict, memory=dict, one=Node, other=Node, number=cython.Py_ssize_t,
                   slot=cython.Py_ssize_t)
    cpdef Alike target(self, Region region, list inputs, object site)


cdef class Layout:
    cdef public list words
    cdef public list parts
    cdef public list firsts
    cdef public list links
    cdef public list moves
    cdef public list functions


@cython.locals(layout=Layout, words=list, parts=list, firsts=list, moves=list, functions=list, numbers=dict,
               following=cython.Py_ssize_t, place=cython.Py_ssize_t, outer=cython.Py_ssize_t,
               first=cython.Py_ssize_t, word=cython.Py_ssize_t)
cpdef Layout layout_of(object bound)

@cython.locals(node=Node)
cpdef object shape_of(Region region)
cdef bint _is_alike(Node one, Node other) except -1
@cython.locals(one=Node, other=Node, number=cython.Py_ssize_t, kind=cython.int, arrays=cython.int)
cdef bint _are_alike(list nodes, list model, dict partner, dict memory) except -1
cdef bint _correspond(Node one, Node other, dict partner) except -1
cpdef int _access(Node memory, int64_t large) except -1
cpdef object literal_bits(int type_, object value)
