"""Capsules of Python's C interface: handles and addresses, with names that say what they are.

A capsule is told by its ``id``, so that finalisers can look at one that is about to go. It refers to the bytes of its
name, which must outlive it.
"""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["is_valid", "new", "pointer", "set_name"]

_api = ctypes.pythonapi
_HANDLE, _NAME = ctypes.c_void_p, ctypes.c_char_p
#: A capsule of a pointer, with a name, and the address of a function that ends it, if there is one.
new: Any = ctypes.PYFUNCTYPE(ctypes.py_object, _HANDLE, _NAME, _HANDLE)(("PyCapsule_New", _api))
#: Whether something is a capsule of a name.
is_valid: Any = ctypes.PYFUNCTYPE(ctypes.c_int, _HANDLE, _NAME)(("PyCapsule_IsValid", _api))
#: What a capsule of a name points to.
pointer: Any = ctypes.PYFUNCTYPE(_HANDLE, _HANDLE, _NAME)(("PyCapsule_GetPointer", _api))
#: Gives a capsule another name.
set_name: Any = ctypes.PYFUNCTYPE(ctypes.c_int, _HANDLE, _NAME)(("PyCapsule_SetName", _api))
