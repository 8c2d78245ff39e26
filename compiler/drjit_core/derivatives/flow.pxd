cimport cython
from libc.stdint cimport int64_t

from ..ir.build cimport literal
from ..ir.dual cimport dual
from ..ir.node cimport Node
from ..ir.trace cimport binary, gather, reduce, ternary
from ..ir.vertex cimport Vertex
from .formulas cimport masked, product

cdef int _PLUS, _MUL, _FMA, _SCATTERED, _ADD, _AUTO
cdef object _HUB
cdef object _evaluate


cdef list _running


cdef class Flow:
    cdef public bint again
    cdef readonly object part
    cdef readonly int64_t limit
    cdef public bint crosses
    cdef public bint sparse
    cdef bint lanes
    cdef dict memory
    cdef readonly int64_t number
    cdef bint selective
    cdef list _before
    cdef list _outer
    cdef int64_t _era
    cdef int64_t _passed
    cdef int64_t _window
    cdef Py_ssize_t _evaluated
    cdef list _live

    @cython.locals(vertex=Vertex)
    cdef object _join(self, list members)
    @cython.locals(vertex=Vertex)
    cpdef end(self)
    cpdef bint comes_to(self, Vertex vertex)
    cpdef kernel_ends(self)
    cpdef bint takes(self, Vertex vertex)
    cpdef tuple kept(self, Vertex vertex)
    cpdef note(self, Vertex vertex)
    cpdef clear(self, Vertex vertex)
    @cython.locals(before=Node)
    cpdef give(self, Vertex vertex, Node gradient, int64_t width, bint sparse=*)
    cpdef bring(self, Vertex vertex, Node gradient, int64_t width)
    @cython.locals(before=Node)
    cpdef give_product(self, Vertex vertex, Node gradient, Node factor, int64_t width, bint sparse)
    cpdef Node gradient(self, Vertex vertex)
    cpdef Node change(self, Vertex vertex)
    cpdef bint has_gradient(self, Vertex vertex)
