"""DLPack: exchange of arrays with other libraries without copies, on the host and on GPUs.

A capsule carries a structure that describes an array: ``DLManagedTensor``, or since version 1.0 of the protocol
``DLManagedTensorVersioned``, which says also whether the memory may be written to, and whether it is a copy. Its
deleter, called by the consumer, lets go of the memory.

What is imported is shared with its producer. This project never writes to it: an array over such memory is copied
before it is changed, and views that are handed on are marked as read-only. The protocol is described at
https://dmlc.github.io/dlpack/latest/ and
https://data-apis.org/array-api/latest/design_topics/data_interchange.html.

On a GPU nobody waits when memory changes hands: who gets it works in a stream, which is told to wait for the one of
who gives it. Libraries that do not speak DLPack there, such as Numba, have the *CUDA array interface*
(https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html).
"""

from __future__ import annotations

import ctypes
import itertools
import math
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from drjit_core import (
    TYPES,
    JitBackend,
    Node,
    TypeInfo,
    cast,
    destructor,
    evaluate,
    exchange_of,
    has_backend,
    import_shared,
    invalid,
    shown,
    unshared,
)

from .._access.slicing import contiguous_strides, strided
from .._base.array import ArrayBase
from .._base.capsules import is_valid as _capsule_is_valid
from .._base.capsules import new as _capsule_new
from .._base.capsules import pointer as _capsule_pointer
from .._base.capsules import set_name as _capsule_set_name
from .._base.errors import ArgumentError, describe
from .._base.links import links
from .._base.nodes import broadcast
from .broadcasting import concatenate, transposed
from .host import CPU, HostMemory, host_memory

__all__ = ["CopyError", "Foreign", "Imported", "capsule_of", "complex_memory", "complex_numbers", "device_of",
           "exchange_with", "from_dlpack", "is_on_gpu", "kind_of", "memory_of", "read", "require_host", "speaks",
           "to_capsule"]

#: Devices whose memory is that of the GPU, in the terms of DLPack: CUDA's own, and what it moves there when asked for.
_ON_GPU = {2, 13}
_GPU = 2
#: What kernels of a GPU may read at once, in bytes, is at multiples of that.
_PIECE = 16
#: The streams that have numbers: the default one, that of the calling thread, and that nobody is to wait.
_DEFAULT, _OWN, _NONE = 1, 2, -1
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

# Module-level: capsules refer to these bytes. Names of what is there, and of what a consumer has taken.
_NAME, _USED = b"dltensor", b"used_dltensor"
_VERSIONED, _USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"
_STRUCTURES: dict[bytes, Any] = {_NAME: _DLManagedTensor, _VERSIONED: _DLManagedTensorVersioned}
_TAKEN = {_NAME: _USED, _VERSIONED: _USED_VERSIONED}

# --- export ----------------------------------------------------------------------------------------------------------

#: What has been exported and not yet been released, by the number in the structure's context.
_exported: dict[int, Any] = {}
_numbers = itertools.count(1)


def _let_go(number: int) -> None:
    """Forget an export; memory of a GPU may be used again behind what the consumer's stream has been asked for."""
    found = _exported.pop(number, None)
    if found is not None and found[-1] is not None:
        exchange, stream = found[-1]
        exchange.returned(stream)


@_Deleter  # type: ignore[untyped-decorator]
def _release(address: int) -> None:
    """Called by the consumer, from any thread, when it no longer needs the memory."""
    _let_go(_DLManagedTensor.from_address(address).context)


@_Deleter  # type: ignore[untyped-decorator]
def _release_versioned(address: int) -> None:
    """Called by the consumer of a structure of version 1, from any thread, when it no longer needs the memory."""
    _let_go(_DLManagedTensorVersioned.from_address(address).context)


def _destroy(capsule: int) -> None:
    """Called when a capsule dies: nobody took it if it still has its first name."""
    if _capsule_is_valid(capsule, _NAME):
        _release(_capsule_pointer(capsule, _NAME))
    elif _capsule_is_valid(capsule, _VERSIONED):
        _release_versioned(_capsule_pointer(capsule, _VERSIONED))


_destroy_address = destructor(_destroy)


def exchange_with(where: int) -> Any:
    """What memory of a backend is exchanged by, ``None`` for that of the host."""
    return exchange_of(where) if where == JitBackend.CUDA.value else None


def device_of(array: ArrayBase) -> tuple[int, int]:
    """The device of an array in the terms of DLPack. Evaluates nothing."""
    exchange = exchange_with(array._where)
    return CPU if exchange is None else (_GPU, exchange.number)


