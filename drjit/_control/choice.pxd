cimport cython

from drjit_core.control.choice cimport chosen
from drjit_core.control.construct cimport Functions
from drjit_core.ir.dual cimport primal
from drjit_core.ir.node cimport Node
from drjit_core.ir.region cimport is_version
from drjit_core.ir.vertex cimport any_vertex
from drjit._access.store cimport Journal, innermost_journal
from drjit._control.attempts cimport retried
from drjit._control.called cimport Call
from drjit._control.given cimport Given
from drjit._control.effects cimport Effects, Joint
from drjit._control.results cimport Results, Returned
from drjit._control.closed cimport is_closed
from drjit._control.snapshot cimport Snapshot, snapshot
from drjit._trees.pytree cimport TreeSpec, flatten_nodes


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value

cdef int EXCHANGED, OTHERWISE, SAME
cdef list _EMPTY
cdef dict _NOTHING


cdef class SymbolicChoice(Functions):
    cdef public object words
    cdef public Node mask
    cdef public Node index
    cdef public object label
    cdef public object labels
    cdef public list functions
    cdef public bint named
    cdef public Given given
    cdef public list nodes
    cdef public object names
    cdef public Results results
    cdef public Py_ssize_t count
    cdef public dict known
    cdef public dict written
    cdef public Journal journal
    cdef public Snapshot snapshot
    cdef public list effects
    cdef public Joint joint
    cdef public set parts
    cdef public bint plain
    @cython.locals(around=Journal)
    cpdef object run(self)
    cpdef tuple attempt(self)
    @cython.locals(journal=Journal, nodes=list, called=Call, places=list, effects=Effects, changed=dict, known=cython.Py_ssize_t, given=Given, returned=Returned, knows=Snapshot, exchanged=cython.int, same=cython.bint)
    cpdef list target(self, Py_ssize_t number, list formals)
    @cython.locals(known=Snapshot)
    cpdef Snapshot known_by(self, object function)
    cpdef Snapshot known_besides(self, object function)
    cpdef dict outside(self, Py_ssize_t number, Call called, object leaves, object formals)
    @cython.locals(effects=Returned)
    cpdef list joined(self, Py_ssize_t number)
    cpdef object name_of(self, Py_ssize_t position)
    @cython.locals(effects=Effects, returned=Returned)
    cpdef join(self)
    @cython.locals(effects=Effects, count=cython.Py_ssize_t, calls=list)
    cpdef object finish(self, list values, dict versions)


cpdef object invoked(object function, bint named, object values)
cpdef object called_directly(object target, object label, bint named, Py_ssize_t width, Given given, Results results)
cpdef object run_directly(object target, bint named, Py_ssize_t width, Given given, tuple lanes)
