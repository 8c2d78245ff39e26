"""A second backend in one process, in the place of CUDA's: kernels of the CPU, in memory that the host cannot access.

Suites run on it with ``pytest --second``: ``drjit.llvm`` is then a name of ``drjit.cuda``; and so they do with ``pytest
--cuda=machine``, on the backend of GPUs, whose driver is the machine (:mod:`tests.machine.driver`).
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from drjit_core import JitBackend, register
from drjit_core.runtime.backend import Backend
from drjit_core.runtime.buffer import Buffer
from drjit_core.runtime.cpu import pool
from drjit_core.runtime.cpu.backend import CPU
from drjit_core.runtime.heap import Heap
from drjit_core.runtime.memory import System
from drjit_core.runtime.native import Native
from drjit_core.runtime.recipes import Recipes

__all__ = ["Second", "take_over"]


class Second(CPU):
    """Another memory, and a launcher of its own."""

    name = "second"
    where = JitBackend.CUDA.value
    is_host = False

    def __init__(self) -> None:
        self.heap = Heap(System(pool.wait))
        self.recipes = Recipes(Native(self))
        self.launched = 0

    def submit(self, launch: Any, /) -> int:  # type: ignore[override]
        """Run a launch at once."""
        self.launched += 1
        ticket = pool.submit(launch)
        pool.wait(ticket)
        return ticket

    def kernel_statistics(self) -> dict[str, int]:  # type: ignore[override]
        """Those of the CPU count its kernels as well."""
        return {}

    def host_address(self, buffer: Buffer, /) -> NoReturn:  # type: ignore[override]
        """There is no such place."""
        raise RuntimeError(f"the host has no access to the {buffer.nbytes} bytes at {buffer.address:#x}")


def take_over(backend: Backend) -> None:
    """Register a backend, and let those who ask for the package of LLVM have its package instead.

    To be called before ``drjit`` is imported: types are made once, and know whether their backend is there.
    """
    register(backend)
    from drjit._base import records

    for diff in (False, True):  # messages name types as they do elsewhere
        records.MODULES[JitBackend.CUDA, diff] = records.MODULES[JitBackend.LLVM, diff]
    import drjit.cuda.ad
    import drjit.llvm.ad

    for name in ("drjit.llvm", "drjit.llvm.ad"):
        module = sys.modules[name] = sys.modules[name.replace("llvm", "cuda")]
        module.__name__ = name
    drjit.llvm = drjit.cuda
