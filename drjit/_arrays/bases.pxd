cimport cython

from drjit_core.ir.node cimport Node
from drjit_core.ir.number cimport number
from drjit_core.ir.symbolic cimport size_for_program
from drjit_core.ir.trace cimport binary, cast, unary
from drjit_core.runtime.contents cimport read_element
from drjit._base.handle cimport Handle, add_view, flat_component, fresh_array, held, view_at
from drjit._base.methods cimport FlatSlots, NestedSlots, Operators, TensorSlots
from drjit._promotion.componentwise cimport Componentwise, Loader, Operation, flat_array, nested_array, trace2, trace3
from drjit._rules.matrix cimport dot, multiply

cdef int _MUL
cdef list _OPERATIONS, _UNARY, _UNARY_ROWS, _UNARY_METHODS


@cython.locals(row=cython.int)
cdef Node trace_one(int operation, Node node)
cdef Node trace_two(Operation operation, Node a, Node b)
@cython.locals(known=Componentwise)
cdef object planned(Operation operation, object self, object other)
@cython.locals(known=Componentwise)
cdef object planned_reverse(Operation operation, object self, object other)
cdef object _assigned(object array, object result)


@cython.no_gc
cdef class FlatHandle(FlatSlots):
    @cython.locals(array=Handle, right=Node, node=Node, what=Operation, result=Handle)
    cdef object _forward(self, int operation, object other)
    @cython.locals(left=Node, node=Node, what=Operation)
    cdef object _reverse(self, int operation, object other)
    cdef object _inplace(self, int operation, object other)
    @cython.locals(node=Node)
    cdef object _unary(self, int operation)


@cython.locals(node=Node, scalar=cython.int, nodes=list)
cpdef list nodes_of(object cls, tuple values)


@cython.no_gc
cdef class NestedHandle(NestedSlots):
    @cython.locals(array=Handle, flat=Handle, left=list, right=list, nodes=list, node=Node, what=Operation, k=cython.Py_ssize_t)
    cdef object _forward(self, int operation, object other)
    @cython.locals(flat=Handle, right=list, nodes=list, node=Node, what=Operation, k=cython.Py_ssize_t)
    cdef object _reverse(self, int operation, object other)
    cdef object _inplace(self, int operation, object other)
    cdef object _unary(self, int operation)


@cython.locals(result=Handle, count=cython.Py_ssize_t)
cpdef object component_of(NestedSlots array, Py_ssize_t position)
cdef Py_ssize_t outer_size(NestedSlots array) except -1
@cython.locals(cls=object)
cdef bint replace_component(Handle array, Py_ssize_t position, object value) except *


@cython.no_gc
cdef class TensorHandle(TensorSlots):
    @cython.locals(array=Handle, right=Node, node=Node, what=Operation)
    cdef object _forward(self, int operation, object other)
    @cython.locals(left=Node, node=Node, what=Operation)
    cdef object _reverse(self, int operation, object other)
    cdef object _inplace(self, int operation, object other)
    @cython.locals(node=Node)
    cdef object _unary(self, int operation)


@cython.locals(result=Handle)
cpdef object tensor(object cls, Node node, tuple shape)


cdef class TensorPlan(Componentwise):
    cdef public object align
    cdef public object align_two
    @cython.locals(left=Node, right=Node, shape=tuple, other=tuple)
    cpdef object two(self, object a, object b)
    @cython.locals(one=tuple, two=tuple, three=tuple, shape=tuple)
    cpdef object three(self, object a, object b, object c)


@cython.locals(array=Handle, flat=Handle)
cpdef tuple shape_of(object operand)
@cython.locals(left=Handle, right=Handle)
cpdef object inner_product(object a, object b)


cdef class MatrixProduct:
    cdef public object result
    cdef public int scalar
    cdef public Py_ssize_t size


@cython.locals(a=Handle, b=Handle)
cpdef object matrix_product(MatrixProduct plan, object left, object right)
@cython.locals(first=Node, node=Node)
cdef list _cast(list nodes, int scalar)


cdef class Component:
    cdef public Py_ssize_t position
    cdef public object missing
    cdef public object assign
    cdef public object __doc__


@cython.locals(known=Handle, node=Node, nodes=list)
cpdef object square(object array)
