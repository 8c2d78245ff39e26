cimport cython
from libc.stdint cimport int64_t

from ..context cimport Context, current
from .node cimport Node, enter, new_id

@cython.locals(context=Context, mode=cython.int, node=Node)
cpdef Node append(int kind, int type_, int64_t size, Node d0=*, Node d1=*, Node d2=*, Node d3=*, object attr=*, object payload=*, object scope=*)
