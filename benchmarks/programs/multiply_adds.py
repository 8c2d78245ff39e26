"""Kernels of multiply-adds that stand between memory and arithmetic: products of matrices, chains, polynomials.

Several evaluations are launched before the program waits, so that tracing and launching overlap with the kernels, and
the fastest of several rounds counts: the question is the speed of the kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from measure import case, main, scaled

import drjit as dr
from drjit.llvm import Float, Matrix4f

SMALL, LARGE = scaled(1 << 20), scaled(1 << 24)
ROUNDS = 12


def measured(function: Callable[[], Any], count: int) -> float:
    """Seconds of one evaluation: the least of the means of some rounds of ``count``."""
    best = float("inf")
    for _ in range(ROUNDS + 2):
        start = time.perf_counter()
        for _ in range(count):
            dr.eval(function())
        dr.sync_thread()
        best = min(best, time.perf_counter() - start)
    return best / count


def ramp(size: int, low: float, high: float) -> Float:
    """Evaluated, evenly spaced numbers."""
    result = dr.arange(Float, size) * ((high - low) / size) + low
    dr.eval(result)
    return result


def matrix(seed: int) -> Matrix4f:
    """Evaluated matrices with entries between 0 and 1."""
    entries = [ramp(SMALL, 0.01 * ((7 * i + seed) % 16), 1 - 0.02 * ((5 * i + seed) % 16)) for i in range(16)]
    return Matrix4f(*entries)


@case("Matrix4f @ Matrix4f of 1M", nbytes=192 * SMALL, flops=112 * SMALL)
def _matrices() -> tuple[float, float]:
    a, b = matrix(1), matrix(4)
    seconds = measured(lambda: a @ b, 6)
    return seconds, float(dr.sum((a @ b)[2, 1])[0]) / SMALL


def chain(x: Float, y: Float, length: int) -> Float:
    """Multiply-adds, each of which needs the one before."""
    a = x
    for _ in range(length):
        a = dr.fma(a, x, y)
    return a


def polynomial(x: Float, degree: int) -> Float:
    """A polynomial by Horner's rule."""
    a = Float(1 / (degree + 1))
    for k in range(degree, 0, -1):
        a = dr.fma(a, x, 1 / k)
    return a


def register(size: int, label: str, count: int) -> None:
    """Add the cases of one size."""
    for length in (8, 16, 32, 64, 128):

        @case(f"chain of {length} FMAs, {label}", nbytes=12 * size if length <= 32 else 0, flops=2 * length * size)
        def _chain(length: int = length) -> tuple[float, float]:
            x, y = ramp(size, 0.25, 0.75), ramp(size, 0.5, 0.25)
            seconds = measured(lambda: chain(x, y, length), count)
            return seconds, float(dr.sum(chain(x, y, length))[0]) / size

    @case(f"polynomial of degree 12, {label}", nbytes=8 * size, flops=24 * size)
    def _polynomial() -> tuple[float, float]:
        x = ramp(size, -0.75, 0.75)
        seconds = measured(lambda: polynomial(x, 12), count)
        return seconds, float(dr.sum(polynomial(x, 12))[0]) / size


register(SMALL, "1M", 24)
register(LARGE, "16M", 3)

if __name__ == "__main__":
    main()
