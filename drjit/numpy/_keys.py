"""Objects that are used with brackets, as ``np.r_[0:3, 7]``."""

from __future__ import annotations

from typing import Any

import numpy as np

import drjit.array_api as xp

from ._public import Array, array_of, is_number, public

__all__ = ["c_", "index_exp", "ix_", "mgrid", "ogrid", "r_", "s_"]


class _Grid:
    """Coordinates of a grid that slices describe: ``start:stop:step``, or ``start:stop:countj``, which has the end."""

    def __init__(self, sparse: bool) -> None:
        self._sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        found = (np.ogrid if self._sparse else np.mgrid)[key]
        if isinstance(found, (tuple, list)):
            return tuple([xp.asarray(entry) for entry in found])
        return xp.asarray(found)


class _Joined:
    """Arrays, numbers and ranges one after the other along an axis, with some axes at least: as a text in front says,
    such as ``'0,2'``, or ``'-1,2,0'``, whose last number is where axes begin that are there (at the end else)."""

    def __init__(self, axis: int, ndmin: int, place: int) -> None:
        self._directions = axis, ndmin, place

    @xp.on_their_device
    def __getitem__(self, key: Any) -> Array:
        entries = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, place = _directed(entries.pop(0), *self._directions) if entries and isinstance(entries[0], str) \
            else self._directions
        if not entries or any(isinstance(entry, str) for entry in entries):
            raise ValueError("drjit.numpy.r_: needs arrays, numbers or slices, and directions in front of them only.")
        values = [xp.asarray(np.r_[entry]) if isinstance(entry, slice) else entry if is_number(entry) else
                  array_of(entry) for entry in entries]
        dtype, found = xp.result_type(*values), []
        for value in values:
            array = array_of(value).astype(dtype)
            new = max(ndmin - array.ndim, 0)
            array = array.reshape((1,) * new + array.shape)
            if place != -1 and new:
                first = place if place >= 0 else place + new + 1
                axes = list(range(array.ndim))
                array = array.transpose(axes[:first] + axes[new:] + axes[first:new])
            found.append(array)
        return xp.concat(found, axis=axis)


def _directed(text: str, axis: int, ndmin: int, place: int) -> tuple[int, int, int]:
    """What a text says of how arrays are joined, in place of what is meant without it."""
    try:
        numbers = list(map(int, text.split(",")))
    except ValueError:
        raise ValueError(f"drjit.numpy.r_: directions are up to three integers, found {text!r}. (There are no "
                         "matrices: use arrays of two axes.)") from None
    if len(numbers) > 3:
        raise ValueError(f"drjit.numpy.r_: directions are up to three integers, found {text!r}.")
    own = (axis, ndmin, place)
    return (*numbers, *own[len(numbers):])  # type: ignore[return-value]


mgrid = _Grid(sparse=False)
ogrid = _Grid(sparse=True)
r_ = _Joined(0, 1, -1)
c_ = _Joined(-1, 2, 0)
s_ = np.s_
index_exp = np.index_exp


@public
def ix_(*args: Any) -> tuple[Array, ...]:
    """Positions (or masks, which are evaluated) along each axis as arrays that are broadcast to a grid."""
    found = []
    for place, entry in enumerate(args):
        array = array_of(entry)
        if array.ndim != 1:
            raise ValueError(f"argument {place} must have one dimension, found the shape {array.shape}.")
        array = xp.nonzero(array)[0] if array.dtype.kind == "b" else array
        found.append(array.reshape(tuple([-1 if k == place else 1 for k in range(len(args))])))
    return tuple(found)
