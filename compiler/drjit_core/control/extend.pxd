cimport cython
from libc.stdint cimport int64_t

from ..ir.build cimport append, literal, new_formal
from ..ir.dual cimport primal
from ..ir.node cimport Node
from ..ir.region cimport Control, Loop, Region
from ..ir.symbolic cimport Tracing, innermost

cdef int CAST, DUAL, LITERAL, LOCAL, LOOP, PHI, RESULT, SCATTER, BOOL, UINT32, UINT64


cdef class Counted:
    cdef public Node loop
    cdef public object most
    cdef public bint local
    cdef public Node node
    cdef public Node number
    cdef public dict kept
    cpdef tuple _factors(self, Node iteration)
    cpdef _become(self, Region region, list formals, list finals, list initial)
    cpdef dict state(self, Node iteration)


@cython.locals(found=Node, node=Node, region=Tracing, known=list, control=Control)
cpdef Node construct_of(object results, object given)
@cython.locals(region=Region, first=Node, test=Node)
cpdef object most_iterations(Loop loop)
cdef object _comparison(Node test, tuple formals)
@cython.locals(one=Node, other=Node)
cdef object _step(Node final, Node formal)
