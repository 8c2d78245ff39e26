cimport cython

from drjit_core.ir.dual cimport primal
from drjit_core.ir.region cimport is_version
from drjit._access.store cimport Journal
from drjit._control.called cimport Call
from drjit._control.given cimport Given
from drjit._control.results cimport Results, Returned, kept_of
from drjit._trees.pytree cimport TreeSpec


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value

cdef int _LITERAL
cdef list _EMPTY
cdef dict _NOTHING


cdef class Effects(Returned):
    cdef public list made
    cdef public str label
    cdef public tuple shapes
    cdef public Call call
    cdef public dict changed
    cdef public dict places
    cdef public dict contents
    cdef public dict fields
    cdef public dict left
    cdef public dict showing
    cdef public dict held
    cdef public dict arrays
    cdef public set common, spent
    cdef public dict orders
    cpdef note(self, list places, Journal journal, object since=*)


cdef class Joint:
    cdef public Given given
    cdef public object effects
    cdef public tuple lanes
    cdef public object nodes
    cdef public list changed
    cdef public list fields
    cdef public dict arrays
    cdef public dict places
    cdef public list new
    cdef public list orders
    cdef public list removed
    cdef public dict spent
    cdef public dict made
