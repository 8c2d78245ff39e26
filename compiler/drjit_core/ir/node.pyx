"""The compiled form of ``node.py``: nodes, and the table of value numbering.

The table is open addressing over borrowed pointers: an entry is compared by the fields of its node, and is removed
when the node dies.
"""

import weakref

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

cdef extern from "Python.h":
    unsigned long long PyLong_AsUnsignedLongLongMask(object) except? 0

from ..ops.table import EVALUATED as _EVALUATED, FIRST_ELEMENTWISE as _FIRST_ELEMENTWISE, LITERAL as _LITERAL, OPS
from ..ops.semantics import normalise as _normalise
from ..types import BOOL as _BOOL, FLOAT32 as _FLOAT32, TYPE_BITS as _TYPE_BITS, TYPES, UINT32 as _UINT32

PARAMETER, BAKED, SHAPE = 0, 1, 2

cdef int EVALUATED = _EVALUATED
cdef int FIRST_ELEMENTWISE = _FIRST_ELEMENTWISE
cdef int LITERAL = _LITERAL, TYPE_BITS = _TYPE_BITS, BOOL = _BOOL, FLOAT32 = _FLOAT32, UINT32 = _UINT32
cdef int64_t _last_id = 0
cdef int64_t _count = 0
cdef PyObject* _youngest = NULL


cpdef int64_t new_id() noexcept:
    """A serial number, never given twice."""
    global _last_id
    _last_id += 1
    return _last_id


@cython.no_gc
cdef class Node:
    """One operation of the traced program (see the documentation of the plain form for its invariants)."""

    def __cinit__(self):
        global _count, _youngest
        _count += 1
        self.older = _youngest
        if _youngest != NULL:
            (<Node> _youngest).younger = <PyObject*> self
        _youngest = <PyObject*> self

    def __dealloc__(self):
        _part(<PyObject*> self)

    def become_evaluated(self, buffer):
        """Replace the operation by its result, releasing the operands."""
        become(self, buffer)

    def __reduce_ex__(self, protocol):
        raise TypeError("cannot pickle or copy a node of the graph: it refers to memory of this process; pickle the "
                        "array that holds it, which goes by value")

    def __repr__(self):
        operands = ", ".join([f"n{d.id}" for d in (self.d0, self.d1, self.d2, self.d3) if d is not None])
        return f"<{TYPES[self.type].name} n{self.id}[{self.size}] = {OPS[self.kind].word}({operands})>"


cdef class ImportedNode(Node):
    """An array in memory that somebody else owns, who may refer to the array: the collector of cycles knows it.

    All other nodes hold nothing but nodes, buffers of our own, regions and numbers, and are in no cycle.
    """


cdef extern from "Python.h":
    ctypedef int (*visitproc)(PyObject*, void*) noexcept
    ctypedef struct _Type "PyTypeObject":
        int (*tp_traverse)(PyObject*, visitproc, void*) noexcept


cdef int _traverse(PyObject* node, visitproc visit, void* argument) noexcept:
    """Cython's own function does not visit what the class has from one that is not collected."""
    cdef PyObject* payload = <PyObject*> (<Node> node).payload
    return visit(payload, argument) if payload != NULL else 0

(<_Type*> ImportedNode).tp_traverse = _traverse


cdef void become(Node node, object buffer):
    """What :meth:`Node.become_evaluated` does."""
    if node.hash:
        _remove(<PyObject*> node)
    node.payload = buffer
    node.kind = EVALUATED
    node.attr = 0
    node.d0 = node.d1 = node.d2 = node.d3 = None


def imported_node():
    """A node without contents, for an array in memory that somebody else owns."""
    return ImportedNode.__new__(ImportedNode)


new_node = Node.__new__
FIELDS = ("kind", "type", "where", "size", "id", "d0", "d1", "d2", "d3", "attr", "payload", "scope")


def live_nodes():
    """All nodes that there are."""
    cdef list found = []
    cdef PyObject* node = _youngest
    while node != NULL:
        found.append(<Node> node)
        node = (<Node> node).older
    return found


def node_count():
    """How many nodes there are."""
    return _count


cdef int64_t _collections = 0


cdef enum:  # places of nodes, of which each collection has some of its own
    NEEDED, LISTED, KNOWN, USED, OUTSIDE, PLACES


cdef inline bint _is_new(Node node, int64_t scope, int64_t first, bint* memory) noexcept:
    """Note that a node is needed; whether it is of a scope, and to be listed. Of the scope, it may be memory."""
    if node is None or node.scope != scope:
        return False
    if node.payload is not None and node.payload is not False:
        memory[0] = True
    cdef int64_t place = node.place - first
    if 0 <= place < PLACES:
        if place == KNOWN:
            node.place = first + USED
        return False
    node.place = first + NEEDED
    return True


