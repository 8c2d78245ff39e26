cimport cython

from ..ir.node cimport Node
from ..ir.region cimport Loop, Region

cdef int _ADD, _AND, _LT, _LE, _GT, _GE, LITERAL, PHI


@cython.locals(node=Node, conditions=list)
cpdef object trips_of(Loop loop)
@cython.locals(region=Region, formal=Node, final=Node, initial=Node, step=Node, position=cython.Py_ssize_t)
cdef object _count(Loop loop, Node counter, Node limit, bint reaches)
