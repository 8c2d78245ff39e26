cimport cython

from drjit_core.ir.dual cimport primal
from drjit_core.ir.node cimport Node
from drjit._access.lanes cimport Watch, masked_access, written_from
from drjit._access.store cimport Journal, noted
from drjit._control.effects cimport Effects, Joint
from drjit._control.called cimport Call
from drjit._control.given cimport Given
from drjit._control.results cimport Results
from drjit._trees.contents cimport write_place
from drjit._trees.pytree cimport TreeSpec


cdef class Sides:
    cdef public object words
    cdef public Given given
    cdef public object functions
    cdef public object labels
    cdef public bint named
    cdef public object since
    cdef public Results results
    cdef public list nodes
    cdef public dict own
    cdef public list effects
    cdef public list joins
    @cython.locals(own=dict, tried=list, effects=Effects, changed=dict, node=Node, position=cython.Py_ssize_t, place=cython.Py_ssize_t, first=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef dict call(self, Py_ssize_t number, list nodes, object join, object shapes=*, Watch watch=*)
    @cython.locals(call=Call, effects=Effects, journal=Journal, known=set, covered=set, changed=dict, node=Node, place=cython.Py_ssize_t, first=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef Effects attempt(self, Py_ssize_t number, list nodes, object shapes, dict own, object aliases, Watch watch)
    @cython.locals(place=cython.Py_ssize_t, first=cython.Py_ssize_t)
    cpdef TreeSpec structure(self, list nodes)
    cpdef list complete(self, Py_ssize_t number)
