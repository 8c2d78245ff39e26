from libc.stdint cimport int64_t


cdef class Context:
    cdef public long long flags
    cdef public int mode
    cdef public object region
    cdef public int64_t scope
    cdef public object recording
    cdef public object derivatives
    cdef public dict open
    cdef public list scheduled
    cdef public list statements
    cdef public list checks
    cdef public list queued
    cdef public int64_t queue
    cdef public list boundary
    cdef public bint acting
    cdef public object backend
    cdef public str branches

cpdef Context current()
