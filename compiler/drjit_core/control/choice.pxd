cimport cython
from libc.stdint cimport int64_t

from ..context cimport current
from ..ir.build cimport append, broadcast_size_of, invalid, where_of
from ..ir.node cimport Node
from ..ir.region cimport Call, Choice, Cond, Region, is_version, origin_of
from ..ir.symbolic cimport Tracing, innermost, scope_of_all
from .construct cimport Construct, Functions, Traced, results_of, written_widths

cdef list _EMPTY
cdef dict _UNWRITTEN, _UNALIASED
cdef int _FEW
cdef int CALL, COND, LITERAL, LOOP, PHI, RESULT, BOOL


cdef class Targets(Functions):
    cdef object functions
    cdef object more
    cdef object names
    cpdef list target(self, Py_ssize_t number, list formals)
    cpdef list joined(self, Py_ssize_t number)
    cpdef object name_of(self, Py_ssize_t position)


cdef class _Choice(Construct):
    cdef public Node mask
    cdef public Node index
    cdef public Py_ssize_t number
    cdef public Py_ssize_t first
    cdef public bint merged
    cdef public bint uniform
    cdef public list single
    cdef public int64_t least
    cdef public bint joins
    cdef public Node apart
    @cython.locals(varying=frozenset, written=frozenset, one=Traced, mask=Node, aliases=dict, passed=dict, values=list, order=list, regions=list, i=cython.Py_ssize_t, width=int64_t)
    cpdef tuple trace(self)
    @cython.locals(traced=Traced)
    cpdef frozenset written_of(self, frozenset positions)
    @cython.locals(traced=Traced, i=cython.Py_ssize_t)
    cpdef list regions(self, list values, list written)
    @cython.locals(one=Traced, mask=Node, apart=Node, region=Region, traced=Traced, writes=cython.bint)
    cpdef bint grows(self, list regions, Py_ssize_t count) except -1
    @cython.locals(region=Region, one=Traced, mask=Node, value=Node, results=tuple, size=int64_t, i=cython.Py_ssize_t)
    cpdef int64_t size(self, object regions, Py_ssize_t count) except? -1
    cpdef bint mask_is_known(self) except -1
    @cython.locals(values=list, i=cython.Py_ssize_t, k=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef bint repeats_values(self) except -1
    @cython.locals(outer=Tracing, live=Node, width=int64_t, traced=Traced, sources=list, wide=list, more=list, number=cython.Py_ssize_t)
    cpdef attempt(self)
    @cython.locals(value=Node, region=Tracing)
    cpdef trace_into(self, Traced traced)
    @cython.locals(first=list, one=Traced, own=Node, other=Node, i=cython.Py_ssize_t)
    cpdef check(self, list results)
    @cython.locals(traced=Traced, region=Region, mask=Node, formal=Node, i=cython.Py_ssize_t, number=cython.Py_ssize_t, varying=list, initial=list, outputs=list, results=list)
    cpdef tuple finish(self, list regions, dict aliases, dict passed, list values, list written)
    @cython.locals(formals=list, results=list, i=cython.Py_ssize_t)
    cpdef Region region(self, Traced traced, list values, list written)
    @cython.locals(outer=Tracing, enclosing=Node, region=Region, used=list, size=int64_t, scope=int64_t)
    cpdef Node node(self, Choice choice)
    @cython.locals(traced=Traced, result=Node, formal=Node, i=cython.Py_ssize_t, found=dict)
    cpdef dict aliases(self)
    @cython.locals(one=Traced, mask=Node, first=Node, result=Node, i=cython.Py_ssize_t, width=int64_t, found=dict)
    cpdef dict passed(self)
    @cython.locals(traced=Traced, result=Node, found=cython.bint)
    cpdef bint has_nothing(self, Py_ssize_t position) except -1
    @cython.locals(traced=Traced)
    cpdef bint all_return(self, Py_ssize_t position, Node value) except -1
    cpdef Node outside(self, Traced traced, Node result)


@cython.locals(region=Region)
cdef list _written(object regions)
cpdef tuple cond(Node mask, object arguments, object true, object false, object label=*, object name_of=*,
                 Py_ssize_t count=*, bint differentiates=*, object joined=*, object memory=*)
cpdef tuple call(Node index, Node mask, object targets, object arguments, object label=*, object name_of=*,
                 Py_ssize_t count=*, bint differentiates=*, object joined=*, object memory=*)
cpdef tuple chosen(Functions functions, Py_ssize_t number, Node mask, Node index, object arguments, object label=*,
                   Py_ssize_t count=*, bint differentiates=*, object memory=*)
