cimport cython
from libc.stdint cimport int64_t

from ..context cimport current
from .build cimport literal
from .node cimport Node
from .number cimport number

cdef dict _results
cdef int CAST
cdef int64_t BAKED, SHAPE


@cython.locals(node=Node, baked=cython.bint, plain=cython.bint)
cpdef object attribute(Node a, Node b=*, Node c=*)
cpdef Node fold1(int kind, Node a, int type_)
cpdef Node fold2(int kind, Node a, Node b, int type_, int64_t size)
cpdef Node fold3(int kind, Node a, Node b, Node c, int type_, int64_t size)
cpdef Node fold_cast(Node a, int type_)
@cython.locals(node=Node)
cdef Node _remembered(tuple key, int type_, object value, int64_t size, object attr)
