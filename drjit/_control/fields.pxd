cimport cython

from drjit._base.handle cimport Handle, is_younger
from drjit._control.closed cimport is_closed, names_of, sets_attributes
from drjit._trees.contents cimport attributes_in_dict
from drjit._trees.kinds cimport About, about, is_own
from drjit._trees.pytree cimport TreeSpec


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value

cdef int DICT, LIST, OBJECT, _ELSEWHERE, _IN_DICT, _IN_SLOTS, _IN_VALUE
cdef dict _NOTHING
cdef frozenset FINDS_CLASSES


@cython.freelist(8)
cdef class _Holder:
    cdef public object container
    cdef public int kind
    cdef public object table
    cdef public tuple keys
    cdef public list places
    cdef public list values


@cython.freelist(8)
cdef class Fields:
    cdef public list leaves
    cdef public list holders
    cdef public list owners
    cdef public tuple classes
    cdef public dict exchanged
    @cython.locals(entries=tuple, inner=TreeSpec, keys=tuple, kind=cython.int, how=cython.int, holder=_Holder, number=cython.Py_ssize_t, known=About)
    cpdef Py_ssize_t add(self, object value, TreeSpec spec, Py_ssize_t place, set seen) except -2
    @cython.locals(holder=_Holder, keys=tuple, places=list, number=cython.Py_ssize_t, place=cython.Py_ssize_t)
    cpdef put(self, list arrays)
    @cython.locals(holder=_Holder, number=cython.Py_ssize_t)
    cpdef set(self, Py_ssize_t place, object array)
    cpdef tuple where(self, Py_ssize_t place)
    @cython.locals(holder=_Holder, keys=tuple, places=list, kind=cython.int, number=cython.Py_ssize_t, place=cython.Py_ssize_t)
    cpdef int changed(self, list arrays) except -1
    cpdef bint are_new(self, object since) except -1
    @cython.locals(holder=_Holder)
    cpdef restore(self)
    @cython.locals(holder=_Holder)
    cpdef list containers(self)
    @cython.locals(holder=_Holder)
    cpdef list entries(self)
    @cython.locals(names=tuple, holder=_Holder, key=object)
    cpdef bint is_all_of(self, object function) except -1
