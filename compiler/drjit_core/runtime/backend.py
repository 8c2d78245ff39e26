"""What a backend is: where arrays live, and what gives them values.

Everything that evaluates or touches memory asks a backend; buffers name theirs, and so do keys (by the language of the
code, see :class:`drjit_core.codegen.target.Target`).  Planning, assembling and keys are the same for all backends with
kernels (:class:`KernelBackend`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

from ..codegen.program import Program
from ..codegen.steps import Call, Pass, Text
from ..codegen.target import Limits, Target
from ..ir.labels import label_of
from ..ir.node import Node
from ..types import TYPES, JitBackend
from .buffer import Buffer
from .heap import Heap

__all__ = ["Backend", "Carrier", "Exchange", "KernelBackend", "Launch", "LoadedKernel", "ShortWay", "Tables", "bring",
           "has_kernels", "memory_for"]


class Backend(Protocol):
    """Where arrays live, and what gives them values."""

    @property
    def name(self) -> str:
        """Name, for messages and for :func:`.backends.on_backend`."""

    @property
    def where(self) -> int:
        """The nodes that it evaluates: those that belong to a :class:`JitBackend`, as a bit."""

    @property
    def is_host(self) -> bool:
        """Whether its memory is that of this process, which the host may access in place."""

    @property
    def heap(self) -> Heap | None:
        """Which its memory comes from, if it has one."""

    def allocate(self, nbytes: int, /) -> Buffer:
        """A buffer with undefined contents; raises a ``MemoryError`` that says what occupies the memory.

        What kernels get are addresses: of buffers, of parts of them, and of other words among their parameters. The
        buffer's block, any object with a ``ticket``, is what is given back.
        """

    def release(self, block: Any, /) -> None:
        """Take the memory of a buffer back.  Finalisers call this: it may interrupt anything."""

    def copy(self, source: Buffer, /) -> Buffer:
        """A buffer of its own with the contents of another one."""

    def read(self, buffer: Buffer, offset: int, count: int, /) -> bytes:
        """Some bytes of a buffer, once the launches that use it have ended.  Raises a ``RuntimeError`` if there are no
        contents."""

    def write(self, buffer: Buffer, offset: int, data: bytes | memoryview, /) -> None:
        """Replace some bytes of a buffer, after the launches that use it."""

    def fill(self, buffer: Buffer, byte: int, /) -> None:
        """Set all bytes of a buffer, after the launches that use it."""

    def host_address(self, buffer: Buffer, /) -> int:
        """Where the host may read and write the contents of a buffer, from now on until the next launch that uses it;
        waits for the last one.  Raises a ``RuntimeError`` if there is no such place: unless it ``is_host``."""

    def memory_statistics(self) -> dict[str, int]:
        """Bytes ``in_use`` by arrays, their ``peak``, bytes ``cached``, and ``allocations``, which asked the system."""

    def flush_memory(self) -> None:
        """Return memory that no array uses to the system."""

    def wait(self, ticket: int | None = None, /) -> None:
        """Wait for a launch, or for all of them."""

    def is_done(self, ticket: int, /) -> bool:
        """Whether a launch has finished."""

    # --- evaluation --------------------------------------------------------------------------------------------------

    @property
    def limits(self) -> Limits:
        """What arrays, kernels and who traces keep to."""

    @property
    def recipes(self) -> ShortWay | None:
        """What is known of its launches; ``None`` if it has none."""

    @property
    def exchange(self) -> Exchange | None:
        """What shares its memory with other libraries; ``None`` if that is the host's, or nobody else's."""

    def evaluate(self, roots: list[Node], /) -> None:
        """Give values to nodes.  The caller holds the lock of :mod:`.exclusion`."""

    def finish(self) -> bool:
        """At exit: wait for what is queued, but not forever; whether all is done."""

    def kernel_statistics(self) -> dict[str, int]:
        """How often kernels were launched (``launches``), and found in memory (``hits``), on disk (``loaded``), or
        nowhere (``compiled``)."""

    def crowded(self) -> bool:
        """Whether there are so many kernels that it is time to forget them."""

    def flush(self) -> None:
        """Forget all kernels."""


class Launch(Protocol):
    """One execution of a kernel."""

    begun: bool  # the kernel has run or certainly will, whatever exception comes afterwards

    @property
    def milliseconds(self) -> float:
        """Time that it took, once it has run; 0 if it was not timed."""


class Tables(Protocol):
    """What a scatter-reduction updates in place of memory."""

    @property
    def words(self) -> tuple[int, int]:
        """What the kernel that updates them gets."""

    whole: Node  # which holds their buffer


class LoadedKernel(Protocol):
    """A kernel that can be launched."""

    @property
    def hash(self) -> str:
        """Name of the kernel: equal for equal keys."""

    @property
    def text(self) -> str:
        """The kernel in the backend's language."""

    @property
    def size(self) -> int:
        """Bytes of its code."""

    @property
    def operations(self) -> int:
        """Number of operations for one element."""

    @property
    def build_time(self) -> float:
        """Milliseconds that compiling or loading took for the launch that it was looked up for last, 0 if nothing."""

    @property
    def from_disk(self) -> bool:
        """Whether it was found on disk."""

    @property
    def partial_words(self) -> int:
        """Words of 8 bytes that a block leaves of what it reduces; 0 if it reduces nothing."""

    def reuse(self, width: int, /) -> None:
        """Note that a launch of so many elements is coming, for which it has not been looked up."""

    def partial_bytes(self, width: int, unit: int = 1, /) -> int:
        """Bytes of partial results that the blocks of a launch of so many units, of so many elements, write."""

    def place(self, words: Any, moves: Sequence[tuple[int, int]], keep: list[Any], /) -> None:
        """Enter the addresses of words among them (word, another one, whose address it is), where launches will find
        tables of calls that lie behind parameters; ``keep`` gets what must live as long."""

    def function_address(self, number: int, records: bool, /) -> int:
        """The address of a function that calls reach, by its number in the program, or of the one that takes several
        records; until the next launch is noted."""

    def course(self, program: Program, /) -> Any:
        """What launches of a program's kernel depend on besides parameters and width, for :meth:`shape`."""

    def shape(self, course: Any, units: int, unit: int = 1, /) -> Any:
        """How a launch of so many units goes, of so many elements each, whatever its parameters are."""

    def shape_of_pass(self, launch: Any, /) -> Any:
        """How the launch of a pass of a step goes."""

    def launch(self, parameters: array[int], shape: Any, keep: list[Any], timed: bool, /) -> Any:
        """A :class:`Launch` with some parameters, words of 8 bytes, ready to be submitted."""

    def dump(self, program: Program, /) -> None:
        """Write files for people before the first launch, if the environment asks for them."""


