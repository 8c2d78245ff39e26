"""Compilation flags and the rest of the thread-local state of tracing: floor 0.

The hot path of tracing reads one attribute, ``state.mode``: the id of the region that is being traced (0 outside of
loops) as long as nothing special is wanted, else a negative number that encodes region and wishes, which sends a new
node through the slow path of :mod:`drjit_core.ir.trace`.
"""

from __future__ import annotations

import enum
import threading
from types import TracebackType

__all__ = ["JitFlag", "State", "flag", "scoped_set_flag", "set_flag", "state"]


class JitFlag(enum.IntEnum):
    """Flags that control how programs are traced, compiled and run (a thread-local property)."""

    Debug = 1 << 0
    ReuseIndices = 1 << 1
    ConstantPropagation = 1 << 2
    FastMath = 1 << 3
    ValueNumbering = 1 << 4
    SymbolicLoops = 1 << 5
    OptimizeLoops = 1 << 6
    CompressLoops = 1 << 7
    SymbolicCalls = 1 << 8
    OptimizeCalls = 1 << 9
    MergeFunctions = 1 << 10
    SymbolicConditionals = 1 << 11
    PacketOps = 1 << 12
    ForceOptiX = 1 << 13
    PrintIR = 1 << 14
    KernelHistory = 1 << 15
    LaunchBlocking = 1 << 16
    ForbidSynchronization = 1 << 17
    ScatterReduceLocal = 1 << 18
    SymbolicScope = 1 << 19
    KernelFreezing = 1 << 20
    FreezingScope = 1 << 21
    EnableObjectTraversal = 1 << 22
    ShaderExecutionReordering = 1 << 23
    SpillToSharedMemory = 1 << 24
    Default = 26484606  # every optimisation; no diagnostics: see the test that spells it out

    def __str__(self) -> str:
        return f"JitFlag.{self.name}"

    __repr__ = __str__


DEBUG, REUSE_INDICES, CONSTANT_PROPAGATION, FAST_MATH, VALUE_NUMBERING = (int(f) for f in list(JitFlag)[:5])
SYMBOLIC_LOOPS, OPTIMIZE_LOOPS = int(JitFlag.SymbolicLoops), int(JitFlag.OptimizeLoops)
PRINT_IR, KERNEL_HISTORY = int(JitFlag.PrintIR), int(JitFlag.KernelHistory)
LAUNCH_BLOCKING, FORBID_SYNCHRONIZATION = int(JitFlag.LaunchBlocking), int(JitFlag.ForbidSynchronization)
SYMBOLIC_SCOPE = int(JitFlag.SymbolicScope)


class State(threading.local):
    """What one thread has set: flags, the region being traced, and whether new nodes are logged."""

    flags: int = int(JitFlag.Default)
    scope: int = 0
    mode: int = 0

    def refresh(self) -> None:
        """Recompute :attr:`mode` after a change of flags, region or log level."""
        if not self.flags & VALUE_NUMBERING:  # tells what was numbered meanwhile from what was not
            self.mode = -2 - 2 * self.scope
        elif self.flags & DEBUG or log_variables:
            self.mode = -1 - 2 * self.scope
        else:
            self.mode = self.scope


#: Whether the log level asks for a line per traced variable; process-wide, set by :mod:`drjit_core.messages`.
log_variables: bool = False
state = State()


def set_log_variables(active: bool) -> None:
    """Switch logging of each new variable on or off (threads notice at their next change of state)."""
    global log_variables
    log_variables = active
    state.refresh()


def _check(function: str, flag: object) -> int:
    if not isinstance(flag, JitFlag):
        raise TypeError(f"drjit.{function}(): the flag must be a drjit.JitFlag, found {type(flag).__name__} ({flag!r})")
    return int(flag)


def flag(flag: JitFlag, /) -> bool:
    """Whether a flag is set in the current thread. Raises a ``TypeError`` for anything but a :class:`drjit.JitFlag`.

    >>> dr.flag(dr.JitFlag.Debug)
    False
    """
    bits = _check("flag", flag)
    return state.flags & bits == bits


def set_flag(flag: JitFlag, value: bool, /) -> None:
    """Set or clear a flag in the current thread, until it is changed again.

    ``value`` is a ``bool``. Raises a ``TypeError`` for anything but a :class:`drjit.JitFlag`. What was traced before is
    not affected. See :class:`drjit.scoped_set_flag` for a change that ends by itself.

    >>> dr.set_flag(dr.JitFlag.FastMath, False)
    >>> dr.flag(dr.JitFlag.FastMath)
    False
    >>> dr.set_flag(dr.JitFlag.FastMath, True)
    """
    bits = _check("set_flag", flag)
    if not isinstance(value, (bool, int)):
        raise TypeError(f"drjit.set_flag(): the value of {flag.name} must be a bool, found {type(value).__name__}")
    state.flags = state.flags | bits if value else state.flags & ~bits
    state.refresh()


class scoped_set_flag:
    """Context manager that sets or clears a flag inside a ``with`` block, and restores it at its end.

    ``value`` is a ``bool``, and true unless given. Raises a ``TypeError`` for anything but a :class:`drjit.JitFlag`.

    >>> with dr.scoped_set_flag(dr.JitFlag.Debug):
    ...     inside = dr.flag(dr.JitFlag.Debug)
    >>> inside, dr.flag(dr.JitFlag.Debug)
    (True, False)
    """

    __slots__ = ("_backup", "_flag", "_value")

    def __init__(self, flag: JitFlag, value: bool = True) -> None:
        _check("scoped_set_flag", flag)
        self._flag, self._value, self._backup = flag, value, 0

    def __enter__(self) -> None:
        self._backup = state.flags
        set_flag(self._flag, self._value)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        bits = int(self._flag)
        state.flags = (state.flags & ~bits) | (self._backup & bits)
        state.refresh()
