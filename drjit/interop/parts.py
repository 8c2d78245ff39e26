"""Exchange of arrays that consist of *parts*: one tensor, or two for the real and imaginary parts of complex numbers.

Packages whose arrays are built from Dr.Jit's tensors, such as :mod:`drjit.array_api`, exchange them by these functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drjit_core import JitBackend, VarType

from .._access.slicing import contiguous_strides
from .._arrays.broadcasting import make
from .._arrays.dlpack import (
    CopyError,
    Foreign,
    capsule_of,
    complex_memory,
    complex_numbers,
    device_of,
    is_on_gpu,
    kind_of,
    memory_of,
    read,
    require_host,
)
from .._arrays.host import CPU, HostMemory, host_memory, to_numpy
from .._base.types import Record, lookup

__all__ = ["CopyError", "contiguous_strides", "export_complex", "export_parts", "import_parts", "interleaved",
           "is_on_gpu", "numpy_of_parts", "tensor_type"]

_TYPES = {type_.name.lower(): type_.value for type_ in VarType}


def tensor_type(backend: JitBackend, elements: str) -> Any:
    """The type of tensors of ``drjit.llvm.ad`` or ``drjit.cuda.ad`` for elements by their name, as NumPy has it.

    >>> from drjit.interop import tensor_type
    >>> tensor_type(dr.JitBackend.LLVM, "float32")
    <class 'drjit.llvm.ad.TensorXf'>
    """
    return lookup(Record(backend, _TYPES[elements], "tensor", (), True))


def import_parts(function: str, value: Any, *, copy: bool | None = None,
                 backend: JitBackend | None = None) -> tuple[Any, ...]:
    """Tensors with the elements of an object that speaks DLPack, one, or two if they are complex: of a ``backend``, or
    if none is said of ``drjit.llvm.ad``, or of ``drjit.cuda.ad`` if they are in the memory of a GPU.

    Elements that lie side by side in C order are shared, and copied when this project first writes to them. What has
    other strides, and the two parts of complex numbers, are read from the shared memory when they are evaluated. With
    ``copy=True``, everything is copied now; ``copy=False`` raises a :class:`CopyError`, which is a ``BufferError`` and
    a ``ValueError``, if it would have to be copied at any time. Raises a ``BufferError`` for other devices, consumed
    capsules and unknown versions of DLPack, and a ``TypeError`` for elements of other types (such as ``float8_e5m2``).
    ``function`` is the user's, for messages.

    >>> import numpy as np
    >>> from drjit.interop import import_parts
    >>> import_parts("f", np.array([1, 2j]))
    ([1, 0], [0, 2])
    """
    found = read(function, value, copy, None if backend is None else backend.value)
    if copy is False:
        found.require_sharing()
    cls: Any = lookup(Record(found.backend, found.type, "tensor", (), True))
    nodes = [found.node(part) for part in range(1 + (found.kind == "c"))]
    if copy:
        nodes = [found.independent(node) for node in nodes]
    return tuple([make(cls, node, found.shape) for node in nodes])


def numpy_of_parts(parts: Sequence[Any]) -> Any:
    """A NumPy array with the elements of one tensor, a view that cannot be written to, or a copy of two tensors.

    (Arrays that are computed in the same way share their memory, so that writing to one would change others.) What is
    written to the tensor later is not seen there: memory that is exported is copied before. Evaluates them in one
    kernel and waits.

    >>> from drjit.interop import numpy_of_parts
    >>> from drjit.llvm import TensorXf
    >>> numpy_of_parts([TensorXf([1, 0]), TensorXf([0, 2])])
    array([1.+0.j, 0.+2.j], dtype=complex64)
    """
    if len(parts) == 1:
        view = to_numpy(parts[0], pinned=True)
        view.flags.writeable = False
        return view
    return complex_numbers(parts)


def export_parts(function: str, parts: Sequence[Any], *, stream: Any = None, max_version: tuple[int, int] | None = None,
                 dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
    """A DLPack capsule of one tensor, whose memory is shared and said to be read-only, or of two, which are copied.

    (See :func:`numpy_of_parts` for the reasons. Consumers of version 0 are not told.) The keyword arguments are those
    of ``__dlpack__``. Evaluates the tensors in one kernel and waits. Raises a ``BufferError`` for other devices, for
    streams, and (a :class:`CopyError`) if ``copy=False`` rules out the copy of two parts.

    >>> from drjit.interop import export_parts
    >>> from drjit.llvm import TensorXf
    >>> export_parts("f", [TensorXf([1, 2])], max_version=(1, 0))  # doctest: +ELLIPSIS
    <capsule object "dltensor_versioned" at ...>
    """
    device = device_of(parts[0])
    if device != CPU and dl_device in (None, device):
        memory, kind = memory_of(parts, device)
        if len(parts) == 1:
            memory.read_only = True
        elif copy is False:
            raise _interleaving(function)
        return capsule_of(function, memory, kind, max_version, copy, copied=len(parts) == 2, immutable=True,
                          stream=stream)
    if len(parts) == 2:
        if copy is False:
            raise _interleaving(function)
        return export_complex(function, numpy_of_parts(parts), stream=stream, max_version=max_version,
                              dl_device=dl_device, copied=True)
    require_host(function, stream, dl_device)
    own = host_memory(parts[0], pinned=True)
    memory = HostMemory(own.address, own.shape, own.info, own.owner, read_only=True, holder=own.holder)
    return capsule_of(function, memory, kind_of(own.info), max_version, copy, immutable=not own.read_only)


def _interleaving(function: str) -> CopyError:
    return CopyError(f"{function}(): complex numbers are kept as two arrays, of real and imaginary parts: they cannot "
                     "be exported without a copy, which copy=False rules out.")


def interleaved(function: str, parts: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
    """A NumPy array of the complex numbers that two tensors are the parts of, and tensors that read them from there.

    Evaluates the tensors in one kernel and waits; the new ones have no derivatives.

    >>> from drjit.interop import interleaved
    >>> from drjit.llvm import TensorXf
    >>> interleaved("f", [TensorXf([1, 0]), TensorXf([0, 2])])
    (array([1.+0.j, 0.+2.j], dtype=complex64), ([1, 0], [0, 2]))
    """
    numbers = numpy_of_parts(parts)
    found = Foreign(function, "numpy.ndarray", "c", numbers.itemsize * 8, numbers.shape,
                    contiguous_strides(numbers.shape), numbers.ctypes.data, numbers, False, parts[0]._where)
    return numbers, tuple([make(type(part), found.node(number), found.shape) for number, part in enumerate(parts)])


def export_complex(function: str, numbers: Any, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copied: bool = False) -> Any:
    """A DLPack capsule of a NumPy array of complex numbers in C order, see :func:`export_parts`.

    If it is not a copy (``copied``), consumers are told that it is read-only.
    """
    require_host(function, stream, dl_device)
    memory = complex_memory(numbers)
    memory.read_only = not copied
    return capsule_of(function, memory, "c", max_version, None, copied=copied, immutable=True)
