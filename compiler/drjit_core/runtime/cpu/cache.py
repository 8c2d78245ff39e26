"""The kernel cache: from the key of a program to native code; :mod:`..disk` carries it across processes."""

from __future__ import annotations

import functools
import logging
import os
import struct
import time
import zlib
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from ...codegen.program import Program
from ...codegen.steps import Text
from ...llvm import emit, jit, reduction
from ...llvm.calls import name_of_function
from ...llvm.steps import Blocks, passes
from ...ops.table import CALL, LOOP, OPERATIONS, OPS
from .. import disk, exclusion
from . import dump, launches
from .natives import ENVIRONMENT

__all__ = ["CompiledKernel", "Facts", "bring", "crowded", "facts_of", "facts_of_text", "flush", "load", "lookup",
           "lookup_text", "operations_of", "packed_text", "partial_bytes", "passes", "statistics", "text_of", "work_of"]


class Facts(NamedTuple):
    """What loading and launching a kernel takes to know of its program."""

    key: bytes
    width: int  # of the first launch
    operations: int
    work: int
    parameters: int
    partial_words: int  # that a block leaves, 0 if the kernel reduces nothing
    exports: Sequence[str]
    loops: int = 0  # and calls


class CompiledKernel:
    """A kernel in executable memory, with what diagnostics want to know of it.

    There are two tiers.  A kernel whose first launch is short is compiled quickly (LLVM's level 0, thrice as fast);
    when it has done as much work as optimised compilation costs (more, if that is going to be noticed), it is compiled
    again.  Both tiers have the same text, so that their results have the same bits.
    """

    __slots__ = ("__weakref__", "_count", "_enough", "_key", "_loops", "_text", "_worked",
                 "build_time", "code_time", "from_disk", "functions", "hash", "native", "operations", "partial_words",
                 "quick", "work")

    def __init__(self, facts: Facts, make: Callable[[], str] | None = None, given: bytes | None = None) -> None:
        """Load or compile a kernel; without what makes its text, it raises a ``LookupError`` if it must be compiled.
        What is ``given`` is what a file of the cache holds."""
        self.operations = facts.operations
        self.work = facts.work
        self.partial_words = facts.partial_words
        self._loops = facts.loops
        self._worked = 0
        self._count = facts.parameters
        start = time.perf_counter_ns()
        self._key = facts.key
        hash_ = ENVIRONMENT.hash_of(self._key)
        key = ENVIRONMENT.key_from(hash_, "kernel")
        self.hash = key.hex()[:32]
        #: Work after which a quick kernel is compiled again, as far as that is known.
        self._enough = _BREAK_EVEN * (1.0 + self.operations / _OPERATIONS_OF_BREAK_EVEN)
        self.quick = _level() == 0 or _level() is None and facts.width * self.work < self._enough
        found = given if given is not None else disk.load(key) if _level() != 0 else None
        if found is not None:
            self.quick = False
        elif self.quick:
            key = ENVIRONMENT.key_from(hash_, "kernel, quick")
            found = disk.load(key)
        self.from_disk = found is not None
        if found is None:
            if make is None:
                raise LookupError(f"kernel {self.hash}")
            text = make()
            self._text = zlib.compress(text.encode(), 1)
        self.code_time = (time.perf_counter_ns() - start) * 1e-6
        if found is None:
            code = jit.compile_text(text, 0 if self.quick else 2)
            disk.store(key, _packed(self._text, code))
        else:
            (length,) = _LENGTH.unpack_from(found)
            self._text, code = found[_LENGTH.size:_LENGTH.size + length], found[_LENGTH.size + length:]
        self._link(code, facts.exports)
        self.build_time = (time.perf_counter_ns() - start) * 1e-6 - self.code_time
        self._warn_if_slow(self.code_time + self.build_time, "compiling")

    def _link(self, code: bytes, exports: Sequence[str]) -> None:
        self.native = jit.link(code, exports)
        addresses = self.native.addresses
        self.functions = launches.Functions(addresses[emit.KERNEL], addresses.get(emit.COMBINE), self.work, self.native,
                                            self.partial_words)

    def _warn_if_slow(self, milliseconds: float, verb: str) -> None:
        if milliseconds > _SLOW:
            _log.warning("jit_eval(): %s kernel %s of %i operations took %.1f s.", verb, self.hash[:16],
                         self.operations, milliseconds * 1e-3)

    def reuse(self, width: int) -> None:
        """Note a launch for which the kernel has not been looked up, which is as good as one that has found it."""
        global _hits
        _hits += 1
        self.build_time = 0.0
        if self.quick:
            self.worked(width * self.work)

    def patience(self) -> int:
        """Work that a quick kernel is going to do before it is compiled again, or that is considered."""
        return 1 << 62 if _level() == 0 else int(self._enough) - self._worked

    def worked(self, work: int) -> None:
        """Note that a quick kernel has done some work; it is compiled again when that has become worth it."""
        if not self.quick:  # another recipe's launches have been enough
            return
        self._worked += work
        if self._worked < self._enough or _level() == 0:
            return
        start = time.perf_counter_ns()
        key = ENVIRONMENT.key_of(self._key, "kernel")
        found = disk.load(key)
        if found is None and not self._is_worth_it():
            return
        if found is None:
            code = jit.compile_text(self.text)
            disk.store(key, _packed(self._text, code))
        else:
            code = found[_LENGTH.size + _LENGTH.unpack_from(found)[0]:]
        self._link(code, list(self.native.addresses))
        self.quick = False
        self.build_time = (time.perf_counter_ns() - start) * 1e-6
        _log.info("jit_eval(): optimised kernel %s, build: %.4g ms.", self.hash[:16], self.build_time)
        self._warn_if_slow(self.build_time, "compiling again, optimised,")

    def _is_worth_it(self) -> bool:
        """Whether a kernel has worked for as long as compiling it again is going to take, as its text tells; for so
        many times longer, if that is long, as it is longer than anybody expects to wait."""
        seconds = len(zlib.decompress(self._text)) * _SECONDS_OF_CHARACTER
        self._enough = max(self._enough, seconds * max(seconds * 1e3 / _SLOW, 1.0) * _BREAK_EVEN / 2.5e-3)
        return self._worked >= self._enough

    def facts(self) -> Facts:
        """What loading it takes to know."""
        return Facts(self._key, 1, self.operations, self.work, self._count, self.partial_words,
                     list(self.native.addresses), self._loops)

    def packed(self) -> bytes:
        """What a file of the cache holds: text, and optimised code."""
        with exclusion.lock:
            return disk.load(ENVIRONMENT.key_of(self._key, "kernel")) or _packed(
                self._text, jit.compile_text(self.text))

    def partial_bytes(self, width: int, unit: int = 1) -> int:
        """Bytes of partial results that the blocks of a launch of so many units write."""
        return partial_bytes(self.partial_words, self.work, width, unit)

    def place(self, words: Any, moves: Sequence[tuple[int, int]], keep: list[Any]) -> None:
        """Enter addresses of words among them; ``keep`` gets what must live as long."""
        base = words.buffer_info()[0]
        for number, other in moves:
            words[number] = base + 8 * other
        keep.append(words)

    def function_address(self, number: int, records: bool) -> int:
        """The address of a function that calls reach."""
        return self.native.addresses[name_of_function(number, records)]

    course = staticmethod(launches.course_of)

    def shape(self, course: launches.Course, units: int, unit: int = 1) -> launches.Shape:
        """How a launch of so many units goes, of so many elements each."""
        work, bounded = self.repeated(course.trips, unit, units)
        size = units if course.single else self.functions.size(units, unit)
        return launches.Shape(units, units * work, size, self.functions.addresses[1] != 0, bounded)

    def shape_of_pass(self, launch: Blocks) -> launches.Shape:
        """How the launch of a pass of a step goes."""
        return launches.Shape(launch.width, launch.width * self.work, launch.block, True)

    def launch(self, parameters: array[int], shape: launches.Shape, keep: list[Any], timed: bool) -> launches.Launch:
        """A launch with some parameters."""
        return launches.Launch(self.functions, parameters, shape, keep, timed)

    def repeated(self, trips: int | None, unit: int, units: int) -> tuple[int, bool]:
        """Operations of an element, or unit, if loops repeat so often; whether a launch is known to end soon, or at
        least not to repeat anything."""
        work = self.work
        if unit > 1:
            trips = unit
        elif trips is None:
            return work, False
        if trips != 1:
            work = (work - _LOOP_WORK * self._loops) * trips * _CHAIN * max(1, _PACKET // units)
            work = min(work, _MOST_WORK // max(units, 1))
        return work, work <= self.functions.work * unit or units * work < launches.INLINE_WORK

    def dump(self, program: Program) -> None:
        """Write files for people, if the environment asks for them."""
        dump.write(program, self, self.functions)

    @property
    def size(self) -> int:
        """Bytes of native code."""
        return self.native.size

    @property
    def text(self) -> str:
        """The kernel's LLVM text."""
        return zlib.decompress(self._text).decode()


#: Elements times cost that the quick tier does in 2.5 ms, which optimised compilation takes at least (measured: 1 ns
#: for 2 of them), and the number of operations that doubles that time.
_BREAK_EVEN, _OPERATIONS_OF_BREAK_EVEN = 1 << 22, 80
#: What optimised compilation takes for each character of a text: between 0.5 µs (arithmetic), 0.7 (branches), 1
#: (gathers, hundreds of live values) and 1.7 (scatter-reductions).
_SECONDS_OF_CHARACTER = 1e-6
#: Milliseconds of a compilation that somebody wonders about.
_SLOW = 2000.0


@functools.cache
def _level() -> int | None:
    """Tier that the environment variable ``DRJIT_OPT_LEVEL`` asks for: 0 (quick), 2 (optimised), else both in turn."""
    value = os.environ.get("DRJIT_OPT_LEVEL", "")
    if value not in ("", "0", "2"):
        _log.warning("DRJIT_OPT_LEVEL must be 0 or 2, found %r: ignoring it", value)
    return int(value) if value in ("0", "2") else None


_log = logging.getLogger("drjit")
#: A cached kernel is the length of its compressed text, the text, and the object code.
_LENGTH = struct.Struct("<Q")
_kernels: dict[Any, CompiledKernel] = {}
#: Those that somebody has brought, and keeps.
_brought: WeakValueDictionary[bytes, CompiledKernel] = WeakValueDictionary()
_hits = _loaded = _compiled = 0
#: Functions that tell of launches for which no kernel was looked up here, because it was known already.
other_hits: list[Callable[[], int]] = []


def lookup(program: Program) -> tuple[CompiledKernel, bool]:
    """The kernel of a program that is about to be launched, and whether it was there already."""
    return _looked_up(program.key, program.width, lambda: facts_of(program), lambda: text_of(program))


def lookup_text(text: Text, launch: Blocks) -> tuple[CompiledKernel, bool]:
    """The kernel of a text that is about to be launched in blocks, and whether it was there already."""
    kernel, hit = _looked_up(text.key, launch.width, lambda: facts_of_text(text, launch.width), text.text)
    if not hit:
        dump.write_text(kernel)
    return kernel, hit


def facts_of_text(text: Text, width: int = 1) -> Facts:
    """What loading and launching the kernel of a text takes to know."""
    exports = (emit.KERNEL, emit.COMBINE) if text.combines else (emit.KERNEL,)
    return Facts(text.key, width, _OPERATIONS_OF_TEXT, text.work, 0, 0, exports)


def packed_text(text: Text) -> bytes:
    """What a file of the cache holds for a text."""
    found = disk.load(ENVIRONMENT.key_of(text.key, "kernel"))
    if found is None:
        code = text.text()
        found = _packed(zlib.compress(code.encode(), 1), jit.compile_text(code))
    return found


def _packed(text: bytes, code: bytes) -> bytes:
    return _LENGTH.pack(len(text)) + text + code


def bring(facts: Facts, found: bytes) -> CompiledKernel:
    """A kernel that was packed elsewhere; it is found by others as long as it is kept."""
    with exclusion.lock:
        kernel = _brought.get(facts.key)
        if kernel is None:
            kernel = _brought[facts.key] = CompiledKernel(facts, given=found)
        return kernel


#: About how many operations the text of a step has.
_OPERATIONS_OF_TEXT = 80


def _looked_up(key: bytes, width: int, facts: Callable[[], Facts],
               make: Callable[[], str]) -> tuple[CompiledKernel, bool]:
    global _loaded, _compiled
    kernel = _kernels.get(key) or _brought.get(key)
    if kernel is not None:
        kernel.reuse(width)
        return kernel, True
    kernel = _kernels[key] = CompiledKernel(facts(), make)
    if kernel.from_disk:
        _loaded += 1
    else:
        _compiled += 1
    if kernel.quick:
        kernel.worked(width * kernel.work)
    return kernel, False


def load(facts: Facts) -> CompiledKernel | None:
    """A kernel that is not in memory, if it is on disk."""
    global _loaded
    try:
        kernel = _kernels[facts.key] = CompiledKernel(facts)
    except LookupError:
        return None
    _loaded += 1
    if kernel.quick:
        kernel.worked(facts.width * kernel.work)
    return kernel


def facts_of(program: Program) -> Facts:
    """What loading and launching a program's kernel takes to know."""
    loops = sum(node.kind in (LOOP, CALL) for node in program.order)
    return Facts(program.key, program.width, operations_of(program), work_of(program), len(program.parameters),
                 program.partial_words, emit.exports(program), loops)


def statistics() -> dict[str, int]:
    """How often a kernel was launched since the program began, and found in memory, on disk, or nowhere."""
    hits = _hits + sum(count() for count in other_hits)
    return {"launches": hits + _loaded + _compiled, "hits": hits, "loaded": _loaded, "compiled": _compiled}


#: Kernels in memory after which all are forgotten: each takes one or two memory mappings of the process, of which
#: Linux allows 65,530 by default (``vm.max_map_count``), and LLVM ends the process when it gets none.
_LIMIT = 16_384


def crowded() -> bool:
    """Whether there are so many kernels that it is time to forget them."""
    return len(_kernels) >= _LIMIT


def flush() -> None:
    """Forget all kernels."""
    _kernels.clear()


def text_of(program: Program) -> str:
    """LLVM text of a program, for this processor."""
    return emit.emit(program, jit.lanes())


def partial_bytes(words: int, work: int, width: int, unit: int = 1) -> int:
    """Bytes of partial results of a kernel, given the words that each block leaves and the operations of an element."""
    return reduction.partial_stride(words) * launches.block_count(work, width, unit, words)


def operations_of(program: Program) -> int:
    """Number of operations, those of expansions included; 0 if constants are stored, and nothing is computed."""
    return sum(OPERATIONS[node.kind] for node in program.order) if program.computes() else 0


def work_of(program: Program) -> int:
    """Cost of one element, relative to an addition."""
    return sum(_LOOP_WORK if node.kind in (LOOP, CALL) else OPS[node.kind].cost for node in program.order) + 1


#: A guess at the cost of a loop or call, whose number of iterations is unknown.
_LOOP_WORK = 1000
#: How much longer iterations of loops take than operations that run at once, since each waits for the one before; and
#: elements that take as long as one.
_CHAIN, _PACKET = 8, 16
#: Work of a launch that words can hold.
_MOST_WORK = 1 << 60
