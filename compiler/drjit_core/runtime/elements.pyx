"""The compiled form of ``elements.py``."""

import ctypes

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.ref cimport PyObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t

from .. import types
from ..ops.semantics import bits_of, from_bits
from ..types import TYPES

_C_TYPES = {code: getattr(ctypes, name) for code, name in {
    "?": "c_uint8", "b": "c_int8", "B": "c_uint8", "h": "c_int16", "H": "c_uint16", "i": "c_int32", "I": "c_uint32",
    "q": "c_int64", "Q": "c_uint64", "e": "c_uint16", "": "c_uint16", "f": "c_float", "d": "c_double"}.items()}

cdef enum:
    BOOL = 1
    INT8 = 3
    UINT8 = 4
    INT16 = 5
    UINT16 = 6
    INT32 = 7
    UINT32 = 8
    INT64 = 9
    UINT64 = 10
    POINTER = 11
    FLOAT32 = 14
    FLOAT64 = 15

for _name, _number in (("BOOL", BOOL), ("INT8", INT8), ("UINT8", UINT8), ("INT16", INT16), ("UINT16", UINT16),
                       ("INT32", INT32), ("UINT32", UINT32), ("INT64", INT64), ("UINT64", UINT64),
                       ("POINTER", POINTER), ("FLOAT32", FLOAT32), ("FLOAT64", FLOAT64)):
    assert getattr(types, _name) == _number


cpdef object peek(int type_, uint64_t address, int64_t index):
    """An element of an array as a Python scalar."""
    cdef void* memory = <void*> <uintptr_t> address
    if type_ == FLOAT32:
        return (<float*> memory)[index]
    if type_ == FLOAT64:
        return (<double*> memory)[index]
    if type_ == INT32:
        return (<int32_t*> memory)[index]
    if type_ == UINT32:
        return (<uint32_t*> memory)[index]
    if type_ == INT64:
        return (<int64_t*> memory)[index]
    if type_ == UINT64 or type_ == POINTER:
        return (<uint64_t*> memory)[index]
    if type_ == BOOL:
        return (<uint8_t*> memory)[index] != 0
    if type_ == INT8:
        return (<int8_t*> memory)[index]
    if type_ == UINT8:
        return (<uint8_t*> memory)[index]
    if type_ == INT16:
        return (<int16_t*> memory)[index]
    if type_ == UINT16:
        return (<uint16_t*> memory)[index]
    return from_bits((<uint16_t*> memory)[index], TYPES[type_])


cpdef bytes copied(uint64_t address, int64_t count):
    """A copy of some bytes in memory."""
    return PyBytes_FromStringAndSize(<char*> <uintptr_t> address, count)


def unpack(type_, data):
    """The element that bytes stand for, as a Python scalar."""
    return from_bits(int.from_bytes(data, "little"), TYPES[type_])


def pack(type_, value):
    """The bytes of an element."""
    info = TYPES[type_]
    if info.code == "?" or info.is_float and info.size == 2:
        return bits_of(value, info).to_bytes(info.size, "little")
    return bytes(_C_TYPES[info.code](value))


cdef object _destructor = None


cdef void _destroy(PyObject* capsule) noexcept:
    cdef PyObject* type_
    cdef PyObject* value
    cdef PyObject* traceback
    PyErr_Fetch(&type_, &value, &traceback)
    try:
        _destructor(<uintptr_t> capsule)
    finally:
        PyErr_Restore(type_, value, traceback)


def destructor(function):
    """The address of the C function that destroys capsules: it calls ``function`` with the address of the capsule."""
    global _destructor
    _destructor = function
    return <uintptr_t> &_destroy
