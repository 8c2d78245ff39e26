from drjit._base.handle cimport Handle


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value

cdef dict _about, _libraries, _own
cdef list DERIVED


cdef class About:
    cdef public int kind
    cdef public tuple slots
    cdef public tuple bases
    cdef public bint has_more
    cdef public bint is_users
    cdef public bint assigns
    cdef public bint keeps
    cdef public bint asks


cpdef About about(object cls)
cpdef int kind_at(object value) except -1
cpdef bint is_library(object module) except -1
cpdef bint is_of_library(object function) except -1
cpdef bint is_own(object module) except -1
cpdef bint refers(object value) except -1
