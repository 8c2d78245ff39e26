cimport cython
from libc.stdint cimport int64_t, uint64_t

from ..context cimport Context, current as context_of
from ..ir.dual cimport without
from ..ir.node cimport Node
from .buffer cimport Buffer
from .elements cimport copied, peek
from .native cimport Native

cdef int _LITERAL
cdef int _EVALUATED
cdef int _DUAL
cdef object _LLVM
cdef Native _native
cdef object _launched
cdef dict _found

@cython.locals(context=Context)
cdef object _before_waiting()
@cython.locals(context=Context)
cdef object _after_waiting(Buffer buffer)
@cython.locals(context=Context)
cpdef uint64_t address_of(Buffer buffer) except? 0
cpdef bytes bytes_of(Buffer buffer, int64_t offset, int64_t count)
cpdef Node looked_at(Node node, bint looks)
cpdef Node in_memory(Node node, int where=*)
@cython.locals(buffer=Buffer)
cpdef object read_element(Node node, int64_t index)
@cython.locals(context=Context)
cdef object _check_synchronization()
