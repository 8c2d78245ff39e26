"""Launches of kernels, ready to be submitted."""

from __future__ import annotations

from types import CodeType
from typing import Any

from ...ir.symbolic import line_at

__all__ = ["Launch", "described"]


def described(launches: list[tuple[str, tuple[CodeType, int] | None]]) -> list[str]:
    """Launches in words: their kernels, and the lines of the user's program that were at work."""
    lines = [(name[:16], line_at(place)) for name, place in launches]
    return [f"{name} ({line[0]}:{line[1]})" if line else name for name, line in lines]


class Launch:
    """One execution of a kernel: its words, its shape, and what must live until it has been asked for."""

    __slots__ = ("_milliseconds", "begun", "events", "keep", "kernel", "shape", "timed", "units", "words")

    def __init__(self, kernel: Any, words: bytes, shape: Any, units: bytes, keep: list[Any], timed: bool) -> None:
        self.kernel, self.words, self.shape, self.keep, self.timed = kernel, words, shape, keep, timed
        self.units = units  # what the kernel gets behind the words
        self.begun = False
        self.events: tuple[Any, Any, Any] | None = None  # driver, begin and end
        self._milliseconds = 0.0

    @property
    def milliseconds(self) -> float:
        """Time that it took, once it has run; 0 if it was not timed."""
        if self.events is not None:
            driver, begin, end = self.events
            self.events = None
            with self.kernel.backend.watching():
                self._milliseconds = driver.milliseconds(begin, end)
        return self._milliseconds
