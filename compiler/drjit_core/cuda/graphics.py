"""Buffers and textures of OpenGL, as memory of the device: *graphics resources* of the driver.

Numbers and structures are those of NVIDIA's ``cuda.h`` and ``cudaGL.h``, 13.0.  What is asked of them happens in the
order of everything else; a context of OpenGL must be the current one of the calling thread.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from .calls import Calls

__all__ = ["FUNCTIONS", "SINCE", "Graphics", "Texels"]

SINCE = 12010
_INT, _WORD, _POINTER = ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuGraphicsGLRegisterBuffer": (_POINTER, _INT, _INT),
    "cuGraphicsGLRegisterImage": (_POINTER, _INT, _INT, _INT),
    "cuGraphicsUnregisterResource": (_POINTER,),
    "cuGraphicsMapResources": (_INT, _POINTER, _POINTER),
    "cuGraphicsUnmapResources": (_INT, _POINTER, _POINTER),
    "cuGraphicsResourceGetMappedPointer_v2": (_POINTER, _POINTER, _POINTER),
    "cuGraphicsSubResourceGetMappedArray": (_POINTER, _POINTER, _INT, _INT),
    "cuArray3DGetDescriptor_v2": (_POINTER, _POINTER),
    "cuMemcpy2DAsync_v2": (_POINTER, _POINTER),
}
#: ``GL_TEXTURE_2D``; CUmemorytype.
_TEXTURE_2D = 0x0DE1
_ON_HOST, _ON_DEVICE, _ARRAY = 1, 2, 3
#: CUarray_format: kind and bytes of an element.
_FORMATS = {0x01: ("u", 1), 0x02: ("u", 2), 0x03: ("u", 4), 0x08: ("i", 1), 0x09: ("i", 2), 0x0A: ("i", 4),
            0x10: ("f", 2), 0x20: ("f", 4)}


class _Place(ctypes.Structure):
    """One side of a copy."""

    _fields_ = (("x", _WORD), ("y", _WORD), ("kind", _INT), ("host", _POINTER), ("device", _WORD), ("array", _POINTER),
                ("pitch", _WORD))


class _Copy(ctypes.Structure):
    """``CUDA_MEMCPY2D``."""

    _fields_ = (("source", _Place), ("target", _Place), ("width", _WORD), ("height", _WORD))


class _Description(ctypes.Structure):
    """``CUDA_ARRAY3D_DESCRIPTOR``."""

    _fields_ = (("width", _WORD), ("height", _WORD), ("depth", _WORD), ("format", _INT), ("channels", _INT),
                ("flags", _INT))


class Texels(NamedTuple):
    """What an array of the driver holds."""

    width: int
    height: int  #: 0 if there is one dimension
    depth: int  #: 0 if there are two dimensions
    channels: int
    kind: str  #: of numbers: ``u``, ``i``, ``f``; empty for formats in blocks and the like
    size: int  #: of a number, in bytes


class Graphics(Calls):
    """What a driver has of OpenGL."""

    def register_buffer(self, buffer: int) -> int:
        """The resource of a buffer."""
        self._require("resources of OpenGL", FUNCTIONS, SINCE)
        with self._inside():
            return self._made("cuGraphicsGLRegisterBuffer", buffer, 0)

    def register_texture(self, texture: int) -> int:
        """The resource of a two-dimensional texture."""
        self._require("resources of OpenGL", FUNCTIONS, SINCE)
        with self._inside():
            return self._made("cuGraphicsGLRegisterImage", texture, _TEXTURE_2D, 0)

    def unregister(self, resource: int) -> None:
        """Forget a resource."""
        with self._inside():
            self.call("cuGraphicsUnregisterResource", resource)

    def map_buffer(self, resource: int) -> tuple[int, int]:
        """Let the device have the memory of a buffer; its address and bytes."""
        address, nbytes = _WORD(), _WORD()
        self._map(resource, "cuGraphicsResourceGetMappedPointer_v2", ctypes.byref(address), ctypes.byref(nbytes),
                  resource)
        return address.value, nbytes.value

    def map_texture(self, resource: int, level: int) -> int:
        """Let the device have a texture; the array of a level."""
        array = _POINTER()
        self._map(resource, "cuGraphicsSubResourceGetMappedArray", ctypes.byref(array), resource, 0, level)
        return array.value or 0

    def _map(self, resource: int, function: str, *arguments: Any) -> None:
        with self._inside():
            self.ask("cuGraphicsMapResources", 1, ctypes.byref(_POINTER(resource)))
            try:
                self.call(function, *arguments)
            except BaseException:
                self.unmap(resource)
                raise

    def unmap(self, resource: int) -> None:
        """Give a resource back to OpenGL, which goes on behind what was asked for."""
        self._require("resources of OpenGL", FUNCTIONS, SINCE)
        with self._inside():
            self.ask("cuGraphicsUnmapResources", 1, ctypes.byref(_POINTER(resource)))

    def texels_of(self, array: int) -> Texels:
        """What an array holds."""
        found = _Description()
        with self._inside():
            self.call("cuArray3DGetDescriptor_v2", ctypes.byref(found), array)
        return Texels(found.width, found.height, found.depth, found.channels, *_FORMATS.get(found.format, ("", 0)))

    def copy_rows(self, array: int, address: int, pitch: int, height: int, from_host: bool) -> None:
        """Write rows, of so many bytes, that lie one behind the other, to the first ones of an array."""
        self._require("arrays of textures", FUNCTIONS, SINCE)
        what = _Copy(width=pitch, height=height)
        what.target.kind, what.target.array = _ARRAY, array
        what.source.kind, what.source.pitch = (_ON_HOST if from_host else _ON_DEVICE), pitch
        if from_host:
            what.source.host = address
        else:
            what.source.device = address
        with self._inside():
            self.ask("cuMemcpy2DAsync_v2", ctypes.byref(what))
