cpdef bint evaluate(object backend, list roots) except -1
