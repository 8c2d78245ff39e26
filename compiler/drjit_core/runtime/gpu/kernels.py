"""Kernels of a device: from the key of a program to a function of the driver's; :mod:`..disk` carries code across
processes."""

from __future__ import annotations

import struct
import time
import zlib
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from ...codegen.program import Program
from ...ptx.emit import COMBINE, KERNEL, Module, Shape
from .. import disk
from . import dump
from .launches import Launch

__all__ = ["GPUKernel"]

#: A cached kernel is what launches have to know of its module, the length of its compressed text, the text, the code.
_HEAD = struct.Struct("<BBBBIQ")


class GPUKernel:
    """A kernel that is loaded, with what diagnostics want to know of it."""

    __slots__ = ("_text", "backend", "build_time", "code_time", "combine", "from_disk", "function", "hash", "loaded",
                 "module", "operations", "size")

    def __init__(self, backend: Any, key: bytes, operations: int, make: Callable[[], Module] | None) -> None:
        """Without a function that makes it, raises a ``LookupError`` if it is not on disk."""
        self.backend, self.operations, self.loaded = backend, operations, None
        start = time.perf_counter_ns()
        name = backend.environment.key_of(key, "kernel")
        self.hash = name.hex()[:32]
        found = disk.load(name)
        self.from_disk = found is not None
        if found is None and make is None:
            raise LookupError
        if found is None:
            assert make is not None
            module = make()
            self._text = zlib.compress(module.text.encode(), 1)
        else:
            lanes, rows, in_memory, tables, reductions, length = _HEAD.unpack_from(found)
            self._text = found[_HEAD.size:_HEAD.size + length]
            module = Module("", lanes, bool(rows), reductions, bool(in_memory), bool(tables))
        self.code_time = (time.perf_counter_ns() - start) * 1e-6
        if found is None:
            code = backend.driver.assemble(module.text)
            disk.store(name, _HEAD.pack(module.lanes, module.rows, module.words_in_memory, module.tables,
                                        module.reductions, len(self._text)) + self._text + code)
        else:
            code = found[_HEAD.size + length:]
        self.module, self.size = module._replace(text=""), len(code)
        self.loaded = backend.driver.load(code)
        self.function = backend.driver.function(self.loaded, KERNEL)
        self.combine = backend.driver.function(self.loaded, COMBINE) if module.reductions else None
        self.build_time = (time.perf_counter_ns() - start) * 1e-6 - self.code_time

    def __del__(self) -> None:
        if self.loaded is not None:
            self.backend.unused.append(self.loaded)

    @property
    def text(self) -> str:
        """The kernel's PTX."""
        return zlib.decompress(self._text).decode()

    @property
    def partial_words(self) -> int:
        """Words of 8 bytes that a block leaves of what it reduces; 0 if it reduces nothing."""
        return self.module.reductions

    def reuse(self, width: int, /) -> None:
        """Note a launch for which the kernel has not been looked up."""
        self.backend.native.hits += 1
        self.build_time = 0.0

    def partial_bytes(self, units: int, unit: int = 1, /) -> int:
        """Bytes of partial results that the blocks of a launch write."""
        return self.module.partial_bytes(units * unit, units)

    def place(self, words: Any, moves: Sequence[tuple[int, int]], keep: list[Any], /) -> None:
        """Enter addresses of words among them, where kernels will find them; ``keep`` gets what must live as long."""
        if moves:
            buffer = self.backend.allocate(8 * len(words))
            for number, other in moves:
                words[number] = buffer.address + 8 * other
            self.backend.write(buffer, 0, words.tobytes())
            keep.append(buffer)

    def function_address(self, number: int, records: bool, /) -> int:
        """What tables of calls have in the place of functions: their numbers; each element calls one by itself."""
        return 0 if records else number

    def course(self, program: Program, /) -> None:
        """Launches depend on parameters and width alone."""

    def shape(self, course: Any, units: int, unit: int = 1, /) -> tuple[Shape, bytes]:
        """Blocks and threads, and what the kernel gets behind its parameters."""
        return self.module.shape(units * unit, units), struct.pack("<Q", units) if self.module.rows else b""

    def shape_of_pass(self, launch: Any, /) -> tuple[Shape, bytes]:
        """Blocks and threads of a pass of a step, and nothing."""
        return Shape(launch.blocks, launch.x, launch.y), b""

    def launch(self, parameters: array[int], shape: tuple[Shape, bytes], keep: list[Any], timed: bool, /) -> Launch:
        """A launch with some parameters."""
        return Launch(self, parameters.tobytes(), *shape, keep, timed)

    def dump(self, program: Program | None, /) -> None:
        """Write files for people, if the environment asks for them; kernels of steps have no program."""
        dump.write(self, program)
