"""The compiled form of ``handle.py``."""

cimport cython
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject, PyTypeObject
from drjit_core.ir.dual cimport followed, primal, vertex_of
from drjit_core.ir.node cimport Node
from drjit_core.ir.number cimport number
from drjit_core.ir.trace cimport cast
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

ctypedef void* slot

cdef extern from "Python.h":
    ctypedef object (*newfunc)(PyTypeObject*, object, PyObject*)
    ctypedef PyObject* (*allocfunc)(PyTypeObject*, Py_ssize_t)
    ctypedef void (*freefunc)(void*)
    ctypedef void (*destructor)(PyObject*)
    ctypedef int (*visitproc)(PyObject*, void*) noexcept
    int PyObject_GC_IsTracked(PyObject*) noexcept
    void PyObject_GC_Track(void*) noexcept
    void PyObject_GC_UnTrack(void*) noexcept
    ctypedef PyObject* (*vectorcall)(PyObject*, PyObject**, size_t, PyObject*) except NULL
    ctypedef PyObject* (*ternary)(PyObject*, PyObject*, PyObject*) except NULL
    ctypedef struct Numbers "PyNumberMethods":
        slot nb_add, nb_subtract, nb_multiply, nb_true_divide, nb_floor_divide, nb_remainder
        slot nb_lshift, nb_rshift, nb_or, nb_xor, nb_and
        slot nb_inplace_add, nb_inplace_subtract, nb_inplace_multiply, nb_inplace_true_divide
        slot nb_inplace_floor_divide, nb_inplace_remainder
        slot nb_inplace_lshift, nb_inplace_rshift, nb_inplace_or, nb_inplace_xor, nb_inplace_and
    ctypedef struct Type "PyTypeObject":
        newfunc tp_new
        PyTypeObject* tp_base
        allocfunc tp_alloc
        freefunc tp_free
        destructor tp_dealloc
        int (*tp_traverse)(PyObject*, visitproc, void*) noexcept
        int (*tp_clear)(PyObject*) noexcept
        Numbers* tp_as_number
        ternary tp_call
        vectorcall tp_vectorcall
        Py_ssize_t tp_vectorcall_offset
        void* tp_richcompare
        unsigned long tp_flags
        Py_ssize_t tp_basicsize
        Py_ssize_t tp_dictoffset
        Py_ssize_t tp_weaklistoffset
    unsigned long Py_TPFLAGS_HAVE_GC, Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_HAVE_VECTORCALL
    Type PyType_Type
    Py_ssize_t PyVectorcall_NARGS(size_t) noexcept
    PyObject* PyObject_Init(PyObject*, PyTypeObject*)
    void* PyObject_Malloc(size_t)
    void PyObject_Free(void*)
    PyObject* PyErr_NoMemory()
    void PyObject_ClearWeakRefs(PyObject*)
    void PyType_Modified(PyTypeObject*)
    Py_ssize_t Py_REFCNT(PyObject*) noexcept
    void Py_INCREF(PyObject*)
    void Py_DECREF(PyObject*)
    void Py_XDECREF(PyObject*)


@cython.no_gc
cdef class Handle:
    """What all arrays hold; it takes part in no cycle."""

    def __cinit__(self):
        global _youngest
        self.older = _youngest
        if _youngest != NULL:
            (<Handle> _youngest).younger = <PyObject*> self
        _youngest = <PyObject*> self

    def __dealloc__(self):
        _part(<PyObject*> self)


cdef PyObject* _youngest = NULL


