cimport cython
from libc.stdint cimport int64_t

from .node cimport Node, collect

cdef bytes _IS_PLAIN
cdef list _EMPTY
cdef list IS_WRITE, MEMORY_OPERANDS
cdef int PACK, PHI, RESULT, EVALUATED, LITERAL, LOCAL, BOUND, CALL


@cython.freelist(16)
cdef class Region:
    cdef public int64_t id
    cdef public tuple formals
    cdef public tuple masks
    cdef public tuple results
    cdef public tuple parts
    cdef public list accesses
    cdef public set used
    cdef public tuple captures
    cdef public tuple sources
    cdef public tuple inner
    cdef public bint writes
    cdef public object recorded
    @cython.locals(parts=list, users=list, captures=list)
    cpdef set_up(self, int64_t id_, object formals, object masks, object results)
    cpdef object needed(self)


@cython.locals(node=Node, version=Node, value=Node, control=Control, memory=cython.int)
cpdef _look_through(int64_t id_, list nodes, dict captures, dict sources, list inner, list accesses)
cdef _use(int64_t id_, Node value, dict captures)
cpdef bint in_record(Node capture) except -1


cdef class Control:
    cdef public tuple regions
    cdef public tuple initial
    cdef public object label
    cdef public list outputs
    cdef public bint writes
    cdef public object extension
    @cython.locals(region=Region)
    cpdef set_up(self, object regions, object initial, object label)
    @cython.locals(initial=Node, formal=Node, region=Region, formals=tuple, position=cython.Py_ssize_t, found=list)
    cpdef list arguments(self)
    @cython.locals(region=Region)
    cpdef list inputs(self)
    @cython.locals(region=Region)
    cpdef list values(self)
    @cython.locals(initial=Node, formal=Node, region=Region, formals=tuple, position=cython.Py_ssize_t, found=list)
    cpdef list memory(self)
    @cython.locals(region=Region)
    cpdef list sources(self)
    cpdef bint is_memory(self, Py_ssize_t position) except -1
    cpdef Node origin(self, Py_ssize_t position)


cdef class Loop(Control):
    cdef public object single
    cdef public object trips
    @cython.locals(region=Region, formal=Node)
    cpdef bint is_memory(self, Py_ssize_t position) except -1
    cpdef Node origin(self, Py_ssize_t position)


cdef class Choice(Control):
    cdef public Py_ssize_t count
    cdef public tuple memory_of
    cpdef bint is_memory(self, Py_ssize_t position) except -1
    cpdef Node origin(self, Py_ssize_t position)


cdef class Cond(Choice):
    cdef public str rare


cdef class Call(Choice):
    @cython.locals(region=Region)
    cpdef list values(self)


@cython.locals(operand=Node, control=Control)
cpdef list operands(Node node)
@cython.locals(found=list, todo=list, operand=Node)
cpdef list all_operands(Node node)
@cython.locals(found=list)
cpdef list arguments_of(Node node)
cpdef list memory_of(Node node)
cpdef list values_of(Node node)
cpdef bint is_version(Node node) except -1
cpdef bint writes(Node node) except -1
@cython.locals(node=Node)
cpdef bint is_local(Node memory) except -1
@cython.locals(control=Control)
cpdef Node origin_of(Node node, int64_t region)
