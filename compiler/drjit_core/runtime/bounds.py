"""Reports of debug mode: gathers and scatters whose indices were out of bounds.

A checked kernel writes a report into memory that is allocated here (:mod:`drjit_core.codegen.program` tells its
format).  When the launch has ended, its violations are noted, one entry for each line of the user's program; the next
time that the program waits for anything, each entry becomes a ``RuntimeWarning``.  An entry is dropped only when it
becomes a warning: if warnings are errors, the remaining ones are raised at the waits that follow.
"""

from __future__ import annotations

import atexit
import os
import struct
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..codegen.program import REPORT_WORDS, Program
from ..ir.frames import is_internal
from ..ir.labels import caller_of, label_of
from ..ir.node import Node
from ..ops.table import CAST, GATHER
from ..types import TYPES, ReduceOp
from .backend import Backend

__all__ = ["Access", "Report", "accesses_of", "expect", "parts_of", "warn", "with_targets"]


class Access(NamedTuple):
    """What a message says of an access besides the position."""

    function: str
    verb: str
    size: int
    label: str | None
    bits: int  # of the index
    signed: bool


#: Bytes that a report has for each access.
_BYTES = 8 * REPORT_WORDS


class Report:
    """Memory for what a launch reports, and the accesses that it may report: those of its kernel, and of the functions
    that it calls."""

    __slots__ = ("accesses", "backend", "memory", "ticket")

    def __init__(self, backend: Backend, accesses: Sequence[Access]) -> None:
        self.backend = backend
        self.accesses = accesses
        self.memory = backend.allocate(_BYTES * len(accesses))
        backend.fill(self.memory, 0)
        self.ticket: int | None = None  # of its launch, once it is expected

    def bind(self, program: Program) -> None:
        """Enter the addresses of its parts among the parameters of a program and its targets."""
        programs = [each for each in with_targets(program) if each.checks]
        for each, address in zip(programs, self.parts(parts_of(program)), strict=True):
            each.parameters[each.report] = address

    def parts(self, parts: Sequence[tuple[int, int]]) -> Iterator[int]:
        """The addresses of its parts, which have so many accesses, but of those that have none."""
        address = self.memory.address
        for _, count in parts:
            if count:
                yield address
                address += count * _BYTES

    def counts(self) -> Iterator[tuple[Access, int, int]]:
        """What the launch has reported: of each access how many were out of bounds, and the position of one of them."""
        data = self.backend.read(self.memory, 0, self.memory.nbytes)
        for access, (count, position) in zip(self.accesses, struct.iter_unpack(f"={REPORT_WORDS}Q", data), strict=True):
            yield access, count, position


def accesses_of(program: Program) -> list[Access]:
    """The accesses that a program checks, and those of the targets of its calls."""
    return [_describe(check.access, check.size) for each in with_targets(program) for check in each.checks.values()]


def parts_of(program: Program) -> list[tuple[int, int]]:
    """Where a program, and each target of its calls, gets its part of the report, and the accesses that it checks."""
    return [(each.report, len(each.checks)) for each in with_targets(program)]


def with_targets(program: Program) -> list[Any]:
    """A program and those of the targets of its calls, in a fixed order."""
    found: list[Any] = [program]
    for each in found:  # which grows meanwhile
        found += (target for site in each.calls.values() for target in site.targets)
    return found


def _describe(access: Node, size: int) -> Access:
    index = access.d1 if access.kind == GATHER else access.d2
    assert index is not None
    if access.kind == GATHER:
        function, verb = "gather", "read from"
    else:
        function = "scatter" if access.attr == ReduceOp.Identity.value else "scatter_reduce"
        verb = "write to"
    package, _, called = (caller_of(access) or "").partition(".")
    if package == "drjit" and called and "." not in called:  # a function, such as `scatter_add`
        function = called
    bits = TYPES[index.type].bits
    if index.kind == CAST and index.d0 is not None and TYPES[index.d0.type].kind == "i":
        index = index.d0  # a negative number, as the program wrote it
    return Access(function, verb, size, label_of(access), bits, TYPES[index.type].kind == "i")


launched: deque[Report] = deque()
found: dict[Access, tuple[int, int]] = {}  # position and number of violations
_lock = threading.RLock()  # a finaliser or a signal handler may look at an array while its thread is in here
_collecting = False


def expect(report: Report, ticket: int) -> None:
    """Look at a report once its launch has ended; may be repeated, by who does not know whether it was interrupted."""
    with _lock:
        _collect()
        if report.ticket is None:
            report.memory.ticket = ticket
            report.ticket = ticket  # an interrupt comes after a call, not between this and the next one
            launched.append(report)


def _collect() -> None:
    """Note the violations of launches that have ended; not in the midst of doing so."""
    global _collecting
    if _collecting:
        return
    _collecting = True
    try:
        while launched and launched[0].backend.is_done(launched[0].ticket or 0):
            report = launched.popleft()
            for access, count, position in report.counts():
                if count:
                    first, before = found.get(access, (position, 0))
                    found[access] = first, before + count
    finally:
        _collecting = False


def warn() -> None:
    """Turn what launches that have ended reported into warnings."""
    if not launched and not found:
        return
    with _lock:
        _collect()
    while True:
        with _lock:
            if not found:
                return
            access = next(iter(found))
            position, count = found.pop(access)
        warnings.warn(_message(access, position, count), RuntimeWarning, stacklevel=_user_level())


def _message(access: Access, position: int, count: int) -> str:
    position &= (1 << access.bits) - 1 if access.bits < 64 else -1
    if access.signed and position >> access.bits - 1:
        position -= 1 << access.bits
    text = (f"drjit.{access.function}(): out-of-bounds {access.verb} position {position} in an array of size "
            f"{access.size}.")
    if access.label:
        text += f" ({access.label})"
    if count > 1:
        text += f" {count - 1} further access{' was' if count == 2 else 'es were'} out of bounds here."
    return text


def _user_level() -> int:
    """Level, for the caller's :func:`warnings.warn`, of the innermost frame that is the user's."""
    level = 1
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and is_internal(frame):
        frame = frame.f_back
        level += 1
    return level


def _at_exit() -> None:
    for backend in {report.backend for report in launched}:
        backend.finish()
    warn()


def _forget() -> None:
    """In a child process: the parent reports what it has launched."""
    global _lock, _collecting
    _lock, _collecting = threading.RLock(), False
    launched.clear()
    found.clear()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
