"""Launches of kernels, ready to be submitted."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType
from typing import Any

from ...ir.symbolic import line_at

__all__ = ["Graph", "Launch", "described"]


def described(launches: list[tuple[str, tuple[CodeType, int] | None]]) -> list[str]:
    """Launches in words: their kernels, and the lines of the user's program that were at work."""
    lines = [(name[:16], line_at(place)) for name, place in launches]
    return [f"{name} ({line[0]}:{line[1]})" if line else name for name, line in lines]


class Graph:
    """Launches that the driver knows as one, each behind the one before."""

    __slots__ = ("_backend", "_handles", "_kernels", "launcher", "nodes")

    def __init__(self, backend: Any, launches: list[tuple[int, Sequence[int], bytes]], kernels: list[Any]) -> None:
        self._backend, self._kernels = backend, kernels  # whose modules have to be there
        self._handles: Any = None
        self._handles = backend.driver.graph(launches)
        self.launcher, self.nodes = self._handles.launcher, self._handles.nodes

    def __del__(self) -> None:
        if self._handles is not None:
            self._backend.unused_graphs.append(self._handles)


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
