from drjit_core.context cimport current
from drjit._control.iteration cimport SymbolicLoop, require_tuple, uninitialized
from drjit._control.state cimport arguments
from drjit._trees.pytree cimport TreeSpec, flatten_nodes

cdef long long _COMPRESS_LOOPS, _SYMBOLIC_LOOPS
cdef _require_initialized(list nodes, list leaves, TreeSpec spec, object names)
cdef object _scalar(object state, object cond, object body)
