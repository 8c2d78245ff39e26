"""Launches of kernels on the CPU: the blocks that they are cut into, and how a thread of the interpreter runs them.

The queue, and the threads that work it off, are in :mod:`.pool`.
"""

from __future__ import annotations

import ctypes
import time
from array import array
from typing import Any, NamedTuple

from ...codegen.program import Program
from ...codegen.target import PLAIN
from ...ops.table import SCATTER
from ...passes.trips import trips_of
from ...types import ReduceMode, ReduceOp

__all__ = ["INLINE_WORK", "SHORT_WORK", "Course", "Functions", "Launch", "Shape", "block_count", "block_size",
           "blocks_of", "course_of", "run"]

#: A launch is cut into about 16 blocks, of at least 5 and at most 50 us of work (elements times operations), so that
#: threads that start late still find some, and starting a block costs nothing.  Blocks depend on the program and its
#: width alone, never on the number of threads: the partial results of reductions, and so their bits, are the same in
#: every run.
_BLOCKS, _LEAST_WORK, _MOST_WORK = 16, 1 << 19, 1 << 22
_LARGEST_BLOCK, _SMALLEST_BLOCK = 1 << 18, 1 << 6
#: Blocks that leave more words of partial results than this, because matrices are among these, have at least so many
#: elements that these words are not what they take their time for, and there are not many.
_MANY_WORDS, _WORDS_OF_ELEMENT, _FEW_BLOCKS = 1 << 10, 16, 32
#: Below this many elements times operations (some 20 us) a launch runs on the caller's thread if the queue is empty,
#: and below this many (1 us) it keeps the interpreter lock, whose release and return cost 0.6 us.
INLINE_WORK, SHORT_WORK = 1 << 21, 1 << 17

_ARGUMENTS = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
              ctypes.c_int32)
_KERNEL_HOLDING_LOCK = ctypes.PYFUNCTYPE(None, *_ARGUMENTS)
_KERNEL = ctypes.CFUNCTYPE(None, *_ARGUMENTS)
_COMBINE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
#: What is the same in all calls from the caller's thread, converted once: that costs a fifth of a call each time.
_NONE, _ONE_ROW, _CALLER = ctypes.c_int64(0), ctypes.c_int64(1), ctypes.c_int32(0)


