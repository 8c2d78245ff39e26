"""The driver's library made of the machine: functions of C with the driver's names, for
:class:`drjit_core.cuda.driver.Driver`.

Prototypes and numbers are those of NVIDIA's ``cuda.h`` (CUDA 13.0). What the driver checks is checked: handles,
addresses, sizes, the context of the calling thread; and so is what it does not, that nothing is used after it has been
given back.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from drjit_core.cuda.errors import DriverError

from . import resources
from .driver import MachineDriver, given, launch_of
from .resources import Refused, Resources
from .resources import put as _put

__all__ = ["PROTOTYPES", "Library"]

_I, _U, _S, _P, _D = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64
#: Arguments of the functions; addresses of the device are 64-bit numbers, handles pointers.
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_U,), "cuDriverGetVersion": (_P,), "cuGetErrorName": (_I, _P), "cuDeviceGet": (_P, _I),
    "cuDeviceGetName": (_P, _I, _I), "cuDeviceTotalMem_v2": (_P, _I), "cuDeviceGetAttribute": (_P, _I, _I),
    "cuDevicePrimaryCtxRetain": (_P, _I), "cuCtxGetCurrent": (_P,), "cuCtxSetCurrent": (_P,),
    "cuCtxPushCurrent_v2": (_P,), "cuCtxPopCurrent_v2": (_P,), "cuCtxSynchronize": (),
    "cuStreamCreate": (_P, _U), "cuStreamSynchronize": (_P,), "cuStreamWaitEvent": (_P, _P, _U),
    "cuMemPoolCreate": (_P, _P), "cuMemPoolSetAttribute": (_P, _I, _P), "cuMemPoolTrimTo": (_P, _S),
    "cuMemAllocFromPoolAsync": (_P, _S, _P, _P), "cuMemFreeAsync": (_D, _P),
    "cuMemHostAlloc": (_P, _S, _U), "cuMemFreeHost": (_P,),
    "cuMemcpyHtoDAsync_v2": (_D, _P, _S, _P), "cuMemcpyDtoHAsync_v2": (_P, _D, _S, _P),
    "cuMemcpyDtoDAsync_v2": (_D, _D, _S, _P), "cuMemsetD8Async": (_D, ctypes.c_ubyte, _S, _P),
    "cuPointerGetAttribute": (_P, _I, _D),
    "cuLinkCreate_v2": (_U, _P, _P, _P), "cuLinkAddData_v2": (_P, _I, _P, _S, _P, _U, _P, _P),
    "cuLinkComplete": (_P, _P, _P), "cuLinkDestroy": (_P,),
    "cuModuleLoadData": (_P, _P), "cuModuleUnload": (_P,), "cuModuleGetFunction": (_P, _P, _P),
    "cuFuncGetAttribute": (_P, _I, _P), "cuLaunchKernel": (_P, *[_U] * 7, *[_P] * 3),
    "cuGraphCreate": (_P, _U), "cuGraphAddKernelNode_v2": (_P, _P, _P, _S, _P),
    "cuGraphInstantiateWithFlags": (_P, _P, _D), "cuGraphExecKernelNodeSetParams_v2": (_P, _P, _P),
    "cuGraphLaunch": (_P, _P), "cuGraphExecDestroy": (_P,), "cuGraphDestroy": (_P,),
    "cuEventCreate": (_P, _U), "cuEventRecord": (_P, _P), "cuEventSynchronize": (_P,), "cuEventQuery": (_P,),
    "cuEventElapsedTime": (_P, _P, _P), "cuEventDestroy_v2": (_P,), **resources.PROTOTYPES}
_NAMES = {1: "INVALID_VALUE", 2: "OUT_OF_MEMORY", 100: "NO_DEVICE", 201: "INVALID_CONTEXT", 218: "INVALID_PTX",
          208: "ALREADY_MAPPED", 211: "NOT_MAPPED", 212: "NOT_MAPPED_AS_ARRAY", 213: "NOT_MAPPED_AS_POINTER",
          219: "INVALID_GRAPHICS_CONTEXT", 400: "INVALID_HANDLE", 500: "NOT_FOUND", 600: "NOT_READY",
          700: "ILLEGAL_ADDRESS", 914: "INVALID_RESOURCE_TYPE", 915: "INVALID_RESOURCE_CONFIGURATION",
          701: "LAUNCH_OUT_OF_RESOURCES", 803: "SYSTEM_DRIVER_MISMATCH"}
_INVALID_VALUE, _OUT_OF_MEMORY, _INVALID_CONTEXT, _INVALID_HANDLE, _NOT_FOUND, _NOT_READY = 1, 2, 201, 400, 500, 600
#: Functions that ask for no context.
_WITHOUT = ("cuDevice", "cuInit", "cuDriver", "cuGet", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxPush")
_UNTIMED, _NON_BLOCKING = 2, 1
#: The default streams.
_ALWAYS = (0, 1, 2)


class Library(Resources):
    """Functions by their names, as attributes and as items, as those of a ``ctypes.CDLL``."""

    def __init__(self, device: MachineDriver, lacks: tuple[str, ...] = (), version: int = 13000,
                 status: int = 0) -> None:
        super().__init__()
        self.device, self.version, self.status = device, version, status
        self.calls: list[str] = []
        self.handles: dict[int, tuple[str, Any]] = {}  # what is there: its kind, and what it is
        self.errors: list[BaseException] = []  # that have ended a function otherwise than by a status
        self.refuses: dict[str, int] = {}  # functions that return a status, the next time
        self.always: dict[str, int] = {}  # and those that do so every time
        #: How much streams were asked for, how much of it another one has seen, and the host.
        self.asked: dict[int, int] = {}
        self.seen: dict[int, dict[int, int]] = {}
        self.waited: dict[int, int] = {}
        self.launched: list[tuple[int, int]] = []  # threads, and streams of their launches
        #: Memory of the host that the device accesses, by its addresses.
        self.pinned: dict[int, Any] = {}
        self._later: list[Callable[[], None]] = []  # copies that have not happened yet
        self._happened = 0  # and how many have
        self._order = threading.RLock()
        self._thread = threading.local()
        self._next = 0x1000
        self._functions = {name: ctypes.CFUNCTYPE(_I, *arguments)(self._checked(name))
                           for name, arguments in PROTOTYPES.items() if name not in lacks}

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_functions"][name]
        except KeyError:
            raise AttributeError(f"undefined symbol: {name}") from None

    def left(self, kind: str) -> list[Any]:
        """What there is of a kind."""
        return [what for each, what in self.handles.values() if each == kind]

    def _checked(self, name: str) -> Callable[..., int]:
        work = getattr(self, f"_{name.removesuffix('_v2')}")

        def function(*arguments: Any) -> int:
            self.calls.append(name)
            try:
                if name in self.refuses:
                    return self.refuses.pop(name)
                if name in self.always:
                    return self.always[name]
                if not name.startswith(_WITHOUT) and not self.context():
                    return _INVALID_CONTEXT
                work(*(0 if each is None else each for each in arguments))
            except Refused as refused:
                return refused.status
            except DriverError as error:
                return error.status
            except MemoryError:
                return _OUT_OF_MEMORY
            except BaseException as error:  # ctypes would only print it
                self.errors.append(error)
                return 999
            return 0
        return function

    def _new(self, kind: str, target: int, what: Any = None) -> None:
        self._next += 16
        self.handles[self._next] = kind, what
        _put(target, self._next)

    def _get(self, kind: str, handle: int) -> Any:
        known = self.handles.get(handle)
        if known is None or known[0] != kind:
            raise Refused(_INVALID_HANDLE)
        return known[1]

    def _drop(self, kind: str, handle: int) -> None:
        self._get(kind, handle)
        del self.handles[handle]

    def _stream(self, handle: int) -> None:
        if handle in _ALWAYS:
            self._ours()  # of the current context
        else:
            self._get("stream", handle)

    def _asks(self, stream: int) -> None:
        """A stream of ours is asked for something: it comes behind what the others were asked for."""
        self._get("stream", stream)
        seen = self.seen.setdefault(stream, {})
        for other, count in self.asked.items():
            assert other == stream or count <= max(seen.get(other, 0), self.waited.get(other, 0)), "out of order"
        self.asked[stream] = self.asked.get(stream, 0) + 1

    def _all_seen(self, stream: int) -> dict[int, int]:
        """What a stream was asked for, and what that has waited for."""
        return {**self.seen.get(stream, {}), stream: self.asked.get(stream, 0)}

    def _note(self, seen: dict[int, int], more: dict[int, int]) -> None:
        for stream, count in more.items():
            seen[stream] = max(count, seen.get(stream, 0))

    def _memory(self, address: int, nbytes: int) -> Any:
        begin = self.device.machine.memory.block_of(address)
        if nbytes and (begin is None or address + nbytes > begin + self.device.machine.memory.blocks[begin]):
            raise Refused(_INVALID_VALUE)
        return self.device.machine.memory.at(address, nbytes)

    # --- device and context ------------------------------------------------------------------------------------------

    def _cuInit(self, flags: int) -> None:
        if self.status:
            raise Refused(self.status)

    def _cuDriverGetVersion(self, version: int) -> None:
        _put(version, self.version, _I)

    def _cuGetErrorName(self, status: int, text: int) -> None:
        if status not in _NAMES:
            raise Refused(_INVALID_VALUE)
        self._name = ctypes.create_string_buffer(f"CUDA_ERROR_{_NAMES[status]}".encode())  # until the next one
        _put(text, ctypes.addressof(self._name))

    def _cuDeviceGet(self, device: int, ordinal: int) -> None:
        if ordinal:
            raise Refused(101)
        _put(device, 0, _I)

    def _cuDeviceGetName(self, text: int, length: int, device: int) -> None:
        ctypes.memmove(text, b"machine\0", 8)

    def _cuDeviceTotalMem(self, nbytes: int, device: int) -> None:
        _put(nbytes, self.device.memory, _S)

    def _cuDeviceGetAttribute(self, value: int, attribute: int, device: int) -> None:
        _put(value, {75: self.device.architecture // 10, 76: self.device.architecture % 10, 16: 1}[attribute], _I)

    def _cuDevicePrimaryCtxRetain(self, context: int, device: int) -> None:
        self._new("context", context, "ours")

    def context(self) -> int:
        """The current one of the calling thread, 0 if it has none."""
        return self._contexts()[-1]

    def _contexts(self) -> list[int]:
        contexts: list[int] | None = getattr(self._thread, "contexts", None)
        if contexts is None:
            contexts = self._thread.contexts = [0]
        return contexts

    def _cuCtxGetCurrent(self, context: int) -> None:
        _put(context, self.context())

    def _cuCtxSetCurrent(self, context: int) -> None:
        self._get("context", context)
        self._contexts()[-1] = context

    def _cuCtxPushCurrent(self, context: int) -> None:
        self._get("context", context)
        self._contexts().append(context)

    def _cuCtxPopCurrent(self, context: int) -> None:
        if len(self._contexts()) < 2:
            raise Refused(_INVALID_CONTEXT)
        _put(context, self._contexts().pop())

    def _cuCtxSynchronize(self) -> None:
        self._ours()
        self._happen()
        self.device.wait_for_all()
        self._note(self.waited, self.asked)

    def _ours(self) -> None:
        """Other devices have nothing of what is here: the context is the first one."""
        if self._get("context", self.context()) != "ours":
            raise Refused(_INVALID_HANDLE)

    def other_context(self) -> int:
        """Let the calling thread work with another device, as another library does; the context of that."""
        context = ctypes.c_void_p()
        self._new("context", ctypes.addressof(context), "theirs")
        self._contexts()[-1] = context.value or 0
        return self.context()

    # --- streams and events ------------------------------------------------------------------------------------------

    def _cuStreamCreate(self, stream: int, flags: int) -> None:
        context = self._get("context", self.context())
        green = context[1] if context[0] == "green" else None
        if green is None:
            self._ours()
        elif flags != _NON_BLOCKING:
            raise Refused(_INVALID_VALUE)
        self._new("stream", stream, green)

    def _cuStreamSynchronize(self, stream: int) -> None:
        self._get("stream", stream)
        self._happen()
        self.device.wait()
        self._note(self.waited, self._all_seen(stream))

    def _happen(self, count: int | None = None) -> None:
        """Let so many copies have happened, or all of them: not earlier than somebody can find out."""
        with self._order:
            while self._later and (count is None or self._happened < count):
                self._happened += 1
                self._later.pop(0)()

    def _cuEventCreate(self, event: int, flags: int) -> None:
        self._ours()
        self._new("event", event, {"timed": not flags & _UNTIMED})

    def _cuEventRecord(self, event: int, stream: int) -> None:
        self._stream(stream)
        self.device.wait()  # which fails if the device is lost
        self._get("event", event).update(stream=stream, time=self.device.mark(), seen=self._all_seen(stream),
                                          behind=self._happened + len(self._later))

    def _cuEventQuery(self, event: int) -> None:
        if "time" in self._get("event", event) and not self.device.passed(0.0):
            raise Refused(_NOT_READY)

    def _cuEventSynchronize(self, event: int) -> None:
        found = self._get("event", event)
        self._happen(found.get("behind", 0))
        self.device.wait()
        self._note(self.waited, found.get("seen", {}))

    def _cuEventElapsedTime(self, milliseconds: int, begin: int, end: int) -> None:
        first, last = (self._get("event", each) for each in (begin, end))
        if not (first["timed"] and last["timed"] and "time" in first and "time" in last):
            raise Refused(_INVALID_HANDLE)
        ctypes.c_float.from_address(milliseconds).value = self.device.milliseconds(first["time"], last["time"])

    def _cuEventDestroy(self, event: int) -> None:
        self._drop("event", event)

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        self._stream(stream)
        found = self._get("event", event)
        self.device.orders.append((found["stream"], stream))
        self._note(self.seen.setdefault(stream, {}), found["seen"])

    # --- memory ------------------------------------------------------------------------------------------------------

    def _cuMemPoolCreate(self, pool: int, properties: int) -> None:
        assert list((_I * 4).from_address(properties)) == [1, 0, 1, 0]  # pinned, not exported, on a device, the first
        assert not any((ctypes.c_char * 72).from_address(properties + 16).raw)  # what is reserved
        self._new("pool", pool)

    def _cuMemPoolSetAttribute(self, pool: int, attribute: int, value: int) -> None:
        self._get("pool", pool)
        assert attribute == 4 and ctypes.c_uint64.from_address(value).value == (1 << 64) - 1

    def _cuMemPoolTrimTo(self, pool: int, nbytes: int) -> None:
        self._get("pool", pool)
        self.device.trim()

    def _cuMemAllocFromPoolAsync(self, address: int, nbytes: int, pool: int, stream: int) -> None:
        self._get("pool", pool)
        self._asks(stream)
        _put(address, self.device.allocate(nbytes), ctypes.c_uint64)

    def _cuMemFreeAsync(self, address: int, stream: int) -> None:
        self._asks(stream)
        if address not in self.device.machine.memory.blocks:
            raise Refused(_INVALID_VALUE)
        self._happen()
        self.device.release(address)

    def _cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._asks(stream)
        self._memory(target, nbytes)
        if self._is_pinned(source, nbytes) or nbytes > 1 << 16:
            self._later.append(lambda: self.device.upload(target, ctypes.string_at(source, nbytes)))
        else:  # what a driver copies at once
            data = ctypes.string_at(source, nbytes)
            self._later.append(lambda: self.device.upload(target, data))

    def _is_pinned(self, address: int, nbytes: int) -> bool:
        return any(begin <= address and address + nbytes <= begin + len(block) for begin, block in self.pinned.items())

    def _cuMemHostAlloc(self, address: int, nbytes: int, flags: int) -> None:
        self._ours()
        assert flags == 1
        block = ctypes.create_string_buffer(b"\xa5" * nbytes, nbytes)
        self.pinned[ctypes.addressof(block)] = block
        _put(address, ctypes.addressof(block))

    def _cuMemFreeHost(self, address: int) -> None:
        if address not in self.pinned:
            raise Refused(_INVALID_VALUE)
        assert not self._later
        del self.pinned[address]

    def _cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._asks(stream)
        self._memory(source, nbytes)

        def copy() -> None:
            ctypes.memmove(target, self.device.download(source, nbytes), nbytes)

        self._later.append(copy)
        if not self._is_pinned(target, nbytes):
            self._happen()

    def _cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._asks(stream)
        for address in (source, target):
            self._memory(address, nbytes)
        self._happen()
        self.device.copy(target, source, nbytes)

    def _cuMemsetD8Async(self, target: int, byte: int, nbytes: int, stream: int) -> None:
        self._asks(stream)
        self._memory(target, nbytes)
        self._happen()
        self.device.fill(target, byte, nbytes)

    def _cuPointerGetAttribute(self, value: int, attribute: int, address: int) -> None:
        assert attribute == 9
        if self.device.machine.memory.block_of(address) is None:
            raise Refused(_INVALID_VALUE)
        _put(value, 0, _I)

    # --- kernels -----------------------------------------------------------------------------------------------------

    def _cuLinkCreate(self, count: int, options: int, values: int, state: int) -> None:
        self._ours()
        assert count == 2 and list((_I * 2).from_address(options)) == [5, 6]  # a text for errors, and its length
        log, length = (ctypes.c_size_t * 2).from_address(values)
        self._new("linker", state, {"log": log, "length": length & 0xFFFFFFFF, "code": None})

    def _cuLinkAddData(self, state: int, kind: int, data: int, nbytes: int, *rest: int) -> None:
        linker = self._get("linker", state)
        text = ctypes.string_at(data, nbytes)
        assert kind == 1 and text.endswith(b"\0") and not any(rest)
        try:
            linker["code"] = ctypes.create_string_buffer(self.device.assemble(text[:-1].decode()))
        except DriverError as error:
            said = str(error).encode()[:linker["length"] - 1] + b"\0"
            ctypes.memmove(linker["log"], said, len(said))
            raise

    def _cuLinkComplete(self, state: int, code: int, nbytes: int) -> None:
        made = self._get("linker", state)["code"]
        _put(code, ctypes.addressof(made))
        _put(nbytes, len(made) - 1, _S)  # what is on disk is what the machine's driver has

    def _cuLinkDestroy(self, state: int) -> None:
        code = self._get("linker", state)["code"]
        if code is not None:
            ctypes.memset(code, 0xA5, len(code))  # it was the linker's
        self._drop("linker", state)

    def _cuModuleLoadData(self, module: int, image: int) -> None:
        self._ours()
        self._new("module", module, self.device.load(ctypes.string_at(image)))

    def _cuModuleUnload(self, module: int) -> None:
        self._ours()
        self._drop("module", module)

    def _cuModuleGetFunction(self, function: int, module: int, name: int) -> None:
        functions, text = self._get("module", module), ctypes.string_at(name).decode()
        if text not in functions:
            raise Refused(_NOT_FOUND)
        self._new("function", function, (module, self.device.function(functions, text)))

    def _function(self, handle: int) -> int:
        module, number = self._get("function", handle)
        self._get("module", module)  # which is still there
        return int(number)

    def _cuFuncGetAttribute(self, value: int, attribute: int, function: int) -> None:
        name = {4: "registers", 3: "local", 1: "shared"}[attribute]
        _put(value, self.device.facts_of(self._function(function))[name], _I)

    def _cuLaunchKernel(self, function: int, blocks: int, y: int, z: int, threads_x: int, threads_y: int,
                        threads_z: int, shared: int, stream: int, parameters: int, extra: int) -> None:
        self._asks(stream)
        self.launched.append((threading.get_ident(), stream))
        assert (y, z, threads_z, shared, parameters) == (1, 1, 1, 0, 0)
        self._happen()
        self.device.launch(self._function(function), (blocks, threads_x, threads_y), given(extra))

    # --- graphs ------------------------------------------------------------------------------------------------------

    def _cuGraphCreate(self, graph: int, flags: int) -> None:
        assert flags == 0
        self._new("graph", graph, [])

    def _cuGraphAddKernelNode(self, node: int, graph: int, before: int, count: int, parameters: int) -> None:
        nodes = self._get("graph", graph)
        assert list((ctypes.c_void_p * count).from_address(before)) == nodes[-1:] if count else not nodes  # a chain
        function, *launch = launch_of(parameters)
        self._function(function)
        self._new("node", node, (function, *launch))
        nodes.append(ctypes.c_void_p.from_address(node).value)

    def _cuGraphInstantiateWithFlags(self, launcher: int, graph: int, flags: int) -> None:
        assert flags == 0
        nodes = self._get("graph", graph)
        self._new("launcher", launcher, {"graph": graph, **{node: self._get("node", node) for node in nodes}})

    def _cuGraphExecKernelNodeSetParams(self, launcher: int, node: int, parameters: int) -> None:
        launches = self._get("launcher", launcher)
        self._get("graph", launches["graph"])  # whose node it is
        if node not in launches:
            raise Refused(_INVALID_VALUE)
        launch = launch_of(parameters)
        self._function(launch[0])
        launches[node] = launch

    def _cuGraphLaunch(self, launcher: int, stream: int) -> None:
        self._asks(stream)
        assert self._get("stream", stream) is None  # kernels of nodes do not keep to the part of a green context
        self.launched.append((threading.get_ident(), stream))
        launches = self._get("launcher", launcher)
        self._happen()
        made = self.device.graph([(self._function(function), *launch) for node, (function, *launch) in (
            each for each in launches.items() if each[0] != "graph")])
        self.device.replay(made.launcher)
        self.device.discard(made)

    def _cuGraphExecDestroy(self, launcher: int) -> None:
        self._drop("launcher", launcher)

    def _cuGraphDestroy(self, graph: int) -> None:
        for node in self._get("graph", graph):
            self._drop("node", node)
        self._drop("graph", graph)
