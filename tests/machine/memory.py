"""Memory of the machine's device: at addresses that are nowhere in this process, and of which it knows the owners."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

__all__ = ["GRANULE", "Fault", "Memory"]

#: Where the memory of the device begins.  Nothing of this process is there.
_BASE = 1 << 56
#: Blocks begin at multiples of this; who owns memory is noted by granules of 16 bytes.
ALIGNMENT, GRANULE = 256, 16
#: Contents of new memory: large numbers, and NaN of no type.
_CANARY = 0xA5


class Fault(Exception):
    """What would be undefined, or end the program, on a device."""


class Memory:
    """Blocks of a size each, found again by that."""

    def __init__(self, size: int = 1 << 31) -> None:
        self.bytes = np.frombuffer(mmap.mmap(-1, size), np.uint8)
        self.size, self.top = size, ALIGNMENT
        self.owned = np.zeros(size // GRANULE, bool)
        self.free: dict[int, list[int]] = {}
        self.blocks: dict[int, int] = {}  # sizes of what is allocated, by address
        self.views: dict[str, Any] = {code: self.bytes.view(code) for code in (
            "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8")}

    @staticmethod
    def room(nbytes: int) -> int:
        """A power of two or one of three steps between two, with a gap behind."""
        nbytes += ALIGNMENT
        step = 1 << max(nbytes.bit_length() - 3, ALIGNMENT.bit_length() - 1)
        return (nbytes + step - 1) & -step

    def _granules(self, at: int, nbytes: int) -> slice:
        return slice(at // GRANULE, (at + nbytes + GRANULE - 1) // GRANULE)

    def allocate(self, nbytes: int) -> int:
        """The address of new memory; raises a ``MemoryError``."""
        room = self.room(nbytes)
        blocks = self.free.get(room)
        if blocks:
            at = blocks.pop()
        elif self.top + room <= self.size:
            at, self.top = self.top, self.top + room
        else:
            at = self._gap(room)
        granules = self._granules(at, nbytes)
        self.owned[granules] = True
        self.bytes[granules.start * GRANULE:granules.stop * GRANULE] = _CANARY
        self.blocks[_BASE + at] = nbytes
        return _BASE + at

    def _gap(self, room: int) -> int:
        """Where there is room between blocks; what was kept by sizes is given up."""
        self.free.clear()
        before = ALIGNMENT
        for address, nbytes in sorted(self.blocks.items()):
            if address - _BASE - before >= room:
                return before
            before = address - _BASE + self.room(nbytes)
        raise MemoryError

    def release(self, address: int, nbytes: int) -> None:
        """Take memory back: nothing may access it any more."""
        at = address - _BASE
        del self.blocks[address]
        self.owned[self._granules(at, nbytes)] = False
        self.free.setdefault(self.room(nbytes), []).append(at)

    def at(self, address: int, nbytes: int) -> Any:
        """The bytes at an address, for the host."""
        at = address - _BASE
        assert at >= 0 and at + nbytes <= self.size and self.owned[self._granules(at, nbytes)].all()
        return self.bytes[at:at + nbytes]

    def block_of(self, address: int) -> int | None:
        """Where the block begins that an address is in, if it is in one."""
        if not _BASE <= address < _BASE + self.size:
            return None
        return next((begin for begin, nbytes in self.blocks.items() if begin <= address < begin + nbytes), None)

    def contents(self, address: int) -> Any:
        """The bytes of a block."""
        return self.at(address, self.blocks[address])

    def positions(self, addresses: Any, size: int, total: int, what: str) -> Any:
        """Element numbers, of elements of a size, of accesses to so many bytes at some addresses."""
        at = addresses - np.uint64(_BASE)
        if at.size:
            if int(at.max()) + total > self.size:
                raise Fault(f"{what}: an address of no memory")
            if (at & np.uint64(total - 1)).any():
                raise Fault(f"{what}: a misaligned address")
            at = at.view(np.int64)
            if not (self.owned[at // GRANULE].all() and (
                    total <= GRANULE or self.owned[(at + total - 1) // GRANULE].all())):
                raise Fault(f"{what}: an address that nobody has allocated")
        return at.view(np.int64) // size
