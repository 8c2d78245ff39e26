"""The kernel history: an entry for each launch while ``JitFlag.KernelHistory`` is set."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from ..codegen.program import Program
from ..types import JitBackend, KernelRecordingMode, KernelType
from . import pool
from .cache import CompiledKernel
from .pool import Launch

__all__ = ["clear", "kernel_history", "record"]

_entries: list[tuple[dict[str, Any], Launch]] = []


def record(program: Program, kernel: CompiledKernel, hit: bool, launch: Launch, codegen_time: float) -> None:
    """Append an entry for a launch."""
    entry = {
        "backend": JitBackend.LLVM, "type": KernelType.JIT, "hash": kernel.hash, "ir": io.StringIO(kernel.text),
        "uses_optix": 0, "cache_hit": int(hit), "cache_disk": int(not hit and kernel.from_disk),
        "recording_mode": KernelRecordingMode.Inactive,
        "size": program.width, "input_count": len(program.inputs),
        "output_count": len(program.stores) + len(program.reductions) + len(program.scatters),
        "operation_count": kernel.operations, "codegen_time": codegen_time,
        "backend_time": 0.0 if hit else kernel.build_time}
    _entries.append((entry, launch))


def kernel_history(types: Sequence[KernelType] = ()) -> list[dict[str, Any]]:
    """Wait for all launches; return and clear the history, optionally of some types only (others are dropped)."""
    for type_ in types:
        if not isinstance(type_, KernelType):
            raise TypeError(f"drjit.kernel_history(): 'types' must hold drjit.KernelType values, found {type_!r}")
    pool.wait()
    entries, _entries[:] = list(_entries), []
    result = []
    for entry, launch in entries:
        if not types or entry["type"] in types:
            entry["execution_time"] = launch.milliseconds
            result.append(entry)
    return result


def clear() -> None:
    """Clear the history without returning it."""
    _entries.clear()
