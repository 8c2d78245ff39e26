"""The compiled form of ``vertex.py``: vertices are in a list, in order of their ids."""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from libc.stdlib cimport realloc
from libc.string cimport memcpy

from ..context cimport current
from ..ops.derivatives cimport Rule

LEAF, HUB = Rule("", ()), Rule("custom", ())

cdef Rule _LEAF = LEAF
cdef Rule _HUB = HUB
cdef int64_t _last = 0
cdef int64_t _era = 0
cdef PyObject* _youngest = NULL


@cython.no_gc
cdef class Vertex:
    """One differentiable operation (see the plain form)."""

    def __cinit__(self):
        _enter(<PyObject*> self)

    def __init__(self, Rule rule, int type_, int64_t size, Vertex a=None, Vertex b=None, Vertex c=None, info=None):
        self.rule, self.type, self.size = rule, type_, size
        self.a, self.b, self.c, self.info = a, b, c, info

    cpdef list operands(self):
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


cdef inline void _enter(PyObject* vertex):
    """Give a new vertex its number, and its place in the list of those that live."""
    global _last, _youngest
    _last += 1
    (<Vertex> vertex).id = _last
    (<Vertex> vertex).era = _era
    region = current().region
    if region is not None:
        (<Vertex> vertex).scope = region.id
    (<Vertex> vertex).older = _youngest
    if _youngest != NULL:
        (<Vertex> _youngest).younger = vertex
    _youngest = vertex


def live_vertices(int64_t first=0):
    """The vertices that exist, from an id on, in order of ids."""
    cdef list found = []
    cdef PyObject* vertex = _youngest
    while vertex != NULL and (<Vertex> vertex).id >= first:
        found.append(<Vertex> vertex)
        vertex = (<Vertex> vertex).older
    found.reverse()
    return found


cpdef bint any_vertex() noexcept:
    """Whether any vertex exists."""
    return _youngest != NULL


cpdef void begin_era() noexcept:
    """Something has been evaluated: what vertices keep from now on begins with that."""
    global _era
    _era += 1


cpdef int64_t last_vertex() noexcept:
    """A number from the ids of the vertices that exist up to those of the vertices that will."""
    return _last


# --- memory ----------------------------------------------------------------------------------------------------------

cdef enum:
    SIZE = 208
    ATTRIBUTES = 12  # that hold objects

include "node.pxi"


cpdef Vertex new_vertex(Rule rule, int type_, int64_t size, Vertex a, Vertex b, Vertex c):
    """A vertex that has kept nothing yet."""
    cdef Vertex vertex
    cdef PyObject* nothing = <PyObject*> None
    cdef PyObject* made = _blank(<PyObject*> Vertex)
    cdef int k
    for k in range(ATTRIBUTES):
        raise_reference(nothing)
    vertex = <Vertex> made
    drop_reference(made)
    _enter(made)
    vertex.rule = rule
    vertex.type = type_
    vertex.size = size
    if a is not None:
        vertex.a = a
    if b is not None:
        vertex.b = b
    if c is not None:
        vertex.c = c
    return vertex


cdef void _dealloc(PyObject* vertex) noexcept:
    """The end of a vertex."""
    global _youngest
    cdef PyObject* held[ATTRIBUTES]
    cdef int k
    if (<Vertex> vertex).older != NULL:
        (<Vertex> (<Vertex> vertex).older).younger = (<Vertex> vertex).younger
    if (<Vertex> vertex).younger != NULL:
        (<Vertex> (<Vertex> vertex).younger).older = (<Vertex> vertex).older
    else:
        _youngest = (<Vertex> vertex).older
    held[0] = <PyObject*> (<Vertex> vertex).a
    held[1] = <PyObject*> (<Vertex> vertex).b
    held[2] = <PyObject*> (<Vertex> vertex).c
    held[3] = <PyObject*> (<Vertex> vertex).x
    held[4] = <PyObject*> (<Vertex> vertex).y
    held[5] = <PyObject*> (<Vertex> vertex).z
    held[6] = <PyObject*> (<Vertex> vertex).r
    held[7] = <PyObject*> (<Vertex> vertex).rule
    held[8] = <PyObject*> (<Vertex> vertex).info
    held[9] = <PyObject*> (<Vertex> vertex).gradient
    held[10] = <PyObject*> (<Vertex> vertex).pending
    held[11] = <PyObject*> (<Vertex> vertex).label
    _free(vertex)
    for k in range(3):
        _let_go(held[k])
    for k in range(3, ATTRIBUTES):
        drop_reference(held[k])
    if _pending_count and not _releasing:
        _release()


cdef _make_template():
    cdef Vertex sample = Vertex.__new__(Vertex)
    assert (<Type*> Vertex).tp_basicsize <= SIZE
    _take_as_template(<PyObject*> sample)
    cdef PyObject* image = <PyObject*> &_template
    (<Vertex> image).older = (<Vertex> image).younger = NULL

(<Type*> Vertex).tp_dealloc = _dealloc  # before the first one dies, which must leave the list
_make_template()
(<Type*> Vertex).tp_flags &= ~Py_TPFLAGS_BASETYPE  # the memory of instances of a derived type would be other memory
