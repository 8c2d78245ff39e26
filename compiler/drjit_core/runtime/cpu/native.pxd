from libc.stdint cimport int64_t, uint64_t

from ..buffer cimport Buffer

cpdef uint64_t host_address(object self, Buffer buffer) except? 0
