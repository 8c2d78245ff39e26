"""Does tracing go on while a long kernel runs?

The value is the time of both together over the time of one after the other, where tracing alone takes as long as the
kernel alone.  1 is no overlap; with two cores, on both of which the kernel runs, some 0.75 is the best to expect: three
halves of the work of a core for each of them, instead of two.
"""

from __future__ import annotations

import statistics
import time

from measure import case, main, scaled

import drjit as dr
from drjit.llvm import Float

x = dr.arange(Float, scaled(1 << 23)) / scaled(1 << 23)
a = dr.arange(Float, 1000) / 1000
dr.eval(x, a)


def launch() -> Float:
    """Start a kernel that takes some ten milliseconds."""
    y = x
    for _ in range(400):
        y = dr.fma(y, x, 0.25)
    dr.eval(y)
    return y


def trace(count: int) -> Float:
    """Trace operations that are never run."""
    b = a
    for _ in range(count):
        b = b * a
    return b


@case("tracing while a long kernel runs", unit="of the sum")
def _overlap() -> tuple[float, float]:
    launch()
    trace(1000)
    dr.sync_thread()
    ratios = []
    start = time.perf_counter()
    trace(5000)
    per_operation = (time.perf_counter() - start) / 5000
    for _ in range(9):
        start = time.perf_counter()
        y = launch()
        dr.sync_thread()
        kernel = time.perf_counter() - start
        count = max(1, int(kernel / per_operation))
        start = time.perf_counter()
        trace(count)
        tracing = time.perf_counter() - start
        start = time.perf_counter()
        y = launch()
        trace(count)
        dr.sync_thread()
        ratios.append((time.perf_counter() - start) / (kernel + tracing))
        result = y
    return statistics.median(ratios), float(dr.sum(result)[0]) / scaled(1 << 23)


if __name__ == "__main__":
    main()
