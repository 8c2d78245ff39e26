"""A backend as somebody else would write it, of nothing but what the protocol asks for: arrays are bytes at addresses
that mean nothing elsewhere, and a kernel is its linear program, whose instructions NumPy executes.

It has no regions, writes, reductions, rows and steps: what asks for these is told so.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from drjit_core import JitBackend
from drjit_core.codegen.linear import Instruction
from drjit_core.codegen.linearize import linearize
from drjit_core.codegen.program import Program
from drjit_core.codegen.steps import Call, Pass
from drjit_core.codegen.target import Target
from drjit_core.interpreter import elementwise
from drjit_core.ops.table import BITCAST, CAST, COUNTER, EVALUATED, FIRST_ELEMENTWISE, GATHER, LITERAL, OPS
from drjit_core.runtime import recipes
from drjit_core.runtime.buffer import Buffer
from drjit_core.runtime.cpu.target import CPU_TARGET, LIMITS
from drjit_core.runtime.native import Native

__all__ = ["Own"]

_FIRST_ADDRESS = 1 << 50
#: Instructions do as NumPy's functions do: with values, and the width of the launch.
_Run = Callable[["Launch", list[Any]], Any]


class Block:
    """Memory of an array."""

    def __init__(self, address: int) -> None:
        self.address, self.ticket = address, 0


class Kernel:
    """The instructions of a program: no nodes, which would keep memory."""

    build_time, from_disk, size, partial_words = 0.0, False, 0, 0

    def __init__(self, program: Program) -> None:
        function = linearize(program).kernel
        if function.domain is not None or function.scatters or function.reductions:
            raise NotImplementedError("kernels that reduce, write or go over rows do not run on the backend 'own'")
        self.instructions = [(each.number, tuple(operand.number for operand in each.operands), _function_of(each))
                             for each in function.order]
        self.stores = [(store.value.number, store.slot, store.value.type) for store in function.stores]
        self.hash = hashlib.blake2b(program.key, digest_size=16).hexdigest()
        self.text = "".join(f"{each}\n" for each in function.order)
        self.operations = len(function.order)

    def reuse(self, width: int, /) -> None:
        pass

    def partial_bytes(self, width: int, unit: int = 1, /) -> int:
        return 0

    def place(self, words: Any, moves: Sequence[tuple[int, int]], keep: list[Any], /) -> None:
        pass

    def function_address(self, number: int, records: bool, /) -> int:
        return 0

    def course(self, program: Program, /) -> None:
        return None

    def shape(self, course: None, units: int, unit: int = 1, /) -> int:
        return units * unit

    def shape_of_pass(self, launch: Any, /) -> int:
        return launch.width  # type: ignore[no-any-return]

    def launch(self, parameters: array[int], shape: int, keep: list[Any], timed: bool, /) -> Launch:
        return Launch(self, parameters.tolist(), shape)

    def dump(self, program: Program, /) -> None:
        pass


class Launch:
    """One execution."""

    milliseconds = 0.0

    def __init__(self, kernel: Kernel, words: list[int], width: int) -> None:
        self.kernel, self.words, self.width, self.begun = kernel, words, width, False
        self.backend: Own

    def run(self) -> None:
        values: dict[int, Any] = {}
        for number, operands, function in self.kernel.instructions:
            values[number] = function(self, [values[operand] for operand in operands])
        for number, slot, type_ in self.kernel.stores:
            data = np.broadcast_to(values[number], self.width).astype(elementwise.dtype_of(type_)).tobytes()
            memory, first = self.backend.memory_at(self.words[slot])
            memory[first:first + len(data)] = data
        self.begun = True

    def array(self, slot: int, type_: int) -> Any:
        """What is in memory from an address on."""
        memory, first = self.backend.memory_at(self.words[slot])
        dtype = elementwise.dtype_of(type_)
        return np.frombuffer(bytes(memory), dtype, (len(memory) - first) // dtype.itemsize, first)


def _function_of(instruction: Instruction) -> _Run:
    """What executes an instruction."""
    kind, type_, access, payload = instruction.kind, instruction.type, instruction.access, instruction.node.payload
    dtype, row = elementwise.dtype_of(type_), OPS[kind]
    if kind == LITERAL:
        if access is None:
            return lambda launch, operands: elementwise.filled(type_, payload)
        return lambda launch, operands: np.frombuffer(launch.words[access.slot].to_bytes(8, "little"), dtype, 1)
    if kind == EVALUATED:
        assert access is not None
        uniform = instruction.uniform
        return lambda launch, operands: launch.array(access.slot, type_)[:1 if uniform else launch.width]
    if kind == COUNTER:
        return lambda launch, operands: np.arange(launch.width, dtype=dtype)
    if kind == GATHER:
        assert access is not None

        def gather(launch: Launch, operands: list[Any]) -> Any:
            index, mask = np.broadcast_arrays(*operands)
            return np.where(mask, launch.array(access.slot, type_)[np.where(mask, index, 0)], np.zeros((), dtype))

        return gather
    if kind in (CAST, BITCAST):
        convert = elementwise.cast if kind == CAST else elementwise.bitcast
        return lambda launch, operands: convert(operands[0], type_)
    if kind < FIRST_ELEMENTWISE or instruction.function is not None:
        raise NotImplementedError(f"the row '{row.name}' does not run on the backend 'own'")
    return lambda launch, operands: elementwise.apply(row, type_, *operands)


class Own:
    """The backend."""

    name, language, where, is_host = "own", JitBackend.LLVM, JitBackend.LLVM.value, False
    heap = exchange = carrier = None
    limits = LIMITS._replace(padding=0)
    evaluate = recipes.evaluate

    def __init__(self) -> None:
        self.cells: dict[int, bytearray] = {}  # by address
        self.kernels: dict[bytes, Kernel] = {}
        self.count, self._next = 0, _FIRST_ADDRESS
        self.recipes = recipes.Recipes(Native(self))
        self._target = CPU_TARGET._replace(has_tables=False, rooms=None,
                                           tracing=CPU_TARGET.tracing._replace(products=False))

    # --- memory ------------------------------------------------------------------------------------------------------

    def memory_at(self, address: int) -> tuple[bytearray, int]:
        """The memory that an address is in, and where."""
        for first, cell in self.cells.items():
            if first <= address < first + max(len(cell), 1):
                return cell, address - first
        raise RuntimeError(f"there is no memory at {address:#x}")

    def allocate(self, nbytes: int, /) -> Buffer:
        block = Block(self._next)
        self.cells[block.address] = bytearray(nbytes)
        self._next += (nbytes + 64) // 64 * 64
        return Buffer(self, block.address, nbytes, block)

    def release(self, block: Block, /) -> None:
        del self.cells[block.address]

    def copy(self, source: Buffer, /) -> Buffer:
        found = self.allocate(source.nbytes)
        self.write(found, 0, self.read(source, 0, source.nbytes))
        return found

    def read(self, buffer: Buffer, offset: int, count: int, /) -> bytes:
        memory, first = self.memory_at(buffer.address)
        return bytes(memory[first + offset:first + offset + count])

    def write(self, buffer: Buffer, offset: int, data: bytes | memoryview, /) -> None:
        memory, first = self.memory_at(buffer.address)
        memory[first + offset:first + offset + len(data)] = bytes(data)

    def fill(self, buffer: Buffer, byte: int, /) -> None:
        self.write(buffer, 0, bytes([byte]) * buffer.nbytes)

    def host_address(self, buffer: Buffer, /) -> NoReturn:
        raise RuntimeError("the host has no access to memory of the backend 'own'")

    def memory_statistics(self) -> dict[str, int]:
        in_use = sum(map(len, self.cells.values()))
        return {"in_use": in_use, "peak": in_use, "cached": 0, "allocations": 0}

    def flush_memory(self) -> None:
        pass

    # --- launches ----------------------------------------------------------------------------------------------------

    def wait(self, ticket: int | None = None, /) -> None:
        pass

    def is_done(self, ticket: int, /) -> bool:
        return True

    def finish(self) -> bool:
        return True

    def kernel_statistics(self) -> dict[str, int]:
        return {"launches": self.count}

    def crowded(self) -> bool:
        return False

    def flush(self) -> None:
        self.kernels.clear()
        self.recipes.forget()

    def target(self) -> Target:
        return self._target

    def compile(self, program: Program, /) -> tuple[Kernel, bool]:
        found = self.kernels.get(program.key)
        if found is not None:
            return found, True
        found = self.kernels[program.key] = Kernel(program)
        return found, False

    def passes(self, call: Call, /) -> Iterable[Pass]:
        raise NotImplementedError(f"the step '{call.step.name}' does not run on the backend 'own'")

    def compile_text(self, text: Any, launch: Any, /) -> NoReturn:
        raise NotImplementedError("steps do not run on the backend 'own'")

    def fill_tables(self, target: Target, memory: Any, op: int, /) -> NoReturn:
        raise NotImplementedError("scatter-reductions do not run on the backend 'own'")

    merge_tables: Any = fill_tables

    def submit(self, launch: Launch, /) -> int:
        launch.backend = self
        launch.run()
        self.count += 1
        return self.count

    def submitted(self) -> int:
        return self.count
