cimport cython

from drjit_core.ir.node cimport Node
from drjit._access.store cimport Journal
from drjit._base.handle cimport Handle, held
from drjit._control.given cimport Given, place_among, places_of
from drjit._control.closed cimport is_closed
from drjit._control.snapshot cimport Snapshot, snapshot
from drjit._trees.contents cimport attributes_of
from drjit._trees.pytree cimport TreeSpec


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value

cdef dict _NOTHING
cdef list _EMPTY
cdef set _NONE
cdef Py_ssize_t _FEW


@cython.freelist(16)
cdef class Call:
    cdef public Given given
    cdef public list nodes
    cdef public list held
    cdef public list rekept
    cdef public list copies
    cdef public list exchanges
    cdef public set touched
    cdef public list stands
    cdef public list objects
    cdef public list origins
    cdef public dict owned
    cdef public list attributes
    cdef public list adorned
    cdef public set moved
    cdef public list shared
    cdef public object tree
    cdef public list arrays
    cdef public dict numbers
    cdef public list numbered
    cdef public set inside
    cdef public bint same
    cdef public bint noted
    cdef public object mark
    cdef public Snapshot snapshot
    cpdef settle(self)
    cpdef note_fields(self, Snapshot known)
    @cython.locals(given=Given)
    cpdef make(self, TreeSpec spec, object own, Journal journal, object lent)
    @cython.locals(found=dict, k=cython.Py_ssize_t, place=cython.Py_ssize_t, first=cython.Py_ssize_t, count=cython.Py_ssize_t, depth=cython.int, same=cython.bint, node=Node)
    cpdef dict changed(self)
    @cython.locals(changes=list)
    cpdef list leave(self, object returned=*, object values=*, bint counts=*, bint every=*)
    cpdef object own(self, object container)
    cpdef dict join(self, list given)
    cpdef dict showing(self)
    cpdef list places_of(self, object array)
    cpdef Py_ssize_t original(self, object array) except -2


@cython.locals(shaped=TreeSpec, fresh=list, place=cython.Py_ssize_t, first=cython.Py_ssize_t, count=cython.Py_ssize_t, position=cython.Py_ssize_t)
cpdef object filled(Given given, object returned, object leaves, Call call, object before, object after, object stands=*, object spec=*)