cdef inline int _note_outside(Node node, int64_t scope, int64_t first, list captures) except -1:
    if node is not None and node.scope != scope and node.place != first + OUTSIDE:
        node.place = first + OUTSIDE
        captures.append(node)
    return 0


cpdef tuple collect(int64_t scope, tuple known, tuple parts, bytes plain, operands):
    """What the plain form does: the list of all nodes is in the order of their making, so that one walk finds them."""
    global _collections
    cdef int64_t first, pending
    cdef Py_ssize_t count
    cdef Node node, youngest
    cdef PyObject* following
    cdef bint memory
    cdef list found, using, captures = [], result = [], users = []
    _collections -= PLACES  # negative: places of other traversals are not
    first = _collections
    for node in known:
        node.place = first + KNOWN
    for roots in parts:
        pending, youngest, found, using, count = 0, None, [], users, len(captures)
        for node in <tuple?> roots:
            if _is_new(node, scope, first, &memory):
                pending += 1
                if youngest is None or node.id > youngest.id:
                    youngest = node
        following = <PyObject*> youngest
        while pending:
            assert following != NULL, "a node is younger than one that uses it"
            node = <Node> following
            if node.place == first + NEEDED:
                node.place = first + LISTED
                found.append(node)
                pending -= 1
                memory = False
                if plain[node.kind]:
                    pending += _is_new(node.d0, scope, first, &memory)
                    pending += _is_new(node.d1, scope, first, &memory)
                    pending += _is_new(node.d2, scope, first, &memory)
                    _note_outside(node.d2, scope, first, captures)
                    _note_outside(node.d1, scope, first, captures)
                    _note_outside(node.d0, scope, first, captures)
                else:
                    for operand in operands(node):
                        pending += _is_new(operand, scope, first, &memory)
                    memory = True
                if memory:
                    if using is users:
                        using = []
                    using.append(node)
            following = node.older
        found.reverse()
        result.append(found)
        if using is not users:
            using.reverse()
            users += using
        if len(captures) > count + 1:
            captures[count:] = reversed(captures[count:])
        for node in <tuple> roots:
            _note_outside(node, scope, first, captures)
    return result, users, captures, {node for node in known if (<Node?> node).place == first + USED}


# --- memory ----------------------------------------------------------------------------------------------------------

cdef extern from "Python.h":
    void PyObject_ClearWeakRefs(PyObject*)

cdef enum:
    SIZE = 144

include "node.pxi"

cdef Py_ssize_t _references = (<Type*> Node).tp_weaklistoffset  # where weak references hang


cpdef Node blank_node():
    """A node without contents."""
    global _count, _youngest
    cdef Node result
    cdef PyObject* node = _blank(<PyObject*> Node)
    cdef PyObject* nothing = <PyObject*> None
    raise_reference(nothing)  # once for each operand, and the payload
    raise_reference(nothing)
    raise_reference(nothing)
    raise_reference(nothing)
    raise_reference(nothing)
    _count += 1
    (<Node> node).older = _youngest
    if _youngest != NULL:
        (<Node> _youngest).younger = node
    _youngest = node
    result = <Node> node
    drop_reference(node)
    return result


cdef void _dealloc(PyObject* node) noexcept:
    """The end of a node that is none of a derived class."""
    _part(node)  # before anybody is told, so that nobody finds it any more
    if (<PyObject**> (<char*> node + _references))[0] != NULL:
        PyObject_ClearWeakRefs(node)
    cdef PyObject* d0 = <PyObject*> (<Node> node).d0
    cdef PyObject* d1 = <PyObject*> (<Node> node).d1
    cdef PyObject* d2 = <PyObject*> (<Node> node).d2
    cdef PyObject* d3 = <PyObject*> (<Node> node).d3
    cdef PyObject* payload = <PyObject*> (<Node> node).payload
    _free(node)
    _let_go(d0)
    _let_go(d1)
    _let_go(d2)
    _let_go(d3)
    drop_reference(payload)
    if _pending_count and not _releasing:
        _release()


cdef _make_template():
    cdef Node sample = Node.__new__(Node)
    assert (<Type*> Node).tp_basicsize <= SIZE
    _take_as_template(<PyObject*> sample)
    cdef PyObject* image = <PyObject*> &_template
    (<Node> image).older = (<Node> image).younger = NULL

_make_template()
(<Type*> Node).tp_dealloc = _dealloc
(<Type*> Node).tp_flags &= ~Py_TPFLAGS_BASETYPE  # the memory of instances of a derived type would be other memory
(<Type*> ImportedNode).tp_flags &= ~Py_TPFLAGS_BASETYPE


