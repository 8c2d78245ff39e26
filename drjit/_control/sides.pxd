cimport cython

from drjit_core.ir.node cimport Node
from drjit._access.lanes cimport masked_access, written_from
from drjit._access.store cimport Journal, noted
from drjit._control.choice cimport Results, Returned
from drjit._control.given cimport Call, Given
from drjit._control.places cimport write_place
from drjit._trees.pytree cimport TreeSpec


cdef class Sides:
    cdef public object words
    cdef public Given given
    cdef public object functions
    cdef public object labels
    cdef public bint named
    cdef public Results results
    cdef public list nodes
    cdef public dict own
    cdef public dict arguments
    cdef public dict arrays
    cdef public dict places
    cdef public list called
    cdef public dict fillers
    cdef public list calls
    cdef public bint keeps
    cdef public list returned
