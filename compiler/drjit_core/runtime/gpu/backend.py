"""The backend of a GPU: kernels in PTX, and memory, over a driver (:class:`Driver`).

All that is asked of the driver happens in one order, that of a stream.  So the memory of an array may be used again as
soon as nobody has the array, by whatever comes later, and what the host writes or reads comes after the launches before
it without waiting for anything but itself.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn, Protocol, TypeVar

from ...codegen.program import Program
from ...codegen.steps import Call, Pass, Text
from ...codegen.target import Target
from ...cuda.driver import Driver as CUDADriver
from ...cuda.driver import Graph as DriverGraph
from ...cuda.driver import Natives
from ...cuda.errors import DriverError, NoDevice
from ...ptx.emit import Module, emit
from ...ptx.steps import LAUNCHES
from ...types import JitBackend
from .. import dump, recipes, shortage
from ..buffer import Buffer
from ..disk import Environment
from ..heap import Heap
from .exchange import Exchange
from .kernels import GPUKernel
from .launches import Graph
from .memory import Device
from .native import GPUNative
from .streams import Streams
from .target import LIMITS, target_of

__all__ = ["GPU", "Driver", "availability", "the_gpu"]


class Driver(Protocol):
    """A device: everything happens in the order in which it is asked for.

    Failures are a :class:`~drjit_core.cuda.errors.DriverError`, a shortage of memory is a ``MemoryError``.
    """

    name: str
    number: int  # of the device, among all
    stream: int  # the handle of the one in whose order everything happens
    version: int
    architecture: int

    def facts_of(self, function: int) -> dict[str, int]:
        """Registers, and bytes of local and shared memory, of a kernel."""

    def enter(self) -> None:
        """Let the calling thread use the device, by the functions of :meth:`natives`: others do so themselves."""

    def natives(self) -> Natives | None:
        """The functions of C for who launches without Python, if there are any."""

    def fail(self, function: str, status: int) -> NoReturn:
        """Raise what a status means that one of these has returned."""

    def assemble(self, text: str) -> bytes:
        """The code of a module in PTX."""

    def load(self, code: bytes) -> Any:
        """A module of some code."""

    def unload(self, module: Any) -> None:
        """Forget a module."""

    def function(self, module: Any, name: str) -> int:
        """A kernel of a module."""

    def launch(self, function: int, shape: Sequence[int], parameters: bytes) -> None:
        """Launch a kernel: blocks, threads along both axes, and its parameters as they lie in memory."""

    def graph(self, launches: Sequence[tuple[int, Sequence[int], bytes]]) -> DriverGraph:
        """A graph of launches, one behind the other."""

    def discard(self, graph: DriverGraph) -> None:
        """Forget a graph; what runs of it goes on."""

    def wait(self) -> None:
        """Wait for all that was asked for."""

    def mark(self) -> Any:
        """A point in the order of what is asked for."""

    def passed(self, point: Any) -> bool:
        """Whether the device has come to a point; if so, that is forgotten."""

    def unmark(self, point: Any) -> None:
        """Forget a point that nobody asks about any more."""

    def order(self, before: int | None, after: int | None) -> None:
        """Let what a stream is asked for from now on wait for what another one has been asked for: handles of streams,
        1 is the default one, 2 that of the calling thread, ``None`` the one that is asked here."""

    def switch(self, stream: int) -> None:
        """Ask another stream from now on, behind what was asked for."""

    def wait_for_all(self) -> None:
        """Wait for what all streams have been asked for, those of others as well."""

    def device_of(self, address: int) -> int:
        """The number of the device that some memory belongs to, -1 if it is none that the driver knows."""

    def milliseconds(self, begin: Any, end: Any) -> float:
        """The time between two points, when the device has come to the second one; both are forgotten."""

    def allocate(self, nbytes: int) -> int:
        """New memory."""

    def release(self, address: int) -> None:
        """Give memory back."""

    def trim(self) -> None:
        """Give the system the memory that nobody has."""

    def upload(self, address: int, data: bytes | memoryview) -> None:
        """Write to memory; the data may be changed afterwards."""

    def download(self, address: int, nbytes: int) -> bytes:
        """Read memory, when all is done that was asked for."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Set bytes of memory."""


