cdef list _recent
cdef object _reference
cdef Py_ssize_t _count, _due, _most

cpdef note(object array)
cpdef Py_ssize_t eager() except -1
