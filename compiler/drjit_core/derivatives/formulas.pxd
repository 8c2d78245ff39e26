cimport cython

from ..ir.build cimport literal
from ..ir.node cimport Node
from ..ir.trace cimport binary

cdef int _MUL

@cython.locals(zero=Node)
cpdef Node masked(Node mask, Node value, bint inverted=*)
@cython.locals(result=Node, zero=Node, none=Node)
cpdef Node product(Node gradient, Node factor, bint sparse)
