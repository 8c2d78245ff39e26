"""The queue of kernel launches, and the threads that run them.

Launches run in order, asynchronously: ``submit`` returns a ticket at once, ``wait`` returns when it is done, and host
memory whose last use has a ticket may be touched by the host only then.  Kernels need no such care: memory that is
freed may be used again by a later launch, because launches are in order.

The threads are native (:mod:`drjit_core.llvm.threads`): waking one through the interpreter costs 33-55 us.  They start
with the first launch of several blocks, keep off the caller's processor, and block all signals.  A launch that is short
while the queue is empty runs on the caller's thread.  Where there is no futex, everything does.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import platform
import signal
import sys
import threading
import time
from collections import deque
from typing import Any

from ..codegen.program import Host
from ..llvm import threads
from . import disk

__all__ = ["Functions", "Launch", "blocks_of", "set_thread_count", "submit", "thread_count", "wait"]

#: Elements times operations of a block: 10 to 30 us of work.  Blocks depend on the program and its width alone, never
#: on the number of threads: the partial results of reductions, and so their bits, are the same in every run.
_BLOCK_WORK = 1 << 20
_LARGEST_BLOCK, _SMALLEST_BLOCK = 1 << 16, 1 << 6
#: Below this many elements times operations a launch runs on the caller's thread if the queue is empty.
_INLINE_WORK = 1 << 17
#: Seconds that a wait holds signals up.
_SLICE = 0.05

_log = logging.getLogger("drjit")
_ARGUMENTS = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
              ctypes.c_int32)
_KERNEL_HOLDING_LOCK = ctypes.PYFUNCTYPE(None, *_ARGUMENTS)
_KERNEL = ctypes.CFUNCTYPE(None, *_ARGUMENTS)
_COMBINE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_SUBMIT = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                            ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_WAIT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)
_STOP = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_COMPLETED_WORD = 8


class Functions:
    """A kernel's native functions: addresses for the pool, and callables for the caller's thread."""

    __slots__ = ("addresses", "combine", "holding_lock", "kernel", "size")

    def __init__(self, kernel: int, combine: int | None, operations: int) -> None:
        self.addresses = (kernel, combine or 0)
        self.kernel = _KERNEL(kernel)
        self.holding_lock = _KERNEL_HOLDING_LOCK(kernel)
        self.combine = _COMBINE(combine) if combine else None
        size = 1 << max(0, (_BLOCK_WORK // max(operations, 1)).bit_length() - 1)
        self.size = max(_SMALLEST_BLOCK, min(_LARGEST_BLOCK, size))  # elements of a block


class Launch:
    """One execution of a kernel: what it needs to run, and what must live until it has."""

    __slots__ = ("functions", "keep", "operations", "parameters", "single", "times", "width")

    def __init__(self, functions: Functions, parameters: Any, width: int, operations: int, keep: Any,
                 timed: bool = False, single: bool = False) -> None:
        self.functions = functions
        self.parameters = parameters
        self.width = width
        self.operations = operations
        self.keep = keep
        self.times = (ctypes.c_int64 * 2)() if timed else None
        self.single = single  # the whole width is one block, for kernels that threads may not share

    @property
    def milliseconds(self) -> float:
        """Time the launch took, once it has run; 0 if it was not timed."""
        return (self.times[1] - self.times[0]) * 1e-6 if self.times is not None else 0.0


def blocks_of(functions: Functions, width: int) -> int:
    """Number of blocks that a launch is cut into."""
    return (width + functions.size - 1) // functions.size


class _Pool:
    """The native queue with its workers."""

    def __init__(self, workers: int, first: int) -> None:
        self.memory = (ctypes.c_int64 * (threads.WORDS + 16))()
        self.address = (ctypes.addressof(self.memory) + 127) & -128
        self.words = (ctypes.c_int64 * threads.WORDS).from_address(self.address)
        self.submitted = self.words[0] = self.words[_COMPLETED_WORD] = first  # tickets of an earlier pool are over
        self.kept: deque[tuple[int, Launch]] = deque()
        self.code = disk.load_or_compile("pool", threads.pool_text(platform.machine()), threads.EXPORTS)
        addresses = self.code.addresses
        self.submit_native = _SUBMIT(addresses["pool_submit"])
        self.wait_native = _WAIT(addresses["pool_wait"])
        self.stop_native = _STOP(addresses["pool_stop"])
        library = ctypes.CDLL(None)
        self.library = library
        self.words[40] = ctypes.cast(library.syscall, ctypes.c_void_p).value or 0
        self.words[41] = ctypes.cast(library.clock_gettime, ctypes.c_void_p).value or 0
        self.workers: list[int] = []
        self.arguments: list[Any] = []
        self.start(workers)

    def start(self, workers: int) -> None:
        """Create the threads, with all signals blocked, on processors other than the caller's."""
        entry = ctypes.c_void_p(self.code.addresses["pool_worker"])
        others = _other_processors()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            for index in range(workers):
                argument = (ctypes.c_int64 * 2)(self.address, index + 1)
                thread = ctypes.c_ulong()
                failed = self.library.pthread_create(ctypes.byref(thread), None, entry, ctypes.byref(argument))
                if failed:
                    _log.warning("cannot start thread %i of %i (error %i)", index + 1, workers, failed)
                    break
                self.arguments.append(argument)
                self.workers.append(thread.value)
                if others is not None:
                    self.library.pthread_setaffinity_np(thread, ctypes.c_size_t(len(others)), others)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    @property
    def completed(self) -> int:
        """Number of launches that have finished."""
        return self.words[_COMPLETED_WORD]

    def submit(self, launch: Launch) -> int:
        """Enqueue a launch."""
        self.release()
        completed = self.words[_COMPLETED_WORD]
        if self.submitted - completed >= threads.SLOTS - 2:
            self.wait(self.submitted - threads.SLOTS // 2)
        self.submitted = ticket = self.submitted + 1
        self.kept.append((ticket, launch))
        functions = launch.functions
        kernel, combine = functions.addresses
        times = ctypes.addressof(launch.times) if launch.times is not None else None
        width = launch.width
        blocks, size = (1, width) if launch.single else (blocks_of(functions, width), functions.size)
        self.submit_native(self.address, ticket, kernel, combine, ctypes.addressof(launch.parameters), width, blocks,
                           size, times)
        return ticket

    def wait(self, ticket: int) -> None:
        """Help until a launch has finished; signals are handled between slices."""
        while not self.wait_native(self.address, ticket, int(_SLICE * 1e9), 0):
            pass
        self.release()

    def release(self) -> None:
        """Let go of what only launches that have finished needed."""
        completed, kept = self.words[_COMPLETED_WORD], self.kept
        while kept and kept[0][0] <= completed:
            kept.popleft()

    def stop(self) -> None:
        """Finish what is queued and end the threads."""
        self.wait(self.submitted)
        self.stop_native(self.address)
        for thread in self.workers:
            self.library.pthread_join(ctypes.c_ulong(thread), None)
        self.workers.clear()


def _other_processors() -> Any:
    """Processor set without the caller's processor, for ``pthread_setaffinity_np``; ``None`` if that leaves nothing."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "sched_getcpu") or not hasattr(os, "sched_getaffinity"):
        return None
    others = os.sched_getaffinity(0) - {library.sched_getcpu()}
    if not others:
        return None
    mask = bytearray(max(128, (max(others) // 64 + 1) * 8))
    for processor in others:
        mask[processor // 8] |= 1 << processor % 8
    return (ctypes.c_char * len(mask)).from_buffer(mask)


# --- the one pool of the process -------------------------------------------------------------------------------------

_pool: _Pool | None = None
_last_ticket = 0  # of the pools before this one: buffers may still carry tickets of theirs
_count: int | None = None  # threads, the caller's included; None: as many as there are processors
_start_lock = threading.Lock()


def is_supported() -> bool:
    """Whether kernels can run on threads of their own on this machine."""
    return sys.platform == "linux" and threads.is_supported(platform.machine())


def thread_count() -> int:
    """Number of threads that run kernels, the calling one included."""
    if not is_supported():
        return 1
    if _count is not None:
        return _count
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_thread_count(count: int, /) -> None:
    """Set the number of threads that run kernels, the calling one included; 0 and 1 both mean the calling one alone."""
    global _count
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"drjit.set_thread_count(): the number of threads must be an int, found {type(count).__name__}")
    if not 0 <= count <= 1024:
        raise ValueError(f"drjit.set_thread_count(): the number of threads must lie in [0, 1024], found {count}")
    shut_down()
    _count = max(1, count)


def _started() -> _Pool | None:
    """The pool, started if there is more than one thread to be used."""
    global _pool
    if _pool is None and thread_count() > 1:
        with _start_lock:
            if _pool is None:
                _pool = _Pool(thread_count() - 1, _last_ticket)
    return _pool


def host() -> Host:
    """What programs need to know of the machine they run on."""
    return Host(thread_count(), _expand_threshold)


#: Targets of scatter-reductions with more elements get no tables per thread, unless that is asked for.
_expand_threshold = 1_000_000


def get_expand_threshold() -> int:
    """Number of elements up to which scatter-reductions use a table per thread."""
    return _expand_threshold


def set_expand_threshold(value: int, /) -> None:
    """Set the number of elements up to which scatter-reductions use a table per thread."""
    global _expand_threshold
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"drjit.set_expand_threshold(): expected a number of elements, found {value!r}")
    _expand_threshold = value


def submit(launch: Launch) -> int:
    """Enqueue a launch, or run it at once if it is short and nothing is queued; returns its ticket."""
    pool = _pool
    functions, width = launch.functions, launch.width
    short = width * launch.operations < _INLINE_WORK or width <= functions.size or launch.single
    if pool is None and not short:
        pool = _started()
    if pool is not None and not (short and pool.completed == pool.submitted):
        return pool.submit(launch)
    _run(launch, width * launch.operations < _INLINE_WORK)
    return pool.submitted if pool is not None else 0


def _run(launch: Launch, hold_lock: bool) -> None:
    """Run a launch on the caller's thread."""
    times = launch.times
    if times is not None:
        times[0] = time.monotonic_ns()
    functions, width = launch.functions, launch.width
    address = ctypes.addressof(launch.parameters)
    run = functions.holding_lock if hold_lock else functions.kernel
    if functions.combine is None:
        run(address, 0, 1, 0, width, 0, 0)
    else:
        blocks, size = (1, width) if launch.single else (blocks_of(functions, width), functions.size)
        for block in range(blocks):
            run(address, 0, 1, block * size, min(width, (block + 1) * size), block, 0)
        functions.combine(address, blocks)
    if times is not None:
        times[1] = time.monotonic_ns()
    launch.keep = None


def wait(ticket: int | None = None) -> None:
    """Wait for a launch, or for all of them."""
    pool = _pool
    if pool is not None:
        target = pool.submitted if ticket is None else ticket
        if pool.completed < target:
            pool.wait(target)
        elif pool.kept:
            pool.release()


def is_done(ticket: int) -> bool:
    """Whether a launch has finished."""
    pool = _pool
    return pool is None or pool.completed >= ticket


def shut_down() -> None:
    """Finish what is queued and end the threads; they start again when needed."""
    global _pool, _last_ticket
    pool, _pool = _pool, None
    if pool is not None:
        _last_ticket = pool.submitted
        pool.stop()


def _forget() -> None:
    """In a child process: the threads are gone."""
    global _pool, _last_ticket, _start_lock
    if _pool is not None:
        _last_ticket = _pool.submitted
    _pool = None
    _start_lock = threading.Lock()


atexit.register(shut_down)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=wait, after_in_child=_forget)
