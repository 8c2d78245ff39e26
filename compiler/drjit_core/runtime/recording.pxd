cimport cython
from libc.stdint cimport int64_t

from ..context cimport Context, current
from ..ir.build cimport literal
from ..ir.node cimport Node, blank_node, new_id
from .buffer cimport Buffer

cdef int _BOUND
cdef int _DUAL
cdef int _EVALUATED
cdef int _UNDEFINED
cdef int _SIZE
cdef int _CONSTANT
cdef int _OPERATION
cdef long long _MATTERS
cdef long long _EXCEPTIONAL
cdef object _LLVM
cdef int _LLVM_BIT
cdef object _lock
cdef dict _levels
cdef dict _exclusion
cdef object _INFO
cdef long long _mark

@cython.locals(node=Node, nodes=list, context=Context, pending=bint)
cdef list _evaluated(object arguments)
@cython.locals(node=Node, where=cython.int)
cdef object _backend_of(object arguments, int otherwise=*)
@cython.locals(node=Node, kinds=bytearray, memory=set, position=cython.Py_ssize_t, evaluated=cython.Py_ssize_t)
cpdef object pattern_of(object arguments, int where=*)
@cython.locals(extent=cython.int, buffer=Buffer)
cdef int _extent(Node node) except -1
@cython.locals(node=Node, position=cython.Py_ssize_t, size=int64_t)
cdef bint _have_sizes(list arguments, list sizes) except -1


cdef class Recording:
    cdef readonly object pattern
    cdef readonly list stages
    cdef readonly list guards
    cdef readonly list pauses
    cdef readonly bint sensitive
    cdef readonly object target
    cdef readonly int where
    cdef object _backend
    cdef list _alike
    cdef list _bounds
    cdef list _captured
    cdef bint _follows
    cdef tuple _known
    cdef object _recipes
    cdef list _guarded
    cdef bytes _kinds
    cdef list _made
    cdef list _numbers
    cdef list _order
    cdef list _parts
    cdef list _results
    cdef list _rows
    cdef list _sizes
    cdef list _written
    cdef Py_ssize_t _count

    cpdef bint adapt(self) except -1
    cpdef is_like(self, Recording other)
    cpdef list launch(self, list arguments, list sizes=*, bint same=*)
    @cython.locals(node=Node)
    cpdef list launched(self, list arguments, int where, bint same=*)
    @cython.locals(node=Node, position=cython.Py_ssize_t, kinds=bytes, mark=int64_t, bits=cython.int, shared=bint,
                   extent=cython.int, buffer=Buffer, context=Context, pattern=tuple)
    cdef bint _is_for(self, list arguments, int where) except -1
    cpdef object checked(self, list arguments, int where)
    @cython.locals(kind=cython.int, found=list, operands=tuple, number=cython.Py_ssize_t, first=cython.Py_ssize_t,
                   second=cython.Py_ssize_t, one=Node, other=Node)
    cpdef object terms(self, list arguments)
    @cython.locals(known=tuple)
    cdef bint _are_known(self, list arguments) except -1
    @cython.locals(context=Context, node=Node, nodes=list, found=list, where=cython.int, buffer=Buffer)
    cpdef list run(self, list arguments, list values, bint same=*)
    @cython.locals(node=Node, where=cython.int, place=cython.Py_ssize_t, type_=cython.int, term=cython.Py_ssize_t,
                   number=cython.Py_ssize_t)
    cdef object _prepare(self, list numbers, list made, list nodes, list values)
    cdef object _run_stages(self, list stages, list nodes, list values)
    cdef bint _run_parts(self, list nodes, list values, bint same) except -1


cdef class Recorded:
    cdef object _function
    cdef int _limit
    cdef public list recordings

    @cython.locals(recording=Recording)
    cdef list _replayed(self, list nodes)
