"""The backend itself: :class:`CPU` answers what :mod:`..backend` asks, with the functions of the modules beside it."""

from __future__ import annotations

from functools import cache

from ...llvm import jit
from ...types import JitBackend
from .. import exclusion
from . import cache as kernels
from . import pool, straight
from .memory import HostMemory
from .target import target
from .thread_tables import filled_tables, merged_tables

__all__ = ["CPU", "availability", "llvm_version"]


class CPU(HostMemory):
    """Kernels of LLVM on the cores of this machine."""

    name = "llvm"
    language = JitBackend.LLVM
    where = JitBackend.LLVM.value
    evaluate = straight.evaluate
    host_address = straight.host_address
    target = staticmethod(target)
    compile = staticmethod(kernels.lookup)
    fill_tables, merge_tables = filled_tables, merged_tables
    passes = staticmethod(kernels.passes)
    compile_text = staticmethod(kernels.lookup_text)
    submit = staticmethod(pool.submit)
    submitted = staticmethod(pool.submitted)
    crowded = staticmethod(kernels.crowded)

    def flush(self) -> None:
        """Forget all kernels."""
        with exclusion.lock:
            pool.wait()
            kernels.flush()
            straight.forget()


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
