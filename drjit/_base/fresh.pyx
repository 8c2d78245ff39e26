"""The compiled form of ``fresh.py``."""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from libc.string cimport memset

cdef extern from "Python.h":
    ctypedef object (*newfunc)(PyTypeObject*, object, PyObject*)
    ctypedef PyObject* (*allocfunc)(PyTypeObject*, Py_ssize_t)
    ctypedef void (*freefunc)(void*)
    ctypedef struct Type "PyTypeObject":
        newfunc tp_new
        allocfunc tp_alloc
        freefunc tp_free
        void* tp_traverse
        void* tp_clear
        unsigned long tp_flags
        Py_ssize_t tp_basicsize
        Py_ssize_t tp_dictoffset
    unsigned long Py_TPFLAGS_HAVE_GC
    PyObject* PyObject_Init(PyObject*, PyTypeObject*)
    void* PyObject_Malloc(size_t)
    void PyObject_Free(void*)
    PyObject* PyErr_NoMemory()
    void PyType_Modified(PyTypeObject*)


@cython.no_gc
cdef class FlatSlots:
    """The slots of flat arrays, which take part in no cycle."""

    def __cinit__(self, *args, **kwargs):
        global _youngest
        self.older = _youngest
        if _youngest != NULL:
            (<FlatSlots> _youngest).younger = <PyObject*> self
        _youngest = <PyObject*> self

    def __dealloc__(self):
        global _youngest
        if self.older != NULL:
            (<FlatSlots> self.older).younger = self.younger
        if self.younger != NULL:
            (<FlatSlots> self.younger).older = self.older
        else:
            _youngest = self.older


cdef PyObject* _youngest = NULL


def live_flat_arrays():
    """All flat arrays that there are."""
    cdef list found = []
    cdef PyObject* array = _youngest
    while array != NULL:
        found.append(<FlatSlots> array)
        array = (<FlatSlots> array).older
    return found


cdef tuple _NOTHING = ()

# Arrays come and go with each operation: the memory of those that died is used again.
cdef enum:
    KEPT = 1024  # of each size
    CLASSES = 12
    LARGEST = 96

cdef void* _kept[CLASSES][KEPT]
cdef int _count[CLASSES]


cpdef object fresh(object cls):
    """An object of a class without contents."""
    return (<Type*> cls).tp_new(<PyTypeObject*> cls, _NOTHING, NULL)


cdef PyObject* _alloc(PyTypeObject* cls, Py_ssize_t count) noexcept:
    cdef Py_ssize_t size = (<Type*> cls).tp_basicsize
    cdef Py_ssize_t place = size // 8
    cdef void* memory
    if _count[place]:
        _count[place] -= 1
        memory = _kept[place][_count[place]]
    else:
        memory = PyObject_Malloc(size)
        if memory == NULL:
            return PyErr_NoMemory()
    memset(memory, 0, size)
    return PyObject_Init(<PyObject*> memory, cls)


cdef void _free(void* memory) noexcept:
    # The type of a dying object is still there: what frees it releases the type afterwards.
    cdef Py_ssize_t place = (<Type*> (<PyObject*> memory).ob_type).tp_basicsize // 8
    if _count[place] < KEPT:
        _kept[place][_count[place]] = memory
        _count[place] += 1
    else:
        PyObject_Free(memory)


def adopt(cls):
    """Tell of an array type of the library's own, whose instances hold nothing but nodes.

    Such objects are in no cycle, so that the collector of cycles need not know them; types that programs derive from
    it have attributes, and are collected as usual.
    """
    cdef Type* type_ = <Type*> cls
    if type_.tp_basicsize >= LARGEST or type_.tp_dictoffset:
        return
    type_.tp_flags &= ~Py_TPFLAGS_HAVE_GC
    type_.tp_traverse = type_.tp_clear = NULL
    type_.tp_alloc, type_.tp_free = _alloc, _free
    PyType_Modified(<PyTypeObject*> cls)
