cimport cython

from ._dtypes cimport DType
from ._evaluation cimport eager, note

cdef object _final, _REVERSED
cdef tuple _PLAIN


cdef class View:
    cdef public object _load
    cdef public object key
    cdef public View outer
    cdef public tuple _place
    cdef public tuple shape
    cdef public Storage root
    cdef public Py_ssize_t part
    cdef public Py_ssize_t seen
    cdef public tuple contents
    cdef public object source
    cdef public object made


cdef class Storage:
    cdef object __weakref__
    cdef public DType _dtype
    cdef public object _held
    cdef public object _value
    cdef public bint _given
    cdef public View _view
    cdef public Py_ssize_t _writes


@cython.locals(view=View, parts=tuple)
cpdef tuple parts_of(Storage array)
cpdef tuple given(Storage array)
cpdef own_tensors(Storage root)
cpdef written(Storage root, bint by_value)
cdef object _tracked(Storage array)
cdef tuple _contents(Storage root)
cpdef bint is_current(View view) except -1
@cython.locals(view=View, root=Storage)
cpdef object value_of(Storage array, Py_ssize_t most)
@cython.locals(first=cython.Py_ssize_t, size=cython.Py_ssize_t)
cdef object _seen(object whole, tuple shape, DType dtype, View view)
cpdef tuple tensors_with(DType dtype, object value, str device=*)
@cython.locals(count=cython.Py_ssize_t, values=list)
cdef object _fetched(Storage array, Py_ssize_t most)
@cython.locals(cls=type, array=Storage)
cpdef Storage of_own(DType dtype, object value)
cpdef Storage of_value(DType dtype, object value)
@cython.locals(view=View, outer=View)
cdef View _noted(Storage array, object load, object place, Py_ssize_t part, object key=*)
@cython.locals(root=Storage)
cdef Storage _view_of_value(Storage array, object load, object place, object value, Py_ssize_t part, object key=*)
@cython.locals(cls=type, result=Storage, view=View)
cdef Storage _view_with(Storage array, object load, object place, object value, Py_ssize_t part, object key=*)
@cython.locals(root=Storage)
cdef Storage _row(Storage array, object part, object key, Py_ssize_t most)
@cython.locals(view=View)
cdef object _row_of(Storage array)
@cython.locals(dtype=DType, view=View, root=Storage, held=tuple)
cdef tuple _in_memory(Storage array, bint constants=*)
cpdef tuple tensors_of(View view)
@cython.locals(view=View)
cpdef was_read(Storage array)
cpdef hold(Storage array, tuple parts)
@cython.locals(cls=type, array=Storage)
cpdef Storage made(DType dtype, tuple parts)
@cython.locals(most=cython.Py_ssize_t)
cpdef Storage part_of(Storage array, object key)
cdef bint _is_plain(object key) except -1
@cython.locals(most=cython.Py_ssize_t)
cpdef Storage reversed_axes(Storage array)
@cython.locals(most=cython.Py_ssize_t)
cpdef Storage reshaped_now(Storage array, object shape, object load)
@cython.locals(result=Storage, root=Storage, most=cython.Py_ssize_t, view=View)
cpdef Storage viewed(Storage array, object load, tuple place=*)
@cython.locals(most=cython.Py_ssize_t)
cpdef Storage view_by(Storage array, object load, str rearrange, object argument)
@cython.locals(most=cython.Py_ssize_t)
cpdef bint has_value(Storage array) except -1
@cython.locals(view=View)
cpdef require_writable(str function, Storage array)
