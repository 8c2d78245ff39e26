"""A backend that runs PTX on the machine, and lets others listen."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from drjit_core.codegen.program import Program
from drjit_core.codegen.signature import slots_of
from drjit_core.runtime.buffer import Buffer
from drjit_core.runtime.gpu.backend import GPU
from drjit_core.runtime.gpu.kernels import GPUKernel
from drjit_core.runtime.gpu.target import LIMITS
from drjit_core.runtime.launch import evaluate_by_kernels
from drjit_core.runtime.native import Native
from drjit_core.runtime.recipes import Recipes
from drjit_core.types import TYPES

from .driver import MachineDriver
from .memory import Memory

__all__ = ["OnMachine"]


class OnMachine(GPU):
    """Kernels of one architecture; arrays have memory of exactly their size, which is nobody's afterwards."""

    name = "machine"
    evaluate = evaluate_by_kernels
    last: GPUKernel  # that was launched

    def __init__(self, architecture: int = 90, seed: int | None = None) -> None:
        super().__init__(MachineDriver(architecture, seed, forgiving=True))
        self.recipes = Recipes(Native(self))  # which launches by the methods of this class
        #: A context of launches, of which it gets the launch, the words and the shape.
        self.listener: Any = None
        #: Names of types, and roles, of the words of kernels, by hash.
        self.slots: dict[str, tuple[list[Any], list[str]]] = {}

    @property
    def memory(self) -> Memory:
        """That of the device."""
        return self.driver.machine.memory  # type: ignore[attr-defined, no-any-return]

    def compile(self, program: Program, /) -> tuple[GPUKernel, bool]:
        """The kernel of a program."""
        kernel, hit = super().compile(program)
        if kernel.hash not in self.slots:
            slots = slots_of(program)
            types = [TYPES[slot.type].name if slot.type and TYPES[slot.type] else "uint64" for slot in slots]
            self.slots[kernel.hash] = [slot._replace(node=None) for slot in slots], types  # planning counts holders
        return kernel, hit

    def run(self, launch: Any, /) -> None:
        """Run a launch, while somebody listens."""
        self.last = launch.kernel
        listens = self.listener is not None and launch.kernel.hash in self.slots and not \
            launch.kernel.module.words_in_memory
        with self.listener(launch, np.frombuffer(launch.words, np.uint64), launch.shape) if listens else nullcontext():
            super().run(launch)

    def allocate(self, nbytes: int, /) -> Buffer:
        """A buffer."""
        try:
            address = self.memory.allocate(nbytes + LIMITS.padding)
        except MemoryError:
            gc.collect()
            address = self.memory.allocate(nbytes + LIMITS.padding)
        return Buffer(self, address, nbytes, SimpleNamespace(  # type: ignore[arg-type]
            ticket=0, address=address, nbytes=nbytes + LIMITS.padding, capacity=nbytes))

    def release(self, block: Any, /) -> None:
        """Take memory back: nothing may access it any more."""
        self.memory.release(block.address, block.nbytes)
