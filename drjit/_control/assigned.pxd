cimport cython


cdef class Variables:
    cdef list cells
    cdef list entries
    cdef list globals
    cpdef require_same(self, object words)
    cpdef put_back(self)


cpdef object assigned_by(object functions)
cdef bint _is_another_array(object now, object before) except -1
cdef bint _is_other(object now, object before) except -1
