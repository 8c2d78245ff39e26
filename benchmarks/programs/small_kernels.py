"""A cached kernel of two operations on 1000 elements in a loop: asynchronous, and waiting for each."""

from __future__ import annotations

import time

from measure import case, main

import drjit as dr
from drjit.llvm import Float

COUNT = 5_000
x = dr.arange(Float, 1000) / 1000
dr.eval(x)


def loop(wait: bool, count: int) -> float:
    """Seconds per round of trace, evaluate, and perhaps wait."""
    dr.sync_thread()
    start = time.perf_counter()
    for _ in range(count):
        y = x * 2.5 + 1.5
        dr.eval(y)
        if wait:
            dr.sync_thread()
    dr.sync_thread()
    return (time.perf_counter() - start) / count


def measured(wait: bool) -> tuple[float, float]:
    """Median microseconds of a round, and a checksum."""
    loop(wait, COUNT // 10)
    seconds = sorted(loop(wait, COUNT) for _ in range(5))[2]
    return seconds * 1e6, float(dr.sum(x * 2.5 + 1.5)[0])


@case("cached 2-operation kernel, asynchronous", unit="us")
def _asynchronous() -> tuple[float, float]:
    return measured(False)


@case("cached 2-operation kernel, with a sync", unit="us")
def _synchronous() -> tuple[float, float]:
    return measured(True)


@case("state carried through a loop of small kernels", unit="us")
def _carried() -> tuple[float, float]:
    def steps(count: int) -> Float:
        state = Float(x)
        for _ in range(count):
            state = state * 0.999 + 0.001
            dr.eval(state)
        dr.sync_thread()
        return state

    steps(COUNT // 10)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        steps(COUNT)
        times.append(time.perf_counter() - start)
    return sorted(times)[2] / COUNT * 1e6, float(dr.sum(steps(100))[0])


if __name__ == "__main__":
    main()
