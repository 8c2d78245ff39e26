# The memory of nodes and vertices, which is the same text in both modules: each object is a copy of one without contents,
# in the memory of one that has died; and a chain of a million dies without recursion.  Before it is included, SIZE must
# be the size of such an object: a number that the C compiler knows, so that it copies without a call.

cdef extern from "Python.h":
    ctypedef struct Type "PyTypeObject":
        void (*tp_dealloc)(PyObject*) noexcept
        Py_ssize_t tp_basicsize
        Py_ssize_t tp_weaklistoffset
        unsigned long tp_flags
    unsigned long Py_TPFLAGS_BASETYPE
    Py_ssize_t Py_REFCNT(PyObject*) noexcept
    PyObject* PyObject_Init(PyObject*, PyTypeObject*)
    void* PyObject_Malloc(size_t)
    void PyObject_Free(void*)
    void raise_reference "Py_INCREF"(PyObject*)
    void drop_reference "Py_XDECREF"(PyObject*)

cdef enum:
    KEPT = 4096

cdef struct Image:
    char bytes[SIZE]

cdef void* _kept[KEPT]
cdef int _kept_count = 0
#: How many are kept: none where objects have another size, as those that the usual way makes could not be used again.
cdef int _most_kept = 0
cdef Image _template
#: Objects that wait for the end of one that dies: their last references are here.
cdef PyObject** _pending = NULL
cdef Py_ssize_t _pending_count = 0, _pending_capacity = 0
cdef bint _releasing = False


cdef inline PyObject* _blank(PyObject* type_) except NULL:
    """A new object, a copy of the template; references to what that refers to are still to be counted."""
    global _kept_count
    cdef void* memory
    if _kept_count:
        _kept_count -= 1
        memory = _kept[_kept_count]
    else:
        memory = PyObject_Malloc(SIZE)
        if memory == NULL:
            raise MemoryError
    (<Image*> memory)[0] = _template
    return PyObject_Init(<PyObject*> memory, <PyTypeObject*> type_)


cdef inline void _free(PyObject* dead) noexcept:
    """Keep the memory of an object for another one, or give it back."""
    global _kept_count
    if _kept_count < _most_kept:
        _kept[_kept_count] = dead
        _kept_count += 1
    else:
        PyObject_Free(dead)


cdef void _take_as_template(PyObject* sample) noexcept:
    """Let objects be copies of one, and the memory of those of its type be used again."""
    global _most_kept
    cdef Py_ssize_t size = (<Type*> sample.ob_type).tp_basicsize
    memcpy(&_template, sample, size if size < SIZE else SIZE)
    _most_kept = KEPT if size == SIZE else 0


cdef inline void _let_go(PyObject* operand) noexcept:
    """Drop a reference to such an object or None, later if it is the last one: none dies while another does."""
    if operand == <PyObject*> None or Py_REFCNT(operand) != 1 or not _hand_over(operand):
        drop_reference(operand)


cdef void _release() noexcept:
    """Drop the references that have been handed over."""
    global _releasing, _pending_count
    _releasing = True
    while _pending_count:
        _pending_count -= 1
        drop_reference(_pending[_pending_count])
    _releasing = False


cdef bint _hand_over(PyObject* operand) noexcept:
    """Keep a reference, to be dropped later; without memory for that, objects die as they do everywhere else."""
    global _pending, _pending_count, _pending_capacity
    cdef PyObject** larger
    if _pending_count == _pending_capacity:
        larger = <PyObject**> realloc(_pending, (2 * _pending_capacity + 64) * sizeof(PyObject*))
        if larger == NULL:
            return False
        _pending, _pending_capacity = larger, 2 * _pending_capacity + 64
    _pending[_pending_count] = operand
    _pending_count += 1
    return True
