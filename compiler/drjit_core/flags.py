"""Compilation flags and the rest of the thread-local state of tracing: floor 0.

The hot path of tracing reads one attribute, ``state.mode``: 0 as long as nothing special is wanted, -1 if new nodes get
labels or lines of the log, -2 if there is no value numbering, and -3 for both.
"""

from __future__ import annotations

import enum
from types import TracebackType

from .context import DEFAULT_FLAGS, state

__all__ = ["JitFlag", "flag", "scoped_set_flag", "set_flag", "state"]


class JitFlag(enum.IntEnum):
    """Flags that control how programs are traced, compiled and run (a thread-local property).

    :func:`drjit.set_flag` and :class:`drjit.scoped_set_flag` change them, :func:`drjit.flag` tells. All flags of the
    reference exist and can be set; of some, the description says that nothing depends on them here.

    >>> dr.flag(dr.JitFlag.SymbolicLoops), dr.flag(dr.JitFlag.Debug)
    (True, False)
    """

    #: Debug mode: traced operations remember the user's lines, indices of gathers and scatters are checked against the
    #: size of the array, and assertions (``drjit.assert_true`` and its like) are active. Off by default.
    Debug = 1 << 0
    #: Public indices of variables (``ArrayBase.index``) that died are given to new ones. On by default; nothing but
    #: these numbers depends on it.
    ReuseIndices = 1 << 1
    #: Operations on constants are computed while tracing, and those with a neutral or absorbing operand are simplified.
    #: On by default.
    ConstantPropagation = 1 << 2
    #: Simplifications that ignore NaN, infinities and the sign of zero (``x * 0`` is 0), and shorter reductions of the
    #: arguments of trigonometric functions. On by default. Divisions and square roots are exact either way.
    FastMath = 1 << 3
    #: Equal operations on equal operands become one variable while tracing. On by default.
    ValueNumbering = 1 << 4
    #: Loops are traced once and become loops of the kernel, unless the call chooses its ``mode``; cleared, each
    #: iteration is evaluated. On by default.
    SymbolicLoops = 1 << 5
    #: State of a symbolic loop that its body does not change is left out, and constants are propagated into the body,
    #: which is traced again for it. On by default.
    OptimizeLoops = 1 << 6
    #: Evaluated loops drop finished elements after each iteration. Accepted, without effect: finished elements are
    #: masked. Off by default.
    CompressLoops = 1 << 7
    #: Indirect calls are traced into the kernel. Accepted, without effect as long as there are none. On by default.
    SymbolicCalls = 1 << 8
    #: Constants are propagated into and out of indirect calls. Accepted, without effect as long as there are none. On
    #: by default.
    OptimizeCalls = 1 << 9
    #: Equal targets of indirect calls share their code. Accepted, without effect as long as there are none. On by
    #: default.
    MergeFunctions = 1 << 10
    #: Conditionals are traced into the kernel. Accepted, without effect as long as there are none. On by default.
    SymbolicConditionals = 1 << 11
    #: Gathers and scatters of neighbouring elements become packet accesses: of what ``dr.gather`` and ``dr.scatter``
    #: read and write at ``index * n + k``, up to 32 bytes are one load, up to 16 one store. Applies to what is
    #: traced while it is set. On by default.
    PacketOps = 1 << 12
    #: Of the CUDA backend (ray tracing): accepted, without effect. Off by default.
    ForceOptiX = 1 << 13
    #: Prints the LLVM text of each kernel that is launched. Off by default.
    PrintIR = 1 << 14
    #: Keeps an entry for each kernel that is launched, for ``drjit.kernel_history``. Off by default.
    KernelHistory = 1 << 15
    #: Waits after each launch, so that failures and out-of-bounds warnings come where they are caused. Off by default.
    LaunchBlocking = 1 << 16
    #: Whatever would wait for a kernel raises a ``RuntimeError``. Off by default.
    ForbidSynchronization = 1 << 17
    #: Scatter-reductions combine updates of a packet before they touch memory. Accepted, without effect: the strategy
    #: follows from sizes and from ``mode`` of the call. On by default.
    ScatterReduceLocal = 1 << 18
    #: Set while symbolic operations are being traced: to be queried, not to be changed by programs.
    SymbolicScope = 1 << 19
    #: Frozen functions are recorded and replayed; else their calls are plain ones. On by default.
    KernelFreezing = 1 << 20
    #: Set while the body of a frozen function is being recorded: to be queried, not to be changed by programs.
    FreezingScope = 1 << 21
    #: Objects are traversed when frozen functions are recorded. Accepted, without effect: they always are. Off by
    #: default.
    EnableObjectTraversal = 1 << 22
    #: Of the CUDA backend (ray tracing): accepted, without effect. On by default.
    ShaderExecutionReordering = 1 << 23
    #: Of the CUDA backend: accepted, without effect. On by default.
    SpillToSharedMemory = 1 << 24
    #: The flags that are set at the beginning.
    Default = DEFAULT_FLAGS  # every optimisation; no diagnostics: see the test that spells it out

    def __str__(self) -> str:
        return f"JitFlag.{self.name}"

    __repr__ = __str__


DEBUG, REUSE_INDICES, CONSTANT_PROPAGATION, FAST_MATH, VALUE_NUMBERING = (int(f) for f in list(JitFlag)[:5])
SYMBOLIC_LOOPS, OPTIMIZE_LOOPS = int(JitFlag.SymbolicLoops), int(JitFlag.OptimizeLoops)
PRINT_IR, KERNEL_HISTORY = int(JitFlag.PrintIR), int(JitFlag.KernelHistory)
LAUNCH_BLOCKING, FORBID_SYNCHRONIZATION = int(JitFlag.LaunchBlocking), int(JitFlag.ForbidSynchronization)
SYMBOLIC_SCOPE = int(JitFlag.SymbolicScope)
#: Flags with which there is more to do than to launch.
EXCEPTIONAL = DEBUG | KERNEL_HISTORY | LAUNCH_BLOCKING | PRINT_IR


def refresh() -> None:
    """Recompute the mode of this thread's context after a change of flags or log level."""
    announced = bool(state.flags & DEBUG) or log_variables
    state.mode = -announced if state.flags & VALUE_NUMBERING else -2 - announced


#: Whether the log level asks for a line per traced variable; process-wide, set by :mod:`drjit_core.messages`.
log_variables: bool = False


def set_log_variables(active: bool) -> None:
    """Switch logging of each new variable on or off (threads notice at their next change of state)."""
    global log_variables
    log_variables = active
    refresh()


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
    refresh()


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
        refresh()
