cimport cython

from ._data cimport Storage, made, parts_of

cdef dict _operations
cdef tuple _NUMBERS
cdef set _OF_NUMBERS

cpdef bint fits(object dtype, object value) except -1
@cython.locals(count=cython.Py_ssize_t, k=cython.Py_ssize_t)
cpdef bint go_together(tuple first, tuple second) except -1


cdef class Operation:
    cdef public dict formulas
    cdef public dict direct
    cdef public object result
    cdef public object otherwise
    @cython.locals(array=Storage)
    cpdef object one(self, object x)
    @cython.locals(a=Storage, b=Storage)
    cpdef object two(self, object x1, object x2)
    cdef object _with_number(self, object kind, object part, object left, object right)


cpdef object selected(object condition, object x1, object x2)
@cython.locals(array=Storage)
cdef object _beside(object mask, object dtype, object value)
@cython.locals(known=Operation)
cdef object _applied(str name, object self, object other, bint reverse)


cdef class Operators(Storage):
    pass
