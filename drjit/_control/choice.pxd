cimport cython

from drjit_core.control.choice cimport chosen
from drjit_core.control.construct cimport Functions
from drjit_core.ir.dual cimport primal
from drjit_core.ir.node cimport Node
from drjit_core.ir.region cimport is_version
from drjit_core.ir.vertex cimport any_vertex
from drjit._access.store cimport Journal, innermost_journal
from drjit._control.attempts cimport retried
from drjit._control.given cimport Call, Given, first_places
from drjit._control.snapshot cimport Snapshot, is_closed
from drjit._trees.pytree cimport TreeSpec, flatten_nodes


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value

cdef int _LITERAL
cdef list _EMPTY
cdef dict _NOTHING


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
    @cython.locals(journal=Journal, nodes=list, called=Call, places=list, effects=Effects, changed=dict, known=cython.Py_ssize_t, given=Given, returned=Returned)
    cpdef list target(self, Py_ssize_t number, list formals)
    @cython.locals(known=Snapshot)
    cpdef Snapshot known_by(self, object function)
    cpdef dict outside(self, Py_ssize_t number, Call called, object leaves, object formals)
    @cython.locals(effects=Returned)
    cpdef list joined(self, Py_ssize_t number)
    cpdef object name_of(self, Py_ssize_t position)
    @cython.locals(effects=Effects, returned=Returned)
    cpdef join(self)
    @cython.locals(effects=Effects, count=cython.Py_ssize_t, calls=list)
    cpdef object finish(self, list values, dict versions)


@cython.freelist(16)
cdef class Returned:
    cdef public object value
    cdef public list nodes
    cdef public list leaves
    cdef public TreeSpec spec
    cdef public list given
    cpdef take(self, str function, object value, TreeSpec like=*)


cdef class Effects(Returned):
    cdef public list made
    cdef public str label
    cdef public tuple shapes
    cdef public Call call
    cdef public dict changed
    cdef public dict places
    cdef public dict contents
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
    cdef public dict arrays
    cdef public dict places
    cdef public list new
    cdef public list orders
    cdef public list removed
    cdef public dict spent
    cdef public dict made


@cython.locals(first=Returned, each=Returned, called=Call, number=cython.Py_ssize_t, found=cython.Py_ssize_t, origin=cython.Py_ssize_t, same=cython.bint)
cpdef object kept_of(Py_ssize_t place, list returned, object calls, Given given=*)
cpdef object invoked(object function, bint named, object values)
cpdef object called_directly(object target, object label, bint named, Py_ssize_t width, Given given, Results results)
cpdef object run_directly(object target, bint named, Py_ssize_t width, Given given, tuple lanes)
