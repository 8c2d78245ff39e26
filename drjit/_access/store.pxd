cimport cython
from libc.stdint cimport int64_t

from drjit_core.context cimport current
from drjit_core.ir.node cimport Node as _Node
from drjit_core.ir.symbolic cimport Tracing, innermost, traced_elsewhere
from drjit._base.handle cimport Handle, is_flat


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value


cdef dict _NOTHING
cdef list _begun
cdef tuple _NO_LANES
cdef list _EMPTY


@cython.freelist(16)
cdef class Journal:
    cdef public dict entries
    cdef public list loans
    cdef public bint narrow
    cdef public Journal around
    cdef public Py_ssize_t number
    cdef public Py_ssize_t order
    cdef public Py_ssize_t begun
    cdef public Py_ssize_t made
    cdef public dict arrays
    cdef public dict memory
    cdef public dict writes
    cdef public dict changing
    cdef public dict lent
    cdef public int64_t scope
    cdef public list elsewhere
    @cython.locals(region=Tracing)
    cpdef begin(self)
    @cython.locals(number=object)
    cpdef bint note(self, Handle array) except -1
    @cython.locals(array=Handle, before=_Node, position=cython.Py_ssize_t, end=cython.Py_ssize_t)
    cpdef lend(self, list arrays, list nodes)
    @cython.locals(array=Handle, nodes=list, position=cython.Py_ssize_t)
    cpdef roll_back(self)
    @cython.locals(journal=Journal)
    cpdef Journal outermost(self)


@cython.freelist(4)
cdef class noted:
    cdef public Journal journal


@cython.locals(region=Tracing)
cpdef Journal innermost_journal()
cpdef tuple standing()
cpdef end_since(tuple before)
@cython.locals(changed=Handle)
cpdef store_same(Handle array, object nodes, object position=*)
