from drjit._trees.pytree cimport TreeSpec

cpdef object arguments(object function, TreeSpec spec, object nodes, list leaves)
