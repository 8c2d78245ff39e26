"""Memory of OpenGL: buffers and textures that arrays of the GPU are copied to without the host."""

from __future__ import annotations

import math
from contextlib import suppress
from types import TracebackType
from typing import Any

from drjit_core import JitBackend

from .._arrays.dlpack import device_of, memory_of
from .._base import capsules
from .._base.arguments import require_bool, require_count
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, ShapeError, describe
from .contexts import of_gpu

__all__ = ["GLInterop", "map_graphics_resource_array", "map_graphics_resource_ptr", "memcpy_2d_to_array_async",
           "register_gl_buffer", "register_gl_texture", "unmap_graphics_resource", "unregister_cuda_resource"]

#: What capsules are, which refer to these bytes, as long as there is a resource, and afterwards.
_RESOURCE, _GONE = b"CUgraphicsResource", b"CUgraphicsResource_unregistered"
_KINDS = {"u": "uint", "i": "int", "f": "float", "bf": "bfloat", "b": "bool"}


def _handle(function: str, resource: object) -> int:
    """The handle of a resource that the user gives."""
    if capsules.is_valid(id(resource), _RESOURCE):
        return capsules.pointer(id(resource), _RESOURCE)  # type: ignore[no-any-return]
    if capsules.is_valid(id(resource), _GONE):
        raise ArgumentError(f"{function}(): 'cuda_resource' has been unregistered.")
    raise ArgumentError(f"{function}(): 'cuda_resource' must be a capsule of register_gl_buffer() or "
                        f"register_gl_texture(), found {describe(resource)}.")


def register_gl_buffer(gl_buffer: int) -> object:
    """Let CUDA know a buffer of OpenGL, given by its number; returns a capsule, for :func:`map_graphics_resource_ptr`.

    It is to be given up by :func:`unregister_cuda_resource`. As for all functions of this kind, a context of OpenGL
    must be the current one of the thread. Raises a ``RuntimeError`` if there is no GPU, or the driver refuses.

    >>> resource = dr.cuda.register_gl_buffer(number)  # doctest: +SKIP
    """
    function = "drjit.cuda.register_gl_buffer"
    number = require_count(function, "gl_buffer", gl_buffer)
    with of_gpu(function) as gpu, gpu.watching():
        return capsules.new(gpu.driver.register_buffer(number), _RESOURCE, None)


def register_gl_texture(gl_texture: int) -> object:
    """Let CUDA know a two-dimensional texture of OpenGL, given by its number; returns a capsule, for
    :func:`map_graphics_resource_array`.

    See :func:`register_gl_buffer`.

    >>> resource = dr.cuda.register_gl_texture(number)  # doctest: +SKIP
    """
    function = "drjit.cuda.register_gl_texture"
    number = require_count(function, "gl_texture", gl_texture)
    with of_gpu(function) as gpu, gpu.watching():
        return capsules.new(gpu.driver.register_texture(number), _RESOURCE, None)


def unregister_cuda_resource(cuda_resource: object) -> None:
    """Give up what :func:`register_gl_buffer` or :func:`register_gl_texture` has returned, which must not be mapped.

    The capsule is of no use afterwards. Raises a ``RuntimeError`` if there is no GPU, or the driver refuses.

    >>> dr.cuda.unregister_cuda_resource(resource)  # doctest: +SKIP
    """
    function = "drjit.cuda.unregister_cuda_resource"
    with of_gpu(function) as gpu:
        handle = _handle(function, cuda_resource)
        with gpu.watching():
            gpu.driver.unregister(handle)
        capsules.set_name(id(cuda_resource), _GONE)


def map_graphics_resource_ptr(cuda_resource: object) -> tuple[int, int]:
    """Let CUDA have a buffer; returns the address of its memory on the device, and how many bytes there are.

    What is launched from now on comes after what OpenGL was asked for; until :func:`unmap_graphics_resource`, OpenGL
    must not use the buffer. Raises a ``RuntimeError`` if there is no GPU, if it is mapped already, or no buffer.

    >>> address, nbytes = dr.cuda.map_graphics_resource_ptr(resource)  # doctest: +SKIP
    """
    function = "drjit.cuda.map_graphics_resource_ptr"
    with of_gpu(function) as gpu, gpu.watching():
        return gpu.driver.map_buffer(_handle(function, cuda_resource))  # type: ignore[no-any-return]


