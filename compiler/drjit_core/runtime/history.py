"""The kernel history: an entry for each launch while ``JitFlag.KernelHistory`` is set.

Programs name parts of what they do: ranges, which enclose launches, and marks, which stand between them. Which ranges
are open is a property of the thread, like the flags; the history is one for all threads.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from ..flags import KERNEL_HISTORY, PRINT_IR, state
from ..types import JitBackend, KernelRecordingMode, KernelType, ProfileEvent
from .backend import Backend, KernelBackend, Launch, LoadedKernel

__all__ = ["Range", "clear", "kernel_history", "mark", "record", "tell"]

_log = logging.getLogger("drjit")
_entries: list[tuple[dict[str, Any], tuple[Backend, Launch] | None]] = []


class _Thread(threading.local):
    """The ranges that a thread has entered, outermost first."""

    def __init__(self) -> None:
        self.ranges: list[Range] = []


_thread = _Thread()


class Range:
    """A named part of the program, from :meth:`enter` to :meth:`leave`."""

    __slots__ = ("_names", "_ranges", "_start", "name")

    def __init__(self, name: str) -> None:
        self.name = name

    def enter(self) -> None:
        """From now on, launches of this thread lie in the range."""
        self._ranges, self._names = _thread.ranges, _names()
        self._ranges.append(self)
        self._start = time.perf_counter()

    def leave(self) -> None:
        """The end of the range, in whichever order and thread: an entry of the history, if that is kept."""
        if self in self._ranges:
            self._ranges.remove(self)
            if state.flags & KERNEL_HISTORY:
                elapsed = (time.perf_counter() - self._start) * 1e3
                _append(ProfileEvent.Range, self.name, self._names, self._start, elapsed)


def _names() -> tuple[str, ...]:
    return tuple(entry.name for entry in _thread.ranges)


def _append(type_: ProfileEvent, name: str, ranges: tuple[str, ...], start: float, milliseconds: float) -> None:
    _entries.append(({"backend": JitBackend.Invalid, "type": type_, "name": name, "ranges": ranges, "time": start,
                      "execution_time": milliseconds}, None))


def mark(name: str) -> None:
    """Append an entry for an event, if a history is kept."""
    if state.flags & KERNEL_HISTORY:
        _append(ProfileEvent.Mark, name, _names(), time.perf_counter(), 0.0)


#: Whether what is launched is part of a recording. Whoever replays one holds the lock, sets it, and clears it again.
replaying = False


def record(backend: KernelBackend, kernel: LoadedKernel, hit: bool, launch: Launch, width: int, inputs: int,
           outputs: int, codegen_time: float, type_: KernelType = KernelType.JIT) -> None:
    """Append an entry for a launch; kernels that only store constants fill memory."""
    if type_ is KernelType.JIT and not kernel.operations:
        type_ = KernelType.Memset
    mode = KernelRecordingMode.Replayed if replaying else \
        KernelRecordingMode.Inactive if state.recording is None else KernelRecordingMode.Recorded
    entry = {
        "backend": backend.language, "type": type_, "hash": kernel.hash, "ir": io.StringIO(kernel.text),
        "uses_optix": 0, "cache_hit": int(hit), "cache_disk": int(not hit and kernel.from_disk),
        "recording_mode": mode, "size": width, "input_count": inputs, "output_count": outputs,
        "operation_count": kernel.operations, "codegen_time": codegen_time,
        "backend_time": kernel.build_time, "ranges": _names()}
    _entries.append((entry, (backend, launch)))


def tell(compiled: LoadedKernel, hit: bool, width: int, inputs: int, outputs: int, elapsed: float,
         step: str = "") -> None:
    """Print and log what is about to be launched, as far as anybody wants to know that."""
    if state.flags & PRINT_IR:
        sys.stdout.write(compiled.text)
    if not _log.isEnabledFor(logging.INFO):
        return
    _log.info("  -> launching %s (%sn=%i, in=%i, out=%i, ops=%i, jit=%.4g us):", compiled.hash[:16],
              f"{step}, " if step else "", width, inputs, outputs, compiled.operations, elapsed * 1e3)
    if hit:
        _log.info("     cache hit.")
    else:
        _log.info("     cache %s, build: %.4g ms, %i bytes.", "hit on disk" if compiled.from_disk else "miss",
                  compiled.build_time, compiled.size)


def kernel_history(types: Sequence[KernelType] = ()) -> list[dict[str, Any]]:
    """Wait for what was launched; return and clear the history, optionally of some types only (others are dropped)."""
    for type_ in types:
        if not isinstance(type_, KernelType):
            raise TypeError(f"drjit.kernel_history(): 'types' must hold drjit.KernelType values, found {type_!r}")
    for backend in {launched[0] for _, launched in list(_entries) if launched is not None}:
        backend.wait()
    entries, _entries[:] = list(_entries), []
    result = []
    for entry, launched in entries:
        if not types or entry["type"] in types:
            if launched is not None:
                entry["execution_time"] = launched[1].milliseconds
            result.append(entry)
    return result


def clear() -> None:
    """Clear the history without returning it."""
    _entries.clear()
