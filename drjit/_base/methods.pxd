cimport cython

from .handle cimport Handle

cdef int ADD, SUB, MUL, DIV, FLOORDIV, MOD, SHL, SHR, OR, XOR, AND, EQ, NEQ, LT, LE, GT, GE
cdef int NEG, INV, ABS


@cython.no_gc
cdef class Operators(Handle):
    cdef object _forward(self, int operation, object other)
    cdef object _reverse(self, int operation, object other)
    cdef object _inplace(self, int operation, object other)
    cdef object _unary(self, int operation)


@cython.no_gc
cdef class FlatSlots(Operators):
    pass


@cython.no_gc
cdef class NestedSlots(Operators):
    pass


@cython.no_gc
cdef class TensorSlots(Operators):
    pass
