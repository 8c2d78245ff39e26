cdef object _convert


cdef class DType:
    cdef readonly object numpy
    cdef readonly object tensor
    cdef public object _on_gpu
    cdef readonly str name
    cdef readonly str kind
    cdef readonly DType part
    cdef readonly tuple integers
    cdef readonly Py_ssize_t bits
    cdef readonly Py_ssize_t itemsize
    cpdef object on(self, str device)
    cpdef object beside(self, object part)
