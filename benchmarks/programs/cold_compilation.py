"""Time until a kernel that was never seen has run on 1000 elements: evaluated for the first time in this process.

The runner gives each process an empty cache directory; with ``disk`` on the command line, the cache of the process
before, so that the kernels are on disk.  Each case is the median of three programs of one size and kind.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from measure import case, main

import drjit as dr
from drjit.llvm import Float, Int32

PREFIX = "load from disk" if "disk" in sys.argv[1:] else "cold compilation"
x, y = dr.arange(Float, 1000) / 1000, dr.arange(Float, 1000) / 4000 + 0.5
dr.eval(x, y)
first = dr.abs(x - y)  # the first kernel of a process loads LLVM as well, which is another matter
dr.eval(first)
dr.sync_thread()


def tiny(variant: int) -> Float:
    """Two or three operations."""
    return (x * y + 1.5, x - y * x, dr.maximum(x, y) * x)[variant]


def multiply_adds(variant: int) -> Float:
    """1000 multiplications and additions, one after the other, with as many different numbers."""
    a = x
    for k in range(500):
        a = a * (y if k % (7 + variant) == 0 else 0.5 + 0.001 * k)
        a = a + (0.25 + 0.002 * k)
    return a


def mixed(variant: int) -> Float:
    """720 operations of twelve kinds."""
    a, b = x, y
    for k in range(60):
        a = a * b + 0.5
        b = dr.sqrt(dr.abs(a) + 0.25)
        a = dr.select(a > b, a - b, dr.minimum(a, 2.0))
        if k % 3 == variant:
            b = dr.sin(b) + dr.exp(-dr.abs(a))
        else:
            b = b / (dr.abs(a) + 1.5)
        a = a + Float(Int32(b * 8) & 3)
    return a


def cold(make: Callable[[int], Float]) -> tuple[float, float]:
    """Median seconds of three programs, tracing excluded."""
    times, total = [], 0.0
    for variant in range(3):
        result = make(variant)
        start = time.perf_counter()
        dr.eval(result)
        dr.sync_thread()
        times.append(time.perf_counter() - start)
        total += float(dr.sum(result)[0])
    return statistics.median(times), total


@case(f"{PREFIX}: tiny")
def _cold_tiny() -> tuple[float, float]:
    return cold(tiny)


@case(f"{PREFIX}: 1k multiply-adds")
def _cold_multiply_adds() -> tuple[float, float]:
    return cold(multiply_adds)


@case(f"{PREFIX}: 720 mixed operations", tolerance=1e-2)
def _cold_mixed() -> tuple[float, float]:
    return cold(mixed)


if __name__ == "__main__":
    main()
