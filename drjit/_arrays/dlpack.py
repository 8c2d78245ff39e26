"""DLPack: exchange of arrays with other libraries without copies, on the host.

A capsule carries a structure that describes an array: ``DLManagedTensor``, or since version 1.0 of the protocol
``DLManagedTensorVersioned``, which says also whether the memory may be written to, and whether it is a copy. Its
deleter, called by the consumer, lets go of the memory.

What is imported is shared with its producer. This project never writes to it: an array over such memory is copied
before it is changed, and views that are handed on are marked as read-only. The protocol is described at
https://dmlc.github.io/dlpack/latest/ and
https://data-apis.org/array-api/latest/design_topics/data_interchange.html.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from drjit_core import TYPES, JitBackend, Node, TypeInfo, cast, destructor, evaluate, import_shared, invalid, unshared

from .._access.slicing import contiguous_strides, strided
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.links import links
from .host import HostMemory, host_memory

__all__ = ["CPU", "CopyError", "Foreign", "Imported", "capsule_of", "complex_memory", "from_dlpack", "kind_of",
           "memory_of", "read", "require_host", "to_capsule"]

#: The device of all arrays, in the terms of DLPack: the memory of the CPU.
CPU = (1, 0)
#: Devices whose memory the CPU can read: its own, and that of CUDA's and ROCm's page-locked allocations.
_READABLE = {1, 3, 11}
_DEVICES = {2: "CUDA", 3: "CUDA, page-locked memory of the host", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm",
            11: "ROCm, page-locked memory of the host", 13: "CUDA, managed memory", 14: "oneAPI", 15: "WebGPU",
            16: "Hexagon"}


def kind_of(info: TypeInfo) -> str:
    """The kind of elements in the terms of DLPack, where bfloat16 is no floating-point number like others."""
    return info.kind if info.code else "bf"


_CODES = {"i": 0, "u": 1, "f": 2, "bf": 4, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
#: Types of elements by kind and bits.
_TYPES = {(kind_of(info), info.size * 8): info.type for info in TYPES if info is not None and info.name != "pointer"}
_NAMES = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat", 5: "complex", 6: "bool"}
#: The version that exports speak, and the bits of their flags.
_VERSION = (1, 0)
_READ_ONLY, _IS_COPIED = 1, 2
#: What consumers may expect addresses to be multiples of, in bytes, by the specification of DLPack.
_ALIGNMENT = 256


class CopyError(BufferError, ValueError):
    """A copy that is needed, and was ruled out by ``copy=False``; the standard names either class of exceptions."""


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_Managed = _DLManagedTensor | _DLManagedTensorVersioned
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api = ctypes.pythonapi
_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _api))
_capsule_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_capsule_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_SetName", _api))

# Module-level: capsules refer to these bytes. Names of what is there, and of what a consumer has taken.
_NAME, _USED = b"dltensor", b"used_dltensor"
_VERSIONED, _USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"
_STRUCTURES: dict[bytes, Any] = {_NAME: _DLManagedTensor, _VERSIONED: _DLManagedTensorVersioned}
_TAKEN = {_NAME: _USED, _VERSIONED: _USED_VERSIONED}

# --- export ----------------------------------------------------------------------------------------------------------

#: What has been exported and not yet been released, by the number in the structure's context.
_exported: dict[int, Any] = {}
_numbers = itertools.count(1)


@_Deleter  # type: ignore[untyped-decorator]
def _release(address: int) -> None:
    """Called by the consumer, from any thread, when it no longer needs the memory."""
    _exported.pop(_DLManagedTensor.from_address(address).context, None)


@_Deleter  # type: ignore[untyped-decorator]
def _release_versioned(address: int) -> None:
    """Called by the consumer of a structure of version 1, from any thread, when it no longer needs the memory."""
    _exported.pop(_DLManagedTensorVersioned.from_address(address).context, None)


def _destroy(capsule: int) -> None:
    """Called when a capsule dies: nobody took it if it still has its first name."""
    if _capsule_is_valid(capsule, _NAME):
        _release(_capsule_pointer(capsule, _NAME))
    elif _capsule_is_valid(capsule, _VERSIONED):
        _release_versioned(_capsule_pointer(capsule, _VERSIONED))


_destroy_address = destructor(_destroy)


def require_host(function: str, stream: Any, dl_device: tuple[int, int] | None) -> None:
    """Raise for a stream or a device that arrays in the memory of the CPU cannot be exported to."""
    if stream not in (None, -1):
        raise BufferError(f"{function}(): arrays in the memory of the CPU have no stream, found stream={stream!r}.")
    if dl_device is not None and (not isinstance(dl_device, Sequence) or isinstance(dl_device, str) or
                                  tuple(map(int, dl_device)) != CPU):
        raise BufferError(f"{function}(): the array is in the memory of the CPU (1, 0), found dl_device={dl_device!r}.")


def to_capsule(array: ArrayBase, stream: Any, max_version: tuple[int, int] | None, dl_device: tuple[int, int] | None,
               copy: bool | None) -> Any:
    """See ``ArrayBase.__dlpack__``."""
    function = f"{array._name}.__dlpack__"
    require_host(function, stream, dl_device)
    if copy is False and array._depth > 0:
        raise CopyError(f"{function}(): nested arrays cannot be exported without a copy, which copy=False rules out.")
    memory, kind = memory_of(array)
    return capsule_of(function, memory, kind, max_version, copy, copied=array._depth > 0)


def memory_of(array: ArrayBase) -> tuple[HostMemory, str]:
    """The evaluated values of an array in C order, and their kind: ``'c'`` if two numbers at a time are complex."""
    if array._special != "complex":
        memory = host_memory(array)
        return memory, kind_of(memory.info)
    return complex_memory(array.numpy()), "c"


def complex_memory(numbers: Any) -> HostMemory:
    """The memory of a NumPy array of complex numbers, in terms of their parts."""
    info = TYPES[_TYPES["f", numbers.itemsize * 4]]
    return HostMemory(numbers.ctypes.data, numbers.shape, info, numbers)


def capsule_of(function: str, memory: HostMemory, kind: str, max_version: tuple[int, int] | None,
               copy: bool | None, *, copied: bool = False, immutable: bool = False) -> Any:
    """A capsule of memory in C order, in the newest version that the consumer knows.

    ``kind``: ``'c'`` where two numbers at a time are a complex one, else that of the memory. ``copied``: the memory is
    a copy already. ``immutable``: the consumer is known never to write to it. Consumers of version 0 cannot be told
    that memory is read-only, and so get a copy of it.
    """
    if max_version is not None and not (isinstance(max_version, Sequence) and len(max_version) == 2 and
                                        all(isinstance(number, int) for number in max_version)):
        raise ArgumentError(f"{function}(): 'max_version' must be a tuple of two ints, found {max_version!r}.")
    versioned = max_version is not None and tuple(max_version) >= _VERSION
    if memory.read_only and not versioned and not immutable and not copy:
        if copy is False:
            raise CopyError(f"{function}(): the memory belongs to another library, and must not be written to, which "
                              "only version 1 of DLPack can say (max_version=(1, 0)): the consumer needs a copy, which "
                              "copy=False rules out.")
        copy = True
    if copy and not copied:
        memory, copied = _duplicate(memory, kind), True
    info, shape = memory.info, memory.shape
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    strides = (ctypes.c_int64 * len(shape))(*contiguous_strides(shape))
    managed: _Managed
    if versioned:
        managed = _DLManagedTensorVersioned()
        managed.major, managed.minor = _VERSION
        managed.flags = _READ_ONLY * memory.read_only | _IS_COPIED * copied
    else:
        managed = _DLManagedTensor()
    tensor = managed.tensor
    tensor.data, (tensor.device_type, tensor.device_id), tensor.ndim = memory.address or None, CPU, len(shape)
    tensor.code, tensor.bits, tensor.lanes = _CODES[kind], info.size * 8 * (2 if kind == "c" else 1), 1
    tensor.shape, tensor.strides = sizes, strides
    number = next(_numbers)
    managed.context = number
    managed.deleter = ctypes.cast(_release_versioned if versioned else _release, ctypes.c_void_p)
    _exported[number] = (managed, sizes, strides, memory)
    return _capsule_new(ctypes.addressof(managed), _VERSIONED if versioned else _NAME,
                        _destroy_address)


def _duplicate(memory: HostMemory, kind: str) -> HostMemory:
    """A copy that begins where every consumer accepts it."""
    nbytes = memory.nbytes * (2 if kind == "c" else 1)
    block = (ctypes.c_char * (nbytes + _ALIGNMENT))()
    address = ctypes.addressof(block) + -ctypes.addressof(block) % _ALIGNMENT
    if nbytes:
        ctypes.memmove(address, memory.address, nbytes)
    return HostMemory(address, memory.shape, memory.info, block)


# --- import ----------------------------------------------------------------------------------------------------------


class Imported(NamedTuple):
    """An array of another library: its shape, and a node for each of its rows."""

    shape: tuple[int, ...]
    nodes: list[Node]


class _Owner:
    """Keeps imported memory alive; tells its producer when nobody refers to it anymore."""

    __slots__ = ("address", "structure")

    def __init__(self, address: int, structure: Any) -> None:
        self.address, self.structure = address, structure

    def __del__(self) -> None:
        deleter = self.structure.from_address(self.address).deleter
        if deleter:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(self.address)


class Foreign(NamedTuple):
    """An array of another library: what a capsule says of it."""

    #: The user's function, for messages, and the type that the array has there.
    function: str
    source: str
    #: ``'b'``, ``'i'``, ``'u'``, ``'f'``, ``'bf'`` or ``'c'``, and the bits of an element.
    kind: str
    bits: int
    shape: tuple[int, ...]
    #: In elements.
    strides: tuple[int, ...]
    #: Address of the first element, and what keeps the memory alive.
    address: int
    owner: Any
    #: Whether the producer has made a copy.
    copied: bool
    #: The backend that nodes belong to, see :func:`drjit_core.import_shared`.
    where: int | None

    @property
    def type(self) -> int:
        """The type of the elements, or of the parts of complex ones."""
        return _TYPES[("f", self.bits // 2) if self.kind == "c" else (self.kind, self.bits)]

    @property
    def backend(self) -> JitBackend:
        """The backend whose memory it is, or that nodes belong to: memory of the host is that of LLVM."""
        return JitBackend.LLVM if self.where is None else JitBackend(self.where)

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie side by side, in C order."""
        return 0 in self.shape or all(size == 1 or stride == expected for size, stride, expected in
                                      zip(self.shape, self.strides, contiguous_strides(self.shape), strict=True))

    @property
    def aligned(self) -> bool:
        """Whether elements lie at multiples of their size, so that kernels can read them."""
        return self.address % TYPES[self.type].size == 0

    def node(self, part: int = 0) -> Node:
        """All elements in C order; of complex numbers their real (0) or imaginary (1) part.

        What is contiguous is the shared memory itself, anything else a read of it by index that is done when the node
        is evaluated.
        """
        return self._read(self.shape, self.strides, 0, part)

    def rows(self, part: int = 0) -> list[Node]:
        """The elements of each row, which is what the last dimension counts."""
        outer, inner = self.strides[:-1], self.strides[-1:]
        return [self._read(self.shape[-1:], inner, sum(map(int.__mul__, position, outer)), part)
                for position in itertools.product(*map(range, self.shape[:-1]))]

    def _read(self, shape: Sequence[int], strides: Sequence[int], offset: int, part: int) -> Node:
        type_, count = self.type, math.prod(shape)
        if not count:
            return invalid(type_)
        # From the first to the last element that is read, in terms of the memory's own (parts of) elements.
        factor, itemsize = 1 + (self.kind == "c"), TYPES[type_].size
        steps = [stride * factor if size > 1 else 0 for size, stride in zip(shape, strides, strict=True)]
        reach = [(size - 1) * step for size, step in zip(shape, steps, strict=True)]
        base = sum(distance for distance in reach if distance < 0)
        extent = 1 + sum(map(abs, reach))
        start = self.address + (offset * factor + part + base) * itemsize
        if self.aligned:
            source = import_shared(type_, start, extent, self.owner, self.where)
        else:
            block = (ctypes.c_char * (extent * itemsize + itemsize))()
            aligned = ctypes.addressof(block) + -ctypes.addressof(block) % itemsize
            ctypes.memmove(aligned, start, extent * itemsize)
            source = import_shared(type_, aligned, extent, block, self.where)
        return strided(source, shape, steps, -base)

    def independent(self, node: Node) -> Node:
        """A node with the same values in memory of our own, which is copied now."""
        evaluate([node])
        return unshared(node)

    def require_sharing(self) -> None:
        """Raise a :class:`CopyError` if the array cannot be used without a copy."""
        reason = "complex numbers are kept as two arrays, of real and imaginary parts" if self.kind == "c" else \
            "its elements do not lie side by side in C order" if not self.contiguous else \
            "its elements do not lie at multiples of their size in memory" if not self.aligned else \
            f"'{self.source}.__dlpack__()' has made one" if self.copied else ""
        if reason:
            raise CopyError(f"{self.function}(): a copy is needed, which copy=False rules out: {reason}.")


