"""Tensors: axes, layouts, products.  ``BENCH_NUMPY`` in the environment runs the same on NumPy."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from measure import case, main, median_seconds

NUMPY = bool(os.environ.get("BENCH_NUMPY"))
if NUMPY:
    xp: Any = np

    def made(values: Any) -> Any:
        """An array of single precision."""
        return values

    def done(value: Any) -> Any:
        """A value in memory of its own."""
        return np.ascontiguousarray(value) if value.base is not None else value
else:
    import drjit as dr
    from drjit.llvm import TensorXf

    xp = dr

    def made(values: Any) -> Any:
        """A tensor of single precision."""
        return TensorXf(values)

    def done(value: Any) -> Any:
        """A value in memory of its own."""
        dr.eval(value)
        dr.sync_thread()
        return value


SCALE = int(os.environ.get("BENCH_SCALE", "1")) ** 0.5
rng = np.random.default_rng(1)


def random(*shape: int) -> Any:
    """Numbers in [0, 1)."""
    return made(rng.random(shape, dtype=np.float32))


def extent(size: int) -> int:
    """A side of a square, scaled."""
    return max(64, int(size / SCALE))


def measured(function: Callable[[], Any], budget: float = 0.6) -> tuple[float, float]:
    """Seconds until the result is there, and its mean."""
    seconds = median_seconds(lambda: done(function()), 15, budget=budget)
    values = np.asarray(function() if NUMPY else function().numpy(), dtype=np.float64)
    return seconds, float(values.mean())


def add(name: str, prepare: Callable[[], Callable[[], Any]], nbytes: float = 0, flops: float = 0) -> None:
    """A case whose arrays are made when it runs."""
    if os.environ.get("BENCH_ONLY", "") in name:
        case(name, nbytes=nbytes, flops=flops, tolerance=1e-3)(lambda: measured(prepare()))


def axes(shape: tuple[int, ...], axis: Any, operation: str = "sum") -> Callable[[], Callable[[], Any]]:
    """A reduction of a tensor."""
    def prepare() -> Callable[[], Any]:
        x = random(*shape)
        return lambda: getattr(xp, operation)(x, axis=axis)
    return prepare


def of(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Callable[[], Any]]:
    """A function of tensors of some shapes."""
    def prepare() -> Callable[[], Any]:
        arguments = [random(*shape) for shape in shapes]
        return lambda: function(*arguments)
    return prepare


def softmax(x: Any) -> Any:
    """Of each row."""
    e = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    """Rows of mean 0 and variance 1, scaled and shifted."""
    d = x - xp.mean(x, axis=1, keepdims=True)
    return d / xp.sqrt(xp.mean(d * d, axis=1, keepdims=True) + np.float32(1e-5)) * scale + shift


def mean_and_variance(x: Any) -> Any:
    """Of each row."""
    return xp.mean(x, axis=1) + xp.var(x, axis=1)


N, M = extent(4096), extent(2048)
add("sum over axis 0 of 4096 x 4096", axes((N, N), 0), 4 * N * N)
add("sum over axis 1 of 4096 x 4096", axes((N, N), 1), 4 * N * N)
add("sum over both axes of 4096 x 4096", axes((N, N), (0, 1)), 4 * N * N)
BOX = (extent(200), extent(300), extent(100))
for count in (1, 2, 3):
    for chosen in combinations(range(3), count):
        add(f"sum over axes {chosen} of (200, 300, 100)", axes(BOX, chosen), 4 * math.prod(BOX))
add("mean and variance of rows of 4096 x 4096", of(mean_and_variance, (N, N)), 4 * N * N)
add("softmax of 512 x 512", of(softmax, (extent(512), extent(512))))
add("softmax of 4096 x 1024", of(softmax, (N, extent(1024))), 8 * N * extent(1024))
add("layer norm of 4096 x 1024", of(layer_norm, (N, extent(1024)), (extent(1024),), (extent(1024),)),
    8 * N * extent(1024))
MANY = max(1000, int(1_000_000 / SCALE ** 2))
add("sum over axis 0 of (1M, 3)", axes((MANY, 3), 0), 12 * MANY)
add("sum over axis 1 of (1M, 3)", axes((MANY, 3), 1), 12 * MANY)
add("(1M, 3) + (3,)", of(lambda x, y: x + y, (MANY, 3), (3,)), 24 * MANY)
add("(1M, 3) * (1M, 1)", of(lambda x, y: x * y, (MANY, 3), (MANY, 1)), 28 * MANY)
add("4096 x 4096 + row", of(lambda x, y: x + y, (N, N), (N,)), 8 * N * N)
add("4096 x 4096 + column", of(lambda x, y: x + y, (N, N), (N, 1)), 8 * N * N)
add("x[1:-1, 1:-1] of 4096 x 4096", of(lambda x: x[1:-1, 1:-1], (N, N)), 8 * N * N)
add("x[:, ::2] of 4096 x 4096", of(lambda x: x[:, ::2], (N, N)), 4 * N * N)
add("x[::-1] of 4096 x 4096", of(lambda x: x[::-1], (N, N)), 8 * N * N)
add("x[:, ::-1] of 4096 x 4096", of(lambda x: x[:, ::-1], (N, N)), 8 * N * N)
add("transpose of 2048 x 2048", of(lambda x: x.T, (M, M)), 8 * M * M)
add("transpose of 4096 x 4096", of(lambda x: x.T, (N, N)), 8 * N * N)
add("a + b.T of 2048 x 2048", of(lambda a, b: a + b.T, (M, M), (M, M)), 12 * M * M)
for side in (1024, 512, 64):
    n = extent(side)
    add(f"product of {side} x {side}", of(lambda a, b: a @ b, (n, n), (n, n)), flops=2 * n ** 3)
n = extent(128)
add("64 products of 128 x 128", of(lambda a, b: a @ b, (64, n, n), (64, n, n)), flops=128 * n ** 3)
add("4096 x 4096 times a vector", of(lambda a, b: a @ b, (N, N), (N,)), 4 * N * N)
add("4 x 4 neighbours, averaged, of 2048 x 2048", of(
    lambda x: sum(x[i:M - 3 + i, j:M - 3 + j] for i in range(4) for j in range(4)) * np.float32(1 / 16), (M, M)),
    8 * M * M)

if __name__ == "__main__":
    main()
