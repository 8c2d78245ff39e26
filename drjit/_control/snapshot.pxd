cimport cython

from drjit_core.ir.dual cimport primal, tracked
from drjit_core.ir.frames cimport closure_of, code_of, defaults_of, further_of, globals_of
from drjit_core.ir.node cimport Node
from drjit_core.ir.symbolic cimport innermost
from drjit_core.ir.vertex cimport any_vertex
from drjit._base.handle cimport Handle
from drjit._control.closed cimport is_closed, names_of, variables_of
from drjit._trees.contents cimport attributes_in_dict, attributes_of, contents_of, entries_of, listed, parts_of
from drjit._trees.kinds cimport About, about, is_library, is_of_library, is_own, kind_at, refers


cdef inline Py_ssize_t id(object value):  # without an event for audits
    return <Py_ssize_t> <void*> value

cdef int CELL, CLASS, DATA, DICT, FUNCTION, GENERATOR, LIST, MODULE, OBJECT, REFERRING, TUPLE, VALUE, VARIABLES
cdef int _MOST_CONTAINERS, _LITERAL, _PHI
cdef list _EMPTY
cdef dict _NOTHING


@cython.freelist(16)
cdef class Snapshot:
    cdef public list held
    cdef public dict index
    cdef public bint traced
    cdef public bint suspended
    cdef public bint origins
    cdef public bint more
    cdef public bint asks
    cdef public Py_ssize_t modules
    cdef public set seen
    cdef public list data
    cdef public list waiting
    cdef public list begun
    cdef public list functions
    cdef public list owners
    cdef public list passed
    cdef public list showing
    cdef public list keeping
    cdef public list kept
    cdef public list reordered
    cdef public list caches
    cdef public bint same
    @cython.locals(todo=list, seen=set, kind=cython.int, count=cython.Py_ssize_t, entries=dict, content=object, known=About)
    cpdef add(self, object value)
    @cython.locals(held=list)
    cpdef add_entries(self, object container, int kind, dict entries, list todo)
    @cython.locals(held=list, names=tuple, variables=dict, cells=tuple, further=tuple)
    cpdef add_function(self, object function, list todo)
    @cython.locals(arrays=dict, more=dict, array=Handle, known=set, several=set, found=list, nodes=list, count=cython.Py_ssize_t, node=Node, width=cython.Py_ssize_t)
    cpdef list constants(self, object state)
    @cython.locals(found=list, held=list, kind=cython.int, position=cython.Py_ssize_t, first=cython.Py_ssize_t, end=cython.Py_ssize_t, place=cython.Py_ssize_t)
    cpdef list places(self, object sought)
    @cython.locals(found=dict, position=cython.Py_ssize_t)
    cdef dict indexed(self)
    @cython.locals(found=list, position=cython.Py_ssize_t)
    cpdef list values(self)
    @cython.locals(found=list, held=list, kind=cython.int, position=cython.Py_ssize_t)
    cdef list positions(self)
    @cython.locals(kind=cython.int)
    cdef object content(self, Py_ssize_t position)
    @cython.locals(found=list, held=list, kind=cython.int, position=cython.Py_ssize_t, count=cython.Py_ssize_t, first=cython.Py_ssize_t, place=cython.Py_ssize_t, entries=dict, variables=dict, slots=tuple)
    cpdef list changes(self)
    cpdef bint is_unchanged(self) except -1
    @cython.locals(held=list, kind=cython.int, position=cython.Py_ssize_t, place=cython.Py_ssize_t, entries=dict)
    cpdef bint refresh(self) except -1
    cpdef list undo(self, object counts=*)


cpdef Snapshot snapshot(object tree, object function, object apart=*, bint data=*)
@cython.locals(array=Handle)
cdef _note_array(dict index, object value, object position)
cdef list _several(object value)
@cython.locals(last=cython.Py_ssize_t, start=cython.Py_ssize_t)
cdef bint _shares(object value, object owner, Py_ssize_t first, Py_ssize_t end) except -1
cdef bint _must_be_variable(Node node, set several) except -1
cdef list _components(Handle array)
cdef _compare(object container, int kind, dict before, dict now, list found)
cdef _push(object values, list todo)
@cython.locals(position=cython.Py_ssize_t)
cdef bint _same(list now, list before) except -1
cdef bint _same_entries(dict now, list held, Py_ssize_t first, Py_ssize_t end) except -1
