"""Memory of the host that the device reads and writes while the host goes on (*pinned* memory), for copies.

It is for what gains by it: reads of some kilobytes, and writes of at most some megabytes for which the host would wait
otherwise.  Other copies are the driver's (see ``docs/gpu.md``), and so are these where there is no such memory.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from .errors import DriverError

__all__ = ["COPIED", "Staging"]

#: So many bytes of the host the driver copies before a call returns; of more, a device may read them where they are.
COPIED = 1 << 16
#: What is read has one of some places of so many bytes.
_PLACE, _PLACES = 1 << 12, 16
#: What is written goes to one of two halves of so many bytes, behind what has been written to it before.
_HALF = 1 << 22
_ALIGNMENT = 64
_PORTABLE, _UNTIMED = 1, 2


class _Half:
    """Memory for what is written, and an event behind the copies from it."""

    __slots__ = ("address", "event", "marked", "used")

    def __init__(self, address: int, event: int) -> None:
        self.address, self.event = address, event
        self.used = 0
        self.marked = True  # whether the event is behind all copies


class Staging:
    """Pinned memory of a driver, which is asked for when it is needed."""

    def __init__(self, driver: Any, pinned: bool) -> None:
        self._driver = driver
        self._lock = threading.RLock()
        self._writes = False  # whether somebody is in the midst of it: a handler of signals may come to write as well
        self._places: list[int] | None = None if pinned else []  # that nobody reads to; None: not asked for yet
        self._halves: list[_Half] | None = None if pinned else []

    def _memory(self, nbytes: int) -> int:
        """Pinned memory, 0 if there is none; only what has ended the context is raised."""
        try:
            return self._driver.made("cuMemHostAlloc", nbytes, _PORTABLE)  # type: ignore[no-any-return]
        except MemoryError:
            return 0
        except DriverError as error:
            if error.lost:
                raise
            return 0

    def read(self, address: int, nbytes: int) -> bytes | None:
        """Bytes of the device, when all is done that was asked for; ``None`` if there is no place for them.

        Whoever is interrupted leaves its place behind: a copy may be on its way there."""
        if nbytes > _PLACE:
            return None
        if self._places is None:
            with self._lock:
                if self._places is None:
                    begin = self._memory(_PLACE * _PLACES)
                    self._places = [begin + _PLACE * each for each in range(_PLACES if begin else 0)]
        try:
            place = self._places.pop()
        except IndexError:
            return None
        self._driver.ask("cuMemcpyDtoHAsync_v2", place, address, nbytes)
        self._driver.synchronize()
        data = ctypes.string_at(place, nbytes)
        self._places.append(place)
        return data

    def write(self, address: int, source: Any, nbytes: int) -> bool:
        """Let the device have some bytes of the host, which may be changed afterwards; whether it was done."""
        if not COPIED < nbytes <= _HALF:
            return False
        with self._lock:  # copies from a half are in the order of its event
            if self._writes:
                return False
            try:
                self._writes = True
                return self._written(address, source, nbytes)
            finally:
                self._writes = False

    def _written(self, address: int, source: Any, nbytes: int) -> bool:
        driver = self._driver
        if self._halves is None:
            self._halves = self._made()
        if not self._halves:
            return False
        half = self._halves[0]
        if half.used + nbytes > _HALF:
            self._halves.reverse()
            half = self._halves[0]
            if half.marked:
                driver.call("cuEventSynchronize", half.event)
            else:  # somebody was interrupted
                driver.synchronize()
            half.used, half.marked = 0, True
        place = half.address + half.used
        ctypes.memmove(place, source, nbytes)
        half.used, half.marked = half.used + (nbytes + _ALIGNMENT - 1 & -_ALIGNMENT), False
        driver.ask("cuMemcpyHtoDAsync_v2", address, place, nbytes)
        driver.ask("cuEventRecord", half.event)
        half.marked = True
        return True

    def _made(self) -> list[_Half]:
        """Two halves, or none."""
        begin = self._memory(2 * _HALF)
        if not begin:
            return []
        return [_Half(begin + _HALF * each, self._driver.made("cuEventCreate", _UNTIMED)) for each in range(2)]

    def release(self) -> None:
        """Give back the memory for what is written, when nobody reads it any more."""
        driver = self._driver
        with self._lock:
            halves = self._halves
            if halves and not self._writes:
                self._halves = None
                driver.synchronize()
                for half in halves:
                    driver.call("cuEventDestroy_v2", half.event)
                driver.call("cuMemFreeHost", min(half.address for half in halves))
