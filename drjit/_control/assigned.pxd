cimport cython


cdef class Variables:
    cdef list cells
    cdef list entries
    cdef list globals
    cpdef require_same(self, object words)


cdef bint _is_other(object now, object before) except -1
