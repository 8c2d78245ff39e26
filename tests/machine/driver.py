"""A driver made of the machine: in the place of :class:`drjit_core.cuda.driver.Driver`."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from drjit_core.cuda.driver import Graph, Natives
from drjit_core.cuda.errors import DriverError

from .machine import Fault, Machine, parse

__all__ = ["MachineDriver"]

#: Statuses of the real one: what is no program, and what a fault leaves behind.
_INVALID_VALUE, _INVALID_PTX, _INVALID_HANDLE, _ILLEGAL_ADDRESS, _OUT_OF_RESOURCES = 1, 218, 400, 700, 701
_STREAM = 4096  # a handle
#: Blocks of a launch, along the first axis.
_MOST_BLOCKS = (1 << 31) - 1
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)
_UPLOAD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_CHANGE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_REPLAY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Node(ctypes.Structure):
    """``CUDA_KERNEL_NODE_PARAMS_v2`` of ``cuda.h``."""

    _fields_ = (("func", ctypes.c_void_p), ("gridDimX", ctypes.c_uint), ("gridDimY", ctypes.c_uint),
                ("gridDimZ", ctypes.c_uint), ("blockDimX", ctypes.c_uint), ("blockDimY", ctypes.c_uint),
                ("blockDimZ", ctypes.c_uint), ("sharedMemBytes", ctypes.c_uint), ("kernelParams", ctypes.c_void_p),
                ("extra", ctypes.c_void_p), ("kern", ctypes.c_void_p), ("ctx", ctypes.c_void_p))


def given(extra: int) -> bytes:
    """The parameters of a launch, as they are described."""
    words = (ctypes.c_size_t * 5).from_address(extra)
    assert (words[0], words[2], words[4]) == (1, 2, 0)
    return ctypes.string_at(words[1], ctypes.c_size_t.from_address(words[3]).value)


def launch_of(node: int) -> tuple[int, tuple[int, int, int], bytes]:
    """Function, shape and parameters of a node, as they are described."""
    found = Node.from_address(node)
    assert (found.gridDimY, found.gridDimZ, found.blockDimZ, found.sharedMemBytes) == (1, 1, 1, 0)
    assert (found.kernelParams, found.kern, found.ctx) == (None, None, None)
    return found.func or 0, (found.gridDimX, found.blockDimX, found.blockDimY), given(found.extra)


class MachineDriver:
    """One simulated device, which does at once what it is asked for.

    A fault ruins it, as it does a real one: who asks next gets to know it.  One that is ``forgiving`` tells it at once,
    and goes on, so that of many tests one fails.
    """

    version, memory, multiprocessors, number = 13000, 1 << 31, 1, 0
    #: The handle of the stream; what is asked of other ones is what tests say.
    stream = _STREAM

    def __init__(self, architecture: int = 90, seed: int | None = None, memory: int = 1 << 31,
                 forgiving: bool = False) -> None:
        self.name = "machine" if seed is None else f"machine, {seed}"
        self.architecture, self.memory = architecture, memory
        self.machine = Machine(seed=seed)
        self._parsed: dict[bytes, Any] = {}
        self._held = 0  # bytes that are allocated
        self._forgiving = forgiving
        self._fault = ""  # which has ruined it
        self._functions: list[tuple[Any, str]] = []  # by their handles
        self._error: BaseException | None = None  # of the last function of C that has failed
        self._callbacks = (_LAUNCH(self._launch), _UPLOAD(self._upload), _CHANGE(self._change), _REPLAY(self._replay))
        #: Graphs that are there, by what they are launched by: their launches, each behind the one before.
        self.graphs: dict[int, list[tuple[int, Sequence[int], bytes]]] = {}
        self._made = 0  # graphs
        #: Pairs of streams, of which the second one was told to wait for the first one.
        self.orders: list[tuple[int, int]] = []
        self.behind = False  # whether the device has come to no point yet
        self.gone: set[int] = set()  # streams that have been destroyed

    def _enter(self) -> None:
        if self._fault:
            raise DriverError("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", _ILLEGAL_ADDRESS, self._fault)

    # --- kernels -----------------------------------------------------------------------------------------------------

    def assemble(self, text: str) -> bytes:
        """PTX is its own code, if it can be read."""
        self._enter()
        code = text.encode()
        try:
            self._parsed[code] = parse(text)
        except SyntaxError as error:
            raise DriverError("cuLinkAddData_v2", "CUDA_ERROR_INVALID_PTX", _INVALID_PTX, str(error)) from None
        return code

    def load(self, code: bytes) -> Any:
        """The functions of a module."""
        self._enter()
        return self._parsed.pop(code, None) or parse(code.decode())

    def unload(self, module: Any) -> None:
        """Nothing is kept."""

    def function(self, module: Any, name: str) -> int:
        """A kernel of a module."""
        self._functions.append((module, name))
        return len(self._functions)

    def facts_of(self, function: int) -> dict[str, int]:
        """Declared registers."""
        module, name = self._functions[function - 1]
        declared = module[name]
        return {"registers": sum(count for _, count in declared.registers.values()),
                "local": declared.bytes["local"], "shared": declared.bytes["shared"]}

    def launch(self, function: int, shape: Sequence[int], parameters: bytes) -> None:
        """Run a kernel: what it has behind its words are the last bytes."""
        self._enter()
        module, name = self._functions[function - 1]
        threads = math.prod(shape[1:])
        if not 0 < shape[0] <= _MOST_BLOCKS or not 0 < threads <= module[name].most_threads:
            raise DriverError("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE", _INVALID_VALUE,
                              f"{shape[0]} blocks of {threads} threads, of {module[name].most_threads}")
        if len(parameters) != module[name].given:
            raise DriverError("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", _OUT_OF_RESOURCES,
                              f"{len(parameters)} bytes of parameters, of {module[name].given}")
        words = {"p": np.frombuffer(parameters[:len(parameters) & -8], np.uint8),
                 "units": np.frombuffer(parameters[-8:], np.uint64),
                 "blocks": np.frombuffer(parameters[-4:], np.uint32)}
        try:
            self.machine.launch(module, name, words, shape[0], shape[1:])
        except Fault as fault:
            if self._forgiving:
                raise DriverError("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE", _INVALID_VALUE, str(fault)) from fault
            self._fault = str(fault)

    def graph(self, launches: Sequence[tuple[int, Sequence[int], bytes]]) -> Graph:
        """Launches, which are copied; nodes are numbered."""
        self._enter()
        self._made += 1
        self.graphs[self._made] = list(launches)
        return Graph(-self._made, self._made, [*range(1, len(launches) + 1)])

    def discard(self, graph: Graph) -> None:
        """Forget it."""
        assert graph.graph == -graph.launcher
        del self.graphs[graph.launcher]

    def change(self, launcher: int, node: int, launch: tuple[int, Sequence[int], bytes]) -> None:
        """Give a node other parameters."""
        self._enter()
        launches = self._launches_of(launcher)
        if not 0 < node <= len(launches):
            raise DriverError("cuGraphExecKernelNodeSetParams", "CUDA_ERROR_INVALID_VALUE", _INVALID_VALUE)
        launches[node - 1] = launch

    def replay(self, launcher: int) -> None:
        """Launch a graph."""
        self._enter()
        for function, shape, parameters in self._launches_of(launcher):
            if not self._fault:  # which is seen later
                self.launch(function, shape, parameters)

    def _launches_of(self, launcher: int) -> list[tuple[int, Sequence[int], bytes]]:
        if launcher not in self.graphs:
            raise DriverError("cuGraphLaunch", "CUDA_ERROR_INVALID_VALUE", _INVALID_VALUE, "a graph that is not there")
        return self.graphs[launcher]

    # --- functions of C ----------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """All threads may use it."""

    def natives(self) -> Natives:
        """Functions of C that do the same."""
        return Natives(*[ctypes.cast(callback, ctypes.c_void_p).value or 0 for callback in self._callbacks])

    def fail(self, function: str, status: int) -> NoReturn:
        """Raise what one of them has met."""
        error, self._error = self._error, None
        assert error is not None and status == _INVALID_VALUE
        raise error

    def _told(self, work: Callable[[], None]) -> int:
        try:
            work()
        except BaseException as error:
            self._error = error
            return _INVALID_VALUE
        return 0

    def _launch(self, function: int, blocks: int, y: int, z: int, threads_x: int, threads_y: int, threads_z: int,
                shared: int, stream: int, parameters: int | None, extra: int) -> int:
        """As ``cuLaunchKernel``."""
        assert (y, z, threads_z, shared, stream, parameters) == (1, 1, 1, 0, _STREAM, None)
        return self._told(lambda: self.launch(function, (blocks, threads_x, threads_y), given(extra)))

    def _change(self, launcher: int, node: int, parameters: int) -> int:
        """As ``cuGraphExecKernelNodeSetParams``: what it gets is copied."""
        return self._told(lambda: self.change(launcher, node, launch_of(parameters)))

    def _replay(self, launcher: int, stream: int) -> int:
        """As ``cuGraphLaunch``."""
        assert stream == _STREAM
        return self._told(lambda: self.replay(launcher))

    def _upload(self, target: int, source: int, nbytes: int, stream: int) -> int:
        """As ``cuMemcpyHtoDAsync``."""
        return self._told(lambda: self.upload(target, ctypes.string_at(source, nbytes)))

    # --- the order of what is asked for ------------------------------------------------------------------------------

    def wait(self) -> None:
        """All has run."""
        self._enter()

    def mark(self) -> float:
        """The time."""
        return time.perf_counter()

    def passed(self, point: float) -> bool:
        """Whether it is said to have come there."""
        return not self.behind

    def unmark(self, point: float) -> None:
        """Nothing is kept."""

    def order(self, before: int | None, after: int | None) -> None:
        """Note it."""
        before, after = self.stream if before is None else before, self.stream if after is None else after
        if {before, after} & self.gone:
            raise DriverError("cuEventRecord", "CUDA_ERROR_INVALID_HANDLE", _INVALID_HANDLE)
        self.orders.append((before, after))

    def wait_for_all(self) -> None:
        """Note it, as an order of all streams (-1)."""
        self._enter()
        self.orders.append((-1, self.stream))

    def device_of(self, address: int) -> int:
        """The only one, or none."""
        return 0 if self.machine.memory.block_of(address) is not None else -1

    def milliseconds(self, begin: float, end: float) -> float:
        """The time between two points."""
        return 1000 * (end - begin)

    # --- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """New memory."""
        self._enter()
        if not nbytes:
            raise DriverError("cuMemAllocFromPoolAsync", "CUDA_ERROR_INVALID_VALUE", _INVALID_VALUE)
        if self._held + nbytes > self.memory:
            raise MemoryError
        address = self.machine.memory.allocate(nbytes)
        self._held += nbytes
        return address

    def release(self, address: int) -> None:
        """Give it back."""
        nbytes = self.machine.memory.blocks[address]
        self._held -= nbytes
        self.machine.memory.release(address, nbytes)

    def trim(self) -> None:
        """Nothing is kept."""

    def upload(self, address: int, data: bytes | memoryview) -> None:
        """Write to memory."""
        self._enter()
        self.machine.memory.at(address, len(data))[:] = np.frombuffer(data, np.uint8)

    def download(self, address: int, nbytes: int) -> bytes:
        """Read it."""
        self._enter()
        return bytes(self.machine.memory.at(address, nbytes))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy."""
        self.upload(target, self.download(source, nbytes))

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Set bytes."""
        self._enter()
        self.machine.memory.at(address, nbytes)[:] = byte
