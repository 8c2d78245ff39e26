"""The kernel cache: from the key of a program to native code."""

from __future__ import annotations

import hashlib
import time
import zlib
from typing import Any

from ..codegen.program import Program
from ..llvm import emit, jit
from .pool import Functions

__all__ = ["CompiledKernel", "flush", "lookup", "report"]


class CompiledKernel:
    """A kernel in executable memory, with what diagnostics want to know of it."""

    __slots__ = ("_text", "build_time", "code_time", "functions", "hash", "native", "operations")

    def __init__(self, program: Program) -> None:
        start = time.perf_counter_ns()
        text = emit.emit(program, jit.lanes())
        self._text = zlib.compress(text.encode(), 1)
        self.hash = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        self.operations = len(program.order)
        middle = time.perf_counter_ns()
        exports = [emit.KERNEL, emit.COMBINE] if program.reductions else [emit.KERNEL]
        self.native = jit.link(jit.compile_text(text), exports)
        addresses = self.native.addresses
        self.functions = Functions(addresses[emit.KERNEL], addresses.get(emit.COMBINE))
        self.code_time = (middle - start) * 1e-6
        self.build_time = (time.perf_counter_ns() - middle) * 1e-6

    @property
    def text(self) -> str:
        """The kernel's LLVM text."""
        return zlib.decompress(self._text).decode()


_kernels: dict[Any, CompiledKernel] = {}


def lookup(program: Program) -> tuple[CompiledKernel, bool]:
    """The kernel of a program, and whether it was there already."""
    kernel = _kernels.get(program.key)
    if kernel is not None:
        return kernel, True
    kernel = _kernels[program.key] = CompiledKernel(program)
    return kernel, False


def flush() -> None:
    """Forget all kernels."""
    _kernels.clear()


def report() -> tuple[str | None, int]:
    """Location of the cache on disk (none: kernels are kept in memory) and its size in bytes."""
    return None, sum(kernel.native.size for kernel in _kernels.values())
