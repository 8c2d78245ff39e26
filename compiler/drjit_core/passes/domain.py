"""What a kernel iterates over.

All that a kernel computes has an element for each point of its *domain*, or one for each row of it, or one for all
points.  A domain has one extent if everything that the kernel reads and writes lies flat.  *Views* (``VIEW``: base,
extents, strides) and reductions along axes (``SEGMENT``) give it several: its extents are the common refinement of
theirs, adjacent axes merged as far as all of them allow.  The innermost extent is that of a *row*; the others are
counted.  The key of a program knows the classes of extents; the extents themselves are parameters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["MOST_AXES", "ONE", "PLAIN", "WIDE", "WIDE_EXTENT", "Domain", "flat", "is_short", "refine", "strides_in"]

#: Classes of extents: one element; positions of 32 bits; positions of 64 bits.
ONE, PLAIN, WIDE = 1, 2, 3
#: Extents from which on positions have 64 bits.
WIDE_EXTENT = 1 << 31
#: Domains have at most so many extents; views that ask for more are computed by index.
MOST_AXES = 8


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
    def size_class(self) -> int:
        """The class of the extent of the whole."""
        size = self.size
        return ONE if size == 1 else PLAIN if size < WIDE_EXTENT else WIDE


def flat(size: int) -> Domain:
    """The domain of flat arrays."""
    return Domain((size,))


def is_short(extents: Sequence[int], most: int) -> bool:
    """Whether a view of such extents is made of rows of at most so many elements, of which a flat kernel can take
    several together."""
    return len(extents) == 2 and extents[-1] <= most


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
