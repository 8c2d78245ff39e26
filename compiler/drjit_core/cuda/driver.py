"""The driver's functions that are called, by ctypes: nothing has to be installed but the driver itself.

:class:`Driver` is one device, its primary context, so that other libraries see the same memory, and one stream of ours
in it, in whose order everything happens.  As it is no *non-blocking* one, the device runs what is asked of it and what
other libraries ask of the default stream, which PyTorch and CuPy use unless they are told not to, in the order in which
they ask.  Another stream may take its place (:meth:`Driver.switch`), behind what it was asked for.  Tests put another
driver in the place of this one, which has no device.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

from .errors import DriverError, NoDevice
from .graphics import Graphics
from .green import GreenContexts
from .staging import COPIED, Staging

__all__ = ["OLDEST", "OUT_OF_MEMORY", "Driver", "Graph", "Natives"]

#: The oldest version of the driver: parameters of 32 KiB came with it.
OLDEST = 12010
#: The status of what there is no memory for.
OUT_OF_MEMORY = 2
_LIBRARY = "libcuda.so.1"

_NO_DEVICE = 100
_NAME_LENGTH, _LOG_LENGTH = 128, 1 << 13
# CUdevice_attribute, CUfunction_attribute, CUjit_option, CUjitInputType, CUmemPool_attribute
_MAJOR, _MINOR, _MULTIPROCESSORS = 75, 76, 16
_REGISTERS, _LOCAL, _SHARED = 4, 3, 1
_ERRORS, _LENGTH_OF_ERRORS, _PTX = 5, 6, 1
_KEPT = 4
#: CUpointer_attribute; what is said of an event that has not happened.
_ORDINAL, _NOT_READY = 9, 600
#: Events that only order what streams do.
_UNTIMED = 2
#: Bytes of a ``CUmemPoolProps``, all versions of which begin with four numbers: pinned memory, not exported, on a
#: device, which one.
_PROPERTIES = 128
_INT, _WORD, _POINTER = ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
#: The functions that are called, and their arguments; handles, and addresses of the device, are words.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuDeviceGet": (_POINTER, _INT),
    "cuDeviceGetName": (_POINTER, _INT, _INT),
    "cuDeviceTotalMem_v2": (_POINTER, _INT),
    "cuDeviceGetAttribute": (_POINTER, _INT, _INT),
    "cuDevicePrimaryCtxRetain": (_POINTER, _INT),
    "cuCtxGetCurrent": (_POINTER,),
    "cuCtxSetCurrent": (_POINTER,),
    "cuCtxPushCurrent_v2": (_POINTER,),
    "cuCtxPopCurrent_v2": (_POINTER,),
    "cuStreamCreate": (_POINTER, _INT),
    "cuStreamSynchronize": (_POINTER,),
    "cuMemPoolCreate": (_POINTER, _POINTER),
    "cuMemPoolSetAttribute": (_POINTER, _INT, _POINTER),
    "cuMemPoolTrimTo": (_POINTER, _WORD),
    "cuMemAllocFromPoolAsync": (_POINTER, _WORD, _POINTER, _POINTER),
    "cuMemFreeAsync": (_WORD, _POINTER),
    "cuMemHostAlloc": (_POINTER, _WORD, _INT),
    "cuMemFreeHost": (_POINTER,),
    "cuMemcpyHtoDAsync_v2": (_WORD, _POINTER, _WORD, _POINTER),
    "cuMemcpyDtoHAsync_v2": (_POINTER, _WORD, _WORD, _POINTER),
    "cuMemcpyDtoDAsync_v2": (_WORD, _WORD, _WORD, _POINTER),
    "cuMemsetD8Async": (_WORD, ctypes.c_ubyte, _WORD, _POINTER),
    "cuLinkCreate_v2": (_INT, _POINTER, _POINTER, _POINTER),
    "cuLinkAddData_v2": (_POINTER, _INT, _POINTER, _WORD, _POINTER, _INT, _POINTER, _POINTER),
    "cuLinkComplete": (_POINTER, _POINTER, _POINTER),
    "cuLinkDestroy": (_POINTER,),
    "cuModuleLoadData": (_POINTER, _POINTER),
    "cuModuleUnload": (_POINTER,),
    "cuModuleGetFunction": (_POINTER, _POINTER, ctypes.c_char_p),
    "cuFuncGetAttribute": (_POINTER, _INT, _POINTER),
    "cuLaunchKernel": (_POINTER, _INT, _INT, _INT, _INT, _INT, _INT, _INT, _POINTER, _POINTER, _POINTER),
    "cuGraphCreate": (_POINTER, _INT),
    "cuGraphAddKernelNode_v2": (_POINTER, _POINTER, _POINTER, _WORD, _POINTER),
    "cuGraphInstantiateWithFlags": (_POINTER, _POINTER, ctypes.c_ulonglong),
    "cuGraphExecKernelNodeSetParams_v2": (_POINTER, _POINTER, _POINTER),
    "cuGraphLaunch": (_POINTER, _POINTER),
    "cuGraphExecDestroy": (_POINTER,),
    "cuGraphDestroy": (_POINTER,),
    "cuEventCreate": (_POINTER, _INT),
    "cuEventRecord": (_POINTER, _POINTER),
    "cuEventSynchronize": (_POINTER,),
    "cuEventElapsedTime": (_POINTER, _POINTER, _POINTER),
    "cuEventDestroy_v2": (_POINTER,),
    "cuEventQuery": (_POINTER,),
    "cuStreamWaitEvent": (_POINTER, _POINTER, _INT),
    "cuCtxSynchronize": (),
    "cuPointerGetAttribute": (_POINTER, _INT, _WORD),
}


#: Bytes that nobody has filled yet, nor copied: ``PyBytes_FromStringAndSize``.
_new_bytes: Any = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.restype, _new_bytes.argtypes = ctypes.py_object, (_POINTER, ctypes.c_ssize_t)


class Natives(NamedTuple):
    """Addresses of functions in C, as the driver has them, for who launches without Python."""

    launch: int  #: ``cuLaunchKernel``
    upload: int  #: ``cuMemcpyHtoDAsync_v2``
    change: int  #: ``cuGraphExecKernelNodeSetParams_v2``
    replay: int  #: ``cuGraphLaunch``


class Graph(NamedTuple):
    """Handles of launches that the driver has as a graph."""

    graph: int  #: a ``CUgraph``, whose nodes are there as long as it is
    launcher: int  #: a ``CUgraphExec``
    nodes: list[int]


class _Node(ctypes.Structure):
    """``CUDA_KERNEL_NODE_PARAMS_v2``."""

    _fields_ = (("function", _POINTER), ("blocks", _INT * 3), ("threads", _INT * 3), ("shared", _INT),
                ("parameters", _POINTER), ("extra", _POINTER), ("kernel", _POINTER), ("context", _POINTER))


class _Extra(ctypes.Structure):
    """How the parameters of a launch are given: what follows is where they are, and how many bytes, and the end."""

    _fields_ = (("pointer", _WORD), ("parameters", ctypes.c_char_p), ("size", _WORD), ("bytes", _POINTER),
                ("end", _WORD))


class _Thread(threading.local):
    """What a thread has of its own; it has a current context as soon as it looks here."""

    def __init__(self, driver: Driver) -> None:
        driver.use()
        self.bytes = _WORD()
        self.extra = _Extra(1, None, 2, ctypes.addressof(self.bytes), 0)
        self.address = ctypes.addressof(self.extra)


class Driver(GreenContexts, Graphics):
    """The first GPU.  It may be told not to copy by way of pinned memory, for who measures."""

    def __init__(self, pinned: bool = True) -> None:
        super().__init__()
        library = os.environ.get("DRJIT_LIBCUDA_PATH") or _LIBRARY
        try:
            cuda = ctypes.CDLL(library)
        except OSError as error:
            raise NoDevice(f"there is no CUDA driver: {error}") from None
        number, version = ctypes.c_int(), ctypes.c_int()
        try:
            status = cuda.cuInit(0)
            cuda.cuDriverGetVersion(ctypes.byref(version))
            self._name_of_error = cuda.cuGetErrorName
        except AttributeError as error:
            raise NoDevice(f"{library} is no CUDA driver: {error}") from None
        if version.value < OLDEST:
            found, oldest = (f"{value // 1000}.{value % 1000 // 10}" for value in (version.value, OLDEST))
            raise NoDevice(f"the CUDA driver is too old: its version is {found}, kernels need {oldest}")
        if status:
            raise NoDevice("the CUDA driver has no device" if status == _NO_DEVICE else
                           f"the CUDA driver cannot be used: {DriverError('cuInit', self._name(status), status)}")
        self._library, self.functions = cuda, dict[str, Any]()
        try:
            self._find(_FUNCTIONS)
        except AttributeError as error:
            raise NoDevice(f"the CUDA driver lacks a function: {error}") from None
        self._launch = self.functions["cuLaunchKernel"]
        self.call("cuDeviceGet", ctypes.byref(number), 0)
        text, total = ctypes.create_string_buffer(_NAME_LENGTH), _WORD()
        self.call("cuDeviceGetName", text, _NAME_LENGTH, number.value)
        self.call("cuDeviceTotalMem_v2", ctypes.byref(total), number.value)
        self.name, self.version, self.memory = text.value.decode(), version.value, total.value
        self.number = number.value
        self.architecture = 10 * self._attribute(_MAJOR, number) + self._attribute(_MINOR, number)
        self.multiprocessors = self._attribute(_MULTIPROCESSORS, number)
        self._context = self._made("cuDevicePrimaryCtxRetain", number.value)
        self._thread = _Thread(self)
        self._stream = self._made("cuStreamCreate", 0)  # which is in one order with the default one
        self.stream = self._stream
        properties = (ctypes.c_int * (_PROPERTIES // 4))(1, 0, 1, number.value)
        self._pool = self._made("cuMemPoolCreate", properties)
        self.call("cuMemPoolSetAttribute", self._pool, _KEPT, ctypes.byref(ctypes.c_uint64(-1)))
        self._staging = Staging(self, pinned)

    # --- calls -------------------------------------------------------------------------------------------------------

    def made(self, function: str, *arguments: Any) -> int:
        """The handle, or address, that a function makes in our context."""
        with self._inside():
            return self._made(function, *arguments)

    def call(self, function: str, *arguments: Any, details: Any = None) -> None:
        """Call a function, in a thread that has entered."""
        status = self.functions[function](*arguments)
        if status:
            self.fail(function, status, details)

    def _made(self, function: str, *arguments: Any) -> int:
        """The handle that a function makes."""
        found = _POINTER()
        self.call(function, ctypes.byref(found), *arguments)
        return found.value or 0

    def fail(self, function: str, status: int, details: Any = None) -> NoReturn:
        """Raise what a status means that a function has returned."""
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"the GPU has no memory left: {function}")
        log = "" if details is None else details.value.decode(errors="replace").strip()[:2000]
        raise DriverError(function, self._name(status), status, log)

    def _name(self, status: int) -> str:
        """What the driver calls a status."""
        text = ctypes.c_char_p()
        self._name_of_error(status, ctypes.byref(text))
        return (text.value or b"an error without a name").decode()

    def _attribute(self, attribute: int, number: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, number.value)
        return value.value

    def _current(self) -> int:
        return self._made("cuCtxGetCurrent")

    def use(self) -> None:
        """Let the calling thread have a current context: that of another device, which another library has chosen,
        stays."""
        if not self._current():
            self.call("cuCtxSetCurrent", self._context)

    def enter(self) -> None:
        """Let the calling thread use the device: what it has is made when it asks for the first time."""
        self._thread.address  # noqa: B018

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """For what belongs to the current context, modules and events: let that be ours."""
        self.enter()
        if self._current() == self._context:
            yield
            return
        self.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._made("cuCtxPopCurrent_v2")

    def natives(self) -> Natives | None:
        """The functions for who launches without Python."""
        launch, upload, change, replay = (ctypes.cast(self.functions[name], _POINTER).value or 0 for name in (
            "cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch"))
        return Natives(launch, upload, change, replay)

    # --- kernels -----------------------------------------------------------------------------------------------------

    def assemble(self, text: str) -> bytes:
        """The code of a module in PTX."""
        with self._inside():
            return self._assembled(text)

    def _assembled(self, text: str) -> bytes:
        log = ctypes.create_string_buffer(_LOG_LENGTH)
        options = (ctypes.c_int * 2)(_ERRORS, _LENGTH_OF_ERRORS)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_LENGTH)
        state = _POINTER()
        self.call("cuLinkCreate_v2", 2, options, values, ctypes.byref(state))
        try:
            data = text.encode() + b"\0"
            self.call("cuLinkAddData_v2", state, _PTX, data, len(data), None, 0, None, None, details=log)
            code, size = _POINTER(), _WORD()
            self.call("cuLinkComplete", state, ctypes.byref(code), ctypes.byref(size), details=log)
            assert code.value is not None
            return ctypes.string_at(code.value, size.value)  # the memory is the linker's
        finally:
            self.call("cuLinkDestroy", state)

    def load(self, code: bytes) -> int:
        """A module of some code."""
        with self._inside():
            return self._made("cuModuleLoadData", code)

    def unload(self, module: int) -> None:
        """Forget a module."""
        with self._inside():
            self.call("cuModuleUnload", module)

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        with self._inside():
            return self._made("cuModuleGetFunction", module, name.encode())

    def facts_of(self, function: int) -> dict[str, int]:
        """Registers, and bytes of local and shared memory, of a kernel."""
        self.enter()
        found, value = {}, ctypes.c_int()
        for what, attribute in (("registers", _REGISTERS), ("local", _LOCAL), ("shared", _SHARED)):
            self.call("cuFuncGetAttribute", ctypes.byref(value), attribute, function)
            found[what] = value.value
        return found

    def launch(self, function: int, shape: Sequence[int], parameters: bytes) -> None:
        """Launch a kernel: blocks, threads along both axes, and its parameters as they lie in memory."""
        thread = self._thread
        thread.bytes.value = len(parameters)
        thread.extra.parameters = parameters
        with self._asking:
            status = self._launch(function, shape[0], 1, 1, shape[1], shape[2] if len(shape) > 2 else 1, 1, 0,
                                  self.stream, None, thread.address)
        if status:
            self.fail("cuLaunchKernel", status)

    def graph(self, launches: Sequence[tuple[int, Sequence[int], bytes]]) -> Graph:
        """A graph of launches, as those of :meth:`launch`, one behind the other."""
        size, nodes = _WORD(), list[int]()
        extra = _Extra(1, None, 2, ctypes.addressof(size), 0)
        with self._inside():
            graph = self._made("cuGraphCreate", 0)
            try:
                for function, shape, parameters in launches:
                    extra.parameters, size.value = parameters, len(parameters)
                    node = _Node(function, (shape[0], 1, 1), (shape[1], shape[2], 1), 0, None, ctypes.addressof(extra))
                    before = (_POINTER * 1)(*nodes[-1:])
                    nodes.append(self._made("cuGraphAddKernelNode_v2", graph, before, len(nodes[-1:]),
                                            ctypes.byref(node)))
                return Graph(graph, self._made("cuGraphInstantiateWithFlags", graph, 0), nodes)
            except BaseException:
                self.functions["cuGraphDestroy"](graph)
                raise

    def discard(self, graph: Graph) -> None:
        """Forget a graph; what runs of it goes on."""
        with self._inside():
            self.call("cuGraphExecDestroy", graph.launcher)
            self.call("cuGraphDestroy", graph.graph)

    def wait(self) -> None:
        """Wait for all that was asked for."""
        self.enter()
        self.synchronize()

    def synchronize(self) -> None:
        """Wait, in a thread that has entered."""
        if self.stream == self._stream:
            self.call("cuStreamSynchronize", self._stream)
            return
        point = self.mark()  # the stream may be destroyed while others wait
        try:
            self.call("cuEventSynchronize", point)
        finally:
            self.call("cuEventDestroy_v2", point)

    def mark(self) -> int:
        """A point in the order of what is asked for."""
        with self._inside():
            event = self._made("cuEventCreate", 0)
            self.ask("cuEventRecord", event)
        return event

    def passed(self, point: int) -> bool:
        """Whether the device has come to a point; if so, that is forgotten."""
        self.enter()
        if self.functions["cuEventQuery"](point) == _NOT_READY:
            return False
        self.call("cuEventDestroy_v2", point)
        return True

    def unmark(self, point: int) -> None:
        """Forget a point that nobody asks about any more."""
        self.enter()
        self.call("cuEventDestroy_v2", point)

    def order(self, before: int | None, after: int | None) -> None:
        """Let what a stream is asked for from now on wait for what another one has been asked for: handles of streams,
        1 is the default one, 2 that of the calling thread, ``None`` the one that is asked here."""
        with self._inside(), self._asking:
            event = self._made("cuEventCreate", _UNTIMED)
            try:
                self.call("cuEventRecord", event, self.stream if before is None else before)
                self.call("cuStreamWaitEvent", self.stream if after is None else after, event, 0)
            finally:
                self.call("cuEventDestroy_v2", event)  # which is kept until nobody waits for it

    def switch(self, stream: int) -> None:
        """Ask another stream from now on, behind what was asked for: everything remains in one order.  Who launches by
        the functions of :meth:`natives` must not do so meanwhile."""
        with self._asking:
            if stream != self.stream:
                self.order(None, stream)
                self.stream = stream

    def wait_for_all(self) -> None:
        """Wait for what all streams have been asked for, those of others as well."""
        with self._inside():
            self.call("cuCtxSynchronize")

    def device_of(self, address: int) -> int:
        """The number of the device that some memory belongs to, -1 if it is none that the driver knows."""
        self.enter()
        found = ctypes.c_int()
        status = self.functions["cuPointerGetAttribute"](ctypes.byref(found), _ORDINAL, address)
        return -1 if status else found.value

    def milliseconds(self, begin: int, end: int) -> float:
        """The time between two points, when the device has come to the second one; both are forgotten."""
        self.enter()
        found = ctypes.c_float()
        self.call("cuEventSynchronize", end)
        self.call("cuEventElapsedTime", ctypes.byref(found), begin, end)
        for event in (begin, end):
            self.call("cuEventDestroy_v2", event)
        return found.value

    # --- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """New memory, from now on in the order of what is asked for; raises a ``MemoryError``."""
        self.enter()
        address = _WORD()
        self.ask("cuMemAllocFromPoolAsync", ctypes.byref(address), nbytes, self._pool)
        return address.value

    def release(self, address: int) -> None:
        """Give memory back to the pool."""
        self.enter()
        self.ask("cuMemFreeAsync", address)

    def trim(self) -> None:
        """Give the system what the pool has."""
        self.enter()
        self.call("cuMemPoolTrimTo", self._pool, 0)
        self._staging.release()

    def upload(self, address: int, data: bytes | memoryview) -> None:
        """Write to memory; the data may be changed afterwards."""
        self.enter()
        source: Any = data
        nbytes = len(data) if isinstance(data, bytes) else data.nbytes
        if isinstance(data, memoryview):
            in_place = nbytes > COPIED and not data.readonly
            source = ctypes.byref(ctypes.c_char.from_buffer(data)) if in_place else bytes(data)
        if nbytes > COPIED and self._staging.write(address, source, nbytes):
            return
        self.ask("cuMemcpyHtoDAsync_v2", address, source, nbytes)
        if nbytes > COPIED:
            self.synchronize()

    def download(self, address: int, nbytes: int) -> bytes:
        """Read memory, when all is done that was asked for."""
        self.enter()
        found = self._staging.read(address, nbytes)
        if found is not None:
            return found
        data: bytes = _new_bytes(None, nbytes)
        self.synchronize()  # in the midst of a copy, the driver lets others wait as well
        self.ask("cuMemcpyDtoHAsync_v2", data, address, nbytes)
        self.synchronize()
        return data

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""
        self.enter()
        self.ask("cuMemcpyDtoDAsync_v2", target, source, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Set bytes of memory."""
        self.enter()
        self.ask("cuMemsetD8Async", address, byte, nbytes)
