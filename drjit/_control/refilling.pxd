cimport cython

from drjit._trees.contents cimport attributes_of
from drjit._trees.kinds cimport is_own
from drjit._trees.pytree cimport TreeSpec, fields_at_once


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value

cdef dict _NOTHING


cpdef list items_of(object value)
cdef list _entries(object values, object key)
@cython.locals(inner=TreeSpec, entries=list, new=dict, position=cython.Py_ssize_t)
cpdef object refilled(object values, TreeSpec spec, object leaves, object owner, object become, dict made=*)
