cimport cython

from ..ir.build cimport append, literal
from ..ir.node cimport Node
from ..ir.symbolic cimport Tracing, innermost


@cython.freelist(8)
cdef class Values:
    cdef public dict known
    cdef public object needed
    cdef public dict found
    cdef public dict products
    cdef public object memory
    cpdef bint needs(self, Node node) except -1
    cpdef object accessed(self, Node node)
    cpdef list of_all(self, object nodes)
    @cython.locals(node=Node, position=cython.Py_ssize_t)
    cpdef add(self, object nodes, object actuals)


@cython.locals(node=Node)
cpdef trace_again(object nodes, Values values)
@cython.locals(kind=cython.int, d=Node)
cdef object _again(Node node, Values values)
@cython.locals(region=Tracing)
cpdef Node live_mask()
