"""LLVM text that transposes squares of elements that lie in registers."""

from __future__ import annotations

from collections.abc import Sequence

from ..texts import TypeText
from ..writer import Writer

__all__ = ["transpose_registers"]

#: Bytes of the parts of a register within which shuffles are cheapest on x86.
_PART = 16


def transpose_registers(w: Writer, t: TypeText, size: int, rows: Sequence[str]) -> list[str]:
    """Transpose as many packets as they have elements.

    ``size`` is the size of an element in bytes.  Elements are first interleaved within parts of 16 bytes, in groups of
    1, 2, 4 …, which leaves columns in bit-reversed places; then whole parts change places.
    """
    count = len(rows)
    current = list(rows)
    part = min(_PART // size, count)
    group = 1
    while group < part:
        # low: the first halves of each part of both, group by group; high: the second halves
        picks: list[list[int]] = [[], []]
        for half, lanes in enumerate(picks):
            for start in range(0, count, part):
                for place in range(0, part // 2, group):
                    source = start + half * (part // 2) + place
                    lanes += [*range(source, source + group), *range(count + source, count + source + group)]
        current = _exchanged(w, t, current, group, *picks)
        group *= 2
    bits = part.bit_length() - 1
    current = [current[i - i % part + _reversed(i % part, bits)] for i in range(count)]
    distance = part
    while distance < count:
        low = [lane if not lane & distance else count + lane - distance for lane in range(count)]
        high = [lane + distance if not lane & distance else count + lane for lane in range(count)]
        current = _exchanged(w, t, current, distance, low, high)
        distance *= 2
    return current


def _exchanged(w: Writer, t: TypeText, rows: list[str], distance: int, low: list[int], high: list[int]) -> list[str]:
    """Packets of which those some distance apart exchange lanes."""
    found = list(rows)
    for i in range(len(rows)):
        if not i & distance:
            found[i] = w.shuffle(t, rows[i], rows[i + distance], low)
            found[i + distance] = w.shuffle(t, rows[i], rows[i + distance], high)
    return found


def _reversed(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2) if bits else 0