def read(function: str, value: Any, copy: bool | None = None, where: int | None = None) -> Foreign:
    """What an object that speaks DLPack, or a capsule, tells of its memory; nodes of it belong to a backend.

    Raises a ``BufferError`` for other devices, newer versions, and capsules that were consumed before, and an
    ``ArgumentError`` for types of elements that no array has. ``copy=False`` is passed on to the producer.
    """
    source = describe(value)
    if hasattr(value, "__dlpack_device__"):
        _require_readable(function, source, *map(int, value.__dlpack_device__()))
    capsule = _capsule(value, copy) if hasattr(value, "__dlpack__") else value
    handle = id(capsule)
    name = next((name for name in (_VERSIONED, _NAME) if _capsule_is_valid(handle, name)), None)
    if name is None:
        if any(_capsule_is_valid(handle, used) for used in _TAKEN.values()):
            raise BufferError(f"{function}(): the capsule of the argument of type '{source}' has been consumed before; "
                              "each export makes one of its own.")
        raise ArgumentError(f"{function}(): '{source}.__dlpack__()' returned no capsule named 'dltensor' or "
                            "'dltensor_versioned'.")
    address = _capsule_pointer(handle, name)
    managed = _STRUCTURES[name].from_address(address)
    versioned = name is _VERSIONED
    if versioned and managed.major != _VERSION[0]:  # whose structure is another one, but for the deleter
        raise BufferError(f"{function}(): the capsule of the argument of type '{source}' is of version {managed.major}."
                          f"{managed.minor} of DLPack, of which only versions 0 and 1 are known.")
    tensor = managed.tensor
    _require_readable(function, source, tensor.device_type, tensor.device_id)
    shape = tuple(tensor.shape[:tensor.ndim])
    strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else contiguous_strides(shape)
    kind, bits = _KINDS.get(tensor.code, ""), tensor.bits
    if tensor.lanes != 1 or (kind, bits) not in _TYPES and (kind, bits) not in (("c", 64), ("c", 128)):
        what = f"{_NAMES.get(tensor.code, f'code {tensor.code}, ')}{bits}"
        if tensor.lanes != 1:
            what += f", {tensor.lanes} lanes each"
        raise ArgumentError(f"{function}(): the elements of the argument of type '{source}' have an unsupported type "
                            f"({what}); convert them before, to float32 for example.")
    _capsule_set_name(handle, _TAKEN[name])
    owner = _Owner(address, _STRUCTURES[name])
    return Foreign(function, source, kind, bits, shape, strides, (tensor.data or 0) + tensor.byte_offset, owner,
                   versioned and bool(managed.flags & _IS_COPIED), where)


