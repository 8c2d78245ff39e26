cimport cython
from libc.stdint cimport int64_t

from ..context cimport current
from ..ir.build cimport append, broadcast_size_of, where_of
from ..ir.dual cimport primal
from ..ir.node cimport Node
from ..ir.region cimport Loop, Region, is_local, is_version, operands, origin_of
from ..ir.symbolic cimport Tracing, innermost, scope_of_all
from ..ir.trace cimport is_simpler
from .construct cimport Construct, Functions, Traced, results_of, written_widths

cdef list _EMPTY
cdef int BITCAST, CAST, EVALUATED, FIRST_ELEMENTWISE, LITERAL, LOOP, PHI, BOOL
cdef long long OPTIMIZE_LOOPS


cpdef list while_loop(object initial, object condition, object body, object label=*, object name_of=*,
                      Py_ssize_t variables=*, object trips=*, bint together=*, bint differentiates=*,
                      Py_ssize_t presumed=*, object again=*, frozenset memory=*)


cpdef list repeated(Functions functions, object initial, object label=*, Py_ssize_t variables=*, object trips=*,
                    bint together=*, bint differentiates=*, Py_ssize_t presumed=*, object again=*, frozenset memory=*)


cdef class _Pair(Functions):
    cdef object condition
    cdef object body
    cdef object names
    cpdef Node test(self, list variables)
    cpdef list following(self, list variables)
    cpdef object name_of(self, Py_ssize_t position)


cdef class _Loop(Construct):
    cdef public object trips
    cdef public bint together
    cdef public frozenset changed
    cdef public frozenset reassigned
    cdef public bint uniform
    cdef public list single
    cdef public object misfit
    cdef public int64_t misfitting
    cdef public int64_t least
    cdef public bint kept
    cdef public int64_t size
    cdef public list variables
    cdef public Node test
    cdef public list results
    @cython.locals(i=cython.Py_ssize_t, value=Node)
    cpdef note_local(self)
    @cython.locals(outer=Tracing, live=Node)
    cpdef assume(self, again)
    cpdef list trace(self)
    cpdef frozenset written_or_reassigned(self, frozenset outside)
    @cython.locals(variable=Node)
    cpdef bint uses(self, Region region, frozenset positions) except -1
    @cython.locals(traced=Traced, scope=int64_t, stands=dict, formal=Node, value=Node, users=list, node=Node,
                   operand=Node, a=Node, b=Node, c=Node, x=Node, y=Node, z=Node, varies=cython.bint, differ=cython.bint,
                   labelled=cython.bint, size=int64_t, values=set, result=Node, part=list)
    cpdef bint puts_in(self, Region region, frozenset positions) except -1
    cpdef frozenset but_arrays(self, frozenset positions)
    @cython.locals(size=int64_t, needed=int64_t, found=int64_t, region=Region, value=Node, one=Traced, entering=Node, outer=Tracing, i=cython.Py_ssize_t, probed=cython.bint, narrowed=cython.bint, grown=cython.bint, again=cython.bint, known=cython.bint)
    cpdef list repeat(self)
    @cython.locals(found=list, i=cython.Py_ssize_t, variable=Node, result=Node)
    cpdef frozenset unchanged(self)
    @cython.locals(traced=Traced, outer=Tracing, i=cython.Py_ssize_t, first=cython.Py_ssize_t, presumed=frozenset, same=dict, stand=Node)
    cpdef bint settles(self) except -1
    cpdef int64_t width(self, bint strict=*) except? -1
    @cython.locals(test=Node, before=Node, after=Node, i=cython.Py_ssize_t, size=int64_t)
    cpdef int64_t needed(self, Region region, frozenset apart) except? -1
    @cython.locals(i=cython.Py_ssize_t, node=Node)
    cpdef list but(self, frozenset left_out, list nodes)
    @cython.locals(traced=Traced, sources=list)
    cpdef attempt(self, int64_t size)
    @cython.locals(region=Tracing, entering=Node, live=Node)
    cpdef trace_into(self, Traced traced)
    @cython.locals(i=cython.Py_ssize_t, before=Node, after=Node)
    cpdef check_results(self, list results, Py_ssize_t adopted)
    @cython.locals(formal=Node, result=Node)
    cpdef check_versions(self, Traced traced)
    @cython.locals(formal=Node, result=Node, origin=Node, id_=int64_t, traced=Traced)
    cpdef check_memory(self, frozenset unchanged)
    @cython.locals(traced=Traced)
    cpdef Region region(self, frozenset alone=*)
    @cython.locals(loop=Loop, outer=Tracing, mask=Node, formal=Node, scope=int64_t, initial=list, used=list, outputs=list, deferred=cython.bint)
    cpdef list finish(self, Region region, int64_t size)


cdef _check_condition(Node test)
@cython.locals(scope=int64_t, outside=list, part=list, node=Node, operand=Node, a=Node, b=Node, c=Node)
cpdef bint put_back(dict stands, Traced traced, Node test, list results) except -1
