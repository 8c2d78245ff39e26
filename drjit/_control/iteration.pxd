cimport cython

from drjit_core.control.construct cimport Functions
from drjit_core.control.loop cimport repeated
from drjit_core.ir.dual cimport primal
from drjit_core.ir.node cimport Node
from drjit_core.ir.region cimport is_version
from drjit_core.ir.vertex cimport any_vertex
from drjit._access.lanes cimport with_lanes
from drjit._access.store cimport Journal, innermost_journal, store_same
from drjit._control.attempts cimport retried
from drjit._control.called cimport Call
from drjit._control.given cimport Given
from drjit._control.closed cimport is_closed
from drjit._control.snapshot cimport Snapshot, snapshot
from drjit._control.state cimport mask_of, shape_of
from drjit._trees.pytree cimport TreeSpec, flatten_nodes

cdef int EXCHANGED, OTHERWISE, SAME
cdef dict _NOTHING
cdef list _EMPTY
cdef frozenset _NO_MEMORY


cdef class SymbolicLoop(Functions):
    cdef public Given given
    cdef public list nodes
    cdef public object cond
    cdef public object body
    cdef public object names
    cdef public object label
    cdef public object strict
    cdef public object max_iterations
    cdef public Py_ssize_t count
    cdef public object shapes
    cdef public tuple lanes
    cdef public list apart
    cdef public list arrays
    cdef public tuple settings
    cdef public object variables
    cdef public dict joined
    cdef public Journal journal
    cdef public TreeSpec spec
    cdef public object returned
    cdef public list final
    cdef public Node tested
    cdef public Call called
    cdef public Snapshot known
    @cython.locals(around=Journal, results=list, node=Node, result=Node, position=cython.Py_ssize_t)
    cpdef object run(self)
    @cython.locals(found=list, nodes=list, positions=list)
    cpdef list all_variables(self)
    cpdef object others(self, object late=*)
    cdef public bint is_blind
    @cython.locals(number=cython.Py_ssize_t, positions=list, before=list, now=list, position=cython.Py_ssize_t)
    cpdef presume(self, list variables)
    @cython.locals(test=Node, call=Call, arrays=list)
    cpdef Node tested_blindly(self, list variables)
    @cython.locals(variables=list)
    cpdef list attempt(self)
    @cython.locals(test=Node, call=Call)
    cpdef Node test(self, list variables)
    @cython.locals(results=list, call=Call, journals=list)
    cpdef list following(self, list variables)
    cpdef object name_of(self, Py_ssize_t position)
    cpdef begin(self, list variables)
    @cython.locals(before=list, now=list, position=cython.Py_ssize_t)
    cpdef end(self)
    cpdef require_same_fields(self, list arrays)
    cpdef require_plain(self, Call call, object returned)
    cpdef bint returns_all(self, Call call, list final) except -1
    @cython.locals(known=Snapshot)
    cpdef Snapshot known_before(self)
    cpdef Call call(self, list variables, object function)
    cpdef object applied(self, object function, Call call)
    @cython.locals(count=cython.Py_ssize_t, new=Node, position=cython.Py_ssize_t, results=list, final=list, after=TreeSpec, changes=list)
    cpdef list called_body(self, Call call, list variables)


@cython.locals(position=cython.Py_ssize_t, count=cython.Py_ssize_t, node=Node)
cpdef object require_tuple(object result, Py_ssize_t count)
@cython.locals(spec=TreeSpec)
cpdef tuple flattened(object result, TreeSpec before, object names)
cpdef Node condition_of(object value)
@cython.locals(old=Node, new=Node, wide=Node, position=cython.Py_ssize_t)
cpdef _require_sizes(list before, list after, TreeSpec spec, object names)
@cython.locals(wide=Node, node=Node)
cpdef _require_common_size(list nodes, list state, TreeSpec spec, object names)
