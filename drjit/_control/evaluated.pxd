cimport cython

from drjit_core.ir.dual cimport primal
from drjit_core.ir.node cimport Node
from drjit_core.ir.vertex cimport any_vertex
from drjit._access.lanes cimport Watch, made_from, masked_access, with_lanes, written_from
from drjit._access.store cimport Journal, noted
from drjit._control.called cimport Call
from drjit._control.given cimport Given
from drjit._control.iteration cimport condition_of, flattened, require_tuple
from drjit._trees.contents cimport write_place
from drjit._control.state cimport shape_of
from drjit._trees.pytree cimport TreeSpec, flatten_nodes


cdef class _Objects:
    cdef public Given first
    cdef public Given given
    cdef public object names
    cdef public object last
    cdef public bint strict
    cdef public object since
    cdef public dict own
    cdef public set apart
    cdef public bint shared
    cdef public dict numbers
    cdef public list kept
    cdef public set moved
    cdef public dict known
    cdef public list places
    cdef public dict waiting
    cdef public dict begun
    cdef public set several
    cdef public list lost
    cdef public list forgotten
    cdef public dict blends
    cdef public tuple lanes
    cdef public Py_ssize_t width
    cdef public set copied
    cdef public set spent
    @cython.locals(found=Call)
    cpdef Call call(self, list nodes, object function, TreeSpec spec=*)
    @cython.locals(place=cython.Py_ssize_t, first=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef tested(self, Call call, list changes, list nodes, Journal journal, object active, object join)
    @cython.locals(first=list, position=cython.Py_ssize_t)
    cpdef let_go(self, list nodes)
    cpdef list nodes_apart(self)
    cpdef set own_arrays(self)
    cpdef list own_positions(self)
    @cython.locals(results=list, leaves=list, after=TreeSpec, changed=dict, before=list, given=dict, own=set, last=set, place=cython.Py_ssize_t, first=cython.Py_ssize_t, count=cython.Py_ssize_t, position=cython.Py_ssize_t, k=cython.Py_ssize_t, node=Node, changes=list)
    cpdef tuple returned(self, Call call, object value, TreeSpec spec, Node active, Journal journal, object join, object whole)
    cpdef note_places(self, Call call, list changes, Node active, object join, object nodes, Journal journal, object leaves=*)


cdef class Evaluated:
    cdef public _Objects objects
    cdef public list nodes
    cdef public TreeSpec spec
    cdef public _State state
    cdef public object cond
    cdef public object body
    cdef public object names
    cdef public object first
    cdef public list tensors
    cdef public bint compress
    cdef public Py_ssize_t width
    cdef public Py_ssize_t left
    cdef public Node lanes
    cdef public dict elements
    cdef public set shared
    cdef public object memory
    cdef public list own
    cdef public list changed
    cdef public list whole
    cpdef list repeated(self)
    cpdef object part(self)
    cpdef Call call(self, object function)
    @cython.locals(call=Call, journal=Journal, test=Node, changes=list)
    cpdef Node test(self, object active=*)
    @cython.locals(call=Call, journal=Journal, watch=Watch, before=list, results=list, after=TreeSpec, old_spec=TreeSpec)
    cpdef step(self, Node active)
    cpdef Node join(self, Node active, Node new, Node old)


cdef class _State:
    cdef public bint is_read
    cdef public list pending
    @cython.locals(node=Node)
    cpdef prepare(self, list nodes)
    @cython.locals(node=Node)
    cpdef check(self)


cdef Node _blend(Node mask, Node new, Node old)
cdef _join_arrays(object join, Journal journal, set known, set own, tuple lanes)
@cython.locals(found=list, changed=list, values=list, old=Node, new=Node, position=cython.Py_ssize_t)
cdef list _blended(Node active, list before, list results, TreeSpec spec, object names, list joined)
cdef _require_size(Node active, Node old, Node new, TreeSpec spec, object names, Py_ssize_t position)
