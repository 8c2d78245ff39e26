cdef class Partial:
    cdef readonly int how
    cdef readonly str keeps
    cdef readonly object factor


cdef class Rule:
    cdef readonly str name
    cdef readonly tuple partials
