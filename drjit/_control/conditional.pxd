cimport cython

from drjit_core.context cimport current
from drjit._access.store cimport end_since, standing
from drjit_core.ir.node cimport Node
from drjit._control.given cimport Given
from drjit._control.choice cimport SymbolicChoice, run_directly
from drjit._control.results cimport Results
from drjit._control.state cimport mask_of, shape_of, told_apart, uninitialized

cdef long long _SYMBOLIC_CONDITIONALS
cdef int _LITERAL

cdef Node _mask(object cond)
cdef _check_labels(str name, object labels)
cdef _check(object args, object true_fn, object false_fn, object arg_labels, object rv_labels,
            object label, object mode, object strict)
@cython.locals(given=Given)
cpdef object branch(object args, object cond, object true_fn, object false_fn, object arg_labels=*,
                    object rv_labels=*, object label=*, object mode=*, object strict=*, object fill=*, object sides=*)
@cython.locals(results=Results)
cdef object _joined(Given given, Node mask, object cond, object true_fn, object false_fn, object arg_labels,
                    object rv_labels, object label, object mode, object strict, object fill, object sides)