cdef void _part(PyObject* node) noexcept:
    """Take a node that dies out of the list of those that live, and out of the table."""
    global _count, _youngest
    _count -= 1
    if (<Node> node).older != NULL:
        (<Node> (<Node> node).older).younger = (<Node> node).younger
    if (<Node> node).younger != NULL:
        (<Node> (<Node> node).younger).older = (<Node> node).older
    else:
        _youngest = (<Node> node).older
    if (<Node> node).hash:
        _remove(node)


# --- value numbering -------------------------------------------------------------------------------------------------

cdef struct Entry:
    uint64_t hash
    PyObject* node

cdef uint64_t _capacity = 1 << 12
cdef uint64_t _used = 0
cdef Entry* _table = <Entry*> calloc(_capacity, sizeof(Entry))


cdef inline uint64_t _mixed(uint64_t h, uint64_t value) noexcept nogil:
    h = (h ^ value) * <uint64_t> 0x9E3779B97F4A7C15
    return h ^ (h >> 29)


cdef inline uint64_t _hash(int kind, Node a, Node b, Node c, int mode) except 0:
    cdef uint64_t h = _mixed(<uint64_t> (kind * 4 - mode), a.id)
    if b is not None:
        h = _mixed(h, b.id)
        if c is not None:
            h = _mixed(h, c.id)
    h ^= h >> 32
    return h | 1


cdef uint64_t _hash_any(int kind, int type_, int64_t size, Node d0, Node d1, Node d2, Node d3, int64_t attr,
                        object payload, int mode, int where) except 0:
    cdef uint64_t h = _mixed(<uint64_t> ((kind << TYPE_BITS | type_) * 4 - mode), <uint64_t> size)
    h = _mixed(h, d0.id if d0 is not None else where)
    h = _mixed(h, d1.id if d1 is not None else 0)
    h = _mixed(h, d2.id if d2 is not None else 0)
    h = _mixed(h, d3.id if d3 is not None else 0)
    h = _mixed(h, <uint64_t> attr)
    if payload is not None:
        h = _mixed(h, <uint64_t> <int64_t> hash(payload))
    h ^= h >> 32
    return h | 1


cpdef Node find1(int kind, Node a, int mode):
    """The node of an elementwise operation of one operand that was traced in a mode, if there is one."""
    return _find(_hash(kind, a, None, None, mode), kind, a, None, None, mode)


cpdef Node find2(int kind, Node a, Node b, int mode):
    """The node of an elementwise operation of two operands that was traced in a mode, if there is one."""
    return _find(_hash(kind, a, b, None, mode), kind, a, b, None, mode)


cpdef Node find3(int kind, Node a, Node b, Node c, int mode):
    """The node of an elementwise operation of three operands that was traced in a mode, if there is one."""
    return _find(_hash(kind, a, b, c, mode), kind, a, b, c, mode)


cdef inline Node _find(uint64_t h, int kind, Node a, Node b, Node c, int mode):
    cdef uint64_t place = (h >> 1) & (_capacity - 1)
    cdef Node node
    while _table[place].node != NULL:
        if _table[place].hash == h:
            node = <Node> _table[place].node
            if node.kind == kind and node.d0 is a and node.d1 is b and node.d2 is c and node.mode == mode:
                return node
        place = (place + 1) & (_capacity - 1)
    return None


cpdef Node find(int kind, int type_, int64_t size, Node d0, Node d1, Node d2, Node d3, int64_t attr, object payload,
                int mode, int where=0):
    """The node of any operation that is not elementwise; of one without operands, where it belongs."""
    cdef uint64_t h = _hash_any(kind, type_, size, d0, d1, d2, d3, attr, payload, mode, where)
    cdef uint64_t place = (h >> 1) & (_capacity - 1)
    cdef Node node
    while _table[place].node != NULL:
        if _table[place].hash == h:
            node = <Node> _table[place].node
            if node.kind == kind and node.type == type_ and node.size == size and node.d0 is d0 and node.d1 is d1 \
                    and node.d2 is d2 and node.d3 is d3 and node.attr == attr and node.mode == mode \
                    and (d0 is not None or node.where == where) and (
                        node.payload is payload or type(node.payload) is type(payload) and node.payload == payload):
                return node
        place = (place + 1) & (_capacity - 1)
    return None


cpdef void enter(Node node, int mode):
    """Make a node that which is found from now on."""
    if node.hash:
        _remove(<PyObject*> node)
    if 2 * _used >= _capacity:
        _grow()
    if node.kind >= FIRST_ELEMENTWISE:
        node.hash = _hash(node.kind, node.d0, node.d1, node.d2, mode)
    else:
        node.hash = _hash_any(node.kind, node.type, node.size, node.d0, node.d1, node.d2, node.d3, node.attr,
                              node.payload, mode, node.where)
    node.mode = mode
    _put(node.hash, <PyObject*> node)


