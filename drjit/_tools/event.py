"""Events: marks in the sequence of kernels that a program has launched."""

from __future__ import annotations

import time

from .._base.arguments import require_bool
from .runtime import sync_thread

__all__ = ["Event"]


class Event:
    """A mark in the sequence of kernels, to wait for what precedes it, and to take the time between two of them.

    The CPU's kernels report to nobody: :meth:`record` waits for those that have been launched. What is not evaluated
    yet is no part of that.

    >>> from drjit.llvm import Event, Float
    >>> begin, end = Event(), Event()
    >>> begin.record()
    >>> dr.eval(dr.arange(Float, 10) + 1)
    True
    >>> end.record()
    >>> begin.elapsed_time(end) >= 0
    True
    """

    __slots__ = ("_recorded", "_timed")

    def __init__(self, enable_timing: bool = True) -> None:
        self._timed = require_bool("drjit.llvm.Event", "enable_timing", enable_timing)
        self._recorded: float | None = None

    def record(self) -> None:
        """Put the mark behind all kernels that have been launched, in the place of an earlier one.

        >>> from drjit.llvm import Event
        >>> event = Event()
        >>> event.record()
        >>> event.query()
        True
        """
        sync_thread()
        self._recorded = time.perf_counter()

    def wait(self) -> None:
        """Wait until all kernels before the mark have run; returns at once if there is none.

        >>> from drjit.llvm import Event
        >>> event = Event()
        >>> event.record()
        >>> event.wait()
        """

    def query(self) -> bool:
        """Whether all kernels before the mark have run, which is so if there is none.

        >>> from drjit.llvm import Event
        >>> Event().query()
        True
        """
        return True

    def elapsed_time(self, end: Event) -> float:
        """The time from this mark to another one, in milliseconds.

        Raises a ``RuntimeError`` if either is not recorded, or takes no time (``enable_timing=False``).

        >>> from drjit.llvm import Event
        >>> begin, end = Event(), Event()
        >>> begin.record()
        >>> end.record()
        >>> begin.elapsed_time(end) >= 0
        True
        """
        if not isinstance(end, Event):
            raise TypeError(f"drjit.llvm.Event.elapsed_time(): 'end' must be an Event, found {end!r}.")
        for event in (self, end):
            if not event._timed or event._recorded is None:
                raise RuntimeError("drjit.llvm.Event.elapsed_time(): both events must be recorded, and take the time.")
        assert self._recorded is not None and end._recorded is not None
        return 1000 * (end._recorded - self._recorded)

    @property
    def handle(self) -> int:
        """A number that no other event has while this one lives; the CPU's events have no handles of a driver.

        >>> from drjit.llvm import Event
        >>> isinstance(Event().handle, int)
        True
        """
        return id(self)
