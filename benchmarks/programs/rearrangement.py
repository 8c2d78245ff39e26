"""Scans, sorts, compression, extremes, packets and permutations of large arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measure import case, main, median_seconds, scaled

import drjit as dr
from drjit.llvm import Array3f, Array4f, Bool, Float, UInt32

SIZE = scaled(1 << 24)


def done(value: Any) -> Any:
    """A value in memory."""
    dr.eval(value)
    dr.sync_thread()
    return value


def hashed(size: int) -> UInt32:
    """Well mixed words."""
    i = dr.arange(UInt32, size)
    i = (i ^ (i >> 16)) * 0x7FEB352D
    i = (i ^ (i >> 15)) * 0x846CA68B
    return done(i ^ (i >> 16))


def random(size: int) -> Float:
    """Numbers in [0, 1)."""
    return done(Float(hashed(size) >> 8) * (1 / (1 << 24)))


def permutation(size: int) -> UInt32:
    """All positions of an array whose size is a power of two, far from their neighbours."""
    return done((dr.arange(UInt32, size) * 2654435761) % size)


def measured(function: Callable[[], Any], check: Callable[[Any], Any], scale: float = 1.0) -> tuple[float, float]:
    """Seconds until the result is there, and a number that follows from it."""
    seconds = median_seconds(lambda: done(function()), 9)
    return seconds, float(check(function())[0]) * scale


def weighted(x: Any) -> Any:
    """A sum that depends on the order."""
    size = dr.width(x)
    return dr.sum(Float(x) * (dr.arange(Float, size) / size + 0.5)) / size


@case("prefix sum of 16M", nbytes=8 * SIZE, tolerance=1e-3)
def _prefix_sum() -> tuple[float, float]:
    x = random(SIZE)
    return measured(lambda: dr.prefix_sum(x), weighted, 1 / SIZE)


@case("block sums of 16M, blocks of 64", nbytes=4 * SIZE, tolerance=1e-3)
def _block_sum() -> tuple[float, float]:
    x = random(SIZE)
    return measured(lambda: dr.block_sum(x, 64), weighted)


@case("argsort of 1M", nbytes=8 * (SIZE >> 4))
def _argsort() -> tuple[float, float]:
    x = random(SIZE >> 4)
    return measured(lambda: dr.argsort(x), weighted, 16 / SIZE)


@case("sort of 4M float32", nbytes=8 * (SIZE >> 2))
def _sort() -> tuple[float, float]:
    x = random(SIZE >> 2)
    return measured(lambda: dr.sort(x), weighted)


@case("sort of 4M uint32", nbytes=8 * (SIZE >> 2))
def _sort_words() -> tuple[float, float]:
    x = hashed(SIZE >> 2)
    return measured(lambda: dr.sort(x), weighted, 1 / (1 << 32))


@case("argmin of 16M", nbytes=4 * SIZE)
def _argmin() -> tuple[float, float]:
    x = done(random(SIZE) + 1)
    dr.scatter(x, Float(0.5), UInt32(SIZE // 3))
    dr.eval(x)
    return measured(lambda: dr.argmin(x), lambda found: Float(found), 1 / SIZE)


@case("compress of 16M, half of it", nbytes=3 * SIZE)
def _compress() -> tuple[float, float]:
    mask: Bool = done((hashed(SIZE) & 1) == 0)
    return measured(lambda: dr.compress(mask), weighted, 1 / SIZE)


@case("packets of 4, 4M of them at random", nbytes=36 * (SIZE >> 2))
def _packets() -> tuple[float, float]:
    x, index = random(SIZE), permutation(SIZE >> 2)
    return measured(lambda: dr.gather(Array4f, x, index), lambda found: weighted(found.x + 2 * found.w))


@case("packets of 3, 4M of them at random", nbytes=28 * (SIZE >> 2))
def _packets_of_three() -> tuple[float, float]:
    x, index = random(3 * (SIZE >> 2)), permutation(SIZE >> 2)
    return measured(lambda: dr.gather(Array3f, x, index), lambda found: weighted(found.x + 2 * found.z))


@case("permutation of 16M, written", nbytes=12 * SIZE)
def _permutation() -> tuple[float, float]:
    x, index = random(SIZE), permutation(SIZE)

    def scattered() -> Float:
        target = dr.empty(Float, SIZE)
        dr.scatter(target, x, index, mode=dr.ReduceMode.Permute)
        return target

    return measured(scattered, weighted)


@case("histogram of 16M, 256 bins", nbytes=4 * SIZE)
def _histogram() -> tuple[float, float]:
    index = done(hashed(SIZE) >> 24)

    def counted() -> UInt32:
        target = dr.zeros(UInt32, 256)
        dr.scatter_add(target, UInt32(1), index)
        return target

    return measured(counted, weighted, 1 / SIZE)


if __name__ == "__main__":
    main()
