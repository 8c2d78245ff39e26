from libc.stdint cimport int64_t, uint64_t

cpdef object peek(int type_, uint64_t address, int64_t index)
cpdef bytes copied(uint64_t address, int64_t count)
