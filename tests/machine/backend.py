"""A backend that runs PTX on the machine: for ``on_backend``."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from drjit_core.codegen.program import Program
from drjit_core.codegen.records import layout_of
from drjit_core.codegen.signature import signature_of, slots_of
from drjit_core.codegen.steps import Call, Pass
from drjit_core.ptx.emit import COMBINE, KERNEL, emit
from drjit_core.runtime.buffer import Buffer
from drjit_core.runtime.gpu.target import target_of
from drjit_core.runtime.gpu.texts import PTXTexts, laid_out
from drjit_core.runtime.launch import evaluate_by_kernels
from drjit_core.runtime.native import Native
from drjit_core.runtime.recipes import Recipes
from drjit_core.types import TYPES, JitBackend

from .machine import Machine, parse

__all__ = ["OnMachine"]


class Kernel:
    """A kernel that can be run."""

    build_time, from_disk, size = 0.0, False, 0

    def __init__(self, backend: OnMachine, program: Program) -> None:
        self.backend, self.key, self.signature = backend, program.key, signature_of(program)
        self.module = emit(program)
        self.text, self.reductions = self.module.text, self.module.reductions
        self.hash = hashlib.blake2b(program.key, digest_size=16).hexdigest()
        self.operations = len(program.order)
        self.functions = parse(self.text)
        self.slots = slots_of(program)
        self.types = [TYPES[slot.type].name if slot.type and TYPES[slot.type] else "uint64" for slot in self.slots]
        self.slots = [slot._replace(node=None) for slot in self.slots]  # planning counts who holds nodes

    def reuse(self, width: int, /) -> None:
        """There is one tier."""

    def partial_bytes(self, units: int, unit: int = 1, /) -> int:
        """Bytes of partial results."""
        return self.module.partial_bytes(units * unit, units)

    def fill_calls(self, bound: Program, keep: list[Any], /) -> None:
        """Make the tables of calls."""
        buffer = self.backend.allocate(8 * len(layout_of(bound).words))
        words = [0] * (buffer.nbytes // 8)
        words[:] = layout_of(bound).words
        laid_out(bound, words, buffer.address)
        self.backend.write(buffer, 0, np.array(words, np.uint64).tobytes())
        self.backend.tables.add(buffer.address)
        keep.append(buffer)

    def course(self, program: Program, /) -> Any:
        """Launches depend on nothing else."""

    def launch(self, bound: Any, course: Any, keep: list[Any], timed: bool, /) -> Any:
        """A launch."""
        return SimpleNamespace(kernel=self, words=list(bound.parameters), width=bound.width, units=bound.units,
                               keep=keep, begun=False, milliseconds=0.0)

    def dump(self, program: Program, /) -> None:
        """Nothing."""


class OnMachine:
    """Kernels of one architecture on a device that is simulated."""

    name, language, is_host = "machine", JitBackend.CUDA, False
    where = JitBackend.CUDA.value
    limits = PTXTexts.limits
    evaluate = evaluate_by_kernels
    last: Kernel  # that was launched

    def __init__(self, architecture: int = 90, seed: int | None = None) -> None:
        self.machine = Machine(seed=seed)
        self.architecture = architecture
        self.kernels: dict[bytes, Kernel] = {}
        self.count = 0
        self.recipes = Recipes(Native(self))
        #: A context of launches, of which it gets the launch, the words and the shape.
        self.listener: Any = None
        self.tables: set[int] = set()  # addresses of memory that has addresses in it

    def target(self) -> Any:
        """That of the architecture."""
        return target_of(self.architecture)

    def compile(self, program: Program, /) -> tuple[Kernel, bool]:
        """The kernel of a program."""
        kernel = self.kernels.get(program.key)
        if kernel is not None:
            return kernel, True
        kernel = self.kernels[program.key] = Kernel(self, program)
        return kernel, False

    def passes(self, call: Call, /) -> Iterable[Pass]:
        """Steps have no texts yet: what they mean stands in."""
        from drjit_core.interpreter.elementwise import dtype_of
        from drjit_core.interpreter.steps import MEANINGS

        def array(each: Any) -> Any:
            return self.machine.memory.at(each.address, each.nbytes).view(dtype_of(each.type))
        for place, values in enumerate(MEANINGS[call.step.name](call.step, *(array(a).copy() for a in call.operands))):
            if place in call.results:
                array(call.results[place])[:] = values
        return ()

    def compile_text(self, text: Any, launch: Any, /) -> NoReturn:
        """See above."""
        raise NotImplementedError

    def fill_tables(self, target: Any, memory: Any, op: int, /) -> NoReturn:
        """The target asks for none."""
        raise NotImplementedError

    merge_tables: Any = fill_tables

    def submit(self, launch: Any, /) -> int:
        """Run a launch at once."""
        kernel, words, launch.begun = launch.kernel, np.array(launch.words, np.uint64), True
        module = kernel.module
        memory = None
        if module.words_in_memory:
            memory = self.allocate(words.nbytes)
            self.write(memory, 0, words.tobytes())
            self.tables.add(memory.address)
            words = np.array([memory.address], np.uint64)
        shape = module.shape(launch.width, launch.units)
        with nullcontext() if self.listener is None else self.listener(launch, words, shape):
            self._run(kernel, words, launch.units, shape)
        self.count, self.last = self.count + 1, kernel
        return self.count

    def _run(self, kernel: Kernel, words: Any, units: int, shape: Any) -> None:
        self.machine.launch(kernel.functions, KERNEL, {"p": words, "units": np.array([units], np.uint64)},
                            shape.blocks, shape[1:])
        if kernel.reductions:
            after = kernel.module.combine_shape()
            self.machine.launch(kernel.functions, COMBINE, {"p": words, "blocks": np.array([shape.blocks], np.uint32)},
                                after.blocks, after[1:])

    def submitted(self) -> int:
        """Number of launches."""
        return self.count

    def allocate(self, nbytes: int, /) -> Buffer:
        """A buffer."""
        try:
            address = self.machine.memory.allocate(nbytes + PTXTexts.limits.padding)
        except MemoryError:
            gc.collect()
            address = self.machine.memory.allocate(nbytes + PTXTexts.limits.padding)
        return Buffer(self, address, nbytes, SimpleNamespace(  # type: ignore[arg-type]
            ticket=0, address=address, nbytes=nbytes + PTXTexts.limits.padding, capacity=nbytes))

    def release(self, block: Any, /) -> None:
        """Take memory back."""
        self.tables.discard(block.address)
        self.machine.memory.release(block.address, block.nbytes)

    def copy(self, source: Buffer, /) -> Buffer:
        """A copy."""
        result = self.allocate(source.nbytes)
        self.write(result, 0, self.read(source, 0, source.nbytes))
        return result

    def read(self, buffer: Buffer, offset: int, count: int, /) -> bytes:
        """Some bytes."""
        return bytes(self.machine.memory.at(buffer.address + offset, count))

    def write(self, buffer: Buffer, offset: int, data: bytes | memoryview, /) -> None:
        """Replace some bytes."""
        self.machine.memory.at(buffer.address + offset, len(data))[:] = np.frombuffer(data, np.uint8)

    def fill(self, buffer: Buffer, byte: int, /) -> None:
        """Set all bytes."""
        self.machine.memory.at(buffer.address, buffer.nbytes)[:] = byte

    def host_address(self, buffer: Buffer, /) -> NoReturn:
        """There is no such place."""
        raise RuntimeError(f"the host has no access to the {buffer.nbytes} bytes at {buffer.address:#x}")

    def wait(self, ticket: int | None = None, /) -> None:
        """Nothing runs."""

    def is_done(self, ticket: int, /) -> bool:
        """Nothing runs."""
        return True

    def finish(self) -> bool:
        """Nothing runs."""
        return True

    def memory_statistics(self) -> dict[str, int]:
        """Of no interest."""
        return {}

    def flush_memory(self) -> None:
        """Nothing is cached."""

    def kernel_statistics(self) -> dict[str, int]:
        """Of no interest."""
        return {}

    def crowded(self) -> bool:
        """Never."""
        return False

    def flush(self) -> None:
        """Forget all kernels."""
        self.kernels.clear()
