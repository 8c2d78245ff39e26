"""The kernel cache: from the key of a program to native code; :mod:`.disk` carries it across processes."""

from __future__ import annotations

import marshal
import struct
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
        self.operations = len(program.order)
        self.work = work_of(program)
        start = time.perf_counter_ns()
        key = disk.key_of(marshal.dumps(program.key, 2), "kernel")  # version 2: equal keys are equal bytes
        self.hash = key.hex()[:32]
        found = disk.load(key)
        self.from_disk = found is not None
        if found is None:
            text = emit.emit(program, jit.lanes())
            self._text = zlib.compress(text.encode(), 1)
        self.code_time = (time.perf_counter_ns() - start) * 1e-6
        if found is None:
            code = jit.compile_text(text)
            disk.store(key, _LENGTH.pack(len(self._text)) + self._text + code)
        else:
            (length,) = _LENGTH.unpack_from(found)
            self._text, code = found[_LENGTH.size:_LENGTH.size + length], found[_LENGTH.size + length:]
        exports = [emit.KERNEL, emit.COMBINE] if program.reductions else [emit.KERNEL]
        self.native = jit.link(code, exports)
        addresses = self.native.addresses
        self.functions = Functions(addresses[emit.KERNEL], addresses.get(emit.COMBINE), self.work)
        self.build_time = (time.perf_counter_ns() - start) * 1e-6 - self.code_time

    @property
    def text(self) -> str:
        """The kernel's LLVM text."""
        return zlib.decompress(self._text).decode()


#: A cached kernel is the length of its compressed text, the text, and the object code.
_LENGTH = struct.Struct("<Q")
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
