cimport cython

from libc.stdint cimport int64_t

from ..context cimport Context, current
from ..ir.build cimport literal
from ..ir.node cimport Node
from ..ir.symbolic cimport innermost
from ..ir.trace cimport unary
from ..ir.vertex cimport Vertex
from ..ops.derivatives cimport Partial, Rule
from .flow cimport Flow

cdef bytes COMPUTES_IN
cdef int _NEG

@cython.locals(gradient=Node)
cdef object _reverse_one(Flow flow, Vertex vertex)
@cython.locals(x=Node, y=Node, z=Node, r=Node, operand=Vertex, position=cython.int, how=cython.int, partials=tuple,
               partial=Partial, width=int64_t, sparse=cython.bint)
cdef object _reverse_row(Flow flow, Vertex vertex, Node gradient)
cdef Node _factor(Partial partial, int type_, Node x, Node y, Node z, Node r)
@cython.locals(result=Node)
cdef object _forward_one(Flow flow, Vertex vertex)
@cython.locals(vertex=Vertex)
cdef object _reach(list todo, list found, int64_t number, list boundary, object scope, int64_t region)
@cython.locals(context=Context)
cpdef enqueue(int mode, object vertices)
@cython.locals(context=Context, order=list, queue=int64_t)
cpdef list traverse(int mode, int flags)
@cython.locals(flow=Flow, vertex=Vertex)
cdef list _traverse_backward(list order, object outside, int flags, object scope, int64_t queue)
@cython.locals(flow=Flow, vertex=Vertex)
cpdef set_ones(object vertices)
@cython.locals(vertex=Vertex, last=int64_t)
cdef bint _descends(list order)
@cython.locals(vertex=Vertex)
cdef list _gradients(list order)
@cython.locals(vertex=Vertex, number=int64_t)
cdef object _mark_depended(Flow flow, list order)
cdef object _mark(Vertex operand, int64_t number)
@cython.locals(vertex=Vertex, before=Vertex)
cdef list _distinct(list order)
@cython.locals(vertex=Vertex)
cdef object _refuse_consumed(list order, int64_t queue)
@cython.locals(vertex=Vertex)
cdef object _reverse(Flow flow, list order, int flags)
@cython.locals(depended=cython.bint)
cdef bint _keeps(Flow flow, int mode, int flags, Vertex vertex)
@cython.locals(vertex=Vertex)
cdef object _cut(Flow flow, list order, tuple sources=*)
@cython.locals(number=int64_t)
cdef bint _is_inner(Flow flow, Vertex vertex)
cdef bint _takes_part(Vertex vertex, int64_t number)
@cython.locals(vertex=Vertex)
cdef object _forget_custom(list order)
@cython.locals(vertex=Vertex, first=int64_t, ends=set, seen=set, found=list, todo=list)
cdef list _between(object inputs, object outputs)
@cython.locals(vertex=Vertex, operand=Vertex, members=set, order=list)
cpdef list depending(list vertices, set ends)
@cython.locals(vertex=Vertex, ends=dict, order=list)
cpdef list pull_along(list vertices, object outputs, object inputs, bint again, dict memory)
cpdef list pull(object outputs, object inputs, bint again=*, dict memory=*)
cpdef list push(object inputs, object outputs, bint again=*, bint lanes=*)
@cython.locals(flow=Flow, vertex=Vertex, value=Node, last=dict)
cdef list _through(list order, object given, object wanted, set ends, bint again, bint lanes, dict memory,
                   bint forward)
