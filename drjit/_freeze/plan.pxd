cimport cython

from drjit_core.ir.dual cimport primal, vertex_of
from drjit_core.ir.frames cimport code_of, defaults_of, keyword_defaults_of
from drjit_core.ir.node cimport Node
from drjit._base.handle cimport Handle, fresh_array
from drjit._trees.contents cimport contents_of, entries_of

cdef int _EVALUATED, _LITERAL, _UNDEFINED
cdef int _ANY, _FLAT, _TENSOR, _NESTED, _ARRAY, _CONTAINER, _KNOWN, _PART, _SAME, _EQUAL, _CONTENT, _NUMBERS, _NUMBER, _EXACT
cdef int _OWNER, _CELL, _LIST, _TUPLE, _MODULE, _VARIABLES
cdef object _MISSING, _LARGEST
cdef frozenset _PLAIN


@cython.freelist(8)
cdef class Found:
    cdef public list arguments
    cdef public list arrays
    cdef public list containers
    cdef public list nodes
    cdef public object variables


cdef class Step:
    cdef public int kind
    cdef public Py_ssize_t number
    cdef public Py_ssize_t size
    cdef public bint holds
    cdef public object cls
    cdef public object fixed
    cdef public list keys
    cdef public list codes
    cdef public list values


cdef class Plan:
    cdef public object entry
    cdef public object scope
    cdef public Py_ssize_t count
    cdef public Py_ssize_t first
    cdef public bint distinct
    cdef public bint plain
    cdef public Py_ssize_t given
    cdef public Py_ssize_t named
    cdef public list walked
    cdef public list functions
    cdef public list owners
    cdef public list holders
    cdef public list places
    cdef public list around
    cdef public list baked
    cdef public list steps
    cdef public list pairs
    cdef public bytes literals
    cdef public bytes flags
    cdef public list twins
    @cython.locals(containers=list, found=Found, step=Step, codes=list, values=list, keys=list, position=cython.Py_ssize_t,
                   kind=cython.int, variables=dict, entries=dict, one=cython.Py_ssize_t, other=cython.Py_ssize_t)
    cpdef Found match(self, list tree)
    cdef bint _find_owners(self, object holder, Found found) except -1
    @cython.locals(nodes=list, arguments=list, pending=list, gradients=list, seen=dict, flags=bytes,
                   literals=bytes, known=list, position=cython.Py_ssize_t, evaluated=bint,
                   node=Node, value=Node, gradient=Node)
    cdef bint _collect(self, Found found) except -1


@cython.locals(node=Node)
cdef bint _are_evaluated(list nodes) except -1
cdef bint _are_distinct(list arrays) except -1
cdef bint _is_same_key(object key, object known) except -1
@cython.locals(array=Handle, pair=tuple)
cdef bint _fits(int code, object expected, object value, Found found) except -1
