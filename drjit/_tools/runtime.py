"""Control of the runtime: threads, caches, the history of kernels, and how much the compiler tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drjit_core as core
from drjit_core import JitBackend, KernelType, LogLevel

__all__ = ["expand_threshold", "flush_kernel_cache", "flush_malloc_cache", "flush_thread", "has_backend",
           "kernel_history", "kernel_history_clear", "log_level", "missing_backend", "set_expand_threshold",
           "set_log_level", "set_thread_count", "sync_thread", "thread_count"]


def has_backend(arg: JitBackend, /) -> bool:
    """Whether a backend is available on this machine. ``arg`` is a :class:`JitBackend`.

    >>> dr.has_backend(dr.JitBackend.LLVM), dr.has_backend(dr.JitBackend.CUDA)
    (True, False)
    """
    return bool(isinstance(arg, JitBackend) and core.has_backend(arg))


def missing_backend(backend: JitBackend) -> str:
    """Why a backend is not available on this machine, as ``python -m drjit`` says it; nothing if it is.

    >>> dr.detail.missing_backend(dr.JitBackend.LLVM)
    ''
    """
    return core.missing_backend(backend)


def flush_thread() -> None:
    """Hand what was launched to the threads that compute it. Here, that happens when it is launched: a name that
    programs use.

    >>> dr.flush_thread()
    """


def sync_thread() -> None:
    """Wait for everything that has been launched.

    Programs do not need this to be correct: reading an array waits for it. It tells how long kernels take.

    >>> from drjit.llvm import Float
    >>> done = dr.eval(dr.arange(Float, 1000) ** 2)
    >>> dr.sync_thread()
    """
    core.sync()


def thread_count() -> int:
    """Number of threads that run kernels on the CPU, the main thread included.

    It is that of the processors that the process may use when the threads start, unless ``DRJIT_THREADS`` or
    :func:`set_thread_count` says otherwise.

    >>> dr.thread_count() >= 1
    True
    """
    return core.thread_count()


def expand_threshold() -> int:
    """Number of elements up to which scatter-reductions use a table per thread instead of atomic updates.

    See :class:`ReduceMode`.

    >>> dr.expand_threshold()
    1000000
    """
    return core.expand_threshold()


def set_expand_threshold(arg: int, /) -> None:
    """Set the number of elements up to which scatter-reductions use a table per thread (0: never by themselves).

    >>> before = dr.expand_threshold()
    >>> dr.set_expand_threshold(0)
    >>> dr.expand_threshold()
    0
    >>> dr.set_expand_threshold(before)
    """
    core.set_expand_threshold(arg)


def set_thread_count(arg: int, /) -> None:
    """Set the number of threads that run kernels on the CPU; 0 and 1 both leave all work to the calling thread.

    All but loops, that is: one other thread runs these, so that Ctrl-C is heard meanwhile. Waits for what has been
    launched. Raises a ``TypeError`` for anything but an ``int`` that is not negative.

    >>> before = dr.thread_count()
    >>> dr.set_thread_count(1)
    >>> dr.thread_count()
    1
    >>> dr.set_thread_count(before)
    """
    if arg.__class__ is not int or arg < 0:
        raise TypeError(f"drjit.set_thread_count(): the number of threads must be an int >= 0, found {arg!r}.")
    core.set_thread_count(arg)


def kernel_history(types: Sequence[KernelType] = ()) -> list[dict[str, Any]]:
    """Return and clear the list of what was launched while ``JitFlag.KernelHistory`` was set, by kind if given.

    Waits for the kernels. Each is a dictionary: ``type``, ``size``, ``hash``, ``ir`` (its text), ``cache_hit``,
    ``operation_count``, the times ``codegen_time``, ``backend_time`` (of compilation) and ``execution_time`` in
    milliseconds, and others; ``ranges`` names the ranges in which it was launched, see :class:`profile_range`.
    ``types`` is a sequence of :class:`KernelType`, else a ``TypeError`` is raised; without it, the list holds marks and
    ranges as well.

    >>> from drjit.llvm import Float
    >>> with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
    ...     done = dr.eval(dr.arange(Float, 1000) ** 2)
    >>> [(entry["size"], entry["input_count"], entry["output_count"]) for entry in dr.kernel_history()]
    [(1000, 0, 1)]
    """
    if not isinstance(types, (list, tuple)) or not all(isinstance(entry, KernelType) for entry in types):
        raise TypeError(f"drjit.kernel_history(): 'types' must be a sequence of drjit.KernelType, found {types!r}.")
    return core.kernel_history(types)


def kernel_history_clear() -> None:
    """Clear the history of launches, see :func:`kernel_history`.

    >>> dr.kernel_history_clear()
    >>> dr.kernel_history()
    []
    """
    core.kernel_history_clear()


def flush_kernel_cache() -> None:
    """Forget the kernels in memory (those on disk stay): they are loaded or compiled again when they are next needed.

    >>> dr.flush_kernel_cache()
    """
    core.flush_kernel_cache()


def flush_malloc_cache() -> None:
    """Give unused memory back to the operating system.

    Memory of arrays that no longer exist is kept for others; fresh memory is slower.

    >>> dr.flush_malloc_cache()
    """
    core.flush_malloc_cache()


def log_level() -> LogLevel:
    """How much the compiler tells about its work, see :func:`set_log_level`.

    >>> dr.log_level()
    LogLevel.Warn
    """
    return core.log_level()


def set_log_level(arg: LogLevel | int, /) -> None:
    """Set how much the compiler tells about its work on standard error, for all threads.

    A :class:`LogLevel`, or its number: ``Info`` reports kernels, ``Debug`` and ``Trace`` each traced variable. Raises a
    ``ValueError`` for other numbers and a ``TypeError`` for anything else.

    >>> dr.set_log_level(dr.LogLevel.Error)
    >>> dr.log_level()
    LogLevel.Error
    >>> dr.set_log_level(2)
    >>> dr.log_level()
    LogLevel.Warn
    """
    core.set_log_level(arg)
