"""Cells that are known to be wrong, by defect. The list is to become empty: a cell in it that passes fails its test."""

from __future__ import annotations

import functools
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

__all__ = ["KNOWN", "Known"]


class Known(NamedTuple):
    """A defect, and the cells that show it: patterns of touches, states and places.

    ``crashes``: it destroys memory, or never ends. Such cells are not run with the others.
    """

    defect: str
    touches: str
    states: str = "*"
    places: str = "*"
    crashes: bool = False

    def covers(self, touch: str, state: str, place: str) -> bool:
        """Whether a cell is one of those."""
        return _matches(touch, self.touches) and _matches(state, self.states) and _matches(place, self.places)


@functools.cache
def _matches(name: str, patterns: str) -> bool:
    """Whether one of several patterns matches, and none of those that begin with ``!``."""
    positive = [pattern for pattern in patterns.split() if pattern[0] != "!"] or ["*"]
    return any(fnmatchcase(name, pattern) for pattern in positive) and \
        not any(fnmatchcase(name, pattern[1:]) for pattern in patterns.split() if pattern[0] == "!")


#: Cells that show what functions that are called once, and change objects in place, do not do right yet, see
#: ``known.txt``: a number that is read on the host and then written is that of the first iteration in symbolic loops;
#: evaluated branches around evaluated loops hold the memory of their arguments, so that views of it do not see writes;
#: operands of one expression.
_ONCE = "functions are called once"

KNOWN: list[Known] = [
    *(Known(_ONCE, touches, *where.split()) for where, touches in (
        line.split(": ") for line in Path(__file__).with_name("known.txt").read_text(encoding="utf-8").splitlines())),
]
