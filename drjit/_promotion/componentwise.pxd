cimport cython

from drjit_core.ir.node cimport Node
from drjit_core.ir.number cimport number
from drjit_core.ir.trace cimport binary, cast, ternary, unary
from drjit._base.handle cimport Handle, fresh_array, held
from drjit._base.methods cimport FlatSlots, NestedSlots

cdef int _SELECT
cdef int _FLAT, _NUMBER, _NESTED, _OTHER


cdef class Operation:
    cdef public str name
    cdef public int kind
    cdef public int row
    cdef public bint mask
    cdef public object trace
    cdef public object make_plan
    cdef public dict plans
    cdef public tuple _last


cdef class Loader:
    cdef public int how
    cdef public int scalar
    cdef public int count
    cdef public bint casts
    cdef public object function
    @cython.locals(node=Node)
    cpdef Node node(self, object operand)
    @cython.locals(array=Handle, found=list, node=Node)
    cpdef list nodes(self, object operand)


cpdef Node trace2(int row, object trace, Node a, Node b)
cpdef Node trace3(int row, object trace, Node a, Node b, Node c)


cdef class Componentwise:
    cdef public object trace
    cdef public int row
    cdef public bint flat
    cdef public bint direct
    cdef public object result
    cdef public list loaders
    cdef public Loader first
    cdef public Loader second
    cdef public Loader third
    @cython.locals(row=cython.int, left=list, right=list, nodes=list, k=cython.Py_ssize_t)
    cpdef object two(self, object a, object b)
    @cython.locals(row=cython.int, one=list, two=list, three=list, nodes=list, k=cython.Py_ssize_t)
    cpdef object three(self, object a, object b, object c)


@cython.locals(result=Handle)
cpdef object flat_array(object cls, Node node)
@cython.locals(result=Handle)
cpdef object nested_array(object cls, list nodes)
@cython.locals(array=FlatSlots, row=cython.int)
cpdef object of_one(Operation operation, object a)
@cython.locals(known=Componentwise)
cpdef object of_two(Operation operation, object a, object b)
@cython.locals(known=Componentwise)
cpdef object of_three(Operation operation, object a, object b, object c)


cdef class Chosen(Componentwise):
    @cython.locals(condition=cython.bint, left=list, right=list, nodes=list, k=cython.Py_ssize_t)
    cpdef object three(self, object a, object b, object c)


@cython.locals(node=Node)
cpdef Node chosen(bint condition, Node first, Node second)


cdef class Masking(Componentwise):
    cdef public Node zero
    @cython.locals(left=list, right=list, nodes=list, k=cython.Py_ssize_t)
    cpdef object two(self, object a, object b)


cpdef Node masked(Node mask, Node value, Node zero)
