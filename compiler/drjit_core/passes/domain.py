"""What a kernel iterates over.

All that a kernel computes has an element for each point of its *domain*, or one for each row of it, or one for all
points.  A domain has one extent if everything that the kernel reads and writes lies flat.  *Views* (``VIEW``: base,
extents, strides) and reductions along axes (``SEGMENT``) give it several: its extents are the common refinement of
theirs, adjacent axes merged as far as all of them allow.  The innermost extent is that of a *row*, over which packets
run; the others are counted.  The key of a program knows the classes of extents; the extents themselves are parameters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["FLAT_ROW", "INDEXED_ROW", "MOST_AXES", "MOST_SHORT", "ONE", "PLAIN", "WIDE", "WIDE_EXTENT", "Domain", "cut",
           "flat", "is_short", "refine", "strides_in"]

#: Classes of extents: one element; positions of 32 bits; positions of 64 bits.
ONE, PLAIN, WIDE = 1, 2, 3
#: Extents from which on positions have 64 bits.
WIDE_EXTENT = 1 << 31
#: Domains have at most so many extents; views that ask for more are computed by index.
MOST_AXES = 8
#: Rows of at most so many elements are a class of their own, since packets need not be longer; those of others span at
#: most so many.
_SHORT_ROW, _LONGEST_PACKET = 16, 32
#: Packets go over several rows of at most so many elements, if all views are of such.  3M numbers and a row that is
#: added to each take 0.42 ms in rows of 4 (0.84 if the kernel goes over rows) and 0.40 in rows of 8 (0.57); but each
#: length of rows is a compilation.
FLAT_ROW = 8
#: Rows of at most so many elements would leave most of a packet empty: other views beside them are read by index.
INDEXED_ROW = 3
#: Kernels read at most so many views of short rows, for which they hold packets in memory of their own.
MOST_SHORT = 64
#: Where there are fewer rows than this, long ones are cut into parts of so many elements, which threads may share.
_FEW_ROWS, _PART = 64, 1 << 14


class Domain(NamedTuple):
    """Extents of a kernel, outermost first.

    A unit of work is a row. Where ``columns`` is set, the last axis but one is what is reduced, and one unit is the
    whole of the last two. Either may be cut into ``parts``, of ``part`` elements, or rows, each but the last.
    """

    extents: tuple[int, ...]
    columns: bool = False
    parts: int = 1
    part: int = 0

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.extents)

    @property
    def is_flat(self) -> bool:
        """Whether there are no rows."""
        return len(self.extents) == 1

    @property
    def row(self) -> int:
        """Number of points of a row."""
        return self.extents[-1]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return math.prod(self.extents[:-1])

    @property
    def units(self) -> int:
        """Number of parts that the work is made of: what blocks are cut from."""
        if self.is_flat:
            return self.size
        return math.prod(self.extents[:-2] if self.columns else self.extents[:-1]) * self.parts

    @property
    def unit(self) -> int:
        """Number of points of such a part, the largest if they differ."""
        if self.is_flat:
            return 1
        return self.row * (self.part or self.extents[-2]) if self.columns else self.part or self.row

    @property
    def classes(self) -> list[int]:
        """What the text of a kernel depends on: the whole, and of rows, how long they are."""
        whole = ONE if self.size == 1 else PLAIN if self.size < WIDE_EXTENT else WIDE
        if self.is_flat:
            return [whole]
        return [whole, self.columns | 2 * (self.parts > 1) | 4 * (self.row <= _SHORT_ROW)]

    @property
    def longest_packet(self) -> int:
        """Number of elements that a packet should have at most."""
        return _SHORT_ROW if self.row <= _SHORT_ROW else _LONGEST_PACKET


def flat(size: int) -> Domain:
    """The domain of flat arrays."""
    return Domain((size,))


def is_short(extents: Sequence[int]) -> bool:
    """Whether a view of such extents is made of short rows, so that packets of a flat kernel can go over several."""
    return len(extents) == 2 and extents[-1] <= FLAT_ROW


def _steps(extents: Sequence[int]) -> list[int]:
    """Numbers of elements within which each axis but the outermost repeats, from the innermost on."""
    result, size = [], 1
    for extent in reversed(extents[1:]):
        size *= extent
        result.append(size)
    return result


def refine(size: int, views: Iterable[Sequence[int]], row: int = 0) -> tuple[tuple[int, ...], list[bool]]:
    """The extents of a domain of so many points in which views of some extents can be expressed, and which can.

    If ``row`` is given, rows have that number of points, and views that cut rows are left out.
    """
    found = {row} if row else set()
    fits = []
    for extents in views:
        wanted = found | set(_steps(extents))
        chain = sorted(wanted)
        good = len(chain) < MOST_AXES and (not row or chain[0] == row) and \
            all(large % small == 0 for small, large in itertools.pairwise(chain))
        fits.append(good)
        if good:
            found = wanted
    chain = [1, *sorted(found), size]
    return tuple(large // small for small, large in itertools.pairwise(chain))[::-1], fits


def strides_in(domain: Domain, extents: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides of a view along each axis of a domain that refines its extents."""
    result = []
    axis, done = len(extents) - 1, 1  # how much of the view's axis the axes of the domain so far have used
    for extent in reversed(domain.extents):
        result.append(strides[axis] * done)
        done *= extent
        if done == extents[axis]:
            axis, done = axis - 1, 1
    return tuple(reversed(result))


def cut(domain: Domain) -> Domain:
    """The same domain, its rows in parts if they are few and long."""
    if domain.is_flat or domain.columns or domain.rows >= _FEW_ROWS or domain.row < 2 * _PART:
        return domain
    return domain._replace(parts=-(-domain.row // _PART), part=_PART)
