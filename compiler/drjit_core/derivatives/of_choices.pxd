cimport cython

from ..control.choice cimport Targets, chosen
from ..control.construct cimport Functions
from ..ir.build cimport literal
from ..ir.dual cimport dual, primal, tracked, vertex_of
from ..ir.node cimport Node
from ..ir.region cimport Choice, Region
from ..ir.vertex cimport Vertex
from .flow cimport Flow
from .tape cimport Copy, Recorded, Tape

cdef bytes IS_FLOAT


cdef class _Recording(Functions):
    cdef _Choice choice
    cdef Functions functions
    cdef dict refused
    cpdef list target(self, Py_ssize_t number, list formals)
    @cython.locals(tape=Tape, more=list)
    cpdef list joined(self, Py_ssize_t number)
    cpdef object name_of(self, Py_ssize_t position)


cdef class _Derivative(Functions):
    cdef _Choice choice
    cdef list places
    cdef bint extends
    cdef object results_of
    cdef public dict versions
    @cython.locals(tape=Tape, copy=Copy, wanted=list, results=list)
    cpdef list target(self, Py_ssize_t number, list formals)
    cpdef object name_of(self, Py_ssize_t position)


cdef class _Choice(Recorded):
    cdef public object label
    cdef public Py_ssize_t count
    cdef public Py_ssize_t number
    cdef public Py_ssize_t first
    cdef public list types
    cpdef tuple traced(self, list given, Functions functions)
    @cython.locals(tape=Tape, outputs=list, found=list, place=cython.Py_ssize_t, count=cython.Py_ssize_t, output=Node, passed=dict)
    cpdef tuple result(self, Functions functions)
    @cython.locals(tape=Tape)
    cpdef list completed(self, Tape tape, list refused)
    @cython.locals(position=cython.Py_ssize_t, node=Node, tape=Tape, vertex=Vertex)
    cpdef Node passed(self, Py_ssize_t place, Node output)
    cpdef list outer(self, Tape tape, object vertices)
    cpdef tuple other(self, Flow flow, object results_of, object places, list memory)
    @cython.locals(derivative=Node, whole=Choice, part=Choice, region=Region, result=Node, own=list, regions=list, count=cython.Py_ssize_t)
    cpdef extend(self, list results, list given)