cdef void _part(PyObject* array) noexcept:
    """Take an array that dies out of the list of those that live, and from the components that its owner knows."""
    global _youngest
    cdef int k
    if (<Handle> array).older != NULL:
        (<Handle> (<Handle> array).older).younger = (<Handle> array).younger
    if (<Handle> array).younger != NULL:
        (<Handle> (<Handle> array).younger).older = (<Handle> array).older
    else:
        _youngest = (<Handle> array).older
    if (<Handle> array).owner != NULL:
        (<Handle> (<Handle> array).owner).known[(<Handle> array).place] = NULL
    for k in range((<Handle> array).known_count):  # those that have become something else do not hold it any more
        if (<Handle> array).known[k] != NULL:
            (<Handle> (<Handle> array).known[k]).owner = NULL
    free((<Handle> array).known)


cpdef bint is_younger(Handle array, Handle other) except -1:
    """Whether an array was made after another one."""
    cdef PyObject* each = other.younger
    while each != NULL and each != <PyObject*> array:
        each = (<Handle> each).younger
    return each != NULL


def live_arrays():
    """All arrays that there are."""
    cdef list found = []
    cdef PyObject* array = _youngest
    while array != NULL:
        if Py_REFCNT(array):  # it is not dying just now
            found.append(<Handle> array)
        array = (<Handle> array).older
    return found


def count_holders(dict found):
    """Count how many arrays hold each of some nodes, components of others aside, by the nodes' ids: values, of duals,
    whose vertices are counted by the complements of their ids."""
    cdef PyObject* each = _youngest
    cdef Handle array
    cdef Node entry
    cdef uint64_t lowest = 0
    for number in found:
        found[number] = 0
        lowest |= <uint64_t> 1 << (number & 63)
    while each != NULL:
        if Py_REFCNT(each):
            array = <Handle> each
            if array._o is None:
                if array._c is not None:
                    for entry in array._c:
                        if entry is not None:
                            _note_held(found, lowest, entry)
                elif array._n is not None:
                    _note_held(found, lowest, array._n)
            each = array.older
        else:
            each = (<Handle> each).older


cdef void _note_held(dict found, uint64_t lowest, Node entry) except *:
    """Count the value of a node, and its vertex, if they are sought: of the ids, a set knows the ``lowest`` bits."""
    cdef object vertex = vertex_of(entry)
    if vertex is not None:
        if ~vertex.id in found:
            found[~vertex.id] += 1
        entry = primal(entry)
    if lowest >> (entry.id & 63) & 1 and entry.id in found:
        found[entry.id] += 1


cpdef object view_at(Handle owner, Py_ssize_t position):
    """The component at a position, if somebody holds it, else ``None``."""
    return <object> owner.known[position] if _is_view(owner, position) else None


cdef inline bint _is_view(Handle owner, Py_ssize_t position) noexcept:
    """Whether somebody holds the component at a position, which has not been made into something else since."""
    return position < owner.known_count and owner.known[position] != NULL and Py_REFCNT(owner.known[position]) != 0 \
        and <PyObject*> (<Handle> owner.known[position])._o != <PyObject*> None


cpdef void add_view(Handle owner, Py_ssize_t position, Handle view, Py_ssize_t offset) except *:
    """Note that an array is the component at a position, whose nodes begin at an offset among the owner's."""
    cdef PyObject** known
    cdef Py_ssize_t count = owner.known_count, k
    if position >= count:
        count = max(position + 1, 4, 2 * count)
        known = <PyObject**> realloc(owner.known, count * sizeof(PyObject*))
        if known == NULL:
            raise MemoryError
        for k in range(owner.known_count, count):
            known[k] = NULL
        owner.known, owner.known_count = known, <int> count
    assert view.owner == NULL
    view._o = (owner, offset)
    if owner.known[position] != NULL:  # one that has become something else, or is dying
        (<Handle> owner.known[position]).owner = NULL
    view.owner, view.place = <PyObject*> owner, <int> position
    owner.known[position] = <PyObject*> view
    if not PyObject_GC_IsTracked(<PyObject*> view):
        PyObject_GC_Track(<PyObject*> view)


