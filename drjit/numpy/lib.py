"""``numpy.lib``: what of it people use."""

from __future__ import annotations

import math
from typing import Any

import drjit.array_api as xp

from ._public import Array, array_of, axes_of, public

__all__ = ["sliding_window_view", "stride_tricks"]


@public
def sliding_window_view(x: Any, window_shape: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None, *,
                        subok: bool = False, writeable: bool = False) -> Array:
    """All windows of some size along axes: new last axes of the size of the window, in an array of its own. Lazy;
    differentiable. Raises a ``ValueError`` for windows that are larger than the array."""
    array = array_of(x)
    sizes = tuple(window_shape) if isinstance(window_shape, (tuple, list)) else (window_shape,)
    axes = axes_of(axis, array.ndim)
    if len(sizes) != len(axes):
        raise ValueError(f"'window_shape' has {len(sizes)} sizes for {len(axes)} axes.")
    for place, size in zip(axes, sizes, strict=True):
        count = array.shape[place] - size + 1
        if size < 0 or count < 1:
            raise ValueError(f"a window of the size {size} does not fit into axis {place} of the size "
                             f"{array.shape[place]}.")
        positions = xp.arange(count)[:, None] + xp.arange(size)[None, :]
        shape = array.shape
        taken = xp.take(array, positions.reshape(-1), axis=place) if math.prod(positions.shape) else array
        parted = taken.reshape((*shape[:place], count, size, *shape[place + 1:]))
        array = xp.moveaxis(parted, place + 1, -1)
    return array


class stride_tricks:
    """``numpy.lib.stride_tricks``."""

    sliding_window_view = staticmethod(sliding_window_view)
