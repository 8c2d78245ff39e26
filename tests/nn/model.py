"""Networks and encodings with NumPy, in double precision."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

__all__ = ["encoded", "features", "run"]

_PRIMES = 1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737


def run(layers: list[tuple[str, Any]], x: Any) -> Any:
    """What layers make of features and samples."""
    for name, given in layers:
        if name == "linear":
            weights, bias = given
            x = weights @ x + (0 if bias is None else bias[:, None])
        else:
            x = {"relu": lambda x: np.maximum(x, 0), "leaky": lambda x: np.where(x >= 0, x, 0.01 * x), "exp": np.exp,
                 "exp2": np.exp2, "tanh": np.tanh, "scale": lambda x: x * 2 - 1,
                 "sin": lambda x: encoded(x, 2, 0.25), "tri": lambda x: encoded(x, 2, 0.25, True)}[name](x)
    return x


def _wave(p: Any) -> Any:
    return 1 - 4 * abs(p - np.round(p))


def encoded(x: Any, octaves: int, shift: float, triangle: bool = False) -> Any:
    """Sines and cosines, or triangles, of each feature, octave by octave."""
    rows = []
    for row in x:
        for octave in range(octaves):
            p = row * 2.0 ** octave + octave * shift
            rows += [_wave(p - 0.25), _wave(p)] if triangle else [np.sin(2 * np.pi * p), np.cos(2 * np.pi * p)]
    return np.stack(rows)


def features(kind: str, data: Any, x: Any, levels: int, count: int, most: int, base: int, growth: float,
             align: bool) -> Any:
    """The features of positions (dimensions and samples) in a hash grid, or a permutohedral lattice."""
    dimension, result, offset = len(x), [], 0
    data = np.asarray(data).reshape(-1, count)
    for level in range(levels):
        scale = base * growth ** level - 1
        resolution = math.ceil(scale) + 1
        entries = min(-(-resolution ** dimension // count) * count, most)
        at = x * scale + (0 if align else 0.5)
        cell, fraction = np.floor(at).astype(np.int64), at - np.floor(at)
        if kind == "grid":
            corners = [(np.array(corner)[:, None], np.prod(
                [f if c else 1 - f for f, c in zip(fraction, corner, strict=True)], axis=0))
                for corner in itertools.product((0, 1), repeat=dimension)]
        else:
            order = np.argsort(-fraction, axis=0, kind="stable")
            ordered = np.take_along_axis(fraction, order, axis=0)
            bounds = [np.ones_like(x[0]), *ordered, np.zeros_like(x[0])]
            corners = [(np.stack([np.any(order[:k] == axis, axis=0) for axis in range(dimension)]).astype(np.int64),
                        bounds[k] - bounds[k + 1]) for k in range(dimension + 1)]
        total: Any = 0
        for steps, weight in corners:
            key = (cell + steps) % 2 ** 32
            if resolution ** dimension <= entries:
                index = sum(k * resolution ** axis for axis, k in enumerate(key))
            elif kind == "grid":
                index = np.bitwise_xor.reduce([k * prime % 2 ** 32 for k, prime in zip(key, _PRIMES, strict=False)])
            else:
                index = np.zeros_like(key[0])
                for k in key:
                    index = (index + k) * 2531011 % 2 ** 32
            total = total + weight * data[offset + index % 2 ** 32 % entries].T
        result.append(total)
        offset += entries
    return np.concatenate(result)