def views(Handle owner):
    """The components that somebody holds, with their positions."""
    cdef list found = []
    cdef Py_ssize_t k
    for k in range(owner.known_count):
        if _is_view(owner, k):
            found.append((k, <object> owner.known[k]))
    return found


# --- memory ----------------------------------------------------------------------------------------------------------
# Arrays come and go with each operation. The library's own types make them by copying what an array without contents
# looks like, and the memory of those that have died is used again.

cdef enum:
    KEPT = 1024
    HEAD = 16  # what the collector of cycles has before an object, two words that are 0 as long as it does not know it
    SIZE = 112  # of an array, or more: a number that the C compiler knows, so that it copies without a call
    TYPES = 2048  # a power of two

cdef Py_ssize_t _references = (<Type*> Handle).tp_weaklistoffset  # where weak references hang
cdef Py_ssize_t _size = 0  # of an array of any adopted type
cdef void* _kept[KEPT]
cdef int _count = 0

cdef struct Image:
    char bytes[SIZE]

cdef struct Template:
    PyTypeObject* cls
    void* memory
    int scalar  # type of the elements
    int where  # the backend
    bint tracks  # whether its arrays can track derivatives
    bint repeats  # whether one component stands for all
    Py_ssize_t size  # of the outermost static dimension
    PyTypeObject* value  # of components that are flat arrays, NULL if that is not known

#: By the address of the type; a type whose place is taken makes its instances in the usual way.
cdef Template _templates[TYPES]
cdef tuple _NOTHING = ()


cdef inline Template* _template_of(PyTypeObject* cls) noexcept nogil:
    return &_templates[(<size_t> cls >> 5) & (TYPES - 1)]


cdef inline void* _memory() noexcept:
    global _count
    cdef uint64_t* head
    if _count:
        _count -= 1
        head = <uint64_t*> (<char*> _kept[_count] - HEAD)
    else:
        head = <uint64_t*> PyObject_Malloc(HEAD + SIZE)
        if head == NULL:
            return NULL
    head[0] = head[1] = 0
    return <char*> head + HEAD


cpdef object fresh(object cls):
    """An object of a class without contents."""
    if _template_of(<PyTypeObject*> cls).cls == <PyTypeObject*> cls:
        return fresh_array(cls)
    return _made(<PyTypeObject*> cls)


cdef object _made(PyTypeObject* cls):
    """An object without contents of a class that may have a ``__new__`` of its own, which is for users."""
    cdef PyTypeObject* base = cls
    while (<Type*> base).tp_flags & Py_TPFLAGS_HEAPTYPE:
        base = (<Type*> base).tp_base
    return (<Type*> base).tp_new(cls, _NOTHING, NULL)


cpdef Node held(object array):
    """The node of an array that is known to be flat, or a tensor."""
    return (<Handle> array)._n


cpdef bint is_flat(Handle array) except -1:
    """Whether an array is a flat one: neither nested nor a tensor."""
    return array._c is None and array._s is None


cpdef Handle fresh_array(object cls):
    """A new array of an array type, without a node."""
    global _youngest
    cdef Handle result
    cdef Template* template = _template_of(<PyTypeObject*> cls)
    if template.cls != <PyTypeObject*> cls:
        return <Handle?> _made(<PyTypeObject*> cls)
    cdef PyObject* array = <PyObject*> _memory()
    if array == NULL:
        raise MemoryError
    (<Image*> array)[0] = (<Image*> template.memory)[0]
    PyObject_Init(array, template.cls)
    cdef PyObject* nothing = <PyObject*> None
    Py_INCREF(nothing)  # once for each slot
    Py_INCREF(nothing)
    Py_INCREF(nothing)
    Py_INCREF(nothing)
    (<Handle> array).older = _youngest
    if _youngest != NULL:
        (<Handle> _youngest).younger = array
    _youngest = array
    result = <Handle> array
    Py_DECREF(array)
    return result


