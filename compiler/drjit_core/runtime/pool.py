"""The queue of kernel launches.

Launches run in order.  ``submit`` returns a ticket at once, ``wait`` returns when it is done, and memory whose last use
has a ticket may be read by the host only then.  This queue runs a launch before ``submit`` returns, on the caller's
thread; what uses it relies on tickets alone, not on that.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

__all__ = ["BLOCK", "Launch", "blocks_of", "submit", "thread_count", "wait"]

#: Elements of a block, the unit of scheduling and of partial results; a multiple of every packet width.  It depends on
#: nothing, so that reductions yield the same bits whatever the number of threads.
BLOCK = 1 << 15
#: Below this many elements times operations the interpreter lock is kept: dropping and taking it costs 0.6 us.
_SHORT = 1 << 17

_ARGUMENTS = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
              ctypes.c_int32)
_KERNEL_HOLDING_LOCK = ctypes.PYFUNCTYPE(None, *_ARGUMENTS)
_KERNEL = ctypes.CFUNCTYPE(None, *_ARGUMENTS)
_COMBINE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)

_completed = 0


class Functions:
    """Callable forms of a kernel's native functions."""

    __slots__ = ("combine", "holding_lock", "kernel")

    def __init__(self, kernel: int, combine: int | None) -> None:
        self.kernel = _KERNEL(kernel)
        self.holding_lock = _KERNEL_HOLDING_LOCK(kernel)
        self.combine = _COMBINE(combine) if combine else None


class Launch:
    """One execution of a kernel: what it needs to run, and what must live until it has."""

    __slots__ = ("functions", "keep", "milliseconds", "operations", "parameters", "width")

    def __init__(self, functions: Functions, parameters: Any, width: int, operations: int, keep: Any) -> None:
        self.functions = functions
        self.parameters = parameters
        self.width = width
        self.operations = operations
        self.keep = keep
        self.milliseconds = 0.0


def blocks_of(width: int) -> int:
    """Number of blocks that a kernel of a given width is cut into."""
    return (width + BLOCK - 1) // BLOCK


def submit(launch: Launch, timed: bool = False) -> int:
    """Enqueue a launch; returns its ticket."""
    global _completed
    start = time.perf_counter_ns() if timed else 0
    functions, width = launch.functions, launch.width
    address = ctypes.addressof(launch.parameters)
    run = functions.holding_lock if width * launch.operations < _SHORT else functions.kernel
    if functions.combine is None:
        run(address, 0, 1, 0, width, 0, 0)
    else:
        blocks = blocks_of(width)
        for block in range(blocks):
            run(address, 0, 1, block * BLOCK, min(width, (block + 1) * BLOCK), block, 0)
        functions.combine(address, blocks)
    if timed:
        launch.milliseconds = (time.perf_counter_ns() - start) * 1e-6
    launch.keep = None
    _completed += 1
    return _completed


def wait(ticket: int | None = None) -> None:
    """Wait for a launch, or for all of them."""
    assert ticket is None or ticket <= _completed


def thread_count() -> int:
    """Number of threads that run kernels."""
    return 1
