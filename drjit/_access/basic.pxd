cimport cython

from drjit_core.ir.node cimport Node
from drjit._base.handle cimport Handle, fresh_array, held

cdef dict _known


cdef class Part:
    cdef public object access
    cdef public object base
    cdef public tuple shape
    cdef public tuple strides
    cdef list _first
    cdef list _axes
    cdef tuple _extents
    cdef tuple _steps
    cdef object _size
    @cython.locals(size=object, entry=object)
    cpdef tuple placed(self, object offset, tuple strides)
    @cython.locals(axes=cython.Py_ssize_t)
    cpdef Node of_node(self, Node node)


@cython.locals(found=Part)
cpdef Part part_of(tuple shape, object key)
@cython.locals(names=list)
cdef object _name_of(object key)
cpdef Part permuted(tuple shape, tuple order)
@cython.locals(result=Handle)
cpdef object reshaped(object tensor, tuple shape)
@cython.locals(result=Handle)
cpdef object of_memory(object cls, object value)