cdef PyObject* _alloc(PyTypeObject* cls, Py_ssize_t count) noexcept:
    cdef void* memory = _memory()
    if memory == NULL:
        return PyErr_NoMemory()
    memset(memory, 0, _size)
    return PyObject_Init(<PyObject*> memory, cls)


cdef void _free(void* memory) noexcept:
    global _count
    if _count < KEPT:
        _kept[_count] = memory
        _count += 1
    else:
        PyObject_Free(<char*> memory - HEAD)


cdef int _traverse(PyObject* array, visitproc visit, void* argument) noexcept:
    """What the collector finds in an array that is a component of another one, or of a type that a program derives."""
    cdef PyObject* owned = <PyObject*> (<Handle> array)._o
    cdef int found = visit(<PyObject*> array.ob_type, argument)
    if not found and owned != NULL:
        found = visit(owned, argument)
    return found


cdef int _clear(PyObject* array) noexcept:
    """Let go of the owner."""
    if (<Handle> array).owner != NULL:
        (<Handle> (<Handle> array).owner).known[(<Handle> array).place] = NULL
        (<Handle> array).owner = NULL
    (<Handle> array)._o = None
    return 0


cdef void _dealloc(PyObject* array) noexcept:
    """The end of an array; also the last step of that of an instance of a type that a program derives."""
    cdef PyTypeObject* cls = array.ob_type
    cdef PyObject* node = <PyObject*> (<Handle> array)._n
    cdef PyObject* nodes = <PyObject*> (<Handle> array)._c
    cdef PyObject* shape = <PyObject*> (<Handle> array)._s
    cdef PyObject* owned = <PyObject*> (<Handle> array)._o
    if PyObject_GC_IsTracked(array):
        PyObject_GC_UnTrack(array)
    if (<PyObject**> (<char*> array + _references))[0] != NULL:
        PyObject_ClearWeakRefs(array)
    _part(array)
    (<Type*> cls).tp_free(array)
    Py_XDECREF(node)
    Py_XDECREF(nodes)
    Py_XDECREF(shape)
    Py_XDECREF(owned)
    Py_DECREF(<PyObject*> cls)


# --- calling array types ---------------------------------------------------------------------------------------------


cdef PyObject* _call_flat(PyObject* cls, PyObject** arguments, size_t flags, PyObject* names) except NULL:
    """``Float(x)``: at once for a number, or an array of the type."""
    cdef Template* template = _template_of(<PyTypeObject*> cls)
    cdef Node node
    cdef Handle result
    if names == NULL and PyVectorcall_NARGS(flags) == 1 and template.cls == <PyTypeObject*> cls:
        if arguments[0].ob_type == template.cls:
            node = (<Handle> arguments[0])._n
        elif (<Type*> arguments[0].ob_type).tp_vectorcall == _call_flat:
            node = cast((<Handle?> <object> arguments[0])._n, template.scalar)
            if node.where and node.where != template.where:
                return _call_slowly(cls, arguments, 1, NULL)
            if not template.tracks:
                node = primal(node)
        else:
            node = number(template.scalar, <object> arguments[0])
        if node is not None:
            result = fresh_array(<object> cls)
            result._n = followed([node])[0] if template.tracks and primal(node) is not node else node
            Py_INCREF(<PyObject*> result)
            return <PyObject*> result
    return _call_slowly(cls, arguments, PyVectorcall_NARGS(flags), names)


