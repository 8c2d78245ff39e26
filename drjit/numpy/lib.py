"""``numpy.lib``: what of it people use."""

from __future__ import annotations

import math
from typing import Any

import drjit.array_api as xp

from ._public import Array, array_of, axes_of, public

__all__ = ["as_strided", "sliding_window_view", "stride_tricks"]


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


@public
def as_strided(x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True) -> Array:
    """The elements that a shape and strides in bytes describe, from the first one of ``x`` on, among those of the array
    that ``x`` is a view of: in an array of its own, so that what is written to it is not written to ``x``. Lazy;
    differentiable. Raises a ``ValueError`` for strides that lead out of the array, or are no multiple of an element."""
    array = array_of(x)
    sizes = array.shape if shape is None else tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    steps = array.strides if strides is None else tuple(strides) if isinstance(strides, (tuple, list)) else (strides,)
    if len(sizes) != len(steps) or any(size < 0 for size in sizes) or any(step % array.itemsize for step in steps):
        raise ValueError(f"'shape' and 'strides' must have as many entries, which are not negative and multiples of "
                         f"{array.itemsize} bytes, found {sizes} and {steps}.")
    if not math.prod(sizes):
        return xp.zeros(sizes, dtype=array.dtype)
    owner = array if array.base is None or array.base.dtype != array.dtype else array.base
    first = last = position = array.place[0] if owner is not array else 0
    for place, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        stride = step // array.itemsize
        first, last = first + min(stride, 0) * (size - 1), last + max(stride, 0) * (size - 1)
        position = position + xp.reshape(xp.arange(size) * stride, (-1, *(1,) * (len(sizes) - place - 1)))
    if first < 0 or last >= owner.size:
        raise ValueError(f"the shape {sizes} and the strides {steps} lead to the elements {first} to {last} of "
                         f"{owner.size}.")
    index = xp.reshape(xp.asarray(position), (-1,))
    return xp.reshape(xp.take(xp.reshape(owner, (-1,)), index), sizes)


class stride_tricks:
    """``numpy.lib.stride_tricks``."""

    as_strided = staticmethod(as_strided)
    sliding_window_view = staticmethod(sliding_window_view)