def map_graphics_resource_array(cuda_resource: object, mip_level: int = 0) -> int:
    """Let CUDA have a texture; returns the handle of the array of one of its levels, see
    :func:`memcpy_2d_to_array_async`.

    As :func:`map_graphics_resource_ptr`; raises a ``RuntimeError`` if there is no such level.

    >>> array = dr.cuda.map_graphics_resource_array(resource, mip_level=1)  # doctest: +SKIP
    """
    function = "drjit.cuda.map_graphics_resource_array"
    level = require_count(function, "mip_level", mip_level)
    with of_gpu(function) as gpu, gpu.watching():
        return gpu.driver.map_texture(_handle(function, cuda_resource), level)  # type: ignore[no-any-return]


def unmap_graphics_resource(cuda_resource: object) -> None:
    """Give a buffer or texture back to OpenGL, which goes on behind all that was launched.

    Raises a ``RuntimeError`` if there is no GPU, or if it is not mapped.

    >>> dr.cuda.unmap_graphics_resource(resource)  # doctest: +SKIP
    """
    function = "drjit.cuda.unmap_graphics_resource"
    with of_gpu(function) as gpu, gpu.watching():
        gpu.driver.unmap(_handle(function, cuda_resource))


def memcpy_2d_to_array_async(dst: int, src: int, src_pitch: int, height: int, from_host: bool = False) -> None:
    """Write rows that lie one behind the other in memory to the first rows of an array of a texture.

    ``dst``: the array, as :func:`map_graphics_resource_array` returns it. ``src``: the address of the rows, on the
    device or, with ``from_host``, on the host, where they must stay until that has happened
    (:func:`drjit.sync_thread`). ``src_pitch``: bytes of a row, all of which are written; ``height``: how many rows.
    What has been launched comes before, what is launched later behind. Raises a ``RuntimeError`` if there is no GPU, or
    if the rows do not fit.

    >>> dr.cuda.memcpy_2d_to_array_async(array, address, 4 * width, height)  # doctest: +SKIP
    """
    function = "drjit.cuda.memcpy_2d_to_array_async"
    array, address, pitch, rows = (require_count(function, name, value, 1) for name, value in (
        ("dst", dst), ("src", src), ("src_pitch", src_pitch), ("height", height)))
    require_bool(function, "from_host", from_host)
    with of_gpu(function) as gpu, gpu.watching():
        gpu.driver.copy_rows(array, address, pitch, rows, from_host)


