"""Launches of kernels, ready to be submitted."""

from __future__ import annotations

from typing import Any

__all__ = ["Launch"]


class Launch:
    """One execution of a kernel: its words, its shape, and what must live until it has run."""

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
            self.events, self._milliseconds = None, driver.milliseconds(begin, end)
        return self._milliseconds
