cimport cython
from libc.stdint cimport int64_t, uint64_t

@cython.no_gc
@cython.freelist(1024)
cdef class Buffer:
    cdef public object backend
    cdef public uint64_t address
    cdef public int64_t nbytes
    cdef public bint padded
    cdef public bint read_only
    cdef public bint exported
    cdef public object _block
    cdef public int64_t ticket
    cdef object __weakref__

cdef class Borrowed(Buffer):
    cdef public object _owner

cdef class View(Borrowed):
    pass

@cython.locals(result=Borrowed)
cpdef Buffer share(object backend, uint64_t address, int64_t nbytes, object owner)
@cython.locals(result=View)
cpdef Buffer view(Buffer source, int64_t offset, int64_t nbytes)
