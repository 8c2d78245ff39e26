cimport cython

from drjit_core.control.loop cimport while_loop
from drjit_core.ir.dual cimport primal, tracked
from drjit_core.ir.node cimport Node
from drjit_core.ir.region cimport is_version
from drjit._access.store cimport Buffers, Journal, innermost_journal, journal_of
from drjit._control.assigned cimport Variables, assigned_by
from drjit._control.state cimport arguments, mask_of
from drjit._trees.pytree cimport TreeSpec, flatten_nodes


@cython.freelist(16)
cdef class SymbolicLoop:
    cdef public list nodes
    cdef public list leaves
    cdef public TreeSpec spec
    cdef public object cond
    cdef public object body
    cdef public object names
    cdef public object label
    cdef public object strict
    cdef public object max_iterations
    cdef public Py_ssize_t count
    cdef public bint tensors
    cdef public list captured
    cdef public Journal journal
    cdef public list final
    cdef public object frozen
    cdef public object variables
    @cython.locals(around=Journal, buffers=Buffers, results=list, node=Node, result=Node, position=cython.Py_ssize_t)
    cpdef object run(self, bint through)
    @cython.locals(node=Node)
    cpdef list trace(self)
    cpdef list repeated(self, list variables)
    cpdef Node test(self, list variables)
    cpdef list following(self, list variables)
    cpdef begin(self, list variables)
    cpdef put_back(self, bint arrays)
    @cython.locals(test=Node)
    cpdef Node test_of(self, list variables)
    @cython.locals(count=cython.Py_ssize_t, new=Node, position=cython.Py_ssize_t, results=list, final=list, changed=list, traced=list)
    cpdef list next_of(self, list variables)


@cython.locals(position=cython.Py_ssize_t, count=cython.Py_ssize_t, node=Node)
cpdef Py_ssize_t uninitialized(list nodes, TreeSpec spec) except -2
cpdef object require_tuple(object result, Py_ssize_t count)
@cython.locals(spec=TreeSpec)
cpdef tuple flattened(object result, TreeSpec before, object names)
cpdef Node condition_of(object value)
@cython.locals(old=Node, new=Node, position=cython.Py_ssize_t)
cpdef _require_sizes(list before, list after, TreeSpec spec, object names)
@cython.locals(wide=Node, node=Node)
cpdef _require_common_size(list nodes, list state, TreeSpec spec, object names)
