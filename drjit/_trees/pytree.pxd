cimport cython

from drjit_core.ir.node cimport Node
from drjit._base.handle cimport Handle, fresh_array, held

cdef dict _of_type, _of_types, _by_fields


cdef class TreeSpec:
    cdef public object cls
    cdef public tuple shape
    cdef public tuple keys
    cdef public tuple children
    cdef public object prototype
    cdef public object _hash
    cdef public list _arrays
    cdef public list _positions
    cdef public int _copies
    cdef public int _numbers
    cdef public bint is_flat
    cdef public bint _tensors
    cdef public list flats
    cpdef object rebuild(self, object leaves)
    cpdef object rebuild_nodes(self, object nodes, object leaves, tuple lanes=*)
    @cython.locals(array=Handle, position=cython.Py_ssize_t, k=cython.Py_ssize_t, count=cython.Py_ssize_t, depth=cython.int, node=Node, result=list)
    cpdef list fresh(self, object nodes, object leaves, tuple lanes=*)
    @cython.locals(entry=TreeSpec)
    cpdef list traced(self)
    @cython.locals(found=list)
    cpdef list leaf_specs(self)
    cpdef list positions(self)
    cpdef bint has_tensors(self) except -1
    @cython.locals(position=cython.Py_ssize_t)
    cpdef bint fits(self, object value) except -1
    @cython.locals(position=cython.Py_ssize_t, entries=tuple)
    cpdef bint take(self, object value, list found) except -1
    @cython.locals(entry=TreeSpec)
    cpdef _collect(self, list found)
    cpdef bint holds_numbers(self) except -1
    cpdef bint holds_copies(self) except -1
    cpdef set shared_nodes(self)
    @cython.locals(entry=TreeSpec)
    cpdef _note_shared(self, bint is_shared, list found)
    cpdef list attributes(self)
    @cython.locals(entry=TreeSpec)
    cpdef _collect_attributes(self, list found)


@cython.locals(known=tuple)
cpdef object fields_at_once(object cls)
@cython.locals(spec=TreeSpec)
cdef TreeSpec _flatten(object value, object function, list found, set path, bint whole)
@cython.locals(spec=TreeSpec, found=list)
cpdef tuple flatten_nodes(object value, object function, object like=*)
@cython.locals(nodes=list, array=Handle, k=cython.Py_ssize_t, depth=cython.int)
cdef list _traced_nodes(TreeSpec spec, object found)
@cython.locals(spec=TreeSpec, nodes=list)
cpdef list collect_nodes(object values, object function)
