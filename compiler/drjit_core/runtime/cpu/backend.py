"""The backend itself: :class:`CPU` answers what :mod:`..backend` asks, with the functions of the modules beside it."""

from __future__ import annotations

from functools import cache

from ...llvm import jit
from ...types import JitBackend
from .. import exclusion, recipes
from ..memory import HostMemory
from . import cache as kernels
from . import native, pool
from .carrier import Carrier
from .memory import HEAP
from .target import LIMITS, target
from .thread_tables import filled_tables, merged_tables

__all__ = ["CPU", "availability"]


class CPU(HostMemory):
    """Kernels of LLVM on the cores of this machine."""

    name = "llvm"
    language = JitBackend.LLVM
    where = JitBackend.LLVM.value
    limits = LIMITS
    heap = HEAP
    wait = staticmethod(pool.wait)
    is_done = staticmethod(pool.is_done)
    finish = staticmethod(pool.finish)
    evaluate = recipes.evaluate
    carrier = Carrier
    host_address = native.host_address
    target = staticmethod(target)
    compile = staticmethod(kernels.lookup)
    fill_tables, merge_tables = filled_tables, merged_tables
    passes = staticmethod(kernels.passes)
    compile_text = staticmethod(kernels.lookup_text)
    submit = staticmethod(pool.submit)
    submitted = staticmethod(pool.submitted)
    crowded = staticmethod(kernels.crowded)
    kernel_statistics = staticmethod(kernels.statistics)
    version = staticmethod(jit.version)
    expand_threshold, set_expand_threshold = staticmethod(pool.get_expand_threshold), staticmethod(
        pool.set_expand_threshold)
    set_thread_count, thread_count = staticmethod(pool.set_thread_count), staticmethod(pool.thread_count)
    thread_report = staticmethod(pool.thread_report)

    def __init__(self) -> None:
        self.native: native.CPUNative = native.CPUNative(self)
        self.recipes = recipes.Recipes(self.native)

    def flush(self) -> None:
        """Forget all kernels."""
        with exclusion.lock:
            pool.wait()
            kernels.flush()
            self.recipes.forget()


@cache
def availability() -> tuple[bool, str]:
    """Whether kernels can be compiled and run on this machine; in words, how or why not."""
    try:
        cpu, version = jit.host_cpu()[0], ".".join(map(str, jit.version()))
        return True, f"LLVM {version} through llvmlite, {cpu}, packets of {jit.lanes()} elements"
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return False, f"{error} (install it with: pip install llvmlite)"
