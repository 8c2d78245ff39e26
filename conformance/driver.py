"""As much of the CUDA driver as ``on_gpu.py`` needs, by ctypes: nothing has to be installed but the driver itself.

:class:`Device` is also what tests put the machine in the place of.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

__all__ = ["Device", "DeviceError", "NoDevice"]

_OLDEST = 12010


class NoDevice(Exception):
    """There is no driver, no device, or one that is too old."""


class DeviceError(Exception):
    """The driver has refused something; what follows a fault of a kernel is refused as well."""


class Device:
    """The first GPU."""

    def __init__(self) -> None:
        try:
            self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NoDevice(f"there is no CUDA driver: {error}") from None
        number, version = ctypes.c_int(), ctypes.c_int()
        if status := self._cuda.cuInit(0):
            raise NoDevice(f"the CUDA driver has no device (cuInit: {status})")
        self._call("cuDriverGetVersion", ctypes.byref(version))
        if version.value < _OLDEST:
            raise NoDevice(f"the CUDA driver is too old: {version.value}, not {_OLDEST}")
        self._call("cuDeviceGet", ctypes.byref(number), 0)
        name = ctypes.create_string_buffer(128)
        self._call("cuDeviceGetName", name, 128, number)
        total = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(total), number)
        self.name, self.driver, self.memory = name.value.decode(), version.value, total.value
        self.architecture = 10 * self._attribute(75, number) + self._attribute(76, number)
        self.multiprocessors = self._attribute(16, number)
        self.context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), number)
        self.enter()

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._cuda, function)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorName(status, ctypes.byref(text))
            raise DeviceError(f"{function}: {(text.value or b'').decode()} ({status})")

    def _attribute(self, attribute: int, number: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, number)
        return value.value

    def enter(self) -> None:
        """Let the calling thread use the device."""
        self._call("cuCtxSetCurrent", self.context)

    def load(self, text: str) -> Any:
        """Compile PTX."""
        self.enter()
        module, size = ctypes.c_void_p(), 1 << 13
        log = ctypes.create_string_buffer(size)
        options = (ctypes.c_int * 2)(5, 6)  # a buffer for errors, and its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), size)
        try:
            self._call("cuModuleLoadDataEx", ctypes.byref(module), text.encode(), 2, options, values)
        except DeviceError as error:
            raise DeviceError(f"{error}: {log.value.decode(errors='replace').strip()[:2000]}") from None
        return module

    def unload(self, module: Any) -> None:
        """Forget a module."""
        self._call("cuModuleUnload", module)

    def facts_of(self, module: Any, name: str) -> dict[str, int]:
        """Registers and local memory of a kernel."""
        function, found = self._function(module, name), {}
        for what, attribute in (("registers", 4), ("local", 3), ("shared", 1)):
            value = ctypes.c_int()
            self._call("cuFuncGetAttribute", ctypes.byref(value), attribute, function)
            found[what] = value.value
        return found

    def _function(self, module: Any, name: str) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def allocate(self, nbytes: int) -> int:
        """New memory."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        return address.value

    def release(self, address: int) -> None:
        """Give it back."""
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def upload(self, address: int, data: bytes) -> None:
        """Write to memory."""
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

    def download(self, address: int, nbytes: int) -> bytes:
        """Read memory."""
        data = ctypes.create_string_buffer(nbytes)
        self._call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(nbytes))
        return data.raw

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""
        self._call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(nbytes),
                   None)

    def launch(self, module: Any, name: str, shape: Sequence[int], parameters: bytes) -> None:
        """Launch a kernel: blocks, threads along both axes, and its parameters as they lie in memory."""
        blocks, x, y = (*shape, 1)[:3]
        buffer, size = ctypes.create_string_buffer(parameters, len(parameters)), ctypes.c_size_t(len(parameters))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
        self._call("cuLaunchKernel", self._function(module, name), blocks, 1, 1, x, y, 1, 0, None, None, extra)

    def wait(self) -> None:
        """Wait for all launches."""
        self._call("cuCtxSynchronize")

    def seconds(self, work: Any) -> float:
        """How long the device takes for what a function asks of it."""
        events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in events:
            self._call("cuEventCreate", ctypes.byref(event), 0)
        self._call("cuEventRecord", events[0], None)
        work()
        self._call("cuEventRecord", events[1], None)
        self._call("cuEventSynchronize", events[1])
        milliseconds = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(milliseconds), *events)
        for event in events:
            self._call("cuEventDestroy_v2", event)
        return milliseconds.value / 1000
