cimport cython

from drjit_core.ir.dual cimport dual, primal, vertex_of
from drjit_core.ir.node cimport Node
from drjit._base.handle cimport Handle, fresh_array

cdef int _METHOD, _WITH, _CONSTANT, _COPY, _CONTAINER, _INPUT, _VIEW, _AGAIN, _FLAT, _ARRAY, _DICT, _TUPLE, _LIST, _DEQUE, _OBJECT, _DATA, _NEW_DATA, _COMPUTED
cdef int _PLAIN, _OF_INPUT, _LEAF, _RESULT


cdef class Outcome:
    cdef object _alive
    cdef list _begun
    cdef dict _inner
    cdef object _inputs
    cdef dict _known
    cdef dict _leaves
    cdef dict _made
    cdef list _needs
    cdef public list diff
    cdef public list gradients
    cdef public dict groups
    cdef public bint beyond_plans
    cdef public list data
    cdef public list keep
    cdef public list nodes
    cdef public set numbers
    cdef public list orders
    cdef public list places
    cdef public list reached
    cdef public list received
    cdef public tuple result
    cdef public list started
    cdef public list starts
    cdef public list statements
    cdef public list steps
    cdef public list stores
    cdef public list vertices
    @cython.locals(template=tuple, array=Handle)
    cpdef apply(self, object inputs, list results, list outputs, list begun)


@cython.freelist(4)
cdef class _Application:
    cdef list begun
    cdef list keep
    cdef object inputs
    cdef dict made
    cdef list outputs
    cdef list results
    cdef object run(self, Outcome outcome)
    @cython.locals(slot=cython.Py_ssize_t, kind=cython.int, node=Node)
    cdef Node node(self, tuple value)
    @cython.locals(kind=cython.int, array=Handle)
    cdef object value(self, tuple template)
    cdef object view(self, tuple template)
    cdef object array(self, tuple template)
    cdef object sequence(self, tuple template)
    cdef object instance(self, tuple template)
    cpdef object filled(self, object found, object attributes)
