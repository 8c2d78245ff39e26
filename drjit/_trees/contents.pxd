cimport cython

from drjit_core.ir.frames cimport closure_of, defaults_of, further_of
from drjit._trees.kinds cimport about, is_library, kind_at

cdef int BUILTIN, CELL, CLASS, DATA, DICT, FUNCTION, GENERATOR, LIST, METHOD, MODULE, OBJECT, PARTIAL, REFERRING, TUPLE, VALUE


cpdef list listed(object value)
cpdef dict entries_of(object container, int kind)
cpdef dict attributes_in_dict(object container)
@cython.locals(found=dict)
cpdef dict attributes_of(object owner)
cpdef object contents_of(object cell)
cpdef list parts_of(object value, int kind)
cpdef write_place(object container, int kind, object key, object value)
