cimport cython

from ._data cimport Storage, View, made, parts_of, tensors_of

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
