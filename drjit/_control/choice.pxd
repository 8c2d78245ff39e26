cimport cython

from drjit_core.control.choice cimport call, cond
from drjit_core.ir.dual cimport tracked
from drjit_core.ir.node cimport Node
from drjit_core.ir.symbolic cimport Tracing, innermost
from drjit._access.store cimport Buffers, Journal, innermost_journal, journal_of
from drjit._control.state cimport arguments
from drjit._trees.pytree cimport TreeSpec, flatten_nodes


cdef list _EMPTY
cdef frozenset _NONE


@cython.freelist(16)
cdef class Results:
    cdef public str function
    cdef public object names
    cdef public bint strict
    cdef public str otherwise
    cdef public TreeSpec spec
    cdef public list leaves
    cdef public list nodes
    cdef public str which
    @cython.locals(spec=TreeSpec, nodes=list, leaves=list)
    cpdef list add(self, object value, str which)
    cpdef object rebuilt(self, object nodes)


@cython.freelist(16)
cdef class SymbolicChoice:
    cdef public object words
    cdef public Node mask
    cdef public Node index
    cdef public object label
    cdef public object labels
    cdef public bint named
    cdef public list functions
    cdef public list nodes
    cdef public list leaves
    cdef public TreeSpec spec
    cdef public object names
    cdef public Results results
    cdef public Py_ssize_t count
    cdef public list captured
    cdef public list journals
    cdef public frozenset in_place
    cdef public object frozen
    cdef public object variables
    @cython.locals(around=Journal, buffers=Buffers, journal=Journal, node=Node)
    cpdef object run(self)
    cpdef tuple chosen(self, list targets)
    cpdef tuple traced(self, object values, object targets, object name_of, bint gives_way)
    @cython.locals(journal=Journal)
    cpdef list target(self, Py_ssize_t number, list formals)
    @cython.locals(region=Tracing)
    cpdef put_back(self, bint arrays)
    cpdef note_in_place(self, object arrays, list formals)


@cython.freelist(16)
cdef class _Target:
    cdef public SymbolicChoice choice
    cdef public Py_ssize_t number


cpdef object invoked(object function, bint named, object values)
cpdef object run_directly(str function, object target, bint named, Py_ssize_t width, list nodes, list leaves, TreeSpec spec)
