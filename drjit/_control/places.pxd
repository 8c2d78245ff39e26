cimport cython

cdef int _MOST_CONTAINERS, _MOST_ENTRIES, _SKIPPED, _LIST, _TUPLE, _DICT, _FUNCTION, _METHOD, _PARTIAL
cdef dict _kinds, _slots, _names


cdef int _kind_of(object cls) except -1


cdef class Snapshot:
    cdef public list entries
    cdef public set seen
    cdef public list data
    cdef public list codes
    cpdef add_functions(self, object functions)
    @cython.locals(todo=list, seen=set, kind=cython.int)
    cpdef add(self, object value)
    @cython.locals(held=dict)
    cpdef add_function(self, object function, list todo)
    @cython.locals(found=list, kind=cython.int)
    cpdef list changes(self)


cdef _compare(object container, int kind, dict before, dict now, list found)
cdef list _referring(object values)
@cython.locals(found=dict)
cpdef dict attributes_of(object owner)
cdef object _contents(object cell)
@cython.locals(names=dict)
cpdef tuple names_of(object code)
cpdef write_place(object container, int kind, object key, object value)
