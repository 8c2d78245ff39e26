"""What textures compute, with NumPy, in double precision and with whole numbers of any size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drjit import WrapMode

__all__ = ["catmull_rom", "corners", "cubic", "linear", "nearest", "wrapped"]

Array = Any


def wrapped(index: Array, size: int, mode: WrapMode) -> Array:
    """The texel that each number stands for; -1 where there is none."""
    if mode is WrapMode.Repeat:
        return index % size
    if mode is WrapMode.Mirror:
        rest = index % (2 * size)
        return np.where(rest < size, rest, 2 * size - 1 - rest)
    if mode is WrapMode.Clamp:
        return np.clip(index, 0, size - 1)
    return np.where((index >= 0) & (index < size), index, -1)


def _scaled(position: Array, size: int, mode: WrapMode, shift: float, dtype: type) -> Array:
    """Positions in texels, rounded as in the precision of positions; periodic ones within the first period."""
    position = position.astype(np.float64)
    position = np.where(np.isfinite(position) | (mode in (WrapMode.Clamp, WrapMode.Border)), position, np.nan)
    if mode in (WrapMode.Repeat, WrapMode.Mirror):
        period = 1 if mode is WrapMode.Repeat else 2
        position = (position - np.floor(position / period) * period).astype(dtype).astype(np.float64)
        return position * size - shift
    return np.clip(position * size, -4, size + 4) - shift


def _cells(positions: Sequence[Array], shape: Sequence[int], modes: Sequence[WrapMode], dtype: type) -> list[Any]:
    """The texel before each position, and the fraction of the distance to the next one."""
    found = []
    for position, size, mode in zip(positions, shape[-2::-1], modes, strict=True):
        scaled = _scaled(position, size, mode, 0.5, dtype)
        known = np.isfinite(scaled)
        first = np.floor(np.where(known, scaled, 0)).astype(np.int64)
        found.append((first, np.where(known, scaled - first, np.nan)))
    return found


def texel(data: Array, indices: Sequence[Array], modes: Sequence[WrapMode], border: Array) -> Array:
    """The texels of some numbers (X first), wrapped."""
    places = [wrapped(index, size, mode) for index, size, mode in zip(indices, data.shape[-2::-1], modes, strict=True)]
    found = data[tuple(np.maximum(place, 0) for place in reversed(places))].astype(np.float64)
    outside = np.any([place < 0 for place in places], axis=0)
    return np.where(outside[:, None], border, found)


def corners(data: Array, positions: Sequence[Array], modes: Sequence[WrapMode], border: Array = 0,
            dtype: type = np.float32) -> list[Array]:
    """The texels that linear interpolation is between, X changing first."""
    cells = _cells(positions, data.shape, modes, dtype)
    return [texel(data, [first + offset for (first, _), offset in zip(cells, reversed(offsets), strict=True)], modes,
                  border)
            for offsets in itertools.product((0, 1), repeat=len(cells))]


def nearest(data: Array, positions: Sequence[Array], modes: Sequence[WrapMode], border: Array = 0,
            dtype: type = np.float32) -> Array:
    """The texel that a position is in."""
    indices = []
    for position, size, mode in zip(positions, data.shape[-2::-1], modes, strict=True):
        scaled = (_scaled(position, size, mode, 0, dtype).astype(dtype)).astype(np.float64)
        number = np.floor(np.where(np.isnan(scaled), 0, scaled)).astype(np.int64)
        indices.append(np.where(np.isnan(scaled) & (mode is WrapMode.Border), -1, number))
    return texel(data, indices, modes, border)


def _summed(data: Array, positions: Sequence[Array], modes: Sequence[WrapMode], border: Array, dtype: type,
            weights: Callable[[Array, int], Sequence[Array]], first: int, orders: Sequence[int]) -> Array:
    cells = _cells(positions, data.shape, modes, dtype)
    factors = [weights(fraction, order) for (_, fraction), order in zip(cells, orders, strict=True)]
    total: Array = 0
    for numbers in itertools.product(range(len(factors[0])), repeat=len(cells)):
        found = texel(data, [index + number + first for (index, _), number in zip(cells, numbers, strict=True)], modes,
                      border)
        total = total + found * np.prod([factor[number] for factor, number in zip(factors, numbers, strict=True)],
                                        axis=0)[:, None]
    for (size, order) in zip(data.shape[-2::-1], orders, strict=True):
        total = total * float(size)**order
    return total


def linear(data: Array, positions: Sequence[Array], modes: Sequence[WrapMode], border: Array = 0,
           dtype: type = np.float32) -> Array:
    """Multilinear interpolation."""
    return _summed(data, positions, modes, border, dtype, lambda f, _: (1 - f, f), 0, [0] * len(positions))


def _spline(f: Array, order: int) -> Sequence[Array]:
    g = 1 - f
    if order == 0:
        return g**3 / 6, (3 * f**3 - 6 * f**2 + 4) / 6, (3 * g**3 - 6 * g**2 + 4) / 6, f**3 / 6
    if order == 1:
        return -g**2 / 2, 1.5 * f**2 - 2 * f, -(1.5 * g**2 - 2 * g), f**2 / 2
    return g, 3 * f - 2, 3 * g - 2, f


def cubic(data: Array, positions: Sequence[Array], modes: Sequence[WrapMode], border: Array = 0,
          dtype: type = np.float32, orders: Sequence[int] | None = None) -> Array:
    """The uniform cubic B-spline, or a derivative."""
    return _summed(data, positions, modes, border, dtype, _spline, -1, orders or [0] * len(positions))


def _interpolating(f: Array, _: int) -> Sequence[Array]:
    return ((-f + 2) * f - 1) * f / 2, (3 * f - 5) * f**2 / 2 + 1, ((-3 * f + 4) * f + 1) * f / 2, (f - 1) * f**2 / 2


def catmull_rom(data: Array, positions: Sequence[Array], modes: Sequence[WrapMode], border: Array = 0,
                dtype: type = np.float32) -> Array:
    """The cubic spline through the texels, whose slope at each one is that between its neighbours."""
    return _summed(data, positions, modes, border, dtype, _interpolating, -1, [0] * len(positions))
