"""Values at which operations are tested: what is special to each type, and a few ordinary numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from drjit_core import TYPES
from tests.core.harness import dtype_of, limits_of


def samples(type_: int) -> np.ndarray[Any, Any]:
    """Special and ordinary values of a scalar type, about thirty."""
    info, dtype = TYPES[type_], dtype_of(type_)
    if info.kind == "b":
        return np.array([False, True])
    if info.kind == "f":
        limits = limits_of(type_)
        ulp = float(2 ** (limits.nmant + 1))
        positive = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 1 / 3, np.pi, 1 + float(limits.eps), 1 - float(limits.epsneg),
                    float(limits.smallest_subnormal), float(limits.smallest_normal) - float(limits.smallest_subnormal),
                    float(limits.smallest_normal), float(limits.max), float(limits.max) / 2, np.sqrt(float(limits.max)),
                    ulp, ulp - 1, ulp / 2 + 0.5, ulp + 2, np.inf]
        return np.array([s * value for value in positive for s in (1.0, -1.0)] + [np.nan], dtype)
    integers = {0, 1, 2, 3, 7, info.bits - 1, info.bits, info.bits + 1, 10, 100, int(info.maximum),
                int(info.maximum) - 1, int(info.minimum), int(info.minimum) + 1, int(info.maximum) // 3,
                int(info.maximum) // 2,
                1 << info.bits // 2, 1 << info.bits - 2, (1 << info.bits // 2) - 1,
                0x5A5A5A5A5A5A5A5A & int(info.maximum)}
    if info.kind == "i":
        integers |= {-1, -2, -3, -7, -10, -100, int(info.minimum) // 3, -(1 << info.bits // 2), int(info.minimum) // 2}
    return np.array(sorted(integers), dtype)


def combinations(*lists: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """All tuples of elements of the lists, as one array per position; a size that is no multiple of a packet."""
    grids = [np.ascontiguousarray(grid.reshape(-1)) for grid in np.meshgrid(*lists, indexing="ij")]
    if grids[0].size % 4 == 0:
        grids = [np.append(grid, grid[len(grid) // 2]) for grid in grids]
    return grids