cdef PyObject* _call_nested(PyObject* cls, PyObject** arguments, size_t flags, PyObject* names) except NULL:
    """``Array3f(x, y, z)`` and ``Array3f(x)``: at once for numbers, and arrays of the type of the components."""
    cdef Template* template = _template_of(<PyTypeObject*> cls)
    cdef Py_ssize_t k, count = PyVectorcall_NARGS(flags)
    cdef PyTypeObject* value
    cdef Node node
    cdef list nodes
    cdef Handle result
    if names == NULL and template.cls == <PyTypeObject*> cls and (
            count == template.size > 1 or count == 1 < template.size and template.repeats):
        value = _flat_value(template)
        if value != NULL:
            nodes = PyList_New(template.size)
            for k in range(template.size):
                if k >= count:
                    pass  # the only one
                elif arguments[k].ob_type == value:
                    node = (<Handle> arguments[k])._n
                else:
                    node = number(template.scalar, <object> arguments[k])
                    if node is None:
                        break
                Py_INCREF(<PyObject*> node)
                PyList_SET_ITEM(nodes, k, node)
            else:
                result = fresh_array(<object> cls)
                result._c = followed(nodes) if template.tracks else nodes
                Py_INCREF(<PyObject*> result)
                return <PyObject*> result
    return _call_slowly(cls, arguments, count, names)


cdef PyObject* _call_slowly(PyObject* cls, PyObject** arguments, Py_ssize_t count, PyObject* names) except NULL:
    cdef Py_ssize_t k
    cdef tuple positional = tuple([<object> arguments[k] for k in range(count)])
    cdef dict named = None
    if names != NULL:
        named = {name: <object> arguments[count + k] for k, name in enumerate(<object> names)}
    return PyType_Type.tp_call(cls, <PyObject*> positional, NULL if named is None else <PyObject*> named)


cdef inline PyTypeObject* _flat_value(Template* template) except? NULL:
    """The type of an array's components, if these are flat arrays."""
    cdef PyObject* value
    if template.value == NULL:
        found = (<object> template.cls)._value
        if not issubclass(found, Handle) or found._depth:
            return NULL
        template.value = <PyTypeObject*> found  # which the type keeps
    return template.value


cpdef object flat_component(Handle array, Py_ssize_t position):
    """The component of a nested array at a position, if components are flat and there is one, else ``None``."""
    cdef Template* template = _template_of((<PyObject*> array).ob_type)
    cdef PyTypeObject* value
    cdef Handle result
    if template.cls != (<PyObject*> array).ob_type or position >= template.size:
        return None
    value = _flat_value(template)
    if value == NULL:
        return None
    result = fresh_array(<object> value)
    result._n = array._c[position]
    add_view(array, position, result, position)
    return result


cdef dict _operators_of = {}  # by their bases, the first types, whose operators those of others are


def adopt(cls):
    """Tell of an array type of the library's own, whose instances hold nothing but nodes, a shape and an owner.

    Such objects are in no cycle, so that the collector of cycles does not know them, but for components of other arrays:
    these may be of types that programs derive, which have attributes, and are collected as usual.
    """
    global _size
    cdef Type* type_ = <Type*> cls
    cdef Template* template = _template_of(<PyTypeObject*> cls)
    assert type_.tp_basicsize <= SIZE
    if type_.tp_dictoffset or _size and type_.tp_basicsize != _size:
        return
    _size = type_.tp_basicsize
    base = next(each for each in cls.__mro__ if not (<Type*> each).tp_flags & Py_TPFLAGS_HEAPTYPE)
    like = _operators_of.setdefault(cls.__bases__, cls)
    if like is cls:
        _take_operators(cls, base)
    else:
        memcpy(type_.tp_as_number, (<Type*> like).tp_as_number, sizeof(Numbers))
        type_.tp_richcompare = (<Type*> like).tp_richcompare
    type_.tp_flags |= Py_TPFLAGS_HAVE_GC
    type_.tp_traverse, type_.tp_clear = _traverse, _clear
    type_.tp_alloc, type_.tp_free, type_.tp_dealloc = _alloc, _free, _dealloc
    if cls._depth >= 0 and cls._special != "matrix" and cls.__init__ is base.__init__:
        kind = type(cls)
        (<Type*> kind).tp_vectorcall_offset = PyType_Type.tp_vectorcall_offset
        (<Type*> kind).tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
        type_.tp_vectorcall = _call_nested if cls._depth else _call_flat
    PyType_Modified(<PyTypeObject*> cls)
    if template.cls != NULL:
        return
    sample = type_.tp_new(<PyTypeObject*> cls, _NOTHING, NULL)
    template.memory = PyObject_Malloc(SIZE)
    if template.memory == NULL:
        raise MemoryError
    memcpy(template.memory, <PyObject*> sample, _size)
    cdef PyObject* image = <PyObject*> template.memory
    (<Handle> image).older = (<Handle> image).younger = NULL
    template.scalar, template.tracks, template.size = cls._type, cls._record.diff, cls._size
    template.repeats, template.where = not cls._special, cls._where
    Py_INCREF(<PyObject*> cls)  # types are known by their addresses
    template.cls = <PyTypeObject*> cls


