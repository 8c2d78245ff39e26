cimport cython

from drjit_core.ir.node cimport Node
from drjit_core.ir.number cimport number
from drjit_core.ir.trace cimport binary
from drjit._base.handle cimport add_view, fresh, view_at
from drjit._base.operators cimport FlatSlots, NestedSlots, TensorSlots
from drjit._promotion.componentwise cimport Componentwise, Operation, flat_array, nested_array

cdef list _OPERATIONS, _UNARY, _UNARY_METHODS


cdef Node trace_two(Operation operation, Node a, Node b)
@cython.locals(known=Componentwise)
cdef object planned(Operation operation, object self, object other)
@cython.locals(known=Componentwise)
cdef object planned_reverse(Operation operation, object self, object other)
cdef object _assigned(object array, object result)


@cython.no_gc
cdef class FlatHandle(FlatSlots):
    @cython.locals(array=FlatSlots, right=Node, node=Node, what=Operation)
    cdef object _forward(self, int operation, object other)
    @cython.locals(left=Node, node=Node, what=Operation)
    cdef object _reverse(self, int operation, object other)
    cdef object _inplace(self, int operation, object other)
    @cython.locals(node=Node)
    cdef object _unary(self, int operation)


@cython.no_gc
cdef class NestedHandle(NestedSlots):
    @cython.locals(array=NestedSlots, flat=FlatSlots, left=list, right=list, nodes=list, node=Node, what=Operation, k=cython.Py_ssize_t)
    cdef object _forward(self, int operation, object other)
    @cython.locals(flat=FlatSlots, right=list, nodes=list, node=Node, what=Operation, k=cython.Py_ssize_t)
    cdef object _reverse(self, int operation, object other)
    cdef object _inplace(self, int operation, object other)
    cdef object _unary(self, int operation)


@cython.locals(nodes=list, inner=NestedSlots, flat=FlatSlots, count=cython.Py_ssize_t)
cpdef object component_of(NestedSlots array, Py_ssize_t position)


@cython.no_gc
cdef class TensorHandle(TensorSlots):
    @cython.locals(array=TensorSlots, right=Node, node=Node, what=Operation)
    cdef object _forward(self, int operation, object other)
    @cython.locals(left=Node, node=Node, what=Operation)
    cdef object _reverse(self, int operation, object other)
    cdef object _inplace(self, int operation, object other)
    @cython.locals(node=Node)
    cdef object _unary(self, int operation)


@cython.locals(result=TensorSlots)
cpdef object tensor(object cls, Node node, tuple shape)
