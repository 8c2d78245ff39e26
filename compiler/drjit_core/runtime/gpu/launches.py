"""Launches of kernels, ready to be submitted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import CodeType
from typing import Any

from ...cuda.errors import DriverError
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

    __slots__ = ("_milliseconds", "begun", "keep", "kernel", "points", "shape", "timed", "units", "words")

    def __init__(self, kernel: Any, words: bytes, shape: Any, units: bytes, keep: list[Any], timed: bool) -> None:
        self.kernel, self.words, self.shape, self.keep, self.timed = kernel, words, shape, keep, timed
        self.units = units  # what the kernel gets behind the words
        self.begun = False
        self.points: list[Any] = []  # before it and behind it, if it is timed
        self._milliseconds = 0.0

    @property
    def milliseconds(self) -> float:
        """Time that it took, once it has run; 0 if it was not timed."""
        if len(self.points) == 2:
            backend, (begin, end) = self.kernel.backend, self.points
            self.points = []
            with backend.watching():
                self._milliseconds = backend.driver.milliseconds(begin, end)
        return self._milliseconds

    def __del__(self) -> None:
        if self.points and not self.kernel.backend.is_lost():  # nobody has asked for the time
            with suppress(DriverError):
                for point in self.points:
                    self.kernel.backend.driver.unmark(point)
