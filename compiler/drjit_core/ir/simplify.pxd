from libc.stdint cimport int64_t

from .build cimport literal
from .node cimport Node

cdef int _SHR
cdef int LITERAL, BOOL
cdef bytes IS_FLOAT
cdef int64_t BAKED

cpdef object _constant(Node node)
cpdef bint _all_ones(Node node) except? False

cpdef unary(object ops, int kind, Node a)
cpdef binary(object ops, int kind, Node a, Node b, int64_t size)
cpdef ternary(object ops, int kind, Node a, Node b, Node c, int64_t size)
cpdef _add(object ops, Node a, Node b, int64_t size)
cpdef _sub(object ops, Node a, Node b, int64_t size)
cpdef _mul(object ops, Node a, Node b, int64_t size)
cpdef _div(object ops, Node a, Node b, int64_t size)
cpdef _and(object ops, Node a, Node b, int64_t size)
cpdef _or(object ops, Node a, Node b, int64_t size)
cpdef _xor(object ops, Node a, Node b, int64_t size)
cpdef _shift(object ops, Node a, Node b, int64_t size)
cpdef _rotate(object ops, Node a, Node b, int64_t size)
cpdef _fma(object ops, Node a, Node b, Node c, int64_t size)
cpdef _select(object ops, Node mask, Node a, Node b, int64_t size)
