cimport cython
from drjit_core.ir.node cimport Node

@cython.no_gc
cdef class FlatSlots:
    cdef public Node _n
    cdef public object _o
    cdef object __weakref__

cpdef object fresh(object cls)
