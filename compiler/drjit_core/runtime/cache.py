"""The kernel cache: from the key of a program to native code; :mod:`.disk` carries it across processes."""

from __future__ import annotations

import hashlib
import time
import zlib
from typing import Any

from ..codegen.program import Program
from ..llvm import emit, jit
from ..ops.table import LOOP, OPS
from . import disk
from .pool import Functions

__all__ = ["CompiledKernel", "flush", "lookup"]


class CompiledKernel:
    """A kernel in executable memory, with what diagnostics want to know of it."""

    __slots__ = ("_text", "build_time", "code_time", "from_disk", "functions", "hash", "native", "operations", "work")

    def __init__(self, program: Program) -> None:
        start = time.perf_counter_ns()
        text = emit.emit(program, jit.lanes())
        self._text = zlib.compress(text.encode(), 1)
        self.hash = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        self.operations = len(program.order)
        self.work = work_of(program)
        middle = time.perf_counter_ns()
        exports = [emit.KERNEL, emit.COMBINE] if program.reductions else [emit.KERNEL]
        key = disk.key_of(text, "kernel")
        code = disk.load(key)
        self.from_disk = code is not None
        if code is None:
            code = jit.compile_text(text)
            disk.store(key, code)
        self.native = jit.link(code, exports)
        addresses = self.native.addresses
        self.functions = Functions(addresses[emit.KERNEL], addresses.get(emit.COMBINE), self.work)
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


def work_of(program: Program) -> int:
    """Cost of one element, relative to an addition."""
    return sum(_LOOP_WORK if node.kind == LOOP else OPS[node.kind].cost for node in program.order) + 1


#: A guess at the cost of a loop, whose number of iterations is unknown.
_LOOP_WORK = 1000
