cimport cython

from drjit._control.places cimport Snapshot, attributes_of, write_place
from drjit._trees.pytree cimport TreeSpec, flatten_nodes


cdef class Given:
    cdef public str function
    cdef public object tree
    cdef public list nodes
    cdef public list leaves
    cdef public TreeSpec spec
    cdef public bint plain
    cdef public dict same
    cdef public list elsewhere


@cython.freelist(16)
cdef class Call:
    cdef public Given given
    cdef public object nodes
    cdef public list held
    cdef public list copies
    cdef public set touched
    cdef public object stands
    cdef public list objects
    cdef public dict owned
    cdef public set moved
    cdef public list shared
    cdef public object tree
    cdef public object arrays
    cdef public Snapshot snapshot
    cpdef settle(self)
    @cython.locals(found=dict, k=cython.Py_ssize_t, first=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef dict changed(self)
    @cython.locals(changes=list)
    cpdef list leave(self, object returned=*)
    cpdef object own(self, object container)
