"""Control of the runtime: threads, caches, the history of kernels, and how much the compiler tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drjit_core as core
from drjit_core import JitBackend, KernelType, LogLevel

__all__ = ["expand_threshold", "flush_kernel_cache", "flush_malloc_cache", "has_backend", "kernel_history",
           "kernel_history_clear", "log_level", "set_expand_threshold", "set_log_level", "set_thread_count",
           "sync_thread", "thread_count"]


def has_backend(arg: JitBackend, /) -> bool:
    """Whether a backend is available on this machine."""
    return bool(isinstance(arg, JitBackend) and core.has_backend(arg))


def sync_thread() -> None:
    """Wait for everything that has been launched. Programs do not need this to be correct."""
    core.sync()


def thread_count() -> int:
    """Number of threads that run kernels on the CPU, the main thread included."""
    return core.thread_count()


def expand_threshold() -> int:
    """Number of elements up to which scatter-reductions use a table per thread instead of atomic updates."""
    return core.expand_threshold()


def set_expand_threshold(arg: int, /) -> None:
    """Set the number of elements up to which scatter-reductions use a table per thread (0: never by themselves)."""
    core.set_expand_threshold(arg)


def set_thread_count(arg: int, /) -> None:
    """Set the number of threads that run kernels on the CPU; 0 and 1 both leave all work to the calling thread."""
    if arg.__class__ is not int or arg < 0:
        raise TypeError(f"drjit.set_thread_count(): the number of threads must be an int >= 0, found {arg!r}.")
    core.set_thread_count(arg)


def kernel_history(types: Sequence[KernelType] = ()) -> list[dict[str, Any]]:
    """Return and clear the list of what was launched while ``JitFlag.KernelHistory`` was set, by kind if given.

    Waits for the kernels. Each is a dictionary; ``ranges`` names the ranges in which it was launched, see
    :class:`profile_range`. Without ``types``, the list holds marks and ranges as well.
    """
    if not isinstance(types, (list, tuple)) or not all(isinstance(entry, KernelType) for entry in types):
        raise TypeError(f"drjit.kernel_history(): 'types' must be a sequence of drjit.KernelType, found {types!r}.")
    return core.kernel_history(types)


def kernel_history_clear() -> None:
    """Clear the history of launches."""
    core.kernel_history_clear()


def flush_kernel_cache() -> None:
    """Forget the kernels in memory (those on disk stay)."""
    core.flush_kernel_cache()


def flush_malloc_cache() -> None:
    """Give unused memory back to the operating system."""
    core.flush_malloc_cache()


def log_level() -> LogLevel:
    """How much the compiler tells about its work."""
    return core.log_level()


def set_log_level(arg: LogLevel | int, /) -> None:
    """Set how much the compiler tells about its work on standard error, for all threads.

    A ``LogLevel``, or its number: ``Info`` reports kernels, ``Debug`` and ``Trace`` each traced variable. Raises a
    ``ValueError`` for other numbers and a ``TypeError`` for anything else.

    >>> drjit.set_log_level(2)
    >>> drjit.log_level()
    LogLevel.Warn
    """
    core.set_log_level(arg)
