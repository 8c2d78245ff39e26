cimport cython
from libc.stdint cimport int64_t

from ..context cimport current
from ..ir.build cimport append, broadcast_size_of, new_formal, where_of
from ..ir.dual cimport primal, tracked
from ..ir.node cimport Node
from ..ir.region cimport Loop, Region
from ..ir.symbolic cimport Tracing, close, innermost, open_
from .construct cimport results_of

cdef int DUAL, LITERAL, LOOP, BOOL, EXCHANGE

@cython.locals(initial=list, values=cython.Py_ssize_t, i=cython.Py_ssize_t, size=int64_t, region=Tracing, formals=list,
               masks=list, formal=Node, value=Node, payload=Loop)
cdef list _update(Node mask, object state, object body, object uses, Py_ssize_t targets)
