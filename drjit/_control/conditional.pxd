from drjit_core.ir.node cimport Node
from drjit._control.choice cimport Results, SymbolicChoice, run_directly
from drjit._control.iteration cimport uninitialized
from drjit._control.state cimport arguments, mask_of
from drjit._trees.pytree cimport TreeSpec, flatten_nodes

cdef Node _mask(object cond)
cdef _check_labels(str name, object labels)
cdef _require_initialized(list nodes, list leaves, TreeSpec spec, object names)
