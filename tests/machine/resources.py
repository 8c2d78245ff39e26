"""What the driver's library has of green contexts and of OpenGL, made of the machine, see :mod:`.library`.

Prototypes, structures and numbers are those of NVIDIA's ``cuda.h`` and ``cudaGL.h`` (CUDA 13.0).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

__all__ = ["PROTOTYPES", "Refused", "Resources", "put"]

_I, _U, _S, _P, _D = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuDeviceGetDevResource": (_I, _P, _U), "cuDevSmResourceSplitByCount": (_P, _P, _P, _P, _U, _U),
    "cuDevResourceGenerateDesc": (_P, _P, _U), "cuGreenCtxCreate": (_P, _P, _I, _U), "cuGreenCtxDestroy": (_P,),
    "cuCtxFromGreenCtx": (_P, _P), "cuStreamDestroy_v2": (_P,),
    "cuGraphicsGLRegisterBuffer": (_P, _U, _U), "cuGraphicsGLRegisterImage": (_P, _U, _U, _U),
    "cuGraphicsUnregisterResource": (_P,), "cuGraphicsMapResources": (_U, _P, _P),
    "cuGraphicsUnmapResources": (_U, _P, _P), "cuGraphicsResourceGetMappedPointer_v2": (_P, _P, _P),
    "cuGraphicsSubResourceGetMappedArray": (_P, _P, _U, _U), "cuArray3DGetDescriptor_v2": (_P, _P),
    "cuMemcpy2DAsync_v2": (_P, _P)}
_INVALID_VALUE, _INVALID_DEVICE, _ALREADY_MAPPED, _NOT_MAPPED, _AS_ARRAY, _AS_POINTER = 1, 101, 208, 211, 212, 213
_NO_GRAPHICS, _RESOURCE_TYPE, _CONFIGURATION = 219, 914, 915
_SM, _TEXTURE_2D, _BYTES = 1, 0x0DE1, 144
#: Bytes of an element, by formats.
_SIZES = {0x01: 1, 0x02: 2, 0x03: 4, 0x08: 1, 0x09: 2, 0x0A: 4, 0x10: 2, 0x20: 4}


class Refused(Exception):
    """A function has returned a status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def put(address: int, value: int, type_: Any = ctypes.c_void_p) -> None:
    """Write a number to memory of the host."""
    type_.from_address(address).value = value


class _Resource(ctypes.Structure):
    """``CUdevResource``; which multiprocessors it is of is written where its own numbers are."""

    _fields_ = (("type", _U), ("first", _U), ("own", ctypes.c_ubyte * 88), ("count", _U), ("least", _U),
                ("alignment", _U), ("more", ctypes.c_ubyte * 36))


class _Copy(ctypes.Structure):
    """``CUDA_MEMCPY2D``."""

    _fields_ = tuple((name, type_) for name, type_ in (
        ("srcX", _S), ("srcY", _S), ("srcType", _U), ("srcHost", _P), ("srcDevice", _D), ("srcArray", _P),
        ("srcPitch", _S), ("dstX", _S), ("dstY", _S), ("dstType", _U), ("dstHost", _P), ("dstDevice", _D),
        ("dstArray", _P), ("dstPitch", _S), ("width", _S), ("height", _S)))


assert ctypes.sizeof(_Resource) == _BYTES and ctypes.sizeof(_Copy) == 128


