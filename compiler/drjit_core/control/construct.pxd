cimport cython
from libc.stdint cimport int64_t

from ..context cimport current
from ..ir.build cimport append, new_formal
from ..ir.dual cimport primal, tracked
from ..ir.frames cimport user_place
from ..ir.node cimport Node
from ..ir.region cimport Control, Region, is_local, writes
from ..ir.symbolic cimport Tracing, close, innermost, open_, replace_version, scope_of_all
from ..ir.vertex cimport any_vertex

cdef int LOOP, PHI, RESULT, BOOL
cdef dict _NOTHING
cdef list _EMPTY
cdef dict _UNKNOWN


cdef class Functions:
    cpdef Node test(self, list variables)
    cpdef list following(self, list variables)
    cpdef list target(self, Py_ssize_t number, list formals)
    cpdef list joined(self, Py_ssize_t number)
    cpdef object name_of(self, Py_ssize_t position)


@cython.freelist(16)
cdef class Traced:
    cdef public Tracing region
    cdef public list formals
    cdef public list masks
    cdef public list results
    cdef public Node test
    cdef public object source
    cdef public dict latest
    cdef public dict lent
    cdef public list statements
    cdef public list adopted


cdef class Construct:
    cdef public str function
    cdef public str noun
    cdef public bint differentiates
    cdef public list given
    cdef public object label
    cdef public Functions functions
    cdef public Py_ssize_t first_array
    cdef public tuple place
    cdef public frozenset memory
    cdef public frozenset constant
    cdef public frozenset presumed
    cdef public dict stands
    cdef public object wide
    cdef public list initial
    cdef public list borrowed
    cdef public list statements
    cdef public list traced
    cdef public list called
    cdef public list sources
    cdef public Py_ssize_t calls
    cdef public object failure
    cdef public bint defers
    cdef public bint cautious
    cpdef set_up(self, str function, str noun, Functions functions, object given, object label,
                 Py_ssize_t first_array, bint differentiates)
    @cython.locals(node=Node, found=list)
    cpdef list values(self, object nodes, bint differentiates)
    cpdef begin(self)
    @cython.locals(region=Tracing, formals=list, position=cython.Py_ssize_t, value=Node, is_memory=cython.bint, traced=Traced, formal=Node, mask=Node)
    cpdef Traced enter(self, int64_t size, int64_t width, tuple masks)
    cpdef trace_into(self, Traced traced)
    @cython.locals(region=Tracing, outer=Tracing)
    cpdef bint run(self, Traced traced) except -1
    @cython.locals(traced=Traced, region=Tracing)
    cpdef list recall(self, int64_t width, bint uniform)
    @cython.locals(traced=Traced, found=dict)
    cpdef bint adopts(self) except -1
    @cython.locals(traced=Traced, region=Tracing, formal=Node, position=cython.Py_ssize_t, again=cython.bint, found=frozenset)
    cpdef bint finds_memory(self) except -1
    @cython.locals(outer=Tracing, traced=Traced)
    cpdef bint leaves_trace(self, int64_t width) except -1
    @cython.locals(traced=Traced)
    cpdef bint relied(self) except -1
    @cython.locals(traced=Traced)
    cpdef bint has_deferred(self) except -1
    @cython.locals(traced=Traced)
    cpdef add_borrowed(self)
    @cython.locals(first=Region, formal=Node, value=Node)
    cpdef check_memory_of(self, object regions, list initial, bint deferred=*)
    cpdef settle(self, list versions)


@cython.locals(control=Control, first=Region, results=list, position=cython.Py_ssize_t, last=Node, result=Node, memory=cython.bint)
cpdef list results_of(Node node)
@cython.locals(found=list, node=Node)
cpdef list written_widths(Region region)
