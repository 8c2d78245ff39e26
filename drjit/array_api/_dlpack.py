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
from drjit.interop import (
    CopyError,
    export_complex,
    export_parts,
    import_parts,
    interleaved,
    is_on_gpu,
    numpy_of_parts,
    to_framework,
)

from . import _dtypes as dtypes
from ._data import Storage, constant, evaluated, for_others, given, made, tensors_with, value_of, wrap
from ._devices import BACKENDS, CPU, CUDA, known_device
from ._dtypes import DType
from ._evaluation import eager
from ._operands import describe

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["array_of", "buffer", "dlpack", "dlpack_device", "exported", "from_dlpack", "on_device", "shared"]

_CLASS = "drjit.array_api.Array"
_FROM = "drjit.array_api.from_dlpack"
#: The flag of the buffer protocol for memory that may be written to (``inspect.BufferFlags`` since Python 3.12).
_WRITABLE = 1


def dlpack_device(array: Storage, /) -> tuple[int, int]:
    """The device of an array in the terms of DLPack: the memory of the CPU is ``(1, 0)``, that of a GPU ``(2, 0)`` with
    the number of the GPU. Evaluates nothing."""
    found: tuple[int, int] = (1, 0) if array.device == CPU else array._parts[0].__dlpack_device__()
    return found


def dlpack(array: Storage, /, *, stream: Any = None, max_version: tuple[int, int] | None = None,
           dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
    """A DLPack capsule of an array, for ``from_dlpack`` of other libraries.

    ``max_version`` is the newest version of DLPack that the consumer knows: from ``(1, 0)`` on, it is told that the
    memory is read-only, or a copy. ``copy``: ``True`` for memory of its own, ``False`` for none. A complex array is
    copied, since its parts are interleaved then; with ``copy=False``, what is exported becomes the memory of the array,
    which reads its parts from there from then on. Evaluates the array and waits for it; for memory of a GPU, nobody
    waits but the ``stream`` that will read it. Derivatives end here, with a warning. Raises a ``BufferError`` for
    ``dl_device`` other than that of the array and the CPU's ``(1, 0)``, for streams of the CPU, and for memory of other
    libraries if ``copy=False`` and a consumer that cannot be told not to write to it.
    """
    function = f"{_CLASS}.__dlpack__"
    _warn(function, array)
    parts = for_others(array)
    if copy is not False or len(parts) == 1 or array.device != CPU:
        return export_parts(function, parts, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
    numbers, views = interleaved(function, parts)
    if array._view is None:
        array._held = tuple([dr.replace_grad(view, part) if dr.grad_enabled(part) else view
                             for view, part in zip(views, parts, strict=True)])
    return export_complex(function, numbers, stream=stream, max_version=max_version, dl_device=dl_device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array with the elements of an object that has a method ``__dlpack__``.

    Contiguous elements of real, integer and Boolean types are shared with the other library; this one never writes to
    them. Others, and those of complex types, are read from there when they are evaluated. ``copy``: ``True`` for a copy
    that is made now, ``False`` for none at any time. The array is where its elements are, unless another ``device`` is
    said, to which they are copied. Evaluates nothing that is not copied. The result has no derivatives. Raises an
    ``AttributeError`` for objects without the method, a ``ValueError`` for devices that are not there, a
    ``BufferError`` for arrays on those, an exception that is both of these where ``copy=False`` rules out a copy that
    is needed, and a ``TypeError`` for data types that this namespace does not have.
    """
    where = None if device is None else known_device(_FROM, device)
    if not hasattr(x, "__dlpack__"):
        raise AttributeError(f"{_FROM}(): 'x' must have a method __dlpack__, which {describe(x)} lacks.")
    if isinstance(x, Storage):
        _warn(_FROM, x)
        parts = dr.detach(x._parts)
        if where is not None and where != x.device:
            return on_device(_FROM, x._dtype, parts, where, copy)
        if copy:
            parts = tuple([import_parts(_FROM, part, copy=True)[0] for part in parts])
        return wrap(x._dtype, *parts)
    found = shared(_FROM, x, copy)
    return found if where in (None, found.device) else on_device(_FROM, found._dtype, found._parts, where, copy)


def on_device(function: str, dtype: DType, parts: tuple[Any, ...], device: str, copy: bool | None) -> Array:
    """An array of the elements of tensors on another device, to which they are copied now."""
    if copy is False:
        raise CopyError(f"{function}(): the elements are on another device than {device!r}, to which they are copied; "
                        "copy=False rules that out.")
    found = numpy_of_parts(parts)
    return made(dtype, tensors_with(dtype, found, device)) if found.size else constant(dtype, 0, found.shape, device)


def shared(function: str, x: Any, copy: bool | None) -> Array:
    """An array with the elements of an object that speaks DLPack and is none of this namespace."""
    backend = BACKENDS[CUDA if is_on_gpu(x) and dr.has_backend(dr.JitBackend.CUDA) else CPU]
    parts = import_parts(function, x, copy=copy, backend=backend)
    own = dtypes.of_tensor(function, type(parts[0]))
    if len(parts) == 2:
        own = dtypes.complex64 if own is dtypes.float32 else dtypes.complex128
    found = wrap(own, *parts)
    given(found)  # to the other library
    return found


def array_of(array: Storage, /, dtype: Any = None, copy: bool | None = None) -> Any:
    """A NumPy array of an array: what ``__array__`` returns.

    A view that cannot be written to, or a copy if the data type is complex, ``dtype`` another one, or the array on a
    GPU; ``copy=True`` for
    an array that can be written to. Evaluates the array and waits for it. Derivatives end here, with a warning. Raises
    a ``ValueError`` if ``copy=False`` rules out a copy that is needed.
    """
    function = f"{_CLASS}.__array__"
    _warn(function, array)
    wanted = array._dtype.numpy if dtype is None else np.dtype(dtype)
    if copy is False and (wanted != array._dtype.numpy or array._dtype.kind == "c" or array.device != CPU):
        reason = f"its data type is {array._dtype}, not {wanted}" if wanted != array._dtype.numpy else \
            f"it is on the device {array.device!r}" if array.device != CPU else \
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
    return to_framework(function, name, dr.detach(for_others(array)))


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
