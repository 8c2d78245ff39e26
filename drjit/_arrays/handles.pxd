cimport cython

from drjit_core.ir.node cimport Node
from drjit_core.ir.trace cimport binary
from drjit._base.fresh cimport FlatSlots, fresh

cdef int _ADD, _SUB, _MUL, _DIV, _SHL, _SHR, _OR, _XOR, _AND, _EQ, _NEQ, _LT, _LE, _GT, _GE, _NONE

cdef class FlatHandle(FlatSlots):
    pass

@cython.locals(result=FlatHandle, right=FlatHandle, node=Node, number=Node)
cdef object forward(int row, object operation, FlatHandle self, object other)
@cython.locals(result=FlatHandle, right=FlatHandle, node=Node, number=Node)
cdef object reverse(int row, object operation, FlatHandle self, object other)
cdef object inplace(int row, object operation, FlatHandle self, object other)
@cython.locals(result=FlatHandle, right=FlatHandle, node=Node, number=Node)
cdef object compare(int row, object operation, FlatHandle self, object other)
@cython.locals(result=FlatHandle, node=Node)
cdef object unary(object trace, str method, FlatHandle self)
