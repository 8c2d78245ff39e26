cimport cython
from libc.stdint cimport int64_t

from ..context cimport Context, current
from .node cimport Node, blank_node, new_id
from .symbolic cimport seen_here
from .vertex cimport Vertex, last_vertex, new_vertex

cdef int _DUAL, _X, _Y, _Z, _R, _NONE
cdef bytes IS_FLOAT, _KEPT
cdef tuple _RULES

cpdef Node primal(Node node)
cpdef Node without(Node node)
cpdef object vertex_of(Node node)
@cython.locals(vertex=Vertex)
cpdef object tracked(Node node)
@cython.locals(node=Node)
cpdef list followed(list nodes)
@cython.locals(node=Node)
cpdef Node dual(Node value, Vertex vertex)
@cython.locals(place=cython.int)
cpdef Node recorded(int kind, Node value, Node x, Node y=*, Node z=*)
@cython.locals(context=Context, a=Vertex, b=Vertex, c=Vertex, keeps=cython.int, vertex=Vertex)
cdef Node _recorded(object rule, Node value, Node x, Node y, Node z, int first, int second, int third)
@cython.locals(count=cython.int, a=Vertex, b=Vertex, c=Vertex, vertex=Vertex)
cpdef Node derived(str name, Node value, object operands, object info=*, str keeps=*)
@cython.locals(vertex=Vertex)
cdef Vertex _followed(Node operand, int keeps, object scope)