class Exchange(Protocol):
    """What shares memory of a device with other libraries; streams are told by their handles."""

    @property
    def number(self) -> int:
        """The device's number among all."""

    @property
    def stream(self) -> int:
        """The stream in whose order everything happens here."""

    def gives(self, stream: int, /) -> None:
        """Somebody gets memory: the stream waits for what is launched."""

    def takes(self, stream: int, /) -> None:
        """Somebody gives memory: what is launched from now on waits for the stream."""

    def returned(self, stream: int, /) -> None:
        """Somebody has no use any more for memory that was given to a stream."""

    def device_of(self, address: int, /) -> int:
        """The number of the device that some memory belongs to, -1 if it is none that is known."""

    def lent(self, owner: Any, /) -> Any:
        """What buffers over memory keep alive that belongs to an owner."""

    def copied(self, address: int, nbytes: int, /) -> Buffer:
        """Memory of our own, with what is at an address."""


class Carrier(Protocol):
    """What brings kernels to files and back (see :mod:`.portable`): facts of them are plain data, their code is
    bytes."""

    def environment(self) -> dict[str, Any]:
        """What code of this process depends on."""

    def obstacle(self, environment: Mapping[str, Any], /) -> str:
        """Why code of another process cannot run in this one; empty if it can."""

    def facts(self, kernel: Any, /) -> Sequence[Any]:
        """What is to be known of a kernel besides its code; first what makes it different from others."""

    def packed(self, kernel: Any, /) -> bytes:
        """Its code."""

    def facts_of_text(self, text: Text, /) -> Sequence[Any]:
        """What is to be known of a text besides its code."""

    def packed_text(self, text: Text, /) -> bytes:
        """Its code."""

    def unpacked(self, facts: Sequence[Any], found: bytes, /) -> LoadedKernel:
        """A kernel again."""

    def course(self, fields: Sequence[Any], /) -> Any:
        """What launches depend on (see :meth:`LoadedKernel.course`), which is a tuple, again."""