def _pair(function: str, dl_device: Any) -> tuple[int, int]:
    if not isinstance(dl_device, Sequence) or isinstance(dl_device, str) or len(dl_device) != 2:
        raise BufferError(f"{function}(): 'dl_device' must be a tuple of two ints, found {dl_device!r}.")
    return int(dl_device[0]), int(dl_device[1])


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
    if copy is False and array._depth > 0:
        raise CopyError(f"{function}(): nested arrays cannot be exported without a copy, which copy=False rules out.")
    device = device_of(array)
    target = device if dl_device is None else _pair(function, dl_device)
    if device == CPU:
        require_host(function, stream, dl_device)
    elif target == CPU and copy is False:
        raise CopyError(f"{function}(): the array is on the device {device} of DLPack ({_DEVICES[_GPU]}): the memory "
                        f"of the CPU, {CPU}, gets a copy, which copy=False rules out.")
    elif target not in (device, CPU):
        raise BufferError(f"{function}(): the array is on the device {device} of DLPack ({_DEVICES[_GPU]}), and goes "
                          f"to the memory of the CPU, {CPU}, but to no other device; found dl_device={dl_device!r}.")
    memory, kind = memory_of([array], target)
    is_copy = array._depth > 0 or target != device
    return capsule_of(function, memory, kind, max_version, copy, copied=is_copy, stream=stream)


def memory_of(parts: Sequence[ArrayBase], device: tuple[int, int] = CPU) -> tuple[HostMemory, str]:
    """The evaluated values of an array in C order, in the memory of the CPU or of the array's own device, and their
    kind: ``'c'`` if two numbers at a time are complex, which two ``parts`` are."""
    array = parts[0]
    if device != CPU:
        return _device_memory(parts, device)
    if len(parts) == 2:
        return complex_memory(complex_numbers(parts)), "c"
    if array._special != "complex":
        memory = host_memory(array)
        return memory, kind_of(memory.info)
    return complex_memory(array.numpy()), "c"


def complex_numbers(parts: Sequence[Any]) -> Any:
    """A NumPy array of the numbers that two tensors are the real and imaginary parts of."""
    import numpy

    evaluate([node for part in parts for node in part._nodes()])
    real, imaginary = [part.numpy() for part in parts]
    result = numpy.empty(real.shape, numpy.result_type(real.dtype, numpy.complex64))
    result.real, result.imag = real, imaginary
    return result


def _device_memory(parts: Sequence[ArrayBase], device: tuple[int, int]) -> tuple[HostMemory, str]:
    """See :func:`memory_of`. What does not lie in one piece is put into one by a kernel."""
    array, info = parts[0], TYPES[parts[0]._type]
    is_complex = len(parts) == 2 or array._special == "complex"
    width = array._width(f"{array._name}.__dlpack__")
    shape = (*array._static_shape(), width) if array._depth >= 0 else array.shape
    nodes = [node for part in parts for node in part._nodes()]
    if array._special == "complex":
        shape = shape[1:]
    if is_complex and info.size == 2:  # complex numbers have no halves
        info = TYPES[_TYPES["f", 32]]
        nodes = [cast(node, info.type) for node in nodes]
    if not nodes or not math.prod(shape):
        return HostMemory(0, shape, info, None, device=device), "c" if is_complex else kind_of(info)
    node, is_own = nodes[0], array._depth <= 0 and not is_complex
    if not is_own:
        size = math.prod(shape) if len(parts) == 2 else width
        node = concatenate([broadcast(node, size) for node in nodes])
    if is_complex:
        node = transposed(node, (2, math.prod(shape)), (1, 0))[0]
    found, buffer = shown(node, array._where)
    if is_own and found is not node and not node.scope:  # what was a literal stays in memory: writes to it are seen
        array._replace([found])
    memory = HostMemory(buffer.address, shape, info, buffer, buffer.read_only, device, array if is_own else None)
    return memory, "c" if is_complex else kind_of(info)


def complex_memory(numbers: Any) -> HostMemory:
    """The memory of a NumPy array of complex numbers, in terms of their parts."""
    info = TYPES[_TYPES["f", numbers.itemsize * 4]]
    return HostMemory(numbers.ctypes.data, numbers.shape, info, numbers)


