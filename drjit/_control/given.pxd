cimport cython

from drjit_core.ir.node cimport Node
from drjit_core.ir.symbolic cimport traced_elsewhere
from drjit._access.store cimport Journal, store_same
from drjit._base.handle cimport Handle, held, is_flat
from drjit._control.fields cimport Fields
from drjit._control.closed cimport is_closed
from drjit._control.snapshot cimport Snapshot, snapshot
from drjit._trees.contents cimport attributes_of
from drjit._trees.pytree cimport TreeSpec, flatten_nodes


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value

cdef dict _NOTHING
cdef list _EMPTY
cdef set _NONE
cdef Py_ssize_t _FEW


@cython.freelist(16)
cdef class Given:
    cdef public str function
    cdef public object tree
    cdef public list nodes
    cdef public list leaves
    cdef public TreeSpec spec
    cdef public bint plain
    cdef public bint simple
    cdef public bint adorned
    cdef public Fields fields
    cpdef find_fields(self)
    cpdef forget_fields(self)
    cpdef put(self)
    cpdef tuple made_of(self, list arrays)
    cpdef Snapshot known_by(self, object function, bint data=*)
    cpdef bint is_closed(self, object function) except -1
    cdef public int apart
    @cython.locals(place=cython.Py_ssize_t, leaf=Handle)
    cpdef bint is_apart(self) except -1
    @cython.locals(position=cython.Py_ssize_t, leaf=Handle)
    cpdef bint holds(self, list nodes) except -1
    cdef public dict numbers
    cpdef Py_ssize_t place_of(self, object leaf) except -2
    cpdef list parts(self)
    @cython.locals(copied=set, found=dict, nodes=list, node=Node, place=cython.Py_ssize_t, first=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef dict arrays(self, bint shared=*)
    cpdef bint is_own(self) except -1
    @cython.locals(array=Handle, shared=cython.bint, place=cython.Py_ssize_t, first=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef list lend(self, list nodes, Journal journal, object places=*, object like=*)
    cdef public set lent
    cdef public set guessed


@cython.freelist(4)
cdef class as_before:
    cdef public Given given
    cdef public object tree
    cdef public object noted
    cdef public Snapshot snapshot


@cython.locals(inner=TreeSpec)
cdef tuple _with_arrays(tuple value, TreeSpec spec, list arrays, Py_ssize_t place)
@cython.locals(place=cython.Py_ssize_t)
cpdef Py_ssize_t place_among(list leaves, object leaf) except -2
@cython.locals(known=dict)
cpdef list first_places(list leaves)
@cython.locals(found=dict, place=cython.Py_ssize_t)
cpdef dict places_of(list leaves)
