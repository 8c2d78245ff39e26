"""A corpus: launches that the machine has run, with memory before and after, to be repeated on a device.

Each entry stands alone: the text, the shape of the launch, the words, and the blocks of memory that these lead to.
What is an address, in words or in tables of calls, is known, so that blocks may lie anywhere.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drjit_core.codegen.signature import Role
from drjit_core.runtime.buffer import Buffer

from .backend import OnMachine

__all__ = ["Block", "Entry", "Recorder", "load", "recording", "save"]

#: Bytes of memory that an entry has at most, and launches of one kernel.
_MOST_BYTES, _MOST_LAUNCHES = 1 << 18, 2
_SEES_ORDER = re.compile(r"\batom\.[\w.]*\.(add|min|max|and|or|exch)\.")
_ADDS_IN_ANY_ORDER = re.compile(r"\bred\.[\w.]*\.add\.(f|noftz)")
_APPROXIMATES = re.compile(r"\.(approx|full)\.")


class Block(NamedTuple):
    """Memory that a launch uses."""

    before: bytes
    after: bytes
    type: str  # NumPy's name of the type of its elements, "" where contents do not matter afterwards
    moves: tuple[tuple[int, int, int], ...]  # words that are addresses: place, block, distance from its beginning


class Entry(NamedTuple):
    """A launch."""

    name: str  # of the kernel
    text: str
    shape: tuple[int, ...]  # blocks, threads
    combine: tuple[int, ...]  # the same of the second kernel, if there is one
    words: bytes
    units: int
    moves: tuple[tuple[int, int, int], ...]
    blocks: tuple[Block, ...]

    @property
    def expected(self) -> str:
        """What a device must agree with: all bits; numbers up to rounding, where they are added up in the order that
        threads come in, or approximated; nothing, where programs see that order."""
        if _SEES_ORDER.search(self.text):
            return "no fault"
        inexact = _ADDS_IN_ANY_ORDER.search(self.text) or _APPROXIMATES.search(self.text) or \
            ".cas." in self.text and ".rn." in self.text
        return "close" if inexact else "bits"


class Recorder:
    """Listens to the launches of a backend."""

    def __init__(self, backend: OnMachine) -> None:
        self.backend = backend
        self.entries: list[Entry] = []
        self._launches: dict[str, int] = {}

    def _moves(self, words: Any, numbers: dict[int, int]) -> tuple[tuple[int, int, int], ...]:
        """Which words are addresses; blocks get numbers in the order of finding."""
        memory, found = self.backend.memory, []
        for place, word in enumerate(words.tolist()):
            block = memory.block_of(word)
            if block is not None:
                found.append((place, numbers.setdefault(block, len(numbers)), word - block))
        return tuple(found)

    @contextmanager
    def launch(self, launch: Any, words: Any, shape: Any) -> Iterator[None]:
        """Record a launch, which happens in this context."""
        kernel, memory = launch.kernel, self.backend.memory
        count = self._launches[kernel.hash] = self._launches.get(kernel.hash, 0) + 1
        numbers: dict[int, int] = {}
        moves = self._moves(words, numbers)
        tables = {each.address for each in launch.keep if isinstance(each, Buffer)}
        inner: dict[int, tuple[tuple[int, int, int], ...]] = {}
        for address in numbers.copy():
            if address in tables:
                inner[address] = self._moves(memory.contents(address).view(np.uint64), numbers)
        before = {address: memory.contents(address).tobytes() for address in numbers}
        yield
        if count > _MOST_LAUNCHES or sum(map(len, before.values())) > _MOST_BYTES:
            return
        slots, names = self.backend.slots[kernel.hash]
        types = {place: "" if slot.role in (Role.PARTIALS, Role.CALLS, Role.REPORT) else "bool" if slot.type == 1 else
                 np.dtype(names[place]).name for place, slot in enumerate(slots)}
        type_of = {block: types.get(place, "") for place, block, _ in reversed(moves)}
        blocks = tuple(Block(before[address], memory.contents(address).tobytes(), type_of.get(number, ""),
                             inner.get(address, ())) for address, number in numbers.items())
        module = kernel.module
        units = int.from_bytes(launch.units, "little")
        combine = tuple(module.combine_shape()) if kernel.partial_words else ()
        self.entries.append(Entry(kernel.hash, kernel.text, tuple(shape), combine, words.tobytes(), units, moves,
                                  blocks))


@contextmanager
def recording(backend: OnMachine) -> Iterator[Recorder]:
    """Record the launches of a backend."""
    recorder = Recorder(backend)
    backend.listener = recorder.launch
    try:
        yield recorder
    finally:
        backend.listener = None


def save(path: Path, entries: list[Entry]) -> None:
    """Write a corpus."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps([(*entry[:-1], tuple(map(tuple, entry.blocks))) for entry in entries]))


def load(path: Path) -> list[Entry]:
    """Read one that this project has written."""
    return [Entry(*fields[:-1], tuple(Block(*block) for block in fields[-1]))
            for fields in pickle.loads(path.read_bytes())]
