"""What a kernel iterates over.

All that a kernel computes has an element for each point of its *domain*, or one for all points.  Domains have one
dimension for the time being: arrays are flat.  The key of a program knows the class of each extent; the extents
themselves are parameters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Domain", "ONE", "PLAIN", "WIDE", "WIDE_EXTENT", "flat"]

#: Classes of extents: one element; positions of 32 bits; positions of 64 bits.
ONE, PLAIN, WIDE = 1, 2, 3
#: Extents from which on positions have 64 bits.
WIDE_EXTENT = 1 << 31


class Domain(NamedTuple):
    """Extents of a kernel, outermost first."""

    extents: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.extents)

    @property
    def classes(self) -> list[int]:
        """What the text of a kernel depends on, for each extent."""
        return [ONE if extent == 1 else PLAIN if extent < WIDE_EXTENT else WIDE for extent in self.extents]


def flat(size: int) -> Domain:
    """The domain of flat arrays."""
    return Domain((size,))
