"""The compiled form of ``number.py``: the literals that were asked for last are found by the bits of their values."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport uint64_t

from ..context cimport current
from .build cimport literal
from .node cimport Node, blank_node, enter_literal, literal_of_bits, new_id

from ..ops.table import LITERAL as _LITERAL
from ..types import COMPUTES_IN as _COMPUTES_IN, FLOAT32 as _FLOAT32, IS_FLOAT as _IS_FLOAT, TYPES
from .build import announce
from .node import BAKED as _BAKED, PARAMETER as _PARAMETER

cdef extern from "Python.h":
    bint PyFloat_CheckExact(object) noexcept
    bint PyLong_CheckExact(object) noexcept
    double PyFloat_AS_DOUBLE(object) noexcept
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1

cdef union Bits:
    double real
    long long integer
    uint64_t word

cdef struct Entry:
    uint64_t bits
    int kind  # of the number, and the type
    PyObject* node

cdef enum:
    COUNT = 1024

cdef Entry _recent[COUNT]
cdef bytes COMPUTES_IN = _COMPUTES_IN, _kinds = _IS_FLOAT
cdef const unsigned char* IS_FLOAT = _kinds  # read without checks of places
cdef int FLOAT32 = _FLOAT32, LITERAL = _LITERAL, BAKED = _BAKED, PARAMETER = _PARAMETER
cdef double _LARGEST = 1.7976931348623157e308
cdef list _LOW = [1 if info is None or info.kind == "b" else -_LARGEST if info.kind == "f" else info.minimum
                  for info in TYPES]
cdef list _HIGH = [0 if info is None or info.kind == "b" else _LARGEST if info.kind == "f" else info.maximum
                   for info in TYPES]


cpdef Node number(int type_, object value):
    """The literal of one element of a Python number; see the plain form."""
    cdef Bits bits
    cdef int kind = 2 * type_, overflow = 0
    cdef uint64_t h
    cdef Entry* entry
    cdef Node node
    if PyFloat_CheckExact(value):
        if not IS_FLOAT[type_]:
            return None
        bits.real = PyFloat_AS_DOUBLE(value)
    elif PyLong_CheckExact(value):
        kind += 1
        bits.integer = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow:
            return literal(type_, value) if _LOW[type_] <= value <= _HIGH[type_] else None
    else:
        return None
    h = (bits.word + <uint64_t> kind) * <uint64_t> 0x9E3779B97F4A7C15
    entry = &_recent[(h >> 40) & (COUNT - 1)]
    if entry.node != NULL and entry.bits == bits.word and entry.kind == kind:
        return <Node> entry.node
    if kind & 1 and not _LOW[type_] <= value <= _HIGH[type_]:
        return None
    node = _literal(type_, value, bits, kind & 1)
    Py_INCREF(node)
    cdef PyObject* old = entry.node
    entry.bits, entry.kind, entry.node = bits.word, kind, <PyObject*> node
    Py_XDECREF(old)
    return node


cdef Node _literal(int type_, object value, Bits bits, bint integer):
    """The literal of a number that the type can hold, given its bits."""
    cdef Bits own = bits  # of the value that the type has
    cdef int attr
    cdef Node node
    if IS_FLOAT[type_]:
        if integer:
            if not -(1LL << 53) <= bits.integer <= 1LL << 53:
                return literal(type_, value)
            own.real = <double> bits.integer
        if COMPUTES_IN[type_] != type_ or own.real != own.real:
            return literal(type_, value)
        if type_ == FLOAT32:
            own.real = <double> <float> own.real
        attr = BAKED if own.real == 0 or own.real == 1 or own.real == -1 else PARAMETER
        if integer or own.word != bits.word:
            value = own.real
    else:
        attr = BAKED if -1 <= bits.integer <= 1 else PARAMETER
    node = literal_of_bits(type_, 1, own.word, attr, 0)
    if node is not None:
        return node
    node = blank_node()
    node.kind, node.type, node.size, node.id = LITERAL, type_, 1, new_id()
    node.attr, node.payload = attr, value
    enter_literal(node, 0)
    if current().mode & 1:
        announce(node)
    return node


def recent_literals():
    """The literals that were asked for last."""
    cdef int k
    return [<Node> _recent[k].node for k in range(COUNT) if _recent[k].node != NULL]
