cimport cython

from drjit_core.control.choice cimport call, cond
from drjit_core.ir.dual cimport primal
from drjit_core.ir.node cimport Node
from drjit_core.ir.region cimport is_version
from drjit_core.ir.vertex cimport any_vertex
from drjit._access.store cimport Buffers, Journal, innermost_journal, journal_of
from drjit._control.given cimport Call, Given
from drjit._trees.pytree cimport TreeSpec, flatten_nodes

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
    cdef public list common


@cython.freelist(16)
cdef class SymbolicChoice:
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
    cdef public list journals
    cdef public list effects
    cdef public list changed
    cdef public dict arrays
    cdef public dict places
    @cython.locals(around=Journal, buffers=Buffers)
    cpdef object run(self)
    @cython.locals(journal=Journal, nodes=list, called=Call)
    cpdef list target(self, Py_ssize_t number, list formals)


@cython.freelist(16)
cdef class _Target:
    cdef public SymbolicChoice choice
    cdef public Py_ssize_t number


cpdef object invoked(object function, bint named, object values)
cpdef object run_directly(object target, bint named, Py_ssize_t width, Given given, tuple lanes)
