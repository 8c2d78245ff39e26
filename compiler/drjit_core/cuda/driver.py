"""The driver's functions that are called, by ctypes: nothing has to be installed but the driver itself.

:class:`Driver` is one device, its primary context, so that other libraries see the same memory, and one stream of ours
in it, in whose order everything happens.  Tests put another one in its place, which has no device.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from typing import Any

from .errors import DriverError, NoDevice

__all__ = ["OLDEST", "Driver"]

#: The oldest version of the driver: parameters of 32 KiB came with it.
OLDEST = 12010
_LIBRARY = "libcuda.so.1"

_OUT_OF_MEMORY = 2
_NAME_LENGTH, _LOG_LENGTH = 128, 1 << 13
# CUdevice_attribute, CUfunction_attribute, CUjit_option, CUjitInputType, CUmemPool_attribute
_MAJOR, _MINOR, _MULTIPROCESSORS = 75, 76, 16
_REGISTERS, _LOCAL, _SHARED = 4, 3, 1
_ERRORS, _LENGTH_OF_ERRORS, _PTX = 5, 6, 1
_KEPT = 4
#: Bytes of a ``CUmemPoolProps``, all versions of which begin with four numbers: pinned memory, not exported, on a
#: device, which one.
_PROPERTIES = 128


class Driver:
    """The first GPU."""

    def __init__(self) -> None:
        library = os.environ.get("DRJIT_LIBCUDA_PATH") or _LIBRARY
        try:
            self._cuda: Any = ctypes.CDLL(library)
        except OSError as error:
            raise NoDevice(f"there is no CUDA driver: {error}") from None
        number, version = ctypes.c_int(), ctypes.c_int()
        try:
            status = self._cuda.cuInit(0)
            self._call("cuDriverGetVersion", ctypes.byref(version))
        except AttributeError as error:
            raise NoDevice(f"{library} is no CUDA driver: {error}") from None
        if version.value < OLDEST:
            found, oldest = (f"{value // 1000}.{value % 1000 // 10}" for value in (version.value, OLDEST))
            raise NoDevice(f"the CUDA driver is too old: its version is {found}, kernels need {oldest}")
        if status:
            raise NoDevice(f"the CUDA driver has no device (cuInit: {status})")
        self._call("cuDeviceGet", ctypes.byref(number), 0)
        name, total = ctypes.create_string_buffer(_NAME_LENGTH), ctypes.c_size_t()
        self._call("cuDeviceGetName", name, _NAME_LENGTH, number)
        self._call("cuDeviceTotalMem_v2", ctypes.byref(total), number)
        self.name, self.version, self.memory = name.value.decode(), version.value, total.value
        self.architecture = 10 * self._attribute(_MAJOR, number) + self._attribute(_MINOR, number)
        self.multiprocessors = self._attribute(_MULTIPROCESSORS, number)
        self._threads = threading.local()
        self._context, self._stream, self._pool = (ctypes.c_void_p() for _ in range(3))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), number)
        self.enter()
        self._call("cuStreamCreate", ctypes.byref(self._stream), 1)  # which does not wait for the default one
        properties = (ctypes.c_int * (_PROPERTIES // 4))(1, 0, 1, number.value)
        self._call("cuMemPoolCreate", ctypes.byref(self._pool), properties)
        self._call("cuMemPoolSetAttribute", self._pool, _KEPT, ctypes.byref(ctypes.c_uint64(-1)))

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call(self, function: str, *arguments: Any, details: Any = None) -> None:
        status = getattr(self._cuda, function)(*arguments)
        if not status:
            return
        if status == _OUT_OF_MEMORY:
            raise MemoryError
        text = ctypes.c_char_p()
        self._cuda.cuGetErrorName(status, ctypes.byref(text))
        log = "" if details is None else details.value.decode(errors="replace").strip()[:2000]
        raise DriverError(function, (text.value or b"").decode(), status, log)

    def _attribute(self, attribute: int, number: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, number)
        return value.value

    def enter(self) -> None:
        """Let the calling thread use the device."""
        if not getattr(self._threads, "entered", False):
            self._call("cuCtxSetCurrent", self._context)
            self._threads.entered = True

    # --- kernels -----------------------------------------------------------------------------------------------------

    def assemble(self, text: str) -> bytes:
        """The code of a module in PTX."""
        self.enter()
        log, state = ctypes.create_string_buffer(_LOG_LENGTH), ctypes.c_void_p()
        options = (ctypes.c_int * 2)(_ERRORS, _LENGTH_OF_ERRORS)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_LENGTH)
        self._call("cuLinkCreate_v2", 2, options, values, ctypes.byref(state))
        try:
            data = text.encode() + b"\0"
            self._call("cuLinkAddData_v2", state, _PTX, data, ctypes.c_size_t(len(data)), None, 0, None, None,
                       details=log)
            code, size = ctypes.c_void_p(), ctypes.c_size_t()
            self._call("cuLinkComplete", state, ctypes.byref(code), ctypes.byref(size), details=log)
            assert code.value is not None
            return ctypes.string_at(code.value, size.value)  # the memory is the linker's
        finally:
            self._call("cuLinkDestroy", state)

    def load(self, code: bytes) -> Any:
        """A module of some code."""
        self.enter()
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), code)
        return module

    def unload(self, module: Any) -> None:
        """Forget a module."""
        self.enter()
        self._call("cuModuleUnload", module)

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        self.enter()
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def facts_of(self, function: Any) -> dict[str, int]:
        """Registers, and bytes of local and shared memory, of a kernel."""
        found, value = {}, ctypes.c_int()
        for what, attribute in (("registers", _REGISTERS), ("local", _LOCAL), ("shared", _SHARED)):
            self._call("cuFuncGetAttribute", ctypes.byref(value), attribute, function)
            found[what] = value.value
        return found

    def launch(self, function: Any, shape: Sequence[int], parameters: bytes) -> None:
        """Launch a kernel: blocks, threads along both axes, and its parameters as they lie in memory."""
        self.enter()
        blocks, x, y = (*shape, 1)[:3]
        size = ctypes.c_size_t(len(parameters))
        given = ctypes.cast(ctypes.c_char_p(parameters), ctypes.c_void_p)
        extra = (ctypes.c_void_p * 5)(1, given.value, 2, ctypes.addressof(size), 0)
        self._call("cuLaunchKernel", function, blocks, 1, 1, x, y, 1, 0, self._stream, None, extra)

    def wait(self) -> None:
        """Wait for all that was asked for."""
        self.enter()
        self._call("cuStreamSynchronize", self._stream)

    def mark(self) -> Any:
        """A point in the order of what is asked for."""
        self.enter()
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 0)
        self._call("cuEventRecord", event, self._stream)
        return event

    def milliseconds(self, begin: Any, end: Any) -> float:
        """The time between two points, when the device has come to the second one; both are forgotten."""
        self.enter()
        found = ctypes.c_float()
        self._call("cuEventSynchronize", end)
        self._call("cuEventElapsedTime", ctypes.byref(found), begin, end)
        for event in (begin, end):
            self._call("cuEventDestroy_v2", event)
        return found.value

    # --- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """New memory, from now on in the order of what is asked for; raises a ``MemoryError``."""
        self.enter()
        address = ctypes.c_uint64()
        self._call("cuMemAllocFromPoolAsync", ctypes.byref(address), ctypes.c_size_t(nbytes), self._pool, self._stream)
        return address.value

    def release(self, address: int) -> None:
        """Give memory back to the pool."""
        self.enter()
        self._call("cuMemFreeAsync", ctypes.c_uint64(address), self._stream)

    def trim(self) -> None:
        """Give the system what the pool has."""
        self.enter()
        self._call("cuMemPoolTrimTo", self._pool, ctypes.c_size_t(0))

    def upload(self, address: int, data: bytes | memoryview) -> None:
        """Write to memory; the data may be changed afterwards."""
        self.enter()
        # memory that is not pinned is copied before the call returns
        source = data if data.__class__ is bytes else bytes(data)
        self._call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), source, ctypes.c_size_t(len(source)), self._stream)

    def download(self, address: int, nbytes: int) -> bytes:
        """Read memory, when all is done that was asked for."""
        self.enter()
        data = ctypes.create_string_buffer(nbytes)
        self._call("cuMemcpyDtoHAsync_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(nbytes), self._stream)
        self.wait()
        return data.raw

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""
        self.enter()
        self._call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(nbytes),
                   self._stream)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Set bytes of memory."""
        self.enter()
        self._call("cuMemsetD8Async", ctypes.c_uint64(address), ctypes.c_ubyte(byte), ctypes.c_size_t(nbytes),
                   self._stream)
