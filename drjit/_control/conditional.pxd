from drjit_core.ir.node cimport Node
from drjit._control.choice cimport Results, SymbolicChoice, run_directly
from drjit._control.state cimport mask_of, told_apart, uninitialized

cdef Node _mask(object cond)
cdef _check_labels(str name, object labels)
