cimport cython

from ._data cimport Storage, View, made, of_value, parts_of, tensors_of, value_of
from ._evaluation cimport eager

cdef object _ndarray, _dot, _contiguous, _concatenate
cdef tuple _OF_BLAS

cpdef object on_host(Storage array)
@cython.locals(parts=tuple, root=Storage, view=View)
cdef object _memory_of(Storage array)
cdef Storage _owner_of(Storage array)
cpdef object of_numbers(object value)
@cython.locals(a=Storage, b=Storage)
cpdef object product(object x1, object x2)
@cython.locals(array=Storage, root=Storage, pending=list, count=cython.Py_ssize_t, most=cython.Py_ssize_t)
cpdef object joined(list arrays, object axis)
@cython.locals(array=Storage)
cpdef object rolled(object x, object by, object axis)
cpdef object result_of(object dtype, object value)
cpdef object reduced(object array, object reduce, tuple axes, object keepdims, object dtype)
