cimport cython

from drjit_core.ir.node cimport Node
from drjit_core.ir.trace cimport binary, cast, ternary
from drjit._base.handle cimport held
from drjit._promotion.componentwise cimport flat_array

cdef int _UINT32, _FLOAT32, _LITERAL, _SHAPE
cdef int _ADD, _SUB, _MUL, _MUL_HI, _FMA, _SHR, _ROTR, _XOR
cdef Node _FACTOR, _INVERSE, _18, _27, _59, _9, _SCALE, _FACTOR_A, _FACTOR_C, _WEYL_HIGH, _WEYL_LOW

cpdef Node advance(Node state, Node increment)
cpdef Node rewind(Node state, Node increment)
@cython.locals(mixed=Node)
cpdef Node permute(Node state)
cpdef Node unit_float32(Node bits)
@cython.locals(state=Node, new=Node, value=Node)
cpdef object draw(object generator, object states, object results, bint floating)
cdef Node _apart(Node node, int tag)
@cython.locals(number=cython.int, keys=list, upper_a=Node, upper_c=Node, lower_a=Node, lower_c=Node)
cpdef list philox(Node a, Node b, Node c, Node d, Node high, Node low, int rounds)
