cimport cython

from ..context cimport Context, current
from ..ir.dual cimport without
from ..ir.node cimport Node
from ..ir.vertex cimport begin_era

cdef int _FIRST_ELEMENTWISE
cdef int _UNDEFINED
cdef int _EVALUATED
cdef int _DUAL
cdef bint _VERIFY
cdef object _LLVM
cdef int _LLVM_BIT
cdef object _lock
cdef dict _exclusion

@cython.locals(node=Node, wanted=list)
cdef list _wanted(object nodes, str function)
@cython.locals(roots=list, context=Context, statements=list)
cpdef bint evaluate(object nodes=*) except -1
@cython.locals(root=Node)
cdef int _places(list roots) except -1
@cython.locals(found=list, where=cython.int)
cdef bint _evaluate(Context context, list roots, list statements) except -1
cdef _evaluate_by(object backend, list roots)
@cython.locals(node=Node, scheduled=Node, found=list, seen=set)
cdef list _collected(Context context, list roots, list statements)
@cython.locals(node=Node, operand=Node, seen=set, leaves=set, stack=list)
cpdef tuple needed_for(object nodes)
