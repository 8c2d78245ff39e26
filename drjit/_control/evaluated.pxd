cimport cython

from drjit_core.ir.node cimport Node
from drjit._access.lanes cimport made_from, masked_access, with_lanes, written_from
from drjit._access.store cimport Journal, noted
from drjit._control.given cimport Call, Given
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
    cdef public list forgotten
    cdef public dict blends
    cdef public tuple lanes
    cdef public Py_ssize_t width
    cdef public set copied
    cdef public set spent
    cpdef Call call(self, object nodes, object function, TreeSpec spec=*)


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
    cdef public object memory
    cdef public list own
    cdef public list changed
    cdef public list whole


cdef class _State:
    cdef public bint is_read
    cdef public list pending
