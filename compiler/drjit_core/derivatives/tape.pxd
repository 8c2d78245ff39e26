cimport cython
from libc.stdint cimport int64_t

from ..control.demand cimport Demand
from ..control.inline cimport Values, trace_again
from ..ir.build cimport literal
from ..ir.dual cimport dual, primal, tracked, vertex_of
from ..ir.node cimport Node
from ..ir.symbolic cimport Tracing, innermost
from ..ir.vertex cimport Vertex, last_vertex
from ..ops.derivatives cimport Rule
from .flow cimport Flow
from .traversal cimport pull_along, push

cdef dict _NOTHING



cdef class Tape:
    cdef public int64_t scope
    cdef public int64_t boundary
    cdef public dict adopted
    cdef public list formals
    cdef public list masks
    cdef public list values
    cdef public list results
    cdef public list vertices
    cdef public dict leaves
    cdef public dict positions
    cdef public dict demands
    cdef dict _orders
    cdef dict _inputs
    cpdef bint is_outside(self, Vertex vertex) except -1
    cpdef bint is_end(self, Vertex vertex) except -1
    @cython.locals(leaf=Vertex)
    cpdef keep_leaves(self, dict leaves)
    @cython.locals(vertex=Vertex, flowing=set)
    cpdef keep(self, object places)
    cpdef tuple there(self, object places)
    @cython.locals(vertex=Vertex, todo=list, found=list, seen=set)
    cpdef list reached(self, object vertices)
    @cython.locals(vertex=Vertex)
    cpdef list at(self, object places)
    @cython.locals(vertex=Vertex, operand=Vertex, live=set, found=list)
    cpdef list order(self, tuple places)
    cpdef list ends(self, object places)
    @cython.locals(vertex=Vertex, entry=Vertex, order=list, live=set, found=dict, rule=Rule, by_index=cython.bint)
    cpdef list _ends_of(self, tuple places)
    cdef _note_end(self, Vertex operand, bint is_read, bint is_direct, set live, dict found)
    @cython.locals(formal=Node, value=Node, node=Node, roots=list, apart=list, position=cython.Py_ssize_t)
    cpdef Demand demand(self, object places, object wanted=*, bint repeats=*)


@cython.locals(vertex=Vertex)
cdef list _kept_by(object vertices)
cdef bint _is_read(Vertex vertex, Py_ssize_t place) except -1


cdef class Moved:
    cdef public int64_t scope
    cdef public Values values
    cdef public dict _vertices
    cpdef bint is_outside(self, Vertex vertex) except -1
    @cython.locals(a=Vertex, b=Vertex, c=Vertex, new=Vertex)
    cpdef Vertex copied(self, Vertex vertex)
    cpdef object _known(self, Vertex vertex)
    cpdef Vertex vertex(self, Vertex vertex)
    @cython.locals(value=Node)
    cpdef Node node(self, Node node)


cdef class Copy(Moved):
    cdef public Tape tape
    cdef public dict leaves
    cdef public list vertices
    cdef public dict results
    cpdef bint is_outside(self, Vertex vertex) except -1
    cpdef Node value(self, Py_ssize_t place)


cdef class Recorded:
    cdef object __weakref__
    cdef public str name
    cdef public list given
    cdef public object deciding
    cdef public dict tapes
    cdef public list demands
    cdef public list places
    cdef public list widths
    cdef public list changed
    cdef public list initial
    cdef public list inputs
    cdef public list positions
    cdef public list read
    cdef public list direct
    cdef public object reference
    cdef public dict attributes
    cdef public Node node
    cdef public dict received
    cdef public dict sent
    cdef public object nodes_around
    cdef public object vertices_around
    cdef public list keys
    @cython.locals(first=Node, hub=Vertex, node=Node, place=cython.Py_ssize_t)
    cpdef list results(self, list outputs, list found, str label)
    @cython.locals(tape=Tape, vertex=Vertex, found=dict, outside=Vertex)
    cpdef find_inputs(self)
    @cython.locals(tape=Tape)
    cpdef adopt(self)
    cpdef bint extends(self) except -1
    @cython.locals(derivative=Node, places=dict, result=Node)
    cpdef tuple extended(self, list results, list given, Py_ssize_t first=*)
    cpdef list demanded(self)
    cpdef dict vertices_of_variables(self)
    @cython.locals(tape=Tape)
    cpdef list recordings(self)
    @cython.locals(vertex=Vertex, found=dict)
    cpdef list at(self, object places)
    @cython.locals(vertex=Vertex)
    cpdef tuple receiving(self, Flow flow)
    @cython.locals(vertex=Vertex, to=dict, pairs=list, results=list)
    cpdef tuple flowing(self, Flow flow, Copy copy, object gradients, object further, list read, list direct,
                        list memory)
    @cython.locals(pairs=list, moved=list)
    cpdef dict moving(self, Copy copy, object changes, bint again)
    cpdef refuse(self, Tape tape, object refused)
    @cython.locals(tape=Tape, demand=Demand, formal=Node)
    cpdef list needed(self)


@cython.locals(region=Tracing, leaf=Vertex, formal=Node, inside=list, leaves=dict)
cpdef tuple taped(object function, list formals, dict variables)
