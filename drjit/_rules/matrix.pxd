cimport cython

from drjit_core.ir.node cimport Node
from drjit_core.ir.trace cimport binary, ternary

cdef int _MUL, _FMA


@cython.locals(result=Node, left=Node, right=Node, k=cython.Py_ssize_t)
cpdef Node dot(list a, list b, Node addend=*)
@cython.locals(result=Node, left=Node, right=Node, columns=cython.Py_ssize_t, row=cython.Py_ssize_t, column=cython.Py_ssize_t, k=cython.Py_ssize_t, products=list)
cpdef list multiply(list a, list b, Py_ssize_t n, list addend=*)
