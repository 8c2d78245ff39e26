cimport cython

from libc.stdint cimport int64_t

from ..ir.node cimport Node
from ..ir.trace cimport unary
from ..ir.vertex cimport Vertex
from .flow cimport Flow

cdef int _NEG

@cython.locals(gradient=Node)
cdef object _reverse_one(Flow flow, Vertex vertex)
@cython.locals(x=Node, y=Node, z=Node, r=Node, operand=Vertex, position=cython.int, how=cython.int, partials=tuple)
cdef object _reverse_row(Flow flow, Vertex vertex, Node gradient)
@cython.locals(result=Node)
cdef object _forward_one(Flow flow, Vertex vertex)
@cython.locals(vertex=Vertex)
cdef object _reach(list todo, list found, int64_t number, object scope)
@cython.locals(vertex=Vertex, found=set)
cdef set _dependents(list order)
@cython.locals(vertex=Vertex)
cdef object _refuse_consumed(list order)
@cython.locals(vertex=Vertex)
cdef object _reverse(Flow flow, list order, int flags)
@cython.locals(inner=cython.bint)
cdef bint _kept_part(int mode, int flags, Vertex vertex, set dependents)
@cython.locals(vertex=Vertex)
cdef object _cut(list order)