def _require_readable(function: str, source: str, device: int, number: int) -> None:
    if device not in _READABLE:
        raise BufferError(f"{function}(): the argument of type '{source}' is not in the memory of the CPU, but on the "
                          f"device ({device}, {number}) of DLPack ({_DEVICES.get(device, 'unknown')}); copy it to the "
                          "CPU first.")


def _capsule(value: Any, copy: bool | None) -> Any:
    """What ``__dlpack__`` returns, also of producers that know fewer of its parameters."""
    try:
        return value.__dlpack__(max_version=_VERSION) if copy is not False else \
            value.__dlpack__(max_version=_VERSION, copy=False)
    except TypeError as error:  # of a producer before version 1, unless it fails for another reason
        if "argument" not in str(error):
            raise
    return value.__dlpack__()


def from_dlpack(value: Any, cls: type[ArrayBase], whole: bool = False) -> Imported:
    """Import an object that speaks DLPack as rows of a type's elements, sharing memory where the type is the same.

    ``whole``: what is contiguous is imported as a single row, and there may be any number of dimensions.
    """
    function = f"{cls._name}.__init__"
    found = read(function, value, where=cls._where)
    complex_ = cls._special == "complex"
    if found.kind == "c" and not complex_:
        raise ArgumentError(f"{function}(): the elements of the argument of type '{describe(value)}' are complex "
                            f"numbers ({found.bits} bits), which {cls._name} cannot hold; pass its real part, or make "
                            "a Complex2f of it.")
    if found.kind == "c":
        nodes = [node for part in (0, 1) for node in found.rows(part)]
        return Imported((2, *found.shape), [cast(node, cls._type) for node in nodes])
    nodes = [found.node()] if whole else found.rows()
    return Imported(found.shape, [cast(node, cls._type) for node in nodes])


links.to_capsule = to_capsule
