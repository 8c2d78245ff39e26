cimport cython
from libc.stdint cimport int64_t

from ..context cimport Context, current
from .node cimport find as _find
from .node cimport Node, blank_node, enter, enter_literal, find_literal, new_id, normalise
from .symbolic cimport require_open

cdef dict _literals
cdef dict _invalid
cdef int LITERAL, INVALID, PHI

@cython.locals(context=Context, mode=cython.int, node=Node, number=cython.bint, depends=int64_t)
cpdef Node append(int kind, int type_, int64_t size, Node d0=*, Node d1=*, Node d2=*, Node d3=*, object attr=*, object payload=*,
                  object scope=*, int where=*)
@cython.locals(node=Node)
cpdef Node new_formal(int type_, int64_t size, int64_t position, object memory, int64_t scope, int where=*)
@cython.locals(node=Node, short=cython.bint)
cpdef Node literal(int type_, object value, object size=*, object attr=*, object tag=*)
@cython.locals(node=Node)
cpdef Node invalid(int type_)
@cython.locals(node=Node, each=Node, size=int64_t)
cpdef int64_t broadcast_size_of(object name, object nodes) except -1
@cython.locals(node=Node, where=cython.int)
cpdef int where_of(object operation, object nodes) except -1
