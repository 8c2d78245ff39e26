"""The backend itself: :class:`CPU` answers what :mod:`..backend` asks, with the functions of the modules beside it."""

from __future__ import annotations

import ctypes
from functools import cache

from ...llvm import jit
from ...types import JitBackend
from .. import exclusion
from ..backend import Limits
from ..buffer import Buffer
from ..launch import evaluate_by_kernels
from . import cache as kernels
from . import malloc, pool, shortage

__all__ = ["CPU", "availability", "llvm_version"]


class CPU:
    """Kernels of LLVM on the cores of this machine, and memory of this process.

    What one function of another module does is that function, since a call between would cost as much as a tenth of
    a launch's work here.
    """

    name = "llvm"
    language = JitBackend.LLVM
    limits = Limits(malloc.PADDING, 64)
    evaluate = evaluate_by_kernels
    policy = staticmethod(pool.policy)
    compile = staticmethod(kernels.lookup)
    submit = staticmethod(pool.submit)
    submitted = staticmethod(pool.submitted)
    release = staticmethod(malloc.release)
    wait = staticmethod(pool.wait)
    is_done = staticmethod(pool.is_done)
    finish = staticmethod(pool.finish)

    def allocate(self, nbytes: int, /) -> Buffer:
        """A buffer of our own with undefined contents."""
        try:
            block = malloc.allocate(nbytes)
        except MemoryError:
            block = shortage.allocate(nbytes)
        return Buffer(self, block.address, nbytes, block)

    def copy(self, source: Buffer, /) -> Buffer:
        """A buffer of our own with the contents of another."""
        result = self.allocate(source.nbytes)
        pool.wait(max(result.ticket, source.ticket))
        ctypes.memmove(result.address, source.address, source.nbytes)
        return result

    def write(self, buffer: Buffer, data: memoryview, /) -> None:
        """Fill a buffer once the launches that use its memory have ended."""
        pool.wait(buffer.ticket)
        memoryview((ctypes.c_char * buffer.nbytes).from_address(buffer.address)).cast("B")[:] = data

    def host_address(self, buffer: Buffer, /) -> int:
        """The address of a buffer once the launches that use it have ended."""
        pool.wait(buffer.ticket)
        return buffer.address

    def flush(self) -> None:
        """Forget all kernels."""
        with exclusion.lock:
            pool.wait()
            kernels.flush()


@cache
def availability() -> tuple[bool, str]:
    """Whether kernels can be compiled and run on this machine; in words, how or why not."""
    try:
        cpu, version = jit.host_cpu()[0], ".".join(map(str, jit.version()))
        return True, f"LLVM {version} through llvmlite, {cpu}, packets of {jit.lanes()} elements"
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return False, f"{error} (install it with: pip install llvmlite)"


def llvm_version() -> tuple[int, int, int]:
    """Version of LLVM."""
    return jit.version()
