"""A backend that goes the whole road and launches nothing: for tests of everything before the launch.

Programs are planned, assembled and turned into text for the CPU, so that keys and texts are the same.  Memory is
addresses that nobody touches; what would have been launched is recorded.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn
from weakref import WeakKeyDictionary

from ..codegen.program import Binding, Program
from ..codegen.signature import Signature, signature_of
from ..codegen.steps import Pass, Shape, Text
from ..codegen.target import Target
from ..types import JitBackend
from .backend import Limits
from .buffer import Buffer
from .cpu import call_tables, launches, malloc
from .cpu.cache import operations_of, partial_bytes, text_of, work_of
from .cpu.cache import passes as cpu_passes
from .cpu.target import CPU_TARGET
from .cpu.target import target as cpu_target
from .cpu.thread_tables import filled_tables, merged_tables
from .launch import evaluate_by_kernels

__all__ = ["Null", "NullKernel", "NullLaunch"]

#: Where addresses begin: no process has memory there.
_FIRST_ADDRESS = 1 << 56
_ALIGNMENT = 64


class NullKernel:
    """A kernel that is nothing but text."""

    build_time = 0.0
    from_disk = False
    size = 0

    def __init__(self, program: Program) -> None:
        self.key = program.key
        self.signature = signature_of(program)
        self.reductions = len(program.reductions)
        self.text = text_of(program)
        self.operations = operations_of(program)
        self.work = work_of(program)
        self.hash = hashlib.blake2b(program.key, digest_size=16).hexdigest()
        #: What the tables of calls have in the place of addresses: numbers of functions.
        self.functions = {name: number for number, name in enumerate(call_tables.names(program))}

    def reuse(self, width: int, /) -> None:
        """There is but one tier of text."""

    def partial_bytes(self, width: int, unit: int = 1, /) -> int:
        """Bytes of partial results that the blocks of a launch would write."""
        return partial_bytes(self.reductions, self.work, width, unit)

    def fill_calls(self, bound: Program | Binding, keep: list[Any], /) -> None:
        """Make the tables of calls, with numbers of functions in the place of their addresses."""
        call_tables.fill(bound, self.functions, keep)

    course = staticmethod(launches.course_of)

    def launch(self, bound: Program | Binding, course: launches.Course, keep: list[Any], timed: bool, /) -> NullLaunch:
        """A record of a launch.  It holds no node, since planning asks who does."""
        return NullLaunch(self, tuple(bound.parameters), bound.width, course.single)

    def dump(self, program: Program, /) -> None:
        """There is nothing that could be run alone."""


class NullTextKernel:
    """A kernel of a step."""

    build_time = 0.0
    from_disk = False
    size = 0
    operations = 1
    reductions = 0

    def __init__(self, text: Text) -> None:
        self.key = text.key
        self.signature = Signature(text.key, (), 0)
        self.text = text.text()
        self.hash = hashlib.blake2b(text.key, digest_size=16).hexdigest()

    def launch_pass(self, one: Pass, keep: list[Any], timed: bool, /) -> NullLaunch:
        """A record of a launch."""
        shape: Any = one.launch
        return NullLaunch(self, one.words, shape.width, False, shape.block)


@dataclass(frozen=True)
class NullLaunch:
    """What would have been launched."""

    kernel: NullKernel | NullTextKernel
    parameters: tuple[int, ...]
    width: int
    single: bool  # one thread does it all
    block: int = 0  # size of a block that the kernel counts on

    begun: ClassVar[bool] = False  # it never runs; its outputs count as written once it has been submitted
    milliseconds: ClassVar[float] = 0.0


class Null:
    """Kernels that are looked up and compiled to text, launches that are recorded, memory that does not exist."""

    name = "null"
    language = JitBackend.LLVM
    where = JitBackend.LLVM.value
    is_host = False
    evaluate = evaluate_by_kernels

    def __init__(self, target: Target | None = None) -> None:
        self._target = target
        self.limits = Limits(malloc.PADDING, malloc.PACKET, (target or CPU_TARGET).local)
        self._next_address = _FIRST_ADDRESS
        self.kernels: dict[bytes, Any] = {}  # by key
        self.launches: list[NullLaunch] = []
        self._filled: WeakKeyDictionary[Buffer, int] = WeakKeyDictionary()

    def target(self) -> Target:
        """That of the CPU, unless another one was given."""
        return self._target or cpu_target()

    def compile(self, program: Program, /) -> tuple[NullKernel, bool]:
        """The kernel of a program, and whether it was there already."""
        kernel = self.kernels.get(program.key)
        if kernel is not None:
            return kernel, True
        kernel = self.kernels[program.key] = NullKernel(program)
        return kernel, False

    fill_tables, merge_tables = filled_tables, merged_tables
    passes = staticmethod(cpu_passes)

    def compile_text(self, text: Text, launch: Shape, /) -> tuple[NullTextKernel, bool]:
        """The kernel of a text, and whether it was there already."""
        kernel = self.kernels.get(text.key)
        if kernel is not None:
            return kernel, True
        kernel = self.kernels[text.key] = NullTextKernel(text)
        return kernel, False

    def submit(self, launch: NullLaunch, /) -> int:
        """Record a launch."""
        self.launches.append(launch)
        return len(self.launches)

    def submitted(self) -> int:
        """Number of launches."""
        return len(self.launches)

    def allocate(self, nbytes: int, /) -> Buffer:
        """A buffer at addresses of its own."""
        address = self._next_address
        self._next_address += (nbytes + self.limits.padding + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        return Buffer(self, address, nbytes)

    def release(self, block: Any, /) -> None:
        """There is nothing to release: no address is used twice."""

    def copy(self, source: Buffer, /) -> Buffer:
        """A buffer of the same size."""
        return self.allocate(source.nbytes)

    def read(self, buffer: Buffer, offset: int, count: int, /) -> bytes:
        """There are no contents, but of what the host has filled: no launch changes it."""
        if buffer not in self._filled:
            self.host_address(buffer)
        return bytes([self._filled[buffer]]) * count

    def write(self, buffer: Buffer, offset: int, data: bytes | memoryview, /) -> None:
        """Forget what was to be written, if it is all that a buffer has."""
        if len(data) < buffer.nbytes:
            self.host_address(buffer)

    def fill(self, buffer: Buffer, byte: int, /) -> None:
        """Note what the buffer is full of: reports of debug mode are read."""
        self._filled[buffer] = byte

    def host_address(self, buffer: Buffer, /) -> NoReturn:
        """There are no contents."""
        raise RuntimeError(f"the null backend launches nothing and keeps no memory: an array of {buffer.nbytes} bytes "
                           "has no elements that could be read, written, or looked at")

    def wait(self, ticket: int | None = None, /) -> None:
        """Nothing runs."""

    def is_done(self, ticket: int, /) -> bool:
        """Nothing runs."""
        return True

    def finish(self) -> bool:
        """Nothing runs."""
        return True

    def crowded(self) -> bool:
        """Kernels that are never loaded take no more than the text that is asked for."""
        return False

    def flush(self) -> None:
        """Forget all kernels, but not the launches."""
        self.kernels.clear()
