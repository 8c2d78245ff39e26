cimport cython

from drjit_core.context cimport Context, current
from drjit_core.ir.dual cimport primal, tracked, vertex_of
from drjit_core.ir.node cimport Node
from drjit_core.runtime.recording cimport Recording
from drjit._access.lanes cimport in_plain_code
from drjit._freeze.outcome cimport Outcome
from drjit._freeze.plan cimport Found, Plan

cdef int _LITERAL
cdef long long _FREEZING
cdef Py_ssize_t _MOST_PLANS
cdef long long _uses
cdef list _NOTHING


cdef class Entry:
    cdef public Recording recording
    cdef public Outcome outcome
    cdef public object pattern
    cdef public list positions
    cdef public dict baked
    cdef public list sizes
    cdef public object general
    cdef public object settled
    cdef public list kept
    cdef public object parts
    cdef public dict derivatives
    cdef public dict failures
    cdef public dict words
    cdef public long long used
    cdef public Py_ssize_t hits
    cpdef use(self)


cdef class Frozen:
    cdef dict __dict__
    cdef object __weakref__
    cdef object _function
    cdef readonly str _name
    cdef readonly object _state_fn
    cdef object _warn_after
    cdef object _backend
    cdef object _limit
    cdef readonly bint _auto_opaque
    cdef readonly tuple _dynamic
    cdef tuple _routes
    cdef dict _changes
    cdef public bint enabled
    cdef public dict _entries
    cdef dict _opaque
    cdef Py_ssize_t _recordings
    cdef public object _loaded
    cdef public list _plans
    @cython.locals(state=Context, number=cython.Py_ssize_t, count=cython.Py_ssize_t, plan=Plan, known=Found, entry=Entry, plans=list, tree=list)
    cdef object _called(self, tuple args, dict kwargs)
    cdef list _launched(self, Entry entry, Found found)
    @cython.locals(outcome=Outcome)
    cdef object _applied(self, Entry entry, object inputs, list results)
