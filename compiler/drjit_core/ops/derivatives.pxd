cdef class Partial:
    cdef readonly int how
    cdef readonly str keeps
    cdef readonly object factor
    cdef readonly bint sparse


cdef class Rule:
    cdef readonly str name
    cdef readonly tuple partials
