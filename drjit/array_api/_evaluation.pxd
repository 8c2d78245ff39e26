cdef list _recent
cdef object _reference
cdef Py_ssize_t _count, _due, _most
cdef object _there, _here

cpdef note(object array)
cpdef Py_ssize_t eager() except -1
cpdef object default_device()
cdef object _set_device(object device)
