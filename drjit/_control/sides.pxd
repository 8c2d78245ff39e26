cimport cython

from drjit_core.ir.node cimport Node
from drjit._access.lanes cimport masked_access, written_from
from drjit._access.store cimport Journal, noted
from drjit._control.choice cimport Effects, Joint, Results
from drjit._control.given cimport Call, Given
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
