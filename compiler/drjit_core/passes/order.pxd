cimport cython

from ..ir.node cimport Node
from ..ir.region cimport arguments_of, memory_of, operands

cdef int EVALUATED, FIRST_ELEMENTWISE, FIRST_REGISTERED, OPAQUE, PACK, REDUCE, SCATTER, TYPE_BITS, UNDEFINED, VIEW
cdef list IS_BARRIER, MEMORY_OPERANDS, NEEDS_MEMORY
cdef tuple CONTROL
cdef frozenset _STRUCTURED


@cython.locals(order=list, seen=set, stack=list, root=Node, node=Node, operand=Node, kind=cython.int, number=object)
cpdef list post_order(object roots)
@cython.locals(is_barrier=list, node=Node, operand=Node, memory=Node, kind=cython.int, reductions=cython.Py_ssize_t)
cpdef Py_ssize_t inner_reductions(list order, list roots) except -2
@cython.locals(node=Node, d0=Node, d1=Node, d2=Node, operand=Node, kind=cython.int)
cpdef object append_all(list order, dict position, list appended, list key, object append)
