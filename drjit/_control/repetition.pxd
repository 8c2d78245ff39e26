from drjit_core.context cimport current
from drjit._control.iteration cimport SymbolicLoop, require_tuple
from drjit._control.state cimport told_apart, uninitialized

cdef long long _COMPRESS_LOOPS
cdef object _scalar(object state, object cond, object body, object test)
