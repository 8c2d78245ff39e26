"""LLVM text that transposes squares of elements that lie in registers."""

from __future__ import annotations

from collections.abc import Sequence

from ..texts import TypeText

__all__ = ["transpose_registers"]

#: Bytes of the parts of a register within which shuffles are cheapest on x86.
_PART = 16


def transpose_registers(t: TypeText, size: int, rows: Sequence[str], name: str) -> tuple[list[str], list[str]]:
    """Lines that transpose as many packets as they have elements, and the names of the results.

    ``size`` is the size of an element in bytes.  Elements are first interleaved within parts of 16 bytes, in groups of
    1, 2, 4 …, which leaves columns in bit-reversed places; then whole parts change places.
    """
    count = len(rows)
    lines: list[str] = []
    current = list(rows)
    part = min(_PART // size, count)
    mask_type = f"<{count} x i32>"

    def shuffle(target: str, a: str, b: str, lanes: Sequence[int]) -> None:
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        lines.append(f"{target} = shufflevector {t} {a}, {t} {b}, {mask_type} <{mask}>")

    group = 1
    while group < part:
        # low: the first halves of each part of both, group by group; high: the second halves
        picks: list[list[int]] = [[], []]
        for half, lanes in enumerate(picks):
            for start in range(0, count, part):
                for place in range(0, part // 2, group):
                    source = start + half * (part // 2) + place
                    lanes += [*range(source, source + group), *range(count + source, count + source + group)]
        following = list(current)
        for i in range(count):
            if not i & group:
                for half, target in enumerate((i, i + group)):
                    following[target] = f"{name}_{group}_{target}"
                    shuffle(following[target], current[i], current[i + group], picks[half])
        current = following
        group *= 2
    bits = part.bit_length() - 1
    current = [current[i - i % part + _reversed(i % part, bits)] for i in range(count)]
    distance = part
    while distance < count:
        low = [lane if not lane & distance else count + lane - distance for lane in range(count)]
        high = [lane + distance if not lane & distance else count + lane for lane in range(count)]
        following = list(current)
        for i in range(count):
            if not i & distance:
                for lanes, target in ((low, i), (high, i + distance)):
                    following[target] = f"{name}_{distance}x_{target}"
                    shuffle(following[target], current[i], current[i + distance], lanes)
        current = following
        distance *= 2
    return lines, current


def _reversed(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2) if bits else 0
