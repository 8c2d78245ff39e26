"""Memory of a device, as heaps ask for it."""

from __future__ import annotations

from typing import Any

from .target import LIMITS

__all__ = ["Device"]


class Device:
    """Where a heap has its memory from."""

    kind = "memory of the GPU"
    padding = LIMITS.padding

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def request(self, capacity: int) -> tuple[int, int]:
        """New memory, from a pool that keeps what is given back; in need, the pool gives that to the system."""
        driver = self._backend.driver
        with self._backend.watching(ahead=True):  # nobody has it yet
            try:
                address = driver.allocate(capacity)
            except MemoryError:
                driver.wait()
                driver.trim()
                address = driver.allocate(capacity)
        return address, address

    def free(self, base: int) -> None:
        """Give memory back; that of a device that is lost is gone."""
        if self._backend.is_lost():
            return
        with self._backend.watching():
            self._backend.driver.release(base)

    def wait(self) -> None:
        """Wait until no launch uses memory any more."""
        self._backend.wait()
