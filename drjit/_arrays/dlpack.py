"""DLPack: exchange of arrays with other libraries without copies, on the host.

A capsule carries a ``DLManagedTensor`` structure; its deleter, called by the consumer, lets go of the memory. What is
imported is shared with its producer, and copied before this project writes to it. The protocol is described at
https://dmlc.github.io/dlpack/latest/.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from typing import Any, NamedTuple

from drjit_core import TYPES, Node, cast, import_shared, invalid

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.links import links
from .host import HostMemory, host_memory

__all__ = ["Imported", "from_dlpack", "to_capsule"]

_CPU = 1
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_CapsuleDestructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_api = ctypes.pythonapi
_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _api))
_capsule_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_capsule_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_SetName", _api))

_NAME, _USED = b"dltensor", b"used_dltensor"  # module-level: capsules refer to these bytes

#: What has been exported and not yet been released, by the number in the structure's context.
_exported: dict[int, Any] = {}
_numbers = itertools.count(1)


@_Deleter  # type: ignore[untyped-decorator]
def _release(address: int) -> None:
    """Called by the consumer, from any thread, when it no longer needs the memory."""
    _exported.pop(_DLManagedTensor.from_address(address).context, None)


@_CapsuleDestructor  # type: ignore[untyped-decorator]
def _destroy(capsule: int) -> None:
    """Called when a capsule dies: nobody took it if it still has its first name."""
    if _capsule_is_valid(capsule, _NAME):
        _release(_capsule_pointer(capsule, _NAME))


def to_capsule(array: ArrayBase, stream: Any, max_version: tuple[int, int] | None, dl_device: tuple[int, int] | None,
               copy: bool | None) -> Any:
    """See ``ArrayBase.__dlpack__``."""
    function = f"{array._name}.__dlpack__"
    if stream not in (None, -1):
        raise BufferError(f"{function}(): arrays in the memory of the CPU have no stream, found stream={stream!r}.")
    if dl_device is not None and tuple(dl_device) != (_CPU, 0):
        raise BufferError(f"{function}(): the array is in the memory of the CPU (1, 0), found dl_device={dl_device!r}.")
    if copy is False and array._depth > 0:
        raise BufferError(f"{function}(): nested arrays cannot be exported without a copy.")
    memory = _complex_memory(array) if array._special == "complex" else host_memory(array)
    if copy and array._depth <= 0 and memory.address:
        memory = _duplicate(memory)
    info, shape = memory.info, memory.shape
    pairs = 1 + (array._special == "complex")
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    strides = (ctypes.c_int64 * len(shape))(*_contiguous_strides(shape))
    managed = _DLManagedTensor()
    tensor = managed.tensor
    tensor.data, tensor.device_type, tensor.device_id, tensor.ndim = memory.address or None, _CPU, 0, len(shape)
    tensor.code, tensor.bits, tensor.lanes = _CODES["c" if pairs > 1 else info.kind], info.size * 8 * pairs, 1
    tensor.shape, tensor.strides = sizes, strides
    number = next(_numbers)
    managed.context = number
    managed.deleter = ctypes.cast(_release, ctypes.c_void_p)
    _exported[number] = (managed, sizes, strides, memory)
    return _capsule_new(ctypes.addressof(managed), _NAME, ctypes.cast(_destroy, ctypes.c_void_p))


def _complex_memory(array: ArrayBase) -> HostMemory:
    """Real and imaginary parts side by side."""
    numbers = array.numpy()
    return HostMemory(numbers.ctypes.data, numbers.shape, TYPES[array._type], numbers)


def _contiguous_strides(shape: tuple[int, ...]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def _duplicate(memory: HostMemory) -> HostMemory:
    nbytes = memory.info.size
    for size in memory.shape:
        nbytes *= size
    block = (ctypes.c_char * nbytes)()
    ctypes.memmove(block, memory.address, nbytes)
    return HostMemory(ctypes.addressof(block), memory.shape, memory.info, block)


# --- import ----------------------------------------------------------------------------------------------------------


class Imported(NamedTuple):
    """An array of another library: its shape, and a node for each of its rows."""

    shape: tuple[int, ...]
    nodes: list[Node]


class _Owner:
    """Keeps imported memory alive; tells its producer when nobody refers to it anymore."""

    __slots__ = ("address",)

    def __init__(self, address: int) -> None:
        self.address = address

    def __del__(self) -> None:
        deleter = _DLManagedTensor.from_address(self.address).deleter
        if deleter:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(self.address)


def from_dlpack(value: Any, cls: type[ArrayBase], whole: bool = False) -> Imported:
    """Import an object that speaks DLPack as rows of a type's elements, sharing memory where the type is the same.

    ``whole``: what is contiguous is imported as a single row, and there may be any number of dimensions.
    """
    function = f"{cls._name}.__init__"
    device = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else _CPU
    if int(device) != _CPU:
        raise ArgumentError(f"{function}(): the argument of type '{describe(value)}' is not in the memory of the CPU.")
    capsule = value.__dlpack__()
    handle = id(capsule)
    if not _capsule_is_valid(handle, _NAME):
        raise ArgumentError(f"{function}(): '{describe(value)}.__dlpack__()' returned no capsule named 'dltensor'.")
    address = _capsule_pointer(handle, _NAME)
    _capsule_set_name(handle, _USED)
    owner = _Owner(address)
    tensor = _DLManagedTensor.from_address(address).tensor
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    found = next((info for info in TYPES if info is not None and info.name != "pointer"
                  and (_CODES[info.kind], info.size * 8) == (tensor.code, tensor.bits)), None)
    if found is None or tensor.lanes != 1 or not shape and not whole:
        raise ArgumentError(f"{function}(): the elements of the argument of type '{describe(value)}' have an "
                            f"unsupported type (DLPack code {tensor.code}, {tensor.bits} bits, {tensor.ndim} "
                            "dimensions).")
    strides = [tensor.strides[k] for k in range(tensor.ndim)] if tensor.strides else _contiguous_strides(shape)
    start = (tensor.data or 0) + tensor.byte_offset
    if whole and (0 in shape or all(size == 1 or stride == expected for size, stride, expected in
                                    zip(shape, strides, _contiguous_strides(shape), strict=True))):
        count = math.prod(shape)
        node = import_shared(found.type, start, count, owner) if count else invalid(found.type)
        return Imported(shape, [cast(node, cls._type)])
    if shape[-1] > 1 and strides[-1] != 1:
        raise ArgumentError(f"{function}(): the trailing dimension of the argument of type '{describe(value)}' must be "
                            f"contiguous in memory, found the strides {tuple(strides)}; copy it first.")
    nodes = []
    for position in itertools.product(*map(range, shape[:-1])):
        offset = sum(index * stride for index, stride in zip(position, strides, strict=False)) * found.size
        node = import_shared(found.type, start + offset, shape[-1], owner) if shape[-1] else invalid(found.type)
        nodes.append(cast(node, cls._type))
    return Imported(shape, nodes)


links.to_capsule = to_capsule
