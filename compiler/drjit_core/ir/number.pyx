"""The compiled form of ``number.py``: the literals that were asked for last are found by the bits of their values."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport uint64_t

from .build cimport literal
from .node cimport Node

from ..types import FLOAT16 as _FLOAT16, TYPES

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
cdef int FLOAT16 = _FLOAT16
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
        if type_ < FLOAT16:
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
    node = literal(type_, value)
    Py_INCREF(node)
    cdef PyObject* old = entry.node
    entry.bits, entry.kind, entry.node = bits.word, kind, <PyObject*> node
    Py_XDECREF(old)
    return node
