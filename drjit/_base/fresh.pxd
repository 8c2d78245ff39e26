cimport cython
from cpython.object cimport PyObject
from drjit_core.ir.node cimport Node

@cython.no_gc
cdef class FlatSlots:
    cdef public Node _n
    cdef public object _o
    cdef object __weakref__
    cdef PyObject* older  # the list of all flat arrays that live
    cdef PyObject* younger

cpdef object fresh(object cls)