def capsule_of(function: str, memory: HostMemory, kind: str, max_version: tuple[int, int] | None,
               copy: bool | None, *, copied: bool = False, immutable: bool = False, stream: Any = None) -> Any:
    """A capsule of memory in C order, in the newest version that the consumer knows; of a GPU's, for its ``stream``.

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
    given = _given(function, memory, stream)
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
    tensor.data, tensor.ndim = memory.address or None, len(shape)
    tensor.device_type, tensor.device_id = memory.device
    tensor.code, tensor.bits, tensor.lanes = _CODES[kind], info.size * 8 * (2 if kind == "c" else 1), 1
    tensor.shape, tensor.strides = sizes, strides
    number = next(_numbers)
    managed.context = number
    managed.deleter = ctypes.cast(_release_versioned if versioned else _release, ctypes.c_void_p)
    if given is not None and stream != _NONE:
        given[0].gives(given[1])
    _exported[number] = (managed, sizes, strides, memory, given)
    return _capsule_new(ctypes.addressof(managed), _VERSIONED if versioned else _NAME,
                        _destroy_address)


def _given(function: str, memory: HostMemory, stream: Any) -> tuple[Any, int] | None:
    """What memory of a GPU is exchanged by, and the stream that will use it: the default one unless another is said."""
    if memory.device == CPU:
        return None
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int) or stream < _NONE or not stream):
        raise BufferError(f"{function}(): 'stream' must be the handle of a stream, 1 for the default one, 2 for that "
                          f"of the calling thread, or -1 for none; found {stream!r}.")
    return exchange_with(JitBackend.CUDA.value), _DEFAULT if stream in (None, _NONE) else stream


def _duplicate(memory: HostMemory, kind: str) -> HostMemory:
    """A copy that begins where every consumer accepts it."""
    if memory.device != CPU:
        if not memory.address:
            return memory
        buffer = memory.owner.backend.copy(memory.owner)
        return HostMemory(buffer.address, memory.shape, memory.info, buffer, device=memory.device)
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

    #: What producers give; names of modules may be gone when the last owners are.
    _deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def __init__(self, address: int, structure: Any) -> None:
        self.address, self.structure = address, structure

    def __del__(self) -> None:
        deleter = self.structure.from_address(self.address).deleter
        if deleter:
            self._deleter(deleter)(self.address)


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
    #: What memory of a GPU is exchanged by.
    exchange: Any = None

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
        if self.exchange is not None:
            ahead = start % _PIECE // itemsize  # elements from where kernels can read pieces to the first one
            source = import_shared(type_, start - ahead * itemsize, ahead + extent, self.owner, self.where,
                                   self.exchange)
            base -= ahead
        elif self.aligned:
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

    Unless it is said which backend, memory of a GPU is that of CUDA. Raises a ``BufferError`` for other devices, newer
    versions, and capsules that were consumed before, and an ``ArgumentError`` for types of elements that no array has.
    ``copy=False`` is passed on to the producer.
    """
    source = describe(value)
    exchange, stream = None, None
    if hasattr(value, "__dlpack_device__"):
        device, number = map(int, value.__dlpack_device__())
        exchange = _exchange(function, source, device, number, where)
        stream = None if exchange is None else exchange.stream
    elif not hasattr(value, "__dlpack__") and hasattr(value, "__cuda_array_interface__"):
        return _read_interface(function, source, value, where)
    capsule = _capsule(value, copy, stream) if hasattr(value, "__dlpack__") else value
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
    exchange = _exchange(function, source, tensor.device_type, tensor.device_id, where)
    if exchange is not None and stream is None:  # a capsule, whose producer knows nothing of our stream
        exchange.takes(_DEFAULT)
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
    owner: Any = _Owner(address, _STRUCTURES[name])
    if exchange is not None:
        owner, where = exchange.lent(owner), JitBackend.CUDA.value
    return Foreign(function, source, kind, bits, shape, strides, (tensor.data or 0) + tensor.byte_offset, owner,
                   versioned and bool(managed.flags & _IS_COPIED), where, exchange)


def _exchange(function: str, source: str, device: int, number: int, where: int | None) -> Any:
    """What the memory of a device is exchanged by, ``None`` if the CPU can read it; raises a ``BufferError`` if arrays
    of a backend, or of any, cannot be in the memory of that device."""
    if device in _READABLE:
        return None
    found = f"the device ({device}, {number}) of DLPack ({_DEVICES.get(device, 'unknown')})"
    cuda = JitBackend.CUDA.value
    if device not in _ON_GPU or where not in (None, cuda) or not has_backend(JitBackend.CUDA):
        hint = "; drjit.cuda has arrays in such memory" if device in _ON_GPU and where not in (None, cuda) else ""
        raise BufferError(f"{function}(): the argument of type '{source}' is not in the memory of the CPU, but on "
                          f"{found}; copy it to the CPU first{hint}.")
    exchange = exchange_of(cuda)
    if exchange is None or number != exchange.number:
        own = CPU if exchange is None else (_GPU, exchange.number)
        raise BufferError(f"{function}(): the argument of type '{source}' is on {found}, but arrays of drjit.cuda are "
                          f"on the device {own}; copy it there, or to the CPU.")
    return exchange


