"""Random numbers: Philox4x32 and PCG32, as integers and in single precision, uniform and normal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measure import case, main, median_seconds, scaled

import drjit as dr
from drjit.llvm import PCG32, Float, Float64, Philox4x32, UInt

SIZE = scaled(1 << 24)


def timed(once: Callable[[], list[Any]], reduce: Callable[[list[Any]], float]) -> tuple[float, float]:
    """Time until some arrays are in memory, and a checksum of them."""

    def run() -> list[Any]:
        found = once()
        dr.eval(found)
        dr.sync_thread()
        return found

    return median_seconds(run, 9), reduce(run())


def mean(arrays: list[Any]) -> float:
    """Mean of the squares of all elements."""
    total = sum(float(dr.sum(Float64(array) ** 2)[0]) for array in arrays)
    return total / sum(dr.width(array) for array in arrays)


@case("Philox4x32: 16M uint32", nbytes=4 * SIZE, tolerance=1e-12)
def _philox_integers() -> tuple[float, float]:
    return timed(lambda: list(Philox4x32(7, dr.arange(UInt, SIZE // 4)).next_uint32x4()), mean)


@case("Philox4x32: 16M float32", nbytes=4 * SIZE, tolerance=1e-12)
def _philox_floats() -> tuple[float, float]:
    return timed(lambda: list(Philox4x32(7, dr.arange(UInt, SIZE // 4)).next_float32x4()), mean)


@case("Philox4x32: 16M calls, summed", tolerance=1e-3)
def _philox_calls() -> tuple[float, float]:
    def once() -> list[Any]:
        a, b, c, d = Philox4x32(7, dr.arange(UInt, SIZE)).next_float32x4()
        return [a + b + c + d]

    return timed(once, mean)


@case("Philox4x32: 16M normal float32", nbytes=4 * SIZE)
def _philox_normals() -> tuple[float, float]:
    return timed(lambda: list(Philox4x32(7, dr.arange(UInt, SIZE // 4)).next_float32x4_normal()), mean)


@case("PCG32(16M): one float32 each", nbytes=4 * SIZE, tolerance=1e-12)
def _pcg_fresh() -> tuple[float, float]:
    return timed(lambda: [PCG32(SIZE).next_float32()], mean)


@case("PCG32(16M): one float32 and the new state", nbytes=36 * SIZE, tolerance=1e-12)
def _pcg_state() -> tuple[float, float]:
    rng = PCG32(SIZE)
    dr.eval(rng)
    first = PCG32(rng).next_float32()

    def once() -> list[Any]:
        return [rng.next_float32(), rng.state]

    return timed(once, lambda found: mean([first]))


@case("PCG32(4M): mean of 16 float32 each", tolerance=1e-5)
def _pcg_many() -> tuple[float, float]:
    def once() -> list[Any]:
        rng, total = PCG32(SIZE // 4), Float(0)
        for _ in range(16):
            total = total + rng.next_float32()
        return [total / 16]

    return timed(once, mean)


@case("PCG32(16M): one normal float32 each", nbytes=4 * SIZE)
def _pcg_normals() -> tuple[float, float]:
    return timed(lambda: [PCG32(SIZE).next_float32_normal()], mean)


@case("PCG32(16M): one integer below 1000 each", nbytes=4 * SIZE, tolerance=1e-12)
def _pcg_bounded() -> tuple[float, float]:
    return timed(lambda: [PCG32(SIZE).next_uint32_bounded(1000)], mean)


@case("PCG32: tracing of next_float32")
def _pcg_tracing() -> tuple[float, float]:
    rng = PCG32(1000)
    dr.eval(rng)

    def once() -> None:
        copy = PCG32(rng)
        for _ in range(1000):
            copy.next_float32()

    return median_seconds(once, 9) / 1000, 0.0


if __name__ == "__main__":
    main()
