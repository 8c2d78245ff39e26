cimport cython
from libc.stdint cimport int64_t

from ..control.loop cimport while_loop
from ..ir.build cimport append, literal
from ..ir.dual cimport primal, tracked, vertex_of
from ..ir.node cimport Node
from ..ir.symbolic cimport Tracing, innermost
from ..ir.vertex cimport Vertex
from .flow cimport Flow
from .tape cimport Copy, Recorded, Tape

cdef bytes IS_FLOAT
cdef int BOOL, UINT32, LITERAL, LOOP, RESULT


cdef class _Repetition(Recorded):
    cdef public object label
    cdef public Py_ssize_t variables
    cdef public object bound
    cdef public object longest
    cdef public object found
    cdef public set chosen
    cdef public set same
    cdef public Node test
    cdef public object pruned
    cdef public Py_ssize_t visits
    cpdef bint has_elements(self) except -1
    @cython.locals(vertex=Vertex, operand=Vertex, found=set, more=set, live=set, results=dict, reached=list, position=cython.Py_ssize_t)
    cpdef set differentiated(self, Tape tape)
    cpdef list outer(self, Tape tape, object vertices)
    @cython.locals(copy=Copy)
    cpdef Node test_again(self, list formals)
    @cython.locals(tape=Tape, copy=Copy, position=cython.Py_ssize_t, found=list)
    cpdef tuple iterated(self, Flow flow, list formals, object places=*)
    cpdef bint is_memory(self, Py_ssize_t position) except -1
    @cython.locals(vertex=Vertex, leaf=Vertex, operand=Vertex, tape=Tape, leaves=set, inner=list, position=cython.Py_ssize_t)
    cpdef bint is_sum(self, Py_ssize_t position) except -1
    cpdef tuple visit(self, Flow flow, Copy copy, object gradients, list totals, list memory)