_Result = TypeVar("_Result")

#: Kernels after which all are forgotten.
_MOST_KERNELS = 16_384


#: Backends of this process.
_IN_USE: weakref.WeakSet[GPU] = weakref.WeakSet()


class GPU:
    """A device."""

    name, language, is_host = "cuda", JitBackend.CUDA, False
    where = JitBackend.CUDA.value
    limits = LIMITS
    evaluate = recipes.evaluate
    carrier = None

    def __init__(self, driver: Driver, target: Target | None = None) -> None:
        """One with a driver; its target is that of the architecture, unless one is given."""
        self.driver = driver
        self.heap = Heap(Device(self))
        self.environment = Environment(lambda: ("ptx", str(driver.architecture), driver.name, str(driver.version)))
        self.kernels: dict[bytes, GPUKernel] = {}
        self.unused: list[Any] = []  # modules of kernels that nobody has any more
        self.unused_graphs: list[DriverGraph] = []
        self.loaded = self.compiled = 0
        self._lost = ""  # why the device is of no use any more
        self._target = target or target_of(driver.architecture)
        self.native = GPUNative(self)
        self.recipes = recipes.Recipes(self.native)
        _IN_USE.add(self)
        self.exchange = Exchange(self)
        self.streams = Streams(self)

    # --- failures ----------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """In a process that was forked: the device, its memory and its driver stay with the other one."""
        self._lose("a process that was forked cannot use the GPU of the process that it was forked from; start "
                   "processes by 'spawn' (multiprocessing.set_start_method), or fork before the GPU is used")

    def _lose(self, why: str) -> None:
        """From now on, who asks for anything is told why there is nothing; there is nothing to wait for."""
        self._lost = why
        self.native.have_run(self.native.count)
        self.native.is_lost = True

    def is_lost(self) -> bool:
        """Whether the device is of no use any more."""
        return bool(self._lost)

    @contextmanager
    def watching(self, ahead: bool = False) -> Iterator[None]:
        """Calls of the driver: what ruins the context is told once, with the launches that may have done it.  They come
        behind all launches, unless they may be ahead of those that are kept."""
        if self._lost:
            raise RuntimeError(self._lost)
        try:
            if not ahead:
                self.settle()
            yield
        except DriverError as error:
            if not error.lost:
                raise RuntimeError(f"the CUDA driver has failed: {error}") from error
            count, launches = self.native.waiting()
            text = f"a kernel has failed, and the GPU is lost to this process, other libraries included: {error}. "
            text += f"It was one of {count} launches: {', '.join(launches)}" if count else "No launches were waiting"
            text += f" and {count - len(launches)} before them" if count > len(launches) else ""
            self._lose(f"{text}. Out-of-bounds accesses are found by dr.set_flag(dr.JitFlag.Debug, True)")
            raise RuntimeError(self._lost) from error

    def fail(self, function: str, status: int) -> NoReturn:
        """Raise what a status means that a function of the driver's has returned."""
        with self.watching():
            self.driver.fail(function, status)

    def with_room(self, work: Callable[[], _Result]) -> _Result:
        """Do what a driver may have no memory for, code or local memory of kernels; once more without what is cached
        here."""
        try:
            return work()
        except MemoryError:
            self.flush_memory()
        return work()

    def settle(self) -> None:
        """Ask the driver for launches that are kept, before anything that comes behind them."""
        if self.native.keeps:
            self.driver.enter()
            self.native.settle()

    def trim(self) -> None:
        """Let the system have what the pool has, and keep what is cached here."""
        with self.watching():
            self.driver.wait()
            self.driver.trim()

    # --- kernels -----------------------------------------------------------------------------------------------------

    def target(self) -> Target:
        """That of the architecture."""
        return self._target

    def _kernel(self, key: bytes, operations: int, make: Any) -> tuple[GPUKernel, bool]:
        kernel = self.kernels.get(key)
        if kernel is not None:
            kernel.reuse(0)
            return kernel, True
        with self.watching():
            kernel = self.kernels[key] = self.with_room(lambda: GPUKernel(self, key, operations, make))
        if kernel.from_disk:
            self.loaded += 1
        else:
            self.compiled += 1
        return kernel, False

    def known(self, key: bytes, operations: int) -> tuple[GPUKernel | None, bool]:
        """The kernel of a key, if it is in memory or on disk, and whether it was in memory already."""
        if key in self.kernels:
            return self.kernels[key], True
        if dump.is_wanted():  # of which those who go the long way write files
            return None, False
        try:
            return self._kernel(key, operations, None)
        except LookupError:
            return None, False

    def compile(self, program: Program, /) -> tuple[GPUKernel, bool]:
        """The kernel of a program, and whether it was in memory already."""
        return self._kernel(program.key, len(program.order), lambda: emit(program))

    def passes(self, call: Call, /) -> Iterable[Pass]:
        """What a step takes to run."""
        return LAUNCHES[call.step.name](call)

    def compile_text(self, text: Text, launch: Any, /) -> tuple[GPUKernel, bool]:
        """The kernel of a text, and whether it was in memory already."""
        kernel, hit = self._kernel(text.key, text.work, lambda: Module(text.text(), 1, False, 0, False))
        if not hit:
            kernel.dump(None)
        return kernel, hit

    def fill_tables(self, target: Any, memory: Any, op: int, /) -> NoReturn:
        """The target asks for none."""
        raise NotImplementedError("scatter-reductions have no tables on this backend")

    merge_tables: Any = fill_tables

    def submit(self, launch: Any, /) -> int:
        """Run a launch after those before it."""
        with self.watching():
            self.streams.turn()
            if launch.timed:
                launch.points.append(self.driver.mark())
            launch.begun = True  # for who interrupts
            try:
                self.run(launch)
            except Exception:
                launch.begun = False  # the driver has refused it, or a part of it: nothing is there
                raise
            ticket = self.native.note(launch.kernel.hash)
            launch.keep = []  # what is allocated from now on comes after the launch
            if launch.timed:
                launch.points.append(self.driver.mark())
            return ticket

    def run(self, launch: Any, /) -> None:
        """Ask the driver for a launch."""
        kernel, words = launch.kernel, launch.words
        module: Module = kernel.module
        if module.words_in_memory:
            memory = self.allocate(len(words))
            self.driver.upload(memory.address, words)
            launch.keep.append(memory)
            words = memory.address.to_bytes(8, "little")
        self.with_room(lambda: self.driver.launch(kernel.function, launch.shape, words + launch.units))
        if kernel.combine is not None:
            blocks = words + launch.shape.blocks.to_bytes(4, "little")
            self.with_room(lambda: self.driver.launch(kernel.combine, module.combine_shape(), blocks))

    def graph(self, launches: list[Any], kernels: list[Any]) -> Graph | None:
        """A graph of launches of some kernels; ``None`` if the driver cannot have it."""
        try:
            with self.watching():
                self._discard()
                return Graph(self, launches, kernels)
        except (MemoryError, RuntimeError):
            if self._lost:
                raise
            return None

    def _discard(self) -> None:
        while self.unused_graphs:
            self.driver.discard(self.unused_graphs.pop())

    def submitted(self) -> int:
        """Ticket of the last launch."""
        return self.native.count

    def wait(self, ticket: int | None = None, /) -> None:
        """Wait for a launch, or for all of them."""
        count = self.native.count
        if ticket is not None and ticket <= self.native.done or self._lost and count == self.native.done:
            return
        with self.watching():
            self.driver.wait()
        self._have_run(count)

    def _have_run(self, count: int) -> None:
        """All launches up to one have run."""
        self.native.have_run(count)
        self.exchange.settle()
        self.streams.settle()

    def is_done(self, ticket: int, /) -> bool:
        """Whether a launch is known to have finished."""
        return ticket <= self.native.done

    def finish(self) -> bool:
        """At exit: wait for what is queued."""
        if not self._lost:
            self.wait()
        return True

    def kernel_statistics(self) -> dict[str, int]:
        """How often kernels were launched, and found in memory, on disk, or nowhere."""
        hits = self.native.hits
        return {"launches": hits + self.loaded + self.compiled, "hits": hits, "loaded": self.loaded,
                "compiled": self.compiled}

    def crowded(self) -> bool:
        """Whether there are so many kernels that it is time to forget them."""
        return len(self.kernels) >= _MOST_KERNELS

    def flush(self) -> None:
        """Forget all kernels; those of a device that is lost are gone."""
        self.wait()
        self.kernels.clear()
        self.recipes.forget()
        if self._lost:
            return
        with self.watching():
            self._discard()
            while self.unused:
                self.driver.unload(self.unused.pop())

    # --- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, /) -> Buffer:
        """A buffer with undefined contents."""
        try:
            block = self.heap.allocate(nbytes)
        except (MemoryError, OverflowError):
            block = shortage.allocate(self.heap, nbytes)
        return Buffer(self, block.address, nbytes, block)

    def release(self, block: Any, /) -> None:
        """Take memory back: it may be used at once, by launches that come later."""
        block.heap.release(block)

    def copy(self, source: Buffer, /) -> Buffer:
        """A buffer of its own with the contents of another one."""
        result = self.allocate(source.nbytes)
        with self.watching():
            self.driver.copy(result.address, source.address, source.nbytes)
        return result

    def read(self, buffer: Buffer, offset: int, count: int, /) -> bytes:
        """Some bytes of a buffer, once all has run."""
        launched = self.native.count
        with self.watching():
            data = self.driver.download(buffer.address + offset, count)
        self._have_run(launched)
        return data

    def write(self, buffer: Buffer, offset: int, data: bytes | memoryview, /) -> None:
        """Replace some bytes."""
        with self.watching():
            self.driver.upload(buffer.address + offset, data)

    def upload(self, address: int, data: bytes) -> None:
        """Write to memory that no launch uses that is kept."""
        with self.watching(ahead=True):
            self.driver.upload(address, data)

    def fill(self, buffer: Buffer, byte: int, /) -> None:
        """Set all bytes."""
        with self.watching():
            self.driver.fill(buffer.address, byte, buffer.nbytes)

    def host_address(self, buffer: Buffer, /) -> NoReturn:
        """There is no such place."""
        raise RuntimeError(f"the host has no access to the {buffer.nbytes} bytes at {buffer.address:#x} of the GPU")

    def memory_statistics(self) -> dict[str, int]:
        """Those of the heap."""
        return self.heap.statistics()

    def flush_memory(self) -> None:
        """Return what the heap and the pool have cached."""
        self.heap.flush()
        if not self._lost:
            self.trim()


def _leave_all() -> None:
    for gpu in list(_IN_USE):
        gpu.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)


@cache
def _look() -> GPU | str:
    try:
        return GPU(CUDADriver())
    except (NoDevice, DriverError, ValueError) as error:  # ValueError: an architecture that is too old
        return str(error)
    except MemoryError:
        return "the GPU has no memory left for another process"


_looking = threading.Lock()


def _found() -> GPU | str:
    with _looking:  # threads that ask at the same time get the same one
        return _look()


def the_gpu() -> GPU | None:
    """The backend of this machine's first GPU, if there is one."""
    found = _found()
    return found if isinstance(found, GPU) else None


def availability() -> tuple[bool, str]:
    """Whether kernels can run on a GPU of this machine; in words, which one it is, or why not."""
    found = _found()
    if not isinstance(found, GPU):
        return False, found
    driver = found.driver
    return True, (f"{driver.name}, sm_{driver.architecture}, driver {driver.version // 1000}."
                  f"{driver.version % 1000 // 10}")
