cimport cython

from ._data cimport Storage, View, made, of_own, of_value, parts_of, tensors_of, tensors_with, value_of
from ._dtypes cimport DType
from ._evaluation cimport eager
from ._operators cimport Operation, stay_small

cdef object _ndarray, _contiguous, _concatenate, _EVALUATED

cpdef object on_host(Storage array)
@cython.locals(parts=tuple, root=Storage, view=View)
cdef object _memory_of(Storage array)
cdef Storage _owner_of(Storage array)
cpdef object of_numbers(object value, str device=*)
@cython.locals(a=Storage, b=Storage, root=Storage, second=Storage, dtype=DType, most=cython.Py_ssize_t)
cpdef object product(object x1, object x2)
cdef class Product(Operation):
    cpdef object two(self, object x1, object x2)


@cython.locals(root=Storage)
cdef bint _is_symmetric(Storage a, Storage b) except -1
@cython.locals(count=cython.Py_ssize_t)
cdef bint _is_short(tuple first, tuple second)
@cython.locals(array=Storage, dtype=DType, root=Storage, pending=list, count=cython.Py_ssize_t, most=cython.Py_ssize_t)
cpdef object joined(list arrays, object axis)
@cython.locals(array=Storage, dtype=DType)
cpdef object rolled(object x, object by, object axis)
cpdef object result_of(DType dtype, object value, str device=*)
cpdef object reduced(object array, object reduce, tuple axes, object keepdims, DType dtype)

@cython.locals(array=Storage, place=list)
cpdef object place_of(object key, Py_ssize_t most)

cdef tuple _PLAIN, _OF_KEYS, _WRITING
cdef str _KINDS
cdef dict _results


@cython.final
cdef class _Arguments:
    cdef list arrays, owners
    cdef Py_ssize_t bound, count, most
    cdef bint failed
    @cython.locals(cls=object, found=list)
    cdef object one(self, object argument)
    @cython.locals(found=list)
    cdef object several(self, object arguments)
    @cython.locals(entries=list)
    cdef object result(self, object found)


@cython.locals(most=cython.Py_ssize_t, found=_Arguments, values=list, options=dict)
cpdef object by_numpy(object function, tuple args, dict kwargs, bint product=*)
@cython.locals(most=cython.Py_ssize_t, found=_Arguments, values=list, options=dict)
cdef object _created_now(object own, object count, tuple args, dict kwargs)
@cython.locals(most=cython.Py_ssize_t, kind=str)
cpdef object of_list(object entries)
@cython.locals(found=cython.Py_ssize_t, place=cython.Py_ssize_t, cls=object, kind=str)
cdef str _kind_in(object entries, Py_ssize_t most)
@cython.locals(most=cython.Py_ssize_t)
cpdef object chosen(Storage array, object key)
