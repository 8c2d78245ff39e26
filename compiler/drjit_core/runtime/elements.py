"""Elements of arrays: in memory of the host, and as bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ..ops.semantics import bits_of, from_bits
from ..types import TYPES

__all__ = ["copied", "destructor", "pack", "peek", "unpack"]

_C_TYPES: dict[str, Any] = {code: getattr(ctypes, name) for code, name in {
    "?": "c_uint8", "b": "c_int8", "B": "c_uint8", "h": "c_int16", "H": "c_uint16", "i": "c_int32", "I": "c_uint32",
    "q": "c_int64", "Q": "c_uint64", "e": "c_uint16", "": "c_uint16", "f": "c_float", "d": "c_double"}.items()}


def peek(type_: int, address: int, index: int) -> Any:
    """An element of an array as a Python scalar."""
    info = TYPES[type_]
    value = _C_TYPES[info.code].from_address(address + index * info.size).value
    if info.code == "?":
        return value != 0
    return from_bits(value, info) if info.is_float and info.size == 2 else value


def copied(address: int, count: int) -> bytes:
    """A copy of some bytes in memory."""
    return ctypes.string_at(address, count)


def unpack(type_: int, data: bytes) -> Any:
    """The element that bytes stand for, as a Python scalar."""
    return from_bits(int.from_bytes(data, "little"), TYPES[type_])


def pack(type_: int, value: Any) -> bytes:
    """The bytes of an element."""
    info = TYPES[type_]
    if info.code == "?" or info.is_float and info.size == 2:
        return bits_of(value, info).to_bytes(info.size, "little")
    return bytes(_C_TYPES[info.code](value))


_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_destructor: Any = None


def destructor(function: Callable[[int], None]) -> int:
    """The address of the C function that destroys capsules: it calls ``function`` with the address of the capsule.

    An exception that is under way then is so afterwards, but for the plain form, where Python loses it.
    """
    global _destructor

    def call(capsule: int) -> None:
        try:  # what is under way is raised by the next call
            ctypes.c_void_p(capsule)
        except Exception:
            pass
        function(capsule)

    _destructor = _Destructor(call)
    return ctypes.cast(_destructor, ctypes.c_void_p).value or 0
