cimport cython
from cpython.object cimport PyObject

from drjit_core.ir.node cimport Node


@cython.no_gc
cdef class Handle:
    # Here stands what each kind of array holds, since only a class that is written in Cython can do without the collector.
    cdef public Node _n
    cdef public list _c
    cdef public tuple _s
    cdef public object _o
    cdef object __weakref__
    cdef PyObject* older  # the list of all arrays that live
    cdef PyObject* younger
    cdef PyObject** known  # the components that somebody holds, borrowed
    cdef int known_count
    cdef PyObject* owner  # the array that knows this one as its component, if there is one: borrowed, unlike ``_o``
    cdef int place  # among those of the owner


cpdef object fresh(object cls)
cpdef Handle fresh_array(object cls)
cpdef Node held(object array)
cpdef bint is_flat(Handle array) except -1
cpdef bint is_younger(Handle array, Handle other) except -1
cpdef object flat_component(Handle array, Py_ssize_t position)
cpdef object view_at(Handle owner, Py_ssize_t position)
cpdef void add_view(Handle owner, Py_ssize_t position, Handle view, Py_ssize_t offset) except *
