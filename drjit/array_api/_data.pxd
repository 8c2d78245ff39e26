cimport cython

from ._evaluation cimport note

cdef object _final


cdef class View:
    cdef public object load
    cdef public View outer
    cdef public tuple _place
    cdef public tuple shape
    cdef public Storage root
    cdef public Py_ssize_t part
    cdef public Py_ssize_t seen
    cdef public object source
    cdef public object made


cdef class Storage:
    cdef object __weakref__
    cdef public object _dtype
    cdef public tuple _held
    cdef public View _view
    cdef public Py_ssize_t _writes


@cython.locals(view=View, parts=tuple, before=tuple)
cpdef tuple parts_of(Storage array)
cpdef tuple tensors_of(View view)
@cython.locals(view=View)
cpdef was_read(Storage array)
cpdef hold(Storage array, tuple parts)
@cython.locals(cls=type, array=Storage)
cpdef Storage made(object dtype, tuple parts)
cpdef Storage part_of(Storage array, object key)
@cython.locals(result=Storage)
cpdef Storage viewed(Storage array, object load, tuple place=*)
