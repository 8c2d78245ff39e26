cimport cython

from ._data cimport Storage, View, made, of_own, of_value, parts_of, value_of, written
from ._dtypes cimport DType
from ._evaluation cimport eager

cdef dict _operations
cdef tuple _NUMBERS
cdef set _OF_NUMBERS
cdef str _KINDS
cdef tuple _PYTHON
cdef object _run
cdef bint _entered

cdef object _of_two(object function, object left, object right)
cpdef object exact_product(object a, object b)
cpdef bint fits(DType dtype, object value) except -1
@cython.locals(count=cython.Py_ssize_t, k=cython.Py_ssize_t)
cpdef bint go_together(tuple first, tuple second) except -1


cdef class Operation:
    cdef public dict formulas
    cdef public dict direct
    cdef public DType result
    cdef public object otherwise
    cdef public object numpy
    cdef public set kinds
    cdef public bint silent, finite, careful
    cdef public set plain
    @cython.locals(array=Storage, most=cython.Py_ssize_t)
    cpdef object one(self, object x)
    @cython.locals(root=Storage, operand=Storage, dtype=DType, most=cython.Py_ssize_t)
    cpdef bint in_place(self, Storage array, object other) except -1
    @cython.locals(a=Storage, b=Storage, most=cython.Py_ssize_t)
    cpdef object two(self, object x1, object x2)
    @cython.locals(plain=bint, first=Storage, second=Storage, dtype=DType)
    cdef object _both(self, object x1, object x2, Py_ssize_t most)
    cdef object _now(self, DType dtype, object left, object right)
    cdef object _with_number(self, object kind, object part, object left, object right)


cdef str _kind_of(object operand)
cdef bint _is_finite(object value) except -1
@cython.locals(count=cython.Py_ssize_t, left=cython.Py_ssize_t, right=cython.Py_ssize_t, k=cython.Py_ssize_t,
               size=cython.Py_ssize_t, size2=cython.Py_ssize_t)
cpdef bint stay_small(object first, object second, Py_ssize_t most) except -1
cdef object _selected_now(Storage condition, DType dtype, object x1, object x2, Py_ssize_t most)
@cython.locals(on_cpu=cython.bint, own=Storage)
cpdef object selected(object condition, object x1, object x2)
@cython.locals(array=Storage)
cdef object _beside(object mask, DType dtype, object value, bint on_cpu)
@cython.locals(known=Operation)
cdef object _applied(str name, object self, object other, bint reverse)


cdef class Operators(Storage):
    pass