class GLInterop:
    """A buffer or texture of OpenGL that arrays are copied to on the device, without the host.

    :meth:`from_buffer` and :meth:`from_texture` make one. It is mapped for CUDA by :meth:`map`, and given back to
    OpenGL by :meth:`unmap`, or for the time of a ``with`` statement; in between, OpenGL must not use it. It is given up
    when nobody has it any more. A context of OpenGL must be the current one of the thread; everything else happens in
    the order of what is launched. Raises a ``RuntimeError`` if there is no GPU.

    >>> interop = dr.cuda.GLInterop.from_texture(texture)  # doctest: +SKIP
    >>> interop.map().upload(picture).unmap()  # doctest: +SKIP
    >>> with interop:  # doctest: +SKIP
    ...     interop.upload(picture)
    """

    __slots__ = ("_is_texture", "_mapped", "_resource")

    _is_texture: bool
    _mapped: tuple[int, int] | None  # the handle of an array, or an address and the bytes there
    _resource: object

    def __init__(self) -> None:
        raise TypeError("drjit.cuda.GLInterop(): use GLInterop.from_buffer(), or GLInterop.from_texture().")

    @classmethod
    def _of(cls, resource: object, is_texture: bool) -> GLInterop:
        found = cls.__new__(cls)
        found._resource, found._is_texture, found._mapped = resource, is_texture, None
        return found

    @classmethod
    def from_buffer(cls, gl_buffer: int) -> GLInterop:
        """One of a buffer of OpenGL, given by its number.

        >>> interop = dr.cuda.GLInterop.from_buffer(number)  # doctest: +SKIP
        """
        return cls._of(register_gl_buffer(gl_buffer), False)

    @classmethod
    def from_texture(cls, gl_texture: int) -> GLInterop:
        """One of a two-dimensional texture of OpenGL, given by its number.

        >>> interop = dr.cuda.GLInterop.from_texture(number)  # doctest: +SKIP
        """
        return cls._of(register_gl_texture(gl_texture), True)

    def map(self, mip_level: int = 0) -> GLInterop:
        """Let CUDA have it, of a texture the level of a number; returns the object.

        Raises a ``RuntimeError`` if it is mapped already.

        >>> mapped = interop.map()  # doctest: +SKIP
        """
        if self._is_texture:
            self._mapped = map_graphics_resource_array(self._resource, mip_level), 0
        elif mip_level:
            raise ArgumentError(f"drjit.cuda.GLInterop.map(): buffers have no levels, found mip_level={mip_level!r}.")
        else:
            self._mapped = map_graphics_resource_ptr(self._resource)
        return self

    def upload(self, tensor: ArrayBase) -> GLInterop:
        """Copy a tensor or a flat array of ``drjit.cuda`` there, while it is mapped; evaluates, and returns the object.

        A buffer takes what has at most its size, from its beginning on. A texture takes what has its height, width and
        channels (which may be left out if there is one) for a shape, and its type of numbers; those that OpenGL reads
        as fractions are integers. Raises a ``RuntimeError`` if it is not mapped, an ``ArgumentError`` for other types,
        and a ``ShapeError`` for other shapes.

        >>> mapped = interop.map().upload(picture)  # doctest: +SKIP
        """
        function = "drjit.cuda.GLInterop.upload"
        with of_gpu(function) as gpu:
            if not isinstance(tensor, ArrayBase) or tensor._record.backend is not JitBackend.CUDA or tensor._depth > 0:
                raise ArgumentError(f"{function}(): 'tensor' must be a tensor or a flat array of drjit.cuda, found "
                                    f"{describe(tensor)}.")
            if self._mapped is None:
                raise RuntimeError(f"{function}(): nothing is mapped; call map() before.")
            place, capacity = self._mapped
            memory, kind = memory_of([tensor], device_of(tensor))
            nbytes = math.prod(memory.shape) * memory.info.size
            with gpu.watching():
                if self._is_texture:
                    texels = gpu.driver.texels_of(place)
                    _check_texels(function, texels, memory.shape, kind, memory.info.size)
                    height = texels.height or 1
                    gpu.driver.copy_rows(place, memory.address, nbytes // height, height, False)
                elif nbytes > capacity:
                    raise ShapeError(f"{function}(): 'tensor' has {nbytes} bytes (shape {memory.shape}), the buffer "
                                     f"{capacity}.")
                elif nbytes:
                    gpu.driver.copy(place, memory.address, nbytes)
        return self

    def unmap(self) -> GLInterop:
        """Give it back to OpenGL; returns the object. Raises a ``RuntimeError`` if it is not mapped.

        >>> interop = mapped.unmap()  # doctest: +SKIP
        """
        unmap_graphics_resource(self._resource)
        self._mapped = None
        return self

    def __enter__(self) -> GLInterop:
        return self.map()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._mapped is not None:
            self.unmap()

    def __del__(self) -> None:
        with suppress(AttributeError, RuntimeError):  # there is none; the device, or the context of OpenGL, is gone
            if self._mapped is not None:
                self.unmap()
            unregister_cuda_resource(self._resource)


def _check_texels(function: str, texels: Any, shape: tuple[int, ...], kind: str, size: int) -> None:
    """Raise if a tensor is not what a texture holds."""
    if texels.depth or not texels.kind:
        raise ArgumentError(f"{function}(): the texture must have two dimensions, and numbers of 8, 16 or 32 bits.")
    plain = (texels.height, texels.width) if texels.height else (texels.width,)
    expected = [(*plain, texels.channels), *([plain] if texels.channels == 1 else [])]
    if shape not in expected:
        raise ShapeError(f"{function}(): 'tensor' must have the shape {' or '.join(map(str, expected))} of the "
                         f"texture, found {shape}.")
    if (kind, size) != (texels.kind, texels.size):
        found, needed = (f"{_KINDS.get(each, each)}{8 * count}" for each, count in (
            (kind, size), (texels.kind, texels.size)))
        raise ArgumentError(f"{function}(): 'tensor' must have elements of type {needed}, as the texture does, found "
                            f"{found}.")
