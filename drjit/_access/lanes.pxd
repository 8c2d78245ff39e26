cimport cython

from drjit_core.ir.dual cimport primal
from drjit_core.ir.node cimport Node
from drjit_core.ir.symbolic cimport Tracing, innermost
from drjit_core.ir.vertex cimport any_vertex


cdef list _begun


@cython.freelist(4)
cdef class masked_access:
    cdef public Node mask
    cdef public bint some
    cdef public object scope


@cython.freelist(4)
cdef class on_part:
    cdef public object part


cdef class Watch:
    cdef public set ids
    cdef public set read
    cdef public dict whole
    cdef public object thread
    cpdef bint accessed(self, object number) except -1


@cython.locals(result=Node, mask=Node)
cpdef Node lane_mask(Py_ssize_t width)
@cython.locals(result=Node, lanes=Node)
cpdef Node with_lanes(Node mask, Py_ssize_t width)
cpdef bint in_plain_code() except -1
cpdef tuple depths()
cpdef cut_to(tuple depths)
cpdef note_version(Node node, Node original)
@cython.locals(origins=dict, node=Node, version=Node, before=Node)
cpdef note_writes(object nodes)
cpdef bint written_from(Node new, Node old) except -1
cpdef bint made_from(Node new, long long number) except -1
