cimport cython

from drjit_core.ir.node cimport Node
from drjit_core.ir.trace cimport gather
from drjit._base.handle cimport held
from drjit._base.methods cimport FlatSlots
from drjit._promotion.componentwise cimport flat_array

cdef int _LITERAL, _UINT32, _BOOL


@cython.locals(nodes=Node, positions=Node, mask=Node)
cpdef object read(object dtype, object source, object index, object active)