def _capsule(value: Any, copy: bool | None, stream: int | None) -> Any:
    """What ``__dlpack__`` returns, also of producers that know fewer of its parameters."""
    options: dict[str, Any] = {} if stream is None else {"stream": stream}
    newer: dict[str, Any] = {"max_version": _VERSION} if copy is not False else \
        {"max_version": _VERSION, "copy": False}
    try:
        return value.__dlpack__(**options, **newer)
    except TypeError as error:  # of a producer before version 1, unless it fails for another reason
        if "argument" not in str(error):
            raise
    return value.__dlpack__(**options)


# --- the CUDA array interface ----------------------------------------------------------------------------------------


def speaks(value: Any) -> bool:
    """Whether a value tells of its memory by DLPack or the CUDA array interface."""
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


def is_on_gpu(value: Any) -> bool:
    """Whether what speaks either tells of memory of a GPU."""
    if hasattr(value, "__dlpack_device__"):
        return int(value.__dlpack_device__()[0]) in _ON_GPU
    return not hasattr(value, "__dlpack__") and hasattr(value, "__cuda_array_interface__")


def _read_interface(function: str, source: str, value: Any, where: int | None) -> Foreign:
    """What an object tells of its memory that has the CUDA array interface alone."""
    told = value.__cuda_array_interface__
    text, (address, _), shape = told["typestr"], told["data"], tuple(map(int, told["shape"]))
    kind, size = text[1], int(text[2:])
    if (kind, size * 8) not in _TYPES and (kind, size * 8) not in (("c", 64), ("c", 128)) or text[0] == ">":
        raise ArgumentError(f"{function}(): the elements of the argument of type '{source}' have an unsupported type "
                            f"({text}); convert them before, to float32 for example.")
    if told.get("mask") is not None:
        raise ArgumentError(f"{function}(): the argument of type '{source}' has masked entries, whose values do not "
                            "count.")
    steps = told.get("strides")
    strides = contiguous_strides(shape) if steps is None else tuple([step // size for step in steps])
    if steps is not None and any(step % size for step in steps):
        raise ArgumentError(f"{function}(): the strides of the argument of type '{source}' are no multiples of the "
                            f"{size} bytes of its elements ({steps}).")
    cuda = JitBackend.CUDA.value
    own = exchange_of(cuda) if has_backend(JitBackend.CUDA) else None
    number = own.device_of(address) if own is not None and address else 0 if own is None else own.number
    exchange = _exchange(function, source, _GPU, number, where)
    if told.get("stream") is not None:
        exchange.takes(told["stream"])
    return Foreign(function, source, kind, size * 8, shape, strides, address or 0, exchange.lent(value), False, cuda,
                   exchange)


def to_interface(array: ArrayBase) -> dict[str, Any]:
    """See ``ArrayBase.__cuda_array_interface__``."""
    exchange, info = exchange_with(array._where), TYPES[array._type]
    if exchange is None or array._depth > 0 or not info.code:
        what = "memory of the CPU is shared by DLPack" if exchange is None else \
            "nested arrays are shared by DLPack" if array._depth > 0 else \
            f"the interface knows no elements of type {info.name}"
        raise AttributeError(f"'{array._name}' has no attribute '__cuda_array_interface__': {what}")
    memory, _ = _device_memory([array], device_of(array))
    # The consumer holds the array, not its memory, which a write to the array may replace.
    key = id(array), memory.address
    if memory.owner is not None and key not in _told:
        _told[key] = exchange, memory.owner
        weakref.finalize(array, _array_is_gone, key).atexit = False
    return memory.__array_interface__ | {"strides": None, "stream": exchange.stream}


#: Memory that others have been told of by the interface, by arrays (which live) and addresses.
_told: dict[tuple[int, int], tuple[Any, Any]] = {}


def _array_is_gone(key: tuple[int, int]) -> None:
    """Nobody has an array any more of whose memory others have been told; they used it in some stream or other."""
    exchange, _memory = _told.pop(key)
    exchange.returned(_DEFAULT)


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


links.to_capsule, links.device_of, links.to_interface = to_capsule, device_of, to_interface
