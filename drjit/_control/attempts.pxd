cdef int _MOST_ATTEMPTS

cpdef object retried(object construct, object words, object around, object what)
