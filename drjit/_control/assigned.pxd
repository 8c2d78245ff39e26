cimport cython

from drjit_core.ir.frames cimport closure_of, code_of, globals_of


cdef class _Stores:
    cdef public frozenset cells
    cdef public frozenset globals
    cdef public frozenset attributes
    cdef public bint items
    cdef public tuple names
    cdef public bint any


cdef class Variables:
    cdef list attributes
    cdef list cells
    cdef list containers
    cdef list globals
    cpdef add(self, str name, object value, _Stores stores, int depth, set seen)
    cpdef require_same(self, object words)
    cpdef put_back(self, bint arrays)


cpdef object assigned_by(object functions)
cdef bint _may_assign(object functions) except -1
cdef dict _harmless
cdef dict _codes
@cython.locals(stores=_Stores, cells=tuple, variables=dict)
cdef bint _assigns_nothing(object function, int depth, set seen) except -1
cdef bint _is_harmless(object value, _Stores stores, int depth, set seen) except -1
cdef dict _known_members
cdef tuple _members(object kind, tuple names)
cdef list _functions_of(object kind, object owner, str name)
@cython.locals(known=tuple)
cdef _Stores _stores(object code)
cdef bint _has_harmless(object owner, object names) except -1
cdef list _reached(object functions)
cdef tuple _plain(object function)
cdef _add_called(object function, tuple given, list queue)
cdef dict _known(object function, tuple given, tuple names)
cpdef object method_of(object kind, str name)
cdef object _entry_of(object kind, str name)
cdef bint _is_of_library(object function) except -1
cdef str _root_of(object module)
cdef bint _is_own_name(object module) except -1
cdef bint _is_plain(object kind) except -1
cdef object _attribute(object owner, str name)
cdef _set_attribute(object owner, str name, object value)
cpdef object copy_of(object container)
cdef bint _same_entries(object container, object before) except -1
cpdef refill(object container, object before)
cdef bint _has_arrays(object value) except -1
cdef bint _is_other(object now, object before) except -1
