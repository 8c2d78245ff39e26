cdef list _recent
cdef object _reference
cdef Py_ssize_t _count, _due

cpdef note(object array)