cdef inline uint64_t _literal_hash(int type_, int64_t size, uint64_t bits, int64_t attr, int64_t tag) noexcept:
    cdef uint64_t h = _mixed(<uint64_t> (4 * type_ + attr), <uint64_t> size)
    h = _mixed(h, bits ^ (bits >> 32))  # numbers such as 1.25 differ in their high bits alone, which move no lower ones
    if tag:
        h = _mixed(h, <uint64_t> tag)
    h ^= h >> 32
    return h | 1


cdef inline uint64_t _bits(object value) except? 0:
    """What tells apart the values of one type."""
    cdef double real
    if type(value) is float:
        real = value
        return (<uint64_t*> &real)[0]
    return PyLong_AsUnsignedLongLongMask(value)


cdef Node literal_of_bits(int type_, int64_t size, uint64_t bits, int64_t attr, int64_t tag):
    """What :func:`find_literal` finds, by the bits of a value: those of a ``double`` or of a long integer."""
    cdef uint64_t h = _literal_hash(type_, size, bits, attr, tag)
    cdef uint64_t place = (h >> 1) & (_capacity - 1)
    cdef Node node
    while _table[place].node != NULL:
        if _table[place].hash == h:
            node = <Node> _table[place].node
            if node.kind == LITERAL and node.type == type_ and node.size == size and node.attr == attr \
                    and node.mode == tag and _bits(node.payload) == bits:
                return node
        place = (place + 1) & (_capacity - 1)
    return None


cpdef object normalise(int type_, object value):
    """What the table's function returns: the types of most literals have a short way."""
    cdef float single
    if type_ == FLOAT32:
        if type(value) is float:
            single = <double> value  # to nearest, and beyond the largest finite number to infinity
            return <double> single
    elif type_ == UINT32:
        if type(value) is int and 0 <= value <= 0xFFFFFFFF:
            return value
    elif type_ == BOOL and (value is True or value is False):
        return value
    return _normalise(type_, value)


cpdef Node find_literal(int type_, int64_t size, object value, int64_t attr, int64_t tag):
    """The literal of a value that its type has, whatever the mode, if anybody holds it."""
    return literal_of_bits(type_, size, _bits(value), attr, tag)


cpdef Node enter_literal(Node node, int64_t tag):
    """Make a literal that which is found from now on."""
    if 2 * _used >= _capacity:
        _grow()
    node.hash = _literal_hash(node.type, node.size, _bits(node.payload), node.attr, tag)
    node.mode = tag
    _put(node.hash, <PyObject*> node)
    return node


cdef void _put(uint64_t h, PyObject* node) noexcept:
    global _used
    cdef uint64_t place = (h >> 1) & (_capacity - 1)
    while _table[place].node != NULL:
        place = (place + 1) & (_capacity - 1)
    _table[place].hash, _table[place].node = h, node
    _used += 1


cdef int _grow() except -1:
    global _table, _capacity, _used
    cdef Entry* old = _table
    cdef uint64_t place, count = _capacity
    cdef Entry* new = <Entry*> calloc(2 * count, sizeof(Entry))
    if new == NULL:
        raise MemoryError
    _table, _capacity, _used = new, 2 * count, 0
    for place in range(count):
        if old[place].node != NULL:
            _put(old[place].hash, old[place].node)
    free(old)
    return 0


cdef void _remove(PyObject* node) noexcept:
    """Take a node out of the table; those behind it move up, so that searches need no marks of what has been there."""
    global _used
    cdef uint64_t mask = _capacity - 1
    cdef uint64_t place = ((<Node> node).hash >> 1) & mask
    cdef uint64_t other
    (<Node> node).hash = 0
    while _table[place].node != node:
        if _table[place].node == NULL:
            return
        place = (place + 1) & mask
    other = place
    while True:
        other = (other + 1) & mask
        if _table[other].node == NULL:
            break
        if ((other - (_table[other].hash >> 1)) & mask) >= ((other - place) & mask):
            _table[place] = _table[other]
            place = other
    _table[place].node = NULL
    _used -= 1


cpdef void forget(Node node):
    """Remove the entry of a node that is about to be evaluated (see the plain form for why)."""
    if node.hash:
        _remove(<PyObject*> node)


_named = {}


def remembered(key):
    """The node that stands for a key of somebody's own."""
    reference = _named.get(key)
    return None if reference is None else reference()


def remember(key, node):
    """Let a node stand for a key of somebody's own, as long as it lives."""
    if len(_named) > 4096:
        sweep()
    _named[key] = weakref.ref(node)


def sweep():
    """Remove the entries of dead nodes among the keys of somebody's own; the others have left by themselves."""
    for key, reference in _named.copy().items():
        if reference() is None and _named.get(key) is reference:
            _named.pop(key, None)


def sweep_if_large():
    """There is nothing to sweep in a table that dead nodes leave by themselves."""


def numbered_count():
    """How many nodes can be found."""
    return _used + len(_named)
