"""Objects that are used with brackets, as ``np.r_[0:3, 7]``."""

from __future__ import annotations

from typing import Any

import numpy as np

import drjit.array_api as xp

from ._public import Array, array_of, public

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
    """Arrays, numbers and ranges one after the other; of columns for ``c_``."""

    def __init__(self, columns: bool) -> None:
        self._columns = columns

    @xp.on_their_device
    def __getitem__(self, key: Any) -> Array:
        entries = []
        for entry in key if isinstance(key, tuple) else (key,):
            if isinstance(entry, str):
                raise NotImplementedError("drjit.numpy.r_: directions as text are not there yet; use concatenate() or "
                                          "stack().")
            array = xp.asarray(np.r_[entry]) if isinstance(entry, slice) else array_of(entry)
            array = array.reshape(1) if not array.ndim else array
            entries.append(array.reshape(-1, 1) if self._columns and array.ndim == 1 else array)
        return xp.concat(entries, axis=-1 if self._columns else 0)


mgrid = _Grid(sparse=False)
ogrid = _Grid(sparse=True)
r_ = _Joined(columns=False)
c_ = _Joined(columns=True)
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