class ShortWay(Protocol):
    """What is known of the launches of a backend."""

    launches: int  # how many went the short way

    def forget(self) -> None:
        """Forget all kernels."""

    def target_number(self) -> int:
        """A number for what the backend's programs are assembled for just now."""

    def launch_straight(self, roots: list[Any], width: int, recorder: Any, /) -> bool:
        """Launch a kernel of a plan, which a recorder notes, if that can be done without a program; whether it was."""

    def replay(self, stages: list[Any], nodes: list[Any], sizes: list[Any], /) -> None:
        """Launch stages for nodes, by their places, and sizes, by their numbers.  The caller holds the lock."""


@runtime_checkable
class KernelBackend(Backend, Protocol):
    """A backend with kernels, launched in order: what is allocated after a launch may be memory that it still uses."""

    @property
    def language(self) -> JitBackend:
        """Whose code kernels are."""

    @property
    def recipes(self) -> ShortWay:
        """What is known of its launches (:class:`.recipes.Recipes`): who has :func:`.recipes.evaluate` evaluates by
        them."""

    @property
    def carrier(self) -> Carrier | None:
        """What brings kernels to files and back; ``None`` if nothing does."""

    def target(self) -> Target:
        """What programs are assembled for, at the beginning of an evaluation."""

    def compile(self, program: Program, /) -> tuple[LoadedKernel, bool]:
        """The kernel of a program, and whether it was in memory already.

        It holds neither the program nor its nodes, nor do launches: who holds nodes is part of what is planned, and
        they keep memory.
        """

    def passes(self, call: Call, /) -> Iterable[Pass]:
        """What a step takes to run; each one is launched before the next one is asked for."""

    def compile_text(self, text: Text, launch: Any, /) -> tuple[LoadedKernel, bool]:
        """The kernel of a text, for a launch of some shape, and whether it was in memory already."""

    def fill_tables(self, target: Target, memory: Node, op: int, /) -> Any:
        """:class:`Tables` for a reduction into some memory, filled with the neutral element.  Programs whose strategy
        is PRIVATE update them; other backends have none."""

    def merge_tables(self, target: Target, tables: Any, /) -> Buffer:
        """What the memory contains when tables that have been updated are merged into it."""

    def submit(self, launch: Any, /) -> int:
        """Run a launch after those before it, be it at once or later; returns its ticket."""

    def submitted(self) -> int:
        """Ticket of the last launch."""


#: Whether backends of some classes have kernels: to look at all members takes longer than to record ten operations.
_with_kernels: dict[type, bool] = {}


def has_kernels(backend: Backend) -> TypeGuard[KernelBackend]:
    """Whether a backend runs kernels, as those of its class do."""
    cls = type(backend)
    if cls not in _with_kernels:
        _with_kernels[cls] = isinstance(backend, KernelBackend)
    return _with_kernels[cls]


def memory_for(backend: Backend, node: Node) -> Buffer:
    """Memory for the elements of a node, with undefined contents."""
    return backend.allocate(node.size * TYPES[node.type].size)


def bring(backend: Backend, node: Node) -> None:
    """Bring an evaluated array, an input of an evaluation on a backend, into the memory of that.

    Only what belongs nowhere is brought, such as positions, which follow from sizes; other arrays raise a
    ``RuntimeError``.
    """
    source = node.payload
    if not node.where:
        target = backend.allocate(source.nbytes)
        backend.write(target, 0, source.backend.read(source, 0, source.nbytes))
        node.payload = target
        return
    label = label_of(node)
    other = source.backend.name
    other = "another one of this name" if other == backend.name else f"the backend '{other}'"
    raise RuntimeError(f"eval(): this evaluation runs on the backend '{backend.name}', but one of its inputs, "
                       f"{TYPES[node.type].name}[{node.size}]{f' {label!r}' if label else ''}, belongs to {other}: all "
                       "inputs must belong to the backend that evaluates")