class Resources:
    """Green contexts, whose groups are of eight multiprocessors; buffers and textures of OpenGL by their numbers."""

    device: Any
    handles: dict[int, tuple[str, Any]]
    _new: Any
    _get: Any
    _drop: Any
    _asks: Any
    _ours: Any
    _contexts: Any
    _memory: Any

    def __init__(self) -> None:
        self.multiprocessors, self.unit = 20, 8
        #: What OpenGL has: bytes of buffers, and levels of textures, each an array of height, width and channels, with
        #: the number of their format; ``None``: it has no context.
        self.opengl: dict[int, Any] | None = {}

    # --- green contexts ----------------------------------------------------------------------------------------------

    def _cuDeviceGetDevResource(self, device: int, resource: int, type_: int) -> None:
        if device:
            raise Refused(_INVALID_DEVICE)
        if type_ != _SM:
            raise Refused(_RESOURCE_TYPE)
        self._fill(resource, 1, self.multiprocessors)

    def _fill(self, resource: int, first: int, count: int) -> None:
        ctypes.memset(resource, 0, _BYTES)
        if count:
            found = _Resource.from_address(resource)
            found.type, found.first, found.count, found.least, found.alignment = _SM, first, count, self.unit, self.unit

    def _cuDevSmResourceSplitByCount(self, result: int, count: int, source: int, rest: int, flags: int,
                                     least: int) -> None:
        whole = _Resource.from_address(source)
        if whole.type != _SM:
            raise Refused(_RESOURCE_TYPE)
        assert (whole.first, whole.count) == (1, self.multiprocessors)  # what was split is not split again
        assert flags == 0 and _U.from_address(count).value == 1 and 0 < least <= whole.count
        size = -(-least // self.unit) * self.unit
        if size > whole.count:
            raise Refused(_CONFIGURATION)
        self._fill(result, 1, size)
        self._fill(rest, 1 + size, whole.count - size)

    def _cuDevResourceGenerateDesc(self, description: int, resources: int, count: int) -> None:
        found = _Resource.from_address(resources)
        if found.type != _SM:
            raise Refused(_RESOURCE_TYPE)
        assert count == 1 and found.first and found.count
        self._new("description", description, found.count)

    def _cuGreenCtxCreate(self, context: int, description: int, device: int, flags: int) -> None:
        if device or flags != 1:
            raise Refused(_INVALID_VALUE)
        self._new("green context", context, self._get("description", description))

    def _cuCtxFromGreenCtx(self, context: int, green: int) -> None:
        self._get("green context", green)
        self._new("context", context, ("green", green))

    def _cuGreenCtxDestroy(self, green: int) -> None:
        self._drop("green context", green)
        for handle, (kind, what) in list(self.handles.items()):
            assert (kind, what) != ("stream", green)  # who makes streams destroys them before
            if (kind, what) == ("context", ("green", green)):
                assert handle not in self._contexts()
                self._drop("context", handle)

    def _cuStreamDestroy(self, stream: int) -> None:
        self._drop("stream", stream)

    # --- OpenGL ------------------------------------------------------------------------------------------------------

    def _cuGraphicsGLRegisterBuffer(self, resource: int, buffer: int, flags: int) -> None:
        self._register(resource, buffer, flags, bytearray)

    def _cuGraphicsGLRegisterImage(self, resource: int, image: int, target: int, flags: int) -> None:
        if target != _TEXTURE_2D:
            raise Refused(_INVALID_VALUE)
        self._register(resource, image, flags, tuple)

    def _register(self, resource: int, number: int, flags: int, type_: type) -> None:
        self._ours()
        if self.opengl is None:
            raise Refused(_NO_GRAPHICS)
        if not isinstance(self.opengl.get(number), type_) or flags:
            raise Refused(_INVALID_VALUE)
        self._new("resource", resource, {"is": self.opengl[number], "mapped": False})

    def _cuGraphicsUnregisterResource(self, resource: int) -> None:
        self._ours()
        assert not self._get("resource", resource)["mapped"]
        self._drop("resource", resource)

    def _cuGraphicsMapResources(self, count: int, resources: int, stream: int) -> None:
        self._asks(stream)
        assert count == 1
        found = self._get("resource", _P.from_address(resources).value)
        if found["mapped"]:
            raise Refused(_ALREADY_MAPPED)
        found["mapped"] = True
        if isinstance(found["is"], bytearray):
            found["address"] = self.device.allocate(len(found["is"]))
            self.device.upload(found["address"], bytes(found["is"]))

    def _cuGraphicsUnmapResources(self, count: int, resources: int, stream: int) -> None:
        self._asks(stream)
        assert count == 1
        found = self._get("resource", _P.from_address(resources).value)
        if not found["mapped"]:
            raise Refused(_NOT_MAPPED)
        found["mapped"] = False
        if isinstance(found["is"], bytearray):
            found["is"][:] = self.device.download(found["address"], len(found["is"]))
            self.device.release(found["address"])
        for handle, (kind, what) in list(self.handles.items()):
            if kind == "array" and what[0] is found:
                self._drop("array", handle)

    def _cuGraphicsResourceGetMappedPointer(self, address: int, nbytes: int, resource: int) -> None:
        found = self._get("resource", resource)
        if not found["mapped"]:
            raise Refused(_NOT_MAPPED)
        if not isinstance(found["is"], bytearray):
            raise Refused(_AS_POINTER)
        put(address, found["address"], _D)
        put(nbytes, len(found["is"]), _S)

    def _cuGraphicsSubResourceGetMappedArray(self, array: int, resource: int, index: int, level: int) -> None:
        found = self._get("resource", resource)
        if not found["mapped"]:
            raise Refused(_NOT_MAPPED)
        if not isinstance(found["is"], tuple):
            raise Refused(_AS_ARRAY)
        form, levels = found["is"]
        if index or level >= len(levels):
            raise Refused(_INVALID_VALUE)
        self._new("array", array, (found, form, levels[level]))

    def _cuArray3DGetDescriptor(self, description: int, array: int) -> None:
        _, form, texels = self._get("array", array)
        height, width, channels = texels.shape
        for place, value in enumerate((width, height, 0)):
            put(description + 8 * place, value, _S)
        for place, value in enumerate((form, channels, 0)):
            put(description + 24 + 4 * place, value, _U)

    def _cuMemcpy2DAsync(self, copy: int, stream: int) -> None:
        self._asks(stream)
        what = _Copy.from_address(copy)
        _, form, texels = self._get("array", what.dstArray)
        height, width, channels = texels.shape
        nbytes = width * channels * _SIZES[form]
        assert not any((what.srcX, what.srcY, what.dstX, what.dstY)) and what.dstType == 3
        assert what.srcType in (1, 2) and what.srcPitch >= what.width  # of the host, or of the device
        if what.width > nbytes or what.height > height:
            raise Refused(_INVALID_VALUE)
        size = what.srcPitch * what.height
        if what.srcType == 2:
            self._memory(what.srcDevice, size)
        data = self.device.download(what.srcDevice, size) if what.srcType == 2 else ctypes.string_at(what.srcHost, size)
        rows = np.frombuffer(data, np.uint8).reshape(what.height, what.srcPitch)
        texels.view(np.uint8).reshape(height, nbytes)[:what.height, :what.width] = rows[:, :what.width]
