cimport cython

from drjit_core.ir.dual cimport primal
from drjit_core.ir.node cimport Node
from drjit._control.called cimport Call
from drjit._control.given cimport Given, first_places
from drjit._trees.pytree cimport TreeSpec, flatten_nodes


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value

cdef int _LITERAL
cdef list _EMPTY


@cython.freelist(16)
cdef class Results:
    cdef public str function
    cdef public object names
    cdef public bint strict
    cdef public str otherwise
    cdef public object fill
    cdef public tuple lanes
    cdef public TreeSpec spec
    cdef public list leaves
    cdef public str which
    cdef public Node called
    cdef public bint optimizes
    cdef public bint every
    cdef public list common
    @cython.locals(number=cython.Py_ssize_t, first=Returned, node=Node)
    cpdef complete(self, object returned, object labels)
    @cython.locals(leaves=list, node=Node, position=cython.Py_ssize_t)
    cpdef compare(self, Returned other, str which)
    @cython.locals(fresh=list, before=cython.Py_ssize_t, first=list, node=Node, position=cython.Py_ssize_t, place=cython.Py_ssize_t)
    cpdef object rebuilt(self, list nodes, object returned=*, object calls=*, object made=*, Given given=*)


@cython.freelist(16)
cdef class Returned:
    cdef public object value
    cdef public list nodes
    cdef public list leaves
    cdef public TreeSpec spec
    cdef public list given
    cpdef take(self, str function, object value, TreeSpec like=*)


@cython.locals(first=Returned, each=Returned, called=Call, number=cython.Py_ssize_t, found=cython.Py_ssize_t, origin=cython.Py_ssize_t, same=cython.bint)
cpdef object kept_of(Py_ssize_t place, list returned, object calls, Given given=*)
