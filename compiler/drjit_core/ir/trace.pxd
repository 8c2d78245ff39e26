cimport cython
from libc.stdint cimport int64_t

from ..context cimport Context, current
from .build cimport append, invalid, literal
from .dual cimport derived, primal, recorded, without
from .fold cimport attribute, fold1, fold2, fold3, fold_cast
from .simplify cimport binary as simpler_of_two
from .simplify cimport ternary as simpler_of_three
from .simplify cimport unary as simpler_of_one
from .node cimport Node, blank_node, enter, find1, find2, find3, new_id
from .symbolic cimport require_open

cdef int DUAL, LITERAL, CAST, GATHER, BOUND
cdef int INVALID
cdef int64_t BAKED
cdef long long CONSTANT_PROPAGATION, DEBUG, FAST_MATH
cdef bytes _simpler, _equals, _results, _precise
cdef const unsigned char* _TYPES_OF_RESULTS
cdef const unsigned char* _HAS_RULE
cdef const unsigned char* _KNOWS_EQUALS
cdef const unsigned char* _PRECISE
cdef int _UNDEFINED, _NEG, _MUL, _TYPE_COUNT, _ADDITION, _PLAIN

@cython.locals(context=Context, mode=cython.int, node=Node, type_=cython.int, scope=int64_t)
cpdef Node unary(int kind, Node a)
@cython.locals(context=Context, mode=cython.int, node=Node, type_=cython.int, size=int64_t, other=int64_t, scope=int64_t,
               where=cython.int)
cpdef Node binary(int kind, Node a, Node b)
@cython.locals(context=Context, mode=cython.int, node=Node, type_=cython.int, size=int64_t, scope=int64_t, where=cython.int)
cpdef Node ternary(int kind, Node a, Node b, Node c)
cpdef bint is_simpler(int kind, Node a, Node b, Node c, int64_t size) except -1
@cython.locals(operand=Node)
cpdef Node cast(Node a, int type_)
@cython.locals(operand=Node)
cpdef Node bitcast(Node a, int type_)
@cython.locals(context=Context, size=int64_t, found=Node, value=Node)
cpdef Node gather(Node source, Node index, Node mask, bint harmless=*, int mode=*)
cpdef Node square(Node a)
cpdef Node reduce(Node a, int op)