def _is_of(cls, base, *names):
    """Whether a class has certain methods from a base."""
    return all([getattr(cls, name) is getattr(base, name) for name in names])


cdef _take_operators(cls, base):
    """Let the operators of a class be called like those of its base, without a look at its methods."""
    cdef Numbers* own = (<Type*> cls).tp_as_number
    cdef Numbers* given = (<Type*> base).tp_as_number
    if _is_of(cls, base, "__add__", "__radd__"):
        own.nb_add = given.nb_add
    if _is_of(cls, base, "__iadd__"):
        own.nb_inplace_add = given.nb_inplace_add
    if _is_of(cls, base, "__sub__", "__rsub__"):
        own.nb_subtract = given.nb_subtract
    if _is_of(cls, base, "__isub__"):
        own.nb_inplace_subtract = given.nb_inplace_subtract
    if _is_of(cls, base, "__mul__", "__rmul__"):
        own.nb_multiply = given.nb_multiply
    if _is_of(cls, base, "__imul__"):
        own.nb_inplace_multiply = given.nb_inplace_multiply
    if _is_of(cls, base, "__truediv__", "__rtruediv__"):
        own.nb_true_divide = given.nb_true_divide
    if _is_of(cls, base, "__itruediv__"):
        own.nb_inplace_true_divide = given.nb_inplace_true_divide
    if _is_of(cls, base, "__floordiv__", "__rfloordiv__"):
        own.nb_floor_divide = given.nb_floor_divide
    if _is_of(cls, base, "__ifloordiv__"):
        own.nb_inplace_floor_divide = given.nb_inplace_floor_divide
    if _is_of(cls, base, "__mod__", "__rmod__"):
        own.nb_remainder = given.nb_remainder
    if _is_of(cls, base, "__imod__"):
        own.nb_inplace_remainder = given.nb_inplace_remainder
    if _is_of(cls, base, "__lshift__", "__rlshift__"):
        own.nb_lshift = given.nb_lshift
    if _is_of(cls, base, "__ilshift__"):
        own.nb_inplace_lshift = given.nb_inplace_lshift
    if _is_of(cls, base, "__rshift__", "__rrshift__"):
        own.nb_rshift = given.nb_rshift
    if _is_of(cls, base, "__irshift__"):
        own.nb_inplace_rshift = given.nb_inplace_rshift
    if _is_of(cls, base, "__or__", "__ror__"):
        own.nb_or = given.nb_or
    if _is_of(cls, base, "__ior__"):
        own.nb_inplace_or = given.nb_inplace_or
    if _is_of(cls, base, "__xor__", "__rxor__"):
        own.nb_xor = given.nb_xor
    if _is_of(cls, base, "__ixor__"):
        own.nb_inplace_xor = given.nb_inplace_xor
    if _is_of(cls, base, "__and__", "__rand__"):
        own.nb_and = given.nb_and
    if _is_of(cls, base, "__iand__"):
        own.nb_inplace_and = given.nb_inplace_and
    if _is_of(cls, base, "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
        (<Type*> cls).tp_richcompare = (<Type*> base).tp_richcompare
