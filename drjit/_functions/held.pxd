from drjit_core.context cimport Context, current

cdef list _begun


cpdef bint in_plain_code() except -1
