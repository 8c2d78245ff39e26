"""The compiled form of ``context.py``: the context of the thread that ran last is remembered."""

import threading

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        pass
    PyThreadState* PyThreadState_Get() noexcept
    unsigned long long PyThreadState_GetID(PyThreadState*) noexcept

DEFAULT_FLAGS = 26484606


cdef class Context:
    """What one thread has set; see :mod:`drjit_core.flags`."""

    def __init__(self):
        self.flags = DEFAULT_FLAGS
        self.mode = 0
        self.region = None
        self.scope = 0
        self.recording = None
        self.derivatives = None
        self.branches = "both"
        self.open = {}
        self.scheduled = []
        self.statements = []
        self.checks = []
        self.queued = []
        self.queue = 0
        self.boundary = []
        self.acting = False
        self.backend = None


class _Contexts(threading.local):
    def __init__(self):
        self.context = Context()


cdef object _contexts = _Contexts()
cdef Context _last = None
cdef unsigned long long _owner = 0  # ids of threads are never used again, unlike their addresses


cpdef Context current():
    """The context of this thread."""
    global _last, _owner
    cdef unsigned long long thread = PyThreadState_GetID(PyThreadState_Get())
    cdef Context found, before
    if thread == _owner:
        return _last
    found = _contexts.context
    before = _last  # may be the last reference to it: what it holds ends when both variables are set
    _last, _owner = found, thread
    return found


cdef class _State:
    """Stands for the context of the thread that asks."""

    def __getattribute__(self, name):
        return getattr(current(), name)

    def __setattr__(self, name, value):
        setattr(current(), name, value)


state = _State()
