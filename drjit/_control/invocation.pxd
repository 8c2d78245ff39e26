from drjit_core.context cimport current
from drjit_core.ir.dual cimport primal
from drjit._access.lanes cimport Watch, written_from
from drjit._access.store cimport end_since, standing
from drjit_core.ir.node cimport Node
from drjit._control.choice cimport SymbolicChoice, called_directly
from drjit._control.given cimport Given
from drjit._control.results cimport Results
from drjit._control.state cimport lane_shape, told_apart


cdef long long _DEBUG, _OPTIMIZE_CALLS, _SYMBOLIC_CALLS
cdef int _LITERAL


cdef class _Call:
    cdef str function
    cdef object nothing_at
    cdef object words
    cdef object targets
    cdef object names
    cdef object label
    cdef Node index
    cdef Node mask
    cdef object given_mask
    cdef str mode
    cdef bint named
    cdef object roots
    cdef Given given
    cdef Results results
    cdef Py_ssize_t width
    cdef object result(self)
    cdef object symbolic(self)
    cdef object directly(self, Py_ssize_t number)
    cdef object nothing(self)
    @cython.locals(node=Node, old=Node, new=Node, position=cython.Py_ssize_t)
    cdef require_whole(self, list nodes, list part, dict changed, Py_ssize_t number, Watch watch)


cdef bint _is_mask(object value) except -1
