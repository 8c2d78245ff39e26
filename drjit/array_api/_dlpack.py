"""Exchange with other libraries: DLPack, NumPy, and the buffer protocol.

Elements of real, integer and Boolean types are shared with others without a copy. Those of complex types are kept as
two arrays, of real and imaginary parts: they are interleaved when they are exported, and taken apart when they are
imported. What is exported is said to be read-only, because arrays that are computed in the same way share their memory.

The functions here are methods of arrays (``__dlpack__``, ``__dlpack_device__``, ``__array__``, ``__buffer__``), and the
function ``from_dlpack`` of the namespace.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import drjit as dr
from drjit.interop import export_complex, export_parts, import_parts, interleaved, numpy_of_parts, to_framework

from . import _dtypes as dtypes
from ._data import Storage, evaluated, given, value_of, wrap
from ._evaluation import eager
from ._operands import describe

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["array_of", "buffer", "dlpack", "dlpack_device", "exported", "from_dlpack", "shared"]

_CLASS = "drjit.array_api.Array"
_FROM = "drjit.array_api.from_dlpack"
#: The flag of the buffer protocol for memory that may be written to (``inspect.BufferFlags`` since Python 3.12).
_WRITABLE = 1
#: Data types by the class of a part and the number of parts.
_DTYPES = {(dtype.tensor, 1 + (dtype.kind == "c")): dtype for dtype in dtypes.ALL.values()}


def dlpack_device(array: Storage, /) -> tuple[int, int]:
    """The device of an array in the terms of DLPack: the memory of the CPU, ``(1, 0)``. Evaluates nothing."""
    return 1, 0


def dlpack(array: Storage, /, *, stream: Any = None, max_version: tuple[int, int] | None = None,
           dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
    """A DLPack capsule of an array, for ``from_dlpack`` of other libraries.

    ``max_version`` is the newest version of DLPack that the consumer knows: from ``(1, 0)`` on, it is told that the
    memory is read-only, or a copy. ``copy``: ``True`` for memory of its own, ``False`` for none. A complex array is
    copied, since its parts are interleaved then; with ``copy=False``, what is exported becomes the memory of the array,
    which reads its parts from there from then on. Evaluates the array and waits for it. Derivatives end here, with a
    warning. Raises a ``BufferError`` for ``dl_device`` other than ``(1, 0)``, for streams, and for memory of other
    libraries if ``copy=False`` and a consumer that cannot be told not to write to it.
    """
    function = f"{_CLASS}.__dlpack__"
    _warn(function, array)
    parts = evaluated(array)
    if copy is not False or len(parts) == 1:
        return export_parts(function, parts, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
    numbers, views = interleaved(function, parts)
    array._held = tuple([dr.replace_grad(view, part) if dr.grad_enabled(part) else view
                          for view, part in zip(views, parts, strict=True)])
    return export_complex(function, numbers, stream=stream, max_version=max_version, dl_device=dl_device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array with the elements of an object that has a method ``__dlpack__``.

    Contiguous elements of real, integer and Boolean types are shared with the other library; this one never writes to
    them. Others, and those of complex types, are read from there when they are evaluated. ``copy``: ``True`` for a copy
    that is made now, ``False`` for none at any time. Evaluates nothing that is not copied. The result has no
    derivatives. Raises an ``AttributeError`` for objects without the method, a ``ValueError`` for devices other than
    ``'cpu'``, a ``BufferError`` for arrays on other devices, an exception that is both of these where ``copy=False``
    rules out a copy that is needed, and a ``TypeError`` for data types that this namespace does not have.
    """
    if device is not None and not (isinstance(device, str) and device == "cpu"):
        raise ValueError(f"{_FROM}(): there is no device {device!r}; the only one is 'cpu'.")
    if not hasattr(x, "__dlpack__"):
        raise AttributeError(f"{_FROM}(): 'x' must have a method __dlpack__, which {describe(x)} lacks.")
    if isinstance(x, Storage):
        _warn(_FROM, x)
        parts = dr.detach(x._parts)
        if copy:
            parts = tuple([import_parts(_FROM, part, copy=True)[0] for part in parts])
        return wrap(x._dtype, *parts)
    return shared(_FROM, x, copy)


def shared(function: str, x: Any, copy: bool | None) -> Array:
    """An array with the elements of an object that speaks DLPack and is none of this namespace."""
    parts = import_parts(function, x, copy=copy, backend=dr.JitBackend.LLVM)
    own = dtypes.of_tensor(function, type(parts[0]))
    found = wrap(_DTYPES[own.tensor, len(parts)], *parts)
    given(found)  # to the other library
    return found


def array_of(array: Storage, /, dtype: Any = None, copy: bool | None = None) -> Any:
    """A NumPy array of an array: what ``__array__`` returns.

    A view that cannot be written to, or a copy if the data type is complex or ``dtype`` another one; ``copy=True`` for
    an array that can be written to. Evaluates the array and waits for it. Derivatives end here, with a warning. Raises
    a ``ValueError`` if ``copy=False`` rules out a copy that is needed.
    """
    function = f"{_CLASS}.__array__"
    _warn(function, array)
    wanted = array._dtype.numpy if dtype is None else np.dtype(dtype)
    if copy is False and (wanted != array._dtype.numpy or array._dtype.kind == "c"):
        reason = f"its data type is {array._dtype}, not {wanted}" if wanted != array._dtype.numpy else \
            "complex numbers are kept as two arrays, of real and imaginary parts"
        raise ValueError(f"{function}(): a copy is needed, which copy=False rules out: {reason}.")
    most = eager() if array._tensors() is None and copy is not False else 0
    value = value_of(array, most) if most else None
    if value is not None:
        found = value.astype(wanted)
        found.flags.writeable = bool(copy)
        return found
    found = numpy_of_parts(evaluated(array))
    return found.copy() if copy and len(array._parts) == 1 and wanted == found.dtype else \
        found.astype(wanted, copy=False)


def exported(array: Storage, name: str) -> Any:
    """An array of the framework of a name: what ``torch()`` and its like return."""
    function = f"{_CLASS}.{name}"
    _warn(function, array)
    return to_framework(function, name, dr.detach(evaluated(array)))


def buffer(array: Storage, flags: int, /) -> memoryview:
    """A view of the memory of an array that cannot be written to: what ``__buffer__`` returns.

    Complex arrays are copied. Evaluates the array and waits for it. Derivatives end here, with a warning. Raises a
    ``BufferError`` where memory to write to is asked for.
    """
    function = f"{_CLASS}.__buffer__"
    if flags & _WRITABLE:
        raise BufferError(f"{function}(): the memory of arrays cannot be written to from outside, because arrays that "
                          "are computed in the same way share it; numpy.array(x) makes a copy.")
    _warn(function, array)
    found = numpy_of_parts(evaluated(array))
    found.flags.writeable = False
    return memoryview(found)


def _warn(function: str, array: Storage) -> None:
    """Say that derivatives end where an array leaves for another library."""
    if array._tensors() is not None and any(dr.grad_enabled(part) for part in array._parts):
        warnings.warn(f"{function}(): the array tracks derivatives, which end here. drjit.wrap() lets them cross to "
                      "other frameworks; drjit.detach() of the array says that this is meant.", RuntimeWarning,
                      stacklevel=3)
