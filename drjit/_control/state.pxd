cimport cython

from drjit_core.ir.node cimport Node
from drjit._base.handle cimport held
from drjit._trees.pytree cimport TreeSpec

cdef set _masks
cdef int _EVALUATED, _LITERAL
cpdef Node mask_of(object value)
cpdef tuple shape_of(object mask, TreeSpec spec)
cpdef tuple lane_shape(Py_ssize_t width, TreeSpec spec)
cpdef Py_ssize_t uninitialized(object error, object nodes, TreeSpec spec) except -2
@cython.locals(node=Node)
cpdef list told_apart(list nodes)
