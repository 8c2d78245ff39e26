"""The compiled form of ``vertex.py``: vertices are in a list, in order of their ids."""

cimport cython
from cpython.object cimport PyObject

from ..context cimport current
from ..ops.derivatives cimport Rule

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*) noexcept

LEAF, HUB = Rule("", ()), Rule("custom", ())

cdef Rule _LEAF = LEAF
cdef Rule _HUB = HUB
cdef int64_t _last = 0
cdef PyObject* _youngest = NULL
#: Vertices whose last reference is here: they die one after the other, not one within the other.
cdef list _waiting = []
cdef bint _releasing = False


@cython.no_gc
@cython.freelist(256)
cdef class Vertex:
    """One differentiable operation (see the plain form)."""

    def __cinit__(self):
        global _last, _youngest
        _last += 1
        self.id = _last
        region = current().region
        if region is not None:
            self.scope = region.id
        self.older = _youngest
        if _youngest != NULL:
            (<Vertex> _youngest).younger = <PyObject*> self
        _youngest = <PyObject*> self

    def __init__(self, Rule rule, int type_, int64_t size, Vertex a=None, Vertex b=None, Vertex c=None, info=None):
        self.rule, self.type, self.size = rule, type_, size
        self.a, self.b, self.c, self.info = a, b, c, info

    def __dealloc__(self):
        global _youngest, _releasing
        if self.older != NULL:
            (<Vertex> self.older).younger = self.younger
        if self.younger != NULL:
            (<Vertex> self.younger).older = self.older
        else:
            _youngest = self.older
        if _waiting is None:  # the process ends
            return
        if self.a is not None and Py_REFCNT(<PyObject*> self.a) == 1:
            _waiting.append(self.a)
            self.a = None
        if self.b is not None and Py_REFCNT(<PyObject*> self.b) == 1:
            _waiting.append(self.b)
            self.b = None
        if self.c is not None and Py_REFCNT(<PyObject*> self.c) == 1:
            _waiting.append(self.c)
            self.c = None
        if not _releasing:
            _releasing = True
            while _waiting:
                _waiting.pop()
            _releasing = False

    def operands(self):
        """The vertices that it depends on."""
        if self.rule is _HUB:
            return list(self.info.inputs)
        cdef list found = []
        if self.a is not None:
            found.append(self.a)
        if self.b is not None:
            found.append(self.b)
        if self.c is not None:
            found.append(self.c)
        return found

    cpdef release(self):
        """Cut the edges to operands, with all that was kept for them: from now on it is a variable like any."""
        self.rule = _LEAF
        self.a = self.b = self.c = None
        self.info = None
        self.x = self.y = self.z = self.r = None

    def __reduce_ex__(self, protocol):
        raise TypeError("cannot pickle or copy a vertex of the graph of derivatives")

    @property
    def name(self):
        """What listings call it."""
        return self.rule.name.rstrip("_")


cpdef Vertex new_vertex(Rule rule, int type_, int64_t size, Vertex a, Vertex b, Vertex c):
    """A vertex that has kept nothing yet."""
    cdef Vertex vertex = Vertex.__new__(Vertex)
    vertex.rule = rule
    vertex.type = type_
    vertex.size = size
    vertex.a = a
    vertex.b = b
    vertex.c = c
    return vertex


def live_vertices(int64_t first=0):
    """The vertices that exist, from an id on, in order of ids."""
    cdef list found = []
    cdef PyObject* vertex = _youngest
    while vertex != NULL and (<Vertex> vertex).id >= first:
        found.append(<Vertex> vertex)
        vertex = (<Vertex> vertex).older
    found.reverse()
    return found


cpdef int64_t last_vertex() noexcept:
    """A number from the ids of the vertices that exist up to those of the vertices that will."""
    return _last
