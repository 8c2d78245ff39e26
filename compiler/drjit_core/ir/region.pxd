cimport cython
from libc.stdint cimport int64_t

from .node cimport Node

cdef bytes _IS_PLAIN
cdef int PHI

@cython.locals(node=Node, version=Node, root=Node, kind=int, id_=int64_t)
cpdef tuple _collect(int64_t id_, object roots, set seen, dict captures, dict sources, list controls,
                     list accesses, set used)

cpdef _use(int64_t id_, Node value, list stack, dict captures)

cpdef object _id(Node node)
