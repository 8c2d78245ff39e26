"""A backend that goes the whole road and launches nothing: for tests of everything before the launch.

Programs are planned, assembled and turned into text as by the backend whose :class:`Texts` it gets, so that keys and
texts are the same.  Memory is addresses that nobody touches; what would have been launched is recorded.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Protocol
from weakref import WeakKeyDictionary

from ..codegen.program import Program
from ..codegen.signature import Signature, signature_of
from ..codegen.steps import Call, Pass, Shape, Text
from ..codegen.target import Limits, Target
from ..ir.node import Node
from ..types import JitBackend
from . import recipes
from .buffer import Buffer
from .native import Native

__all__ = ["Null", "NullKernel", "NullLaunch", "Texts"]

#: Where addresses begin: no process has memory there.
_FIRST_ADDRESS = 1 << 56
_ALIGNMENT = 64


class Texts(Protocol):
    """What makes the texts of a language, and what launches of a program follow from besides."""

    language: JitBackend
    limits: Limits

    def target(self) -> Target:
        """What programs are assembled for, unless another one is given."""

    def text_of(self, program: Program, /) -> str:
        """The text of a program."""

    def operations_of(self, program: Program, /) -> int:
        """Number of operations for one element; 0 if constants are stored, and nothing is computed."""

    def work_of(self, program: Program, /) -> int:
        """Cost of one element, relative to an addition."""

    def partial_bytes(self, words: int, work: int, width: int, unit: int, /) -> int:
        """Bytes of partial results of a kernel."""

    def course_of(self, program: Program, /) -> Any:
        """What launches of a program depend on besides parameters and width."""

    def fill_tables(self, backend: Any, target: Target, memory: Node, op: int, /) -> Any:
        """See :meth:`.backend.KernelBackend.fill_tables`."""

    def merge_tables(self, backend: Any, target: Target, tables: Any, /) -> Buffer:
        """See :meth:`.backend.KernelBackend.merge_tables`."""

    def passes(self, call: Call, /) -> Iterable[Pass]:
        """What a step takes to run."""


class NullKernel:
    """A kernel that is nothing but text."""

    build_time = 0.0
    from_disk = False
    size = 0

    def __init__(self, program: Program, texts: Texts) -> None:
        self._texts = texts
        self.key = program.key
        self.signature = signature_of(program)
        self.partial_words = program.partial_words
        self.text = texts.text_of(program)
        self.operations = texts.operations_of(program)
        self.work = texts.work_of(program)
        self.hash = hashlib.blake2b(program.key, digest_size=16).hexdigest()
        self.course = texts.course_of

    def reuse(self, width: int, /) -> None:
        """There is but one tier of text."""

    def partial_bytes(self, width: int, unit: int = 1, /) -> int:
        """Bytes of partial results that the blocks of a launch would write."""
        return self._texts.partial_bytes(self.partial_words, self.work, width, unit)

    def function_address(self, number: int, records: bool, /) -> int:
        """What tables of calls have in the place of addresses: a number for each function."""
        return 2 * number + records

    def place(self, words: Any, moves: Sequence[tuple[int, int]], keep: list[Any], /) -> None:
        """Enter the addresses of words in this process."""
        base = words.buffer_info()[0]
        for number, other in moves:
            words[number] = base + 8 * other
        keep.append(words)

    def shape(self, course: Any, units: int, unit: int = 1, /) -> tuple[int, bool]:
        """The width, and whether one thread does it all."""
        return units * unit, course.single

    def launch(self, parameters: array[int], shape: tuple[int, bool], keep: list[Any], timed: bool, /) -> NullLaunch:
        """A record of a launch.  It holds no node, since planning asks who does."""
        return NullLaunch(self, tuple(parameters), *shape)

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

    def reuse(self, width: int, /) -> None:
        """There is but one tier of text."""

    def shape_of_pass(self, launch: Shape, /) -> tuple[int, bool, int]:
        """The width, that all threads may take part, and the size of a block."""
        return launch.width, False, launch.block

    def launch(self, parameters: array[int], shape: tuple[int, bool, int], keep: list[Any], timed: bool,
               /) -> NullLaunch:
        """A record of a launch."""
        return NullLaunch(self, tuple(parameters), *shape)


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
    is_host = False
    heap = exchange = carrier = None
    evaluate = recipes.evaluate

    def __init__(self, texts: Texts, target: Target | None = None) -> None:
        self._texts = texts
        self._target = target
        self.language = texts.language
        self.where = texts.language.value
        self.limits = texts.limits if target is None else texts.limits._replace(
            local=target.local, tracing=target.tracing)
        self._next_address = _FIRST_ADDRESS
        self.kernels: dict[bytes, Any] = {}  # by key
        self.launches: list[NullLaunch] = []
        self._filled: WeakKeyDictionary[Buffer, int] = WeakKeyDictionary()
        self.recipes = recipes.Recipes(Native(self))

    def target(self) -> Target:
        """That of the texts, unless another one was given."""
        return self._target or self._texts.target()

    def compile(self, program: Program, /) -> tuple[NullKernel, bool]:
        """The kernel of a program, and whether it was there already."""
        kernel = self.kernels.get(program.key)
        if kernel is not None:
            return kernel, True
        kernel = self.kernels[program.key] = NullKernel(program, self._texts)
        return kernel, False

    def fill_tables(self, target: Target, memory: Node, op: int, /) -> Any:
        """Tables of a scatter-reduction, as the backend has them."""
        return self._texts.fill_tables(self, target, memory, op)

    def merge_tables(self, target: Target, tables: Any, /) -> Buffer:
        """What the memory contains when they are merged into it."""
        return self._texts.merge_tables(self, target, tables)

    def passes(self, call: Call, /) -> Iterable[Pass]:
        """What a step takes to run."""
        return self._texts.passes(call)

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

    def memory_statistics(self) -> dict[str, int]:
        """There is no memory."""
        return {}

    def flush_memory(self) -> None:
        """There is no memory."""

    def kernel_statistics(self) -> dict[str, int]:
        """Nothing is compiled."""
        return {}

    def crowded(self) -> bool:
        """Kernels that are never loaded take no more than the text that is asked for."""
        return False

    def flush(self) -> None:
        """Forget all kernels, but not the launches."""
        self.kernels.clear()
        self.recipes.forget()
