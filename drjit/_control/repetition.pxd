cimport cython

from drjit_core.context cimport current
from drjit._access.store cimport end_since, standing
from drjit._control.given cimport Given
from drjit._control.iteration cimport SymbolicLoop, require_tuple
from drjit._control.state cimport told_apart, uninitialized

cdef long long _COMPRESS_LOOPS, _SYMBOLIC_LOOPS
cdef tuple _checked(object state, object cond, object body, object labels, object label, object mode, object strict,
                    object compress, object max_iterations)
cpdef object loop(object state, object cond, object body, object labels=*, object label=*, object mode=*,
                  object strict=*, object compress=*, object max_iterations=*, object late=*, object test=*)
@cython.locals(given=Given)
cdef object _run(object state, object cond, object body, object names, object label, object mode, object strict,
                 object max_iterations, object compress, object late, object first)
cdef object _scalar(object state, object cond, object body, object test)
cdef object _traced(Given given, object cond, object body, object names, object label, object mode, object strict,
                    object max_iterations, object compress, object late, object first)
