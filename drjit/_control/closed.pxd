cimport cython

from drjit_core.ir.frames cimport closure_of, code_of, defaults_of, further_of, globals_of, names_nothing
from drjit._trees.contents cimport contents_of
from drjit._trees.kinds cimport About, about, is_library, is_of_library, kind_at


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value

cdef int VALUE
cdef dict _handed, _names, _rebinds, _sets, _variables
cdef int _DEEPEST
cdef int _EXTENDED, _LOAD_GLOBAL, _IMPORT


cpdef bint _does_rebind(object code) except -1
cpdef bint sets_attributes(object code) except -1
cpdef frozenset _handed_on(object code)
cdef bint _sets_others(object code) except -1
cdef bint _is_class_of_users(object value) except -1
@cython.locals(cells=tuple, defaults=tuple, names=tuple, variables=dict)
cpdef bint is_closed(object function, tuple within=*) except -1
@cython.locals(known=About)
cdef bint _is_fixed(object value, object function, tuple within) except -1
cdef bint _is_fixed_class(object cls, object function, tuple within) except -1
cpdef tuple names_of(object code)
@cython.locals(content=bytes, further=cython.int, argument=cython.int, operation=cython.int, place=cython.Py_ssize_t)
cpdef tuple variables_of(object code)