def block_size(work: int, width: int, unit: int = 1, words: int = 0) -> int:
    """Elements of a block in a launch of some width, given the operations of an element, and the words of partial
    results that a block leaves.

    In kernels that go over rows these are *units*, of so many elements each.
    """
    if unit > 1:
        smallest, work = max(1, _LEAST_WORK // (work * unit)), work * unit
    else:
        smallest = max(_SMALLEST_BLOCK, _LEAST_WORK // work)
    largest = max(smallest, min(_LARGEST_BLOCK, _MOST_WORK // work))
    size = max(smallest, min(largest, width // _BLOCKS))
    if words > _MANY_WORDS:
        size = max(size, words // (_WORDS_OF_ELEMENT * unit), width // _FEW_BLOCKS)
    return 1 << size.bit_length() - 1


class Course(NamedTuple):
    """What launches of a program's kernel depend on besides parameters and width."""

    single: bool = False  # the whole width is one block, because one thread does all updates
    #: About how often its loops repeat; None if nobody knows, or if the stacks of some threads may be too small.
    trips: int | None = 1


def course_of(program: Program) -> Course:
    """That of a program."""
    single = program.target.threads > 1 and any(
        node.attr != ReduceOp.Identity.value and node.payload != ReduceMode.NoConflicts.value
        and node.d0 is not None and node.d0.kind != SCATTER and program.strategies[node.id] == PLAIN
        for node in program.scatters)
    return Course(single, _trips(program))


def _trips(program: Program) -> int | None:
    """How often the loops of a program repeat, if that is known.

    Threads of a program may have small stacks, unlike those of the pool, which run what nobody knows the length of.
    """
    if program.local_bytes > _MOST_ON_ANY_STACK:
        return None
    trips: int | None = 1
    for loop in program.loops:
        trips = _times(trips, trips_of(loop) or None)
    for site in program.calls.values():
        for target in site.targets:
            if isinstance(target, Program):  # others are like one of those
                trips = _times(trips, _trips(target))
    return trips


def _times(trips: int | None, others: int | None) -> int | None:
    return None if trips is None or others is None else trips * others


#: Bytes of local memory of an element that fit on the stack of any thread: with 32 elements in a packet, 32 KiB.
_MOST_ON_ANY_STACK = 1 << 10


class Functions:
    """A kernel's native functions: addresses for the pool, and callables for the caller's thread."""

    __slots__ = ("_callables", "addresses", "owner", "words", "work")

    def __init__(self, kernel: int, combine: int | None, operations: int, owner: Any = None, words: int = 0) -> None:
        self.owner = owner  # keeps the code loaded
        self.addresses = (kernel, combine or 0)
        self.work = max(operations, 1)
        self.words = words  # of partial results
        self._callables: tuple[Any, Any, Any] | None = None  # made when they are needed

    @property
    def callables(self) -> tuple[Any, Any, Any]:
        """The kernel, releasing the interpreter's lock and holding it; what combines partial results, or ``None``."""
        found = self._callables
        if found is None:
            kernel, combine = self.addresses
            found = self._callables = (_KERNEL(kernel), _KERNEL_HOLDING_LOCK(kernel),
                                       _COMBINE(combine) if combine else None)
        return found

    def size(self, width: int, unit: int = 1) -> int:
        """Elements, or units, of a block in a launch of some width."""
        return block_size(self.work, width, unit, self.words)


class Shape(NamedTuple):
    """How a launch goes, whatever its parameters are."""

    width: int  # elements, or units
    work: int  # operations of all of them
    block: int  # width of a block
    blocked: bool  # whether the kernel has to be called block by block
    bounded: bool = True  # whether it is known to end soon, or at least not to repeat anything

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return (self.width + self.block - 1) // self.block


class Launch:
    """One execution of a kernel: what it needs to run, and what must live until it has.

    ``begun`` says that the kernel has run or certainly will, whatever exception comes afterwards (Ctrl-C can come
    anywhere).  It is set by the statement before the native call: CPython looks for signals after calls, not between
    a store and a call.
    """

    __slots__ = ("begun", "functions", "keep", "parameters", "shape", "times")

    def __init__(self, functions: Functions, parameters: array[int], shape: Shape, keep: Any, timed: bool) -> None:
        self.functions = functions
        self.parameters = parameters
        self.shape = shape
        self.keep = keep
        self.begun = False
        self.times = (ctypes.c_int64 * 2)() if timed else None

    @property
    def address(self) -> int:
        """Where the parameters are."""
        return self.parameters.buffer_info()[0]

    @property
    def milliseconds(self) -> float:
        """Time the launch took, once it has run; 0 if it was not timed."""
        return (self.times[1] - self.times[0]) * 1e-6 if self.times is not None else 0.0


def blocks_of(functions: Functions, width: int, unit: int = 1) -> int:
    """Number of blocks that a launch is cut into."""
    return block_count(functions.work, width, unit, functions.words)


def block_count(work: int, width: int, unit: int = 1, words: int = 0) -> int:
    """Number of blocks of a launch, given the operations of an element and the partial results of a block."""
    size = block_size(work, width, unit, words)
    return (width + size - 1) // size


def run(launch: Launch, hold_lock: bool) -> None:
    """Run a launch on the caller's thread."""
    times, shape = launch.times, launch.shape
    if times is not None:
        times[0] = time.monotonic_ns()
    releasing, holding, combine = launch.functions.callables
    kernel = holding if hold_lock else releasing
    if shape.blocked:
        _run_blocks(launch, kernel, combine)
    else:
        address, width = launch.address, shape.width
        launch.begun = True
        kernel(address, _NONE, _ONE_ROW, _NONE, width, _NONE, _CALLER)
    if times is not None:
        times[1] = time.monotonic_ns()
    launch.keep = None


def _run_blocks(launch: Launch, kernel: Any, combine: Any) -> None:
    """Run the blocks of a launch in order, then combine; a signal's exception is raised at the end.

    A kernel may write besides what it reduces, and so must run once, and as a whole.
    """
    address, (width, _, size, _, _), blocks = launch.address, launch.shape, launch.shape.blocks
    begun = 0
    interrupt: BaseException | None = None
    launch.begun = True
    while begun <= blocks:
        try:
            while begun < blocks:
                begin, end = begun * size, min(width, (begun + 1) * size)
                begun += 1
                kernel(address, _NONE, _ONE_ROW, begin, end, begun - 1, _CALLER)
            begun += 1
            if combine is not None:
                combine(address, blocks)
        except BaseException as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
