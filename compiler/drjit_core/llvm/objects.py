"""Object code in executable memory, without LLVM's linker, which takes thrice as long.

What LLVM makes of kernels is simple: code, constants, and references between these. So this module knows no more of the
format than that (ELF-64 for x86-64: *System V Application Binary Interface*, *AMD64 Architecture Processor Supplement*,
chapters 4.3 and 4.4).  Whatever else an object has, :func:`load` leaves it to LLVM's linker.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterable
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

__all__ = ["Loaded", "load"]

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
#: Of the header: type, machine, offset of the table of sections, size and number of its entries.
_HEADER = Struct("<16xHH20xQ10xHH2x")
#: Type, flags, offset, size, number of a table that belongs to it, and of a section; alignment.
_SECTION = Struct("<4xIQ8xQQIIQ8x")
#: Name, number of the section, and place in there.
_SYMBOL = Struct("<I2xHQ8x")
#: Place, number of the symbol and kind, what is added.
_REFERENCE = Struct("<QQq")
_RELOCATABLE, _X86_64 = 1, 62
_CONTENTS, _SYMBOLS, _REFERENCES = 1, 2, 4
_WRITTEN, _LOADED = 1, 2
#: References to a symbol, relative to where they are: to data, and to functions.
_RELATIVE = 2, 4
_DISTANCE = Struct("<i")


class Loaded(NamedTuple):
    """Memory that holds an object, for as long as somebody holds it, and addresses of functions."""

    memory: mmap.mmap
    addresses: dict[str, int]


def load(code: bytes, exports: Iterable[str]) -> Loaded | None:
    """An object in memory, with addresses of what it ``exports``; ``None`` if it is of another kind."""
    if sys.platform != "linux" or not code.startswith(_MAGIC):
        return None
    type_, machine, table, entry, count = _HEADER.unpack_from(code)
    if (type_, machine, entry) != (_RELOCATABLE, _X86_64, _SECTION.size):
        return None
    sections = list(_SECTION.iter_unpack(code[table:table + count * entry]))
    places, size = [-1] * count, 0
    for number, (kind, flags, _, length, _, _, alignment) in enumerate(sections):
        if flags & _LOADED:
            if kind != _CONTENTS or flags & _WRITTEN:
                return None
            places[number] = size + -size % alignment
            size = places[number] + length
    found = _symbols(code, sections, places)
    image = bytearray(size)
    for place, (_, _, start, length, *_) in zip(places, sections, strict=True):
        if place >= 0:
            image[place:place + length] = code[start:start + length]
    for kind, _, start, length, _, target, _ in sections:
        if kind == _REFERENCES and places[target] >= 0 and not _refer(
                image, places[target], _REFERENCE.iter_unpack(code[start:start + length]), [at for _, at in found]):
            return None
    named = {name: at for name, at in found if at >= 0}
    if not named.keys() >= set(exports):
        return None
    memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:size] = image
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if _protect()(base, len(memory), mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    return Loaded(memory, {name: base + named[name] for name in exports})


def _symbols(code: bytes, sections: list[tuple[int, ...]], places: list[int]) -> list[tuple[str, int]]:
    """Names of all symbols and where they come to lie, below 0 for those that are somewhere else."""
    found = []
    for kind, _, start, length, texts, _, _ in sections:
        if kind == _SYMBOLS:
            first = sections[texts][2]
            for name, section, value in _SYMBOL.iter_unpack(code[start:start + length]):
                at = places[section] if section < len(places) else -1
                text = code[first + name:code.index(b"\0", first + name)].decode() if name else ""
                found.append((text, at + value if at >= 0 else -1))
    return found


def _refer(image: bytearray, place: int, references: Iterable[tuple[int, int, int]], symbols: list[int]) -> bool:
    """Enter references of a section that lies at a place; whether all of them are known, and to what is here."""
    for at, symbol_and_kind, added in references:
        symbol = symbols[symbol_and_kind >> 32]
        if symbol < 0 or symbol_and_kind & 0xFFFFFFFF not in _RELATIVE:
            return False
        _DISTANCE.pack_into(image, place + at, symbol + added - place - at)
    return True


@cache
def _protect() -> Any:
    """The function of the system that makes memory executable."""
    function = ctypes.CDLL(None).mprotect
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return function
